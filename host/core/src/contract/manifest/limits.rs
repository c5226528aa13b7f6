//! Limits of one run, as requested by manifests and set by operators.
//!
//! Not here: their enforcement (`pintle-wasm`, `check`).

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Limits of one run. Absent fields have the host's default. An operator's `--max-limits` replaces the maximum of a field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Limits {
    /// Wall time of a run in milliseconds. Default 10,000; at most 300,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u32>,
    /// Linear memory in bytes. Default 64 MiB, at most 1 GiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Mutations in one outcome. Default 1,000, at most 10,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mutations: Option<u32>,
    /// Bytes of one outcome. Default 8 MiB, at most 32 MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome_bytes: Option<u64>,
    /// Lister calls. Default 100,000, at most 1,000,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_calls: Option<u32>,
    /// Bytes that the lister returns. Default 256 MiB, at most 1 GiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<u64>,
    /// Bytes of one answer of the API server to a need, instead of the contract's limit. Default 8 MiB, at most 64 MiB;
    /// a run has 64 MiB for all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_bytes: Option<u64>,
    /// Log lines. Default 100, at most 1,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_lines: Option<u32>,
    /// Bytes of the plugin's whole keyed state. Default 1 MiB, at most 64 MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_bytes: Option<u64>,
    /// Label combinations of each of the plugin's metrics; samples of further combinations are dropped. All metrics
    /// together have at most twice this number. Default 1,000, at most 20,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub series: Option<u32>,
}

/// [`Limits`] with a value in every field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "as in `Limits`")]
pub struct EffectiveLimits {
    pub deadline: Duration,
    pub memory_bytes: u64,
    pub mutations: u32,
    pub outcome_bytes: u64,
    pub host_calls: u32,
    pub read_bytes: u64,
    pub answer_bytes: u64,
    pub log_lines: u32,
    pub state_bytes: u64,
    pub series: u32,
}

/// A limit above the operator's maximum, or the host's maximum if the operator sets none. A retry does not help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "limits.{name}: {asked} is more than the maximum of {maximum}; request less, or raise the maximum with \
     `--max-limits {name}=NUMBER`"
)]
pub struct LimitError {
    /// The limit's name, as in the manifest.
    pub name: &'static str,
    /// The requested value.
    pub asked: u64,
    /// The maximum.
    pub maximum: u64,
}

impl Limits {
    /// The limits of a run that follow from the manifest alone.
    pub fn effective(&self) -> EffectiveLimits {
        // Nothing is rejected here: the host's own bounds cap the values silently.
        let decided: Result<_, std::convert::Infallible> =
            self.decide(|_, asked, range| Ok(asked.unwrap_or(range.default).min(range.requestable)));
        decided.unwrap_or_else(|never| match never {})
    }

