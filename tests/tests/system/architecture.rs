//! The layout of the repository is what ARCHITECTURE.md says: folders, dependency arrows, file sizes,
//! frozen contracts.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use pintle_tests::workspace_dir;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Folder, and the folders that its packages may depend on. The longest match counts.
const ARROWS: [(&str, &[&str]); 29] = [
    ("host/core", &[]),
    ("host/cache", &["host/core"]),
    ("host/metrics", &[]),
    ("host/runtime", &["host/core", "host/cache", "host/metrics"]),
    ("host/kube", &["host/core"]),
    ("host/wasm", &["host/core"]),
    ("host/oci", &["host/core"]),
    ("host/serve", &["host/core"]),
    ("host/trace", &["host/core"]),
    ("host/outside", &["host/core"]),
    ("host/sources", &["host/core", "host/cache", "host/runtime", "host/kube", "host/oci"]),
    ("host/client", &["host/core", "host/sources"]),
    // One engine computes the usage of quotas, as upstream: for the admission and for the controller.
    ("host/sim", &["host/core", "host/crd", "plugins/quota"]),
    ("host/crd", &[]),
    ("host/types", &[]),
    // The embedded cluster is the server of its tests.
    ("host/nodes", &["host/core", "host/sim"]),
    ("host/simulated", &["host/kube", "host/sim", "host/nodes"]),
    ("host/build", &["host/core"]),
    (
        "host/author",
        // Cases that settle run in a host of their own, on the embedded API server.
        &[
            "host/core",
            "host/crd",
            "host/cache",
            "host/runtime",
            "host/wasm",
            "host/oci",
            "host/sources",
            "host/inspect",
            "host/build",
            "host/kube",
            "host/sim",
        ],
    ),
    ("host/testing", &["host/core"]),
    ("host/xtask", &["host/core", "host/metrics", "host/build"]),
    ("host/inspect", &["host/core", "host/runtime", "host/wasm", "host/oci", "host/sources"]),
    (
        // What runs in a cluster: neither the embedded cluster nor what serves authors.
        "host",
        &[
            "host/core",
            "host/cache",
            "host/runtime",
            "host/kube",
            "host/wasm",
            "host/oci",
            "host/serve",
            "host/sources",
            "host/client",
            "host/inspect",
            "host/metrics",
            "host/trace",
            "host/outside",
        ],
    ),
    (
        "host/desk",
        &[
            "host",
            "host/core",
            "host/runtime",
            "host/kube",
            "host/wasm",
            "host/oci",
            "host/sources",
            "host/sim",
            "host/nodes",
            "host/build",
            "host/author",
            "host/types",
        ],
    ),
    ("sdk", &["sdk"]),
    // A plugin is no library.
    ("plugins", &["sdk", "plugins/lib", "plugins/quota"]),
    ("plugins/tests", &["sdk", "plugins"]),
    // Bad next versions of built-in plugins share their code.
    ("tests/guests", &["sdk", "tests/guests", "plugins/lib"]),
    ("tests", &["host", "sdk", "plugins", "tests"]),
];

/// Packages that the tests of any package may use: guests built for them, fakes of the ports.
const FOR_TESTS: [&str; 2] = ["host/xtask", "host/testing"];

/// Crate, and the folders whose packages alone may use it.
const ONLY_IN: [(&str, &[&str]); 8] = [
    ("wasmtime", &["host/wasm"]),
    ("kube", &["host/kube", "host/nodes"]),
    ("k8s-openapi", &["host/kube"]),
    // Controllers parse certificate requests with the library with which the host signs them.
    ("x509-cert", &["host/outside", "plugins/lib"]),
    ("opentelemetry", &["host/trace"]),
    ("opentelemetry_sdk", &["host/trace"]),
    ("opentelemetry-otlp", &["host/trace"]),
    ("wit-bindgen", &["sdk", "tests/guests"]),
];

/// What deciding code must do without: runtimes, clients, the sandbox.
const NOT_IN_CORE: [&str; 9] =
    ["tokio", "kube", "k8s-openapi", "wasmtime", "hyper", "reqwest", "axum", "rand", "rustls"];

/// Top-level folders of the repository, those with a dot and `target` aside.
const FOLDERS: [&str; 5] = ["host", "wit", "plugins", "sdk", "tests"];

/// A file of more lines is split by meaning.
const MAX_LINES: usize = 800;

/// Files of every plugin, so that who has read one finds the way in the next.
const SKELETON: [&str; 3] = ["lib.rs", "types.rs", "reconcile.rs"];

/// Most lines of a plugin's `reconcile.rs`, its tests aside: a run reads from top to bottom.
const MAX_RECONCILE_LINES: usize = 150;

/// Frozen versions of the contract with the hash of their text. A line that is here stays as it is.
const FROZEN: [(&str, &str); 1] = [("0.2", "80c37aee8aa51b336f8a31a9d5e4752785e4fe39d1c5e415059d1be950e73c66")];

