//! Loads a component while the host runs, as a new version of a plugin or as a new plugin.
//!
//! ```text
//! validate (digest, contract, manifest, grants, settings, limits) ──> compile ──> sync ──> shadow? ──> switch
//!    └──────────────┴──────────────┴─────────────┴──> rejected: nothing has changed
//! ```
//!
//! Invariants:
//! 1. [`Manager::apply`] is the only entry point.
//! 2. One attempt at a time per plugin, one compilation at a time per host.
//! 3. A failure before the switch leaves the running version in place.
//!
//! Not here: the switch (`controller::swap`), the sources of components.

use std::sync::Arc;
use std::time::Duration;

use pintle_core::contract::manifest::{Grant, Manifest};
use pintle_core::contract::outcome::Event;
use pintle_core::lifecycle::{Spec, Stage, SwapReport, SwapResult, Ungranted, VersionInfo, resource_kind};
use pintle_core::object::id::ObjectKey;
use pintle_core::policy::grants::{self, Grants, Missing};
use pintle_core::ports::api::WriterIdentity;
use pintle_core::ports::guest::{Guest, Inspected, LoadFailure, Loader};
use pintle_core::text::cut;
use tokio::time::Instant;

use super::{Manager, ManagerError, PluginOptions, RateLimit};
use crate::controller::{Controller, Reason, Version, published, timestamp};
use crate::large;
use crate::recorder::{Recorder, RecorderConfig};
use pintle_core::policy::held::{Account, MAX_HELD_BYTES};

/// Source of events about plugins that do not run.
const HOST: &str = "pintle";
/// Maximum bytes of the message of such an event: the API's limit.
const MAX_EVENT_BYTES: usize = 1_024;

/// A component to load.
#[derive(Clone, Debug)]
pub struct Component {
    /// Origin, for humans: a path, `built-in NAME` and so on.
    pub origin: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// An attempt was rejected, and nothing has changed. A retry helps only for `Busy`, `NotSynced` and shadow results.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SwapError {
    /// The reason as one word in CamelCase: `Busy`, `BadComponent`, `DigestMismatch`, `OtherPlugin`, `NotGranted`,
    /// `UnknownField`, `BadSpec`, `NotSynced`, `ShadowDiffers`, `ShadowFaults`, `NotFound`, `NoPrevious`, `NoLoader`,
    /// `Stopping`.
    pub reason: &'static str,
    /// The problem, and the next step.
    pub message: String,
}

impl SwapError {
    fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }

    fn unknown(name: &str, manager: &Manager) -> Self {
        let known: Vec<String> = manager.plugins.lock().by_name.keys().cloned().collect();
        Self::new("NotFound", format!("there is no plugin {name:?}; loaded are {}", known.join(", ")))
    }
}

impl From<LoadFailure> for SwapError {
    fn from(failure: LoadFailure) -> Self {
        Self::new("BadComponent", failure.0)
    }
}

impl From<ManagerError> for SwapError {
    fn from(error: ManagerError) -> Self {
        Self::new("BadSpec", error.to_string())
    }
}

