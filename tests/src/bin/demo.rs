//! The main job of Pintle as a story with a time line: `cargo xtask demo` builds everything and runs this.
//!
//! It starts `pintle dev`, acts as a user of the cluster, and ends with 0 only if each step was seen to happen.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use pintle_tests::{ApiClient, PatchKind, eventually};
use serde_json::{Value, json};

/// The longest that any step may take; most take a second.
const STEP_DEADLINE: Duration = Duration::from_secs(300);

const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/web";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const REPLICA_SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const PODS: &str = "/api/v1/namespaces/default/pods";

#[tokio::main]
async fn main() -> ExitCode {
    let Some(pintle) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: demo PATH-OF-PINTLE (run `cargo xtask demo`, which builds both)");
        return ExitCode::from(2);
    };
    match story(&pintle).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("\ndemo failed: {why:#}");
            ExitCode::FAILURE
        }
    }
}

async fn story(pintle: &Path) -> Result<()> {
    let folder = tempfile::tempdir().context("make a folder for the kubeconfig")?;
    let kubeconfig = folder.path().join("kubeconfig");
    let log = folder.path().join("log");
    let line = TimeLine::start();
    line.title("start the embedded cluster and the built-in controllers");
    let mut host = tokio::process::Command::new(pintle)
        .arg("dev")
        .args(["--ready-delay-ms", "300", "--kubeconfig"])
        .arg(&kubeconfig)
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&log).context("make a log file")?)
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("start {}", pintle.display()))?;
    let told = tell(&line, &mut host, &kubeconfig).await;
    told.map_err(|why| {
        let log = std::fs::read_to_string(&log).unwrap_or_default();
        let tail: Vec<&str> = log.lines().rev().take(20).collect();
        why.context(format!("last lines of the host's log:\n{}", tail.into_iter().rev().collect::<Vec<_>>().join("\n")))
    })?;
    line.title("done: every step was seen to happen");
    Ok(())
}

async fn tell(line: &TimeLine, host: &mut tokio::process::Child, kubeconfig: &Path) -> Result<()> {
    let client = eventually(STEP_DEADLINE, "the cluster's kubeconfig", async || {
        if let Some(status) = host.try_wait()? {
            bail!("pintle dev has ended ({status})");
        }
        if !kubeconfig.exists() {
            return Ok(None);
        }
        let client = ApiClient::from_kubeconfig(kubeconfig)?;
        client.get("/readyz").await.map(|_| ()).or_else(ready_anyway)?;
        Ok(Some(client))
    })
    .await?;
    let watcher = Watcher::start(&client, line.clone()).await?;

    line.title("create Deployment web with 3 replicas of web:1");
    client.create(DEPLOYMENTS, &deployment()).await?;
    let first = available(&client, 3).await?;
    let first_set = only_active_set(&client, 3).await?;
    line.say(&format!("3 of 3 Pods are available, owned by ReplicaSet {first_set}"));

    line.title("delete a Pod and see it replaced");
    let victim = first.keys().next().context("no Pod to delete")?.clone();
    client.delete(&format!("{PODS}/{victim}"), None).await?;
    eventually(STEP_DEADLINE, "a Pod in the place of the deleted one", || async {
        let now = pods(&client).await?;
        Ok((now.len() == 3 && !now.contains_key(&victim)).then_some(()))
    })
    .await?;
    let replaced = available(&client, 3).await?;
    let newcomer = replaced.keys().find(|name| !first.contains_key(*name)).context("no new Pod")?;
    line.say(&format!("{newcomer} took the place of {victim}"));

    line.title("scale to 5");
    client.patch(&format!("{DEPLOYMENT}/scale"), PatchKind::Merge, &json!({"spec": {"replicas": 5}})).await?;
    available(&client, 5).await?;
    line.say("5 of 5 Pods are available");

    line.title("roll out web:2 (at most 25% more and 25% fewer Pods at any time)");
    watcher.bounds.set(Some((4, 7)));
    set_image(&client, "web:2").await?;
    let second = available(&client, 5).await?;
    watcher.bounds.set(None);
    ensure!(second.values().all(|image| image == "web:2"), "Pods run {second:?}");
    let second_set = only_active_set(&client, 5).await?;
    ensure!(second_set != first_set, "the ReplicaSet did not change");
    line.say(&format!("5 of 5 Pods run web:2, owned by ReplicaSet {second_set}; {}", watcher.extremes()?));

    line.title("undo the roll-out");
    let old = client.get(&format!("{REPLICA_SETS}/{first_set}")).await?;
    let mut template = old["spec"]["template"].clone();
    if let Some(labels) = template["metadata"]["labels"].as_object_mut() {
        labels.remove("pod-template-hash");
    }
    let undo = json!([{"op": "replace", "path": "/spec/template", "value": template}]);
    client.patch(DEPLOYMENT, PatchKind::Json, &undo).await?;
    let third = available(&client, 5).await?;
    ensure!(third.values().all(|image| image == "web:1"), "Pods run {third:?}");
    ensure!(only_active_set(&client, 5).await? == first_set, "the old ReplicaSet was not used again");
    let sets = client.list(REPLICA_SETS).await?;
    ensure!(sets.len() == 2, "{} ReplicaSets where two were expected", sets.len());
    let revision =
        client.get(DEPLOYMENT).await?["metadata"]["annotations"]["deployment.kubernetes.io/revision"].clone();
    ensure!(revision == "3", "the Deployment is at revision {revision}, not 3");
    line.say(&format!("5 of 5 Pods run web:1 again, owned by ReplicaSet {first_set} of old, now revision 3"));

    line.title("delete the Deployment and see everything go that it owned");
    client.delete(DEPLOYMENT, Some(&json!({"propagationPolicy": "Background"}))).await?;
    eventually(STEP_DEADLINE, "ReplicaSets and Pods to go", || async {
        Ok((client.list(REPLICA_SETS).await?.is_empty() && pods(&client).await?.is_empty()).then_some(()))
    })
    .await?;
    line.say("no ReplicaSet and no Pod is left");

    line.title("stop");
    stop(host).await?;
    line.say("the host ended cleanly");
    Ok(())
}

