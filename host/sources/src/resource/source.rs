//! The component sources of resources, and change detection.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pintle_cache::{Caches, ChangeHandler, RunContext, Subscription};
use pintle_core::contract::manifest::Manifest;
use pintle_core::object::id::{Kind, ObjectKey};
use pintle_oci::{ArtifactRef, Evidence, Fetcher, MAX_COMPONENT_BYTES, Proof, Pulled, beside, decompressed, detached};
use serde_json::{Value, json};

use super::spec::{ConfigMapKey, Source, below};
use crate::file_work::FileWork;
use crate::folder::{Stamp, read_own};
use crate::wire::{Refusal, reason};

/// The current component of a source. Equal values need not be read again.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Found {
    /// A file and its identity; absent if the file does not exist. The same for its signature, if required.
    File(PathBuf, Option<Stamp>, Option<Stamp>),
    /// The name of its plugin.
    Builtin(String),
    /// The value of the key, in base64, and its location; absent if there is none. Its signature, if required.
    ConfigMap(ConfigMapKey, Option<Arc<str>>, Option<String>),
    /// A component in a registry. A tag is resolved when it is read, and not followed.
    Oci(ArtifactRef),
    /// The cache of the ConfigMap is not synced yet, or the file has not been checked.
    NotYet,
    /// This host cannot provide the component.
    Never(String),
}

/// Stamps of a file and its signature; absent if the file does not exist, or signatures are not required.
pub(super) type Stamps = (Option<Stamp>, Option<Stamp>);

/// Finds components.
pub(super) struct Sources {
    caches: Arc<Caches>,
    handler: Arc<dyn ChangeHandler>,
    folder: Option<PathBuf>,
    with_signatures: bool,
    /// Names of the built-in plugins.
    builtins: BTreeSet<String>,
    /// Known stamps of the files in resources, and of their signatures.
    stamps: BTreeMap<PathBuf, Stamps>,
    /// One for each ConfigMap in a resource; by namespace and name.
    config_maps: BTreeMap<(String, String), Subscription>,
}

impl Sources {
    /// `handler` receives changes of ConfigMaps. `with_signatures`: a changed signature counts as a changed source.
    pub(super) fn new(
        caches: Arc<Caches>,
        handler: Arc<dyn ChangeHandler>,
        folder: Option<PathBuf>,
        with_signatures: bool,
        builtins: BTreeSet<String>,
    ) -> Self {
        Self {
            caches,
            handler,
            folder,
            with_signatures,
            builtins,
            stamps: BTreeMap::new(),
            config_maps: BTreeMap::new(),
        }
    }

    /// The current component.
    pub(super) fn look(&mut self, source: &Source) -> Found {
        match source {
            Source::File(file) => match &self.folder {
                Some(folder) => match below(folder, file) {
                    Ok(path) => match self.stamps.get(&path) {
                        Some((stamp, signature)) => Found::File(path, *stamp, *signature),
                        None => Found::NotYet,
                    },
                    Err(why) => Found::Never(format!("spec.source.file: {why}")),
                },
                None => Found::Never(
                    "spec.source.file: this host has no plugin folder; start it with --plugin-dir FOLDER".to_owned(),
                ),
            },
            Source::Builtin(name) if self.builtins.contains(name) => Found::Builtin(name.clone()),
            Source::Builtin(name) => {
                let known: Vec<&str> = self.builtins.iter().map(String::as_str).collect();
                Found::Never(format!(
                    "spec.source.builtin: this host carries no {name:?}; it carries {}",
                    known.join(", ")
                ))
            }
            Source::ConfigMap(key) => self.config_map(key),
            Source::Oci(reference) => Found::Oci(reference.clone()),
        }
    }

