//! A subscription to caches on the fake server, and the changes it receives.

use std::sync::{Arc, Mutex};

use pintle_cache::{Caches, CachesConfig, ChangeHandler, Delta, RunContext, Subscription};
use pintle_core::contract::manifest::Manifest;
use pintle_core::object::id::Kind;
use pintle_testing::FakeServer;
use pintle_testing::server::settle;
use serde_json::{Value, json};

/// Records what it receives: `*ns/a@11` for initial objects, `+`, `~`, `-` for changes, `.` for progress.
#[derive(Default)]
pub(crate) struct Heard(Mutex<Vec<String>>);

impl Heard {
    /// The events since the last call, without progress.
    pub(crate) fn take(&self) -> String {
        std::mem::take(&mut *self.0.lock().unwrap()).join(" ")
    }
}

impl ChangeHandler for Heard {
    fn on_changes(&self, batch: &Arc<[Delta]>) {
        let mut heard = self.0.lock().unwrap();
        for delta in &**batch {
            let sign = match (&delta.old, &delta.new) {
                _ if delta.initial => '*',
                (None, _) => '+',
                (_, None) => '-',
                _ => '~',
            };
            let state = delta.new.as_ref().or(delta.old.as_ref()).unwrap();
            heard.push(format!("{sign}{}@{}", state.meta.key, state.meta.resource_version));
        }
    }

    fn on_progress(&self, _: &Kind) {}
}

pub(crate) fn manifest(watches: Value) -> Arc<Manifest> {
    let manifest = json!({
        "name": "test", "version": "1", "contract": "0.2", "queues": [{"name": "q"}, {"name": "other"}], "watches": watches,
        "discovery": true,
    });
    // Objects of these tests have fields that their kinds do not have.
    Arc::new(serde_json::from_value(manifest).unwrap())
}

pub(crate) fn caches(server: &Arc<FakeServer>) -> Arc<Caches> {
    Caches::new(server.clone(), CachesConfig { page_size: 2, ..CachesConfig::default() })
}

pub(crate) fn context() -> RunContext {
    RunContext { now: "2026-01-01T00:00:00.000000Z".into(), ..RunContext::default() }
}

/// A synced subscription, and its events from then on.
pub(crate) async fn subscribe(caches: &Arc<Caches>, watches: Value) -> (Subscription, Arc<Heard>) {
    let heard = Arc::new(Heard::default());
    let subscription = caches.subscribe(manifest(watches), heard.clone());
    subscription.synced().await;
    (subscription, heard)
}

/// Names of all objects of the kind, with their versions.
pub(crate) fn listed(subscription: &Subscription, kind: &str) -> String {
    let view = subscription.snapshot().view(context());
    let objects = view.list(&kind.parse().unwrap(), &Default::default()).unwrap();
    let names = objects.iter().map(|object| {
        let object: Value = serde_json::from_str(object).unwrap();
        let metadata = &object["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap_or("").to_owned();
        format!("{}/{}@{}", text("namespace"), text("name"), text("resourceVersion"))
    });
    names.collect::<Vec<_>>().join(" ")
}

/// Records the keys that the rules yield.
#[derive(Default)]
pub(crate) struct Keys {
    subscription: Mutex<Option<Arc<Subscription>>>,
    keys: Mutex<Vec<String>>,
}

impl ChangeHandler for Keys {
    fn on_changes(&self, batch: &Arc<[Delta]>) {
        let Some(subscription) = self.subscription.lock().unwrap().clone() else { return };
        let snapshot = subscription.snapshot();
        for delta in &**batch {
            for enqueued in snapshot.keys(delta) {
                let delay = enqueued.delay.map_or(String::new(), |delay| format!("+{}", delay.as_millis()));
                self.keys.lock().unwrap().push(format!("{}:{}{delay}", enqueued.key.queue, enqueued.key));
            }
            if snapshot.wants_mapping(delta) {
                self.keys.lock().unwrap().push("plugin".into());
            }
        }
    }

    fn on_progress(&self, _: &Kind) {}
}

/// A synced subscription, and the keys of changes from then on.
pub(crate) async fn with_rules(caches: &Arc<Caches>, watches: Value) -> (Arc<Subscription>, Arc<Keys>) {
    let keys = Arc::new(Keys::default());
    let subscription = Arc::new(caches.subscribe(manifest(watches), keys.clone()));
    *keys.subscription.lock().unwrap() = Some(subscription.clone());
    subscription.synced().await;
    settle().await;
    keys.take();
    (subscription, keys)
}

impl Keys {
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.keys.lock().unwrap())
    }
}
