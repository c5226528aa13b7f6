//! Source precedence: decides which component runs under each name. All plugin sources use it.
//!
//! ```text
//! command line ─┐ (start)
//! admin API ────┼──> Control ──apply, release──> Manager
//! folder ───────┤
//! resource ─────┘
//! ```
//!
//! Invariants:
//! 1. A `ControllerPlugin` takes precedence over the folder, and the folder over the command line and the built-in plugins.
//!    When the owner releases a name, the next source takes over again.
//! 2. The admin API changes the running plugins until the source changes again, and never unloads a plugin that a file
//!    or a resource would load again.
//! 3. A component of any source runs only if the operator trusts its signature.
//! 4. Files and resources cannot provide a name that `--controllers` excludes.
//! 5. A rejected request leaves the running version in place, is logged once, and stays visible until its source has changed.
//!
//! Not here: the stages of a swap (`pintle-runtime`).

mod base;
mod operator;
#[cfg(test)]
pub(crate) mod testing;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use pintle_core::lifecycle::{Spec, SwapReport};
use pintle_core::ports::guest::{Inspected, Loader};
use pintle_oci::{Evidence, MAX_COMPONENT_BYTES, Trust};
use pintle_runtime::beside_workers;
use pintle_runtime::failures::RecordedFailure;
use pintle_runtime::manager::{Component, Manager};
use serde_json::{Map, Value};
use tokio::sync::watch;

pub use self::base::Base;
use self::operator::{Declared, Deviations};
pub use self::operator::{OVERRIDDEN, Operator};
use crate::wire::{
    Description, Listing, NotStarted, Overrides, Overview, PluginDetail, PluginStatus, Problem, Refusal, reason,
};

/// A source of plugins, by ascending precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PluginSource {
    /// `pintle plugin load`.
    Admin,
    /// A file in the plugin folder.
    Folder,
    /// A `ControllerPlugin`.
    Resource,
}

impl PluginSource {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Folder => "folder",
            Self::Resource => "resource",
        }
    }

    /// Its name in messages.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Admin => "admin API",
            Self::Folder => "plugin folder",
            Self::Resource => "ControllerPlugin of this name",
        }
    }

    /// The error for a source of lower precedence.
    pub fn takes_precedence(self, name: &str, weaker: Self) -> Refusal {
        let (this, other) = (self.name(), weaker.name());
        Refusal::new(
            reason::CLAIMED,
            format!(
                "plugin {name} is already provided by the {this}, which takes precedence over the {other}; remove one of them"
            ),
        )
    }
}

/// A component, and how to apply it.
pub struct Wanted<'a> {
    /// Origin for humans.
    pub origin: String,
    /// The component.
    pub bytes: Vec<u8>,
    /// The spec; if absent, that of the running version.
    pub spec: Option<Spec>,
    /// Overrides of parts of the spec.
    pub overrides: &'a Overrides,
    /// Evidence for trusting it.
    pub evidence: Evidence,
}

/// The names of the host's plugins, and their sources.
pub struct Control {
    plugins: Arc<Manager>,
    loader: Arc<dyn Loader>,
    /// The trusted keys.
    trust: Trust,
    /// Built-in components, by plugin name.
    carried: BTreeMap<String, &'static [u8]>,
    /// Names that neither a resource nor the folder may provide.
    excluded: BTreeSet<String>,
    /// Built-in controllers whose start conditions are not met.
    not_started: Vec<NotStarted>,
    state: Mutex<State>,
    /// Signals that a name with a file in the folder has become free.
    freed: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    by_name: BTreeMap<String, PluginEntry>,
    /// Problems by source.
    problems: BTreeMap<String, Problem>,
}

#[derive(Default)]
struct PluginEntry {
    base: Option<Base>,
    /// The source that owns the name; absent: the base.
    claim: Option<PluginSource>,
    /// Whether the folder has a file for it.
    in_folder: bool,
    /// The source that disables the plugin without having its component.
    disabled_by: Option<PluginSource>,
    /// The declaration of the source that owns the name.
    declared: Option<Declared>,
    /// Changes by operators since then.
    deviations: Deviations,
    /// Whether the base was unloaded by an operator; releasing the name must not restore it.
    is_unloaded: bool,
    /// After a swap with overrides: the spec without them, and the digest of the component.
    without_overrides: Option<(String, Spec)>,
}

