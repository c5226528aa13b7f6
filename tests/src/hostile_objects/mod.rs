//! Objects that would do harm if a controller trusted what is in them, thrown at all built-in controllers at once.
//!
//! ```text
//! corpus -> create everything, beside a victim that rolls out a Deployment -> each object comes to its known end
//! ```
//!
//! Invariants:
//! 1. What is checked is where each object ends. The corpus names the end.
//! 2. Times are measured and printed, never asserted.
//!
//! Not here: the clusters and the controllers (the tests start them), plugins that attack (`tests/system/hostile`).

mod corpus;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::{ApiClient, PatchKind, eventually};

pub use corpus::{UPSTREAM_LEAVES, corpus};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(600);
/// How many entries are created at once.
const N_AT_ONCE: usize = 8;
/// Rollouts of the victim at rest.
const N_CALM: usize = 5;
/// Least rollouts of the victim under attack.
const N_ATTACKED: usize = 5;
const VICTIM: &str = "/apis/apps/v1/namespaces/victim/deployments";

/// Objects that belong together, and where they end.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Short and unique.
    pub what: String,
    /// Created in this order.
    pub objects: Vec<Object>,
    /// What must be true in the end, all of it.
    pub ends: Vec<End>,
}

/// An object to create.
#[derive(Clone, Debug)]
pub struct Object {
    /// The path to which it is sent.
    pub collection: String,
    /// The object. A string `$uid of NAME` becomes the uid of the object of this name that was created before.
    pub body: Value,
    /// What happens next: `status` (a merge patch of it), or `delete` (`path` and `policy`).
    pub then: Option<(&'static str, Value)>,
}

/// Where an object ends. The path names it.
#[derive(Clone, Debug)]
pub enum End {
    /// It is deleted.
    Gone(String),
    /// It is there, and not being deleted.
    Stays(String),
    /// It is being deleted, and something holds it.
    Deleting(String),
    /// It is there, with so many owner references.
    Owners {
        /// Its path.
        path: String,
        /// Their number.
        n: usize,
    },
    /// It reports so many Pods of its present template.
    Replicas {
        /// Its path.
        path: String,
        /// Their number.
        n: u64,
    },
    /// A field of its status has this value.
    Status {
        /// Its path.
        path: String,
        /// The name of the field.
        field: &'static str,
        /// Its value.
        value: Value,
    },
}

impl End {
    fn path(&self) -> &str {
        match self {
            Self::Gone(path) | Self::Stays(path) | Self::Deleting(path) => path,
            Self::Owners { path, .. } | Self::Replicas { path, .. } | Self::Status { path, .. } => path,
        }
    }

