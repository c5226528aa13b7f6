//! Selects and loads the components of a host, with their settings.
//!
//! *Flow*: built-in components, then those of the command line (files, folders, registries), which replace built-in
//! ones with the same name; `--controllers` selects among them; `--set` and flags of controllers provide their
//! settings.
//!
//! *Invariant*: in addition to components of the command line, only the built-in controllers in `--controllers` run.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use anyhow::{Context as _, bail};
use parking_lot::Mutex;
use pintle_core::contract::manifest::{Manifest, SettingType};
use pintle_core::contract::settings;
use pintle_core::kubernetes;
use pintle_core::ports::guest::Guest;
use pintle_core::ports::outside::Outside as _;
use pintle_oci::{self as oci, Cache, ComponentSource, Evidence, Fetcher, Pulled};
use pintle_outside::Bindings;
use pintle_sources::control::Base;
use pintle_sources::wire::NotStarted;
use pintle_sources::{FollowedFile, read_setting};
use pintle_wasm::{WasmConfig, WasmEngine};
use serde_json::{Map, Value};
use sysinfo::{ProcessRefreshKind, ProcessesToUpdate, System};

use crate::builtins::{BUILTINS, Catalogue};
use crate::cli::PluginArgs;
use crate::flags::controllers::Tuning;
use crate::flags::controllers_flag::{ControllersFlag, UnknownControllers};
use crate::flags::upstream;
use crate::output;
use crate::outside::{self, Secrets};
use crate::slow::Slow;

/// The reason why `*` does not start a controller.
const OFF_BY_DEFAULT: &str = "OffByDefault";

/// A component that is not loaded yet.
#[derive(Clone)]
pub(crate) struct Candidate {
    /// Origin for messages: the file, or `built-in NAME`.
    pub(crate) origin: String,
    pub(crate) bytes: Cow<'static, [u8]>,
    pub(crate) manifest: Arc<Manifest>,
    digest: String,
    builtin: bool,
}

impl Candidate {
    /// Whether `--controllers` enables it. Naming a component enables it, unless the flag disables its name.
    pub(crate) fn is_enabled(&self, flag: &ControllersFlag) -> bool {
        let Manifest { name, aliases, built_in, .. } = &*self.manifest;
        if !self.builtin {
            return !flag.disables(name, aliases);
        }
        let on_by_default = built_in.as_ref().is_none_or(|section| section.on_by_default);
        flag.enabled(name, aliases, on_by_default)
    }

    /// Why it does not run although `--controllers` does not exclude it; `None` if it runs, or is excluded. `settings`:
    /// those of `--set`, by plugin.
    fn hindrance(
        &self,
        flag: &ControllersFlag,
        tuning: &Tuning,
        settings: &BTreeMap<String, Map<String, Value>>,
        outside: &Bindings,
    ) -> Option<NotStarted> {
        let name = &self.manifest.name;
        if self.is_excluded(flag) {
            return None;
        }
        if !self.is_enabled(flag) {
            let message = format!("it is off by default; --controllers=*,{name} starts it");
            return Some(NotStarted { plugin: name.clone(), reason: OFF_BY_DEFAULT.to_owned(), message });
        }
        let (given, of_flags) = (settings.get(name), tuning.settings(&self.manifest));
        tuning.hindrance(name, |setting| {
            given.is_some_and(|given| given.contains_key(setting))
                || of_flags.contains_key(setting)
                || outside.key(name, setting).is_some()
                || outside.authority(name, setting).is_some()
        })
    }

    /// Whether `--controllers` excludes its name for every source. Under `*`, another source may start a controller
    /// that is off by default.
    fn is_excluded(&self, flag: &ControllersFlag) -> bool {
        let Manifest { name, aliases, .. } = &*self.manifest;
        if self.builtin { !flag.enabled(name, aliases, true) } else { flag.disables(name, aliases) }
    }
}

/// A loaded plugin with its settings.
pub struct Chosen {
    pub(crate) guest: Arc<dyn Guest>,
    pub(crate) settings: Value,
    /// Origin for messages: the file, or `built-in NAME`.
    pub(crate) origin: String,
    /// SHA-256 of the component, in hexadecimal.
    pub(crate) digest: String,
    /// `built-in` or `command line`.
    pub(crate) label: &'static str,
    /// The component.
    pub(crate) bytes: Cow<'static, [u8]>,
}

