//! Numbers of a manifest: constants, or values of settings.
//!
//! *Flow*: [`Manifest::parse`](super::Manifest::parse) sets each number to its constant, or to the default of its
//! setting; `settings::configure` sets it to the value in the operator's configuration.
//!
//! *Invariants*:
//! 1. At run time, a number is a plain number: settings are not looked up after the configuration is resolved.
//! 2. A setting cannot give a number that is invalid as a constant, except 0 where it turns a feature off.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error as _, MapAccess, Visitor};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::{Manifest, SettingType, bounds};

/// A whole number, or the value of a setting: `5`, or `{config: SETTING}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Number {
    /// Absent if the setting has no value, or if its value turns the feature off.
    value: Option<u32>,
    setting: Option<Box<str>>,
}

impl Number {
    /// The value. For a setting, its value in the resolved configuration; before that, its default.
    pub fn get(&self) -> Option<u32> {
        self.value
    }

    /// The setting that provides the value.
    pub fn setting(&self) -> Option<&str> {
        self.setting.as_deref()
    }
}

impl From<u32> for Number {
    fn from(value: u32) -> Self {
        Self { value: Some(value), setting: None }
    }
}

/// The constant, or the name of the setting.
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.setting, self.value) {
            (Some(setting), _) => write!(f, "setting {setting}"),
            (None, value) => write!(f, "{}", value.unwrap_or_default()),
        }
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.setting {
            None => self.value.serialize(serializer),
            Some(setting) => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("config", setting)?;
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Number;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number of at most 32 bits, or {config: SETTING}")
            }

            fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Number, E> {
                let value = u32::try_from(value);
                value
                    .map(Number::from)
                    .map_err(|_| E::invalid_value(serde::de::Unexpected::Other("a larger one"), &self))
            }

            fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Number, E> {
                match u64::try_from(value) {
                    Ok(value) => self.visit_u64(value),
                    Err(_) => Err(E::invalid_value(serde::de::Unexpected::Signed(value), &self)),
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Number, A::Error> {
                let Some((key, setting)) = map.next_entry::<String, String>()? else {
                    return Err(A::Error::missing_field("config"));
                };
                if key != "config" {
                    return Err(A::Error::unknown_field(&key, &["config"]));
                }
                match map.next_key::<String>()? {
                    Some(other) => Err(A::Error::unknown_field(&other, &["config"])),
                    None => Ok(Number { value: None, setting: Some(setting.into()) }),
                }
            }
        }

        deserializer.deserialize_any(Either)
    }
}

impl JsonSchema for Number {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Number".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                {"type": "integer", "format": "uint32", "minimum": 0},
                {
                    "type": "object",
                    "properties": {"config": {"type": "string", "description": "The setting that gives the number."}},
                    "required": ["config"],
                    "additionalProperties": false,
                },
            ],
        })
    }
}

/// A number's place in the manifest, and its valid values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// For example `queues[0].tickMs`.
    pub(crate) path: String,
    /// Smallest value.
    least: u32,
    /// Largest value.
    most: u32,
    unit: Unit,
    /// The meaning of 0, if it is valid in addition to the range.
    zero: Option<&'static str>,
    /// Whether the manifest may omit the number.
    is_optional: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// From settings of type integer only.
    Count,
    /// From settings of type integer or duration.
    Millis,
}

impl Place {
    /// Converts a setting's value to the number.
    ///
    /// # Errors
    /// If it is out of range; the message contains the range.
    fn take(&self, value: Option<&Value>) -> Result<Option<u32>, String> {
        let Some(value) = value else { return Ok(None) };
        if value.as_u64() == Some(0) && self.zero.is_some() {
            return Ok(None);
        }
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
        match number.filter(|number| (self.least..=self.most).contains(number)) {
            Some(number) => Ok(Some(number)),
            None => Err(self.refusal(value)),
        }
    }

    fn refusal(&self, value: &Value) -> String {
        let Self { path, least, most, unit, zero, .. } = self;
        let unit = if *unit == Unit::Millis { " ms" } else { "" };
        let range = match *most {
            u32::MAX if value.as_f64().is_some_and(|value| value < f64::from(*least)) => {
                format!("at least {least}{unit}")
            }
            u32::MAX => format!("at most {most}{unit}"),
            most => format!("{least} to {most}{unit}"),
        };
        let or_zero = zero.map_or_else(String::new, |zero| format!(", or 0 for {zero}"));
        format!("it sets {path} of the manifest, which must be {range}{or_zero}, not {value}{unit}")
    }
}

