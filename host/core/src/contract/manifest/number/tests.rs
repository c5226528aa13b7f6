use std::sync::Arc;
use std::time::Duration;

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::contract::manifest::{Enqueue, Manifest, ManifestError, Number};
use crate::contract::settings;

/// A manifest with a setting of each kind, and this change.
fn parse(change: impl FnOnce(&mut Value)) -> Result<Manifest, String> {
    let mut manifest = json!({
        "name": "widgets", "version": "1", "contract": "0.2",
        "watches": [{"kind": "example.com/v1/Widget", "enqueue": [{"to": "self"}]}],
        "queues": [{"name": "q"}],
        "config": {
            "workers": {"type": "integer", "default": 7},
            "period": {"type": "duration", "default": "15s"},
            "millis": {"type": "integer", "default": 2_000},
            "maybe": {"type": "duration", "optional": true},
            "maybeCount": {"type": "integer", "optional": true},
            "on": {"type": "boolean", "default": true},
        },
    });
    change(&mut manifest);
    Manifest::parse(manifest.to_string().as_bytes()).map_err(|why| match why {
        ManifestError::Invalid(why) => why,
        ManifestError::Path(wrong) => wrong.to_string(),
        ManifestError::Parse(why) => format!("does not parse: {why}"),
    })
}

/// Puts a number into one of the places that may have a setting's.
fn put(manifest: &mut Value, place: &str, number: Value) {
    match place {
        "delayMs" => manifest["watches"][0]["enqueue"][0][place] = number,
        "baseMs" | "maxMs" | "fixedMs" => manifest["queues"][0]["backoff"][place] = number,
        _ => manifest["queues"][0][place] = number,
    }
}

fn driven(place: &str, setting: &str) -> Result<Manifest, String> {
    parse(|m| put(m, place, json!({ "config": setting })))
}

/// The number at a place, in the form in which the host uses it.
fn at(manifest: &Manifest, place: &str) -> String {
    let queue = &manifest.queues[0];
    match place {
        "concurrency" => format!("{:?}", Some(queue.n_workers())),
        "maxRetries" => format!("{:?}", queue.retries()),
        "tickMs" => format!("{:?}", queue.tick()),
        "resyncMs" => format!("{:?}", queue.resync()),
        "baseMs" => format!("{:?}", Some(queue.backoff.base())),
        "maxMs" => format!("{:?}", Some(queue.backoff.max())),
        "fixedMs" => format!("{:?}", queue.backoff.fixed()),
        "delayMs" => format!("{:?}", manifest.watches[0].enqueue.first().and_then(Enqueue::delay)),
        other => panic!("{other}"),
    }
}

/// Configures a manifest; returns its number at this place, or the error.
fn configured(place: &str, setting: &str, given: Value) -> String {
    let mut manifest = Arc::new(driven(place, setting).unwrap());
    match settings::configure(&mut manifest, &json!({ setting: given })) {
        Ok(_) => at(&manifest, place),
        Err(why) => why.to_string(),
    }
}

const COUNTS: [&str; 2] = ["concurrency", "maxRetries"];
const TIMES: [&str; 6] = ["tickMs", "resyncMs", "baseMs", "maxMs", "fixedMs", "delayMs"];

#[test]
fn every_number_can_be_given_by_a_setting_and_has_its_default_until_then() {
    for place in COUNTS {
        assert_eq!(at(&driven(place, "workers").unwrap(), place), "Some(7)", "{place}");
        assert_eq!(configured(place, "workers", json!(9)), "Some(9)", "{place}");
    }
    for place in TIMES {
        assert_eq!(at(&driven(place, "period").unwrap(), place), "Some(15s)", "{place}");
        assert_eq!(at(&driven(place, "millis").unwrap(), place), "Some(2s)", "{place}");
        assert_eq!(configured(place, "period", json!("1m30s")), "Some(90s)", "{place}");
        assert_eq!(configured(place, "millis", json!(1_500)), "Some(1.5s)", "{place}");
    }
}

#[test]
fn a_manifest_without_such_numbers_is_shared_when_it_is_configured() {
    let mut manifest = Arc::new(parse(|_| ()).unwrap());
    let same = manifest.clone();
    settings::configure(&mut manifest, &Value::Null).unwrap();
    assert!(Arc::ptr_eq(&manifest, &same));
}

