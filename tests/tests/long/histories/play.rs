//! Two control planes, one with each subject, on which plans are played side by side.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use pintle_tests::controlplane::{Options, SUBJECT};
use pintle_tests::definitions::define_metrics;
use pintle_tests::metrics_api::MetricsApi;
use pintle_tests::objects::{has_condition, pinned_node};
use pintle_tests::proxy::{Proxy, kubeconfig_through};
use pintle_tests::scenarios::history::Recorder;
use pintle_tests::scenarios::{Chance, GATED_APIS, GATES, Stage, Subject, by_id, measure, snapshot, stage, subject};
use pintle_tests::{ApiClient, Failure, PATIENCE, PatchKind, TestCluster};
use serde_json::{Value, json};
use similar::TextDiff;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::plan::{Plan, PodStep, Step, running};

/// How long one look at both sides takes at least.
const PAUSE: Duration = Duration::from_millis(100);

/// How often the work queues are sampled.
const SAMPLE_PERIOD: Duration = Duration::from_millis(250);

/// How many looks in a row must show no write in the end.
const N_LAST_LOOKS: usize = 20;

/// How long sides that differ may take to become equal: longer than the delay of a retry that one of them has to wait for.
const LATE: Duration = Duration::from_secs(40);

/// A uid that no object has.
const NOBODY: &str = "11111111-2222-3333-4444-555555555555";

/// What varies with kube-controller-manager itself: the order in which conditions changed last.
const CHANCE: Chance = Chance { order: true, states: true, ..Chance::NONE };

/// In events that are chance: a cache lagged behind; and how often a budget without Pods was looked at.
const CHANCE_EVENTS: [&str; 2] = ["the object has been modified", " NoPods: "];

/// What comes before the choice of one of several budgets, and of one of several Pods without a request.
const CHOICES: [&str; 2] = [" Chose ", "missing request for "];

/// The work queues that have keys, or why that is not known.
type BusyQueues = Result<BTreeSet<String>, String>;

/// The two control planes.
pub(super) struct Arena {
    sides: [Side; 2],
    n_played: AtomicUsize,
}

struct Side {
    cluster: TestCluster,
    /// Between the subject and its API server.
    proxy: Proxy,
    running: subject::Running,
    queues: watch::Receiver<BusyQueues>,
    _samples: JoinSet<()>,
    _metrics: Option<MetricsApi>,
    root_ca: String,
}

/// What came of a plan.
pub(super) struct Outcome {
    /// Writes to the compared objects on each side, without events.
    pub(super) n_writes: [usize; 2],
    /// How each side ended.
    pub(super) ends: Ends,
}

/// How the sides ended, as text: the state, or the first answer to the user that differs.
pub(super) struct Ends {
    /// With kube-controller-manager.
    pub(super) reference: String,
    /// With Pintle.
    pub(super) ours: String,
}

/// A difference between the sides, as text.
pub(super) struct Difference(String);

impl Ends {
    /// Where the sides differ, if they do.
    pub(super) fn difference(&self) -> Option<Difference> {
        let Ends { reference, ours } = self;
        let diff = || TextDiff::from_lines(reference, ours).unified_diff().context_radius(6).to_string();
        (reference != ours).then(|| Difference(diff()))
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What is compared, beside the kinds of every scenario.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Compared {
    pub(super) kinds: &'static [&'static str],
    /// The path of one more object, of a kind without namespaces for example; empty if there is none. `<namespace>` is replaced.
    pub(super) beside: &'static str,
    /// In events that are left out.
    pub(super) left_out: &'static [&'static str],
}

/// A namespace, and all that happens in it.
pub(super) struct Watched {
    pub(super) stage: Stage,
    queues: watch::Receiver<BusyQueues>,
    recorder: Recorder,
    compared: Compared,
}

impl Arena {
    /// Starts both, with the three metrics APIs if histories need them.
    pub(super) async fn start(has_metrics: bool) -> Result<Arena> {
        let [reference, ours] = [Subject::KubeControllerManager, Subject::pintle()?];
        let (reference, ours) =
            tokio::try_join!(Side::start(&reference, has_metrics), Side::start(&ours, has_metrics))?;
        Ok(Arena { sides: [reference, ours], n_played: AtomicUsize::new(0) })
    }

