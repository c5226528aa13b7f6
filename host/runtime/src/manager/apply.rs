//! A component takes the place of a plugin's version, or becomes a new plugin, while the host runs.
//!
//! ```text
//! validate (digest, contract, manifest, grants, settings, limits) ──> compile ──> sync ──> shadow? ──> switch
//!    └──────────────┴──────────────┴─────────────┴──> refused: nothing has changed
//! ```
//!
//! Invariants:
//! 1. There is one way in, whoever asks: [`Manager::apply`].
//! 2. One attempt at a time for each plugin, one compilation at a time for the host.
//! 3. Whatever goes wrong before the switch leaves the running version as it is.
//!
//! Not here: the switch itself (`controller::swap`), where components come from.

use std::sync::Arc;
use std::time::Duration;

use pintle_core::contract::manifest::{Grant, Manifest};
use pintle_core::lifecycle::{Spec, Stage, SwapReport, SwapResult, Ungranted, VersionInfo};
use pintle_core::policy::grants::{self, Grants, Missing};
use pintle_core::ports::guest::{Guest, LoadFailure, Loader, Looked};

use super::{Manager, ManagerError, PluginOptions, RateLimit};
use crate::controller::{Controller, Reason, Version, timestamp};

/// A component that is to become a plugin.
#[derive(Clone, Debug)]
pub struct Component {
    /// Where it came from, for humans: a path, `built-in NAME`, ...
    pub origin: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// Nothing has changed, and why. Retrying helps only with `Busy`, `NotSynced` and what was seen in the shadow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SwapError {
    /// One word in CamelCase: `Busy`, `BadComponent`, `DigestMismatch`, `OtherPlugin`, `NotGranted`, `BadSpec`, `NotSynced`,
    /// `ShadowDiffers`, `ShadowFaults`, `NotFound`, `NoPrevious`, `NoLoader`, `Stopping`.
    pub reason: &'static str,
    /// What is wrong, and what to do.
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
    /// Makes a component the plugin of its name: a new one is started, a known one is swapped. Ends when the new version has taken
    /// over (then it is on probation), or was refused. `expected`: the plugin that the caller means.
    ///
    /// # Errors
    /// [`SwapError`]; the running version is untouched, and its status says what was refused.
    ///
    /// # Cancel safety
    /// Dropped before the switch, nothing has changed.
    pub async fn apply(
        &self,
        component: Component,
        spec: &Spec,
        expected: Option<&str>,
    ) -> Result<SwapReport, SwapError> {
        let component = Arc::new(component);
        let looked = self.look(&component).await;
        let name = match (&looked, expected) {
            (Ok(looked), _) => looked.manifest.name.clone(),
            (Err(_), Some(expected)) => expected.to_owned(),
            (Err(why), None) => return Err(why.clone()),
        };
        // What is refused is told of the plugin that was meant.
        let meant = expected.unwrap_or(&name);
        let Some(controller) = self.controller(meant) else {
            let looked = looked?;
            check_name(&looked.manifest, expected)?;
            return self.load(&component, looked, spec).await;
        };
        let Some(attempt) = controller.attempt() else {
            let message = format!("another version of {meant} is on its way in already; wait for it, then try again");
            return Err(SwapError::new("Busy", message));
        };
        let incoming = looked.as_ref().ok().map(|looked| info(&component, looked));
        attempt.stage(Stage::Validating, incoming.clone());
        let swapped = async {
            let looked = looked?;
            check_name(&looked.manifest, expected)?;
            let stage = |stage| attempt.stage(stage, None);
            let (version, _) = self.prepare(&component, looked, spec, Some(&controller), stage).await?;
            attempt.stage(Stage::Syncing, None);
            self.sync(&controller, &version).await?;
            if let Some(rules) = &version.spec.strategy.shadow {
                attempt.stage(Stage::Shadowing, None);
                self.shadow(&controller, &version, rules).await?;
            }
            Ok::<_, SwapError>(version)
        };
        match swapped.await {
            // The plugin may be gone by now.
            Ok(_) if !self.controller(meant).is_some_and(|present| Arc::ptr_eq(&present, &controller)) => {
                Err(SwapError::new("NotFound", format!("plugin {meant} was unloaded before its new version took over")))
            }
            Ok(version) => {
                match (controller.version().spec.disabled, version.spec.disabled) {
                    (false, true) => controller.disable("its spec says so"),
                    (true, false) => controller.enable(),
                    _ => {}
                }
                let rules = version.spec.strategy.probation.clone();
                let message = format!("version {} from {}", version.manifest().version, component.origin);
                let why = Reason { result: SwapResult::Switched, word: "Requested", message };
                Ok(controller.switch(version, Some(rules), why))
            }
            Err(why) => {
                controller.refused(incoming, why.reason, &why.message);
                Err(why)
            }
        }
    }

