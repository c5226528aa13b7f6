//! Parses the JSON text of an object into a cached [`Object`], in one pass.
//!
//! Flow: text from the API server + the informer's plan -> metadata, at most four texts for all projections, index
//! values, selectors.
//!
//! Invariants:
//! 1. Every text has the `apiVersion` and `kind` of the plan (items of lists and metadata-only objects have none or
//!    others) and `metadata.{name,namespace,uid,resourceVersion}` as far as the object has them.
//! 2. No text has `managedFields`, even if a projection lists it.
//!
//! Not here: the walk below `metadata` and the other top-level fields (`project`), which texts there are (`texts`).

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::object::field::FieldPath;
use crate::object::id::{Kind, ObjectKey};
use crate::object::project::{Bits, Capture, Name, Node, Sink, ValueSeed, push_json_string};
use crate::object::selector::SelectorForm;
use crate::object::texts::{Projection, TextSet};
use crate::object::version::{ResourceVersion, Uid};
use crate::object::{Labels, Meta, Object, OwnerRef};
use crate::ports::api::Detail;

/// Everything that the users of one informer need from each object.
#[derive(Clone, Debug, Default)]
pub struct Needs {
    /// Projections that they read.
    pub projections: BTreeSet<Projection>,
    /// Fields that they look objects up by.
    pub indexes: BTreeSet<FieldPath>,
    /// Fields where objects have their own selectors.
    pub selectors: BTreeSet<(FieldPath, SelectorForm)>,
}

/// The parts of each object that one informer keeps.
#[derive(Debug)]
pub struct IngestPlan {
    kind: Kind,
    texts: Arc<TextSet>,
    indexes: Vec<FieldPath>,
    selectors: Vec<(FieldPath, SelectorForm)>,
    /// `{"apiVersion":...,"kind":...`
    prefix: String,
    /// Bits of all texts.
    all: Bits,
    /// Bits of the texts that contain whole objects.
    whole: Bits,
    root: Node,
}

/// An object that cannot be cached. The message contains the cause and the known part of its name.
#[derive(Debug, thiserror::Error)]
#[error("object does not parse: {0}")]
pub struct IngestError(#[source] serde_json::Error);

impl IngestPlan {
    /// The plan for these needs.
    pub fn new(kind: Kind, needs: Needs) -> Self {
        let texts = TextSet::shared_by(&needs.projections);
        let (indexes, selectors) = (Vec::from_iter(needs.indexes), Vec::from_iter(needs.selectors));
        let (mut root, mut all, mut whole) = (Node::default(), 0, 0);
        for (i, text) in texts.projections().iter().enumerate() {
            let bit = 1 << i;
            all |= bit;
            match text {
                Projection::Whole => whole |= bit,
                Projection::Fields(mask) => {
                    // `apiVersion` and `kind` are in every text anyway.
                    for path in mask.paths().filter(|path| !matches!(&*path.names()[0], "apiVersion" | "kind")) {
                        root.keep(path.names(), bit);
                    }
                }
            }
        }
        for (slot, path) in indexes.iter().enumerate() {
            root.capture(path.names(), Capture::Index(slot));
        }
        for (slot, (path, form)) in selectors.iter().enumerate() {
            root.capture(path.names(), Capture::Selector(slot, *form));
        }
        let mut prefix = String::from("{\"apiVersion\":");
        push_json_string(&mut prefix, &kind.api_version());
        prefix.push_str(",\"kind\":");
        push_json_string(&mut prefix, &kind.name);
        Self { kind, texts: Arc::new(texts), indexes, selectors, prefix, all, whole, root }
    }

    /// Whether objects ingested under this plan have all needed fields, in texts that are shared no more than
    /// necessary.
    pub fn suits(&self, needs: &Needs) -> bool {
        self.texts.suits(&needs.projections)
            && needs.indexes.iter().all(|path| self.index(path).is_some())
            && needs.selectors.iter().all(|selector| self.selector(selector).is_some())
    }

    /// Kind of the objects.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// The projections of the texts.
    pub fn texts(&self) -> &Arc<TextSet> {
        &self.texts
    }

    /// Slot of an index; `None` if the plan does not have it.
    pub fn index(&self, path: &FieldPath) -> Option<usize> {
        self.indexes.iter().position(|ours| ours == path)
    }

    /// Slot of a selector; `None` if the plan does not have it.
    pub fn selector(&self, selector: &(FieldPath, SelectorForm)) -> Option<usize> {
        self.selectors.iter().position(|ours| ours == selector)
    }

    /// Detail of the requests: whole objects or metadata only.
    pub fn detail(&self) -> Detail {
        let projected = self.texts.projections().iter().all(|text| match text {
            Projection::Whole => false,
            Projection::Fields(mask) => mask.paths().all(FieldPath::in_metadata),
        });
        let captured = self.indexes.iter().all(FieldPath::in_metadata)
            && self.selectors.iter().all(|(path, _)| path.in_metadata());
        if projected && captured { Detail::Metadata } else { Detail::Full }
    }
}

/// Turns texts into objects. Each informer has its own, because it keeps buffers and interns texts that many objects
/// share.
#[derive(Debug, Default)]
pub struct Ingester {
    sink: Sink,
    interner: Interner,
}

impl Ingester {
    /// Parses one object.
    ///
    /// # Errors
    /// [`IngestError`] if the text is not JSON, or not an object with a name; retrying does not help.
    pub fn ingest(&mut self, plan: &IngestPlan, json: &str) -> Result<Object, IngestError> {
        self.sink.reset(plan.texts.projections().len(), plan.selectors.len());
        self.sink.push(plan.all, &plan.prefix);
        let mut deserializer = serde_json::Deserializer::from_str(json);
        let seed = Root { plan, sink: &mut self.sink, interner: &mut self.interner };
        let meta = deserializer.deserialize_map(seed).map_err(IngestError)?;
        deserializer.end().map_err(IngestError)?;
        self.sink.push(plan.all, "}");
        Ok(Object {
            meta,
            text_set: plan.texts.clone(),
            texts: self.sink.outs.iter().map(|text| text.as_str().into()).collect(),
            index_values: self.index_values(),
            selectors: std::mem::take(&mut self.sink.selectors).into(),
        })
    }

    fn index_values(&mut self) -> Box<[(usize, Arc<str>)]> {
        let mut values = std::mem::take(&mut self.sink.index_values);
        values.sort_unstable();
        values.dedup();
        values.into_iter().map(|(slot, value)| (slot, self.interner.intern(&value))).collect()
    }
}

/// The whole object.
struct Root<'a> {
    plan: &'a IngestPlan,
    sink: &'a mut Sink,
    interner: &'a mut Interner,
}