    /// The limits of a run: the spec's for this plugin, else the manifest's, else the default. None exceeds the
    /// operator's maximum, or the host's maximum if the operator sets none.
    ///
    /// # Errors
    /// [`LimitError`] if a requested value exceeds the maximum.
    pub fn within(&self, given: &Limits, maximum: &Limits) -> Result<EffectiveLimits, LimitError> {
        let asked = given.over(self);
        let maximum: Vec<(&'static str, u64)> =
            maximum.fields().into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        asked.decide(|name, asked, range| {
            let maximum = maximum.iter().find(|(of, _)| *of == name);
            let maximum = maximum.map_or(range.requestable, |(_, value)| (*value).min(range.most));
            match asked {
                Some(asked) if asked > maximum => Err(LimitError { name, asked, maximum }),
                asked => Ok(asked.unwrap_or(range.default).min(maximum)),
            }
        })
    }

    /// Merges the limits: absent fields are taken from `other`.
    fn over(&self, other: &Self) -> Self {
        Self {
            deadline_ms: self.deadline_ms.or(other.deadline_ms),
            memory_bytes: self.memory_bytes.or(other.memory_bytes),
            mutations: self.mutations.or(other.mutations),
            outcome_bytes: self.outcome_bytes.or(other.outcome_bytes),
            host_calls: self.host_calls.or(other.host_calls),
            read_bytes: self.read_bytes.or(other.read_bytes),
            answer_bytes: self.answer_bytes.or(other.answer_bytes),
            log_lines: self.log_lines.or(other.log_lines),
            state_bytes: self.state_bytes.or(other.state_bytes),
            series: self.series.or(other.series),
        }
    }

    fn fields(&self) -> [(&'static str, Option<u64>); 10] {
        [
            ("deadlineMs", self.deadline_ms.map(u64::from)),
            ("memoryBytes", self.memory_bytes),
            ("mutations", self.mutations.map(u64::from)),
            ("outcomeBytes", self.outcome_bytes),
            ("hostCalls", self.host_calls.map(u64::from)),
            ("readBytes", self.read_bytes),
            ("answerBytes", self.answer_bytes),
            ("logLines", self.log_lines.map(u64::from)),
            ("stateBytes", self.state_bytes),
            ("series", self.series.map(u64::from)),
        ]
    }

    /// Computes each field from its name, the request and its range.
    fn decide<E>(
        &self,
        decide: impl Fn(&'static str, Option<u64>, Range) -> Result<u64, E>,
    ) -> Result<EffectiveLimits, E> {
        let [deadline, memory, mutations, outcome, calls, read, answer, lines, state, series] = self.fields();
        let of = |(name, asked), range| decide(name, asked, range);
        // The ranges ensure that it fits.
        let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        Ok(EffectiveLimits {
            deadline: Duration::from_millis(of(deadline, Range::new(10_000, 300_000, 300_000))?.max(1)),
            memory_bytes: of(memory, Range::new(64 * MIB, GIB, GIB))?,
            mutations: small(of(mutations, Range::new(1_000, 10_000, 1_000_000))?),
            outcome_bytes: of(outcome, Range::new(8 * MIB, 32 * MIB, GIB))?,
            host_calls: small(of(calls, Range::new(100_000, 1_000_000, u32::MAX.into()))?),
            read_bytes: of(read, Range::new(256 * MIB, GIB, 1024 * GIB))?,
            answer_bytes: of(answer, Range::new(8 * MIB, 64 * MIB, 64 * MIB))?,
            log_lines: small(of(lines, Range::new(100, 1_000, 1_000_000))?),
            state_bytes: of(state, Range::new(MIB, 64 * MIB, GIB))?,
            series: small(of(series, Range::new(1_000, 20_000, 200_000))?),
        })
    }
}

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Valid values of a limit.
#[derive(Clone, Copy)]
struct Range {
    default: u64,
    /// Maximum that a manifest or a spec can request if the operator has set no maximum.
    requestable: u64,
    /// Largest maximum that an operator can set.
    most: u64,
}

impl Range {
    const fn new(default: u64, requestable: u64, most: u64) -> Self {
        Self { default, requestable, most }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operators_maximum_limits_requests() {
        let limits = |json: serde_json::Value| serde_json::from_value::<Limits>(json).unwrap();
        let asked = limits(serde_json::json!({"deadlineMs": 2000, "mutations": 5}));
        let given = limits(serde_json::json!({"deadlineMs": 3000}));
        let maximum = limits(serde_json::json!({"deadlineMs": 3000, "memoryBytes": 1048576}));
        let within = asked.within(&given, &maximum).unwrap();
        assert_eq!((within.deadline.as_millis(), within.mutations, within.memory_bytes), (3000, 5, 1 << 20));
        let maximum = limits(serde_json::json!({"deadlineMs": 2999}));
        assert_eq!(
            asked.within(&given, &maximum).unwrap_err().to_string(),
            "limits.deadlineMs: 3000 is more than the maximum of 2999; request less, or raise the maximum with \
             `--max-limits deadlineMs=NUMBER`"
        );
        assert!(asked.within(&Limits::default(), &maximum).is_ok());
        let host = limits(serde_json::json!({"deadlineMs": 300_001}));
        assert_eq!(host.within(&Limits::default(), &Limits::default()).unwrap_err().maximum, 300_000);
        assert_eq!(host.effective().deadline.as_millis(), 300_000);
    }
    #[test]
    fn a_manifest_cannot_raise_the_hosts_bounds_but_an_operator_can() {
        let bounds = [
            ("deadlineMs", 300_000, 300_000),
            ("memoryBytes", GIB, GIB),
            ("mutations", 10_000, 1_000_000),
            ("outcomeBytes", 32 * MIB, GIB),
            ("hostCalls", 1_000_000, u64::from(u32::MAX)),
            ("readBytes", GIB, 1024 * GIB),
            ("answerBytes", 64 * MIB, 64 * MIB),
            ("logLines", 1_000, 1_000_000),
            ("stateBytes", 64 * MIB, GIB),
            ("series", 20_000, 200_000),
        ];
        let none = Limits::default();
        for (name, requestable, most) in bounds {
            let limits = |value: u64| serde_json::from_value::<Limits>(serde_json::json!({name: value})).unwrap();
            let maximum_of = |asked: &Limits, maximum: &Limits| asked.within(&none, maximum).map_err(|why| why.maximum);
            assert!(maximum_of(&limits(requestable), &none).is_ok(), "{name}");
            let is_u32 = most == u64::from(u32::MAX);
            let above = limits(if is_u32 { most } else { most + 1 });
            assert_eq!(maximum_of(&above, &none).unwrap_err(), requestable, "{name}");
            assert!(maximum_of(&limits(most), &limits(most)).is_ok(), "{name}");
            if !is_u32 {
                assert_eq!(maximum_of(&above, &above).unwrap_err(), most, "{name}");
            }
            // The bounds of a spec are those of a manifest.
            assert_eq!(none.within(&above, &none).unwrap_err().maximum, requestable, "{name}");
            assert_eq!(above.effective(), limits(requestable).effective(), "{name}");
        }
    }
}
