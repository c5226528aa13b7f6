//! A plugin's configuration: the operator's values, validated against the manifest's settings, with defaults.
//!
//! Not here: the source of the operator's values. Setting files are read only by the command line, before this module
//! gets the values.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::contract::manifest::{Manifest, Setting, SettingType};

/// The reason why a file is rejected outside of the command line.
const NO_FILE: &str = "a file may be named only on the command line of the host (`--set CONTROLLER.SETTING={\"file\": \"PATH\"}`); write its content instead";

/// A configuration that the plugin's manifest does not allow.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The configuration is not a JSON object.
    #[error("the configuration must be an object of settings, not {0}")]
    NotAnObject(String),
    /// The manifest has no such setting.
    #[error("setting {name:?} does not exist; {}", list(.known))]
    Unknown {
        /// The name, as given.
        name: String,
        /// The existing settings.
        known: Vec<String>,
    },
    /// The setting has no value and no default.
    #[error("setting {0:?} is required")]
    Missing(String),
    /// A value has the wrong type or is out of range; the message lists the valid values.
    #[error("setting {name:?}: {why}")]
    Invalid {
        /// The setting.
        name: String,
        /// The problem, and the valid values.
        why: String,
    },
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "this plugin has no settings".into() } else { format!("known are {}", names.join(", ")) }
}

/// Returns the configuration for the plugin: a JSON object with a value for every setting that has one.
///
/// `given` is an object, or null for no configuration. A file (`{"file": path}`) is rejected: otherwise a
/// `ControllerPlugin` or the spec of an admin request could read files with the permissions of the host.
///
/// # Errors
/// [`SettingsError`]; a retry does not help.
pub fn resolve(settings: &BTreeMap<String, Setting>, given: &Value) -> Result<String, SettingsError> {
    Ok(Value::Object(values(settings, given)?).to_string())
}

/// Like [`resolve`]; also sets the numbers of the manifest that come from settings.
///
/// # Errors
/// [`SettingsError`], also for a value that is invalid for such a number; a retry does not help.
pub fn configure(manifest: &mut Arc<Manifest>, given: &Value) -> Result<String, SettingsError> {
    let values = values(&manifest.config, given)?;
    if manifest.first_driven().is_some() {
        let set = Arc::make_mut(manifest).set_numbers(&values);
        set.map_err(|(name, why)| SettingsError::Invalid { name, why })?;
    }
    Ok(Value::Object(values).to_string())
}

/// The configuration with `true` for each setting of type `key` or `authority` that is bound. It contains neither
/// files nor their contents.
pub fn show_bound(manifest: &Manifest, config: String, is_bound: impl Fn(&str) -> bool) -> String {
    let bound = manifest.config.iter().filter(|(name, setting)| setting.kind.is_secret() && is_bound(name));
    let bound: Vec<(String, Value)> = bound.map(|(name, _)| (name.clone(), true.into())).collect();
    if bound.is_empty() {
        return config;
    }
    // A resolved configuration is always an object.
    let mut values: Map<String, Value> = serde_json::from_str(&config).unwrap_or_default();
    values.extend(bound);
    Value::Object(values).to_string()
}

fn values(settings: &BTreeMap<String, Setting>, given: &Value) -> Result<Map<String, Value>, SettingsError> {
    let empty = Map::new();
    let given = match given {
        Value::Null => &empty,
        Value::Object(given) => given,
        other => return Err(SettingsError::NotAnObject(describe(other))),
    };
    if let Some(name) = given.keys().find(|name| !settings.contains_key(*name)) {
        return Err(SettingsError::Unknown { name: name.clone(), known: settings.keys().cloned().collect() });
    }
    if let Some((name, _)) =
        settings.iter().find(|(name, setting)| setting.kind.is_secret() && given.contains_key(*name))
    {
        let why = "a key is named only on the command line of the host".to_owned();
        return Err(SettingsError::Invalid { name: name.clone(), why });
    }
    let mut resolved = Map::new();
    for (name, setting) in settings.iter().filter(|(_, setting)| !setting.kind.is_secret()) {
        let invalid = |why| SettingsError::Invalid { name: name.clone(), why };
        let value = match (given.get(name), &setting.default) {
            (Some(value), _) if file_of(setting, value).is_some() => return Err(invalid(NO_FILE.to_owned())),
            (Some(value), _) | (None, Some(value)) => value,
            (None, None) if setting.optional => continue,
            (None, None) => return Err(SettingsError::Missing(name.clone())),
        };
        let value = setting.value_of(value).map_err(invalid)?;
        check(setting, &value).map_err(invalid)?;
        resolved.insert(name.clone(), value);
    }
    Ok(resolved)
}

