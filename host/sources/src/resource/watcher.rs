//! Follows the `ControllerPlugin`s of the cluster.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use pintle_cache::{Caches, ChangeHandler, Delta, RunContext, Subscription};
use pintle_core::contract::manifest::Manifest;
use pintle_core::lifecycle::resource_kind;
use pintle_core::object::id::Kind;
use pintle_core::ports::view::Query;
use pintle_oci::{ArtifactRef, Fetcher};
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::crd;
use super::floors::Floors;
use super::pins::Pins;
use super::proven::Proven;
use super::source::{Found, Sources, Stamps, get};
use super::spec::{ControllerPlugin, Source as Place, class_of};
use super::status::{Attempt, Signature, StatusWriter, WritersOfPlugins};
use crate::control::{Control, PluginSource, Wanted};
use crate::controller::{Source, SourceController, until};
use crate::file_work::FileWork;
use crate::wire::{Overrides, Refusal, reason};

/// The name of the host's own writer.
pub const WRITER: &str = "pintle-plugins";

/// Delay before checking an unsynced cache again.
const NOT_YET: Duration = Duration::from_millis(200);

/// The parts of a watcher.
pub struct Parts {
    /// The host's caches.
    pub caches: Arc<Caches>,
    /// Writes statuses.
    pub writers: WritersOfPlugins,
    /// Decides which component runs under each name.
    pub control: Arc<Control>,
    /// The plugin folder, if there is one.
    pub folder: Option<PathBuf>,
    /// Ticks when something in the folder has changed.
    pub folder_changed: watch::Receiver<u64>,
    /// Built-in components, by plugin name.
    pub builtins: BTreeMap<String, &'static [u8]>,
    /// Pulls components.
    pub fetcher: Fetcher,
    /// Whether components may come from tags and ConfigMaps without a digest, a signature or grants of their
    /// predecessor.
    pub allow_unpinned: bool,
    /// The class of resources that the host applies.
    pub class: String,
    /// Signature of the host.
    pub signature: Signature,
}

/// Follows the resources while it is polled.
pub struct Watcher {
    control: Arc<Control>,
    class: String,
    folder_changed: watch::Receiver<u64>,
    woken: Arc<Notify>,
    resources: Subscription,
    sources: Sources,
    pins: Arc<Pins>,
    floors: Arc<Floors>,
    proven: Arc<Proven>,
    plugins: SourceController<ResourceSource>,
    statuses: StatusWriter,
    /// Whether files may have changed since the last check.
    files_changed: bool,
    /// Checks files. An unresponsive file system blocks it; earlier results are valid until then.
    looking: Option<JoinHandle<BTreeMap<PathBuf, Stamps>>>,
}

/// The spec of a resource, and the current component of its source.
#[derive(Clone, PartialEq)]
struct Asked {
    uid: String,
    spec: Value,
    /// Absent if the spec is invalid.
    found: Option<Found>,
}

struct ResourceSource {
    control: Arc<Control>,
    fetcher: Fetcher,
    builtins: BTreeMap<String, &'static [u8]>,
    pins: Arc<Pins>,
    floors: Arc<Floors>,
    proven: Arc<Proven>,
    files: FileWork,
    allow_unpinned: bool,
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
    /// Starts reading. Call it within a tokio runtime.
    pub fn new(parts: Parts) -> Self {
        let Parts {
            caches,
            writers,
            control,
            folder,
            folder_changed,
            builtins,
            fetcher,
            allow_unpinned,
            class,
            signature,
        } = parts;
        let woken = Arc::new(Notify::new());
        let handler: Arc<dyn ChangeHandler> = Arc::new(Wake(woken.clone()));
        // A change of the definition makes the caches look for the kind immediately.
        let watches = json!([
            {"kind": resource_kind(), "whole": true},
            {"kind": crd::definition_kind(), "fieldSelector": format!("metadata.name={}", crd::NAME)},
        ]);
        let resources = caches.subscribe(Arc::new(manifest(watches)), handler.clone());
        let names = builtins.keys().cloned().collect();
        let sources = Sources::new(caches.clone(), handler, folder, control.demands_signatures(), names);
        let (pins, floors) = (Arc::<Pins>::default(), Arc::<Floors>::default());
        let proven = Arc::<Proven>::default();
        let source = ResourceSource {
            control: control.clone(),
            fetcher,
            builtins,
            pins: pins.clone(),
            floors: floors.clone(),
            proven: proven.clone(),
            files: FileWork::default(),
            allow_unpinned,
        };
        let plugins = SourceController::new(source, control.clone());
        let statuses = StatusWriter::new(caches, writers, signature);
        Self {
            control,
            class,
            folder_changed,
            woken,
            resources,
            sources,
            pins,
            floors,
            proven,
            plugins,
            statuses,
            files_changed: false,
            looking: None,
        }
    }

