//! Create, update and patch.
//!
//! *Flow*: a write computes the new object from the current one without a lock, then commits it if nothing has changed
//! in the meantime, else computes again.
//!
//! ```text
//! body ─> type, name ─> patch ─> strategy, defaults ─> validation ─> managed fields ─> storage version ─> commit
//! ```
//!
//! *Invariants*: 1. a write without changes stores nothing; 2. a client that sends a resourceVersion gets a conflict,
//! one that does not gets a retry; 3. removing the last finalizer of an object that is being deleted removes the
//! object.
//!
//! *Source*: `k8s.io/apiserver/pkg/registry/generic/registry/store.go`.

use std::borrow::Cow;

use pintle_core::object::id::Kind;
use serde_json::{Value, json};

use super::check::{Sent, check_fields, check_name, check_scope, check_type, drop_duplicate_owners};
use super::objects::{carry_over, deletion_grace, finalizers, is_deleting, meta, metadata_mut};
use super::reply::{Reply, media_type, parse_body};
use super::shape::{schema_of, to_stored, to_version};
use super::status::ApiError;
use super::{Api, Call, options, strategy};
use crate::cause::Cause;
use crate::clock::rfc3339;
use crate::discovery::{Resource, crd};
use crate::patch;
use crate::schema;
use crate::store::{CommitError, Entry, WriteContext, WriteVerb, object_key};

/// Names tried for generateName before giving up, as upstream.
const NAME_ATTEMPTS: usize = 8;
/// Longest prefix that leaves room for the generated suffix.
const MAX_PREFIX: usize = 58;
/// Letters of generated suffixes: no vowels and no lookalikes, as upstream.
const SUFFIX_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// Most recomputations of a write without a resourceVersion after concurrent writes.
pub(super) const COMMIT_ATTEMPTS: usize = 100;

/// Result of a write.
pub(crate) enum Written {
    /// It created the object.
    Created(Entry),
    /// It changed the object, or there was nothing to change.
    Updated(Entry),
    /// It removed the last finalizer of an object that was being deleted, and thus the object; its last state.
    Ended(Value),
    /// Dry run: the state that would be stored. True for a create.
    DryRun(Value, bool),
}

/// How `managedFields` of a write are updated.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ownership {
    /// By the write: changing a field makes the client its owner.
    Tracked,
    /// Apply has updated them already.
    Applied,
}

impl Api {
    pub(crate) fn context<'a>(&'a self, call: &'a Call, verb: WriteVerb) -> WriteContext<'a> {
        WriteContext {
            resource: &call.resource,
            subresource: call.subresource(),
            verb,
            user_agent: &call.user_agent,
            faults: &self.faults,
            now: self.clock.now(),
        }
    }

    pub(crate) fn create(&self, call: &Call) -> Result<Reply, ApiError> {
        options::check(&call.query, "CreateOptions")?;
        let object = parse_body(&call.headers, &call.body)?;
        let mut warnings = Vec::new();
        let written = self.create_object(call, object, &mut warnings, WriteVerb::Create)?;
        self.reply_written(call, &written, warnings)
    }

    pub(crate) fn update(&self, call: &Call) -> Result<Reply, ApiError> {
        options::check(&call.query, "UpdateOptions")?;
        let mut body = parse_body(&call.headers, &call.body)?;
        let mut warnings = Vec::new();
        check_type(&call.resource, &mut body, Sent::Body)?;
        check_scope(call, &mut body)?;
        check_name(call, &body)?;
        check_fields(call, &mut body, &mut warnings, Sent::Body)?;
        drop_duplicate_owners(&mut body, &mut warnings);
        let written = match self.update_object(call, WriteVerb::Update, |_| Ok(body.clone())) {
            Err(error) if error.code == 404 && call.resource.create_on_update && call.subresource().is_none() => {
                self.create_object(call, body, &mut warnings, WriteVerb::Update)?
            }
            // Upstream checks the uid before it finds that the object does not exist.
            Err(error) if error.code == 404 && !meta(&body, "uid").is_empty() => {
                return Err(other_uid(call, meta(&body, "uid"), ""));
            }
            other => other?,
        };
        self.reply_written(call, &written, warnings)
    }

