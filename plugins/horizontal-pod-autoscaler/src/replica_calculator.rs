//! How many replicas the values of a metric ask for.
//!
//! *Source*: upstream's `replica_calculator.go` and `metrics/utilization.go`. Where Go's conversions to 32 bits are undefined, values stay
//! at the end of the range.

use std::collections::BTreeMap;
use std::time::Duration;

use plugin_lib::selector::Selector;

use crate::context::Context;
use crate::metrics::Samples;
use crate::pods::{self, Groups, Readiness};
use crate::types::Pod;

/// The target of an autoscaler, and its Pods.
pub(crate) struct ReplicaCalculator<'a, L> {
    pub(crate) run: &'a Context<'a, L>,
    pub(crate) selector: &'a Selector,
    pub(crate) pods: &'a [Pod],
    pub(crate) replicas: i32,
    pub(crate) status_replicas: i32,
}

impl<L> ReplicaCalculator<'_, L> {
    /// For samples of Pods. The target is a share of the requests of a container, or of all if its name is empty; otherwise an amount.
    ///
    /// # Errors
    /// No Pod counts, or one does not have its request.
    pub(crate) fn by_pods(
        &self,
        samples: Samples,
        resource: &str,
        target: i64,
        of_container: Option<&str>,
    ) -> Result<Proposal, String> {
        let settings = &self.run.settings;
        let readiness = Readiness {
            cpu_initialization_period: Duration::from_millis(settings.cpu_initialization_period),
            initial_readiness_delay: Duration::from_millis(settings.initial_readiness_delay),
            now: self.run.now,
        };
        let mut measured = Measured { pods: self.pods, samples, resource, readiness: &readiness };
        let groups = measured.groups()?;
        let requests;
        let goal = match of_container {
            None => Goal::Usage(target),
            Some(container) => {
                requests = pods::requests(self.pods, container, resource, settings.pod_level_resources)?;
                Goal::Utilization(target as i32, &requests)
            }
        };
        measured.propose(&groups, self.replicas, &goal, self.run.tolerances())
    }

    /// For a value that all ready Pods share.
    ///
    /// # Errors
    /// There are no Pods.
    pub(crate) fn by_total(&self, usage: i64, target: i64) -> Result<i32, String> {
        for_total(self.replicas, usage, target, self.run.tolerances(), self.pods)
    }

    /// For a value that is divided by the number of replicas; and its average.
    pub(crate) fn by_share(&self, usage: i64, target: i64) -> (i32, i64) {
        let proposal = per_replica(self.status_replicas, usage, target, self.run.tolerances());
        (proposal.replicas, proposal.usage)
    }
}

/// Changes of the ratio of usage and target, from 1, that change nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tolerances {
    pub(crate) down: f64,
    pub(crate) up: f64,
}

impl Tolerances {
    fn includes(self, ratio: f64) -> bool {
        1.0 - self.down <= ratio && ratio <= 1.0 + self.up
    }
}

/// A number of replicas, and what the Pods use on average: in thousandths, and in percent of the request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Proposal {
    pub(crate) replicas: i32,
    pub(crate) usage: i64,
    pub(crate) utilization: i32,
}

/// What Pods should use.
pub(crate) enum Goal<'a> {
    /// A share of their requests, in percent.
    Utilization(i32, &'a BTreeMap<String, i64>),
    /// An amount, in thousandths.
    Usage(i64),
}

/// The Pods of a target, and which of them count.
pub(crate) struct Measured<'a> {
    pub(crate) pods: &'a [Pod],
    pub(crate) samples: Samples,
    /// Empty for metrics that are not of resources.
    pub(crate) resource: &'a str,
    pub(crate) readiness: &'a Readiness,
}

/// Usage in relation to the goal.
struct Ratio {
    ratio: f64,
    usage: i64,
    utilization: i32,
}

impl Goal<'_> {
    /// # Errors
    /// No sample is of a Pod with a request.
    fn ratio(&self, samples: &Samples) -> Result<Ratio, String> {
        let mut total = 0_i64;
        match self {
            Self::Usage(target) => {
                samples.values().for_each(|sample| total = total.saturating_add(sample.value));
                let usage = total / i64::try_from(samples.len()).unwrap_or(i64::MAX).max(1);
                Ok(Ratio { ratio: float(usage) / float(*target), usage, utilization: 0 })
            }
            Self::Utilization(target, requests) => {
                let (mut requested, mut n_samples) = (0_i64, 0_i64);
                for (pod, sample) in samples {
                    if let Some(request) = requests.get(pod) {
                        total = total.saturating_add(sample.value);
                        requested = requested.saturating_add(*request);
                        n_samples += 1;
                    }
                }
                if requested == 0 {
                    return Err("no metrics returned matched known pods".into());
                }
                let utilization = i128::from(total) * 100 / i128::from(requested);
                let utilization =
                    i32::try_from(utilization).unwrap_or(if utilization < 0 { i32::MIN } else { i32::MAX });
                let ratio = f64::from(utilization) / f64::from(*target);
                Ok(Ratio { ratio, usage: total / n_samples, utilization })
            }
        }
    }

    /// The value of a Pod without a sample, when the others use less than they should.
    fn most(&self, pod: &str) -> i64 {
        match self {
            Self::Usage(target) => *target,
            Self::Utilization(target, requests) => {
                let request = requests.get(pod).copied().unwrap_or_default();
                request.saturating_mul(i64::from((*target).max(100))) / 100
            }
        }
    }
}