    /// Stops both.
    pub(super) async fn stop(self) {
        for side in self.sides {
            side.running.stop().await;
            side.cluster.stop().await;
        }
    }

    /// The proxies between the subjects and their API servers.
    pub(super) fn proxies(&self) -> [&Proxy; 2] {
        self.sides.each_ref().map(|side| &side.proxy)
    }

    /// Opens a new namespace on both sides.
    pub(super) async fn open(&self, compared: Compared) -> Result<[Watched; 2]> {
        let namespace = format!("history-{}x", self.n_played.fetch_add(1, Ordering::Relaxed));
        let [reference, ours] = &self.sides;
        let (reference, ours) =
            tokio::try_join!(reference.open(&namespace, compared), ours.open(&namespace, compared))?;
        Ok([reference, ours])
    }

    /// Plays a plan on both sides, in a namespace of its own.
    pub(super) async fn play(&self, plan: &Plan) -> Result<Outcome> {
        let both = self.open(Compared { kinds: plan.kind.compared, ..Compared::default() }).await?;
        for (n, step) in plan.steps.iter().chain(&(plan.kind.last)()).enumerate() {
            let answers = tokio::try_join!(take(&both[0].stage, step), take(&both[1].stage, step))?;
            if answers.0 != answers.1 {
                // One that waits for a retry may have seen less.
                let [reference, ours] = [answers.0, answers.1].map(|answer| format!("step {}: {answer}\n", n + 1));
                let outcome = Outcome { n_writes: n_writes(&both)?, ends: Ends { reference, ours } };
                close(&both).await;
                return Ok(outcome);
            }
            quiet(&both, plan.kind.n_quiet_looks).await?;
        }
        let ends = compare(&both, LATE).await?;
        let outcome = Outcome { n_writes: n_writes(&both)?, ends };
        close(&both).await;
        Ok(outcome)
    }
}

/// Waits until both sides are quiet and equal, or still different after this time.
pub(super) async fn compare(both: &[Watched; 2], late: Duration) -> Result<Ends> {
    let until = Instant::now() + late;
    loop {
        quiet(both, N_LAST_LOOKS).await?;
        let ends = Ends { reference: both[0].state().await?, ours: both[1].state().await? };
        if ends.difference().is_none() || Instant::now() > until {
            return Ok(ends);
        }
        // Each look costs requests.
        tokio::time::sleep(late / 20).await;
    }
}

/// Deletes a namespace with all that is held in it: what is left keeps the work queues busy, and with them the next histories waiting.
pub(super) async fn close(both: &[Watched; 2]) {
    for Watched { stage, .. } in both {
        // It may be gone, and so may what is in it.
        let _ = stage.client.delete(&format!("/api/v1/namespaces/{}", stage.ns), None).await;
        for plural in stage.compared() {
            for object in stage.list(plural).await.unwrap_or_default() {
                if !object["metadata"]["finalizers"].is_null() {
                    let _ = stage.patch(plural, name_of(&object), &json!({"metadata": {"finalizers": null}})).await;
                }
            }
        }
    }
}

impl Side {
    async fn start(subject: &Subject, has_metrics: bool) -> Result<Side> {
        let apiserver_flags = [GATES, GATED_APIS].map(str::to_owned).into();
        let cluster = TestCluster::real_with(Options { apiserver_flags, ..Options::default() }).await?;
        let mut metrics = None;
        if has_metrics {
            // Before the subject, which looks for new APIs from time to time only.
            metrics = cluster.serve_metrics().await?;
            define_metrics(&cluster.client).await?;
        }
        let plane = cluster.plane()?;
        let proxy = Proxy::start(plane).await?;
        let kubeconfig = kubeconfig_through(plane, SUBJECT, proxy.address())?;
        let flags = subject::flags();
        let flags: Vec<&str> = flags.iter().map(String::as_str).chain([GATES]).collect();
        let running = subject.start_as(plane, &kubeconfig, &subject::CONTROLLERS, &flags).await?;
        let root_ca = stage::authority_of(&cluster.kubeconfig())?;
        let (sender, queues) = watch::channel(Ok(BTreeSet::new()));
        let mut samples = JoinSet::new();
        samples.spawn(sample_queues(running.client.clone(), sender));
        Ok(Side { cluster, proxy, running, queues, _samples: samples, _metrics: metrics, root_ca })
    }

