//! Label selectors: kubectl's text form, the `LabelSelector` of workloads, the plain map of Services.
//!
//! Differs from upstream: keys and values are not checked against the label syntax; an invalid label matches nothing.
//!
//! Source: `k8s.io/apimachinery/pkg/labels`, `meta/v1/LabelSelector`.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Formats of selectors inside objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SelectorForm {
    /// `matchLabels` and `matchExpressions`, as in a ReplicaSet.
    LabelSelector,
    /// A map of labels, as in a Service.
    Map,
}

/// All requirements must hold. Without requirements, everything is selected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    requirements: Box<[Requirement]>,
    /// Cost of one evaluation, in units of [`Work`](crate::object::work::Work).
    cost: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: Box<str>,
    test: Test,
}

impl Requirement {
    /// As an element of `matchExpressions`.
    fn expression(&self) -> Option<Value> {
        let key = &self.key;
        match &self.test {
            Test::In(values) => Some(json!({"key": key, "operator": "In", "values": values})),
            Test::NotIn(values) => Some(json!({"key": key, "operator": "NotIn", "values": values})),
            Test::Exists => Some(json!({"key": key, "operator": "Exists"})),
            Test::Missing => Some(json!({"key": key, "operator": "DoesNotExist"})),
            Test::Equals(_) | Test::Greater(_) | Test::Less(_) => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Equals(Box<str>),
    In(Values),
    /// Also holds if the label is missing.
    NotIn(Values),
    Exists,
    Missing,
    Greater(i64),
    Less(i64),
}

/// A sorted set of values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Values(Box<[Box<str>]>);

impl Values {
    fn new(mut values: Vec<Box<str>>) -> Self {
        values.sort_unstable();
        values.dedup();
        Self(values.into())
    }

    fn contains(&self, value: &str) -> bool {
        self.0.binary_search_by(|ours| (**ours).cmp(value)).is_ok()
    }
}

/// An invalid selector. The message contains the cause.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(pub String);

impl Selector {
    /// Parses kubectl's syntax: `a=b,c in (d,e),f notin (g),h,!i,j!=k,l>1`. The empty text selects everything.
    ///
    /// # Errors
    /// [`SelectorError`]; retrying does not help.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut parser = Parser { rest: text };
        let mut requirements = Vec::new();
        parser.skip_space();
        while !parser.rest.is_empty() {
            requirements.push(parser.requirement()?);
            parser.skip_space();
            if parser.rest.is_empty() {
                break;
            }
            if !parser.eat(",") {
                return Err(SelectorError(format!("expected ',' before {:?}", parser.rest)));
            }
            parser.skip_space();
            if parser.rest.is_empty() {
                return Err(SelectorError("nothing follows the last ','".into()));
            }
        }
        Ok(Self::new(requirements))
    }

    /// Parses the JSON of a selector inside an object; `None` for JSON null.
    ///
    /// # Errors
    /// [`SelectorError`] if it has another shape or an unknown operator; retrying does not help.
    pub fn from_json(json: &str, form: SelectorForm) -> Result<Option<Self>, SelectorError> {
        let malformed = |why: serde_json::Error| SelectorError(why.to_string());
        match form {
            SelectorForm::Map => {
                let labels: Option<BTreeMap<Box<str>, Box<str>>> = serde_json::from_str(json).map_err(malformed)?;
                Ok(labels.map(Self::equal))
            }
            SelectorForm::LabelSelector => {
                let parts: Option<LabelSelector> = serde_json::from_str(json).map_err(malformed)?;
                parts.map(Self::from_parts).transpose()
            }
        }
    }

    /// Returns JSON of this form that parses to this selector. Requirements that only kubectl's text form has are left
    /// out.
    pub fn to_json(&self, form: SelectorForm) -> Value {
        let equal = self.requirements.iter().filter_map(|requirement| match &requirement.test {
            Test::Equals(value) => Some((requirement.key.to_string(), json!(value))),
            _ => None,
        });
        let labels: Map<String, Value> = equal.collect();
        if form == SelectorForm::Map {
            return Value::Object(labels);
        }
        let expressions: Vec<Value> = self.requirements.iter().filter_map(Requirement::expression).collect();
        let mut selector = Map::new();
        if !labels.is_empty() {
            selector.insert("matchLabels".into(), Value::Object(labels));
        }
        if !expressions.is_empty() {
            selector.insert("matchExpressions".into(), Value::Array(expressions));
        }
        Value::Object(selector)
    }

    fn new(requirements: Vec<Requirement>) -> Self {
        let cost = requirements.iter().map(|requirement| requirement.test.cost()).sum();
        Self { requirements: requirements.into(), cost }
    }

    /// Number of requirements.
    pub fn n_requirements(&self) -> usize {
        self.requirements.len()
    }

    /// Maximum units of [`Work`](crate::object::work::Work) of one call of [`matches`](Self::matches).
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// Whether everything is selected.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether an object with these labels is selected.
    pub fn matches<'l>(&self, label: impl Fn(&str) -> Option<&'l str>) -> bool {
        self.requirements.iter().all(|requirement| requirement.test.holds(label(&requirement.key)))
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.requirements.iter().map(|r| size_of::<Requirement>() + r.key.len() + r.test.heap_bytes()).sum()
    }