impl Measured<'_> {
    /// Which Pods count.
    ///
    /// # Errors
    /// None of them.
    pub(crate) fn groups(&mut self) -> Result<Groups, String> {
        if self.pods.is_empty() {
            return Err("no pods returned by selector while calculating replica count".into());
        }
        let groups = Groups::new(self.pods, &self.samples, self.resource, self.readiness);
        self.samples.retain(|pod, _| !groups.ignored.contains(pod) && !groups.unready.contains(pod));
        if self.samples.is_empty() {
            return Err("did not receive metrics for targeted pods (pods might be unready)".into());
        }
        Ok(groups)
    }

    /// # Errors
    /// No sample is of a Pod with a request.
    pub(crate) fn propose(
        mut self,
        groups: &Groups,
        current: i32,
        goal: &Goal<'_>,
        tolerances: Tolerances,
    ) -> Result<Proposal, String> {
        let Ratio { ratio, usage, utilization } = goal.ratio(&self.samples)?;
        let proposal = |replicas| Proposal { replicas, usage, utilization };
        let rises_with_unready = !groups.unready.is_empty() && ratio > 1.0;
        if !rises_with_unready && groups.missing.is_empty() {
            let within = tolerances.includes(ratio);
            return Ok(proposal(if within { current } else { ceil(ratio * count(groups.n_ready)) }));
        }
        for pod in &groups.missing {
            if ratio < 1.0 {
                self.set(pod, goal.most(pod));
            } else if ratio > 1.0 {
                self.set(pod, 0);
            }
        }
        if rises_with_unready {
            groups.unready.iter().for_each(|pod| self.set(pod, 0));
        }
        let new = goal.ratio(&self.samples)?.ratio;
        let replicas = ceil(new * count(self.samples.len()));
        // A guess does not turn the direction.
        let turns = ratio < 1.0 && new > 1.0 || ratio > 1.0 && new < 1.0;
        let turns = turns || new < 1.0 && replicas > current || new > 1.0 && replicas < current;
        Ok(proposal(if tolerances.includes(new) || turns { current } else { replicas }))
    }

    fn set(&mut self, pod: &str, value: i64) {
        self.samples.entry(pod.to_owned()).or_default().value = value;
    }
}

/// For a value that all ready Pods share.
///
/// # Errors
/// There are no Pods.
fn for_total(current: i32, usage: i64, target: i64, tolerances: Tolerances, pods: &[Pod]) -> Result<i32, String> {
    let ratio = float(usage) / float(target);
    if current == 0 {
        return Ok(ceil(ratio));
    }
    if tolerances.includes(ratio) {
        return Ok(current);
    }
    if pods.is_empty() {
        let why = "no pods returned by selector while calculating replica count";
        return Err(format!("unable to calculate ready pods: {why}"));
    }
    Ok(ceil(ratio * count(crate::pods::n_ready(pods))))
}

/// For a value that is divided by the number of replicas.
fn per_replica(replicas: i32, usage: i64, target: i64, tolerances: Tolerances) -> Proposal {
    let within = tolerances.includes(float(usage) / (float(target) * f64::from(replicas)));
    let wanted = if within { replicas } else { ceil(float(usage) / float(target)) };
    // Of no replicas, Go's infinity becomes a number below all; of no usage either, too.
    let average = match replicas {
        _ if usage == i64::MAX => i64::MAX,
        0 => i64::MIN,
        _ => whole((float(usage) / f64::from(replicas)).ceil()),
    };
    Proposal { replicas: wanted, usage: average, utilization: 0 }
}

#[allow(clippy::cast_precision_loss, reason = "as upstream")]
fn float(value: i64) -> f64 {
    value as f64
}

#[allow(clippy::cast_precision_loss, reason = "as upstream")]
fn count(n: usize) -> f64 {
    n as f64
}

#[allow(clippy::cast_possible_truncation, reason = "a conversion of a float stays within the range")]
fn ceil(value: f64) -> i32 {
    value.ceil() as i32
}

#[allow(clippy::cast_possible_truncation, reason = "a conversion of a float stays within the range")]
fn whole(value: f64) -> i64 {
    value as i64
}
