//! What comes from outside is read without harm: nothing panics, and what is taken for good is good.
//!
//! Each target changes the inputs that `tests/fuzz/TARGET` keeps in small ways, always the same ones: a smoke test. An input that
//! fails is left in that folder, to be kept with the mend. To look further, for minutes or hours, with other changes each time:
//!
//! ```text
//! FUZZ_SECONDS=600 cargo test --workspace --release --test system fuzz::manifest
//! ```
//!
//! Not here: sequences of calls, which have property tests of their own beside the code.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod guest;
mod harness;

use pintle_core::contract::manifest::{Limits, Manifest};
use pintle_core::object::field::{FieldMask, FieldPath};
use pintle_core::object::project::Projector;
use pintle_core::object::selector::Selector;
use pintle_core::ports::guest::FaultKind;
use pintle_wasm::{WasmConfig, WasmEngine};
use serde_json::{Value, json};

use harness::Target;

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// Whether an input was taken for good, or what is wrong with that.
type Verdict = Result<bool, String>;

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(true) } else { Err(what()) }
}

#[test]
fn component() {
    let engine = WasmEngine::new(WasmConfig::default()).unwrap();
    let target = Target { cases: 1_500, seeds: vec![guest::component()], ..Target::new("component") };
    target.run(|bytes| {
        let looked = pintle_wasm::inspect("component", bytes);
        if let Ok(found) = &looked {
            let manifest = Manifest::parse(found.manifest_json.as_bytes());
            ensure(manifest.is_ok(), || format!("a manifest that does not parse was taken: {manifest:?}"))?;
        }
        let loaded = engine.load_with("component", bytes, &Limits::default());
        ensure(looked.is_ok() || loaded.is_err(), || "what cannot be inspected was loaded".to_owned())?;
        Ok(loaded.is_ok())
    });
}

#[test]
fn manifest() {
    let words = &[
        "\"watches\":",
        "\"queues\":[",
        "\"kind\":\"v1/Pod\"",
        "\"fields\":[\"a.b['c']\"]",
        "\"to\":\"label\"",
        "\"grants\":[{",
        "\"every\":{}",
        "4294967296",
        "-1",
        "1e999",
        "null",
        "\\u0000",
        "\"selects\":{",
        "\"labelSelector\":\"a in (b)\"",
    ];
    Target { words, ..Target::new("manifest") }.run(|bytes| {
        let Ok(manifest) = Manifest::parse(bytes) else { return Ok(false) };
        let limits = manifest.limits.effective();
        ensure(!limits.deadline.is_zero(), || "a run without time".to_owned())?;
        let written = serde_json::to_vec(&manifest).unwrap();
        let again = Manifest::parse(&written);
        ensure(again.as_ref().is_ok_and(|again| *again == manifest), || format!("written and read it is {again:?}"))
    });
}

#[test]
fn outcome() {
    let engine = WasmEngine::new(WasmConfig::default()).unwrap();
    let guest = engine.load("outcome", &guest::component()).unwrap();
    let (manifest, limits) = (guest.manifest().clone(), guest.limits());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    Target { cases: 10_000, ..Target::new("outcome") }.run(|bytes| {
        let run = runtime.block_on(guest::run(&*guest, bytes));
        match run.result {
            Ok(Ok(outcome)) => pintle_core::contract::check::outcome(outcome.into_inner(), &manifest, &limits)
                .map(|_| true)
                .map_err(|why| format!("an outcome was taken that breaks a rule: {why}")),
            Ok(Err(_)) => Ok(true),
            Err(fault) => {
                ensure(matches!(fault.kind, FaultKind::Trap | FaultKind::Output), || fault.to_string())?;
                Ok(false)
            }
        }
    });
}

#[test]
fn selector() {
    let words = &[
        " in (",
        " notin (",
        ")",
        ",",
        "!",
        "!=",
        "==",
        "=",
        "a.b/c",
        "matchLabels",
        "\"operator\":\"Exists\"",
        "\"values\":[",
    ];
    Target { words, ..Target::new("selector") }.run(|bytes| {
        let Some(text) = text(bytes) else { return Ok(false) };
        let label =
            |name: &str| [("app", "web"), ("tier", "")].into_iter().find(|(key, _)| *key == name).map(|(_, v)| v);
        let mut taken = false;
        if let Ok(selector) = Selector::parse(text) {
            taken = true;
            selector.matches(label);
            ensure(!selector.is_empty() || selector.matches(|_| None), || {
                "an empty selector does not match".to_owned()
            })?;
        }
        for form in ["labelSelector", "map"] {
            let form = serde_json::from_value(json!(form)).unwrap();
            if let Ok(Some(selector)) = Selector::from_json(text, form) {
                taken = true;
                selector.matches(label);
            }
        }
        Ok(taken)
    });
}

