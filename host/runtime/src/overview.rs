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

use crate::election::Standing;
use crate::manager::{Manager, QueueContents};

/// For this long, an overview is shown again instead of a new one.
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

/// Facts about the process, which only the binary knows.
#[derive(Clone, Debug, Default)]
pub struct ProcessFacts {
    /// Version of Pintle.
    pub version: String,
    /// Resident memory; none if the system does not report it.
    pub resident_bytes: Option<u64>,
}

type ReadFacts = Box<dyn Fn() -> ProcessFacts + Send + Sync>;

/// What a manager keeps for overviews.
pub(crate) struct Observations {
    started: Instant,
    history: Mutex<History>,
    last: Mutex<Option<(Instant, Overview)>>,
    facts: OnceLock<ReadFacts>,
    elections: Mutex<Vec<(String, watch::Receiver<Standing>)>>,
}

impl Observations {
    pub(crate) fn new() -> Self {
        Self {
            started: Instant::now(),
            history: Mutex::default(),
            last: Mutex::default(),
            facts: OnceLock::new(),
            elections: Mutex::default(),
        }
    }

    /// Shows an election from now on. `lease`: namespace and name.
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

    fn facts(&self) -> ProcessFacts {
        self.facts.get().map(|read| read()).unwrap_or_default()
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }
}

impl Manager {
    /// Sets how facts about the process are read; they are read for each sample and each overview. Only the first call counts.
    pub fn set_process_facts(&self, read: impl Fn() -> ProcessFacts + Send + Sync + 'static) {
        // A second one has the same process.
        let _ = self.observations.facts.set(Box::new(read));
    }

    /// Takes samples of the plugins for the last minutes of overviews, without end.
    ///
    /// # Cancel safety
    /// Safe: no more samples are taken.
    pub async fn observe(&self) {
        loop {
            let resident_bytes = self.observations.facts().resident_bytes.unwrap_or_default();
            let counters = self.counters();
            self.observations.history.lock().record(self.observations.now(), &counters, resident_bytes);
            tokio::time::sleep(SAMPLE_INTERVAL).await;
        }
    }

    /// The host at a glance. It may be a quarter of a second old, so that clients that ask often cost little.
    pub fn overview(&self) -> Overview {
        let observations = &self.observations;
        let mut last = observations.last.lock();
        if let Some((at, overview)) = &*last
            && at.elapsed() < FRESH_FOR
        {
            return overview.clone();
        }
        let counters = self.counters();
        let (now, facts) = (observations.now(), observations.facts());
        let elections = observations.elections();
        let host = HostOverview {
            version: facts.version,
            up_seconds: now.as_secs(),
            resident_bytes: facts.resident_bytes,
            api_server_problem: self.api_server_answers().err(),
            leads: self.leads(),
            elections,
        };
        let overview = observations.history.lock().overview(now, &counters);
        let overview = Overview { at: self.wall_clock_text(), host, ..overview };
        *last = Some((Instant::now(), overview.clone()));
        overview
    }

    /// One plugin in detail; none if there is no plugin of this name.
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
