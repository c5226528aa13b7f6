//! ControllerRevisions: the history of the Pod template of a StatefulSet, a DaemonSet or a custom kind.
//!
//! A revision holds a patch that restores a template. Controllers find the revision of the current template by
//! comparing patches, so another controller that continues the history must write the same bytes: [`template_patch`].
//!
//! ```
//! use plugin_lib::history::{self, Proposal};
//! use serde_json::json;
//!
//! let data = history::template_patch(&json!({"spec": {"containers": [{"name": "web", "image": "a<b"}]}}))?;
//! assert_eq!(
//!     data,
//!     r#"{"spec":{"template":{"$patch":"replace","spec":{"containers":[{"image":"a\u003cb","name":"web"}]}}}}"#
//! );
//! let proposal = Proposal::new("web", data, history::next_number(&[]), Some(0));
//! assert!(proposal.name.starts_with("web-") && proposal.number == 1);
//! # Ok::<(), pintle_sdk::Error>(())
//! ```
//!
//! In the manifest, watch `apps/v1/ControllerRevision` as `whole`, and with [`ControllerRevision`]'s fields for lists.
//!
//! *Source*: Kubernetes' `pkg/controller/history/controller_history.go`, `statefulset/stateful_set_utils.go`,
//! `statefulset/stateful_set_control.go` and `daemon/update.go`. Upstream, the name of a DaemonSet's revision is a hash
//! of a dump of Go's structs; here it is built as for a StatefulSet. DaemonSets find revisions by content, not by name.

use std::collections::BTreeMap;

use pintle_sdk::Error;
use pintle_sdk::Kind;
use pintle_sdk::api::meta::{Metadata, ObjectMeta, OwnerReference};
use pintle_sdk::equality;
use pintle_sdk::hash::{fnv32, safe_encode};
use pintle_sdk::json;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};

use crate::pods::complete_template;

pintle_sdk::types!("apps/v1/ControllerRevision": [
    "metadata.labels",
    "metadata.ownerReferences",
    "metadata.creationTimestamp",
    "metadata.deletionTimestamp",
    "data",
    "revision",
]);

/// Label of a StatefulSet's revision: the hash in its name.
#[doc(alias = "ControllerRevisionHashLabel")]
pub const HASH_LABEL: &str = "controller.kubernetes.io/hash";

/// Label of Pods with their revision: the revision's name for a StatefulSet, the hash in it for a DaemonSet. DaemonSets
/// also set it on the revision.
#[doc(alias = "ControllerRevisionHashLabelKey")]
#[doc(alias = "DefaultDaemonSetUniqueLabelKey")]
pub const POD_LABEL: &str = "controller-revision-hash";

/// Path of the template in the data.
const TEMPLATE: &str = "/spec/template";

/// Most bytes of the owner's name in a revision's name.
const LONGEST_PREFIX: usize = 223;

/// The patch that replaces `spec.template`: byte for byte what kube-controller-manager writes for this template.
///
/// Pass the template as the API server served it, such as a [`Raw`](pintle_sdk::api::meta::Raw) or a [`Value`]: fields that a type
/// leaves out or adds change the bytes.
///
/// # Errors
/// Terminal, if the template is not an object.
#[doc(alias = "getPatch")]
pub fn template_patch<T: Serialize + ?Sized>(template: &T) -> Result<String, Error> {
    let Value::Object(mut template) = serde_json::to_value(template)? else {
        return Err(Error::terminal("the template of a revision is not an object"));
    };
    template.insert("$patch".into(), "replace".into());
    let mut text = r#"{"spec":{"template":"#.to_owned();
    write_object(&template, &mut text);
    text.push_str("}}");
    Ok(text)
}

/// Writes a value as Go's `encoding/json` writes a value decoded without a type.
fn write(value: &Value, text: &mut String) {
    match value {
        Value::Object(members) => write_object(members, text),
        Value::Array(items) => {
            text.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    text.push(',');
                }
                write(item, text);
            }
            text.push(']');
        }
        Value::String(string) => write_string(string, text),
        Value::Number(number) => text.push_str(&go_number(number)),
        Value::Null | Value::Bool(_) => text.push_str(&json(value)),
    }
}

fn write_object(members: &Map<String, Value>, text: &mut String) {
    let mut members: Vec<_> = members.iter().collect();
    members.sort_unstable_by_key(|(name, _)| *name);
    text.push('{');
    for (i, (name, value)) in members.into_iter().enumerate() {
        if i > 0 {
            text.push(',');
        }
        write_string(name, text);
        text.push(':');
        write(value, text);
    }
    text.push('}');
}