impl<'de> Visitor<'de> for Root<'_> {
    type Value = Meta;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of Kubernetes")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Meta, A::Error> {
        let Self { plan, sink, interner } = self;
        let mut meta = None;
        while let Some(Name(name)) = map.next_key()? {
            let node = plan.root.child(&name);
            match &*name {
                "apiVersion" | "kind" => {
                    map.next_value::<IgnoredAny>()?;
                }
                "metadata" => {
                    sink.push(plan.all, ",\"metadata\":");
                    let keep = plan.whole | node.map_or(0, Node::kept_by);
                    meta = Some(map.next_value_seed(Metadata { node, used: plan.all, keep, sink, interner })?);
                }
                _ => match node {
                    Some(node) => {
                        let marks = sink.begin_member(plan.whole | node.wanted_by(), &name);
                        let written = map.next_value_seed(ValueSeed { node, keep: plan.whole, sink })?;
                        sink.undo(marks, written);
                    }
                    None if plan.whole != 0 => {
                        sink.begin_member(plan.whole, &name);
                        sink.push(plan.whole, map.next_value::<&RawValue>()?.get());
                    }
                    None => {
                        map.next_value::<IgnoredAny>()?;
                    }
                },
            }
        }
        meta.ok_or_else(|| A::Error::custom("it has no metadata"))
    }
}

/// `metadata`.
struct Metadata<'a> {
    node: Option<&'a Node>,
    used: Bits,
    /// The projections that contain the whole metadata.
    keep: Bits,
    sink: &'a mut Sink,
    interner: &'a mut Interner,
}

impl<'de> DeserializeSeed<'de> for Metadata<'_> {
    type Value = Meta;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Meta, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Metadata<'_> {
    type Value = Meta;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("metadata")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Meta, A::Error> {
        let Self { node, used, keep, sink, interner } = self;
        let mut meta = Meta::default();
        let (mut namespace, mut name) = (None, None);
        sink.push(used, "{");
        while let Some(Name(field)) = map.next_key()? {
            let child = node.and_then(|node| node.child(&field));
            match &*field {
                "managedFields" => {
                    map.next_value::<IgnoredAny>()?;
                }
                "name" | "namespace" | "uid" | "resourceVersion" => {
                    let raw = map.next_value::<&RawValue>()?;
                    let Some(text) = string(raw)? else { continue };
                    sink.begin_member(used, &field);
                    sink.push(used, raw.get());
                    match &*field {
                        "name" => name = Some(Arc::from(&*text)),
                        "namespace" => namespace = Some(interner.intern(&text)),
                        "uid" => meta.uid = Uid::parse(&text),
                        _ => meta.resource_version = ResourceVersion::parse(&text),
                    }
                    // No walk needed: every projection has the text already, including those that name the field.
                    if let Some(child) = child {
                        sink.capture_all(child, raw);
                    }
                }
                "labels" | "ownerReferences" | "deletionTimestamp" => {
                    let raw = map.next_value::<&RawValue>()?;
                    match &*field {
                        "labels" => meta.labels = interner.labels(raw).map_err(A::Error::custom)?,
                        "ownerReferences" => meta.owners = interner.owners(raw).map_err(A::Error::custom)?,
                        _ => meta.terminating = raw.get() != "null",
                    }
                    let marks = sink.begin_member(keep | child.map_or(0, Node::wanted_by), &field);
                    let written = sink.walk(child, keep, raw).map_err(A::Error::custom)?;
                    sink.undo(marks, written);
                }
                _ => match child {
                    Some(child) => {
                        let marks = sink.begin_member(keep | child.wanted_by(), &field);
                        let written = map.next_value_seed(ValueSeed { node: child, keep, sink })?;
                        sink.undo(marks, written);
                    }
                    None if keep != 0 => {
                        sink.begin_member(keep, &field);
                        sink.push(keep, map.next_value::<&RawValue>()?.get());
                    }
                    None => {
                        map.next_value::<IgnoredAny>()?;
                    }
                },
            }
        }
        sink.push(used, "}");
        let name: Arc<str> = name
            .filter(|name: &Arc<str>| !name.is_empty())
            .ok_or_else(|| A::Error::custom("it has no metadata.name"))?;
        meta.key = ObjectKey { namespace: namespace.unwrap_or_else(|| interner.intern("")), name };
        Ok(meta)
    }
}

