//! The objects of a simulated cluster, and writes with the semantics of the API server.
//!
//! *Invariants*
//! 1. A write without changes keeps the resourceVersion; any other one increases it.
//! 2. The server sets its own metadata (uid, timestamps, generation), whatever a write contains.
//! 3. An object that is being deleted is removed with its last finalizer, unless its grace period is still running.
//!
//! *Not here*: validation, defaults of kinds except those of the test, garbage collection, admission.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::fault::Rejection;
use super::patch::{self, Applied};
use crate::outcome::{PatchType, Preconditions, Propagation};
use crate::selector::Selector;
use crate::testing::fixture::StoredObject;
use crate::time::Timestamp;
use crate::types::{Kind, ObjectKey};

type Id = (Kind, ObjectKey);

/// Default grace period of a Pod in seconds.
const POD_GRACE_SECONDS: i64 = 30;

/// Most bytes of a name, and of the value of a label.
const LONGEST_NAME: usize = 253;
const LONGEST_LABEL: usize = 63;

/// The length limits that the API server enforces on the metadata of every kind.
fn check_metadata(object: &Value) -> Result<(), Rejection> {
    let name = text(object, "/metadata/name");
    if name.len() > LONGEST_NAME {
        let why = format!("metadata.name: Invalid value: {name:?}: must be no more than {LONGEST_NAME} bytes");
        return Err(Rejection::invalid(why));
    }
    for (_, value) in object["metadata"]["labels"].as_object().into_iter().flatten() {
        if value.as_str().is_some_and(|value| value.len() > LONGEST_LABEL) {
            let why = format!("metadata.labels: Invalid value: {value}: must be no more than {LONGEST_LABEL} bytes");
            return Err(Rejection::invalid(why));
        }
    }
    Ok(())
}

#[derive(Debug)]
pub(super) struct Objects {
    stored: BTreeMap<Id, Arc<StoredObject>>,
    /// Applied configurations by uid.
    applied: HashMap<String, Applied>,
    /// Defaults, merged below created objects.
    pub(super) defaults: Vec<(Kind, Value)>,
    /// The last resourceVersion.
    pub(super) version: u64,
    pub(super) now: Timestamp,
}

fn is_pod(kind: &Kind) -> bool {
    kind.group.is_empty() && kind.name == "Pod"
}

