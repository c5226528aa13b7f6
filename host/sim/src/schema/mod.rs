//! The shape of objects: fields, list types and keys, patch strategies.
//!
//! Flow: Kubernetes' types with the additional data of `builtin.txt` are read once, on first use; a
//! CustomResourceDefinition's `openAPIV3Schema` is converted to the same [`TypeSchema`]. Patching, server-side apply,
//! pruning and the OpenAPI documents walk objects along a [`Node`].
//!
//! Invariants:
//! 1. A schema never changes after it was built; a changed CustomResourceDefinition gets a new one.
//! 2. A list without a declared list type is atomic; a map or struct without one is granular.
//!
//! Not here: defaulting and validation (`defaults`), which served versions and verbs a kind has (`discovery`).
//!
//! Source: structured-merge-diff's schema, kube-openapi's extensions `x-kubernetes-*`.

mod canonical;
mod check;
mod crd;
mod parse;
mod quantity;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use indexmap::IndexMap;
use serde_json::Value;

pub use canonical::{canonicalize, reword, show_required};
pub use check::{prune, type_error, unknown_fields};
pub use crd::from_openapi;
pub use pintle_crd::type_name;
pub(crate) use quantity::nanos;

/// A shared handle on a kind's schema.
pub type TypeRef = Arc<TypeSchema>;

/// One struct type: its fields by JSON name, in alphabetical order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TypeSchema {
    /// Short name, for example `apps.v1.DeploymentSpec`; empty for types inside a CustomResourceDefinition.
    pub name: String,
    /// `(group, version, kind)` when the type is a kind's root.
    pub gvk: Option<(String, String, String)>,
    /// Fields by JSON name.
    pub fields: IndexMap<String, Field>,
    /// The whole struct has one owner in server-side apply.
    pub atomic: bool,
    /// Fields that are not listed are kept (`x-kubernetes-preserve-unknown-fields`).
    pub open: bool,
}

/// One field of a struct.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// Shape of the value.
    pub shape: Shape,
    /// The field must be present.
    pub required: bool,
    /// How a strategic merge patch handles it.
    pub patch: PatchStrategy,
    /// The default of an absent value.
    pub default: Option<Value>,
    /// The server shows the field even when it is zero or empty.
    pub always: bool,
    /// A given zero or empty value is kept; otherwise it counts as absent.
    pub pointer: bool,
}

/// How strategic merge patch handles a field.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PatchStrategy {
    /// Lists are merged rather than replaced.
    pub merge: bool,
    /// The key of list elements; absent for lists of scalars.
    pub merge_key: Option<String>,
    /// Absent union members are cleared (`$retainKeys`).
    pub retain_keys: bool,
    /// Structs are replaced rather than merged.
    pub replace: bool,
}

/// The shape of a value.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// A JSON scalar.
    Scalar(Scalar),
    /// Anything.
    Any,
    /// A built-in struct, by its index in the table (types may be recursive).
    Builtin(usize),
    /// A struct of a CustomResourceDefinition.
    Struct(Arc<TypeSchema>),
    /// String keys with values of one shape.
    Map {
        /// Shape of each value.
        value: Box<Shape>,
        /// The whole map has one owner.
        atomic: bool,
    },
    /// A list.
    List {
        /// Shape of each element.
        item: Box<Shape>,
        /// The keys of the elements.
        kind: ListKind,
    },
}

/// Scalar types of OpenAPI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scalar {
    /// Text.
    String,
    /// RFC 3339 with seconds.
    Time,
    /// RFC 3339 with microseconds.
    MicroTime,
    /// Base64.
    Bytes,
    /// 32-bit integer.
    Int32,
    /// 64-bit integer.
    Int64,
    /// Floating point.
    Number,
    /// `true` or `false`.
    Bool,
    /// A number or text.
    IntOrString,
    /// A resource quantity: text, or a number that stands for it.
    Quantity,
}

/// How server-side apply identifies the elements of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListKind {
    /// The list is one value.
    Atomic,
    /// Scalars, each at most once.
    Set,
    /// Structs, identified by these fields.
    Map(Vec<String>),
}

