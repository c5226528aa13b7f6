//! Reads the table of built-in types.
//!
//! The table is part of the binary, so a line that does not parse is a mistake in it: such a line becomes a field of any
//! shape, and the test below refuses it.

use std::sync::Arc;

use super::{Builtin, Field, ListKind, PatchStrategy, Scalar, Shape, TypeSchema};

/// Fields that every type with a kind has, unless its lines name them otherwise.
const OF_OBJECTS: [&str; 3] = ["apiVersion s", "kind s", "metadata #meta.v1.ObjectMeta +"];

/// Parses the whole table.
pub(super) fn table(text: &str) -> Builtin {
    let mut builtin = Builtin::default();
    let headers = text.lines().filter_map(|line| line.strip_prefix('['));
    for (index, name) in headers.filter_map(|line| line.split(']').next()).enumerate() {
        builtin.by_name.insert(name.to_owned(), index);
    }
    let mut current = TypeSchema::default();
    let mut types = Vec::with_capacity(builtin.by_name.len());
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let Some(header) = line.strip_prefix('[') else {
            let (name, field) = field(&builtin, line);
            current.fields.insert(name, field);
            continue;
        };
        if !current.name.is_empty() {
            types.push(Arc::new(std::mem::take(&mut current)));
        }
        let (name, flags) = header.split_once(']').unwrap_or((header, ""));
        current.name = name.to_owned();
        for flag in flags.split_whitespace() {
            match flag.strip_prefix("gvk=") {
                Some(gvk) => {
                    current.gvk = split_gvk(gvk);
                    current.fields.extend(OF_OBJECTS.map(|line| field(&builtin, line)));
                }
                None => current.atomic = flag == "atomic",
            }
        }
    }
    types.push(Arc::new(current));
    for (index, schema) in types.iter().enumerate() {
        if let Some(gvk) = &schema.gvk {
            builtin.by_gvk.insert(gvk.clone(), index);
        }
    }
    builtin.types = types;
    builtin
}

fn split_gvk(gvk: &str) -> Option<(String, String, String)> {
    let mut parts = gvk.split('/').map(str::to_owned);
    Some((parts.next()?, parts.next()?, parts.next()?))
}

fn field(builtin: &Builtin, line: &str) -> (String, Field) {
    let mut parts = line.split(' ');
    let name = parts.next().unwrap_or_default().to_owned();
    let mut shape = shape(builtin, parts.next().unwrap_or("?"));
    let mut required = false;
    let mut patch = PatchStrategy::default();
    let mut default = None;
    let (mut always, mut pointer) = (false, false);
    for flag in parts {
        let (key, value) = flag.split_once('=').unwrap_or((flag, ""));
        match (key, &mut shape) {
            ("*", _) => required = true,
            ("+", _) => always = true,
            ("&", _) => pointer = true,
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
            _ => debug_assert!(false, "unknown flag in the table: {line}"),
        }
    }
    (name, Field { shape, required, patch, default, always, pointer })
}

fn shape(builtin: &Builtin, code: &str) -> Shape {
    let inner = |open: char, close: char| code.strip_prefix(open).and_then(|code| code.strip_suffix(close));
    if let Some(item) = inner('[', ']') {
        return Shape::List { item: Box::new(shape(builtin, item)), kind: ListKind::Atomic };
    }
    if let Some(value) = inner('{', '}') {
        return Shape::Map { value: Box::new(shape(builtin, value)), atomic: false };
    }
    if let Some(name) = code.strip_prefix('#') {
        debug_assert!(builtin.by_name.contains_key(name), "unknown type in the table: {name}");
        return builtin.by_name.get(name).map_or(Shape::Any, |index| Shape::Builtin(*index));
    }
    let scalar = match code {
        "s" => Scalar::String,
        "t" => Scalar::Time,
        "u" => Scalar::MicroTime,
        "y" => Scalar::Bytes,
        "i" => Scalar::Int32,
        "l" => Scalar::Int64,
        "n" => Scalar::Number,
        "b" => Scalar::Bool,
        "x" => Scalar::IntOrString,
        "q" => Scalar::Quantity,
        _ => {
            debug_assert_eq!(code, "?", "unknown code in the table");
            return Shape::Any;
        }
    };
    Shape::Scalar(scalar)
}
