//! Components that load, the errors of others, and the cache of compiled code.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use expect_test::{Expect, expect};
use pintle_wasm::{EngineError, Producer, WasmConfig, WasmEngine, inspect};
use wasm_encoder::Section as _;

use crate::support::{ENGINE, component, minimal_manifest, outcome, run, text, with_manifest, without_manifest};

/// The error; if `inspect` detects it, it must return the same message.
#[track_caller]
fn check(bytes: &[u8], expect: Expect) {
    let error = ENGINE.load("plugin.wasm", bytes).err().expect("it is refused").to_string();
    if let Err(inspected) = inspect("plugin.wasm", bytes) {
        assert_eq!(inspected.to_string(), error);
    }
    expect.assert_eq(&error);
}

#[test]
fn other_files_than_components_are_rejected() {
    for other in [&b""[..], b"#!/bin/sh"] {
        check(
            other,
            expect![
                "plugin.wasm: this is not WebAssembly; name the file of a component, which `pintle build FOLDER` creates from a plugin"
            ],
        );
    }
    check(
        &wat::parse_str("(module)").unwrap(),
        expect![
            "plugin.wasm: this is a core WebAssembly module, not a component (build it with `pintle build`, or convert it with `wasm-tools component new`)"
        ],
    );
    let whole = component("everything");
    check(&whole[..whole.len() / 2], expect!["plugin.wasm: the component is damaged: unexpected end-of-file"]);
}