impl Manager {
    /// Loads a component under its plugin's name: starts a new plugin, or swaps an existing one. Returns after the new
    /// version has taken over (it is then on probation), or was rejected. `expected`: the plugin that the caller
    /// expects.
    ///
    /// # Errors
    /// [`SwapError`]; the running version is unchanged, and its status reports the rejection.
    ///
    /// # Cancel safety
    /// If dropped before the switch, nothing has changed.
    pub async fn apply(
        &self,
        component: Component,
        spec: &Spec,
        expected: Option<&str>,
    ) -> Result<SwapReport, SwapError> {
        let arrived = Instant::now();
        let component = Arc::new(component);
        let inspected = self.inspect(&component).await;
        let name = match (&inspected, expected) {
            (Ok(inspected), _) => inspected.manifest.name.clone(),
            (Err(_), Some(expected)) => expected.to_owned(),
            (Err(why), None) => return Err(why.clone()),
        };
        // A rejection is reported on the plugin that the caller expects.
        let meant = expected.unwrap_or(&name);
        let Some(controller) = self.controller(meant) else {
            let inspected = inspected?;
            check_name(&inspected.manifest, expected)?;
            return self.load(&component, inspected, spec).await;
        };
        let Some(attempt) = controller.attempt() else {
            let message = format!("another version of {meant} is being applied already; wait for it, then retry");
            return Err(SwapError::new("Busy", message));
        };
        let incoming = inspected.as_ref().ok().map(|inspected| info(&component, inspected));
        attempt.stage(Stage::Validating, incoming.clone());
        let swapped = async {
            let inspected = inspected?;
            check_name(&inspected.manifest, expected)?;
            let stage = |stage| attempt.stage(stage, None);
            let (version, _) = self.prepare(&component, inspected, spec, Some(&controller), stage).await?;
            attempt.stage(Stage::Syncing, None);
            self.sync(&controller, &version).await?;
            if let Some(rules) = &version.spec.strategy.shadow {
                attempt.stage(Stage::Shadowing, None);
                // On standby there are no runs to compare.
                controller.led().await;
                self.shadow(&controller, &version, rules).await?;
            }
            Ok::<_, SwapError>(version)
        };
        match swapped.await {
            // The plugin may have been removed meanwhile.
            Ok(_) if !self.controller(meant).is_some_and(|present| Arc::ptr_eq(&present, &controller)) => {
                Err(SwapError::new("NotFound", format!("plugin {meant} was unloaded before its new version took over")))
            }
            Ok(version) => {
                match (controller.version().spec.disabled, version.spec.disabled) {
                    (false, true) => controller.disable("its spec disables it"),
                    (true, false) => controller.enable("its spec no longer disables it"),
                    _ => {}
                }
                let rules = version.spec.strategy.probation.clone();
                let mut message = format!("version {} from {}", version.manifest().version, component.origin);
                if let Some(report) = version.spec.strategy.shadow.as_ref().and_then(|_| controller.shadow_report()) {
                    message = format!("{message}; in the shadow: {}", report.summary());
                }
                let why = Reason { result: SwapResult::Switched, reason: "Requested", message };
                let report = controller.switch(version, Some(rules), why);
                controller.swap_took(arrived.elapsed());
                Ok(report)
            }
            Err(why) => {
                controller.refused(incoming, why.reason, &why.message);
                Err(why)
            }
        }
    }

    /// Restores the previous version. It ran before, so it is not on probation.
    ///
    /// # Errors
    /// [`SwapError`] if there is no previous version.
    ///
    /// # Cancel safety
    /// If dropped before the switch, nothing has changed.
    pub async fn rollback(&self, name: &str) -> Result<SwapReport, SwapError> {
        let controller = self.controller(name).ok_or_else(|| SwapError::unknown(name, self))?;
        let attempt = controller.attempt().ok_or_else(|| {
            SwapError::new("Busy", format!("another version of {name} is being applied; wait for it, then roll back"))
        })?;
        let Some(previous) = controller.previous() else {
            return Err(SwapError::new("NoPrevious", format!("plugin {name} has no previous version")));
        };
        let asked = Instant::now();
        attempt.stage(Stage::Syncing, None);
        self.sync(&controller, &previous).await?;
        let why = Reason {
            result: SwapResult::Switched,
            reason: "RollbackRequested",
            message: format!("back to version {}", previous.manifest().version),
        };
        let report = controller.switch(previous, None, why);
        controller.swap_took(asked.elapsed());
        Ok(report)
    }

    /// Starts no more runs until [`Manager::enable`]; runs in flight end, keys are still collected.
    ///
    /// # Errors
    /// [`SwapError`] if the plugin does not exist.
    pub fn disable(&self, name: &str, why: &str) -> Result<(), SwapError> {
        self.controller(name).ok_or_else(|| SwapError::unknown(name, self))?.disable(why);
        Ok(())
    }

    /// Starts runs again; also ends a quarantine.
    ///
    /// # Errors
    /// [`SwapError`] if the plugin does not exist.
    pub fn enable(&self, name: &str, why: &str) -> Result<(), SwapError> {
        self.controller(name).ok_or_else(|| SwapError::unknown(name, self))?.enable(why);
        Ok(())
    }

