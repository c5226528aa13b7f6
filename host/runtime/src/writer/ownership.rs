//! The controllers that the body of a write sets, and whether it changes anything else.
//!
//! Invariant: a body passes only if all of its owner references were understood, and none of them sets another
//! controller. Constructs that an API server could read differently (`$patch` that replaces more than one reference, a
//! duplicate member, operations inside a reference) are rejected.

use std::sync::Arc;

use pintle_core::contract::outcome::{Action, PatchType};
use pintle_core::object::Object;
use pintle_core::object::id::Kind;
use pintle_core::object::version::{ResourceVersion, Uid};
use pintle_core::policy::grants::Relation;
use pintle_core::text::printable;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::edit::{MAX_MEMBER_BYTES, Members, Operation, elements, first_parts};
use super::request::{Body, ObjectText, ParsedWrite};

/// A key's object, as in controller references.
pub(super) struct Controller {
    pub(super) kind: Kind,
    pub(super) name: Arc<str>,
    /// Empty for cluster-scoped objects.
    pub(super) namespace: Arc<str>,
    pub(super) uid: Uid,
}

impl Controller {
    /// Whether it can own objects in a namespace: owners in another namespace are invalid, and cluster-scoped owners
    /// need a grant that lists the namespace.
    pub(super) fn reaches(&self, namespace: &str, relation: Relation) -> Result<(), String> {
        let Self { kind, name, .. } = self;
        match (&*self.namespace, namespace) {
            ("", "") => Ok(()),
            ("", _) if relation.in_namespaces => Ok(()),
            ("", _) => Err(format!(
                "{kind} {name} is cluster-scoped, and by `of: controlled` without `namespaces` it reaches no objects in namespaces; \
                 list them in the grant, or all with `namespaces: [\"*\"]`"
            )),
            (own, _) if own == namespace => Ok(()),
            (own, _) => Err(format!("{kind} {own}/{name} controls nothing in other namespaces")),
        }
    }

    /// Whether it controls an object.
    pub(super) fn controls(&self, object: &Object) -> Result<(), String> {
        let found = match object.meta.controller() {
            Some(owner) if owner.uid == self.uid => return Ok(()),
            Some(owner) => format!("{} {}", owner.kind, owner.name),
            None => "nothing".to_owned(),
        };
        Err(format!("the caches show {} controlled by {found}, not by {} {}", object.meta.key, self.kind, self.name))
    }

    /// Whether a controller reference names this object. A patch may omit fields that the existing reference has.
    fn is(&self, reference: &Reference, complete: bool) -> bool {
        let says = |field: &Option<String>, wanted: &str| match field {
            Some(given) => given == wanted,
            None => !complete,
        };
        let group = match &reference.api_version {
            Some(version) => Kind::from_api_version(version, &self.kind.name).group == self.kind.group,
            None => !complete,
        };
        let uid = reference.uid.as_deref().is_some_and(|uid| Uid::parse(uid) == self.uid);
        uid && group && says(&reference.kind, &self.kind.name) && says(&reference.name, &self.name)
    }
}

/// An owner reference in a body.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct Reference {
    api_version: Option<String>,
    kind: Option<String>,
    name: Option<String>,
    uid: Option<String>,
    controller: Option<bool>,
    #[serde(rename = "blockOwnerDeletion")]
    _block_owner_deletion: Option<bool>,
    /// Strategic merge: `delete` removes the reference.
    #[serde(rename = "$patch")]
    directive: Option<String>,
}

/// The controllers that a body sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sets {
    Nobody,
    TheKey,
}

/// Checks that a write sets no controller other than the key's object; a create must set it.
///
/// # Errors
/// If it sets another controller, or contains a construct that is not understood.
pub(super) fn sets_only(key: &Controller, write: &ParsedWrite<'_>) -> Result<(), String> {
    match (write.action, sets(key, write)?) {
        (Action::Create { subresource: None, .. }, Sets::Nobody) => {
            Err(format!("what is created must name {} {} as its controller", key.kind, key.name))
        }
        _ => Ok(()),
    }
}

/// Whether a write makes the key's object the controller, and contains nothing that could undo it.
pub(super) fn sets_key(key: &Controller, write: &ParsedWrite<'_>) -> bool {
    let is_plain = match write.action {
        // A later operation or directive may remove the reference again.
        Action::Patch { patch_type: PatchType::Json, .. } => false,
        Action::Patch { patch_type: PatchType::StrategicMerge, body, .. } => !body.contains('$'),
        _ => true,
    };
    is_plain && sets(key, write) == Ok(Sets::TheKey)
}