#[test]
fn a_manifest_is_needed_once_and_must_be_right() {
    let bare = without_manifest(component("everything"));
    check(
        &bare,
        expect![[
            r#"plugin.wasm: the component has no manifest (custom section "pintle:manifest" at its top level); add it with `pintle package FILE --manifest manifest.yaml -o OUTPUT`"#
        ]],
    );
    let twice = with_manifest(component("everything"), &minimal_manifest());
    check(&twice, expect!["plugin.wasm: the component has 2 manifests"]);
    check(
        &with_manifest(&bare, "{"),
        expect!["plugin.wasm: the manifest does not parse: EOF while parsing an object at line 1 column 1"],
    );
    check(
        &with_manifest(&bare, &minimal_manifest().replace("watches", "watch")),
        expect![
            "plugin.wasm: the manifest does not parse: unknown field `watch`, expected one of `name`, `aliases`, `version`, `contract`, `description`, `eventSource`, `events`, `instances`, `discovery`, `watches`, `queues`, `grants`, `config`, `endpoints`, `metrics`, `limits`, `builtIn` at line 1 column 60"
        ],
    );
    check(
        &with_manifest(&bare, &minimal_manifest().replace("0.2", "9.0")),
        expect![[
            r#"plugin.wasm: the manifest is not valid: contract: the plugin is for contract "9.0", and this host supports 0.2: build it with the SDK of this host"#
        ]],
    );
    let maps =
        minimal_manifest().replace(r#""watches":[]"#, r#""watches":[{"kind":"v1/Pod","enqueue":[{"to":"plugin"}]}]"#);
    check(
        &with_manifest(&without_manifest(component("faulty")), &maps),
        expect![
            "plugin.wasm: the manifest maps changes with `to: plugin`, but the component does not export pintle:controller/mapping@0.2.0"
        ],
    );
}

/// A component with its own `producers` sections: field, name, version.
fn produced(sections: &[&[(&str, &str, &str)]]) -> Vec<u8> {
    let mut bytes = component("everything").to_vec();
    for fields in sections {
        let mut section = wasm_encoder::ProducersSection::new();
        for (field, name, version) in *fields {
            let mut values = wasm_encoder::ProducersField::new();
            section.field(field, values.value(name, version));
        }
        section.append_to(&mut bytes);
    }
    bytes
}

fn shown(producers: &[Producer]) -> Vec<String> {
    producers.iter().map(|producer| format!("{} {}", producer.name, producer.version)).collect()
}

#[test]
fn a_component_says_what_it_is_written_in_and_what_made_it() {
    let found = inspect("p", component("everything")).unwrap().producers;
    assert_eq!(shown(&found.languages), ["Rust "]);
    let tools: Vec<&str> = found.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(tools, ["pintle", "wit-bindgen-rust", "wit-component"]);
    let more: &[_] = &[("language", "Go", ""), ("language", "Go", "2"), ("processed-by", "gc", "1")];
    let found = inspect("p", &produced(&[more])).unwrap().producers;
    assert_eq!(shown(&found.languages), ["Go 2", "Rust "]);
    assert!(shown(&found.tools).contains(&"gc 1".to_owned()), "{found:?}");
}

#[test]
fn what_producers_say_is_bounded_and_harmless() {
    let names: Vec<String> = (0..40).map(|i| format!("tool-{i:02}\u{1b}[31m{}", "x".repeat(200))).collect();
    let many: Vec<(&str, &str, &str)> = names.iter().map(|name| ("language", name.as_str(), "")).collect();
    let found = inspect("p", &produced(&[&many])).unwrap().producers.languages;
    assert_eq!(found.len(), 32);
    assert_eq!(found[0].name, "Rust");
    let found = &found[1..];
    assert!(found[0].name.starts_with("tool-00\\u{1b}[31m") && found[0].name.len() < 120, "{}", found[0].name);

    // Sections beyond the limit are skipped.
    let long = "x".repeat(70_000);
    let found =
        inspect("p", &produced(&[&[("language", "Go", "")], &[("language", &long, "")], &[("language", "C", "")]]));
    assert_eq!(shown(&found.unwrap().producers.languages), ["Go ", "Rust "]);

    let mut damaged = component("everything").to_vec();
    let section = wasm_encoder::CustomSection { name: "producers".into(), data: (&[9, 1][..]).into() };
    section.append_to(&mut damaged);
    assert_eq!(shown(&inspect("p", &damaged).unwrap().producers.languages), ["Rust "]);
}

#[test]
fn a_manifest_inside_a_nested_component_is_not_the_plugins_own() {
    let nested = wat::parse_str(r#"(component (component (@custom "pintle:manifest" "{}")))"#).unwrap();
    check(
        &nested,
        expect![[
            r#"plugin.wasm: the component has no manifest (custom section "pintle:manifest" at its top level); add it with `pintle package FILE --manifest manifest.yaml -o OUTPUT`"#
        ]],
    );
}

#[test]
fn imports_beside_the_contract_are_refused_by_name() {
    check(
        &text(
            r#"(component
                (import "wasi:cli/environment@0.3.0" (instance))
                (import "wasi:http/incoming-handler@0.2.9" (instance))
                (import "pintle:controller/store@0.2.0" (instance))
                (import "run" (func))
            )"#,
        ),
        expect![
            "plugin.wasm: component imports wasi:cli/environment@0.3.0, wasi:http/incoming-handler@0.2.9, pintle:controller/store@0.2.0, run, which this host does not offer; allowed are pintle:controller/log@0.2.0, pintle:controller/types@0.2.0, pintle:controller/view@0.2.0, and interfaces of WASI 0.2; of WASI, the host offers versions 0.2.x: build for WASI 0.2, for example for wasm32-wasip2; a plugin neither serves nor calls a network: it reads through the lister, asks for more with needs, and writes with its outcome"
        ],
    );
}

#[test]
fn a_component_for_another_contract_is_rejected_by_its_version() {
    // Whatever its manifest declares, and even if it has imports that no contract has.
    check(
        &text(
            r#"(component
                (import "wasi:http/incoming-handler@0.2.9" (instance))
                (import "pintle:controller/log@0.1.0" (instance))
            )"#,
        ),
        expect![
            "plugin.wasm: the component was built for contract 0.1 (pintle:controller/log@0.1.0), and this host supports 0.2: build it again with the SDK of this host"
        ],
    );
    let exports = r#"(component
        (instance $mapping)
        (export "pintle:controller/mapping@1.0.0" (instance $mapping))
    )"#;
    check(
        &text(exports),
        expect![
            "plugin.wasm: the component was built for contract 1.0 (pintle:controller/mapping@1.0.0), and this host supports 0.2: build it again with the SDK of this host"
        ],
    );
}

#[test]
fn imports_of_the_contract_must_have_its_types() {
    check(
        &text(
            r#"(component
                (import "pintle:controller/log@0.2.0" (instance (export "shout" (func))))
                (core module $m (func (export "f")))
                (core instance $i (instantiate $m))
                (func (export "reconcile") (canon lift (core func $i "f")))
            )"#,
        ),
        expect![
            "plugin.wasm: component does not fit the contract: component imports instance `pintle:controller/log@0.2.0`, but a matching implementation was not found in the linker: instance export `shout` has the wrong type: function implementation is missing"
        ],
    );
}