/// Checks one value of a setting, and the numbers of the manifest that come from it.
///
/// # Errors
/// [`SettingsError`]; a retry does not help.
pub fn check_value(manifest: &Manifest, name: &str, value: &Value) -> Result<(), SettingsError> {
    let invalid = |why| SettingsError::Invalid { name: name.to_owned(), why };
    let setting = manifest.config.get(name);
    let known = || manifest.config.keys().cloned().collect();
    let setting = setting.ok_or_else(|| SettingsError::Unknown { name: name.to_owned(), known: known() })?;
    let value = setting.value_of(value).map_err(invalid)?;
    check(setting, &value).map_err(invalid)?;
    manifest.check_numbers(name, &value).map_err(invalid)
}

/// The path of `{"file": path}`, if the setting allows a file and the value is one.
pub fn file_of<'a>(setting: &Setting, value: &'a Value) -> Option<&'a str> {
    let map = value.as_object().filter(|map| setting.from_file && map.len() == 1)?;
    map.get("file")?.as_str()
}

fn check(setting: &Setting, value: &Value) -> Result<(), String> {
    let wanted = match setting.kind {
        SettingType::Boolean => value.is_boolean().then_some(()).ok_or("true or false"),
        // Values from 2^53 are not exact in every plugin language.
        SettingType::Integer => {
            let exact = |n: i64| n.unsigned_abs() <= 1 << 53;
            value.as_i64().filter(|n| exact(*n)).map(drop).ok_or("an integer of at most 53 bits")
        }
        // The value is already in milliseconds.
        SettingType::Duration => Ok(()),
        SettingType::Number => value.is_number().then_some(()).ok_or("a number"),
        SettingType::String => value.is_string().then_some(()).ok_or("a string"),
        SettingType::Strings => {
            let strings = value.as_array().is_some_and(|list| list.iter().all(Value::is_string));
            strings.then_some(()).ok_or("a list of strings")
        }
        SettingType::Key | SettingType::Authority => Err("given on the command line of the host"),
    };
    if let Err(wanted) = wanted {
        return Err(format!("must be {wanted}, not {}", describe(value)));
    }
    if let Some(number) = value.as_f64() {
        let unit = if setting.kind == SettingType::Duration { " ms" } else { "" };
        let low = setting.minimum.is_some_and(|minimum| number < minimum);
        let high = setting.maximum.is_some_and(|maximum| number > maximum);
        if low || high {
            return Err(match (setting.minimum, setting.maximum) {
                (Some(minimum), Some(maximum)) => {
                    format!("must be between {minimum}{unit} and {maximum}{unit}, not {value}{unit}")
                }
                (Some(minimum), None) => format!("must be at least {minimum}{unit}, not {value}{unit}"),
                (_, maximum) => format!("must be at most {}{unit}, not {value}{unit}", maximum.unwrap_or(f64::MAX)),
            });
        }
    }
    let texts: Vec<&str> = match value {
        Value::String(text) => vec![text],
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if let Some(text) =
        texts.iter().find(|text| !setting.one_of.is_empty() && setting.one_of.iter().all(|one| one != *text))
    {
        return Err(format!("{text:?} is not one of {}", setting.one_of.join(", ")));
    }
    Ok(())
}

/// A short description of a value. Configuration may be secret, so long values are not repeated.
fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(_) => "a string".into(),
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "an object".into(),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    fn check(given: Value, expect: Expect) {
        let settings = json!({
            "workers": {"type": "integer", "default": 5, "minimum": 1, "maximum": 100},
            "ratio": {"type": "number", "default": 0.5, "maximum": 1},
            "mode": {"type": "string", "default": "fast", "enum": ["fast", "safe"]},
            "extra": {"type": "strings", "default": []},
            "on": {"type": "boolean", "default": false},
            "ca": {"type": "string", "fromFile": true},
        });
        let settings: BTreeMap<String, Setting> = serde_json::from_value(settings).unwrap();
        let text = match resolve(&settings, &given) {
            Ok(text) => text,
            Err(error) => error.to_string(),
        };
        expect.assert_eq(&text);
    }

    #[test]
    fn defaults_are_filled_in() {
        check(
            json!({"ca": "x"}),
            expect![[r#"{"ca":"x","extra":[],"mode":"fast","on":false,"ratio":0.5,"workers":5}"#]],
        );
        check(
            json!({"ca": "PEM", "workers": 7, "extra": ["a"], "on": true}),
            expect![[r#"{"ca":"PEM","extra":["a"],"mode":"fast","on":true,"ratio":0.5,"workers":7}"#]],
        );
    }

    #[test]
    fn a_duration_has_gos_syntax_and_the_plugin_sees_milliseconds() {
        let settings = json!({
            "period": {"type": "duration", "default": "15s", "minimum": 1_000, "maximum": 3_600_000},
            "grace": {"type": "duration", "default": "0s"},
        });
        let settings: BTreeMap<String, Setting> = serde_json::from_value(settings).unwrap();
        let check = |given: Value, expect: Expect| {
            expect.assert_eq(&resolve(&settings, &given).unwrap_or_else(|why| why.to_string()));
        };
        check(json!({}), expect![[r#"{"grace":0,"period":15000}"#]]);
        check(json!({"period": "1h", "grace": 0}), expect![[r#"{"grace":0,"period":3600000}"#]]);
        check(json!({"grace": "1500us"}), expect![[r#"{"grace":2,"period":15000}"#]]);
        check(
            json!({"period": "999ms"}),
            expect![[r#"setting "period": must be between 1000 ms and 3600000 ms, not 999 ms"#]],
        );
        check(
            json!({"period": "1h1ms"}),
            expect![[r#"setting "period": must be between 1000 ms and 3600000 ms, not 3600001 ms"#]],
        );
        check(
            json!({"period": "15"}),
            expect![[r#"setting "period": "15": write a duration such as 90s, 5m or 1h30m"#]],
        );
        check(
            json!({"period": 15}),
            expect![[r#"setting "period": must be a duration such as "90s" or "1h30m", not 15"#]],
        );
        check(
            json!({"period": true}),
            expect![[r#"setting "period": must be a duration such as "90s" or "1h30m", not another type"#]],
        );
        check(json!({"grace": "9999999999h"}), expect![[r#"setting "grace": "9999999999h" is too long"#]]);
    }

    #[test]
    fn an_optional_setting_is_absent_without_a_value() {
        let of = |kind: &str| -> BTreeMap<String, Setting> {
            serde_json::from_value(json!({"it": {"type": kind, "optional": true}})).unwrap()
        };
        for (kind, value) in
            [("string", json!("x")), ("integer", json!(5)), ("strings", json!([])), ("boolean", json!(false))]
        {
            assert_eq!(resolve(&of(kind), &Value::Null), Ok("{}".to_owned()));
            assert_eq!(resolve(&of(kind), &json!({ "it": value })), Ok(json!({ "it": value }).to_string()));
            let null = resolve(&of(kind), &json!({"it": null}));
            assert!(null.is_err_and(|why| why.to_string().ends_with("not null")));
        }
        assert_eq!(resolve(&of("duration"), &Value::Null), Ok("{}".to_owned()));
        assert_eq!(resolve(&of("key"), &Value::Null), Ok("{}".to_owned()));
    }

    #[test]
    fn the_configuration_shows_which_keys_and_authorities_are_bound() {
        let manifest = json!({
            "name": "signer", "version": "1.0.0", "contract": "0.2", "queues": [{"name": "signer"}],
            "watches": [{"kind": "v1/Pod", "enqueue": [{"to": "self"}]}],
            "config": {
                "days": {"type": "integer", "default": 3},
                "key": {"type": "key", "optional": true},
                "ours": {"type": "authority", "optional": true},
                "theirs": {"type": "authority", "optional": true},
            },
        });
        let manifest = Manifest::parse(manifest.to_string().as_bytes()).unwrap();
        let shown = |bound: &[&str]| {
            let config = resolve(&manifest.config, &Value::Null).unwrap();
            show_bound(&manifest, config, |name| bound.contains(&name))
        };
        assert_eq!(shown(&[]), r#"{"days":3}"#);
        assert_eq!(shown(&["ours"]), r#"{"days":3,"ours":true}"#);
        // Other names, such as those of endpoints and other settings, are not shown.
        assert_eq!(shown(&["days", "desk", "key", "ours"]), r#"{"days":3,"key":true,"ours":true}"#);
    }

    #[test]
    fn a_file_is_rejected_whatever_it_contains() {
        check(
            json!({"ca": {"file": "/etc/passwd"}}),
            expect![[
                r#"setting "ca": a file may be named only on the command line of the host (`--set CONTROLLER.SETTING={"file": "PATH"}`); write its content instead"#
            ]],
        );
    }

    #[test]
    fn each_mistake_has_its_own_message() {
        check(json!([]), expect!["the configuration must be an object of settings, not a list"]);
        check(json!(null), expect![[r#"setting "ca" is required"#]]);
        check(
            json!({"ca": "x", "worker": 1}),
            expect![[r#"setting "worker" does not exist; known are ca, extra, mode, on, ratio, workers"#]],
        );
        check(json!({"ca": "x", "workers": 0}), expect![[r#"setting "workers": must be between 1 and 100, not 0"#]]);
        check(
            json!({"ca": "x", "workers": 1.5}),
            expect![[r#"setting "workers": must be an integer of at most 53 bits, not 1.5"#]],
        );
        check(json!({"ca": "x", "ratio": 2}), expect![[r#"setting "ratio": must be at most 1, not 2"#]]);
        check(json!({"ca": "x", "mode": "slow"}), expect![[r#"setting "mode": "slow" is not one of fast, safe"#]]);
        check(
            json!({"ca": "x", "extra": "a"}),
            expect![[r#"setting "extra": must be a list of strings, not a string"#]],
        );
        check(json!({"ca": 1}), expect![[r#"setting "ca": must be a string, not 1"#]]);
        check(
            json!({"ca": "x", "mode": {"file": "/ca.crt"}}),
            expect![[r#"setting "mode": must be a string, not an object"#]],
        );
    }
}
