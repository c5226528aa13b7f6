//! How fast the controllers of Jobs, StatefulSets, DaemonSets, CronJobs, HorizontalPodAutoscalers, Services, quotas and certificates
//! work, each one alone, and the two that taint lost Nodes and delete their Pods.
//!
//! ```text
//! fresh control plane -> (nodes, metrics, Pods) -> subject -> probe -> rest -> workloads made -> status of each says done -> rest
//!                                                                        |  finisher runs the Pods  |
//! ```
//!
//! Subjects have the same flags, and no rate limit. Nodes, Pods' statuses and metrics come from this process, so that they are not
//! processor time of a subject, but they share the machine with it.

mod autoscalers;
mod certificates;
mod cron_jobs;
mod finisher;
mod leases;
mod nodes;
mod pods;
mod quotas;
mod services;
mod watched;

use std::time::Duration;

use anyhow::Result;

use self::nodes::Nodes;
use self::pods::Workloads;
use self::services::Services;
use crate::arguments::Args;
use crate::report::{self, Implementation, Sample};
use crate::rounds;

/// What is measured.
#[derive(Clone, Copy)]
pub(crate) enum Measured {
    Pods(Workloads),
    CronJobs(usize),
    Autoscalers(usize),
    Services(Services),
    /// The Pods that it counts.
    Quota(usize),
    Certificates(usize),
    Nodes(Nodes),
}

pub(crate) const SCENARIOS: [(&str, Measured); 11] = [
    ("jobs-100x30", Measured::Pods(Workloads::Jobs { n: 100, completions: 30, parallelism: 30 })),
    ("job-1x3000", Measured::Pods(Workloads::Jobs { n: 1, completions: 3_000, parallelism: 500 })),
    ("statefulsets-100x10", Measured::Pods(Workloads::StatefulSets { n: 100, replicas: 10 })),
    ("daemonset-3000", Measured::Pods(Workloads::DaemonSet { nodes: 3_000 })),
    ("cronjobs-500", Measured::CronJobs(500)),
    ("hpas-200", Measured::Autoscalers(200)),
    ("service-5000", Measured::Services(Services::Rolled { pods: 5_000 })),
    ("services-1000x5", Measured::Services(Services::Many { n: 1_000, pods: 5 })),
    ("quota-3000", Measured::Quota(3_000)),
    ("csrs-2000", Measured::Certificates(2_000)),
    ("nodes-5000", Measured::Nodes(Nodes { n: 5_000, one_in: 10, idle: Duration::from_secs(300) })),
];

impl Measured {
    /// What the rate counts.
    fn unit(self) -> &'static str {
        match self {
            Measured::Pods(_) | Measured::Quota(_) => "Pods",
            Measured::CronJobs(_) => "Jobs",
            Measured::Autoscalers(_) => "scalings",
            Measured::Services(services) => services.unit(),
            Measured::Certificates(_) => "certificates",
            Measured::Nodes(_) => "Nodes",
        }
    }

    async fn sample(self, args: &Args, implementation: Implementation) -> Result<Sample> {
        match self {
            Measured::Pods(workloads) => pods::measure(args, implementation, workloads).await,
            Measured::CronJobs(n) => cron_jobs::measure(args, implementation, n).await,
            Measured::Autoscalers(n) => autoscalers::measure(args, implementation, n).await,
            Measured::Services(services) => services::measure(args, implementation, services).await,
            Measured::Quota(n) => quotas::measure(args, implementation, n).await,
            Measured::Certificates(n) => certificates::measure(args, implementation, n).await,
            Measured::Nodes(nodes) => nodes::measure(args, implementation, nodes).await,
        }
    }
}

/// Measures the wanted ones and reports them, if there are any.
pub(crate) async fn workloads(args: &Args) -> Result<()> {
    let others = |_| [Implementation::KubeControllerManager].as_slice();
    let sample = async |measured: Measured, implementation| measured.sample(args, implementation).await;
    let samples = rounds::measure(args, &SCENARIOS, others, sample).await?;
    if samples.is_empty() {
        return Ok(());
    }
    let rows = SCENARIOS.map(|(name, measured)| (name, measured.unit()));
    report::report(&samples, &rows, "workloads.json")?;
    if args.wants("hpas-200") {
        println!(
            "hpas-200: seconds to scale all up and all down again; CPU seconds of a sync period of 5 s without a change"
        );
    }
    if args.wants("service-5000") {
        println!(
            "service-5000: endpoints per second until the slices have all; seconds to replace all Pods, 100 at a time; \
             CPU seconds of both"
        );
    }
    if args.wants("quota-3000") {
        println!(
            "quota-3000: Pods created and Pods deleted per second; seconds to create and count all, and to delete all"
        );
    }
    if args.wants("nodes-5000") {
        println!(
            "nodes-5000: seconds from the loss of a tenth of the Nodes until all of these are tainted and their Pods \
             deleted, with 50 s of grace and 5 s of toleration; CPU seconds of this, and of five minutes without a change"
        );
    }
    Ok(())
}