#[test]
fn exports_must_be_those_of_a_controller() {
    check(
        &text("(component)"),
        expect![[r#"plugin.wasm: component exports no function "reconcile" (it exports nothing)"#]],
    );
    check(
        &text(
            r#"(component
                (core module $m (func (export "f")))
                (core instance $i (instantiate $m))
                (func (export "reconcile") (canon lift (core func $i "f")))
            )"#,
        ),
        expect![
            "plugin.wasm: component does not fit the contract: type-checking export func `reconcile`: expected 2-tuple, found 0-tuple"
        ],
    );
}

#[test]
fn features_of_webassembly_that_no_plugin_needs_are_off() {
    check(
        &text(
            r#"(component
                (core module $m (memory i64 1) (func (export "f")))
                (core instance $i (instantiate $m))
                (func (export "reconcile") (canon lift (core func $i "f")))
            )"#,
        ),
        expect![
            "plugin.wasm: component does not compile: failed to parse WebAssembly module: memory64 must be enabled for 64-bit memories (at offset 0x1f)"
        ],
    );
}

/// A component of one module, which has a controller's export by name only.
fn module(fields: &str) -> Vec<u8> {
    text(&format!(
        r#"(component
            (core module $m {fields} (func (export "f")))
            (core instance $i (instantiate $m))
            (func (export "reconcile") (canon lift (core func $i "f")))
        )"#
    ))
}

#[test]
fn a_component_that_costs_too_much_to_compile_is_refused_before() {
    let mut bytes = component("everything").to_vec();
    bytes.resize((64 << 20) + 1, 0);
    check(&bytes, expect!["plugin.wasm: the component is too large: 67108865 bytes; the maximum is 67108864"]);
    check(
        &module(&"(func)".repeat(100_000)),
        expect!["plugin.wasm: the component is too large: 100001 functions; the maximum is 100000"],
    );
    check(
        &module(&format!("(func {})", "nop ".repeat(600_000))),
        expect!["plugin.wasm: the component is too large: 600002 bytes of a function; the maximum is 524288"],
    );
    check(
        &text(&format!("(component {})", "(core module)".repeat(65))),
        expect!["plugin.wasm: the component is too large: 65 modules and components; the maximum is 64"],
    );
    check(
        &text(&format!("(component (core module $m) {})", "(core instance (instantiate $m))".repeat(257))),
        expect!["plugin.wasm: the component is too large: 257 instances; the maximum is 256"],
    );
    let manifest = minimal_manifest().replace("widgets", &"x".repeat(300_000));
    check(
        &with_manifest(&without_manifest(component("everything")), &manifest),
        expect!["plugin.wasm: the component is too large: 300089 bytes of its manifest; the maximum is 262144"],
    );
}

/// A function with `n_locals` locals that nested loops write.
fn loops(n_locals: usize, n_loops: usize) -> Vec<u8> {
    let write = |i| format!("(local.set {i} (local.get {}))", (i + 1) % n_locals);
    let (locals, writes) = ("i32 ".repeat(n_locals), (0..n_locals).map(write).collect::<String>());
    let (begin, end) = ("(loop ".repeat(n_loops), "(br_if 0 (local.get 0)))".repeat(n_loops));
    module(&format!("(func (local {locals}) {begin} {writes} {end})"))
}

#[test]
fn a_small_function_that_would_keep_the_compiler_busy_is_refused() {
    check(
        &loops(100, 64),
        expect![
            "plugin.wasm: component does not fit the contract: type-checking export func `reconcile`: expected 2-tuple, found 0-tuple"
        ],
    );
    check(&loops(100, 65), expect!["plugin.wasm: the component is too large: 65 nested loops; the maximum is 64"]);
    check(
        &loops(10_000, 64),
        expect![
            "plugin.wasm: the component is too large: 214613 units of work to compile a function (its locals by its branches and loops); the maximum is 5000"
        ],
    );
    // Branches without loops.
    let branches = |n_locals: usize, n: usize| {
        let (locals, branches) = ("i32 ".repeat(n_locals), "(br_if 0 (local.get 0))".repeat(n));
        format!("(func (local {locals}) (block {branches}))")
    };
    check(
        &module(&branches(1_000, 5_001)),
        expect![
            "plugin.wasm: the component is too large: 5002 units of work to compile a function (its locals by its branches and loops); the maximum is 5000"
        ],
    );
    check(
        &module(&branches(1_000, 4_000).repeat(16)),
        expect![
            "plugin.wasm: the component is too large: 60015 units of work to compile all functions (locals by branches and loops); the maximum is 60000"
        ],
    );
}

