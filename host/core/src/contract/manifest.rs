//! The manifest: a plugin's metadata, readable without running it.
//!
//! A component contains it as JSON in the custom section [`SECTION`] at its top level. Authors write YAML
//! (`manifest.yaml` next to the plugin's source); the build converts it to JSON.

mod bounds;
mod built_in;
mod fields;
mod grant;
mod limits;
mod number;
mod setting;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::{Deserialize, Serialize};

use crate::object::id::{Key, Kind, ObjectKey};
use crate::object::schema::KindSchema;
use crate::text;

pub use built_in::{AuthorityPart, BuiltIn, ClientLimits, FeatureGate, Flag, FlagType, FlagValue, Input, Sets};
pub use fields::{WrongPath, WrongPaths};
pub use grant::{Grant, Of};
pub use limits::{EffectiveLimits, LimitError, Limits};
pub use number::Number;
pub use setting::{Claims, Setting, SettingType};
pub use watch::{Change, EmptySelector, Enqueue, Every, Index, Selects, To, Watch};

/// Name of the custom section.
pub const SECTION: &str = "pintle:manifest";

/// Versions of the contract (`wit/`) that this host supports.
pub const CONTRACT_VERSIONS: &[&str] = &["0.2"];

/// The JSON Schema of a manifest, for editors and references. Its dialect is draft 7, the newest that all editors
/// support.
pub fn schema() -> serde_json::Value {
    SchemaSettings::draft07().into_generator().into_root_schema_for::<Manifest>().to_value()
}

/// Metadata and requests of a plugin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Manifest {
    /// Name of the plugin, unique within a host: lower-case letters, digits and `-`, at most 63.
    /// For a built-in plugin, kube-controller-manager's name of the controller, for example `replicaset-controller`.
    pub name: String,
    /// Alternative names for `--controllers`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// Version of the plugin, for humans.
    pub version: String,
    /// Version of the contract, for example `0.2`.
    pub contract: String,
    /// One sentence.
    #[serde(default)]
    pub description: String,
    /// `source.component` of its events, if a controller of this name is built into the host. Otherwise it is the
    /// plugin's name, so that no component can impersonate another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_source: Option<String>,
    /// Whether it records Events. Default true.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub events: bool,
    /// Whether an instance serves one call or many.
    #[serde(default)]
    pub instances: Instances,
    /// Whether it may call `lister.resources` and `lister.resources-of`.
    #[serde(default)]
    pub discovery: bool,
    /// Kinds that it reads from the cache.
    pub watches: Vec<Watch>,
    /// Its work queues, at least one.
    pub queues: Vec<Queue>,
    /// Permissions that it requests: writes, and live reads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<Grant>,
    /// Its settings, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub config: BTreeMap<String, Setting>,
    /// Endpoints outside of the cluster that it calls, by name. The operator binds each one to a URL.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub endpoints: BTreeMap<String, Endpoint>,
    /// Its own metrics.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<Metric>,
    /// Limits that it requests, within the operator's maximum.
    #[serde(default)]
    pub limits: Limits,
    /// Additions to the host. Only for controllers built into the host's binary; in other components the host ignores
    /// it with a warning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub built_in: Option<BuiltIn>,
}

/// Lifetime of an instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Instances {
    /// One call. Nothing leaks from one run to the next.
    #[default]
    Fresh,
    /// Many calls, one at a time: for plugins that run often, and for languages that are slow to start. An instance is replaced
    /// after a fault, and when it has grown or served 10,000 calls.
    Pooled,
}

/// A work queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Queue {
    /// Name of the queue, unique within the plugin, and the `name` label of its `workqueue_*` metrics unless `metric` is set.
    pub name: String,
    /// The `name` label of its `workqueue_*` metrics. Queues with the same label, also those of other plugins, share
    /// one series: values are summed, and the longest run is the maximum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    /// Concurrent runs: a number, or `{config: SETTING}`. Default 5, at most 1,000.
    #[serde(default = "default_concurrency")]
    pub concurrency: Number,
    /// Delays after failures of a key.
    #[serde(default)]
    pub backoff: Backoff,
    /// Consecutive failures after which a key is dropped until its next change: a number, or `{config: SETTING}`. Never if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<Number>,
    /// Resync period: enqueues every key of these kinds after this many milliseconds, at least 1,000. A number, or `{config: SETTING}`, where
    /// 0 means no resync.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resync_ms: Option<Number>,
    /// Period of an additional key in milliseconds, at least 10: a number, or `{config: SETTING}`, where 0 means no tick. The key has kind `pintle/v1/Tick`, no namespace, the name of the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tick_ms: Option<Number>,
}

