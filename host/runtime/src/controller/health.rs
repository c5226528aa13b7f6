//! Faults of a plugin and their consequences: conditions, quarantine.
//!
//! Not here: the rules (`pintle_core::lifecycle::supervisor`), the end of a run (`ended`), rollback after faults
//! (`swap`).

use std::collections::BTreeMap;
use std::sync::Arc;

use pintle_cache::{Snapshot, Subscription};
use pintle_core::lifecycle::kinds::{self, MissingKind};
use pintle_core::lifecycle::success::{AllFail, Successes};
use pintle_core::lifecycle::supervisor::{Recent, Supervisor, WINDOW};
use pintle_core::lifecycle::{Condition, FailurePolicy, Faults, Phase, Stage};
use pintle_core::object::id::Key;
use pintle_core::ports::guest::{FaultKind, PluginFault};
use pintle_core::text::cut;

use super::{Controller, ControllerState};

/// Condition reason of a plugin that is on standby as expected.
pub(super) const STANDBY: &str = "Standby";
/// Maximum bytes of an event or condition text, which contains text of the plugin.
pub(super) const MAX_TEXT_BYTES: usize = 1_024;
/// Maximum keys whose last fault is kept.
const MAX_FAULTY: usize = 1_000;

/// The health of one plugin.
pub(super) struct Health {
    pub(super) supervisor: Supervisor<Key>,
    /// The reason given when it was disabled.
    pub(super) disabled_why: Option<String>,
    pub(super) n_faults: u64,
    pub(super) faults: Faults,
    /// Keys whose last run faulted, with the fault.
    pub(super) faulty: BTreeMap<Key, Arc<str>>,
    /// Keys that run again and again because of their own writes, with the reason.
    pub(super) repeating: BTreeMap<Key, Arc<str>>,
    pub(super) successes: Successes<Key>,
    /// The fault of the last mapping, if it faulted.
    mapping_fault: Option<Arc<str>>,
    pub(super) last: Arc<str>,
    pub(super) conditions: Vec<Condition>,
}

impl Health {
    pub(super) fn new(policy: FailurePolicy) -> Self {
        Self {
            supervisor: Supervisor::new(policy),
            disabled_why: None,
            n_faults: 0,
            faults: Faults::new(),
            faulty: BTreeMap::new(),
            repeating: BTreeMap::new(),
            successes: Successes::default(),
            mapping_fault: None,
            last: "".into(),
            conditions: Vec::new(),
        }
    }

    pub(super) fn count(&mut self, kind: FaultKind, text: &str) {
        self.n_faults += 1;
        *self.faults.entry(kind.as_str().to_owned()).or_default() += 1;
        self.last = cut(text, MAX_TEXT_BYTES).into();
    }

    /// Whether the fault that ended a run of this key is new, compared with the key's previous run. `attempt`: attempt
    /// of the run.
    pub(super) fn is_new_fault(&self, key: &Key, attempt: u32) -> bool {
        match self.faulty.get(key) {
            Some(before) => *before != self.last,
            None => attempt == 0 || self.faulty.len() < MAX_FAULTY,
        }
    }

    /// Records the end of a run. Returns whether the health has changed.
    pub(super) fn key_ran(&mut self, key: &Key, faulted: bool) -> bool {
        let before = self.faulty.is_empty();
        if !faulted {
            self.faulty.remove(key);
        } else if self.faulty.len() < MAX_FAULTY || self.faulty.contains_key(key) {
            self.faulty.insert(key.clone(), self.last.clone());
        }
        before != self.faulty.is_empty()
    }

    pub(super) fn forget_faults(&mut self) {
        self.faulty.clear();
        self.repeating.clear();
        self.successes = Successes::default();
        self.mapping_fault = None;
    }
}

/// Inputs of conditions from outside the controller's state. Read without its lock, because this takes locks of the
/// caches.
#[derive(Default)]
pub(super) struct Observed {
    pub(super) synced: bool,
    pub(super) cached_bytes: u64,
    pub(super) n_keys: usize,
    /// The objects in the caches.
    pub(super) snapshot: Option<Snapshot>,
    /// Watched kinds whose list is incomplete.
    pub(super) missing: Vec<MissingKind>,
}