    async fn open(&self, namespace: &str, compared: Compared) -> Result<Watched> {
        let stage = Stage::new(self.cluster.client.clone(), self.cluster.kubeconfig(), namespace.to_owned());
        let stage = stage.with_root_ca(self.root_ca.clone()).comparing(compared.kinds);
        stage.client.create_namespace(namespace).await?;
        let recorder = Recorder::start(&stage).await.context("watch the namespace")?;
        stage.open().await.context("prepare the namespace")?;
        Ok(Watched { stage, queues: self.queues.clone(), recorder, compared })
    }
}

impl Watched {
    /// The object beside the namespace, if there is one.
    async fn beside(&self) -> Result<Option<Value>> {
        match self.compared.beside {
            "" => Ok(None),
            path => self.stage.client.find(&path.replace("<namespace>", &self.stage.ns)).await,
        }
    }

    /// How many writes were seen, and which version the object beside the namespace has. Costs at least one request.
    async fn look(&self) -> Result<(usize, Value)> {
        self.stage.client.find(&format!("/api/v1/namespaces/{}", self.stage.ns)).await?;
        let version = self.beside().await?.map_or(Value::Null, |object| object["metadata"]["resourceVersion"].clone());
        Ok((self.recorder.n_seen(), version))
    }

    /// What is compared, as text.
    async fn state(&self) -> Result<String> {
        // The lists show one state only if nothing was written between them.
        let left = loop {
            let n_seen = self.recorder.n_seen();
            let left = self.stage.left().await?;
            tokio::time::sleep(PAUSE).await;
            if self.recorder.n_seen() == n_seen {
                break left;
            }
        };
        let namespace = self.stage.client.find(&format!("/api/v1/namespaces/{}", self.stage.ns)).await?;
        let history = self.recorder.until(&by_id(&self.stage, &left)).await?;
        let mut seen = snapshot::without_chance(&snapshot::normalize(&left, &history, &self.stage.root_ca), CHANCE);
        if let Some(seen) = seen.as_object_mut() {
            seen.shift_remove("passage");
            if let Some(events) = seen.get_mut("events").and_then(Value::as_array_mut) {
                let left_out = || CHANCE_EVENTS.iter().chain(self.compared.left_out);
                events.retain(|event| !event.as_str().is_some_and(|event| left_out().any(|text| event.contains(text))));
            }
            seen.values_mut().for_each(cut_choices);
            if let Some(events) = seen.get_mut("events").and_then(Value::as_array_mut) {
                events.dedup();
            }
            seen.insert("namespace".to_owned(), namespace.as_ref().map_or(Value::Null, standing));
            seen.insert("beside".to_owned(), self.beside().await?.as_ref().map_or(Value::Null, marks));
        }
        seen.sort_all_objects();
        // States of several plays are compared, too.
        Ok(format!("{seen:#}\n").replace(&self.stage.ns, "<namespace>"))
    }
}

/// Cuts messages before the one of several objects that was chosen, by chance.
fn cut_choices(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some(end) = CHOICES.iter().filter_map(|words| text.find(words)).min() {
                text.truncate(end);
            }
        }
        Value::Array(elements) => elements.iter_mut().for_each(cut_choices),
        Value::Object(members) => members.values_mut().for_each(cut_choices),
        _ => {}
    }
}

/// What is compared of an object of another kind.
fn marks(object: &Value) -> Value {
    let metadata = &object["metadata"];
    json!({
        "finalizers": metadata["finalizers"], "annotations": metadata["annotations"], "rules": object["rules"],
        "is deleted": !metadata["deletionTimestamp"].is_null(),
    })
}