/// Checks that a write makes the key's object the controller of an existing object and changes nothing else.
///
/// A server-side apply also removes the fields that its manager applied before, an update replaces the object, and a
/// JSON patch may change anything by position. A merge patch replaces the list of references, and could replace a
/// controller that is not in the caches yet: it requires the resourceVersion of the cached object. A strategic merge
/// patch adds to the list, and the API server rejects a second controller.
///
/// # Errors
/// The other kind of write, or the other change.
pub(super) fn only_adopts(key: &Controller, write: &ParsedWrite<'_>, object: &Object) -> Result<(), String> {
    let ParsedWrite { action, target, body, .. } = write;
    let (
        Action::Patch {
            patch_type: patch_type @ (PatchType::Merge | PatchType::StrategicMerge),
            subresource: None,
            preconditions,
            ..
        },
        Body::Object(text),
    ) = (action, body)
    else {
        return Err("it is not a merge patch or strategic merge patch of the object".into());
    };
    let changes = |member: &str| Err(format!("it changes \"{}\"", printable(member, MAX_MEMBER_BYTES)));
    let is = |members: &Members<'_>, member: &str, value: &str| {
        members.string(member).map(|given| given.as_deref() == Some(value))
    };
    for member in text.members.names() {
        let is_kept = match member {
            "metadata" => true,
            "apiVersion" => is(&text.members, member, &target.kind.api_version())?,
            "kind" => is(&text.members, member, &target.kind.name)?,
            _ => false,
        };
        if !is_kept {
            return changes(member);
        }
    }
    if let Some(metadata) = text.metadata()? {
        for member in metadata.names() {
            let is_kept = match member {
                // The API server rejects a different uid or resourceVersion as a conflict.
                "ownerReferences" | "uid" | "resourceVersion" => true,
                "name" => is(metadata, member, &target.object.name)?,
                "namespace" => is(metadata, member, &target.object.namespace)?,
                _ => false,
            };
            if !is_kept {
                return changes(&format!("metadata.{member}"));
            }
        }
    }
    let required = preconditions.resource_version.as_deref().filter(|version| !version.is_empty());
    let is_current = required.map(ResourceVersion::parse).as_ref() == Some(&object.meta.resource_version);
    if *patch_type == PatchType::Merge && !is_current {
        return Err("it is a merge patch, which replaces the list, and does not require the resourceVersion that the caches show".into());
    }
    match sets_key(key, write) {
        true => Ok(()),
        false => Err(format!("it does not set {} {} as the controller", key.kind, key.name)),
    }
}

fn sets(key: &Controller, write: &ParsedWrite<'_>) -> Result<Sets, String> {
    let form = match write.action {
        Action::Patch { patch_type: PatchType::StrategicMerge, .. } => Form::Strategic,
        Action::Patch { .. } => Form::Merge,
        _ => Form::Whole,
    };
    match &write.body {
        Body::Object(text) => of_object(key, text, form),
        Body::Operations(operations) => of_operations(key, operations),
        Body::Nothing => Ok(Sets::Nobody),
    }
}

/// The form of an object text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// The whole object.
    Whole,
    /// Members to merge into the object.
    Merge,
    /// Members to merge, with directives.
    Strategic,
}

fn of_object(key: &Controller, text: &ObjectText<'_>, form: Form) -> Result<Sets, String> {
    let plain = |members: &Members<'_>| match members.names().find(|name| name.starts_with('$')) {
        Some(name) => Err(format!("the directive {name:?} is not understood")),
        None => Ok(()),
    };
    plain(&text.members)?;
    let Some(metadata) = text.metadata()? else { return Ok(Sets::Nobody) };
    plain(metadata)?;
    of_list(key, metadata.get("ownerReferences"), form)
}

fn of_list(key: &Controller, text: Option<&str>, form: Form) -> Result<Sets, String> {
    let Some(text) = text else { return Ok(Sets::Nobody) };
    let list: Vec<Reference> = elements(text).map_err(|why| format!("ownerReferences: {why}"))?;
    let mut sets = Sets::Nobody;
    for reference in list {
        if of_reference(key, &reference, form)? == Sets::TheKey {
            sets = Sets::TheKey;
        }
    }
    Ok(sets)
}

fn of_reference(key: &Controller, reference: &Reference, form: Form) -> Result<Sets, String> {
    match (reference.directive.as_deref(), form) {
        (None, _) => {}
        (Some("delete"), Form::Strategic) => return Ok(Sets::Nobody),
        (Some(directive), _) => return Err(format!("the directive $patch: {directive:?} is not understood")),
    }
    if reference.controller != Some(true) {
        return Ok(Sets::Nobody);
    }
    if key.is(reference, form != Form::Strategic) {
        return Ok(Sets::TheKey);
    }
    let Reference { kind, name, uid, .. } = reference;
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    Err(format!(
        "it would set {} {} ({}) as the controller, which is not {} {}",
        text(kind),
        text(name),
        text(uid),
        key.kind,
        key.name
    ))
}