    fn equal(labels: BTreeMap<Box<str>, Box<str>>) -> Self {
        let requirements = labels.into_iter().map(|(key, value)| Requirement { key, test: Test::Equals(value) });
        Self::new(requirements.collect())
    }

    fn from_parts(parts: LabelSelector) -> Result<Self, SelectorError> {
        let mut requirements = Self::equal(parts.match_labels.unwrap_or_default()).requirements.into_vec();
        for expression in parts.match_expressions.unwrap_or_default() {
            let values = expression.values.unwrap_or_default();
            let test = match (&*expression.operator, values.is_empty()) {
                ("In", false) => Test::In(Values::new(values)),
                ("NotIn", false) => Test::NotIn(Values::new(values)),
                ("Exists", true) => Test::Exists,
                ("DoesNotExist", true) => Test::Missing,
                ("In" | "NotIn", true) => {
                    return Err(SelectorError(format!("operator {} needs values", expression.operator)));
                }
                ("Exists" | "DoesNotExist", false) => {
                    return Err(SelectorError(format!("operator {} takes no values", expression.operator)));
                }
                (other, _) => {
                    return Err(SelectorError(format!(
                        "operator {other:?} is not one of In, NotIn, Exists, DoesNotExist"
                    )));
                }
            };
            requirements.push(Requirement { key: expression.key, test });
        }
        Ok(Self::new(requirements))
    }
}

impl Test {
    fn holds(&self, value: Option<&str>) -> bool {
        match self {
            Self::Equals(wanted) => value == Some(&**wanted),
            Self::In(wanted) => value.is_some_and(|value| wanted.contains(value)),
            Self::NotIn(unwanted) => value.is_none_or(|value| !unwanted.contains(value)),
            Self::Exists => value.is_some(),
            Self::Missing => value.is_none(),
            Self::Greater(bound) => value.and_then(|v| v.parse::<i64>().ok()).is_some_and(|v| v > *bound),
            Self::Less(bound) => value.and_then(|v| v.parse::<i64>().ok()).is_some_and(|v| v < *bound),
        }
    }

    fn cost(&self) -> u64 {
        match self {
            Self::In(values) | Self::NotIn(values) => 2 + u64::from(values.0.len().max(1).ilog2()),
            _ => 2,
        }
    }

