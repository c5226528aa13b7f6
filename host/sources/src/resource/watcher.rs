//! Follows the `ControllerPlugin`s of the cluster.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pintle_cache::{Caches, ChangeHandler, Delta, RunContext, Subscription};
use pintle_core::contract::manifest::Manifest;
use pintle_core::contract::outcome::PatchType;
use pintle_core::lifecycle::{Spec, resource_kind};
use pintle_core::object::id::Kind;
use pintle_core::ports::api::{ApiErrorClass, ApiWriter, WriteRequest, WriteVerb};
use pintle_core::ports::view::Query;
use pintle_oci::Fetcher;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::crd;
use super::source::{Found, Sources, get};
use super::spec::{ControllerPlugin, Source};
use super::status::{Attempt, Known, desired};
use crate::control::{self, Control, Wanted, Way};
use crate::wire::{Overrides, Refusal, reason};

/// Under which name the host writes what is its own.
pub const WRITER: &str = "pintle-plugins";

/// How long to wait for a cache that fills.
const NOT_YET: Duration = Duration::from_millis(200);
/// Least time between two writes of one status.
const WRITE_PAUSE: Duration = Duration::from_secs(1);
/// After a write that failed.
const WRITE_RETRY: Duration = Duration::from_secs(10);
/// A status that does not stay as it was written (another host, a hand) is put right only so often.
const WRITE_AGAIN: Duration = Duration::from_secs(60);

/// What the watcher is made of.
pub struct Parts {
    /// The host's caches.
    pub caches: Arc<Caches>,
    /// Writes statuses.
    pub writer: Arc<dyn ApiWriter>,
    /// Who decides what runs under which name.
    pub control: Arc<Control>,
    /// The plugin folder, if there is one.
    pub folder: Option<PathBuf>,
    /// Ticks when something in the folder has changed.
    pub folder_changed: watch::Receiver<u64>,
    /// Components that the host carries, by the names of their plugins.
    pub builtins: BTreeMap<String, &'static [u8]>,
    /// What pulls components.
    pub fetcher: Fetcher,
}

/// Follows the resources for as long as it is polled.
pub struct Watcher {
    caches: Arc<Caches>,
    writer: Arc<dyn ApiWriter>,
    control: Arc<Control>,
    folder_changed: watch::Receiver<u64>,
    woken: Arc<Notify>,
    resources: Subscription,
    sources: Sources,
    fetcher: Fetcher,
    by_name: BTreeMap<String, Followed>,
    tasks: JoinSet<Done>,
}

/// What is known of one resource.
#[derive(Default)]
struct Followed {
    /// What was carried out last, or refused, and what became of it.
    ended: Option<(Key, Result<String, Refusal>)>,
    /// When to try the same again, which may go better then.
    retry: Option<Instant>,
    /// What is being carried out.
    under_way: Option<Key>,
    /// It is gone, and its plugin is to give way.
    gone: bool,
    releasing: bool,
    writing: bool,
    /// The last status that was written, and the resourceVersion that it was written to.
    written: Option<(String, Value)>,
    /// When its status may be written, and when the same one again.
    may_write: Option<Instant>,
    may_repeat: Option<Instant>,
}

/// What a resource asks for. What is equal is carried out once.
#[derive(Clone, PartialEq)]
struct Key {
    uid: String,
    spec: Value,
    found: Option<Found>,
}

/// What a task has come to.
enum Done {
    /// The digest of the component that runs.
    Applied(String, Result<String, Refusal>),
    Released(String, Result<(), Refusal>),
    Written {
        name: String,
        written: Option<(String, Value)>,
        pause: Duration,
    },
}

/// Wakes the watcher.
struct Wake(Arc<Notify>);

impl ChangeHandler for Wake {
    fn on_changes(&self, _: &Arc<[Delta]>) {
        self.0.notify_one();
    }

    fn on_progress(&self, _: &Kind) {
        self.0.notify_one();
    }
}

