//! Numbers that may be percentages, such as `maxSurge`.

use serde::{Deserialize, Serialize};

/// A number, or a percentage of something.
#[doc(alias = "IntOrString")]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum IntOrPercent {
    /// A number.
    Int(i32),
    /// For example `25%`.
    Text(String),
}

impl Default for IntOrPercent {
    fn default() -> Self {
        Self::Int(0)
    }
}

impl IntOrPercent {
    /// The number; a percentage is taken of `total`. `None` if the text is not a percentage.
    #[doc(alias = "GetScaledValueFromIntOrPercent")]
    pub fn scaled(&self, total: i32, round_up: bool) -> Option<i32> {
        match self {
            Self::Int(number) => Some(*number),
            Self::Text(text) => {
                let percent: i64 = text.strip_suffix('%')?.parse().ok()?;
                let hundredths = percent.saturating_mul(i64::from(total));
                let number = if round_up { -(-hundredths).div_euclid(100) } else { hundredths.div_euclid(100) };
                i32::try_from(number).ok()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_round_the_way_that_is_asked_for() {
        let quarter = IntOrPercent::Text("25%".into());
        assert_eq!((quarter.scaled(10, true), quarter.scaled(10, false)), (Some(3), Some(2)));
        assert_eq!((quarter.scaled(8, true), quarter.scaled(0, true)), (Some(2), Some(0)));
        assert_eq!(IntOrPercent::Int(4).scaled(1, true), Some(4));
        assert_eq!(IntOrPercent::Text("25".into()).scaled(1, true), None);
        assert_eq!(serde_json::from_str::<IntOrPercent>("3").unwrap(), IntOrPercent::Int(3));
    }
}
