//! Containers of a Pod over time: they start in order, end, restart, stop.
//!
//! Flow: [`PodRun::advance`] makes all due changes and returns the time of the next one. `report` describes the result.
//!
//! Invariants: pure, time is an argument; changes take effect in order of time, each at its due time; a Pod that is
//! over does not change again.
//!
//! Source: `computePodActions` and `doBackOff` of kubelet's `kuberuntime_manager.go`, `ContainerShouldRestart` of `pkg/api/v1/pod`.

use std::collections::HashMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::behaviour::{Behaviour, Role, Run};
use crate::pod::{ContainerStatus, ObservedContainer, ObservedPod, Terminated};

/// Most changes in one step; the rest follows a second later.
const MAX_CHANGES: usize = 1_000;
/// Time for which a failed pull is shown, before the node waits for the next one.
const PULL_ERROR: Duration = Duration::from_secs(1);
/// Exit code of a process that SIGTERM ended.
const SIGTERM: i32 = 143;
/// Exit code of a process that SIGKILL ended.
const SIGKILL: i32 = 137;

/// A time plus a duration.
pub(crate) fn later(time: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    time.saturating_add(by).unwrap_or(Timestamp::MAX)
}

/// End of the time for which a failed pull is shown.
pub(crate) fn pull_shown_until(since: Timestamp) -> Timestamp {
    later(since, PULL_ERROR)
}

/// How a container ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) code: i32,
    /// `None`: it never started.
    pub(crate) started: Option<Timestamp>,
    pub(crate) finished: Option<Timestamp>,
}

/// The state of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// It waits for its turn.
    Waiting,
    /// Its image could not be pulled; since this time.
    Pulling(Timestamp),
    /// It has been running since this time.
    Running(Timestamp),
    /// It has ended, and restarts at this time.
    BackOff(Timestamp),
    /// It has ended for good.
    Ended(End),
}

/// A container over time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Container {
    pub(crate) state: State,
    /// How it ended before its last restart.
    pub(crate) last: Option<End>,
    pub(crate) n_restarts: u32,
    /// Restarts that increase the next backoff.
    n_waits: u32,
    /// Counted runs of this container before the current one.
    n_before: u32,
}

/// Why a Pod ended before its containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// By its annotation.
    Failed,
    /// By its annotation.
    Completed,
    /// By its node, because memory is low.
    Evicted,
    /// By its `activeDeadlineSeconds`.
    DeadlineExceeded,
    /// By its deletion. The phase follows from the exit codes.
    Stopped,
}

/// Numbers of runs so far, by the uid of the controller or Pod, the index and the container.
pub(crate) type RunCounts = HashMap<(String, Option<u32>, String), u32>;

/// Inputs of a Pod's run.
pub(crate) struct Facts<'a> {
    pub(crate) pod: &'a ObservedPod,
    pub(crate) behaviour: &'a Behaviour,
    /// First and longest restart backoff; the first restart is immediate.
    pub(crate) back_off: (Duration, Duration),
    /// When the Pod was deleted.
    pub(crate) deleted: Option<Timestamp>,
    /// Stop time of its containers, unless the Pod specifies it.
    pub(crate) stop_delay: Duration,
    /// Whether its node is ready; otherwise no container is.
    pub(crate) node_is_ready: bool,
}

/// The containers of a Pod on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PodRun {
    pub(crate) started: Timestamp,
    /// Time of the last change or probe.
    clock: Timestamp,
    pub(crate) init: Vec<Container>,
    pub(crate) main: Vec<Container>,
    pub(crate) cut: Option<Cut>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    /// Only time passes: a probe succeeds.
    Probe,
    Pull(Role, usize),
    Start(Role, usize),
    Exit(Role, usize, i32),
    /// A sidecar that waits for its restart is no longer needed.
    Retire(usize),
    Cut(Cut),
}

pub(crate) fn role_of_init(container: &ObservedContainer) -> Role {
    if container.restart_policy.as_deref() == Some("Always") { Role::Sidecar } else { Role::Init }
}