impl ControllerState {
    pub(super) fn phase(&self, synced: bool) -> Phase {
        let supervisor = &self.health.supervisor;
        if supervisor.is_disabled() {
            Phase::Disabled
        } else if supervisor.pause(super::now()).is_some() {
            Phase::Quarantined
        } else if synced && !self.leads {
            Phase::Standby
        } else if synced {
            Phase::Running
        } else {
            Phase::Starting
        }
    }
}

fn condition(kind: &str, status: bool, reason: &str, message: String, at: &str) -> Condition {
    Condition {
        kind: kind.to_owned(),
        status: if status { "True" } else { "False" }.to_owned(),
        reason: reason.to_owned(),
        message,
        last_transition_time: in_seconds(at),
    }
}

/// Formats a reason as the end of a sentence, if one was given.
fn because(why: &str) -> String {
    if why.is_empty() { String::new() } else { format!(": {why}") }
}

/// An RFC 3339 time without fractions, as in the conditions of all kinds (`metav1.Time`).
fn in_seconds(time: &str) -> String {
    time.split_once('.').map_or_else(|| time.to_owned(), |(seconds, _)| format!("{seconds}Z"))
}

pub(super) fn recent_faults(recent: Recent) -> String {
    let Recent { n_keys, n_faulted, n_namespaces, n_faulting_namespaces } = recent;
    format!(
        "of the runs of the last {WINDOW:?}, {n_faulted} of {n_keys} keys faulted, most keys in {n_faulting_namespaces} of {n_namespaces} namespaces"
    )
}

fn stage_reason(stage: Stage) -> &'static str {
    match stage {
        Stage::Validating => "Validating",
        Stage::Compiling => "Compiling",
        Stage::Syncing => "Syncing",
        Stage::Shadowing => "Shadowing",
        Stage::Probation => "Probation",
    }
}

impl Controller {
    /// Counts a fault of the mapping; the first consecutive one becomes an event about the plugin.
    pub(super) fn mapping_faulted(&self, fault: &PluginFault) {
        self.observers.metrics.fault(fault.kind);
        let text = format!("mapping: {fault}");
        let mut inner = self.inner.lock();
        inner.health.count(fault.kind, &text);
        let last = inner.health.last.clone();
        let first = inner.health.mapping_fault.replace(last).is_none();
        inner.last_error = Some(cut(&text, MAX_TEXT_BYTES).to_owned());
        drop(inner);
        if first {
            let version = self.version().manifest().version.clone();
            self.observers.record_plugin_event(true, "PluginFault", format!("plugin {} {version}: {text}", self.name));
            self.observers.mark_changed();
        }
    }

    /// Counts a successful mapping.
    pub(super) fn mapping_went_well(&self) {
        if self.inner.lock().health.mapping_fault.take().is_some() {
            self.observers.mark_changed();
        }
    }

    /// Reports watched kinds that the API server no longer, or newly, serves.
    pub(super) fn kinds_changed(self: &Arc<Self>, cache: &Subscription) {
        self.tasks.tracker.spawn(self.clone().look_at_fields());
        let absent: Vec<MissingKind> = cache.missing().into_iter().filter(MissingKind::is_absent).collect();
        let before = std::mem::replace(&mut self.observers.served.lock().absent, absent.clone());
        let is_new = |kind: &&MissingKind| !before.contains(kind);
        let came = kinds::sentences(absent.iter().filter(is_new));
        if !came.is_empty() {
            tracing::warn!(plugin = %self.name, "not ready: {came}");
            self.observers.record_plugin_event(
                true,
                "KindNotServed",
                format!("plugin {} is not ready: {came}", self.name),
            );
        } else if absent.is_empty() && !before.is_empty() {
            tracing::info!(plugin = %self.name, "the API server serves every watched kind");
            let message = format!("the API server serves every kind that plugin {} watches", self.name);
            self.observers.record_plugin_event(false, "KindsServed", message);
        }
        // A refused list also changes the status.
        self.observers.mark_changed();
    }

