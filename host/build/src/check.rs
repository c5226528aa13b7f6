//! Checks the imports and exports of a component, with messages that tell the author what to change.
//!
//! The host repeats these checks when it loads a component (`pintle-wasm`), independent of languages.

use std::collections::BTreeSet;

use anyhow::{bail, ensure};
use pintle_core::contract::manifest::{Grant, Manifest, Of};
use wasmparser::{ComponentExternalKind, ComponentTypeRef, Parser, Payload};

use crate::component::WASI;
use crate::{Language, Project, contract};

/// Imports and exports of a component, or a core module, without types.
#[derive(Debug, Default)]
struct Names {
    imports: Vec<String>,
    exports: Vec<String>,
}

/// Checks that the manifest and the contract of a project have the same version, before anything is compiled.
///
/// # Errors
/// They differ.
pub(crate) fn manifest(project: &Project) -> anyhow::Result<()> {
    let version = project.contract()?.version()?;
    let (ours, theirs) = (contract::short(&version), &project.contract_version);
    ensure!(
        ours == theirs,
        "{}: contract: the manifest says {theirs:?}, and the SDK of the project is for contract {ours}; write `contract: \"{ours}\"`",
        project.folder.join("manifest.yaml").display()
    );
    Ok(())
}

/// A warning for each kind that a manifest requests to create for its key, and that no watch shows: a plugin that
/// compares creates it again, and a patch or a delete of it is denied.
pub(crate) fn unwatched(manifest: &Manifest) -> Vec<String> {
    let makes = |grant: &&Grant| {
        grant.of == Of::Controlled && grant.subresources.is_empty() && grant.verbs.iter().any(|verb| verb == "create")
    };
    let is_watched = |kind: &str| {
        manifest.watches.iter().any(|watch| watch.kind.as_ref().is_none_or(|watched| watched.to_string() == kind))
    };
    let kinds: BTreeSet<&String> = manifest.grants.iter().filter(makes).flat_map(|grant| &grant.kinds).collect();
    let unwatched = kinds.into_iter().filter(|kind| !kind.contains('*') && !is_watched(kind));
    let warning = |kind| {
        format!(
            "manifest.yaml: warning: `grants` has `create` of {kind}, and no watch shows which ones there are; add a watch of {kind} with \
             `enqueue: [{{to: controller, kind: ...}}]`"
        )
    };
    unwatched.map(warning).collect()
}

/// Checks a finished component. `ours`: the version of the contract it was built with.
///
/// # Errors
/// If it imports anything but the contract, or lacks an export of its world.
pub fn component(bytes: &[u8], language: Language, world: &str, ours: &str) -> anyhow::Result<()> {
    let names = names(bytes)?;
    for import in &names.imports {
        let (interface, version) = import.split_once('@').unwrap_or((import, ""));
        if contract::IMPORTS.contains(&interface) {
            version_fits(import, version, ours)?;
        } else if interface.starts_with("wasi:") {
            bail!(
                "the component imports {import}: it asks the operating system for something, and a plugin has only the contract \
                 ({}). {}",
                contract::PACKAGE,
                without_wasi(language)
            );
        } else {
            bail!(
                "the component imports {import}; a plugin may import {} and nothing else",
                contract::IMPORTS.join(", ")
            );
        }
    }
    let exports = |name: &str| names.exports.iter().find(|export| export.split('@').next() == Some(name));
    ensure!(
        exports(contract::RECONCILE).is_some(),
        "the component exports no function `reconcile` (it exports {}). {}",
        some(&names.exports),
        how_to_export(language)
    );
    if world == contract::MAPPING_CONTROLLER {
        let Some(mapping) = exports(contract::MAPPING) else {
            bail!(
                "the manifest has a watch with `to: plugin`, so the component must export {} with its function `keys-of`",
                contract::MAPPING
            );
        };
        version_fits(mapping, mapping.split_once('@').map_or("", |(_, version)| version), ours)?;
    }
    Ok(())
}