/// Position of a JSON patch path relative to the owner references.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Elsewhere,
    /// A parent of the list.
    Above,
    List,
    Element,
    Within,
}

fn place(path: &str) -> Place {
    let parts = first_parts(path);
    match parts.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] | ["metadata"] => Place::Above,
        ["metadata", "ownerReferences"] => Place::List,
        ["metadata", "ownerReferences", _] => Place::Element,
        ["metadata", "ownerReferences", ..] => Place::Within,
        _ => Place::Elsewhere,
    }
}

fn of_operations(key: &Controller, operations: &[&RawValue]) -> Result<Sets, String> {
    let mut sets = Sets::Nobody;
    for operation in operations {
        let Operation { op, path, from, value } =
            serde_json::from_str(operation.get()).map_err(|why| why.to_string())?;
        let unclear = || Err(format!("what {op:?} does at {path:?} is not understood"));
        let value = value.map(RawValue::get);
        let found = match (op.as_str(), place(&path)) {
            ("test", _) => Sets::Nobody,
            ("add" | "replace" | "remove", Place::Elsewhere) => Sets::Nobody,
            ("remove", Place::List | Place::Element) => Sets::Nobody,
            ("add" | "replace", Place::List) => of_list(key, value, Form::Merge)?,
            ("add" | "replace", Place::Element) => {
                let Some(value) = value else { return unclear() };
                let reference: Reference = serde_json::from_str(value).map_err(|why| format!("{path}: {why}"))?;
                of_reference(key, &reference, Form::Merge)?
            }
            ("copy" | "move", Place::Elsewhere)
                if from.as_deref().is_some_and(|from| place(from) == Place::Elsewhere) =>
            {
                Sets::Nobody
            }
            _ => return unclear(),
        };
        if found == Sets::TheKey {
            sets = Sets::TheKey;
        }
    }
    Ok(sets)
}

#[cfg(test)]
mod tests {
    use pintle_core::contract::outcome::Preconditions;
    use pintle_core::object::id::ObjectKey;
    use serde_json::{Value, json};

    use super::*;

    fn key() -> Controller {
        Controller {
            kind: "apps/v1/ReplicaSet".parse().unwrap(),
            name: "rs".into(),
            namespace: "ns".into(),
            uid: Uid::parse("uid-rs"),
        }
    }

