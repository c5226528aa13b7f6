//! The list `metadata.managedFields`.

use std::fmt;

use serde_json::{Map, Value, json};

use super::set::FieldSet;

/// An owner of fields: entries of one manager with different operations, versions or subresources are separate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Manager {
    name: String,
    operation: String,
    /// Empty for `Apply`, where another version of the kind has the same manager.
    version: String,
    subresource: String,
}

impl Manager {
    pub(super) fn new(name: &str, operation: &str, version: &str, subresource: Option<&str>) -> Self {
        Self {
            name: name.to_owned(),
            operation: operation.to_owned(),
            version: version.to_owned(),
            subresource: subresource.unwrap_or_default().to_owned(),
        }
    }
}

impl fmt::Display for Manager {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?}", self.name)?;
        if !self.subresource.is_empty() {
            write!(out, " with subresource {:?}", self.subresource)?;
        }
        if self.operation == "Update" {
            write!(out, " using {}", self.version)?;
        }
        Ok(())
    }
}

#[derive(Debug, Clone)]
struct Entry {
    manager: Manager,
    api_version: String,
    time: Option<String>,
    fields: FieldSet,
}

/// All entries of an object.
#[derive(Debug, Clone, Default)]
pub(super) struct Managers(Vec<Entry>);

impl Managers {
    /// Removes the list from an object.
    pub(super) fn take(object: &mut Value) -> Self {
        let list = object
            .get_mut("metadata")
            .and_then(Value::as_object_mut)
            .and_then(|meta| meta.shift_remove("managedFields"));
        let entries = list.as_ref().and_then(Value::as_array).into_iter().flatten().filter_map(|entry| {
            let text = |field: &str| entry[field].as_str().unwrap_or_default();
            let version = if text("operation") == "Apply" { "" } else { text("apiVersion") };
            let manager = Manager::new(text("manager"), text("operation"), version, Some(text("subresource")));
            let time = entry["time"].as_str().map(str::to_owned);
            let fields = FieldSet::decode(&entry["fieldsV1"]);
            (!manager.operation.is_empty()).then(|| Entry {
                manager,
                api_version: text("apiVersion").to_owned(),
                time,
                fields,
            })
        });
        Self(entries.collect())
    }

    /// Stores the list in an object, in upstream's order.
    pub(super) fn put(mut self, object: &mut Value) {
        self.0.retain(|entry| !entry.fields.is_empty());
        let key = |entry: &Entry| {
            let manager = &entry.manager;
            (
                manager.operation.clone(),
                entry.time.clone(),
                manager.name.clone(),
                entry.api_version.clone(),
                manager.subresource.clone(),
            )
        };
        self.0.sort_by_cached_key(key);
        let list: Vec<Value> = self.0.iter().map(Entry::encode).collect();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            match list.is_empty() {
                true => metadata.shift_remove("managedFields"),
                false => metadata.insert("managedFields".to_owned(), Value::Array(list)),
            };
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn fields(&self, manager: &Manager) -> Option<FieldSet> {
        self.0.iter().find(|entry| entry.manager == *manager).map(|entry| entry.fields.clone())
    }

    /// All owned fields.
    pub(super) fn union(&self) -> FieldSet {
        self.0.iter().fold(FieldSet::default(), |all, entry| all.union(&entry.fields))
    }

    /// Replaces a manager's fields; without `time`, the existing time stays.
    pub(super) fn set(&mut self, manager: Manager, fields: FieldSet, version: &str, time: Option<&str>) {
        let time = time.map(str::to_owned);
        match self.0.iter_mut().find(|entry| entry.manager == manager) {
            Some(entry) => {
                entry.fields = fields;
                version.clone_into(&mut entry.api_version);
                if time.is_some() {
                    entry.time = time;
                }
            }
            None => self.0.push(Entry { manager, api_version: version.to_owned(), time, fields }),
        }
    }

    /// The fields of `changed` that other managers own.
    pub(super) fn conflicts(&self, but: &Manager, changed: &FieldSet) -> Vec<(Manager, FieldSet)> {
        let others = self.0.iter().filter(|entry| entry.manager != *but);
        let common = others.map(|entry| (entry.manager.clone(), entry.fields.intersection(changed)));
        let mut conflicts: Vec<_> = common.filter(|(_, set)| !set.is_empty()).collect();
        conflicts.sort_by_key(|(manager, _)| manager.to_string());
        conflicts
    }

    /// Removes changed and removed fields from other managers.
    pub(super) fn take_from_others(&mut self, but: &Manager, changed: &FieldSet, removed: &FieldSet) {
        for entry in self.0.iter_mut().filter(|entry| entry.manager != *but) {
            entry.fields = entry.fields.difference(changed).difference(removed);
        }
    }
}

impl Entry {
    fn encode(&self) -> Value {
        let mut entry = Map::new();
        entry.insert("manager".to_owned(), self.manager.name.as_str().into());
        entry.insert("operation".to_owned(), self.manager.operation.as_str().into());
        entry.insert("apiVersion".to_owned(), self.api_version.as_str().into());
        if let Some(time) = &self.time {
            entry.insert("time".to_owned(), time.as_str().into());
        }
        entry.insert("fieldsType".to_owned(), json!("FieldsV1"));
        entry.insert("fieldsV1".to_owned(), self.fields.encode());
        if !self.manager.subresource.is_empty() {
            entry.insert("subresource".to_owned(), self.manager.subresource.as_str().into());
        }
        Value::Object(entry)
    }
}
