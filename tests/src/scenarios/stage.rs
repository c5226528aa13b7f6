//! A namespace on which a scenario is played, and the verbs in which scenarios are written.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use jiff::Timestamp;
use pintle_runtime::manager::WallClock;
use serde_json::{Map, Value, json};

use crate::api::{ApiClient, PatchKind};
use crate::kubectl;
use crate::objects::{count, is_observed};
use crate::scenarios::history::Recorder;
use crate::scenarios::undo;
use crate::{PATIENCE, eventually};

/// How many looks in a row must show no write before all is quiet. Each is a request, so that they take longer on a busy machine.
const N_QUIET_LOOKS: usize = 60;

/// How long to wait between two of these looks.
const QUIET_PAUSE: Duration = Duration::from_millis(50);

/// The kinds whose objects are compared at the end of each scenario.
pub const COMPARED: [&str; 7] =
    ["deployments", "replicasets", "replicationcontrollers", "pods", "events", "serviceaccounts", "configmaps"];

/// The kinds that are recorded in each scenario beside the compared ones, because rules are about them.
pub const RULED: [&str; 2] = ["endpointslices", "services"];

/// A namespace of a real cluster.
pub struct Stage {
    /// The API server, as a user who may do everything.
    pub client: ApiClient,
    /// For kubectl.
    pub kubeconfig: PathBuf,
    /// The namespace.
    pub ns: String,
    /// The certificate authority that is to be published in the namespace; empty if nobody looks at it.
    pub root_ca: String,
    /// The kinds that are compared beside [`COMPARED`].
    more: &'static [&'static str],
    /// The kinds that are recorded beside the compared ones.
    ruled: &'static [&'static str],
    clock: WallClock,
    observed: Mutex<Map<String, Value>>,
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stage").field("client", &self.client).field("ns", &self.ns).finish_non_exhaustive()
    }
}

impl Stage {
    /// A stage that is not open yet.
    pub fn new(client: ApiClient, kubeconfig: PathBuf, ns: String) -> Stage {
        let clock = Arc::new(Timestamp::now);
        Stage {
            client,
            kubeconfig,
            ns,
            root_ca: String::new(),
            more: &[],
            ruled: &[],
            clock,
            observed: Mutex::default(),
        }
    }

    /// The same cluster with another namespace.
    #[must_use]
    pub fn beside(&self, ns: String) -> Stage {
        Stage::new(self.client.clone(), self.kubeconfig.clone(), ns).at(self.clock.clone())
    }

    /// The same stage on a cluster with this clock.
    #[must_use]
    pub fn at(mut self, clock: WallClock) -> Stage {
        self.clock = clock;
        self
    }

    /// The present of the cluster.
    pub fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// The same as objects have it.
    pub fn now_text(&self) -> String {
        self.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    /// The same stage, on which objects of these kinds are compared too.
    #[must_use]
    pub fn comparing(mut self, more: &'static [&'static str]) -> Stage {
        self.more = more;
        self
    }

