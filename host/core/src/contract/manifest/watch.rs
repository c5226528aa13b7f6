//! Watches, as declared in manifests: the objects to read, and the keys that their changes map to.
//!
//! Not here: evaluation of the rules (`rules`).

use std::collections::BTreeSet;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Number, serde_name};
use crate::object::id::Kind;
use crate::object::selector::{Selector, SelectorForm};

/// A kind that the plugin reads, or all kinds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Watch {
    /// For example `apps/v1/ReplicaSet`. Absent if `every` is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// Every kind with these verbs (besides list and watch), including later ones: metadata only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Every>,
    /// One namespace instead of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Label selector in kubectl's syntax.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<String>,
    /// Field selector in kubectl's syntax.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_selector: Option<String>,
    /// The projection: paths of fields to keep. `apiVersion`, `kind` and
    /// `metadata.{name,namespace,uid,resourceVersion}` are always kept. A path is names joined by dots; a name with a
    /// dot or slash is written as `['...']`: `spec.nodeName`, `metadata.annotations['example.com/x']`. A path has at
    /// most 32 names and 1,024 bytes, and continues into each element of a list. A path that the kind does not have is
    /// an error: always for a built-in kind, and for a custom kind if its CustomResourceDefinition is available.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
    /// Keep whole objects (without managedFields), so that `get` can return them.
    #[serde(default)]
    pub whole: bool,
    /// Indexes, to find objects by the value of a field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<Index>,
    /// The object's own selector, for `lister.selecting`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selects: Option<Selects>,
    /// Rules that map a change of such an object to keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub enqueue: Vec<Enqueue>,
}

/// The kinds that `every` includes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Every {
    /// Verbs that the resource must have besides `list` and `watch`, for example `delete`.
    #[serde(default)]
    pub verbs: Vec<String>,
    /// Kinds to exclude.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<Kind>,
}

/// A declared index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Index {
    /// Name for `index-query`.
    pub name: String,
    /// Path of a scalar field, or of a list of scalars (each is a value).
    pub field: String,
}

/// The object's own selector.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Selects {
    /// Path, for example `spec.selector`.
    pub field: String,
    /// Format of the selector.
    pub form: SelectorForm,
    /// What an empty selector (`{}`) matches: `nothing` or `everything`. An absent selector matches nothing in any case.
    #[serde(default, skip_serializing_if = "EmptySelector::is_nothing")]
    pub empty: EmptySelector,
}

/// What an empty selector matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EmptySelector {
    /// No object, as for a Service.
    #[default]
    Nothing,
    /// Every object of the namespace, as for a PodDisruptionBudget.
    Everything,
}

impl EmptySelector {
    fn is_nothing(&self) -> bool {
        *self == Self::Nothing
    }

    /// Whether an object's own selector, which may be absent or empty, matches these labels.
    pub fn matches<'l>(self, selector: Option<&Selector>, label: impl Fn(&str) -> Option<&'l str>) -> bool {
        // An absent selector never matches; only an empty one can match everything.
        selector.is_some_and(
            |selector| {
                if selector.is_empty() { self == Self::Everything } else { selector.matches(label) }
            },
        )
    }
}

/// A rule that maps a changed object to keys. Both old and new state are mapped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Enqueue {
    /// The keys.
    pub to: To,
    /// The kind of the keys for `controller`, `selecting`, `indexed`, `field`, `label`, `namespaceKeys`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// For `controller`: the owner's controllers of these kinds in turn (a Pod's ReplicaSet's Deployment: `via:
    /// [apps/v1/ReplicaSet]`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub via: Vec<Kind>,
    /// For `field` and `label`: the path or label whose value is the name (`name` or `namespace/name`) of the key's object.
    /// For `indexed`: the path whose values are looked up; the object's name if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// For `field`: the path of the namespace, if it is a separate field; `field` then contains only the name. In
    /// lists, the name and namespace of the same element form a pair. If the namespace is absent, it is that of the
    /// changed object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_field: Option<String>,
    /// For `indexed`: an index that the watch of `kind` declares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<String>,
    /// The queue; the plugin's first if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The changes that it applies to; all if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on: Vec<Change>,
    /// For updates: only if one of these fields (paths within the projection) changed. All updates if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
    /// Only objects without a controller.
    #[serde(default)]
    pub orphans: bool,
    /// Only objects with an owner reference to an object that the cache does not contain: it was deleted, is not seen yet, is
    /// not watched, is in another namespace, or has another kind or name.
    #[serde(default)]
    pub dangling: bool,
    /// Only objects with this field (a path), for example `metadata.deletionTimestamp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub present: Option<String>,
    /// Delay in milliseconds (further changes until then cause no further run): a number, or `{config: SETTING}`, where 0 means no delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<Number>,
}

