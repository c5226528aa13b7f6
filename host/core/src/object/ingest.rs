//! JSON text of an object to a cached [`Object`], in one pass.
//!
//! Flow: text from the API server + the plan of the informer -> metadata, one text for each projection, index values, selectors.
//!
//! Invariants:
//! 1. Every text has `apiVersion` and `kind` of the plan (items of lists and metadata-only objects carry none or others) and
//!    `metadata.{name,namespace,uid,resourceVersion}` as far as the object has them.
//! 2. `managedFields` is in no text, whatever the projection says.
//!
//! Not here: the walk below `metadata` and the other top-level fields (`project`).

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::contract::manifest::SelectorForm;
use crate::object::field::{FieldMask, FieldPath};
use crate::object::id::{Kind, ObjectKey};
use crate::object::project::{Bits, Capture, MAX_OUTS, Name, Node, Sink, ValueSeed, push_json_string};
use crate::object::version::{ResourceVersion, Uid};
use crate::object::{Labels, Meta, Object, OwnerRef};
use crate::ports::api::Detail;

/// What one slot of the texts holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Projection {
    /// Everything but `managedFields`.
    Whole,
    /// These fields.
    Fields(FieldMask),
}

/// What to take out of each object of one informer. Slots that nobody uses any more are `None`.
#[derive(Debug)]
pub struct IngestPlan {
    kind: Kind,
    slots: Vec<Option<Projection>>,
    indexes: Vec<Option<FieldPath>>,
    selectors: Vec<Option<(FieldPath, SelectorForm)>>,
    /// `{"apiVersion":...,"kind":...`
    prefix: String,
    /// Each for at most [`MAX_OUTS`] slots; the first one also captures.
    passes: Vec<Pass>,
}

#[derive(Debug)]
struct Pass {
    n_slots: usize,
    /// Slots in use.
    used: Bits,
    /// Slots of whole objects.
    whole: Bits,
    root: Node,
}

