//! Services of Pods that are ready: how fast their EndpointSlices have all of them, and how fast they follow when Pods are replaced.
//!
//! This process makes the Pods and runs them, as kubelets do. The API server logs who writes slices.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use pintle_tests::controlplane::{Audit, SUBJECT};
use pintle_tests::{ApiClient, ControlPlane, Options, PATIENCE, eventually};
use serde_json::{Value, json};

use super::finisher::{Fate, status};
use super::pods::{node, node_name};
use super::watched::Events;
use crate::arguments::Args;
use crate::objects::{create_all, delete_all, patch_each, prepare};
use crate::report::{Implementation, Sample};
use crate::running::{probe_name, start_unprobed, usage_at_rest};

const CONTROLLER: &str = "endpointslice-controller";
const PODS: &str = "/api/v1/namespaces/bench/pods";

/// How many Nodes the Pods are on.
const N_NODES: usize = 100;

/// How many Pods are replaced at once.
const BATCH: usize = 100;

/// Begins the name of each Pod; its number follows.
const POD: &str = "pod-";

/// Services with the same number of Pods each.
#[derive(Clone, Copy)]
pub(crate) enum Services {
    /// One, whose Pods are replaced once its slices have them all.
    Rolled { pods: usize },
    /// Many, whose Pods stay.
    Many { n: usize, pods: usize },
}

impl Services {
    /// What the rate counts.
    pub(super) fn unit(self) -> &'static str {
        match self {
            Services::Rolled { .. } => "endpoints",
            Services::Many { .. } => "Services",
        }
    }

    /// How many there are, and the Pods of each.
    fn sizes(self) -> (usize, usize) {
        match self {
            Services::Rolled { pods } => (1, pods),
            Services::Many { n, pods } => (n, pods),
        }
    }

    /// A Pod, and what takes its place, have the same Service.
    fn pod(self, number: usize) -> Value {
        let (n, pods) = self.sizes();
        let containers =
            json!([{"name": "app", "image": "registry.example/app:1", "ports": [{"containerPort": 8080}]}]);
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("{POD}{number}"), "labels": {"app": app(number / pods % n)}},
            "spec": {"nodeName": node_name(number % N_NODES), "containers": containers},
        })
    }
}

/// Rate: until the slices have all Pods. Seconds: until they have those that replace all of these, or, if none is replaced, the time
/// that the rate is of.
pub(super) async fn measure(args: &Args, implementation: Implementation, services: Services) -> Result<Sample> {
    let plane = ControlPlane::start(Options { audit: Some(Audit::Writes), ..Options::default() }).await?;
    let client = plane.client();
    prepare(&client).await?;
    // A Pod on a Node that does not exist is no endpoint.
    create_all(&client, "/api/v1/nodes", (0..N_NODES).map(node)).await?;
    let (n, pods) = services.sizes();
    run(&client, services, 0..n * pods).await?;
    let subject = start_unprobed(args, &plane, implementation, &[CONTROLLER], &[]).await?.context("nothing runs")?;
    probe(&client).await.with_context(|| subject.process().log_tail())?;
    let before = usage_at_rest(&subject).await?;
    let mut slices = Slices::open(&client).await?;
    let begun = Instant::now();
    let all = (0..n).map(|number| service(&app(number)));
    let created = create_all(&client, "/api/v1/namespaces/bench/services", all);
    let filled = async { tokio::try_join!(created, slices.until(0..n * pods)) };
    filled.await.with_context(|| subject.process().log_tail())?;
    let filled = begun.elapsed().as_secs_f64();
    let (listed, seconds) = match services {
        Services::Rolled { pods } => {
            let begun = Instant::now();
            roll(&client, services, &mut slices).await.with_context(|| subject.process().log_tail())?;
            (pods, begun.elapsed().as_secs_f64())
        }
        Services::Many { n, .. } => (n, filled),
    };
    let after = usage_at_rest(&subject).await?;
    let writes = n_writes(&plane)? as f64;
    let cpu_seconds = after.cpu.saturating_sub(before.cpu).as_secs_f64();
    subject.stop().await;
    plane.stop().await;
    let pods_per_second = listed as f64 / filled;
    Ok(Sample { pods_per_second, seconds, cpu_seconds, rss_bytes: after.rss_bytes as f64, writes })
}