/// The text of a JSON string; `None` for null.
fn string<'a, E: serde::de::Error>(raw: &'a RawValue) -> Result<Option<Cow<'a, str>>, E> {
    let text = raw.get();
    match text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        Some(plain) if !plain.contains('\\') => Ok(Some(Cow::Borrowed(plain))),
        Some(_) => serde_json::from_str(text).map(|text: String| Some(Cow::Owned(text))).map_err(E::custom),
        None if text == "null" => Ok(None),
        None => Err(E::custom(format_args!("expected a string, found {}", text.chars().take(40).collect::<String>()))),
    }
}

/// Interns texts that many objects share: namespaces, labels, owners, index values.
#[derive(Debug, Default)]
struct Interner {
    texts: HashSet<Arc<str>>,
    /// Unused entries are dropped at this number.
    sweep_at: usize,
    owner_kinds: Vec<(Box<str>, Kind)>,
}

impl Interner {
    fn intern(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        if self.texts.len() >= self.sweep_at {
            self.texts.retain(|text| Arc::strong_count(text) > 1);
            self.sweep_at = (self.texts.len() * 2).max(1024);
        }
        let text: Arc<str> = text.into();
        self.texts.insert(text.clone());
        text
    }

    fn labels(&mut self, raw: &RawValue) -> Result<Labels, serde_json::Error> {
        struct Interning<'a>(&'a mut Interner);
        impl<'de> Visitor<'de> for Interning<'_> {
            type Value = Labels;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("labels")
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Box::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut labels = Vec::new();
                while let Some((Name(key), Name(value))) = map.next_entry()? {
                    labels.push((self.0.intern(&key), self.0.intern(&value)));
                }
                // The API server sends labels sorted.
                if !labels.is_sorted_by(|(a, _), (b, _)| a < b) {
                    labels.sort_by(|(a, _): &(Arc<str>, _), (b, _)| a.cmp(b));
                    labels.dedup_by(|(later, _), (first, _)| later == first);
                }
                Ok(labels.into())
            }
        }
        serde_json::Deserializer::from_str(raw.get()).deserialize_any(Interning(self))
    }

    fn owners(&mut self, raw: &RawValue) -> Result<Box<[OwnerRef]>, serde_json::Error> {
        #[derive(Deserialize)]
        struct Owner<'a> {
            #[serde(borrow, rename = "apiVersion")]
            api_version: Name<'a>,
            #[serde(borrow)]
            kind: Name<'a>,
            #[serde(borrow)]
            name: Name<'a>,
            #[serde(borrow)]
            uid: Name<'a>,
            controller: Option<bool>,
        }
        let owners: Option<Vec<Owner<'_>>> = serde_json::from_str(raw.get())?;
        Ok(owners
            .unwrap_or_default()
            .into_iter()
            .map(|owner| OwnerRef {
                kind: self.owner_kind(&owner.api_version.0, &owner.kind.0),
                name: self.intern(&owner.name.0),
                uid: Uid::parse(&owner.uid.0),
                controller: owner.controller == Some(true),
            })
            .collect())
    }

    fn owner_kind(&mut self, api_version: &str, kind: &str) -> Kind {
        let known = self.owner_kinds.iter().find(|(version, known)| **version == *api_version && *known.name == *kind);
        if let Some((_, known)) = known {
            return known.clone();
        }
        // Owners have few kinds. Objects with made-up owner kinds must not slow down this linear search.
        if self.owner_kinds.len() >= 64 {
            self.owner_kinds.clear();
        }
        let kind_of = Kind::from_api_version(api_version, kind);
        self.owner_kinds.push((api_version.into(), kind_of.clone()));
        kind_of
    }
}