/// What a package depends on.
#[derive(Debug, Default)]
struct Package {
    name: String,
    /// Relative to the root of the repository.
    folder: String,
    /// Folders of ours, whatever the kind of dependency.
    ours: Vec<String>,
    /// Names of crates of others, those of tests aside.
    others: Vec<String>,
}

fn packages() -> Result<Vec<Package>> {
    let root = workspace_dir();
    let mut all = Vec::new();
    for manifest in ["Cargo.toml", "sdk/rust/Cargo.toml", "plugins/Cargo.toml", "tests/guests/Cargo.toml"] {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let output = Command::new(cargo)
            .args(["metadata", "--no-deps", "--offline", "--format-version", "1", "--manifest-path"])
            .arg(root.join(manifest))
            .output()
            .context("run cargo metadata")?;
        ensure!(output.status.success(), "cargo metadata of {manifest}: {}", String::from_utf8_lossy(&output.stderr));
        let metadata: Value = serde_json::from_slice(&output.stdout)?;
        let found = metadata["packages"].as_array().context("no packages")?;
        for package in found {
            all.push(read_package(&root, package)?);
        }
    }
    Ok(all)
}

fn read_package(root: &Path, package: &Value) -> Result<Package> {
    let relative = |path: &Path| -> Result<String> {
        let path = path.strip_prefix(root).context("a package outside the repository")?;
        Ok(path.to_string_lossy().into_owned())
    };
    let manifest = PathBuf::from(package["manifest_path"].as_str().context("no manifest")?);
    let mut read = Package {
        name: package["name"].as_str().unwrap_or_default().to_owned(),
        folder: relative(manifest.parent().context("no folder")?)?,
        ..Package::default()
    };
    for dependency in package["dependencies"].as_array().into_iter().flatten() {
        match dependency["path"].as_str() {
            Some(path) => {
                let ours = relative(Path::new(path))?;
                if !FOR_TESTS.contains(&ours.as_str()) || dependency["kind"] != "dev" {
                    read.ours.push(ours);
                }
            }
            None if dependency["kind"] != "dev" => {
                read.others.push(dependency["name"].as_str().unwrap_or_default().to_owned());
            }
            None => {}
        }
    }
    Ok(read)
}

fn is_in(folder: &str, parent: &str) -> bool {
    folder == parent || folder.strip_prefix(parent).is_some_and(|rest| rest.starts_with('/'))
}

/// What is wrong with these packages, one sentence each.
fn violations(packages: &[Package]) -> Vec<String> {
    let mut found = Vec::new();
    for package in packages {
        let rule =
            ARROWS.iter().filter(|(folder, _)| is_in(&package.folder, folder)).max_by_key(|(folder, _)| folder.len());
        let Some((folder, allowed)) = rule else {
            found.push(format!("{} is in no folder that the layout has: {}", package.name, package.folder));
            continue;
        };
        for ours in &package.ours {
            if !allowed.iter().any(|a| is_in(ours, a)) {
                found.push(format!("{} ({folder}) depends on {ours}; it may depend on {allowed:?}", package.name));
            }
        }
        for other in &package.others {
            let owners = ONLY_IN.iter().find(|(name, _)| name == other).map(|(_, in_folders)| *in_folders);
            // Tests may look at the same things from outside.
            let whole_system = *folder == "tests";
            if owners.is_some_and(|o| !whole_system && !o.iter().any(|f| is_in(&package.folder, f))) {
                found.push(format!("{} uses {other}, which is for {owners:?}", package.name));
            }
            if package.folder == "host/core" && NOT_IN_CORE.contains(&other.as_str()) {
                found.push(format!("{} uses {other}; deciding code does without it", package.name));
            }
        }
    }
    found
}

/// The files of the way of a key, at most.
const MAX_FILES_OF_A_KEY: usize = 16;

#[test]
fn the_way_of_a_key_is_short_and_its_files_exist() -> Result<()> {
    let text = fs::read_to_string(workspace_dir().join("ARCHITECTURE.md"))?;
    let (_, table) = text.split_once("| step | file | leaves |").context("no table of the way of a key")?;
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let mut n_files = 0;
    for row in rows {
        let names: Vec<&str> = row.split('`').skip(1).step_by(2).collect();
        ensure!(!names.is_empty(), "no file in {row}");
        n_files += 1;
        for name in names {
            // `a/{b,c}.rs` are two files.
            let (before, rest) = name.split_once('{').unwrap_or((name, "}"));
            let (parts, after) = rest.split_once('}').context("a brace is not closed")?;
            for part in parts.split(',') {
                let path = workspace_dir().join("host").join(format!("{before}{part}{after}"));
                ensure!(path.exists(), "{} is not there: correct {row}", path.display());
            }
        }
    }
    ensure!(n_files > 0 && n_files <= MAX_FILES_OF_A_KEY, "{n_files} files, at most {MAX_FILES_OF_A_KEY}");
    Ok(())
}

