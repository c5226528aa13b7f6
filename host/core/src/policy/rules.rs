//! Maps a changed object to keys, by the rules in the manifest.
//!
//! Flow: a cache change -> the rules of the object's watch -> keys for the work queue. Both the old and the new state
//! are mapped, so that a key that no longer refers to the object is enqueued as well.
//!
//! Results that several rules need are computed once per change: the compared fields, and keys of equal targets.
//!
//! Not here: `to: plugin`, which the plugin maps.

mod context;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::contract::check::is_possible;
use crate::contract::manifest::{Change, Enqueue, Manifest, To, Watch};
use crate::object::field::{FieldMask, FieldPath, FieldPathError};
use crate::object::id::{Key, Kind, ObjectKey};
use crate::object::project::Projector;
use crate::object::version::Uid;
use crate::object::{Meta, Object, OwnerRef};
use crate::policy::loops::Stamp;
use crate::policy::queue::Priority;
use context::{ChangeContext, State};

/// A key to add to its queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enqueued {
    /// The key.
    pub key: Key,
    /// Delay before it is enqueued.
    pub delay: Option<Duration>,
    /// Priority.
    pub priority: Priority,
    /// The change that caused it.
    pub cause: Option<Stamp>,
}

/// A change of one object in the cache.
#[derive(Clone, Debug)]
pub struct Delta {
    /// Kind of the object.
    pub kind: Kind,
    /// Old state; absent if the object is new.
    pub old: Option<Arc<Object>>,
    /// New state; absent if the object was deleted.
    pub new: Option<Arc<Object>>,
    /// Whether it belongs to the initial list.
    pub initial: bool,
}

impl Delta {
    /// The object's name.
    pub fn object(&self) -> Option<&ObjectKey> {
        self.new.as_ref().or(self.old.as_ref()).map(|object| &object.meta.key)
    }

    /// The stamp of the resulting state.
    fn stamp(&self) -> Option<Stamp> {
        match (&self.old, &self.new) {
            (_, Some(new)) => Some(Stamp::version(&new.meta.resource_version)),
            (Some(old), None) => Some(Stamp::gone(&old.meta.uid)),
            (None, None) => None,
        }
    }
}

/// Cache lookups for rules.
pub trait RuleCache {
    /// The watched kind of this group and name, in the version of the watch.
    fn watched(&self, group: &str, name: &str) -> Option<&Kind>;
    /// Whether the kind is namespaced.
    fn namespaced(&self, kind: &Kind) -> bool;
    /// A cached object.
    fn object(&self, kind: &Kind, key: &ObjectKey) -> Option<Arc<Object>>;
    /// Objects of a namespace, or of all namespaces if absent.
    fn keys_in(&self, kind: &Kind, namespace: Option<&str>) -> Vec<ObjectKey>;
    /// Objects of `kind` in the namespace of `selected` whose own selector matches its labels.
    fn selecting(&self, kind: &Kind, selected: &Meta) -> Vec<ObjectKey>;
    /// Objects of `kind` whose index has one of these values; for a namespaced kind, only those in this namespace, if
    /// given.
    fn indexed(&self, kind: &Kind, index: &str, values: &[String], namespace: Option<&str>) -> Vec<ObjectKey>;
    /// The cached object with this uid, of any watched kind, with its kind.
    fn by_uid(&self, uid: &Uid) -> Option<(&Kind, &Arc<Object>)>;
    /// Objects that have this uid among their owner references.
    fn dependents(&self, uid: &Uid) -> Vec<(Kind, ObjectKey)>;
    /// A text of the object that has at least the fields that the rules read.
    fn text<'o>(&self, kind: &Kind, object: &'o Object) -> Option<Cow<'o, str>>;
}

/// The rules of one watch.
#[derive(Debug)]
pub struct Rules {
    rules: Vec<Rule>,
    /// All fields that any rule compares.
    compared: Option<Projector>,
    /// Number of distinct sets of fields that rules compare.
    n_masks: usize,
    /// Fields that the rules read.
    fields: FieldMask,
}

/// The target of a rule. Rules with equal targets lead to the same keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Target {
    to: To,
    queue: Arc<str>,
    kind: Option<Kind>,
    via: Vec<Kind>,
    field: Option<FieldPath>,
    namespace_field: Option<FieldPath>,
    label: Option<String>,
    index: Option<String>,
}

/// An update counts only if one of these fields differs.
#[derive(Debug)]
struct Changed {
    fields: Projector,
    /// Rules that compare the same fields have the same number.
    mask: usize,
}

#[derive(Debug)]
struct Rule {
    target: Target,
    on: Vec<Change>,
    /// Fields that an update must change; absent if all updates count.
    changed: Option<Changed>,
    orphans: bool,
    dangling: bool,
    present: Option<FieldPath>,
    delay: Option<Duration>,
}

