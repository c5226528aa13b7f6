//! The fields of Kubernetes' API types.
//!
//! `kubernetes.txt` has a line for each kind, `apps/v1/Deployment = apps.v1.Deployment`, and one for each type, its
//! name and its fields: `name:type`. `!` after the name marks a field that is written even if empty; `?` before the
//! type marks a pointer in Go, so absent and zero differ; `[]` is a list, `{}` a map from strings.

use std::collections::{BTreeMap, BTreeSet};

/// The API of one version of Kubernetes.
pub(crate) struct Schema {
    kinds: BTreeMap<&'static str, &'static str>,
    types: BTreeMap<&'static str, &'static str>,
    groups: BTreeSet<&'static str>,
}

/// A field of a type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) always_written: bool,
    pub(crate) kind: Type,
}

/// The type of a field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Type {
    /// Whether absent and zero differ.
    pub(crate) optional: bool,
    pub(crate) shape: Shape,
}

/// The shape of a type.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    /// A list of these, in the text form.
    List(&'static str),
    /// A map to these, in the text form.
    Map(&'static str),
    /// A type with fields.
    Struct(&'static str),
    /// A type without fields.
    Scalar(&'static str),
}

impl Schema {
    pub(crate) fn of_kubernetes() -> Self {
        let mut schema = Self { kinds: BTreeMap::new(), types: BTreeMap::new(), groups: BTreeSet::new() };
        for line in include_str!("kubernetes.txt").lines().filter(|line| !line.starts_with('#')) {
            if let Some((kind, name)) = line.split_once(" = ") {
                schema.groups.insert(group(kind));
                schema.kinds.insert(kind, name);
            } else {
                let (name, fields) = line.split_once(' ').unwrap_or((line, ""));
                schema.types.insert(name, fields);
            }
        }
        schema
    }

    /// The type of a kind. `None` if its group is not Kubernetes' own.
    pub(crate) fn kind(&self, kind: &str) -> Result<Option<&'static str>, String> {
        match self.kinds.get(kind) {
            Some(name) => Ok(Some(name)),
            None if !self.groups.contains(group(kind)) => Ok(None),
            None => Err(format!(
                "{kind} is not a kind of Kubernetes; nearest: {}",
                nearest(kind, self.kinds.keys().copied())
            )),
        }
    }

    pub(crate) fn fields(&self, name: &str) -> impl Iterator<Item = Field> {
        self.types.get(name).copied().unwrap_or_default().split_whitespace().filter_map(|field| {
            let (name, kind) = field.split_once(':')?;
            let always_written = name.ends_with('!');
            Some(Field { name: name.trim_end_matches('!'), always_written, kind: self.type_of(kind) })
        })
    }

    pub(crate) fn type_of(&self, text: &'static str) -> Type {
        let (optional, text) = text.strip_prefix('?').map_or((false, text), |text| (true, text));
        let shape = match (text.strip_prefix("[]"), text.strip_prefix("{}")) {
            (Some(item), _) => Shape::List(item),
            (_, Some(value)) => Shape::Map(value),
            _ if self.types.contains_key(text) => Shape::Struct(text),
            _ => Shape::Scalar(text),
        };
        Type { optional, shape }
    }
}

fn group(kind: &str) -> &str {
    kind.rsplitn(3, '/').nth(2).unwrap_or_default()
}

/// The most similar names, for errors.
pub(crate) fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> String {
    let lower = name.to_lowercase();
    let mut names: Vec<_> =
        names.map(|name| (strsim::damerau_levenshtein(&lower, &name.to_lowercase()), name)).collect();
    names.sort_unstable();
    names.iter().take(4).map(|(_, name)| *name).collect::<Vec<_>>().join(", ")
}
