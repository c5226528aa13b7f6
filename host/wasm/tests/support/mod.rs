//! Guests, engines and views for the sandbox tests.

#![allow(clippy::expect_used, clippy::unwrap_used, missing_docs, unreachable_pub, reason = "only tests are served")]

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, LazyLock, Mutex};
use std::time::Duration;

use pintle_core::contract::manifest::SECTION;
use pintle_core::contract::outcome::{Answers, MutationFailure, Need, NeedError, Outcome};
use pintle_core::object::id::{Key, Kind, ObjectKey};
use pintle_core::object::version::ResourceVersion;
use pintle_core::object::{Meta, Object};
use pintle_core::ports::api::ApiResource;
use pintle_core::ports::guest::{FaultKind, Guest, Run};
use pintle_core::ports::view::{OwnedBy, Query, View, ViewError};
use pintle_wasm::{WasmConfig, WasmEngine, inspect};
use serde_json::Value;
use tokio::runtime::Runtime;
use wasm_encoder::{ComponentSection, CustomSection};

/// Name -> component. Built on first use, if the sources have changed.
static GUESTS: LazyLock<BTreeMap<String, Vec<u8>>> = LazyLock::new(|| {
    let built = xtask::guests::build(xtask::guests::Set::TestGuests).expect("test guests build");
    built.into_iter().map(|guest| (guest.name, std::fs::read(guest.path).expect("a built guest can be read"))).collect()
});

pub static ENGINE: LazyLock<WasmEngine> = LazyLock::new(|| WasmEngine::new(WasmConfig::default()).expect("engine"));

pub static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("runtime"));

/// The component of a test guest.
pub fn component(name: &str) -> &'static [u8] {
    GUESTS.get(name).unwrap_or_else(|| panic!("no folder tests/guests/{name}"))
}

/// A test guest with a changed manifest.
pub fn loaded_with(name: &str, change: impl FnOnce(&mut Value)) -> Arc<dyn Guest> {
    let inspection = inspect(name, component(name)).expect("a valid component");
    let mut manifest: Value = serde_json::from_str(&inspection.manifest_json).expect("JSON");
    change(&mut manifest);
    ENGINE.load(name, &with_manifest(&without_manifest(component(name)), &manifest.to_string())).expect("it loads")
}

pub fn loaded(name: &str) -> Arc<dyn Guest> {
    ENGINE.load(name, component(name)).expect("it loads")
}

/// Appends a manifest.
pub fn with_manifest(component: &[u8], json: &str) -> Vec<u8> {
    let mut bytes = component.to_vec();
    CustomSection { name: SECTION.into(), data: json.as_bytes().into() }.append_to_component(&mut bytes);
    bytes
}

/// Removes the manifest, which the build appends as the last section.
pub fn without_manifest(component: &[u8]) -> Vec<u8> {
    let json = inspect("component", component).expect("a valid component").manifest_json;
    let section = with_manifest(&[], &json);
    component.strip_suffix(section.as_slice()).expect("the manifest is the last section").to_vec()
}

/// A component from text, with a manifest.
pub fn text(wat: &str) -> Vec<u8> {
    with_manifest(&wat::parse_str(wat).expect("valid text"), &minimal_manifest())
}

/// The smallest manifest.
pub fn minimal_manifest() -> String {
    serde_json::json!({
        "name": "minimal", "version": "1.0.0", "contract": "0.2", "watches": [], "queues": [{"name": "widgets"}],
    })
    .to_string()
}

pub fn pod() -> Kind {
    Kind::new("", "v1", "Pod")
}

pub fn key(name: &str) -> Key {
    Key { queue: "widgets".into(), kind: Kind::new("example.com", "v1", "Widget"), object: ObjectKey::new("a", name) }
}

/// Calls `reconcile` for a key of this name.
pub fn run(guest: &dyn Guest, name: &str) -> Run {
    run_with(guest, name, TestView::default())
}

pub fn run_with(guest: &dyn Guest, name: &str, view: TestView) -> Run {
    RUNTIME.block_on(guest.reconcile(&key(name), Arc::new(view)))
}

pub fn outcome(run: Run) -> Outcome {
    run.result.expect("no fault").expect("no declared error").into_inner()
}

/// `kind: message` of the fault, or the result if there was none.
pub fn fault(run: Run) -> (Option<FaultKind>, String) {
    match run.result {
        Err(fault) => (Some(fault.kind), fault.message),
        Ok(answer) => (None, format!("{answer:?}")),
    }
}

/// A view with fixed answers that records its reads.
#[derive(Default)]
pub struct TestView {
    pub objects: Vec<Arc<str>>,
    pub resources: Vec<ApiResource>,
    pub failures: Vec<MutationFailure>,
    pub answers: Answers,
    pub attempt: u32,
    pub count: Option<usize>,
    /// The resourceVersion of any object, for the host's own reads.
    pub version: Option<u64>,
    /// Whether to panic when the time is read.
    pub broken: bool,
    pub asked: Arc<Mutex<Vec<String>>>,
    /// No object exists before all calls of the meeting have begun.
    pub meeting: Option<Arc<Meeting>>,
}