    /// The files of these sources.
    pub(super) fn files<'a>(&self, named: impl Iterator<Item = &'a Source>) -> BTreeSet<PathBuf> {
        let path = |source: &Source| match (source, &self.folder) {
            (Source::File(file), Some(folder)) => below(folder, file).ok(),
            _ => None,
        };
        named.filter_map(path).collect()
    }

    /// Whether some of these files have not been checked.
    pub(super) fn lacks(&self, files: &BTreeSet<PathBuf>) -> bool {
        files.iter().any(|file| !self.stamps.contains_key(file))
    }

    /// Checks files, on a thread that may block.
    pub(super) fn stamps(&self, files: BTreeSet<PathBuf>) -> impl FnOnce() -> BTreeMap<PathBuf, Stamps> + Send + use<> {
        let with_signatures = self.with_signatures;
        move || {
            let stamps =
                |path: &PathBuf| (Stamp::at(path), with_signatures.then(|| Stamp::at(&beside(path))).flatten());
            files.into_iter().map(|path| (path.clone(), stamps(&path))).collect()
        }
    }

    /// Records the current stamps of files.
    pub(super) fn set_stamps(&mut self, stamps: BTreeMap<PathBuf, Stamps>) {
        self.stamps = stamps;
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
        let object: Option<Value> = text.and_then(|text| serde_json::from_str(&text).ok());
        let value = object.as_ref().and_then(|object| object["binaryData"][&key.key].as_str()).map(Arc::from);
        let signature = object.filter(|_| self.with_signatures).and_then(|object| signature_in(&object, &key.key));
        Found::ConfigMap(key.clone(), value, signature)
    }

    /// Unsubscribes from ConfigMaps that none of these refers to any more.
    pub(super) fn keep<'a>(&mut self, named: impl Iterator<Item = &'a Source>) {
        let named: Vec<(&str, &str)> = named
            .filter_map(|source| match source {
                Source::ConfigMap(key) => Some((key.namespace.as_str(), key.name.as_str())),
                Source::File(_) | Source::Builtin(_) | Source::Oci(_) => None,
            })
            .collect();
        self.config_maps.retain(|(namespace, name), _| named.contains(&(namespace.as_str(), name.as_str())));
    }
}

/// The signature of a key: text, or base64 text for a file that `kubectl create configmap` treats as binary.
fn signature_in(config_map: &Value, key: &str) -> Option<String> {
    let name = format!("{key}.sig");
    if let Some(text) = config_map["data"][&name].as_str() {
        return Some(text.trim().to_owned());
    }
    let bytes = STANDARD.decode(config_map["binaryData"][&name].as_str()?).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// A component with its origin for humans, and the evidence for trusting it.
///
/// # Errors
/// It does not exist, or cannot be read.
pub(super) async fn get(
    found: Found,
    builtin: Option<&'static [u8]>,
    fetcher: &Fetcher,
    files: &FileWork,
) -> Result<(String, Vec<u8>, Evidence), Refusal> {
    if let Found::Oci(reference) = &found {
        let Pulled { origin, bytes, proof } = fetcher.pull(reference).await?;
        return Ok((origin, bytes, Evidence::Shown(proof)));
    }
    // Other sources are in memory.
    let path = if let Found::File(path, ..) = &found { path.clone() } else { PathBuf::new() };
    files.run(&path, move || read(&found, builtin)).await
}

fn read(found: &Found, builtin: Option<&'static [u8]>) -> Result<(String, Vec<u8>, Evidence), Refusal> {
    let unreadable = |why: String| Refusal::new(reason::UNREADABLE, why);
    match found {
        Found::File(path, ..) => {
            let bytes = read_own(path, MAX_COMPONENT_BYTES)?;
            Ok((path.display().to_string(), bytes, Evidence::Shown(detached(path)?)))
        }
        Found::Builtin(name) => {
            let bytes = builtin.ok_or_else(|| unreadable(format!("this host carries no {name:?}")))?;
            Ok((format!("built-in {name}"), bytes.to_vec(), Evidence::Own))
        }
        Found::ConfigMap(ConfigMapKey { namespace, name, key }, value, signature) => {
            let origin = format!("ConfigMap {namespace}/{name}, key {key}");
            let value = value.as_ref().ok_or_else(|| {
                unreadable(format!(
                    "spec.source.configMap: there is no ConfigMap {namespace}/{name} with {key:?} in its binaryData"
                ))
            })?;
            let bytes = STANDARD.decode(value.as_bytes()).map_err(|why| unreadable(format!("{origin}: {why}")))?;
            let bytes = decompressed(&origin, bytes)?;
            Ok((origin, bytes, Evidence::Shown(Proof::of_itself(signature.clone()))))
        }
        Found::NotYet | Found::Oci(_) => Err(unreadable("the source is not known yet".to_owned())),
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
