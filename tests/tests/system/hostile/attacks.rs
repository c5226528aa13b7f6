//! Each attack, and what the host must make of it.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, Result};
use pintle_tests::{ApiClient, components, workspace_dir};
use serde_json::{Map, Value, json};

/// What the host makes of an attack.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Met {
    /// A fault of this kind, with this text in its message. The key backs off; an event and the condition report it.
    Fault(&'static str, &'static str),
    /// A read that is not granted is rejected, and the run continues. The metric and an event, with this text, report it.
    Denied(&'static str),
    /// A write that no API server can carry out fails without a request, with this text. There is no fault.
    Failed(&'static str),
    /// The mapping of a change faults like this; an event and the condition of the plugin report it. Its objects run.
    MappingFault(&'static str, &'static str),
    /// The host allows it, and it is harmless: there is no fault.
    Allowed,
    /// The same, and it comes to rest: then the host holds nothing for it.
    Rests,
}

use Met::{Allowed, Denied, Failed, Fault, MappingFault, Rests};

/// The ConfigMaps that are the keys of attacks.
pub(crate) const KEYS: [&str; 4] = ["k0", "k1", "k2", "k3"];

/// Creates two namespaces: in one a neighbour works, in the other one the attacks have their keys.
pub(crate) async fn create_targets(client: &ApiClient) -> Result<()> {
    for namespace in ["calm", "hostile"] {
        client.create_namespace(namespace).await?;
    }
    let named = |name: &str| json!({"metadata": {"name": name}});
    client.create("/api/v1/namespaces/calm/configmaps", &named("probe")).await?;
    client.create("/api/v1/namespaces/calm/secrets", &named("token")).await?;
    for name in KEYS {
        let mut object = named(name);
        object["metadata"]["annotations"]["large0"] = "x".repeat(if name == "k0" { 200_000 } else { 0 }).into();
        client.create("/api/v1/namespaces/hostile/configmaps", &object).await?;
    }
    for name in ["s0", "s1", "victim"] {
        let service = json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
        client.create("/api/v1/namespaces/hostile/services", &service).await?;
    }
    Ok(())
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attack {
    /// A name of `tests/guests/hostile/src/lib.rs`, or `text-` and the name of a file in `tests/guests/hostile/text`. The plugin
    /// has the same name.
    pub(crate) name: &'static str,
    pub(crate) met: Met,
    /// Members of the manifest that it needs besides.
    manifest: Members,
}

#[derive(Clone, Copy, Debug)]
enum Members {
    /// A JSON object.
    Text(&'static str),
    /// Too long to be written.
    Made(fn() -> Value),
}

const fn attack(name: &'static str, met: Met) -> Attack {
    Attack { name, met, manifest: Members::Text("{}") }
}

const fn with(manifest: &'static str, attack: Attack) -> Attack {
    Attack { manifest: Members::Text(manifest), ..attack }
}

const fn making(manifest: fn() -> Value, attack: Attack) -> Attack {
    Attack { manifest: Members::Made(manifest), ..attack }
}

/// Ended by its deadline, which is short.
const fn endless(name: &'static str) -> Attack {
    with(r#"{"limits": {"deadlineMs": 300, "hostCalls": 1000000000}}"#, attack(name, DEADLINE))
}

const DEADLINE: Met = Fault("deadline", "the deadline of 300 ms has passed");
const POOLED: &str = r#"{"instances": "pooled"}"#;
const CREATE: &str = r#"{"grants": [{"verbs": ["create"], "kinds": ["v1/ConfigMap"], "namespaces": ["hostile"]}]}"#;
const CREATE_OWN: &str = r#"{"grants": [{"verbs": ["create"], "kinds": ["v1/ConfigMap"], "of": "controlled"}]}"#;
const WRITE_OWN: &str =
    r#"{"grants": [{"verbs": ["patch", "delete"], "kinds": ["v1/ConfigMap"], "of": "controlled"}]}"#;
const ADOPT: &str = r#"{"grants": [{"verbs": ["patch"], "kinds": ["v1/ConfigMap"], "names": ["*"], "of": "controlled", "adopt": true}]}"#;
const DELETE: &str = r#"{"grants": [{"verbs": ["delete"], "kinds": ["v1/ConfigMap"], "namespaces": ["hostile"]}]}"#;
const READ_VERSION: &str = r#"{"grants": [{"verbs": ["get"], "paths": ["/version"]}]}"#;
const READ_API: &str = r#"{"grants": [{"verbs": ["get"], "paths": ["/api/*"]}]}"#;
const LARGE_NEEDS: &str = r#"{
    "limits": {"outcomeBytes": 33554432},
    "grants": [{"verbs": ["get"], "paths": ["/version/*"]}]
}"#;
const READ_BELOW_VERSION: &str = r#"{"grants": [{"verbs": ["get"], "paths": ["/version/*"]}]}"#;
const OWN_STATUS: &str = r#"{
    "watches": [{"kind": "v1/Service", "namespace": "hostile", "enqueue": [{"to": "self"}]}],
    "grants": [{"verbs": ["patch"], "kinds": ["v1/Service"], "subresources": ["status"], "of": "key"}]
}"#;
const LABELS: &str = r#"{
    "instances": "pooled",
    "metrics": [{"name": "hostile_labels_total", "type": "counter", "help": "Labels.", "labels": ["label"]}]
}"#;

/// The plugin maps the changes of every ConfigMap, also of those that the neighbour changes, besides keys of its own.
const MAPPING: &str = r#"{
    "limits": {"deadlineMs": 300, "hostCalls": 1000000000},
    "watches": [{"kind": "v1/ConfigMap", "enqueue": [{"to": "self"}, {"to": "plugin"}]}]
}"#;
/// Mappings that take their time.
const LARGE_MAPPING: &str = r#"{"watches": [{"kind": "v1/ConfigMap", "enqueue": [{"to": "self"}, {"to": "plugin"}]}]}"#;

