//! Runs keys, and carries out their outcomes.
//!
//! *Flow*: keys -> fixtures of one instant -> outcomes -> writes, one at a time, interleaved between runs -> the host's
//! state for the next run.
//!
//! *Source*: the host's `controller` and `writer`.

use std::fmt;
use std::time::Duration;

use serde_json::Value;

use super::execution::{Execution, Planned};
use super::fault::{Effect, Rejection};
use super::{Cluster, Plugin, random};
use crate::error::Error;
use crate::outcome::{Action, Event, Mutation, MutationFailure, Outcome, Preconditions, Refusal};
use crate::types::{Key, Kind, ObjectKey};

/// Most rounds of [`Cluster::settle`].
const MAX_ROUNDS: usize = 1000;

/// One run of a key.
#[derive(Clone, Debug)]
pub struct Run {
    /// What the plugin returned.
    pub result: Result<Outcome, Error>,
    /// Number of sent writes, including rejected ones and standalone events.
    pub n_writes: usize,
    /// Failed writes that were not tolerated, in the order of the outcome. The next run of the key gets them.
    pub failures: Vec<MutationFailure>,
    /// Whether the host stopped during the run.
    pub crashed: bool,
}

impl Run {
    /// The delay that the plugin requested.
    pub fn requeue_after(&self) -> Option<Duration> {
        self.result.as_ref().ok().and_then(|outcome| outcome.requeue_after)
    }

    /// Whether the run succeeded and wrote nothing.
    pub fn is_quiet(&self) -> bool {
        self.result.is_ok() && self.n_writes == 0 && !self.crashed
    }
}

/// A write that a plugin sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// `create`, `update`, `patch`, `delete` or `delete-collection`.
    pub verb: &'static str,
    /// Kind of the object.
    pub kind: Kind,
    /// The object; the name is empty for collections, and for generated names.
    pub object: ObjectKey,
    /// Subresource.
    pub subresource: Option<String>,
    /// Reason of the rejection; `None` if the write succeeded.
    pub rejected: Option<String>,
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let subresource = self.subresource.as_ref().map(|name| format!("/{name}")).unwrap_or_default();
        write!(f, "{} {}{subresource} {}", self.verb, self.kind, self.object)?;
        self.rejected.as_ref().map_or(Ok(()), |reason| write!(f, ": {reason}"))
    }
}

/// State of the host for a key.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) attempt: u32,
    pub(super) failures: Vec<MutationFailure>,
}

impl Cluster {
    /// Runs a key once and carries out the outcome.
    ///
    /// # Panics
    /// In case of a fault, where the host would end the run.
    pub fn run(&mut self, plugin: &Plugin<'_>, key: &Key) -> Run {
        let mut runs = self.run_together(&[(plugin, key)]);
        runs.remove(0)
    }

