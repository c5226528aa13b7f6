//! The read set of a run: everything it read, kept for a replay.
//!
//! *Flow*: the view of a run logs its reads; after a failure it returns the objects that were found, in their cached
//! form; [`ReadObject::value`] turns each into an object that another cache stores in the same way.
//!
//! *Not here*: the selection and retention of runs (`pintle-runtime`'s `failures`).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::contract::outcome::Answers;
use crate::object::field::FieldPath;
use crate::object::id::Kind;
use crate::object::selector::{Selector, SelectorForm};
use crate::object::{Object, OwnerRef};
use crate::ports::api::ApiResource;

/// Bytes of an object in addition to its texts: its metadata and the references to it.
const OBJECT_BYTES: usize = 512;

/// Everything that a run read through its view.
#[derive(Clone, Debug, Default)]
pub struct ReadSet {
    /// Objects that its reads returned or counted, without duplicates, in read order.
    pub objects: Vec<ReadObject>,
    /// Result of discovery, if the run requested it.
    pub resources: Option<Arc<[ApiResource]>>,
    /// The state under each name that the run read; `None` for names without a value.
    pub state: BTreeMap<Arc<str>, Arc<str>>,
    /// Answers to its needs.
    pub answers: Answers,
    /// Whether parts were left out because of the size limit.
    pub is_incomplete: bool,
}

/// A cached object that a run read.
#[derive(Clone, Debug)]
pub struct ReadObject {
    /// Shared by the objects of a kind.
    pub form: Arc<Form>,
    /// The parts that queries use, as of the read; without the texts of other plugins, which the caches have replaced
    /// since.
    object: Arc<Object>,
    /// The fullest text that the plugin may read.
    pub text: Arc<str>,
}

/// The form in which a plugin's watch stores the objects of a kind.
#[derive(Clone, Debug)]
pub struct Form {
    /// Kind of the objects.
    pub kind: Kind,
    /// Declared indexes: the path of the values, and the slot.
    pub indexes: Vec<(FieldPath, usize)>,
    /// The path of the objects' own selector, its form and slot.
    pub selector: Option<(FieldPath, SelectorForm, usize)>,
    /// The field selector of the watch, in kubectl syntax.
    pub field_selector: Option<String>,
}

impl ReadObject {
    /// An object as read with this form.
    pub fn new(form: Arc<Form>, object: &Object, text: Arc<str>) -> Self {
        let object = Object {
            meta: object.meta.clone(),
            text_set: Arc::default(),
            texts: Box::default(),
            index_values: object.index_values.clone(),
            selectors: object.selectors.clone(),
        };
        Self { form, object: Arc::new(object), text }
    }

    /// Upper bound of its bytes; the actual size is smaller while the caches share its texts.
    pub fn n_bytes(&self) -> usize {
        let Object { meta, index_values, selectors, .. } = &*self.object;
        let labels =
            meta.labels.iter().map(|(name, value)| size_of_val(name) + size_of_val(value) + name.len() + value.len());
        let owners = meta.owners.iter().map(|owner| size_of_val(owner) + owner.kind.n_bytes() + owner.name.len());
        let values = index_values.iter().map(|value| size_of_val(value) + value.1.len());
        let selectors = selectors.iter().map(|one| size_of_val(one) + one.as_ref().map_or(0, Selector::heap_bytes));
        let parts = labels.chain(owners).chain(values).chain(selectors);
        parts.sum::<usize>() + self.text.len() + OBJECT_BYTES
    }

    /// Returns an object that the same watch finds by the same queries, and shows in the same way.
    ///
    /// Queries use more than the projection. Labels, owners, and values of indexes and selectors that the projection
    /// leaves out are added again, and so are the equality terms of a field selector.
    pub fn value(&self) -> Value {
        let Ok(mut value) = serde_json::from_str::<Value>(&self.text) else { return Value::Null };
        let meta = &self.object.meta;
        for (name, label) in &meta.labels {
            put(&mut value, &["metadata", "labels", name], || json!(label));
        }
        if !meta.owners.is_empty() {
            put_owners(&mut value, &meta.owners);
        }
        for (path, slot) in &self.form.indexes {
            let of_index = self.object.index_values.iter().filter(|(index, _)| index == slot);
            let mut values: Vec<Value> = of_index.map(|(_, value)| json!(value)).collect();
            if !values.is_empty() {
                let found = || if values.len() == 1 { values.remove(0) } else { Value::Array(values) };
                put(&mut value, &names(path), found);
            }
        }
        if let Some((path, form, slot)) = &self.form.selector
            && let Some(Some(selector)) = self.object.selectors.get(*slot)
        {
            put(&mut value, &names(path), || selector.to_json(*form));
        }
        for (path, wanted) in self.form.field_selector.iter().flat_map(|selector| equal_terms(selector)) {
            put(&mut value, &path.split('.').collect::<Vec<_>>(), || json!(wanted));
        }
        value
    }
}

fn names(path: &FieldPath) -> Vec<&str> {
    path.names().iter().map(|name| &**name).collect()
}