/// Replaces all Pods, some at a time. The next ones are replaced once the slices have those before.
async fn roll(client: &ApiClient, services: Services, slices: &mut Slices) -> Result<()> {
    let (_, pods) = services.sizes();
    for first in (0..pods).step_by(BATCH) {
        let old = first..pods.min(first + BATCH);
        let replaced = async {
            run(client, services, old.start + pods..old.end + pods).await?;
            // They terminate, and then they are gone.
            for seconds in [30, 0] {
                delete_all(client, old.clone().map(path), &json!({"gracePeriodSeconds": seconds})).await?;
            }
            anyhow::Ok(())
        };
        tokio::try_join!(replaced, slices.until(old.end..old.end + pods))?;
    }
    Ok(())
}

/// Creates the Pods with these numbers, and makes them ready.
async fn run(client: &ApiClient, services: Services, pods: Range<usize>) -> Result<()> {
    create_all(client, PODS, pods.clone().map(|number| services.pod(number))).await?;
    let ready = pods.map(|number| {
        let address = format!("10.244.{}.{}", number / 256, number % 256);
        let mut patch = status(Fate::Ready);
        patch["status"]["podIP"] = json!(address);
        patch["status"]["podIPs"] = json!([{"ip": address}]);
        (format!("{}/status", path(number)), patch)
    });
    patch_each(client, ready).await
}

fn path(number: usize) -> String {
    format!("{PODS}/{POD}{number}")
}

fn app(number: usize) -> String {
    format!("app-{number}")
}

fn service(app: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": app},
        "spec": {"selector": {"app": app}, "ports": [{"port": 80, "targetPort": 8080}]},
    })
}

fn slices_of(namespace: &str) -> String {
    format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices")
}

/// Waits until the subject has made the slice of a Service, which is empty, since the Service has no Pods.
async fn probe(client: &ApiClient) -> Result<()> {
    client.create("/api/v1/namespaces/probe/services", &service(&probe_name())).await?;
    eventually(PATIENCE, "the slice of the probe", async || {
        Ok((!client.list(&slices_of("probe")).await?.is_empty()).then_some(()))
    })
    .await
}

/// How often the subject has written slices, without those of the probe.
fn n_writes(plane: &ControlPlane) -> Result<usize> {
    let log = plane.audit_log()?;
    let writes = log.iter().filter(|entry| {
        let of = &entry.object_ref;
        let is_of_slice = of.resource == "endpointslices" && of.namespace == "bench";
        is_of_slice && entry.user.username == SUBJECT && entry.succeeded()
    });
    Ok(writes.count())
}

/// The slices, as a watch shows them.
struct Slices {
    events: Events,
    /// Of each slice the endpoints: the number of the Pod, if it is ready.
    endpoints: BTreeMap<String, Vec<Option<usize>>>,
}

impl Slices {
    async fn open(client: &ApiClient) -> Result<Slices> {
        let events = Events::open(client, &slices_of("bench"), "application/json").await?;
        Ok(Slices { events, endpoints: BTreeMap::new() })
    }

    /// Waits until these Pods are the endpoints, and all are ready.
    async fn until(&mut self, pods: Range<usize>) -> Result<()> {
        let waited = tokio::time::timeout(PATIENCE, async {
            while !self.have(&pods) {
                let (kind, slice) = self.events.next().await?;
                let name = slice["metadata"]["name"].as_str().context("a slice without a name")?.to_owned();
                if kind == "DELETED" {
                    self.endpoints.remove(&name);
                } else {
                    let all = slice["endpoints"].as_array().into_iter().flatten();
                    self.endpoints.insert(name, all.map(ready_pod).collect());
                }
            }
            anyhow::Ok(())
        });
        match waited.await {
            Ok(outcome) => outcome,
            Err(_) => bail!("of Pods {pods:?}, {} are ready endpoints after {PATIENCE:?}", self.ready(&pods).len()),
        }
    }

    fn have(&self, pods: &Range<usize>) -> bool {
        let n_endpoints: usize = self.endpoints.values().map(Vec::len).sum();
        n_endpoints == pods.len() && self.ready(pods).len() == pods.len()
    }

    /// Those of the Pods that are endpoints and ready.
    fn ready(&self, pods: &Range<usize>) -> BTreeSet<usize> {
        self.endpoints.values().flatten().flatten().copied().filter(|pod| pods.contains(pod)).collect()
    }
}

fn ready_pod(endpoint: &Value) -> Option<usize> {
    let number = endpoint["targetRef"]["name"].as_str()?.strip_prefix(POD)?.parse().ok()?;
    (endpoint["conditions"]["ready"] == true).then_some(number)
}
