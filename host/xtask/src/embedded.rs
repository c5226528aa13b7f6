//! Generates the tables of the embedded cluster: the default kinds of an API server, and its data about them besides
//! their fields.
//!
//! *Flow*: upstream's discovery documents, OpenAPI and Go types -> the two files, which `host/sim` includes. Both
//! contain data that upstream has only as code: constant defaults, and the flags of resources. It is kept from the
//! committed files; for a new kind it must be added manually. The behaviour cases of `tests/` compare the result with
//! the real API server.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use pintle_core::kubernetes;
use serde_json::Value;

use crate::root;
use crate::schema::{Schema, properties, reference, short};

/// The tables, relative to the root of the repository.
pub const DISCOVERY: &str = "host/sim/src/discovery/builtin.txt";
/// See [`DISCOVERY`].
pub const TYPES: &str = "host/sim/src/schema/builtin.txt";

/// The texts of the two files, with their paths.
///
/// # Errors
/// Go is missing, or upstream's documents have changed their format.
pub fn generate() -> anyhow::Result<[(String, String); 2]> {
    let (schema, kubernetes) = Schema::find()?;
    let (discovery, kinds) = discovery(&kubernetes.folder.join("api/discovery"), &committed(DISCOVERY)?)?;
    Ok([(DISCOVERY.to_owned(), discovery), (TYPES.to_owned(), schema.table(&committed(TYPES)?, &kinds)?)])
}

fn committed(path: &str) -> anyhow::Result<String> {
    fs::read_to_string(root().join(path)).with_context(|| format!("read {path}"))
}

