//! From a mutation to the request that carries it out.
//!
//! Invariants:
//! 1. What is checked against the grants is what is sent: names come from the body where the API server takes them from there.
//! 2. The preconditions of a patch are in its body.
//! 3. An update without `resourceVersion` and `uid` is refused: it would overwrite what its author has not seen.

use std::sync::Arc;

use pintle_core::api::{ApiError, ApiErrorClass, ApiResource, WriteRequest, WriteVerb};
use pintle_core::grants::{Access, is_path_segment};
use pintle_core::id::{Kind, ObjectKey};
use pintle_core::outcome::{Action, PatchType, Preconditions};
use pintle_core::version::Uid;

use super::edit::{Members, MetaFields, prepend_operations, quote};

/// Subresources whose body is the object itself.
const WHOLE_OBJECT: [&str; 4] = ["status", "approval", "finalize", "resize"];

/// What a write is about, known before it is clear whether it can be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// As in `MutationFailure`.
    pub(crate) verb: &'static str,
    pub(crate) kind: Kind,
    /// The name is empty if it is to be generated, or for collections.
    pub(crate) object: ObjectKey,
    pub(crate) subresource: Option<String>,
}

impl Target {
    pub(crate) fn access(&self) -> Access<'_> {
        Access {
            verb: if self.verb == "delete-collection" { "deletecollection" } else { self.verb },
            kind: &self.kind,
            subresource: self.subresource.as_deref(),
            namespace: &self.object.namespace,
            name: &self.object.name,
        }
    }
}

/// The kind that an action writes; none for an event on its own.
pub(crate) fn kind_of(action: &Action) -> Option<&Kind> {
    match action {
        Action::Create { kind, .. }
        | Action::Update { kind, .. }
        | Action::Patch { kind, .. }
        | Action::Delete { kind, .. }
        | Action::DeleteCollection { kind, .. } => Some(kind),
        Action::Event(_) => None,
    }
}

/// What an action writes, and the request once the resource is known. `None` for an event on its own.
///
/// # Errors
/// What breaks the contract: a fault of the plugin.
pub(crate) fn prepare(
    action: &Action,
    resource: Option<&Arc<ApiResource>>,
    manager: &str,
) -> Result<Option<(Target, Option<WriteRequest>)>, String> {
    let object_key = ObjectKey::new;
    let (target, verb) = match action {
        Action::Event(_) => return Ok(None),
        Action::Create { kind, namespace, object, subresource } => {
            let mut body = Members::parse(object).map_err(|why| format!("object: {why}"))?;
            let meta = MetaFields::of(&body)?;
            if meta.namespace.as_deref().is_some_and(|inner| inner != namespace && !inner.is_empty()) {
                return Err("metadata.namespace differs from the namespace of the create".into());
            }
            let name = meta.name.unwrap_or_default();
            if subresource.is_some() && name.is_empty() {
                return Err("metadata.name must name the parent of the subresource".into());
            }
            if subresource.is_none() {
                type_of(&mut body, resource, kind);
            }
            let target = Target {
                verb: "create",
                kind: kind.clone(),
                object: object_key(namespace, &name),
                subresource: subresource.clone(),
            };
            (target, WriteVerb::Create { body: body.text() })
        }
        Action::Update { kind, object, subresource } => {
            let mut body = Members::parse(object).map_err(|why| format!("object: {why}"))?;
            let meta = MetaFields::of(&body)?;
            let Some(name) = meta.name.filter(|name| !name.is_empty()) else {
                return Err("metadata.name must name the object".into());
            };
            let given = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.is_empty());
            if !given(&meta.resource_version) && !given(&meta.uid) {
                return Err("an update must carry metadata.resourceVersion or metadata.uid".into());
            }
            if subresource.as_deref().is_none_or(|name| WHOLE_OBJECT.contains(&name)) {
                type_of(&mut body, resource, kind);
            }
            let key = object_key(&meta.namespace.unwrap_or_default(), &name);
            let target = Target { verb: "update", kind: kind.clone(), object: key, subresource: subresource.clone() };
            (target, WriteVerb::Update { body: body.text() })
        }
        Action::Patch { kind, object, subresource, patch_type, body, preconditions } => {
            let body = patch_body(kind, object, resource, subresource.as_deref(), patch_type, body, preconditions)?;
            let mut patch_type = patch_type.clone();
            if let PatchType::Apply { field_manager, .. } = &mut patch_type
                && field_manager.is_empty()
            {
                *field_manager = manager.to_owned();
            }
            let target =
                Target { verb: "patch", kind: kind.clone(), object: object.clone(), subresource: subresource.clone() };
            (target, WriteVerb::Patch { patch_type, body })
        }
        Action::Delete { kind, object, preconditions, propagation, grace_period_seconds } => {
            let target = Target { verb: "delete", kind: kind.clone(), object: object.clone(), subresource: None };
            let verb = WriteVerb::Delete {
                preconditions: preconditions.clone(),
                propagation: *propagation,
                grace_period_seconds: *grace_period_seconds,
            };
            (target, verb)
        }
        Action::DeleteCollection { kind, namespace, label_selector, propagation } => {
            let object = object_key(namespace, "");
            let target = Target { verb: "delete-collection", kind: kind.clone(), object, subresource: None };
            (target, WriteVerb::DeleteCollection { label_selector: label_selector.clone(), propagation: *propagation })
        }
    };
    let (namespace, name) = (&*target.object.namespace, &*target.object.name);
    if (!namespace.is_empty() && !is_path_segment(namespace)) || (!name.is_empty() && !is_path_segment(name)) {
        return Err(format!("{:?} is not the name of an object", target.object.to_string()));
    }
    let Some(resource) = resource else { return Ok(Some((target, None))) };
    // A collection of a namespaced kind without a namespace would be that of all namespaces.
    if resource.namespaced == namespace.is_empty() {
        let is = if resource.namespaced { "namespaced" } else { "cluster-scoped" };
        return Err(format!("{} is {is}, the namespace is {namespace:?}", target.kind));
    }
    // A create names its object in the body alone, unless it is one of a subresource.
    let in_path = target.verb != "create" || target.subresource.is_some();
    let request = WriteRequest {
        resource: resource.clone(),
        namespace: namespace.to_owned(),
        name: if in_path { name.to_owned() } else { String::new() },
        subresource: target.subresource.clone(),
        verb,
    };
    Ok(Some((target, Some(request))))
}