    /// Whether an operator disabled the plugin.
    pub(crate) fn is_disabled(&self) -> bool {
        self.inner.lock().health.supervisor.is_disabled()
    }

    /// Starts no more runs until the plugin is enabled; runs in flight end. The queues still collect keys.
    pub(crate) fn disable(&self, why: &str) {
        let mut inner = self.inner.lock();
        inner.health.supervisor.disable();
        inner.health.disabled_why = Some(why.to_owned());
        drop(inner);
        tracing::info!(plugin = %self.name, why, "disabled");
        self.observers.record_plugin_event(
            false,
            "Disabled",
            format!("plugin {} is disabled{}", self.name, because(why)),
        );
        self.observers.mark_changed();
    }

    /// Starts runs again, collected keys first. Also ends a quarantine.
    pub(crate) fn enable(&self, why: &str) {
        let mut inner = self.inner.lock();
        inner.health.supervisor.enable();
        inner.health.disabled_why = None;
        drop(inner);
        self.observers.metrics.quarantined(false);
        tracing::info!(plugin = %self.name, why, "enabled");
        self.observers.record_plugin_event(
            false,
            "Enabled",
            format!("plugin {} is enabled{}", self.name, because(why)),
        );
        self.tasks.wake.notify_one();
        self.observers.mark_changed();
    }

    /// Updates the conditions; an unchanged condition keeps its transition time.
    pub(super) fn refresh_conditions(&self, inner: &mut ControllerState, observed: &Observed) {
        let Observed { synced, missing, n_keys, snapshot, .. } = observed;
        let (synced, at) = (*synced, &self.wall_time());
        let (health, rollout) = (&inner.health, &inner.rollout);
        let n_namespaces = |max| snapshot.as_ref().map_or(0, |snapshot| snapshot.n_namespaces(max));
        let all_fail = health.successes.all_fail(*n_keys, n_namespaces).map(|AllFail { n_runs, n_keys }| {
            let last = inner.last_error.as_deref().unwrap_or_default();
            format!("the last {n_runs} runs, of {n_keys} keys, failed; the last: {}", cut(last, MAX_TEXT_BYTES))
        });
        let held = rollout.deletions().and_then(|deletions| deletions.held());
        let held = held.map(|held| held.message(&self.name, &self.version().manifest().version));
        let ready = match inner.phase(synced) {
            Phase::Running if held.is_some() => {
                condition("Ready", false, "DeletionsHeld", held.clone().unwrap_or_default(), at)
            }
            Phase::Running | Phase::Standby | Phase::Starting if !missing.is_empty() => {
                let reason = missing.iter().find(|kind| kind.is_stuck()).unwrap_or(&missing[0]).reason();
                condition("Ready", false, reason, kinds::sentences(missing), at)
            }
            Phase::Running => match &all_fail {
                Some(message) => condition("Ready", false, "RunsFail", message.clone(), at),
                None => condition("Ready", true, "Running", "it processes keys".into(), at),
            },
            Phase::Standby => {
                let message = "another host leads; this one is ready to take over".into();
                condition("Ready", false, STANDBY, message, at)
            }
            Phase::Starting => condition("Ready", false, "CachesFilling", "its caches are not synced yet".into(), at),
            Phase::Disabled => {
                let why = health.disabled_why.clone().filter(|why| !why.is_empty());
                condition("Ready", false, "Disabled", why.unwrap_or_else(|| "it is disabled".into()), at)
            }
            Phase::Quarantined => {
                let message = format!("{}; the last: {}", recent_faults(health.supervisor.recent()), health.last);
                condition("Ready", false, "Quarantined", message, at)
            }
        };
        let healthy = match (health.faulty.last_key_value(), &health.mapping_fault) {
            (None, Some(fault)) => condition("Healthy", false, "MappingFaults", fault.to_string(), at),
            (None, None) => match all_fail {
                Some(message) => condition("Healthy", false, "RunsFail", message, at),
                None => match health.repeating.last_key_value() {
                    Some((key, what)) => {
                        let n = health.repeating.len();
                        let message = format!("keys that run because of their own writes: {n}; one is {key}: {what}");
                        condition("Healthy", false, "WritesRepeat", message, at)
                    }
                    None => condition("Healthy", true, "NoFaults", "no key has a fault".into(), at),
                },
            },
            (Some((key, fault)), _) => {
                let n = inner.keys.suspects().count().max(health.faulty.len());
                condition("Healthy", false, "Faults", format!("keys that fault: {n}; one is {key}: {fault}"), at)
            }
        };
        let progressing = match (self.stage(inner), &rollout.last_swap) {
            (Some(stage), _) => {
                let running = || self.version().manifest().version.clone();
                let attempted = self.attempted.lock();
                let version = attempted.incoming.as_ref().map_or_else(running, |info| info.version.clone());
                condition("Progressing", true, stage_reason(stage), format!("version {version}"), at)
            }
            (None, Some(swap)) => condition("Progressing", false, &swap.reason, swap.message.clone(), at),
            (None, None) => condition("Progressing", false, "Settled", "no other version is taking over".into(), at),
        };
        let mut conditions = vec![ready, healthy, progressing];
        if let Some(message) = held {
            conditions.push(condition("DeletionsHeld", true, "DeletionsInProbation", message, at));
        }
        if let Some((reason, message)) = self.observers.served.lock().fields.verdict() {
            conditions.push(condition("FieldsMissing", true, reason, message, at));
        }
        for new in &mut conditions {
            let old = inner.health.conditions.iter().find(|old| old.kind == new.kind && old.status == new.status);
            if let Some(old) = old {
                new.last_transition_time.clone_from(&old.last_transition_time);
            }
        }
        inner.health.conditions = conditions;
    }
}

