//! The claims of one Pod.

use pintle_sdk::api::meta::HasController;
use pintle_sdk::{Error, Event, Key, Kind, Lister, Moment, Mutation, Outcome, Place, Resource, Step, decode};
use serde_json::json;

use crate::types::{PersistentVolumeClaim, Pod, Template};

/// The Pods that may wait for a claim to be deleted: those with an ephemeral volume whose claim has this name.
#[doc(alias = "onPVCDelete")]
pub fn keys_of(_: &Kind, old: Option<&str>, new: Option<&str>, lister: &impl Lister) -> Vec<Key> {
    let claim = old.filter(|_| new.is_none()).and_then(|text| decode(&PersistentVolumeClaim::KIND, text).ok());
    let Some(PersistentVolumeClaim { metadata: claim, .. }) = claim else { return Vec::new() };
    let waits = |(dash, _): (usize, &str)| {
        let (pod, volume) = (&claim.name[..dash], &claim.name[dash + 1..]);
        let found = lister.get::<Pod>(&claim.namespace, pod).ok().flatten()?;
        let mut volumes = found.spec.volumes.iter();
        let waits = volumes.any(|own| own.name == volume && own.ephemeral.is_some());
        waits.then(|| Key::new(QUEUE, Pod::KIND, &claim.namespace, pod))
    };
    claim.name.match_indices('-').filter_map(waits).collect()
}

const QUEUE: &str = "ephemeral_volume";

/// Computes the claims to create for a Pod.
///
/// # Errors
/// If an object does not fit its type.
#[doc(alias = "syncHandler", alias = "handleVolume", alias = "VolumeClaimName", alias = "VolumeIsForPod")]
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let pod = lister.get::<Pod>(&key.namespace, &key.name)?;
    let Some(pod) = pod.filter(|pod| pod.metadata.deletion_timestamp.is_none()) else { return Ok(Outcome::new()) };
    let mut creates = Vec::new();
    let mut is_conflict = false;
    for volume in &pod.spec.volumes {
        let Some(template) = volume.ephemeral.as_ref().and_then(|source| source.volume_claim_template.as_ref()) else {
            continue;
        };
        let claim = format!("{}-{}", key.name, volume.name);
        let found = lister.get::<PersistentVolumeClaim>(&key.namespace, &claim)?;
        let error = match found {
            Some(found) if found.metadata.controller_uid() == Some(&pod.metadata.uid) => continue,
            Some(_) => {
                is_conflict = true;
                let (namespace, name) = (&key.namespace, &key.name);
                format!("PVC {namespace}/{claim} was not created for pod {namespace}/{name} (pod is not owner)")
            }
            None => format!("create PVC {claim}: {{error}}"),
        };
        let message = format!("ephemeral volume {}: {error}", volume.name);
        let failed = Event::warning(&Pod::KIND, &pod.metadata, "FailedBinding", message);
        creates.push(create(&pod, &claim, template).on_failure(failed));
        // After a failed volume, later ones wait.
        if is_conflict {
            break;
        }
    }
    let n_counted = creates.len() - usize::from(is_conflict);
    Ok(count(Outcome::new().step(Step::sequential(creates)), n_counted))
}

/// Counts requests and failures of the first `n_creates` creates; a request is sent once the previous one has
/// succeeded.
fn count(mut outcome: Outcome, n_creates: usize) -> Outcome {
    const TOTAL: &str = "ephemeral_volume_controller_create_total";
    const FAILED: &str = "ephemeral_volume_controller_create_failures_total";
    let places = (0..).take(n_creates).map(|position| Place { step: 0, position });
    let mut last = None;
    for place in places {
        let at = last.map_or(Moment::Now, Moment::Done);
        outcome = outcome.observe_at(at, TOTAL, Vec::new(), 1.0);
        last = Some(place);
    }
    match last {
        // Failed, or skipped because an earlier one failed: one failure in total.
        Some(place) => outcome.observe_at(Moment::Failed(place), FAILED, Vec::new(), 1.0),
        None => outcome,
    }
}

#[doc(alias = "handleVolume")]
fn create(pod: &Pod, claim: &str, template: &Template) -> Mutation {
    let owner = json!({
        "apiVersion": "v1", "kind": "Pod", "name": pod.metadata.name, "uid": pod.metadata.uid,
        "controller": true, "blockOwnerDeletion": true,
    });
    let mut object = json!({"metadata": {"name": claim, "ownerReferences": [owner]}, "spec": template.spec});
    for (field, map) in [("annotations", &template.metadata.annotations), ("labels", &template.metadata.labels)] {
        if !map.is_empty() {
            object["metadata"][field] = json!(map);
        }
    }
    Mutation::create(&PersistentVolumeClaim::KIND, &pod.metadata.namespace, object)
}
