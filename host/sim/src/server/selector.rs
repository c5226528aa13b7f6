//! Label and field selectors as clients write them.
//!
//! *Not here*: the grammar of label selectors (`labels`).
//!
//! *Source*: apimachinery's `labels` and `fields` packages.

use super::labels::{LabelTerm, Operator, parse_labels};
use super::status::ApiError;
use crate::discovery::Resource;
use crate::store::Version;

/// A parsed pair of selectors.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selector {
    labels: Vec<LabelTerm>,
    fields: Vec<FieldTerm>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldTerm {
    field: String,
    value: String,
    equal: bool,
}

impl Selector {
    /// Parses both selectors for a resource.
    ///
    /// # Errors
    /// 400 when one does not parse or names a field by which the kind cannot be selected.
    pub(crate) fn parse(resource: &Resource, labels: Option<&str>, fields: Option<&str>) -> Result<Self, ApiError> {
        let labels = labels.map(parse_labels).transpose().map_err(ApiError::bad_request)?.unwrap_or_default();
        let fields = fields.map(|text| parse_fields(resource, text)).transpose()?.unwrap_or_default();
        Ok(Self { labels, fields })
    }

    /// Whether everything matches.
    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(crate) fn matches(&self, object: &Version) -> bool {
        self.labels.iter().all(|term| matches_label(term, object.label(&term.key)))
            && self.fields.iter().all(|term| (object.field(&term.field).unwrap_or("") == term.value) == term.equal)
    }

    /// Adds the demand for one name, as the deprecated watch of an object does.
    pub(crate) fn require_name(&mut self, name: &str) {
        self.fields.push(FieldTerm { field: "metadata.name".into(), value: name.to_owned(), equal: true });
    }
}

fn matches_label(term: &LabelTerm, found: Option<&str>) -> bool {
    match &term.is {
        Operator::Exists => found.is_some(),
        Operator::Absent => found.is_none(),
        Operator::In(values) => found.is_some_and(|found| values.iter().any(|value| value == found)),
        Operator::NotIn(values) => found.is_none_or(|found| values.iter().all(|value| value != found)),
        Operator::Greater(bound) => {
            found.and_then(|found| found.parse::<i64>().ok()).is_some_and(|found| found > *bound)
        }
        Operator::Less(bound) => found.and_then(|found| found.parse::<i64>().ok()).is_some_and(|found| found < *bound),
    }
}

fn parse_fields(resource: &Resource, text: &str) -> Result<Vec<FieldTerm>, ApiError> {
    let mut terms = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (field, value, equal) = if let Some((field, value)) = part.split_once("!=") {
            (field, value, false)
        } else if let Some((field, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
            (field, value, true)
        } else {
            return Err(ApiError::bad_request(format!("invalid selector: '{text}'; can't understand '{part}'")));
        };
        terms.push(FieldTerm { field: selectable(resource, field)?, value: value.to_owned(), equal });
    }
    Ok(terms)
}

/// The name under which the store has the field.
fn selectable(resource: &Resource, field: &str) -> Result<String, ApiError> {
    // The newer Event calls the object `regarding`, the store keeps the older name.
    let stored = match field.strip_prefix("regarding.") {
        Some(rest) if &*resource.storage == "events" => format!("involvedObject.{rest}"),
        _ if &*resource.storage == "events" && field == "reportingController" => "reportingComponent".to_owned(),
        _ => field.to_owned(),
    };
    let general = stored == "metadata.name"
        || (stored == "metadata.namespace" && (resource.namespaced || resource.crd.is_none()));
    let known = crate::discovery::selectable_fields(resource, &serde_json::Value::Null);
    if general || known.iter().any(|(name, _)| **name == *stored) {
        Ok(stored)
    } else {
        // Kinds with fields of their own to select by say it in another way, upstream.
        Err(ApiError::bad_request(if known.is_empty() && resource.crd.is_none() {
            format!("{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
        } else {
            format!("field label not supported: {field}")
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(selector: &str, labels: &[(&str, &str)]) -> bool {
        parse_labels(selector)
            .unwrap()
            .iter()
            .all(|term| matches_label(term, labels.iter().find(|(key, _)| *key == term.key).map(|(_, value)| *value)))
    }

    #[test]
    fn label_selectors_follow_upstream() {
        let web = &[("app", "web"), ("tier", "2")];
        for (selector, expected) in [
            ("app=web", true),
            ("app==web", true),
            ("app!=web", false),
            ("other!=x", true),
            ("app", true),
            ("!app", false),
            ("!other", true),
            ("app in (db, web)", true),
            ("app notin (db,web)", false),
            ("other notin (a)", true),
            ("tier>1", true),
            ("tier<2", false),
            ("app=web,tier in (1,2),!gone", true),
            ("app=", false),
        ] {
            assert_eq!(matches(selector, web), expected, "{selector}");
        }
    }

    #[test]
    fn a_selector_that_does_not_parse_is_refused() {
        for selector in ["app in web", "a b", "=x", "x in (a"] {
            assert!(parse_labels(selector).is_err(), "{selector}");
        }
    }

    #[test]
    fn only_known_fields_select() {
        let registry = crate::discovery::Registry::builtin();
        let pods = registry.by_plural("v1", "pods").unwrap();
        assert!(Selector::parse(pods, None, Some("spec.nodeName=a,metadata.name!=b")).is_ok());
        assert_eq!(
            Selector::parse(pods, None, Some("spec.containers=a")).unwrap_err().message,
            "field label not supported: spec.containers"
        );
    }
}
