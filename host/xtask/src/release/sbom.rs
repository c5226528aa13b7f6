//! The bill of materials of a binary: the crates of the host, and of each built-in component that it carries.
//!
//! Cargo knows them (`cargo metadata`); only what is linked for the target is listed, not what tests and builds use.
//!
//! *Source*: CycloneDX 1.5.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Target, VERSION, image};
use crate::guests::{self, Set, Source};
use crate::{process, root};

/// Crates by the id that cargo gives them.
type Crates = BTreeMap<String, Value>;

/// A workspace as cargo describes it.
struct Workspace {
    crates: Crates,
    /// What a crate links: ids by id.
    edges: BTreeMap<String, BTreeSet<String>>,
    /// SHA-256 of what the registry gave, by name and version.
    checksums: BTreeMap<(String, String), String>,
}

impl Workspace {
    fn read(folder: &Path, target: &str, features: &[&str]) -> anyhow::Result<Self> {
        let mut metadata = process::cargo(folder);
        metadata.args(["metadata", "--format-version", "1", "--filter-platform", target]);
        for feature in features {
            metadata.args(["--features", feature]);
        }
        let metadata: Value = serde_json::from_str(&process::output(&mut metadata)?)?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let all = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let crates = all(&metadata["packages"]).into_iter().map(|package| (text(&package["id"]), package)).collect();
        let mut edges = BTreeMap::new();
        for node in all(&metadata["resolve"]["nodes"]) {
            let is_linked =
                |dependency: &Value| all(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
            let linked = all(&node["deps"]).into_iter().filter(is_linked).map(|dependency| text(&dependency["pkg"]));
            edges.insert(text(&node["id"]), linked.collect());
        }
        let root = text(&metadata["workspace_root"]);
        let lock = fs::read_to_string(Path::new(&root).join("Cargo.lock")).context("read Cargo.lock")?;
        Ok(Self { crates, edges, checksums: checksums(&lock)? })
    }

    fn id_of(&self, name: &str) -> anyhow::Result<&str> {
        let found = self.crates.iter().find(|(_, package)| package["name"] == name && package["source"].is_null());
        Ok(found.with_context(|| format!("the workspace has no {name}"))?.0)
    }

    /// The crate of this id and all that it links, procedural macros aside: they run in the compiler.
    fn linked(&self, id: &str) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let mut open = vec![id.to_owned()];
        while let Some(id) = open.pop() {
            if found.contains(&id) || self.is_macro(&id) {
                continue;
            }
            open.extend(self.edges.get(&id).into_iter().flatten().cloned());
            found.insert(id);
        }
        found
    }

    fn is_macro(&self, id: &str) -> bool {
        let targets = self.crates.get(id).and_then(|package| package["targets"].as_array());
        targets.into_iter().flatten().any(|target| target["kind"][0] == "proc-macro")
    }

    fn component(&self, id: &str) -> anyhow::Result<Value> {
        let package = self.crates.get(id).with_context(|| format!("cargo does not describe {id}"))?;
        let (name, version) =
            (package["name"].as_str().unwrap_or_default(), package["version"].as_str().unwrap_or_default());
        let mut component = json!({"type": "library", "bom-ref": reference(package), "name": name, "version": version});
        if !package["source"].is_null() {
            component["purl"] = reference(package).into();
        }
        if let Some(licence) = package["license"].as_str() {
            // The old way of cargo to write "or".
            component["licenses"] = json!([{"expression": licence.replace('/', " OR ").replace("  ", " ")}]);
        }
        if let Some(checksum) = self.checksums.get(&(name.to_owned(), version.to_owned())) {
            component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
        }
        Ok(component)
    }
}

/// A name of a crate that is unique in the document.
fn reference(package: &Value) -> String {
    let text = |field: &str| package[field].as_str().unwrap_or_default();
    format!("pkg:cargo/{}@{}", text("name"), text("version"))
}

/// A lock file of Cargo.
#[derive(Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

/// A crate in a lock file.
#[derive(Deserialize)]
struct Locked {
    name: String,
    version: String,
    /// Absent for crates of the workspace.
    checksum: Option<String>,
}

/// The checksums of crates by name and version.
fn checksums(lock: &str) -> anyhow::Result<BTreeMap<(String, String), String>> {
    let lock: Lock = toml::from_str(lock).context("read Cargo.lock")?;
    let of = |Locked { name, version, checksum }: Locked| Some(((name, version), checksum?));
    Ok(lock.package.into_iter().filter_map(of).collect())
}

/// A component; `cargo xtask guests` builds it.
fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(file).with_context(|| format!("read {}; `cargo xtask guests` builds it", file.display()))
}