    fn heap_bytes(&self) -> usize {
        match self {
            Self::Equals(value) => value.len(),
            Self::In(values) | Self::NotIn(values) => values.0.iter().map(|v| size_of::<Box<str>>() + v.len()).sum(),
            _ => 0,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LabelSelector {
    match_labels: Option<BTreeMap<Box<str>, Box<str>>>,
    match_expressions: Option<Vec<Expression>>,
}

#[derive(Deserialize)]
struct Expression {
    key: Box<str>,
    operator: Arc<str>,
    values: Option<Vec<Box<str>>>,
}

struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn eat(&mut self, token: &str) -> bool {
        self.skip_space();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Reads the characters allowed in keys and values; the result may be empty.
    fn word(&mut self) -> &'a str {
        self.skip_space();
        let end = self.rest.find(|c: char| c.is_whitespace() || ",()=!<>".contains(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        let missing = self.eat("!");
        let key = self.word();
        if key.is_empty() {
            return Err(SelectorError(format!("expected a label key before {:?}", self.rest)));
        }
        let key: Box<str> = key.into();
        if missing {
            return Ok(Requirement { key, test: Test::Missing });
        }
        let test = if self.eat("==") || self.eat("=") {
            Test::Equals(self.word().into())
        } else if self.eat("!=") {
            Test::NotIn(Values::new(vec![self.word().into()]))
        } else if self.eat(">") {
            Test::Greater(self.number()?)
        } else if self.eat("<") {
            Test::Less(self.number()?)
        } else {
            self.skip_space();
            if self.rest.is_empty() || self.rest.starts_with(',') {
                Test::Exists
            } else {
                match self.word() {
                    "in" => Test::In(self.values()?),
                    "notin" => Test::NotIn(self.values()?),
                    other => {
                        let found = if other.is_empty() { self.rest } else { other };
                        return Err(SelectorError(format!(
                            "expected one of = == != in notin < > after {key:?}, found {found:?}"
                        )));
                    }
                }
            }
        };
        Ok(Requirement { key, test })
    }

    fn number(&mut self) -> Result<i64, SelectorError> {
        let word = self.word();
        word.parse().map_err(|_| SelectorError(format!("{word:?} is not an integer")))
    }

    fn values(&mut self) -> Result<Values, SelectorError> {
        if !self.eat("(") {
            return Err(SelectorError(format!("expected '(' before {:?}", self.rest)));
        }
        let mut values = Vec::new();
        loop {
            values.push(self.word().into());
            if self.eat(")") {
                return Ok(Values::new(values));
            }
            if !self.eat(",") {
                return Err(SelectorError(format!("expected ',' or ')' before {:?}", self.rest)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(selector: &Selector, labels: &[(&str, &'static str)]) -> bool {
        selector.matches(|key| labels.iter().find(|(k, _)| *k == key).map(|(_, v)| *v))
    }

    #[test]
    fn each_operator_selects_as_kubectl_does() {
        let labels = [("app", "web"), ("tier", "front"), ("size", "10"), ("empty", "")];
        for (text, expected) in [
            ("", true),
            ("app=web", true),
            ("app==web,tier=front", true),
            (" app = web , tier ", true),
            ("app=db", false),
            ("app!=db", true),
            ("app!=web", false),
            ("other!=web", true),
            ("app in (db, web)", true),
            ("app in (db)", false),
            ("other in (db)", false),
            ("app notin (db)", true),
            ("app notin (db,web)", false),
            ("other notin (db)", true),
            ("app", true),
            ("other", false),
            ("!other", true),
            ("!app", false),
            ("size>9", true),
            ("size>10", false),
            ("size<11", true),
            ("app<11", false),
            ("empty=", true),
            ("app=", false),
            ("empty in (,x)", true),
            ("in in (a)", false),
        ] {
            let selector = Selector::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"));
            assert_eq!(matches(&selector, &labels), expected, "{text}");
        }
    }

    #[test]
    fn the_cost_of_a_selector_counts_every_requirement_and_hardly_its_values() {
        let cost = |text: &str| Selector::parse(text).unwrap().cost();
        assert_eq!([cost(""), cost("a"), cost("a=b,!c"), cost("a in (b)")], [0, 2, 4, 2]);
        let values: Vec<String> = (0..1024).map(|i| format!("v{i}")).collect();
        assert_eq!(cost(&format!("a notin ({})", values.join(","))), 12);
        let map = Selector::from_json(r#"{"a":"b","c":"d"}"#, SelectorForm::Map).unwrap().unwrap();
        assert_eq!(map.cost(), 4);
    }

    #[test]
    fn a_bad_selector_says_what_is_wrong() {
        for (text, why) in [
            ("app in db", "expected '(' before \"db\""),
            ("app in (db", "expected ',' or ')' before \"\""),
            ("app=web,", "nothing follows the last ','"),
            (",app", "expected a label key before \",app\""),
            ("app like web", "expected one of = == != in notin < > after \"app\", found \"like\""),
            ("app>x", "\"x\" is not an integer"),
            ("app=a b", "expected ',' before \"b\""),
            ("=b", "expected a label key before \"=b\""),
        ] {
            assert_eq!(Selector::parse(text).unwrap_err().to_string(), why, "{text}");
        }
    }

    #[test]
    fn selectors_inside_objects_are_read() {
        let form = SelectorForm::LabelSelector;
        let json = r#"{"matchLabels":{"app":"web"},"matchExpressions":[
            {"key":"tier","operator":"In","values":["front","back"]},{"key":"x","operator":"DoesNotExist"}]}"#;
        let selector = Selector::from_json(json, form).unwrap().unwrap();
        assert!(matches(&selector, &[("app", "web"), ("tier", "back")]));
        assert!(!matches(&selector, &[("app", "web"), ("tier", "back"), ("x", "")]));
        assert!(!matches(&selector, &[("app", "web")]));
        assert_eq!(Selector::from_json("null", form).unwrap(), None);
        assert!(Selector::from_json("{}", form).unwrap().unwrap().is_empty());
        for bad in [
            r#"{"matchExpressions":[{"key":"a","operator":"Like"}]}"#,
            r#"{"matchExpressions":[{"key":"a","operator":"In"}]}"#,
            r#"{"matchExpressions":[{"key":"a","operator":"Exists","values":["b"]}]}"#,
            r#"{"matchLabels":[]}"#,
        ] {
            assert!(Selector::from_json(bad, form).is_err(), "{bad}");
        }
        let map = Selector::from_json(r#"{"app":"web"}"#, SelectorForm::Map).unwrap().unwrap();
        assert!(matches(&map, &[("app", "web")]) && !matches(&map, &[]));
    }

    #[test]
    fn selectors_inside_objects_are_written_as_they_were_read() {
        let expressions = r#"{"matchLabels":{"app":"web","x":"y"},"matchExpressions":[
            {"key":"tier","operator":"In","values":["back","front"]},{"key":"a","operator":"NotIn","values":["b"]},
            {"key":"c","operator":"Exists"},{"key":"d","operator":"DoesNotExist"}]}"#;
        for (text, form) in [
            (expressions, SelectorForm::LabelSelector),
            ("{}", SelectorForm::LabelSelector),
            (r#"{"app":"web","x":"y"}"#, SelectorForm::Map),
            ("{}", SelectorForm::Map),
        ] {
            let written = Selector::from_json(text, form).unwrap().unwrap().to_json(form);
            assert_eq!(written, serde_json::from_str::<Value>(text).unwrap());
        }
    }
}
