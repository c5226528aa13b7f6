//! The embedded API server of a case that settles, and the host that runs the plugin on it.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use futures::FutureExt as _;
use jiff::Timestamp;
use pintle_cache::{ChangeHandler, Delta, Subscription};
use pintle_core::contract::manifest::{Enqueue, Manifest};
use pintle_core::contract::outcome::{PatchType, Preconditions};
use pintle_core::contract::settings;
use pintle_core::lifecycle::Spec;
use pintle_core::object::id::{Key, Kind, ObjectKey};
use pintle_core::policy::pending::{Leaves, PendingWrite};
use pintle_core::policy::selection::Selected;
use pintle_core::ports::api::{
    ApiError, ApiResource, ApiWriter, ApiWriters as _, WriteRequest, WriteVerb, WriterIdentity,
};
use pintle_core::ports::guest::Guest;
use pintle_kube::{Connection, Source};
use pintle_runtime::manager::{Manager, ManagerConfig, PluginOptions};
use pintle_sim::store::EventType;
use pintle_sim::{SimClock, SimCluster, SimConfig, WriteRecord};
use serde_json::{Value, json};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

use super::name_of;
use super::outside::Answers;
use super::recorder::Recorder;
use super::steps::{Pods, Step};
use crate::cases::cluster;
use crate::cases::input::Input;
use crate::cases::render::Originals;

/// Timeout: everything is local, so a longer wait, even on a busy machine, never ends.
const REST_LIMIT: Duration = Duration::from_secs(120);
/// Longest delays of rules and retries that are awaited in real time, in addition to those of the manifest.
const QUIET: Duration = Duration::from_millis(50);
/// Longest delay of a rule that is awaited.
const MAX_RULE_DELAY: Duration = Duration::from_secs(5);
/// The kind of definitions.
const DEFINITION: &str = "apiextensions.k8s.io/v1/CustomResourceDefinition";

/// A plugin on a cluster.
pub(super) struct Hosted {
    pub(super) cluster: Arc<SimCluster>,
    pub(super) manifest: Arc<Manifest>,
    /// Number of writes that created the cluster of the case.
    pub(super) n_restored: usize,
    manager: Arc<Manager>,
    stop: oneshot::Sender<()>,
    running: JoinHandle<()>,
    /// On the same caches as the plugin's.
    subscription: Subscription,
    progress: Arc<Progress>,
    /// Number of writes known to be in the caches.
    n_seen: AtomicUsize,
    user: Arc<dyn ApiWriter>,
    resources: Vec<ApiResource>,
    quiet: Duration,
}

/// Notified when caches have advanced.
#[derive(Default)]
struct Progress(Notify);

impl ChangeHandler for Progress {
    fn on_changes(&self, _: &Arc<[Delta]>) {}

    fn on_progress(&self, _: &Kind) {
        self.0.notify_one();
    }
}

/// The objects that updates replace.
struct Stored {
    cluster: Arc<SimCluster>,
    resources: Vec<ApiResource>,
}

impl Originals for Stored {
    fn original(&self, kind: &Kind, object: &ObjectKey) -> Option<Value> {
        let resource = self.resources.iter().find(|resource| resource.kind == *kind)?;
        find(&self.cluster, resource, object)
    }
}

fn find(cluster: &SimCluster, resource: &ApiResource, object: &ObjectKey) -> Option<Value> {
    let objects = cluster.objects(&resource.kind.group, &resource.plural);
    objects.iter().find(|stored| name_of(stored).1 == *object).map(|stored| (**stored).clone())
}