impl Facts<'_> {
    fn spec(&self, role: Role, index: usize) -> Option<&ObservedContainer> {
        let spec = &self.pod.spec;
        if role == Role::Main { spec.containers.get(index) } else { spec.init_containers.get(index) }
    }

    fn run_key(&self, name: &str) -> (String, Option<u32>, String) {
        let meta = &self.pod.metadata;
        let owner = meta.owner_references.iter().find(|owner| owner.controller);
        (owner.map_or(&meta.uid, |owner| &owner.uid).clone(), self.behaviour.index, name.to_owned())
    }

    fn next_run(&self, role: Role, index: usize, container: &Container) -> Option<Run> {
        Some(self.behaviour.run(self.pod, role, self.spec(role, index)?, container.n_before))
    }

    /// Whether a container restarts after this exit code.
    fn restarts(&self, role: Role, index: usize, code: i32) -> bool {
        let (Some(spec), None) = (self.spec(role, index), self.deleted) else { return false };
        let matches = |rule: &crate::pod::RestartRule| {
            let listed = rule.exit_codes.values.contains(&code);
            rule.action == "Restart" && (rule.exit_codes.operator == "In") == listed
        };
        let policy = spec.restart_policy.as_deref().unwrap_or(match self.pod.spec.restart_policy.as_str() {
            "" => "Always",
            policy => policy,
        });
        match role {
            Role::Sidecar => true,
            Role::Init if code == 0 => false,
            _ if spec.restart_policy_rules.iter().any(matches) => true,
            Role::Init => policy != "Never",
            Role::Main => policy == "Always" || (policy == "OnFailure" && code != 0),
        }
    }

    /// The exit code of stopped containers, and their stop time.
    fn stop(&self) -> (Duration, i32) {
        let takes = self.behaviour.stop_after.unwrap_or(self.stop_delay);
        let grace = self.pod.metadata.deletion_grace_period_seconds;
        match grace.map(|grace| Duration::from_secs(grace.try_into().unwrap_or(0))) {
            Some(grace) if takes > grace => (grace, SIGKILL),
            _ => (takes, self.behaviour.stop_exit_code.unwrap_or(SIGTERM)),
        }
    }
}

impl Container {
    fn new() -> Self {
        Self { state: State::Waiting, last: None, n_restarts: 0, n_waits: 0, n_before: 0 }
    }

    /// Restores a container from its status, to the second.
    fn restore(status: &ContainerStatus, started: Timestamp, back_off: (Duration, Duration)) -> Self {
        let time = |text: &Option<String>| text.as_deref().and_then(|text| text.parse().ok());
        let end = |ended: &Terminated| End {
            code: ended.exit_code,
            started: time(&ended.started_at),
            finished: time(&ended.finished_at),
        };
        let last = status.last_state.terminated.as_ref().map(end);
        let state = match &status.state {
            state if state.running.is_some() => {
                let since = state.running.as_ref().and_then(|running| running.started_at.parse().ok());
                State::Running(since.unwrap_or(started))
            }
            state if state.terminated.is_some() => {
                state.terminated.as_ref().map_or(State::Waiting, |ended| State::Ended(end(ended)))
            }
            state => match (&last, state.waiting.as_ref().map(|waiting| waiting.reason.as_str())) {
                (_, Some("ErrImagePull")) => State::Pulling(started),
                (_, Some("ImagePullBackOff")) => State::Pulling(Timestamp::MIN),
                (Some(last), _) => {
                    State::BackOff(later(last.finished.unwrap_or(started), wait(status.restart_count, back_off)))
                }
                (None, _) => State::Waiting,
            },
        };
        let n_restarts = status.restart_count;
        let n_waits = n_restarts.saturating_add(u32::from(matches!(state, State::BackOff(_))));
        Self { state, last, n_restarts, n_waits, n_before: n_restarts }
    }

    pub(crate) fn is_running(&self) -> bool {
        matches!(self.state, State::Running(_))
    }