    /// Follows until the host stops. Then it marks the statuses as not up to date.
    pub async fn follow(mut self, stopping: CancellationToken) {
        let mut changes = self.control.changes();
        loop {
            let again = self.pass();
            tokio::select! {
                () = stopping.cancelled() => break,
                () = self.woken.notified() => {}
                // A dropped sender sends nothing; the others do.
                Ok(()) = changes.changed() => {}
                Ok(()) = self.folder_changed.changed() => self.files_changed = true,
                stamps = looked(&mut self.looking) => self.sources.set_stamps(stamps),
                Some(done) = self.plugins.ended() => self.plugins.end(done),
                Some(written) = self.statuses.ended() => self.statuses.end(written),
                () = until(again) => {}
            }
        }
        let present = self.present().unwrap_or_default();
        let led = present.values().filter(|plugin| self.control.may_run(&plugin.metadata.name));
        self.statuses.leave(led).await;
    }

    /// Starts due tasks. Returns the latest time of the next pass.
    fn pass(&mut self) -> Option<Instant> {
        let soon = Some(Instant::now() + NOT_YET);
        if !self.resources.is_synced() {
            return soon;
        }
        let present = self.present()?;
        let places: BTreeMap<&String, Place> =
            present.iter().filter_map(|(name, plugin)| Some((name, plugin.parse().ok()?.0))).collect();
        self.sources.keep(places.values());
        self.look_at_files(places.values());
        let mut wanted = BTreeMap::new();
        for (name, plugin) in &present {
            self.floors.seen(name, &plugin.status);
            self.proven.seen(plugin);
            let found = places.get(name).map(|place| self.find(name, place, &plugin.status));
            let asked = Asked { uid: plugin.metadata.uid.clone(), spec: plugin.spec.clone(), found };
            wanted.insert(name.clone(), (asked.found != Some(Found::NotYet)).then_some(asked));
        }
        let waits = wanted.values().any(Option::is_none);
        let retry = self.plugins.pass(wanted);
        let listing = self.control.listing();
        self.pins.retain(|name| present.contains_key(name));
        self.floors.retain(|name| present.contains_key(name));
        self.proven.retain(|name| present.contains_key(name));
        let mut again: Vec<Instant> = retry.into_iter().chain(soon.filter(|_| waits)).collect();
        // On standby, another host writes.
        let leads = |name: &&String| self.control.may_run(name);
        self.statuses.retain(|name| present.contains_key(name) && leads(&name));
        let running = |name: &String| listing.items.iter().find(|running| running.name == *name);
        for (name, plugin) in present.iter().filter(|(name, _)| leads(name)) {
            let (attempt, artifact) = (Attempt::of(self.plugins.result(name)), self.pins.status(name));
            again.extend(self.statuses.write_if_due(plugin, attempt, running(name), artifact));
        }
        again.into_iter().min()
    }

    /// The resources of the host's class. A kind that the server does not have has no objects.
    fn present(&self) -> Option<BTreeMap<String, ControllerPlugin>> {
        let view = self.resources.snapshot().view(RunContext::default());
        let texts = view.list(&resource_kind(), &Query { whole: true, ..Query::default() }).ok()?;
        let mut present = BTreeMap::new();
        for text in texts {
            match serde_json::from_str::<ControllerPlugin>(&text) {
                Ok(plugin) if class_of(&plugin.spec) != self.class => {}
                Ok(plugin) => drop(present.insert(plugin.metadata.name.clone(), plugin)),
                Err(error) => tracing::warn!(%error, "a ControllerPlugin does not parse"),
            }
        }
        Some(present)
    }

    /// Starts to check the files in resources, if they may have changed.
    fn look_at_files<'a>(&mut self, named: impl Iterator<Item = &'a Place>) {
        let files = self.sources.files(named);
        if self.looking.is_none() && (self.files_changed || self.sources.lacks(&files)) {
            self.files_changed = false;
            self.looking = Some(tokio::task::spawn_blocking(self.sources.stamps(files)));
        }
    }

    fn find(&mut self, name: &str, place: &Place, status: &Value) -> Found {
        if let Place::Oci(reference) = place {
            return Found::Oci(self.pins.start(name, reference, status));
        }
        self.pins.forget(name);
        self.sources.look(place)
    }
}

impl Source for ResourceSource {
    type Wanted = Asked;

    const SOURCE: PluginSource = PluginSource::Resource;

