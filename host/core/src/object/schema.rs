//! The fields that objects of a kind can have, according to a schema.
//!
//! ```text
//! kubernetes.txt (built-in kinds), a CustomResourceDefinition, OpenAPI of a server ──> KindSchema ──check(path)──> known | open | unknown
//! ```
//!
//! If a schema leaves something open, such as a map of labels or `x-kubernetes-preserve-unknown-fields`, a path into it
//! is not rejected. Paths continue into list elements, as in projections.
//!
//! `kubernetes.txt` has a line for each kind, `apps/v1/Deployment = apps.v1.Deployment`, and one for each type, with
//! its name and fields: `name:type` as in [`KubernetesField`], where `!` follows the name of a field that is always
//! written, and `?` precedes the type of a pointer. `cargo xtask generate bindings` generates it from the OpenAPI
//! documents of Kubernetes.
//!
//! Not here: whether objects have the fields (`lifecycle::fields`), reading schemas from files and servers.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, LazyLock};

use serde_json::Value;

use crate::object::field::FieldPath;
use crate::object::id::Kind;
use crate::text::like;

/// Maximum depth of schemas that refer to themselves; everything below it is open.
const MAX_DEPTH: usize = 40;
/// Maximum names listed in an error.
const MAX_NAMES: usize = 8;
/// In the published macros of the Rust SDK, because that crate must contain it.
const TEXT: &str = include_str!("../../../../sdk/rust/macros/src/kubernetes.txt");
/// The type of `metadata`.
const OBJECT_META: &str = "meta.v1.ObjectMeta";

static KUBERNETES: LazyLock<Table> = LazyLock::new(Table::parse);

/// The kinds and types of Kubernetes.
struct Table {
    /// Kind -> name of its type.
    kinds: HashMap<&'static str, &'static str>,
    /// Name of a type -> its fields as text.
    types: BTreeMap<&'static str, &'static str>,
}

/// A field of a Kubernetes type.
#[derive(Clone, Copy, Debug)]
pub struct KubernetesField {
    /// Its name.
    pub name: &'static str,
    /// Its type: the name of a type or a scalar, or `any`, after `[]` for lists of it and `{}` for maps from strings.
    pub of: &'static str,
    /// Whether Go writes it even if it is empty.
    pub is_always_written: bool,
    /// Whether it is a pointer in Go, so that absent and zero differ.
    pub is_pointer: bool,
}

/// The kinds of Kubernetes, such as `apps/v1/Deployment`, with the names of their types.
pub fn kubernetes_kinds() -> impl Iterator<Item = (&'static str, &'static str)> {
    KUBERNETES.kinds.iter().map(|(kind, name)| (*kind, *name))
}

/// The types of Kubernetes by name, with their fields by name.
pub fn kubernetes_types() -> impl Iterator<Item = (&'static str, impl Iterator<Item = KubernetesField>)> {
    KUBERNETES.types.keys().map(|name| (*name, KUBERNETES.fields(name)))
}

impl Table {
    fn parse() -> Self {
        let (mut kinds, mut types) = (HashMap::new(), BTreeMap::new());
        for line in TEXT.lines().filter(|line| !line.starts_with('#')) {
            match line.split_once(" = ") {
                Some((kind, name)) => drop(kinds.insert(kind, name)),
                None => {
                    let (name, fields) = line.split_once(' ').unwrap_or((line, ""));
                    types.insert(name, fields);
                }
            }
        }
        Self { kinds, types }
    }

    /// The fields of a type.
    fn fields(&self, name: &str) -> impl Iterator<Item = KubernetesField> + use<> {
        let fields = self.types.get(name).copied().unwrap_or_default().split_whitespace();
        fields.filter_map(|field| field.split_once(':')).map(|(name, of)| KubernetesField {
            name: name.trim_end_matches('!'),
            of: of.trim_start_matches('?'),
            is_always_written: name.ends_with('!'),
            is_pointer: of.starts_with('?'),
        })
    }
}

/// The fields of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct KindSchema {
    /// Name in errors.
    name: String,
    root: Shape,
}

/// The shape of a value.
#[derive(Clone, Debug, PartialEq)]
enum Shape {
    /// Anything, with any fields.
    Open,
    /// A value without fields, with the name of its type.
    Scalar(String),
    List(Box<Shape>),
    Map(Box<Shape>),
    Struct {
        fields: BTreeMap<String, Shape>,
        /// Whether there may be other fields.
        open: bool,
    },
    /// A Kubernetes type, as written in `kubernetes.txt`.
    Kubernetes(&'static str),
}

/// The result for a path that the schema does not reject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// The schema has the field.
    Field,
    /// The path leads into a part that the schema leaves open.
    Open,
}

/// A path that no object of the kind can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {kind} {why}{advice}")]
pub struct UnknownField {
    /// The path.
    pub path: String,
    kind: String,
    why: String,
    /// The nearest existing fields.
    advice: String,
}

