//! Status conditions of custom kinds and newer built-in ones (`metav1.Condition`).

use crate::api::meta::Condition;
use crate::time::Timestamp;

/// Replaces the condition of the same type, or appends it. `last_transition_time` becomes `now`, or keeps the old value
/// if the status is unchanged, whatever `condition` contains.
///
/// ```
/// use pintle_sdk::api::meta::Condition;
/// use pintle_sdk::{set_condition, time::Timestamp};
///
/// let ready = |status: &str| Condition { type_: "Ready".into(), status: status.into(), ..Condition::default() };
/// let conditions = set_condition(&[], ready("False"), Timestamp::from_micros(0));
/// let conditions = set_condition(&conditions, ready("False"), Timestamp::from_micros(5_000_000));
/// assert_eq!(conditions[0].last_transition_time, Some(Timestamp::from_micros(0)));
/// ```
#[doc(alias = "SetStatusCondition")]
#[must_use]
pub fn set_condition(conditions: &[Condition], mut condition: Condition, now: Timestamp) -> Vec<Condition> {
    let mut conditions = conditions.to_vec();
    condition.last_transition_time = Some(now.truncate());
    match conditions.iter_mut().find(|current| current.type_ == condition.type_) {
        Some(current) => {
            if current.status == condition.status && current.last_transition_time.is_some() {
                condition.last_transition_time = current.last_transition_time;
            }
            *current = condition;
        }
        None => conditions.push(condition),
    }
    conditions
}

/// The condition of this type.
#[doc(alias = "FindStatusCondition")]
pub fn find_condition<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    find(conditions, kind)
}

/// The condition of this type.
pub fn find<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == kind)
}

/// Whether the condition of this type is `True`.
pub fn is_true(conditions: &[Condition], kind: &str) -> bool {
    find(conditions, kind).is_some_and(|condition| condition.status == "True")
}

/// Removes the condition of this type.
pub fn remove(conditions: &mut Vec<Condition>, kind: &str) {
    conditions.retain(|condition| condition.type_ != kind);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(kind: &str, status: &str, reason: &str) -> Condition {
        Condition { type_: kind.into(), status: status.into(), reason: reason.into(), ..Condition::default() }
    }

    #[test]
    fn a_condition_without_a_message_has_an_empty_one() {
        let conditions = set_condition(&[], condition("A", "True", "x"), Timestamp::from_micros(0));
        let written = serde_json::to_string(&conditions).unwrap();
        let expected =
            r#"[{"type":"A","status":"True","lastTransitionTime":"1970-01-01T00:00:00Z","reason":"x","message":""}]"#;
        assert_eq!(written, expected);
        // As in the older types.
        assert_eq!(serde_json::to_string(&condition("A", "True", "")).unwrap(), r#"{"type":"A","status":"True"}"#);
    }

    #[test]
    fn a_transition_is_a_change_of_the_status_alone() {
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000 + 999_999);
        let times = |conditions: &[Condition]| -> Vec<_> {
            conditions
                .iter()
                .map(|c| (c.reason.clone(), c.last_transition_time.unwrap().as_micros() / 1_000_000))
                .collect()
        };
        let expect = |wanted: &[(&str, i64)]| -> Vec<_> { wanted.iter().map(|(r, t)| ((*r).to_owned(), *t)).collect() };

        let conditions = set_condition(&[], condition("A", "False", "x"), at(1));
        let conditions = set_condition(&conditions, condition("B", "True", "y"), at(2));
        assert_eq!(times(&conditions), expect(&[("x", 1), ("y", 2)]));
        // Whole seconds, as returned by the API server.
        assert_eq!(conditions[0].last_transition_time, Some(Timestamp::from_micros(1_000_000)));

        let conditions = set_condition(&conditions, condition("A", "False", "z"), at(3));
        assert_eq!(times(&conditions), expect(&[("z", 1), ("y", 2)]));
        let conditions = set_condition(&conditions, condition("A", "True", "z"), at(4));
        assert_eq!(times(&conditions), expect(&[("z", 4), ("y", 2)]));
        assert!(is_true(&conditions, "A") && find_condition(&conditions, "C").is_none());

        let timeless = [condition("A", "True", "x")];
        assert_eq!(times(&set_condition(&timeless, condition("A", "True", "x"), at(5))), expect(&[("x", 5)]));
    }

    /// As `TestSetStatusCondition` of apimachinery's conditions_test.go.
    #[test]
    fn a_newer_generation_is_observed_without_a_transition() {
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        let observed = |generation| Condition { observed_generation: Some(generation), ..condition("A", "True", "x") };
        let conditions = set_condition(&[], observed(1), at(1));
        let conditions = set_condition(&conditions, observed(2), at(2));
        assert_eq!((conditions[0].observed_generation, conditions[0].last_transition_time), (Some(2), Some(at(1))));
    }
}
