//! Label and field selectors in requests.
//!
//! *Not here*: the grammar of label selectors (`pintle_core::object::selector`), which accepts any word as a key or
//! value.
//!
//! *Source*: apimachinery's `labels` and `fields` packages.

use pintle_core::object::selector::{Selector as Labels, SelectorForm};
use serde_json::Value;

use super::status::ApiError;
use crate::discovery::Resource;
use crate::names;
use crate::store::Version;

/// A parsed pair of selectors.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selector {
    labels: Labels,
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
    /// 400 when one does not parse, or contains a field that is not selectable.
    pub(crate) fn parse(resource: &Resource, labels: Option<&str>, fields: Option<&str>) -> Result<Self, ApiError> {
        let labels = labels.map(parse_labels).transpose()?.unwrap_or_default();
        let fields = fields.map(|text| parse_fields(resource, text)).transpose()?.unwrap_or_default();
        Ok(Self { labels, fields })
    }

    /// Whether everything matches.
    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(crate) fn matches(&self, object: &Version) -> bool {
        self.labels.matches(|key| object.label(key))
            && self.fields.iter().all(|term| (object.field(&term.field).unwrap_or("") == term.value) == term.equal)
    }

    /// Requires one name, as the deprecated watch of an object does.
    pub(crate) fn require_name(&mut self, name: &str) {
        self.fields.push(FieldTerm { field: "metadata.name".into(), value: name.to_owned(), equal: true });
    }
}

fn parse_labels(text: &str) -> Result<Labels, ApiError> {
    let bad = |why: String| ApiError::bad_request(format!("invalid label selector {text:?}: {why}"));
    let labels = Labels::parse(text).map_err(|error| bad(error.to_string()))?;
    let mut words =
        text.split(|letter: char| letter.is_whitespace() || ",()=!<>".contains(letter)).filter(|word| !word.is_empty());
    let parts = labels.to_json(SelectorForm::LabelSelector);
    let listed = parts["matchExpressions"].as_array().into_iter().flatten();
    let listed = listed.flat_map(|expression| expression["values"].as_array().into_iter().flatten());
    let mut values = parts["matchLabels"].as_object().into_iter().flatten().map(|(_, value)| value).chain(listed);
    let key = words.find_map(|word| Some((word, names::label_key(word)?)));
    let value = || values.find_map(|value| value.as_str().and_then(|value| Some((value, names::label_value(value)?))));
    match key.or_else(value) {
        Some((word, why)) => Err(bad(format!("{word:?} {why}"))),
        None => Ok(labels),
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
    // The newer Event names the object `regarding`, the store the older name.
    let stored = match field.strip_prefix("regarding.") {
        Some(rest) if &*resource.storage == "events" => format!("involvedObject.{rest}"),
        _ if &*resource.storage == "events" && field == "reportingController" => "reportingComponent".to_owned(),
        _ => field.to_owned(),
    };
    let general = stored == "metadata.name"
        || (stored == "metadata.namespace" && (resource.namespaced || resource.crd.is_none()));
    let known = crate::discovery::selectable_fields(resource, &Value::Null);
    if general || known.iter().any(|(name, _)| **name == *stored) {
        Ok(stored)
    } else {
        Err(ApiError::bad_request(format!("field label not supported: {field}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_selector_that_does_not_parse_is_refused() {
        let registry = crate::discovery::Registry::builtin();
        let pods = registry.by_plural("v1", "pods").unwrap();
        for selector in [
            "app in web",
            "a b",
            "=x",
            "x in (a",
            "x in (",
            "x,",
            "x>a",
            "x=(",
            "!!x",
            "-x",
            "-x=y",
            "-x>1",
            "x=-y",
            "a/b/c",
            "x=a/b",
            "x in (a,-b)",
            "x!=a b",
            "x<-2",
        ] {
            let refused = Selector::parse(pods, Some(selector), None).map(drop);
            assert_eq!(refused.map_err(|error| error.code), Err(400), "{selector}");
        }
        for selector in ["", "x", "!x", "x=", "x in (,a)", "in in (in, notin)", "a.b/c=d,e notin ()", "x>1,y<2"] {
            assert!(Selector::parse(pods, Some(selector), None).is_ok(), "{selector}");
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