/// Checks a core module before it is converted to a component, because later errors are less specific.
///
/// # Errors
/// If it imports anything other than WASI and the contract, or does not export `reconcile`.
pub(crate) fn module(bytes: &[u8], language: Language) -> anyhow::Result<()> {
    let names = names(bytes)?;
    for import in &names.imports {
        let (module, function) = import.split_once(' ').unwrap_or((import, ""));
        let known = module == WASI
            || module == "$root"
            || module.starts_with(contract::PACKAGE)
            || module.starts_with("[export]");
        if known {
            continue;
        }
        match (language, module) {
            (Language::Rust, module) if module.starts_with("__wbindgen") => bail!(
                "a dependency is built for JavaScript: the module imports {function} of {module}. Turn that feature of the crate \
                 off (`js`, `wasmbind`, `wasm-bindgen`; `cargo tree -i wasm-bindgen` shows who uses it)"
            ),
            _ => {
                bail!("the module imports {function} of {module}; a plugin may import {}", contract::IMPORTS.join(", "))
            }
        }
    }
    ensure!(
        names.exports.iter().any(|export| export == contract::RECONCILE),
        "the module exports no function `reconcile`. {}",
        how_to_export(language)
    );
    Ok(())
}

fn version_fits(name: &str, version: &str, ours: &str) -> anyhow::Result<()> {
    ensure!(
        version == ours,
        "the component was built against {name}, and the contract of the project is of version {ours}: use an SDK and a contract \
         (.pintle/sdk, .pintle/wit) that came together"
    );
    Ok(())
}

fn without_wasi(language: Language) -> &'static str {
    match language {
        Language::Rust => "Is the target wasm32-unknown-unknown, and does no dependency open files or sockets?",
        Language::Go => "This is not to be expected in this language; please report it.",
        Language::JavaScript | Language::TypeScript | Language::Python => {
            "Time comes from lister.now, and other data from the cache; files, sockets and processes are not there. Which of the \
             dependencies asks for it?"
        }
    }
}

fn how_to_export(language: Language) -> &'static str {
    match language {
        Language::Rust => {
            "Is there `pintle_sdk::export!(...)` in the crate, and crate-type = [\"cdylib\"] in its Cargo.toml?"
        }
        Language::Go => "Does package main import the SDK and register a function with it?",
        Language::JavaScript | Language::TypeScript => {
            "Does the file of `main` in package.json export a function `reconcile`?"
        }
        Language::Python => "Does the module of [tool.pintle] in pyproject.toml define a function `reconcile`?",
    }
}

fn some(names: &[String]) -> String {
    if names.is_empty() { "nothing".into() } else { names.join(", ") }
}