    fn is_reached(&self, object: Option<&Value>) -> bool {
        let is_deleting = |object: &Value| !object["metadata"]["deletionTimestamp"].is_null();
        let Some(object) = object else { return matches!(self, Self::Gone(_)) };
        match self {
            Self::Gone(_) => false,
            Self::Stays(_) => !is_deleting(object),
            Self::Deleting(_) => is_deleting(object),
            Self::Owners { n, .. } => {
                !is_deleting(object) && object["metadata"]["ownerReferences"].as_array().map_or(0, Vec::len) == *n
            }
            Self::Replicas { n, .. } => {
                let status = &object["status"];
                let count = |field: &str| status[field].as_u64().unwrap_or(0);
                let updated = if object["kind"] == "Deployment" { count("updatedReplicas") } else { *n };
                status["observedGeneration"] == object["metadata"]["generation"]
                    && count("replicas") == *n
                    && updated == *n
            }
            Self::Status { field, value, .. } => object["status"][field] == *value,
        }
    }
}

/// How long the victim's rollouts took.
#[derive(Debug)]
pub struct Played {
    /// Before anything hostile was there: the median.
    pub calm: Duration,
    /// While it was: the median.
    pub attacked: Duration,
    /// From the first object until the last end.
    pub took: Duration,
    n_entries: usize,
}

impl Played {
    /// Prints the times past the capture of the test harness. They are for reading: nothing depends on them.
    ///
    /// # Errors
    /// Nothing can be written.
    pub fn print(&self, who: &str) -> Result<()> {
        let Self { calm, attacked, took, n_entries } = self;
        let ratio = attacked.as_secs_f64() / calm.as_secs_f64();
        let text = format!(
            "{who}: {n_entries} hostile entries at their ends after {took:.1?}; a rollout beside them takes {attacked:.0?}, at rest \
             {calm:.0?} ({ratio:.2}x)\n"
        );
        std::io::stderr().write_all(text.as_bytes()).context("print the times")
    }
}

/// Creates all entries beside a victim that rolls out again and again, and waits until each one has come to its end.
///
/// # Errors
/// The API server refuses an object, or an end is not reached in time; the message names each.
pub async fn play(client: &ApiClient, entries: &[Entry]) -> Result<Played> {
    for namespace in corpus::NAMESPACES.into_iter().chain(["victim"]) {
        client.create_namespace(namespace).await?;
        account(client, namespace).await?;
    }
    client.create(VICTIM, &victim()).await?;
    rolled_out(client, 1).await?;
    let mut generation = 1;
    let mut calm = Vec::new();
    for _ in 0..N_CALM {
        calm.push(roll_out(client, &mut generation).await?);
    }
    let started = Instant::now();
    let uids = Mutex::new(BTreeMap::new());
    let attack = async {
        let thrown = futures::stream::iter(entries).map(|entry| throw(client, entry, &uids));
        let thrown: Vec<Result<()>> = thrown.buffer_unordered(N_AT_ONCE).collect().await;
        let refused: Vec<String> = thrown.into_iter().filter_map(|one| Some(format!("{:#}", one.err()?))).collect();
        ensure!(refused.is_empty(), "{}", refused.join("\n"));
        ended(client, entries).await?;
        anyhow::Ok(started.elapsed())
    };
    let mut attacked = Vec::new();
    tokio::pin!(attack);
    let took = loop {
        let rollout = async {
            let took = roll_out(client, &mut generation).await;
            // Rollouts one after the other, without a pause, would be another load.
            tokio::time::sleep(Duration::from_millis(200)).await;
            took
        };
        tokio::pin!(rollout);
        tokio::select! {
            took = &mut attack => {
                attacked.push(rollout.await?);
                break took?;
            }
            took = &mut rollout => attacked.push(took?),
        }
    };
    while attacked.len() < N_ATTACKED {
        attacked.push(roll_out(client, &mut generation).await?);
    }
    let median = |mut times: Vec<Duration>| {
        times.sort();
        times[times.len() / 2]
    };
    Ok(Played { calm: median(calm), attacked: median(attacked), took, n_entries: entries.len() })
}

/// Pods are refused until their namespace has its service account.
async fn account(client: &ApiClient, namespace: &str) -> Result<()> {
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/default");
    eventually(PATIENCE, format!("the service account of {namespace}"), async || client.find(&path).await).await?;
    Ok(())
}

fn victim() -> Value {
    json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 3, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}},
        },
    })
}