impl Enqueue {
    /// The delay, if there is one.
    pub fn delay(&self) -> Option<Duration> {
        self.delay_ms.as_ref()?.get().map(|ms| Duration::from_millis(ms.into()))
    }
}

/// The keys that a change maps to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum To {
    /// The object itself.
    #[serde(rename = "self")]
    This,
    /// Its controller, if it is of `kind` (and has the uid of the reference).
    Controller,
    /// Every owner of a watched kind, by any owner reference.
    Owners,
    /// Every object with an owner reference to it.
    Dependents,
    /// Objects of `kind` in its namespace whose own selector matches its labels.
    Selecting,
    /// Objects of `kind` whose declared `index` has the object's name, or a value of `field`, in its namespace (in all,
    /// if either is cluster-scoped). The index is read when the rule is evaluated: objects that enter it later need
    /// rules in the watch of `kind`, mostly `self`.
    Indexed,
    /// The object of `kind` that a field names.
    Field,
    /// The object of `kind` that a label names.
    Label,
    /// Every object of `kind` in its namespace (in all, if it is cluster-scoped).
    NamespaceKeys,
    /// Its Namespace, as a key of kind `v1/Namespace`.
    Namespace,
    /// The queue's tick key (`pintle/v1/Tick`), whether or not the queue declares a period.
    Tick,
    /// The plugin's `mapping` decides.
    Plugin,
}

/// A change of an object in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// The object is new.
    Add,
    /// The object changed.
    Update,
    /// The object was deleted.
    Delete,
}

impl Watch {
    pub(super) fn check(&self, queues: &BTreeSet<&str>) -> Result<(), String> {
        match (&self.kind, &self.every) {
            (None, None) => return Err("kind: either kind or every is needed".into()),
            (Some(_), Some(_)) => return Err("every: kind and every exclude each other".into()),
            _ => {}
        }
        let path = |place: String, path: &str| {
            path.parse::<crate::object::field::FieldPath>().map(|_| ()).map_err(|why| format!("{place}: {why}"))
        };
        for (place, field) in self.paths() {
            path(place, field)?;
        }
        if let Some(selector) = &self.label_selector {
            Selector::parse(selector).map_err(|why| format!("labelSelector: {why}"))?;
        }
        for (i, rule) in self.enqueue.iter().enumerate() {
            rule.check().map_err(|why| format!("enqueue[{i}].{why}"))?;
            if let Some(queue) = rule.queue.as_deref().filter(|queue| !queues.contains(queue)) {
                let known = queues.iter().copied().collect::<Vec<_>>().join(", ");
                return Err(format!("enqueue[{i}].queue: {queue:?} is not declared; declared are {known}"));
            }
        }
        Ok(())
    }
}

impl Enqueue {
    /// Checks that the fields are consistent.
    fn check(&self) -> Result<(), String> {
        let to = || serde_name(&self.to);
        let needs_kind =
            matches!(self.to, To::Controller | To::Selecting | To::Indexed | To::Field | To::Label | To::NamespaceKeys);
        if needs_kind && self.kind.is_none() {
            return Err(format!("kind: is needed with to: {}", to()));
        }
        if matches!(self.to, To::Field | To::Label) && self.field.is_none() {
            return Err(format!("field: is needed with to: {}", to()));
        }
        if self.to == To::Indexed && self.index.is_none() {
            return Err("index: is needed with to: indexed".into());
        }
        if self.to != To::Indexed && self.index.is_some() {
            return Err(format!("index: is for to: indexed, not for to: {}", to()));
        }
        if self.to != To::Field && self.namespace_field.is_some() {
            return Err(format!("namespaceField: is for to: field, not for to: {}", to()));
        }
        Ok(())
    }

    /// Checks that a watch declares the index that the rule uses.
    pub(super) fn check_index(&self, watches: &[Watch]) -> Result<(), String> {
        let (Some(index), Some(kind)) = (&self.index, &self.kind) else { return Ok(()) };
        // A watch of a named kind takes precedence over one of every kind.
        let named = || watches.iter().filter(|watch| watch.kind.as_ref() == Some(kind));
        let every = || watches.iter().filter(|watch| watch.every.is_some() && named().next().is_none());
        let declared: Vec<&str> =
            named().chain(every()).flat_map(|watch| &watch.indexes).map(|index| index.name.as_str()).collect();
        if declared.contains(&index.as_str()) {
            return Ok(());
        }
        let declared = if declared.is_empty() {
            "no index is".to_owned()
        } else {
            format!("declared are {}", declared.join(", "))
        };
        Err(format!("index: {index:?} is not declared in a watch of {kind}; {declared}"))
    }
}
