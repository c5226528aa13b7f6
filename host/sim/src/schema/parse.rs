//! Reads Kubernetes' types, and the table of the server's additional data about them.
//!
//! The table is part of the binary, so a line that does not parse is a bug, which the test below detects.

use std::collections::HashMap;
use std::sync::Arc;

use pintle_core::object::schema::{KubernetesField, kubernetes_kinds, kubernetes_types};

use super::{Builtin, Field, ListKind, PatchStrategy, Scalar, Shape, TypeSchema};

/// Fields that come first in every kind.
const OF_OBJECTS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Place of a type by name.
type Places = HashMap<String, usize>;

/// All types, with the data of the table.
pub(super) fn table(text: &str) -> Builtin {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let facts: HashMap<&str, &str> = lines.filter_map(|line| line.split_once(' ')).collect();
    let kinds: HashMap<&str, &str> = kubernetes_kinds().map(|(kind, name)| (name, kind)).collect();
    let by_name = kubernetes_types().enumerate().map(|(place, (name, _))| (name.to_owned(), place)).collect();
    let mut builtin = Builtin { by_name, ..Builtin::default() };
    for (place, (name, fields)) in kubernetes_types().enumerate() {
        let atomic = facts.contains_key(name);
        let mut fields: Vec<KubernetesField> = fields.collect();
        let gvk = kinds.get(name).map(|kind| gvk(kind));
        if let Some(gvk) = &gvk {
            fields.sort_by_key(|field| OF_OBJECTS.iter().position(|name| *name == field.name).unwrap_or(usize::MAX));
            builtin.by_gvk.insert(gvk.clone(), place);
        }
        let fields = fields.iter().map(|of| {
            let facts = facts.get(format!("{name}.{}", of.name).as_str()).copied().unwrap_or_default();
            (of.name.to_owned(), field(&builtin.by_name, of, facts))
        });
        let fields = fields.collect();
        builtin.types.push(Arc::new(TypeSchema { name: name.to_owned(), gvk, fields, atomic, open: false }));
    }
    builtin
}

/// Group, version and kind of `apps/v1/Deployment` and of `v1/Pod`.
fn gvk(kind: &str) -> (String, String, String) {
    let (api_version, kind) = kind.rsplit_once('/').unwrap_or_default();
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    (group.to_owned(), version.to_owned(), kind.to_owned())
}

fn field(places: &Places, of: &KubernetesField, facts: &str) -> Field {
    let exact = facts.split(' ').find_map(|fact| fact.strip_prefix("is="));
    let mut shape = shape(places, exact.unwrap_or(of.of));
    let mut required = of.is_always_written;
    let mut patch = PatchStrategy::default();
    let mut default = None;
    let is_list = matches!(shape, Shape::List { .. } | Shape::Map { .. } | Shape::Scalar(Scalar::Bytes));
    let mut always = !of.is_pointer && !is_list && (of.is_always_written || is_struct(&shape));
    let pointer = match shape {
        Shape::Builtin(_) => false,
        _ => of.is_pointer || is_list && of.is_always_written,
    };
    for fact in facts.split(' ').filter(|fact| !fact.is_empty()) {
        let (key, value) = fact.split_once('=').unwrap_or((fact, ""));
        match (key, &mut shape) {
            ("is", _) => {}
            ("*", _) => required = true,
            ("-", _) => required = false,
            ("omit", _) => always = false,
            ("map", Shape::List { kind, .. }) => *kind = ListKind::Map(value.split(',').map(str::to_owned).collect()),
            ("set", Shape::List { kind, .. }) => *kind = ListKind::Set,
            ("atomic", Shape::Map { atomic, .. }) => *atomic = true,
            ("merge", _) => {
                patch.merge = true;
                patch.merge_key = (!value.is_empty()).then(|| value.to_owned());
            }
            ("retain", _) => patch.retain_keys = true,
            ("replace", _) => patch.replace = true,
            ("default", _) => default = serde_json::from_str(value).ok(),
            _ => debug_assert!(false, "unknown fact in the table: {fact}"),
        }
    }
    Field { shape, required, patch, default, always, pointer }
}

/// Whether Go has a struct for it, which is never empty.
fn is_struct(shape: &Shape) -> bool {
    use Scalar::{IntOrString, MicroTime, Quantity, Time};
    matches!(shape, Shape::Builtin(_) | Shape::Scalar(Time | MicroTime | IntOrString | Quantity))
}

fn shape(places: &Places, of: &str) -> Shape {
    if let Some(item) = of.strip_prefix("[]") {
        return Shape::List { item: Box::new(shape(places, item)), kind: ListKind::Atomic };
    }
    if let Some(value) = of.strip_prefix("{}") {
        return Shape::Map { value: Box::new(shape(places, value)), atomic: false };
    }
    Shape::Scalar(match of {
        "string" => Scalar::String,
        "time" => Scalar::Time,
        "micro-time" => Scalar::MicroTime,
        "bytes" => Scalar::Bytes,
        "int32" => Scalar::Int32,
        "int64" => Scalar::Int64,
        "double" => Scalar::Number,
        "bool" => Scalar::Bool,
        "int-or-string" => Scalar::IntOrString,
        "quantity" => Scalar::Quantity,
        _ => {
            debug_assert!(of == "any" || places.contains_key(of), "unknown type: {of}");
            return places.get(of).map_or(Shape::Any, |place| Shape::Builtin(*place));
        }
    })
}
