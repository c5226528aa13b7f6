//! What a built-in controller adds to the host: flags, a service account, client limits, inputs.
//!
//! Invariants:
//! 1. The host reads this section only from components in its binary, because it selects accounts of `kube-system`.
//! 2. The default of a flag equals the manifest's value of the queue or setting that the flag sets.
//!
//! Not here: the command line (`pintle`), the mapping of names to accounts (`account`).
//!
//! Source: `cmd/kube-controller-manager/app/options`, and the clients' names and limits in
//! `cmd/kube-controller-manager/app`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Manifest, SettingType, To, Watch, is_label, is_true, yes};
use crate::duration;
use crate::kubernetes::minor_number;
use crate::object::id::Kind;

/// Additions of a built-in controller to the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct BuiltIn {
    /// Name of its service account in `kube-system`, as in kube-controller-manager; `pintle-` and the plugin's name if
    /// absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account: Option<String>,
    /// Whether `*` of `--controllers` includes it. Default true.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub on_by_default: bool,
    /// Settings without which the host does not start it, which is not an error. They have no default.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requires: Vec<String>,
    /// Settings of which the host needs at least one to start it. If all are missing, it is not started, which is not an
    /// error. They have no default.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requires_any: Vec<String>,
    /// Kinds that another controller reconciles and that it also acts on, such as Jobs that it deletes once they
    /// finish. Without the other controller, nothing reconciles them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<Kind>,
    /// Rate limits of its client.
    #[serde(skip_serializing_if = "ClientLimits::is_default")]
    pub client: ClientLimits,
    /// Settings that the host fills in, by name. If the host has no such input, and the operator sets no value, the plugin
    /// does not run.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, Input>,
    /// Its flags for `pintle run` and `pintle dev`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<Flag>,
    /// Feature gates of Kubernetes that it reads; `--feature-gates` sets them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub feature_gates: Vec<FeatureGate>,
}

impl Default for BuiltIn {
    fn default() -> Self {
        Self {
            service_account: None,
            on_by_default: true,
            requires: Vec::new(),
            requires_any: Vec::new(),
            beside: Vec::new(),
            client: ClientLimits::default(),
            inputs: BTreeMap::new(),
            flags: Vec::new(),
            feature_gates: Vec::new(),
        }
    }
}

impl BuiltIn {
    /// The inputs without which the host does not start the controller, one sentence fragment each; empty if it always
    /// starts.
    pub fn start_conditions(&self) -> Vec<String> {
        let mut conditions = Vec::new();
        if !self.on_by_default {
            conditions.push("off by default: --controllers has to name it".to_owned());
        }
        for flag in self.flags.iter().filter(|flag| flag.sets.runs) {
            let is_off = flag.default_value().ok().flatten() == Some(FlagValue::Bool(false));
            conditions.extend(is_off.then(|| format!("needs --{}", flag.name)));
        }
        let gates = self.feature_gates.iter().filter(|gate| gate.sets.runs && !gate.default);
        conditions.extend(gates.map(|gate| format!("needs --feature-gates={}=true", gate.name)));
        conditions
            .extend(self.requires.iter().map(|setting| format!("needs setting {setting}{}", self.by_flag(setting))));
        if !self.requires_any.is_empty() {
            conditions.push(format!("needs one of the settings {}", self.by_flags(&self.requires_any)));
        }
        conditions
    }

    /// Settings, each with the flag that sets it.
    pub fn by_flags(&self, settings: &[String]) -> String {
        let settings = settings.iter().map(|setting| format!("{setting}{}", self.by_flag(setting)));
        settings.collect::<Vec<_>>().join(", ")
    }

    /// The flag that sets a setting, in parentheses.
    pub fn by_flag(&self, setting: &str) -> String {
        let flag = self.flags.iter().find(|flag| flag.sets.config.as_deref() == Some(setting));
        flag.map_or_else(String::new, |flag| format!(" (--{})", flag.name))
    }
}

/// Rate limits of a client, as multiples of every controller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct ClientLimits {
    /// Multiple of `--kube-api-qps`. Default 1, at most 1,000.
    pub qps: u16,
    /// Multiple of `--kube-api-burst`. Default 1, at most 1,000.
    pub burst: u16,
}

impl Default for ClientLimits {
    fn default() -> Self {
        Self { qps: 1, burst: 1 }
    }
}