impl Control {
    /// `loader` reads the metadata of components.
    pub fn new(plugins: Arc<Manager>, loader: Arc<dyn Loader>, trust: Trust) -> Self {
        let (carried, excluded, not_started) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
        let (state, freed) = (Mutex::default(), watch::Sender::new(0));
        Self { plugins, loader, trust, carried, excluded, not_started, state, freed }
    }

    /// Sets the built-in components, by plugin name.
    #[must_use]
    pub fn carrying(self, components: BTreeMap<String, &'static [u8]>) -> Self {
        Self { carried: components, ..self }
    }

    /// Sets the names that the host's command line excludes: no source may provide them.
    #[must_use]
    pub fn excluding(self, names: BTreeSet<String>) -> Self {
        Self { excluded: names, ..self }
    }

    /// Sets the built-in controllers whose start conditions are not met. Other sources may provide these names.
    #[must_use]
    pub fn not_starting(self, not_started: Vec<NotStarted>) -> Self {
        Self { not_started, ..self }
    }

    /// The built-in controller with this name, if its start conditions are not met and no other source provides it.
    pub(crate) fn not_started(&self, name: &str) -> Option<&NotStarted> {
        let provided = self.state.lock().by_name.get(name).is_some_and(|held| held.claim.is_some());
        self.not_started.iter().find(|of| of.plugin == name && !provided)
    }

    /// Registers a plugin that runs from the start.
    pub fn started(&self, name: &str, base: Base) {
        self.state.lock().by_name.entry(name.to_owned()).or_default().base = Some(base);
    }

    /// Reserves a name for a source that has not applied its component yet, so that the base does not run in the
    /// meantime.
    pub fn claim(&self, name: &str, source: PluginSource) {
        self.state.lock().by_name.entry(name.to_owned()).or_default().claim = Some(source);
    }

    /// The names that this source owns.
    pub fn claimed_by(&self, source: PluginSource) -> Vec<String> {
        let state = self.state.lock();
        state.by_name.iter().filter(|(_, held)| held.claim == Some(source)).map(|(name, _)| name.clone()).collect()
    }

    /// Disables the running version of a plugin on behalf of a source whose component may not be available. The plugin is enabled
    /// again when the source releases the name, or applies a spec that does not disable it.
    pub fn disable_for(&self, source: PluginSource, name: &str) {
        if self.claimed_above(source, name).is_some() || self.known(name).is_err() {
            return;
        }
        {
            let mut state = self.state.lock();
            let held = state.by_name.entry(name.to_owned()).or_default();
            held.disabled_by = Some(source);
            held.declared.get_or_insert_default().is_disabled = true;
            held.deviations = Deviations::default();
        }
        // It may have been unloaded in the meantime.
        let _ = self.plugins.disable(name, &format!("its {} disables it", source.name()));
    }

    /// Ends [`Self::disable_for`].
    fn enable_after(&self, source: PluginSource, name: &str) {
        let was = self.state.lock().by_name.get_mut(name).and_then(|held| held.disabled_by.take_if(|by| *by == source));
        if was.is_some() {
            // It may have been unloaded in the meantime.
            let _ = self.plugins.enable(name, &format!("its {} no longer disables it", source.name()));
        }
    }

    /// The spec of a component that may change without a decision of the operator: it does not get the grants of its
    /// predecessor.
    pub fn without_inherited_grants(&self, spec: Spec) -> Spec {
        let none = || (!self.plugins.grants_requests()).then(Vec::new);
        Spec { grants: spec.grants.or_else(none), ..spec }
    }

    /// The spec of a built-in component: it gets the grants that it requests, unless the spec lists grants.
    pub fn granted(&self, origin: &str, bytes: &[u8], spec: Spec) -> Spec {
        base::granted(origin, bytes, spec, &*self.loader)
    }