    pub(crate) fn patch(&self, call: &Call) -> Result<Reply, ApiError> {
        let mut warnings = Vec::new();
        let media = media_type(&call.headers);
        let force = call.query.get("force").is_some();
        let body = match media.as_str() {
            "application/apply-patch+yaml" => return self.apply(call),
            "application/json-patch+json" | "application/merge-patch+json" => &call.body,
            "application/strategic-merge-patch+json" if call.resource.crd.is_none() => &call.body,
            _ => return Err(unsupported_patch(&call.resource)),
        };
        let forced = Cause::forbidden("force", "may not be specified for non-apply patch");
        options::check_with(&call.query, "PatchOptions", if force { vec![forced] } else { Vec::new() })?;
        let strategic = match media.as_str() {
            "application/strategic-merge-patch+json" => Some(patch::strategic_body(body).map_err(patch_error)?),
            _ => None,
        };
        let written = self.update_object(call, WriteVerb::Patch, |current| {
            let mut new = match (&strategic, media.as_str()) {
                (Some(patch), _) => patch::strategic_merge(schema_of(&call.resource), current, patch.clone()),
                (None, "application/json-patch+json") => patch::json_patch(current, body),
                (None, _) => patch::merge_patch(current, body),
            }
            .map_err(patch_error)?;
            check_type(&call.resource, &mut new, Sent::Patched)?;
            warnings.clear();
            check_fields(call, &mut new, &mut warnings, Sent::Patched)?;
            drop_duplicate_owners(&mut new, &mut warnings);
            check_scope(call, &mut new)?;
            check_name(call, &new)?;
            Ok(new)
        })?;
        self.reply_written(call, &written, warnings)
    }

    /// Replies with the result of a write.
    pub(crate) fn reply_written(
        &self,
        call: &Call,
        written: &Written,
        warnings: Vec<String>,
    ) -> Result<Reply, ApiError> {
        let mut reply = match written {
            Written::Created(entry) => self.reply_object(call, 201, &entry.version),
            Written::Updated(entry) => self.reply_object(call, 200, &entry.version),
            Written::Ended(value) => self.reply_value(call, 200, value),
            Written::DryRun(value, created) => self.reply_value(call, if *created { 201 } else { 200 }, value),
        };
        reply.warnings = warnings;
        if let (Written::Created(entry), Some(notices)) = (written, &self.config.notices) {
            let resource = &call.resource;
            reply
                .warnings
                .extend(notices.created(&Kind::new(&resource.group, &resource.version, &resource.kind), &entry.value));
        }
        Ok(reply)
    }

    /// Creates an object given in the version of the call.
    pub(crate) fn create_object(
        &self,
        call: &Call,
        object: Value,
        warnings: &mut Vec<String>,
        verb: WriteVerb,
    ) -> Result<Written, ApiError> {
        self.create_owned(call, object, warnings, verb, Ownership::Tracked)
    }

    pub(super) fn create_owned(
        &self,
        call: &Call,
        mut object: Value,
        warnings: &mut Vec<String>,
        verb: WriteVerb,
        ownership: Ownership,
    ) -> Result<Written, ApiError> {
        let resource = &call.resource;
        check_type(resource, &mut object, Sent::Body)?;
        check_scope(call, &mut object)?;
        check_fields(call, &mut object, warnings, Sent::Body)?;
        drop_duplicate_owners(&mut object, warnings);
        if !meta(&object, "resourceVersion").is_empty() {
            return Err(ApiError::new(500, "", "resourceVersion should not be set on objects to be created"));
        }
        self.check_not_terminating(resource, meta(&object, "name"))?;
        let dry_run = call.query.dry_run();
        let prefix = meta(&object, "generateName").to_owned();
        let generated = meta(&object, "name").is_empty() && !prefix.is_empty();
        if generated {
            let free = |name: &String| {
                self.store.view(|view| view.get(&resource.storage, &object_key(call.namespace(), name)).is_none())
            };
            let name = std::iter::repeat_with(|| self.generate_name(&prefix)).take(NAME_ATTEMPTS).find(free);
            let name = name.ok_or_else(|| ApiError::generate_name_conflict(&resource.group_resource(), &prefix))?;
            metadata_mut(&mut object).insert("name".into(), json!(name));
        }
        let name = meta(&object, "name").to_owned();
        let key = object_key(call.namespace(), &name);
        let stored = self.prepare_new(call, object, ownership)?;
        self.charge_quotas(call, &stored, None, dry_run)?;
        if dry_run {
            self.store.view(|view| match view.get(&resource.storage, &key) {
                Some(_) => Err(ApiError::already_exists(&resource.group_resource(), &name)),
                None => self.admit_create(view, call, &stored),
            })?;
            let mut value = stored;
            to_version(resource, &mut value);
            return Ok(Written::DryRun(value, true));
        }
        let ctx = self.context(call, verb);
        match self.store.create(&ctx, &key, stored, |view, object| self.admit_create(view, call, object)) {
            Ok(entry) => {
                self.after_commit(resource, &entry.value);
                Ok(Written::Created(entry))
            }
            // Another create took the name after the check.
            Err(CommitError::Exists) if generated => {
                Err(ApiError::generate_name_conflict(&resource.group_resource(), &name))
            }
            Err(CommitError::Exists) => Err(ApiError::already_exists(&resource.group_resource(), &name)),
            Err(CommitError::Api(error)) => Err(error),
            Err(CommitError::Missing | CommitError::Changed) => {
                Err(ApiError::internal("a create found an object to change"))
            }
        }
    }

