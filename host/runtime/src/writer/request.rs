//! Converts a mutation into its API request.
//!
//! Invariants:
//! 1. The checked request is the one that is sent: names come from the body where the API server reads them there.
//! 2. The body of a patch contains its preconditions.
//! 3. An update without `resourceVersion` or `uid` is rejected: it could overwrite a state that the plugin has not
//!    seen.

use std::sync::Arc;

use pintle_core::contract::outcome::{Action, PatchType, Preconditions};
use pintle_core::object::id::{Kind, ObjectKey};
use pintle_core::object::version::Uid;
use pintle_core::policy::grants::{Access, is_path_segment};
use pintle_core::ports::api::{ApiError, ApiErrorClass, ApiResource, WriteRequest, WriteVerb};
use pintle_core::ports::trace::TracedRequest;
use serde_json::value::RawValue;

use super::edit::{Members, elements, leave, quote};

/// Subresources whose body is the main object.
const WHOLE_OBJECT: [&str; 4] = ["status", "approval", "finalize", "resize"];

/// The target of a write, also if the write cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WriteTarget {
    /// Verb, as in `MutationFailure`.
    pub(crate) verb: &'static str,
    pub(crate) kind: Kind,
    /// The name is empty for generated names and collections.
    pub(crate) object: ObjectKey,
    pub(crate) subresource: Option<String>,
}

impl WriteTarget {
    /// The request as part of a recorded run.
    pub(crate) fn traced(&self) -> TracedRequest {
        TracedRequest {
            verb: self.verb,
            method: None,
            kind: Some(self.kind.clone()),
            object: self.object.clone(),
            path: None,
            subresource: self.subresource.clone(),
            code: None,
            result: "ok",
            reason: None,
            is_tolerated: false,
            n_resent: 0,
        }
    }

    pub(crate) fn access(&self) -> Access<'_> {
        Access {
            verb: if self.verb == "delete-collection" { "deletecollection" } else { self.verb },
            kind: &self.kind,
            subresource: self.subresource.as_deref(),
            namespace: &self.object.namespace,
            name: &self.object.name,
            signer: None,
        }
    }

    /// The error that an API server would return because no object can have this name, or because the namespace does
    /// not fit the scope of the resource. Names come from the contents of objects, so this is a failed write and not a
    /// fault.
    fn impossible(&self, resource: Option<&ApiResource>) -> Option<ApiError> {
        let (namespace, name) = (&*self.object.namespace, &*self.object.name);
        let error = |class, code, reason: &str, message| {
            Some(ApiError { class, code, reason: reason.into(), message, causes: Vec::new() })
        };
        // Creates and collections have no name in their path.
        let is_nameless = self.verb == "create" && self.subresource.is_none() || self.verb == "delete-collection";
        if (!namespace.is_empty() && !is_path_segment(namespace)) || (!is_nameless && !is_path_segment(name)) {
            let message = format!("no object can have the name {:?}", self.object.to_string());
            return error(ApiErrorClass::NotFound, 404, "NotFound", message);
        }
        // A collection of a namespaced kind without a namespace would include all namespaces.
        match resource.map(|resource| resource.namespaced) {
            Some(namespaced) if namespaced == namespace.is_empty() => {
                let is = if namespaced { "namespaced" } else { "cluster-scoped" };
                let message = format!("{} is {is}, the namespace is {namespace:?}", self.kind);
                error(ApiErrorClass::Invalid, 400, "BadRequest", message)
            }
            _ => None,
        }
    }
}

/// The kind that an action writes; `None` for an event without a mutation.
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

/// A mutation with its text parsed once, for both the check and the request.
pub(super) struct ParsedWrite<'a> {
    pub(super) action: &'a Action,
    pub(super) target: WriteTarget,
    pub(super) body: Body<'a>,
    /// The required uid of the target, if the plugin sets one.
    pub(super) uid: Option<String>,
    /// The error if no API server can execute the write. Such a write must not be sent.
    pub(super) impossible: Option<ApiError>,
}

/// The body of a write.
pub(super) enum Body<'a> {
    Nothing,
    /// An object, or members to merge into it.
    Object(ObjectText<'a>),
    /// A JSON patch.
    Operations(Vec<&'a RawValue>),
}

/// The text of an object or of a part of it.
pub(super) struct ObjectText<'a> {
    pub(super) members: Members<'a>,
    /// An error if `metadata` is present and not an object.
    metadata: Result<Option<Members<'a>>, String>,
}

impl<'a> ObjectText<'a> {
    fn parse(text: &'a str) -> Result<Self, String> {
        let members = Members::parse(text)?;
        let metadata = members.original("metadata").map(Members::parse).transpose();
        Ok(Self { members, metadata: metadata.map_err(|why| format!("metadata: {why}")) })
    }