#[test]
fn configuring_leaves_the_manifest_of_the_component_as_it_is() {
    let component = Arc::new(driven("tickMs", "period").unwrap());
    let mut manifest = component.clone();
    settings::configure(&mut manifest, &json!({"period": "1m"})).unwrap();
    assert_eq!(component.queues[0].tick(), Some(Duration::from_secs(15)));
    assert_eq!(manifest.queues[0].tick(), Some(Duration::from_secs(60)));
    assert_ne!(component, manifest, "subscriptions compare manifests");
}

#[test]
fn zero_turns_off_what_may_be_off() {
    for place in ["tickMs", "resyncMs", "delayMs"] {
        for zero in [json!("0s"), json!(0)] {
            assert_eq!(configured(place, "period", zero), "None", "{place}");
        }
        assert_eq!(configured(place, "millis", json!(0)), "None", "{place}");
    }
    // No retry at all.
    assert_eq!(configured("maxRetries", "workers", json!(0)), "Some(0)");
}

#[test]
fn an_optional_setting_without_a_value_leaves_the_number_out() {
    for place in ["tickMs", "resyncMs", "delayMs", "fixedMs"] {
        assert_eq!(at(&driven(place, "maybe").unwrap(), place), "None", "{place}");
        assert_eq!(configured(place, "maybe", json!("20s")), "Some(20s)", "{place}");
    }
    assert_eq!(at(&driven("maxRetries", "maybeCount").unwrap(), "maxRetries"), "None");
}

#[test]
fn the_bounds_of_constants_hold_for_settings() {
    for (place, setting, least, below) in [
        ("concurrency", "workers", json!(1), json!(0)),
        ("tickMs", "period", json!("10ms"), json!("9ms")),
        ("tickMs", "millis", json!(10), json!(9)),
        ("resyncMs", "period", json!("1s"), json!("999ms")),
        ("baseMs", "period", json!("5ms"), json!("4ms")),
        ("maxMs", "period", json!("5ms"), json!("4ms")),
        ("fixedMs", "period", json!("5ms"), json!("0s")),
        ("delayMs", "millis", json!(1), json!(-1)),
        ("maxRetries", "workers", json!(0), json!(-1)),
    ] {
        assert!(configured(place, setting, least).starts_with("Some"), "{place}");
        let why = configured(place, setting, below);
        assert!(
            why.starts_with(&format!("setting {setting:?}: it sets ")) && why.contains("at least")
                || why.contains("1 to 1000"),
            "{place}: {why}"
        );
        assert!(why.contains(place), "{place}: {why}");
    }
    for (place, setting, most, above) in [
        ("concurrency", "workers", json!(1_000), json!(1_001)),
        ("maxRetries", "workers", json!(u32::MAX), json!(1_u64 << 32)),
        ("tickMs", "millis", json!(u32::MAX), json!(1_u64 << 32)),
        ("resyncMs", "period", json!("1193h"), json!("1194h")),
        ("delayMs", "period", json!("1193h"), json!("1194h")),
    ] {
        assert!(configured(place, setting, most).starts_with("Some"), "{place}");
        let why = configured(place, setting, above);
        assert!(why.contains("at most 4294967295") || why.contains("1 to 1000"), "{place}: {why}");
    }
}

#[test]
fn an_error_names_the_setting_the_number_and_its_range() {
    let check = |place, setting, given, expected: Expect| expected.assert_eq(&configured(place, setting, given));
    check(
        "concurrency",
        "workers",
        json!(1_001),
        expect![[
            r#"setting "workers": it sets queues[0].concurrency of the manifest, which must be 1 to 1000, not 1001"#
        ]],
    );
    check(
        "tickMs",
        "period",
        json!("5ms"),
        expect![[
            r#"setting "period": it sets queues[0].tickMs of the manifest, which must be at least 10 ms, or 0 for no tick, not 5 ms"#
        ]],
    );
    check(
        "delayMs",
        "period",
        json!("2000h"),
        expect![[
            r#"setting "period": it sets watches[0].enqueue[0].delayMs of the manifest, which must be at most 4294967295 ms, or 0 for no delay, not 7200000000 ms"#
        ]],
    );
}

