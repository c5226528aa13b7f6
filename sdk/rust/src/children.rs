//! "Here is the set of children that I want": what is missing is created, what differs updated, what fits adopted, and what is
//! no longer wanted deleted.
//!
//! Children are written by server-side apply, so fields that others set (defaults, an autoscaler's replicas) stay as they are,
//! and a field that is no longer wanted goes. What is applied carries a controller reference to the owner and the annotation
//! [`APPLIED`] with the [hash](crate::hash()) of what was wanted, by which the next run sees that nothing has changed.
//! Later changes by others are found by [`covers`].
//!
//! A wanted object without a controller is *adopted* first: a merge patch adds the controller reference to
//! `metadata.ownerReferences` and changes nothing else. Its change causes another run, which applies the rest.
//!
//! The manifest watches every owned kind, `whole` or with these `fields`: `metadata.annotations`, `metadata.labels`,
//! `metadata.ownerReferences`, `metadata.deletionTimestamp`, and all that is set in children. It asks for
//! `{verbs: [create, patch, delete], kinds: [...], of: controlled}`, with `adopt: true` in it if children are to be adopted.
//! Without `adopt: true` an adoption fails with the reason `NotGranted`, and the other mutations are sent all the same.
//! If the owner is cluster-scoped, the grant lists the children's namespaces, or all with `namespaces: ["*"]`.
//!
//! Invariants:
//! 1. An object that another controller has is not touched.
//! 2. Every write of an object that is there carries its uid; an adoption carries its resourceVersion, too, so that it keeps all
//!    other owner references.
//! 3. The mutations do not depend on anything but owner, wanted objects and cache.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Value, json};

use crate::api::meta::{Metadata, ObjectMeta, OwnerReference};
use crate::error::Error;
use crate::lister::{Lister, Query};
use crate::outcome::{Mutation, PatchType, Propagation};
use crate::types::{Kind, ObjectKey};

/// Annotation of a child: hash of what was wanted when it was last applied.
pub const APPLIED: &str = "pintle.dev/applied";

/// The desired set of children of an owner.
///
/// ```
/// use pintle_sdk::{Children, Error, Key, Kind, Lister, Outcome, Resource, Step};
/// use serde_json::json;
///
/// pintle_sdk::types!("v1/Namespace": []);
///
/// const CONFIG_MAP: Kind = Kind::new("", "v1", "ConfigMap");
///
/// fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
///     let Some(owner) = lister.get::<Namespace>("", &key.name)? else { return Ok(Outcome::new()) };
///     let plan = Children::new(&Namespace::KIND, &owner.metadata, "greeter")
///         .own(CONFIG_MAP)
///         .want(json!({
///             "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hello", "namespace": key.name},
///             "data": {"greeting": "hello"},
///         }))
///         .plan(lister)?;
///     Ok(Outcome::new().step(Step::parallel(plan.mutations)))
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Children {
    owner: OwnerReference,
    namespace: String,
    manager: String,
    kinds: Vec<Kind>,
    wanted: Vec<Value>,
}

/// What [`Children::plan`] found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Applies and adoptions in the order of the wanted objects, then deletes in the order of the owned kinds, by name.
    /// An apply without a precondition creates.
    pub mutations: Vec<Mutation>,
    /// Wanted objects that are there under another controller, in the order in which they are wanted.
    pub conflicts: Vec<Conflict>,
    /// Wanted objects that are being deleted, and are created again afterwards.
    pub waiting: Vec<Child>,
}

/// A child by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub object: ObjectKey,
}

impl fmt::Display for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.object)
    }
}

/// A wanted object that another object controls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The object.
    pub child: Child,
    /// Kind of its controller.
    pub controller_kind: Kind,
    /// Name of its controller.
    pub controller_name: String,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is controlled by {} {}", self.child, self.controller_kind, self.controller_name)
    }
}

impl Children {
    /// No children yet. `manager` is the field manager of the applies, 1 to 128 bytes: usually the name of the plugin, and the
    /// same in every version: fields that are no longer wanted are found by this name.
    pub fn new(owner_kind: &Kind, owner: &impl Metadata, manager: impl Into<String>) -> Self {
        Self {
            owner: OwnerReference::controller(owner_kind, owner),
            namespace: owner.namespace().to_owned(),
            manager: manager.into(),
            kinds: Vec::new(),
            wanted: Vec::new(),
        }
    }

