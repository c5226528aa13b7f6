//! Costs of the caches: bytes of a cached Pod, and the time of a change from its frame to its keys, of a snapshot and
//! of reads, with 20,000 Pods and the fields that the Deployment, ReplicaSet and garbage collector controllers declare.

mod common;

use std::sync::Arc;
use std::time::Instant;

use criterion::Criterion;
use pintle_cache::{Caches, CachesConfig, Delta, RunContext};
use pintle_core::object::id::{Kind, ObjectKey};
use pintle_core::object::ingest::{IngestPlan, Ingester, Needs};
use pintle_core::ports::view::{OwnedBy, Query};

use crate::common::{N_PODS, PODS_PER_OWNER, Server, resident_bytes, subscribe, time_of_changes, uid};

const REPLICA_SETS: &str = r#"{"kind":"apps/v1/ReplicaSet","whole":true,"enqueue":[{"to":"self"}],
    "selects":{"field":"spec.selector","form":"labelSelector"}}"#;
const PODS: &str = r#"{"kind":"v1/Pod","fields":["metadata.labels","metadata.ownerReferences","metadata.deletionTimestamp",
    "metadata.creationTimestamp","spec.nodeName","status.phase","status.conditions","status.containerStatuses.restartCount"],
    "enqueue":[{"to":"controller","kind":"apps/v1/ReplicaSet"},{"to":"selecting","kind":"apps/v1/ReplicaSet","orphans":true}]}"#;
const PODS_OF_DEPLOYMENTS: &str = r#"{"kind":"v1/Pod","fields":["metadata.ownerReferences","status.phase"],
    "enqueue":[{"to":"controller","kind":"apps/v1/Deployment","via":["apps/v1/ReplicaSet"],"on":["delete"]}]}"#;
const EVERYTHING: &str = r#"{"every":{"verbs":["delete"]},"fields":["metadata.ownerReferences","metadata.finalizers",
    "metadata.deletionTimestamp"],"enqueue":[{"to":"self","dangling":true}]}"#;

/// Deployments here have the names of Nodes and service accounts.
const BY_INDEX: &str = r#"[{"kind":"v1/Pod","fields":["spec.nodeName"],"indexes":[{"name":"node","field":"spec.nodeName"},
    {"name":"account","field":"spec.serviceAccountName"}]},{"kind":"apps/v1/Deployment","enqueue":[
    {"to":"indexed","kind":"v1/Pod","index":"node"},{"to":"indexed","kind":"v1/Pod","index":"account"}]}]"#;

/// A change of an object with this name.
fn change_of(name: &str) -> Delta {
    let kind = Kind::new("apps", "v1", "Deployment");
    let plan = IngestPlan::new(kind.clone(), Needs::default());
    let json = format!(r#"{{"metadata":{{"name":"{name}","namespace":"default","uid":"u"}}}}"#);
    match Ingester::default().ingest(&plan, &json) {
        Ok(object) => Delta { kind, old: None, new: Some(Arc::new(object)), initial: false },
        Err(why) => panic!("{why}"),
    }
}

fn main() {
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(why) => panic!("{why}"),
    };
    let _entered = runtime.enter();
    let server = Arc::new(Server::default());
    let caches = Caches::new(server.clone(), CachesConfig::default());
    let before = resident_bytes();
    let subscribe = |name: &str, watches: String| subscribe(&caches, name, &watches, true);
    let (replica_sets, handler) = subscribe("replicaset", format!("[{REPLICA_SETS},{PODS}]"));
    let (deployments, _) = subscribe("deployment", format!("[{REPLICA_SETS},{PODS_OF_DEPLOYMENTS}]"));
    let (garbage, _) = subscribe("garbage", format!("[{EVERYTHING}]"));
    let begin = Instant::now();
    runtime.block_on(async {
        for subscription in [&replica_sets, &deployments, &garbage] {
            subscription.synced().await;
        }
    });
    let elapsed = begin.elapsed();
    let stats = caches.stats();
    let pods = stats.iter().find(|stats| &*stats.kind.name == "Pod").map_or(0, |stats| stats.cached_bytes);
    println!(
        "{N_PODS} Pods for 3 plugins: {:.0} bytes of resident memory each ({:.1} MB in all), {:.0} bytes by our own count; first list in {elapsed:?}",
        (resident_bytes() - before) / N_PODS as f64,
        (resident_bytes() - before) / 1e6,
        pods as f64 / N_PODS as f64,
    );

    let mut criterion = Criterion::default().configure_from_args();
    let mut version = 1_000_000;
    criterion.bench_function("a change of a Pod, from its line to the keys of 3 plugins", |b| {
        let start = Instant::now();
        b.iter_custom(|n| time_of_changes(&server, &handler, &mut version, n, || start.elapsed()));
    });
    let (by_index, _) = subscribe("index", BY_INDEX.to_owned());
    runtime.block_on(by_index.synced());
    let snapshot = by_index.snapshot();
    for (name, n_keys) in [("node-7", N_PODS / 100), ("default", N_PODS), ("nobody", 0)] {
        let change = change_of(name);
        assert_eq!(snapshot.keys(&change).len(), n_keys);
        let title = format!("a change to the {n_keys} of {N_PODS} Pods with a value of an index");
        criterion.bench_function(&title, |b| b.iter(|| snapshot.keys(&change)));
    }
    criterion.bench_function("a snapshot of 2 kinds", |b| b.iter(|| replica_sets.snapshot()));
    criterion.bench_function("a snapshot of every kind", |b| b.iter(|| garbage.snapshot()));
    let view = replica_sets.snapshot().view(RunContext::default());
    let kind = Kind::new("", "v1", "Pod");
    let key = ObjectKey::new("default", "web-00100-5d4f8c7b9d-010050");
    assert!(view.get(&kind, &key).is_ok_and(|pod| pod.is_some()));
    criterion.bench_function("a get", |b| b.iter(|| view.get(&kind, &key).is_ok()));
    let query = Query {
        namespace: Some("default".into()),
        owner: Some(OwnedBy::ControllerOrOrphan(uid(2, 100))),
        ..Query::default()
    };
    assert!(view.list(&kind, &query).is_ok_and(|pods| pods.len() == PODS_PER_OWNER));
    criterion.bench_function("a list of the 100 Pods of one owner", |b| b.iter(|| view.list(&kind, &query).is_ok()));
    criterion.final_summary();
}
