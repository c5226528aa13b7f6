//! The scenarios.

mod aggregation;
pub(super) mod autoscalers;
mod budgets;
mod collection;
mod cronjob;
mod daemon_sets;
mod deployment;
mod ephemeral;
mod finished;
mod jobs;
mod namespace;
mod nodes;
mod pod_collection;
mod protection;
mod replicas;
mod rollout;
mod stateful;

use std::time::Duration;

use anyhow::Result;

use super::{Chance, Scenario, Stage};
use crate::eventually;

/// In how many steps a ReplicaSet is scaled.
const STEPS: Chance = Chance { steps: true, ..Chance::NONE };

/// Why [`STEPS`] are chance.
const MANY_AT_ONCE: &str = "as many Pods as become ready between two runs of the Deployment controller make one step";

/// The built-in controllers that scenarios are about, and the scenarios.
const GROUPS: &[(&[&str], &[&[Scenario]])] = &[
    (&["deployment-controller", "replicaset-controller"], &[deployment::SCENARIOS, rollout::SCENARIOS]),
    (&["replicaset-controller"], &[replicas::OF_REPLICA_SETS]),
    (&["replicationcontroller-controller"], &[replicas::OF_REPLICATION_CONTROLLERS]),
    (&["garbage-collector-controller"], &[collection::SCENARIOS]),
    (
        &["namespace-controller", "root-ca-certificate-publisher-controller", "serviceaccount-controller"],
        &[namespace::SCENARIOS],
    ),
    (&["ttl-after-finished-controller"], &[finished::SCENARIOS]),
    (&["persistentvolumeclaim-protection-controller"], &[protection::claims::SCENARIOS]),
    (&["persistentvolume-protection-controller"], &[protection::volumes::SCENARIOS]),
    (&["volumeattributesclass-protection-controller"], &[protection::classes::SCENARIOS]),
    (&["podgroup-protection-controller"], &[protection::groups::SCENARIOS]),
    (&["clusterrole-aggregation-controller"], &[aggregation::SCENARIOS]),
    (&["ttl-controller"], &[nodes::SCENARIOS]),
    (&["ephemeral-volume-controller"], &[ephemeral::SCENARIOS]),
    (&["pod-garbage-collector-controller"], &[pod_collection::SCENARIOS]),
    (&["cronjob-controller"], &cronjob::SCENARIOS),
    (
        &["daemonset-controller"],
        &[daemon_sets::placement::SCENARIOS, daemon_sets::rollout::SCENARIOS, daemon_sets::lifecycle::SCENARIOS],
    ),
    (
        &["job-controller"],
        &[jobs::completion::SCENARIOS, jobs::failure::SCENARIOS, jobs::indexes::SCENARIOS, jobs::pods::SCENARIOS],
    ),
    (
        &["horizontal-pod-autoscaler-controller"],
        &[
            autoscalers::limits::SCENARIOS,
            autoscalers::metrics::SCENARIOS,
            autoscalers::targets::SCENARIOS,
            autoscalers::other_metrics::SCENARIOS,
        ],
    ),
    (
        &["disruption-controller"],
        &[budgets::counting::SCENARIOS, budgets::evictions::SCENARIOS, budgets::pods::SCENARIOS],
    ),
    (
        &["statefulset-controller"],
        &[stateful::scaling::SCENARIOS, stateful::updates::SCENARIOS, stateful::claims::SCENARIOS],
    ),
];

/// All scenarios.
pub fn all() -> Vec<Scenario> {
    let mut all = Vec::new();
    for (controllers, parts) in GROUPS {
        all.extend(parts.concat().into_iter().map(|scenario| Scenario { controllers, ..scenario }));
    }
    all
}

/// How long one thing that a scenario waits for may take.
const DEADLINE: Duration = Duration::from_secs(300);

/// Waits until nothing is at the path.
async fn until_gone(s: &Stage, path: &str) -> Result<()> {
    eventually(DEADLINE, format!("{path} to be gone"), async || Ok(s.client.find(path).await?.is_none().then_some(())))
        .await
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_unique() {
        let mut names: Vec<&str> = super::all().iter().map(|s| s.name).collect();
        let n = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), n);
        assert!(n >= 25, "only {n} scenarios");
    }

    #[test]
    fn what_is_left_to_chance_has_a_reason_and_a_file() {
        for scenario in super::all() {
            let declared = scenario.chance != super::Chance::NONE;
            assert_eq!(declared, !scenario.reason.is_empty(), "{}", scenario.name);
            assert!(crate::workspace_dir().join(scenario.source).is_file(), "{}: {}", scenario.name, scenario.source);
        }
    }
}
