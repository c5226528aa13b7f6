//! Plugins that a simulated cluster can run.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::error::Error;
use crate::outcome::Outcome;
use crate::testing::fixture::{FixtureLister, yaml};
use crate::testing::manifest::Manifest;
use crate::types::{Key, Kind};

type Reconcile<'a> = dyn Fn(&Key, &FixtureLister) -> Result<Outcome, Error> + 'a;

/// A plugin that a [`Cluster`] can run.
pub struct Plugin<'a> {
    pub(super) manifest: Arc<Manifest>,
    pub(super) config: Map<String, Value>,
    pub(super) reconcile: Box<Reconcile<'a>>,
}

impl<'a> Plugin<'a> {
    /// A plugin from the text of its manifest and its function.
    ///
    /// # Panics
    /// If the manifest cannot be read.
    pub fn new(manifest: &str, reconcile: impl Fn(&Key, &FixtureLister) -> Result<Outcome, Error> + 'a) -> Self {
        let manifest: Manifest = yaml(manifest).unwrap_or_else(|error| panic!("manifest: {error}"));
        Self { config: manifest.default_config(), manifest: Arc::new(manifest), reconcile: Box::new(reconcile) }
    }

    /// Sets a value of the configuration. The default is the manifest's.
    #[must_use]
    pub fn config(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.config.insert(name.to_owned(), value.into());
        self
    }

    /// Limits the mutations of one outcome below the manifest's limit, to test that smaller parts lead to the same
    /// result.
    ///
    /// # Panics
    /// If the plugin is already running.
    #[must_use]
    pub fn mutations(mut self, most: usize) -> Self {
        let manifest = Arc::get_mut(&mut self.manifest).unwrap_or_else(|| panic!("the plugin runs already"));
        manifest.limits.mutations = most;
        self
    }

    /// The key of an object in the manifest's first queue.
    ///
    /// # Panics
    /// If the manifest declares no queue.
    pub fn key(&self, kind: &Kind, namespace: &str, name: &str) -> Key {
        let queue = self.manifest.queues.first().unwrap_or_else(|| panic!("the manifest declares no queue"));
        Key::new(&queue.name, kind.clone(), namespace, name)
    }
}

impl fmt::Debug for Plugin<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Plugin").field(&self.manifest.name).finish()
    }
}