impl Rules {
    /// Compiles the rules of a watch.
    ///
    /// # Errors
    /// If a field path is invalid; a retry does not help.
    pub fn new(watch: &Watch, manifest: &Manifest) -> Result<Self, FieldPathError> {
        let first = manifest.queues.first().map_or("", |queue| queue.name.as_str());
        let mut fields = FieldMask::default();
        let mut compared = FieldMask::default();
        let mut masks: Vec<Vec<FieldPath>> = Vec::new();
        let mut rule = |rule: &Enqueue| {
            let field = match rule.to {
                To::Field | To::Indexed => rule.field.as_deref().map(str::parse).transpose()?,
                _ => None,
            };
            let namespace_field: Option<FieldPath> = rule.namespace_field.as_deref().map(str::parse).transpose()?;
            let present: Option<FieldPath> = rule.present.as_deref().map(str::parse).transpose()?;
            let mut changed: Vec<FieldPath> = rule.changed.iter().map(|path| path.parse()).collect::<Result<_, _>>()?;
            changed.sort_unstable();
            fields.extend(field.iter().chain(&namespace_field).chain(&present).chain(&changed).cloned());
            compared.extend(changed.iter().cloned());
            let mask = masks.iter().position(|mask| *mask == changed).unwrap_or_else(|| {
                masks.push(changed.clone());
                masks.len() - 1
            });
            let queue = rule.queue.as_deref().unwrap_or(first);
            let target = Target {
                to: rule.to,
                queue: queue.into(),
                kind: if rule.to == To::Tick { Some(Manifest::tick_key(queue).kind) } else { rule.kind.clone() },
                via: rule.via.clone(),
                field,
                namespace_field,
                label: rule.field.clone().filter(|_| rule.to == To::Label),
                index: rule.index.clone(),
            };
            Ok(Rule {
                target,
                on: rule.on.clone(),
                changed: (!changed.is_empty())
                    .then(|| Changed { fields: Projector::new(&FieldMask::new(changed)), mask }),
                orphans: rule.orphans,
                dangling: rule.dangling,
                present,
                delay: rule.delay(),
            })
        };
        let rules = watch.enqueue.iter().map(&mut rule).collect::<Result<_, _>>()?;
        let n_masks = masks.len();
        let compared = masks.iter().any(|mask| !mask.is_empty()).then(|| Projector::new(&compared));
        Ok(Self { rules, compared, n_masks, fields })
    }

    /// Fields that the rules read; the watch must keep them.
    pub fn fields(&self) -> &FieldMask {
        &self.fields
    }

    /// Queues whose keys are objects of the watch.
    pub fn own_queues(&self) -> impl Iterator<Item = &Arc<str>> {
        self.rules.iter().map(|rule| &rule.target).filter(|target| target.to == To::This).map(|target| &target.queue)
    }

    /// Whether the plugin must map this change.
    pub fn wants_mapping(&self, delta: &Delta, cache: &dyn RuleCache) -> bool {
        let mut rules = self.rules.iter().filter(|rule| rule.target.to == To::Plugin).peekable();
        if rules.peek().is_none() {
            return false;
        }
        let change = ChangeContext::new(delta, cache, self.compared.as_ref(), self.n_masks);
        rules.any(|rule| rule.applies(&change) && rule.states(&change).next().is_some())
    }

    /// The keys of a change, each once per queue, with the shortest delay.
    pub fn keys(&self, delta: &Delta, cache: &dyn RuleCache) -> Vec<Enqueued> {
        let priority = if delta.initial { Priority::Low } else { Priority::Normal };
        let change = ChangeContext::new(delta, cache, self.compared.as_ref(), self.n_masks);
        // With the shortest delay. No delay is shorter than any other.
        let mut targets: BTreeMap<(&Target, State), Option<Duration>> = BTreeMap::new();
        for rule in self.rules.iter().filter(|rule| rule.target.to != To::Plugin && rule.applies(&change)) {
            for state in rule.states(&change) {
                let state = if rule.target.sees_no_difference(&change) { State::New } else { state };
                let delay = targets.entry((&rule.target, state)).or_insert(rule.delay);
                *delay = (*delay).min(rule.delay);
            }
        }
        let mut keys: Vec<Enqueued> = Vec::new();
        let cause = delta.stamp();
        for ((target, state), delay) in targets {
            target.map(&change, state, &mut |kind, object| {
                let key = Key { queue: target.queue.clone(), kind, object };
                keys.push(Enqueued { key, delay, priority, cause });
            });
        }
        if keys.len() > 1 {
            keys.sort_by(|a, b| a.key.cmp(&b.key).then(a.delay.cmp(&b.delay)));
            keys.dedup_by(|later, first| later.key == first.key);
        }
        keys
    }
}