const DEFAULT_CONCURRENCY: u32 = 5;

fn default_concurrency() -> Number {
    DEFAULT_CONCURRENCY.into()
}

impl Queue {
    /// The `name` label of its `workqueue_*` metrics.
    pub fn metric(&self) -> &str {
        self.metric.as_deref().unwrap_or(&self.name)
    }

    /// Concurrent runs, at least 1.
    pub fn n_workers(&self) -> u32 {
        self.concurrency.get().unwrap_or(DEFAULT_CONCURRENCY)
    }

    /// Period of the resync, if there is one.
    pub fn resync(&self) -> Option<Duration> {
        period(self.resync_ms.as_ref())
    }

    /// Period of the tick, if there is one.
    pub fn tick(&self) -> Option<Duration> {
        period(self.tick_ms.as_ref())
    }

    /// Consecutive failures after which a key is dropped; never if absent.
    pub fn retries(&self) -> Option<u32> {
        self.max_retries.as_ref()?.get()
    }
}

fn millis(ms: u32) -> Duration {
    Duration::from_millis(ms.into())
}

/// A manifest with too short a period is rejected; the minimum of 1 prevents a busy loop in any case.
fn period(ms: Option<&Number>) -> Option<Duration> {
    ms?.get().map(|ms| millis(ms.max(1)))
}

/// Rate limits of a queue: the longer delay of both rules applies, as in client-go's default controller rate limiter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Backoff {
    /// Delay after the first failure in milliseconds: a number, or `{config: SETTING}`. Default 5, which is the minimum.
    pub base_ms: Number,
    /// Longest delay in milliseconds: a number, or `{config: SETTING}`. Default 1,000,000.
    pub max_ms: Number,
    /// Fixed delay in milliseconds, at least 5, instead of an exponential one: a number, or `{config: SETTING}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fixed_ms: Option<Number>,
    /// Retries per second of the whole queue. Default 10.
    pub qps: f32,
    /// Burst of retries. Default 100.
    pub burst: u32,
}

const DEFAULT_BASE_MS: u32 = 5;
const DEFAULT_MAX_MS: u32 = 1_000_000;

impl Default for Backoff {
    fn default() -> Self {
        Self { base_ms: DEFAULT_BASE_MS.into(), max_ms: DEFAULT_MAX_MS.into(), fixed_ms: None, qps: 10.0, burst: 100 }
    }
}

impl Backoff {
    /// Delay after the first failure.
    pub fn base(&self) -> Duration {
        millis(self.base_ms.get().unwrap_or(DEFAULT_BASE_MS))
    }

    /// Longest delay.
    pub fn max(&self) -> Duration {
        millis(self.max_ms.get().unwrap_or(DEFAULT_MAX_MS))
    }

    /// The fixed delay, if there is one.
    pub fn fixed(&self) -> Option<Duration> {
        self.fixed_ms.as_ref()?.get().map(millis)
    }
}

/// An endpoint outside of the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Endpoint {
    /// What the endpoint is, for the operator who binds it.
    #[serde(default)]
    pub description: String,
    /// Operations that the plugin calls: letters, digits and `-`.
    pub operations: Vec<String>,
}

/// A metric of the plugin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Metric {
    /// Full name, for example `replicaset_controller_sorting_deletion_age_ratio`.
    pub name: String,
    /// Description.
    pub help: String,
    /// Type.
    #[serde(rename = "type")]
    pub kind: MetricType,
    /// Names of its labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// Upper bounds of a histogram's buckets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub buckets: Vec<f64>,
    /// Source of its values.
    #[serde(default, skip_serializing_if = "MetricSource::is_observations")]
    pub of: MetricSource,
    /// For metrics of runs: the queue whose runs it is about. All queues by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// For gauges: the unit that has its own value. Otherwise a series has the last value that any run has set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per: Option<Per>,
}

impl Metric {
    /// Whether the values of a metric can be kept under the other declaration: all fields are equal except the
    /// description.
    pub fn measures_as(&self, other: &Self) -> bool {
        *self == Self { help: self.help.clone(), ..other.clone() }
    }
}

/// Unit that has its own value of a gauge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Per {
    /// A key. A series is the sum of its keys' values, and ends when no key has one. An accepted outcome replaces all
    /// values of its key: values that it does not observe are removed. A run that ends with an error or a fault keeps
    /// them. Samples count when the outcome is accepted (`now`); other moments are a fault.
    Key,
}