    /// Confirms the held deletions of a plugin's version on probation, and all later ones.
    ///
    /// # Errors
    /// [`SwapError`] if the plugin does not exist, or no deletions are held.
    pub fn approve(&self, name: &str, why: &str) -> Result<(), SwapError> {
        let controller = self.controller(name).ok_or_else(|| SwapError::unknown(name, self))?;
        if controller.approve_deletions(why) {
            return Ok(());
        }
        Err(SwapError::new(
            "NothingHeld",
            format!("no deletions of plugin {name} are held; `pintle plugin describe {name}` shows its conditions"),
        ))
    }

    /// Counts a read of a plugin's setting file that returned no valid content.
    pub fn count_followed_file_error(&self, plugin: &str, setting: &str) {
        self.metrics.followed_file_error(plugin, setting);
    }

    /// Records an event about a plugin; does nothing if the plugin does not exist.
    pub fn record_event(&self, name: &str, warning: bool, reason: &str, message: String) {
        if let Some(controller) = self.controller(name) {
            controller.observers.record_plugin_event(warning, reason, message);
        }
    }

    /// Records an event about a plugin that was not applied, and may not run. Call it within a tokio runtime.
    pub fn record_refusal(&self, name: &str, message: String) {
        if self.controller(name).is_some_and(|controller| controller.has_reported(&message)) {
            return;
        }
        let kind = resource_kind();
        let regarding_uid = self.resource_uids.lock().get(name).cloned().unwrap_or_default();
        self.own_recorder(name).record(Event {
            regarding_kind: kind,
            regarding: ObjectKey::new("", name),
            regarding_uid,
            warning: true,
            reason: "NotApplied".to_owned(),
            message: cut(&message, MAX_EVENT_BYTES).to_owned(),
        });
    }

    /// Records an event of the host itself, about any object. Call it within a tokio runtime.
    pub fn record_own_event(&self, event: Event) {
        self.own_recorder(HOST).record(event);
    }

    /// The host's recorder for events about a plugin.
    fn own_recorder(&self, plugin: &str) -> &Recorder {
        self.recorders[self.group(plugin).index()].get_or_init(|| {
            let identity = WriterIdentity {
                name: HOST.into(),
                qps: self.config.qps,
                burst: self.config.burst,
                account: None,
                fence: self.fence(plugin),
            };
            let config = RecorderConfig {
                component: HOST.into(),
                clock: self.config.clock.clone(),
                seed: self.config.seed,
                idle_signal: self.idle_signal.clone(),
                account: Account::new(MAX_HELD_BYTES),
            };
            Recorder::start(self.writers.client(&identity).writer, config, self.metrics.events(HOST)).0
        })
    }

    /// Reports a change in the visible state of the plugins.
    pub fn mark_changed(&self) {
        self.changes.send_modify(|n| *n += 1);
    }

    fn loader(&self) -> Result<Arc<dyn Loader>, SwapError> {
        let loader = self.loader.lock().clone();
        loader.ok_or_else(|| SwapError::new("NoLoader", "this host loads no components while it runs"))
    }

    /// Reads the component's metadata. Components may be large, so this runs on a blocking thread.
    async fn inspect(&self, component: &Arc<Component>) -> Result<Inspected, SwapError> {
        let loader = self.loader()?;
        let component = component.clone();
        let inspected = tokio::task::spawn_blocking(move || loader.inspect(&component.origin, &component.bytes));
        match inspected.await {
            Ok(inspected) => Ok(inspected?),
            Err(panic) => Err(SwapError::new("BadComponent", format!("reading it failed: {panic}"))),
        }
    }

