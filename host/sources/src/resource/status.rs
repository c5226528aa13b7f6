//! The status of a `ControllerPlugin`: its desired content, and when it is written.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pintle_cache::Caches;
use pintle_core::contract::outcome::PatchType;
use pintle_core::lifecycle::{SwapResult, resource_kind};
use pintle_core::ports::api::{ApiErrorClass, ApiResource, ApiWriter, WriteRequest, WriteVerb};
use pintle_core::text::cut;
use serde_json::{Map, Value, json};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use super::spec::ControllerPlugin;
use crate::control;
use crate::wire::{PluginStatus, Refusal, reason};

/// Longest message of a condition, in bytes; the API convention's limit is 32,768.
const MAX_MESSAGE_BYTES: usize = 4096;
/// Minimum interval between two writes of one status.
const WRITE_PAUSE: Duration = Duration::from_secs(1);
/// Pause after a failed write.
const WRITE_RETRY: Duration = Duration::from_secs(10);
/// Minimum interval between two writes of the same status, if a user overwrites it.
const WRITE_AGAIN: Duration = Duration::from_secs(60);
/// Phase of a plugin whose host has stopped.
const UNKNOWN: &str = "Unknown";

/// The writer for writes about a plugin, by the plugin's name.
pub type WritersOfPlugins = Arc<dyn Fn(&str) -> Arc<dyn ApiWriter> + Send + Sync>;

/// The signature of a host in the statuses that it writes.
#[derive(Clone, Debug, Default)]
pub struct Signature {
    /// Identity of the host, as in its elections.
    pub host: String,
    /// `NAMESPACE/NAME` of the Lease with which the host leads; absent without an election. With groups, that of the
    /// plugins in no group.
    pub lease: Option<String>,
}

impl Signature {
    /// Another host that maintains this status. A stopped host does not, nor does one that led with the same Lease:
    /// this host leads now.
    fn other_keeper<'a>(&self, status: &'a Value) -> Option<&'a str> {
        let has_led = self.lease.as_deref().is_some_and(|lease| status["lease"] == lease);
        let host = status["host"].as_str().filter(|host| *host != self.host)?;
        (status["phase"] != UNKNOWN && !has_led).then_some(host)
    }
}

/// Writes the statuses of all resources.
pub(super) struct StatusWriter {
    caches: Arc<Caches>,
    writers: WritersOfPlugins,
    signature: Signature,
    by_name: BTreeMap<String, Writes>,
    tasks: JoinSet<Written>,
}

/// The writes of one status.
#[derive(Default)]
struct Writes {
    is_busy: bool,
    /// Whether another host was seen to overwrite it. The host that started last keeps it.
    is_contested: bool,
    /// The last written status, and the resourceVersion that it was written to.
    last: Option<(String, Value)>,
    /// When the status may be written, and when the same one again.
    next: Option<Instant>,
    repeat: Option<Instant>,
}

/// The result of one write.
pub(super) struct Written {
    name: String,
    last: Option<(String, Value)>,
    pause: Duration,
}

impl StatusWriter {
    pub(super) fn new(caches: Arc<Caches>, writers: WritersOfPlugins, signature: Signature) -> Self {
        Self { caches, writers, signature, by_name: BTreeMap::new(), tasks: JoinSet::new() }
    }

    /// Drops deleted resources, and those that another host leads.
    pub(super) fn retain(&mut self, is_present: impl Fn(&String) -> bool) {
        self.by_name.retain(|name, _| is_present(name));
    }