/// An object that cannot be cached. The text says why and what is known of its name.
#[derive(Debug, thiserror::Error)]
#[error("object does not parse: {0}")]
pub struct IngestError(#[source] serde_json::Error);

impl IngestPlan {
    /// The plan for these slots.
    pub fn new(
        kind: Kind,
        slots: Vec<Option<Projection>>,
        indexes: Vec<Option<FieldPath>>,
        selectors: Vec<Option<(FieldPath, SelectorForm)>>,
    ) -> Self {
        let mut passes: Vec<Pass> = slots.chunks(MAX_OUTS).map(Pass::new).collect();
        if passes.is_empty() {
            passes.push(Pass::new(&[]));
        }
        let root = &mut passes[0].root;
        for (slot, path) in (0..).zip(&indexes) {
            if let Some(path) = path {
                root.capture(path.names(), Capture::Index(slot));
            }
        }
        for (slot, selector) in (0..).zip(&selectors) {
            if let Some((path, form)) = selector {
                root.capture(path.names(), Capture::Selector(slot, *form));
            }
        }
        let mut prefix = String::from("{\"apiVersion\":");
        push_json_string(&mut prefix, &kind.api_version());
        prefix.push_str(",\"kind\":");
        push_json_string(&mut prefix, &kind.name);
        Self { kind, slots, indexes, selectors, prefix, passes }
    }

    /// Kind of the objects.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// What each text holds.
    pub fn slots(&self) -> &[Option<Projection>] {
        &self.slots
    }

    /// Field of each index.
    pub fn indexes(&self) -> &[Option<FieldPath>] {
        &self.indexes
    }

    /// Field and form of each selector.
    pub fn selectors(&self) -> &[Option<(FieldPath, SelectorForm)>] {
        &self.selectors
    }

    /// How much of each object has to be transferred.
    pub fn detail(&self) -> Detail {
        let projected = self.slots.iter().flatten().all(|slot| match slot {
            Projection::Whole => false,
            Projection::Fields(mask) => mask.paths().all(FieldPath::in_metadata),
        });
        let captured = self.indexes.iter().flatten().all(FieldPath::in_metadata)
            && self.selectors.iter().flatten().all(|(path, _)| path.in_metadata());
        if projected && captured { Detail::Metadata } else { Detail::Full }
    }
}

impl Pass {
    fn new(slots: &[Option<Projection>]) -> Self {
        let mut pass = Self { n_slots: slots.len(), used: 0, whole: 0, root: Node::default() };
        for (i, slot) in slots.iter().enumerate() {
            let bit = 1 << i;
            match slot {
                None => continue,
                Some(Projection::Whole) => pass.whole |= bit,
                Some(Projection::Fields(mask)) => {
                    // What every text has is written without being asked for.
                    for path in mask.paths().filter(|path| !matches!(&*path.names()[0], "apiVersion" | "kind")) {
                        pass.root.keep(path.names(), bit);
                    }
                }
            }
            pass.used |= bit;
        }
        pass
    }
}

/// Turns texts into objects. Each informer has its own, because it keeps buffers and shares texts that stand in many objects.
#[derive(Debug, Default)]
pub struct Ingester {
    sink: Sink,
    interner: Interner,
}

impl Ingester {
    /// Takes one object in.
    ///
    /// # Errors
    /// [`IngestError`] if the text is not JSON, or not an object with a name; retrying does not help.
    pub fn ingest(&mut self, plan: &IngestPlan, json: &str) -> Result<Object, IngestError> {
        let mut texts: Vec<Arc<str>> = Vec::with_capacity(plan.slots.len());
        let mut object = None;
        for (i, pass) in plan.passes.iter().enumerate() {
            self.sink.reset(pass.n_slots, plan.selectors.len());
            self.sink.push(pass.used, &plan.prefix);
            let mut deserializer = serde_json::Deserializer::from_str(json);
            let seed = Root { pass, sink: &mut self.sink, interner: &mut self.interner };
            let meta = deserializer.deserialize_map(seed).map_err(IngestError)?;
            deserializer.end().map_err(IngestError)?;
            self.sink.push(pass.used, "}");
            texts.extend(self.sink.outs.iter().map(|text| match text.is_empty() {
                true => self.interner.intern(""),
                false => text.as_str().into(),
            }));
            if i == 0 {
                object = Some((meta, self.index_values(), std::mem::take(&mut self.sink.selectors)));
            }
        }
        let (meta, index_values, selectors) =
            object.ok_or_else(|| IngestError(serde_json::Error::custom("the plan has no pass")))?;
        Ok(Object { meta, texts: texts.into(), index_values, selectors: selectors.into() })
    }

    fn index_values(&mut self) -> Box<[(u16, Arc<str>)]> {
        let mut values = std::mem::take(&mut self.sink.index_values);
        values.sort_unstable();
        values.dedup();
        values.into_iter().map(|(slot, value)| (slot, self.interner.intern(&value))).collect()
    }
}

/// The whole object.
struct Root<'a> {
    pass: &'a Pass,
    sink: &'a mut Sink,
    interner: &'a mut Interner,
}

impl<'de> Visitor<'de> for Root<'_> {
    type Value = Meta;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of Kubernetes")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Meta, A::Error> {
        let Self { pass, sink, interner } = self;
        let mut meta = None;
        while let Some(Name(name)) = map.next_key()? {
            let node = pass.root.child(&name);
            match &*name {
                "apiVersion" | "kind" => {
                    map.next_value::<IgnoredAny>()?;
                }
                "metadata" => {
                    sink.push(pass.used, ",\"metadata\":");
                    let keep = pass.whole | node.map_or(0, Node::kept_by);
                    meta = Some(map.next_value_seed(Metadata { node, used: pass.used, keep, sink, interner })?);
                }
                _ => match node {
                    Some(node) => {
                        let marks = sink.begin_member(pass.whole | node.wanted_by(), &name);
                        let written = map.next_value_seed(ValueSeed { node, keep: pass.whole, sink })?;
                        sink.undo(marks, written);
                    }
                    None if pass.whole != 0 => {
                        sink.begin_member(pass.whole, &name);
                        sink.push(pass.whole, map.next_value::<&RawValue>()?.get());
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
    /// Who wants all of it.
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
                    // No walk: everybody has the text already, also who names the field.
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

/// Shares texts that stand in many objects: namespaces, labels, owners, index values.
#[derive(Debug, Default)]
struct Interner {
    texts: HashSet<Arc<str>>,
    /// Forget what nobody uses when there are so many.
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
        // Owners are of a handful of kinds; whoever makes up more must not make the search long.
        if self.owner_kinds.len() >= 64 {
            self.owner_kinds.clear();
        }
        let kind_of = Kind::from_api_version(api_version, kind);
        self.owner_kinds.push((api_version.into(), kind_of.clone()));
        kind_of
    }
}