    /// Runs each key once, in any order. Some of them run concurrently: they read the same objects, and their writes
    /// are interleaved.
    ///
    /// # Panics
    /// As [`run`](Self::run).
    pub fn round(&mut self, keys: &[(&Plugin<'_>, &Key)]) -> Vec<Run> {
        let mut left: Vec<usize> = (0..keys.len()).collect();
        let mut runs: Vec<(usize, Run)> = Vec::new();
        while !left.is_empty() {
            let n_together = 1 + self.random(left.len() as u64);
            let together: Vec<usize> = (0..n_together).map(|_| left.swap_remove(self.place(left.len()))).collect();
            let chosen: Vec<_> = together.iter().map(|place| keys[*place]).collect();
            runs.extend(together.into_iter().zip(self.run_together(&chosen)));
        }
        runs.sort_by_key(|(place, _)| *place);
        runs.into_iter().map(|(_, run)| run).collect()
    }

    /// Runs keys in rounds until a round changes nothing. `others` simulates all other clients after each round: it
    /// changes objects, lets time pass, and returns whether it has more to do. Returns the delay after which the first
    /// key asked to run again; advancing the time is up to the caller.
    ///
    /// # Panics
    /// If it does not settle within 1,000 rounds, and as [`run`](Self::run).
    pub fn settle(
        &mut self,
        keys: &[(&Plugin<'_>, &Key)],
        mut others: impl FnMut(&mut Self) -> bool,
    ) -> Option<Duration> {
        for _ in 0..MAX_ROUNDS {
            let before = self.version();
            let runs = self.round(keys);
            let is_busy = others(self) || !runs.iter().all(Run::is_quiet);
            if !is_busy && self.version() == before {
                return runs.iter().filter_map(Run::requeue_after).min();
            }
        }
        let last: Vec<String> = self.writes.iter().rev().take(10).map(Write::to_string).collect();
        panic!("the cluster does not settle in {MAX_ROUNDS} rounds; last writes, the latest first: {last:#?}");
    }

    fn place(&mut self, len: usize) -> usize {
        usize::try_from(self.random(len as u64)).unwrap_or(0)
    }

    fn run_together(&mut self, keys: &[(&Plugin<'_>, &Key)]) -> Vec<Run> {
        let mut runs = Vec::new();
        for (plugin, key) in keys {
            let (result, _) = self.fixture(plugin, key).outcome(&plugin.reconcile);
            runs.push((result, Execution::new(&Outcome::new())));
        }
        for ((plugin, _), (result, execution)) in keys.iter().zip(&mut runs) {
            if let Ok(outcome) = result {
                *execution = Execution::new(outcome);
                let state = self.state.entry(plugin.manifest.name.clone()).or_default();
                for (name, value) in &outcome.state {
                    match value {
                        Some(value) => drop(state.insert(name.clone(), value.clone())),
                        None => drop(state.remove(name)),
                    }
                }
            }
        }
        let mut busy: Vec<usize> = (0..runs.len()).collect();
        let mut crashed = false;
        while !busy.is_empty() && !crashed {
            let chosen = self.place(busy.len());
            let execution = &mut runs[busy[chosen]].1;
            match execution.next(&mut |below| random(&mut self.chance, below)) {
                Some(planned) => crashed = !self.carry_out(planned, execution),
                None => drop(busy.swap_remove(chosen)),
            }
        }
        if crashed {
            self.state.clear();
            self.uptime = Duration::ZERO;
            self.memory.clear();
        }
        let runs = keys.iter().zip(runs).map(|((plugin, key), (result, execution))| {
            let Execution { failures, n_writes, .. } = execution;
            if !crashed {
                let memory = self.memory.entry(id(plugin, key)).or_default();
                let declared = result.as_ref().map_or_else(Some, |outcome| outcome.error.as_ref());
                let has_failed = !failures.is_empty() || matches!(declared, Some(Error::Retry { .. }));
                memory.attempt = if has_failed { memory.attempt + 1 } else { 0 };
                memory.failures.clone_from(&failures);
            }
            Run { result, n_writes, failures, crashed }
        });
        runs.collect()
    }

    /// Carries out one write. Returns whether the host is still running.
    fn carry_out(&mut self, planned: Planned, execution: &mut Execution) -> bool {
        let Planned { step, position, mutation } = planned;
        execution.n_writes += 1;
        if let Action::Event(event) = mutation.action {
            self.events.push(event);
            return true;
        }
        let mut write = target(&mutation.action);
        let result = match self.struck(&write) {
            Some(Effect::Crash) => {
                execution.n_writes -= 1;
                return false;
            }
            Some(Effect::Reject(rejection)) => Err(rejection),
            None => self.write(&mutation.action),
        };
        let result = match result {
            // A missing object is success for a delete.
            Err(rejection) if rejection.code == 404 && write.verb == "delete" => {
                write.rejected = Some(rejection.reason);
                self.writes.push(write);
                return true;
            }
            result => result,
        };
        write.rejected = result.as_ref().err().map(|rejection| rejection.reason.clone());
        self.writes.push(write.clone());
        match result {
            Ok(name) => self.record(mutation.on_success, &name, ""),
            Err(rejection) if is_tolerated(&mutation, &rejection) => {}
            Err(rejection) => {
                self.record(mutation.on_failure, &write.object.name, &rejection.message);
                let Rejection { code, reason, message, causes } = rejection;
                let Write { verb, kind, object, subresource, .. } = write;
                let (verb, kind) = (verb.to_owned(), Some(kind));
                execution.fail(MutationFailure {
                    step,
                    position,
                    verb,
                    kind,
                    object,
                    subresource,
                    code,
                    reason,
                    message,
                    causes,
                });
            }
        }
        true
    }

    fn struck(&mut self, write: &Write) -> Option<Effect> {
        if self.faults.is_empty() {
            return None;
        }
        let n_objects = self.objects.of_kind(&write.kind).count();
        let chance = &mut self.chance;
        self.faults.iter_mut().find_map(|fault| {
            let strikes = fault.strikes(write.verb, &write.kind, n_objects, &mut |below| random(chance, below));
            strikes.then(|| fault.effect.clone())
        })
    }

    /// Carries out a write, and returns the name of the object.
    fn write(&mut self, action: &Action) -> Result<String, Rejection> {
        let name = |object: Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let objects = &mut self.objects;
        match action {
            Action::Create { kind, namespace, object, subresource } => match subresource.as_deref() {
                None => objects.create(kind, namespace, parse(object)).map(name),
                Some("eviction") => {
                    let key = ObjectKey::new(namespace, name(parse(object)));
                    objects.delete(kind, &key, &Preconditions::default(), None, None).map(|()| key.name)
                }
                Some(other) => panic!("a simulated cluster has no subresource {other:?} of {kind}"),
            },
            Action::Update { kind, object, subresource } => {
                objects.update(kind, parse(object), subresource.as_deref()).map(name)
            }
            Action::Patch { kind, object, subresource, patch_type, body, preconditions } => {
                let subresource = subresource.as_deref();
                objects.patch(kind, object, subresource, patch_type, &parse(body), preconditions).map(name)
            }
            Action::Delete { kind, object, preconditions, propagation, grace_period_seconds } => {
                let deleted = objects.delete(kind, object, preconditions, *propagation, *grace_period_seconds);
                deleted.map(|()| object.name.clone())
            }
            Action::DeleteCollection { kind, namespace, label_selector, propagation } => {
                let selector = label_selector.as_deref();
                objects.delete_collection(kind, namespace, selector, *propagation).map(|()| String::new())
            }
            Action::Event(_) => Ok(String::new()),
        }
    }

    fn record(&mut self, event: Option<Event>, name: &str, error: &str) {
        if let Some(event) = event {
            let message = event.message.replace("{name}", name).replace("{error}", error);
            self.events.push(Event { message, ..event });
        }
    }
}

pub(super) fn id(plugin: &Plugin<'_>, key: &Key) -> String {
    format!("{} {} {} {}/{}", plugin.manifest.name, key.queue, key.kind, key.namespace, key.name)
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("fault: the plugin wrote bad JSON: {error}: {text}"))
}

/// Describes the write of a mutation.
fn target(action: &Action) -> Write {
    let (verb, kind, object, subresource) = match action {
        Action::Create { kind, namespace, object, subresource } => {
            let object = parse(object);
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            ("create", kind.clone(), ObjectKey::new(namespace, name), subresource.clone())
        }
        Action::Update { kind, object, subresource } => {
            let object = parse(object);
            let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
            ("update", kind.clone(), ObjectKey::new(text("namespace"), text("name")), subresource.clone())
        }
        Action::Patch { kind, object, subresource, .. } => ("patch", kind.clone(), object.clone(), subresource.clone()),
        Action::Delete { kind, object, .. } => ("delete", kind.clone(), object.clone(), None),
        Action::DeleteCollection { kind, namespace, .. } => {
            ("delete-collection", kind.clone(), ObjectKey::new(namespace, ""), None)
        }
        Action::Event(event) => ("create", Kind::new("", "v1", "Event"), event.regarding.clone(), None),
    };
    Write { verb, kind, object, subresource, rejected: None }
}

fn is_tolerated(mutation: &Mutation, rejection: &Rejection) -> bool {
    let has_cause = rejection.causes.iter().any(|cause| cause == "NamespaceTerminating");
    mutation.tolerate.iter().any(|refusal| match refusal {
        Refusal::NotFound => rejection.code == 404,
        Refusal::AlreadyExists => rejection.reason == "AlreadyExists",
        Refusal::Conflict => rejection.reason == "Conflict",
        Refusal::Invalid => rejection.code == 422,
        Refusal::Forbidden => rejection.code == 403,
        Refusal::NamespaceTerminating => has_cause,
    })
}
