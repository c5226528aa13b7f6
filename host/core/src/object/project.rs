//! Extracts parts of JSON text in one pass, for many projections, without building a tree of values.
//!
//! Flow: paths of all projections -> one trie whose nodes have one bit per projection -> a walk over the text that
//! skips fields without a reader and copies the others verbatim, each to its own text.
//!
//! Invariants:
//! 1. Values are copied verbatim: numbers and escapes do not change.
//! 2. An object or list on a path is kept even if it becomes empty; any other value in the middle of a path is left
//!    out.
//!
//! Not here: the metadata and the top level of a Kubernetes object (`ingest`).

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use smallvec::SmallVec;

use crate::object::field::{FieldMask, FieldPath};
use crate::object::selector::{Selector, SelectorForm};

/// Maximum number of texts per object. Each text costs memory in every object; with fewer texts, readers cut longer
/// ones.
pub const MAX_TEXTS: usize = 4;

/// A set of projections: bit i stands for the i-th.
pub(crate) type Bits = u8;

const _: () = assert!(MAX_TEXTS <= Bits::BITS as usize, "a walk writes all texts of an object");

/// The treatment of one field's value.
#[derive(Debug, Default)]
pub(crate) struct Node {
    /// The projections that contain the whole value.
    keep: Bits,
    /// The projections that contain the value or a part of it.
    through: Bits,
    captures: Vec<Capture>,
    /// Whether a node below has captures.
    captures_below: bool,
    children: Vec<(Box<str>, Node)>,
}

/// A value that the host itself extracts from the object.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Capture {
    /// Scalars of this index.
    Index(usize),
    /// An empty value for this index if the field is present.
    Presence(usize),
    /// The object's own selector.
    Selector(usize, SelectorForm),
}

/// Output buffers of a walk.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    /// One text per projection.
    pub(crate) outs: Vec<String>,
    /// (index, value), in the order of the text.
    pub(crate) index_values: Vec<(usize, String)>,
    /// One per selector; absent if missing, null or invalid.
    pub(crate) selectors: Vec<Option<Selector>>,
}

impl Node {
    pub(crate) fn keep(&mut self, names: &[Box<str>], bit: Bits) {
        self.through |= bit;
        match names.split_first() {
            None => self.keep |= bit,
            Some((name, rest)) => self.child_mut(name).keep(rest, bit),
        }
    }

    pub(crate) fn capture(&mut self, names: &[Box<str>], capture: Capture) {
        match names.split_first() {
            None => self.captures.push(capture),
            Some((name, rest)) => {
                self.captures_below = true;
                self.child_mut(name).capture(rest, capture);
            }
        }
    }

    pub(crate) fn child(&self, name: &str) -> Option<&Node> {
        self.children.iter().find(|(ours, _)| **ours == *name).map(|(_, node)| node)
    }

    pub(crate) fn kept_by(&self) -> Bits {
        self.keep
    }

    pub(crate) fn wanted_by(&self) -> Bits {
        self.through
    }

    fn child_mut(&mut self, name: &str) -> &mut Node {
        let at = self.children.iter().position(|(ours, _)| **ours == *name).unwrap_or_else(|| {
            self.children.push((name.into(), Node::default()));
            self.children.len() - 1
        });
        &mut self.children[at].1
    }
}

impl Sink {
    /// Clears the buffers for `n_outs` texts and `n_selectors` selectors.
    pub(crate) fn reset(&mut self, n_outs: usize, n_selectors: usize) {
        self.outs.resize_with(n_outs, String::new);
        self.outs.iter_mut().for_each(String::clear);
        self.index_values.clear();
        self.selectors.clear();
        self.selectors.resize(n_selectors, None);
    }

    pub(crate) fn push(&mut self, to: Bits, text: &str) {
        for out in bits(to) {
            self.outs[out].push_str(text);
        }
    }

    /// Begins a member of an object: a comma if needed, the key and a colon. Returns the marks for [`Sink::undo`].
    pub(crate) fn begin_member(&mut self, to: Bits, key: &str) -> Marks {
        bits(to)
            .map(|out| {
                let text = &mut self.outs[out];
                let mark = text.len();
                comma(text);
                push_json_string(text, key);
                text.push(':');
                (out, mark)
            })
            .collect()
    }