    /// Brings back the version before the present one. It ran before, so it is not on probation.
    ///
    /// # Errors
    /// [`SwapError`]: there is none.
    ///
    /// # Cancel safety
    /// Dropped before the switch, nothing has changed.
    pub async fn rollback(&self, name: &str) -> Result<SwapReport, SwapError> {
        let controller = self.controller(name).ok_or_else(|| SwapError::unknown(name, self))?;
        let attempt = controller.attempt().ok_or_else(|| {
            SwapError::new("Busy", format!("another version of {name} is on its way in; wait for it, then roll back"))
        })?;
        let Some(previous) = controller.previous() else {
            return Err(SwapError::new("NoPrevious", format!("plugin {name} has had no other version to go back to")));
        };
        attempt.stage(Stage::Syncing, None);
        self.sync(&controller, &previous).await?;
        let why = Reason {
            result: SwapResult::Switched,
            word: "RollbackRequested",
            message: format!("back to version {}", previous.manifest().version),
        };
        Ok(controller.switch(previous, None, why))
    }

    /// Takes no keys until [`Manager::enable`]; runs in flight end, keys are still collected.
    ///
    /// # Errors
    /// [`SwapError`]: there is no such plugin.
    pub fn disable(&self, name: &str, why: &str) -> Result<(), SwapError> {
        self.controller(name).ok_or_else(|| SwapError::unknown(name, self))?.disable(why);
        Ok(())
    }

    /// Takes keys again; ends a quarantine, too.
    ///
    /// # Errors
    /// [`SwapError`]: there is no such plugin.
    pub fn enable(&self, name: &str) -> Result<(), SwapError> {
        self.controller(name).ok_or_else(|| SwapError::unknown(name, self))?.enable();
        Ok(())
    }

    fn loader(&self) -> Result<Arc<dyn Loader>, SwapError> {
        let loader = self.loader.lock().clone();
        loader.ok_or_else(|| SwapError::new("NoLoader", "this host loads no components while it runs"))
    }

    /// What the component says of itself. It may be large, so that even reading it takes its time.
    async fn look(&self, component: &Arc<Component>) -> Result<Looked, SwapError> {
        let loader = self.loader()?;
        let component = component.clone();
        let looked = tokio::task::spawn_blocking(move || loader.look(&component.origin, &component.bytes));
        match looked.await {
            Ok(looked) => Ok(looked?),
            Err(panic) => Err(SwapError::new("BadComponent", format!("reading it failed: {panic}"))),
        }
    }