/// Calls `visit` with each number of the manifest.
fn each<E>(manifest: &mut Manifest, visit: &mut dyn FnMut(&Place, &mut Number) -> Result<(), E>) -> Result<(), E> {
    let place = |path: String, least: u32, unit: Unit, zero: Option<&'static str>| Place {
        path,
        least,
        most: u32::MAX,
        unit,
        zero,
        is_optional: true,
    };
    let needed = |path: String, least: u32, unit: Unit| Place { is_optional: false, ..place(path, least, unit, None) };
    for (i, queue) in manifest.queues.iter_mut().enumerate() {
        let at = |field: &str| format!("queues[{i}].{field}");
        let concurrency = needed(at("concurrency"), 1, Unit::Count);
        visit(&Place { most: bounds::MAX_CONCURRENCY, ..concurrency }, &mut queue.concurrency)?;
        for (field, least, number) in [
            ("backoff.baseMs", bounds::MIN_BACKOFF_MS, &mut queue.backoff.base_ms),
            ("backoff.maxMs", bounds::MIN_BACKOFF_MS, &mut queue.backoff.max_ms),
        ] {
            visit(&needed(at(field), least, Unit::Millis), number)?;
        }
        for (field, least, unit, zero, number) in [
            ("backoff.fixedMs", bounds::MIN_BACKOFF_MS, Unit::Millis, None, &mut queue.backoff.fixed_ms),
            ("maxRetries", 0, Unit::Count, None, &mut queue.max_retries),
            ("resyncMs", bounds::MIN_RESYNC_MS, Unit::Millis, Some("no resync"), &mut queue.resync_ms),
            ("tickMs", bounds::MIN_TICK_MS, Unit::Millis, Some("no tick"), &mut queue.tick_ms),
        ] {
            if let Some(number) = number {
                visit(&place(at(field), least, unit, zero), number)?;
            }
        }
    }
    for (i, watch) in manifest.watches.iter_mut().enumerate() {
        for (j, rule) in watch.enqueue.iter_mut().enumerate() {
            if let Some(number) = &mut rule.delay_ms {
                let path = format!("watches[{i}].enqueue[{j}].delayMs");
                visit(&place(path, 0, Unit::Millis, Some("no delay")), number)?;
            }
        }
    }
    Ok(())
}

/// Sets each number that comes from a setting to the default of the setting.
///
/// # Errors
/// If there is no such setting, it has another type, or its default is out of range. The message contains the field.
pub(super) fn fill(manifest: &mut Manifest) -> Result<(), String> {
    let config = manifest.config.clone();
    each(manifest, &mut |place, number| {
        let Some(name) = number.setting() else { return Ok(()) };
        let wrong = |why: String| format!("{}.config: {why}", place.path);
        let known = || match config.is_empty() {
            true => "the manifest declares none".to_owned(),
            false => format!("declared are {}", config.keys().cloned().collect::<Vec<_>>().join(", ")),
        };
        let setting = config.get(name).ok_or_else(|| wrong(format!("there is no setting {name:?}; {}", known())))?;
        let fits = match setting.kind {
            SettingType::Integer => true,
            SettingType::Duration => place.unit == Unit::Millis,
            _ => false,
        };
        if !fits {
            let types = if place.unit == Unit::Millis { "integer or duration" } else { "integer" };
            return Err(wrong(format!("setting {name:?} must be of type {types}")));
        }
        if setting.optional && !place.is_optional {
            return Err(wrong(format!("setting {name:?} is optional, and this number is needed; give it a default")));
        }
        let default = setting.default_value().map_err(|why| format!("config.{name}.{why}"))?;
        number.value =
            place.take(default.as_ref()).map_err(|why| wrong(format!("the default of setting {name:?}: {why}")))?;
        Ok(())
    })
}

impl Manifest {
    /// The paths of the numbers that come from this setting.
    pub fn driven_by(&self, setting: &str) -> Vec<String> {
        let mut paths = Vec::new();
        // Works on a copy: manifests are small, and the result is for humans.
        let _ = each::<()>(&mut self.clone(), &mut |place, number| {
            if number.setting() == Some(setting) {
                paths.push(place.path.clone());
            }
            Ok(())
        });
        paths
    }

    /// The path of the first number that comes from a setting; `None` if all are constants.
    pub(crate) fn first_driven(&self) -> Option<String> {
        let first = each(&mut self.clone(), &mut |place, number| match number.setting() {
            Some(_) => Err(place.path.clone()),
            None => Ok(()),
        });
        first.err()
    }

    /// Checks the numbers that come from this setting, for a value in the plugin's form.
    ///
    /// # Errors
    /// If the value is out of a number's range; the message contains the range.
    pub(crate) fn check_numbers(&self, setting: &str, value: &Value) -> Result<(), String> {
        each(&mut self.clone(), &mut |place, number| match number.setting() == Some(setting) {
            true => place.take(Some(value)).map(drop),
            false => Ok(()),
        })
    }

    /// Sets each number that comes from a setting to its value in a resolved configuration.
    ///
    /// # Errors
    /// The setting, and the problem: its value is out of the number's range.
    pub(crate) fn set_numbers(&mut self, values: &Map<String, Value>) -> Result<(), (String, String)> {
        each(self, &mut |place, number| {
            let Some(name) = number.setting() else { return Ok(()) };
            number.value = place.take(values.get(name)).map_err(|why| (name.to_owned(), why))?;
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests;