    fn begin_element(&mut self, to: Bits) -> Marks {
        bits(to)
            .map(|out| {
                let text = &mut self.outs[out];
                let mark = text.len();
                comma(text);
                (out, mark)
            })
            .collect()
    }

    /// Reverts the members that have no value.
    pub(crate) fn undo(&mut self, marks: Marks, written: Bits) {
        for (out, mark) in marks {
            if written & (1 << out) == 0 {
                self.outs[out].truncate(mark);
            }
        }
    }

    /// Walks over a value that was split off before.
    pub(crate) fn walk(&mut self, node: Option<&Node>, keep: Bits, raw: &RawValue) -> Result<Bits, serde_json::Error> {
        match node {
            None => {
                self.push(keep, raw.get());
                Ok(keep)
            }
            Some(node) => {
                let mut inner = serde_json::Deserializer::from_str(raw.get());
                ValueSeed { node, keep, sink: self }.deserialize(&mut inner)
            }
        }
    }

    /// Captures the values of the indexes and selectors at this node.
    pub(crate) fn capture_all(&mut self, node: &Node, raw: &RawValue) {
        for &capture in &node.captures {
            self.capture(capture, raw);
        }
    }

    fn capture(&mut self, capture: Capture, raw: &RawValue) {
        match capture {
            Capture::Index(index) => each_scalar(raw.get(), &mut |value| self.index_values.push((index, value))),
            Capture::Presence(index) => {
                if raw.get() != "null" {
                    self.index_values.push((index, String::new()));
                }
            }
            // An invalid selector selects nothing, as upstream; the object itself is still valid.
            Capture::Selector(slot, form) => {
                self.selectors[slot] = Selector::from_json(raw.get(), form).ok().flatten();
            }
        }
    }
}

/// Length of each text before a member was begun.
pub(crate) type Marks = SmallVec<[(usize, usize); MAX_TEXTS]>;

fn bits(mut of: Bits) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (of != 0).then(|| {
            let bit = of.trailing_zeros() as usize;
            of &= of - 1;
            bit
        })
    })
}

fn comma(text: &mut String) {
    if !text.as_bytes().last().is_none_or(|last| matches!(last, b'{' | b'[')) {
        text.push(',');
    }
}

/// Appends `value` as a JSON string.
pub(crate) fn push_json_string(text: &mut String, value: &str) {
    if value.bytes().any(|b| b < 0x20 || b == b'"' || b == b'\\') {
        // Serializing a string cannot fail.
        text.push_str(&serde_json::to_string(value).unwrap_or_default());
    } else {
        text.push('"');
        text.push_str(value);
        text.push('"');
    }
}

/// Visits the value of a field; yields the projections that got a part of it.
pub(crate) struct ValueSeed<'a> {
    pub(crate) node: &'a Node,
    /// The projections that contain the whole value because of an ancestor node.
    pub(crate) keep: Bits,
    pub(crate) sink: &'a mut Sink,
}

impl<'de> DeserializeSeed<'de> for ValueSeed<'_> {
    type Value = Bits;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Bits, D::Error> {
        let Self { node, keep, sink } = self;
        let keep = keep | node.keep;
        let deeper = node.through & !keep;
        let descend = deeper != 0 || node.captures_below;
        if keep == 0 && node.captures.is_empty() {
            if !descend {
                IgnoredAny::deserialize(deserializer)?;
                return Ok(0);
            }
            return deserializer.deserialize_any(Descend { node, active: deeper, sink });
        }
        let raw = <&RawValue>::deserialize(deserializer)?;
        sink.push(keep, raw.get());
        sink.capture_all(node, raw);
        if !descend {
            return Ok(keep);
        }
        let mut inner = serde_json::Deserializer::from_str(raw.get());
        let written = inner.deserialize_any(Descend { node, active: deeper, sink }).map_err(D::Error::custom)?;
        Ok(keep | written)
    }
}

/// Visits an object or list; yields the projections that got a part of it.
struct Descend<'a> {
    node: &'a Node,
    active: Bits,
    sink: &'a mut Sink,
}