    /// The members of `metadata`; absent if there is none.
    ///
    /// # Errors
    /// If `metadata` is not an object.
    pub(super) fn metadata(&self) -> Result<Option<&Members<'a>>, String> {
        self.metadata.as_ref().map(Option::as_ref).map_err(String::clone)
    }

    /// A string field of `metadata`.
    fn field(&self, name: &str) -> Result<Option<String>, String> {
        let field = self.metadata()?.map(|metadata| metadata.string(name)).transpose();
        field.map(Option::flatten).map_err(|why| format!("metadata: {why}"))
    }

    /// Checks that no directive replaces or deletes the object or its metadata, which would remove preconditions.
    fn replaces_nothing(&self) -> Result<(), String> {
        let metadata = self.metadata()?.into_iter().flat_map(Members::names);
        match self.members.names().chain(metadata).any(|name| name == "$patch") {
            true => Err("body: the directive $patch of the object or its metadata could undo a precondition".into()),
            false => Ok(()),
        }
    }

    /// Sets string fields of `metadata`.
    fn set_in_metadata(&mut self, fields: &[(&str, &str)]) -> Result<(), String> {
        let metadata = self.metadata.as_mut().map_err(|why| why.clone())?.get_or_insert_default();
        for (name, value) in fields {
            metadata.set_string(name, value);
        }
        self.members.set("metadata", metadata.text());
        Ok(())
    }

    /// Sets `apiVersion` and `kind`.
    fn set_type(&mut self, kind: &Kind) {
        self.members.set_string("kind", &kind.name);
        self.members.set_string("apiVersion", &kind.api_version());
    }
}

impl<'a> ParsedWrite<'a> {
    /// Parses an action; `None` for an event without a mutation. `resource` is absent if the API server does not have
    /// the kind.
    ///
    /// # Errors
    /// A violation of the contract: a fault of the plugin.
    pub(super) fn parse(action: &'a Action, resource: Option<&ApiResource>) -> Result<Option<Self>, String> {
        let Some(kind) = kind_of(action) else { return Ok(None) };
        let (verb, body) = match action {
            Action::Event(_) => return Ok(None),
            Action::Create { object, .. } => ("create", Body::object(object, "object")?),
            Action::Update { object, .. } => ("update", Body::object(object, "object")?),
            Action::Patch { patch_type: PatchType::Json, body, .. } => ("patch", Body::operations(body)?),
            Action::Patch { body, .. } => ("patch", Body::object(body, "body")?),
            Action::Delete { .. } => ("delete", Body::Nothing),
            Action::DeleteCollection { .. } => ("delete-collection", Body::Nothing),
        };
        let field = |name| match &body {
            Body::Object(text) => text.field(name),
            Body::Nothing | Body::Operations(_) => Ok(None),
        };
        let mut given_uid = None;
        let (object, subresource) = match action {
            Action::Create { namespace, subresource, .. } => {
                if field("namespace")?.is_some_and(|inner| inner != *namespace && !inner.is_empty()) {
                    return Err("metadata.namespace differs from the namespace of the create".into());
                }
                let name = field("name")?.unwrap_or_default();
                if subresource.is_some() && name.is_empty() {
                    return Err("metadata.name must name the parent of the subresource".into());
                }
                (ObjectKey::new(namespace, &name), subresource.clone())
            }
            Action::Update { subresource, .. } => {
                let given = |text: &String| !text.is_empty();
                let Some(name) = field("name")?.filter(given) else {
                    return Err("metadata.name must name the object".into());
                };
                given_uid = field("uid")?.filter(given);
                if field("resourceVersion")?.filter(given).is_none() && given_uid.is_none() {
                    return Err("an update must carry metadata.resourceVersion or metadata.uid".into());
                }
                (ObjectKey::new(&field("namespace")?.unwrap_or_default(), &name), subresource.clone())
            }
            Action::Patch { object, subresource, patch_type, preconditions, .. } => {
                if let Body::Object(text) = &body
                    && (!conditions(preconditions).is_empty() || applies(patch_type))
                {
                    text.metadata()?;
                }
                given_uid = preconditions.uid.clone();
                (object.clone(), subresource.clone())
            }
            Action::Delete { object, preconditions, .. } => {
                given_uid = preconditions.uid.clone();
                (object.clone(), None)
            }
            Action::DeleteCollection { namespace, .. } => (ObjectKey::new(namespace, ""), None),
            Action::Event(_) => return Ok(None),
        };
        let target = WriteTarget { verb, kind: kind.clone(), object, subresource };
        let impossible = target.impossible(resource);
        Ok(Some(Self { action, target, body, uid: given_uid, impossible }))
    }

