//! The overview of a host: counters of its plugins and facts about the process, with their last minutes.

use std::sync::OnceLock;
use std::time::Duration;

use parking_lot::Mutex;
use pintle_core::overview::{
    Counters, ElectionOverview, History, HostOverview, MAX_DETAIL_KEYS, Overview, PluginOverview, SAMPLE_INTERVAL,
    Series,
};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::election::leadership::Standing;
use crate::manager::{Manager, QueueContents};

/// Time for which an overview is reused.
const FRESH_FOR: Duration = Duration::from_millis(250);

/// One plugin in detail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginDetail {
    /// The plugin.
    pub plugin: PluginOverview,
    /// Its last minutes.
    #[serde(default)]
    pub series: Series,
    /// Its queues, each with at most [`MAX_DETAIL_KEYS`] keys.
    #[serde(default)]
    pub queues: Vec<QueueContents>,
}

/// The manager's state for overviews.
pub(crate) struct Observations {
    started: Instant,
    history: Mutex<History>,
    last: Mutex<Option<(Instant, Overview)>>,
    /// Version of the host.
    version: OnceLock<String>,
    elections: Mutex<Vec<(String, watch::Receiver<Standing>)>>,
}

impl Observations {
    pub(crate) fn new() -> Self {
        Self {
            started: Instant::now(),
            history: Mutex::default(),
            last: Mutex::default(),
            version: OnceLock::new(),
            elections: Mutex::default(),
        }
    }

    /// Adds an election to overviews. `lease`: namespace and name.
    pub(crate) fn add_election(&self, lease: String, standing: watch::Receiver<Standing>) {
        self.elections.lock().push((lease, standing));
    }

    fn elections(&self) -> Vec<ElectionOverview> {
        let elections = self.elections.lock();
        let shown = elections.iter().map(|(lease, standing)| {
            let Standing { identity, holder, leads, .. } = standing.borrow().clone();
            ElectionOverview { lease: lease.clone(), identity, holder, leads }
        });
        shown.collect()
    }

    /// Sets the version of the host. Only the first call has an effect.
    pub(crate) fn set_version(&self, version: &str) {
        // A second call has the version of the same program.
        let _ = self.version.set(version.to_owned());
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }
}

impl Manager {
    /// Takes samples of the plugins for the last minutes of overviews; never returns.
    ///
    /// # Cancel safety
    /// Safe: no more samples are taken.
    pub async fn observe(&self) {
        loop {
            let resident_bytes = self.metrics.resident_bytes().unwrap_or_default();
            let counters = self.counters();
            self.observations.history.lock().record(self.observations.now(), &counters, resident_bytes);
            tokio::time::sleep(SAMPLE_INTERVAL).await;
        }
    }

    /// The overview of the host. It may be a quarter of a second old, so that frequent requests cost little.
    pub fn overview(&self) -> Overview {
        let observations = &self.observations;
        let mut last = observations.last.lock();
        if let Some((at, overview)) = &*last
            && at.elapsed() < FRESH_FOR
        {
            return overview.clone();
        }
        let counters = self.counters();
        let now = observations.now();
        let elections = observations.elections();
        let host = HostOverview {
            version: observations.version.get().cloned().unwrap_or_default(),
            up_seconds: now.as_secs(),
            resident_bytes: self.metrics.resident_bytes(),
            api_server_problem: self.api_server_answers().err(),
            leads: self.leads(),
            elections,
        };
        let overview = observations.history.lock().overview(now, &counters);
        let overview = Overview { at: self.wall_clock_text(), host, ..overview };
        *last = Some((Instant::now(), overview.clone()));
        overview
    }

    /// One plugin in detail; `None` if the plugin does not exist.
    pub fn plugin_detail(&self, name: &str) -> Option<PluginDetail> {
        let mut queues = self.queue_contents(name)?;
        queues.iter_mut().for_each(|queue| queue.keys.truncate(MAX_DETAIL_KEYS));
        let counters = self.counters_of(name)?;
        let (now, history) = (self.observations.now(), self.observations.history.lock());
        Some(PluginDetail { plugin: history.plugin(now, &counters), series: history.series(now, name), queues })
    }

    fn counters(&self) -> Vec<Counters> {
        self.controllers().iter().map(|controller| controller.counters()).collect()
    }
}
