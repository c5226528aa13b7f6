//! Replaces one version by another.
//!
//! ```text
//! begin ──> stages ──> switch ──> probation ──proven──> settled
//!             └─> reject              └─rolled back──> switch to the last proven one
//! ```
//!
//! Invariants:
//! 1. A run uses one version from start to end. Runs in flight end with the version that they started with; a key never
//!    runs twice at the same time, even across versions.
//! 2. Queues, rate limiters, keyed state and waits for the caches are kept.
//! 3. No change is lost: the new subscription buffers changes until the switch, then they become keys; in addition,
//!    every key runs again at low priority.
//! 4. A rejected version changes nothing.
//!
//! Not here: creating a version from a component (`manager`), comparing two versions (`shadow`), the rules of probation
//! (`pintle_core::lifecycle::probation`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::MutexGuard;
use pintle_cache::Subscription;
use pintle_core::lifecycle::deletions::DeletionGuard;
use pintle_core::lifecycle::rollout::{Switch, Verdict};
use pintle_core::lifecycle::{Probation as Rules, Stage, SwapReport, SwapResult, VersionInfo};
use pintle_core::object::id::Key;
use pintle_core::policy::queue::Priority;

use super::{Controller, ControllerState, Version};

/// Number of keys enqueued per lock acquisition after a swap, so that other tasks get the lock in between.
const KEYS_AT_ONCE: usize = 500;
/// Keys per second that run again because of a swap. Without the limit, a large plugin would noticeably occupy the
/// processors.
const AGAIN_PER_SECOND: u32 = 500;

/// An attempt to replace the version, while it is in progress.
#[derive(Default)]
pub(super) struct Attempted {
    stage: Option<Stage>,
    /// The version whose caches are syncing, and the time at which it is rejected.
    pub(super) syncing: Option<(Arc<Version>, tokio::time::Instant)>,
    pub(super) incoming: Option<VersionInfo>,
}

/// The cause of a switch.
pub(crate) struct Reason {
    pub(crate) result: SwapResult,
    /// The reason as one word in CamelCase.
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// An attempt to replace a version, from its first stage to the switch. Dropping it ends the attempt.
pub(crate) struct Attempt {
    controller: Arc<Controller>,
}

impl Attempt {
    pub(crate) fn stage(&self, stage: Stage, incoming: Option<VersionInfo>) {
        let mut attempted = self.controller.attempted.lock();
        (attempted.stage, attempted.syncing) = (Some(stage), None);
        attempted.incoming = incoming.or(attempted.incoming.take());
        drop(attempted);
        self.controller.observers.mark_changed();
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        *self.controller.attempted.lock() = Attempted::default();
        self.controller.observers.mark_changed();
    }
}

impl Controller {
    /// The current version.
    pub(crate) fn version(&self) -> Arc<Version> {
        self.current.borrow().clone()
    }

    /// The stage of a new version; `None` if none is about to take over.
    pub(super) fn stage(&self, inner: &ControllerState) -> Option<Stage> {
        self.attempted.lock().stage.or(inner.rollout.is_on_probation().then_some(Stage::Probation))
    }

    /// Records the caches that the current attempt waits for.
    pub(crate) fn awaits_caches(&self, version: &Arc<Version>, until: tokio::time::Instant) {
        let mut attempted = self.attempted.lock();
        if attempted.stage.is_some() {
            attempted.syncing = Some((version.clone(), until));
        }
    }

    /// The version that a rollback would restore.
    pub(crate) fn previous(&self) -> Option<Arc<Version>> {
        self.inner.lock().rollout.previous().map(|(version, _)| version.clone())
    }

    /// Starts an attempt to replace the version; `None` while another one is in progress. A probation does not block
    /// it.
    pub(crate) fn attempt(self: &Arc<Self>) -> Option<Attempt> {
        let mut attempted = self.attempted.lock();
        if attempted.stage.is_some() {
            return None;
        }
        attempted.stage = Some(Stage::Validating);
        drop(attempted);
        self.observers.mark_changed();
        Some(Attempt { controller: self.clone() })
    }

    /// Reports an attempt that failed before the new version ran.
    pub(crate) fn refused(&self, to: Option<VersionInfo>, reason: &'static str, message: &str) {
        let mut inner = self.inner.lock();
        let from = Some(self.version().info(inner.rollout.since().to_owned()));
        inner.rollout.last_swap = Some(SwapReport {
            from,
            to,
            result: SwapResult::Refused,
            reason: reason.to_owned(),
            message: message.to_owned(),
            at: self.wall_time(),
            pause_micros: 0,
        });
        drop(inner);
        self.observers.metrics.swapped("refused");
        tracing::warn!(plugin = %self.name, reason, error = message, "the new version is rejected; the running one stays");
        self.observers.record_plugin_event(true, "SwapRefused", format!("{reason}: {message}"));
        self.observers.mark_changed();
    }