#[test]
fn a_component_that_begins_with_too_much_is_refused() {
    // 1,024 pages are 64 MiB, the default.
    check(
        &module("(memory 1025)"),
        expect![
            "plugin.wasm: the component declares a memory of 67174400 bytes, more than its limit of 67108864 (limits.memoryBytes of the manifest)"
        ],
    );
    check(
        &module("(memory 1024)"),
        expect![
            "plugin.wasm: component does not fit the contract: type-checking export func `reconcile`: expected 2-tuple, found 0-tuple"
        ],
    );
    check(
        &module(&"(memory 1)".repeat(5)),
        expect!["plugin.wasm: the component is too large: 5 memories; the maximum is 4"],
    );
    check(
        &module("(table 50001 funcref)"),
        expect![
            "plugin.wasm: component does not compile: module table does not fit in pooling allocator requirements: table index 0 has a minimum element size of 50001 which exceeds the limit of 50000"
        ],
    );
    check(
        &module(&"(table 1 funcref)".repeat(9)),
        expect![
            "plugin.wasm: component does not compile: module table does not fit in pooling allocator requirements: defined tables count of 9 exceeds the per-instance limit of 8"
        ],
    );
}

#[test]
fn a_manifest_cannot_be_a_bomb() {
    let bare = without_manifest(component("everything"));
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    check(
        &with_manifest(&bare, &minimal_manifest().replace("[]", &deep)),
        expect![
            "plugin.wasm: the manifest does not parse: invalid type: sequence, expected a string at line 1 column 65"
        ],
    );
    let deep = format!(r#"{{"a":{{"type":"string","default":{deep}}}}}"#);
    let with_default = minimal_manifest().replacen('{', &format!(r#"{{"config":{deep},"#), 1);
    check(
        &with_manifest(&bare, &with_default),
        expect!["plugin.wasm: the manifest does not parse: recursion limit exceeded at line 1 column 167"],
    );
}

#[test]
fn inspection_tells_what_a_component_is_without_running_it() {
    let bytes = component("everything");
    let inspection = inspect("everything", bytes).unwrap();
    assert_eq!(inspection.manifest.name, "everything");
    assert_eq!(inspection.contract, "0.2.0");
    assert_eq!(inspection.size_bytes, bytes.len());
    assert_eq!(inspection.digest.len(), 64);
    assert!(inspection.maps());
    expect![[r#"
        ["pintle:controller/log@0.2.0", "pintle:controller/types@0.2.0", "pintle:controller/view@0.2.0"]
        ["reconcile", "pintle:controller/mapping@0.2.0"]"#]]
    .assert_eq(&format!("{:?}\n{:?}", inspection.imports, inspection.exports));
}

fn engine(folder: &Path) -> Result<WasmEngine, EngineError> {
    WasmEngine::new(WasmConfig { cache_dir: Some(folder.to_path_buf()), ..WasmConfig::default() })
}

fn only_file(folder: &Path, extension: &str) -> PathBuf {
    let mut files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    files.retain(|file| file.extension().is_some_and(|e| e == extension));
    assert_eq!(files.len(), 1, "{files:?}");
    files.remove(0)
}

#[test]
fn compiled_code_is_used_again_and_damaged_code_is_not() {
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("pintle/code");
    let engine = engine(&folder).unwrap();
    let load_and_run = || {
        outcome(run(&*engine.load("faulty", component("faulty")).unwrap(), "calls"));
    };
    load_and_run();
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    let code = only_file(&folder, "cwasm");
    let written = fs::metadata(&code).unwrap().modified().unwrap();
    let compiled = fs::read(&code).unwrap();

    load_and_run();
    assert_eq!(fs::metadata(&code).unwrap().modified().unwrap(), written, "the second load compiled again");

    let mut damaged = compiled.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    for damage in [&damaged[..], &compiled[..1000], b""] {
        // As a new file, because running plugins have the old one mapped.
        fs::remove_file(&code).unwrap();
        fs::write(&code, damage).unwrap();
        load_and_run();
        assert!(fs::read(&code).unwrap() == compiled, "damaged code was not replaced");
    }

    fs::remove_file(only_file(&folder, "sha256")).unwrap();
    load_and_run();
    only_file(&folder, "sha256");
}

#[test]
fn another_component_has_another_entry() {
    let outer = tempfile::tempdir().unwrap();
    let engine = engine(&outer.path().join("code")).unwrap();
    engine.load("faulty", component("faulty")).unwrap();
    engine.load("everything", component("everything")).unwrap();
    assert_eq!(fs::read_dir(outer.path().join("code")).unwrap().count(), 4);
}

#[test]
fn a_folder_that_others_can_write_to_holds_no_code() {
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("open");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o770)).unwrap();
    let error = engine(&folder).err().expect("it is refused");
    assert!(matches!(error, EngineError::CacheNotPrivate { .. }), "{error}");
    let file = outer.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(engine(&file).is_err());
}
