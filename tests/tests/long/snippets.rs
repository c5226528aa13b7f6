//! The snippets of `sdk/docs/from-others.md` that show Pintle are compiled, or have their types checked, against the SDKs.
//!
//! A snippet leaves out what everybody writes alike: its imports, and the kinds that it speaks of. That is put around it here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use pintle_build::process;
use pintle_tests::{target_dir, workspace_dir};
use tempfile::TempDir;

const GUIDE: &str = "sdk/docs/from-others.md";

/// The first line of a snippet that shows Pintle.
const MARKS: [&str; 2] = ["// Pintle", "# Pintle"];

const GO: &str = r#"package main

import pintle "pintle.dev/sdk"

type Site struct {
	Metadata pintle.ObjectMeta `json:"metadata"`
	Spec     struct {
		Page string `json:"page"`
	} `json:"spec"`
}

var (
	siteKind      = pintle.MustKind("example.com/v1/Site")
	configMapKind = pintle.MustKind("v1/ConfigMap")
)

func init() { pintle.Export(reconcile) }

func main() {}
"#;

const RUST: &str = r#"//! A snippet of the guide.
#![allow(missing_docs)]

use pintle_sdk::api::meta::ObjectMeta;
use pintle_sdk::{Children, Error, Key, Kind, Lister, Outcome, Resource, Step, resource};
use serde::Deserialize;
use serde_json::json;

const CONFIG_MAP: Kind = Kind::new("", "v1", "ConfigMap");

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Site {
    pub metadata: ObjectMeta,
    pub spec: Spec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Spec {
    pub page: String,
}

resource!(Site, "example.com", "v1", "Site");
"#;

const JAVASCRIPT: &str = r#"// @ts-check
import { Children, Outcome, Step, patchStatus } from "pintle";

const SITE = "example.com/v1/Site";

/** @type {import("pintle").Reconcile} */
export const checked = reconcile;
"#;

const PYTHON: &str = r#"from pintle import Children, Key, Lister, Outcome, Step

SITE = "example.com/v1/Site"
"#;

/// What follows the fence of a code block, and its text, of those that show Pintle.
fn snippets(guide: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    // Every second part is inside of fences.
    for block in guide.split("```").skip(1).step_by(2) {
        let (language, code) = block.split_once('\n').unwrap_or_default();
        if code.lines().next().is_some_and(|first| MARKS.contains(&first)) {
            found.push((language, code));
        }
    }
    found
}

/// The snippet of a language.
fn snippet(language: &str) -> Result<String> {
    let guide = fs::read_to_string(workspace_dir().join(GUIDE)).context(GUIDE)?;
    let of_language = snippets(&guide).into_iter().find(|(of, _)| *of == language);
    let (_, code) = of_language.with_context(|| format!("{GUIDE} has no snippet in {language}"))?;
    Ok(code.to_owned())
}

/// A folder for a program around a snippet. Tools look for libraries in the folders above a source, so it may have to lie in an SDK.
fn folder(parent: &Path) -> Result<TempDir> {
    fs::create_dir_all(parent).with_context(|| format!("create {}", parent.display()))?;
    tempfile::Builder::new().prefix("snippet-").tempdir_in(parent).context("make a folder")
}

fn write(folder: &TempDir, file: &str, text: &str) -> Result<()> {
    let path = folder.path().join(file);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(&path, text).with_context(|| path.display().to_string())
}

fn sdk(language: &str) -> PathBuf {
    workspace_dir().join("sdk").join(language)
}

#[test]
fn every_language_that_has_a_snippet_is_checked() -> Result<()> {
    let guide = fs::read_to_string(workspace_dir().join(GUIDE))?;
    let languages: Vec<&str> = snippets(&guide).into_iter().map(|(language, _)| language).collect();
    assert_eq!(languages, ["go", "rust", "javascript", "python"]);
    Ok(())
}

#[test]
fn the_snippet_in_go_passes_go_vet() -> Result<()> {
    let folder = folder(&target_dir())?;
    let example = sdk("go").join("examples/webapp");
    let module = fs::read_to_string(example.join("go.mod"))?;
    let replace = "replace pintle.dev/sdk => ../..";
    ensure!(module.contains(replace), "go.mod of the example says {module}");
    write(&folder, "go.mod", &module.replace(replace, &format!("replace pintle.dev/sdk => {}", sdk("go").display())))?;
    write(&folder, "go.sum", &fs::read_to_string(example.join("go.sum"))?)?;
    write(&folder, "main.go", &format!("{GO}\n{}", snippet("go")?))?;
    process::run(Command::new("go").current_dir(folder.path()).args(["vet", "."]).env_remove("GOFLAGS"))
}

#[test]
fn the_snippet_in_rust_compiles() -> Result<()> {
    let folder = folder(&target_dir())?;
    let example = sdk("rust").join("examples/webapp");
    let package = fs::read_to_string(example.join("Cargo.toml"))?;
    let dependency = "pintle-sdk = { path = \"../..\" }";
    ensure!(package.contains(dependency), "Cargo.toml of the example says {package}");
    let package = package.replace(dependency, &format!("pintle-sdk = {{ path = {:?} }}", sdk("rust")));
    write(&folder, "Cargo.toml", &package)?;
    write(&folder, "Cargo.lock", &fs::read_to_string(example.join("Cargo.lock"))?)?;
    write(&folder, "src/lib.rs", &format!("{RUST}\n{}", snippet("rust")?))?;
    let mut cargo = process::cargo(folder.path());
    cargo.args(["check", "--quiet", "--target", "wasm32-unknown-unknown", "--target-dir"]);
    process::run(cargo.arg(workspace_dir().join("target/wasm")))
}

#[test]
fn the_types_of_the_snippet_in_javascript_are_right() -> Result<()> {
    let folder = folder(&sdk("js").join("node_modules/.pintle"))?;
    let settings = r#"{
        "extends": "../../../tsconfig.base.json",
        "compilerOptions": {"allowJs": true, "checkJs": true, "strict": true, "noImplicitAny": false},
        "include": ["*.js"]
    }"#;
    write(&folder, "tsconfig.json", settings)?;
    write(&folder, "controller.js", &format!("{JAVASCRIPT}\n{}", snippet("javascript")?))?;
    let mut tsc = Command::new(sdk("js").join("node_modules/.bin/tsc"));
    process::run(tsc.current_dir(folder.path())).context("npm install in sdk/js brings tsc")
}

#[test]
fn the_types_of_the_snippet_in_python_are_right() -> Result<()> {
    let folder = folder(&target_dir())?;
    write(&folder, "app.py", &format!("{PYTHON}\n\n{}", snippet("python")?))?;
    let environment =
        std::env::var_os("VIRTUAL_ENV").map_or_else(|| workspace_dir().join("target/tools/python"), PathBuf::from);
    let mut mypy = Command::new(environment.join("bin/mypy"));
    mypy.current_dir(folder.path()).env("MYPYPATH", sdk("python")).args(["--strict", "--cache-dir"]);
    process::run(mypy.arg(folder.path().join("cache")).arg("app.py")).context("`cargo xtask languages` installs mypy")
}