impl Hosted {
    /// Starts a cluster with the objects of a case, and a host with the plugin.
    pub(super) async fn start(
        input: &Input,
        now: Timestamp,
        crds: &Path,
        recorder: &Arc<Recorder>,
    ) -> anyhow::Result<Self> {
        let mut manifest = recorder.manifest().clone();
        settings::configure(&mut manifest, &Value::Object(input.config.clone()))?;
        let config = SimConfig { clock: SimClock::manual(now), ..SimConfig::default() };
        let cluster = Arc::new(SimCluster::start(config).await.context("start the embedded API server")?);
        let connection = Connection::open(&Source::Text(cluster.kubeconfig())).await?;
        let resources = restore(&cluster, &connection, input, &manifest, crds).await?;
        let n_restored = cluster.history().len();
        recorder.look_at(Arc::new(Stored { cluster: cluster.clone(), resources: resources.clone() }));

        let before = Duration::try_from_secs_f64(input.uptime).context("uptime of the case")?;
        let (clock, same) = (cluster.clock().clone(), cluster.clock().clone());
        let config = ManagerConfig {
            qps: None,
            clock: Arc::new(move || clock.now()),
            // The clock of the case advances both.
            uptime: Some(Arc::new(move || before + same.now().duration_since(now).unsigned_abs())),
            carries: Arc::new(|_| true),
            outside: Arc::new(Answers::of(input)),
            ..ManagerConfig::default()
        };
        let manager = Arc::new(Manager::new(connection.reader(), Arc::new(connection.clone()), config));
        let spec = Spec { config: Value::Object(input.config.clone()), ..Spec::default() };
        // One worker: the same runs in the same order each time, as far as the API server allows.
        let concurrency = manifest.queues.iter().map(|queue| (queue.name.clone(), 1)).collect();
        let options = PluginOptions { spec, concurrency, is_carried: true, ..PluginOptions::default() };
        manager.add(recorder.clone(), options)?;
        let (stop, stopped) = oneshot::channel::<()>();
        let running = manager.clone();
        let running = tokio::spawn(async move { running.run(stopped.map(drop)).await });
        let progress = Arc::new(Progress::default());
        let subscription = manager.caches().subscribe(manifest.clone(), progress.clone());
        let rules = manifest.watches.iter().flat_map(|watch| &watch.enqueue);
        let delay = rules.filter_map(Enqueue::delay).max().unwrap_or_default();
        let quiet = QUIET + delay.min(MAX_RULE_DELAY);
        Ok(Self {
            cluster,
            manifest,
            n_restored,
            manager,
            stop,
            running,
            subscription,
            progress,
            n_seen: AtomicUsize::new(n_restored),
            user: connection.client(&identity()).writer,
            resources,
            quiet,
        })
    }

    pub(super) async fn stop(self) {
        drop(self.stop);
        // A panic has shown up in the runs.
        let _ = self.running.await;
        drop(self.subscription);
    }

    /// Whether [`Hosted::rest`] waits for the keys of all rules of the manifest.
    pub(super) fn awaits_all_rules(&self) -> bool {
        self.quiet < QUIET + MAX_RULE_DELAY
    }

    pub(super) fn enqueue(&self, keys: Vec<Key>) {
        self.manager.enqueue(&self.manifest.name, keys);
    }

    /// Waits until nothing is running or queued, and the caches show all writes.
    pub(super) async fn rest(&self) -> anyhow::Result<()> {
        let resting = async {
            self.subscription.synced().await;
            loop {
                self.manager.idle(self.quiet).await;
                let history = self.cluster.history();
                let n_seen = self.n_seen.swap(history.len(), Ordering::Relaxed);
                if n_seen == history.len() {
                    return;
                }
                for write in history[n_seen..].iter().map(|record| pending(record)) {
                    // The objects that a field selector matches are unknown here.
                    while !self.subscription.sees(&write) && self.subscription.selects(&write) != Selected::Unknown {
                        self.progress.0.notified().await;
                    }
                }
            }
        };
        let rested = tokio::time::timeout(REST_LIMIT, resting).await;
        rested.map_err(|_| {
            let missing: Vec<String> = self.subscription.missing().iter().map(|kind| kind.kind.to_string()).collect();
            let missing =
                if missing.is_empty() { String::new() } else { format!(" (not listed: {})", missing.join(", ")) };
            anyhow!("the host does not come to rest within {} s{missing}", REST_LIMIT.as_secs())
        })
    }

    /// A key whose last run faulted, and the fault. A denied write is one: the host delays such a key for a while.
    pub(super) fn faulting(&self) -> Option<(String, String)> {
        let mut faulting = self.manager.status().into_iter().flat_map(|plugin| plugin.faulting_keys);
        faulting.next().map(|faulting| (faulting.key, faulting.message))
    }

