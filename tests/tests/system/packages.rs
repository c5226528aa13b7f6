//! `pintle package --manifest`: a component of any toolchain becomes a plugin, after the checks that a host makes.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test by panicking")]

use std::fs;

use anyhow::{Result, ensure};
use pintle_tests::components::manifest_of;
use pintle_tests::pintle::{Answer, command};
use serde_json::Value;
use tempfile::TempDir;

const MANIFEST: &str = "name: web
version: 0.1.0
contract: \"0.2\"
watches: [{kind: v1/Pod, enqueue: [{to: self, on: [add]}]}]
queues: [{name: web}]
";

/// What a host accepts without looking at types.
const COMPONENT: &str = r#"(component
    (import "pintle:controller/log@0.2.0" (instance))
    (core module $m (func (export "f")))
    (core instance $i (instantiate $m))
    (func $f (canon lift (core func $i "f")))
    (export "reconcile" (func $f)))"#;

/// A folder with a component and a manifest.
fn folder(component: &str, manifest: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("component.wasm"), wat::parse_str(component).unwrap()).unwrap();
    fs::write(folder.path().join("manifest.yaml"), manifest).unwrap();
    folder
}

fn package(folder: &TempDir, plugin: &str, more: &[&str]) -> Result<Answer> {
    let arguments = [&["package", plugin, "-o", "plugin.wasm"], more].concat();
    Answer::of(command(arguments)?.current_dir(folder.path()))
}

#[test]
fn a_component_of_any_toolchain_gets_a_manifest() -> Result<()> {
    let folder = folder(COMPONENT, MANIFEST);
    let manifest = &["--manifest", "manifest.yaml"];
    let packed = package(&folder, "component.wasm", manifest)?.success()?;
    ensure!(packed.starts_with("plugin.wasm: web 0.1.0, "), "{packed}");
    let plugin = fs::read(folder.path().join("plugin.wasm"))?;
    ensure!(plugin.starts_with(&fs::read(folder.path().join("component.wasm"))?));
    // YAML 1.1 would read `on` as a boolean.
    let on: Value = manifest_of(&plugin)?["watches"][0]["enqueue"][0]["on"].take();
    assert_eq!(on, serde_json::json!(["add"]));

    // It is a plugin like any other.
    let again = package(&folder, "plugin.wasm", &[])?.success()?;
    assert_eq!(again, packed);
    assert_eq!(
        package(&folder, "plugin.wasm", manifest)?.text(),
        "pintle: plugin.wasm contains a manifest already, of web 0.1.0: leave out --manifest, or name the file that the toolchain made\n"
    );
    assert_eq!(
        package(&folder, ".", manifest)?.text(),
        "pintle: . is a directory, whose manifest is its manifest.yaml: leave out --manifest, or name a component file\n"
    );
    Ok(())
}

#[test]
fn a_manifest_and_a_component_that_do_not_fit_are_refused() -> Result<()> {
    let refused = |component: &str, manifest: &str, expected: &str| -> Result<()> {
        let folder = folder(component, manifest);
        let answer = package(&folder, "component.wasm", &["--manifest", "manifest.yaml"])?;
        ensure!(!answer.is_good() && answer.text().starts_with(expected), "{}", answer.text());
        ensure!(!folder.path().join("plugin.wasm").exists());
        Ok(())
    };
    let manifest = |from: &str, to: &str, expected: &str| refused(COMPONENT, &MANIFEST.replace(from, to), expected);
    manifest(
        "to: self",
        "to: plugin",
        "pintle: component.wasm: the manifest maps changes with `to: plugin`, but the component does not export \
         pintle:controller/mapping@0.2.0\n",
    )?;
    manifest(
        "\"0.2\"",
        "\"0.1\"",
        "pintle: manifest.yaml: the manifest is not valid: contract: the plugin is for contract \"0.1\", and this host supports 0.2: \
         build it with the SDK of this host\n",
    )?;
    manifest("watches", "watch", "pintle: manifest.yaml: unknown field `watch`")?;
    let component = |from: &str, to: &str, expected: &str| refused(&COMPONENT.replace(from, to), MANIFEST, expected);
    component(
        "pintle:controller/log@0.2.0",
        "wasi:http/incoming-handler@0.2.12",
        "pintle: component.wasm: component imports wasi:http/incoming-handler@0.2.12, which this host does not offer",
    )?;
    component(
        "pintle:controller/log@0.2.0",
        "pintle:controller/log@0.1.0",
        "pintle: component.wasm: the component was built for contract 0.1 (pintle:controller/log@0.1.0), and this host supports 0.2: \
         build it again with the SDK of this host\n",
    )?;
    component(
        "\"reconcile\"",
        "\"run\"",
        "pintle: component.wasm: component exports no function \"reconcile\" (it exports run)\n",
    )?;
    refused("(module)", MANIFEST, "pintle: component.wasm: this is a core WebAssembly module, not a component")
}