    /// Reports the time from the request of a switch to the switch.
    pub(crate) fn swap_took(&self, took: Duration) {
        self.observers.metrics.swap_duration.observe(took.as_secs_f64());
    }

    /// Whether this message ends with the message of the last rejection, which already has an event.
    pub(crate) fn has_reported(&self, message: &str) -> bool {
        let inner = self.inner.lock();
        let last = inner.rollout.last_swap.as_ref().filter(|last| last.result == SwapResult::Refused);
        last.is_some_and(|last| message.ends_with(&last.message))
    }

    /// Switches to `to`, whose caches are synced, between two runs of each key.
    pub(crate) fn switch(self: &Arc<Self>, to: Arc<Version>, rules: Option<Rules>, why: Reason) -> SwapReport {
        // Collects all keys of the caches before taking the lock.
        let keys = rules.as_ref().and(to.cache()).map(|cache| cache.all_keys()).unwrap_or_default();
        let started = Instant::now();
        self.hand_over(self.inner.lock(), started, to, rules.map(|rules| (rules, keys)), why)
    }

    /// Switches; `started` is the time when the caller began to wait for the lock.
    fn hand_over(
        self: &Arc<Self>,
        mut inner: MutexGuard<'_, ControllerState>,
        started: Instant,
        to: Arc<Version>,
        rules: Option<(Rules, Vec<Key>)>,
        why: Reason,
    ) -> SwapReport {
        let at = self.wall_time();
        let now = super::now();
        let from = self.current.send_replace(to.clone());
        let from_info = from.info(inner.rollout.since().to_owned());
        let faulting =
            inner.keys.suspects().map(|(key, _)| key).chain(inner.health.repeating.keys()).cloned().collect();
        inner.keys.adopt(to.declared_queues());
        inner.start_clocks(now);
        inner.key_gauges.hand_over(&from.declared, &to.declared, to.manifest());
        let switch = Switch {
            from: from.clone(),
            to: to.clone(),
            probation: rules,
            faulting,
            at: at.clone(),
            result: why.result,
        };
        let forgotten = inner.rollout.switched(switch, now);
        inner.health.supervisor.reset();
        inner.health.supervisor.set_policy(to.spec.failure_policy);
        inner.health.forget_faults();
        let report = SwapReport {
            from: Some(from_info),
            to: Some(to.info(at.clone())),
            result: why.result,
            reason: why.reason.to_owned(),
            message: why.message,
            at,
            pause_micros: u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX),
        };
        inner.rollout.last_swap = Some(report.clone());
        let kinds = inner.keys.awaited_kinds();
        drop(inner);
        // Dropping them ends their subscriptions, which takes locks of the caches.
        drop(forgotten);
        self.observers.metrics.pause.observe(Duration::from_micros(report.pause_micros).as_secs_f64());
        self.after_switch(&from, &to, &kinds);
        self.report(&report);
        report
    }

    /// Completes a switch, without the lock.
    fn after_switch(self: &Arc<Self>, from: &Version, to: &Version, kinds: &[pintle_core::object::id::Kind]) {
        self.observers.metrics.quarantined(false);
        self.count_workers();
        if let Some(subscription) = to.subscription() {
            subscription.sink.activate();
        }
        // Activated after the switch: changes in between may become keys twice, which is harmless, but are never lost.
        if let Some(subscription) = from.subscription().filter(|_| !to.shares_with(from)) {
            subscription.sink.detach();
        }
        // From now on the new version's caches decide which writes are visible.
        for kind in kinds {
            self.progressed(kind);
        }
        self.tasks.tracker.spawn(self.clone().look_at_fields());
        self.run_all_again();
        self.tasks.wake.notify_one();
        self.observers.mark_changed();
    }

    /// Enqueues every key at low priority and a limited rate.
    pub(super) fn run_all_again(&self) {
        let mut delay = Duration::ZERO;
        for keys in self.cache().all_keys().chunks(KEYS_AT_ONCE) {
            let now = super::now();
            let mut inner = self.inner.lock();
            for key in keys {
                inner.add(key.clone(), None, Some(delay), Priority::Low, now);
                delay += Duration::from_secs(1) / AGAIN_PER_SECOND;
            }
            self.wake_dispatcher(inner);
        }
    }