/// Source of a metric's values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MetricSource {
    /// The plugin's observations.
    #[default]
    Observations,
    /// The host: a counter counts the runs of keys, a histogram observes their duration in seconds, including writes.
    /// The host sets the labels `code` (200 if nothing failed, otherwise the HTTP status code of the first failed
    /// write, or 500) and `result` (`success` or `error`); the run sets the values of other labels.
    Runs,
}

impl MetricSource {
    fn is_observations(&self) -> bool {
        *self == Self::Observations
    }
}

/// Types of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "Prometheus' own names")]
pub enum MetricType {
    Counter,
    Gauge,
    Histogram,
}

/// A manifest that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// It is not JSON, has an unknown field, or a value of the wrong type. The message contains the position.
    #[error("the manifest does not parse: {0}")]
    Parse(#[source] serde_json::Error),
    /// It is well formed but inconsistent. The message lists each wrong field.
    #[error("the manifest is not valid: {0}")]
    Invalid(String),
    /// Field paths that no object of their kind can have.
    #[error("the manifest is not valid: {0}")]
    Path(WrongPaths),
}

impl Manifest {
    /// Parses and validates the JSON of the custom section.
    ///
    /// # Errors
    /// [`ManifestError`]; a retry does not help.
    pub fn parse(json: &[u8]) -> Result<Self, ManifestError> {
        let mut manifest: Self = serde_json::from_slice(json).map_err(ManifestError::Parse)?;
        number::fill(&mut manifest).map_err(ManifestError::Invalid)?;
        let mut problems = manifest.problems();
        match manifest.check_paths(KindSchema::of_kubernetes) {
            Err(wrong) if problems.is_empty() => return Err(ManifestError::Path(wrong)),
            wrong => problems.extend(wrong.err().iter().flat_map(|wrong| &wrong.0).map(ToString::to_string)),
        }
        if problems.is_empty() { Ok(manifest) } else { Err(ManifestError::Invalid(text::several(&problems))) }
    }

    /// Kinds whose changed objects are keys themselves or are mapped to keys by the plugin, without those listed in
    /// `beside`, on which it acts in addition to their controller. An `every` watch adds none.
    pub fn reconciled(&self) -> impl Iterator<Item = &Kind> {
        let beside = self.built_in.as_ref().map(|section| &*section.beside).unwrap_or_default();
        let acts = |watch: &&Watch| watch.enqueue.iter().any(|rule| matches!(rule.to, To::This | To::Plugin));
        let kinds = self.watches.iter().filter(acts).filter_map(|watch| watch.kind.as_ref());
        kinds.filter(move |kind| !beside.contains(kind))
    }

    /// Whether a watch declares a selector field of its objects.
    pub fn selects(&self) -> bool {
        self.watches.iter().any(|watch| watch.selects.is_some())
    }

    /// Kinds that are watched by name.
    pub fn kinds(&self) -> impl Iterator<Item = &Kind> {
        self.watches.iter().filter_map(|watch| watch.kind.as_ref())
    }

    /// The tick key of a queue.
    pub fn tick_key(queue: &str) -> Key {
        Key { queue: queue.into(), kind: Kind::new("pintle", "v1", "Tick"), object: ObjectKey::new("", queue) }
    }

    /// The tick keys that rules lead to (`to: tick`), each once.
    pub fn ticks_of_rules(&self) -> BTreeSet<Key> {
        let first = self.queues.first().map_or("", |queue| queue.name.as_str());
        let rules = self.watches.iter().flat_map(|watch| &watch.enqueue).filter(|rule| rule.to == To::Tick);
        rules.map(|rule| Self::tick_key(rule.queue.as_deref().unwrap_or(first))).collect()
    }