impl ClientLimits {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Inputs that the host has for settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Input {
    /// The certificate authority of the connection to the API server, in PEM.
    ClusterCa,
}

/// A flag of kube-controller-manager. Two controllers may declare the same flag with equal declarations except `sets`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Flag {
    /// Name without the leading dashes. The host accepts `_` for `-`, as kube-controller-manager does.
    pub name: String,
    /// Type of the value.
    #[serde(rename = "type")]
    pub kind: FlagType,
    /// Value without the flag, equal to the manifest's value of its target. Durations are strings such as `5m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// Smallest number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum: Option<f64>,
    /// Largest number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maximum: Option<f64>,
    /// Help text, in kube-controller-manager's words.
    pub help: String,
    /// Targets of the value.
    pub sets: Sets,
}

/// Types of flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FlagType {
    /// A whole number.
    Int32,
    /// A number.
    Float32,
    /// A duration; as a setting, in milliseconds.
    Duration,
    /// `true` or `false`; the flag alone is `true`.
    Bool,
    /// A string.
    String,
    /// Path of a file, whose content becomes the value.
    File,
    /// Path of a file with certificates in PEM, whose content becomes the value.
    Certificates,
}

/// Targets of a flag's value: at least one of these.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Sets {
    /// Queues whose concurrency it sets; an `int32`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub concurrency: Vec<String>,
    /// Queues whose resync period it sets, as a `duration`; no resync if 0.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resync: Vec<String>,
    /// The setting (of `config`) that it sets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// Whether the setting is of type `key` or `authority`, so that the value is the path of a file which the plugin does not see; a
    /// `file`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub secret: bool,
    /// Which file of an authority it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<AuthorityPart>,
    /// Whether it enables or disables the plugin; a `bool`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub runs: bool,
}

/// The files of an authority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AuthorityPart {
    /// Its certificate.
    Certificate,
    /// Its private key.
    Key,
}

/// A feature gate of Kubernetes. Stage and lock of a gate are upstream's and the same for all controllers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct FeatureGate {
    /// Name, for example `StatefulSetAutoDeletePVC`.
    pub name: String,
    /// Whether it is on without the flag, as in this version of Kubernetes.
    pub default: bool,
    /// First version of Kubernetes with this default, for example `1.37`. With an older `--emulated-version` the gate is off, unless the
    /// flag names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Oldest API server with which the default holds, for example `1.36`. With an older one the gate is off, unless the flag names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_server: Option<String>,
    /// What the gate sets: a setting of type boolean (`config`), or whether the plugin runs (`runs`).
    pub sets: Sets,
}

impl FeatureGate {
    fn check(&self, manifest: &Manifest) -> Result<(), String> {
        let is_name = self.name.starts_with(|first: char| first.is_ascii_uppercase())
            && self.name.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !is_name {
            return Err(format!(
                "name: {:?} must be letters and digits that begin with an upper-case letter",
                self.name
            ));
        }
        for (field, version) in [("since", &self.since), ("apiServer", &self.api_server)] {
            let Some(version) = version else { continue };
            if minor_number(version).is_none() || !self.default {
                return Err(format!("{field}: {version:?} must be like 1.36, of a gate that is on"));
            }
        }
        // Which controllers start is decided before the version of the API server is known.
        if self.api_server.is_some() && self.sets.config.is_none() {
            return Err("apiServer: only for a gate that sets a setting".to_owned());
        }
        self.sets
            .check(FlagType::Bool, None, Some(&FlagValue::Bool(self.default)), manifest)
            .map_err(|why| format!("sets.{why}"))
    }
}

/// The value of a flag.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "as in `FlagType`")]
pub enum FlagValue {
    Int32(i32),
    Float32(f64),
    Duration(Duration),
    Bool(bool),
    /// A string, or the path of a file.
    Text(String),
}

impl FlagValue {
    /// The value in the operator's form for a setting of this type. For a file, the path.
    pub fn to_config(&self, setting: SettingType) -> Value {
        match self {
            Self::Duration(value) if setting == SettingType::Duration => duration::format(*value).into(),
            other => other.to_setting(),
        }
    }