/// The comments at the start of a committed table, with the version.
fn header(table: &str) -> String {
    let lines = table.lines().take_while(|line| line.starts_with('#')).enumerate();
    let of_version = |(n, line): (usize, &str)| match line.split_once("Kubernetes 1.") {
        Some((before, rest)) if n == 0 => {
            let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
            format!("{before}Kubernetes {}{rest}\n", kubernetes::minor())
        }
        _ => format!("{line}\n"),
    };
    lines.map(of_version).collect()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn list(value: &Value) -> String {
    let words: Vec<&str> = value.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if words.is_empty() { "-".to_owned() } else { words.join(",") }
}

fn verbs(resource: &Value) -> String {
    let mut verbs: Vec<&str> = resource["verbs"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    verbs.sort_unstable();
    let letter = |verb: &str| if verb == "deletecollection" { "D".to_owned() } else { verb[..1].to_owned() };
    verbs.into_iter().map(letter).collect()
}

/// Group or `core`, version and kind.
type Kinds = BTreeSet<(String, String, String)>;

/// The stable versions of all groups, in the order of the API server.
fn discovery(folder: &Path, committed: &str) -> anyhow::Result<(String, Kinds)> {
    let read = |name: &str| -> anyhow::Result<Value> {
        let path = folder.join(name);
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("read {}", path.display()))
    };
    let known = committed.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let known = known.filter_map(|line| Some(((*line.first()?, *line.get(1)?), *line.get(8)?)));
    let flags: BTreeMap<(&str, &str), &str> = known.collect();
    let mut documents = vec![("core".to_owned(), "v1".to_owned(), read("api__v1.json")?)];
    for group in read("apis.json")?["groups"].as_array().into_iter().flatten() {
        for version in group["versions"].as_array().into_iter().flatten().map(|version| text(version, "version")) {
            if !version.contains("alpha") && !version.contains("beta") {
                let name = text(group, "name");
                let document = read(&format!("apis__{name}__{version}.json"))?;
                documents.push((name.to_owned(), version.to_owned(), document));
            }
        }
    }
    let (mut table, mut kinds) = (header(committed), Kinds::new());
    for (group, version, document) in &documents {
        let resources = || document["resources"].as_array().into_iter().flatten();
        for resource in resources().filter(|resource| !text(resource, "name").contains('/')) {
            let (name, kind) = (text(resource, "name"), text(resource, "kind"));
            let api = format!("{group}/{version}");
            let scope = if resource["namespaced"] == true { "ns" } else { "cluster" };
            let hash = resource["storageVersionHash"].as_str().unwrap_or("-");
            let flags = flags.get(&(api.as_str(), name)).copied().unwrap_or("-");
            let line = [api.as_str(), name, text(resource, "singularName"), kind, scope, &verbs(resource)].join(" ");
            let (short, categories) = (list(&resource["shortNames"]), list(&resource["categories"]));
            table += &format!("{line} {short} {categories} {flags} {hash}\n");
            kinds.insert((group.clone(), version.clone(), kind.to_owned()));
            for sub in resources() {
                let Some(path) = text(sub, "name").strip_prefix(name).and_then(|path| path.strip_prefix('/')) else {
                    continue;
                };
                let or = |field: &str, own: &str| sub[field].as_str().unwrap_or(own).to_owned();
                let (group, version, kind) = (or("group", group), or("version", version), text(sub, "kind"));
                table += &format!("  /{path} {group}/{version} {kind} {}\n", verbs(sub));
                kinds.insert((group, version, kind.to_owned()));
            }
        }
    }
    Ok((table, kinds))
}

impl Schema {
    /// The data about these kinds besides their fields.
    fn table(&self, committed: &str, kinds: &Kinds) -> anyhow::Result<String> {
        let defaults = defaults(committed);
        let of_kind = |definition: &serde_json::Map<String, Value>| {
            let [kind] = definition.get("x-kubernetes-group-version-kind")?.as_array()?.as_slice() else { return None };
            let group = if text(kind, "group").is_empty() { "core" } else { text(kind, "group") };
            Some((group.to_owned(), text(kind, "version").to_owned(), text(kind, "kind").to_owned()))
        };
        let is_served =
            |kind: &Option<(String, String, String)>| kind.as_ref().is_some_and(|kind| kinds.contains(kind));
        let served = self.definitions.iter().filter(|(_, definition)| is_served(&of_kind(definition)));
        let mut open: Vec<String> = served.map(|(name, _)| name.clone()).collect();
        let mut types = BTreeMap::new();
        while let Some(name) = open.pop() {
            if types.contains_key(&short(&name)) {
                continue;
            }
            let definition = self.definitions.get(&name).with_context(|| format!("no definition {name}"))?;
            let (package, go_type) = name.rsplit_once('.').unwrap_or_default();
            let package = self.package(package)?;
            let mut lines = String::new();
            if definition.get("x-kubernetes-map-type").is_some_and(|kind| kind == "atomic") {
                lines += &format!("{} atomic\n", short(&name));
            }
            let required = definition.get("required").cloned().unwrap_or_default();
            let is_required = |field: &str| required.as_array().is_some_and(|all| all.iter().any(|name| name == field));
            for (field, schema) in properties(definition).into_iter().flatten() {
                let known = self.type_name(schema, &mut open).with_context(|| format!("{name}.{field}"))?;
                let (exact, go) = (exact(schema, &known), package.field(go_type, field).unwrap_or_default());
                let mut facts = String::new();
                if exact != known {
                    facts += &format!(" is={exact}");
                }
                if is_required(field) != go.always_written {
                    facts += if go.always_written { " -" } else { " *" };
                }
                if let Some(default) = defaults.get(format!("{}.{field}", short(&name)).as_str()) {
                    facts += &format!(" {default}");
                }
                facts += &merging(schema, &exact);
                if go.omit_zero && !go.pointer && is_struct(&exact) {
                    facts += " omit";
                }
                if !facts.is_empty() {
                    lines += &format!("{}.{field}{facts}\n", short(&name));
                }
            }
            types.insert(short(&name), lines);
        }
        Ok(header(committed) + &types.into_values().collect::<String>())
    }
}

/// A type for the table of the embedded cluster: more specific than `known`, for strings and times.
fn exact(schema: &Value, known: &str) -> String {
    if let Some(item) = known.strip_prefix("[]") {
        return format!("[]{}", exact(&schema["items"], item));
    }
    if let Some(value) = known.strip_prefix("{}") {
        return format!("{{}}{}", exact(&schema["additionalProperties"], value));
    }
    let referred = reference(schema).and_then(|name| name.rsplit('.').next());
    match (referred, schema["format"].as_str()) {
        (Some("Quantity"), _) => "quantity",
        (Some("MicroTime"), _) => "micro-time",
        (_, Some("byte")) => "bytes",
        (_, Some("int-or-string")) => "int-or-string",
        _ => known,
    }
    .to_owned()
}

/// Whether Go has a struct for a type.
fn is_struct(exact: &str) -> bool {
    exact.contains('.') && !exact.starts_with(['[', '{'])
        || matches!(exact, "time" | "micro-time" | "int-or-string" | "quantity")
}

/// The constant defaults of a committed table: type and field -> `default=VALUE`.
fn defaults(table: &str) -> BTreeMap<&str, &str> {
    let mut defaults = BTreeMap::new();
    for line in table.lines() {
        let mut words = line.split(' ');
        if let (Some(field), Some(default)) = (words.next(), words.find(|fact| fact.starts_with("default="))) {
            defaults.insert(field, default);
        }
    }
    defaults
}

/// The data of a field for apply and for patches.
fn merging(schema: &Value, exact: &str) -> String {
    let of = |name: &str| schema.get(format!("x-kubernetes-{name}")).and_then(Value::as_str).unwrap_or_default();
    let mut flags = match of("list-type") {
        "map" => format!(" map={}", list(&schema["x-kubernetes-list-map-keys"])),
        "set" => " set".to_owned(),
        _ if exact.starts_with("{}") && of("map-type") == "atomic" => " atomic".to_owned(),
        _ => String::new(),
    };
    for strategy in of("patch-strategy").split(',') {
        flags += &match (strategy, of("patch-merge-key")) {
            ("merge", "") => " merge".to_owned(),
            ("merge", key) => format!(" merge={key}"),
            ("retainKeys", _) => " retain".to_owned(),
            ("replace", _) => " replace".to_owned(),
            _ => String::new(),
        };
    }
    flags
}
