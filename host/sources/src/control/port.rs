//! The manager as the plugin sources see it; tests use a fake.

use futures::future::BoxFuture;
use pintle_core::lifecycle::{ShadowReport, Spec, SwapReport};
use pintle_runtime::failures::RecordedFailure;
use pintle_runtime::manager::{Component, Manager, SwapError};
use tokio::sync::watch;

use crate::wire::{Plugin, Queue, Refusal};

/// See [`Manager`] for each operation.
#[allow(missing_docs, reason = "documented at the manager's methods of the same names")]
pub trait Plugins: Send + Sync {
    fn apply<'a>(
        &'a self,
        component: Component,
        spec: &'a Spec,
        expected: Option<&'a str>,
    ) -> BoxFuture<'a, Result<SwapReport, Refusal>>;
    fn rollback<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<SwapReport, Refusal>>;
    fn disable(&self, name: &str, why: &str) -> Result<(), Refusal>;
    fn enable(&self, name: &str) -> Result<(), Refusal>;
    fn remove<'a>(&'a self, name: &'a str) -> BoxFuture<'a, bool>;
    /// Plugins by name; the caller sets the source.
    fn status(&self) -> Vec<Plugin>;
    fn spec(&self, name: &str) -> Option<Spec>;
    fn diff(&self, name: &str) -> Option<ShadowReport>;
    fn failures(&self, name: &str) -> Vec<RecordedFailure>;
    fn set_resource_uid(&self, name: &str, uid: &str);
    fn changes(&self) -> watch::Receiver<u64>;
}

impl From<SwapError> for Refusal {
    fn from(why: SwapError) -> Self {
        Self::new(why.reason, why.message)
    }
}

impl Plugins for Manager {
    fn apply<'a>(
        &'a self,
        component: Component,
        spec: &'a Spec,
        expected: Option<&'a str>,
    ) -> BoxFuture<'a, Result<SwapReport, Refusal>> {
        Box::pin(async move { Ok(Manager::apply(self, component, spec, expected).await?) })
    }

    fn rollback<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<SwapReport, Refusal>> {
        Box::pin(async move { Ok(Manager::rollback(self, name).await?) })
    }

    fn disable(&self, name: &str, why: &str) -> Result<(), Refusal> {
        Ok(Manager::disable(self, name, why)?)
    }

    fn enable(&self, name: &str) -> Result<(), Refusal> {
        Ok(Manager::enable(self, name)?)
    }

    fn remove<'a>(&'a self, name: &'a str) -> BoxFuture<'a, bool> {
        Box::pin(Manager::remove(self, name))
    }

    fn status(&self) -> Vec<Plugin> {
        let plugins = Manager::status(self).into_iter().map(|plugin| Plugin {
            name: plugin.name,
            phase: plugin.phase,
            source: String::new(),
            current: plugin.current,
            previous: plugin.previous,
            incoming: plugin.incoming,
            stage: plugin.stage,
            last_swap: plugin.last_swap,
            conditions: plugin.conditions,
            queues: plugin
                .queues
                .into_iter()
                .map(|queue| Queue {
                    name: queue.name,
                    dirty: queue.n_dirty,
                    waiting: queue.n_waiting,
                    running: queue.n_running,
                    held: queue.n_held,
                })
                .collect(),
            runs: plugin.n_runs,
            n_faults: plugin.n_faults,
            faults: plugin.faults,
            last_error: plugin.last_error,
            cached_bytes: plugin.cached_bytes,
        });
        plugins.collect()
    }

    fn spec(&self, name: &str) -> Option<Spec> {
        Manager::spec(self, name)
    }

    fn diff(&self, name: &str) -> Option<ShadowReport> {
        Manager::diff(self, name)
    }

    fn failures(&self, name: &str) -> Vec<RecordedFailure> {
        Manager::failures(self, name)
    }

    fn set_resource_uid(&self, name: &str, uid: &str) {
        Manager::set_resource_uid(self, name, uid);
    }

    fn changes(&self) -> watch::Receiver<u64> {
        Manager::changes(self)
    }
}