/// `/readyz` answers plain text, which the JSON client cannot read: any answer will do.
fn ready_anyway(why: anyhow::Error) -> Result<()> {
    match pintle_tests::Failure::code_of(&why) {
        Some(code) if code >= 500 => Err(why),
        Some(_) => Ok(()),
        None if why.to_string().contains("JSON") || why.to_string().contains("parse") => Ok(()),
        None => Err(why),
    }
}

/// Ctrl-C, and the host must end with 0 in good time.
async fn stop(host: &mut tokio::process::Child) -> Result<()> {
    let id = host.id().context("the host has ended already")?;
    let pid = i32::try_from(id).ok().and_then(rustix::process::Pid::from_raw).context("odd process id")?;
    rustix::process::kill_process(pid, rustix::process::Signal::INT).context("interrupt the host")?;
    let status =
        tokio::time::timeout(Duration::from_secs(120), host.wait()).await.context("the host does not end")??;
    ensure!(status.success(), "the host ended with {status}");
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
    eventually(STEP_DEADLINE, format!("{replicas} available Pods"), || async {
        let deployment = client.get(DEPLOYMENT).await?;
        let status = &deployment["status"];
        let count = |field: &str| status[field].as_u64().unwrap_or(0);
        let seen = status["observedGeneration"] == deployment["metadata"]["generation"];
        let complete =
            ["replicas", "updatedReplicas", "availableReplicas"].iter().all(|field| count(field) == replicas);
        let now = pods(client).await?;
        Ok((seen && complete && now.len() as u64 == replicas).then_some(now))
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

/// Prints what happens, with the time since the start.
#[derive(Clone)]
struct TimeLine(Instant);

impl TimeLine {
    fn start() -> Self {
        Self(Instant::now())
    }

    fn title(&self, text: &str) {
        println!("\n{:>7.2}s  == {text}", self.0.elapsed().as_secs_f64());
    }

    fn say(&self, text: &str) {
        println!("{:>7.2}s  ok {text}", self.0.elapsed().as_secs_f64());
    }

    fn note(&self, text: &str) {
        println!("{:>7.2}s     {text}", self.0.elapsed().as_secs_f64());
    }
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
    let ready = pod["status"]["conditions"]
        .as_array()
        .is_some_and(|all| all.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True"));
    if event["type"] == "DELETED" {
        "gone".into()
    } else if pod["metadata"]["deletionTimestamp"].is_string() {
        "terminating".into()
    } else if ready {
        "ready".into()
    } else if pod["spec"]["nodeName"].is_string() {
        format!("on {}", pod["spec"]["nodeName"].as_str().unwrap_or_default())
    } else {
        "new".into()
    }
}