    /// Whether it has ended for good.
    pub(crate) fn end(&self) -> Option<&End> {
        match &self.state {
            State::Ended(end) => Some(end),
            _ => None,
        }
    }
}

/// The backoff after this number of restarts: none before the first.
fn wait(n_restarts: u32, back_off: (Duration, Duration)) -> Duration {
    match n_restarts.checked_sub(1) {
        None => Duration::ZERO,
        Some(doublings) => back_off.0.saturating_mul(1 << doublings.min(20)).min(back_off.1),
    }
}

impl PodRun {
    /// The containers of a Pod before they start; `started`: the start time on the node.
    pub(crate) fn new(pod: &ObservedPod, started: Timestamp) -> Self {
        let new = |list: &Vec<ObservedContainer>| list.iter().map(|_| Container::new()).collect();
        let spec = &pod.spec;
        Self { started, clock: started, init: new(&spec.init_containers), main: new(&spec.containers), cut: None }
    }

    /// Restores the containers of an unknown Pod from its status, if it has them.
    pub(crate) fn restore(facts: &Facts<'_>, counts: &mut RunCounts) -> Option<Self> {
        let (spec, status) = (&facts.pod.spec, &facts.pod.status);
        let started: Timestamp = status.start_time.as_deref()?.parse().ok()?;
        let of = |list: &[ObservedContainer], statuses: &[ContainerStatus]| {
            let restore = |container: &ObservedContainer| {
                let status = statuses.iter().find(|status| status.name == container.name);
                status.map_or_else(Container::new, |status| Container::restore(status, started, facts.back_off))
            };
            list.iter().map(restore).collect()
        };
        let init = of(&spec.init_containers, &status.init_container_statuses);
        let run =
            Self { started, clock: started, init, main: of(&spec.containers, &status.container_statuses), cut: None };
        for (role, index, container) in run.containers(facts) {
            let Some(spec) = facts.spec(role, index) else { continue };
            if facts.behaviour.counts_runs(role, &spec.name) && container.state != State::Waiting {
                *counts.entry(facts.run_key(&spec.name)).or_default() += container.n_restarts.saturating_add(1);
            }
        }
        Some(run)
    }