    /// Executes a step of the case; returns the keys that become due.
    pub(super) async fn take(&self, step: &Step) -> anyhow::Result<Vec<Key>> {
        match step {
            Step::Advance(by) => return Ok(self.advance(*by)),
            Step::Apply(object) => self.apply(object).await?,
            Step::Delete(named) => {
                self.write(named.kind(), &named.object(), None, delete(None)).await?;
            }
            Step::Pods(state) => self.run_pods(*state).await?,
        }
        Ok(Vec::new())
    }

    /// Ticks and resyncs that became due, once each. The recorder handles requeues.
    fn advance(&self, by: Duration) -> Vec<Key> {
        self.cluster.clock().advance(by);
        let is_due = |period: Option<Duration>| period.is_some_and(|period| period <= by);
        let queues = || self.manifest.queues.iter();
        let resynced: BTreeSet<&str> =
            queues().filter(|queue| is_due(queue.resync())).map(|queue| queue.name.as_str()).collect();
        let mut keys = self.subscription.all_keys();
        keys.retain(|key| resynced.contains(&*key.queue));
        keys.extend(queues().filter(|queue| is_due(queue.tick())).map(|queue| Manifest::tick_key(&queue.name)));
        keys
    }

    async fn apply(&self, object: &Value) -> anyhow::Result<()> {
        let (kind, key) = name_of(object);
        let mut rest = object.clone();
        let status = rest.as_object_mut().and_then(|fields| fields.shift_remove("status"));
        match find(&self.cluster, self.resource(&kind)?, &key) {
            None => {
                let target = ObjectKey::new(&key.namespace, "");
                self.write(&kind, &target, None, WriteVerb::Create { body: rest.to_string() }).await?;
            }
            Some(_) => self.merge(&kind, &key, None, &rest).await?,
        }
        match status {
            Some(status) => self.merge(&kind, &key, Some("status"), &json!({ "status": status })).await,
            None => Ok(()),
        }
    }

    async fn run_pods(&self, state: Pods) -> anyhow::Result<()> {
        let pod = Kind::new("", "v1", "Pod");
        let now = self.cluster.clock().now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        for object in self.cluster.objects("", "pods") {
            let (_, key) = name_of(&object);
            if !object["metadata"]["deletionTimestamp"].is_null() {
                self.write(&pod, &key, None, delete(Some(0))).await?;
                continue;
            }
            if matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed")) {
                continue;
            }
            let (phase, ready) = match state {
                Pods::Ready => ("Running", "True"),
                Pods::Succeeded => ("Succeeded", "False"),
                Pods::Failed => ("Failed", "False"),
            };
            let types = ["PodScheduled", "Initialized", "ContainersReady", "Ready"];
            let conditions: Vec<Value> = types
                .iter()
                .map(|name| {
                    let status = if name.ends_with("Ready") { ready } else { "True" };
                    let is_same = |old: &&Value| old["type"] == **name && old["status"] == status;
                    let old = object["status"]["conditions"].as_array().into_iter().flatten().find(is_same);
                    let new = || json!({"type": name, "status": status, "lastTransitionTime": now});
                    old.cloned().unwrap_or_else(new)
                })
                .collect();
            let status = json!({"status": {"phase": phase, "conditions": conditions}});
            self.merge(&pod, &key, Some("status"), &status).await?;
        }
        Ok(())
    }

    async fn merge(&self, kind: &Kind, key: &ObjectKey, subresource: Option<&str>, body: &Value) -> anyhow::Result<()> {
        let patch = WriteVerb::Patch { patch_type: PatchType::Merge, body: body.to_string() };
        self.write(kind, key, subresource, patch).await
    }

    async fn write(
        &self,
        kind: &Kind,
        key: &ObjectKey,
        subresource: Option<&str>,
        verb: WriteVerb,
    ) -> anyhow::Result<()> {
        let request = WriteRequest {
            resource: Arc::new(self.resource(kind)?.clone()),
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
            subresource: subresource.map(str::to_owned),
            verb,
        };
        let ApiError { code, reason, message, .. } = match self.user.write(&request).await {
            Ok(_) => return Ok(()),
            Err(error) => error,
        };
        Err(anyhow!("{code} {reason}: {message}"))
    }

    fn resource(&self, kind: &Kind) -> anyhow::Result<&ApiResource> {
        let found = self.resources.iter().find(|resource| resource.kind == *kind);
        found.with_context(|| format!("the embedded API server does not serve {kind}"))
    }
}