    /// Builds the request, restricted to the object with the given uid. `manager` is the default field manager.
    ///
    /// # Errors
    /// If the body has no place for the uid: a fault of the plugin.
    pub(super) fn render(
        self,
        resource: &Arc<ApiResource>,
        manager: &str,
        pin: Option<&Uid>,
    ) -> Result<WriteRequest, String> {
        let Self { action, target, body, uid, impossible } = self;
        if let Some(error) = impossible {
            return Err(error.message);
        }
        let pin = pin.filter(|_| uid.is_none()).map(ToString::to_string);
        let whole = target.subresource.as_deref().is_none_or(|name| WHOLE_OBJECT.contains(&name));
        let verb = match (action, body) {
            (Action::Create { subresource, .. }, Body::Object(mut text)) => {
                if subresource.is_none() {
                    text.set_type(&resource.kind);
                }
                WriteVerb::Create { body: text.members.text() }
            }
            (Action::Update { .. }, Body::Object(mut text)) => {
                if let Some(uid) = &pin {
                    text.set_in_metadata(&[("uid", uid)])?;
                }
                if whole {
                    text.set_type(&resource.kind);
                }
                WriteVerb::Update { body: text.members.text() }
            }
            (Action::Patch { object, patch_type, preconditions, .. }, body) => {
                let preconditions = pinned(preconditions, pin);
                let mut fields = conditions(&preconditions);
                let body = match body {
                    Body::Operations(operations) => {
                        if !fields.is_empty() {
                            leave(&operations, &fields)?;
                        }
                        with_conditions(&operations, &fields)
                    }
                    Body::Object(mut text) => {
                        if *patch_type == PatchType::StrategicMerge && !fields.is_empty() {
                            text.replaces_nothing()?;
                        }
                        if applies(patch_type) {
                            if !object.namespace.is_empty() {
                                fields.push(("namespace", &object.namespace));
                            }
                            fields.push(("name", &object.name));
                        }
                        if !fields.is_empty() {
                            text.set_in_metadata(&fields)?;
                        }
                        if applies(patch_type) && whole {
                            text.set_type(&resource.kind);
                        }
                        text.members.text()
                    }
                    Body::Nothing => String::new(),
                };
                let mut patch_type = patch_type.clone();
                if let PatchType::Apply { field_manager, .. } = &mut patch_type
                    && field_manager.is_empty()
                {
                    *field_manager = manager.to_owned();
                }
                WriteVerb::Patch { patch_type, body }
            }
            (Action::Delete { preconditions, propagation, grace_period_seconds, .. }, _) => WriteVerb::Delete {
                preconditions: pinned(preconditions, pin),
                propagation: *propagation,
                grace_period_seconds: *grace_period_seconds,
            },
            (Action::DeleteCollection { label_selector, propagation, .. }, _) => {
                WriteVerb::DeleteCollection { label_selector: label_selector.clone(), propagation: *propagation }
            }
            (Action::Create { .. } | Action::Update { .. } | Action::Event(_), _) => {
                return Err("there is no object to write".into());
            }
        };
        // A create names its object only in the body, unless it creates a subresource.
        let in_path = target.verb != "create" || target.subresource.is_some();
        Ok(WriteRequest {
            resource: resource.clone(),
            namespace: target.object.namespace.to_string(),
            name: if in_path { target.object.name.to_string() } else { String::new() },
            subresource: target.subresource,
            verb,
        })
    }
}

impl<'a> Body<'a> {
    fn object(text: &'a str, what: &str) -> Result<Self, String> {
        ObjectText::parse(text).map(Self::Object).map_err(|why| format!("{what}: {why}"))
    }

    fn operations(text: &'a str) -> Result<Self, String> {
        elements(text).map(Self::Operations).map_err(|why| format!("body: {why}"))
    }
}

/// Whether it is a server-side apply, which requires the object's type and name in the body.
fn applies(patch_type: &PatchType) -> bool {
    matches!(patch_type, PatchType::Apply { .. })
}

/// Metadata fields whose values are preconditions of a write.
fn conditions(preconditions: &Preconditions) -> Vec<(&str, &str)> {
    let conditions = [("uid", &preconditions.uid), ("resourceVersion", &preconditions.resource_version)];
    conditions.into_iter().filter_map(|(field, value)| value.as_deref().map(|value| (field, value))).collect()
}

fn pinned(preconditions: &Preconditions, pin: Option<String>) -> Preconditions {
    let mut preconditions = preconditions.clone();
    preconditions.uid = preconditions.uid.or(pin);
    preconditions
}

