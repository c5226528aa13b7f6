//! Sources: the kinds that texts define, and the locations of their schemas.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde::Deserialize as _;
use serde_json::{Map, Value};

use crate::{Input, TypesError};

/// A kind defined by a source.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    /// Whether its objects are namespaced, if the source shows it.
    pub(crate) is_namespaced: Option<bool>,
    /// Whether the API server serves this version.
    pub(crate) is_served: bool,
    pub(crate) schema: Schema,
    /// File, document and path, for errors.
    pub(crate) place: String,
    /// File and document, for the header of generated files.
    pub(crate) source: String,
}

impl Definition {
    /// The text form: `apps/v1/Deployment`.
    pub(crate) fn text(&self) -> String {
        let group = if self.group.is_empty() { String::new() } else { format!("{}/", self.group) };
        format!("{group}{}/{}", self.version, self.kind)
    }

    /// The API server's name for the schema of a kind: the reversed group, version and kind.
    pub(crate) fn dotted(&self) -> String {
        let mut parts: Vec<&str> = self.group.split('.').rev().filter(|part| !part.is_empty()).collect();
        parts.extend([self.version.as_str(), self.kind.as_str()]);
        parts.join(".")
    }
}

/// Location of a kind's schema.
#[derive(Debug)]
pub(crate) enum Schema {
    /// In the definition. `null`: there is none.
    Own(Value),
    /// A component of the documents.
    Component(String),
}

/// A schema that others refer to.
#[derive(Debug)]
pub(crate) struct Component {
    pub(crate) schema: Value,
    /// File and path, for errors.
    pub(crate) place: String,
    /// Location of a different schema with the same name. It is an error only if it is used: lists and options of
    /// requests are in every document, each time for other kinds.
    pub(crate) other: Option<String>,
}

impl Component {
    /// # Errors
    /// There is another schema with this name.
    pub(crate) fn check(&self) -> Result<(), TypesError> {
        match &self.other {
            Some(other) => Err(TypesError::Differs { first: self.place.clone(), second: other.clone() }),
            None => Ok(()),
        }
    }
}

/// The definitions of all sources.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    pub(crate) definitions: Vec<Definition>,
    pub(crate) components: BTreeMap<String, Component>,
    /// Number of definitions, including repetitions.
    n_defined: usize,
}