fn write_string(string: &str, text: &mut String) {
    // Quotes, backslashes and control characters are escaped as in other JSON writers.
    for character in json(string).chars() {
        match character {
            '<' => text.push_str("\\u003c"),
            '>' => text.push_str("\\u003e"),
            '&' => text.push_str("\\u0026"),
            '\u{2028}' => text.push_str("\\u2028"),
            '\u{2029}' => text.push_str("\\u2029"),
            other => text.push(other),
        }
    }
}

/// Go decodes numbers as 64-bit floats, so integers beyond 2^53 lose digits.
fn go_number(number: &Number) -> String {
    let float = number.as_f64().unwrap_or_default();
    if float != 0.0 && !(1e-6..1e21).contains(&float.abs()) {
        let text = format!("{float:e}");
        return if text.contains("e-") { text } else { text.replace('e', "e+") };
    }
    float.to_string()
}

/// The hash in a revision's name: of its data, and of the number of name collisions. A StatefulSet begins with
/// `Some(0)`.
#[doc(alias = "HashControllerRevision")]
pub fn hash(data: &str, collision_count: Option<i32>) -> String {
    let mut bytes = data.as_bytes().to_vec();
    if let Some(count) = collision_count {
        bytes.extend_from_slice(count.to_string().as_bytes());
    }
    safe_encode(&fnv32(&bytes).to_string())
}

/// Name of a revision: the owner's name, shortened to 223 bytes, and the hash.
#[doc(alias = "ControllerRevisionName")]
pub fn name(owner: &str, hash: &str) -> String {
    let end = (0..=owner.len().min(LONGEST_PREFIX)).rev().find(|end| owner.is_char_boundary(*end)).unwrap_or(0);
    format!("{}-{hash}", &owner[..end])
}

/// Sorts by number, then creation time, then name.
#[doc(alias = "SortControllerRevisions")]
pub fn sort(revisions: &mut [ControllerRevision]) {
    let order = |revision: &ControllerRevision| (revision.revision, revision.metadata.creation_timestamp);
    revisions.sort_by(|a, b| order(a).cmp(&order(b)).then_with(|| a.metadata.name.cmp(&b.metadata.name)));
}

/// One more than the highest number; 1 for the first.
#[doc(alias = "nextRevision")]
#[doc(alias = "maxRevision")]
pub fn next_number(revisions: &[ControllerRevision]) -> i64 {
    revisions.iter().map(|revision| revision.revision).max().unwrap_or(0).max(0).saturating_add(1)
}

/// Whether a revision holds exactly these bytes.
#[doc(alias = "EqualRevision")]
pub fn is_identical(revision: &ControllerRevision, data: &str) -> bool {
    revision.data.text() == data
}

/// Whether a revision has the same template, ignoring the order of fields, escapes, absent and empty lists, and fields
/// that an older version did not default.
///
/// Upstream restores the newest revision of a StatefulSet, completes it with its own defaults, and compares again
/// (feature gate `StatefulSetSemanticRevisionComparison`).
#[doc(alias = "setMatchesLatestExistingRevision")]
pub fn is_equivalent(revision: &ControllerRevision, data: &str) -> bool {
    if is_identical(revision, data) {
        return true;
    }
    let Ok(mut data) = serde_json::from_str::<Value>(data) else { return false };
    let mut stored = revision.data.value();
    if let (Some(template), Some(other)) = (stored.pointer_mut(TEMPLATE), data.pointer_mut(TEMPLATE)) {
        complete_template(template);
        complete_template(other);
    }
    equality::semantic(&stored, &data)
}

/// The Pod template that a revision restores.
///
/// # Errors
/// Terminal, if its data is not a patch of `spec.template`.
#[doc(alias = "ApplyRevision")]
pub fn template(revision: &ControllerRevision) -> Result<Value, Error> {
    let mut data = revision.data.value();
    let template = data.pointer_mut(TEMPLATE).and_then(Value::as_object_mut).map(std::mem::take);
    match template {
        Some(mut template) if template.get("$patch").is_some_and(|patch| patch == "replace") => {
            // Keeps the order of the other fields.
            template.shift_remove("$patch");
            Ok(Value::Object(template))
        }
        _ => Err(Error::terminal(format!(
            "revision {} does not replace spec.template; delete it to continue",
            revision.metadata.name
        ))),
    }
}