    /// Starts to write the status of a resource if it differs from the current one. `artifact`: the resolved artifact
    /// of its tag, or null. Returns the latest time of the next attempt.
    pub(super) fn write_if_due(
        &mut self,
        plugin: &ControllerPlugin,
        attempt: Attempt<'_>,
        running: Option<&PluginStatus>,
        artifact: Value,
    ) -> Option<Instant> {
        let name = &plugin.metadata.name;
        let writes = self.by_name.entry(name.clone()).or_default();
        if writes.is_busy {
            return None;
        }
        let known = Known {
            signature: &self.signature,
            generation: plugin.metadata.generation,
            attempt,
            plugin: running,
            before: &plugin.status,
            now: &control::now(),
        };
        let mut status = desired(&known);
        if !artifact.is_null() {
            status["artifact"] = artifact;
        }
        if status == plugin.status {
            return None;
        }
        let now = Instant::now();
        let other = self.signature.other_keeper(&plugin.status);
        let version = plugin.metadata.resource_version.clone();
        if let Some((written_to, written)) = &writes.last {
            if *written_to == version {
                // The cache does not show it yet.
                return None;
            }
            // It was ours, and this host has led since.
            let overwriter = other.filter(|_| !attempt.is_excluded() && !writes.is_contested);
            if let Some(other) = overwriter {
                writes.is_contested = true;
                tracing::warn!(
                    plugin = name,
                    host = other,
                    "another host writes the status of this ControllerPlugin, too, which is left to it: give each host of the cluster its own --plugin-class"
                );
            }
            if *written == status && writes.repeat.is_some_and(|at| now < at) {
                return writes.repeat;
            }
        }
        if other.is_some() && (attempt.is_excluded() || writes.is_contested) {
            return None;
        }
        if let Some(at) = writes.next.filter(|at| now < *at) {
            return Some(at);
        }
        let Some(resource) = self.caches.resource(&resource_kind()) else { return Some(now + WRITE_PAUSE) };
        writes.is_busy = true;
        let patch = json!([
            {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
            {"op": "add", "path": "/status", "value": status},
        ]);
        let request = request(resource, name, &patch);
        let (writer, name) = ((self.writers)(name), name.clone());
        self.tasks.spawn(async move {
            let (last, pause) = match writer.write(&request).await {
                Ok(_) => (Some((version, status)), WRITE_PAUSE),
                // It has been changed or deleted since, which the cache will show.
                Err(error) if matches!(error.class, ApiErrorClass::Conflict | ApiErrorClass::NotFound) => {
                    (None, WRITE_PAUSE)
                }
                // The leader writes it.
                Err(error) if error.class == ApiErrorClass::NotLeading => (None, WRITE_PAUSE),
                Err(error) => {
                    tracing::warn!(plugin = name, %error, "the status of the ControllerPlugin cannot be written");
                    (None, WRITE_RETRY)
                }
            };
            Written { name, last, pause }
        });
        None
    }

    /// The next finished write; `None` if none is running.
    ///
    /// # Cancel safety
    /// No result is lost.
    pub(super) async fn ended(&mut self) -> Option<Result<Written, JoinError>> {
        self.tasks.join_next().await
    }

    /// Marks the statuses that this host has written, because it stops, and no host updates them.
    pub(super) async fn leave(mut self, plugins: impl Iterator<Item = &ControllerPlugin>) {
        while self.tasks.join_next().await.is_some() {}
        let Some(resource) = self.caches.resource(&resource_kind()) else { return };
        let mut last = JoinSet::new();
        for plugin in plugins {
            let name = &plugin.metadata.name;
            let Some(patch) = left(&plugin.status, &self.signature.host, &control::now()) else { continue };
            let (writer, request) = ((self.writers)(name), request(resource.clone(), name, &patch));
            let name = name.clone();
            last.spawn(async move {
                if let Err(error) = writer.write(&request).await {
                    // The next host writes it, or it is deleted.
                    tracing::debug!(plugin = name, %error, "the status of the ControllerPlugin is not marked");
                }
            });
        }
        last.join_all().await;
    }

    /// Records a result.
    pub(super) fn end(&mut self, written: Result<Written, JoinError>) {
        match written {
            Ok(Written { name, last, pause }) => {
                let now = Instant::now();
                let (next, repeat) = (Some(now + pause), Some(now + WRITE_AGAIN));
                if let Some(writes) = self.by_name.get_mut(&name) {
                    *writes = Writes { is_busy: false, is_contested: writes.is_contested, last, next, repeat };
                }
            }
            // The status stays unchanged: another write would fail again.
            Err(error) => tracing::error!(%error, "writing the status of a ControllerPlugin failed"),
        }
    }
}

fn request(resource: Arc<ApiResource>, name: &str, patch: &Value) -> WriteRequest {
    WriteRequest {
        resource,
        namespace: String::new(),
        name: name.to_owned(),
        subresource: Some("status".to_owned()),
        verb: WriteVerb::Patch { patch_type: PatchType::Json, body: patch.to_string() },
    }
}

/// The patch of the status of a stopping host; `None` if another one has written it.
fn left(status: &Value, host: &str, now: &str) -> Option<Value> {
    if status["host"] != host {
        return None;
    }
    let mut conditions = status["conditions"].clone();
    // The result for the spec remains valid.
    let about_runs = |condition: &&mut Value| condition["type"] != "Accepted" && condition["status"] != "Unknown";
    for condition in conditions.as_array_mut()?.iter_mut().filter(about_runs) {
        condition["status"] = json!("Unknown");
        condition["reason"] = json!("HostStopped");
        condition["message"] = json!(format!("the host {host} has stopped"));
        condition["lastTransitionTime"] = json!(now);
    }
    Some(json!([
        {"op": "test", "path": "/status/host", "value": host},
        {"op": "add", "path": "/status/phase", "value": UNKNOWN},
        {"op": "add", "path": "/status/conditions", "value": conditions},
    ]))
}

/// Inputs of a resource's status.
struct Known<'a> {
    /// Signature of this host.
    signature: &'a Signature,
    /// Generation of the spec that `attempt` is about.
    generation: i64,
    /// Its result.
    attempt: Attempt<'a>,
    /// The plugin with this name, whatever its source.
    plugin: Option<&'a PluginStatus>,
    /// The current status.
    before: &'a Value,
    /// RFC 3339.
    now: &'a str,
}

