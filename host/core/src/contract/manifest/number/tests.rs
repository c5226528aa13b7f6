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
fn contract_0_1_has_constants_alone() {
    let of = |change: fn(&mut Value)| {
        parse(|m| {
            m["contract"] = json!("0.1");
            m["config"] = json!({"millis": {"type": "integer", "default": 2_000}});
            change(m);
        })
        .map_or_else(|why| why, |_| "ok".to_owned())
    };
    assert_eq!(of(|_| ()), "ok");
    expect!["queues[0].tickMs.config: needs contract 0.2, and this manifest declares 0.1"]
        .assert_eq(&of(|m| put(m, "tickMs", json!({"config": "millis"}))));
    expect!["config.millis.type: duration: needs contract 0.2, and this manifest declares 0.1"]
        .assert_eq(&of(|m| m["config"]["millis"] = json!({"type": "duration", "default": "1s"})));
    expect!["config.millis.optional: needs contract 0.2, and this manifest declares 0.1"]
        .assert_eq(&of(|m| m["config"]["millis"] = json!({"type": "integer", "optional": true})));
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
