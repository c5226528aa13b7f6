//! The manifest: what a plugin says of itself, readable without running it.
//!
//! It travels as JSON in the custom section [`SECTION`] at the top level of the component. Authors write it as YAML
//! (`manifest.yaml` beside the plugin's source); the build turns it into JSON.

mod bounds;
mod grant;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::Kind;

pub use grant::{Grant, Of};

/// Name of the component's custom section.
pub const SECTION: &str = "pintle:manifest";

/// Versions of the contract (`wit/`) that this host loads.
pub const CONTRACT_VERSIONS: &[&str] = &["0.1"];

/// The JSON Schema of a manifest, for editors and references.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Manifest).to_value()
}

/// What a plugin says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Manifest {
    /// Name of the plugin, unique within a host: lower-case letters, digits and `-`, at most 63.
    /// For a built-in plugin, kube-controller-manager's name of the controller, for example `replicaset-controller`.
    pub name: String,
    /// Other names that `--controllers` accepts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// Version of the plugin, for humans.
    pub version: String,
    /// Version of the contract, for example `0.1`.
    pub contract: String,
    /// One sentence.
    #[serde(default)]
    pub description: String,
    /// `source.component` of its events; the name if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_source: Option<String>,
    /// Whether it records Events. Default true.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub events: bool,
    /// Whether instances live for one call or for many.
    #[serde(default)]
    pub instances: Instances,
    /// Whether it may call `lister.resources`.
    #[serde(default)]
    pub discovery: bool,
    /// What it reads from the cache.
    pub watches: Vec<Watch>,
    /// Its work queues, at least one.
    pub queues: Vec<Queue>,
    /// What it asks to be allowed to write, and to read live.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<Grant>,
    /// Its settings, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub config: BTreeMap<String, Setting>,
    /// Metrics of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<Metric>,
    /// Limits that it asks for, within the operator's maximum.
    #[serde(default)]
    pub limits: Limits,
}

/// How long an instance lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Instances {
    /// One call. Nothing leaks from one run to the next.
    #[default]
    Fresh,
    /// Many calls, one at a time: for languages that are slow to start.
    Pooled,
}

/// A kind that the plugin reads, or all kinds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Watch {
    /// For example `apps/v1/ReplicaSet`. Absent if `every` is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// Every kind with these verbs (besides list and watch), also those that appear later: metadata only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Every>,
    /// One namespace instead of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// In the syntax of kubectl.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<String>,
    /// In the syntax of kubectl.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_selector: Option<String>,
    /// The projection: paths of fields to keep. `apiVersion`, `kind` and `metadata.{name,namespace,uid,resourceVersion}`
    /// are always kept. A path is names joined by dots; a name that holds a dot or slash stands in `['...']`: `spec.nodeName`,
    /// `metadata.annotations['example.com/x']`. A list on the way is passed through: the rest of the path holds for each element.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
    /// Keep whole objects (without managedFields); `get` then gives them.
    #[serde(default)]
    pub whole: bool,
    /// Ways to find objects by the value of a field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<Index>,
    /// The object's own selector, for `lister.selecting`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selects: Option<Selects>,
    /// Which keys a change of such an object touches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub enqueue: Vec<Enqueue>,
}

/// Which kinds `every` means.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Every {
    /// Verbs that the resource must have besides `list` and `watch`, for example `delete`.
    #[serde(default)]
    pub verbs: Vec<String>,
    /// Kinds that are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<Kind>,
}

/// A declared index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Index {
    /// Name for `index-query`.
    pub name: String,
    /// Path of a scalar field, or of a list of scalars (each is a value).
    pub field: String,
}

/// Where an object keeps its own selector.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Selects {
    /// Path, for example `spec.selector`.
    pub field: String,
    /// Its form.
    pub form: SelectorForm,
}

/// Forms of selectors inside objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SelectorForm {
    /// `matchLabels` and `matchExpressions`, as in a ReplicaSet.
    LabelSelector,
    /// A map of labels, as in a Service.
    Map,
}