    /// The value in the plugin's form. For a file, the path.
    fn to_setting(&self) -> Value {
        match self {
            Self::Int32(value) => (*value).into(),
            Self::Float32(value) => (*value).into(),
            Self::Duration(value) => u64::try_from(value.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX).into(),
            Self::Bool(value) => (*value).into(),
            Self::Text(value) => value.as_str().into(),
        }
    }
}

impl Flag {
    /// Whether both declarations of a flag are equal, except for their targets.
    pub fn agrees_with(&self, other: &Self) -> bool {
        Self { sets: Sets::default(), ..self.clone() } == Self { sets: Sets::default(), ..other.clone() }
    }

    /// The default value of the flag.
    ///
    /// # Errors
    /// If the type of the default differs from the type of the flag. A retry does not help.
    pub fn default_value(&self) -> Result<Option<FlagValue>, String> {
        let Some(default) = &self.default else { return Ok(None) };
        let wrong = |wanted: &str| format!("default: {default} is not {wanted}");
        let value = match self.kind {
            FlagType::Int32 => {
                default.as_i64().and_then(|value| i32::try_from(value).ok()).map(FlagValue::Int32).ok_or("an int32")
            }
            FlagType::Float32 => default.as_f64().map(FlagValue::Float32).ok_or("a number"),
            FlagType::Bool => default.as_bool().map(FlagValue::Bool).ok_or("true or false"),
            FlagType::String => default.as_str().map(|text| FlagValue::Text(text.to_owned())).ok_or("a string"),
            FlagType::Duration => match default.as_str().map(duration::parse) {
                Some(Ok(value)) => Ok(FlagValue::Duration(value)),
                Some(Err(why)) => return Err(format!("default: {default}: {why}")),
                None => Err("a string such as \"5m\""),
            },
            FlagType::File | FlagType::Certificates => return Err("default: a file has none".to_owned()),
        };
        value.map(Some).map_err(wrong)
    }

    fn check(&self, manifest: &Manifest) -> Result<(), String> {
        if !is_label(&self.name) {
            return Err(format!("name: {:?} must be lower-case letters, digits and '-', at most 63", self.name));
        }
        if self.help.is_empty() {
            return Err("help: is empty".to_owned());
        }
        let is_number = matches!(self.kind, FlagType::Int32 | FlagType::Float32);
        if !is_number && (self.minimum.is_some() || self.maximum.is_some()) {
            return Err("minimum, maximum: only numbers have bounds".to_owned());
        }
        let default = self.default_value()?;
        let number = match default {
            Some(FlagValue::Int32(value)) => Some(f64::from(value)),
            Some(FlagValue::Float32(value)) => Some(value),
            _ => None,
        };
        let below = number.zip(self.minimum).is_some_and(|(value, least)| value < least);
        if below || number.zip(self.maximum).is_some_and(|(value, most)| value > most) {
            return Err("default: is out of bounds".to_owned());
        }
        self.sets.check(self.kind, self.minimum, default.as_ref(), manifest).map_err(|why| format!("sets.{why}"))
    }
}

