//! Plugins that are only pretended, for the tests of the plugin sources.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use pintle_core::contract::manifest::{Limits, Manifest};
use pintle_core::lifecycle::{Phase, ShadowReport, Spec, SwapReport, SwapResult, VersionInfo};
use pintle_core::ports::guest::{Guest, LoadFailure, Loader, Looked};
use pintle_runtime::failures::Kept;
use pintle_runtime::manager::Component;
use serde_json::json;
use tokio::sync::watch;

use super::port::Plugins;
use crate::wire::{Plugin, Refusal};

/// A component is text: `NAME VERSION`, or anything else, which is refused. Its digest is the text. Settings that it knows: `a`.
pub(crate) struct FakePlugins {
    pub(crate) running: Mutex<BTreeMap<String, (VersionInfo, Spec)>>,
    /// What was done, in order.
    pub(crate) log: Mutex<Vec<String>>,
    changes: watch::Sender<u64>,
}

impl FakePlugins {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { running: Mutex::default(), log: Mutex::default(), changes: watch::Sender::new(0) })
    }

    /// What was done since the last call.
    pub(crate) fn done(&self) -> Vec<String> {
        std::mem::take(&mut self.log.lock())
    }

    /// `NAME VERSION` of what runs.
    pub(crate) fn versions(&self) -> Vec<String> {
        self.running.lock().iter().map(|(name, (version, _))| format!("{name} {}", version.version)).collect()
    }

    pub(crate) fn spec(&self, name: &str) -> Spec {
        self.running.lock()[name].1.clone()
    }

    fn say(&self, what: String) {
        self.log.lock().push(what);
        self.changes.send_modify(|n| *n += 1);
    }
}

pub(crate) struct FakeLoader;

impl Loader for FakeLoader {
    fn look(&self, origin: &str, bytes: &[u8]) -> Result<Looked, LoadFailure> {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let Some((name, version)) = text.split_once(' ') else {
            return Err(LoadFailure(format!("{origin}: this is not WebAssembly")));
        };
        let manifest = json!({
            "name": name, "version": version, "contract": "0.1", "watches": [], "queues": [{"name": "q"}],
            "config": {"a": {"type": "string", "default": ""}},
        });
        let manifest = Manifest::parse(manifest.to_string().as_bytes()).map_err(|why| LoadFailure(why.to_string()))?;
        Ok(Looked { manifest: Arc::new(manifest), digest: text })
    }

    fn load(&self, origin: &str, _: &[u8], _: &Limits) -> Result<Arc<dyn Guest>, LoadFailure> {
        Err(LoadFailure(format!("{origin}: nothing runs here")))
    }
}

fn version(component: &Component, version: &str) -> VersionInfo {
    VersionInfo {
        version: version.to_owned(),
        digest: String::from_utf8_lossy(&component.bytes).into_owned(),
        origin: component.origin.clone(),
        since: "2026-01-02T03:04:05Z".to_owned(),
    }
}

impl Plugins for FakePlugins {
    fn apply<'a>(
        &'a self,
        component: Component,
        spec: &'a Spec,
        expected: Option<&'a str>,
    ) -> BoxFuture<'a, Result<SwapReport, Refusal>> {
        Box::pin(async move {
            let looked = FakeLoader.look(&component.origin, &component.bytes);
            let looked = looked.map_err(|why| Refusal::new("Invalid", why.to_string()))?;
            let name = looked.manifest.name.clone();
            if expected.is_some_and(|expected| expected != name) {
                return Err(Refusal::new("NameMismatch", format!("this is plugin {name}")));
            }
            if spec.digest.as_ref().is_some_and(|digest| *digest != looked.digest) {
                return Err(Refusal::new("DigestMismatch", "another component than expected"));
            }
            let to = version(&component, &looked.manifest.version);
            let before = self.running.lock().insert(name.clone(), (to.clone(), spec.clone()));
            self.say(format!("apply {name} {} from {}", to.version, to.origin));
            Ok(SwapReport {
                from: before.map(|(version, _)| version),
                to: Some(to),
                result: SwapResult::Switched,
                reason: "Requested".into(),
                message: String::new(),
                at: "2026-01-02T03:04:05Z".into(),
                pause_micros: 1,
            })
        })
    }

    fn rollback<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<SwapReport, Refusal>> {
        Box::pin(async move { Err(Refusal::new("NoPrevious", format!("{name} has no version to go back to"))) })
    }

    fn disable(&self, name: &str, why: &str) -> Result<(), Refusal> {
        self.say(format!("disable {name}: {why}"));
        Ok(())
    }

    fn enable(&self, name: &str) -> Result<(), Refusal> {
        self.say(format!("enable {name}"));
        Ok(())
    }

    fn remove<'a>(&'a self, name: &'a str) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            self.say(format!("remove {name}"));
            self.running.lock().remove(name).is_some()
        })
    }

    fn status(&self) -> Vec<Plugin> {
        let running = self.running.lock();
        let plugins = running.iter().map(|(name, (current, _))| Plugin {
            name: name.clone(),
            phase: Phase::Running,
            source: String::new(),
            current: current.clone(),
            previous: None,
            incoming: None,
            stage: None,
            last_swap: None,
            conditions: Vec::new(),
            queues: Vec::new(),
            runs: 0,
            n_faults: 0,
            faults: BTreeMap::new(),
            last_error: None,
            cached_bytes: 0,
        });
        plugins.collect()
    }

    fn spec(&self, name: &str) -> Option<Spec> {
        self.running.lock().get(name).map(|(_, spec)| spec.clone())
    }

    fn diff(&self, _: &str) -> Option<ShadowReport> {
        None
    }

    fn failures(&self, _: &str) -> Vec<Kept> {
        Vec::new()
    }

    fn set_resource_uid(&self, name: &str, uid: &str) {
        self.say(format!("uid of {name} is {uid}"));
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}