/// One rule from a changed object to keys. Old and new state of the object are both mapped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Enqueue {
    /// Whose keys.
    pub to: To,
    /// The kind of the keys for `controller`, `selecting`, `field`, `label`, `namespaceKeys`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// For `controller`: the owner's controllers of these kinds in turn (a Pod's ReplicaSet's Deployment: `via: [apps/v1/ReplicaSet]`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub via: Vec<Kind>,
    /// For `field` and `label`: the path or label whose value is the name (`name` or `namespace/name`) of the key's object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The queue; the plugin's first if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Which changes; all if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on: Vec<Change>,
    /// For updates: only if one of these fields (paths within the projection) differs. All updates if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
    /// Only objects that no controller owns.
    #[serde(default)]
    pub orphans: bool,
    /// Only objects with an owner reference to what the cache does not hold: its owner is gone, not seen yet, not watched,
    /// in another namespace, or of another kind or name.
    #[serde(default)]
    pub dangling: bool,
    /// Only objects that have this field (a path), for example `metadata.deletionTimestamp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub present: Option<String>,
    /// Enqueue only after this many milliseconds (changes until then are one run).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u32>,
}

/// Whose keys a change touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum To {
    /// The object itself.
    #[serde(rename = "self")]
    This,
    /// Its controller, if it is of `kind` (and still has the uid that the reference names).
    Controller,
    /// Every owner, by any owner reference, of any watched kind.
    Owners,
    /// Every object that names it as an owner.
    Dependents,
    /// Objects of `kind` in its namespace whose own selector matches its labels.
    Selecting,
    /// The object of `kind` that a field names.
    Field,
    /// The object of `kind` that a label names.
    Label,
    /// Every object of `kind` in its namespace (in all, if it is cluster-scoped).
    NamespaceKeys,
    /// The Namespace that it lives in, as a key of kind `v1/Namespace`.
    Namespace,
    /// The plugin's `mapping` decides.
    Plugin,
}

/// A change of an object in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// It is new.
    Add,
    /// It differs.
    Update,
    /// It is gone.
    Delete,
}

/// A work queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Queue {
    /// The `name` label of the `workqueue_*` metrics.
    pub name: String,
    /// Runs at once. Default 5, at most 1,000.
    #[serde(default = "default_concurrency")]
    pub concurrency: u32,
    /// Delay after failures of a key.
    #[serde(default)]
    pub backoff: Backoff,
    /// Failures in a row after which a key is dropped until its next change; never if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
    /// Every key of these kinds again after so many milliseconds, at least 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resync_ms: Option<u32>,
    /// Also a key of its own, `tick`, every so many milliseconds, at least 10 (kind `v1/Namespace`, no namespace, name `tick`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tick_ms: Option<u32>,
}

fn default_concurrency() -> u32 {
    5
}

/// Rate limits of a queue: the longer delay of both rules counts, as client-go's default controller rate limiter has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Backoff {
    /// Delay after the first failure. Default 5, which is the least.
    pub base_ms: u32,
    /// Longest delay. Default 1,000,000.
    pub max_ms: u32,
    /// Always this delay, at least 5, instead of an exponential one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fixed_ms: Option<u32>,
    /// Retries per second of the whole queue. Default 10.
    pub qps: f32,
    /// Retries at once. Default 100.
    pub burst: u32,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { base_ms: 5, max_ms: 1_000_000, fixed_ms: None, qps: 10.0, burst: 100 }
    }
}

/// A setting: its type, default and range.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Setting {
    /// Type of the value.
    #[serde(rename = "type")]
    pub kind: SettingType,
    /// For humans.
    #[serde(default)]
    pub description: String,
    /// The value if the operator gives none; the setting is required if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<serde_json::Value>,
    /// Smallest number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum: Option<f64>,
    /// Largest number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maximum: Option<f64>,
    /// The valid strings.
    #[serde(default, rename = "enum", skip_serializing_if = "Vec::is_empty")]
    pub one_of: Vec<String>,
    /// A file whose content becomes the (string) value may be given instead, as `{"file": "/path"}`.
    #[serde(default)]
    pub from_file: bool,
}

/// Types of settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "JSON's own names")]
pub enum SettingType {
    Boolean,
    Integer,
    Number,
    String,
    /// A list of strings.
    Strings,
}

/// A metric of the plugin's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Metric {
    /// Full name, for example `replicaset_controller_sorting_deletion_age_ratio`.
    pub name: String,
    /// For humans.
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
    /// Who feeds it.
    #[serde(default, skip_serializing_if = "MetricSource::is_observations")]
    pub of: MetricSource,
}

