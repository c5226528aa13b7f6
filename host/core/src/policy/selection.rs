//! Whether a watch with selectors shows an object, as far as the answer to a write contains the necessary fields.
//!
//! Source: `k8s.io/apimachinery/pkg/fields`. Every kind supports the fields `metadata.name` and `metadata.namespace`;
//! other fields depend on the kind, and the answer to a write does not contain them.

use std::collections::BTreeMap;

use crate::object::id::ObjectKey;
use crate::object::selector::Selector;

/// Whether a watch shows an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Selected {
    /// The watch shows it.
    #[default]
    Yes,
    /// The watch does not show it: its caches do not contain the object.
    No,
    /// Only the API server can decide.
    Unknown,
}

/// The selectors of a watch.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Absent if the text does not parse: then the API server decides.
    labels: Option<Selector>,
    fields: Vec<FieldTerm>,
}

#[derive(Clone, Debug)]
struct FieldTerm {
    field: Field,
    value: Box<str>,
    is_equal: bool,
}

#[derive(Clone, Copy, Debug)]
enum Field {
    Name,
    Namespace,
    Other,
}

impl FieldTerm {
    fn parse(text: &str) -> Self {
        let (path, value, is_equal) = match text.split_once("!=") {
            Some((path, value)) => (path, value, false),
            None => {
                let (path, value) = text.split_once('=').unwrap_or((text, ""));
                (path, value.strip_prefix('=').unwrap_or(value), true)
            }
        };
        let field = match path.trim() {
            "metadata.name" => Field::Name,
            "metadata.namespace" => Field::Namespace,
            _ => Field::Other,
        };
        Self { field, value: value.trim().into(), is_equal }
    }
}

impl Selection {
    /// Creates the selection from the selectors of a watch; absent ones select everything.
    pub fn new(labels: Option<&str>, fields: Option<&str>) -> Self {
        let terms = fields.unwrap_or_default().split(',').filter(|term| !term.trim().is_empty());
        Self { labels: Selector::parse(labels.unwrap_or_default()).ok(), fields: terms.map(FieldTerm::parse).collect() }
    }

    /// Whether the watch shows the object with these labels; `None` if its labels are unknown.
    pub fn of(&self, object: &ObjectKey, labels: Option<&BTreeMap<String, String>>) -> Selected {
        let by_labels = match (&self.labels, labels) {
            (Some(selector), _) if selector.is_empty() => Selected::Yes,
            (Some(selector), Some(labels)) => match selector.matches(|key| labels.get(key).map(String::as_str)) {
                true => Selected::Yes,
                false => Selected::No,
            },
            _ => Selected::Unknown,
        };
        let by_fields = self.fields.iter().map(|term| {
            let found = match term.field {
                Field::Name => &object.name,
                Field::Namespace => &object.namespace,
                Field::Other => return Selected::Unknown,
            };
            if (**found == *term.value) == term.is_equal { Selected::Yes } else { Selected::No }
        });
        let mut result = by_labels;
        for term in by_fields {
            result = match (result, term) {
                (Selected::No, _) | (_, Selected::No) => Selected::No,
                (Selected::Unknown, _) | (_, Selected::Unknown) => Selected::Unknown,
                (Selected::Yes, Selected::Yes) => Selected::Yes,
            };
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_watch_shows_follows_from_labels_and_names_as_far_as_they_are_known() {
        use Selected::{No, Unknown, Yes};
        let web = Some(BTreeMap::from([("app".to_owned(), "web".to_owned())]));
        for (labels, fields, of, expected) in [
            (None, None, &None, Yes),
            (Some("app=web"), None, &web, Yes),
            (Some("app=db"), None, &web, No),
            (Some("!app"), None, &web, No),
            (Some("app=web"), None, &None, Unknown),
            (Some("app ~ web"), None, &web, Unknown),
            (None, Some("metadata.name=p"), &None, Yes),
            (None, Some("metadata.name==p,metadata.namespace!=other"), &None, Yes),
            (None, Some("metadata.name=q"), &None, No),
            (None, Some("metadata.namespace!=ns"), &None, No),
            (None, Some("status.phase!=Running"), &web, Unknown),
            (None, Some("status.phase!=Running,metadata.name=q"), &web, No),
            (Some("app=db"), Some("status.phase=Running"), &web, No),
            (Some("app=web"), Some("status.phase=Running"), &web, Unknown),
        ] {
            let selection = Selection::new(labels, fields);
            assert_eq!(selection.of(&ObjectKey::new("ns", "p"), of.as_ref()), expected, "{labels:?} {fields:?}");
        }
    }
}