    async fn load(&self, component: &Arc<Component>, looked: Looked, spec: &Spec) -> Result<SwapReport, SwapError> {
        let (version, rate_limit) = self.prepare(component, looked, spec, None, |_| {}).await?;
        let name = version.manifest().name.clone();
        let at = timestamp(&self.config.clock);
        let mut plugins = self.plugins.lock();
        if plugins.by_name.contains_key(&name) {
            let message = format!("plugin {name} was loaded by somebody else in the same moment; try again");
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
        drop(plugins);
        self.changes.send_modify(|n| *n += 1);
        Ok(report)
    }

    /// All that can be said against a component without running it; and machine code. The rate limit is what the operator gives a
    /// plugin that is new.
    async fn prepare(
        &self,
        component: &Arc<Component>,
        looked: Looked,
        spec: &Spec,
        present: Option<&Arc<Controller>>,
        stage: impl Fn(Stage),
    ) -> Result<(Arc<Version>, Option<RateLimit>), SwapError> {
        check_digest(spec, &looked.digest)?;
        let present = present.map(|controller| controller.version());
        let given = self.given(spec, present.as_deref());
        check_grants(&looked.manifest, given.as_deref(), spec.ungranted)?;
        stage(Stage::Compiling);
        let guest = self.compile(component, spec).await?;
        stage(Stage::Validating);
        let tuned = (self.config.tune)(guest.manifest());
        let rate_limit = tuned.rate_limit;
        let options =
            PluginOptions { spec: spec.clone(), origin: component.origin.clone(), digest: looked.digest, ..tuned };
        // `self.version` checks settings, workers and metrics. They come after compiling only because metrics are declared then.
        Ok((self.version(guest, options, given.as_deref())?, rate_limit))
    }

    /// What the operator grants: what the spec says; else as much as the present version asks for; else nothing, unless the host
    /// grants what is asked for.
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
        // Never closed.
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

    /// Subscribes the version to the caches, and waits until they are filled.
    async fn sync(&self, controller: &Arc<Controller>, version: &Arc<Version>) -> Result<(), SwapError> {
        if version.subscription().is_none() {
            let present = controller.version();
            let shared = present.subscription().filter(|_| version.reads_as(&present));
            version.attach(shared.unwrap_or_else(|| self.subscribe(controller, version)));
        }
        let Some(cache) = version.cache() else { return Ok(()) };
        let patience = Duration::from_millis(version.spec.strategy.sync_timeout_ms.unwrap_or(60_000).into());
        // A plugin whose present version waits for its caches may get another one all the same.
        if tokio::time::timeout(patience, cache.synced()).await.is_err() {
            let kinds = cache.unsynced().iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let message = format!(
                "its caches were not filled within {patience:?}; missing: {kinds}. Does the host's own role allow to list and watch them?"
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
        // Dropped early, shadowing ends as well.
        let ending = EndShadowing(controller);
        if rules.for_ms == 0 {
            shadowing.over().await;
        } else {
            // What was seen within the time decides.
            let _ = tokio::time::timeout(Duration::from_millis(rules.for_ms.into()), shadowing.over()).await;
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

fn info(component: &Component, looked: &Looked) -> VersionInfo {
    VersionInfo {
        version: looked.manifest.version.clone(),
        digest: looked.digest.clone(),
        origin: component.origin.clone(),
        since: String::new(),
    }
}

fn check_name(manifest: &Manifest, expected: Option<&str>) -> Result<(), SwapError> {
    match expected.filter(|expected| *expected != manifest.name) {
        None => Ok(()),
        Some(expected) => Err(SwapError::new(
            "OtherPlugin",
            format!("the component is plugin {:?}, not {expected:?}: its manifest says so", manifest.name),
        )),
    }
}

fn check_digest(spec: &Spec, digest: &str) -> Result<(), SwapError> {
    let Some(wanted) = &spec.digest else { return Ok(()) };
    let bare = wanted.strip_prefix("sha256:").unwrap_or(wanted);
    if bare.eq_ignore_ascii_case(digest) {
        return Ok(());
    }
    Err(SwapError::new(
        "DigestMismatch",
        format!(
            "the component's digest is sha256:{digest}, but sha256:{bare} is wanted: it is another build, or was tampered with"
        ),
    ))
}

fn check_grants(manifest: &Manifest, given: Option<&[Grant]>, ungranted: Ungranted) -> Result<(), SwapError> {
    let Some(given) = given else { return Ok(()) };
    for (i, grant) in given.iter().enumerate() {
        grant.check().map_err(|why| SwapError::new("BadSpec", format!("grants[{i}].{why}")))?;
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