    /// The same stage, on which objects of these kinds are recorded too, and not compared.
    #[must_use]
    pub fn recording(mut self, ruled: &'static [&'static str]) -> Stage {
        self.ruled = ruled;
        self
    }

    /// The kinds whose objects are compared.
    pub fn compared(&self) -> impl Iterator<Item = &'static str> {
        COMPARED.into_iter().chain(self.more.iter().copied())
    }

    /// The kinds whose objects are recorded: the compared ones, and those of rules.
    pub fn recorded(&self) -> impl Iterator<Item = &'static str> {
        let is_compared = move |plural: &str| self.compared().any(|compared| compared == plural);
        self.compared().chain(self.ruled.iter().copied().filter(move |plural| !is_compared(plural)))
    }

    /// Adds to the outcome what the scenario has seen in the middle of its steps. It must be free of chance; the name of the namespace
    /// is replaced.
    pub fn observe(&self, what: &str, seen: &Value) {
        let seen = seen.to_string().replace(&self.ns, "<namespace>");
        let seen = serde_json::from_str(&seen).unwrap_or(Value::String(seen));
        self.observed.lock().unwrap_or_else(PoisonError::into_inner).insert(what.to_owned(), seen);
    }

    /// What was observed.
    pub fn observed(&self) -> Value {
        Value::Object(self.observed.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// Waits until a contender has made the namespace, which must exist, ready for Pods.
    ///
    /// # Errors
    /// Nobody did.
    pub async fn open(&self) -> Result<()> {
        self.until("serviceaccounts", "default", "be made", |_| true).await?;
        self.until("configmaps", "kube-root-ca.crt", "be made", |_| true).await
    }

    /// The same stage on a cluster with this certificate authority, as PEM.
    #[must_use]
    pub fn with_root_ca(mut self, root_ca: String) -> Stage {
        self.root_ca = root_ca;
        self
    }

    /// The path of a collection.
    pub fn all(&self, plural: &str) -> String {
        let group = match plural {
            "controllerrevisions" | "daemonsets" | "deployments" | "replicasets" | "statefulsets" => "/apis/apps/v1",
            "horizontalpodautoscalers" => "/apis/autoscaling/v2",
            "cronjobs" | "jobs" => "/apis/batch/v1",
            "endpointslices" => "/apis/discovery.k8s.io/v1",
            "poddisruptionbudgets" => "/apis/policy/v1",
            "networkpolicies" => "/apis/networking.k8s.io/v1",
            _ => "/api/v1",
        };
        format!("{group}/namespaces/{}/{plural}", self.ns)
    }

    /// The path of an object.
    pub fn one(&self, plural: &str, name: &str) -> String {
        format!("{}/{name}", self.all(plural))
    }

    /// Creates an object.
    ///
    /// # Errors
    /// The server refuses.
    pub async fn create(&self, plural: &str, object: &Value) -> Result<Value> {
        let created = self.client.create(&self.all(plural), object).await;
        created.with_context(|| format!("create {plural} {}", object["metadata"]["name"]))
    }

    /// Changes an object by a merge patch.
    ///
    /// # Errors
    /// The server refuses.
    pub async fn patch(&self, plural: &str, name: &str, patch: &Value) -> Result<Value> {
        let patched = self.client.patch(&self.one(plural, name), PatchKind::Merge, patch).await;
        patched.with_context(|| format!("patch {plural} {name}"))
    }

    /// Scales a workload by its own field.
    ///
    /// # Errors
    /// The server refuses.
    pub async fn scale(&self, plural: &str, name: &str, replicas: u32) -> Result<Value> {
        self.patch(plural, name, &json!({"spec": {"replicas": replicas}})).await
    }

    /// Gives the first container of a Deployment another image.
    ///
    /// # Errors
    /// The server refuses.
    pub async fn set_image(&self, name: &str, image: &str) -> Result<Value> {
        let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}});
        self.patch("deployments", name, &patch).await
    }

    /// Changes annotations of a Deployment's template, which also tell the nodes how to treat its Pods.
    ///
    /// # Errors
    /// The server refuses.
    pub async fn annotate_template(&self, name: &str, annotations: &Value) -> Result<Value> {
        let patch = json!({"spec": {"template": {"metadata": {"annotations": annotations}}}});
        self.patch("deployments", name, &patch).await
    }

    /// Deletes an object, dependents treated as `policy` says.
    ///
    /// # Errors
    /// The server refuses.
    pub async fn delete(&self, plural: &str, name: &str, policy: &str) -> Result<()> {
        let options = json!({"propagationPolicy": policy});
        self.client.delete(&self.one(plural, name), Some(&options)).await?;
        Ok(())
    }

    /// Creates a quota that limits Pods, among others, with what is used of it, and waits until the API server obeys it. From then on
    /// the Pod `first` is there.
    ///
    /// # Errors
    /// The server refuses, or does not count in time.
    pub async fn limit(&self, hard: &Value, used: &Value) -> Result<()> {
        let first = pod("first", "probe");
        self.quota(hard, used, "pods", &first).await?;
        self.create("pods", &first).await?;
        self.until("resourcequotas", "few", "count", |quota| quota["status"]["used"]["pods"] == "1").await
    }

    /// Creates the quota `few` that limits objects of a kind, among others, with what is used of it, and waits until the API server
    /// obeys it, by trying to create this one.
    ///
    /// # Errors
    /// The server refuses, or does not obey in time.
    pub async fn quota(&self, hard: &Value, used: &Value, plural: &str, one: &Value) -> Result<()> {
        self.create("resourcequotas", &json!({"metadata": {"name": "few"}})).await?;
        // The admission of the API server reads quotas from a cache: it has seen one that allows nothing when it refuses the object,
        // and the one that is wanted when it takes it again.
        let mut nothing = hard.clone();
        nothing[plural] = json!("0");
        let (try_only, status) =
            (format!("{}?dryRun=All", self.all(plural)), self.one("resourcequotas", "few") + "/status");
        for (hard, is_allowed) in [(&nothing, false), (hard, true)] {
            self.patch("resourcequotas", "few", &json!({"spec": {"hard": hard}})).await?;
            // The controller of quotas counts the same, where it runs: the admission need not wait for it.
            let counted = json!({"status": {"hard": hard, "used": used}});
            self.client.patch(&status, PatchKind::Merge, &counted).await?;
            eventually(PATIENCE, "the quota to be obeyed", async || {
                let tried = self.client.create(&try_only, one).await;
                Ok((tried.is_ok() == is_allowed).then_some(()))
            })
            .await?;
        }
        Ok(())
    }

    /// Reads an object.
    ///
    /// # Errors
    /// The server refuses.
    pub async fn get(&self, plural: &str, name: &str) -> Result<Value> {
        self.client.get(&self.one(plural, name)).await
    }

    /// Reads a collection.
    ///
    /// # Errors
    /// The server refuses.
    pub async fn list(&self, plural: &str) -> Result<Vec<Value>> {
        self.client.list(&self.all(plural)).await
    }

    /// Runs kubectl in the namespace.
    ///
    /// # Errors
    /// kubectl failed.
    pub async fn kubectl(&self, args: &[&str]) -> Result<String> {
        let mut all = vec!["-n", self.ns.as_str()];
        all.extend_from_slice(args);
        kubectl(&self.kubeconfig, &all).await
    }

    /// Rolls an object back, to its last revision if none is named. `kubectl rollout undo` does it; where no process can reach the
    /// cluster, the same requests.
    ///
    /// # Errors
    /// There is no such revision, the server refuses, or kubectl failed.
    pub async fn undo(&self, plural: &str, name: &str, revision: Option<u64>) -> Result<()> {
        if self.kubeconfig.as_os_str().is_empty() {
            return undo::undo(self, plural, name, revision).await;
        }
        let object = format!("{plural}/{name}");
        let to = revision.map(|revision| format!("--to-revision={revision}"));
        let args: Vec<&str> = ["rollout", "undo", &object].into_iter().chain(to.as_deref()).collect();
        self.kubectl(&args).await.map(drop)
    }

    /// Waits until an object looks as wanted.
    ///
    /// # Errors
    /// It did not in time; the message holds how it looked last.
    pub async fn until(&self, plural: &str, name: &str, what: &str, looks: impl Fn(&Value) -> bool) -> Result<()> {
        eventually(PATIENCE, format!("{plural} {name} to {what}"), async || {
            let object = self.get(plural, name).await?;
            if !looks(&object) {
                bail!("status {} spec.replicas {}", object["status"], object["spec"]["replicas"]);
            }
            Ok(Some(()))
        })
        .await
    }

    /// Waits until an object is gone.
    ///
    /// # Errors
    /// It is not, in time.
    pub async fn until_gone(&self, plural: &str, name: &str) -> Result<()> {
        eventually(PATIENCE, format!("{plural} {name} to be gone"), async || {
            Ok(self.client.find(&self.one(plural, name)).await?.is_none().then_some(()))
        })
        .await
    }

    /// Waits until a collection looks as wanted, and returns it.
    ///
    /// # Errors
    /// It did not in time.
    pub async fn until_all(&self, plural: &str, what: &str, looks: impl Fn(&[Value]) -> bool) -> Result<Vec<Value>> {
        eventually(PATIENCE, format!("{plural} to {what}"), async || {
            let objects = self.list(plural).await?;
            ensure!(looks(&objects), "there are {}", objects.len());
            Ok(Some(objects))
        })
        .await
    }

    /// Waits until a Deployment has done all that is asked of it.
    ///
    /// # Errors
    /// It has not, in time.
    pub async fn rolled_out(&self, name: &str) -> Result<()> {
        self.until("deployments", name, "be rolled out", |d| {
            let replicas = d["spec"]["replicas"].as_u64().unwrap_or(1);
            is_observed(d)
                && ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"]
                    .iter()
                    .all(|field| count(d, field) == replicas)
                // The counts may be written before the condition, and what is done in between would be chance.
                && (d["spec"]["paused"] == true || progress(d) == "NewReplicaSetAvailable")
        })
        .await
    }

    /// Waits until a ReplicaSet or ReplicationController has `n` ready Pods and no others.
    ///
    /// # Errors
    /// It has not, in time.
    pub async fn ready(&self, plural: &str, name: &str, n: u64) -> Result<()> {
        self.until(plural, name, &format!("have {n} ready Pods"), |o| {
            is_observed(o) && count(o, "replicas") == n && count(o, "readyReplicas") == n
        })
        .await
    }

    /// Waits until a condition of a Deployment has this status and reason.
    ///
    /// # Errors
    /// It has not, in time.
    pub async fn condition(&self, name: &str, kind: &str, status: &str, reason: &str) -> Result<()> {
        self.until("deployments", name, &format!("be {kind} {status} {reason}"), |d| {
            let conditions = d["status"]["conditions"].as_array();
            conditions
                .into_iter()
                .flatten()
                .any(|c| c["type"] == kind && c["status"] == status && c["reason"] == reason)
        })
        .await
    }

    /// Checks the revision of a Deployment.
    ///
    /// # Errors
    /// It has another one, or the server refuses.
    pub async fn has_revision(&self, name: &str, wanted: &str) -> Result<()> {
        let found = self.get("deployments", name).await?;
        let found = &found["metadata"]["annotations"]["deployment.kubernetes.io/revision"];
        ensure!(found == wanted, "{name} has revision {found} instead of {wanted}");
        Ok(())
    }

    /// The Pods that nobody has deleted.
    ///
    /// # Errors
    /// The server refuses.
    pub async fn live_pods(&self) -> Result<Vec<Value>> {
        let mut pods = self.list("pods").await?;
        pods.retain(|p| p["metadata"]["deletionTimestamp"].is_null());
        Ok(pods)
    }

    /// The name of the only ReplicaSet whose image is this one.
    ///
    /// # Errors
    /// There is none, or more than one.
    pub async fn replica_set_of(&self, image: &str) -> Result<String> {
        let sets = self.list("replicasets").await?;
        let mut found = sets
            .iter()
            .filter(|s| s["spec"]["template"]["spec"]["containers"][0]["image"] == image)
            .filter_map(|s| s["metadata"]["name"].as_str());
        match (found.next(), found.next()) {
            (Some(name), None) => Ok(name.to_owned()),
            (first, _) => bail!("ReplicaSets of {image}: {}", if first.is_some() { "many" } else { "none" }),
        }
    }

    /// What there is of the recorded kinds: kind -> objects.
    ///
    /// # Errors
    /// The server refuses.
    pub async fn left(&self) -> Result<Value> {
        let mut left = Map::new();
        for plural in self.recorded() {
            left.insert(plural.to_owned(), self.list(plural).await?.into());
        }
        Ok(Value::Object(left))
    }

    /// Waits until nothing happens any more, and returns what there is: kind -> objects.
    ///
    /// # Errors
    /// Something goes on happening.
    pub async fn settle(&self) -> Result<Value> {
        let recorder = Recorder::start(self).await.context("watch the namespace")?;
        let look = async || {
            tokio::time::sleep(QUIET_PAUSE).await;
            self.client.find(&format!("/api/v1/namespaces/{}", self.ns)).await?;
            anyhow::Ok(recorder.n_seen())
        };
        let quiet = async {
            let (mut n_seen, mut n_same) = (0, 0);
            loop {
                let now = look().await?;
                n_same = if now == n_seen { n_same + 1 } else { 0 };
                n_seen = now;
                if n_same < N_QUIET_LOOKS {
                    continue;
                }
                let left = self.left().await?;
                // The lists show one state only if nothing was written between them.
                if look().await? == n_seen {
                    return anyhow::Ok(left);
                }
                n_same = 0;
            }
        };
        match tokio::time::timeout(PATIENCE, quiet).await {
            Ok(left) => left,
            Err(_) => bail!("waited {PATIENCE:?} for silence; the last writes: {}", recorder.last_writes()),
        }
    }
}

