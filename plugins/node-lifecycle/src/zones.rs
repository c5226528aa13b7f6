//! The state of each zone, and how many of its Nodes may be tainted for eviction.
//!
//! | state | Nodes that are not ready | Nodes tainted per second |
//! | --- | --- | --- |
//! | `Normal` | fewer | the eviction rate |
//! | `PartialDisruption` | at least three, and a share of 0.55 | the secondary rate in a large zone, none in others |
//! | `FullDisruption` | all | the eviction rate; none if all zones are in this state |

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pintle_sdk::LONGEST_REQUEUE;
use plugin_lib::nodes::zone_key;
use plugin_lib::number::count;
use serde::{Deserialize, Serialize};

use crate::types::{Node, Settings};

/// Time between two passes of upstream over the Nodes that wait, in seconds. Rates beyond one Node in this time allow
/// several in one run.
#[doc(alias = "NodeEvictionPeriod")]
const EVICTION_PERIOD: f64 = 0.1;

/// Most Nodes of a zone that one run taints.
const MAX_BURST: f64 = 500.0;

/// Tolerance of sums of fractions.
const EPSILON: f64 = 1e-9;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ZoneState {
    #[default]
    Initial,
    Normal,
    PartialDisruption,
    FullDisruption,
}

/// The readiness of the Nodes of a zone that count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Readiness {
    pub(crate) n_ready: usize,
    pub(crate) n_not_ready: usize,
}

/// A zone, kept between passes: its state, and a bucket of tokens, one for each Node that may be tainted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Zone {
    pub(crate) state: ZoneState,
    /// Tokens per second; none if 0 or less.
    rate: f64,
    tokens: f64,
    /// When `tokens` was computed, in milliseconds since the host started.
    at: u64,
}

/// A change of the disruption of the whole cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disruption {
    None,
    /// From now on, no Node of any zone is ready.
    Begins,
    Ends,
}

/// The zones, and whether no Node of any zone is ready.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Zones {
    pub(crate) by_name: BTreeMap<String, Zone>,
    /// All zones are fully disrupted: probably this process, and not all Nodes, lost its connection. Nothing is evicted.
    pub(crate) is_halted: bool,
}

/// The zone of a Node: `REGION::ZONE`, empty if it has neither.
pub(crate) fn zone_of(node: &Node) -> String {
    zone_key(&node.metadata.labels).replace('\0', "")
}

/// The zone as a value of the label of metrics, as upstream writes it.
pub(crate) fn metric_label(zone: &str) -> String {
    // Neither part contains a colon.
    zone.replacen("::", ":\0:", 1)
}

#[allow(clippy::cast_precision_loss, reason = "numbers of Nodes, and times of less than 53 bits")]
fn seconds(millis: u64) -> f64 {
    millis as f64 / 1_000.0
}

impl Readiness {
    pub(crate) fn size(self) -> usize {
        self.n_ready + self.n_not_ready
    }

    /// With 32 bits, as upstream: the share that is exactly the threshold must be equal to it.
    #[doc(alias = "ComputeZoneState")]
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "as upstream")]
    fn state(self, threshold: f64) -> ZoneState {
        let share = self.n_not_ready as f32 / self.size() as f32;
        match self {
            Self { n_ready: 0, n_not_ready: 1.. } => ZoneState::FullDisruption,
            Self { n_not_ready: 3.., .. } if share >= threshold as f32 => ZoneState::PartialDisruption,
            Self { .. } => ZoneState::Normal,
        }
    }

    /// The percentage of ready Nodes.
    #[allow(clippy::cast_precision_loss, reason = "numbers of Nodes")]
    pub(crate) fn health(self) -> f64 {
        if self.size() == 0 { 100.0 } else { (100 * self.n_ready) as f64 / self.size() as f64 }
    }
}

impl Zone {
    /// A zone that is seen for the first time: one Node may be tainted at once.
    fn new(rate: f64, now: u64) -> Self {
        let mut zone = Self { state: ZoneState::Initial, rate, tokens: 0.0, at: now };
        zone.tokens = zone.burst();
        zone
    }

    #[doc(alias = "EvictionRateLimiterBurst")]
    fn burst(&self) -> f64 {
        (self.rate * EVICTION_PERIOD).clamp(1.0, MAX_BURST)
    }