/// Names of the outermost component or module; a module's imports include the name of their module.
fn names(bytes: &[u8]) -> anyhow::Result<Names> {
    let mut names = Names::default();
    let mut depth = 0_usize;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload? {
            Payload::Version { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            _ if depth != 1 => {}
            Payload::ComponentImportSection(section) => {
                for import in section {
                    let import = import?;
                    // A world's `use` of a type is an import too, without any capability.
                    if !matches!(import.ty, ComponentTypeRef::Type(_)) {
                        names.imports.push(import.name.name.to_owned());
                    }
                }
            }
            Payload::ComponentExportSection(section) => {
                for export in section {
                    let export = export?;
                    if export.kind != ComponentExternalKind::Type {
                        names.exports.push(export.name.name.to_owned());
                    }
                }
            }
            Payload::ImportSection(section) => {
                for import in section.into_imports() {
                    let import = import?;
                    names.imports.push(format!("{} {}", import.module, import.name));
                }
            }
            Payload::ExportSection(section) => {
                for export in section {
                    names.exports.push(export?.name.to_owned());
                }
            }
            _ => {}
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error for a component of the WIT world `controller`, given as text.
    #[test]
    fn a_kind_that_is_made_and_not_watched_is_a_warning() {
        let manifest = serde_json::json!({
            "name": "web", "version": "1", "contract": "0.2", "queues": [{"name": "web"}],
            "watches": [{"kind": "v1/Service", "enqueue": [{"to": "controller", "kind": "v1/Pod"}]}],
            "grants": [
                {"verbs": ["create", "patch"], "kinds": ["v1/Service", "apps/v1/Deployment"], "of": "controlled"},
                {"verbs": ["create"], "kinds": ["v1/Secret"]},
                {"verbs": ["create"], "kinds": ["v1/Pod"], "subresources": ["eviction"], "of": "controlled"},
            ],
        });
        let warnings = unwatched(&Manifest::parse(manifest.to_string().as_bytes()).unwrap());
        let start = "manifest.yaml: warning: `grants` has `create` of apps/v1/Deployment, and no watch shows";
        assert!(matches!(&warnings[..], [warning] if warning.starts_with(start)), "{warnings:?}");
    }

    fn wrong(language: Language, inside: &str) -> String {
        wrong_in(language, contract::CONTROLLER, inside)
    }

    fn wrong_in(language: Language, world: &str, inside: &str) -> String {
        let bytes = wat::parse_str(format!("(component {inside})")).unwrap();
        component(&bytes, language, world, "0.2.0").map_or_else(|why| why.to_string(), |()| String::new())
    }

    const RECONCILE: &str = r#"
        (core module $m (func (export "f")))
        (core instance $i (instantiate $m))
        (func $f (canon lift (core func $i "f")))
        (export "reconcile" (func $f))"#;

    #[test]
    fn a_component_of_the_contract_is_taken() {
        let log = r#"(import "pintle:controller/log@0.2.0" (instance))"#;
        assert_eq!(wrong(Language::Go, &format!("{log} {RECONCILE}")), "");
        // An additional function added by tools is harmless.
        let more = format!(r#"{RECONCILE} (export "init" (func $f))"#);
        assert_eq!(wrong(Language::JavaScript, &more), "");
    }

    #[test]
    fn an_import_of_wasi_tells_what_to_use_instead() {
        let clock = format!(r#"(import "wasi:clocks/wall-clock@0.2.9" (instance)) {RECONCILE}"#);
        let why = wrong(Language::Python, &clock);
        assert!(
            why.starts_with("the component imports wasi:clocks/wall-clock@0.2.9: it asks the operating system"),
            "{why}"
        );
        assert!(why.contains("Time comes from lister.now"), "{why}");
        assert!(wrong(Language::Rust, &clock).contains("wasm32-unknown-unknown"));
    }

    #[test]
    fn another_import_and_another_version_are_told() {
        let why = wrong(Language::Go, &format!(r#"(import "acme:db/store@1.0.0" (instance)) {RECONCILE}"#));
        assert!(
            why.starts_with("the component imports acme:db/store@1.0.0; a plugin may import pintle:controller/log"),
            "{why}"
        );
        let why = wrong(Language::Go, &format!(r#"(import "pintle:controller/log@0.9.0" (instance)) {RECONCILE}"#));
        assert!(
            why.contains("pintle:controller/log@0.9.0")
                && why.contains("the contract of the project is of version 0.2.0"),
            "{why}"
        );
    }

    #[test]
    fn a_missing_export_tells_where_it_comes_from() {
        let export = |name: &str| RECONCILE.replace("reconcile", name);
        let why = wrong(Language::JavaScript, &export("run"));
        assert!(why.contains("exports no function `reconcile` (it exports run). Does the file of `main`"), "{why}");
        assert!(wrong(Language::Rust, "").contains("(it exports nothing). Is there `pintle_sdk::export!(...)`"));
    }

    #[test]
    fn a_plugin_that_maps_exports_the_mapping() {
        let why = wrong_in(Language::Go, contract::MAPPING_CONTROLLER, RECONCILE);
        assert!(why.contains("`to: plugin`, so the component must export pintle:controller/mapping"), "{why}");
        let mapping = |version: &str| {
            format!(
                r#"{RECONCILE} (instance $g (export "keys-of" (func $f))) (export "pintle:controller/mapping@{version}" (instance $g))"#
            )
        };
        assert_eq!(wrong_in(Language::Go, contract::MAPPING_CONTROLLER, &mapping("0.2.0")), "");
        let why = wrong_in(Language::Go, contract::MAPPING_CONTROLLER, &mapping("2.0.0"));
        assert!(why.contains("mapping@2.0.0"), "{why}");
    }

    fn wrong_module(language: Language, inside: &str) -> String {
        let bytes = wat::parse_str(format!("(module {inside})")).unwrap();
        module(&bytes, language).map_or_else(|why| why.to_string(), |()| String::new())
    }

    #[test]
    fn what_a_module_lacks_is_told_before_it_is_wrapped() {
        let export = r#"(func (export "reconcile"))"#;
        let known =
            format!(r#"(import "wasi_snapshot_preview1" "fd_write" (func)) (import "$root" "f" (func)) {export}"#);
        assert_eq!(wrong_module(Language::Go, &known), "");
        let why =
            wrong_module(Language::Rust, &format!(r#"(import "__wbindgen_placeholder__" "now" (func)) {export}"#));
        assert!(why.starts_with("a dependency is built for JavaScript: the module imports now"), "{why}");
        let why = wrong_module(Language::Go, &format!(r#"(import "acme" "now" (func)) {export}"#));
        assert!(why.starts_with("the module imports now of acme; a plugin may import pintle:controller/log"), "{why}");
        let why = wrong_module(Language::Go, r#"(func (export "_initialize"))"#);
        assert_eq!(
            why,
            "the module exports no function `reconcile`. Does package main import the SDK and register a function with it?"
        );
    }
}
