//! Label selectors with upstream's texts, including errors.
//!
//! A scale's selector is text that users can write for custom kinds, so it is validated before it is used.
//!
//! *Source*: `labels/selector.go` of apimachinery, and `LabelSelectorAsSelector`.

mod parse;
pub mod valid;

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use pintle_sdk::api::meta::LabelSelector;

use valid::{check, values_flaw};

/// A selector. `None` matches nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector(Option<Vec<Requirement>>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    In,
    NotIn,
    Equals,
    DoubleEquals,
    NotEquals,
    Exists,
    DoesNotExist,
    Greater,
    Less,
}

impl Selector {
    /// Parses the syntax of kubectl.
    ///
    /// # Errors
    /// Upstream's error text.
    #[doc(alias = "Parse")]
    pub fn parse(text: &str) -> Result<Self, String> {
        parse::parse(text).map(Self::sorted)
    }

    /// The selector in an object's spec; an absent one matches nothing.
    ///
    /// # Errors
    /// Upstream's error text.
    #[doc(alias = "LabelSelectorAsSelector")]
    pub fn from_label_selector(selector: Option<&LabelSelector>) -> Result<Self, String> {
        let Some(selector) = selector else { return Ok(Self(None)) };
        let labels = selector.match_labels.iter();
        let labels = labels.map(|(key, value)| Requirement::new(key, Operator::Equals, vec![value.clone()]));
        let mut requirements = labels.collect::<Result<Vec<_>, _>>()?;
        for expression in &selector.match_expressions {
            let operator = match expression.operator.as_str() {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => return Err(format!("{other:?} is not a valid label selector operator")),
            };
            requirements.push(Requirement::new(&expression.key, operator, expression.values.clone())?);
        }
        Ok(Self::sorted(requirements))
    }

    #[doc(alias = "ByKey")]
    fn sorted(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Self(Some(requirements))
    }

    /// Whether it matches these labels.
    #[doc(alias = "Matches")]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.as_ref().is_some_and(|all| all.iter().all(|requirement| requirement.matches(labels)))
    }

    /// Whether a selector with this printed text certainly does not match, because it requires another value of a
    /// label. Returns `false` without further checks if the selector has conditions other than equality and presence.
    pub fn excludes(text: &str, labels: &BTreeMap<String, String>) -> bool {
        let differs = |(key, value): (&str, &str)| labels.get(key).is_none_or(|label| label != value);
        !text.contains(['!', '(', '<', '>'])
            && !text.contains("==")
            && text.split(',').filter_map(|condition| condition.split_once('=')).any(differs)
    }

    /// The conditions that every selector parser supports, to narrow down a list.
    pub fn hint(&self) -> String {
        let simple = |requirement: &&Requirement| match requirement.operator {
            Operator::Equals | Operator::DoubleEquals => requirement.values.iter().all(|value| !value.is_empty()),
            Operator::Exists => true,
            _ => false,
        };
        let requirements = self.0.iter().flatten().filter(simple);
        let mut text = String::new();
        for requirement in requirements {
            let comma = if text.is_empty() { "" } else { "," };
            // Writing to a String does not fail.
            let _ = write!(text, "{comma}{requirement}");
        }
        text
    }
}

impl Operator {
    /// The operator's error for its values. The parser gives one value to each operator that compares numbers.
    #[doc(alias = "NewRequirement")]
    fn flaw(self, values: &[String]) -> Option<String> {
        let why = match self {
            Self::In | Self::NotIn if values.is_empty() => "for 'in', 'notin' operators, values set can't be empty",
            Self::Equals | Self::DoubleEquals | Self::NotEquals if values.len() != 1 => {
                "exact-match compatibility requires one single value"
            }
            Self::Exists | Self::DoesNotExist if !values.is_empty() => {
                "values set must be empty for exists and does not exist"
            }
            Self::Greater | Self::Less => {
                let value = values.first().filter(|value| value.parse::<i64>().is_err())?;
                let why = "for 'Gt', 'Lt' operators, the value must be an integer";
                return Some(format!("values[0]: Invalid value: {value:?}: {why}"));
            }
            _ => return None,
        };
        Some(values_flaw(values, why))
    }
}

impl Requirement {
    /// # Errors
    /// All errors.
    #[doc(alias = "NewRequirement")]
    fn new(key: &str, operator: Operator, values: Vec<String>) -> Result<Self, String> {
        check(key, operator.flaw(&values), &values)?;
        Ok(Self { key: key.to_owned(), operator, values })
    }

    #[doc(alias = "Matches")]
    fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        let is_listed = |value: &String| self.values.contains(value);
        let number = |text: &String| text.parse::<i64>().ok();
        let compared = || Some((number(value?)?, number(self.values.first()?)?));
        match self.operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => value.is_some_and(is_listed),
            Operator::NotIn | Operator::NotEquals => !value.is_some_and(is_listed),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Greater => compared().is_some_and(|(value, bound)| value > bound),
            Operator::Less => compared().is_some_and(|(value, bound)| value < bound),
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut values: Vec<&str> = self.values.iter().map(String::as_str).collect();
        values.sort_unstable();
        let (key, values) = (&self.key, values.join(","));
        match self.operator {
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::Greater => write!(f, "{key}>{values}"),
            Operator::Less => write!(f, "{key}<{values}"),
            Operator::Exists => f.write_str(key),
            Operator::DoesNotExist => write!(f, "!{key}"),
        }
    }
}

impl fmt::Display for Selector {
    /// The text that is sent. A selector that matches nothing is empty, as upstream's.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, requirement) in self.0.iter().flatten().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_key_does_not_hide_the_flaws_of_values() {
        let flaw = |operator, values: &[&str]| {
            let values = values.iter().map(|value| (*value).to_owned()).collect();
            Requirement::new("/a", operator, values).unwrap_err()
        };
        let key = "key: Invalid value: \"/a\": prefix part must be non-empty";
        assert_eq!(flaw(Operator::Equals, &["b"]), key);
        let values = "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty";
        assert_eq!(flaw(Operator::In, &[]), format!("[{key}, {values}]"));
        let both = flaw(Operator::Exists, &["-"]);
        let values = "values: Invalid value: [\"-\"]: values set must be empty for exists and does not exist";
        assert!(both.starts_with(&format!("[{key}, {values}, values[0][/a]: Invalid value: \"-\": ")), "{both}");
    }

    #[test]
    fn what_is_excluded_by_the_text_never_matches() {
        let texts =
            ["", "a", "a=1", "a=2", "a==2", "a!=2", "!a", "a in (1,2)", "a notin (2)", "a=1,b=1", "a=1,b", "b=,a=1"];
        let values = [None, Some(""), Some("1"), Some("2")];
        let mut n_excluded = 0;
        for text in texts {
            let selector = Selector::parse(text).unwrap();
            for (a, b) in values.iter().flat_map(|a| values.iter().map(move |b| (a, b))) {
                let labels = [("a", a), ("b", b)].into_iter();
                let labels = labels.filter_map(|(key, value)| Some((key.to_owned(), (*value)?.to_owned())));
                let labels: BTreeMap<String, String> = labels.collect();
                for text in [text, &selector.to_string()] {
                    let is_excluded = Selector::excludes(text, &labels);
                    assert!(!(is_excluded && selector.matches(&labels)), "{text:?} {labels:?}");
                    n_excluded += usize::from(is_excluded);
                }
            }
        }
        assert!(n_excluded > 50, "{n_excluded}");
    }
}