impl Watcher {
    /// Begins to read. To be called within a tokio runtime.
    pub fn new(parts: Parts) -> Self {
        let Parts { caches, writer, control, folder, folder_changed, builtins, fetcher } = parts;
        let woken = Arc::new(Notify::new());
        let handler: Arc<dyn ChangeHandler> = Arc::new(Wake(woken.clone()));
        // A change of the definition makes the caches look for the kind at once.
        let watches = json!([
            {"kind": resource_kind(), "whole": true},
            {"kind": crd::definition_kind(), "fieldSelector": format!("metadata.name={}", crd::NAME)},
        ]);
        let resources = caches.subscribe(Arc::new(manifest(watches)), handler.clone());
        let sources = Sources::new(caches.clone(), handler, folder, control.demands_signatures(), builtins);
        Self {
            caches,
            writer,
            control,
            folder_changed,
            woken,
            resources,
            sources,
            fetcher,
            by_name: BTreeMap::new(),
            tasks: JoinSet::new(),
        }
    }

    /// Does not end.
    pub async fn follow(mut self) {
        let mut changes = self.control.changes();
        loop {
            let again = self.pass();
            let alarm = async {
                match again {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.woken.notified() => {}
                // A sender that is gone will not tell any more; the others will.
                Ok(()) = changes.changed() => {}
                Ok(()) = self.folder_changed.changed() => {}
                Some(done) = self.tasks.join_next() => self.end(done),
                () = alarm => {}
            }
        }
    }

    /// Begins what is to be done. Answers when to look again without being told.
    fn pass(&mut self) -> Option<Instant> {
        let now = Instant::now();
        if !self.resources.is_synced() {
            return Some(now + NOT_YET);
        }
        let view = self.resources.snapshot().view(RunContext::default());
        // A kind that the server does not have has no objects.
        let texts = view.list(&resource_kind(), &Query { whole: true, ..Query::default() }).ok()?;
        let mut again = None;
        let mut soon = |at: Instant| again = Some(again.map_or(at, |other: Instant| other.min(at)));
        let mut present = BTreeMap::new();
        for text in texts {
            match serde_json::from_str::<ControllerPlugin>(&text) {
                Ok(plugin) => drop(present.insert(plugin.metadata.name.clone(), plugin)),
                Err(why) => tracing::warn!(%why, "a ControllerPlugin does not parse"),
            }
        }
        let gone: Vec<String> = self.by_name.keys().filter(|name| !present.contains_key(*name)).cloned().collect();
        for name in gone {
            if let Some(at) = self.release(name, now) {
                soon(at);
            }
        }
        let parsed: BTreeMap<&String, Result<(Source, Spec), String>> =
            present.iter().map(|(name, plugin)| (name, plugin.parse())).collect();
        self.sources.keep(parsed.values().flatten().map(|(source, _)| source));
        for (name, parsed) in parsed {
            let plugin = &present[name];
            if let Some(at) = self.take(plugin, parsed, now) {
                soon(at);
            }
        }
        let listing = self.control.listing();
        for (name, plugin) in &present {
            let running = listing.items.iter().find(|running| running.name == *name);
            if let Some(at) = self.tell(plugin, running, now) {
                soon(at);
            }
        }
        again
    }

    /// Begins to take back what a resource has brought that is gone. Answers when to try again.
    fn release(&mut self, name: String, now: Instant) -> Option<Instant> {
        let followed = self.by_name.get_mut(&name)?;
        if followed.under_way.is_some() || followed.releasing {
            return None;
        }
        if followed.gone && followed.retry.is_some_and(|at| now < at) {
            return followed.retry;
        }
        followed.gone = true;
        followed.releasing = true;
        let control = self.control.clone();
        self.tasks.spawn(async move {
            let result = control.release(Way::Resource, &name).await;
            Done::Released(name, result)
        });
        None
    }

    /// Begins to carry out what a resource says, if that is news. Answers when to look again without being told.
    fn take(
        &mut self,
        plugin: &ControllerPlugin,
        parsed: Result<(Source, Spec), String>,
        now: Instant,
    ) -> Option<Instant> {
        let name = plugin.metadata.name.clone();
        let found = parsed.as_ref().ok().map(|(source, _)| self.sources.look(source));
        let followed = self.by_name.entry(name.clone()).or_default();
        if followed.under_way.is_some() || followed.releasing {
            return None;
        }
        // Another one of the same name has come meanwhile.
        followed.gone = false;
        if found == Some(Found::NotYet) {
            return Some(now + NOT_YET);
        }
        let key = Key { uid: plugin.metadata.uid.clone(), spec: plugin.spec.clone(), found };
        if followed.ended.as_ref().is_some_and(|(ended, _)| *ended == key) {
            match followed.retry {
                None => return None,
                Some(at) if now < at => return Some(at),
                Some(_) => {}
            }
        }
        followed.retry = None;
        let (found, spec) = match (&key.found, parsed) {
            (Some(found), Ok((_, spec))) => (found.clone(), spec),
            (_, Err(why)) => {
                let why = Refusal::new(reason::INVALID, why);
                self.control.problem(&source_of(&name), &name, &why);
                followed.ended = Some((key, Err(why)));
                return None;
            }
            (None, Ok(_)) => return None,
        };
        let uid = key.uid.clone();
        followed.under_way = Some(key);
        let builtin = match &found {
            Found::Builtin(name) => self.sources.builtin(name),
            _ => None,
        };
        let (control, fetcher) = (self.control.clone(), self.fetcher.clone());
        self.tasks.spawn(async move {
            let result = apply(&control, &fetcher, &name, found, builtin, spec).await;
            if result.is_ok() {
                control.set_resource_uid(&name, &uid);
            }
            Done::Applied(name, result)
        });
        None
    }

    /// Begins to write the status of a resource if it is another one than that which is there. Answers when to try again.
    fn tell(
        &mut self,
        plugin: &ControllerPlugin,
        running: Option<&crate::wire::Plugin>,
        now: Instant,
    ) -> Option<Instant> {
        let name = &plugin.metadata.name;
        let followed = self.by_name.get_mut(name)?;
        if followed.writing || followed.releasing {
            return None;
        }
        let attempt = match (&followed.under_way, &followed.ended) {
            (None, Some((_, Ok(digest)))) => Attempt::Taken(digest),
            (None, Some((_, Err(why)))) if !why.is_busy() => Attempt::Refused(why),
            _ => Attempt::UnderWay,
        };
        let known = Known {
            generation: plugin.metadata.generation,
            attempt,
            plugin: running,
            before: &plugin.status,
            now: &control::now(),
        };
        let status = desired(&known);
        if status == plugin.status {
            return None;
        }
        if let Some((version, written)) = &followed.written {
            if *version == plugin.metadata.resource_version {
                // The cache does not show it yet.
                return None;
            }
            if *written == status && followed.may_repeat.is_some_and(|at| now < at) {
                return followed.may_repeat;
            }
        }
        if let Some(at) = followed.may_write.filter(|at| now < *at) {
            return Some(at);
        }
        let Some(resource) = self.caches.resource(&resource_kind()) else { return Some(now + WRITE_PAUSE) };
        followed.writing = true;
        let version = plugin.metadata.resource_version.clone();
        let patch = json!([
            {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
            {"op": "add", "path": "/status", "value": status},
        ]);
        let request = WriteRequest {
            resource,
            namespace: String::new(),
            name: name.clone(),
            subresource: Some("status".to_owned()),
            verb: WriteVerb::Patch { patch_type: PatchType::Json, body: patch.to_string() },
        };
        let (writer, name) = (self.writer.clone(), name.clone());
        self.tasks.spawn(async move {
            let (written, pause) = match writer.write(&request).await {
                Ok(_) => (Some((version, status)), WRITE_PAUSE),
                // It has changed or gone meanwhile; the cache will tell.
                Err(why) if matches!(why.class, ApiErrorClass::Conflict | ApiErrorClass::NotFound) => {
                    (None, WRITE_PAUSE)
                }
                Err(why) => {
                    tracing::warn!(plugin = name, %why, "the status of the ControllerPlugin cannot be written");
                    (None, WRITE_RETRY)
                }
            };
            Done::Written { name, written, pause }
        });
        None
    }

    fn end(&mut self, done: Result<Done, tokio::task::JoinError>) {
        match done {
            Ok(Done::Applied(name, result)) => {
                let Some(followed) = self.by_name.get_mut(&name) else { return };
                match &result {
                    Ok(_) => self.control.solved(&source_of(&name)),
                    Err(why) if why.is_busy() => {}
                    Err(why) => self.control.problem(&source_of(&name), &name, why),
                }
                followed.retry = retry_at(&result);
                followed.ended = followed.under_way.take().map(|key| (key, result));
            }
            Ok(Done::Released(name, result)) => {
                if let Some(at) = retry_at(&result)
                    && let Some(followed) = self.by_name.get_mut(&name)
                {
                    followed.releasing = false;
                    followed.retry = Some(at);
                } else {
                    self.by_name.remove(&name);
                }
                match result {
                    Ok(()) => self.control.solved(&source_of(&name)),
                    Err(why) if why.is_busy() => {}
                    Err(why) => self.control.problem(&source_of(&name), &name, &why),
                }
            }
            Ok(Done::Written { name, written, pause }) => {
                let Some(followed) = self.by_name.get_mut(&name) else { return };
                let now = Instant::now();
                followed.writing = false;
                followed.written = written;
                followed.may_write = Some(now + pause);
                followed.may_repeat = Some(now + WRITE_AGAIN);
            }
            // Its resource stays as it is: it would fail again.
            Err(why) => tracing::error!(%why, "following a ControllerPlugin failed"),
        }
    }
}

fn retry_at<T>(result: &Result<T, Refusal>) -> Option<Instant> {
    result.as_ref().err().and_then(Refusal::retry_after).map(|after| Instant::now() + after)
}

/// What problems are filed under.
fn source_of(name: &str) -> String {
    format!("ControllerPlugin {name}")
}

/// Reads the component and carries out what is said of it; answers its digest.
async fn apply(
    control: &Control,
    fetcher: &Fetcher,
    name: &str,
    found: Found,
    builtin: Option<&'static [u8]>,
    mut spec: Spec,
) -> Result<String, Refusal> {
    let (origin, bytes, evidence) = get(found, builtin, fetcher).await?;
    let origin = format!("{} ({origin})", source_of(name));
    if builtin.is_some() {
        spec = control.granted(&origin, &bytes, spec);
    }
    let wanted = Wanted { origin, bytes, spec: Some(spec), overrides: &Overrides::NONE, evidence };
    let report = control.apply(Way::Resource, name, wanted).await?;
    tracing::info!(plugin = name, result = ?report.result, "taken from its ControllerPlugin");
    Ok(report.to.map(|to| to.digest).unwrap_or_default())
}

/// The manifest of somebody who only watches.
pub(super) fn manifest(watches: Value) -> Manifest {
    let manifest = json!({
        "name": WRITER,
        "version": env!("CARGO_PKG_VERSION"),
        "contract": "0.1",
        "watches": watches,
        "queues": [{"name": "none"}],
    });
    // What a resource names has been checked before; a watch that cannot be is left out by the caches, with a line in the log.
    serde_json::from_value(manifest).unwrap_or_else(|why| unreachable_manifest(&why))
}

fn unreachable_manifest(why: &serde_json::Error) -> Manifest {
    // Only the shapes of this file get here.
    unreachable!("the host's own manifest does not parse: {why}")
}