/// A JSON patch that starts with operations that fail unless the preconditions hold.
fn with_conditions(operations: &[&RawValue], conditions: &[(&str, &str)]) -> String {
    // `replace` rather than `test`: the server does not report which `test` failed. Replacing a value with itself
    // changes nothing.
    let claim = |(field, value): &(&str, &str)| {
        format!(r#"{{"op":"replace","path":"/metadata/{field}","value":{}}}"#, quote(value))
    };
    let claims = conditions.iter().map(claim);
    let all: Vec<String> = claims.chain(operations.iter().map(|one| one.get().to_owned())).collect();
    format!("[{}]", all.join(","))
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
        let resource = resource();
        let rendered = ParsedWrite::parse(&action, Some(&resource)).and_then(|write| {
            let write = write.unwrap();
            let target = write.target.clone();
            Ok((target, write.render(&resource, "me", None)?))
        });
        let text = match rendered {
            Err(why) => format!("error: {why}"),
            Ok((target, request)) => {
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
            create("ns", r#"{"metadata":{"name":"../x"}}"#, Some("eviction")),
            expect![[r#"error: no object can have the name "ns/../x""#]],
        );
        check(
            create("a/b", r#"{"metadata":{"name":"x"}}"#, None),
            expect![[r#"error: no object can have the name "a/b/x""#]],
        );
        // Only the body contains the name, and the API server validates it.
        check(
            create("ns", r#"{"metadata":{"name":"../x"}}"#, None),
            expect![[
                r#"create apps/v1/ReplicaSet ns/../x [ns/] {"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":"../x"}}"#
            ]],
        );
    }

    #[test]
    fn updates_carry_the_preconditions_that_make_a_late_write_fail() {
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
    fn no_patch_takes_its_preconditions_back() {
        let kept = |patch_type: PatchType, body: &str, has_uid: bool| {
            let (uid, resource_version) = if has_uid { (Some("u".into()), None) } else { (None, Some("7".into())) };
            let mut action = patch(patch_type, body);
            if let Action::Patch { preconditions, .. } = &mut action {
                *preconditions = Preconditions { uid, resource_version };
            }
            let resource = resource();
            ParsedWrite::parse(&action, Some(&resource)).unwrap().unwrap().render(&resource, "me", None).map(|_| ())
        };
        let one = |operation: &str, has_uid: bool| kept(PatchType::Json, &format!("[{operation}]"), has_uid);
        for operation in [
            r#"{"op":"remove","path":"/metadata/uid"}"#,
            r#"{"op":"replace","path":"/metadata/uid","value":"other"}"#,
            r#"{"op":"add","path":"/metadata/u\u0069d","value":"other"}"#,
            r#"{"op":"replace","path":"/metadata","value":{}}"#,
            r#"{"op":"replace","path":"","value":{}}"#,
            // The API server ignores text before the first slash.
            r#"{"op":"remove","path":"x/metadata/uid"}"#,
            r#"{"op":"move","from":"/metadata/uid","path":"/spec/x"}"#,
            r#"{"op":"move","from":"/metadata","path":"/spec/x"}"#,
            r#"{"op":"copy","from":"/spec/x","path":"/metadata/uid"}"#,
            r#"{"op":"copy","from":"/spec/x","path":"/metadata"}"#,
            r#"{"op":"remove","path":"/spec/x","Path":"/metadata/uid"}"#,
        ] {
            assert!(one(operation, true).is_err(), "{operation}");
        }
        assert_eq!(
            one(r#"{"op":"remove","path":"/metadata/resourceVersion"}"#, false),
            Err(r#"body: "remove" at "/metadata/resourceVersion" could undo a precondition"#.into())
        );
        for operation in [
            r#"{"op":"test","path":"/metadata/uid","value":"u"}"#,
            // The plugin's own precondition.
            r#"{"op":"replace","path":"/metadata/resourceVersion","value":"5"}"#,
            r#"{"op":"remove","path":"/metadata/annotations/uid"}"#,
            r#"{"op":"remove","path":"/spec/metadata/uid"}"#,
            r#"{"op":"copy","from":"/metadata/uid","path":"/spec/x"}"#,
        ] {
            assert_eq!(one(operation, true), Ok(()), "{operation}");
        }
        for body in [r#"{"$patch":"replace"}"#, r#"{"metadata":{"$patch":"delete"}}"#] {
            assert!(kept(PatchType::StrategicMerge, body, true).is_err(), "{body}");
        }
        let removes_a_finalizer = r#"{"metadata":{"$deleteFromPrimitiveList/finalizers":["a"]}}"#;
        assert_eq!(kept(PatchType::StrategicMerge, removes_a_finalizer, true), Ok(()));
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
            patch(PatchType::Json, "{}"),
            expect!["error: body: invalid type: map, expected a list at line 1 column 2"],
        );
        check(
            patch(PatchType::Merge, r#"{"metadata":"x"}"#),
            expect![[r#"error: metadata: invalid type: string "x", expected an object at line 1 column 3"#]],
        );
    }
}