    /// Sets the server's fields of a new object and returns it in the storage version.
    fn prepare_new(&self, call: &Call, mut object: Value, ownership: Ownership) -> Result<Value, ApiError> {
        let resource = &call.resource;
        let now = self.clock.now();
        let metadata = metadata_mut(&mut object);
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion"] {
            metadata.remove(field);
        }
        metadata.insert("uid".into(), json!(self.uid()));
        metadata.insert("creationTimestamp".into(), json!(rfc3339(now)));
        strategy::prepare_create(resource, &mut object);
        if resource.plural == "customresourcedefinitions" {
            super::crds::complete(&mut object, true);
        }
        self.fill_defaults(resource, &mut object);
        // As upstream, no manager owns fields added by admission.
        if ownership == Ownership::Tracked {
            track(call, None, &mut object, &rfc3339(now));
        }
        strategy::finish_create(resource, &mut object);
        self.admission_defaults(call, &mut object)?;
        self.validate(resource, None, &object)?;
        self.fill_defaults(resource, &mut object);
        to_stored(resource, &mut object);
        Ok(object)
    }

    /// Changes an object: `compute` gets it in the version of the call and returns its successor.
    pub(crate) fn update_object(
        &self,
        call: &Call,
        verb: WriteVerb,
        compute: impl FnMut(&Value) -> Result<Value, ApiError>,
    ) -> Result<Written, ApiError> {
        self.update_owned(call, verb, Ownership::Tracked, compute)
    }

    pub(super) fn update_owned(
        &self,
        call: &Call,
        verb: WriteVerb,
        ownership: Ownership,
        mut compute: impl FnMut(&Value) -> Result<Value, ApiError>,
    ) -> Result<Written, ApiError> {
        let resource = &call.resource;
        let key = call.key();
        let dry_run = call.query.dry_run();
        for _ in 0..COMMIT_ATTEMPTS {
            let entry = self
                .store
                .get(&resource.storage, &key)
                .ok_or_else(|| ApiError::not_found(&resource.group_resource(), call.name()))?;
            let mut current = (*entry.value).clone();
            to_version(resource, &mut current);
            let mut new = compute(&current)?;
            let named_version = !meta(&new, "resourceVersion").is_empty() && matches!(verb, WriteVerb::Update);
            self.prepare_successor(call, verb, &current, &mut new, ownership)?;
            self.charge_quotas(call, &new, Some(&current), dry_run)?;
            if same_but_for_bookkeeping(&current, &new) {
                return Ok(Written::Updated(entry));
            }
            let ends = ends_deletion(&current, &new);
            to_stored(resource, &mut new);
            if dry_run {
                to_version(resource, &mut new);
                return Ok(Written::DryRun(new, false));
            }
            let ctx = self.context(call, verb);
            let last = ends.then(|| new.clone());
            let committed = if ends {
                // As upstream, watchers get the last stored state, which still has the finalizer.
                self.store.remove(&ctx, &key, entry.version.rv, (*entry.value).clone())
            } else {
                self.store.replace(&ctx, &key, entry.version.rv, new)
            };
            match committed {
                Ok(entry) => {
                    if let Some(mut last) = last {
                        self.after_removal(resource, &entry.value);
                        to_version(resource, &mut last);
                        return Ok(Written::Ended(last));
                    }
                    self.after_commit(resource, &entry.value);
                    return Ok(Written::Updated(entry));
                }
                Err(CommitError::Changed) if named_version => {
                    return Err(ApiError::modified(&resource.group_resource(), call.name()));
                }
                Err(CommitError::Changed) => {}
                Err(CommitError::Missing) => return Err(ApiError::not_found(&resource.group_resource(), call.name())),
                Err(CommitError::Api(error)) => return Err(error),
                Err(CommitError::Exists) => return Err(ApiError::internal("an update found its name taken")),
            }
        }
        Err(ApiError::modified(&resource.group_resource(), call.name()))
    }

    /// Checks preconditions of the successor of `old` and completes it.
    fn prepare_successor(
        &self,
        call: &Call,
        verb: WriteVerb,
        old: &Value,
        new: &mut Value,
        ownership: Ownership,
    ) -> Result<(), ApiError> {
        let resource = &call.resource;
        check_preconditions(call, verb, old, new)?;
        check_unchanged_metadata(call, old, new)?;
        keep_server_metadata(old, new);
        // First: a change without effect on the stored form has none for the strategy either.
        self.fill_defaults(resource, new);
        let mut before = Cow::Borrowed(old);
        if call.subresource().is_none()
            && resource.crd.is_none()
            && old["spec"] != new["spec"]
            && let Some(schema) = schema_of(resource)
        {
            schema::reword(&schema, before.to_mut(), new);
        }
        strategy::prepare_update(resource, call.subresource(), &before, new);
        if resource.plural == "customresourcedefinitions" {
            super::crds::complete(new, false);
        }
        // These two change fields of the Pod that an update may not change.
        if !matches!(call.subresource(), Some("binding" | "eviction")) {
            self.validate(resource, Some(&before), new)?;
            if ownership == Ownership::Tracked {
                track(call, Some(old), new, &rfc3339(self.clock.now()));
            }
        }
        Ok(())
    }

    /// Defaults of the kind.
    pub(super) fn fill_defaults(&self, resource: &Resource, object: &mut Value) {
        if let Some(custom) = &resource.crd {
            if let Some(open_api) = &custom.open_api {
                crd::apply_structural_defaults(open_api, object);
            }
        } else {
            crate::defaults::apply_defaults(&resource.group, &resource.version, &resource.kind, object);
        }
    }
}