#[test]
fn every_plugin_has_the_skeleton() -> Result<()> {
    let mut found = Vec::new();
    let mut n_plugins = 0;
    for entry in fs::read_dir(workspace_dir().join("plugins"))? {
        let folder = entry?.path();
        if !folder.join("manifest.yaml").is_file() {
            continue;
        }
        n_plugins += 1;
        let missing = SKELETON.iter().filter(|file| !folder.join("src").join(file).is_file());
        found.extend(missing.map(|file| format!("{} has no src/{file}", folder.display())));
        let text = fs::read_to_string(folder.join("src/reconcile.rs")).unwrap_or_default();
        let n_lines = text.lines().take_while(|line| *line != "#[cfg(test)]").count();
        if n_lines > MAX_RECONCILE_LINES {
            let more = "more than MAX_RECONCILE_LINES: move a subject into a file of its own";
            found.push(format!("{}/src/reconcile.rs has {n_lines} lines, {more}", folder.display()));
        }
        if !text.contains("\npub fn reconcile(key: &Key") && !text.contains("\npub fn reconcile(_: &Key") {
            found.push(format!("{}/src/reconcile.rs has no function reconcile", folder.display()));
        }
    }
    ensure!(n_plugins > 20, "only {n_plugins} plugins were found");
    ensure!(found.is_empty(), "{}", found.join("\n"));
    Ok(())
}

#[test]
fn dependencies_follow_the_layout() -> Result<()> {
    let packages = packages()?;
    assert!(packages.len() > 10, "only {} packages found", packages.len());
    let found = violations(&packages);
    assert!(found.is_empty(), "{found:#?}");
    Ok(())
}

#[test]
fn there_are_no_other_top_level_folders() -> Result<()> {
    for entry in fs::read_dir(workspace_dir())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let allowed = name.starts_with('.') || name == "target" || FOLDERS.contains(&name.as_str());
        assert!(!entry.file_type()?.is_dir() || allowed, "what is {name} for?");
    }
    Ok(())
}

/// Calls `see` with each file below `folder`, build output aside.
fn walk(folder: &Path, see: &mut dyn FnMut(&Path) -> Result<()>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "target" && name != "node_modules" && !name.starts_with('.') {
                walk(&path, see)?;
            }
        } else {
            see(&path)?;
        }
    }
    Ok(())
}

#[test]
fn no_source_file_is_longer_than_the_ceiling() -> Result<()> {
    let mut too_long = BTreeMap::new();
    let mut n_files = 0;
    for folder in FOLDERS {
        walk(&workspace_dir().join(folder), &mut |path| {
            if path.extension().is_some_and(|e| e == "rs") {
                n_files += 1;
                let n_lines = fs::read_to_string(path)?.lines().count();
                if n_lines > MAX_LINES {
                    too_long.insert(path.to_owned(), n_lines);
                }
            }
            Ok(())
        })?;
    }
    assert!(n_files > 50, "only {n_files} source files found");
    assert!(too_long.is_empty(), "split by meaning: {too_long:#?}");
    Ok(())
}

#[test]
fn deciding_code_reads_no_clock() -> Result<()> {
    let mut found = Vec::new();
    walk(&workspace_dir().join("host/core/src"), &mut |path| {
        if path.ends_with("tests.rs") {
            return Ok(());
        }
        let text = fs::read_to_string(path)?;
        // Unit tests stand last in a file, or in a file of that name, and need an instant to start from.
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        for clock in ["Instant::now", "SystemTime::now", "Timestamp::now", "Zoned::now"] {
            if text.contains(clock) {
                found.push(format!("{}: {clock}", path.display()));
            }
        }
        Ok(())
    })?;
    assert!(found.is_empty(), "time is an argument: {found:#?}");
    Ok(())
}

/// The text of a frozen version is `wit/controller.wit`, or `wit/released/<version>/controller.wit` once that has a newer version.
#[test]
fn frozen_contracts_have_not_changed() -> Result<()> {
    let wit = workspace_dir().join("wit");
    let newest = fs::read_to_string(wit.join("controller.wit"))?;
    let version = newest.lines().find_map(|line| line.strip_prefix("package pintle:controller@")?.strip_suffix(".0;"));
    let version = version.context("wit/controller.wit has no version")?;
    let released = wit.join("released");
    for (frozen, hash) in FROZEN {
        let file =
            if frozen == version { "controller.wit".into() } else { format!("released/{frozen}/controller.wit") };
        let text = fs::read(wit.join(&file)).with_context(|| format!("the text of contract {frozen}, wit/{file}"))?;
        let found: String = Sha256::digest(&text).iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(found, hash, "contract {frozen} is frozen: a changed wit/{file} needs a new version");
    }
    let folders = if released.exists() { fs::read_dir(&released)?.collect::<Result<Vec<_>, _>>()? } else { Vec::new() };
    for folder in folders {
        let name = folder.file_name();
        assert!(FROZEN.iter().any(|(frozen, _)| name == *frozen), "{} is not in FROZEN", folder.path().display());
    }
    Ok(())
}