/// The certificate authority that a kubeconfig names.
///
/// # Errors
/// It names none, or a file that cannot be read.
pub fn authority_of(kubeconfig: &Path) -> Result<String> {
    let config: Value = serde_norway::from_str(&std::fs::read_to_string(kubeconfig)?)?;
    let file = config["clusters"][0]["cluster"]["certificate-authority"].as_str().context("no authority")?;
    std::fs::read_to_string(file).context("read the certificate authority")
}

/// A Deployment of one container, with what a scenario adds to its spec.
pub fn deployment(name: &str, replicas: u32, spec: Value) -> Value {
    let mut object = workload(name, replicas);
    object["spec"]["selector"] = json!({"matchLabels": {"app": name}});
    json_patch::merge(&mut object["spec"], &spec);
    object
}

/// The reason of a Deployment's condition `Progressing`; empty if there is none.
fn progress(deployment: &Value) -> &str {
    let conditions = deployment["status"]["conditions"].as_array().into_iter().flatten();
    let mut progressing = conditions.filter(|condition| condition["type"] == "Progressing");
    progressing.next().and_then(|condition| condition["reason"].as_str()).unwrap_or_default()
}

/// A ReplicaSet of one container.
pub fn replica_set(name: &str, replicas: u32, spec: Value) -> Value {
    deployment(name, replicas, spec)
}

/// A ReplicationController of one container.
pub fn replication_controller(name: &str, replicas: u32, spec: Value) -> Value {
    let mut object = workload(name, replicas);
    object["spec"]["selector"] = json!({"app": name});
    json_patch::merge(&mut object["spec"], &spec);
    object
}

/// A Pod as the workload `app` would make it, but nobody's.
pub fn pod(name: &str, app: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"app": app}},
        "spec": {"containers": [{"name": "c", "image": "image:1"}]},
    })
}

fn workload(name: &str, replicas: u32) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": "image:1"}]},
            },
        },
    })
}