/// A revision that does not exist yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// Name of the object.
    pub name: String,
    /// The hash in the name.
    pub hash: String,
    /// The patch.
    pub data: String,
    /// Number in the history.
    pub number: i64,
}

impl Proposal {
    /// A revision of an owner. `collision_count` comes from the owner's status.
    #[doc(alias = "newRevision")]
    pub fn new(owner: &str, data: String, number: i64, collision_count: Option<i32>) -> Self {
        let hash = hash(&data, collision_count);
        Self { name: name(owner, &hash), hash, data, number }
    }

    /// Whether an existing object with this name is another revision, so that the collision count must grow. Otherwise
    /// an earlier run created it, and it is this revision.
    #[doc(alias = "CreateControllerRevision")]
    pub fn collides_with(&self, existing: &ControllerRevision) -> bool {
        !is_identical(existing, &self.data)
    }

    /// The object to create: controlled by `owner`, with the labels of the template, the hash under `hash_label`
    /// ([`HASH_LABEL`] or [`POD_LABEL`]), and the owner's annotations.
    ///
    /// # Errors
    /// Terminal, if `data` is not JSON.
    #[doc(alias = "NewControllerRevision")]
    pub fn object(
        &self,
        owner_kind: &Kind,
        owner: &impl Metadata,
        hash_label: &str,
        template_labels: &BTreeMap<String, String>,
        annotations: &BTreeMap<String, String>,
    ) -> Result<String, Error> {
        #[derive(Serialize)]
        struct New<'a> {
            metadata: ObjectMeta,
            data: &'a RawValue,
            revision: i64,
        }

        let mut labels = template_labels.clone();
        labels.insert(hash_label.to_owned(), self.hash.clone());
        let metadata = ObjectMeta {
            name: self.name.clone(),
            namespace: owner.namespace().to_owned(),
            labels,
            annotations: annotations.clone(),
            owner_references: vec![OwnerReference::controller(owner_kind, owner)],
            ..ObjectMeta::default()
        };
        Ok(json(&New { metadata, data: serde_json::from_str(&self.data)?, revision: self.number }))
    }
}

/// Change that makes the current template's revision the newest one.
#[derive(Clone, Debug, PartialEq)]
pub enum Change<'a> {
    /// It is the newest one already.
    None(&'a ControllerRevision),
    /// It is an older one, which gets this number.
    Renumber(&'a ControllerRevision, i64),
    /// It does not exist.
    Create(Proposal),
}

/// Looks for the revision of the current template in a [sorted](sort) history.
#[doc(alias = "getStatefulSetRevisions")]
#[doc(alias = "FindEqualRevisions")]
pub fn change<'a>(history: &'a [ControllerRevision], proposal: Proposal) -> Change<'a> {
    let newest = history.last();
    match history.iter().rfind(|revision| is_identical(revision, &proposal.data)) {
        // Several may be identical: the question is whether the newest is one of them.
        Some(found) if newest.is_some_and(|newest| newest.data == found.data) => Change::None(newest.unwrap_or(found)),
        Some(found) => Change::Renumber(found, proposal.number),
        None => match newest {
            Some(newest) if is_equivalent(newest, &proposal.data) => Change::None(newest),
            _ => Change::Create(proposal),
        },
    }
}

/// The oldest revisions of a [sorted](sort) history beyond the limit. Live revisions (the current one, the update
/// revision, and those of Pods) are neither counted nor deleted: the rule of StatefulSets. A negative limit keeps all.
#[doc(alias = "truncateHistory")]
pub fn surplus(
    history: &[ControllerRevision],
    limit: i32,
    is_live: impl Fn(&ControllerRevision) -> bool,
) -> Vec<&ControllerRevision> {
    let Ok(limit) = usize::try_from(limit) else { return Vec::new() };
    let dead: Vec<_> = history.iter().filter(|revision| !is_live(revision)).collect();
    let n_surplus = dead.len().saturating_sub(limit);
    dead.into_iter().take(n_surplus).collect()
}

/// As [`surplus`], but live revisions count: the rule of DaemonSets, whose history here excludes the current revision.
#[doc(alias = "cleanupHistory")]
pub fn surplus_with_live(
    history: &[ControllerRevision],
    limit: i32,
    is_live: impl Fn(&ControllerRevision) -> bool,
) -> Vec<&ControllerRevision> {
    let n_surplus = history.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
    history.iter().filter(|revision| !is_live(revision)).take(n_surplus).collect()
}

#[cfg(test)]
mod tests;
