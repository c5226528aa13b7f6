//! The first story: a Deployment comes, is repaired, scaled, rolled out and undone, and goes. The endpoints of a Service follow its
//! Pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use pintle_tests::objects::{count, has_condition, is_observed};
use pintle_tests::{ApiClient, PATIENCE, PatchKind, eventually};
use serde_json::{Value, json};

use crate::PODS;
use crate::time_line::TimeLine;

const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/web";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const REPLICA_SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const SLICES: &str =
    "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io/service-name%3Dweb";

pub(crate) async fn tell(line: &TimeLine, client: &ApiClient) -> Result<()> {
    let watcher = Watcher::start(client, line.clone()).await?;
    line.title("create Deployment web with 3 replicas of web:1, and Service web");
    client.create(DEPLOYMENTS, &deployment()).await?;
    let service = json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
    let service = client.create(SERVICES, &service).await?;
    let first = available(client, 3).await?;
    let first_set = only_active_set(client, 3).await?;
    line.say(&format!("3 of 3 Pods are available, owned by ReplicaSet {first_set}"));
    endpoints_follow(client, 3).await?;
    line.say(&format!("the 3 Pods are the ready endpoints of the Service at {}", service["spec"]["clusterIP"]));

    line.title("delete a Pod and see it replaced");
    let victim = first.keys().next().context("no Pod to delete")?.clone();
    client.delete(&format!("{PODS}/{victim}"), None).await?;
    eventually(PATIENCE, "a Pod in the place of the deleted one", || async {
        let now = pods(client).await?;
        Ok((now.len() == 3 && !now.contains_key(&victim)).then_some(()))
    })
    .await?;
    let replaced = available(client, 3).await?;
    let newcomer = replaced.keys().find(|name| !first.contains_key(*name)).context("no new Pod")?;
    line.say(&format!("{newcomer} took the place of {victim}"));

    line.title("scale to 5");
    client.patch(&format!("{DEPLOYMENT}/scale"), PatchKind::Merge, &json!({"spec": {"replicas": 5}})).await?;
    available(client, 5).await?;
    line.say("5 of 5 Pods are available");

    line.title("roll out web:2 (at most 25% more and 25% fewer Pods at any time)");
    watcher.bounds.set(Some((4, 7)));
    set_image(client, "web:2").await?;
    let second = available(client, 5).await?;
    watcher.bounds.set(None);
    ensure!(second.values().all(|image| image == "web:2"), "Pods run {second:?}");
    let second_set = only_active_set(client, 5).await?;
    ensure!(second_set != first_set, "the ReplicaSet did not change");
    line.say(&format!("5 of 5 Pods run web:2, owned by ReplicaSet {second_set}; {}", watcher.extremes()?));
    endpoints_follow(client, 5).await?;
    line.say("the ready endpoints of the Service are the 5 new Pods");

    line.title("undo the roll-out");
    let old = client.get(&format!("{REPLICA_SETS}/{first_set}")).await?;
    let mut template = old["spec"]["template"].clone();
    if let Some(labels) = template["metadata"]["labels"].as_object_mut() {
        labels.remove("pod-template-hash");
    }
    let undo = json!([{"op": "replace", "path": "/spec/template", "value": template}]);
    client.patch(DEPLOYMENT, PatchKind::Json, &undo).await?;
    let third = available(client, 5).await?;
    ensure!(third.values().all(|image| image == "web:1"), "Pods run {third:?}");
    ensure!(only_active_set(client, 5).await? == first_set, "the old ReplicaSet was not used again");
    let sets = client.list(REPLICA_SETS).await?;
    ensure!(sets.len() == 2, "{} ReplicaSets where two were expected", sets.len());
    let revision =
        client.get(DEPLOYMENT).await?["metadata"]["annotations"]["deployment.kubernetes.io/revision"].clone();
    ensure!(revision == "3", "the Deployment is at revision {revision}, not 3");
    line.say(&format!("5 of 5 Pods run web:1 again, owned by ReplicaSet {first_set} of old, now revision 3"));

    line.title("delete the Deployment and see everything go that it owned");
    client.delete(DEPLOYMENT, Some(&json!({"propagationPolicy": "Background"}))).await?;
    eventually(PATIENCE, "ReplicaSets and Pods to go", || async {
        Ok((client.list(REPLICA_SETS).await?.is_empty() && pods(client).await?.is_empty()).then_some(()))
    })
    .await?;
    line.say("no ReplicaSet and no Pod is left");
    endpoints_follow(client, 0).await?;
    line.say("the Service has no endpoints");
    client.delete(&format!("{SERVICES}/web"), None).await?;
    Ok(())
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {
            "replicas": 3, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "web:1"}]},
            },
        },
    })
}

async fn set_image(client: &ApiClient, image: &str) -> Result<()> {
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": image}]}}}});
    client.patch(DEPLOYMENT, PatchKind::StrategicMerge, &patch).await?;
    Ok(())
}

