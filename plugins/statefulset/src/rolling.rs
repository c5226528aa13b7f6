//! The rolling update: replicas of another revision go, the highest ordinal first, and are created again by a later run.
//!
//! *Source*: the end of `updateStatefulSet`, and `updateStatefulSetAfterInvariantEstablished` for `maxUnavailable`.

use std::collections::BTreeSet;

use pintle_sdk::int_or_percent::IntOrPercent;
use pintle_sdk::{Lister, Mutation, Order, Resource as _};
use plugin_lib::failures::Failures as _;
use plugin_lib::pods;

use crate::context::Context;
use crate::history::revision;
use crate::pod_control;
use crate::set::Set;
use crate::status::is_unavailable;
use crate::types::Pod;

impl Set {
    /// How many replicas may be unavailable, at least one.
    #[doc(alias = "getStatefulSetMaxUnavailable")]
    pub(crate) fn max_unavailable(&self) -> i64 {
        let rolling = self.object.spec.update_strategy.rolling_update.as_ref();
        let number = rolling.and_then(|rolling| rolling.max_unavailable.as_ref());
        let replicas = i32::try_from(self.replicas).unwrap_or(i32::MAX);
        number.and_then(|number: &IntOrPercent| number.scaled(replicas, false)).map_or(1, i64::from).max(1)
    }
}

impl<'a, L: Lister> Context<'a, L> {
    /// Plans the rolling update; returns how many replicas of the current revision it costs.
    pub(crate) fn roll(&mut self, counts_max_unavailable: bool) -> i32 {
        if self.set.object.spec.update_strategy.type_ == "OnDelete" {
            return 0;
        }
        let chosen = match counts_max_unavailable {
            true => self.outdated_within_limit(),
            false => self.outdated_in_order().into_iter().collect(),
        };
        let refused = self.refused();
        let mut n_gone = 0;
        let mut deletes: Vec<Mutation> = Vec::new();
        for pod in chosen {
            if !refused.contains(pod.metadata.name.as_str()) {
                n_gone += 1;
            }
            // One that has ended goes already.
            if !pods::is_terminal(pod) {
                deletes.push(pod_control::delete(self.set, pod));
            }
        }
        self.writes.add(Order::Sequential, deletes);
        n_gone
    }

    /// The Pods that the previous run could not delete. They count until they are.
    fn refused(&self) -> BTreeSet<&'a str> {
        self.failures.of("delete", &Pod::KIND).map(|failure| failure.object.name.as_str()).collect()
    }

    fn is_outdated(&self, pod: &Pod) -> bool {
        revision(pod) != Some(self.revisions.update.name()) && !pod.metadata.is_deleting()
    }

    /// The highest replica that is outdated, if all above it are available.
    fn outdated_in_order(&self) -> Option<&'a Pod> {
        let lowest = self.set.start + self.set.partition();
        let mut next = self.set.start + self.set.replicas - 1;
        for (ordinal, pod) in self.replicas.wanted.iter().rev() {
            // One that is missing is not available.
            if *ordinal != next || next < lowest {
                return None;
            }
            if self.is_outdated(pod) {
                return Some(pod);
            }
            if is_unavailable(pod, self.set.min_ready_seconds(), self.now) {
                return None;
            }
            next -= 1;
        }
        None
    }

    /// The highest replicas that are outdated, as many as may be unavailable.
    fn outdated_within_limit(&self) -> Vec<&'a Pod> {
        let left = self.set.max_unavailable() - self.n_unavailable();
        let lowest = self.set.start + self.set.partition();
        let wanted = self.replicas.wanted.range(lowest..).rev().map(|(_, pod)| *pod);
        let n = usize::try_from(left).unwrap_or(0).min(self.writes.room());
        wanted.filter(|pod| self.is_outdated(pod)).take(n).collect()
    }

    /// How many wanted replicas are missing or not available.
    pub(crate) fn n_unavailable(&self) -> i64 {
        let min_ready = self.set.min_ready_seconds();
        let n_available = self.replicas.wanted.values().filter(|pod| !is_unavailable(pod, min_ready, self.now)).count();
        self.set.replicas - i64::try_from(n_available).unwrap_or(i64::MAX)
    }
}