    /// The problems, each with its field. If the manifest is too large or for another contract, nothing else is
    /// checked.
    fn problems(&self) -> Vec<String> {
        if let Err(why) = bounds::check(self).and_then(|()| self.check_contract()) {
            return vec![why];
        }
        let mut problems = Vec::new();
        let mut note = |checked: Result<(), String>| problems.extend(checked.err());
        let check = |is_right: bool, why: &dyn Fn() -> String| if is_right { Ok(()) } else { Err(why()) };
        note(check(is_label(&self.name), &|| {
            format!("name: {:?} must be lower-case letters, digits and '-', at most 63", self.name)
        }));
        note(check(!self.queues.is_empty(), &|| "queues: at least one is needed".into()));
        for (name, setting) in &self.config {
            note(setting.check().map_err(|why| format!("config.{name}.{why}")));
        }
        let mut queues = BTreeSet::new();
        for (i, queue) in self.queues.iter().enumerate() {
            note(check(queues.insert(queue.name.as_str()), &|| {
                format!("queues[{i}].name: duplicate {:?}", queue.name)
            }));
            note(check(queue.concurrency.get() != Some(0), &|| format!("queues[{i}].concurrency: must be at least 1")));
        }
        for (i, watch) in self.watches.iter().enumerate() {
            note(watch.check(&queues).map_err(|why| format!("watches[{i}].{why}")));
            for (j, rule) in watch.enqueue.iter().enumerate() {
                note(rule.check_index(&self.watches).map_err(|why| format!("watches[{i}].enqueue[{j}].{why}")));
            }
        }
        let mut kinds = BTreeSet::new();
        for (i, kind) in self.watches.iter().enumerate().filter_map(|(i, w)| w.kind.as_ref().map(|k| (i, k))) {
            note(check(kinds.insert(kind), &|| format!("watches[{i}].kind: {kind} is watched twice")));
        }
        for (i, metric) in self.metrics.iter().enumerate() {
            note(check(metric.of != MetricSource::Runs || metric.kind != MetricType::Gauge, &|| {
                format!("metrics[{i}].type: runs are counted, or their times observed by a histogram")
            }));
            if let Some(queue) = &metric.queue {
                note(check(metric.of == MetricSource::Runs, &|| format!("metrics[{i}].queue: is for of: runs")));
                let is_declared = self.queues.iter().any(|declared| *declared.name == **queue);
                note(check(is_declared, &|| format!("metrics[{i}].queue: there is no queue {queue:?}")));
            }
            note(check(metric.per.is_none() || metric.kind == MetricType::Gauge, &|| {
                format!("metrics[{i}].per: key is for gauges, not for a {}", serde_name(&metric.kind))
            }));
        }
        for (i, grant) in self.grants.iter().enumerate() {
            let checked = grant.check().and_then(|()| grant.check_adoption(self.selects()));
            note(checked.map_err(|why| format!("grants[{i}].{why}")));
        }
        if let Some(built_in) = &self.built_in {
            note(built_in::check(built_in, self).map_err(|why| format!("builtIn.{why}")));
        }
        problems
    }

    fn check_contract(&self) -> Result<(), String> {
        if CONTRACT_VERSIONS.contains(&self.contract.as_str()) {
            return Ok(());
        }
        Err(format!(
            "contract: the plugin is for contract {:?}, and this host supports {}: build it with the SDK of this host",
            self.contract,
            CONTRACT_VERSIONS.join(", ")
        ))
    }
}