const TOO_LARGE: Met = Fault("output", "the outcome is too large to be copied");
const OUT_OF_BOUNDS: Met = Fault("output", "out of bounds");
const TOO_MUCH_MEMORY: Met = Fault("memory", "bytes of memory are more than the limit of 67108864");

pub(crate) const ATTACKS: [Attack; 63] = [
    attack("event-flood", Allowed),
    attack("event-texts", Allowed),
    with(CREATE, attack("foreign-namespace", Fault("grant", "create"))),
    with(CREATE_OWN, attack("foreign-owner", Fault("grant", "create"))),
    with(OWN_STATUS, attack("foreign-status", Fault("grant", "patch"))),
    attack("giant-list", TOO_LARGE),
    attack("giant-string", TOO_LARGE),
    with(POOLED, attack("handle-flood", Allowed)),
    attack("host-call-flood", Fault("host_call", "more calls of the lister than the limit allows")),
    attack("huge-argument", Fault("host_call", "the arguments of a host call are too large to be copied")),
    making(many_indexes, attack("index-of-large-values", DEADLINE)),
    with(POOLED, attack("kept-lister", Fault("trap", "the lister of a finished run was used"))),
    attack("log-flood", Allowed),
    attack("long-argument", Fault("host_call", "the arguments of a call of the lister have 2097152 bytes")),
    endless("loop"),
    endless("loop-in-host-calls"),
    with(LARGE_MAPPING, attack("mapping-churn", Rests)),
    with(LARGE_MAPPING, attack("mapping-crowd", MappingFault("output", "the plugin has invented too many keys"))),
    with(
        LARGE_MAPPING,
        attack("mapping-flood", MappingFault("output", "the mapping has 10001 keys for one change, more than 10000")),
    ),
    with(LARGE_MAPPING, attack("mapping-giant-list", MappingFault("output", "the outcome is too large to be copied"))),
    with(LARGE_MAPPING, attack("mapping-long-names", Rests)),
    with(MAPPING, attack("mapping-loop", MappingFault("deadline", "the deadline of 300 ms has passed"))),
    with(MAPPING, attack("mapping-reads", MappingFault("deadline", "the deadline of 300 ms has passed"))),
    with(LARGE_MAPPING, attack("mapping-trap", MappingFault("trap", "unreachable"))),
    with(LARGE_MAPPING, attack("mapping-undeclared-queue", MappingFault("output", r#"queue "other" is not declared"#))),
    attack("member-crowd", Fault("output", "there are more than 10000 members")),
    endless("memory-copy"),
    attack("memory-growth", TOO_MUCH_MEMORY),
    with(LABELS, attack("metric-labels", Allowed)),
    with(
        CREATE,
        attack("mutation-flood", Fault("output", "the outcome has 1001 mutations, more than the limit of 1000")),
    ),
    with(READ_API, attack("need-that-streams", Denied("/api/v1/configmaps?watch=true"))),
    with(LARGE_NEEDS, attack("needs-crowd", Fault("host_call", "the runs of the plugin hold 268435456 bytes already"))),
    attack("needs-denied", Denied("get /secret/")),
    attack("needs-flood", Fault("output", "the outcome has 257 needs, more than 256")),
    with(READ_VERSION, attack("needs-without-end", Fault("output", "the run still had needs after 8 rounds"))),
    attack("operation-crowd", Fault("output", "there are more than 10000 elements")),
    with(ADOPT, attack("orphan-adoption", Fault("grant", r#"it changes "data""#))),
    with(WRITE_OWN, attack("orphan-deletion", Fault("grant", "without a controller"))),
    with(WRITE_OWN, attack("orphan-rewrite", Fault("grant", "without a controller"))),
    with(DELETE, attack("path-name", Failed("no object can have the name"))),
    with(READ_BELOW_VERSION, attack("path-need", Denied("/version/../api/v1/secrets"))),
    with(READ_VERSION, attack("reads-that-wait", Allowed)),
    attack("recursion", Fault("memory", "call stack exhausted")),
    attack("requeue-storm", Allowed),
    making(many_comparisons, attack("rules-that-compare", Allowed)),
    making(fan_out, attack("rules-that-fan-out", Allowed)),
    attack("secret-need", Denied("get v1/Secret")),
    attack("selector-of-many-requirements", Fault("output", "it has 65 requirements, at most 64")),
    attack("selector-of-many-values", Fault("output", "it has 524298 bytes, at most 16384")),
    attack("state-flood", Fault("output", "the keyed state would have")),
    attack("trap", Fault("trap", "unreachable")),
    attack("undeclared-kind", Fault("grant", "kind v1/Secret is not watched by this plugin")),
    attack("text-bad-discriminant", Fault("output", "discriminant")),
    attack("text-bad-pointer", OUT_OF_BOUNDS),
    attack("text-bad-realloc", Fault("output", "realloc")),
    attack("text-bad-result", OUT_OF_BOUNDS),
    attack("text-bad-utf8", Fault("output", "utf-8")),
    attack("text-memory-at-once", TOO_MUCH_MEMORY),
    endless("text-realloc-loop"),
    attack("text-realloc-over-itself", Allowed),
    endless("text-start-loop"),
    attack("text-start-trap", Fault("trap", "unreachable")),
    attack("text-table-growth", Fault("memory", "elements are more than the limit of 50000")),
];

/// As many rules as a watch may have, which compare as many fields as they may, with paths as long as they may be.
fn many_comparisons() -> Value {
    let path = |i: usize| (0..29).map(|level| format!(".f{i}l{level}")).collect::<String>();
    let rule = |i: usize| {
        let changed: Vec<String> =
            (0..4).map(|j| format!("metadata.managedFields.fieldsV1{}", path(4 * i + j))).collect();
        json!({"to": "namespaceKeys", "kind": "v1/ConfigMap", "delayMs": i + 1, "changed": changed})
    };
    let rules = (0..63).map(rule).chain([json!({"to": "self", "changed": ["data.n", "data.echo"]})]);
    let watch = json!({"kind": "v1/ConfigMap", "fields": ["data"], "enqueue": rules.collect::<Value>()});
    json!({"watches": [watch]})
}

/// Rules by which one change leads to every object of its namespace, in as many queues as a plugin may have.
fn fan_out() -> Value {
    let name = |i: usize| if i == 0 { "rules-that-fan-out".to_owned() } else { format!("fan-{i}") };
    let queues: Value = (0..16).map(|i| json!({"name": name(i), "concurrency": 4})).collect();
    let rule = |i: usize| json!({"to": "namespaceKeys", "kind": "v1/ConfigMap", "queue": name(i % 16), "delayMs": i});
    let rules: Value = (0..64).map(rule).collect();
    json!({"queues": queues, "watches": [{"kind": "v1/ConfigMap", "enqueue": rules}]})
}

/// As many indexes as a watch may have.
fn many_indexes() -> Value {
    let index = |i: usize| json!({"name": format!("i{i}"), "field": format!("metadata.annotations.large{i}")});
    let indexes: Value = (0..256).map(index).collect();
    json!({
        "limits": {"deadlineMs": 300, "hostCalls": 1_000_000_000},
        "watches": [{"kind": "v1/ConfigMap", "namespace": "hostile", "indexes": indexes, "enqueue": [{"to": "self"}]}],
    })
}

impl Attack {
    /// The component: the guest, or its core module from `text`, under a manifest that selects the attack.
    pub(crate) fn component(&self) -> Result<Vec<u8>> {
        let guest = components::guest("hostile")?;
        let more: Map<String, Value> = match self.manifest {
            Members::Text(text) => serde_json::from_str(text)?,
            Members::Made(make) => serde_json::from_value(make())?,
        };
        let change = |manifest: &mut Value| {
            for (name, value) in more {
                manifest[&name] = value;
            }
            manifest["name"] = self.name.into();
            manifest["queues"][0]["name"] = self.name.into();
            manifest["config"]["attack"]["default"] = self.name.into();
        };
        let Some(text) = self.name.strip_prefix("text-") else { return components::with_manifest(&guest, change) };
        let mut manifest = components::manifest_of(&guest)?;
        change(&mut manifest);
        let file = sources().join("text").join(text).with_extension("wat");
        let text = std::fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
        components::of_text(&text, &manifest)
    }
}

fn sources() -> PathBuf {
    workspace_dir().join("tests/guests/hostile")
}

/// The names of all attacks that have a source.
pub(crate) fn with_source() -> Result<BTreeSet<String>> {
    let code = std::fs::read_to_string(sources().join("src/lib.rs"))?;
    let (_, code) = code.split_once("Ok(match attack").context("the guest does not match the attack")?;
    let arms = code.lines().take_while(|line| !line.contains("other => panic!"));
    let mut names: BTreeSet<String> =
        arms.filter_map(|line| Some(line.trim().strip_prefix('"')?.split_once("\" =>")?.0.to_owned())).collect();
    for entry in std::fs::read_dir(sources().join("text"))? {
        let path = entry?.path();
        names.insert(format!("text-{}", path.file_stem().unwrap_or_default().to_string_lossy()));
    }
    Ok(names)
}