impl KindSchema {
    /// A built-in kind of Kubernetes. `None` for other kinds, and for versions that this build does not have.
    pub fn of_kubernetes(kind: &Kind) -> Option<Self> {
        let name = KUBERNETES.kinds.get(kind.to_string().as_str())?;
        Some(Self { name: kind.to_string(), root: Shape::Kubernetes(name) })
    }

    /// Returns an error for a kind that is not a Kubernetes kind, but whose name or group is almost one. Versions are
    /// not compared.
    pub fn misspelled(kind: &Kind) -> Option<UnknownField> {
        // Other groups have a dot, and neither ending.
        let is_own = !kind.group.contains('.') || kind.group.ends_with(".k8s.io");
        let known = || KUBERNETES.kinds.keys().filter_map(|kind| kind.parse::<Kind>().ok());
        let groups: BTreeSet<Arc<str>> = known().map(|kind| kind.group).collect();
        let names = |group: &str| -> BTreeSet<Arc<str>> {
            known().filter(|kind| *kind.group == *group).map(|kind| kind.name).collect()
        };
        let meant = if !is_own {
            None
        } else if groups.contains(&kind.group) {
            let names = names(&kind.group);
            let near = like(&kind.name, names.iter().map(|name| &**name)).filter(|_| !names.contains(&kind.name));
            near.map(|name| Kind::new(&kind.group, &kind.version, name))
        } else {
            let near = like(&kind.group, groups.iter().map(|group| &**group).filter(|group| !group.is_empty()));
            near.filter(|group| names(group).contains(&kind.name))
                .map(|group| Kind::new(group, &kind.version, &kind.name))
        }?;
        let advice = format!("; did you mean {meant}?");
        Some(UnknownField { path: kind.to_string(), kind: "Kubernetes".into(), why: "has no such kind".into(), advice })
    }

    /// The fields that every object has: `apiVersion`, `kind` and `metadata`. Everything else is open.
    pub fn of_any(name: &str) -> Self {
        Self { name: name.to_owned(), root: object(Shape::Struct { fields: BTreeMap::new(), open: true }) }
    }

    /// A version of a CustomResourceDefinition, by its `openAPIV3Schema`.
    pub fn of_definition(kind: &Kind, schema: &Value) -> Self {
        Self { name: kind.to_string(), root: object(shape(schema, &Value::Null, 0)) }
    }

