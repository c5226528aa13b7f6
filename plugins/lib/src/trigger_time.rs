//! The time of the change that caused an update of endpoints: the annotation
//! `endpoints.kubernetes.io/last-change-trigger-time`.
//!
//! It is the earliest new time since the last run: the time at which a Pod's readiness changed, or the creation of the
//! Service. For a Service that is new to the host, it is the creation.
//!
//! *Source*: `util/trigger_time_tracker.go` of `k8s.io/endpointslice`. As there, a failed run also counts.

use std::collections::BTreeMap;

use pintle_sdk::hash::{fnv32, fnv32a};
use pintle_sdk::time::Timestamp;
use pintle_sdk::{Lister, ObjectKey, Outcome};
use serde::{Deserialize, Serialize};

use crate::services::Pod;
use crate::state::Record;

/// The annotation.
#[doc(alias = "EndpointsLastChangeTriggerTime")]
pub const ANNOTATION: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// The times of a Service in one run.
#[derive(Debug)]
#[doc(alias = "TriggerTimeTracker")]
pub struct TriggerTimes {
    record: Record<Times>,
    new: Times,
}

/// Seconds since 1970.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Times {
    service: Option<i64>,
    /// By a hash of the Pod's name, because a Service can have thousands of Pods.
    pods: BTreeMap<String, i64>,
}

impl TriggerTimes {
    /// Reads the times of a Service and its Pods.
    pub fn of(lister: &impl Lister, service: &ObjectKey, created: Option<Timestamp>, pods: &[Pod]) -> Self {
        let times = pods.iter().filter_map(|pod| {
            let ready = pod.status.conditions.iter().find(|condition| condition.type_ == "Ready")?;
            let name = pod.metadata.name.as_bytes();
            let name = format!("{:08x}{:08x}", fnv32(name), fnv32a(name));
            Some((name, seconds(ready.last_transition_time?)))
        });
        Self { record: record(lister, service), new: Times { service: created.map(seconds), pods: times.collect() } }
    }

    /// The value of the annotation; `None` if nothing has changed.
    #[doc(alias = "ComputeEndpointLastChangeTriggerTime")]
    #[must_use]
    pub fn last_change(&self) -> Option<String> {
        let changed = match self.record.get() {
            // New to the host.
            None => self.new.service,
            Some(old) => {
                let pods = self.new.pods.iter();
                let pods = pods.filter(|(name, time)| old.pods.get(*name).is_none_or(|old| *time > old));
                let service = self.new.service.filter(|created| Some(*created) > old.service);
                pods.map(|(_, time)| *time).chain(service).min()
            }
        };
        changed.map(|seconds| Timestamp::from_micros(seconds.saturating_mul(1_000_000)).to_string())
    }

    /// Stores the times for the next run.
    #[must_use]
    pub fn keep(&self, outcome: Outcome) -> Outcome {
        self.record.keep(outcome, &self.new)
    }
}

/// Removes the times of a deleted Service.
#[must_use]
pub fn forget(lister: &impl Lister, service: &ObjectKey, outcome: Outcome) -> Outcome {
    record(lister, service).forget(outcome)
}

fn record(lister: &impl Lister, service: &ObjectKey) -> Record<Times> {
    Record::read(lister, service.state_name("trigger-times"))
}

fn seconds(time: Timestamp) -> i64 {
    time.as_micros().div_euclid(1_000_000)
}