async fn roll_out(client: &ApiClient, generation: &mut u64) -> Result<Duration> {
    *generation += 1;
    let started = Instant::now();
    let image = json!([{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": format!("i:{generation}")}]);
    client.patch(&format!("{VICTIM}/web"), PatchKind::Json, &image).await?;
    rolled_out(client, *generation).await?;
    Ok(started.elapsed())
}

async fn rolled_out(client: &ApiClient, generation: u64) -> Result<()> {
    eventually(PATIENCE, "the victim's rollout", async || {
        let web = client.get(&format!("{VICTIM}/web")).await?;
        let is_done = |field: &str| web["status"][field] == 3;
        let is_seen = web["status"]["observedGeneration"].as_u64() >= Some(generation);
        Ok((is_seen && ["replicas", "updatedReplicas", "availableReplicas"].into_iter().all(is_done)).then_some(()))
    })
    .await
}

/// Creates the objects of an entry.
async fn throw(client: &ApiClient, entry: &Entry, uids: &Mutex<BTreeMap<String, String>>) -> Result<()> {
    for object in &entry.objects {
        let mut body = object.body.clone();
        for owner in body["metadata"]["ownerReferences"].as_array_mut().into_iter().flatten() {
            let Some(name) = owner["uid"].as_str().and_then(|uid| uid.strip_prefix("$uid of ")).map(str::to_owned)
            else {
                continue;
            };
            // It may belong to an entry that is created at the same time.
            let uid = eventually(PATIENCE, &name, async || Ok(uids.lock().await.get(&name).cloned())).await?;
            owner["uid"] = uid.into();
        }
        let created =
            client.create(&object.collection, &body).await.with_context(|| format!("create: {}", entry.what))?;
        let text = |field: &str| created["metadata"][field].as_str().unwrap_or_default().to_owned();
        uids.lock().await.insert(text("name"), text("uid"));
        match &object.then {
            None => {}
            Some(("status", patch)) => {
                let path = format!("{}/{}/status", object.collection, text("name"));
                client
                    .patch(&path, PatchKind::Merge, patch)
                    .await
                    .with_context(|| format!("status: {}", entry.what))?;
            }
            Some((_, delete)) => {
                let path = delete["path"].as_str().context("a delete names its path")?;
                let options = json!({"propagationPolicy": delete["policy"]});
                client.delete(path, Some(&options)).await.with_context(|| format!("delete: {}", entry.what))?;
            }
        }
    }
    Ok(())
}

/// Waits until each entry has come to its end.
async fn ended(client: &ApiClient, entries: &[Entry]) -> Result<()> {
    let mut open: Vec<(&str, &End)> =
        entries.iter().flat_map(|entry| entry.ends.iter().map(|end| (entry.what.as_str(), end))).collect();
    let mut stable = 0;
    let until = Instant::now() + PATIENCE;
    // What has reached its end may leave it: a deletion that comes late. The last look is at all of them.
    loop {
        let late = late(client, &open).await?;
        if late.is_empty() && stable > 0 {
            return Ok(());
        }
        if late.is_empty() {
            stable += 1;
            open = entries.iter().flat_map(|entry| entry.ends.iter().map(|end| (entry.what.as_str(), end))).collect();
        } else {
            ensure!(Instant::now() < until, "not at their end after {PATIENCE:?}:\n{}", told(&late));
            stable = 0;
            open = late.into_iter().map(|(what, end, _)| (what, end)).collect();
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// An end that is not reached, of which entry, and the object as it is.
type Late<'e> = (&'e str, &'e End, Option<Value>);

fn told(late: &[Late<'_>]) -> String {
    let line = |(what, end, object): &Late<'_>| {
        let object = object.as_ref().map(|object| {
            let meta = &object["metadata"];
            format!(
                "{} deleted {} owners {:.300}",
                object["status"],
                meta["deletionTimestamp"],
                meta["ownerReferences"].to_string()
            )
        });
        let object: String = object.unwrap_or_else(|| "gone".into()).chars().take(600).collect();
        format!("{what}: {:.200} is {object}", format!("{end:?}"))
    };
    late.iter().take(20).map(line).collect::<Vec<_>>().join("\n")
}

/// The ends that are not reached.
async fn late<'e>(client: &ApiClient, open: &[(&'e str, &'e End)]) -> Result<Vec<Late<'e>>> {
    let collection =
        |end: &End| end.path().rsplit_once('/').map_or(String::new(), |(collection, _)| collection.to_owned());
    let collections: BTreeSet<String> = open.iter().map(|(_, end)| collection(end)).collect();
    let mut found: BTreeMap<(String, String), Value> = BTreeMap::new();
    for collection in collections {
        for object in client.list(&collection).await? {
            let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            found.insert((collection.clone(), name), object);
        }
    }
    let name = |end: &End| end.path().rsplit_once('/').map_or(String::new(), |(_, name)| unescape(name));
    let of = |end: &End| found.get(&(collection(end), name(end)));
    Ok(open
        .iter()
        .filter(|(_, end)| !end.is_reached(of(end)))
        .map(|(what, end)| (*what, *end, of(end).cloned()))
        .collect())
}

/// A name from a path.
fn unescape(name: &str) -> String {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.bytes();
    while let Some(byte) = rest.next() {
        let escaped: Vec<u8> = if byte == b'%' { rest.by_ref().take(2).collect() } else { Vec::new() };
        let code = std::str::from_utf8(&escaped).ok().and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(code.unwrap_or(byte));
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Checks that no plugin of a host has faulted.
///
/// # Errors
/// One has; the message contains the metrics.
pub async fn no_faults(host: &ApiClient) -> Result<()> {
    let metrics = host.request("GET", "/metrics", &[], None).await?.text();
    ensure!(metrics.contains("controller_runtime_reconcile_total"), "no plugin has run");
    let of = ["pintle_plugin_faults_total{", "pintle_plugin_quarantines_total{"];
    let is_fault = |line: &&str| of.iter().any(|name| line.starts_with(name)) && !line.ends_with(" 0");
    let faults: Vec<&str> = metrics.lines().filter(is_fault).collect();
    ensure!(faults.is_empty(), "{}", faults.join("\n"));
    Ok(())
}