/// What is compared of a namespace.
fn standing(namespace: &Value) -> Value {
    let conditions = namespace["status"]["conditions"].as_array().into_iter().flatten();
    let fields = |condition: &Value| ["type", "status", "reason", "message"].map(|field| condition[field].clone());
    json!({
        "phase": namespace["status"]["phase"], "finalizers": namespace["spec"]["finalizers"],
        "conditions": conditions.map(fields).collect::<Vec<_>>(),
    })
}

/// How many writes there were on each side, without events.
fn n_writes(both: &[Watched; 2]) -> Result<[usize; 2]> {
    let n = |watched: &Watched| {
        let history = watched.recorder.so_far()?;
        anyhow::Ok(history.writes.iter().filter(|write| write.plural != "events").count())
    };
    Ok([n(&both[0])?, n(&both[1])?])
}

/// Samples the work queues of a subject for all histories: each sample is most of a megabyte of text.
async fn sample_queues(client: ApiClient, sender: watch::Sender<BusyQueues>) {
    loop {
        tokio::time::sleep(SAMPLE_PERIOD).await;
        let busy = async { subject::busy_queues(&subject::metrics(&client).await?) }.await;
        _ = sender.send_replace(busy.map_err(|why| format!("{why:#}")));
    }
}

/// Waits until neither side has written for so many looks, in which each of its work queues was empty once.
///
/// Time alone would not do: on a busy machine a key waits for longer than looks take.
pub(super) async fn quiet(both: &[Watched; 2], n_looks: usize) -> Result<()> {
    let mut queues = both.each_ref().map(|watched| watched.queues.clone());
    let mut busy = [None, None];
    let look = async {
        let (mut seen, mut n_same) = (None, 0);
        while n_same < n_looks || busy.iter().any(|queues| *queues != Some(BTreeSet::new())) {
            tokio::time::sleep(PAUSE).await;
            let now = Some(tokio::try_join!(both[0].look(), both[1].look())?);
            if now == seen {
                n_same += 1;
                for (queues, busy) in queues.iter_mut().zip(&mut busy) {
                    cross_out(queues, busy)?;
                }
            } else {
                (n_same, seen, busy) = (0, now, [None, None]);
                queues.iter_mut().for_each(watch::Receiver::mark_unchanged);
            }
        }
        anyhow::Ok(())
    };
    match tokio::time::timeout(PATIENCE, look).await {
        Ok(quiet) => quiet,
        Err(_) => bail!(
            "{}: not quiet after {PATIENCE:?}; the last writes: {} and {}; queues with keys: {busy:?}",
            both[0].stage.ns,
            both[0].recorder.last_writes(),
            both[1].recorder.last_writes(),
        ),
    }
}

/// Removes from `busy` the queues that are empty in the last sample, if there is a new one.
fn cross_out(queues: &mut watch::Receiver<BusyQueues>, busy: &mut Option<BTreeSet<String>>) -> Result<()> {
    if queues.has_changed()? {
        let now = queues.borrow_and_update().clone().map_err(anyhow::Error::msg)?;
        *busy = Some(busy.take().map_or_else(|| now.clone(), |before| &before & &now));
    }
    Ok(())
}

/// Takes a step. Returns what the API server answered: `ok`, nothing to do, or a code.
pub(super) async fn take(s: &Stage, step: &Step) -> Result<String> {
    let path =
        |plural: &str| if plural.starts_with('/') { plural.replace("<namespace>", &s.ns) } else { s.all(plural) };
    let object = |plural: &str, name: &str| format!("{}/{}", path(plural), name.replace("<namespace>", &s.ns));
    let answer = match step {
        Step::Create(plural, new) => s.client.create(&path(plural), &resolved(s, new).await?).await,
        Step::Patch(plural, name, patch) => {
            s.client.patch(&object(plural, name), PatchKind::Merge, &resolved(s, patch).await?).await
        }
        Step::Status(plural, name, status) => {
            let status = json!({"status": resolved(s, status).await?});
            s.client.patch(&format!("{}/status", object(plural, name)), PatchKind::Merge, &status).await
        }
        Step::Delete(plural, name, policy) => {
            s.client.delete(&object(plural, name), Some(&json!({"propagationPolicy": policy}))).await
        }
        Step::Pod(n, what) => {
            let pods = ranked(s).await?;
            if pods.is_empty() {
                return Ok("no Pod".to_owned());
            }
            on_pod(s, &pods[n % pods.len()], what).await
        }
        Step::Run(n) => {
            let mut pods = ranked(s).await?;
            pods.retain(|pod| pod["status"]["phase"] == "Pending" && pod["metadata"]["deletionTimestamp"].is_null());
            for pod in pods.iter().take(*n) {
                bind(s, pod).await?;
                on_pod(s, pod, &PodStep::Status(running(true))).await?;
            }
            return Ok(format!("{} run", pods.len().min(*n)));
        }
        Step::Use(usage) => measure(s, "web", usage).await.map(|()| Value::Null),
    };
    match answer {
        Ok(_) => Ok("ok".to_owned()),
        Err(error) => match Failure::code_of(&error) {
            Some(code) => Ok(code.to_string()),
            None => Err(error).with_context(|| step.to_string()),
        },
    }
}

