//! Costs of a cached Pod with 7, 20 and 40 plugins that watch Pods, as a table: memory, and the processor time of a
//! change until the store shows it, of a change with the rules of all plugins, and of a read.
//!
//! The fields are those that the controllers of kube-controller-manager read from Pods. Of 40 plugins, 20 read an
//! additional annotation. Each row is measured in its own process, so that memory is separate.

mod common;

use std::error::Error;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use pintle_cache::{Caches, CachesConfig, RunContext};
use pintle_core::object::id::Kind;
use pintle_core::ports::view::{OwnedBy, Query};

use crate::common::{N_PODS, PODS_PER_OWNER, Server, resident_bytes, subscribe, time_of_changes, uid};

const N_CHANGES: u64 = 20_000;

const LABELS: &str = "metadata.labels";
const OWNERS: &str = "metadata.ownerReferences";
const DELETED: &str = "metadata.deletionTimestamp";
const CREATED: &str = "metadata.creationTimestamp";
const NODE: &str = "spec.nodeName";
const VOLUMES: &str = "spec.volumes";
const PHASE: &str = "status.phase";
const CONDITIONS: &str = "status.conditions";

/// Pod fields by controller; the first is ReplicaSet, Deployment and so on, as in the table of upstream's controllers.
const CONTROLLERS: [&[&str]; 20] = [
    &[LABELS, OWNERS, CREATED, DELETED, NODE, PHASE, CONDITIONS, "status.containerStatuses.restartCount"],
    &[PHASE],
    &[OWNERS, DELETED, "metadata.finalizers"],
    &[LABELS, OWNERS, DELETED, PHASE, CONDITIONS, VOLUMES, "spec.hostname"],
    &[LABELS, OWNERS, DELETED, PHASE, CONDITIONS, NODE, "status.reason"],
    &[LABELS, OWNERS, DELETED, PHASE, CONDITIONS, "metadata.finalizers", "status.containerStatuses.state"],
    &[LABELS, OWNERS, DELETED, PHASE, CONDITIONS],
    &[LABELS, DELETED, PHASE, CONDITIONS, "status.startTime", "spec.containers.name", "spec.containers.resources"],
    &[PHASE, "spec.schedulingGroup"],
    &[LABELS, DELETED, PHASE, CONDITIONS, NODE, "status.podIPs", "spec.hostname", "spec.containers.ports"],
    &[LABELS, DELETED, PHASE, CONDITIONS, NODE, "status.podIPs", "spec.subdomain", "spec.containers.ports"],
    &[NODE, CONDITIONS],
    &[NODE, CONDITIONS, "spec.tolerations"],
    &[NODE, "spec.resourceClaims", "status.resourceClaimStatuses"],
    &[PHASE, NODE, DELETED, CREATED, "status.reason"],
    &[PHASE, DELETED, "spec.containers.resources", "spec.initContainers.resources", "spec.overhead", "spec.priority"],
    &["spec.volumes.secret", "spec.containers.env", "spec.containers.envFrom", "spec.imagePullSecrets"],
    &[VOLUMES],
    &[VOLUMES, NODE, PHASE, DELETED],
    &[VOLUMES, "spec.securityContext", "spec.containers.volumeMounts", "spec.containers.securityContext"],
];

fn main() -> Result<(), Box<dyn Error>> {
    match std::env::args().nth(1).and_then(|n| n.parse().ok()) {
        Some(n_plugins) => measure(n_plugins),
        None => {
            println!(
                "| plugins | bytes of a cached Pod, resident | by our own count | us of a change | with rules | us of a read |"
            );
            println!("| --- | --- | --- | --- | --- | --- |");
            for n_plugins in ["7", "20", "40"] {
                Command::new(std::env::current_exe()?).arg(n_plugins).status()?;
            }
            Ok(())
        }
    }
}

fn watches(plugin: usize) -> String {
    let mut fields: Vec<String> = CONTROLLERS[plugin % 20].iter().map(|field| format!("{field:?}")).collect();
    if plugin >= 20 {
        fields.push(format!("\"metadata.annotations['example.com/{plugin}']\""));
    }
    format!(
        r#"[{{"kind":"v1/Pod","fields":[{}],"enqueue":[{{"to":"self","changed":[{}]}}]}}]"#,
        fields.join(","),
        fields[0]
    )
}

fn measure(n_plugins: usize) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let _entered = runtime.enter();
    let before = resident_bytes();
    let (resident, pods) = {
        let (_, caches, _subscriptions) = cached(&runtime, n_plugins, false);
        let pods = caches.stats().iter().map(|stats| stats.cached_bytes).sum::<u64>();
        (resident_bytes() - before, pods)
    };
    let time = |with_rules: bool| {
        let (server, _caches, subscriptions) = cached(&runtime, n_plugins, with_rules);
        let mut version = 1_000_000;
        // The last plugin receives a change after all others.
        let (_, last) = &subscriptions[n_plugins - 1];
        let times = (0..5).map(|_| time_of_changes(&server, last, &mut version, N_CHANGES, processor_time));
        times.min().unwrap_or_default().as_secs_f64() * 1e6 / N_CHANGES as f64
    };
    let (change, with_rules) = (time(false), time(true));
    let (_, _caches, subscriptions) = cached(&runtime, n_plugins, false);
    let kind = Kind::new("", "v1", "Pod");
    let of_owner = |owner| Query { owner: Some(OwnedBy::Controller(uid(2, owner))), ..Query::default() };
    let views: Vec<_> = subscriptions.iter().map(|(plugin, _)| plugin.snapshot().view(RunContext::default())).collect();
    let read = |owner| -> usize {
        let query = of_owner(owner);
        views.iter().map(|view| view.list(&kind, &query).map_or(0, |pods| pods.len())).sum()
    };
    assert_eq!(read(0), n_plugins * PODS_PER_OWNER);
    let begin = processor_time();
    let n_reads: usize = (0..5 * N_PODS / PODS_PER_OWNER).map(|i| read(i % (N_PODS / PODS_PER_OWNER))).sum();
    let read = (processor_time() - begin).as_secs_f64() * 1e6 / n_reads as f64;
    println!(
        "| {n_plugins} | {:.0} | {:.0} | {change:.1} | {with_rules:.1} | {read:.2} |",
        resident / N_PODS as f64,
        pods as f64 / N_PODS as f64,
    );
    Ok(())
}

type Subscriptions = Vec<(Arc<pintle_cache::Subscription>, Arc<common::Mapping>)>;

/// Caches with all Pods, for these plugins.
fn cached(
    runtime: &tokio::runtime::Runtime,
    n_plugins: usize,
    with_rules: bool,
) -> (Arc<Server>, Arc<Caches>, Subscriptions) {
    let server = Arc::new(Server::default());
    let caches = Caches::new(server.clone(), CachesConfig::default());
    let subscriptions: Subscriptions =
        (0..n_plugins).map(|i| subscribe(&caches, &format!("p{i}"), &watches(i), with_rules)).collect();
    runtime.block_on(async {
        for (subscription, _) in &subscriptions {
            subscription.synced().await;
        }
    });
    (server, caches, subscriptions)
}

/// Processor time of this process, in steps of 10 ms: it does not depend on the load of the machine.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let ticks = stat.split(' ').skip(13).take(2).filter_map(|ticks| ticks.parse::<u64>().ok());
    Duration::from_millis(10 * ticks.sum::<u64>())
}
