//! Whether a host is ready: its API server answers, and its plugins have started.
//!
//! Invariants:
//! 1. A plugin does not block the host: if the API server does not have its kinds, or refuses to list them, or if it is
//!    loaded later, the host is still ready. A built-in controller whose kinds the host may not list does block it: a
//!    host without its roles must not replace one that works.
//! 2. The API server counts as gone only if requests have failed for [`GONE_AFTER`] and none was answered meanwhile;
//!    one answer ends the outage.
//! 3. No clock: the time is an argument.

use std::time::{Duration, Instant};

use pintle_core::lifecycle::kinds::{MissingCause, MissingKind};
use pintle_core::object::id::Kind;
use pintle_core::policy::roles;

/// Time without an answered request after which the API server counts as gone. Discovery sends a request every 30 s,
/// and an ended watch is reopened immediately, so a stopped server is detected within a minute. If it were shorter, the
/// restart of an API server, which takes about ten seconds, would fail the probes of every host.
pub(crate) const GONE_AFTER: Duration = Duration::from_secs(20);

/// Whether the API server answers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reachability {
    /// The first failure after the last answer, and the code of the last failure.
    failing: Option<(Instant, Option<u16>)>,
    is_reported: bool,
}

/// The change caused by an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The API server now counts as gone.
    Gone,
    /// It answers again after this time.
    Back(Duration),
}

/// An API server that does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outage {
    /// Time since the first request that failed.
    pub(crate) lasts: Duration,
    /// The last status code sent by a proxy in front of the API server; absent without an answer.
    pub(crate) code: Option<u16>,
}

impl Reachability {
    /// Counts an attempt of a request, which ended with this status code or without an answer. A load balancer answers
    /// 502, 503 or 504 for API servers that are down.
    pub(crate) fn attempted(&mut self, code: Option<u16>, now: Instant) -> Option<Change> {
        if !matches!(code, None | Some(502..=504)) {
            let (since, _) = self.failing.take()?;
            let was_reported = std::mem::take(&mut self.is_reported);
            return was_reported.then(|| Change::Back(now.saturating_duration_since(since)));
        }
        let failing = self.failing.get_or_insert((now, code));
        failing.1 = code;
        let is_gone = now.saturating_duration_since(failing.0) >= GONE_AFTER;
        (is_gone && !std::mem::replace(&mut self.is_reported, is_gone)).then_some(Change::Gone)
    }

    /// The outage, if the API server counts as gone.
    pub(crate) fn outage(&self, now: Instant) -> Option<Outage> {
        let (since, code) = self.failing?;
        let lasts = now.saturating_duration_since(since);
        (lasts >= GONE_AFTER).then_some(Outage { lasts, code })
    }
}

/// Whether the plugins of a host have started.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StartupGate {
    is_over: bool,
}

/// A plugin at startup.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Starting<'p> {
    /// Its name.
    pub(crate) name: &'p str,
    /// Whether it is built into the host.
    pub(crate) is_built_in: bool,
    /// Whether its caches are synced.
    pub(crate) synced: bool,
    /// Watched kinds whose list is incomplete.
    pub(crate) missing: &'p [MissingKind],
}

impl Starting<'_> {
    /// Its name and the kinds that it may not list; `None` if the host does not wait for it.
    fn waits(&self) -> Option<String> {
        let refused: Vec<String> = self.refused().map(|(kind, _)| kind.to_string()).collect();
        let is_stuck = self.missing.iter().any(MissingKind::is_stuck);
        match self.synced {
            true => None,
            false if !refused.is_empty() => Some(format!("{} (may not list {})", self.name, refused.join(", "))),
            false => (!is_stuck).then(|| self.name.to_owned()),
        }
    }

    /// The kinds that a built-in controller may not list, each with the message of the API server.
    fn refused(&self) -> impl Iterator<Item = (&Kind, &str)> {
        let missing = if self.is_built_in && !self.synced { self.missing } else { &[] };
        missing.iter().filter_map(|missing| match &missing.cause {
            MissingCause::Refused(message) => Some((&missing.kind, message.as_str())),
            _ => None,
        })
    }
}

