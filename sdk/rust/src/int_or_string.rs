//! Numbers or strings, such as ports and quantities of custom kinds.

use serde::{Deserialize, Serialize};

/// A number or a string, for a schema with `x-kubernetes-int-or-string`. For percentages of a number, see
/// [`IntOrPercent`](crate::int_or_percent::IntOrPercent).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum IntOrString {
    /// A number.
    Int(i64),
    /// A string, for example `http` or `512Mi`.
    Text(String),
}

impl Default for IntOrString {
    fn default() -> Self {
        Self::Int(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_written_as_it_was_read() {
        for text in ["8589934592", "-1", "\"http\"", "\"\""] {
            let value: IntOrString = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&value).unwrap(), text);
        }
        assert!(serde_json::from_str::<IntOrString>("true").is_err());
    }
}
