//! Conditions of a status.

use crate::api::meta::Condition;

/// The condition of this type.
pub fn find<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.kind == kind)
}

/// Whether the condition of this type is `True`.
pub fn is_true(conditions: &[Condition], kind: &str) -> bool {
    find(conditions, kind).is_some_and(|condition| condition.status == "True")
}

/// Removes the condition of this type.
pub fn remove(conditions: &mut Vec<Condition>, kind: &str) {
    conditions.retain(|condition| condition.kind != kind);
}

/// Sets a condition as the controllers of `apps` do: nothing happens if status and reason are the same already;
/// otherwise it becomes the last one, with the old transition time if only the reason differs.
pub fn set(conditions: &mut Vec<Condition>, mut condition: Condition) {
    if let Some(current) = find(conditions, &condition.kind) {
        if current.status == condition.status && current.reason == condition.reason {
            return;
        }
        if current.status == condition.status {
            condition.last_transition_time = current.last_transition_time;
        }
    }
    remove(conditions, &condition.kind);
    conditions.push(condition);
}