/// Who feeds a metric.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MetricSource {
    /// The plugin, by observations.
    #[default]
    Observations,
    /// The host: a counter counts the runs of keys, a histogram observes their time in seconds, writes included. The only label
    /// there can be is `code`: 200 if nothing failed, otherwise the HTTP status code of the first write that failed, or 500.
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

/// Limits of one run. Absent fields take the host's default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Limits {
    /// Wall time of a run. Default 10,000; at most 300,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u32>,
    /// Linear memory. Default 64 MiB, at most 1 GiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Mutations in one outcome. Default 1,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mutations: Option<u32>,
    /// Bytes of one outcome. Default 8 MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome_bytes: Option<u64>,
    /// Calls of the lister. Default 100,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_calls: Option<u32>,
    /// Bytes that the lister hands over. Default 256 MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<u64>,
    /// Log lines. Default 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_lines: Option<u32>,
    /// Keyed state of the plugin in all. Default 1 MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_bytes: Option<u64>,
}

/// [`Limits`] with every field decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "as in `Limits`")]
pub struct EffectiveLimits {
    pub deadline: Duration,
    pub memory_bytes: u64,
    pub mutations: u32,
    pub outcome_bytes: u64,
    pub host_calls: u32,
    pub read_bytes: u64,
    pub log_lines: u32,
    pub state_bytes: u64,
}

/// A limit that is more than the operator's maximum. Retrying does not help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("limits.{name}: {asked} is more than the operator's maximum of {maximum}; ask for less, or raise the maximum")]
pub struct LimitError {
    /// The limit's name, as in the manifest.
    pub name: &'static str,
    /// What was asked for.
    pub asked: u64,
    /// What there is.
    pub maximum: u64,
}

impl Limits {
    /// What holds for a run by the manifest alone.
    pub fn effective(&self) -> EffectiveLimits {
        // Without a maximum of the operator there is nothing to be refused: the host's own bounds cut silently.
        let decided: Result<_, std::convert::Infallible> =
            self.decide(|_, asked, default, bound| Ok(asked.unwrap_or(default).min(bound)));
        decided.unwrap_or_else(|never| match never {})
    }

