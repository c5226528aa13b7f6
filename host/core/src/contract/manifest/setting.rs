//! Settings, as manifests declare them.
//!
//! Not here: the operator's values (`settings`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::duration;

/// A setting: type, default and range.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Setting {
    /// Type of the value.
    #[serde(rename = "type")]
    pub kind: SettingType,
    /// Description.
    #[serde(default)]
    pub description: String,
    /// Value if the operator sets none; without a default the setting is required, unless it is `optional`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// Whether the setting may have no value; the plugin's configuration then does not contain it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
    /// Smallest number; of a duration, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum: Option<f64>,
    /// Largest number; of a duration, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maximum: Option<f64>,
    /// The valid strings.
    #[serde(default, rename = "enum", skip_serializing_if = "Vec::is_empty")]
    pub one_of: Vec<String>,
    /// Whether a file may provide the (string) value on the host's command line, as `--set CONTROLLER.SETTING={"file": "/path"}`.
    #[serde(default)]
    pub from_file: bool,
    /// Whether the host checks that file for changes every minute. A change has the effect of an edited configuration:
    /// every key runs again. Only with `fromFile`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub follow: bool,
    /// Names of signers, to whose requests an authority is limited: the host signs only if the key's object is a
    /// CertificateSigningRequest for one of them, approved and not signed yet, with exactly this `spec.request` and these
    /// `spec.usages`. Its watch needs `whole: true`. Empty: the plugin chooses what the authority signs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signers: Vec<String>,
    /// The claims to which a key is limited. Absent: the plugin chooses what the key signs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claims: Option<Claims>,
}

/// Claims of the tokens that a key signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Claims {
    /// Those of the token in a Secret of the type `kubernetes.io/service-account-token`, for the ServiceAccount that its
    /// annotations name, and no others. The Secret is the key's object, and its watch has the annotations
    /// `kubernetes.io/service-account.name` and `kubernetes.io/service-account.uid`.
    ServiceAccountToken,
}

/// Types of settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "JSON's own names")]
pub enum SettingType {
    Boolean,
    Integer,
    Number,
    /// A duration in Go's syntax, for example `15s` or `1h30m`. The plugin sees whole milliseconds, rounded up.
    Duration,
    String,
    /// A list of strings.
    Strings,
    /// A private key that signs tokens (the need `sign-jwt`). The configuration of the plugin has `true` if it is bound,
    /// and neither the key nor its file.
    Key,
    /// A certificate and its private key, which sign certificates (the need `sign-certificate`). The configuration of the
    /// plugin has `true` if it is bound, and neither of the two.
    Authority,
}

impl SettingType {
    /// Whether it is a secret of the host: plugins do not get its value in their configuration.
    pub fn is_secret(self) -> bool {
        matches!(self, Self::Key | Self::Authority)
    }
}

impl Setting {
    /// The default in the plugin's form.
    ///
    /// # Errors
    /// If it should be a duration and is not.
    pub fn default_value(&self) -> Result<Option<Value>, String> {
        let Some(default) = &self.default else { return Ok(None) };
        self.value_of(default).map(Some).map_err(|why| format!("default: {why}"))
    }

    /// Converts a value to the plugin's form: a duration becomes milliseconds.
    ///
    /// # Errors
    /// If it should be a duration and is not.
    pub(crate) fn value_of(&self, value: &Value) -> Result<Value, String> {
        match (self.kind, value) {
            (SettingType::Duration, Value::String(text)) => {
                let millis =
                    duration::parse(text).map_err(|why| format!("{text:?}: {why}"))?.as_nanos().div_ceil(1_000_000);
                // As for integers, values must be exact in every plugin language.
                let exact = u64::try_from(millis).ok().filter(|millis| *millis <= 1 << 53);
                exact.map(Value::from).ok_or_else(|| format!("{text:?} is too long"))
            }
            (SettingType::Duration, Value::Number(number)) if number.as_u64() == Some(0) => Ok(0.into()),
            (SettingType::Duration, other) => {
                let found = if other.is_number() { other.to_string() } else { "another type".to_owned() };
                Err(format!("must be a duration such as \"90s\" or \"1h30m\", not {found}"))
            }
            (_, value) => Ok(value.clone()),
        }
    }

    /// # Errors
    /// The wrong field, and the cause.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.optional && self.default.is_some() {
            return Err("optional: a setting with a default always has a value; leave one of both out".to_owned());
        }
        if self.follow && !(self.from_file && self.kind == SettingType::String) {
            return Err("follow: is for a setting of type string with fromFile: true".to_owned());
        }
        if !self.signers.is_empty() && self.kind != SettingType::Authority {
            return Err("signers: is for a setting of type authority".to_owned());
        }
        if self.claims.is_some() && self.kind != SettingType::Key {
            return Err("claims: is for a setting of type key".to_owned());
        }
        self.default_value().map(drop)
    }
}