impl Rule {
    fn applies(&self, change: &ChangeContext<'_>) -> bool {
        let on = |change| self.on.is_empty() || self.on.contains(&change);
        match (&change.delta.old, &change.delta.new) {
            (None, Some(_)) => on(Change::Add),
            (Some(_), None) => on(Change::Delete),
            // Another object with the same name: the changes in between were missed.
            (Some(old), Some(new)) if old.meta.uid != new.meta.uid => on(Change::Delete) || on(Change::Add),
            (Some(_), Some(_)) => {
                on(Change::Update)
                    && self.changed.as_ref().is_none_or(|Changed { fields, mask }| change.differs(fields, *mask))
            }
            (None, None) => false,
        }
    }

    /// The states to which the rule applies.
    fn states<'s>(&'s self, change: &'s ChangeContext<'_>) -> impl Iterator<Item = State> {
        [State::Old, State::New].into_iter().filter(move |state| self.is_about(change, *state))
    }

    fn is_about(&self, change: &ChangeContext<'_>, state: State) -> bool {
        let Some(object) = change.object(state) else { return false };
        let has = |field: &FieldPath| change.text(state).is_some_and(|text| field.is_present(text));
        let dangles = |owner| is_dangling(&object.meta, owner, change.cache);
        (!self.orphans || object.meta.controller().is_none())
            && (!self.dangling || object.meta.owners.iter().any(dangles))
            && self.present.as_ref().is_none_or(has)
    }
}

impl Target {
    /// Whether both states of a change lead to the same keys, because all fields that decide are equal.
    fn sees_no_difference(&self, change: &ChangeContext<'_>) -> bool {
        let (Some(old), Some(new)) = (&change.delta.old, &change.delta.new) else { return false };
        let (old, new) = (&old.meta, &new.meta);
        match self.to {
            To::This | To::Namespace | To::NamespaceKeys | To::Tick => true,
            // Comparing values is cheaper than two lookups.
            To::Indexed => self.field.is_none() || self.values(change, State::Old) == self.values(change, State::New),
            To::Dependents => old.uid == new.uid,
            To::Selecting | To::Label => old.labels == new.labels,
            To::Owners | To::Controller => old.owners == new.owners,
            To::Field | To::Plugin => false,
        }
    }

    fn map(&self, change: &ChangeContext<'_>, state: State, add: &mut dyn FnMut(Kind, ObjectKey)) {
        let Some(object) = change.object(state) else { return };
        let (kind, meta, cache) = (&change.delta.kind, &object.meta, change.cache);
        match (self.to, &self.kind) {
            (To::This, _) => add(kind.clone(), meta.key.clone()),
            (To::Controller, Some(wanted)) => {
                if let Some(owner) = self.controller(wanted, meta, cache) {
                    add(wanted.clone(), owner);
                }
            }
            (To::Owners, _) => {
                for owner in &meta.owners {
                    if let Some(kind) = cache.watched(&owner.kind.group, &owner.kind.name) {
                        add(kind.clone(), beside(meta, kind, &owner.name, cache));
                    }
                }
            }
            (To::Dependents, _) => cache.dependents(&meta.uid).into_iter().for_each(|(kind, key)| add(kind, key)),
            (To::Selecting, Some(wanted)) => {
                cache.selecting(wanted, meta).into_iter().for_each(|key| add(wanted.clone(), key));
            }
            (To::Indexed, Some(wanted)) => {
                let values = match &self.field {
                    Some(_) => self.values(change, state),
                    None => vec![meta.key.name.to_string()],
                };
                let namespace = Some(&*meta.key.namespace).filter(|namespace| !namespace.is_empty());
                let index = self.index.as_deref().unwrap_or_default();
                let found = cache.indexed(wanted, index, &values, namespace);
                found.into_iter().for_each(|key| add(wanted.clone(), key));
            }
            (To::Field, Some(wanted)) if self.namespace_field.is_some() => {
                self.in_two_fields(change, state, wanted).into_iter().for_each(|key| add(wanted.clone(), key));
            }
            (To::Field, Some(wanted)) => {
                let values = match (&self.field, change.text(state)) {
                    (Some(field), Some(text)) => field.values(text),
                    _ => Vec::new(),
                };
                values
                    .iter()
                    .filter_map(|value| named(value, meta, wanted, cache))
                    .for_each(|key| add(wanted.clone(), key));
            }
            (To::Label, Some(wanted)) => {
                let value = self.label.as_deref().and_then(|label| meta.label(label));
                if let Some(key) = value.and_then(|value| named(value, meta, wanted, cache)) {
                    add(wanted.clone(), key);
                }
            }
            (To::NamespaceKeys, Some(wanted)) => {
                let namespace = Some(&*meta.key.namespace).filter(|namespace| !namespace.is_empty());
                cache.keys_in(wanted, namespace).into_iter().for_each(|key| add(wanted.clone(), key));
            }
            (To::Namespace, _) => {
                if !meta.key.namespace.is_empty() {
                    let name = meta.key.namespace.clone();
                    add(Kind::new("", "v1", "Namespace"), ObjectKey { namespace: "".into(), name });
                }
            }
            (To::Tick, Some(tick)) => {
                add(tick.clone(), ObjectKey { namespace: "".into(), name: self.queue.clone() });
            }
            // Manifest validation ensures the kind where it is required, and `Rules::new` that of ticks.
            (
                To::Controller | To::Selecting | To::Indexed | To::Field | To::Label | To::NamespaceKeys | To::Tick,
                None,
            )
            | (To::Plugin, _) => {}
        }
    }