/// Rejects a successor with another version or identity than `old`.
fn check_preconditions(call: &Call, verb: WriteVerb, old: &Value, new: &Value) -> Result<(), ApiError> {
    let resource = &call.resource;
    let version = meta(new, "resourceVersion");
    if version.is_empty() || version == "0" {
        if resource.conditional_update {
            let cause = Cause::invalid("metadata.resourceVersion", &0.into(), "must be specified for an update");
            // Upstream has the resource here, where other messages have the kind.
            return Err(ApiError::invalid(&resource.group, &resource.plural, call.name(), vec![cause]));
        }
    } else if version != meta(old, "resourceVersion") {
        return Err(ApiError::modified(&resource.group_resource(), call.name()));
    }
    let uid = meta(new, "uid");
    // An update refers to the object with this uid; a patch would change it.
    if verb == WriteVerb::Update && !uid.is_empty() && uid != meta(old, "uid") {
        return Err(other_uid(call, uid, meta(old, "uid")));
    }
    Ok(())
}

/// Rejects changes of metadata that only the server sets.
fn check_unchanged_metadata(call: &Call, old: &Value, new: &Value) -> Result<(), ApiError> {
    let mut causes = Vec::new();
    let fields = ["name", "namespace", "uid", "deletionTimestamp"];
    for field in fields.iter().filter(|field| **field != "deletionTimestamp" || !is_deleting(old)) {
        let wanted = meta(new, field);
        if !wanted.is_empty() && wanted != meta(old, field) {
            causes.push(Cause::invalid(format!("metadata.{field}"), &wanted.into(), "field is immutable"));
        }
    }
    if is_deleting(old) {
        let before = finalizers(old);
        let mut added = finalizers(new);
        added.retain(|finalizer| !before.contains(finalizer));
        if !added.is_empty() {
            let why = "no new finalizers can be added if the object is being deleted, found new finalizers";
            causes.push(Cause::forbidden("metadata.finalizers", &format!("{why} {}", added.join(", "))));
        }
    }
    let resource = &call.resource;
    if causes.is_empty() {
        Ok(())
    } else {
        Err(ApiError::invalid(&resource.group, &resource.kind, call.name(), causes))
    }
}