    fn refill(&mut self, now: u64) {
        let earned = self.rate.max(0.0) * seconds(now.saturating_sub(self.at));
        self.tokens = (self.tokens + earned).min(self.burst());
        self.at = now;
    }

    /// Takes a token. Returns whether there was one.
    #[doc(alias = "TryAccept")]
    pub(crate) fn take(&mut self, now: u64) -> bool {
        self.refill(now);
        let is_there = self.rate > 0.0 && self.tokens >= 1.0 - EPSILON;
        if is_there {
            self.tokens = (self.tokens - 1.0).max(0.0);
        }
        is_there
    }

    /// Returns a token: the Node was not tainted.
    pub(crate) fn give_back(&mut self, now: u64) {
        self.refill(now);
        self.tokens = (self.tokens + 1.0).min(self.burst());
    }

    /// Time from `now` until there is a token; `None` if there will be none.
    pub(crate) fn until_token(&self, now: u64) -> Option<Duration> {
        let missing = 1.0 - self.tokens - self.rate * seconds(now.saturating_sub(self.at));
        let wait = Duration::try_from_secs_f64((missing / self.rate).max(0.0)).unwrap_or(LONGEST_REQUEUE);
        (self.rate > 0.0).then_some(wait)
    }

    /// Sets the rate. A bucket with a new rate is empty if the old one was.
    #[doc(alias = "SwapLimiter")]
    #[allow(clippy::float_cmp, reason = "the same setting, not a computed value")]
    fn set_rate(&mut self, rate: f64, now: u64) {
        if self.rate == rate {
            return;
        }
        let had_token = self.take(now);
        *self = Self { state: self.state, ..Self::new(rate, now) };
        if !had_token {
            self.tokens = 0.0;
        }
    }

    #[doc(alias = "setLimiterInZone", alias = "HealthyQPSFunc", alias = "ReducedQPSFunc")]
    fn enter(&mut self, state: ZoneState, size: usize, settings: &Settings, now: u64) {
        let is_large = count(size) > settings.large_cluster_size_threshold;
        let rate = match state {
            ZoneState::PartialDisruption if is_large => settings.secondary_eviction_rate,
            ZoneState::PartialDisruption => 0.0,
            ZoneState::Initial | ZoneState::Normal | ZoneState::FullDisruption => settings.eviction_rate,
        };
        self.set_rate(rate, now);
        self.state = state;
    }
}

impl Zones {
    /// Adds the zones of Nodes, and removes those without a Node. Returns the names of both, new ones first.
    #[doc(alias = "addPodEvictorForNewZone")]
    pub(crate) fn follow(
        &mut self,
        present: &BTreeSet<&str>,
        settings: &Settings,
        now: u64,
    ) -> (Vec<String>, Vec<String>) {
        let gone: Vec<String> = self.by_name.keys().filter(|name| !present.contains(name.as_str())).cloned().collect();
        self.by_name.retain(|name, _| !gone.contains(name));
        let is_new = |name: &&&str| !self.by_name.contains_key(**name);
        let new: Vec<String> = present.iter().filter(is_new).map(|name| (*name).to_owned()).collect();
        let rate = if self.is_halted { 0.0 } else { settings.eviction_rate };
        for name in &new {
            self.by_name.insert(name.clone(), Zone::new(rate, now));
        }
        (new, gone)
    }