    /// The values of the field, each once, in order.
    fn values(&self, change: &ChangeContext<'_>, state: State) -> Vec<String> {
        let (Some(field), Some(text)) = (&self.field, change.text(state)) else { return Vec::new() };
        let mut values = field.values(text);
        values.sort_unstable();
        values.dedup();
        values
    }

    /// The objects whose names and namespaces are in two fields; values that are not valid names are skipped.
    fn in_two_fields(&self, change: &ChangeContext<'_>, state: State, wanted: &Kind) -> Vec<ObjectKey> {
        let (Some(field), Some(text), Some(object)) = (&self.field, change.text(state), change.object(state)) else {
            return Vec::new();
        };
        let Some(namespaces) = &self.namespace_field else { return Vec::new() };
        let is_namespaced = change.cache.namespaced(wanted);
        let key = |(name, namespace): (String, Option<String>)| {
            let name = name.as_str().into();
            match namespace {
                Some(namespace) if is_namespaced => ObjectKey { namespace: namespace.as_str().into(), name },
                _ => beside(&object.meta, wanted, &name, change.cache),
            }
        };
        let keys = field.values_with(namespaces, text).into_iter().map(key);
        keys.filter(|key| is_possible(key) && key.namespace.is_empty() != is_namespaced).collect()
    }

    /// The object of kind `wanted` that controls the object, through the controllers in between.
    fn controller(&self, wanted: &Kind, meta: &Meta, cache: &dyn RuleCache) -> Option<ObjectKey> {
        let mut between: Option<Arc<Object>> = None;
        for kind in &self.via {
            let owner = controller_of(kind, between.as_ref().map_or(meta, |object| &object.meta), cache)?;
            between = Some(cache.object(kind, &owner)?);
        }
        controller_of(wanted, between.as_ref().map_or(meta, |object| &object.meta), cache)
    }
}

/// Whether the cache lacks the owner, or has another object under its uid. Versions of a kind are equal.
fn is_dangling(meta: &Meta, owner: &OwnerRef, cache: &dyn RuleCache) -> bool {
    cache.by_uid(&owner.uid).is_none_or(|(kind, found)| {
        let place = &found.meta.key;
        kind.group != owner.kind.group
            || kind.name != owner.kind.name
            || place.name != owner.name
            || !(place.namespace.is_empty() || place.namespace == meta.key.namespace)
    })
}

/// The controller if it is of this kind; if its kind is watched, it must be in the cache and be the object of the
/// reference.
fn controller_of(kind: &Kind, meta: &Meta, cache: &dyn RuleCache) -> Option<ObjectKey> {
    let owner = meta.controller().filter(|owner| owner.kind.is_any_version_of(kind))?;
    let key = beside(meta, kind, &owner.name, cache);
    let watched = cache.watched(&kind.group, &kind.name).is_some();
    let is_the_one = !watched || cache.object(kind, &key).is_some_and(|object| object.meta.uid == owner.uid);
    is_the_one.then_some(key)
}

/// The object of this kind and name in the namespace of the other object; cluster-scoped kinds have none.
fn beside(meta: &Meta, kind: &Kind, name: &Arc<str>, cache: &dyn RuleCache) -> ObjectKey {
    let namespace = if cache.namespaced(kind) { meta.key.namespace.clone() } else { "".into() };
    ObjectKey { namespace, name: name.clone() }
}

/// Parses a reference: `name` or `namespace/name`.
fn named(text: &str, meta: &Meta, kind: &Kind, cache: &dyn RuleCache) -> Option<ObjectKey> {
    match text.split_once('/') {
        Some((namespace, name)) if !name.is_empty() => Some(ObjectKey::new(namespace, name)),
        None if !text.is_empty() => Some(beside(meta, kind, &text.into(), cache)),
        _ => None,
    }
}