    /// Whether components must be signed.
    pub fn demands_signatures(&self) -> bool {
        self.trust.demands()
    }

    /// Sets the resource of a plugin, for events about it.
    pub fn set_resource_uid(&self, name: &str, uid: &str) {
        self.plugins.set_resource_uid(name, uid);
    }

    /// Lifts the bound on deletions of a plugin when it is loaded with this digest.
    pub fn set_proven(&self, name: &str, digest: &str) {
        self.plugins.set_proven(name, digest);
    }

    /// Signals that the folder must be scanned again.
    pub fn freed(&self) -> watch::Receiver<u64> {
        self.freed.subscribe()
    }

    /// Signals a significant change of any plugin.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.plugins.changes()
    }

    /// Whether this host, rather than another one, runs a plugin with this name.
    pub fn may_run(&self, name: &str) -> bool {
        self.plugins.may_run(name)
    }

    /// Why `source` may not provide a plugin with this name; `None` if it may.
    pub(crate) fn barred(&self, source: PluginSource, name: &str) -> Option<Refusal> {
        let claimed = || Some(self.claimed_above(source, name)?.takes_precedence(name, source));
        self.exclusion(name).or_else(claimed)
    }

    /// Why `--controllers` keeps this host from running a plugin with this name: another process may run the
    /// controller.
    pub(super) fn exclusion(&self, name: &str) -> Option<Refusal> {
        let text = format!(
            "--controllers of this host leaves out {name}; add it there, or give the plugin to another host: a ControllerPlugin by spec.class and the host's --plugin-class, a file by its --plugin-dir"
        );
        self.excluded.contains(name).then(|| Refusal::new(reason::EXCLUDED, text))
    }

    /// The source with higher precedence than `source` that owns this name.
    pub fn claimed_above(&self, source: PluginSource, name: &str) -> Option<PluginSource> {
        self.state.lock().by_name.get(name)?.claim.filter(|claim| *claim > source)
    }

    /// Registers the names for which the folder has files.
    pub fn in_folder(&self, name: &str, there: bool) {
        let mut state = self.state.lock();
        if there || state.by_name.contains_key(name) {
            state.by_name.entry(name.to_owned()).or_default().in_folder = there;
        }
    }

    /// Applies the component of a file or resource as plugin `name`. Returns when the new version has taken over.
    ///
    /// # Errors
    /// [`Refusal`]; the running version is unchanged.
    ///
    /// # Cancel safety
    /// Must run to completion: otherwise the owner of the name is not recorded.
    pub async fn apply(&self, source: PluginSource, name: &str, wanted: Wanted<'_>) -> Result<SwapReport, Refusal> {
        if let Some(why) = self.barred(source, name) {
            return Err(why);
        }
        let disables = wanted.spec.as_ref().is_some_and(|spec| spec.disabled);
        let report = self.carry_out(name, wanted).await?;
        let was_toggled = {
            let mut state = self.state.lock();
            let held = state.by_name.entry(name.to_owned()).or_default();
            held.claim = Some(source);
            let digest = report.to.as_ref().map(|to| to.digest.clone());
            held.declared = Some(Declared { is_disabled: disables, digest });
            std::mem::take(&mut held.deviations).has_toggled()
        };
        // The change of the source.
        self.plugins.mark_changed();
        if !disables {
            self.enable_after(source, name);
            if was_toggled {
                // It may have been unloaded in the meantime.
                let _ = self.plugins.enable(name, &format!("its {} does not disable it", source.name()));
            }
        }
        Ok(report)
    }

    /// Releases a name after its file or resource was deleted: the source with the next precedence takes over.
    ///
    /// # Errors
    /// The replacement is rejected, and the plugin continues unchanged. A [retry](Refusal::retry_after) may help.
    pub async fn release(&self, source: PluginSource, name: &str) -> Result<(), Refusal> {
        self.release_claim(source, name).await?;
        self.enable_after(source, name);
        Ok(())
    }

    async fn release_claim(&self, source: PluginSource, name: &str) -> Result<(), Refusal> {
        let base = {
            let mut state = self.state.lock();
            let Some(held) = state.by_name.get_mut(name) else { return Ok(()) };
            if source == PluginSource::Folder {
                held.in_folder = false;
            }
            if held.claim != Some(source) {
                return Ok(());
            }
            if held.in_folder {
                held.claim = None;
                self.freed.send_modify(|n| *n += 1);
                return Ok(());
            }
            held.base.as_ref().filter(|_| !held.is_unloaded).map(|base| base.wanted(&*self.loader))
        };
        match base {
            Some(wanted) => {
                let report = self.carry_out(name, wanted).await?;
                tracing::info!(
                    plugin = name,
                    origin = report.to.map(|to| to.origin),
                    "the previous source took over again"
                );
            }
            None => {
                self.plugins.remove(name).await;
                tracing::info!(plugin = name, "unloaded");
            }
        }
        if let Some(held) = self.state.lock().by_name.get_mut(name) {
            held.claim = None;
            held.declared = None;
            held.deviations = Deviations::default();
        }
        self.plugins.mark_changed();
        Ok(())
    }

    /// Loads a plugin under a new name, which is the one in its manifest.
    ///
    /// # Errors
    /// [`Refusal`]; nothing was loaded.
    pub async fn load(&self, name: &str, wanted: Wanted<'_>) -> Result<SwapReport, Refusal> {
        let origin = wanted.origin.clone();
        if self.plugins.status().iter().any(|plugin| plugin.name == name) {
            return Err(Refusal::new(
                reason::ALREADY_LOADED,
                format!("plugin {name} is already loaded; replace it with `pintle plugin swap {name} FILE`"),
            ));
        }
        let report = self.carry_out(name, wanted).await?;
        let mut state = self.state.lock();
        let held = state.by_name.entry(name.to_owned()).or_default();
        if held.base.as_ref().is_some_and(|base| base.origin == origin) {
            // Resets the record of its unloading.
            held.is_unloaded = false;
        } else {
            held.claim.get_or_insert(PluginSource::Admin);
        }
        drop(state);
        self.plugins.mark_changed();
        Ok(report)
    }

    /// A built-in component as a request to apply: with the settings of the command line, and the grants that it
    /// requests.
    ///
    /// # Errors
    /// [`Refusal`]: no built-in component has this name.
    pub fn built_in<'a>(&self, name: &str, overrides: &'a Overrides) -> Result<Wanted<'a>, Refusal> {
        let Some(bytes) = self.carried.get(name) else {
            let known: Vec<&str> = self.carried.keys().map(String::as_str).collect();
            let text = format!("this host carries no built-in plugin {name:?}; it carries {}", known.join(", "));
            return Err(Refusal::new(reason::NOT_FOUND, text));
        };
        let base = self.state.lock().by_name.get(name).and_then(|held| held.base.clone());
        let base = base.filter(|base| base.label == Base::BUILT_IN);
        let (origin, spec) =
            base.map_or_else(|| (format!("built-in {name}"), Spec::default()), |base| (base.origin, base.spec));
        let bytes = bytes.to_vec();
        let spec = base::granted(&origin, &bytes, spec, &*self.loader);
        Ok(Wanted { origin, bytes, spec: Some(spec), overrides, evidence: Evidence::Own })
    }

    /// The name in the manifest of a component, which must be trusted.
    ///
    /// # Errors
    /// [`Refusal`]: it is not trusted, or not valid for this host.
    pub async fn name_of(&self, wanted: &Wanted<'_>) -> Result<String, Refusal> {
        Ok(self.inspect(&wanted.origin, &wanted.bytes, &wanted.evidence).await?.manifest.name.clone())
    }

    /// The version of a component, which must be trusted.
    ///
    /// # Errors
    /// It is not signed by a trusted key, or is not a plugin.
    pub async fn version_of(&self, origin: &str, bytes: &[u8], evidence: &Evidence) -> Result<String, Refusal> {
        Ok(self.inspect(origin, bytes, evidence).await?.manifest.version.clone())
    }

    /// Reads a trusted component. It may be large.
    async fn inspect(&self, origin: &str, bytes: &[u8], evidence: &Evidence) -> Result<Inspected, Refusal> {
        beside_workers(|| {
            self.trust.check(origin, bytes, evidence)?;
            self.loader.inspect(origin, bytes).map_err(|why| Refusal::new(reason::INVALID, why.to_string()))
        })
        .await
    }

    /// Loads a plugin, or replaces its running version.
    ///
    /// # Errors
    /// [`Refusal`]; the running version is unchanged.
    pub async fn put(&self, name: &str, wanted: Wanted<'_>) -> Result<SwapReport, Refusal> {
        if self.known(name).is_ok() { self.swap(name, wanted).await } else { self.load(name, wanted).await }
    }

    /// Replaces the running version of a plugin.
    ///
    /// # Errors
    /// [`Refusal`]; the old version keeps running.
    pub async fn swap(&self, name: &str, wanted: Wanted<'_>) -> Result<SwapReport, Refusal> {
        self.known(name)?;
        self.carry_out(name, wanted).await
    }

    /// Restores the previous version.
    ///
    /// # Errors
    /// [`Refusal`]: there is none, or another swap is in progress.
    pub async fn rollback(&self, name: &str) -> Result<SwapReport, Refusal> {
        self.known(name)?;
        Ok(self.plugins.rollback(name).await?)
    }

    /// Pauses the plugin.
    ///
    /// # Errors
    /// [`Refusal`]: there is no such plugin.
    pub fn disable(&self, name: &str, why: &str) -> Result<(), Refusal> {
        self.known(name)?;
        Ok(self.plugins.disable(name, why)?)
    }

    /// Resumes the plugin.
    ///
    /// # Errors
    /// [`Refusal`]: there is no such plugin.
    pub fn enable(&self, name: &str, why: &str) -> Result<(), Refusal> {
        self.known(name)?;
        Ok(self.plugins.enable(name, why)?)
    }

    /// Allows a version on probation to make the held deletions.
    ///
    /// # Errors
    /// [`Refusal`]: there is no such plugin, or nothing is held.
    pub fn approve(&self, name: &str, why: &str) -> Result<(), Refusal> {
        self.known(name)?;
        Ok(self.plugins.approve(name, why)?)
    }

    /// Unloads a plugin that no file and no resource provides. `why` is for the log and the event.
    ///
    /// # Errors
    /// [`Refusal`]: there is no such plugin, or its source would load it again.
    pub async fn unload(&self, name: &str, why: &str) -> Result<(), Refusal> {
        let plugin = self.known(name)?;
        {
            let mut state = self.state.lock();
            let held = state.by_name.entry(name.to_owned()).or_default();
            let instead = match held.claim {
                Some(PluginSource::Folder) => format!("remove {}", plugin.current.origin),
                Some(PluginSource::Resource) => format!("delete ControllerPlugin {name}"),
                None if held.in_folder => format!("remove {name}.wasm from the plugin folder"),
                Some(PluginSource::Admin) | None => String::new(),
            };
            if !instead.is_empty() {
                return Err(Refusal::new(
                    reason::CLAIMED,
                    format!(
                        "the source of plugin {name} would load it again: {instead} instead, or use `pintle plugin disable {name}`"
                    ),
                ));
            }
            held.claim = None;
            held.is_unloaded = true;
            held.deviations = Deviations::default();
        }
        self.plugins.record_event(name, false, "Unloaded", format!("plugin {name} is unloaded: {why}"));
        self.plugins.remove(name).await;
        tracing::info!(plugin = name, why, "unloaded");
        Ok(())
    }

    /// The report of the last shadow run.
    ///
    /// # Errors
    /// [`Refusal`]: there is no such plugin.
    pub fn diff(&self, name: &str) -> Result<Option<pintle_core::lifecycle::ShadowReport>, Refusal> {
        self.known(name)?;
        Ok(self.plugins.diff(name))
    }

    /// The last failed runs of a plugin, the last one first.
    ///
    /// # Errors
    /// [`Refusal`]: there is no such plugin.
    pub fn failures(&self, name: &str) -> Result<Vec<RecordedFailure>, Refusal> {
        self.known(name)?;
        Ok(self.plugins.failures(name))
    }

    /// An overview of the host.
    pub fn overview(&self) -> Overview {
        self.plugins.overview()
    }

    /// One plugin of the overview in detail.
    ///
    /// # Errors
    /// [`Refusal`]: there is no such plugin.
    pub fn detail(&self, name: &str) -> Result<PluginDetail, Refusal> {
        self.known(name)?;
        // It may have been unloaded in the meantime.
        self.plugins.plugin_detail(name).ok_or_else(|| self.not_found(name, &[]))
    }

    /// All plugins and problems.
    pub fn listing(&self) -> Listing {
        let mut items = self.plugins.status();
        let state = self.state.lock();
        for plugin in &mut items {
            let held = state.by_name.get(&plugin.name);
            plugin.source = held.map_or("admin", PluginEntry::source).to_owned();
            plugin.conditions.extend(held.and_then(|held| held.deviations.condition()).cloned());
        }
        let is_loaded = |name: &String| items.iter().any(|plugin| plugin.name == *name);
        let not_started = self.not_started.iter().filter(|of| !is_loaded(&of.plugin)).cloned().collect();
        Listing { items, problems: state.problems.values().cloned().collect(), not_started }
    }

    /// One plugin and its problems.
    ///
    /// # Errors
    /// [`Refusal`]: neither a plugin nor a problem has this name.
    pub fn describe(&self, name: &str) -> Result<Description, Refusal> {
        let Listing { items, problems, .. } = self.listing();
        let plugin = items.iter().find(|plugin| plugin.name == name).cloned();
        let problems: Vec<Problem> = problems.into_iter().filter(|problem| problem.plugin == name).collect();
        if plugin.is_none() && problems.is_empty() {
            return Err(self.not_found(name, &items));
        }
        Ok(Description { plugin, problems })
    }

    /// The name of a plugin, given its name, or an alias that only one plugin has.
    ///
    /// # Errors
    /// [`Refusal`]: several plugins have this alias.
    pub fn resolve(&self, name: String) -> Result<String, Refusal> {
        let Listing { items, problems, .. } = self.listing();
        let is_name = |plugin: &PluginStatus| plugin.name == name;
        if items.iter().any(is_name) || problems.iter().any(|problem| problem.plugin == name) {
            return Ok(name);
        }
        let mut called = items.into_iter().filter(|plugin| plugin.aliases.contains(&name)).map(|plugin| plugin.name);
        match (called.next(), called.next()) {
            (Some(only), None) => Ok(only),
            (Some(one), Some(other)) => {
                let text = format!("{name:?} is an alias of {one} and of {other}; write the name");
                Err(Refusal::new(reason::NOT_FOUND, text))
            }
            (None, _) => Ok(name),
        }
    }

    /// Reports that a request of `source` was rejected; logs it if it is new.
    pub fn problem(&self, source: &str, plugin: &str, why: &Refusal) {
        let mut state = self.state.lock();
        let known = state.problems.get(source);
        if known.is_some_and(|known| known.reason == why.reason && known.message == why.message) {
            return;
        }
        tracing::warn!(plugin, source, reason = why.reason, "not applied: {}", why.message);
        // The plugin's events already report errors of the manager.
        self.plugins.record_refusal(plugin, format!("{source}: {}: {}", why.reason, why.message));
        let problem = Problem {
            plugin: plugin.to_owned(),
            source: source.to_owned(),
            reason: why.reason.clone(),
            message: why.message.clone(),
            since: now(),
        };
        state.problems.insert(source.to_owned(), problem);
    }

    /// Removes the problem of `source`.
    pub fn solved(&self, source: &str) {
        self.state.lock().problems.remove(source);
    }

    fn known(&self, name: &str) -> Result<PluginStatus, Refusal> {
        let mut plugins = self.plugins.status();
        match plugins.iter().position(|plugin| plugin.name == name) {
            Some(at) => Ok(plugins.swap_remove(at)),
            None => Err(self.not_found(name, &plugins)),
        }
    }

    fn not_found(&self, name: &str, plugins: &[PluginStatus]) -> Refusal {
        let known: Vec<&str> = plugins.iter().map(|plugin| plugin.name.as_str()).collect();
        let known =
            if known.is_empty() { "none is loaded".to_owned() } else { format!("loaded are {}", known.join(", ")) };
        let instead = match self.carried.contains_key(name) {
            _ if let Some(of) = self.not_started(name) => format!("; the host did not start it: {}", of.message),
            _ if let Some(why) = self.exclusion(name) => format!("; {}", why.message),
            true => format!("; `pintle plugin load builtin:{name}` loads the built-in one"),
            false => String::new(),
        };
        Refusal::new(reason::NOT_FOUND, format!("there is no plugin {name:?}; {known}{instead}"))
    }

    /// Passes a component to the manager, and records the spec if it is accepted.
    async fn carry_out(&self, name: &str, wanted: Wanted<'_>) -> Result<SwapReport, Refusal> {
        let Wanted { origin, bytes, spec, overrides, evidence } = wanted;
        if bytes.len() > MAX_COMPONENT_BYTES {
            return Err(Refusal::new(
                reason::TOO_LARGE,
                format!("{origin} has {} bytes; the maximum is {MAX_COMPONENT_BYTES}", bytes.len()),
            ));
        }
        beside_workers(|| self.trust.check(&origin, &bytes, &evidence)).await?;
        let spec = spec.unwrap_or_else(|| self.spec_of(name));
        let mut now = spec.clone();
        overrides.put_over(&mut now);
        self.give_settings(name, &origin, &bytes, &mut now);
        let report = self.plugins.apply(Component { origin, bytes }, &now, Some(name)).await?;
        let digest = report.to.as_ref().map(|to| to.digest.clone());
        self.state.lock().by_name.entry(name.to_owned()).or_default().without_overrides =
            digest.map(|digest| (digest, spec));
        Ok(report)
    }

    /// The spec of the running version, possibly after a rollback. Its digest applies only to that version.
    fn spec_of(&self, name: &str) -> Spec {
        let running = self.plugins.status().into_iter().find(|plugin| plugin.name == name);
        let digest = running.map(|plugin| plugin.current.digest);
        let state = self.state.lock();
        let remembered = state.by_name.get(name).and_then(|held| held.without_overrides.as_ref());
        let lasting = remembered.filter(|(of, _)| digest.as_ref() == Some(of)).map(|(_, spec)| spec.clone());
        let spec = lasting.or_else(|| self.plugins.spec(name)).unwrap_or_default();
        Spec { digest: None, ..spec }
    }

    /// Adds settings of the host's command line that the spec omits and the component has.
    fn give_settings(&self, name: &str, origin: &str, bytes: &[u8], spec: &mut Spec) {
        let settings: Map<String, Value> = {
            let state = self.state.lock();
            state
                .by_name
                .get(name)
                .and_then(|held| held.base.as_ref())
                .map(|base| base.settings.clone())
                .unwrap_or_default()
        };
        if settings.is_empty() {
            return;
        }
        // An invalid component is rejected later, with the reason.
        let Ok(inspected) = self.loader.inspect(origin, bytes) else { return };
        if spec.config.is_null() {
            spec.config = Value::Object(Map::new());
        }
        let Value::Object(config) = &mut spec.config else { return };
        for (setting, value) in settings {
            if inspected.manifest.config.contains_key(&setting) {
                config.entry(setting).or_insert(value);
            }
        }
    }
}

impl PluginEntry {
    fn source(&self) -> &'static str {
        match (self.claim, &self.base) {
            (Some(way), _) => way.name(),
            (None, Some(base)) => base.label,
            (None, None) => "admin",
        }
    }
}

/// RFC 3339, whole seconds.
pub fn now() -> String {
    format!("{:.0}", Timestamp::now())
}

#[cfg(test)]
mod tests;
