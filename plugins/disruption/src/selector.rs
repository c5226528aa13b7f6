//! Selectors of budgets: what is wrong with them, in upstream's words.
//!
//! *Source*: `LabelSelectorAsSelector` of apimachinery.

use std::slice;

use pintle_sdk::api::meta::{LabelSelector, LabelSelectorRequirement};
use pintle_sdk::selector::valid;

/// Checks what the API server checks, but for values of labels in budgets from before it did.
///
/// # Errors
/// What is wrong with the first part that is.
pub(crate) fn check(selector: Option<&LabelSelector>) -> Result<(), String> {
    let Some(selector) = selector else { return Ok(()) };
    for (key, value) in &selector.match_labels {
        valid::check(key, None, slice::from_ref(value))?;
    }
    for LabelSelectorRequirement { key, operator, values } in &selector.match_expressions {
        let wrong = match (operator.as_str(), values.is_empty()) {
            ("In" | "NotIn", true) => Some("for 'in', 'notin' operators, values set can't be empty"),
            ("Exists" | "DoesNotExist", false) => Some("values set must be empty for exists and does not exist"),
            ("In" | "NotIn" | "Exists" | "DoesNotExist", _) => None,
            (other, _) => return Err(format!("{other:?} is not a valid label selector operator")),
        };
        valid::check(key, wrong.map(|why| valid::values_flaw(values, why)), values)?;
    }
    Ok(())
}
