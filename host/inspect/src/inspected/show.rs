//! Renders a component for humans. Writing to a String does not fail, so results are dropped here.

use std::fmt::Write as _;

use pintle_core::contract::manifest::{BuiltIn, EmptySelector, Enqueue, Manifest, To, Watch};
use pintle_core::text::{Printable, bytes, table};
use pintle_wasm::Producer;
use serde_json::Value;

use super::{Inspected, access, gives};
use crate::outside::{self, Request};

pub(super) fn text(inspected: &Inspected<'_>) -> String {
    let found = inspected.found;
    let manifest = &found.manifest;
    let mut text = format!("{} {}\n", manifest.name, manifest.version);
    if !manifest.description.is_empty() {
        // One paragraph, so that no line of it looks like one of those below.
        let words = manifest.description.split_whitespace().collect::<Vec<_>>().join(" ");
        let _ = writeln!(text, "{}", Printable(&words));
    }
    text.push('\n');
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<11}{}", Printable(value));
    };
    line("file", inspected.file);
    line("size", &bytes(found.size_bytes as u64));
    line("digest", &format!("sha256:{}", found.digest));
    line("signed", &signed(inspected));
    line("language", &producers(&found.producers.languages));
    line("made with", &producers(&found.producers.tools));
    line("contract", &manifest.contract);
    line("instances", &format!("{:?}", manifest.instances).to_lowercase());
    line("world", world(found.maps()));
    for import in &found.imports {
        let gives = gives(import).map(|gives| format!(" // {gives}")).unwrap_or_default();
        let _ = writeln!(text, "  import {import};{gives}");
    }
    for export in &found.exports {
        // A name with a package is an interface; a name without one is a function.
        let function = if export.contains(':') { "" } else { ": func" };
        let _ = writeln!(text, "  export {export}{function};");
    }
    text += "sandbox    no network, no files and no processes, whatever it imports\n";
    describe(&mut text, manifest);
    text
}

fn world(maps: bool) -> &'static str {
    if maps { "mapping-controller" } else { "controller" }
}

fn signed(inspected: &Inspected<'_>) -> String {
    match (inspected.n_signatures, inspected.is_verified) {
        (0, _) => "no".to_owned(),
        (n, true) => format!("yes, by a key of --verify-key (signatures: {n})"),
        (n, false) => format!("yes, not checked: --verify-key names whose keys count (signatures: {n})"),
    }
}

fn producers(all: &[Producer]) -> String {
    if all.is_empty() {
        return "it does not say".to_owned();
    }
    let shown = all.iter().map(|producer| format!("{} {}", producer.name, producer.version).trim_end().to_owned());
    shown.collect::<Vec<_>>().join(", ")
}