/// The components of the arguments, and the means to load more.
pub struct Choice {
    pub(crate) plugins: Vec<Chosen>,
    pub(crate) engine: WasmEngine,
    /// Pulls components and checks their signatures.
    pub(crate) fetcher: Fetcher,
    /// Options of plugins from flags, for any time of loading.
    pub(crate) tuning: Tuning,
    /// Names that `--controllers` excludes, whatever the source of the plugin.
    pub(crate) excluded: BTreeSet<String>,
    /// Files of settings that the host follows.
    pub(crate) followed: Vec<FollowedFile>,
    /// Controllers that `--controllers` does not exclude, and whose start conditions are not met.
    pub(crate) not_started: Vec<NotStarted>,
    /// Keys, authorities and endpoints of plugins.
    pub(crate) outside: Bindings,
    /// Version of the API server, once known.
    pub(crate) api_server: Option<String>,
}

impl Choice {
    /// Turns off features that the API server is too old for, and warns if its version is not supported.
    pub(crate) fn adapt(&mut self, api_server: Option<String>) {
        if let Some(why) = api_server.as_deref().and_then(kubernetes::unsupported) {
            tracing::warn!("{why}: controllers may not work as documented");
        }
        let Self { plugins, tuning, .. } = self;
        tuning.adapt(api_server.as_deref().and_then(kubernetes::minor_number));
        for plugin in plugins {
            for (setting, value) in tuning.settings(plugin.guest.manifest()) {
                if let Some(settings) = plugin.settings.as_object_mut() {
                    settings.entry(setting).or_insert(value);
                }
            }
        }
        self.api_server = api_server;
    }

    /// Logs a line about each controller whose start conditions are not met.
    pub(crate) fn log_not_started(&self) {
        for NotStarted { plugin, reason, message } in &self.not_started {
            tracing::info!(plugin, reason, "does not start: {message}");
        }
    }

    /// The names of plugins that are kube-controller-manager controllers, whatever their component.
    pub(crate) fn of_kube_controller_manager(&self) -> Vec<String> {
        let names = self.plugins.iter().map(|plugin| &plugin.guest.manifest().name);
        names.filter(|name| Catalogue::carried().has(name)).cloned().collect()
    }
}

/// An engine shared by several hosts in this process, which load each component once.
///
/// Calls run to completion without a time limit, so that no result depends on the speed of the machine: it is for
/// simulations with trusted plugins.
pub struct SharedEngine {
    engine: WasmEngine,
    /// By digest.
    loaded: Mutex<BTreeMap<String, Arc<dyn Guest>>>,
}

impl SharedEngine {
    /// Starts an engine that caches compiled code in a folder.
    ///
    /// # Errors
    /// As [`WasmEngine::new`].
    pub fn new(cache_dir: PathBuf) -> anyhow::Result<Self> {
        let config = WasmConfig { cache_dir: Some(cache_dir), time_slices: false, ..WasmConfig::default() };
        Ok(Self { engine: WasmEngine::new(config)?, loaded: Mutex::default() })
    }

    fn load(&self, candidate: &Candidate) -> anyhow::Result<Arc<dyn Guest>> {
        let mut loaded = self.loaded.lock();
        if let Some(guest) = loaded.get(&candidate.digest) {
            return Ok(guest.clone());
        }
        let guest = self.engine.load(&candidate.origin, &candidate.bytes)?;
        loaded.insert(candidate.digest.clone(), guest.clone());
        Ok(guest)
    }
}

/// Loads the components of the arguments. `shared`: an engine to use, instead of one for these arguments.
///
/// # Errors
/// One line with the file or argument and the next step.
pub async fn choose(args: &PluginArgs, shared: Option<Arc<SharedEngine>>) -> anyhow::Result<Choice> {
    let tuning = args.controller_flags.read(Catalogue::carried())?;
    for gate in tuning.gates_without_effect() {
        tracing::warn!("--feature-gates: no built-in controller reads {gate}; it has no effect");
    }
    let cache = cache_dir(args, |name| std::env::var_os(name));
    if cache.is_none() {
        tracing::warn!(
            "components are compiled and pulled again at each start: there is no HOME or XDG_CACHE_HOME; name a folder with --cache-dir"
        );
    }
    let fetcher = Fetcher::new(&args.registry, cache.map(Cache::new), oci::log)?;
    let named = read_all(&args.plugins, &fetcher).await?;
    if let Some(shared) = shared {
        // In a simulation, another thread would end at an unpredictable time.
        return choose_among(carried()?, named, fetcher, tuning, args, Some(&shared));
    }
    let args = args.clone();
    // It reads files and compiles.
    tokio::task::spawn_blocking(move || choose_among(carried()?, named, fetcher, tuning, &args, None))
        .await
        .context("load the controllers")?
}