    fn containers<'a>(&'a self, facts: &'a Facts<'_>) -> impl Iterator<Item = (Role, usize, &'a Container)> {
        let init = facts.pod.spec.init_containers.iter().zip(&self.init).enumerate();
        let init = init.map(|(index, (spec, container))| (role_of_init(spec), index, container));
        init.chain(self.main.iter().enumerate().map(|(index, container)| (Role::Main, index, container)))
    }

    fn container(&mut self, role: Role, index: usize) -> Option<&mut Container> {
        if role == Role::Main { self.main.get_mut(index) } else { self.init.get_mut(index) }
    }

    /// Makes all due changes, and returns the time of the next one.
    pub(crate) fn advance(&mut self, facts: &Facts<'_>, counts: &mut RunCounts, now: Timestamp) -> Option<Timestamp> {
        for _ in 0..MAX_CHANGES {
            match self.next(facts) {
                Some((due, change)) if due <= now => {
                    self.clock = self.clock.max(due);
                    self.apply(facts, counts, change);
                }
                next => {
                    self.clock = self.clock.max(now);
                    return next.map(|(due, _)| due);
                }
            }
        }
        Some(later(now, Duration::from_secs(1)))
    }

    /// Whether all main containers have ended for good.
    fn main_ended(&self) -> bool {
        self.main.iter().all(|container| container.end().is_some())
    }

    /// Whether nothing can change any more.
    pub(crate) fn is_over(&self, facts: &Facts<'_>) -> bool {
        let failed = |(role, _, container): (Role, usize, &Container)| {
            role == Role::Init && container.end().is_some_and(|end| end.code != 0)
        };
        let acts = |container: &Container| matches!(container.state, State::Running(_) | State::BackOff(_));
        let init_ended = !self.init.iter().any(acts);
        self.cut.is_some() || (self.main_ended() && init_ended) || self.containers(facts).any(failed)
    }

    /// Whether this init container allows the next one to start.
    pub(crate) fn is_done(&self, facts: &Facts<'_>, index: usize) -> bool {
        let (Some(spec), Some(container)) = (facts.spec(Role::Init, index), self.init.get(index)) else { return false };
        match (role_of_init(spec), &container.state) {
            (Role::Sidecar, State::Running(_)) => self.probes(facts, Role::Sidecar, index).0,
            (_, State::Ended(end)) => end.code == 0,
            _ => false,
        }
    }

    /// Whether main containers have started, after which init containers no longer matter.
    pub(crate) fn is_initialized(&self, facts: &Facts<'_>) -> bool {
        let waits = |container: &Container| matches!(container.state, State::Waiting);
        self.main.iter().any(|container| !waits(container))
            || (0..self.init.len()).all(|index| self.is_done(facts, index))
    }

    /// Whether a container is started, and whether it is ready.
    pub(crate) fn probes(&self, facts: &Facts<'_>, role: Role, index: usize) -> (bool, bool) {
        let container = if role == Role::Main { self.main.get(index) } else { self.init.get(index) };
        match (container.map(|container| &container.state), facts.spec(role, index)) {
            (Some(State::Running(since)), Some(spec)) => {
                let (started, ready) = facts.behaviour.delays(spec);
                let passed = |delay| later(*since, delay) <= self.clock;
                (passed(started), passed(ready) && facts.node_is_ready && !facts.behaviour.never_ready)
            }
            _ => (false, false),
        }
    }

    /// The earliest change.
    fn next(&self, facts: &Facts<'_>) -> Option<(Timestamp, Change)> {
        if self.is_over(facts) {
            return None;
        }
        let mut all = self.cuts(facts);
        let initialized = self.is_initialized(facts);
        let turn = (0..self.init.len()).find(|index| !self.is_done(facts, *index));
        let main_ended = self.main_ended();
        for (role, index, container) in self.containers(facts) {
            let may_start = match role {
                Role::Main => initialized,
                Role::Sidecar => initialized || turn == Some(index),
                Role::Init => !initialized && turn == Some(index),
            };
            let starts = may_start && facts.deleted.is_none();
            let cannot_pull = || facts.spec(role, index).is_some_and(|spec| facts.behaviour.cannot_pull(spec));
            match &container.state {
                State::Waiting if starts && cannot_pull() => all.push((self.clock, Change::Pull(role, index))),
                State::Waiting if starts => all.push((self.clock, Change::Start(role, index))),
                State::Pulling(_) if !cannot_pull() && facts.deleted.is_none() => {
                    all.push((self.clock, Change::Start(role, index)));
                }
                State::Pulling(since) => all.push((later(*since, PULL_ERROR), Change::Probe)),
                State::BackOff(_) if role == Role::Sidecar && main_ended => {
                    all.push((self.clock, Change::Retire(index)))
                }
                State::BackOff(until) if facts.deleted.is_none() => all.push((*until, Change::Start(role, index))),
                State::Running(_) if role == Role::Sidecar && main_ended => {
                    all.push((self.clock, Change::Exit(role, index, 0)));
                }
                State::Running(since) => {
                    if let Some(Run { takes: Some(takes), code }) = facts.next_run(role, index, container) {
                        all.push((later(*since, takes), Change::Exit(role, index, code)));
                    }
                    let (started, ready) = facts.spec(role, index).map(|spec| facts.behaviour.delays(spec))?;
                    all.push((later(*since, started), Change::Probe));
                    all.push((later(*since, ready), Change::Probe));
                }
                _ => {}
            }
        }
        let is_ahead = |(due, change): &(Timestamp, Change)| *change != Change::Probe || *due > self.clock;
        all.into_iter().filter(is_ahead).min_by_key(|(due, _)| *due)
    }

    /// The due ends of the Pod as a whole.
    fn cuts(&self, facts: &Facts<'_>) -> Vec<(Timestamp, Change)> {
        let behaviour = facts.behaviour;
        let deadline = facts.pod.spec.active_deadline_seconds.map(Duration::from_secs);
        let after = [
            (behaviour.fail_after, Cut::Failed),
            (behaviour.complete_after, Cut::Completed),
            (behaviour.evict_after, Cut::Evicted),
            (deadline, Cut::DeadlineExceeded),
        ];
        let after = after.into_iter().filter_map(|(after, cut)| Some((later(self.started, after?), Change::Cut(cut))));
        let runs = self.init.iter().chain(&self.main).any(Container::is_running);
        let stop = facts.deleted.map(|deleted| {
            let due = if runs { later(deleted, facts.stop().0) } else { self.clock };
            (due, Change::Cut(Cut::Stopped))
        });
        stop.into_iter().chain(after).collect()
    }

    fn apply(&mut self, facts: &Facts<'_>, counts: &mut RunCounts, change: Change) {
        let now = self.clock;
        match change {
            Change::Probe => {}
            Change::Pull(role, index) => {
                if let Some(container) = self.container(role, index) {
                    container.state = State::Pulling(now);
                }
            }
            Change::Start(role, index) => {
                let Some(spec) = facts.spec(role, index) else { return };
                let counted = facts.behaviour.counts_runs(role, &spec.name);
                let count = counted.then(|| counts.entry(facts.run_key(&spec.name)).or_default());
                let Some(container) = self.container(role, index) else { return };
                container.n_restarts = container.n_restarts.saturating_add(container.last.is_some().into());
                if let Some(count) = count {
                    container.n_before = *count;
                    *count = count.saturating_add(1);
                }
                container.state = State::Running(now);
            }
            Change::Exit(role, index, code) => self.exit(facts, role, index, code),
            Change::Retire(index) => {
                if let Some(container) = self.init.get_mut(index)
                    && let Some(last) = container.last.clone()
                {
                    container.state = State::Ended(last);
                }
            }
            Change::Cut(cut) => self.cut(facts, cut),
        }
    }

    fn exit(&mut self, facts: &Facts<'_>, role: Role, index: usize, code: i32) {
        let now = self.clock;
        let restarts = facts.restarts(role, index, code) && !(role == Role::Sidecar && self.main_ended());
        let Some(container) = self.container(role, index) else { return };
        let State::Running(since) = container.state else { return };
        let end = End { code, started: Some(since), finished: Some(now) };
        if !restarts {
            container.state = State::Ended(end);
            return;
        }
        // As the kubelet, which resets the backoff after twice the longest delay.
        if now >= later(since, facts.back_off.1.saturating_mul(2)) {
            container.n_waits = 0;
        }
        container.state = State::BackOff(later(now, wait(container.n_waits, facts.back_off)));
        container.n_waits = container.n_waits.saturating_add(1);
        container.last = Some(end);
    }

    /// Ends all containers immediately.
    fn cut(&mut self, facts: &Facts<'_>, cut: Cut) {
        let now = self.clock;
        let code = match cut {
            Cut::Completed => 0,
            Cut::Failed => 1,
            Cut::Evicted | Cut::DeadlineExceeded => SIGKILL,
            Cut::Stopped => facts.stop().1,
        };
        for container in self.init.iter_mut().chain(&mut self.main) {
            let end = match (&container.state, &container.last) {
                (State::Ended(_), _) => continue,
                (State::Running(since), _) => End { code, started: Some(*since), finished: Some(now) },
                (State::BackOff(_), Some(last)) => last.clone(),
                _ if cut == Cut::Completed => End { code, started: None, finished: None },
                _ => End { code: SIGKILL, started: None, finished: None },
            };
            container.state = State::Ended(end);
        }
        self.cut = Some(cut);
    }
}

#[cfg(test)]
#[path = "containers_tests.rs"]
mod tests;