    /// The owner has children of this kind: those that are not wanted are deleted, also when none is.
    #[must_use]
    pub fn own(mut self, kind: Kind) -> Self {
        self.kinds.push(kind);
        self
    }

    /// A wanted object, with `apiVersion`, `kind`, `metadata.name`, and all that shall be applied.
    /// Its namespace is the owner's if it names none.
    #[must_use]
    pub fn want(mut self, object: Value) -> Self {
        self.wanted.push(object);
        self
    }

    /// Compares the desired objects with the cached ones.
    ///
    /// # Errors
    /// Terminal, as only other code helps: a wanted object has no name, is wanted twice, is of a kind that is not
    /// [owned](Self::own), lives in another namespace than its owner, or cannot be [hashed](crate::hash()).
    pub fn plan(self, lister: &impl Lister) -> Result<Plan, Error> {
        let mut plan = Plan::default();
        let mut names = BTreeSet::new();
        for wanted in &self.wanted {
            let (child, wanted) = self.complete(wanted)?;
            if !names.insert((child.kind.clone(), child.object.clone())) {
                return Err(Error::terminal(format!("children: {child} is wanted twice")));
            }
            self.plan_wanted(lister, child, &wanted, &mut plan)?;
        }
        for kind in &self.kinds {
            let mut query = Query::all().controlled_by(&self.owner.uid);
            query.namespace = (!self.namespace.is_empty()).then(|| self.namespace.clone());
            for text in lister.list_json(kind, &query) {
                let object = metadata(kind, &text)?.key();
                if !names.contains(&(kind.clone(), object.clone())) {
                    plan.mutations.extend(prune(lister, kind, &object)?);
                }
            }
        }
        Ok(plan)
    }

    /// The name of a wanted object, and the object with its namespace filled in.
    fn complete(&self, wanted: &Value) -> Result<(Child, Value), Error> {
        let text = |pointer| wanted.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let kind = Kind::from_api_version(text("/apiVersion"), text("/kind"));
        let (name, namespace) = (text("/metadata/name"), text("/metadata/namespace"));
        let namespace = if namespace.is_empty() { &self.namespace } else { namespace };
        let child = Child { kind, object: ObjectKey::new(namespace, name) };
        if name.is_empty() {
            return Err(Error::terminal(format!("children: a {} has no metadata.name", child.kind)));
        }
        if !self.kinds.contains(&child.kind) {
            return Err(Error::terminal(format!("children: {child} is of a kind that is not owned: call own")));
        }
        if !self.namespace.is_empty() && *namespace != self.namespace {
            return Err(Error::terminal(format!("children: {child} is in another namespace than its owner")));
        }
        let mut wanted = wanted.clone();
        if !namespace.is_empty() {
            wanted["metadata"]["namespace"] = json!(namespace);
        }
        Ok((child, wanted))
    }

    fn plan_wanted(&self, lister: &impl Lister, child: Child, wanted: &Value, plan: &mut Plan) -> Result<(), Error> {
        let hash = crate::hash(wanted)?;
        let mut body = wanted.clone();
        body["metadata"]["ownerReferences"] = json!([self.owner]);
        body["metadata"]["annotations"][APPLIED] = json!(hash);
        let apply = Mutation::apply(&child.kind, child.object.clone(), &self.manager, true, body);
        let Some(text) = lister.get_json(&child.kind, &child.object) else {
            plan.mutations.push(apply);
            return Ok(());
        };
        let existing = metadata(&child.kind, &text)?;
        if existing.is_deleting() {
            plan.waiting.push(child);
            return Ok(());
        }
        let Some(controller) = existing.controller() else {
            plan.mutations.push(self.adopt(child, existing));
            return Ok(());
        };
        if controller.uid != self.owner.uid {
            let (controller_kind, controller_name) = (controller.owner_kind(), controller.name.clone());
            plan.conflicts.push(Conflict { child, controller_kind, controller_name });
            return Ok(());
        }
        let is_applied = existing.annotations.get(APPLIED) == Some(&hash);
        if !is_applied || !covers(&crate::lister::decode(&child.kind, &text)?, wanted) {
            plan.mutations.push(apply.uid(existing.uid));
        }
        Ok(())
    }