/// Calls that overlap: each of them waits until all have begun.
pub struct Meeting {
    n_calls: usize,
    n_begun: Mutex<usize>,
    all_have_begun: Condvar,
}

impl Meeting {
    pub fn of(n_calls: usize) -> Arc<Self> {
        Arc::new(Self { n_calls, n_begun: Mutex::new(0), all_have_begun: Condvar::new() })
    }

    /// Whether all calls have begun. Waits for it, but not long enough to keep the processor from other calls.
    fn is_complete(&self, is_first_read: bool) -> bool {
        let mut n_begun = self.n_begun.lock().unwrap();
        if is_first_read {
            *n_begun += 1;
            self.all_have_begun.notify_all();
        }
        let tick = Duration::from_millis(1);
        let is_waiting = |n_begun: &mut usize| *n_begun < self.n_calls;
        *self.all_have_begun.wait_timeout_while(n_begun, tick, is_waiting).unwrap().0 >= self.n_calls
    }
}

impl TestView {
    fn ask(&self, what: String) {
        self.asked.lock().unwrap().push(what);
    }
}

impl View for TestView {
    fn now(&self) -> &str {
        assert!(!self.broken, "the clock does not advance");
        "2026-01-02T03:04:05.000006Z"
    }

    fn uptime(&self) -> Duration {
        Duration::from_millis(1500)
    }

    fn get(&self, kind: &Kind, object: &ObjectKey) -> Result<Option<Arc<str>>, ViewError> {
        self.ask(format!("get {kind} {object}"));
        if let Some(meeting) = &self.meeting {
            let is_first_read = self.asked.lock().unwrap().len() == 1;
            return Ok(meeting.is_complete(is_first_read).then(|| "{}".into()));
        }
        Ok((&*object.name != "missing").then(|| format!("{{\"name\":\"{}\"}}", object.name).into()))
    }

    fn list(&self, kind: &Kind, query: &Query) -> Result<Vec<Arc<str>>, ViewError> {
        self.ask(format!("list {kind} {}", show(query)));
        if &*kind.name == "Secret" {
            return Err(ViewError::NotWatched { kind: kind.clone(), watched: "v1/Pod".into() });
        }
        match &query.label_selector {
            Some(selector) if selector == "a in b" => Err(ViewError::BadSelector(selector.clone(), "no list".into())),
            _ => Ok(self.objects.clone()),
        }
    }

    fn count(&self, kind: &Kind, query: &Query) -> Result<usize, ViewError> {
        self.ask(format!("count {kind} {}", show(query)));
        Ok(self.count.unwrap_or(self.objects.len()))
    }

    fn selecting(&self, kind: &Kind, namespace: &str, labels: &[(String, String)]) -> Result<Vec<Arc<str>>, ViewError> {
        self.ask(format!("selecting {kind} {namespace} {labels:?}"));
        Ok(vec!["selecting".into()])
    }

    fn dependents(&self, uid: &str) -> Result<Vec<Arc<str>>, ViewError> {
        self.ask(format!("dependents {uid}"));
        Ok(vec!["dependent".into()])
    }

    fn by_uid(&self, uid: &str) -> Result<Option<Arc<str>>, ViewError> {
        self.ask(format!("by-uid {uid}"));
        Ok((uid == "uid-1").then(|| "one".into()))
    }

    fn resources(&self) -> Result<Arc<[ApiResource]>, ViewError> {
        self.ask("resources".into());
        Ok(self.resources.clone().into())
    }

    fn config(&self) -> Arc<str> {
        "{\"a\":1}".into()
    }

    fn state(&self, name: &str) -> Option<Arc<str>> {
        self.ask(format!("state {name}"));
        (name == "kept").then(|| "value".into())
    }

    fn attempt(&self) -> u32 {
        self.attempt
    }

    fn failures(&self) -> &[MutationFailure] {
        &self.failures
    }

    fn object(&self, _: &Kind, object: &ObjectKey) -> Option<Arc<Object>> {
        let resource_version = ResourceVersion::Number(self.version?);
        let meta = Meta { key: object.clone(), resource_version, ..Meta::default() };
        let (texts, index_values, selectors) = Default::default();
        Some(Arc::new(Object { meta, text_set: Arc::default(), texts, index_values, selectors }))
    }

    fn answer(&self, need: &Need) -> Option<Result<Arc<str>, NeedError>> {
        self.ask(format!("answer {need:?}"));
        self.answers.iter().find(|(asked, _)| asked == need).map(|(_, answer)| answer.clone())
    }
}

fn show(query: &Query) -> String {
    let mut text = Vec::new();
    text.extend(query.namespace.iter().map(|namespace| format!("namespace={namespace}")));
    text.extend(query.label_selector.iter().map(|selector| format!("labels={selector}")));
    text.extend(query.owner.iter().map(|owner| match owner {
        OwnedBy::Controller(uid) => format!("controller={uid}"),
        OwnedBy::ControllerOrOrphan(uid) => format!("controller-or-orphan={uid}"),
        OwnedBy::Any(uid) => format!("any={uid}"),
    }));
    text.extend(query.index.iter().map(|(index, value)| format!("{index}={value}")));
    text.extend(query.whole.then(|| "whole".to_owned()));
    text.join(" ")
}