    fn ours() -> Value {
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "uid-rs", "controller": true})
    }

    fn theirs() -> Value {
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "other", "uid": "uid-other", "controller": true})
    }

    /// A reference with one field changed.
    fn with(mut reference: Value, field: &str, value: Value) -> Value {
        reference[field] = value;
        reference
    }

    fn patched(patch_type: PatchType, body: impl ToString) -> Result<(), String> {
        let action = Action::Patch {
            kind: "v1/Pod".parse().unwrap(),
            object: ObjectKey::new("ns", "a"),
            subresource: None,
            patch_type,
            body: body.to_string(),
            preconditions: Preconditions::default(),
        };
        judged(&action)
    }

    fn judged(action: &Action) -> Result<(), String> {
        let write = ParsedWrite::parse(action, None)?;
        sets_only(&key(), &write.unwrap())
    }

    fn created(object: impl ToString) -> Result<(), String> {
        let (kind, namespace) = ("v1/Pod".parse().unwrap(), "ns".to_owned());
        judged(&Action::Create { kind, namespace, object: object.to_string(), subresource: None })
    }

    fn owners(references: impl Into<Value>) -> Value {
        json!({"metadata": {"ownerReferences": references.into()}})
    }

    #[test]
    fn created_objects_are_controlled_by_the_key() {
        assert_eq!(created(owners(vec![ours()])), Ok(()));
        // Other objects may also own it, without being its controller.
        let owner = with(theirs(), "controller", json!(false));
        assert_eq!(created(owners(vec![owner.clone(), ours()])), Ok(()));
        for wrong in [
            json!({}),
            json!({"metadata": {"name": "a"}}),
            owners(json!([])),
            owners(vec![owner]),
            owners(vec![theirs()]),
            owners(vec![ours(), theirs()]),
            owners(vec![with(ours(), "uid", json!("uid-other"))]),
            owners(vec![with(ours(), "name", json!("other"))]),
            owners(vec![with(ours(), "kind", json!("Deployment"))]),
            owners(vec![with(ours(), "apiVersion", json!("v1"))]),
            owners(vec![with(ours(), "apiVersion", Value::Null)]),
            owners(vec![with(ours(), "controller", json!("true"))]),
            owners(vec![with(ours(), "more", json!(1))]),
            owners("x"),
            json!({"metadata": "x"}),
        ] {
            assert!(created(&wrong).is_err(), "{wrong}");
        }
        let twice = ours().to_string().replace('{', r#"{"uid":"uid-other","#);
        assert!(created(format!(r#"{{"metadata":{{"ownerReferences":[{twice}]}}}}"#)).is_err());
    }

    #[test]
    fn merges_set_no_other_controller() {
        let apply = || PatchType::Apply { field_manager: "m".into(), force: true };
        let released = json!({"$patch": "delete", "uid": "uid-rs"});
        for patch_type in [PatchType::Merge, PatchType::StrategicMerge, apply()] {
            let patched = |body: Value| patched(patch_type.clone(), body);
            for right in [json!({"spec": {"x": 1}}), owners(vec![ours()]), owners(Value::Null), owners(json!([]))] {
                assert_eq!(patched(right), Ok(()));
            }
            for wrong in [
                owners(vec![theirs()]),
                owners(vec![ours(), theirs()]),
                owners(json!({"0": theirs()})),
                json!({"metadata": null}),
                json!({"$patch": "replace", "metadata": {}}),
                json!({"metadata": {"$patch": "replace"}}),
                json!({"metadata": {"$setElementOrder/ownerReferences": []}}),
                owners(vec![json!({"$patch": "replace"})]),
                owners(vec![with(ours(), "$retainKeys", json!([]))]),
                // Merged by uid: the reference would become a controller reference.
                owners(vec![json!({"uid": "uid-other", "controller": true})]),
            ] {
                assert!(patched(wrong.clone()).is_err(), "{patch_type:?} {wrong}");
            }
            let is_strategic = patch_type == PatchType::StrategicMerge;
            assert_eq!(patched(owners(vec![released.clone()])).is_ok(), is_strategic);
            assert_eq!(patched(owners(vec![json!({"uid": "uid-rs", "controller": true})])).is_ok(), is_strategic);
        }
    }

    #[test]
    fn operations_set_no_other_controller() {
        let patched = |operations: Value| patched(PatchType::Json, operations);
        let list = "/metadata/ownerReferences";
        for right in [
            json!([{"op": "replace", "path": "/spec/x", "value": theirs()}]),
            json!([{"op": "test", "path": list, "value": [theirs()]}]),
            json!([{"op": "add", "path": list, "value": [ours()]}]),
            json!([{"op": "add", "path": format!("{list}/-"), "value": ours()}]),
            json!([{"op": "remove", "path": format!("{list}/0")}]),
            json!([{"op": "remove", "path": list}]),
            json!([{"op": "move", "from": "/spec/x", "path": "/spec/y"}]),
            json!([{"op": "remove", "path": "/metadata/finalizers"}]),
        ] {
            assert_eq!(patched(right.clone()), Ok(()), "{right}");
        }
        for wrong in [
            json!([{"op": "add", "path": list, "value": [theirs()]}]),
            json!([{"op": "replace", "path": list, "value": [ours(), theirs()]}]),
            json!([{"op": "add", "path": format!("{list}/-"), "value": theirs()}]),
            json!([{"op": "replace", "path": format!("{list}/0"), "value": theirs()}]),
            json!([{"op": "add", "path": format!("{list}/0"), "value": ours()}, {"op": "add", "path": format!("{list}/0"), "value": theirs()}]),
            json!([{"op": "replace", "path": format!("{list}/0/controller"), "value": true}]),
            json!([{"op": "replace", "path": format!("{list}/0/uid"), "value": "uid-other"}]),
            json!([{"op": "replace", "path": "/metadata", "value": owners(vec![theirs()])["metadata"]}]),
            json!([{"op": "replace", "path": "", "value": owners(vec![theirs()])}]),
            json!([{"op": "copy", "from": "/spec/x", "path": format!("{list}/0")}]),
            json!([{"op": "move", "from": "/spec/x", "path": list}]),
            json!([{"op": "move", "from": "/metadata", "path": "/spec/x"}]),
            json!([{"op": "add", "path": format!("{list}/-")}]),
            json!([{"op": "merge", "path": list, "value": [ours()]}]),
            json!([{"op": "add", "path": list, "value": [ours()], "Path": "/spec"}]),
            json!({"op": "add"}),
        ] {
            assert!(patched(wrong.clone()).is_err(), "{wrong}");
        }
        assert!(patched(json!([{"op": "add", "path": "/metadata/owner~0References", "value": [theirs()]}])).is_ok());
        let twice = r#"[{"op":"add","path":"/spec/x","path":"/metadata/ownerReferences","value":[]}]"#;
        assert!(super::tests::patched(PatchType::Json, twice).is_err());
    }
}