fn yes() -> bool {
    true
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_true(value: &bool) -> bool {
    *value
}

fn serde_name(value: &impl Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

/// Whether a name is a DNS label: up to 63 lower-case letters, digits and `-`, not at its ends (RFC 1123).
pub fn is_label(name: &str) -> bool {
    (1..=63).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !name.starts_with('-')
        && !name.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minimal() -> serde_json::Value {
        serde_json::json!({
            "name": "widgets", "version": "1.0.0", "contract": "0.2",
            "watches": [{"kind": "example.com/v1/Widget", "enqueue": [{"to": "self"}]}],
            "queues": [{"name": "widgets"}],
        })
    }

    fn check(change: impl FnOnce(&mut serde_json::Value), expect: expect_test::Expect) {
        let mut manifest = minimal();
        change(&mut manifest);
        let text = match Manifest::parse(manifest.to_string().as_bytes()) {
            Ok(manifest) => format!("ok: {}", manifest.name),
            Err(ManifestError::Parse(why)) => format!("does not parse: {why}"),
            Err(ManifestError::Invalid(why)) => why,
            Err(ManifestError::Path(wrong)) => wrong.to_string(),
        };
        expect.assert_eq(&text);
    }

    #[test]
    fn all_that_is_wrong_is_told_at_once() {
        use expect_test::expect;
        check(
            |m| {
                m["name"] = "Widgets".into();
                m["watches"][0]["enqueue"][0]["queue"] = "none".into();
                let pods = serde_json::json!({"kind": "v1/Pod", "fields": ["spec.nodNam", "status.phas"]});
                m["watches"].as_array_mut().unwrap().push(pods);
                m["queues"][0]["concurrency"] = 0.into();
            },
            expect![[
                r#"5 errors: name: "Widgets" must be lower-case letters, digits and '-', at most 63; queues[0].concurrency: must be at least 1; watches[0].enqueue[0].queue: "none" is not declared; declared are widgets; watches[1].fields[0]: spec.nodNam: v1/Pod has no such field; did you mean spec.nodeName?; watches[1].fields[1]: status.phas: v1/Pod has no such field; did you mean status.phase?"#
            ]],
        );
    }

    #[test]
    fn a_manifest_is_checked_field_by_field() {
        use expect_test::expect;
        check(|_| {}, expect!["ok: widgets"]);
        check(
            |m| m["name"] = "Widgets".into(),
            expect![[r#"name: "Widgets" must be lower-case letters, digits and '-', at most 63"#]],
        );
        check(
            |m| m["contract"] = "9.9".into(),
            expect![[
                r#"contract: the plugin is for contract "9.9", and this host supports 0.2: build it with the SDK of this host"#
            ]],
        );
        check(|m| m["queues"] = serde_json::json!([]), expect!["queues: at least one is needed"]);
        check(
            |m| m["watches"][0]["enqueue"][0] = serde_json::json!({"to": "controller"}),
            expect!["watches[0].enqueue[0].kind: is needed with to: controller"],
        );
        check(
            |m| m["watches"][0]["enqueue"][0] = serde_json::json!({"to": "self", "queue": "other"}),
            expect![[r#"watches[0].enqueue[0].queue: "other" is not declared; declared are widgets"#]],
        );
        check(
            |m| m["watches"][0]["fields"] = serde_json::json!(["spec..a"]),
            expect![[
                r#"watches[0].fields[0]: field path "spec..a" is not valid: a name is empty; write spec.nodeName or metadata.labels['example.com/x']"#
            ]],
        );
        check(
            |m| m["watches"][0]["labelSelector"] = "a in b".into(),
            expect![[r#"watches[0].labelSelector: expected '(' before "b""#]],
        );
        let metric = |kind: &str, labels: &[&str]| serde_json::json!([{"name": "x", "help": "", "type": kind, "labels": labels, "of": "runs"}]);
        check(|m| m["metrics"] = metric("counter", &["code"]), expect!["ok: widgets"]);
        check(
            |m| m["metrics"] = metric("gauge", &[]),
            expect!["metrics[0].type: runs are counted, or their times observed by a histogram"],
        );
        check(
            |m| m["grants"] = serde_json::json!([{"verbs": ["read"], "kinds": ["v1/Pod"]}]),
            expect![[
                r#"grants[0].verbs: "read" is not one of *, get, list, watch, create, update, patch, delete, deletecollection, escalate, bind, approve, sign, attest"#
            ]],
        );
        check(
            |m| m["grants"] = serde_json::json!([{"verbs": ["escalate"], "kinds": ["v1/Pod"]}]),
            expect!["ok: widgets"],
        );
    }

    #[test]
    fn kinds_that_it_acts_on_beside_their_controller_are_not_reconciled() {
        use serde_json::{Value, json};
        let mut manifest = json!({
            "name": "cleaner", "version": "1", "contract": "0.2", "queues": [{"name": "q"}],
            "watches": [
                {"kind": "batch/v1/Job", "enqueue": [{"to": "self"}]}, {"kind": "v1/Pod", "enqueue": [{"to": "self"}]},
                {"kind": "v1/Node"},
            ],
        });
        let reconciled = |manifest: &Value| {
            let manifest = Manifest::parse(manifest.to_string().as_bytes()).unwrap();
            manifest.reconciled().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(reconciled(&manifest), ["batch/v1/Job", "v1/Pod"]);
        manifest["builtIn"] = json!({"beside": ["batch/v1/Job"]});
        assert_eq!(reconciled(&manifest), ["v1/Pod"]);
    }

    #[test]
    fn rules_by_index_by_two_fields_and_to_ticks_are_checked() {
        use expect_test::expect;
        let rule = |rule: serde_json::Value, expect| {
            check(
                |m| {
                    m["watches"][0]["indexes"] = serde_json::json!([{"name": "node", "field": "spec.node"}]);
                    m["watches"][0]["enqueue"][0] = rule;
                },
                expect,
            );
        };
        let indexed = |kind: &str, index: &str| serde_json::json!({"to": "indexed", "kind": kind, "index": index});
        let (widget, gadget) = ("example.com/v1/Widget", "example.com/v1/Gadget");
        rule(indexed(widget, "node"), expect!["ok: widgets"]);
        rule(
            indexed(widget, "nod"),
            expect![[
                r#"watches[0].enqueue[0].index: "nod" is not declared in a watch of example.com/v1/Widget; declared are node"#
            ]],
        );
        rule(
            indexed(gadget, "node"),
            expect![[
                r#"watches[0].enqueue[0].index: "node" is not declared in a watch of example.com/v1/Gadget; no index is"#
            ]],
        );
        rule(
            serde_json::json!({"to": "indexed", "kind": widget}),
            expect!["watches[0].enqueue[0].index: is needed with to: indexed"],
        );
        rule(
            serde_json::json!({"to": "indexed", "index": "node"}),
            expect!["watches[0].enqueue[0].kind: is needed with to: indexed"],
        );
        rule(
            serde_json::json!({"to": "self", "index": "node"}),
            expect!["watches[0].enqueue[0].index: is for to: indexed, not for to: self"],
        );
        let fields = |to: &str| serde_json::json!({"to": to, "kind": gadget, "field": "spec.ref.name", "namespaceField": "spec.ref.namespace"});
        rule(fields("field"), expect!["ok: widgets"]);
        rule(fields("label"), expect!["watches[0].enqueue[0].namespaceField: is for to: field, not for to: label"]);
        rule(serde_json::json!({"to": "tick"}), expect!["ok: widgets"]);
    }

    #[test]
    fn values_per_key_labels_of_queues_and_a_number_of_series_are_checked() {
        use expect_test::expect;
        let with = |field: &str, value: serde_json::Value, expect| {
            check(
                |m| {
                    m[field] = value;
                },
                expect,
            );
        };
        let gauge = |kind: &str| serde_json::json!([{"name": "x", "help": "", "type": kind, "per": "key"}]);
        with("metrics", gauge("gauge"), expect!["ok: widgets"]);
        with("metrics", gauge("counter"), expect!["metrics[0].per: key is for gauges, not for a counter"]);
        with("metrics", gauge("histogram"), expect!["metrics[0].per: key is for gauges, not for a histogram"]);
        let of_queue = |of: &str, queue: &str| serde_json::json!([{"name": "x", "help": "", "type": "counter", "of": of, "queue": queue}]);
        with("metrics", of_queue("runs", "widgets"), expect!["ok: widgets"]);
        with("metrics", of_queue("observations", "widgets"), expect!["metrics[0].queue: is for of: runs"]);
        with("metrics", of_queue("runs", "x"), expect![[r#"metrics[0].queue: there is no queue "x""#]]);
        let queue = |metric: &str| serde_json::json!([{"name": "widgets", "metric": metric}]);
        with("queues", queue("all"), expect!["ok: widgets"]);
        with("queues", queue(""), expect!["queues[0].metric: has 0 bytes; 1 to 128 are valid"]);
        with("queues", queue(&"x".repeat(128)), expect!["ok: widgets"]);
        with("queues", queue(&"x".repeat(129)), expect!["queues[0].metric: has 129 bytes; 1 to 128 are valid"]);
        let series = serde_json::json!({"series": 20_000});
        with("limits", series.clone(), expect!["ok: widgets"]);
    }

    #[test]
    fn a_watch_of_every_kind_declares_the_indexes_of_kinds_that_are_not_watched_by_name() {
        use expect_test::expect;
        let watch = |index: &str, expect| {
            let every = serde_json::json!({"every": {}, "indexes": [{"name": "uid", "field": "metadata.uid"}]});
            check(
                |m| {
                    let kind = if index == "named" { "example.com/v1/Widget" } else { "v1/Pod" };
                    m["watches"][0]["enqueue"][0] = serde_json::json!({"to": "indexed", "kind": kind, "index": "uid"});
                    m["watches"].as_array_mut().unwrap().push(every);
                },
                expect,
            );
        };
        watch("every", expect!["ok: widgets"]);
        watch(
            "named",
            expect![[
                r#"watches[0].enqueue[0].index: "uid" is not declared in a watch of example.com/v1/Widget; no index is"#
            ]],
        );
    }

    #[test]
    fn an_unknown_field_is_named() {
        let mut manifest = minimal();
        manifest["watchs"] = serde_json::json!([]);
        let error = Manifest::parse(manifest.to_string().as_bytes()).unwrap_err();
        assert!(format!("{:?}", error).contains("watchs"), "{error:?}");
    }
}
