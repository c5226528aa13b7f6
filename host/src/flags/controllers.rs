//! Flags of single controllers, declared in the built-in manifests.
//!
//! *Flow*: [`Catalogue`] -> arguments of the command line, under a heading per controller -> [`ControllerFlags`] ->
//! [`Tuning`], which returns the options of each plugin.
//!
//! *Invariants*:
//! 1. A value out of range is rejected with the flag's name and the range, even for a controller that does not run.
//! 2. Without the flag, the manifest of the running component applies.
//! 3. A controller's flag applies to any component with the controller's name that has the queue or the setting.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use clap::builder::RangedI64ValueParser;
use clap::{Arg, ArgAction, ArgMatches, Command};
use pintle_core::contract::manifest::{AuthorityPart, FeatureGate, Flag, FlagType, FlagValue, Manifest, Sets};
use pintle_core::contract::settings;
use pintle_core::{duration, kubernetes};
use pintle_runtime::manager::{PluginOptions, RateLimit};
use pintle_sources::FollowedFile;
use pintle_sources::wire::NotStarted;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Map, Value};

use crate::builtins::{CarriedFlag, Catalogue};
use crate::flags::gates::{self, FeatureGates};
use crate::flags::versions::{self, Versions};

/// Values of flags that built-in controllers declare.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ControllerFlags {
    /// Given values by flag name.
    given: BTreeMap<String, Given>,
    pub(crate) gates: FeatureGates,
    pub(crate) versions: Versions,
}

#[derive(Clone, Debug, PartialEq)]
enum Given {
    Value(FlagValue),
    File(PathBuf),
}

impl clap::Args for ControllerFlags {
    fn augment_args(command: Command) -> Command {
        declare(command, Catalogue::carried())
    }

    fn augment_args_for_update(command: Command) -> Command {
        declare(command, Catalogue::carried())
    }
}

impl clap::FromArgMatches for ControllerFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(collect(matches, Catalogue::carried()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        let ControllerFlags { mut given, gates, versions } = collect(matches, Catalogue::carried());
        self.given.append(&mut given);
        self.versions = versions;
        self.gates = std::mem::take(&mut self.gates).merge(gates);
        Ok(())
    }
}

fn declare(command: Command, catalogue: &'static Catalogue) -> Command {
    let command = list_controllers(command, catalogue).arg(feature_gates(catalogue)).args(versions::arguments());
    catalogue.flags().iter().fold(command, |command, carried| command.arg(argument(carried)))
}