fn is_namespace(kind: &Kind) -> bool {
    kind.group.is_empty() && kind.name == "Namespace"
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn has_items(object: &Value, pointer: &str) -> bool {
    object.pointer(pointer).and_then(Value::as_array).is_some_and(|items| !items.is_empty())
}

/// Fills in missing members of an object.
fn fill_in(object: &mut Value, defaults: &Value) {
    if let (Value::Object(members), Value::Object(defaults)) = (object, defaults) {
        for (name, value) in defaults {
            match members.get_mut(name) {
                Some(member) => fill_in(member, value),
                None => drop(members.insert(name.clone(), value.clone())),
            }
        }
    }
}

/// Removes a member of the object's metadata, or sets it.
fn set_meta(object: &mut Value, name: &str, value: Option<&Value>) {
    match (value, &mut object["metadata"]) {
        (Some(value), meta) => meta[name] = value.clone(),
        (None, Value::Object(meta)) => drop(meta.shift_remove(name)),
        (None, _) => {}
    }
}

impl Objects {
    pub(super) fn new(now: Timestamp) -> Self {
        Self { stored: BTreeMap::new(), applied: HashMap::new(), defaults: Vec::new(), version: 0, now }
    }

    pub(super) fn snapshot(&self) -> Vec<Arc<StoredObject>> {
        self.stored.values().cloned().collect()
    }

    pub(super) fn get(&self, kind: &Kind, object: &ObjectKey) -> Option<&Value> {
        self.stored.get(&(kind.clone(), object.clone())).map(|stored| &stored.value)
    }

    pub(super) fn of_kind<'a>(&'a self, kind: &Kind) -> impl Iterator<Item = &'a StoredObject> + use<'a> {
        let kind = kind.clone();
        let first = (kind.clone(), ObjectKey::default());
        self.stored.range(first..).take_while(move |((own, _), _)| *own == kind).map(|(_, stored)| &**stored)
    }

    fn found(&self, kind: &Kind, object: &ObjectKey) -> Result<&Value, Rejection> {
        self.get(kind, object).ok_or_else(|| Rejection::not_found(kind, object))
    }

    /// Stores an object with the next resourceVersion; or removes it, if it is being deleted and nothing delays that.
    fn store(&mut self, mut object: Value) -> Result<Value, Rejection> {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let stored = StoredObject::new(object.clone()).map_err(Rejection::invalid)?;
        let id = (stored.kind.clone(), stored.meta.key());
        let is_held = !stored.meta.finalizers.is_empty()
            || stored.meta.deletion_grace_period_seconds.is_some_and(|seconds| seconds > 0)
            || (is_namespace(&stored.kind) && has_items(&object, "/spec/finalizers"));
        if stored.meta.is_deleting() && !is_held {
            self.stored.remove(&id);
        } else {
            self.stored.insert(id, Arc::new(stored));
        }
        Ok(object)
    }

    /// Adds an object that exists when the test starts: the server fills in only missing fields.
    pub(super) fn insert(&mut self, mut object: Value) -> Result<(), Rejection> {
        let kind = Kind::from_api_version(text(&object, "/apiVersion"), text(&object, "/kind"));
        let key = ObjectKey::new(text(&object, "/metadata/namespace"), text(&object, "/metadata/name"));
        if self.get(&kind, &key).is_some() {
            return Err(Rejection::new(409, "AlreadyExists", format!("{kind} {key} already exists")));
        }
        self.complete(&kind, &mut object);
        self.store(object).map(drop)
    }

    fn complete(&self, kind: &Kind, object: &mut Value) {
        for (_, defaults) in self.defaults.iter().filter(|(own, _)| own == kind) {
            fill_in(object, defaults);
        }
        let uid = format!("uid-{}-{}", text(object, "/metadata/name"), self.version + 1);
        fill_in(object, &json!({"metadata": {"uid": uid, "generation": 1, "creationTimestamp": self.now}}));
        if is_namespace(kind) {
            fill_in(object, &json!({"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}));
        }
    }

    pub(super) fn create(&mut self, kind: &Kind, namespace: &str, mut object: Value) -> Result<Value, Rejection> {
        object["apiVersion"] = json!(kind.api_version());
        object["kind"] = json!(kind.name);
        if !namespace.is_empty() {
            object["metadata"]["namespace"] = json!(namespace);
        }
        if text(&object, "/metadata/name").is_empty() {
            let prefix = text(&object, "/metadata/generateName");
            if prefix.is_empty() {
                return Err(Rejection::invalid("metadata.name: Required value: name or generateName is required"));
            }
            // As the API server, which generates names that are valid labels.
            let prefix = &prefix[..prefix.floor_char_boundary(LONGEST_LABEL - 5)];
            object["metadata"]["name"] = json!(format!("{prefix}{:05}", self.version + 1));
        }
        check_metadata(&object)?;
        let key = ObjectKey::new(namespace, text(&object, "/metadata/name"));
        if self.get(kind, &key).is_some() {
            return Err(Rejection::new(409, "AlreadyExists", format!("{kind} {key} already exists")));
        }
        let home = Kind::new("", "v1", "Namespace");
        let home = self.get(&home, &ObjectKey::new("", namespace));
        if home.is_some_and(|home| !home["metadata"]["deletionTimestamp"].is_null()) {
            let message = format!(
                "{kind} {key} is forbidden: unable to create new content in namespace {namespace} because it is being terminated"
            );
            let mut rejection = Rejection::new(403, "Forbidden", message);
            rejection.causes.push("NamespaceTerminating".into());
            return Err(rejection);
        }
        for name in ["uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp"] {
            set_meta(&mut object, name, None);
        }
        if let Value::Object(members) = &mut object {
            members.shift_remove("status");
        }
        self.complete(kind, &mut object);
        self.store(object)
    }

    pub(super) fn update(&mut self, kind: &Kind, object: Value, subresource: Option<&str>) -> Result<Value, Rejection> {
        let key = ObjectKey::new(text(&object, "/metadata/namespace"), text(&object, "/metadata/name"));
        let old = self.found(kind, &key)?;
        for (name, field) in [("UID", "uid"), ("resourceVersion", "resourceVersion")] {
            let (seen, own) = (&object["metadata"][field], &old["metadata"][field]);
            if !seen.is_null() && seen != "" && seen != own {
                return Err(Rejection::conflict(format!(
                    "Operation cannot be fulfilled on {kind} {key}: {name} is {own}, not {seen}; please apply your changes to the latest version and try again"
                )));
            }
        }
        let mut new = old.clone();
        match subresource {
            None => {
                new = object;
                match (old.get("status"), &mut new) {
                    (Some(status), new) => new["status"] = status.clone(),
                    (None, Value::Object(members)) => drop(members.shift_remove("status")),
                    (None, _) => {}
                }
            }
            // Approvals are conditions of the status.
            Some("status" | "approval") => {
                new["metadata"] = object["metadata"].clone();
                new["status"] = object["status"].clone();
            }
            Some("finalize") => new["spec"]["finalizers"] = object["spec"]["finalizers"].clone(),
            Some("scale") => new["spec"]["replicas"] = object["spec"]["replicas"].clone(),
            Some(other) => panic!("a simulated cluster has no subresource {other:?} of {kind}"),
        }
        self.commit(kind, &key, new)
    }

    /// Replaces an object, except for the server's own fields.
    fn commit(&mut self, kind: &Kind, key: &ObjectKey, mut new: Value) -> Result<Value, Rejection> {
        let old = self.found(kind, key)?;
        const KEPT: [&str; 6] = [
            "uid",
            "resourceVersion",
            "generation",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
        ];
        new["apiVersion"] = old["apiVersion"].clone();
        new["kind"] = old["kind"].clone();
        for name in KEPT {
            set_meta(&mut new, name, old["metadata"].get(name));
        }
        if new == *old {
            return Ok(new);
        }
        let finalizers = |object: &Value| object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        let (before, after) = (finalizers(old), finalizers(&new));
        if !old["metadata"]["deletionTimestamp"].is_null() && after.iter().any(|name| !before.contains(name)) {
            return Err(Rejection::invalid(
                "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted",
            ));
        }
        check_metadata(&new)?;
        let spec = |object: &Value| {
            let mut object = object.clone();
            object["metadata"] = Value::Null;
            object["status"] = Value::Null;
            object
        };
        if spec(&new) != spec(old) {
            let generation = old["metadata"]["generation"].as_i64().unwrap_or(0);
            new["metadata"]["generation"] = json!(generation + 1);
        }
        self.store(new)
    }

    pub(super) fn patch(
        &mut self,
        kind: &Kind,
        key: &ObjectKey,
        subresource: Option<&str>,
        patch_type: &PatchType,
        body: &Value,
        preconditions: &Preconditions,
    ) -> Result<Value, Rejection> {
        let Some(old) = self.get(kind, key) else {
            return match patch_type {
                PatchType::Apply { field_manager, .. } if subresource.is_none() => {
                    if *preconditions != Preconditions::default() || !text(body, "/metadata/uid").is_empty() {
                        return Err(Rejection::conflict(format!(
                            "{kind} {key}: a uid is given, but there is no such object"
                        )));
                    }
                    let created = self.create(kind, &key.namespace, body.clone())?;
                    let applied = Applied::from([(field_manager.clone(), body.clone())]);
                    self.applied.insert(text(&created, "/metadata/uid").to_owned(), applied);
                    Ok(created)
                }
                _ => Err(Rejection::not_found(kind, key)),
            };
        };
        check(kind, key, old, preconditions)?;
        let uid = text(old, "/metadata/uid").to_owned();
        let mut new = old.clone();
        match patch_type {
            PatchType::Json => {
                let operations: json_patch::Patch = serde_json::from_value(body.clone())
                    .map_err(|error| Rejection::new(400, "BadRequest", error.to_string()))?;
                json_patch::patch(&mut new, &operations).map_err(|error| Rejection::invalid(error.to_string()))?;
            }
            PatchType::Merge => json_patch::merge(&mut new, body),
            PatchType::StrategicMerge => patch::strategic(&mut new, body, ""),
            PatchType::Apply { field_manager, force } => {
                let mut applied = self.applied.get(&uid).cloned().unwrap_or_default();
                patch::apply(&mut new, &mut applied, field_manager, body, *force).map_err(Rejection::conflict)?;
                let new = self.update(kind, new, subresource)?;
                self.applied.insert(uid, applied);
                return Ok(new);
            }
        }
        self.update(kind, new, subresource)
    }

    pub(super) fn delete(
        &mut self,
        kind: &Kind,
        key: &ObjectKey,
        preconditions: &Preconditions,
        propagation: Option<Propagation>,
        grace_seconds: Option<u32>,
    ) -> Result<(), Rejection> {
        let mut object = self.found(kind, key)?.clone();
        check(kind, key, &object, preconditions)?;
        let meta = &mut object["metadata"];
        let is_first = meta["deletionTimestamp"].is_null();
        let finalizer = match propagation {
            Some(Propagation::Foreground) => Some("foregroundDeletion"),
            Some(Propagation::Orphan) => Some("orphan"),
            Some(Propagation::Background) | None => None,
        };
        if let Some(finalizer) = finalizer.filter(|_| is_first) {
            match &mut meta["finalizers"] {
                Value::Array(all) if all.iter().any(|own| own == finalizer) => {}
                Value::Array(all) => all.push(json!(finalizer)),
                none => *none = json!([finalizer]),
            }
        }
        let grace = grace_of(kind, &object, grace_seconds);
        let is_shorter = object["metadata"]["deletionGracePeriodSeconds"].as_i64().is_some_and(|own| grace < own);
        if !is_first && !is_shorter {
            return Ok(());
        }
        let end = self.now.plus(Duration::from_secs(grace.unsigned_abs()));
        object["metadata"]["deletionTimestamp"] = json!(end);
        object["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
        if is_namespace(kind) {
            object["status"]["phase"] = json!("Terminating");
        }
        self.store(object).map(drop)
    }

    pub(super) fn delete_collection(
        &mut self,
        kind: &Kind,
        namespace: &str,
        label_selector: Option<&str>,
        propagation: Option<Propagation>,
    ) -> Result<(), Rejection> {
        let selector = label_selector.map(Selector::parse).transpose();
        let selector = selector.map_err(|error| Rejection::new(400, "BadRequest", error.to_string()))?;
        let is_meant = |object: &&StoredObject| {
            (namespace.is_empty() || object.meta.namespace == namespace)
                && selector.as_ref().is_none_or(|selector| selector.matches(&object.meta.labels))
        };
        let keys: Vec<_> = self.of_kind(kind).filter(is_meant).map(|object| object.meta.key()).collect();
        for key in keys {
            self.delete(kind, &key, &Preconditions::default(), propagation, None)?;
        }
        Ok(())
    }

    /// Changes any part of an object as another client, except the server's own metadata.
    pub(super) fn edit(
        &mut self,
        kind: &Kind,
        key: &ObjectKey,
        change: impl FnOnce(&mut Value),
    ) -> Result<Value, Rejection> {
        let mut object = self.found(kind, key)?.clone();
        change(&mut object);
        self.commit(kind, key, object)
    }

    /// Removes an object unconditionally. Returns whether it existed.
    pub(super) fn remove(&mut self, kind: &Kind, key: &ObjectKey) -> bool {
        let removed = self.stored.remove(&(kind.clone(), key.clone()));
        self.version += u64::from(removed.is_some());
        removed.is_some()
    }
}

fn check(kind: &Kind, key: &ObjectKey, object: &Value, preconditions: &Preconditions) -> Result<(), Rejection> {
    let conditions = [("uid", &preconditions.uid), ("resourceVersion", &preconditions.resource_version)];
    for (name, wanted) in conditions {
        let own = &object["metadata"][name];
        if let Some(wanted) = wanted.as_ref().filter(|wanted| own != *wanted) {
            return Err(Rejection::conflict(format!(
                "Precondition failed: {name} of {kind} {key} is {own}, not {wanted:?}"
            )));
        }
    }
    Ok(())
}

/// Grace period of an object in seconds: scheduled Pods have one.
///
/// *Source*: `CheckGracefulDelete` of `pkg/registry/core/pod`.
fn grace_of(kind: &Kind, object: &Value, asked: Option<u32>) -> i64 {
    let is_over = ["Succeeded", "Failed"].contains(&text(object, "/status/phase"));
    if !is_pod(kind) || is_over || text(object, "/spec/nodeName").is_empty() {
        return 0;
    }
    let own = object.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64);
    asked.map(i64::from).or(own).unwrap_or(POD_GRACE_SECONDS)
}
