//! Bounds of a manifest's requests: each watch costs the API server and the cache, each queue and metric the host, and
//! periods and delays determine how often keys run.
//!
//! The built-in plugins need a fraction of each bound.

use super::{Backoff, Endpoint, Grant, Manifest, Metric, Number, Queue, Watch, is_label};

/// Maximum items of a list without its own bound.
const MAX_ITEMS: usize = 256;
const MAX_QUEUES: usize = 16;
const MAX_ENDPOINTS: usize = 16;
/// Maximum rules of a watch. Each is evaluated for every change.
const MAX_RULES: usize = 64;
/// Maximum fields that the rules of a watch compare, in total.
const MAX_CHANGED: usize = 256;
/// Maximum change types of a rule: there are three.
const MAX_CHANGES: usize = 3;
/// Maximum combinations of the values of grants, in total: that many parts may be missing if others are given.
const MAX_COMBINATIONS: usize = 4_096;
/// Maximum concurrent runs of a queue.
pub(super) const MAX_CONCURRENCY: u32 = 1_000;
/// Longest name that becomes a metric label or an event source, in bytes.
const MAX_NAME_BYTES: usize = 128;
/// Maximum labels and buckets of a metric.
const MAX_LABELS: usize = 16;
const MAX_BUCKETS: usize = 64;
/// Longest description of a metric, in bytes.
const MAX_HELP_BYTES: usize = 1024;
/// Minimum period of a resync, which enqueues all keys.
pub(super) const MIN_RESYNC_MS: u32 = 1_000;
pub(super) const MIN_TICK_MS: u32 = 10;
/// Minimum delay after a failure: client-go's first delay.
pub(super) const MIN_BACKOFF_MS: u32 = 5;
const MAX_QPS: f32 = 10_000.0;