    /// Adds the owner to the owner references of an object without a controller, as its controller.
    fn adopt(&self, child: Child, existing: ObjectMeta) -> Mutation {
        let mut owners = existing.owner_references;
        owners.retain(|owner| owner.uid != self.owner.uid);
        owners.push(self.owner.clone());
        let body = json!({"metadata": {"ownerReferences": owners}});
        Mutation::patch(&child.kind, child.object, PatchType::Merge, body)
            .uid(existing.uid)
            .resource_version(existing.resource_version)
    }
}

/// Deletes a child, unless that has been done. Read by name, because a list gives less than what a `whole` watch has.
fn prune(lister: &impl Lister, kind: &Kind, object: &ObjectKey) -> Result<Option<Mutation>, Error> {
    let Some(text) = lister.get_json(kind, object) else { return Ok(None) };
    let existing = metadata(kind, &text)?;
    if existing.is_deleting() {
        return Ok(None);
    }
    let delete = Mutation::delete(kind, &object.namespace, &object.name);
    Ok(Some(delete.uid(existing.uid).propagation(Propagation::Background)))
}

fn metadata(kind: &Kind, text: &str) -> Result<ObjectMeta, Error> {
    #[derive(serde::Deserialize)]
    struct Object {
        metadata: ObjectMeta,
    }
    Ok(crate::lister::decode::<Object>(kind, text)?.metadata)
}

/// Lists of Pods and Services, with a member of their items. Server-side apply keeps the items that others add to them.
const MERGED_LISTS: [(&str, &str); 8] = [
    ("containers", "name"),
    ("initContainers", "name"),
    ("volumes", "name"),
    ("env", "name"),
    ("volumeMounts", "mountPath"),
    ("volumeDevices", "devicePath"),
    ("ports", "containerPort"),
    ("ports", "targetPort"),
];

/// Whether an object has all that is wanted of it: every member of a wanted object is there and covered, lists have the same length
/// and cover item by item, scalars are equal. What is wanted to be `null`, `""`, `0`, `false`, `[]` or `{}` may be missing.
///
/// In objects of `v1`, `apps/v1` and `batch/v1`, items that others add to `containers`, `initContainers`, `volumes`, `env`,
/// `volumeMounts`, `volumeDevices` and `ports` count as covered: server-side apply leaves them there.
///
/// Write values as the API server does: it turns `cpu: 1000m` into `cpu: 1`, which would look like a change in every run.
pub fn covers(existing: &Value, wanted: &Value) -> bool {
    let merges = wanted["apiVersion"].as_str().is_some_and(|version| matches!(version, "v1" | "apps/v1" | "batch/v1"));
    covers_at("", existing, wanted, merges)
}

fn covers_at(name: &str, existing: &Value, wanted: &Value, merges: bool) -> bool {
    match (existing, wanted) {
        (Value::Object(existing), Value::Object(wanted)) => wanted.iter().all(|(name, wanted)| {
            existing
                .get(name)
                .filter(|value| !value.is_null())
                .map_or_else(|| is_zero(wanted), |value| covers_at(name, value, wanted, merges))
        }),
        (Value::Array(existing), Value::Array(wanted)) => {
            let has = |key: &str| existing.iter().all(|item| item.get(key).is_some());
            let is_merged = merges && MERGED_LISTS.iter().any(|(list, key)| *list == name && has(key));
            let mut rest = existing.iter();
            (is_merged || existing.len() == wanted.len())
                && wanted.iter().all(|wanted| match is_merged {
                    true => rest.any(|existing| covers_at("", existing, wanted, merges)),
                    false => rest.next().is_some_and(|existing| covers_at("", existing, wanted, merges)),
                })
        }
        (Value::Number(existing), Value::Number(wanted)) => existing == wanted || is_same_float(existing, wanted),
        _ => existing == wanted,
    }
}

/// Whether two numbers, of which one is no integer, are the same.
fn is_same_float(existing: &serde_json::Number, wanted: &serde_json::Number) -> bool {
    (existing.is_f64() || wanted.is_f64()) && existing.as_f64() == wanted.as_f64()
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(truth) => !truth,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}

#[cfg(test)]
mod tests;