    /// All kinds of a CustomResourceDefinition, one per version; none for other objects.
    pub fn of_object(definition: &Value) -> Vec<(Kind, Self)> {
        if definition["kind"] != "CustomResourceDefinition" {
            return Vec::new();
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let spec = &definition["spec"];
        let (group, name) = (text(&spec["group"]), text(&spec["names"]["kind"]));
        let versions = spec["versions"].as_array().into_iter().flatten();
        versions
            .map(|version| {
                let kind = Kind::new(&group, &text(&version["name"]), &name);
                let schema = Self::of_definition(&kind, &version["schema"]["openAPIV3Schema"]);
                (kind, schema)
            })
            .collect()
    }

    /// A kind in the OpenAPI v3 document of its group version. `None` if the document does not describe it.
    pub fn of_openapi(kind: &Kind, document: &Value) -> Option<Self> {
        let schemas = document.pointer("/components/schemas")?.as_object()?;
        let is_kind =
            |id: &Value| id["group"] == *kind.group && id["version"] == *kind.version && id["kind"] == *kind.name;
        let found = schemas.values().find(|schema| {
            let ids = schema["x-kubernetes-group-version-kind"].as_array();
            ids.is_some_and(|ids| ids.len() == 1 && is_kind(&ids[0]))
        })?;
        Some(Self { name: kind.to_string(), root: object(shape(found, document, 0)) })
    }

    /// Looks up a path.
    ///
    /// # Errors
    /// [`UnknownField`] if no object of the kind can have it.
    pub fn check(&self, path: &FieldPath) -> Result<Known, UnknownField> {
        let mut at = self.root.clone();
        for (i, name) in path.names().iter().enumerate() {
            let before = &path.names()[..i];
            at = match at.into_element() {
                // An element is not a list.
                Shape::Open | Shape::List(_) => return Ok(Known::Open),
                Shape::Map(value) => *value,
                Shape::Scalar(of) => {
                    let place = show(before.iter().map(|name| &**name));
                    let why = format!("has no such field: {place} is of type {of} and has no fields");
                    return Err(self.unknown(path, why, String::new()));
                }
                Shape::Struct { mut fields, open } => match fields.remove(&**name) {
                    Some(shape) => shape,
                    None if open => return Ok(Known::Open),
                    None => {
                        let advice = advice(path.names(), i, fields.keys().map(String::as_str));
                        return Err(self.unknown(path, "has no such field".into(), advice));
                    }
                },
                Shape::Kubernetes(of) => match KUBERNETES.fields(of).find(|field| *field.name == **name) {
                    Some(field) => of_table(field.of),
                    None => {
                        let advice = advice(path.names(), i, KUBERNETES.fields(of).map(|field| field.name));
                        return Err(self.unknown(path, "has no such field".into(), advice));
                    }
                },
            };
        }
        Ok(Known::Field)
    }

    fn unknown(&self, path: &FieldPath, why: String, advice: String) -> UnknownField {
        UnknownField { path: path.to_string(), kind: self.name.clone(), why, advice }
    }
}

impl Shape {
    /// The element type of a list of any depth; other shapes unchanged.
    fn into_element(self) -> Self {
        match self {
            Self::List(item) => item.into_element(),
            other => other,
        }
    }
}

/// Parses a type of the table.
fn of_table(text: &'static str) -> Shape {
    match (text.strip_prefix("[]"), text.strip_prefix("{}")) {
        (Some(item), _) => Shape::List(Box::new(of_table(item))),
        (_, Some(value)) => Shape::Map(Box::new(of_table(value))),
        _ if text == "any" => Shape::Open,
        _ if KUBERNETES.types.contains_key(text) => Shape::Kubernetes(text),
        _ => Shape::Scalar(text.to_owned()),
    }
}

/// Adds the fields that every object has, whatever its schema defines for them.
fn object(shape: Shape) -> Shape {
    let (mut fields, open) = match shape {
        Shape::Struct { fields, open } => (fields, open),
        _ => (BTreeMap::new(), true),
    };
    for name in ["apiVersion", "kind"] {
        fields.insert(name.to_owned(), Shape::Scalar("string".to_owned()));
    }
    fields.insert("metadata".to_owned(), Shape::Kubernetes(OBJECT_META));
    Shape::Struct { fields, open }
}

/// Converts a JSON schema; references are resolved in the document.
fn shape(schema: &Value, document: &Value, depth: usize) -> Shape {
    if depth > MAX_DEPTH {
        return Shape::Open;
    }
    let flag = |name: &str| schema[name] == true;
    let reference = schema["$ref"].as_str().or_else(|| schema["allOf"][0]["$ref"].as_str());
    if let Some(reference) = reference {
        if reference.ends_with(".meta.v1.ObjectMeta") {
            return Shape::Kubernetes(OBJECT_META);
        }
        let target = reference.strip_prefix('#').and_then(|pointer| document.pointer(pointer));
        return target.map_or(Shape::Open, |target| shape(target, document, depth + 1));
    }
    if flag("x-kubernetes-int-or-string") {
        return Shape::Scalar("int-or-string".to_owned());
    }
    let of = schema["type"].as_str().unwrap_or_default();
    match of {
        "array" => Shape::List(Box::new(shape(&schema["items"], document, depth + 1))),
        "object" | "" => {
            let properties = schema["properties"].as_object();
            let fields: BTreeMap<String, Shape> = properties
                .into_iter()
                .flatten()
                .map(|(name, schema)| (name.clone(), shape(schema, document, depth + 1)))
                .collect();
            let is_open = flag("x-kubernetes-preserve-unknown-fields");
            let made = match &schema["additionalProperties"] {
                Value::Null | Value::Bool(false) if fields.is_empty() => Shape::Open,
                Value::Null | Value::Bool(false) => Shape::Struct { fields, open: is_open },
                Value::Object(_) if fields.is_empty() && !is_open => {
                    Shape::Map(Box::new(shape(&schema["additionalProperties"], document, depth + 1)))
                }
                _ => Shape::Struct { fields, open: true },
            };
            if flag("x-kubernetes-embedded-resource") { object(made) } else { made }
        }
        scalar => Shape::Scalar(scalar.to_owned()),
    }
}

/// The names as a path.
fn show<'n>(names: impl Iterator<Item = &'n str>) -> String {
    FieldPath::of(&names.collect::<Vec<_>>()).to_string()
}

/// The fields with a similar spelling at this position of the path, or some of the existing ones.
fn advice<'n>(path: &[Box<str>], at: usize, fields: impl Iterator<Item = &'n str>) -> String {
    let wrong = path[at].to_lowercase();
    let mut near: Vec<(usize, &str)> =
        fields.map(|field| (strsim::damerau_levenshtein(&wrong, &field.to_lowercase()), field)).collect();
    near.sort_unstable();
    let with = |name: &str| {
        let names = path.iter().enumerate().map(|(i, old)| if i == at { name } else { old });
        show(names)
    };
    match near.first() {
        Some((distance, name)) if *distance <= (wrong.len() / 3).max(2) => {
            let same = near.iter().take_while(|(other, _)| other == distance).count();
            let others = near[1..same.min(3)].iter().map(|(_, name)| format!(" or {}", with(name)));
            format!("; did you mean {}{}?", with(name), others.collect::<String>())
        }
        Some(_) => {
            let mut names: Vec<&str> = near.iter().take(MAX_NAMES).map(|(_, name)| *name).collect();
            names.sort_unstable();
            let more = if near.len() > MAX_NAMES { ", ..." } else { "" };
            format!("; fields there are {}{more}", names.join(", "))
        }
        None => String::new(),
    }
}

#[cfg(test)]
mod tests;