/// # Errors
/// The field that exceeds its bound, and the bound.
pub(super) fn check(manifest: &Manifest) -> Result<(), String> {
    name("version", &manifest.version)?;
    if !manifest.version.bytes().all(|b| b.is_ascii_alphanumeric() || b"._+-".contains(&b)) {
        return Err(format!("version: {:?} is not a version; letters, digits and ._+- are valid", manifest.version));
    }
    if let Some(source) = &manifest.event_source {
        name("eventSource", source)?;
    }
    items("aliases", manifest.aliases.len(), MAX_ITEMS)?;
    items("watches", manifest.watches.len(), MAX_ITEMS)?;
    items("queues", manifest.queues.len(), MAX_QUEUES)?;
    items("grants", manifest.grants.len(), MAX_ITEMS)?;
    let combinations = manifest.grants.iter().map(Grant::n_combinations).fold(0, usize::saturating_add);
    items(
        "grants: combinations of verbs, kinds, subresources, namespaces, names, paths and signers",
        combinations,
        MAX_COMBINATIONS,
    )?;
    items("config", manifest.config.len(), MAX_ITEMS)?;
    items("metrics", manifest.metrics.len(), MAX_ITEMS)?;
    items("endpoints", manifest.endpoints.len(), MAX_ENDPOINTS)?;
    for (endpoint, Endpoint { operations, .. }) in &manifest.endpoints {
        if !is_label(endpoint) {
            return Err(format!("endpoints: {endpoint:?} must be lower-case letters, digits and '-', at most 63"));
        }
        items(&format!("endpoints.{endpoint}.operations"), operations.len(), MAX_ITEMS)?;
        // An operation is the last segment of a URL path.
        let is_operation = |name: &str| {
            (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        };
        if let Some(wrong) = operations.iter().find(|name| !is_operation(name)) {
            return Err(format!(
                "endpoints.{endpoint}.operations: {wrong:?} must be letters, digits and '-', at most {MAX_NAME_BYTES}"
            ));
        }
    }
    for (i, watch) in manifest.watches.iter().enumerate() {
        check_watch(watch).map_err(|why| format!("watches[{i}].{why}"))?;
    }
    for (i, queue) in manifest.queues.iter().enumerate() {
        check_queue(queue).map_err(|why| format!("queues[{i}].{why}"))?;
    }
    for (i, metric) in manifest.metrics.iter().enumerate() {
        check_metric(metric).map_err(|why| format!("metrics[{i}].{why}"))?;
    }
    Ok(())
}

fn items(of: &str, found: usize, most: usize) -> Result<(), String> {
    if found > most { Err(format!("{of}: {found} are too many, at most {most}")) } else { Ok(()) }
}

fn name(of: &str, name: &str) -> Result<(), String> {
    match name.len() {
        1..=MAX_NAME_BYTES => Ok(()),
        n => Err(format!("{of}: has {n} bytes; 1 to {MAX_NAME_BYTES} are valid")),
    }
}

/// For a number from a setting, the setting has already been checked.
fn at_least(of: &str, found: Option<&Number>, least: u32) -> Result<(), String> {
    match found.and_then(Number::get) {
        Some(found) if found < least => Err(format!("{of}: {found} is too little, at least {least}")),
        _ => Ok(()),
    }
}

fn check_watch(watch: &Watch) -> Result<(), String> {
    items("fields", watch.fields.len(), MAX_ITEMS)?;
    items("indexes", watch.indexes.len(), MAX_ITEMS)?;
    items("enqueue", watch.enqueue.len(), MAX_RULES)?;
    for (i, rule) in watch.enqueue.iter().enumerate() {
        items("via", rule.via.len(), MAX_ITEMS).map_err(|why| format!("enqueue[{i}].{why}"))?;
        items("on", rule.on.len(), MAX_CHANGES).map_err(|why| format!("enqueue[{i}].{why}"))?;
    }
    if let Some(every) = &watch.every {
        items("every.verbs", every.verbs.len(), MAX_ITEMS)?;
        items("every.except", every.except.len(), MAX_ITEMS)?;
    }
    items("enqueue[*].changed", watch.enqueue.iter().map(|rule| rule.changed.len()).sum(), MAX_CHANGED)
}

fn check_metric(metric: &Metric) -> Result<(), String> {
    name("name", &metric.name)?;
    items("labels", metric.labels.len(), MAX_LABELS)?;
    for (i, label) in metric.labels.iter().enumerate() {
        name(&format!("labels[{i}]"), label)?;
    }
    items("buckets", metric.buckets.len(), MAX_BUCKETS)?;
    if metric.help.len() > MAX_HELP_BYTES {
        return Err(format!("help: has {} bytes; at most {MAX_HELP_BYTES} are valid", metric.help.len()));
    }
    // A line break would start another line in `/metrics`.
    match metric.help.contains(char::is_control) {
        true => Err("help: has a line break or another control character; write one line".into()),
        false => Ok(()),
    }
}

fn check_queue(queue: &Queue) -> Result<(), String> {
    name("name", &queue.name)?;
    name("metric", queue.metric())?;
    if let Some(found) = queue.concurrency.get().filter(|found| *found > MAX_CONCURRENCY) {
        return Err(format!("concurrency: {found} is too much, at most {MAX_CONCURRENCY}"));
    }
    at_least("resyncMs", queue.resync_ms.as_ref(), MIN_RESYNC_MS)?;
    at_least("tickMs", queue.tick_ms.as_ref(), MIN_TICK_MS)?;
    let Backoff { base_ms, max_ms, fixed_ms, qps, burst } = &queue.backoff;
    at_least("backoff.baseMs", Some(base_ms), MIN_BACKOFF_MS)?;
    at_least("backoff.maxMs", Some(max_ms), MIN_BACKOFF_MS)?;
    at_least("backoff.fixedMs", fixed_ms.as_ref(), MIN_BACKOFF_MS)?;
    at_least("backoff.burst", Some(&Number::from(*burst)), 1)?;
    if !(*qps > 0.0 && *qps <= MAX_QPS) {
        return Err(format!("backoff.qps: {qps} is not more than 0 and at most {MAX_QPS}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::{Value, json};

    use super::*;

    fn check(change: impl FnOnce(&mut Value), expect: Expect) {
        let mut manifest = json!({
            "name": "widgets", "version": "1.0.0", "contract": "0.2",
            "watches": [{"kind": "example.com/v1/Widget", "enqueue": [{"to": "self"}]}],
            "queues": [{"name": "widgets"}],
        });
        change(&mut manifest);
        let manifest: Manifest = serde_json::from_value(manifest).unwrap();
        expect.assert_eq(&super::check(&manifest).err().unwrap_or_else(|| "ok".into()));
    }

    fn many(n: usize, item: impl Fn(usize) -> Value) -> Value {
        (0..n).map(item).collect()
    }

    #[test]
    fn lists_are_bounded() {
        check(|_| {}, expect!["ok"]);
        let watches = |n| many(n, |i| json!({"kind": format!("example.com/v1/W{i}")}));
        check(|m| m["watches"] = watches(256), expect!["ok"]);
        check(|m| m["watches"] = watches(257), expect!["watches: 257 are too many, at most 256"]);
        let queues = |n| many(n, |i| json!({"name": format!("q{i}")}));
        check(|m| m["queues"] = queues(16), expect!["ok"]);
        check(|m| m["queues"] = queues(17), expect!["queues: 17 are too many, at most 16"]);
        let rules = |n| many(n, |_| json!({"to": "self"}));
        check(|m| m["watches"][0]["enqueue"] = rules(65), expect!["watches[0].enqueue: 65 are too many, at most 64"]);
        check(|m| m["watches"][0]["enqueue"] = rules(64), expect!["ok"]);
        let comparing = |n: usize| {
            let rule = |n: usize| json!({"to": "self", "changed": many(n, |i| json!(format!("spec.f{i}")))});
            json!([rule(n / 2), rule(n - n / 2)])
        };
        check(|m| m["watches"][0]["enqueue"] = comparing(256), expect!["ok"]);
        check(
            |m| m["watches"][0]["enqueue"] = comparing(257),
            expect!["watches[0].enqueue[*].changed: 257 are too many, at most 256"],
        );
        let labels =
            |n| json!([{"name": "x", "help": "", "type": "gauge", "labels": many(n, |i| json!(i.to_string()))}]);
        check(|m| m["metrics"] = labels(16), expect!["ok"]);
        check(|m| m["metrics"] = labels(17), expect!["metrics[0].labels: 17 are too many, at most 16"]);
    }

    #[test]
    fn grants_are_bounded_in_what_their_lists_combine_to() {
        let grant = |lists: [usize; 3]| {
            let values = |list: usize| many(lists[list], |i| json!(format!("n{i}")));
            json!({"verbs": ["get"], "kinds": ["v1/Pod"], "subresources": values(0), "namespaces": values(1), "names": values(2)})
        };
        let combinations = "grants: combinations of verbs, kinds, subresources, namespaces, names, paths and signers";
        let too_many = |n: usize| format!("{combinations}: {n} are too many, at most 4096");
        let of = |grants: Value| {
            let mut manifest =
                json!({"name": "w", "version": "1", "contract": "0.2", "watches": [], "queues": [{"name": "q"}]});
            manifest["grants"] = grants;
            super::check(&serde_json::from_value(manifest).unwrap())
        };
        assert_eq!(of(json!([grant([16, 16, 16])])), Ok(()));
        assert_eq!(of(json!([grant([16, 16, 17])])), Err(too_many(4352)));
        assert_eq!(of(json!([grant([60, 60, 60])])), Err(too_many(216_000)));
        // The product saturates instead of overflowing.
        let wide = json!({"verbs": ["*"], "kinds": many(1 << 14, |_| json!("v1/Pod")), "paths": many(1 << 14, |_| json!("/x")),
            "namespaces": many(1 << 14, |_| json!("x")), "names": many(1 << 14, |_| json!("x")), "subresources": many(1 << 14, |_| json!("x"))});
        assert_eq!(of(json!([wide])), Err(too_many(usize::MAX)));
        // All grants in total.
        assert_eq!(of(json!([grant([0, 64, 32]), grant([0, 64, 32])])), Ok(()));
        assert_eq!(of(json!([grant([0, 64, 32]), grant([0, 64, 32]), grant([0, 0, 0])])), Err(too_many(4097)));
        let all = |n: usize| many(n, |_| json!({"verbs": ["*"], "kinds": many(8, |_| json!("v1/Pod"))}));
        assert_eq!((of(all(64)), of(all(65))), (Ok(()), Err(too_many(4160))));
    }

    #[test]
    fn what_watches_list_besides_is_bounded() {
        let every = |field: &str, n: usize| {
            let value =
                many(n, |i| if field == "except" { json!(format!("example.com/v1/W{i}")) } else { json!("get") });
            json!([{"every": {field: value}}])
        };
        check(|m| m["watches"] = every("except", 256), expect!["ok"]);
        check(
            |m| m["watches"] = every("except", 257),
            expect!["watches[0].every.except: 257 are too many, at most 256"],
        );
        check(|m| m["watches"] = every("verbs", 257), expect!["watches[0].every.verbs: 257 are too many, at most 256"]);
        let on = |n| many(n, |_| json!("add"));
        check(|m| m["watches"][0]["enqueue"][0]["on"] = on(3), expect!["ok"]);
        check(
            |m| m["watches"][0]["enqueue"][0]["on"] = on(4),
            expect!["watches[0].enqueue[0].on: 4 are too many, at most 3"],
        );
    }

    #[test]
    fn endpoints_have_names_and_operations_that_are_parts_of_a_path() {
        let endpoint = |name: &str, operations: Value, expect: Expect| {
            check(|m| m["endpoints"] = json!({name: {"operations": operations}}), expect);
        };
        endpoint("desk", json!(["look-up", "LookUp2"]), expect!["ok"]);
        endpoint(
            "Desk",
            json!([]),
            expect![[r#"endpoints: "Desk" must be lower-case letters, digits and '-', at most 63"#]],
        );
        for wrong in ["", "..", "a/b", "a?b", "a b", &"x".repeat(129)] {
            let why = format!("endpoints.desk.operations: {wrong:?} must be letters, digits and '-', at most 128");
            let mut manifest =
                json!({"name": "w", "version": "1", "contract": "0.2", "watches": [], "queues": [{"name": "q"}]});
            manifest["endpoints"] = json!({"desk": {"operations": [wrong]}});
            let manifest: Manifest = serde_json::from_value(manifest).unwrap();
            assert_eq!(super::check(&manifest), Err(why));
        }
        let operations = |n| many(n, |i| json!(format!("o{i}")));
        endpoint("desk", operations(256), expect!["ok"]);
        endpoint("desk", operations(257), expect!["endpoints.desk.operations: 257 are too many, at most 256"]);
        let endpoints = |n: usize| (0..n).map(|i| (format!("e{i}"), json!({"operations": []}))).collect::<Value>();
        check(|m| m["endpoints"] = endpoints(16), expect!["ok"]);
        check(|m| m["endpoints"] = endpoints(17), expect!["endpoints: 17 are too many, at most 16"]);
    }

    #[test]
    fn the_texts_of_metrics_are_bounded() {
        let metric = |field: &str, value: Value, expect: Expect| {
            let mut metric = json!({"name": "x", "help": "", "type": "gauge"});
            metric[field] = value;
            check(|m| m["metrics"] = json!([metric]), expect);
        };
        metric("name", json!("x".repeat(128)), expect!["ok"]);
        metric("name", json!("x".repeat(129)), expect!["metrics[0].name: has 129 bytes; 1 to 128 are valid"]);
        metric("labels", json!(["x".repeat(128)]), expect!["ok"]);
        metric("labels", json!(["x".repeat(129)]), expect!["metrics[0].labels[0]: has 129 bytes; 1 to 128 are valid"]);
        metric("help", json!("x".repeat(1024)), expect!["ok"]);
        metric("help", json!("x".repeat(1025)), expect!["metrics[0].help: has 1025 bytes; at most 1024 are valid"]);
        let broken = json!("size\npintle_plugin_faults_total 0");
        let why = expect!["metrics[0].help: has a line break or another control character; write one line"];
        metric("help", broken, why);
    }

    #[test]
    fn names_are_bounded() {
        check(|m| m["queues"][0]["name"] = json!("x".repeat(128)), expect!["ok"]);
        check(
            |m| m["queues"][0]["name"] = json!("x".repeat(129)),
            expect!["queues[0].name: has 129 bytes; 1 to 128 are valid"],
        );
        check(
            |m| m["version"] = json!("1.0\u{1b}[2J"),
            expect![[r#"version: "1.0\u{1b}[2J" is not a version; letters, digits and ._+- are valid"#]],
        );
        check(|m| m["version"] = json!(""), expect!["version: has 0 bytes; 1 to 128 are valid"]);
    }

    #[test]
    fn keys_cannot_run_repeatedly_without_a_delay() {
        let queue = |field: &str, value: Value, expect: Expect| check(|m| m["queues"][0][field] = value, expect);
        queue("resyncMs", json!(1_000), expect!["ok"]);
        queue("resyncMs", json!(999), expect!["queues[0].resyncMs: 999 is too little, at least 1000"]);
        queue("tickMs", json!(9), expect!["queues[0].tickMs: 9 is too little, at least 10"]);
        queue("backoff", json!({"fixedMs": 0}), expect!["queues[0].backoff.fixedMs: 0 is too little, at least 5"]);
        queue("backoff", json!({"maxMs": 4}), expect!["queues[0].backoff.maxMs: 4 is too little, at least 5"]);
        queue("backoff", json!({"baseMs": 4}), expect!["queues[0].backoff.baseMs: 4 is too little, at least 5"]);
        queue("backoff", json!({"maxMs": 5}), expect!["ok"]);
        queue(
            "backoff",
            json!({"qps": -1.0}),
            expect!["queues[0].backoff.qps: -1 is not more than 0 and at most 10000"],
        );
        queue("concurrency", json!(1_000), expect!["ok"]);
        queue("concurrency", json!(1_001), expect!["queues[0].concurrency: 1001 is too much, at most 1000"]);
    }
}
