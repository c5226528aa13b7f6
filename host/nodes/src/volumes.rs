//! State changes of claims and volumes: provisioning, binding, phases, removal.
//!
//! Flow: the shell keeps a [`Storage`] up to date; [`Storage::next`] returns the due requests, at most one for each
//! object.
//!
//! Invariants: pure; no request without a change; a volume belongs to one claim, by uid.
//!
//! Not here: nodes of volumes, capacity of nodes, expansion, snapshots.
//!
//! Source: the binder of `pkg/controller/volume/persistentvolume`, and the annotations of its `pv_controller.go`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::client::{MERGE, Request};
use crate::fields::text;
use crate::quantity::quantity;

/// The annotation of the default class, which claims without a class get.
const IS_DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
/// The provisioner of classes with manually created volumes.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// Claims by namespace and name, volumes and classes by name, and the claims used by Pods with a node, with that node.
#[derive(Debug, Default)]
pub(crate) struct Storage {
    pub(crate) claims: BTreeMap<String, Value>,
    pub(crate) volumes: BTreeMap<String, Value>,
    pub(crate) classes: BTreeMap<String, Value>,
    /// By the uid of the Pod.
    pub(crate) users: BTreeMap<String, (String, BTreeSet<String>)>,
}

fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

/// The key of a claim of this namespace and name.
fn key(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

/// The claims of a Pod with a node, and that node.
pub(crate) fn uses(pod: &Value) -> Option<(String, BTreeSet<String>)> {
    let node = pod.pointer("/spec/nodeName").and_then(Value::as_str)?;
    let namespace = text(pod, "/metadata/namespace");
    let claim = |volume: &Value| {
        let own = format!("{}-{}", name(pod), text(volume, "/name"));
        let claim = volume.pointer("/persistentVolumeClaim/claimName").and_then(Value::as_str);
        claim.map(str::to_owned).or_else(|| volume.get("ephemeral").map(|_| own))
    };
    let volumes = pod.pointer("/spec/volumes").and_then(Value::as_array).into_iter().flatten();
    let claims: BTreeSet<String> = volumes.filter_map(claim).map(|claim| key(namespace, &claim)).collect();
    (!claims.is_empty()).then(|| (node.to_owned(), claims))
}

impl Storage {
    /// The due requests.
    pub(crate) fn next(&self) -> Vec<Request> {
        // Volumes taken by a request of this round.
        let mut taken = BTreeSet::new();
        let claims = self.claims.values().filter_map(|claim| self.claim(claim, &mut taken));
        let mut writes: Vec<Request> = claims.collect();
        writes.extend(
            self.volumes.values().filter(|volume| !taken.contains(name(volume))).filter_map(|v| self.volume(v)),
        );
        writes
    }

    fn claim(&self, claim: &Value, taken: &mut BTreeSet<String>) -> Option<Request> {
        if !claim.pointer("/metadata/deletionTimestamp").is_none_or(Value::is_null) {
            return None;
        }
        let phase = text(claim, "/status/phase");
        let wanted = text(claim, "/spec/volumeName");
        if !wanted.is_empty() {
            return match self.volumes.get(wanted) {
                Some(volume) if is_for(volume, claim) || is_free(volume) => {
                    taken.insert(wanted.to_owned());
                    complete(claim, volume)
                }
                None if phase == "Bound" => {
                    Some(patch(claim_path(claim, "/status"), json!({"status": {"phase": "Lost"}})))
                }
                _ => None,
            };
        }
        let class = match claim.pointer("/spec/storageClassName").and_then(Value::as_str) {
            Some(class) => class,
            None => match self.default_class() {
                Some(class) => return Some(patch(claim_path(claim, ""), json!({"spec": {"storageClassName": class}}))),
                None => "",
            },
        };
        let user = self.users.values().find(|(_, claims)| claims.contains(&key_of(claim)));
        let mode = self.classes.get(class).map(|class| text(class, "/volumeBindingMode"));
        if mode == Some("WaitForFirstConsumer") && user.is_none() {
            return None;
        }
        let own = self.volumes.values().find(|volume| is_for(volume, claim));
        let volume = own.or_else(|| self.smallest(claim, class, taken));
        if let Some(volume) = volume {
            taken.insert(name(volume).to_owned());
            return complete(claim, volume);
        }
        let made_by = self.classes.get(class).map_or("", |class| text(class, "/provisioner"));
        if made_by.is_empty() || made_by == NO_PROVISIONER {
            return None;
        }
        let annotations = json!({"volume.beta.kubernetes.io/storage-provisioner": made_by,
            "volume.kubernetes.io/storage-provisioner": made_by, "volume.kubernetes.io/selected-node": user.map(|(node, _)| node)});
        if text(claim, "/metadata/annotations/volume.kubernetes.io~1storage-provisioner") != made_by {
            return Some(patch(claim_path(claim, ""), json!({"metadata": {"annotations": annotations}})));
        }
        Some(Request::post("/api/v1/persistentvolumes", self.provision(claim, class, made_by)))
    }

    /// The newest of the default classes.
    fn default_class(&self) -> Option<&str> {
        let annotation = |class: &&Value| class["metadata"]["annotations"][IS_DEFAULT] == "true";
        let classes = self.classes.values().filter(annotation);
        classes.max_by_key(|class| text(class, "/metadata/creationTimestamp")).map(name)
    }

    /// The smallest free volume that fits.
    fn smallest(&self, claim: &Value, class: &str, taken: &BTreeSet<String>) -> Option<&Value> {
        let modes = |object: &Value| -> BTreeSet<String> {
            let modes = object.pointer("/spec/accessModes").and_then(Value::as_array).into_iter().flatten();
            modes.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let (wanted, needed) = (modes(claim), quantity(text(claim, "/spec/resources/requests/storage")).unwrap_or(0.0));
        let size = |volume: &Value| quantity(text(volume, "/spec/capacity/storage")).unwrap_or(0.0);
        let kind = |object: &Value| match text(object, "/spec/volumeMode") {
            "" => "Filesystem".to_owned(),
            mode => mode.to_owned(),
        };
        let fits = |volume: &&Value| {
            text(volume, "/spec/storageClassName") == class
                && is_free(volume)
                && volume.pointer("/metadata/deletionTimestamp").is_none_or(Value::is_null)
                && !taken.contains(name(volume))
                && modes(volume).is_superset(&wanted)
                && kind(volume) == kind(claim)
                && size(volume) >= needed
        };
        self.volumes.values().filter(fits).min_by(|left, right| size(left).total_cmp(&size(right)))
    }

    /// A new volume for a claim.
    fn provision(&self, claim: &Value, class: &str, made_by: &str) -> Value {
        let volume = format!("pvc-{}", text(claim, "/metadata/uid"));
        let policy = self.classes.get(class).map_or("", |class| text(class, "/reclaimPolicy"));
        json!({
            "apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": {"name": volume, "annotations": {"pv.kubernetes.io/provisioned-by": made_by}},
            "spec": {
                "accessModes": claim["spec"]["accessModes"], "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
                "claimRef": reference(claim), "csi": {"driver": made_by, "volumeHandle": volume},
                "persistentVolumeReclaimPolicy": if policy.is_empty() { "Delete" } else { policy },
                "storageClassName": class, "volumeMode": claim["spec"]["volumeMode"],
            },
        })
    }

    /// The phase of a volume that no claim is about to take.
    fn volume(&self, volume: &Value) -> Option<Request> {
        let path = format!("/api/v1/persistentvolumes/{}", name(volume));
        let phase = text(volume, "/status/phase");
        let set = |wanted: &str| {
            (phase != wanted).then(|| patch(format!("{path}/status"), json!({"status": {"phase": wanted}})))
        };
        let claim = key(text(volume, "/spec/claimRef/namespace"), text(volume, "/spec/claimRef/name"));
        let uid = text(volume, "/spec/claimRef/uid");
        if uid.is_empty() {
            return set("Available");
        }
        let lives = self.claims.get(&claim).is_some_and(|claim| text(claim, "/metadata/uid") == uid);
        if lives {
            return None;
        }
        let is_deleted = !volume.pointer("/metadata/deletionTimestamp").is_none_or(Value::is_null);
        set("Released").or_else(|| {
            let deletes = text(volume, "/spec/persistentVolumeReclaimPolicy") == "Delete" && !is_deleted;
            deletes.then(|| Request::delete(path, json!({"preconditions": {"uid": volume["metadata"]["uid"]}})))
        })
    }
}

/// The key of this claim.
pub(crate) fn key_of(claim: &Value) -> String {
    key(text(claim, "/metadata/namespace"), name(claim))
}

fn reference(claim: &Value) -> Value {
    let meta = &claim["metadata"];
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"]})
}

/// Whether a volume is bound, or reserved, to this claim.
fn is_for(volume: &Value, claim: &Value) -> bool {
    let Some(owner) = volume.pointer("/spec/claimRef").filter(|owner| owner.is_object()) else { return false };
    let same = text(owner, "/namespace") == text(claim, "/metadata/namespace") && text(owner, "/name") == name(claim);
    same && (text(owner, "/uid").is_empty() || text(owner, "/uid") == text(claim, "/metadata/uid"))
}

fn is_free(volume: &Value) -> bool {
    volume.pointer("/spec/claimRef").is_none_or(Value::is_null)
        && matches!(text(volume, "/status/phase"), "" | "Pending" | "Available")
}

fn patch(path: String, body: Value) -> Request {
    Request::patch(path, MERGE, body)
}

fn claim_path(claim: &Value, part: &str) -> String {
    format!("/api/v1/namespaces/{}/persistentvolumeclaims/{}{part}", text(claim, "/metadata/namespace"), name(claim))
}

/// The next step to bind a claim and a volume to each other: volume, its phase, claim, its phase.
fn complete(claim: &Value, volume: &Value) -> Option<Request> {
    let path = format!("/api/v1/persistentvolumes/{}", name(volume));
    if text(volume, "/spec/claimRef/uid").is_empty() {
        let body = json!({"metadata": {"resourceVersion": volume["metadata"]["resourceVersion"],
            "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}}, "spec": {"claimRef": reference(claim)}});
        return Some(patch(path, body));
    }
    if text(volume, "/status/phase") != "Bound" {
        return Some(patch(format!("{path}/status"), json!({"status": {"phase": "Bound"}})));
    }
    let bound = "pv.kubernetes.io/bind-completed";
    let has_volume = text(claim, "/spec/volumeName") == name(volume);
    if !has_volume || claim["metadata"]["annotations"][bound] != "yes" {
        let mut annotations = json!({bound: "yes"});
        if !has_volume {
            annotations["pv.kubernetes.io/bound-by-controller"] = json!("yes");
        }
        let body = json!({"metadata": {"uid": claim["metadata"]["uid"], "annotations": annotations}, "spec": {"volumeName": name(volume)}});
        return Some(patch(claim_path(claim, ""), body));
    }
    let status =
        json!({"phase": "Bound", "accessModes": volume["spec"]["accessModes"], "capacity": volume["spec"]["capacity"]});
    (text(claim, "/status/phase") != "Bound").then(|| patch(claim_path(claim, "/status"), json!({"status": status})))
}

#[cfg(test)]
#[path = "volumes_tests.rs"]
mod tests;