fn choose_among(
    builtins: Vec<Candidate>,
    named: Vec<Pulled>,
    fetcher: Fetcher,
    tuning: Tuning,
    args: &PluginArgs,
    shared: Option<&SharedEngine>,
) -> anyhow::Result<Choice> {
    let candidates = gather(builtins, named)?;
    // More components may be loaded while the host runs.
    let may_be_none = args.plugin_dir.is_some();
    if candidates.is_empty() && !may_be_none {
        bail!(
            "this binary carries no built-in controllers: build it with `cargo xtask build`, or name component files"
        );
    }
    let known: Vec<String> = candidates.iter().map(|candidate| candidate.manifest.name.clone()).collect();
    let flag = ControllersFlag::beside(!args.plugins.is_empty(), &args.controllers)?;
    check_names(&flag, &candidates)?;
    let excluded = candidates.iter().filter(|candidate| candidate.is_excluded(&flag));
    let excluded = excluded.map(|candidate| candidate.manifest.name.clone()).collect();
    let Given { mut settings, mut secrets, mut followed } = parse_settings(&args.settings, &candidates)?;
    for candidate in &candidates {
        secrets.set_flags(&candidate.manifest, tuning.secrets(&candidate.manifest))?;
    }
    let outside = outside::bind(secrets, &args.endpoints, candidates.iter().map(|candidate| &*candidate.manifest))?;
    let engine = shared.map_or_else(|| engine(args), |shared| Ok(shared.engine.clone()))?;
    let mut chosen = Vec::new();
    let mut enabled = candidates;
    let mut not_started = Vec::new();
    enabled.retain(|candidate| match candidate.hindrance(&flag, &tuning, &settings, &outside) {
        None => candidate.is_enabled(&flag),
        Some(of) => {
            not_started.push(of);
            false
        }
    });
    let n_enabled = enabled.len();
    let slow = Slow::new(|part| tracing::info!("compiling {part}, which is not in the cache"));
    for candidate in enabled {
        let manifest = &candidate.manifest;
        slow.at(format!("component {} of {n_enabled}, {}", chosen.len() + 1, manifest.name));
        let mut settings = settings.remove(&manifest.name).unwrap_or_default();
        let is_set = |file: &FollowedFile| settings.contains_key(&file.setting);
        followed.extend(tuning.files(manifest).into_iter().filter(|file| !is_set(file)));
        for (setting, value) in tuning.settings(manifest) {
            settings.entry(setting).or_insert(value);
        }
        let settings = Value::Object(settings);
        let guest = match shared {
            Some(shared) => shared.load(&candidate)?,
            None => engine.load(&candidate.origin, &candidate.bytes)?,
        };
        let Candidate { origin, bytes, digest, builtin, .. } = candidate;
        let label = if builtin { Base::BUILT_IN } else { "command line" };
        chosen.push(Chosen { guest, settings, origin, digest, label, bytes });
    }
    if chosen.is_empty() && !may_be_none {
        let list = args.controllers.join(",");
        let of = |of: &NotStarted| format!("; {} does not start: {}", of.plugin, of.message);
        let not_started: String = not_started.iter().filter(|of| of.reason != OFF_BY_DEFAULT).map(of).collect();
        bail!("--controllers={list:?} enables no controller; known are {}{not_started}", known.join(", "));
    }
    let follows = |file: &FollowedFile| {
        let manifest = chosen.iter().map(|plugin| plugin.guest.manifest()).find(|of| of.name == file.plugin);
        manifest.and_then(|manifest| manifest.config.get(&file.setting)).is_some_and(|setting| setting.follow)
    };
    followed.retain(follows);
    let choice =
        Choice { plugins: chosen, engine, fetcher, tuning, excluded, not_started, followed, outside, api_server: None };
    Ok(choice)
}

/// Checks `--controllers` of a host without named components, whose names would have to be read first.
///
/// # Errors
/// As [`check_names`].
pub(crate) fn check_controllers(args: &PluginArgs) -> anyhow::Result<()> {
    if args.plugins.is_empty() {
        check_names(&ControllersFlag::beside(false, &args.controllers)?, &carried()?)?;
    }
    Ok(())
}