impl Sources {
    /// Reads all texts.
    pub(crate) fn read(inputs: &[Input<'_>]) -> Result<Self, TypesError> {
        let mut sources = Self::default();
        for input in inputs {
            let before = sources.n_defined;
            let documents = documents(input)?;
            let n_documents = documents.len();
            for (i, document) in documents.into_iter().enumerate() {
                let place =
                    if n_documents > 1 { format!("{}: document {}", input.name, i + 1) } else { input.name.to_owned() };
                sources.add(document, &place, base_name(input.name), None)?;
            }
            if input.must_define && sources.n_defined == before {
                return Err(TypesError::NoDefinition { name: input.name.to_owned() });
            }
        }
        if sources.definitions.is_empty() {
            let names: Vec<&str> = inputs.iter().map(|input| input.name).collect();
            return Err(TypesError::NoDefinition { name: names.join(", ") });
        }
        Ok(sources)
    }

    fn add(&mut self, document: Value, place: &str, file: &str, kind: Option<&str>) -> Result<(), TypesError> {
        let Value::Object(mut object) = document else { return Ok(()) };
        let kind = object.get("kind").and_then(Value::as_str).or(kind).unwrap_or_default().to_owned();
        let item_kind = match kind.as_str() {
            "CustomResourceDefinition" => return self.add_crd(&object, place, file),
            "List" => None,
            "CustomResourceDefinitionList" => Some("CustomResourceDefinition"),
            _ if object.contains_key("openapi") || object.contains_key("swagger") => {
                return self.add_openapi(object, place, file);
            }
            _ => return Ok(()),
        };
        let Some(Value::Array(items)) = object.remove("items") else { return Ok(()) };
        for (i, item) in items.into_iter().enumerate() {
            self.add(item, &format!("{place}: items[{i}]"), file, item_kind)?;
        }
        Ok(())
    }

    fn add_crd(&mut self, object: &Map<String, Value>, place: &str, file: &str) -> Result<(), TypesError> {
        let wrong = |path: &str, why: &str| TypesError::schema(place, path, why);
        let name = object.get("metadata").and_then(|metadata| metadata["name"].as_str()).unwrap_or_default();
        let spec =
            object.get("spec").filter(|spec| spec.is_object()).ok_or_else(|| wrong("spec", "is not an object"))?;
        let group = name_at(spec, "/group").ok_or_else(|| wrong("spec.group", "is not the name of an API group"))?;
        let kind = name_at(spec, "/names/kind").ok_or_else(|| wrong("spec.names.kind", "is not the name of a kind"))?;
        let is_namespaced = spec["scope"].as_str().map(|scope| scope == "Namespaced");
        // Before apiextensions.k8s.io/v1, a definition had one version and one schema.
        let single;
        let versions = match &spec["versions"] {
            Value::Array(versions) => versions,
            Value::Null => {
                single = vec![serde_json::json!({"name": spec["version"]})];
                &single
            }
            _ => return Err(wrong("spec.versions", "is not a list")),
        };
        for (i, version) in versions.iter().enumerate() {
            let path = format!("spec.versions[{i}]");
            let name_of = name_at(version, "/name").ok_or_else(|| wrong(&path, "has no name"))?;
            let (schema, path) = match &version["schema"]["openAPIV3Schema"] {
                Value::Null => (&spec["validation"]["openAPIV3Schema"], "spec.validation.openAPIV3Schema".to_owned()),
                schema => (schema, format!("{path}.schema.openAPIV3Schema")),
            };
            self.push(Definition {
                group: group.to_owned(),
                version: name_of.to_owned(),
                kind: kind.to_owned(),
                is_namespaced,
                is_served: version["served"].as_bool().unwrap_or(true),
                schema: Schema::Own(schema.clone()),
                place: format!("{place}: {path}"),
                source: format!("{file}: CustomResourceDefinition {name}"),
            })?;
        }
        Ok(())
    }

    fn add_openapi(&mut self, mut object: Map<String, Value>, place: &str, file: &str) -> Result<(), TypesError> {
        let (path, schemas) = match object.remove("components") {
            Some(mut components) => ("components.schemas", components["schemas"].take()),
            None => ("definitions", object.remove("definitions").unwrap_or_default()),
        };
        let Value::Object(schemas) = schemas else { return Err(TypesError::schema(place, path, "is not an object")) };
        let namespaced = object.get("paths").map(namespaced).unwrap_or_default();
        let info = object.get("info").cloned().unwrap_or_default();
        let title = [&info["title"], &info["version"]].map(|part| part.as_str().unwrap_or_default()).join(" ");
        for (name, schema) in schemas {
            let place = format!("{place}: {path}[{name:?}]");
            for (group, version, kind) in kinds(&schema) {
                let definition = Definition {
                    is_namespaced: namespaced.get(&(group.clone(), version.clone(), kind.clone())).copied(),
                    group,
                    version,
                    kind,
                    is_served: true,
                    schema: Schema::Component(name.clone()),
                    place: place.clone(),
                    source: format!("{file}: OpenAPI of {}", title.trim()),
                };
                // Documents of several groups share kinds.
                let is_known = |known: &Definition| {
                    known.text() == definition.text() && matches!(known.schema, Schema::Component(_))
                };
                if self.definitions.iter().any(is_known) {
                    self.n_defined += 1;
                } else {
                    self.push(definition)?;
                }
            }
            match self.components.entry(name) {
                Entry::Vacant(entry) => {
                    entry.insert(Component { schema, place, other: None });
                }
                Entry::Occupied(mut entry) if entry.get().schema != schema => entry.get_mut().other = Some(place),
                Entry::Occupied(_) => {}
            }
        }
        Ok(())
    }

    fn push(&mut self, definition: Definition) -> Result<(), TypesError> {
        if let Some(known) = self.definitions.iter().find(|known| known.text() == definition.text()) {
            return Err(TypesError::Twice {
                kind: definition.text(),
                first: known.place.clone(),
                second: definition.place,
            });
        }
        self.definitions.push(definition);
        self.n_defined += 1;
        Ok(())
    }

    /// The requested definitions: `kinds` as `group/version/Kind`, `version/Kind` or `Kind`, which selects served
    /// versions; all of these if it is empty.
    pub(crate) fn select(&self, kinds: &[String], version: Option<&str>) -> Result<Vec<&Definition>, TypesError> {
        let has_version = |definition: &&Definition| version.is_none_or(|version| definition.version == version);
        if kinds.is_empty() {
            let is_wanted =
                |definition: &&Definition| has_version(definition) && (version.is_some() || definition.is_served);
            let found: Vec<&Definition> = self.definitions.iter().filter(is_wanted).collect();
            if found.is_empty() {
                let wanted =
                    version.map_or_else(|| "version that is served".to_owned(), |version| format!("version {version}"));
                return Err(TypesError::NoKind { wanted, known: self.known() });
            }
            return Ok(found);
        }
        let mut found: Vec<&Definition> = Vec::new();
        for kind in kinds {
            let before = found.len();
            for definition in self.definitions.iter().filter(has_version) {
                let is_served = version.is_some() || definition.is_served;
                let is_named = definition.text() == *kind || definition.kind == *kind && is_served;
                if is_named && !found.iter().any(|known| std::ptr::eq(*known, definition)) {
                    found.push(definition);
                }
            }
            let is_repeated = found.iter().any(|known| known.text() == *kind || known.kind == *kind);
            if found.len() == before && !is_repeated {
                let of_version = version.map(|version| format!(" in version {version}")).unwrap_or_default();
                return Err(TypesError::NoKind { wanted: format!("kind {kind}{of_version}"), known: self.known() });
            }
        }
        Ok(found)
    }

    fn known(&self) -> String {
        let mut known: Vec<String> = self.definitions.iter().map(Definition::text).collect();
        known.sort();
        known.join(", ")
    }
}

/// The last part of a path, so that the result does not depend on the machine.
fn base_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

fn documents(input: &Input<'_>) -> Result<Vec<Value>, TypesError> {
    let text = input.text.trim_start_matches('\u{feff}');
    let syntax = |why: &dyn std::fmt::Display| TypesError::Syntax { name: input.name.to_owned(), why: why.to_string() };
    // JSON is YAML, too, but parses a hundred times faster as JSON.
    if text.trim_start().starts_with('{')
        && let Ok(document) = serde_json::from_str(text)
    {
        return Ok(vec![document]);
    }
    serde_norway::Deserializer::from_str(text)
        .map(|document| Value::deserialize(document).map_err(|why| syntax(&why)))
        .filter(|document| !matches!(document, Ok(Value::Null)))
        .collect()
}

/// A Kubernetes name of a group, a version or a kind.
fn name_at<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer).and_then(Value::as_str).filter(|name| is_name(name))
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'))
}

