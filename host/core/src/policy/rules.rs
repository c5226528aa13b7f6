//! Maps a changed object to keys, by the rules of the manifest.
//!
//! Flow: a change of the cache -> the rules of the object's watch -> keys for the work queue. Both old and new state are
//! mapped, so that a key that lost the object is enqueued as well.
//!
//! Not here: `to: plugin`, which only the plugin can map.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use crate::contract::manifest::{Change, Enqueue, Manifest, To, Watch};
use crate::object::field::{FieldMask, FieldPath, FieldPathError, Projector};
use crate::object::id::{Key, Kind, ObjectKey};
use crate::object::version::Uid;
use crate::object::{Meta, Object, OwnerRef};
use crate::policy::queue::Priority;

/// A key to add to its queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enqueued {
    /// The key.
    pub key: Key,
    /// Delay before it is added.
    pub delay: Option<Duration>,
    /// Priority.
    pub priority: Priority,
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
}

/// Lookups that rules need besides the changed object.
pub trait RuleCache {
    /// The watched kind of this group and name, in the version of the watch.
    fn watched(&self, group: &str, name: &str) -> Option<&Kind>;
    /// Whether the kind is namespaced.
    fn namespaced(&self, kind: &Kind) -> bool;
    /// A cached object.
    fn object(&self, kind: &Kind, key: &ObjectKey) -> Option<Arc<Object>>;
    /// Objects of a namespace; of all namespaces if absent.
    fn keys_in(&self, kind: &Kind, namespace: Option<&str>) -> Vec<ObjectKey>;
    /// Objects of `kind` in the namespace of `selected` whose own selector matches its labels.
    fn selecting(&self, kind: &Kind, selected: &Meta) -> Vec<ObjectKey>;
    /// A cached object with this uid, of any watched kind, and the kind.
    fn by_uid(&self, uid: &Uid) -> Option<(&Kind, &Arc<Object>)>;
    /// Objects that have this uid among their owner references.
    fn dependents(&self, uid: &Uid) -> Vec<(Kind, ObjectKey)>;
    /// A text of the object that has the fields that the rules look at, and perhaps others.
    fn text<'o>(&self, kind: &Kind, object: &'o Object) -> Option<Cow<'o, str>>;
}

/// The rules of one watch.
#[derive(Debug)]
pub struct Rules {
    rules: Vec<Rule>,
    /// What the rules look at.
    fields: FieldMask,
}

#[derive(Debug)]
struct Rule {
    to: To,
    queue: Arc<str>,
    kind: Option<Kind>,
    via: Vec<Kind>,
    field: Option<FieldPath>,
    label: Option<String>,
    on: Vec<Change>,
    /// Of an update, only these fields; absent if all updates count.
    changed: Option<Projector>,
    orphans: bool,
    dangling: bool,
    present: Option<FieldPath>,
    delay: Option<Duration>,
}

impl Rules {
    /// Prepares the rules of a watch.
    ///
    /// # Errors
    /// A field path is not valid; a retry does not help.
    pub fn new(watch: &Watch, manifest: &Manifest) -> Result<Self, FieldPathError> {
        let first = manifest.queues.first().map_or("", |queue| queue.name.as_str());
        let mut fields = FieldMask::default();
        let mut rule = |rule: &Enqueue| {
            let field = match rule.to {
                To::Field => rule.field.as_deref().map(str::parse).transpose()?,
                _ => None,
            };
            let present: Option<FieldPath> = rule.present.as_deref().map(str::parse).transpose()?;
            let changed: Vec<FieldPath> = rule.changed.iter().map(|path| path.parse()).collect::<Result<_, _>>()?;
            fields.extend(field.iter().chain(&present).chain(&changed).cloned());
            Ok(Rule {
                to: rule.to,
                queue: rule.queue.as_deref().unwrap_or(first).into(),
                kind: rule.kind.clone(),
                via: rule.via.clone(),
                field,
                label: rule.field.clone().filter(|_| rule.to == To::Label),
                on: rule.on.clone(),
                changed: (!changed.is_empty()).then(|| Projector::new(&FieldMask::new(changed))),
                orphans: rule.orphans,
                dangling: rule.dangling,
                present,
                delay: rule.delay_ms.map(|ms| Duration::from_millis(u64::from(ms))),
            })
        };
        let rules = watch.enqueue.iter().map(&mut rule).collect::<Result<_, _>>()?;
        Ok(Self { rules, fields })
    }

    /// Fields that the rules read; the watch must keep them.
    pub fn fields(&self) -> &FieldMask {
        &self.fields
    }

    /// Queues whose keys are objects of the watch.
    pub fn own_queues(&self) -> impl Iterator<Item = &Arc<str>> {
        self.rules.iter().filter(|rule| rule.to == To::This).map(|rule| &rule.queue)
    }

    /// Whether the plugin maps this change.
    pub fn wants_mapping(&self, delta: &Delta, cache: &dyn RuleCache) -> bool {
        self.rules.iter().any(|rule| {
            rule.to == To::Plugin && rule.applies(delta, cache) && rule.states(delta, cache).next().is_some()
        })
    }