impl<'de> DeserializeSeed<'de> for Descend<'_> {
    type Value = Bits;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Bits, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Descend<'_> {
    type Value = Bits;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Bits, A::Error> {
        let Self { node, active, sink } = self;
        sink.push(active, "{");
        while let Some(Name(name)) = map.next_key()? {
            match node.child(&name) {
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
                Some(child) => {
                    let marks = sink.begin_member(child.through & active, &name);
                    let written = map.next_value_seed(ValueSeed { node: child, keep: 0, sink: &mut *sink })?;
                    sink.undo(marks, written);
                }
            }
        }
        sink.push(active, "}");
        Ok(active)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Bits, A::Error> {
        let Self { node, active, sink } = self;
        sink.push(active, "[");
        loop {
            let marks = sink.begin_element(active);
            match seq.next_element_seed(Descend { node, active, sink: &mut *sink })? {
                Some(written) => sink.undo(marks, written),
                None => {
                    sink.undo(marks, 0);
                    break;
                }
            }
        }
        sink.push(active, "]");
        Ok(active)
    }

    fn visit_unit<E>(self) -> Result<Bits, E> {
        Ok(0)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Bits, E> {
        Ok(0)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Bits, E> {
        Ok(0)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Bits, E> {
        Ok(0)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Bits, E> {
        Ok(0)
    }

    fn visit_str<E>(self, _: &str) -> Result<Bits, E> {
        Ok(0)
    }
}

/// A member's name, borrowed from the text unless it has escapes.
pub(crate) struct Name<'de>(pub(crate) Cow<'de, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Name<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Name<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

/// Calls `take` with the scalar, or with each scalar of the list.
fn each_scalar(raw: &str, take: &mut impl FnMut(String)) {
    match raw.as_bytes().first() {
        Some(b'"') => {
            if let Ok(value) = serde_json::from_str(raw) {
                take(value);
            }
        }
        Some(b'[') => {
            let elements: Vec<&RawValue> = serde_json::from_str(raw).unwrap_or_default();
            elements.iter().filter(|element| !element.get().starts_with('[')).for_each(|e| each_scalar(e.get(), take));
        }
        Some(b'{' | b'n') | None => {}
        Some(_) => take(raw.to_owned()),
    }
}

/// Extracts the fields of one mask from texts.
#[derive(Debug)]
pub struct Projector {
    root: Node,
}

impl Projector {
    /// Builds the trie of a mask.
    pub fn new(mask: &FieldMask) -> Self {
        let mut root = Node { through: 1, ..Node::default() };
        mask.paths().for_each(|path| root.keep(path.names(), 1));
        Self { root }
    }

    /// Returns the fields of an object that the mask names, as compact as the input. Unlike a cached projection, the
    /// result does not include the fields that every text has, unless the mask names them.
    ///
    /// # Errors
    /// If the text is not a JSON object.
    pub fn project(&self, json: &str) -> Result<String, serde_json::Error> {
        let mut sink = Sink::default();
        sink.reset(1, 0);
        let mut deserializer = serde_json::Deserializer::from_str(json);
        let written = deserializer.deserialize_any(Descend { node: &self.root, active: 1, sink: &mut sink })?;
        deserializer.end()?;
        if written == 0 || !json.trim_start().starts_with('{') {
            return Err(serde_json::Error::custom("not a JSON object"));
        }
        Ok(sink.outs.pop().unwrap_or_default())
    }
}

pub(crate) fn scalars(path: &FieldPath, json: &str) -> Vec<String> {
    captured(path, Capture::Index(0), json).into_iter().map(|(_, value)| value).collect()
}

pub(crate) fn is_present(path: &FieldPath, json: &str) -> bool {
    !captured(path, Capture::Presence(0), json).is_empty()
}

fn captured(path: &FieldPath, capture: Capture, json: &str) -> Vec<(usize, String)> {
    let mut root = Node::default();
    root.capture(path.names(), capture);
    let mut sink = Sink::default();
    let mut deserializer = serde_json::Deserializer::from_str(json);
    match deserializer.deserialize_any(Descend { node: &root, active: 0, sink: &mut sink }) {
        Ok(_) => sink.index_values,
        Err(_) => Vec::new(),
    }
}