/// The document for a binary, as JSON. The same binary gives the same bytes.
///
/// # Errors
/// Cargo fails, or a built-in component is not there.
pub(super) fn of(target: Target, binary: &Path) -> anyhow::Result<Vec<u8>> {
    let host = Workspace::read(&root(), target.triple(), &["pintle/jemalloc"])?;
    let plugins = Workspace::read(&root().join("plugins"), "wasm32-unknown-unknown", &[])?;
    let mut components = BTreeMap::new();
    let mut dependencies: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut add = |workspace: &Workspace, id: &str| -> anyhow::Result<String> {
        for id in workspace.linked(id) {
            let of = reference(&workspace.crates[&id]);
            components.insert(of.clone(), workspace.component(&id)?);
            let linked = workspace.edges[&id].iter().filter(|id| !workspace.is_macro(id));
            dependencies.entry(of).or_default().extend(linked.map(|id| reference(&workspace.crates[id])));
        }
        Ok(reference(&workspace.crates[id]))
    };
    let of_host = add(&host, host.id_of("pintle")?)?;
    let mut carried = Vec::new();
    for Source { folder, name, .. } in guests::sources(Set::Plugins)? {
        let file = Set::Plugins.output().join(format!("{name}.wasm"));
        let manifest = folder.join("Cargo.toml");
        let id = plugins
            .crates
            .iter()
            .find(|(_, package)| package["manifest_path"].as_str().is_some_and(|path| Path::new(path) == manifest));
        let crate_of = add(&plugins, id.with_context(|| format!("there is no crate of {name}"))?.0)?;
        let of = format!("component:{name}");
        carried.push((of, name, image::sha256(&read(&file)?), crate_of));
    }
    ensure!(!carried.is_empty(), "the binary carries no component");
    let main = format!("pintle-linux-{}", target.architecture());
    dependencies.entry(main.clone()).or_default().insert(of_host);
    for (of, name, digest, crate_of) in carried {
        dependencies.entry(main.clone()).or_default().insert(of.clone());
        dependencies.insert(of.clone(), BTreeSet::from([crate_of]));
        let component = json!({
            "type": "application", "bom-ref": of, "name": name, "version": VERSION,
            "hashes": [{"alg": "SHA-256", "content": digest}],
        });
        components.insert(of, component);
    }
    let dependencies: Vec<Value> =
        dependencies.into_iter().map(|(of, on)| json!({"ref": of, "dependsOn": on})).collect();
    let document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {
            "type": "application", "bom-ref": main, "name": "pintle", "version": VERSION,
            "licenses": [{"expression": "Apache-2.0"}],
            "hashes": [{"alg": "SHA-256", "content": image::sha256(&fs::read(binary)?)}],
        }},
        "components": components.into_values().collect::<Vec<_>>(),
        "dependencies": dependencies,
    });
    let mut text = serde_json::to_vec_pretty(&document)?;
    text.push(b'\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use anyhow::Result;

    use super::*;

    #[test]
    fn the_crates_of_the_host_and_of_its_components_are_listed_once_each() -> Result<()> {
        let program = std::env::current_exe()?;
        let text = of(Target::X86, &program)?;
        ensure!(text == of(Target::X86, &program)?, "the same binary gives another document");
        let document: Value = serde_json::from_slice(&text)?;
        let components = document["components"].as_array().context("no components")?;
        let names: Vec<&str> = components.iter().filter_map(|component| component["name"].as_str()).collect();
        // Linked by the host; by a component; a component; a crate of a component.
        for name in ["wasmtime", "pintle-core", "tikv-jemallocator", "serde", "pintle-sdk"] {
            ensure!(names.contains(&name), "{name} is missing");
        }
        for Source { name, .. } in guests::sources(Set::Plugins)? {
            ensure!(names.contains(&&*name), "{name} is missing");
        }
        // Of tests, of builds, a macro.
        for name in ["proptest", "expect-test", "serde_derive", "plugin-tests", "xtask"] {
            ensure!(!names.contains(&name), "{name} is not in the binary");
        }
        let main = document["metadata"]["component"]["bom-ref"].as_str().context("no name")?;
        let mut known: BTreeSet<&str> =
            components.iter().filter_map(|component| component["bom-ref"].as_str()).collect();
        assert_eq!(known.len(), components.len(), "a name is there twice");
        known.insert(main);
        for dependency in document["dependencies"].as_array().context("no dependencies")? {
            let on = dependency["dependsOn"].as_array().into_iter().flatten();
            for name in on.chain([&dependency["ref"]]) {
                ensure!(known.contains(name.as_str().unwrap_or_default()), "{name} is not described");
            }
        }
        for component in components.iter().filter(|component| !component["purl"].is_null()) {
            ensure!(component["hashes"][0]["content"].as_str().is_some_and(|hash| hash.len() == 64), "{component}");
            ensure!(component["licenses"][0]["expression"].is_string(), "{component}");
        }
        Ok(())
    }
}