/// Adds the names to the help of `--controllers`, as upstream.
fn list_controllers(command: Command, catalogue: &Catalogue) -> Command {
    const CONTROLLERS: &str = "controllers";
    let is_there = command.get_arguments().any(|arg| arg.get_id() == CONTROLLERS);
    if !is_there || catalogue.manifests().next().is_none() {
        return command;
    }
    let is_on = |manifest: &&Manifest| manifest.built_in.as_ref().is_none_or(|section| section.on_by_default);
    let names = |manifests: Vec<&Manifest>| {
        manifests.iter().map(|manifest| manifest.name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let all = names(catalogue.manifests().collect());
    let off = names(catalogue.manifests().filter(|manifest| !is_on(manifest)).collect());
    let off = if off.is_empty() { String::new() } else { format!("\nDisabled-by-default controllers: {off}") };
    command.mut_arg(CONTROLLERS, |arg| {
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        arg.help(format!("{help}\nAll controllers: {all}{off}"))
    })
}

const FEATURE_GATES: &str = "feature-gates";

fn feature_gates(catalogue: &Catalogue) -> Arg {
    // Two controllers may use the same gate.
    let gates: BTreeSet<String> = catalogue.gates().map(|gate| format!("\n{}", gates::describe(gate))).collect();
    let listed = match gates.is_empty() {
        true => String::new(),
        false => format!(" The built-in controllers read:{}", String::from_iter(gates)),
    };
    Arg::new(FEATURE_GATES)
        .long(FEATURE_GATES)
        .alias("feature_gates")
        .value_name("GATE=BOOL,...")
        .value_parser(gates::parse)
        .action(ArgAction::Append)
        .help(format!(
            "Feature gates, as in kube-controller-manager. AllAlpha and AllBeta set all of a stage. Gates that no built-in controller \
             reads have no effect.{listed}"
        ))
}

/// The argument for a flag of a manifest.
pub(crate) fn argument(carried: &'static CarriedFlag) -> Arg {
    let CarriedFlag { plugin, flag, underscored } = carried;
    let default = match &flag.default {
        Some(Value::String(text)) => format!(" [default: {text}]"),
        Some(value) => format!(" [default: {value}]"),
        None => String::new(),
    };
    let arg = Arg::new(flag.name.as_str())
        .long(flag.name.as_str())
        .help(format!("{}{default}", flag.help))
        .help_heading(plugin.as_str());
    let arg = if *underscored == flag.name { arg } else { arg.alias(underscored.as_str()) };
    match flag.kind {
        FlagType::Int32 => arg.value_name("N").value_parser(int32(flag)).allow_negative_numbers(true),
        FlagType::Float32 => {
            arg.value_name("N").value_parser(|text: &str| float32(flag, text)).allow_negative_numbers(true)
        }
        FlagType::Duration if flag.sets.resync.is_empty() => {
            arg.value_name("DURATION").value_parser(duration::parse).allow_hyphen_values(true)
        }
        FlagType::Duration => arg.value_name("DURATION").value_parser(duration::parse_period).allow_hyphen_values(true),
        FlagType::Bool => arg
            .value_name("BOOL")
            .value_parser(clap::value_parser!(bool))
            .default_missing_value("true")
            .num_args(0..=1)
            .require_equals(true)
            .action(ArgAction::Set),
        FlagType::String => arg.value_name("TEXT"),
        FlagType::File | FlagType::Certificates => arg.value_name("FILE").value_parser(clap::value_parser!(PathBuf)),
    }
}

/// Range of the flag, within the range of its type.
fn int32(flag: &Flag) -> RangedI64ValueParser<i32> {
    // A bound outside of the type's range becomes the bound of the type.
    let bound = |bound: Option<f64>, of_type: i32| i64::from(bound.map_or(of_type, |bound| bound as i32));
    clap::value_parser!(i32).range(bound(flag.minimum, i32::MIN)..=bound(flag.maximum, i32::MAX))
}

fn float32(flag: &Flag, text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|value| value.is_finite()).ok_or("write a number such as 0.1")?;
    match (flag.minimum.filter(|least| value < *least), flag.maximum.filter(|most| value > *most)) {
        (Some(least), _) => Err(format!("at least {least}")),
        (_, Some(most)) => Err(format!("at most {most}")),
        _ => Ok(value),
    }
}

fn collect(matches: &ArgMatches, catalogue: &Catalogue) -> ControllerFlags {
    let given = catalogue.flags().iter().filter_map(|CarriedFlag { flag, .. }| {
        let name = flag.name.as_str();
        let given = match flag.kind {
            FlagType::Int32 => matches.get_one(name).copied().map(FlagValue::Int32).map(Given::Value),
            FlagType::Float32 => matches.get_one(name).copied().map(FlagValue::Float32).map(Given::Value),
            FlagType::Duration => matches.get_one(name).copied().map(FlagValue::Duration).map(Given::Value),
            FlagType::Bool => matches.get_one(name).copied().map(FlagValue::Bool).map(Given::Value),
            FlagType::String => matches.get_one(name).cloned().map(FlagValue::Text).map(Given::Value),
            FlagType::File | FlagType::Certificates => matches.get_one(name).cloned().map(Given::File),
        };
        Some((name.to_owned(), given?))
    });
    let gates = matches.get_many::<FeatureGates>(FEATURE_GATES).unwrap_or_default().cloned();
    let gates = gates.fold(FeatureGates::default(), FeatureGates::merge);
    ControllerFlags { given: given.collect(), gates, versions: Versions::of(matches) }
}

impl ControllerFlags {
    /// Whether the API server coordinates leader election.
    pub(crate) fn coordinates_elections(&self) -> bool {
        self.gates.is_on(gates::COORDINATED_LEADER_ELECTION)
    }

    /// Gives flags these files, unless a file is given in a flag whose name starts with `prefix`.
    pub fn default_files<const N: usize>(&mut self, prefix: &str, files: [(&str, PathBuf); N]) {
        let is_given = |(name, given): (&String, &Given)| name.starts_with(prefix) && matches!(given, Given::File(_));
        if !self.given.iter().any(is_given) {
            self.given.extend(files.map(|(name, file)| (name.to_owned(), Given::File(file))));
        }
    }

    /// Reads the files of file flags.
    ///
    /// # Errors
    /// A file is unreadable, or contains no certificates where they are required; or a value is invalid for a
    /// controller's setting or a number of its manifest.
    pub(crate) fn read(&self, catalogue: &'static Catalogue) -> anyhow::Result<Tuning> {
        let (mut given, mut files) = (BTreeMap::new(), BTreeMap::new());
        for CarriedFlag { flag, .. } in catalogue.flags() {
            if let Some(Given::File(file)) = self.given.get(&flag.name) {
                files.insert(flag.name.clone(), file.clone());
            }
            if flag.sets.secret {
                continue;
            }
            let value = match self.given.get(&flag.name) {
                Some(Given::Value(value)) => value.clone(),
                Some(Given::File(file)) => FlagValue::Text(read(flag, file)?),
                None => continue,
            };
            for manifest in catalogue.manifests() {
                let flags = manifest.built_in.iter().flat_map(|section| &section.flags);
                let of_flag = flags.filter(|of| of.name == flag.name).filter_map(|of| of.sets.config.as_ref());
                for setting in of_flag {
                    let Some(declared) = manifest.config.get(setting) else { continue };
                    settings::check_value(manifest, setting, &value.to_config(declared.kind))
                        .with_context(|| format!("--{} sets {setting} of {}", flag.name, manifest.name))?;
                }
            }
            given.insert(flag.name.clone(), value);
        }
        let (emulated, compatible) = self.versions.check()?;
        self.gates.check_emulated(emulated, compatible).map_err(|why| anyhow!("--{FEATURE_GATES}: {why}"))?;
        Ok(Tuning { catalogue, given, files, gates: self.gates.clone(), emulated, api_server: None })
    }
}

fn read(flag: &Flag, file: &Path) -> anyhow::Result<String> {
    let (name, shown) = (&flag.name, file.display());
    let text = std::fs::read_to_string(file).with_context(|| format!("read --{name} {shown}"))?;
    if flag.kind == FlagType::Certificates && !is_bundle(&text) {
        bail!("--{name} {shown} contains no certificates; name a bundle of certificates in PEM");
    }
    Ok(text)
}

fn check_bundle(text: &str) -> Result<(), String> {
    if is_bundle(text) { Ok(()) } else { Err("contains no certificates".to_owned()) }
}

/// Whether the text contains valid PEM certificates only; other blocks are ignored, as upstream.
fn is_bundle(text: &str) -> bool {
    let mut certificates = CertificateDer::pem_slice_iter(text.as_bytes()).peekable();
    // Every certificate is an ASN.1 sequence.
    let is_sequence = |der: &[u8]| der.first() == Some(&0x30);
    certificates.peek().is_some() && certificates.all(|certificate| certificate.is_ok_and(|der| is_sequence(&der)))
}

/// Options of plugins from flags and built-in manifests.
#[derive(Clone)]
pub(crate) struct Tuning {
    catalogue: &'static Catalogue,
    /// Values by flag name; for files, their text.
    given: BTreeMap<String, FlagValue>,
    /// Files by flag name.
    files: BTreeMap<String, PathBuf>,
    gates: FeatureGates,
    /// Minor version of the feature gates.
    emulated: u32,
    /// Minor version of the API server, if known.
    api_server: Option<u32>,
}

/// Whether a minor version is older than the required one.
fn is_older(found: u32, needed: Option<&str>) -> bool {
    needed.and_then(kubernetes::minor_number).is_some_and(|needed| found < needed)
}

impl Tuning {
    /// Turns off feature gates that need a newer API server, unless a flag sets them.
    pub(crate) fn adapt(&mut self, api_server: Option<u32>) {
        self.api_server = api_server;
        for gate in
            self.catalogue.gates().filter(|gate| self.is_too_new(gate) && self.gates.value(&gate.name).is_none())
        {
            let needs = gate.api_server.as_deref();
            tracing::info!(
                gate = gate.name,
                needs,
                "off: the API server is older; --feature-gates={}=true turns it on",
                gate.name
            );
        }
    }

    /// Whether the API server is too old for the default of a gate.
    fn is_too_new(&self, gate: &FeatureGate) -> bool {
        self.api_server.is_some_and(|found| is_older(found, gate.api_server.as_deref()))
    }

    /// The value of a gate that differs from the default of its manifest.
    fn value(&self, gate: &FeatureGate) -> Option<bool> {
        if !gates::is_of(&gate.name, self.emulated) {
            return Some(false);
        }
        let is_off = self.is_too_new(gate) || is_older(self.emulated, gate.since.as_deref());
        self.gates.value(&gate.name).or_else(|| is_off.then_some(false))
    }

    /// The files in flags that set settings of a plugin.
    pub(crate) fn files(&self, manifest: &Manifest) -> Vec<FollowedFile> {
        let file = |(flag, value): (&Flag, Option<&FlagValue>)| {
            let setting = flag.sets.config.clone().filter(|setting| manifest.config.contains_key(setting))?;
            let (path, Some(FlagValue::Text(content))) = (self.files.get(&flag.name)?.clone(), value) else {
                return None;
            };
            let check = match flag.kind {
                FlagType::Certificates => check_bundle,
                _ => |_: &str| Ok(()),
            };
            Some(FollowedFile { plugin: manifest.name.clone(), setting, path, check, content: content.clone() })
        };
        self.flags(&manifest.name).filter_map(file).collect()
    }

    /// Files of keys and authorities in the flags of a plugin: setting, part of an authority, flag and file.
    pub(crate) fn secrets(&self, manifest: &Manifest) -> Vec<(String, Option<AuthorityPart>, String, PathBuf)> {
        let flags = self.catalogue.section(&manifest.name).into_iter().flat_map(|section| &section.flags);
        let files = flags.filter_map(|flag| {
            let setting = flag.sets.config.clone().filter(|_| flag.sets.secret)?;
            let is_there = manifest.config.get(&setting).is_some_and(|setting| setting.kind.is_secret());
            let file = self.files.get(&flag.name).filter(|_| is_there)?;
            Some((setting, flag.sets.part, flag.name.clone(), file.clone()))
        });
        files.collect()
    }

    /// Given flags of the controller with this name.
    fn flags(&self, plugin: &str) -> impl Iterator<Item = (&'static Flag, Option<&FlagValue>)> {
        let flags = self.catalogue.section(plugin).into_iter().flat_map(|section| &section.flags);
        flags.map(|flag| (flag, self.given.get(&flag.name)))
    }

    /// Feature gates of the controller with this name, with the given values.
    fn gates(&self, plugin: &str) -> impl Iterator<Item = (&'static FeatureGate, Option<bool>)> {
        let gates = self.catalogue.section(plugin).into_iter().flat_map(|section| &section.feature_gates);
        gates.map(|gate| (gate, self.value(gate)))
    }

    /// The feature gates that the built-in controllers use, by name, with upstream's name of the stage, and the value.
    pub(crate) fn features(&self) -> BTreeMap<&'static str, (&'static str, bool)> {
        let gates = self.catalogue.gates();
        gates.map(|gate| (&*gate.name, (gates::stage(&gate.name), self.value(gate).unwrap_or(gate.default)))).collect()
    }

    /// Workers, periods and rate limit of a plugin, at any time of loading. `limit` is the default rate limit.
    pub(crate) fn options(&self, manifest: &Manifest, limit: RateLimit) -> PluginOptions {
        let mut options = PluginOptions {
            rate_limit: self.rate_limit(&manifest.name, limit),
            shares_metrics: self.catalogue.section(&manifest.name).is_some(),
            ..PluginOptions::default()
        };
        let has = |queue: &&String| manifest.queues.iter().any(|of| of.name == **queue);
        for (flag, value) in self.flags(&manifest.name) {
            match value {
                Some(FlagValue::Int32(workers)) => {
                    let workers = u32::try_from(*workers).unwrap_or(1);
                    let queues = flag.sets.concurrency.iter().filter(has);
                    options.concurrency.extend(queues.map(|queue| (queue.clone(), workers)));
                }
                Some(FlagValue::Duration(period)) => {
                    let queues = flag.sets.resync.iter().filter(has);
                    options.resync.extend(queues.map(|queue| (queue.clone(), *period)));
                }
                _ => {}
            }
        }
        options
    }

    /// The rate limit of the plugin's client, unless it is the default.
    fn rate_limit(&self, plugin: &str, limit: RateLimit) -> Option<RateLimit> {
        let client = self.catalogue.section(plugin)?.client;
        let more = RateLimit {
            qps: limit.qps.map(|qps| qps * f32::from(client.qps)),
            burst: limit.burst.saturating_mul(client.burst.into()),
        };
        Some(more).filter(|more| *more != limit)
    }

    /// Why a plugin does not run although `--controllers` enables it; `None` if it runs. `has`: whether a setting has a
    /// value.
    pub(crate) fn hindrance(&self, plugin: &str, has: impl Fn(&str) -> bool) -> Option<NotStarted> {
        let not = |reason: &str, message: String| NotStarted {
            plugin: plugin.to_owned(),
            reason: reason.to_owned(),
            message,
        };
        let is_off = |(flag, given): &(&Flag, Option<&FlagValue>)| {
            // Manifests with a default of the wrong type are rejected.
            let default = || flag.default_value().ok().flatten();
            given.cloned().or_else(default) == Some(FlagValue::Bool(false))
        };
        if let Some((flag, _)) = self.flags(plugin).filter(|(flag, _)| flag.sets.runs).find(is_off) {
            return Some(not("Flag", format!("--{0} is false; --{0}=true starts it", flag.name)));
        }
        let mut gates = self.gates(plugin).filter(|(gate, _)| gate.sets.runs);
        if let Some((gate, _)) = gates.find(|(gate, given)| !given.unwrap_or(gate.default)) {
            let name = &gate.name;
            return Some(not(
                "FeatureGate",
                format!("feature gate {name} is off; --feature-gates={name}=true starts it"),
            ));
        }
        let section = self.catalogue.section(plugin)?;
        if let Some(missing) = section.requires.iter().find(|setting| !has(setting)) {
            return Some(not("MissingSetting", format!("setting {missing} is not given{}", section.by_flag(missing))));
        }
        let any = &section.requires_any;
        let is_missing = !any.is_empty() && !any.iter().any(|setting| has(setting));
        is_missing.then(|| not("MissingSetting", format!("none of the settings {} is given", section.by_flags(any))))
    }

    /// Settings of a plugin from flags and feature gates.
    pub(crate) fn settings(&self, manifest: &Manifest) -> Map<String, Value> {
        let set = |sets: &Sets, value: Option<&FlagValue>| {
            let (name, setting) = manifest.config.get_key_value(sets.config.as_ref()?)?;
            Some((name.clone(), value?.to_config(setting.kind)))
        };
        let by_flags = self.flags(&manifest.name).filter_map(|(flag, value)| set(&flag.sets, value));
        let gates = self.gates(&manifest.name);
        let by_gates = gates.filter_map(|(gate, value)| set(&gate.sets, value.map(FlagValue::Bool).as_ref()));
        by_flags.chain(by_gates).collect()
    }

    /// Gates of `--feature-gates` that neither the host nor a built-in controller uses.
    pub(crate) fn gates_without_effect(&self) -> Vec<&str> {
        let of_controllers = self.catalogue.gates().map(|gate| gate.name.as_str());
        let read: Vec<&str> = of_controllers.chain([gates::COORDINATED_LEADER_ELECTION]).collect();
        self.gates.without_effect(&read)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;
    use std::time::Duration;

    use expect_test::{Expect, expect};

    use super::*;
    use crate::builtins::testing::{manifest, manifests, with_section};
    use crate::cli::Cli;

    const WIDGETS: &str = "{
        serviceAccount: widget-controller, client: {qps: 2, burst: 100},
        flags: [
            {name: concurrent-widget-syncs, type: int32, default: 5, minimum: 1, help: Widgets at once., sets: {concurrency: [q]}},
            {name: widget-sync-period, type: duration, default: 0s, help: How often., sets: {resync: [q, slow]}},
            {name: widget-grace, type: duration, default: 1m, help: How long., sets: {config: graceMs}},
            {name: enable-widgets, type: bool, default: true, help: Whether., sets: {runs: true}},
            {name: widget-ca-file, type: certificates, help: Whose., sets: {config: ca}},
        ]}";

    static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| {
        let off = "{flags: [{name: allocate-gadgets, type: bool, default: false, help: Whether., sets: {runs: true}}]}";
        Catalogue::new([with_section("widgets", WIDGETS), with_section("gadgets", off)])
    });

    fn parse(arguments: &[&str]) -> Result<ControllerFlags, String> {
        let command = declare(Command::new("test"), &CATALOGUE);
        let matches = command.try_get_matches_from([&["test"], arguments].concat()).map_err(|why| why.to_string())?;
        Ok(collect(&matches, &CATALOGUE))
    }

    fn tuning(arguments: &[&str]) -> Tuning {
        parse(arguments).unwrap().read(&CATALOGUE).unwrap()
    }

    fn widgets() -> Manifest {
        with_section("widgets", "{}")
    }

    /// Reason and message, without a value of any setting.
    fn hindrance(tuning: &Tuning, plugin: &str) -> Option<String> {
        tuning.hindrance(plugin, |_| false).map(|of| format!("{}: {}", of.reason, of.message))
    }

    const LIMIT: RateLimit = RateLimit { qps: Some(20.0), burst: 30 };

    #[test]
    fn the_help_of_a_flag_is_in_its_manifest() {
        let command = declare(Command::new("test").disable_help_flag(true).term_width(120), &CATALOGUE);
        let versions = versions::arguments();
        // Their help contains the version of Kubernetes.
        let mut command =
            versions.iter().fold(command, |command, of| command.mut_arg(of.get_id(), |arg| arg.hide(true)));
        expect![[r#"
            Usage: test [OPTIONS]

            Options:
                  --feature-gates <GATE=BOOL,...>  Feature gates, as in kube-controller-manager. AllAlpha and AllBeta set all of a
                                                   stage. Gates that no built-in controller reads have no effect.

            gadgets:
                  --allocate-gadgets[=<BOOL>]  Whether. [default: false] [possible values: true, false]

            widgets:
                  --concurrent-widget-syncs <N>    Widgets at once. [default: 5]
                  --widget-sync-period <DURATION>  How often. [default: 0s]
                  --widget-grace <DURATION>        How long. [default: 1m]
                  --enable-widgets[=<BOOL>]        Whether. [default: true] [possible values: true, false]
                  --widget-ca-file <FILE>          Whose.
        "#]]
        .assert_eq(&command.render_help().to_string());
    }

    #[test]
    fn the_help_of_the_list_names_the_controllers_that_are_off_by_default() {
        static THREE: LazyLock<Catalogue> = LazyLock::new(|| {
            let off = "{onByDefault: false}";
            Catalogue::new([with_section("c", off), with_section("a", "{}"), with_section("b", off)])
        });
        let command = Command::new("test").arg(Arg::new("controllers").long("controllers").help("Which run."));
        let command = declare(command, &THREE);
        let help = command.get_arguments().next().unwrap().get_help().unwrap().to_string();
        assert_eq!(help, "Which run.\nAll controllers: a, b, c\nDisabled-by-default controllers: b, c");
    }

    #[test]
    fn flags_of_controllers_do_not_conflict_with_those_of_the_host() {
        static REAL: LazyLock<Catalogue> = LazyLock::new(|| Catalogue::new(manifests()));
        let command = <Cli as clap::CommandFactory>::command();
        let run = command.find_subcommand("run").unwrap().clone();
        // A test binary may have the same flags already.
        let is_new = |carried: &&CarriedFlag| run.get_arguments().all(|arg| arg.get_id() != carried.flag.name.as_str());
        let new: Vec<&CarriedFlag> = REAL.flags().iter().filter(is_new).collect();
        let carried = Catalogue::carried().flags();
        assert!(!new.is_empty() || !carried.is_empty());
        for flag in &new {
            assert!(carried.iter().all(|known| known.flag.name != flag.flag.name));
        }
        new.into_iter().fold(run, |command, flag| command.arg(argument(flag))).debug_assert();
    }

    #[test]
    fn given_flags_set_the_targets_in_the_manifest() {
        let arguments = ["--concurrent-widget-syncs", "7", "--widget-sync-period=90s", "--widget_grace", "9999h"];
        let tuning = tuning(&arguments);
        let options = tuning.options(&widgets(), LIMIT);
        assert_eq!(options.concurrency, BTreeMap::from([("q".to_owned(), 7)]));
        let period = Duration::from_secs(90);
        assert_eq!(options.resync, BTreeMap::from([("q".to_owned(), period), ("slow".to_owned(), period)]));
        assert_eq!(Value::Object(tuning.settings(&widgets())), serde_json::json!({"graceMs": 35_996_400_000_u64}));
        assert_eq!(options.rate_limit, Some(RateLimit { qps: Some(40.0), burst: 3_000 }));
        let unlimited = tuning.options(&widgets(), RateLimit { qps: None, burst: 30 });
        assert_eq!(unlimited.rate_limit, Some(RateLimit { qps: None, burst: 3_000 }));
    }

    #[test]
    fn flags_that_are_not_given_change_nothing() {
        let tuning = tuning(&[]);
        let options = tuning.options(&widgets(), LIMIT);
        assert!(options.concurrency.is_empty() && options.resync.is_empty());
        assert!(tuning.settings(&widgets()).is_empty());
        assert_eq!((hindrance(&tuning, "widgets"), hindrance(&tuning, "strangers")), (None, None));
        assert_eq!(
            hindrance(&tuning, "gadgets").as_deref(),
            Some("Flag: --allocate-gadgets is false; --allocate-gadgets=true starts it")
        );
    }

    #[test]
    fn files_are_defaults_of_flags_that_are_not_given() {
        for (argument, expected) in [("--widget-grace=1m", "default"), ("--widget-ca-file=mine", "mine")] {
            let mut flags = parse(&[argument]).unwrap();
            flags.default_files("widget-", [("widget-ca-file", "default".into())]);
            assert_eq!(flags.given.get("widget-ca-file"), Some(&Given::File(expected.into())), "{argument}");
        }
    }

    #[test]
    fn a_controller_waits_for_the_settings_that_it_requires() {
        static KEYED: LazyLock<Catalogue> = LazyLock::new(|| {
            let section = "{requires: [ca], flags: [{name: widget-ca-file, type: certificates, help: Whose., sets: {config: ca}}]}";
            Catalogue::new([with_section("widgets", section)])
        });
        let tuning = ControllerFlags::default().read(&KEYED).unwrap();
        assert_eq!(
            hindrance(&tuning, "widgets").as_deref(),
            Some("MissingSetting: setting ca is not given (--widget-ca-file)")
        );
        assert_eq!(tuning.hindrance("widgets", |setting| setting == "ca"), None);
        assert_eq!(hindrance(&tuning, "strangers"), None);
    }

    #[test]
    fn a_controller_waits_for_one_of_the_settings_of_which_it_requires_any() {
        static KEYED: LazyLock<Catalogue> = LazyLock::new(|| {
            Catalogue::new([manifest(
                "{name: widgets, version: '1', contract: '0.2', watches: [], queues: [{name: q}],
                  config: {ours: {type: authority, optional: true}, theirs: {type: string, optional: true}},
                  builtIn: {requiresAny: [ours, theirs], flags: [
                    {name: widget-ca-file, type: certificates, help: Whose., sets: {config: theirs}}]}}",
            )])
        });
        let tuning = ControllerFlags::default().read(&KEYED).unwrap();
        assert_eq!(
            hindrance(&tuning, "widgets").as_deref(),
            Some("MissingSetting: none of the settings ours, theirs (--widget-ca-file) is given")
        );
        for given in ["ours", "theirs"] {
            assert_eq!(tuning.hindrance("widgets", |setting| setting == given), None, "{given}");
        }
    }

    #[test]
    fn a_value_that_a_number_of_a_manifest_cannot_have_is_rejected_with_its_flag() {
        static DRIVEN: LazyLock<Catalogue> = LazyLock::new(|| {
            Catalogue::new([manifest(
                "{name: widgets, version: '1', contract: '0.2', watches: [], queues: [{name: q, tickMs: {config: period}, concurrency: {config: syncs}}],
                  config: {period: {type: duration, default: 15s}, syncs: {type: integer, default: 5}}, builtIn: {flags: [
                    {name: widget-period, type: duration, default: 15s, help: How often., sets: {config: period}},
                    {name: concurrent-widget-syncs, type: int32, default: 5, minimum: 1, help: How many., sets: {config: syncs}}]}}",
            )])
        });
        let read = |argument: &str| {
            let matches = declare(Command::new("test"), &DRIVEN).get_matches_from(["test", argument]);
            let read = collect(&matches, &DRIVEN).read(&DRIVEN);
            read.map(|tuning| Value::Object(tuning.settings(&DRIVEN.manifests().next().unwrap().clone())).to_string())
                .unwrap_or_else(|why| format!("{why:#}"))
        };
        assert_eq!(read("--widget-period=1m30s"), r#"{"period":"1m30s"}"#);
        assert_eq!(read("--widget-period=0s"), r#"{"period":"0s"}"#);
        assert_eq!(read("--concurrent-widget-syncs=1000"), r#"{"syncs":1000}"#);
        expect![[r#"--widget-period sets period of widgets: setting "period": it sets queues[0].tickMs of the manifest, which must be at least 10 ms, or 0 for no tick, not 5 ms"#]]
            .assert_eq(&read("--widget-period=5ms"));
        expect![[r#"--concurrent-widget-syncs sets syncs of widgets: setting "syncs": it sets queues[0].concurrency of the manifest, which must be 1 to 1000, not 1001"#]]
            .assert_eq(&read("--concurrent-widget-syncs=1001"));
    }

    #[test]
    fn a_flag_may_enable_or_disable_a_controller() {
        assert!(hindrance(&tuning(&["--enable-widgets=false"]), "widgets").is_some());
        assert!(hindrance(&tuning(&["--enable-widgets"]), "widgets").is_none());
        assert!(hindrance(&tuning(&["--allocate-gadgets"]), "gadgets").is_none());
    }

    #[test]
    fn a_feature_gate_is_off_with_an_api_server_or_an_emulated_version_that_is_older_than_it_needs() {
        static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| {
            let gate = "{featureGates: [{name: AllowDNSOnlyNodeCSR, default: true, since: '1.37', apiServer: '1.36', sets: {config: on}}]}";
            Catalogue::new([with_section("widgets", gate)])
        });
        let on = |given: &str, api_server: Option<u32>| {
            let mut tuning = parse(&[given]).unwrap().read(&CATALOGUE).unwrap();
            tuning.adapt(api_server);
            (tuning.settings(&widgets()).get("on").cloned(), tuning.features()["AllowDNSOnlyNodeCSR"].1)
        };
        let none = "--feature-gates=";
        assert_eq!([on(none, None), on(none, Some(36)), on(none, Some(37))], [(); 3].map(|()| (None, true)));
        assert_eq!(on(none, Some(35)), (Some(Value::Bool(false)), false));
        assert_eq!(on("--emulated-version=kube=1.36", None), (Some(Value::Bool(false)), false));
        assert_eq!(on("--emulated-version=1.37", None), (None, true));
        // The operator has granted the rights.
        assert_eq!(on("--feature-gates=AllowDNSOnlyNodeCSR=true", Some(35)), (Some(Value::Bool(true)), true));
    }

    #[test]
    fn the_emulated_version_must_have_the_gates_that_are_named() {
        static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| {
            let gate = "{featureGates: [{name: HPAGeneration, default: true, since: '1.37', sets: {config: on}}]}";
            Catalogue::new([with_section("widgets", gate)])
        });
        let read = |given: &[&str]| parse(given).unwrap().read(&CATALOGUE).map_err(|why| why.to_string());
        let why = "--feature-gates: cannot set feature gate HPAGeneration to true, feature is PreAlpha at emulated version 1.36, min compatibility version 1.35";
        let named = "--feature-gates=HPAGeneration=true";
        assert_eq!(read(&["--emulated-version=kube=1.36", named]).err().as_deref(), Some(why));
        let older = ["--emulated-version=kube=1.36", "--min-compatibility-version=kube=1.34", named];
        assert!(read(&older).err().is_some_and(|why| why.ends_with("min compatibility version 1.34")));
        let on = |given: &[&str]| read(given).unwrap().features()["HPAGeneration"].1;
        assert!(on(&["--emulated-version=kube=1.37", named]));
        // As upstream, a group applies to the existing gates.
        assert!(on(&["--feature-gates=AllBeta=true"]));
        assert!(!on(&["--emulated-version=kube=1.36", "--feature-gates=AllBeta=true"]));
    }

    #[test]
    fn a_feature_gate_is_a_setting_or_decides_whether_a_controller_runs() {
        static GATED: LazyLock<Catalogue> = LazyLock::new(|| {
            let section = "{featureGates: [
                {name: DeploymentReplicaSetTerminatingReplicas, default: true, sets: {config: on}},
                {name: StorageVersionAPI, default: false, sets: {runs: true}}]}";
            Catalogue::new([with_section("widgets", section)])
        });
        let tuning = |gates: &str| {
            let matches = declare(Command::new("test"), &GATED).get_matches_from(["test", "--feature-gates", gates]);
            collect(&matches, &GATED).read(&GATED).unwrap()
        };
        let settings = |gates: &str| Value::Object(tuning(gates).settings(&widgets()));
        assert_eq!(settings(""), serde_json::json!({}));
        assert_eq!(settings("DeploymentReplicaSetTerminatingReplicas=false"), serde_json::json!({"on": false}));
        assert_eq!(settings("AllBeta=false"), serde_json::json!({"on": false}));
        let off =
            "FeatureGate: feature gate StorageVersionAPI is off; --feature-gates=StorageVersionAPI=true starts it";
        for gates in ["", "AllBeta=true"] {
            assert_eq!(hindrance(&tuning(gates), "widgets").as_deref(), Some(off), "{gates}");
        }
        for gates in ["StorageVersionAPI=true", "AllAlpha=true"] {
            assert_eq!(hindrance(&tuning(gates), "widgets"), None, "{gates}");
        }
        assert_eq!(tuning("DetectCacheInconsistency=true").gates_without_effect(), ["DetectCacheInconsistency"]);
    }

    #[test]
    fn a_component_that_replaces_a_controller_gets_the_options_that_it_has() {
        let yaml = "{name: widgets, version: '2', contract: '0.2', watches: [], queues: [{name: slow}]}";
        let other = manifest(yaml);
        let tuning = tuning(&["--concurrent-widget-syncs=7", "--widget-sync-period=90s", "--widget-grace=1m"]);
        let options = tuning.options(&other, LIMIT);
        assert!(options.concurrency.is_empty(), "it has no queue q");
        assert_eq!(options.resync.keys().collect::<Vec<_>>(), ["slow"]);
        assert!(tuning.settings(&other).is_empty());
    }

    #[test]
    fn the_section_of_a_component_that_is_not_built_in_has_no_effect() {
        let greedy = with_section("strangers", WIDGETS);
        let tuning = tuning(&["--concurrent-widget-syncs=7", "--widget-grace=1m", "--enable-widgets=false"]);
        let options = tuning.options(&greedy, LIMIT);
        assert!(options.concurrency.is_empty() && options.rate_limit.is_none() && !options.shares_metrics);
        assert!(tuning.settings(&greedy).is_empty() && hindrance(&tuning, "strangers").is_none());
        // A component with a built-in name still has its own section ignored.
        let posing = with_section("widgets", "{client: {qps: 1000, burst: 1000}}");
        assert_eq!(tuning.options(&posing, LIMIT).rate_limit, Some(RateLimit { qps: Some(40.0), burst: 3_000 }));
    }

    #[test]
    fn values_out_of_range_are_rejected() {
        let check = |arguments: &[&str], expected: Expect| {
            let why = parse(arguments).unwrap_err();
            expected.assert_eq(why.lines().next().unwrap());
        };
        check(
            &["--concurrent-widget-syncs", "0"],
            expect!["error: invalid value '0' for '--concurrent-widget-syncs <N>': 0 is not in 1..=2147483647"],
        );
        check(
            &["--concurrent-widget-syncs", "2147483648"],
            expect![
                "error: invalid value '2147483648' for '--concurrent-widget-syncs <N>': 2147483648 is not in 1..=2147483647"
            ],
        );
        check(
            &["--widget-sync-period", "9999h"],
            expect!["error: invalid value '9999h' for '--widget-sync-period <DURATION>': at most 1193h"],
        );
        check(
            &["--widget-grace", "-5m"],
            expect![
                "error: invalid value '-5m' for '--widget-grace <DURATION>': write a duration such as 90s, 5m or 1h30m"
            ],
        );
        let flag = Flag {
            kind: FlagType::Float32,
            minimum: Some(0.0),
            maximum: Some(1.0),
            ..CATALOGUE.flags()[0].flag.clone()
        };
        assert_eq!(float32(&flag, "0.55"), Ok(0.55));
        assert_eq!(float32(&flag, "-0.1"), Err("at least 0".to_owned()));
        assert_eq!(float32(&flag, "1.1"), Err("at most 1".to_owned()));
        assert_eq!(float32(&flag, "nan"), Err("write a number such as 0.1".to_owned()));
    }

    #[test]
    fn files_are_read_whatever_controllers_run() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.pem");
        let arguments = ["--widget-ca-file", file.to_str().unwrap()];
        let read = || parse(&arguments).unwrap().read(&CATALOGUE).map_err(|why| why.to_string());
        assert_eq!(read().err(), Some(format!("read --widget-ca-file {}", file.display())));
        std::fs::write(&file, "hello").unwrap();
        assert!(read().err().is_some_and(|why| why.contains("contains no certificates")));
        let bundle = "-----BEGIN CERTIFICATE-----\nMAMCAQE=\n-----END CERTIFICATE-----\n";
        std::fs::write(&file, bundle).unwrap();
        let tuning = read().unwrap();
        assert_eq!(tuning.settings(&widgets())["ca"], bundle);
        let files = tuning.files(&widgets());
        assert_eq!((files.len(), &files[0].setting, &files[0].content), (1, &"ca".to_owned(), &bundle.to_owned()));
        assert!((files[0].check)(bundle).is_ok() && (files[0].check)("hello").is_err());
    }

    #[test]
    fn a_bundle_has_valid_certificates_only() {
        let block = |body: &str| format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n");
        let good = block("MAMCAQE=");
        assert!(is_bundle(&format!("# ours\n{good}{good}")));
        for text in ["", "hello", &block("AAAA"), &block("?"), &format!("{good}-----BEGIN CERTIFICATE-----\nMAMCAQE=")]
        {
            assert!(!is_bundle(text), "{text}");
        }
    }
}