impl StartupGate {
    /// The plugins that the host waits for, each with the reason if it needs an action, and the remedy for refusals;
    /// `None` after the host was ready once.
    pub(crate) fn waits_for(&mut self, plugins: &[Starting<'_>]) -> Option<String> {
        if self.is_over {
            return None;
        }
        let waiting: Vec<String> = plugins.iter().filter_map(Starting::waits).collect();
        self.is_over = waiting.is_empty();
        let refusal = plugins.iter().find_map(|plugin| plugin.refused().next());
        let advice = refusal.map(|(_, message)| format!("; {message}: {}", roles::advice(message)));
        (!self.is_over).then(|| waiting.join(", ") + &advice.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn an_api_server_is_gone_after_the_bound_and_back_with_one_answer() {
        let start = Instant::now();
        let mut reach = Reachability::default();
        assert_eq!(reach.attempted(Some(200), start), None);
        assert_eq!(reach.attempted(None, start + seconds(5)), None);
        assert_eq!(reach.attempted(Some(503), start + seconds(24)), None);
        assert_eq!(reach.outage(start + seconds(24)), None, "19 s");
        // Time passes without a request or an answer.
        assert_eq!(reach.outage(start + seconds(25)), Some(Outage { lasts: GONE_AFTER, code: Some(503) }));
        assert_eq!(reach.attempted(None, start + seconds(30)), Some(Change::Gone));
        assert_eq!(reach.attempted(None, start + seconds(40)), None, "reported once");
        assert_eq!(reach.outage(start + seconds(40)), Some(Outage { lasts: seconds(35), code: None }));
        assert_eq!(reach.attempted(Some(403), start + seconds(45)), Some(Change::Back(seconds(40))));
        assert_eq!(reach.outage(start + seconds(1000)), None);
    }

    proptest! {
        /// Compared with the whole history: gone if and only if all of the last attempts failed and began long enough
        /// ago.
        #[test]
        fn an_outage_is_what_the_history_shows(
            attempts in prop::collection::vec((prop::sample::select(vec![None, Some(200), Some(404), Some(502), Some(504)]), 0..15_u64), 0..30),
            later in 0..40_u64,
        ) {
            let start = Instant::now();
            let (mut reach, mut now, mut history) = (Reachability::default(), start, Vec::new());
            let mut is_gone = false;
            for (code, pause) in attempts {
                now += seconds(pause);
                history.push((now, code));
                match reach.attempted(code, now) {
                    Some(Change::Gone) => prop_assert!(!std::mem::replace(&mut is_gone, true)),
                    Some(Change::Back(_)) => prop_assert!(std::mem::take(&mut is_gone)),
                    None => {}
                }
            }
            now += seconds(later);
            let failed = |(_, code): &&(Instant, Option<u16>)| matches!(code, None | Some(502..=504));
            let first = history.iter().rev().take_while(failed).last();
            let lasts = first.map(|(at, _)| now - *at).filter(|lasts| *lasts >= GONE_AFTER);
            prop_assert_eq!(reach.outage(now).map(|outage| outage.lasts), lasts);
        }
    }

    #[test]
    fn a_host_waits_for_lists_in_progress_and_not_for_kinds_that_it_may_not_list() {
        let missing = |cause| [MissingKind { kind: "v1/Pod".parse().unwrap(), cause }];
        let listing = missing(MissingCause::Listing);
        let refused = missing(MissingCause::Refused("no".into()));
        let unknown = missing(MissingCause::Unknown);
        let plugin = |name, synced, missing| Starting { name, is_built_in: false, synced, missing };
        let mut gate = StartupGate::default();
        let waits = gate.waits_for(&[
            plugin("a", false, &listing),
            plugin("b", false, &refused),
            plugin("c", false, &unknown),
            plugin("d", false, &[]),
            plugin("e", true, &[]),
        ]);
        assert_eq!(waits.as_deref(), Some("a, d"));
        assert_eq!(gate.waits_for(&[plugin("a", true, &[]), plugin("b", false, &refused)]), None);
        assert_eq!(gate.waits_for(&[plugin("f", false, &listing)]), None, "it was loaded later");
    }

    #[test]
    fn a_host_waits_for_the_rights_of_its_built_in_controllers() {
        let missing = |kind: &str, cause| MissingKind { kind: kind.parse().unwrap(), cause };
        let refused = |kind| missing(kind, MissingCause::Refused("it is forbidden".into()));
        let (many, refused) = ([refused("v1/Pod"), refused("v1/Node")], [refused("v1/Pod")]);
        let absent = [missing("v1/Pod", MissingCause::NotServed { other_version: None })];
        let built_in = |name, synced, missing| Starting { name, is_built_in: true, synced, missing };
        let mut gate = StartupGate::default();
        let waits = [built_in("a", false, &many), built_in("b", false, &absent), built_in("c", false, &refused)];
        let expected = "a (may not list v1/Pod, v1/Node), c (may not list v1/Pod); it is forbidden: run, as an administrator, \
                        `pintle rbac | kubectl apply -f -`";
        assert_eq!(gate.waits_for(&waits).as_deref(), Some(expected));
        assert_eq!(gate.waits_for(&[built_in("a", true, &[])]), None);
        assert_eq!(gate.waits_for(&[built_in("a", false, &refused)]), None, "it was ready");
    }
}
