//! `settle` of a case: when it ends, and the steps in between.

use std::fmt;
use std::time::Duration;

use jiff::SignedDuration;
use pintle_core::object::id::{Kind, ObjectKey};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::name_of;

/// How a case settles.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Settle {
    /// Runs of one key, at most, until it writes nothing: at the beginning, and after each step.
    pub(crate) runs: u32,
    /// The clock moves to requeues that are due within this time; later ones wait for a step that advances it.
    #[schemars(with = "String", example = "10m", extend("default" = "1m"))]
    #[serde(deserialize_with = "duration")]
    pub(crate) within: Duration,
    /// What happens when the plugin has settled, one after the other. It settles again after each.
    pub(crate) then: Vec<Step>,
}

impl Default for Settle {
    fn default() -> Self {
        Self { runs: 20, within: Duration::from_secs(60), then: Vec::new() }
    }
}

/// A step of another client.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Step {
    /// Time passes: requeues, ticks and resyncs come due.
    Advance(
        #[schemars(with = "String", example = "90s")]
        #[serde(deserialize_with = "duration")]
        Duration,
    ),
    /// Somebody creates the object, or merges these fields into it, its status included.
    Apply(Value),
    /// Somebody deletes the object.
    Delete(Named),
    /// The nodes do their part for all Pods.
    Pods(Pods),
}

/// An object of the cluster.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Named {
    /// Its kind.
    kind: Kind,
    /// Its namespace, if it has one.
    #[serde(default)]
    namespace: String,
    /// Its name.
    name: String,
}

impl Named {
    pub(super) fn kind(&self) -> &Kind {
        &self.kind
    }

    pub(super) fn object(&self) -> ObjectKey {
        ObjectKey::new(&self.namespace, &self.name)
    }
}

/// What the nodes do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Pods {
    /// Pods run and are ready, and those that terminate are gone.
    Ready,
    /// Pods succeed.
    Succeeded,
    /// Pods fail.
    Failed,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Advance(by) => write!(f, "advance by {by:?}"),
            Self::Apply(object) => {
                let (kind, object) = name_of(object);
                write!(f, "apply {kind} {object}")
            }
            Self::Delete(named) => write!(f, "delete {} {}", named.kind, named.object()),
            Self::Pods(Pods::Ready) => f.write_str("pods: ready"),
            Self::Pods(Pods::Succeeded) => f.write_str("pods: succeeded"),
            Self::Pods(Pods::Failed) => f.write_str("pods: failed"),
        }
    }
}

/// `90s`, `10m`, `1h 30m`.
fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    let wrong = || serde::de::Error::custom(format!("{text:?} is not a duration like 90s, 10m or 1h30m"));
    let parsed: SignedDuration = text.parse().map_err(|_| wrong())?;
    Duration::try_from(parsed).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: Value) -> Result<Settle, String> {
        serde_json::from_value(value).map_err(|why| why.to_string())
    }

    #[test]
    fn what_is_left_out_has_a_default() {
        let settle = read(json!({})).unwrap();
        assert_eq!((settle.runs, settle.within, settle.then.len()), (20, Duration::from_secs(60), 0));
    }

    #[test]
    fn steps_are_named_in_messages() {
        let steps = json!([
            {"advance": "1h 30m"}, {"apply": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "b"}}},
            {"delete": {"kind": "apps/v1/Deployment", "namespace": "b", "name": "c"}}, {"pods": "ready"},
        ]);
        let settle = read(json!({"runs": 3, "within": "10m", "then": steps})).unwrap();
        let shown: Vec<String> = settle.then.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["advance by 5400s", "apply v1/Pod b/a", "delete apps/v1/Deployment b/c", "pods: ready"]);
    }

    #[test]
    fn mistakes_name_the_choices() {
        let cases = [
            (json!({"within": "soon"}), "\"soon\" is not a duration like 90s, 10m or 1h30m"),
            (json!({"within": "-5s"}), "\"-5s\" is not a duration"),
            (
                json!({"then": [{"wait": "5s"}]}),
                "unknown variant `wait`, expected one of `advance`, `apply`, `delete`, `pods`",
            ),
            (json!({"then": [{"pods": "running"}]}), "expected one of `ready`, `succeeded`, `failed`"),
            (json!({"steps": []}), "unknown field `steps`"),
        ];
        for (value, part) in cases {
            let why = read(value).unwrap_err();
            assert!(why.contains(part), "{why}");
        }
    }
}