/// Waits until the roll-out is complete by the rules of `kubectl rollout status`; the Pods by name, with their images.
async fn available(client: &ApiClient, replicas: u64) -> Result<BTreeMap<String, String>> {
    eventually(PATIENCE, format!("{replicas} available Pods"), || async {
        let deployment = client.get(DEPLOYMENT).await?;
        let complete = ["replicas", "updatedReplicas", "availableReplicas"]
            .iter()
            .all(|field| count(&deployment, field) == replicas);
        let now = pods(client).await?;
        Ok((is_observed(&deployment) && complete && now.len() as u64 == replicas).then_some(now))
    })
    .await
}

/// Waits until the ready endpoints of the Service are the addresses of all Pods.
async fn endpoints_follow(client: &ApiClient, replicas: usize) -> Result<()> {
    eventually(PATIENCE, format!("{replicas} ready endpoints"), || async {
        let (slices, pods) = (client.list(SLICES).await?, client.list(PODS).await?);
        let endpoints = slices.iter().flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten());
        let ready = endpoints.filter(|endpoint| endpoint["conditions"]["ready"] == true);
        let ready: BTreeSet<&str> = ready.filter_map(|endpoint| endpoint["addresses"][0].as_str()).collect();
        let addresses: BTreeSet<&str> = pods.iter().filter_map(|pod| pod["status"]["podIP"].as_str()).collect();
        Ok((ready.len() == replicas && ready == addresses).then_some(()))
    })
    .await
}

/// Pods by name, with the image of their first container.
async fn pods(client: &ApiClient) -> Result<BTreeMap<String, String>> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let pods = client.list(PODS).await?;
    Ok(pods.iter().map(|pod| (text(&pod["metadata"]["name"]), text(&pod["spec"]["containers"][0]["image"]))).collect())
}

async fn only_active_set(client: &ApiClient, replicas: u64) -> Result<String> {
    let sets = client.list(REPLICA_SETS).await?;
    let active: Vec<&Value> = sets.iter().filter(|set| set["spec"]["replicas"] != 0).collect();
    ensure!(active.len() == 1, "{} ReplicaSets want Pods where one was expected", active.len());
    ensure!(active[0]["spec"]["replicas"] == replicas, "it wants {}", active[0]["spec"]["replicas"]);
    Ok(active[0]["metadata"]["name"].as_str().unwrap_or_default().to_owned())
}

/// Bounds on the number of ready (at least) and of all (at most) Pods while they are set.
#[derive(Clone, Default)]
struct Bounds(Arc<Mutex<BoundsState>>);

#[derive(Default)]
struct BoundsState {
    bounds: Option<(usize, usize)>,
    least_ready: usize,
    most: usize,
    broken: Option<String>,
}

impl Bounds {
    fn with<T>(&self, act: impl FnOnce(&mut BoundsState) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    fn set(&self, bounds: Option<(usize, usize)>) {
        self.with(|state| {
            if bounds.is_some() {
                (state.least_ready, state.most) = (usize::MAX, 0);
            }
            state.bounds = bounds;
        });
    }

    fn check(&self, ready: usize, all: usize) {
        self.with(|state| {
            let Some((least, most)) = state.bounds else { return };
            state.least_ready = state.least_ready.min(ready);
            state.most = state.most.max(all);
            if ready < least || all > most {
                state.broken = Some(format!("{ready} ready and {all} Pods in all, allowed are {least} and {most}"));
            }
        });
    }
}

/// Prints Pods and ReplicaSets as they come and go.
struct Watcher {
    bounds: Bounds,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Watcher {
    async fn start(client: &ApiClient, line: TimeLine) -> Result<Self> {
        let bounds = Bounds::default();
        let mut pods = client.watch(&format!("{PODS}?watch=true")).await?;
        let watched = bounds.clone();
        let task = tokio::spawn(async move {
            let mut known: BTreeMap<String, String> = BTreeMap::new();
            let mut ready = BTreeSet::new();
            while let Ok(Some(event)) = pods.next(Duration::from_secs(600)).await {
                let pod = &event["object"];
                let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                let state = state_of(&event);
                if state == "gone" {
                    known.remove(&name);
                } else if known.get(&name) == Some(&state) {
                    continue;
                } else {
                    known.insert(name.clone(), state.clone());
                }
                if state == "ready" {
                    ready.insert(name.clone())
                } else {
                    ready.remove(&name)
                };
                let terminating = known.values().filter(|state| *state == "terminating").count();
                watched.check(ready.len(), known.len() - terminating);
                line.note(&format!("Pod {name} is {state}"));
            }
        });
        Ok(Self { bounds, task })
    }

    fn extremes(&self) -> Result<String> {
        self.bounds.with(|state| match &state.broken {
            Some(broken) => bail!("the roll-out left its bounds: {broken}"),
            None => Ok(format!("never fewer than {} ready, never more than {} in all", state.least_ready, state.most)),
        })
    }
}

fn state_of(event: &Value) -> String {
    let pod = &event["object"];
    if event["type"] == "DELETED" {
        "gone".into()
    } else if pod["metadata"]["deletionTimestamp"].is_string() {
        "terminating".into()
    } else if has_condition(pod, "Ready", "True") {
        "ready".into()
    } else if pod["spec"]["nodeName"].is_string() {
        format!("on {}", pod["spec"]["nodeName"].as_str().unwrap_or_default())
    } else {
        "new".into()
    }
}
