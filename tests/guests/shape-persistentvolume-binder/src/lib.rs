//! The shape of the PersistentVolume binder: the claim of a volume has its namespace and name in two fields; a new volume wakes the
//! claims that wait for one. Both writes of a bind carry the resourceVersion that was read: a lost race is a conflict and a new try,
//! and a bind that was interrupted between them is continued.

use pintle_sdk::api::meta::ObjectMeta;
use pintle_sdk::document::Document;
use pintle_sdk::quantity::Quantity;
use pintle_sdk::{Error, Key, Kind, Lister, Mutation, ObjectKey, Outcome, PatchType, Query, Resource, Step, resource};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Volume {
    metadata: ObjectMeta,
    spec: VolumeSpec,
    status: Status,
}

resource!(Volume, "", "v1", "PersistentVolume");

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct VolumeSpec {
    claim_ref: Option<ClaimRef>,
    capacity: BTreeMap<String, Quantity>,
    storage_class_name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClaimRef {
    namespace: String,
    name: String,
    uid: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Claim {
    metadata: ObjectMeta,
    spec: ClaimSpec,
    status: Status,
}

resource!(Claim, "", "v1", "PersistentVolumeClaim");

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClaimSpec {
    volume_name: String,
    resources: Resources,
    storage_class_name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Resources {
    requests: BTreeMap<String, Quantity>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    phase: String,
}

const CLAIMS: &str = "claims";

pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    if key.queue == CLAIMS { claim(key, lister) } else { volume(key, lister) }
}

fn claim(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let Some((claim, document)) = lister.get_document::<Claim>(&key.namespace, &key.name)? else {
        return Ok(Outcome::new());
    };
    let volumes = lister.list_json(&Volume::KIND, &Query::all().whole());
    let volumes = volumes.iter().map(|text| Ok((pintle_sdk::decode::<Volume>(&Volume::KIND, text)?, text)));
    let volumes = volumes.collect::<Result<Vec<_>, Error>>()?;
    let is_mine = |volume: &Volume| volume.spec.claim_ref.as_ref().is_some_and(|claim_ref| is_of(claim_ref, &claim));
    // A bind that was interrupted comes first.
    let mine = volumes.iter().find(|(volume, _)| is_mine(volume));
    if !claim.spec.volume_name.is_empty() {
        let is_bound = mine.is_some_and(|(volume, _)| volume.metadata.name == claim.spec.volume_name);
        let phase = if is_bound { "Bound" } else { "Lost" };
        return Ok(phased(&Claim::KIND, &claim.metadata, &claim.status, phase));
    }
    let wanted = claim.spec.resources.requests.get("storage");
    let free = volumes.iter().filter(|(volume, _)| {
        volume.spec.claim_ref.is_none()
            && volume.spec.storage_class_name == claim.spec.storage_class_name
            && volume.spec.capacity.get("storage") >= wanted
    });
    let smallest = free.min_by_key(|(volume, _)| (volume.spec.capacity.get("storage"), &volume.metadata.name));
    let Some((volume, text)) = mine.or(smallest) else {
        return Ok(phased(&Claim::KIND, &claim.metadata, &claim.status, "Pending"));
    };
    let mut writes = Vec::new();
    if mine.is_none() {
        let reference = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": key.namespace, "name": key.name,
            "uid": claim.metadata.uid,
        });
        writes.push(Mutation::update(&Volume::KIND, with(text, &["spec", "claimRef"], &reference)?));
    }
    let name = json!(volume.metadata.name);
    writes.push(Mutation::update(&Claim::KIND, with(&document.to_string(), &["spec", "volumeName"], &name)?));
    Ok(Outcome::new().step(Step::sequential(writes)))
}

fn volume(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let Some(volume) = lister.get::<Volume>("", &key.name)? else { return Ok(Outcome::new()) };
    let Some(claim_ref) = &volume.spec.claim_ref else {
        let outcome = phased(&Volume::KIND, &volume.metadata, &volume.status, "Available");
        // Each of them may be what somebody waits for.
        let claims = lister.list_json(&Claim::KIND, &Query::all().whole());
        let claims = claims.iter().map(|text| pintle_sdk::decode::<Claim>(&Claim::KIND, text));
        let claims = claims.collect::<Result<Vec<_>, _>>()?;
        let waiting = claims.iter().filter(|claim| claim.spec.volume_name.is_empty());
        let key = |claim: &Claim| Key::new(CLAIMS, Claim::KIND, &claim.metadata.namespace, &claim.metadata.name);
        return Ok(waiting.map(key).fold(outcome, Outcome::wake));
    };
    let claim = lister.get::<Claim>(&claim_ref.namespace, &claim_ref.name)?;
    let phase = if claim.is_some_and(|claim| is_of(claim_ref, &claim)) { "Bound" } else { "Released" };
    Ok(phased(&Volume::KIND, &volume.metadata, &volume.status, phase))
}

fn is_of(claim_ref: &ClaimRef, claim: &Claim) -> bool {
    let names = (&claim_ref.namespace, &claim_ref.name) == (&claim.metadata.namespace, &claim.metadata.name);
    names && (claim_ref.uid.is_empty() || claim_ref.uid == claim.metadata.uid)
}

fn phased(kind: &Kind, metadata: &ObjectMeta, status: &Status, phase: &str) -> Outcome {
    if status.phase == phase {
        return Outcome::new();
    }
    let key = ObjectKey::new(&metadata.namespace, &metadata.name);
    let patch = Mutation::patch(kind, key, PatchType::Merge, json!({"status": {"phase": phase}}));
    Outcome::new().step(Step::sequential([patch.subresource("status").uid(&metadata.uid)]))
}

fn with(text: &str, path: &[&str], value: &Value) -> Result<Document, Error> {
    let mut document = Document::parse(text).map_err(|error| Error::Terminal(error.to_string()))?;
    document.set(path, value);
    Ok(document)
}

pintle_sdk::export!(reconcile);