/// A position in a schema while walking an object.
#[derive(Debug, Clone, Copy)]
pub enum Node<'a> {
    /// Inside a struct.
    Struct(&'a TypeSchema),
    /// Any other shape.
    Shape(&'a Shape),
    /// Unknown: everything below is untyped.
    Unknown,
}

impl<'a> Node<'a> {
    /// The node of a kind's root, untyped when there is no schema.
    pub fn root(schema: Option<&'a TypeRef>) -> Self {
        schema.map_or(Node::Unknown, |schema| Node::Struct(schema))
    }

    /// The node of a value with this shape.
    pub fn of(shape: &'a Shape) -> Self {
        match shape {
            Shape::Builtin(index) => Node::Struct(&BUILTIN.types[*index]),
            Shape::Struct(schema) => Node::Struct(schema),
            other => Node::Shape(other),
        }
    }

    /// The declared field of a struct.
    pub fn declared(self, name: &str) -> Option<&'a Field> {
        match self {
            Node::Struct(schema) => schema.fields.get(name),
            _ => None,
        }
    }

    /// The node of the value under `name`, in a struct or a map.
    pub fn child(self, name: &str) -> Node<'a> {
        match self {
            Node::Struct(schema) => schema.fields.get(name).map_or(Node::Unknown, |field| Node::of(&field.shape)),
            Node::Shape(Shape::Map { value, .. }) => Node::of(value),
            _ => Node::Unknown,
        }
    }

    /// The value of an absent key of a list's element: its default, or zero if Go always writes the field.
    pub fn key_default(self, name: &str) -> Option<Value> {
        let field = self.declared(name)?;
        let zero = || match field.shape {
            Shape::Scalar(Scalar::String) => Some(Value::from("")),
            Shape::Scalar(Scalar::Int32 | Scalar::Int64) => Some(Value::from(0)),
            _ => None,
        };
        field.default.clone().or_else(|| if field.always { zero() } else { None })
    }

    /// The node of each element of a list.
    pub fn item(self) -> Node<'a> {
        match self {
            Node::Shape(Shape::List { item, .. }) => Node::of(item),
            _ => Node::Unknown,
        }
    }

    /// How the elements of a list are identified.
    pub fn list_kind(self) -> &'a ListKind {
        match self {
            Node::Shape(Shape::List { kind, .. }) => kind,
            _ => &ListKind::Atomic,
        }
    }

    /// Whether the value has one owner as a whole.
    pub fn is_atomic(self) -> bool {
        match self {
            Node::Struct(schema) => schema.atomic,
            Node::Shape(Shape::Map { atomic, .. }) => *atomic,
            Node::Shape(Shape::List { kind, .. }) => *kind == ListKind::Atomic,
            Node::Shape(_) | Node::Unknown => false,
        }
    }
}

/// The parsed table of built-in types.
#[derive(Debug, Default)]
pub(crate) struct Builtin {
    /// All types, in the table's order.
    pub(crate) types: Vec<TypeRef>,
    /// Index of a type by name.
    pub(crate) by_name: HashMap<String, usize>,
    by_gvk: HashMap<(String, String, String), usize>,
}

static BUILTIN: LazyLock<Builtin> = LazyLock::new(|| parse::table(include_str!("builtin.txt")));

/// The table of built-in types.
pub(crate) fn builtin() -> &'static Builtin {
    &BUILTIN
}

/// The schema of a built-in kind.
pub fn lookup(group: &str, version: &str, kind: &str) -> Option<TypeRef> {
    let key = (group.to_owned(), version.to_owned(), kind.to_owned());
    BUILTIN.by_gvk.get(&key).map(|index| BUILTIN.types[*index].clone())
}

/// The built-in type with this short name, for example `meta.v1.ObjectMeta`.
pub fn named(name: &str) -> Option<TypeRef> {
    BUILTIN.by_name.get(name).map(|index| BUILTIN.types[*index].clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_in_the_table_leads_to_a_type() {
        fn visit(shape: &Shape) {
            match shape {
                Shape::Builtin(index) => {
                    assert!(*index < builtin().types.len(), "dangling reference")
                }
                Shape::Map { value: inner, .. } | Shape::List { item: inner, .. } => visit(inner),
                _ => {}
            }
        }
        assert!(builtin().types.len() > 400);
        for schema in &builtin().types {
            schema.fields.values().for_each(|field| visit(&field.shape));
        }
        assert!(lookup("", "v1", "Pod").is_some());
        assert!(lookup("", "v1", "Nothing").is_none());
    }

    #[test]
    fn every_fact_is_about_a_type_or_a_field() {
        for line in include_str!("builtin.txt").lines().filter(|line| !line.starts_with('#')) {
            let (place, _) = line.split_once(' ').unwrap();
            let (of, field) = place.rsplit_once('.').unwrap();
            let is_field = named(of).is_some_and(|schema| schema.fields.contains_key(field));
            assert!(is_field || named(place).is_some(), "{line}");
        }
    }
}