    async fn load(
        &self,
        component: &Arc<Component>,
        inspected: Inspected,
        spec: &Spec,
    ) -> Result<SwapReport, SwapError> {
        let digest = inspected.digest.clone();
        let (version, rate_limit) = self.prepare(component, inspected, spec, None, |_| {}).await?;
        let name = version.manifest().name.clone();
        let at = timestamp(&self.config.clock);
        let mut plugins = self.plugins.lock();
        if plugins.by_name.contains_key(&name) {
            let message = format!("plugin {name} was loaded concurrently by another request; retry");
            return Err(SwapError::new("Busy", message));
        }
        if plugins.stopping {
            return Err(SwapError::new("Stopping", "the host is about to stop"));
        }
        let report = SwapReport {
            from: None,
            to: Some(version.info(at.clone())),
            result: SwapResult::Switched,
            reason: "Loaded".into(),
            message: format!("version {} from {}", version.manifest().version, component.origin),
            at,
            pause_micros: 0,
        };
        tracing::info!(plugin = name, origin = component.origin, version = version.manifest().version, "loaded");
        self.insert(&mut plugins, version, rate_limit);
        let proven = self.proven.lock().remove(&name);
        if let Some(plugin) = plugins.by_name.get(&name)
            && proven != Some(digest)
        {
            plugin.controller.guard_deletions();
        }
        drop(plugins);
        self.changes.send_modify(|n| *n += 1);
        Ok(report)
    }

    /// Checks everything about a component that does not require running it, and compiles it. The rate limit is the
    /// operator's for a new plugin.
    async fn prepare(
        &self,
        component: &Arc<Component>,
        inspected: Inspected,
        spec: &Spec,
        present: Option<&Arc<Controller>>,
        stage: impl Fn(Stage),
    ) -> Result<(Arc<Version>, Option<RateLimit>), SwapError> {
        check_digest(spec, &inspected.digest)?;
        let present = present.map(|controller| controller.version());
        let given = self.given(spec, present.as_deref());
        // Both lists may be long.
        large::beside_workers(|| check_grants(&inspected.manifest, given.as_deref(), spec.ungranted)).await?;
        let schemas = published(&inspected.manifest, &*self.reader).await;
        let paths = inspected.manifest.check_paths(|kind| schemas.get(kind).cloned());
        paths.map_err(|wrong| SwapError::new("UnknownField", wrong.to_string()))?;
        stage(Stage::Compiling);
        let guest = self.compile(component, spec).await?;
        stage(Stage::Validating);
        let tuned = (self.config.tune)(guest.manifest());
        let rate_limit = tuned.rate_limit;
        let options = PluginOptions {
            spec: spec.clone(),
            origin: component.origin.clone(),
            digest: inspected.digest,
            is_carried: (self.config.carries)(&component.bytes),
            ..tuned
        };
        // `self.version` checks settings, workers and metrics. It runs after compilation because it also registers the
        // metrics.
        Ok((self.version(guest, options, given.as_deref())?, rate_limit))
    }

    /// The operator's grants: those of the spec; else the requests of the current version; else none, unless the host
    /// grants every request.
    fn given(&self, spec: &Spec, present: Option<&Version>) -> Option<Vec<Grant>> {
        if let Some(grants) = &spec.grants {
            return Some(grants.clone());
        }
        if self.config.grant_requested {
            return None;
        }
        let inherited = present.map(|present| match &present.spec.grants {
            Some(grants) => grants.clone(),
            None => grants::asked_by(present.manifest()),
        });
        Some(inherited.unwrap_or_default())
    }

    async fn compile(&self, component: &Arc<Component>, spec: &Spec) -> Result<Arc<dyn Guest>, SwapError> {
        let loader = self.loader()?;
        // This semaphore is never closed.
        let permit = self.compiling.clone().acquire_owned().await;
        let (component, limits) = (component.clone(), spec.limits.clone());
        let compiled = tokio::task::spawn_blocking(move || {
            let guest = loader.load(&component.origin, &component.bytes, &limits);
            drop(permit);
            guest
        });
        match compiled.await {
            Ok(guest) => Ok(guest?),
            Err(panic) => Err(SwapError::new("BadComponent", format!("compiling failed: {panic}"))),
        }
    }