/// Checks that `--controllers` contains candidates, or disables controllers of kube-controller-manager.
///
/// # Errors
/// [`UnknownControllers`]; a retry does not help.
pub(crate) fn check_names(flag: &ControllersFlag, candidates: &[Candidate]) -> Result<(), UnknownControllers> {
    let known =
        candidates.iter().map(|candidate| (candidate.manifest.name.as_str(), candidate.manifest.aliases.as_slice()));
    flag.check(known, upstream::controllers())
}

/// The built-in components, by plugin name.
pub(crate) fn builtins() -> impl Iterator<Item = (String, &'static [u8])> {
    BUILTINS.iter().filter_map(|(_, bytes, manifest)| Some((Manifest::parse(manifest.as_bytes()).ok()?.name, *bytes)))
}

/// Whether this is a built-in component.
pub(crate) fn carries(component: &[u8]) -> bool {
    BUILTINS.iter().any(|(_, bytes, _)| *bytes == component)
}

/// The built-in components.
///
/// # Errors
/// One of them is not a valid component.
pub(crate) fn carried() -> anyhow::Result<Vec<Candidate>> {
    static CARRIED: LazyLock<Result<Vec<Candidate>, String>> = LazyLock::new(|| {
        let read =
            |(name, bytes, _): &(&str, &'static [u8], &str)| read(format!("built-in {name}"), (*bytes).into(), true);
        let all: anyhow::Result<Vec<Candidate>> = BUILTINS.iter().map(read).collect();
        all.and_then(|all| gather(all, Vec::new())).map_err(|why| format!("{why:#}"))
    });
    CARRIED.clone().map_err(anyhow::Error::msg)
}

/// All candidates, by name.
///
/// # Errors
/// A file is missing, is not a component, lacks a required signature, or has the same name as another file.
pub(crate) async fn candidates(sources: &[ComponentSource], fetcher: &Fetcher) -> anyhow::Result<Vec<Candidate>> {
    gather(carried()?, read_all(sources, fetcher).await?)
}

/// Reads the named components, all of which are trusted.
async fn read_all(sources: &[ComponentSource], fetcher: &Fetcher) -> anyhow::Result<Vec<Pulled>> {
    let mut all = Vec::new();
    for source in sources {
        let single = match source {
            ComponentSource::Registry(_) => vec![source.clone()],
            ComponentSource::Path(path) => files(path)?.into_iter().map(ComponentSource::Path).collect(),
        };
        for source in single {
            let found = oci::read_source(fetcher, &source).await?;
            fetcher.trust().check(&found.origin, &found.bytes, &Evidence::Shown(found.proof.clone()))?;
            all.push(found);
        }
    }
    Ok(all)
}

fn gather(builtins: Vec<Candidate>, named: Vec<Pulled>) -> anyhow::Result<Vec<Candidate>> {
    let mut by_name: BTreeMap<String, Candidate> = BTreeMap::new();
    for candidate in builtins {
        add(&mut by_name, candidate)?;
    }
    for Pulled { origin, bytes, .. } in named {
        add(&mut by_name, read(origin, bytes.into(), false)?)?;
    }
    Ok(by_name.into_values().collect())
}

fn read(origin: String, bytes: Cow<'static, [u8]>, builtin: bool) -> anyhow::Result<Candidate> {
    let inspection = pintle_wasm::inspect(&origin, &bytes)?;
    Ok(Candidate { origin, bytes, manifest: inspection.manifest, digest: inspection.digest, builtin })
}

fn add(by_name: &mut BTreeMap<String, Candidate>, candidate: Candidate) -> anyhow::Result<()> {
    let name = candidate.manifest.name.clone();
    if let Some(other) = by_name.get(&name).filter(|other| !other.builtin) {
        bail!(
            "{} and {} are both plugin {name:?}; remove one, or change `name` in its manifest",
            other.origin,
            candidate.origin
        );
    }
    by_name.insert(name, candidate);
    Ok(())
}

/// The file itself, or the components of a folder, by name.
fn files(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let kind = std::fs::metadata(path).with_context(|| format!("read {}", path.display()))?;
    if !kind.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = std::fs::read_dir(path).with_context(|| format!("read folder {}", path.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let file = entry.with_context(|| format!("read folder {}", path.display()))?.path();
        if file.extension().is_some_and(|extension| extension == "wasm") {
            files.push(file);
        }
    }
    files.sort();
    if files.is_empty() {
        bail!("folder {} holds no .wasm file", path.display());
    }
    Ok(files)
}

/// The values of `--set`.
struct Given {
    /// Values by controller name.
    settings: BTreeMap<String, Map<String, Value>>,
    /// Files of keys and authorities.
    secrets: Secrets,
    /// Files of settings.
    followed: Vec<FollowedFile>,
}

/// Parses `CONTROLLER.SETTING=VALUE`; returns values by controller name. A value `{"file": "PATH"}` is replaced by the
/// text of the file, if the setting allows it: files can be named only on the command line. Also returns the files to
/// follow. Files of keys and authorities are not settings, so plugins never get them.
fn parse_settings(given: &[String], candidates: &[Candidate]) -> anyhow::Result<Given> {
    let mut followed: Vec<FollowedFile> = Vec::new();
    let mut given_settings: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    let mut secrets = Secrets::default();
    for text in given {
        let parsed = text.split_once('=').and_then(|(path, value)| Some((path.split_once('.')?, value)));
        let Some(((controller, name), value)) = parsed else {
            bail!("--set {text:?}: write CONTROLLER.SETTING=VALUE");
        };
        let found = candidates
            .iter()
            .map(|candidate| &candidate.manifest)
            .find(|manifest| manifest.name == controller || manifest.aliases.iter().any(|alias| alias == controller));
        let Some(manifest) = found else {
            let known: Vec<&str> = candidates.iter().map(|candidate| candidate.manifest.name.as_str()).collect();
            bail!("--set {text:?}: there is no controller {controller:?}; known are {}", known.join(", "));
        };
        // A string needs no quotes; other values must be JSON. The manifest's schema is checked later, for all
        // settings.
        let is_string = manifest.config.get(name).is_some_and(|setting| setting.kind == SettingType::String);
        let value = match serde_json::from_str(value) {
            Ok(parsed) if !is_string || !matches!(parsed, Value::Number(_) | Value::Bool(_)) => parsed,
            _ => Value::String(value.to_owned()),
        };
        if manifest.config.get(name).is_some_and(|setting| setting.kind.is_secret()) {
            secrets.set(manifest, name, &value, &format!("--set {text:?}"))?;
            continue;
        }
        let file = manifest.config.get(name).and_then(|setting| settings::file_of(setting, &value));
        let value = match file {
            Some(path) => {
                let content = read_setting(Path::new(path)).with_context(|| format!("--set {text:?}"))?;
                followed.retain(|file| file.plugin != manifest.name || file.setting != name);
                followed.push(FollowedFile {
                    plugin: manifest.name.clone(),
                    setting: name.to_owned(),
                    path: path.into(),
                    check: |_| Ok(()),
                    content: content.clone(),
                });
                Value::String(content)
            }
            None => value,
        };
        given_settings.entry(manifest.name.clone()).or_default().insert(name.to_owned(), value);
    }
    // The last of several values is used, which may not be a file.
    followed.retain(|file| given_settings[&file.plugin][&file.setting] == *file.content);
    Ok(Given { settings: given_settings, secrets, followed })
}

/// The engine. An unusable default cache folder is ignored; one that the operator sets is an error.
fn engine(args: &PluginArgs) -> anyhow::Result<WasmEngine> {
    let memory_bytes = args.plugin_memory_bytes.unwrap_or_else(|| available_memory() / 2);
    tracing::debug!(memory_bytes, "memory for the instances of all plugins");
    let with = |cache_dir| {
        let (max_limits, keep_functions) = (args.max_limits.clone(), args.keep_functions);
        WasmEngine::new(WasmConfig { cache_dir, memory_bytes, max_limits, keep_functions, ..WasmConfig::default() })
    };
    let cache_dir = cache_dir(args, |name| std::env::var_os(name));
    let is_default = args.cache_dir.is_none() && cache_dir.is_some();
    match with(cache_dir) {
        Err(why) if is_default && why.is_of_cache() => {
            tracing::warn!("components are compiled again at each start: {}", output::one_line(&why.into()));
            Ok(with(None)?)
        }
        engine => Ok(engine?),
    }
}

/// Memory limit of this process in bytes: that of its container, or of the machine.
fn available_memory() -> u64 {
    let Ok(mut system) = System::new() else { return u64::MAX };
    system.refresh_memory();
    let total = system.total_memory();
    let Ok(own) = sysinfo::get_current_pid() else { return total };
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[own]), false, ProcessRefreshKind::nothing());
    let of_container = system.process(own).and_then(|process| process.cgroup_limits());
    of_container.map(|limits| limits.total_memory).filter(|bytes| *bytes > 0).map_or(total, |bytes| bytes.min(total))
}

