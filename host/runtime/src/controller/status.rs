//! The status of one plugin.

use std::sync::Arc;

use pintle_core::lifecycle::kinds::MissingKind;
use pintle_core::lifecycle::{Condition, Faults, Phase, Stage, StageProgress, SwapReport, VersionInfo};
use pintle_core::object::id::Key;
use pintle_core::overview::{self, Counters, QueueDepth};
use pintle_core::policy::queue::Suspect;
use pintle_core::ports::outside::Bound;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::health::{Observed, STANDBY};
use super::{Controller, ControllerState, Version};

/// Maximum faulting keys listed in a status.
const MAX_NAMED: usize = 20;

/// Status of one queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueStatus {
    /// Its name.
    pub name: String,
    /// Ready keys.
    #[serde(rename = "dirty")]
    pub n_dirty: usize,
    /// Delayed keys.
    #[serde(rename = "waiting")]
    pub n_waiting: usize,
    /// Keys in progress.
    #[serde(rename = "running")]
    pub n_running: usize,
    /// Keys whose writes the caches do not show yet.
    #[serde(rename = "held")]
    pub n_held: usize,
}

/// A key whose last run faulted. It backs off separately.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FaultingKey {
    /// The key: kind and object.
    pub key: String,
    /// Consecutive faults.
    #[serde(rename = "faults")]
    pub n_faults: u32,
    /// The last fault.
    pub message: String,
    /// Time in milliseconds for which changes of the object are held back.
    pub held_ms: u64,
}

/// Status of one plugin, also in the admin API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginStatus {
    /// Its name.
    pub name: String,
    /// Its aliases, from its manifest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// Its phase.
    pub phase: Phase,
    /// The plugin source that provides it: `built-in`, `command line`, `folder`, `resource`, or `admin`. Empty here;
    /// the sources set it.
    pub source: String,
    /// The current version.
    pub current: VersionInfo,
    /// The version that a rollback would restore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<VersionInfo>,
    /// The version that is about to take over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incoming: Option<VersionInfo>,
    /// Stage of a new version; absent if none is about to take over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<Stage>,
    /// Its progress in this stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<StageProgress>,
    /// Whether the deletions of the current version are bounded, because it is new.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bounds_deletions: bool,
    /// The last attempt to replace a version, including failed ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_swap: Option<SwapReport>,
    /// `Ready`, `Healthy` and `Progressing`.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// Whether its caches are synced.
    #[serde(skip)]
    pub synced: bool,
    /// Watched kinds whose list is incomplete.
    #[serde(skip)]
    pub missing: Vec<MissingKind>,
    /// Its queues.
    #[serde(default)]
    pub queues: Vec<QueueStatus>,
    /// Runs so far.
    #[serde(default, rename = "runs")]
    pub n_runs: u64,
    /// Number of faults.
    #[serde(default)]
    pub n_faults: u64,
    /// Number of faults by kind.
    #[serde(default)]
    pub faults: Faults,
    /// Number of keys whose last run faulted.
    #[serde(default)]
    pub n_faulting_keys: usize,
    /// Some of them, in descending order of faults.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faulting_keys: Vec<FaultingKey>,
    /// The last fault, declared error or failed write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Bytes that its watches keep in the caches.
    #[serde(default)]
    pub cached_bytes: u64,
    /// Keys, authorities and endpoints that the operator has bound for it: files or URLs, never contents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bound: Vec<Bound>,
}

impl ControllerState {
    /// The keys whose last run faulted, in descending order of faults.
    fn faulting_keys(&self) -> Vec<FaultingKey> {
        let now = super::now();
        let mut all: Vec<_> = self.keys.suspects().collect();
        all.sort_by(|(a, x), (b, y)| y.n_faults.cmp(&x.n_faults).then_with(|| a.cmp(b)));
        let shown = all.into_iter().take(MAX_NAMED);
        let show = |(key, suspect): (&Key, &Suspect)| FaultingKey {
            key: key.to_string(),
            n_faults: suspect.n_faults,
            message: self.health.faulty.get(key).map(ToString::to_string).unwrap_or_default(),
            held_ms: suspect.held_until.saturating_duration_since(now).as_millis().try_into().unwrap_or(u64::MAX),
        };
        shown.map(show).collect()
    }

    pub(super) fn queue_status(&self) -> Vec<QueueStatus> {
        let queues = self.keys.queues();
        queues
            .map(|queue| QueueStatus {
                name: queue.name.to_string(),
                n_dirty: queue.work_queue.n_dirty(),
                n_waiting: queue.work_queue.n_waiting(),
                n_running: queue.work_queue.n_running(),
                n_held: queue.work_queue.n_held(),
            })
            .collect()
    }
}