    /// Keys of a change, each once per queue (with the shortest delay).
    pub fn keys(&self, delta: &Delta, cache: &dyn RuleCache) -> Vec<Enqueued> {
        let priority = if delta.initial { Priority::Low } else { Priority::Normal };
        let mut keys: Vec<Enqueued> = Vec::new();
        for rule in self.rules.iter().filter(|rule| rule.to != To::Plugin && rule.applies(delta, cache)) {
            for object in rule.states(delta, cache) {
                rule.map(&delta.kind, object, cache, &mut |kind, object| {
                    let key = Key { queue: rule.queue.clone(), kind, object };
                    keys.push(Enqueued { key, delay: rule.delay, priority });
                });
            }
        }
        if keys.len() > 1 {
            keys.sort_by(|a, b| a.key.cmp(&b.key).then(a.delay.cmp(&b.delay)));
            keys.dedup_by(|later, first| later.key == first.key);
        }
        keys
    }
}

impl Rule {
    fn applies(&self, delta: &Delta, cache: &dyn RuleCache) -> bool {
        let on = |change| self.on.is_empty() || self.on.contains(&change);
        match (&delta.old, &delta.new) {
            (None, Some(_)) => on(Change::Add),
            (Some(_), None) => on(Change::Delete),
            // Another object with the same name: the changes in between were missed.
            (Some(old), Some(new)) if old.meta.uid != new.meta.uid => on(Change::Delete) || on(Change::Add),
            (Some(old), Some(new)) => on(Change::Update) && self.differs(&delta.kind, old, new, cache),
            (None, None) => false,
        }
    }

    fn differs(&self, kind: &Kind, old: &Object, new: &Object, cache: &dyn RuleCache) -> bool {
        let Some(changed) = &self.changed else { return true };
        match (cache.text(kind, old), cache.text(kind, new)) {
            (Some(old), Some(new)) => match (changed.project(&old), changed.project(&new)) {
                (Ok(old), Ok(new)) => old != new,
                _ => true,
            },
            _ => true,
        }
    }

    /// Old and new state, as far as the rule applies to them.
    fn states<'d>(&'d self, delta: &'d Delta, cache: &'d dyn RuleCache) -> impl Iterator<Item = &'d Object> {
        [&delta.old, &delta.new]
            .into_iter()
            .filter_map(|state| state.as_deref())
            .filter(move |object| self.is_about(&delta.kind, object, cache))
    }

    fn is_about(&self, kind: &Kind, object: &Object, cache: &dyn RuleCache) -> bool {
        let has = |field: &FieldPath| cache.text(kind, object).is_some_and(|text| field.is_present(&text));
        (!self.orphans || object.meta.controller().is_none())
            && (!self.dangling || object.meta.owners.iter().any(|owner| is_dangling(&object.meta, owner, cache)))
            && self.present.as_ref().is_none_or(has)
    }

    fn map(&self, kind: &Kind, object: &Object, cache: &dyn RuleCache, add: &mut dyn FnMut(Kind, ObjectKey)) {
        let meta = &object.meta;
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
            (To::Field, Some(wanted)) => {
                let values = match (&self.field, cache.text(kind, object)) {
                    (Some(field), Some(text)) => field.values(&text),
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
            // Validation of the manifest ensures the kind where it is required.
            (To::Controller | To::Selecting | To::Field | To::Label | To::NamespaceKeys, None) | (To::Plugin, _) => {}
        }
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

/// Whether the cache does not contain the owner, or contains another object than the reference names. Versions of a kind are
/// equal.
fn is_dangling(meta: &Meta, owner: &OwnerRef, cache: &dyn RuleCache) -> bool {
    cache.by_uid(&owner.uid).is_none_or(|(kind, found)| {
        let place = &found.meta.key;
        kind.group != owner.kind.group
            || kind.name != owner.kind.name
            || place.name != owner.name
            || !(place.namespace.is_empty() || place.namespace == meta.key.namespace)
    })
}

/// The controller if it is of this kind; one of a watched kind must be in the cache and be the object of the reference.
fn controller_of(kind: &Kind, meta: &Meta, cache: &dyn RuleCache) -> Option<ObjectKey> {
    let owner = meta.controller().filter(|owner| owner.kind.group == kind.group && owner.kind.name == kind.name)?;
    let key = beside(meta, kind, &owner.name, cache);
    let watched = cache.watched(&kind.group, &kind.name).is_some();
    let is_the_one = !watched || cache.object(kind, &key).is_some_and(|object| object.meta.uid == owner.uid);
    is_the_one.then_some(key)
}

/// The object of this kind and name in the other object's namespace, or cluster-scoped.
fn beside(meta: &Meta, kind: &Kind, name: &Arc<str>, cache: &dyn RuleCache) -> ObjectKey {
    let namespace = if cache.namespaced(kind) { meta.key.namespace.clone() } else { "".into() };
    ObjectKey { namespace, name: name.clone() }
}

/// The object that a text names: `name` or `namespace/name`.
fn named(text: &str, meta: &Meta, kind: &Kind, cache: &dyn RuleCache) -> Option<ObjectKey> {
    match text.split_once('/') {
        Some((namespace, name)) if !name.is_empty() => Some(ObjectKey::new(namespace, name)),
        None if !text.is_empty() => Some(beside(meta, kind, &text.into(), cache)),
        _ => None,
    }
}