/// Folder for compiled code and pulled components; `None` without a location that belongs to the user. `variable`:
/// reads an environment variable.
pub(crate) fn cache_dir(args: &PluginArgs, variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    args.cache_dir.clone().or_else(|| pintle_wasm::user_cache(variable))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use serde_json::json;

    use pintle_outside::Secret;
    use pintle_sources::MAX_SETTING_BYTES;

    use super::*;
    use crate::cli::{Cli, Command};
    use crate::flags::controllers::ControllerFlags;

    fn candidate() -> Candidate {
        let manifest = json!({
            "name": "p", "version": "1", "contract": "0.2", "watches": [], "queues": [{"name": "q"}],
            "config": {"ca": {"type": "string", "fromFile": true}, "text": {"type": "string"}},
        });
        let manifest = Manifest::parse(manifest.to_string().as_bytes()).unwrap();
        Candidate {
            origin: String::new(),
            bytes: Cow::Borrowed(&[]),
            manifest: Arc::new(manifest),
            digest: String::new(),
            builtin: false,
        }
    }

    #[test]
    fn a_controller_that_is_off_by_default_starts_only_by_its_name_or_alias() {
        let off = |is_builtin: bool| {
            let mut candidate = candidate();
            let manifest = json!({
                "name": "token-cleaner-controller", "aliases": ["tokencleaner"], "version": "1", "contract": "0.2", "watches": [],
                "queues": [{"name": "q"}], "builtIn": {"onByDefault": false},
            });
            candidate.manifest = Arc::new(Manifest::parse(manifest.to_string().as_bytes()).unwrap());
            candidate.builtin = is_builtin;
            candidate
        };
        let tuning = ControllerFlags::default().read(Catalogue::carried()).unwrap();
        let hindrance = |candidate: &Candidate, list: &str| {
            let flag = list.parse::<ControllersFlag>().unwrap();
            let hindrance = candidate.hindrance(&flag, &tuning, &BTreeMap::new(), &Bindings::default());
            (candidate.is_enabled(&flag), hindrance.map(|of| format!("{}: {}", of.reason, of.message)))
        };
        let by_default =
            Some("OffByDefault: it is off by default; --controllers=*,token-cleaner-controller starts it".to_owned());
        for (list, expected) in [
            ("*", (false, by_default.clone())),
            ("*,other", (false, by_default)),
            ("*,token-cleaner-controller", (true, None)),
            ("tokencleaner", (true, None)),
            ("tokencleaner,-token-cleaner-controller", (true, None)),
            ("*,-token-cleaner-controller", (false, None)),
            ("other", (false, None)),
        ] {
            assert_eq!(hindrance(&off(true), list), expected, "{list}");
        }
        assert_eq!(hindrance(&off(false), "*"), (true, None), "a component that the operator names runs");
    }

    #[test]
    fn a_controller_that_requires_a_key_starts_once_one_is_bound() {
        let mut candidate = candidate();
        let manifest = json!({
            "name": "tokens-controller", "version": "1", "contract": "0.2", "watches": [], "queues": [{"name": "q"}],
            "config": {"key": {"type": "key", "optional": true}}, "builtIn": {"requires": ["key"]},
        });
        let manifest = Manifest::parse(manifest.to_string().as_bytes()).unwrap();
        let catalogue: &'static Catalogue = Box::leak(Box::new(Catalogue::new([manifest.clone()])));
        candidate.manifest = Arc::new(manifest);
        candidate.builtin = true;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key.pem");
        std::fs::write(&file, include_str!("../outside/src/testdata/p256-pkcs8.pem")).unwrap();
        let tuning = ControllerFlags::default().read(catalogue).unwrap();
        let reason = |outside: &Bindings| {
            let hindrance = candidate.hindrance(&"*".parse().unwrap(), &tuning, &BTreeMap::new(), outside);
            hindrance.map(|of| of.reason)
        };
        let mut outside = Bindings::default();
        assert_eq!(reason(&outside).as_deref(), Some("MissingSetting"));
        outside.bind_secret("others", "key", Secret::Key { file: file.clone() }).unwrap();
        assert_eq!(reason(&outside).as_deref(), Some("MissingSetting"), "the key of another plugin");
        outside.bind_secret("tokens-controller", "key", Secret::Key { file }).unwrap();
        assert_eq!(reason(&outside), None);
    }

    #[test]
    fn a_setting_of_the_command_line_may_be_a_regular_file_of_limited_length() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(at("ca"), "PEM").unwrap();
        std::fs::write(at("binary"), [0xff]).unwrap();
        std::fs::write(at("most"), "x".repeat(MAX_SETTING_BYTES)).unwrap();
        std::fs::write(at("long"), "x".repeat(MAX_SETTING_BYTES + 1)).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), rustix::fs::Mode::RUSR).unwrap();
        let set = |setting: &str, path: &str| {
            let given = [format!("p.{setting}={}", json!({ "file": path }))];
            parse_settings(&given, &[candidate()])
                .map(|given| given.settings["p"][setting].clone())
                .map_err(|why| format!("{why:#}"))
        };
        let refused = |path: &str, expected: &str| {
            let why = set("ca", path).unwrap_err();
            assert!(why.contains("--set") && why.contains(expected), "{why}");
        };
        assert_eq!(set("ca", &at("ca")), Ok(json!("PEM")));
        assert!(set("ca", &at("most")).is_ok());
        refused(&at("long"), "has more than 1048576 bytes");
        refused(&at("binary"), "is not UTF-8");
        refused(&at("pipe"), "it is not a regular file");
        refused("/dev/zero", "it is not a regular file");
        refused(&at("gone"), "No such file");
        let other = json!({ "file": at("ca") });
        assert_eq!(set("text", &at("ca")), Ok(other), "a setting that is not a file is left to the manifest's check");
    }

    #[test]
    fn the_last_value_of_a_setting_decides_which_file_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, name).unwrap();
            format!("p.ca={}", json!({ "file": path }))
        };
        let followed = |given: &[String]| -> Vec<String> {
            let Given { followed, .. } = parse_settings(given, &[candidate()]).unwrap();
            followed.into_iter().map(|file| file.content).collect()
        };
        let (one, two, text) = (file("one"), file("two"), "p.ca=text".to_owned());
        assert_eq!(followed(&[one.clone(), two.clone()]), ["two"]);
        assert_eq!(followed(&[text.clone(), one.clone()]), ["one"]);
        assert_eq!(followed(&[one, text]), Vec::<String>::new());
    }

    #[test]
    fn code_is_kept_where_the_user_says_or_below_the_home_folder_and_else_nowhere() {
        let of = |flags: &[&str], variables: &[(&str, &str)]| {
            let Command::Run(args) = Cli::parse_from(["pintle", "run"].iter().chain(flags)).command else {
                panic!("not run")
            };
            let value = |name: &str| variables.iter().find(|(of, _)| *of == name).map(|(_, value)| value.into());
            cache_dir(&args.plugins, value).map(|path| path.display().to_string())
        };
        let (home, xdg) = (("HOME", "/home/a"), ("XDG_CACHE_HOME", "/cache"));
        assert_eq!(of(&["--cache-dir", "here"], &[home, xdg]).as_deref(), Some("here"));
        assert_eq!(of(&[], &[home, xdg]).as_deref(), Some("/cache/pintle"));
        assert_eq!(of(&[], &[home, ("XDG_CACHE_HOME", "cache")]).as_deref(), Some("/home/a/.cache/pintle"));
        assert_eq!(of(&[], &[("HOME", ""), ("XDG_CACHE_HOME", "cache")]), None);
        assert_eq!(of(&[], &[]), None);
    }

    #[test]
    fn a_binary_without_built_in_controllers_names_the_build_command() {
        let Command::Run(args) = Cli::parse_from(["pintle", "run"]).command else { panic!("not run") };
        let fetcher = Fetcher::new(&args.plugins.registry, None, oci::log).unwrap();
        let tuning = args.plugins.controller_flags.read(Catalogue::carried()).unwrap();
        let why =
            choose_among(Vec::new(), Vec::new(), fetcher, tuning, &args.plugins, None).err().map(|why| why.to_string());
        assert_eq!(
            why.as_deref(),
            Some(
                "this binary carries no built-in controllers: build it with `cargo xtask build`, or name component files"
            )
        );
    }
}