fn describe(text: &mut String, manifest: &Manifest) {
    let mut rows = vec![["KIND", "READS", "WRITES"].map(str::to_owned).to_vec()];
    for access in access::of(manifest) {
        let n_lines = access.reads.len().max(access.writes.len());
        let cell = |lines: &[String], i: usize| lines.get(i).cloned().unwrap_or_default();
        rows.extend((0..n_lines).map(|i| {
            let target = if i == 0 { access.target.clone() } else { String::new() };
            vec![target, cell(&access.reads, i), cell(&access.writes, i)]
        }));
    }
    let _ = writeln!(text, "\n{}", table(&rows));
    let _ = writeln!(text, "\nqueues");
    for queue in &manifest.queues {
        let by = queue.concurrency.setting().map_or_else(String::new, |name| format!(" (setting {name})"));
        let label = queue.metric.as_ref().map(|label| format!(", metrics as {label}")).unwrap_or_default();
        let about = format!("{by}{label}");
        let _ = writeln!(text, "  {}, {} at once{}", Printable(&queue.name), queue.n_workers(), Printable(&about));
    }
    let rules: Vec<String> = manifest.watches.iter().flat_map(rules).collect();
    if !rules.is_empty() {
        let _ = writeln!(text, "\nrules");
        for rule in &rules {
            let _ = writeln!(text, "  {}", Printable(rule));
        }
    }
    let per_key = manifest.metrics.iter().filter(|metric| metric.per.is_some());
    let per_key: Vec<&str> = per_key.map(|metric| metric.name.as_str()).collect();
    let n_series = manifest.limits.series;
    if !per_key.is_empty() || n_series.is_some() {
        let _ = writeln!(text, "\nmetrics");
        for name in per_key {
            let _ = writeln!(text, "  {}, a value for each key", Printable(name));
        }
        if let Some(n_series) = n_series {
            let _ = writeln!(text, "  at most {n_series} combinations of labels each");
        }
    }
    let requests = outside::requests(manifest);
    if !requests.is_empty() {
        let _ = writeln!(text, "\noutside of the cluster, denied unless the operator binds it");
        for Request { what, description, flag } in requests {
            let described = if description.is_empty() { what } else { format!("{what} ({description})") };
            let _ = writeln!(text, "  {}\n    pintle run {}", Printable(&described), Printable(&flag));
        }
    }
    let settings = || manifest.config.iter().filter(|(_, setting)| !setting.kind.is_secret());
    if settings().next().is_some() {
        let _ = writeln!(text, "\nsettings");
        for (name, setting) in settings() {
            let default = match &setting.default {
                Some(Value::String(text)) => format!("default {text:?}"),
                Some(value) => format!("default {value}"),
                None if setting.optional => "optional".to_owned(),
                None => "required".to_owned(),
            };
            let kind = serde_json::to_value(setting.kind).unwrap_or_default();
            let kind = kind.as_str().unwrap_or_default().to_owned();
            let sets = manifest.driven_by(name);
            let sets = if sets.is_empty() { String::new() } else { format!(", sets {}", sets.join(", ")) };
            let description = &setting.description;
            let about = if description.is_empty() { String::new() } else { format!(": {}", Printable(description)) };
            let _ = writeln!(text, "  {}, {kind}, {}{sets}{about}", Printable(name), Printable(&default));
        }
    }
    let conditions = manifest.built_in.as_ref().map(BuiltIn::start_conditions).unwrap_or_default();
    if !conditions.is_empty() {
        let _ = writeln!(text, "\nas a built-in controller");
        for condition in conditions {
            let _ = writeln!(text, "  {}", Printable(&condition));
        }
    }
}