async fn on_pod(s: &Stage, pod: &Value, what: &PodStep) -> Result<Value> {
    let path = s.one("pods", name_of(pod));
    match what {
        PodStep::Status(status) => {
            s.client.patch(&format!("{path}/status"), PatchKind::Merge, &json!({"status": status})).await
        }
        PodStep::Patch(patch) => s.client.patch(&path, PatchKind::Merge, &resolved(s, patch).await?).await,
        PodStep::Delete => s.client.delete(&path, Some(&json!({"gracePeriodSeconds": 0}))).await,
        PodStep::Evict => {
            let eviction = json!({"metadata": {"name": name_of(pod)}, "deleteOptions": {"gracePeriodSeconds": 0}});
            s.client.create(&format!("{path}/eviction"), &eviction).await
        }
    }
}

/// Binds a Pod to the node that it is pinned to, as a scheduler does.
async fn bind(s: &Stage, pod: &Value) -> Result<()> {
    let Some(node) = pinned_node(pod).filter(|_| pod["spec"]["nodeName"].is_null()) else { return Ok(()) };
    let binding = json!({"metadata": {"name": name_of(pod)}, "target": {"kind": "Node", "name": node}});
    s.client.create(&format!("{}/binding", s.one("pods", name_of(pod))), &binding).await?;
    Ok(())
}

/// The Pods in an order that does not depend on the names that controllers made up, nor on time.
async fn ranked(s: &Stage) -> Result<Vec<Value>> {
    let mut pods = s.list("pods").await?;
    pods.sort_by_cached_key(|pod| {
        let metadata = &pod["metadata"];
        let name = if metadata["generateName"].is_null() { &metadata["name"] } else { &Value::Null };
        json!([
            name,
            metadata["annotations"]["batch.kubernetes.io/job-completion-index"],
            pinned_node(pod),
            pod["spec"]["containers"][0]["image"],
            pod["status"]["phase"],
            has_condition(pod, "Ready", "True"),
            has_condition(pod, "DisruptionTarget", "True"),
            pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"],
            metadata["deletionTimestamp"].is_null(),
            metadata["ownerReferences"].is_null(),
            metadata["labels"]["app"],
        ])
        .to_string()
    });
    Ok(pods)
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// The object with uids and the namespace in their places.
async fn resolved(s: &Stage, object: &Value) -> Result<Value> {
    let mut text = object.to_string().replace("<namespace>", &s.ns);
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    while let Some(start) = text.find("\"uid:") {
        let rest = &text[start + 5..];
        let place = rest[..rest.find('"').unwrap_or(rest.len())].to_owned();
        if !known.contains_key(&place) {
            let (plural, name) = place.split_once('/').unwrap_or((place.as_str(), ""));
            let found = s.client.find(&s.one(plural, name)).await?;
            let uid = found.as_ref().and_then(|found| found["metadata"]["uid"].as_str()).unwrap_or(NOBODY);
            known.insert(place.clone(), uid.to_owned());
        }
        text = text.replace(&format!("\"uid:{place}\""), &format!("\"{}\"", known[&place]));
    }
    serde_json::from_str(&text).context("parse the object")
}