#[test]
fn a_manifest_whose_numbers_have_no_setting_is_rejected() {
    let check = |place, setting, expected: Expect| {
        expected.assert_eq(&driven(place, setting).map_or_else(|why| why, |_| "ok".to_owned()));
    };
    check(
        "tickMs",
        "other",
        expect![[
            r#"queues[0].tickMs.config: there is no setting "other"; declared are maybe, maybeCount, millis, on, period, workers"#
        ]],
    );
    check("tickMs", "on", expect![[r#"queues[0].tickMs.config: setting "on" must be of type integer or duration"#]]);
    check(
        "concurrency",
        "period",
        expect![[r#"queues[0].concurrency.config: setting "period" must be of type integer"#]],
    );
    check(
        "concurrency",
        "maybeCount",
        expect![[
            r#"queues[0].concurrency.config: setting "maybeCount" is optional, and this number is needed; give it a default"#
        ]],
    );
    let with = |change: fn(&mut Value), expected: Expect| {
        expected.assert_eq(&parse(change).map_or_else(|why| why, |_| "ok".to_owned()));
    };
    with(
        |m| {
            m["config"]["period"]["default"] = json!("5ms");
            put(m, "tickMs", json!({"config": "period"}));
        },
        expect![[
            r#"queues[0].tickMs.config: the default of setting "period": it sets queues[0].tickMs of the manifest, which must be at least 10 ms, or 0 for no tick, not 5 ms"#
        ]],
    );
    with(
        |m| m["config"]["period"]["default"] = json!("5"),
        expect![[r#"config.period.default: "5": write a duration such as 90s, 5m or 1h30m"#]],
    );
    with(
        |m| m["config"]["maybe"]["default"] = json!("5s"),
        expect!["config.maybe.optional: a setting with a default always has a value; leave one of both out"],
    );
    with(
        |m| m["config"]["name"] = json!({"type": "string", "follow": true, "optional": true}),
        expect!["config.name.follow: is for a setting of type string with fromFile: true"],
    );
    with(
        |m| m["config"]["name"] = json!({"type": "key", "signers": ["example.com/a"], "optional": true}),
        expect!["config.name.signers: is for a setting of type authority"],
    );
    with(
        |m| m["config"]["name"] = json!({"type": "authority", "claims": "serviceAccountToken", "optional": true}),
        expect!["config.name.claims: is for a setting of type key"],
    );
}

#[test]
fn a_number_is_a_whole_one_or_the_name_of_a_setting() {
    let check = |number: Value, expected: Expect| {
        let text = match serde_json::from_value::<Number>(number) {
            Ok(number) => serde_json::to_string(&number).unwrap(),
            Err(why) => why.to_string(),
        };
        expected.assert_eq(&text);
    };
    check(json!(0), expect!["0"]);
    check(json!(u32::MAX), expect!["4294967295"]);
    check(json!({"config": "period"}), expect![[r#"{"config":"period"}"#]]);
    let whole = "a whole number of at most 32 bits, or {config: SETTING}";
    for wrong in [json!(-1), json!(1.5), json!("5"), json!(true), json!(1_u64 << 32), json!([])] {
        let why = serde_json::from_value::<Number>(wrong.clone()).unwrap_err().to_string();
        assert!(why.ends_with(&format!("expected {whole}")), "{wrong}: {why}");
    }
    check(json!({}), expect!["missing field `config`"]);
    check(json!({"setting": "x"}), expect!["unknown field `setting`, expected `config`"]);
    check(json!({"config": "x", "times": 2}), expect!["unknown field `times`, expected `config`"]);
}

#[test]
fn a_setting_knows_the_numbers_that_it_gives() {
    let manifest = parse(|m| {
        for place in ["tickMs", "fixedMs", "delayMs"] {
            put(m, place, json!({"config": "period"}));
        }
    });
    let manifest = manifest.unwrap();
    assert_eq!(
        manifest.driven_by("period"),
        ["queues[0].backoff.fixedMs", "queues[0].tickMs", "watches[0].enqueue[0].delayMs"]
    );
    assert!(manifest.driven_by("workers").is_empty());
}

/// Flags of kube-controller-manager that set numbers of queues and rules, of controllers that were not built when
/// settings could do that: flag, default, the place, another value.
const FLAGS: [(&str, &str, &str, &str); 16] = [
    ("concurrent-endpoint-syncs", "5", "concurrency", "10"),
    ("concurrent-service-endpoint-syncs", "5", "concurrency", "10"),
    ("mirroring-concurrent-service-endpoint-syncs", "5", "concurrency", "10"),
    ("concurrent-resource-quota-syncs", "5", "concurrency", "10"),
    ("concurrent-serviceaccount-token-syncs", "5", "concurrency", "10"),
    ("concurrent-resourceclaim-syncs", "50", "concurrency", "100"),
    ("concurrent-device-taint-eviction-syncs", "8", "concurrency", "10"),
    ("concurrent-validating-admission-policy-status-syncs", "5", "concurrency", "10"),
    ("endpoint-updates-batch-period", "0s", "delayMs", "500ms"),
    ("endpointslice-updates-batch-period", "0s", "delayMs", "500ms"),
    ("mirroring-endpointslice-updates-batch-period", "0s", "delayMs", "500ms"),
    ("node-monitor-period", "5s", "tickMs", "10s"),
    ("resource-quota-sync-period", "5m", "resyncMs", "0s"),
    ("pvclaimbinder-sync-period", "15s", "resyncMs", "1m"),
    ("attach-detach-reconcile-sync-period", "1m", "tickMs", "2m"),
    ("route-reconciliation-period", "10s", "tickMs", "20s"),
];

#[test]
fn each_flag_for_a_number_can_set_it() {
    let upstream = include_str!("../../../../../../plugins/upstream.yaml");
    for (flag, default, place, other) in FLAGS {
        assert!(upstream.contains(flag), "--{flag} is not in upstream.yaml");
        let count = |text: &str| text.parse::<u32>().map_or(json!(text), Value::from);
        let (setting, flag_type) = if place == "concurrency" { ("integer", "int32") } else { ("duration", "duration") };
        let manifest = parse(|m| {
            put(m, place, json!({"config": "it"}));
            m["config"] = json!({"it": {"type": setting, "default": count(default)}});
            m["builtIn"] = json!({"flags": [{
                "name": flag, "type": flag_type, "default": count(default), "help": "As upstream.", "sets": {"config": "it"},
            }]});
        });
        let mut manifest = Arc::new(manifest.unwrap_or_else(|why| panic!("--{flag}: {why}")));
        let before = at(&manifest, place);
        settings::configure(&mut manifest, &json!({"it": count(other)}))
            .unwrap_or_else(|why| panic!("--{flag}: {why}"));
        assert_ne!(at(&manifest, place), before, "--{flag}");
    }
}

/// A manifest as its author writes it, with these settings; the numbers that its first queue has.
fn numbers(manifest: &Value, config: &Value) -> String {
    let mut manifest = Arc::new(Manifest::parse(manifest.to_string().as_bytes()).unwrap());
    settings::configure(&mut manifest, config).unwrap();
    let queue = &manifest.queues[0];
    let delay = manifest.watches.iter().flat_map(|watch| &watch.enqueue).find_map(Enqueue::delay);
    format!(
        "{} at once, fixed {:?}, resync {:?}, retries {:?}, delay {delay:?}",
        queue.n_workers(),
        queue.backoff.fixed(),
        queue.resync(),
        queue.retries()
    )
}

#[test]
fn the_autoscaler_can_run_each_key_after_its_sync_period_whatever_the_result() {
    let manifest = json!({
        "name": "horizontal-pod-autoscaler-controller", "version": "1", "contract": "0.2",
        "watches": [{"kind": "autoscaling/v2/HorizontalPodAutoscaler", "whole": true,
                     "enqueue": [{"to": "self", "delayMs": {"config": "syncPeriod"}}]}],
        "queues": [{"name": "horizontalpodautoscaler", "concurrency": {"config": "syncs"},
                    "backoff": {"fixedMs": {"config": "syncPeriod"}}}],
        "config": {
            "syncs": {"type": "integer", "default": 5, "minimum": 1},
            // It is the requeue of each outcome, too, which the plugin reads in its configuration.
            "syncPeriod": {"type": "duration", "default": "15s"},
        },
        "builtIn": {"flags": [
            {"name": "concurrent-horizontal-pod-autoscaler-syncs", "type": "int32", "default": 5, "minimum": 1,
             "help": "The number of horizontal pod autoscaler objects.", "sets": {"config": "syncs"}},
            {"name": "horizontal-pod-autoscaler-sync-period", "type": "duration", "default": "15s",
             "help": "The period for syncing the number of pods.", "sets": {"config": "syncPeriod"}},
        ]},
    });
    expect!["5 at once, fixed Some(15s), resync None, retries None, delay Some(15s)"]
        .assert_eq(&numbers(&manifest, &json!({})));
    expect!["9 at once, fixed Some(90s), resync None, retries None, delay Some(90s)"]
        .assert_eq(&numbers(&manifest, &json!({"syncs": 9, "syncPeriod": "1m30s"})));
    let mut shared = Arc::new(Manifest::parse(manifest.to_string().as_bytes()).unwrap());
    let config = settings::configure(&mut shared, &Value::Null).unwrap();
    assert_eq!(config, r#"{"syncPeriod":15000,"syncs":5}"#);
}

#[test]
fn endpoint_slices_can_have_workers_and_a_batch_period() {
    let manifest = json!({
        "name": "endpointslice-controller", "version": "1", "contract": "0.2",
        "watches": [
            {"kind": "v1/Service", "fields": ["spec.selector"], "selects": {"field": "spec.selector", "form": "map"},
             "enqueue": [{"to": "self"}]},
            {"kind": "v1/Pod", "fields": ["status.podIPs"],
             "enqueue": [{"to": "selecting", "kind": "v1/Service", "delayMs": {"config": "batchPeriod"}}]},
        ],
        "queues": [{"name": "endpoint_slice", "concurrency": {"config": "syncs"}, "maxRetries": 15,
                    "backoff": {"baseMs": 1_000}}],
        "config": {
            "syncs": {"type": "integer", "default": 5, "minimum": 1, "maximum": 50},
            "batchPeriod": {"type": "duration", "default": "0s"},
        },
        "builtIn": {"flags": [
            {"name": "concurrent-service-endpoint-syncs", "type": "int32", "default": 5, "minimum": 1, "maximum": 50,
             "help": "The number of service endpoint syncing operations.", "sets": {"config": "syncs"}},
            {"name": "endpointslice-updates-batch-period", "type": "duration", "default": "0s",
             "help": "The length of endpoint slice updates batching period.", "sets": {"config": "batchPeriod"}},
        ]},
    });
    expect!["5 at once, fixed None, resync None, retries Some(15), delay None"]
        .assert_eq(&numbers(&manifest, &json!({})));
    expect!["50 at once, fixed None, resync None, retries Some(15), delay Some(500ms)"]
        .assert_eq(&numbers(&manifest, &json!({"syncs": 50, "batchPeriod": "500ms"})));
}

#[test]
fn the_binder_of_volumes_can_look_at_everything_again_each_period() {
    let manifest = json!({
        "name": "persistentvolume-binder-controller", "version": "1", "contract": "0.2",
        "watches": [{"kind": "v1/PersistentVolumeClaim", "whole": true, "enqueue": [{"to": "self"}]}],
        "queues": [{"name": "claims", "concurrency": 1, "resyncMs": {"config": "syncPeriod"}}],
        "config": {"syncPeriod": {"type": "duration", "default": "15s"}},
        "builtIn": {"flags": [
            {"name": "pvclaimbinder-sync-period", "type": "duration", "default": "15s",
             "help": "The period for syncing persistent volumes and persistent volume claims.", "sets": {"config": "syncPeriod"}},
        ]},
    });
    expect!["1 at once, fixed None, resync Some(15s), retries None, delay None"]
        .assert_eq(&numbers(&manifest, &json!({})));
    expect!["1 at once, fixed None, resync Some(60s), retries None, delay None"]
        .assert_eq(&numbers(&manifest, &json!({"syncPeriod": "1m"})));
}