impl Sets {
    /// `kind`, `minimum` and `default` are those of the flag or gate.
    fn check(
        &self,
        kind: FlagType,
        minimum: Option<f64>,
        default: Option<&FlagValue>,
        manifest: &Manifest,
    ) -> Result<(), String> {
        if *self == Self::default() {
            return Err("concurrency, resync, config or runs: one is needed".to_owned());
        }
        let of_type = |field: &str, wanted: FlagType, word: &str| match kind == wanted {
            true => Ok(()),
            false => Err(format!("{field}: is for a flag of type {word}")),
        };
        let queue = |field: &str, name: &String| {
            let found = manifest.queues.iter().find(|queue| queue.name == *name);
            found.ok_or_else(|| format!("{field}: there is no queue {name:?}"))
        };
        let same = |field: &str, name: &str, value: Option<FlagValue>| match default == value.as_ref() {
            true => Ok(()),
            false => Err(format!("{field}: the flag's default differs from the manifest's value of {name:?}")),
        };
        for name in &self.concurrency {
            of_type("concurrency", FlagType::Int32, "int32")?;
            let queue = queue("concurrency", name)?;
            if minimum.is_none_or(|least| least < 1.0) {
                return Err("concurrency: the flag needs a minimum of at least 1".to_owned());
            }
            same("concurrency", name, i32::try_from(queue.n_workers()).ok().map(FlagValue::Int32))?;
        }
        for name in &self.resync {
            of_type("resync", FlagType::Duration, "duration")?;
            let period = queue("resync", name)?.resync().unwrap_or_default();
            same("resync", name, Some(FlagValue::Duration(period)))?;
        }
        if self.runs {
            of_type("runs", FlagType::Bool, "bool")?;
            if default.is_none() {
                return Err("runs: the flag needs a default".to_owned());
            }
        }
        if self.secret || self.part.is_some() {
            return self.check_secret(kind, manifest);
        }
        if let Some(name) = &self.config {
            let Some(setting) = manifest.config.get(name) else {
                return Err(format!("config: there is no setting {name:?}"));
            };
            let fits = match kind {
                FlagType::Int32 => setting.kind == SettingType::Integer,
                FlagType::Duration => matches!(setting.kind, SettingType::Integer | SettingType::Duration),
                FlagType::Float32 => setting.kind == SettingType::Number,
                FlagType::Bool => setting.kind == SettingType::Boolean,
                FlagType::String | FlagType::File | FlagType::Certificates => setting.kind == SettingType::String,
            };
            if !fits {
                return Err(format!("config: setting {name:?} has another type than the flag"));
            }
            let of_setting = setting.default_value().map_err(|why| format!("config: {why}"))?;
            if of_setting != default.map(FlagValue::to_setting) {
                return Err(format!("config: the flag's default differs from the manifest's value of {name:?}"));
            }
        }
        Ok(())
    }
}

impl Sets {
    /// Checks the targets of a flag for the file of a key, or for one of the two files of an authority.
    fn check_secret(&self, kind: FlagType, manifest: &Manifest) -> Result<(), String> {
        let setting = self.config.as_ref().and_then(|name| manifest.config.get(name)).map(|setting| setting.kind);
        match (kind, setting, self.part) {
            _ if !self.secret => Err("part: is for files of authorities, with secret: true".to_owned()),
            (FlagType::File, Some(SettingType::Key), None) | (FlagType::File, Some(SettingType::Authority), Some(_)) => Ok(()),
            (FlagType::File, Some(SettingType::Authority), None) => {
                Err("part: write certificate or key for a setting of type authority".to_owned())
            }
            _ => Err("secret: is for a flag of type file and a setting (config) of type key, or of type authority with its part".to_owned()),
        }
    }
}

