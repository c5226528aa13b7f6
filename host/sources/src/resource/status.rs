//! What the status of a `ControllerPlugin` should be.

use pintle_core::lifecycle::SwapResult;
use pintle_core::policy::correlator::cut;
use serde_json::{Map, Value, json};

use crate::wire::{Plugin, Refusal};

/// Longest message of a condition, in bytes; the API convention's limit is 32,768.
const MAX_MESSAGE_BYTES: usize = 4096;

/// What is known of a resource.
pub(super) struct Known<'a> {
    /// Of the spec that `attempt` is about.
    pub(super) generation: i64,
    /// What has become of it.
    pub(super) attempt: Attempt<'a>,
    /// The plugin of this name, whoever brought it.
    pub(super) plugin: Option<&'a Plugin>,
    /// The status that is there.
    pub(super) before: &'a Value,
    /// RFC 3339.
    pub(super) now: &'a str,
}

/// What has become of a spec.
pub(super) enum Attempt<'a> {
    /// It waits for its source, or is being carried out.
    UnderWay,
    /// It was taken; the digest of the component.
    Taken(&'a str),
    /// It was refused.
    Refused(&'a Refusal),
}

/// The status.
pub(super) fn desired(known: &Known<'_>) -> Value {
    let Known { generation, attempt, plugin, .. } = known;
    let ours = plugin.filter(|plugin| plugin.source == "resource");
    let phase = match (ours, attempt) {
        (Some(plugin), _) => json!(plugin.phase),
        (None, Attempt::Refused(_)) => json!("Refused"),
        (None, _) => json!("Pending"),
    };
    let mut status = Map::new();
    status.insert("observedGeneration".into(), json!(generation));
    status.insert("phase".into(), phase);
    let mut conditions = vec![accepted(known)];
    if let Some(plugin) = plugin {
        conditions.extend(plugin.conditions.iter().map(|condition| json!(condition)));
        status.insert("current".into(), json!(plugin.current));
        let mut optional = |name: &str, value: Value| {
            if !value.is_null() {
                status.insert(name.to_owned(), value);
            }
        };
        optional("previous", json!(plugin.previous));
        optional("incoming", json!(plugin.incoming));
        optional("stage", json!(plugin.stage));
        optional("lastSwap", json!(plugin.last_swap));
        if !plugin.faults.is_empty() {
            optional("faults", json!(plugin.faults));
        }
    }
    status.insert("conditions".into(), Value::Array(conditions));
    Value::Object(status)
}

fn accepted(known: &Known<'_>) -> Value {
    let (status, reason, message) = match known.attempt {
        Attempt::UnderWay => ("Unknown", "Applying".to_owned(), "the component is being taken".to_owned()),
        Attempt::Refused(why) => ("False", why.reason.clone(), why.message.clone()),
        Attempt::Taken(digest) => {
            let last = known.plugin.and_then(|plugin| plugin.last_swap.as_ref());
            let rolled_back = last.filter(|last| {
                last.result == SwapResult::RolledBack && last.to.as_ref().is_some_and(|to| to.digest == digest)
            });
            match rolled_back {
                Some(last) => ("False", last.reason.clone(), format!("rolled back: {}", last.message)),
                None => ("True", "Applied".to_owned(), String::new()),
            }
        }
    };
    let before = known.before["conditions"].as_array().into_iter().flatten().find(|old| old["type"] == "Accepted");
    let since = before.filter(|old| old["status"] == status).and_then(|old| old["lastTransitionTime"].as_str());
    json!({
        "type": "Accepted",
        "status": status,
        "reason": reason,
        "message": cut(&message, MAX_MESSAGE_BYTES),
        "lastTransitionTime": since.unwrap_or(known.now),
        "observedGeneration": known.generation,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-02T03:04:05Z";

    fn plugin(source: &str) -> Plugin {
        serde_json::from_value(json!({
            "name": "p", "phase": "Running", "source": source,
            "current": {"version": "1", "digest": "aa", "origin": "x", "since": NOW},
            "conditions": [{"type": "Ready", "status": "True", "reason": "R", "message": "", "lastTransitionTime": NOW}],
        }))
        .unwrap()
    }

    fn summary(attempt: Attempt<'_>, plugin: Option<&Plugin>, before: &Value) -> String {
        let status = desired(&Known { generation: 3, attempt, plugin, before, now: NOW });
        let accepted = &status["conditions"][0];
        format!(
            "{} {} {} since {}",
            status["phase"].as_str().unwrap(),
            accepted["status"].as_str().unwrap(),
            accepted["reason"].as_str().unwrap(),
            accepted["lastTransitionTime"].as_str().unwrap()
        )
    }

    #[test]
    fn the_condition_accepted_tells_what_became_of_the_spec() {
        let none = Value::Null;
        let why = Refusal::new("DigestMismatch", "another component");
        let (ours, others) = (plugin("resource"), plugin("built-in"));
        assert_eq!(summary(Attempt::UnderWay, None, &none), format!("Pending Unknown Applying since {NOW}"));
        assert_eq!(summary(Attempt::Taken("aa"), Some(&ours), &none), format!("Running True Applied since {NOW}"));
        assert_eq!(
            summary(Attempt::Refused(&why), Some(&ours), &none),
            format!("Running False DigestMismatch since {NOW}")
        );
        assert_eq!(
            summary(Attempt::Refused(&why), Some(&others), &none),
            format!("Refused False DigestMismatch since {NOW}")
        );
        assert_eq!(summary(Attempt::Refused(&why), None, &none), format!("Refused False DigestMismatch since {NOW}"));
    }

    #[test]
    fn a_roll_back_takes_the_acceptance_back() {
        let mut ours = plugin("resource");
        ours.last_swap = serde_json::from_value(json!({
            "to": {"version": "2", "digest": "bb", "origin": "x", "since": NOW}, "result": "RolledBack",
            "reason": "FaultsInProbation", "message": "3 faults", "at": NOW, "pauseMicros": 0,
        }))
        .unwrap();
        assert_eq!(
            summary(Attempt::Taken("bb"), Some(&ours), &Value::Null),
            format!("Running False FaultsInProbation since {NOW}")
        );
        assert_eq!(
            summary(Attempt::Taken("aa"), Some(&ours), &Value::Null),
            format!("Running True Applied since {NOW}")
        );
    }

    #[test]
    fn a_status_that_stays_is_the_same_text() {
        let ours = plugin("resource");
        let status = |before: &Value, now| {
            desired(&Known { generation: 3, attempt: Attempt::Taken("aa"), plugin: Some(&ours), before, now })
        };
        let first = status(&Value::Null, "2026-01-01T00:00:00Z");
        assert_eq!(status(&first, NOW), first);
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let length = |message: String| {
            let why = Refusal::new("X", message);
            let known =
                Known { generation: 1, attempt: Attempt::Refused(&why), plugin: None, before: &Value::Null, now: NOW };
            desired(&known)["conditions"][0]["message"].as_str().unwrap().len()
        };
        assert_eq!(length("\u{e4}".repeat(MAX_MESSAGE_BYTES)), MAX_MESSAGE_BYTES);
        assert_eq!(length("x".repeat(MAX_MESSAGE_BYTES + 1)), MAX_MESSAGE_BYTES);
    }
}