    /// What holds for a run: what the operator gives this plugin, else what its manifest asks for, else the default, which is cut
    /// to the operator's maximum.
    ///
    /// # Errors
    /// [`LimitError`]: more is asked for than the maximum.
    pub fn within(&self, given: &Limits, maximum: &Limits) -> Result<EffectiveLimits, LimitError> {
        let asked = given.over(self);
        let maximum: Vec<(&'static str, u64)> =
            maximum.fields().into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        asked.decide(|name, asked, default, bound| {
            let maximum = maximum.iter().find(|(of, _)| *of == name).map_or(bound, |(_, value)| (*value).min(bound));
            match asked {
                Some(asked) if asked > maximum => Err(LimitError { name, asked, maximum }),
                asked => Ok(asked.unwrap_or(default).min(maximum)),
            }
        })
    }

    /// These limits, and the other ones where these say nothing.
    fn over(&self, other: &Self) -> Self {
        Self {
            deadline_ms: self.deadline_ms.or(other.deadline_ms),
            memory_bytes: self.memory_bytes.or(other.memory_bytes),
            mutations: self.mutations.or(other.mutations),
            outcome_bytes: self.outcome_bytes.or(other.outcome_bytes),
            host_calls: self.host_calls.or(other.host_calls),
            read_bytes: self.read_bytes.or(other.read_bytes),
            log_lines: self.log_lines.or(other.log_lines),
            state_bytes: self.state_bytes.or(other.state_bytes),
        }
    }

    fn fields(&self) -> [(&'static str, Option<u64>); 8] {
        [
            ("deadlineMs", self.deadline_ms.map(u64::from)),
            ("memoryBytes", self.memory_bytes),
            ("mutations", self.mutations.map(u64::from)),
            ("outcomeBytes", self.outcome_bytes),
            ("hostCalls", self.host_calls.map(u64::from)),
            ("readBytes", self.read_bytes),
            ("logLines", self.log_lines.map(u64::from)),
            ("stateBytes", self.state_bytes),
        ]
    }

    /// Decides each field from its name, what is asked for, the default and the host's own bound.
    fn decide<E>(
        &self,
        decide: impl Fn(&'static str, Option<u64>, u64, u64) -> Result<u64, E>,
    ) -> Result<EffectiveLimits, E> {
        const MIB: u64 = 1 << 20;
        const U32: u64 = u32::MAX as u64;
        let [deadline, memory, mutations, outcome, calls, read, lines, state] = self.fields();
        let of = |(name, asked), default, bound| decide(name, asked, default, bound);
        // Bounds make them fit.
        let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        Ok(EffectiveLimits {
            deadline: Duration::from_millis(of(deadline, 10_000, 300_000)?.max(1)),
            memory_bytes: of(memory, 64 * MIB, 1024 * MIB)?,
            mutations: small(of(mutations, 1_000, U32)?),
            outcome_bytes: of(outcome, 8 * MIB, u64::MAX)?,
            host_calls: small(of(calls, 100_000, U32)?),
            read_bytes: of(read, 256 * MIB, u64::MAX)?,
            log_lines: small(of(lines, 100, U32)?),
            state_bytes: of(state, MIB, u64::MAX)?,
        })
    }
}

/// A manifest that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// Not JSON, or a field that does not exist or has the wrong type. The text names the place.
    #[error("the manifest does not parse: {0}")]
    Parse(#[source] serde_json::Error),
    /// It parses, but does not make sense. The text names the field.
    #[error("the manifest is not valid: {0}")]
    Invalid(String),
}

impl Manifest {
    /// Parses and checks the JSON of the custom section.
    ///
    /// # Errors
    /// [`ManifestError`]; retrying does not help.
    pub fn parse(json: &[u8]) -> Result<Self, ManifestError> {
        let manifest: Self = serde_json::from_slice(json).map_err(ManifestError::Parse)?;
        manifest.check().map_err(ManifestError::Invalid)?;
        Ok(manifest)
    }

    /// Kinds that are watched by name.
    pub fn kinds(&self) -> impl Iterator<Item = &Kind> {
        self.watches.iter().filter_map(|watch| watch.kind.as_ref())
    }

    fn check(&self) -> Result<(), String> {
        if !is_label(&self.name) {
            return Err(format!("name: {:?} must be lower-case letters, digits and '-', at most 63", self.name));
        }
        if !CONTRACT_VERSIONS.contains(&self.contract.as_str()) {
            return Err(format!(
                "contract: version {:?} is not known to this host, which loads {}",
                self.contract,
                CONTRACT_VERSIONS.join(", ")
            ));
        }
        if self.queues.is_empty() {
            return Err("queues: at least one is needed".into());
        }
        bounds::check(self)?;
        let mut queues = BTreeSet::new();
        for (i, queue) in self.queues.iter().enumerate() {
            if !queues.insert(queue.name.as_str()) {
                return Err(format!("queues[{i}].name: {:?} stands twice", queue.name));
            }
            if queue.concurrency == 0 {
                return Err(format!("queues[{i}].concurrency: must be at least 1"));
            }
        }
        for (i, watch) in self.watches.iter().enumerate() {
            watch.check(&queues).map_err(|why| format!("watches[{i}].{why}"))?;
        }
        let mut kinds = BTreeSet::new();
        for (i, kind) in self.watches.iter().enumerate().filter_map(|(i, w)| w.kind.as_ref().map(|k| (i, k))) {
            if !kinds.insert(kind) {
                return Err(format!("watches[{i}].kind: {kind} is watched twice"));
            }
        }
        for (i, metric) in self.metrics.iter().enumerate().filter(|(_, metric)| metric.of == MetricSource::Runs) {
            if metric.kind == MetricType::Gauge {
                return Err(format!("metrics[{i}].type: runs are counted, or their times observed by a histogram"));
            }
            if let Some(label) = metric.labels.iter().find(|label| *label != "code") {
                return Err(format!("metrics[{i}].labels: {label:?} is not known of runs; known is code"));
            }
        }
        for (i, grant) in self.grants.iter().enumerate() {
            grant.check().map_err(|why| format!("grants[{i}].{why}"))?;
        }
        Ok(())
    }
}

impl Watch {
    fn check(&self, queues: &BTreeSet<&str>) -> Result<(), String> {
        match (&self.kind, &self.every) {
            (None, None) => return Err("kind: either kind or every is needed".into()),
            (Some(_), Some(_)) => return Err("every: kind and every exclude each other".into()),
            _ => {}
        }
        let path = |place: String, path: &str| {
            path.parse::<crate::field::FieldPath>().map(|_| ()).map_err(|why| format!("{place}: {why}"))
        };
        for (i, field) in self.fields.iter().enumerate() {
            path(format!("fields[{i}]"), field)?;
        }
        for (i, index) in self.indexes.iter().enumerate() {
            path(format!("indexes[{i}].field"), &index.field)?;
        }
        if let Some(selects) = &self.selects {
            path("selects.field".into(), &selects.field)?;
        }
        if let Some(selector) = &self.label_selector {
            crate::selector::Selector::parse(selector).map_err(|why| format!("labelSelector: {why}"))?;
        }
        for (i, rule) in self.enqueue.iter().enumerate() {
            for (j, changed) in rule.changed.iter().enumerate() {
                path(format!("enqueue[{i}].changed[{j}]"), changed)?;
            }
            if let Some(field) = rule.field.as_deref().filter(|_| rule.to == To::Field) {
                path(format!("enqueue[{i}].field"), field)?;
            }
            if let Some(field) = &rule.present {
                path(format!("enqueue[{i}].present"), field)?;
            }
            let needs_kind =
                matches!(rule.to, To::Controller | To::Selecting | To::Field | To::Label | To::NamespaceKeys);
            if needs_kind && rule.kind.is_none() {
                return Err(format!("enqueue[{i}].kind: is needed with to: {}", serde_name(&rule.to)));
            }
            if matches!(rule.to, To::Field | To::Label) && rule.field.is_none() {
                return Err(format!("enqueue[{i}].field: is needed with to: {}", serde_name(&rule.to)));
            }
            if let Some(queue) = rule.queue.as_deref().filter(|queue| !queues.contains(queue)) {
                let known = queues.iter().copied().collect::<Vec<_>>().join(", ");
                return Err(format!("enqueue[{i}].queue: {queue:?} is not declared; declared are {known}"));
            }
        }
        Ok(())
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

fn is_label(name: &str) -> bool {
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
            "name": "widgets", "version": "1.0.0", "contract": "0.1",
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
        };
        expect.assert_eq(&text);
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
            expect![[r#"contract: version "9.9" is not known to this host, which loads 0.1"#]],
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
            |m| m["metrics"] = metric("histogram", &["verb"]),
            expect![[r#"metrics[0].labels: "verb" is not known of runs; known is code"#]],
        );
        check(
            |m| m["grants"] = serde_json::json!([{"verbs": ["read"], "kinds": ["v1/Pod"]}]),
            expect![[
                r#"grants[0].verbs: "read" is not one of *, get, list, watch, create, update, patch, delete, deletecollection"#
            ]],
        );
    }

    #[test]
    fn the_operators_maximum_binds_what_is_asked_for() {
        let limits = |json: serde_json::Value| serde_json::from_value::<Limits>(json).unwrap();
        let asked = limits(serde_json::json!({"deadlineMs": 2000, "mutations": 5}));
        let given = limits(serde_json::json!({"deadlineMs": 3000}));
        let maximum = limits(serde_json::json!({"deadlineMs": 3000, "memoryBytes": 1048576}));
        let within = asked.within(&given, &maximum).unwrap();
        assert_eq!((within.deadline.as_millis(), within.mutations, within.memory_bytes), (3000, 5, 1 << 20));
        let maximum = limits(serde_json::json!({"deadlineMs": 2999}));
        assert_eq!(
            asked.within(&given, &maximum).unwrap_err().to_string(),
            "limits.deadlineMs: 3000 is more than the operator's maximum of 2999; ask for less, or raise the maximum"
        );
        assert!(asked.within(&Limits::default(), &maximum).is_ok());
        let host = limits(serde_json::json!({"deadlineMs": 300_001}));
        assert_eq!(host.within(&Limits::default(), &Limits::default()).unwrap_err().maximum, 300_000);
        assert_eq!(host.effective().deadline.as_millis(), 300_000);
    }

    #[test]
    fn an_unknown_field_is_named() {
        let mut manifest = minimal();
        manifest["watchs"] = serde_json::json!([]);
        let error = Manifest::parse(manifest.to_string().as_bytes()).unwrap_err();
        assert!(format!("{:?}", error).contains("watchs"), "{error:?}");
    }
}
