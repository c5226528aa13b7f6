//! Label selectors: parsing, conversion, printing and matching.

use std::collections::BTreeMap;
use std::fmt;

use crate::api::meta::LabelSelector;
use crate::error::Error;

/// Labels of an object.
pub trait Labels {
    /// The value of a label.
    fn value(&self, key: &str) -> Option<&str>;
}

impl Labels for BTreeMap<String, String> {
    fn value(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }
}

/// Conditions on labels, all of which must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// `None` matches nothing.
    requirements: Option<Vec<Requirement>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

impl Selector {
    /// Matches every object.
    pub const fn everything() -> Self {
        Self { requirements: Some(Vec::new()) }
    }

    /// Matches no object.
    pub const fn nothing() -> Self {
        Self { requirements: None }
    }

    /// The selector in an object's spec: absent matches nothing, empty everything.
    ///
    /// # Errors
    /// Terminal, if an operator is unknown or has the wrong number of values.
    #[doc(alias = "LabelSelectorAsSelector")]
    pub fn from_label_selector(selector: Option<&LabelSelector>) -> Result<Self, Error> {
        let Some(selector) = selector else {
            return Ok(Self::nothing());
        };
        let mut requirements = Self::from_map(&selector.match_labels).requirements.unwrap_or_default();
        for expression in &selector.match_expressions {
            let operator = match expression.operator.as_str() {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => {
                    return Err(Error::Terminal(format!("{other:?} is not a valid label selector operator")));
                }
            };
            if matches!(operator, Operator::In | Operator::NotIn) == expression.values.is_empty() {
                return Err(Error::Terminal(format!(
                    "label selector for {:?}: In and NotIn need values, Exists and DoesNotExist take none",
                    expression.key
                )));
            }
            requirements.push(Requirement { key: expression.key.clone(), operator, values: expression.values.clone() });
        }
        Ok(Self { requirements: Some(requirements) })
    }

    /// A selector for exactly these labels, as in a Service or a ReplicationController. An empty map matches
    /// everything.
    #[doc(alias = "SelectorFromSet")]
    pub fn from_map(labels: &BTreeMap<String, String>) -> Self {
        let requirement = |(key, value): (&String, &String)| Requirement {
            key: key.clone(),
            operator: Operator::In,
            values: vec![value.clone()],
        };
        Self { requirements: Some(labels.iter().map(requirement).collect()) }
    }

    /// Whether it has no conditions, so matches everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.as_ref().is_some_and(Vec::is_empty)
    }

    /// Whether it matches these labels.
    pub fn matches<L: Labels + ?Sized>(&self, labels: &L) -> bool {
        self.requirements.as_ref().is_some_and(|all| all.iter().all(|requirement| requirement.matches(labels)))
    }

    /// Parses kubectl's syntax: `a=b,c!=d,e in (f,g),h notin (i),j,!k`.
    ///
    /// # Errors
    /// Terminal, if it does not parse.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let error = || Error::Terminal(format!("label selector {text:?} does not parse"));
        let mut requirements = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            // A comma inside parentheses separates values, not requirements.
            let mut depth = 0;
            let end = rest
                .char_indices()
                .find(|(_, c)| {
                    match c {
                        '(' => depth += 1,
                        ')' => depth -= 1,
                        _ => {}
                    }
                    *c == ',' && depth == 0
                })
                .map_or(rest.len(), |(i, _)| i);
            requirements.push(Requirement::parse(rest[..end].trim()).ok_or_else(error)?);
            rest = rest.get(end + 1..).unwrap_or_default().trim_start();
        }
        Ok(Self { requirements: Some(requirements) })
    }
}

impl fmt::Display for Selector {
    /// In kubectl's syntax, for [`Query::labels`](crate::Query::labels). A selector for nothing becomes one that no
    /// object can match.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(requirements) = &self.requirements else {
            return f.write_str("x,!x");
        };
        for (i, requirement) in requirements.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            let Requirement { key, operator, values } = requirement;
            match (operator, values.as_slice()) {
                (Operator::In, [value]) => write!(f, "{key}={value}")?,
                (Operator::NotIn, [value]) => write!(f, "{key}!={value}")?,
                (Operator::In, values) => write!(f, "{key} in ({})", values.join(","))?,
                (Operator::NotIn, values) => write!(f, "{key} notin ({})", values.join(","))?,
                (Operator::Exists, _) => write!(f, "{key}")?,
                (Operator::DoesNotExist, _) => write!(f, "!{key}")?,
            }
        }
        Ok(())
    }
}

impl Requirement {
    fn matches<L: Labels + ?Sized>(&self, labels: &L) -> bool {
        let value = labels.value(&self.key);
        let listed = |value: &str| self.values.iter().any(|one| one == value);
        match self.operator {
            Operator::In => value.is_some_and(listed),
            Operator::NotIn => !value.is_some_and(listed),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let make = |key: &str, operator, values: Vec<String>| {
            let key = key.trim();
            let well_formed = !key.is_empty() && !key.contains(|c: char| c.is_whitespace() || "()!=,<>".contains(c));
            well_formed.then(|| Self { key: key.to_owned(), operator, values })
        };
        if let Some(key) = text.strip_prefix('!') {
            return make(key, Operator::DoesNotExist, Vec::new());
        }
        if let Some((left, values)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) {
            let values = values.split(',').map(|value| value.trim().to_owned()).collect();
            let left = left.trim_end();
            return if let Some(key) = left.strip_suffix(" notin") {
                make(key, Operator::NotIn, values)
            } else {
                make(left.strip_suffix(" in")?, Operator::In, values)
            };
        }
        for (sign, operator) in [("!=", Operator::NotIn), ("==", Operator::In), ("=", Operator::In)] {
            if let Some((key, value)) = text.split_once(sign) {
                return make(key, operator, vec![value.trim().to_owned()]);
            }
        }
        make(text, Operator::Exists, Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(text: &str) -> BTreeMap<String, String> {
        text.split(',').filter_map(|pair| pair.split_once('=')).map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
    }

    #[test]
    fn selectors_match_as_kubectl_says() {
        for (selector, object, expected) in [
            ("", "a=b", true),
            ("a=b", "a=b", true),
            ("a==b", "a=c", false),
            ("a!=b", "", true),
            ("a in (b, c),d", "a=c,d=x", true),
            ("a in (b,c),d", "a=c", false),
            ("a notin (b,c)", "a=b", false),
            ("a notin (b,c)", "", true),
            ("!a", "a=b", false),
            ("!a,b", "b=", true),
            ("x,!x", "x=y", false),
        ] {
            let parsed = Selector::parse(selector).unwrap();
            assert_eq!(parsed.matches(&labels(object)), expected, "{selector} on {object}");
            assert_eq!(Selector::parse(&parsed.to_string()).unwrap(), parsed, "{selector}");
        }
        for text in ["a b", "a in b", "in (b)", "=b", "a in (b"] {
            assert!(Selector::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_absent_selector_matches_nothing_and_an_empty_one_everything() {
        assert!(!Selector::from_label_selector(None).unwrap().matches(&labels("a=b")));
        assert!(Selector::from_label_selector(Some(&LabelSelector::default())).unwrap().matches(&labels("a=b")));
    }
}