/// An object, a line `---`, and a patch of it.
#[test]
fn patch() {
    use pintle_sim::patch::{json_patch, merge_patch, strategic_body, strategic_merge};

    let words = &[
        "\"$patch\":\"delete\"",
        "\"$patch\":\"replace\"",
        "\"$retainKeys\":[\"a\"]",
        "\"$setElementOrder/containers\":[",
        "\"$deleteFromPrimitiveList/finalizers\":[",
        "\"op\":\"move\"",
        "\"op\":\"copy\",\"from\":\"\"",
        "\"path\":\"/-\"",
        "/~1~0",
        "null",
        "\"containers\":[{\"name\":\"a\"}]",
        "\"path\":\"/spec/99999999999999999999\"",
    ];
    let schemas = [pintle_sim::schema::lookup("", "v1", "Pod"), None];
    Target { words, ..Target::new("patch") }.run(|bytes| {
        let Some((object, patch)) = text(bytes).and_then(|text| text.split_once("\n---\n")) else { return Ok(false) };
        let Ok(object) = serde_json::from_str::<Value>(object) else { return Ok(false) };
        // An API object is an object; nothing else is stored.
        if !object.is_object() {
            return Ok(false);
        }
        let mut taken = false;
        if let Ok(merged) = merge_patch(&object, patch.as_bytes()) {
            ensure(merged.is_object(), || format!("merged it is {merged}"))?;
            let again = merge_patch(&merged, patch.as_bytes());
            ensure(again.as_ref() == Ok(&merged), || format!("merged twice it is {again:?}"))?;
        }
        // Whatever comes of them is checked by the server as an object that was sent.
        taken |= json_patch(&object, patch.as_bytes()).is_ok();
        for schema in &schemas {
            if let Ok(body) = strategic_body(patch.as_bytes()) {
                taken |= strategic_merge(schema.clone(), &object, body).is_ok();
            }
        }
        Ok(taken)
    });
}

/// Members are set in texts that come from plugins; a reader sees these members changed, and no other.
#[test]
fn edit() {
    let words = &[
        "\"metadata\":{",
        "\"uid\":",
        "\"apiVersion\":\"v1\"",
        "\\u0061",
        "\"a\":1,\"a\":2",
        "1E400",
        "\u{feff}",
        "{}",
        "\\ud800",
    ];
    Target { words, ..Target::new("edit") }.run(|bytes| {
        let Some(text) = text(bytes) else { return Ok(false) };
        let Ok(edited) = pintle_runtime::fuzzing::with_metadata(text, "apiVersion", "v9", "uid", "u\"1") else {
            return Ok(false);
        };
        // What no reader can hold is left to the API server.
        let Ok(mut before) = serde_json::from_str::<Value>(text) else { return Ok(false) };
        before["apiVersion"] = "v9".into();
        before["metadata"]["uid"] = "u\"1".into();
        let after = serde_json::from_str::<Value>(&edited);
        ensure(after.as_ref().is_ok_and(|after| *after == before), || format!("{edited}: {after:?}, wanted {before}"))
    });
}

/// A path, a line `---`, and an object to look into.
#[test]
fn field() {
    let words = &["metadata.labels['", "']", "..", "[0]", "spec.", "\\'", "\"spec\":{", "[{\"a\":1}]"];
    Target { words, ..Target::new("field") }.run(|bytes| {
        let Some((path, object)) = text(bytes).and_then(|text| text.split_once("\n---\n")) else { return Ok(false) };
        let Ok(parsed) = path.parse::<FieldPath>() else { return Ok(false) };
        let again = parsed.to_string().parse::<FieldPath>();
        ensure(again.as_ref().is_ok_and(|again| *again == parsed), || format!("{parsed} is read as {again:?}"))?;
        let values = parsed.values(object);
        ensure(values.is_empty() || parsed.is_present(object), || format!("{parsed} is absent but has {values:?}"))?;
        if let Ok(projected) = Projector::new(&FieldMask::new([parsed.clone()])).project(object) {
            ensure(serde_json::from_str::<Value>(&projected).is_ok(), || format!("the projection is {projected}"))?;
            let still = parsed.values(&projected);
            ensure(still == values, || {
                format!("{parsed} was {values:?} and is {still:?} in the projection {projected}")
            })?;
        }
        Ok(true)
    });
}

#[test]
fn spec() {
    let words = &[
        "grants:\n  - verbs: [",
        "limits: {",
        "strategy:\n  shadow:\n    runs: ",
        "&a ",
        "*a",
        "!!int ",
        "? ",
        "<<: ",
        "- ",
        "4294967296",
        "~",
    ];
    Target { words, ..Target::new("spec") }.run(|bytes| {
        let Ok(spec) = pintle::parse_spec(bytes) else { return Ok(false) };
        let written = serde_json::to_vec(&spec).unwrap();
        let again = pintle::parse_spec(&written);
        ensure(again.as_ref() == Ok(&spec), || format!("written and read it is {again:?}"))
    });
}