    fn report(&self, report: &SwapReport) {
        let version = |info: &Option<VersionInfo>| {
            info.as_ref().map_or_else(String::new, |info| {
                format!("{} ({})", info.version, info.digest.get(..12).unwrap_or(&info.digest))
            })
        };
        let (from, to) = (version(&report.from), version(&report.to));
        let rolled_back = report.result == SwapResult::RolledBack;
        self.observers.metrics.swapped(if rolled_back { "rolled_back" } else { "switched" });
        let pause_micros = report.pause_micros;
        if rolled_back {
            tracing::error!(plugin = %self.name, from, to, reason = report.reason, error = report.message, "rolled back");
            self.observers.record_plugin_event(true, "RolledBack", format!("from {from} to {to}: {}", report.message));
        } else {
            tracing::info!(plugin = %self.name, from, to, reason = report.reason, pause_micros, "swapped");
            self.observers.record_plugin_event(false, "Swapped", format!("from {from} to {to}: {}", report.message));
        }
    }

    /// Ends the probation if its time is over. Time does not prove a version whose deletions are held.
    pub(super) fn check_probation(&self, inner: &mut ControllerState, now: Instant) {
        if inner.leads && inner.rollout.check(now) {
            // The status shows that deletions are no longer bounded.
            self.observers.mark_changed();
        }
    }

    /// Bounds the deletions of the new version until it is proven, as if it had taken over from another one.
    pub(crate) fn guard_deletions(&self) {
        let version = self.version();
        if !version.is_carried {
            let rules = version.spec.strategy.probation.clone();
            self.inner.lock().rollout.guard_deletions(rules, super::now());
        }
    }

    /// Whether a run of this version may send `n_deletions` deletions. If not, the plugin stops until an operator
    /// confirms them.
    pub(super) fn may_delete(&self, version: &Arc<Version>, cache: &Subscription, n_deletions: u64) -> bool {
        let is_guarded = || {
            let inner = self.inner.lock();
            inner.rollout.deletions().is_some() && Arc::ptr_eq(version, &*self.current.borrow())
        };
        if n_deletions == 0 || !is_guarded() {
            return true;
        }
        let mut n_owned = None;
        let held = loop {
            let mut inner = self.inner.lock();
            let Some(deletions) = inner.rollout.deletions_mut() else { return true };
            let now = super::now();
            if n_owned.is_none() && deletions.needs_share(n_deletions, now) {
                drop(inner);
                // Counted without the lock, because it takes locks of the caches; and only if needed, because it visits
                // every object.
                n_owned = Some(cache.n_owned() as u64);
                continue;
            }
            let was_held = deletions.held().is_some();
            if deletions.allows(n_deletions, || n_owned.unwrap_or_default(), now) {
                return true;
            }
            break deletions.held().filter(|_| !was_held).cloned();
        };
        if let Some(held) = held {
            let message = held.message(&self.name, &version.manifest().version);
            tracing::error!(plugin = %self.name, "deletions are held: {message}");
            self.observers.record_plugin_event(true, "DeletionsHeld", message);
            self.observers.mark_changed();
        }
        false
    }

    /// Confirms the held deletions of the current version, and all later ones. Returns false if nothing is held.
    pub(crate) fn approve_deletions(&self, why: &str) -> bool {
        let mut inner = self.inner.lock();
        let was_held = inner.rollout.deletions_mut().is_some_and(DeletionGuard::approve);
        drop(inner);
        if was_held {
            tracing::info!(plugin = %self.name, why, "deletions are approved");
            let version = self.version().manifest().version.clone();
            let message = format!("plugin {} may delete what version {version} wants: {why}", self.name);
            self.observers.record_plugin_event(false, "DeletionsApproved", message);
            self.tasks.wake.notify_one();
            self.observers.mark_changed();
        }
        was_held
    }

    /// Executes the verdict of the probation.
    pub(super) fn follow_probation(self: &Arc<Self>) {
        let started = Instant::now();
        let mut inner = self.inner.lock();
        match inner.rollout.take_verdict() {
            Some(Verdict::TakeBack { to, reason, message }) => {
                let why = Reason { result: SwapResult::RolledBack, reason, message };
                self.hand_over(inner, started, to, None, why);
            }
            Some(Verdict::Proven { previous }) => {
                drop(inner);
                self.proven(previous);
            }
            None => {}
        }
    }

    /// Marks the current version as proven.
    fn proven(&self, previous: Option<Arc<Version>>) {
        let current = self.version();
        // The previous version stays compiled for a rollback, but needs no watches.
        if let Some(previous) = previous.filter(|previous| !current.shares_with(previous)) {
            previous.detach();
        }
        tracing::info!(plugin = %self.name, version = current.manifest().version, "the new version is proven");
        self.observers.metrics.swapped("proven");
        self.observers.mark_changed();
    }
}