impl Controller {
    /// The pending conditions of an attempt before its switch. Takes locks of the caches.
    fn awaited(&self) -> Option<StageProgress> {
        let syncing = self.attempted.lock().syncing.clone();
        let of_caches = |(version, until): (Arc<Version>, Instant)| {
            let unsynced = version.cache().map(|cache| cache.unsynced()).unwrap_or_default();
            let remaining = until.saturating_duration_since(Instant::now());
            StageProgress {
                remaining_ms: u64::try_from(remaining.as_millis()).ok(),
                unsynced: unsynced.iter().map(ToString::to_string).collect(),
                ..StageProgress::default()
            }
        };
        syncing.map(of_caches).or_else(|| self.shadow_progress())
    }

    fn observed(version: &Version) -> Observed {
        version.cache().map_or_else(Observed::default, |cache| Observed {
            synced: cache.is_synced(),
            cached_bytes: cache.cached_bytes(),
            n_keys: cache.n_keys(),
            snapshot: Some(cache.snapshot()),
            missing: cache.missing(),
        })
    }

    /// Its counters for an overview of the host. Takes locks of the caches.
    pub(crate) fn counters(&self) -> Counters {
        let version = self.version();
        let n_cached = version.cache().map_or(0, |cache| cache.n_objects());
        let observed = Self::observed(&version);
        let (synced, cached_bytes) = (observed.synced, observed.cached_bytes);
        let (runs, latency) = *self.observers.runs.lock();
        let mut inner = self.inner.lock();
        self.refresh_conditions(&mut inner, &observed);
        let mut queue = QueueDepth::default();
        for own in inner.keys.queues() {
            queue.ready += own.work_queue.n_ready();
            queue.delayed += own.work_queue.n_waiting();
            queue.held += own.work_queue.n_held();
            queue.running += own.work_queue.n_running();
        }
        let is_problem = |condition: &&Condition| {
            matches!(&*condition.kind, "Ready" | "Healthy")
                && condition.status == "False"
                && condition.reason != STANDBY
        };
        let problem = inner.health.conditions.iter().find(is_problem);
        let shown = |problem: &Condition| overview::shortened(&format!("{}: {}", problem.reason, problem.message));
        Counters {
            name: self.name.to_string(),
            phase: inner.phase(synced),
            problem: problem.map(shown),
            version: version.manifest().version.clone(),
            queue,
            n_workers: inner.keys.queues().map(|queue| queue.concurrency).sum(),
            runs,
            n_faults: inner.health.n_faults,
            latency,
            n_instances: version.guest.n_instances(),
            instance_bytes: version.guest.instance_bytes(),
            cached_bytes,
            n_cached,
            held_bytes: self.held.n_bytes(),
            last_error: inner.last_error.as_deref().map(overview::shortened),
        }
    }

    /// Whether the component of the current version is built into the host.
    pub(crate) fn is_carried(&self) -> bool {
        self.version().is_carried
    }

    pub(crate) fn status(&self) -> PluginStatus {
        let version = self.version();
        // Read before taking the lock, because it takes locks of the caches.
        let observed = Self::observed(&version);
        let awaited = self.awaited();
        let mut inner = self.inner.lock();
        self.refresh_conditions(&mut inner, &observed);
        let Observed { synced, cached_bytes, missing, .. } = observed;
        let now = super::now();
        let (rollout, stage) = (&inner.rollout, self.stage(&inner));
        PluginStatus {
            name: self.name.to_string(),
            aliases: version.manifest().aliases.clone(),
            phase: inner.phase(synced),
            source: String::new(),
            current: version.info(rollout.since().to_owned()),
            previous: rollout.previous().map(|(version, since)| version.info(since.clone())),
            stage,
            progress: match stage {
                Some(Stage::Probation) => rollout.probation(now),
                _ => awaited,
            },
            incoming: self.attempted.lock().incoming.clone(),
            bounds_deletions: rollout.deletions().is_some_and(|deletions| deletions.is_bounding(now)),
            last_swap: rollout.last_swap.clone(),
            conditions: inner.health.conditions.clone(),
            synced,
            missing,
            queues: inner.queue_status(),
            n_runs: self.observers.runs.lock().0.total(),
            n_faults: inner.health.n_faults,
            faults: inner.health.faults.clone(),
            n_faulting_keys: inner.keys.suspects().count(),
            faulting_keys: inner.faulting_keys(),
            last_error: inner.last_error.clone(),
            cached_bytes,
            bound: self.reads.outside.bound(&self.name),
        }
    }
}