    /// Subscribes the version to the caches, and waits until they are synced.
    async fn sync(&self, controller: &Arc<Controller>, version: &Arc<Version>) -> Result<(), SwapError> {
        if version.subscription().is_none() {
            let present = controller.version();
            let shared = present.subscription().filter(|_| version.reads_as(&present));
            version.attach(shared.unwrap_or_else(|| self.subscribe(controller, version)));
        }
        let Some(cache) = version.cache() else { return Ok(()) };
        let patience = Duration::from_millis(version.spec.strategy.sync_timeout_ms.unwrap_or(60_000).into());
        controller.awaits_caches(version, Instant::now() + patience);
        // A plugin whose current version waits for its caches can still be replaced.
        if tokio::time::timeout(patience, cache.synced()).await.is_err() {
            let kinds = cache.unsynced().iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let message = format!(
                "its caches were not synced within {patience:?}; missing: {kinds}. Does the host's own role allow to list and watch them?"
            );
            return Err(SwapError::new("NotSynced", message));
        }
        Ok(())
    }

    async fn shadow(
        &self,
        controller: &Arc<Controller>,
        version: &Arc<Version>,
        rules: &pintle_core::lifecycle::Shadow,
    ) -> Result<(), SwapError> {
        let shadowing = controller.begin_shadowing(version.clone(), rules.clone());
        // If it is dropped early, shadow mode ends as well.
        let ending = EndShadowing(controller);
        match shadowing.until() {
            None => shadowing.over().await,
            // At the time limit, the comparisons so far decide.
            Some(until) => drop(tokio::time::timeout_at(until, shadowing.over()).await),
        }
        drop(ending);
        match shadowing.objection() {
            None => Ok(()),
            Some((reason, message)) => Err(SwapError::new(reason, message)),
        }
    }
}

struct EndShadowing<'a>(&'a Arc<Controller>);

impl Drop for EndShadowing<'_> {
    fn drop(&mut self) {
        self.0.end_shadowing();
    }
}

fn info(component: &Component, inspected: &Inspected) -> VersionInfo {
    VersionInfo {
        version: inspected.manifest.version.clone(),
        digest: inspected.digest.clone(),
        origin: component.origin.clone(),
        since: String::new(),
    }
}

fn check_name(manifest: &Manifest, expected: Option<&str>) -> Result<(), SwapError> {
    match expected.filter(|expected| *expected != manifest.name) {
        None => Ok(()),
        Some(expected) => Err(SwapError::new(
            "OtherPlugin",
            format!("the component is plugin {:?} according to its manifest, not {expected:?}", manifest.name),
        )),
    }
}

fn check_digest(spec: &Spec, digest: &str) -> Result<(), SwapError> {
    let Some(wanted) = &spec.digest else { return Ok(()) };
    let bare = wanted.strip_prefix("sha256:").unwrap_or(wanted);
    if bare.eq_ignore_ascii_case(digest) {
        return Ok(());
    }
    if bare.len() != 64 || !bare.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(SwapError::new(
            "BadSpec",
            format!("digest: {wanted:?} is not a SHA-256; write its 64 hexadecimal digits, here sha256:{digest}"),
        ));
    }
    Err(SwapError::new(
        "DigestMismatch",
        format!(
            "the component's digest is sha256:{digest}, but sha256:{bare} is required: it is another build, or was tampered with"
        ),
    ))
}

/// Maximum grants in a spec. Inherited grants are at most the watches and grants of a version, discovery and events.
const MAX_GIVEN: usize = 1_024;

fn check_grants(manifest: &Manifest, given: Option<&[Grant]>, ungranted: Ungranted) -> Result<(), SwapError> {
    let Some(given) = given else { return Ok(()) };
    if given.len() > MAX_GIVEN {
        let message = format!("grants: {} are too many, at most {MAX_GIVEN}", given.len());
        return Err(SwapError::new("BadSpec", message));
    }
    for (i, grant) in given.iter().enumerate() {
        let checked = grant.check().and_then(|()| grant.check_adoption(manifest.selects()));
        checked.map_err(|why| SwapError::new("BadSpec", format!("grants[{i}].{why}")))?;
    }
    let missing: Vec<Missing> = Grants::missing(manifest, given)
        .into_iter()
        .filter(|missing| ungranted == Ungranted::Refuse || missing.watch)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(SwapError::new("NotGranted", Missing::message(&missing, &manifest.name)))
}