/// The equality terms of a field selector.
fn equal_terms(selector: &str) -> impl Iterator<Item = (&str, &str)> {
    let terms = selector.split(',').filter(|term| !term.contains("!="));
    terms.filter_map(|term| term.split_once("==").or_else(|| term.split_once('=')))
}

/// Sets a missing field. In a list on the path, the first element gets it, which is enough for an index.
fn put(value: &mut Value, path: &[&str], field: impl FnOnce() -> Value) {
    let Some((name, rest)) = path.split_first() else { return };
    match value {
        Value::Object(fields) => match (fields.get_mut(*name), rest) {
            (Some(Value::Null) | None, []) => drop(fields.insert((*name).to_owned(), field())),
            (Some(_), []) => {}
            (Some(inner @ (Value::Object(_) | Value::Array(_))), rest) => put(inner, rest, field),
            (_, rest) => {
                let mut inner = Value::Object(Map::new());
                put(&mut inner, rest, field);
                fields.insert((*name).to_owned(), inner);
            }
        },
        Value::Array(elements) => {
            if let Some(first) = elements.first_mut() {
                put(first, path, field);
            }
        }
        _ => {}
    }
}

fn put_owners(value: &mut Value, owners: &[OwnerRef]) {
    put(value, &["metadata", "ownerReferences"], || json!(vec![json!({}); owners.len()]));
    let Some(shown) = value["metadata"]["ownerReferences"].as_array_mut() else { return };
    for (shown, owner) in shown.iter_mut().zip(owners) {
        put(shown, &["apiVersion"], || owner.kind.api_version().into());
        put(shown, &["kind"], || json!(owner.kind.name));
        put(shown, &["name"], || json!(owner.name));
        put(shown, &["uid"], || owner.uid.to_string().into());
        if owner.controller {
            put(shown, &["controller"], || true.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Meta;

    fn form() -> Form {
        Form {
            kind: "v1/Pod".parse().unwrap(),
            indexes: vec![("spec.nodeName".parse().unwrap(), 0), ("spec.volumes.claim".parse().unwrap(), 1)],
            selector: Some(("spec.selector".parse().unwrap(), SelectorForm::LabelSelector, 0)),
            field_selector: Some("status.phase=Running,spec.nodeName!=,metadata.name==a".into()),
        }
    }

    fn object(text: &str) -> ReadObject {
        let owner = OwnerRef {
            kind: "apps/v1/ReplicaSet".parse().unwrap(),
            name: "web".into(),
            uid: crate::object::version::Uid::parse("u-1"),
            controller: true,
        };
        let selector = r#"{"matchLabels":{"app":"web"},"matchExpressions":[{"key":"tier","operator":"Exists"}]}"#;
        let object = Object {
            meta: Meta {
                labels: [("app".into(), "web".into()), ("tier".into(), "x".into())].into(),
                owners: [owner].into(),
                ..Meta::default()
            },
            text_set: Arc::default(),
            texts: Box::default(),
            index_values: [(0, "n1".into()), (1, "c1".into()), (1, "c2".into())].into(),
            selectors: [Selector::from_json(selector, SelectorForm::LabelSelector).unwrap()].into(),
        };
        ReadObject::new(Arc::new(form()), &object, text.into())
    }

    #[test]
    fn a_read_object_keeps_no_text_of_others_and_counts_what_it_keeps() {
        let theirs: Arc<str> = "x".repeat(1 << 20).into();
        let label = |i: usize| (format!("key-{i:059}").into(), "v".repeat(63).into());
        let object = Object {
            meta: Meta { labels: (0..100).map(label).collect(), ..Meta::default() },
            text_set: Arc::default(),
            texts: [theirs.clone()].into(),
            index_values: [(0, "i".repeat(1_000).into())].into(),
            selectors: Box::default(),
        };
        let read = ReadObject::new(Arc::new(form()), &object, "{}".into());
        drop(object);
        assert_eq!(Arc::strong_count(&theirs), 1);
        assert!((100 * 126 + 1_000..20_000).contains(&read.n_bytes()), "{}", read.n_bytes());
    }

    #[test]
    fn fields_that_queries_use_are_restored_in_a_projection() {
        let text = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"app":"web"}},"spec":{"volumes":[{"name":"v"}]}}"#;
        let expected = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "a", "labels": {"app": "web", "tier": "x"},
                "ownerReferences": [
                    {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u-1", "controller": true},
                ],
            },
            "spec": {
                "nodeName": "n1", "volumes": [{"name": "v", "claim": ["c1", "c2"]}],
                "selector": {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "tier", "operator": "Exists"}]},
            },
            "status": {"phase": "Running"},
        });
        assert_eq!(object(text).value(), expected);
    }

    #[test]
    fn existing_fields_are_unchanged() {
        let text = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "a", "labels": {"app": "web", "tier": "x"},
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u-1", "controller": true,
                    "blockOwnerDeletion": true,
                }],
            },
            "spec": {"nodeName": "n1", "volumes": [{"claim": "c1"}, {"claim": "c2"}], "selector": {"matchLabels": {}}},
            "status": {"phase": "Running"},
        });
        assert_eq!(object(&text.to_string()).value(), text);
    }
}