/// Restores the metadata that only the server sets.
fn keep_server_metadata(old: &Value, new: &mut Value) {
    let old_metadata = old.get("metadata").and_then(Value::as_object);
    let metadata = metadata_mut(new);
    for field in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "generateName",
        "resourceVersion",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        carry_over(metadata, old_metadata, field);
    }
    metadata.remove("selfLink");
    if finalizers(new).is_empty() {
        metadata_mut(new).remove("finalizers");
    }
}

/// The conflict for a client whose uid differs from that of the current object with this name.
fn other_uid(call: &Call, wanted: &str, found: &str) -> ApiError {
    let why = format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}");
    ApiError::conflict(&call.resource.group_resource(), call.name(), &why)
}

/// Whether a delete was only waiting for this write.
fn ends_deletion(old: &Value, new: &Value) -> bool {
    let spec_finalizers = new["kind"] == "Namespace"
        && new.pointer("/spec/finalizers").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    finalizers(new).is_empty() && !spec_finalizers && is_deleting(old) && deletion_grace(old).unwrap_or(0) == 0
}

fn same_but_for_bookkeeping(old: &Value, new: &Value) -> bool {
    if old == new {
        return true;
    }
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else { return false };
    let rest = |fields: &serde_json::Map<String, Value>| fields.iter().filter(|(name, _)| *name != "metadata").count();
    if rest(old) != rest(new) || old.iter().any(|(name, value)| name != "metadata" && new.get(name) != Some(value)) {
        return false;
    }
    let (Some(old), Some(new)) = (old["metadata"].as_object(), new["metadata"].as_object()) else { return false };
    let same = |left: &serde_json::Map<String, Value>, right: &serde_json::Map<String, Value>| {
        left.iter().filter(|(name, _)| *name != "managedFields").all(|(name, value)| right.get(name) == Some(value))
    };
    same(old, new) && same(new, old) && same_owners(old.get("managedFields"), new.get("managedFields"))
}

/// Updates `managedFields` of a write other than an apply.
pub(super) fn track(call: &Call, old: Option<&Value>, new: &mut Value, now: &str) {
    crate::apply::track_update(schema_of(&call.resource), old, new, call.field_manager(), call.subresource(), now);
}

/// Whether field ownership is equal, ignoring times.
fn same_owners(old: Option<&Value>, new: Option<&Value>) -> bool {
    let entries = |list: Option<&Value>| list.and_then(Value::as_array).cloned().unwrap_or_default();
    let (mut old, mut new) = (entries(old), entries(new));
    for entry in old.iter_mut().chain(&mut new) {
        if let Some(entry) = entry.as_object_mut() {
            entry.remove("time");
        }
    }
    old == new
}

fn patch_error(error: patch::PatchError) -> ApiError {
    match error {
        patch::PatchError::Malformed(message) => ApiError::bad_request(message),
        patch::PatchError::Conflict(message) => ApiError::new(409, "Conflict", message),
        patch::PatchError::Invalid(message) => {
            tracing::debug!(error = message, "a patch does not fit");
            let mut error =
                ApiError::new(422, "Invalid", "the server rejected our request due to an error in our request");
            error.details.always = true;
            error
        }
    }
}

fn unsupported_patch(resource: &Resource) -> ApiError {
    if resource.crd.is_some() {
        return ApiError::unsupported_media_type(
            "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
        );
    }
    // Upstream's router rejects formats that no built-in kind supports.
    let mut error = ApiError::new(415, "UnsupportedMediaType", "415: Unsupported Media Type");
    error.details.always = true;
    error
}

impl Api {
    /// A generated name: a prefix and a random suffix, as upstream.
    pub(super) fn generate_name(&self, prefix: &str) -> String {
        let prefix = prefix.get(..MAX_PREFIX).unwrap_or(prefix);
        let letter = || char::from(SUFFIX_LETTERS[self.random(0..SUFFIX_LETTERS.len())]);
        let suffix: String = std::iter::repeat_with(letter).take(5).collect();
        format!("{prefix}{suffix}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SimConfig;

    #[test]
    fn generated_names_fit_a_label() {
        let api = Api::new(SimConfig::default(), crate::SimClock::real());
        let name = api.generate_name(&"x".repeat(80));
        assert_eq!(name.len(), 63);
        assert!(api.generate_name("web-").starts_with("web-"));
    }
}