/// Rules and selectors of a watch that need an explanation.
fn rules(watch: &Watch) -> impl Iterator<Item = String> {
    let of = watch.kind.as_ref().map_or_else(|| "every kind".to_owned(), ToString::to_string);
    let selects = watch.selects.as_ref().filter(|selects| selects.empty == EmptySelector::Everything);
    let empty = selects.map(|_| format!("{of}: an empty selector selects everything in the namespace"));
    let rule = move |rule: &Enqueue| {
        let kind = rule.kind.as_ref().map(ToString::to_string).unwrap_or_default();
        let index = rule.index.as_deref().unwrap_or_default();
        let field = rule.field.as_deref();
        let keys = match (rule.to, &rule.namespace_field) {
            (To::Indexed, _) => format!("{kind} whose index {index} has {}", field.unwrap_or("its name")),
            (To::Field, Some(namespace)) => format!("{kind} named by {} and {namespace}", field.unwrap_or_default()),
            (To::Tick, _) => "the tick key".to_owned(),
            _ => return None,
        };
        let queue = rule.queue.as_ref().map(|queue| format!(", queue {queue}")).unwrap_or_default();
        Some(format!("{of} -> {keys}{queue}"))
    };
    empty.into_iter().chain(watch.enqueue.iter().filter_map(rule))
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use expect_test::expect;
    use pintle_wasm::{Inspection, Producers};
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn rules_by_index_and_field_queues_and_metrics_are_shown() {
        let manifest = json!({
            "name": "p", "version": "1", "contract": "0.2", "queues": [{"name": "q", "metric": "pods"}, {"name": "sweep"}],
            "watches": [
                {"kind": "v1/Pod", "fields": ["spec.nodeName"], "indexes": [{"name": "node", "field": "spec.nodeName"}],
                    "enqueue": [{"to": "self"}, {"to": "tick", "queue": "sweep"}]},
                {"kind": "v1/Node", "enqueue": [{"to": "indexed", "kind": "v1/Pod", "index": "node"},
                    {"to": "indexed", "kind": "v1/Pod", "index": "node", "field": "spec.providerID"}]},
                {"kind": "v1/PersistentVolume", "enqueue": [{"to": "field", "kind": "v1/PersistentVolumeClaim",
                    "field": "spec.claimRef.name", "namespaceField": "spec.claimRef.namespace"}]},
                {"kind": "policy/v1/PodDisruptionBudget",
                    "selects": {"field": "spec.selector", "form": "labelSelector", "empty": "everything"}},
            ],
            "metrics": [{"name": "p_pods", "help": "Pods.", "type": "gauge", "per": "key"}],
            "limits": {"series": 5000},
        });
        let mut text = String::new();
        describe(&mut text, &Manifest::parse(manifest.to_string().as_bytes()).unwrap());
        let from_queues = text.split_once("queues\n").unwrap().1;
        expect![[r#"
              q, 5 at once, metrics as pods
              sweep, 5 at once

            rules
              v1/Pod -> the tick key, queue sweep
              v1/Node -> v1/Pod whose index node has its name
              v1/Node -> v1/Pod whose index node has spec.providerID
              v1/PersistentVolume -> v1/PersistentVolumeClaim named by spec.claimRef.name and spec.claimRef.namespace
              policy/v1/PodDisruptionBudget: an empty selector selects everything in the namespace

            metrics
              p_pods, a value for each key
              at most 5000 combinations of labels each
        "#]]
        .assert_eq(from_queues);
    }

    pub(crate) fn found(manifest: &Value, imports: &[&str]) -> Inspection {
        Inspection {
            manifest: Arc::new(Manifest::parse(manifest.to_string().as_bytes()).unwrap()),
            manifest_json: String::new(),
            imports: imports.iter().map(|&import| import.to_owned()).collect(),
            exports: Vec::new(),
            contract: String::new(),
            size_bytes: 1,
            memory_bytes: 0,
            digest: "abc".to_owned(),
            producers: Producers::default(),
        }
    }

    #[test]
    fn settings_show_their_type_their_default_and_what_they_set() {
        let manifest = json!({
            "name": "p", "version": "1", "contract": "0.2", "watches": [],
            "queues": [{"name": "q", "concurrency": {"config": "syncs"}, "tickMs": {"config": "period"}}, {"name": "r"}],
            "config": {
                "syncs": {"type": "integer", "default": 3, "description": "At once."},
                "period": {"type": "duration", "default": "15s", "description": "How often."},
                "ca": {"type": "string", "optional": true}, "name": {"type": "string"},
            },
            "builtIn": {"onByDefault": false, "requires": ["ca"], "requiresAny": ["ca", "name"]},
        });
        let found = found(&manifest, &[]);
        let text = text(&Inspected { file: "a", found: &found, n_signatures: 0, is_verified: false });
        let (_, shown) = text.split_once("\nqueues\n").unwrap();
        expect_test::expect![[r#"
              q, 3 at once (setting syncs)
              r, 5 at once

            settings
              ca, string, optional
              name, string, required
              period, duration, default "15s", sets queues[0].tickMs: How often.
              syncs, integer, default 3, sets queues[0].concurrency: At once.

            as a built-in controller
              off by default: --controllers has to name it
              needs setting ca
              needs one of the settings ca, name
        "#]]
        .assert_eq(shown);
    }

    #[test]
    fn imports_of_wasi_show_what_they_give() {
        let manifest =
            json!({"name": "p", "version": "1", "contract": "0.2", "watches": [], "queues": [{"name": "q"}]});
        let found = found(&manifest, &["pintle:controller/log@0.2.0", "wasi:cli/exit@0.2.6"]);
        let inspected = Inspected { file: "a", found: &found, n_signatures: 0, is_verified: false };
        let text = text(&inspected);
        assert!(text.contains("\n  import pintle:controller/log@0.2.0;\n"), "{text}");
        assert!(text.contains("\n  import wasi:cli/exit@0.2.6; // a call is a fault\n"), "{text}");
        assert!(text.contains("\nsandbox    no network, no files and no processes, whatever it imports\n"), "{text}");
        let json = inspected.json();
        let listed: Vec<&str> =
            json["acceptedImports"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
        // Adding an interface to this list opens the sandbox for it.
        expect_test::expect![[r#"
            wasi:cli/environment
            wasi:cli/exit
            wasi:cli/stderr
            wasi:cli/stdin
            wasi:cli/stdout
            wasi:cli/terminal-input
            wasi:cli/terminal-output
            wasi:cli/terminal-stderr
            wasi:cli/terminal-stdin
            wasi:cli/terminal-stdout
            wasi:clocks/monotonic-clock
            wasi:clocks/wall-clock
            wasi:filesystem/preopens
            wasi:filesystem/types
            wasi:http/outgoing-handler
            wasi:http/types
            wasi:io/error
            wasi:io/poll
            wasi:io/streams
            wasi:random/insecure
            wasi:random/insecure-seed
            wasi:random/random
            wasi:sockets/instance-network
            wasi:sockets/ip-name-lookup
            wasi:sockets/network
            wasi:sockets/tcp
            wasi:sockets/tcp-create-socket
            wasi:sockets/udp
            wasi:sockets/udp-create-socket"#]]
        .assert_eq(&listed.join("\n"));
    }

    #[test]
    fn keys_authorities_and_endpoints_show_how_they_are_bound() {
        let manifest = json!({
            "name": "errand", "version": "1", "contract": "0.2", "watches": [], "queues": [{"name": "q"}],
            "config": {"key": {"type": "key", "description": "Signs."}, "ca": {"type": "authority"}},
            "endpoints": {"desk": {"description": "Knows.", "operations": ["look-up", "hide"]}},
        });
        let found = found(&manifest, &[]);
        let text = text(&Inspected { file: "a", found: &found, n_signatures: 0, is_verified: false });
        expect_test::expect![[r#"
            outside of the cluster, denied unless the operator binds it
              authority ca: signs certificates
                pintle run --set 'errand.ca={"certificate": "/path/of/ca.crt", "key": "/path/of/ca.key"}'
              key key: signs tokens (Signs.)
                pintle run --set 'errand.key={"file": "/path/of/key.pem"}'
              endpoint desk: calls look-up, hide (Knows.)
                pintle run --endpoint 'errand.desk=https://HOST/PATH'
        "#]]
        .assert_eq(text.split_once("at once\n\n").unwrap().1);
    }

    #[test]
    fn no_word_of_a_manifest_looks_like_a_line_of_the_answer() {
        let hostile = "useful\n\nsigned     yes\u{1b}[2J\u{202e}";
        let manifest = json!({
            "name": "p", "version": "1", "contract": "0.2", "description": hostile, "watches": [],
            "queues": [{"name": "q\nsigned     yes"}],
            "config": {"s": {"type": "string", "default": hostile, "description": hostile}},
        });
        let found = found(&manifest, &[]);
        let text = text(&Inspected { file: "a\nsigned     yes", found: &found, n_signatures: 0, is_verified: false });
        let signed: Vec<&str> = text.lines().filter(|line| line.starts_with("signed")).collect();
        assert_eq!(signed, ["signed     no"], "{text}");
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()) && !text.contains('\u{202e}'), "{text:?}");
        assert!(text.contains(r"useful signed yes\u{1b}[2J\u{202e}"), "{text}");
    }
}
