//! Determines from the requests of the host's clients whether the API server answers.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use pintle_cache::Caches;
use pintle_core::ports::api::RequestObserver;
use tokio::time::Instant;

use crate::metrics::Metrics;
use crate::readiness::{Change, Outage, Reachability};

/// Observes requests: counts them for the metrics, and determines whether the API server answers.
pub(crate) struct ApiServerHealth {
    metrics: Arc<Metrics>,
    /// Weak, because they use the client that this observes.
    caches: Weak<Caches>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    reachability: Reachability,
    /// Host and port of the last request.
    host: String,
}

impl ApiServerHealth {
    /// Notifies the caches when the API server is back.
    pub(crate) fn new(metrics: Arc<Metrics>, caches: Weak<Caches>) -> Arc<Self> {
        Arc::new(Self { metrics, caches, state: Mutex::default() })
    }

    /// The address and the outage of an API server that does not answer.
    pub(crate) fn outage(&self) -> Option<(String, Outage)> {
        let state = self.state.lock();
        let outage = state.reachability.outage(Instant::now().into_std())?;
        Some((state.host.clone(), outage))
    }
}

impl RequestObserver for ApiServerHealth {
    fn attempted(&self, method: &'static str, host: &str, code: Option<u16>, sent_bytes: Option<usize>) {
        self.metrics.attempted(method, host, code, sent_bytes);
        let mut state = self.state.lock();
        if state.host != host {
            host.clone_into(&mut state.host);
        }
        let change = state.reachability.attempted(code, Instant::now().into_std());
        drop(state);
        match change {
            Some(Change::Gone) => {
                tracing::error!(api_server = host, code, "the API server does not answer: the host is not ready");
            }
            Some(Change::Back(after)) => {
                tracing::info!(api_server = host, ?after, "the API server answers again");
                if let Some(caches) = self.caches.upgrade() {
                    caches.server_is_back();
                }
            }
            None => {}
        }
    }

    fn delayed(&self, method: &'static str, host: &str, waited: Duration) {
        self.metrics.delayed(method, host, waited);
    }

    fn repeated(&self, method: &'static str, host: &str, code: u16) {
        self.metrics.repeated(method, host, code);
    }

    fn finished(&self, method: &'static str, host: &str, took: Duration, received_bytes: Option<usize>) {
        self.metrics.finished(method, host, took, received_bytes);
    }
}