#[cfg(test)]
mod tests {
    use pintle_core::object::id::{Kind, ObjectKey};

    use super::*;

    #[test]
    fn a_fault_is_new_once_for_each_key_text_and_version() {
        let key = |name: &str| Key {
            queue: "q".into(),
            kind: Kind::new("", "v1", "Pod"),
            object: ObjectKey::new("ns", name),
        };
        let mut health = Health::new(FailurePolicy::default());
        let is_new = |health: &mut Health, name: &str, attempt, text: &str| {
            health.count(FaultKind::Trap, text);
            let is_new = health.is_new_fault(&key(name), attempt);
            health.key_ran(&key(name), true);
            is_new
        };
        let told = [("a", 0, "red"), ("b", 0, "red"), ("a", 1, "red"), ("b", 1, "blue"), ("b", 2, "blue")];
        assert_eq!(
            told.map(|(name, attempt, text)| is_new(&mut health, name, attempt, text)),
            [true, true, false, true, false]
        );
        // A fault of another version.
        health.forget_faults();
        assert!(is_new(&mut health, "b", 3, "blue") && !is_new(&mut health, "b", 4, "blue"));
        // More keys than the maximum: only their first attempts are new.
        for i in 0..MAX_FAULTY {
            health.key_ran(&key(&i.to_string()), true);
        }
        assert!(is_new(&mut health, "c", 0, "red") && !is_new(&mut health, "c", 1, "red"));
        assert!(is_new(&mut health, "b", 5, "red") && !is_new(&mut health, "b", 6, "red"));
    }

    #[test]
    fn times_of_conditions_are_in_seconds() {
        let at = |time| condition("Ready", true, "CachesSynced", String::new(), time).last_transition_time;
        assert_eq!(at("2026-01-02T03:04:05.678901Z"), "2026-01-02T03:04:05Z");
        assert_eq!(at("2026-01-02T03:04:05Z"), "2026-01-02T03:04:05Z");
    }
}