/// The kinds of the objects in a schema, with metadata: neither lists nor options of requests.
fn kinds(schema: &Value) -> Vec<(String, String, String)> {
    let metadata = &schema["properties"]["metadata"];
    let is_meta = |reference: &Value| reference["$ref"].as_str().is_some_and(|name| name.ends_with(".ObjectMeta"));
    let is_object = is_meta(metadata) || metadata["allOf"].as_array().is_some_and(|parts| parts.iter().any(is_meta));
    let kinds = schema["x-kubernetes-group-version-kind"].as_array().filter(|_| is_object);
    let part = |kind: &Value, part: &str| kind[part].as_str().unwrap_or_default().to_owned();
    kinds
        .into_iter()
        .flatten()
        .map(|kind| (part(kind, "group"), part(kind, "version"), part(kind, "kind")))
        .filter(|(group, version, kind)| (group.is_empty() || is_name(group)) && is_name(version) && is_name(kind))
        .collect()
}

/// Kinds, and whether one of their paths has a namespace.
fn namespaced(paths: &Value) -> BTreeMap<(String, String, String), bool> {
    let mut found = BTreeMap::new();
    for (path, operations) in paths.as_object().into_iter().flatten() {
        for operation in operations.as_object().into_iter().flatten().map(|(_, operation)| operation) {
            let kind = &operation["x-kubernetes-group-version-kind"];
            if let [Some(group), Some(version), Some(name)] =
                ["group", "version", "kind"].map(|part| kind[part].as_str())
            {
                let key = (group.to_owned(), version.to_owned(), name.to_owned());
                *found.entry(key).or_insert(false) |= path.contains("/namespaces/{namespace}/");
            }
        }
    }
    found
}
