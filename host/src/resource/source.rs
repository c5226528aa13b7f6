//! Where the components of resources come from, and what tells that one has changed.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pintle_core::id::{Kind, ObjectKey};
use pintle_core::manifest::Manifest;
use pintle_runtime::caches::{Caches, ChangeHandler, RunContext, Subscription};
use serde_json::{Value, json};

use super::spec::{ConfigMapKey, Source, below};
use crate::folder::{Stamp, read_component};
use crate::wire::{Refusal, reason};

/// A component as its source has it now. What is equal need not be read again.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Found {
    /// A file, and what tells it from another one; absent if the path leads nowhere.
    File(PathBuf, Option<Stamp>),
    /// The name of its plugin.
    Builtin(String),
    /// The value of the key, still in base64, and where it is from; absent if there is none.
    ConfigMap(ConfigMapKey, Option<Arc<str>>),
    /// The cache of the ConfigMap is not filled yet.
    NotYet,
    /// What is asked for cannot be had on this host.
    Never(String),
}

/// Looks for components.
pub(super) struct Sources {
    caches: Arc<Caches>,
    handler: Arc<dyn ChangeHandler>,
    folder: Option<PathBuf>,
    /// Name of the plugin -> bytes.
    builtins: BTreeMap<String, &'static [u8]>,
    /// One for each ConfigMap that some resource names; by namespace and name.
    config_maps: BTreeMap<(String, String), Subscription>,
}

impl Sources {
    /// `handler` hears of ConfigMaps that change.
    pub(super) fn new(
        caches: Arc<Caches>,
        handler: Arc<dyn ChangeHandler>,
        folder: Option<PathBuf>,
        builtins: BTreeMap<String, &'static [u8]>,
    ) -> Self {
        Self { caches, handler, folder, builtins, config_maps: BTreeMap::new() }
    }

    /// What is there now.
    pub(super) fn look(&mut self, source: &Source) -> Found {
        match source {
            Source::File(file) => match &self.folder {
                Some(folder) => match below(folder, file) {
                    Ok(path) => {
                        let stamp = Stamp::at(&path);
                        Found::File(path, stamp)
                    }
                    Err(why) => Found::Never(format!("spec.source.file: {why}")),
                },
                None => Found::Never(
                    "spec.source.file: this host has no plugin folder; start it with --plugin-dir FOLDER".to_owned(),
                ),
            },
            Source::Builtin(name) if self.builtins.contains_key(name) => Found::Builtin(name.clone()),
            Source::Builtin(name) => {
                let known: Vec<&str> = self.builtins.keys().map(String::as_str).collect();
                Found::Never(format!(
                    "spec.source.builtin: this host carries no {name:?}; it carries {}",
                    known.join(", ")
                ))
            }
            Source::ConfigMap(key) => self.config_map(key),
        }
    }

    fn config_map(&mut self, key: &ConfigMapKey) -> Found {
        let caches = &self.caches;
        let handler = &self.handler;
        let place = (key.namespace.clone(), key.name.clone());
        let subscription = self
            .config_maps
            .entry(place)
            .or_insert_with(|| caches.subscribe(Arc::new(manifest_of(key)), handler.clone()));
        if !subscription.is_synced() {
            return Found::NotYet;
        }
        let object = ObjectKey::new(&key.namespace, &key.name);
        // The manifest watches the kind.
        let text = subscription
            .snapshot()
            .view(RunContext::default())
            .get(&Kind::new("", "v1", "ConfigMap"), &object)
            .ok()
            .flatten();
        let value = text.and_then(|text| {
            let object: Value = serde_json::from_str(&text).ok()?;
            object["binaryData"][&key.key].as_str().map(Arc::from)
        });
        Found::ConfigMap(key.clone(), value)
    }

    /// Gives up the ConfigMaps that none of these names any more.
    pub(super) fn keep<'a>(&mut self, named: impl Iterator<Item = &'a Source>) {
        let named: Vec<(&str, &str)> = named
            .filter_map(|source| match source {
                Source::ConfigMap(key) => Some((key.namespace.as_str(), key.name.as_str())),
                Source::File(_) | Source::Builtin(_) => None,
            })
            .collect();
        self.config_maps.retain(|(namespace, name), _| named.contains(&(namespace.as_str(), name.as_str())));
    }

    /// A built-in component.
    pub(super) fn builtin(&self, name: &str) -> Option<&'static [u8]> {
        self.builtins.get(name).copied()
    }
}

/// The origin for humans, and the bytes. May block.
///
/// # Errors
/// There is none, or it cannot be read.
pub(super) fn read(found: &Found, builtin: Option<&'static [u8]>) -> Result<(String, Vec<u8>), Refusal> {
    let unreadable = |why: String| Refusal::new(reason::UNREADABLE, why);
    match found {
        Found::File(path, _) => Ok((path.display().to_string(), read_component(path)?)),
        Found::Builtin(name) => {
            let bytes = builtin.ok_or_else(|| unreadable(format!("this host carries no {name:?}")))?;
            Ok((format!("built-in {name}"), bytes.to_vec()))
        }
        Found::ConfigMap(ConfigMapKey { namespace, name, key }, value) => {
            let origin = format!("ConfigMap {namespace}/{name}, key {key}");
            let value = value.as_ref().ok_or_else(|| {
                unreadable(format!(
                    "spec.source.configMap: there is no ConfigMap {namespace}/{name} with {key:?} in its binaryData"
                ))
            })?;
            let bytes = STANDARD.decode(value.as_bytes()).map_err(|why| unreadable(format!("{origin}: {why}")))?;
            Ok((origin, bytes))
        }
        Found::NotYet => Err(unreadable("the source is not known yet".to_owned())),
        Found::Never(why) => Err(Refusal::new(reason::INVALID, why.clone())),
    }
}

/// Watches one ConfigMap.
fn manifest_of(key: &ConfigMapKey) -> Manifest {
    super::watcher::manifest(json!([{
        "kind": "v1/ConfigMap",
        "namespace": key.namespace,
        "fieldSelector": format!("metadata.name={}", key.name),
        "whole": true,
    }]))
}