    fn label(&self, name: &str, _: &Asked) -> String {
        format!("ControllerPlugin {name}")
    }

    /// Reads the component and applies it with the spec.
    fn apply(&self, name: &str, asked: Asked) -> BoxFuture<'static, Result<String, Refusal>> {
        let label = self.label(name, &asked);
        let Asked { uid, spec, found } = asked;
        let builtin = match &found {
            Some(Found::Builtin(name)) => self.builtins.get(name).copied(),
            _ => None,
        };
        let (control, fetcher, name) = (self.control.clone(), self.fetcher.clone(), name.to_owned());
        let (pins, floors, proven) = (self.pins.clone(), self.floors.clone(), self.proven.clone());
        let (files, allow_unpinned) = (self.files.clone(), self.allow_unpinned);
        async move {
            // Events about rejections refer to this resource, too.
            control.set_resource_uid(&name, &uid);
            if spec["disabled"] == true {
                // First, because disabling the running plugin must not depend on the component.
                control.disable_for(PluginSource::Resource, &name);
            }
            let (place, mut spec) = super::spec::parse(&spec).map_err(|error| Refusal::new(reason::INVALID, error))?;
            let is_named = place.is_pinned() || spec.digest.is_some();
            let by_signature = !is_named && control.demands_signatures();
            if !is_named && !by_signature {
                check_allowed(&place, allow_unpinned)?;
                spec = control.without_inherited_grants(spec);
            }
            let (origin, bytes, evidence) = get(found.unwrap_or(Found::NotYet), builtin, &fetcher, &files).await?;
            if by_signature && !allow_unpinned {
                let version = control.version_of(&origin, &bytes, &evidence).await?;
                floors.check(&name, &version).map_err(|why| Refusal::new(reason::DOWNGRADE, why))?;
            }
            let artifact = origin.parse::<ArtifactRef>().ok();
            let origin = format!("{label} ({origin})");
            if builtin.is_some() {
                spec = control.granted(&origin, &bytes, spec);
            }
            if let Some(digest) = proven.take(&name) {
                control.set_proven(&name, &digest);
            }
            let wanted = Wanted { origin, bytes, spec: Some(spec), overrides: &Overrides::NONE, evidence };
            let report = control.apply(PluginSource::Resource, &name, wanted).await?;
            if let Some(artifact) = artifact {
                pins.applied(&name, &artifact);
            }
            if let Some(to) = &report.to {
                floors.applied(&name, &to.version);
            }
            tracing::info!(plugin = name, result = ?report.result, "applied from its ControllerPlugin");
            Ok(report.to.map(|to| to.digest).unwrap_or_default())
        }
        .boxed()
    }
}

/// The result of a task when it ends. Without a task, it never returns.
///
/// # Cancel safety
/// No result is lost.
async fn looked(task: &mut Option<JoinHandle<BTreeMap<PathBuf, Stamps>>>) -> BTreeMap<PathBuf, Stamps> {
    let Some(running) = task else { return std::future::pending().await };
    let stamps = running.await;
    *task = None;
    stamps.unwrap_or_else(|error| {
        tracing::error!(%error, "looking at the files of ControllerPlugins failed");
        BTreeMap::new()
    })
}

/// # Errors
/// The operator of the host has not allowed components from sources that others can change.
fn check_allowed(place: &Place, allow_unpinned: bool) -> Result<(), Refusal> {
    if allow_unpinned {
        return Ok(());
    }
    let why = match place {
        Place::Oci(_) => {
            "spec.source.oci: whoever can move the tag would choose what runs; add the digest (@sha256:DIGEST, which `pintle push` prints)"
        }
        _ => {
            "spec.source.configMap: whoever can edit the ConfigMap would choose what runs; set spec.digest (`pintle package` prints it)"
        }
    };
    let otherwise =
        "or start the host with --verify-key FILE (signed components only) or --allow-unpinned (any component)";
    Err(Refusal::new(reason::UNPINNED, format!("{why}, {otherwise}")))
}

/// A manifest that only watches.
pub(super) fn manifest(watches: Value) -> Manifest {
    let manifest = json!({
        "name": WRITER,
        "version": env!("CARGO_PKG_VERSION"),
        "contract": "0.2",
        "watches": watches,
        "queues": [{"name": "none"}],
    });
    // The names in a resource were validated before. The caches skip an invalid watch, with a line in the log.
    serde_json::from_value(manifest).unwrap_or_else(|error| unreachable_manifest(&error))
}

fn unreachable_manifest(error: &serde_json::Error) -> Manifest {
    // Only the manifests of this file get here.
    unreachable!("the host's own manifest does not parse: {error}")
}

#[cfg(test)]
mod tests;