/// The uid in an object's metadata, if it is there.
///
/// # Errors
/// It is no object.
pub(super) fn uid_of(object: &str) -> Result<Option<String>, String> {
    let meta = MetaFields::of(&Members::parse(object)?)?;
    Ok(meta.uid.filter(|uid| !uid.is_empty()))
}

/// Adds the uid of the object that a write must hit, unless it has one.
///
/// # Errors
/// The body is no object.
pub(super) fn pin(action: &mut Action, wanted: &Uid) -> Result<(), String> {
    match action {
        Action::Patch { preconditions, .. } | Action::Delete { preconditions, .. } => {
            preconditions.uid.get_or_insert_with(|| wanted.to_string());
        }
        Action::Update { object, .. } if uid_of(object)?.is_none() => {
            let mut body = Members::parse(object)?;
            body.edit("metadata", |metadata| metadata.set_string("uid", &wanted.to_string()))?;
            let text = body.text();
            *object = text;
        }
        Action::Update { .. } | Action::Create { .. } | Action::DeleteCollection { .. } | Action::Event(_) => {}
    }
    Ok(())
}

/// Fills in `apiVersion` and `kind`, in the version that the API server has.
fn type_of(body: &mut Members<'_>, resource: Option<&Arc<ApiResource>>, kind: &Kind) {
    let kind = resource.map_or(kind, |resource| &resource.kind);
    body.set_string("kind", &kind.name);
    body.set_string("apiVersion", &kind.api_version());
}