/// # Errors
/// The wrong field, and the cause.
pub(super) fn check(built_in: &BuiltIn, manifest: &Manifest) -> Result<(), String> {
    if let Some(account) = built_in.service_account.as_ref().filter(|account| !is_label(account)) {
        return Err(format!("serviceAccount: {account:?} must be lower-case letters, digits and '-', at most 63"));
    }
    let ClientLimits { qps, burst } = built_in.client;
    if ![qps, burst].iter().all(|times| (1..=1_000).contains(times)) {
        return Err("client: multiples are 1 to 1000".to_owned());
    }
    for name in built_in.inputs.keys() {
        if manifest.config.get(name).is_none_or(|setting| setting.kind != SettingType::String) {
            return Err(format!("inputs.{name}: there is no such setting of type string"));
        }
    }
    for (i, kind) in built_in.beside.iter().enumerate() {
        let is_key = |watch: &Watch| watch.enqueue.iter().any(|rule| matches!(rule.to, To::This | To::Plugin));
        if !manifest.watches.iter().any(|watch| watch.kind.as_ref() == Some(kind) && is_key(watch)) {
            return Err(format!(
                "beside[{i}]: objects of {kind} are no keys: no watch of it has a rule to self or plugin"
            ));
        }
    }
    for (field, names) in [("requires", &built_in.requires), ("requiresAny", &built_in.requires_any)] {
        for (i, name) in names.iter().enumerate() {
            match manifest.config.get(name) {
                None => return Err(format!("{field}[{i}]: there is no setting {name:?}")),
                Some(setting) if setting.default.is_some() => {
                    return Err(format!("{field}[{i}]: setting {name:?} has a default, and so always a value"));
                }
                Some(_) => {}
            }
        }
    }
    let mut names = BTreeSet::new();
    for (i, flag) in built_in.flags.iter().enumerate() {
        flag.check(manifest).map_err(|why| format!("flags[{i}].{why}"))?;
        if !names.insert(flag.name.as_str()) {
            return Err(format!("flags[{i}].name: {:?} is declared twice", flag.name));
        }
    }
    for (i, gate) in built_in.feature_gates.iter().enumerate() {
        gate.check(manifest).map_err(|why| format!("featureGates[{i}].{why}"))?;
        if !names.insert(gate.name.as_str()) {
            return Err(format!("featureGates[{i}].name: {:?} is declared twice", gate.name));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;
    use crate::contract::manifest::ManifestError;

    fn manifest(built_in: &Value) -> Result<Manifest, String> {
        let manifest = json!({
            "name": "widgets", "version": "1", "contract": "0.2", "watches": [],
            "queues": [{"name": "q", "concurrency": 2, "resyncMs": 300_000}, {"name": "other"}],
            "config": {
                "n": {"type": "integer", "default": 60_000}, "ca": {"type": "string"},
                "on": {"type": "boolean", "default": true},
            },
            "builtIn": built_in,
        });
        Manifest::parse(manifest.to_string().as_bytes()).map_err(|why| match why {
            ManifestError::Invalid(why) => why,
            ManifestError::Path(wrong) => wrong.to_string(),
            ManifestError::Parse(why) => format!("does not parse: {why}"),
        })
    }

    fn check(built_in: Value, expect: Expect) {
        expect.assert_eq(&manifest(&built_in).map_or_else(|why| why, |_| "ok".to_owned()));
    }

    /// A flag for the concurrency of `q`, with these changes.
    fn flag(change: Value) -> Value {
        let mut flag = json!({
            "name": "concurrent-widget-syncs", "type": "int32", "default": 2, "minimum": 1, "help": "Widgets at once.",
            "sets": {"concurrency": ["q"]},
        });
        for (field, value) in change.as_object().unwrap() {
            flag[field] = value.clone();
        }
        json!({"flags": [flag]})
    }

    #[test]
    fn a_section_is_checked_field_by_field() {
        check(json!({}), expect!["ok"]);
        check(json!({"serviceAccount": "widget-controller", "client": {"qps": 20, "burst": 100}}), expect!["ok"]);
        check(
            json!({"serviceAccount": "a/b"}),
            expect![[r#"builtIn.serviceAccount: "a/b" must be lower-case letters, digits and '-', at most 63"#]],
        );
        check(json!({"client": {"qps": 0}}), expect!["builtIn.client: multiples are 1 to 1000"]);
        check(json!({"inputs": {"ca": "clusterCa"}}), expect!["ok"]);
        check(
            json!({"inputs": {"n": "clusterCa"}}),
            expect!["builtIn.inputs.n: there is no such setting of type string"],
        );
        check(json!({"requires": ["ca"]}), expect!["ok"]);
        check(
            json!({"beside": ["v1/Secret"]}),
            expect!["builtIn.beside[0]: objects of v1/Secret are no keys: no watch of it has a rule to self or plugin"],
        );
        check(json!({"requires": ["x"]}), expect![[r#"builtIn.requires[0]: there is no setting "x""#]]);
        check(
            json!({"requires": ["ca", "n"]}),
            expect![[r#"builtIn.requires[1]: setting "n" has a default, and so always a value"#]],
        );
        check(json!({"requiresAny": ["ca"]}), expect!["ok"]);
        check(json!({"requiresAny": ["ca", "x"]}), expect![[r#"builtIn.requiresAny[1]: there is no setting "x""#]]);
        check(flag(json!({})), expect!["ok"]);
        check(
            flag(json!({"name": "concurrent_widget_syncs"})),
            expect![[
                r#"builtIn.flags[0].name: "concurrent_widget_syncs" must be lower-case letters, digits and '-', at most 63"#
            ]],
        );
        check(flag(json!({"help": ""})), expect!["builtIn.flags[0].help: is empty"]);
        check(flag(json!({"default": "2"})), expect![[r#"builtIn.flags[0].default: "2" is not an int32"#]]);
        check(flag(json!({"default": 0})), expect!["builtIn.flags[0].default: is out of bounds"]);
        check(
            flag(json!({"sets": {}})),
            expect!["builtIn.flags[0].sets.concurrency, resync, config or runs: one is needed"],
        );
        let mut twice = flag(json!({}));
        twice["flags"] = json!([twice["flags"][0], twice["flags"][0]]);
        check(twice, expect![[r#"builtIn.flags[1].name: "concurrent-widget-syncs" is declared twice"#]]);
    }

    #[test]
    fn a_flag_sets_existing_targets_and_has_their_default() {
        check(
            flag(json!({"sets": {"concurrency": ["x"]}})),
            expect![[r#"builtIn.flags[0].sets.concurrency: there is no queue "x""#]],
        );
        check(
            flag(json!({"default": 3})),
            expect![[
                r#"builtIn.flags[0].sets.concurrency: the flag's default differs from the manifest's value of "q""#
            ]],
        );
        check(
            flag(json!({"minimum": 0})),
            expect!["builtIn.flags[0].sets.concurrency: the flag needs a minimum of at least 1"],
        );
        let typed = |kind: &str, default: Value, sets: Value| {
            flag(json!({"type": kind, "default": default, "minimum": null, "sets": sets}))
        };
        check(typed("duration", json!("5m"), json!({"resync": ["q"]})), expect!["ok"]);
        check(typed("duration", json!("0s"), json!({"resync": ["other"]})), expect!["ok"]);
        check(
            typed("duration", json!("6m"), json!({"resync": ["q"]})),
            expect![[r#"builtIn.flags[0].sets.resync: the flag's default differs from the manifest's value of "q""#]],
        );
        check(
            typed("duration", json!("5"), json!({"resync": ["q"]})),
            expect![[r#"builtIn.flags[0].default: "5": write a duration such as 90s, 5m or 1h30m"#]],
        );
        check(
            typed("bool", json!(true), json!({"concurrency": ["q"]})),
            expect!["builtIn.flags[0].sets.concurrency: is for a flag of type int32"],
        );
        check(typed("bool", json!(true), json!({"runs": true})), expect!["ok"]);
        check(
            typed("bool", json!(null), json!({"runs": true})),
            expect!["builtIn.flags[0].sets.runs: the flag needs a default"],
        );
        check(typed("duration", json!("1m"), json!({"config": "n"})), expect!["ok"]);
        check(typed("bool", json!(true), json!({"config": "on"})), expect!["ok"]);
        check(typed("certificates", json!(null), json!({"config": "ca"})), expect!["ok"]);
        check(
            typed("file", json!("/etc/ca"), json!({"config": "ca"})),
            expect!["builtIn.flags[0].default: a file has none"],
        );
        check(
            typed("string", json!(null), json!({"config": "n"})),
            expect![[r#"builtIn.flags[0].sets.config: setting "n" has another type than the flag"#]],
        );
        check(
            typed("string", json!(null), json!({"config": "x"})),
            expect![[r#"builtIn.flags[0].sets.config: there is no setting "x""#]],
        );
    }

    #[test]
    fn a_flag_names_the_file_of_a_key_or_one_of_the_files_of_an_authority() {
        let check = |kind: &str, sets: Value, expect: Expect| {
            let manifest = json!({
                "name": "widgets", "version": "1", "contract": "0.2", "watches": [], "queues": [{"name": "q"}],
                "config": {"key": {"type": "key"}, "ca": {"type": "authority"}, "text": {"type": "string"}},
                "builtIn": {"flags": [{"name": "widget-file", "type": kind, "help": "A file.", "sets": sets}]},
            });
            let text = match Manifest::parse(manifest.to_string().as_bytes()) {
                Ok(_) => "ok".to_owned(),
                Err(why) => why.to_string().replace("the manifest is not valid: builtIn.flags[0].sets.", ""),
            };
            expect.assert_eq(&text);
        };
        check("file", json!({"config": "key", "secret": true}), expect!["ok"]);
        check("file", json!({"config": "ca", "secret": true, "part": "certificate"}), expect!["ok"]);
        let is_for = expect![
            "secret: is for a flag of type file and a setting (config) of type key, or of type authority with its part"
        ];
        check("file", json!({"config": "text", "secret": true}), is_for);
        let is_for = expect![
            "secret: is for a flag of type file and a setting (config) of type key, or of type authority with its part"
        ];
        check("string", json!({"config": "key", "secret": true}), is_for);
        check(
            "file",
            json!({"config": "ca", "secret": true}),
            expect!["part: write certificate or key for a setting of type authority"],
        );
        check(
            "file",
            json!({"config": "ca", "part": "key"}),
            expect!["part: is for files of authorities, with secret: true"],
        );
        check("file", json!({"config": "key"}), expect![[r#"config: setting "key" has another type than the flag"#]]);
    }

    #[test]
    fn a_feature_gate_sets_a_boolean_with_its_own_default_or_whether_the_plugin_runs() {
        let gate = |gate: Value| json!({"featureGates": [gate]});
        check(gate(json!({"name": "WidgetColors", "default": true, "sets": {"config": "on"}})), expect!["ok"]);
        check(gate(json!({"name": "WidgetColors", "default": false, "sets": {"runs": true}})), expect!["ok"]);
        let new = |default: bool, field: &str, sets: Value| {
            gate(json!({"name": "WidgetColors", "default": default, field: "1.37", "sets": sets}))
        };
        check(new(true, "since", json!({"runs": true})), expect!["ok"]);
        check(
            new(false, "since", json!({"runs": true})),
            expect![[r#"builtIn.featureGates[0].since: "1.37" must be like 1.36, of a gate that is on"#]],
        );
        check(
            new(true, "apiServer", json!({"runs": true})),
            expect!["builtIn.featureGates[0].apiServer: only for a gate that sets a setting"],
        );
        check(
            gate(json!({"name": "WidgetColors", "default": false, "sets": {"config": "on"}})),
            expect![[
                r#"builtIn.featureGates[0].sets.config: the flag's default differs from the manifest's value of "on""#
            ]],
        );
        check(
            gate(json!({"name": "WidgetColors", "default": true, "sets": {"config": "n"}})),
            expect![[r#"builtIn.featureGates[0].sets.config: setting "n" has another type than the flag"#]],
        );
        check(
            gate(json!({"name": "WidgetColors", "default": true, "sets": {"concurrency": ["q"]}})),
            expect!["builtIn.featureGates[0].sets.concurrency: is for a flag of type int32"],
        );
        check(
            gate(json!({"name": "WidgetColors", "default": true, "sets": {}})),
            expect!["builtIn.featureGates[0].sets.concurrency, resync, config or runs: one is needed"],
        );
        check(
            gate(json!({"name": "widget-colors", "default": true, "sets": {"runs": true}})),
            expect![[
                r#"builtIn.featureGates[0].name: "widget-colors" must be letters and digits that begin with an upper-case letter"#
            ]],
        );
        let one = json!({"name": "WidgetColors", "default": true, "sets": {"config": "on"}});
        check(
            json!({"featureGates": [one, one]}),
            expect![[r#"builtIn.featureGates[1].name: "WidgetColors" is declared twice"#]],
        );
    }

    #[test]
    fn conditions_of_the_start_name_what_to_give() {
        let of = |section: Value| manifest(&section).unwrap().built_in.unwrap().start_conditions();
        assert!(of(json!({"flags": flag(json!({}))["flags"]})).is_empty());
        let runs = |default: bool| json!({"name": "enable-widgets", "type": "bool", "default": default, "help": "Whether.", "sets": {"runs": true}});
        let gate = |default: bool| json!({"name": "WidgetColors", "default": default, "sets": {"runs": true}});
        assert!(of(json!({"flags": [runs(true)], "featureGates": [gate(true)]})).is_empty());
        let file = json!({"name": "widget-ca", "type": "file", "help": "Whose.", "sets": {"config": "ca"}});
        let all = json!({"onByDefault": false, "flags": [runs(false), file], "featureGates": [gate(false)], "requires": ["ca"], "requiresAny": ["ca"]});
        assert_eq!(
            of(all),
            [
                "off by default: --controllers has to name it",
                "needs --enable-widgets",
                "needs --feature-gates=WidgetColors=true",
                "needs setting ca (--widget-ca)",
                "needs one of the settings ca (--widget-ca)",
            ]
        );
    }

    #[test]
    fn flags_agree_whatever_their_targets() {
        let of = |change| manifest(&flag(change)).unwrap().built_in.unwrap().flags.remove(0);
        let one = of(json!({}));
        assert!(one.agrees_with(&Flag { sets: Sets { runs: true, ..Sets::default() }, ..one.clone() }));
        assert!(!one.agrees_with(&of(json!({"maximum": 7}))));
        assert!(!one.agrees_with(&of(json!({"help": "Others at once."}))));
    }
}
