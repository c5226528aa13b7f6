//! Manages a desired set of children: creates missing ones, updates changed ones, adopts matching ones, and deletes
//! those that are no longer desired.
//!
//! Children are written by server-side apply, so fields of other managers (defaults, an autoscaler's replicas) stay,
//! and a field that is no longer desired is removed. Applied objects carry a controller reference to the owner and the
//! annotation [`APPLIED`] with the [hash](crate::hash()) of the desired object, so that the next run detects that it is
//! unchanged. [`covers`] detects later changes by other clients.
//!
//! A desired object without a controller is *adopted* first: a merge patch adds the controller reference to
//! `metadata.ownerReferences` and changes nothing else. This change causes another run, which applies the rest.
//!
//! The manifest watches every owned kind, `whole` or with these `fields`: `metadata.annotations`, `metadata.labels`,
//! `metadata.ownerReferences`, `metadata.deletionTimestamp`, and all fields that are set in children. It requests
//! `{verbs: [create, patch, delete], kinds: [...], of: controlled}`, with `adopt: true` to adopt children. Without
//! `adopt: true` an adoption fails with the reason `NotGranted`, and the other mutations are still sent. If the owner
//! is cluster-scoped, the grant lists the children's namespaces, or all with `namespaces: ["*"]`.
//!
//! Invariants:
//! 1. Objects of other controllers are not touched.
//! 2. Every write of an existing object carries its uid; an adoption also carries its resourceVersion, so that it keeps
//!    all other owner references.
//! 3. The mutations depend only on owner, desired objects and cache.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Value, json};

use crate::api::meta::{Metadata, ObjectMeta, OwnerReference};
use crate::error::Error;
use crate::lister::{Lister, Query};
use crate::outcome::{Mutation, PatchType, Propagation};
use crate::types::{Kind, ObjectKey};

/// Annotation of a child: hash of the desired object when it was last applied.
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

/// Result of [`Children::plan`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Applies and adoptions in the order of the desired objects, then deletes in the order of the owned kinds, by
    /// name. An apply without a precondition creates.
    pub mutations: Vec<Mutation>,
    /// Desired objects that exist under another controller, in the order of the desired objects.
    pub conflicts: Vec<Conflict>,
    /// Desired objects that are being deleted, and are created again afterwards.
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

/// A desired object that another object controls.
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
    /// An empty set. `manager` is the field manager of the applies, 1 to 128 bytes: usually the name of the plugin, and
    /// the same in every version, because it identifies fields that are no longer desired.
    pub fn new(owner_kind: &Kind, owner: &impl Metadata, manager: impl Into<String>) -> Self {
        Self {
            owner: OwnerReference::controller(owner_kind, owner),
            namespace: owner.namespace().to_owned(),
            manager: manager.into(),
            kinds: Vec::new(),
            wanted: Vec::new(),
        }
    }

    /// Adds an owned kind: children of this kind that are not desired are deleted, even if none is desired.
    #[must_use]
    pub fn own(mut self, kind: Kind) -> Self {
        self.kinds.push(kind);
        self
    }

    /// Adds a desired object, with `apiVersion`, `kind`, `metadata.name`, and all fields to apply. The default
    /// namespace is the owner's.
    #[must_use]
    pub fn want(mut self, object: Value) -> Self {
        self.wanted.push(object);
        self
    }

    /// Compares the desired objects with the cached ones.
    ///
    /// # Errors
    /// Terminal, because the code is wrong: a desired object has no name, is added twice, has a kind that is not
    /// [owned](Self::own), is in another namespace than its owner, or cannot be [hashed](crate::hash()).
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

    /// The name of a desired object, and the object with its namespace filled in.
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

/// Deletes a child, unless it is being deleted. It is read by name, because a list has fewer fields than a `whole`
/// watch.
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

/// Lists of Pods and Services, with a member of their items. Server-side apply keeps items that other clients add to
/// them.
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

/// Whether an object has everything that is desired: every member of a desired object exists and is covered, lists have
/// the same length and cover item by item, scalars are equal. A desired `null`, `""`, `0`, `false`, `[]` or `{}` may be
/// missing.
///
/// In objects of `v1`, `apps/v1` and `batch/v1`, items that other clients add to `containers`, `initContainers`,
/// `volumes`, `env`, `volumeMounts`, `volumeDevices` and `ports` count as covered: server-side apply keeps them.
///
/// Write values in the API server's form: it turns `cpu: 1000m` into `cpu: 1`, which would look like a change in every
/// run.
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

/// Whether two numbers, one of which is not an integer, are equal.
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