/// The result for a spec.
#[derive(Clone, Copy)]
pub(super) enum Attempt<'a> {
    /// It waits for its source, or is being applied.
    UnderWay,
    /// It was applied; the digest of the component.
    Taken(&'a str),
    /// It was rejected.
    Refused(&'a Refusal),
}

impl<'a> Attempt<'a> {
    /// The result for a declaration; the digest of its component, if it was applied.
    pub(super) fn of(result: Option<&'a Result<String, Refusal>>) -> Self {
        match result {
            Some(Ok(digest)) => Attempt::Taken(digest),
            Some(Err(refusal)) if !refusal.is_busy() => Attempt::Refused(refusal),
            _ => Attempt::UnderWay,
        }
    }

    /// Whether this host must not run the plugin, so that another one may.
    fn is_excluded(self) -> bool {
        matches!(self, Attempt::Refused(why) if why.reason == reason::EXCLUDED)
    }
}

/// The desired status.
fn desired(known: &Known<'_>) -> Value {
    let Known { generation, attempt, plugin, .. } = known;
    let ours = plugin.filter(|plugin| plugin.source == "resource");
    let phase = match (ours, attempt) {
        (Some(plugin), _) => json!(plugin.phase),
        (None, Attempt::Refused(_)) => json!("Refused"),
        (None, _) => json!("Pending"),
    };
    let mut status = Map::new();
    status.insert("host".into(), json!(known.signature.host));
    if let Some(lease) = &known.signature.lease {
        status.insert("lease".into(), json!(lease));
    }
    status.insert("observedGeneration".into(), json!(generation));
    status.insert("phase".into(), phase);
    let mut conditions = vec![accepted(known)];
    if let Some(plugin) = plugin {
        conditions.extend(plugin.conditions.iter().map(|condition| json!(condition)));
        status.insert("current".into(), json!(plugin.current));
        let mut optional = |name: &str, value: Value| {
            if !value.is_null() {
                status.insert(name.to_owned(), value);
            }
        };
        optional("previous", json!(plugin.previous));
        optional("incoming", json!(plugin.incoming));
        optional("stage", json!(plugin.stage));
        optional("boundsDeletions", plugin.bounds_deletions.then_some(true).into());
        optional("lastSwap", json!(plugin.last_swap));
        if !plugin.faults.is_empty() {
            optional("faults", json!(plugin.faults));
        }
    }
    status.insert("conditions".into(), Value::Array(conditions));
    Value::Object(status)
}

fn accepted(known: &Known<'_>) -> Value {
    let (status, reason, message) = match known.attempt {
        Attempt::UnderWay => ("Unknown", "Applying".to_owned(), "the component is being taken".to_owned()),
        Attempt::Refused(why) => ("False", why.reason.clone(), why.message.clone()),
        Attempt::Taken(digest) => {
            let last = known.plugin.and_then(|plugin| plugin.last_swap.as_ref());
            let rolled_back = last.filter(|last| {
                last.result == SwapResult::RolledBack && last.to.as_ref().is_some_and(|to| to.digest == digest)
            });
            match rolled_back {
                Some(last) => ("False", last.reason.clone(), format!("rolled back: {}", last.message)),
                None => ("True", "Applied".to_owned(), format!("the component sha256:{digest} is applied")),
            }
        }
    };
    let before = known.before["conditions"].as_array().into_iter().flatten().find(|old| old["type"] == "Accepted");
    let since = before.filter(|old| old["status"] == status).and_then(|old| old["lastTransitionTime"].as_str());
    json!({
        "type": "Accepted",
        "status": status,
        "reason": reason,
        "message": cut(&message, MAX_MESSAGE_BYTES),
        "lastTransitionTime": since.unwrap_or(known.now),
        "observedGeneration": known.generation,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-02T03:04:05Z";

    fn signature(lease: Option<&str>) -> Signature {
        Signature { host: "h".into(), lease: lease.map(str::to_owned) }
    }

    #[test]
    fn a_status_is_kept_by_the_host_that_has_written_it_until_it_stops_or_loses_the_lease_to_this_one() {
        let keeper = |lease, status: Value| signature(lease).other_keeper(&status).map(str::to_owned);
        let other = Some("other".to_owned());
        for lease in [None, Some("a/b")] {
            assert_eq!(keeper(lease, Value::Null), None);
            assert_eq!(keeper(lease, json!({"host": "h", "phase": "Running"})), None);
            assert_eq!(keeper(lease, json!({"host": "other", "phase": "Unknown"})), None);
            assert_eq!(keeper(lease, json!({"host": "other", "phase": "Running"})), other);
            assert_eq!(keeper(lease, json!({"host": "other", "lease": "a/c", "phase": "Running"})), other);
        }
        let led = json!({"host": "other", "lease": "a/b", "phase": "Running"});
        assert_eq!((keeper(Some("a/b"), led.clone()), keeper(None, led)), (None, other));
    }

    fn plugin(source: &str) -> PluginStatus {
        serde_json::from_value(json!({
            "name": "p", "phase": "Running", "source": source,
            "current": {"version": "1", "digest": "aa", "origin": "x", "since": NOW},
            "conditions": [{"type": "Ready", "status": "True", "reason": "R", "message": "", "lastTransitionTime": NOW}],
        }))
        .unwrap()
    }

    #[test]
    fn a_host_that_stops_marks_what_it_has_written() {
        let ours = plugin("resource");
        let known = Known {
            signature: &signature(None),
            generation: 3,
            attempt: Attempt::Taken("aa"),
            plugin: Some(&ours),
            before: &Value::Null,
            now: "2026-01-01T00:00:00Z",
        };
        let status = desired(&known);
        assert_eq!(status["host"], "h");
        assert_eq!(left(&status, "another", NOW), None);
        let patch = left(&status, "h", NOW).unwrap();
        assert_eq!(patch[0], json!({"op": "test", "path": "/status/host", "value": "h"}));
        assert_eq!(patch[1]["value"], "Unknown");
        let conditions = patch[2]["value"].as_array().unwrap();
        assert_eq!((&conditions[0]["type"], &conditions[0]["status"]), (&json!("Accepted"), &json!("True")));
        assert_eq!(
            conditions[1],
            json!({
                "type": "Ready", "status": "Unknown", "reason": "HostStopped", "message": "the host h has stopped",
                "lastTransitionTime": NOW,
            })
        );
    }

    fn summary(attempt: Attempt<'_>, plugin: Option<&PluginStatus>, before: &Value) -> String {
        let status = desired(&Known { signature: &signature(None), generation: 3, attempt, plugin, before, now: NOW });
        let accepted = &status["conditions"][0];
        assert_ne!(accepted["message"], "", "{accepted}");
        format!(
            "{} {} {} since {}",
            status["phase"].as_str().unwrap(),
            accepted["status"].as_str().unwrap(),
            accepted["reason"].as_str().unwrap(),
            accepted["lastTransitionTime"].as_str().unwrap()
        )
    }

    #[test]
    fn the_condition_accepted_tells_what_became_of_the_spec() {
        let none = Value::Null;
        let why = Refusal::new("DigestMismatch", "another component");
        let (ours, others) = (plugin("resource"), plugin("built-in"));
        assert_eq!(summary(Attempt::UnderWay, None, &none), format!("Pending Unknown Applying since {NOW}"));
        assert_eq!(summary(Attempt::Taken("aa"), Some(&ours), &none), format!("Running True Applied since {NOW}"));
        assert_eq!(
            summary(Attempt::Refused(&why), Some(&ours), &none),
            format!("Running False DigestMismatch since {NOW}")
        );
        assert_eq!(
            summary(Attempt::Refused(&why), Some(&others), &none),
            format!("Refused False DigestMismatch since {NOW}")
        );
        assert_eq!(summary(Attempt::Refused(&why), None, &none), format!("Refused False DigestMismatch since {NOW}"));
    }

    #[test]
    fn a_roll_back_takes_the_acceptance_back() {
        let mut ours = plugin("resource");
        ours.last_swap = serde_json::from_value(json!({
            "to": {"version": "2", "digest": "bb", "origin": "x", "since": NOW}, "result": "RolledBack",
            "reason": "FaultsInProbation", "message": "3 faults", "at": NOW, "pauseMicros": 0,
        }))
        .unwrap();
        assert_eq!(
            summary(Attempt::Taken("bb"), Some(&ours), &Value::Null),
            format!("Running False FaultsInProbation since {NOW}")
        );
        assert_eq!(
            summary(Attempt::Taken("aa"), Some(&ours), &Value::Null),
            format!("Running True Applied since {NOW}")
        );
    }

    #[test]
    fn a_status_that_stays_is_the_same_text() {
        let ours = plugin("resource");
        let status = |before: &Value, now| {
            desired(&Known {
                signature: &signature(None),
                generation: 3,
                attempt: Attempt::Taken("aa"),
                plugin: Some(&ours),
                before,
                now,
            })
        };
        let first = status(&Value::Null, "2026-01-01T00:00:00Z");
        assert_eq!(status(&first, NOW), first);
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let length = |message: String| {
            let why = Refusal::new("X", message);
            let known = Known {
                signature: &signature(None),
                generation: 1,
                attempt: Attempt::Refused(&why),
                plugin: None,
                before: &Value::Null,
                now: NOW,
            };
            desired(&known)["conditions"][0]["message"].as_str().unwrap().len()
        };
        assert_eq!(length("\u{e4}".repeat(MAX_MESSAGE_BYTES)), MAX_MESSAGE_BYTES);
        assert_eq!(length("x".repeat(MAX_MESSAGE_BYTES + 1)), MAX_MESSAGE_BYTES);
    }
}