fn patch_body(
    kind: &Kind,
    object: &ObjectKey,
    resource: Option<&Arc<ApiResource>>,
    subresource: Option<&str>,
    patch_type: &PatchType,
    body: &str,
    preconditions: &Preconditions,
) -> Result<String, String> {
    let conditions = [("uid", &preconditions.uid), ("resourceVersion", &preconditions.resource_version)];
    let conditions: Vec<(&str, &str)> =
        conditions.into_iter().filter_map(|(field, value)| value.as_deref().map(|value| (field, value))).collect();
    if *patch_type == PatchType::Json {
        // Not `test`: the server does not tell whose test failed. What is replaced by itself changes nothing.
        let claim = |(field, value): &(&str, &str)| {
            format!(r#"{{"op":"replace","path":"/metadata/{field}","value":{}}}"#, quote(value))
        };
        let claims: Vec<String> = conditions.iter().map(claim).collect();
        return prepend_operations(body, &claims).map_err(|why| format!("body: {why}"));
    }
    let mut members = Members::parse(body).map_err(|why| format!("body: {why}"))?;
    let applies = matches!(patch_type, PatchType::Apply { .. });
    if !conditions.is_empty() || applies {
        members.edit("metadata", |metadata| {
            for (field, value) in &conditions {
                metadata.set_string(field, value);
            }
            if applies {
                if !object.namespace.is_empty() {
                    metadata.set_string("namespace", &object.namespace);
                }
                metadata.set_string("name", &object.name);
            }
        })?;
    }
    if applies && subresource.is_none_or(|name| WHOLE_OBJECT.contains(&name)) {
        type_of(&mut members, resource, kind);
    }
    Ok(members.text())
}

/// The contract calls a precondition that does not hold a conflict. The API server says so for updates, deletes and versions, but
/// answers a patch with another uid as if the patch were wrong: uids cannot be changed.
pub(crate) fn as_conflict(action: &Action, error: ApiError) -> ApiError {
    let conditional = matches!(action, Action::Patch { preconditions: Preconditions { uid: Some(_), .. }, .. });
    if conditional && error.code == 422 && error.message.contains("metadata.uid: Invalid value") {
        return ApiError { class: ApiErrorClass::Conflict, reason: "Conflict".into(), ..error };
    }
    error
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn resource() -> Arc<ApiResource> {
        Arc::new(ApiResource {
            kind: Kind::new("apps", "v1", "ReplicaSet"),
            plural: "replicasets".into(),
            namespaced: true,
            verbs: Vec::new(),
            subresources: Vec::new(),
            preferred: true,
        })
    }

    fn check(action: Action, expect: Expect) {
        let text = match prepare(&action, Some(&resource()), "me") {
            Err(why) => format!("error: {why}"),
            Ok(None) => "nothing".into(),
            Ok(Some((target, request))) => {
                let request = request.unwrap();
                let body = match request.verb {
                    WriteVerb::Create { body } | WriteVerb::Update { body } | WriteVerb::Patch { body, .. } => body,
                    other => format!("{other:?}"),
                };
                format!("{} [{}/{}] {body}", target.access(), request.namespace, request.name)
            }
        };
        expect.assert_eq(&text);
    }

    fn kind() -> Kind {
        Kind::new("apps", "v1", "ReplicaSet")
    }

    fn create(namespace: &str, object: &str, subresource: Option<&str>) -> Action {
        Action::Create {
            kind: kind(),
            namespace: namespace.into(),
            object: object.into(),
            subresource: subresource.map(Into::into),
        }
    }

    fn update(object: &str, subresource: Option<&str>) -> Action {
        Action::Update { kind: kind(), object: object.into(), subresource: subresource.map(Into::into) }
    }

    fn patch(patch_type: PatchType, body: &str) -> Action {
        Action::Patch {
            kind: kind(),
            object: ObjectKey::new("ns", "a"),
            subresource: None,
            patch_type,
            body: body.into(),
            preconditions: Preconditions { uid: Some("u".into()), resource_version: Some("7".into()) },
        }
    }

    #[test]
    fn creates_are_typed_and_named_by_their_body() {
        check(
            create("ns", r#"{"metadata":{"generateName":"a-"},"kind":"Secret"}"#, None),
            expect![[
                r#"create apps/v1/ReplicaSet ns/ [ns/] {"apiVersion":"apps/v1","metadata":{"generateName":"a-"},"kind":"ReplicaSet"}"#
            ]],
        );
        check(
            create("ns", r#"{"metadata":{"name":"a"}}"#, Some("eviction")),
            expect![[r#"create apps/v1/ReplicaSet (eviction) ns/a [ns/a] {"metadata":{"name":"a"}}"#]],
        );
        check(
            create("ns", r#"{"metadata":{"name":"a","namespace":"other"}}"#, None),
            expect!["error: metadata.namespace differs from the namespace of the create"],
        );
        check(create("", "{}", None), expect![[r#"error: apps/v1/ReplicaSet is namespaced, the namespace is """#]]);
        check(create("ns", "{", None), expect!["error: object: EOF while parsing an object at line 1 column 1"]);
        check(
            create("ns", r#"{"metadata":{"name":"../x"}}"#, None),
            expect![[r#"error: "ns/../x" is not the name of an object"#]],
        );
    }

    #[test]
    fn updates_carry_what_makes_a_late_write_fail() {
        check(
            update(
                r#"{"metadata":{"name":"a","namespace":"ns","resourceVersion":"5"},"status":{"n":1}}"#,
                Some("status"),
            ),
            expect![[
                r#"update apps/v1/ReplicaSet (status) ns/a [ns/a] {"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":"a","namespace":"ns","resourceVersion":"5"},"status":{"n":1}}"#
            ]],
        );
        check(
            update(r#"{"kind":"Scale","metadata":{"name":"a","namespace":"ns","uid":"u"}}"#, Some("scale")),
            expect![[
                r#"update apps/v1/ReplicaSet (scale) ns/a [ns/a] {"kind":"Scale","metadata":{"name":"a","namespace":"ns","uid":"u"}}"#
            ]],
        );
        check(
            update(r#"{"metadata":{"name":"a","namespace":"ns","resourceVersion":""}}"#, None),
            expect!["error: an update must carry metadata.resourceVersion or metadata.uid"],
        );
    }

    #[test]
    fn preconditions_are_in_the_patch() {
        check(
            patch(PatchType::Merge, r#"{"spec":{"replicas":3}}"#),
            expect![[
                r#"patch apps/v1/ReplicaSet ns/a [ns/a] {"metadata":{"resourceVersion":"7","uid":"u"},"spec":{"replicas":3}}"#
            ]],
        );
        check(
            patch(PatchType::StrategicMerge, r#"{"metadata":{"uid":"mine","labels":null}}"#),
            expect![[
                r#"patch apps/v1/ReplicaSet ns/a [ns/a] {"metadata":{"resourceVersion":"7","uid":"u","labels":null}}"#
            ]],
        );
        check(
            patch(PatchType::Apply { field_manager: "me".into(), force: true }, "{}"),
            expect![[
                r#"patch apps/v1/ReplicaSet ns/a [ns/a] {"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":"a","namespace":"ns","resourceVersion":"7","uid":"u"}}"#
            ]],
        );
        check(
            patch(PatchType::Json, r#"[{"op":"remove","path":"/spec"}]"#),
            expect![[
                r#"patch apps/v1/ReplicaSet ns/a [ns/a] [{"op":"replace","path":"/metadata/uid","value":"u"},{"op":"replace","path":"/metadata/resourceVersion","value":"7"},{"op":"remove","path":"/spec"}]"#
            ]],
        );
        check(
            patch(PatchType::Merge, r#"{"metadata":"x"}"#),
            expect![[r#"error: metadata: invalid type: string "x", expected an object at line 1 column 3"#]],
        );
    }

    #[test]
    fn a_patch_of_another_object_is_a_conflict() {
        let error = |message: &str| ApiError {
            class: ApiErrorClass::Invalid,
            code: 422,
            reason: "Invalid".into(),
            message: message.into(),
            causes: Vec::new(),
        };
        let class = |patch_type, message| as_conflict(&patch(patch_type, "{}"), error(message)).class;
        let other_uid = "ReplicaSet.apps \"a\" is invalid: metadata.uid: Invalid value: \"u\": field is immutable";
        assert_eq!(class(PatchType::Merge, other_uid), ApiErrorClass::Conflict);
        assert_eq!(class(PatchType::Merge, "spec.replicas: Invalid value"), ApiErrorClass::Invalid);
        let generic = "the server rejected our request due to an error in our request";
        assert_eq!(class(PatchType::Json, other_uid), ApiErrorClass::Conflict);
        assert_eq!(class(PatchType::Json, generic), ApiErrorClass::Invalid);
    }
}