    /// Sets the state and the rate of each zone. A zone without Nodes that count keeps its own.
    #[doc(alias = "handleDisruption")]
    pub(crate) fn update(
        &mut self,
        readiness: &BTreeMap<&str, Readiness>,
        settings: &Settings,
        now: u64,
    ) -> Disruption {
        let state = |readiness: &Readiness| readiness.state(settings.unhealthy_zone_threshold);
        let is_full = |readiness: &Readiness| state(readiness) == ZoneState::FullDisruption;
        let is_disrupted = !readiness.is_empty() && readiness.values().all(is_full);
        let was_disrupted = std::mem::replace(&mut self.is_halted, is_disrupted);
        for (name, zone) in &mut self.by_name {
            match readiness.get(name.as_str()) {
                _ if is_disrupted => {
                    zone.set_rate(0.0, now);
                    zone.state = ZoneState::FullDisruption;
                }
                Some(nodes) if was_disrupted || state(nodes) != zone.state => {
                    zone.enter(state(nodes), nodes.size(), settings, now);
                }
                None if was_disrupted => zone.enter(ZoneState::Initial, 0, settings, now),
                _ => {}
            }
        }
        match (was_disrupted, is_disrupted) {
            (false, true) => Disruption::Begins,
            (true, false) => Disruption::Ends,
            _ => Disruption::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `newNodeLifecycleControllerFromClient`, with rates that tests can follow.
    fn settings() -> Settings {
        Settings {
            monitor_period: 5_000,
            monitor_grace_period: 50_000,
            startup_grace_period: 60_000,
            eviction_rate: 0.1,
            secondary_eviction_rate: 0.01,
            large_cluster_size_threshold: 20,
            unhealthy_zone_threshold: 0.55,
            lease_circuit_breaker: true,
        }
    }

    #[test]
    fn the_state_depends_on_the_share_of_nodes_that_are_not_ready() {
        for (n_ready, n_not_ready, expected) in [
            (0, 0, ZoneState::Normal),
            (1, 0, ZoneState::Normal),
            (0, 1, ZoneState::FullDisruption),
            (1, 2, ZoneState::Normal),
            (2, 3, ZoneState::PartialDisruption),
            (9, 11, ZoneState::PartialDisruption),
            (46, 54, ZoneState::Normal),
            (45, 55, ZoneState::PartialDisruption),
            (0, 5_000, ZoneState::FullDisruption),
        ] {
            assert_eq!(Readiness { n_ready, n_not_ready }.state(0.55), expected, "{n_ready}, {n_not_ready}");
        }
    }

    #[test]
    fn a_zone_gives_a_token_at_once_and_then_at_its_rate_whatever_time_has_passed() {
        let mut zone = Zone::new(0.1, 1_000);
        assert!(zone.take(1_000) && !zone.take(1_000));
        assert_eq!(zone.until_token(1_000), Some(Duration::from_secs(10)));
        assert!(!zone.take(10_999) && zone.take(11_000));
        // A pause of an hour is worth one token.
        assert!(zone.take(3_611_000) && !zone.take(3_611_000));
        zone.give_back(3_611_000);
        assert!(zone.take(3_611_000));
        assert_eq!(Zone::new(0.0, 0).until_token(0), None);
        assert_eq!(Zone { rate: 1e-300, ..Zone::default() }.until_token(0), Some(LONGEST_REQUEUE));
    }

    /// `TestSwapLimiter`.
    #[test]
    fn another_rate_keeps_a_bucket_empty() {
        let mut zone = Zone::new(0.1, 0);
        zone.set_rate(0.0, 0);
        assert!(!zone.take(100_000));
        zone.set_rate(0.1, 100_000);
        assert!(!zone.take(109_999) && zone.take(110_000));
        zone.set_rate(0.1, 110_000);
        assert!(zone.take(120_000));
        let mut full = Zone::new(0.1, 0);
        full.set_rate(100.0, 0);
        assert_eq!((0..20).filter(|_| full.take(0)).count(), 10);
    }

    #[test]
    fn a_cluster_without_a_ready_node_halts_until_there_is_one() {
        let settings = settings();
        let mut zones = Zones::default();
        zones.follow(&BTreeSet::from(["a", "b"]), &settings, 0);
        let down = Readiness { n_ready: 0, n_not_ready: 2 };
        let up = Readiness { n_ready: 1, n_not_ready: 1 };
        let mut update = |a, b, now| {
            let changed = zones.update(&BTreeMap::from([("a", a), ("b", b)]), &settings, now);
            (changed, zones.by_name.values().map(|zone| zone.rate).collect::<Vec<_>>())
        };
        assert_eq!(update(down, up, 0), (Disruption::None, vec![0.1, 0.1]));
        assert_eq!(update(down, down, 1), (Disruption::Begins, vec![0.0, 0.0]));
        assert_eq!(update(down, down, 2), (Disruption::None, vec![0.0, 0.0]));
        assert_eq!(update(up, down, 3), (Disruption::Ends, vec![0.1, 0.1]));
        let (new, gone) = zones.follow(&BTreeSet::from(["b", "c"]), &settings, 4);
        assert_eq!((new, gone), (vec!["c".to_owned()], vec!["a".to_owned()]));
    }
}