/// The identity of the steps' actions.
fn identity() -> WriterIdentity {
    WriterIdentity { name: "user".to_owned(), qps: None, burst: 1, account: None, fence: None }
}

fn delete(grace_period_seconds: Option<u32>) -> WriteVerb {
    WriteVerb::Delete { preconditions: Preconditions::default(), propagation: None, grace_period_seconds }
}

/// A write that a cache must show.
fn pending(record: &WriteRecord) -> PendingWrite {
    let (kind, object) = name_of(&record.after.value());
    let leaves = if record.effect == EventType::Deleted { Leaves::Nothing } else { Leaves::Object };
    let labels = record.after.labels.iter().map(|(name, value)| (name.to_string(), value.to_string()));
    PendingWrite {
        kind,
        object,
        uid: record.after.uid.to_string(),
        resource_version: record.after.rv.to_string(),
        leaves,
        labels: Some(labels.collect()),
    }
}

/// Creates the cluster of a case: definitions, namespaces, objects. Returns the served resources.
async fn restore(
    cluster: &SimCluster,
    connection: &Connection,
    input: &Input,
    manifest: &Manifest,
    crds: &Path,
) -> anyhow::Result<Vec<ApiResource>> {
    for definition in pintle_build::crds::definitions(crds)? {
        let name = name_of(&definition).1;
        cluster.restore(definition).map_err(|why| anyhow!("the API server refuses {DEFINITION} {name}: {why}"))?;
    }
    let served = connection.reader().discover().await?.resources;
    for wanted in cluster::resources_of(input, manifest)? {
        let is_served = served.iter().any(|resource| resource.kind == wanted.kind);
        // Groups without a dot are Kubernetes' own.
        if !is_served && wanted.kind.group.contains('.') && !wanted.kind.group.ends_with(".k8s.io") {
            let definition = definition(&wanted);
            cluster.restore(definition).map_err(|why| anyhow!("the API server refuses a definition: {why}"))?;
        }
    }
    // Initial objects of a new cluster other than namespaces are not part of the case.
    let service = |resource: &&ApiResource| resource.kind == Kind::new("", "v1", "Service");
    if let Some(resource) = served.iter().find(service) {
        let user = connection.client(&identity()).writer;
        let verb = delete(None);
        let (namespace, name) = ("default".to_owned(), "kubernetes".to_owned());
        user.write(&WriteRequest { resource: Arc::new(resource.clone()), namespace, name, subresource: None, verb })
            .await?;
    }
    let of_case = |name: &str| {
        input.objects.iter().any(|object| {
            object["apiVersion"] == "v1" && object["kind"] == "Namespace" && object["metadata"]["name"] == name
        })
    };
    let there = cluster.objects("", "namespaces");
    let there = there.iter().filter_map(|namespace| namespace["metadata"]["name"].as_str());
    let named = input.objects.iter().filter_map(|object| object["metadata"]["namespace"].as_str());
    let mut namespaces: BTreeSet<&str> = there.chain(named).chain([&*input.key.namespace]).collect();
    namespaces.retain(|name| !name.is_empty() && !of_case(name));
    let namespaces =
        namespaces.into_iter().map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
    for mut object in namespaces.chain(input.objects.iter().cloned()) {
        let (kind, key) = name_of(&object);
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = format!("uid-{}", key.name).into();
        }
        let restored = cluster.restore(object);
        restored.map_err(|why| {
            anyhow!("an API server has no such object as {kind} {key} of the case (its caches may have a part of one): {why}")
        })?;
    }
    Ok(connection.reader().discover().await?.resources)
}

/// A definition that accepts everything, for a kind without a file in `crds`.
fn definition(resource: &ApiResource) -> Value {
    let ApiResource { kind, plural, namespaced, .. } = resource;
    let singular = kind.name.to_lowercase();
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{}", kind.group)},
        "spec": {
            "group": kind.group,
            "names": {"kind": kind.name, "plural": plural, "singular": singular, "listKind": format!("{}List", kind.name)},
            "scope": if *namespaced { "Namespaced" } else { "Cluster" },
            "versions": [{
                "name": kind.version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}},
            }],
        },
    })
}
