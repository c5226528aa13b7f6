//! Detects declared fields of custom kinds that do not exist, using the schemas that the API server publishes and the
//! objects.
//!
//! Not here: the rules (`pintle_core::lifecycle::fields`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pintle_cache::{Delta, Snapshot, Subscription};
use pintle_core::contract::manifest::Manifest;
use pintle_core::lifecycle::fields::DeclaredFields;
use pintle_core::object::id::Kind;
use pintle_core::object::schema::KindSchema;
use pintle_core::ports::api::{ApiReader, at_most};

use super::Controller;
use super::observers::Observers;

/// Maximum wait for a schema.
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum bytes of a group version's OpenAPI document.
const MAX_BYTES: usize = 16 << 20;

/// The schemas of the custom kinds in a manifest, if the API server publishes them. All authenticated users may read
/// them.
///
/// # Cancel safety
/// Safe: it only reads.
pub(crate) async fn published(manifest: &Manifest, reader: &dyn ApiReader) -> BTreeMap<Kind, KindSchema> {
    let mut documents = BTreeMap::new();
    let mut schemas = BTreeMap::new();
    for kind in manifest.kinds().filter(|kind| !kind.group.is_empty() && KindSchema::of_kubernetes(kind).is_none()) {
        let path = format!("/openapi/v3/apis/{}", kind.api_version());
        if !documents.contains_key(&path) {
            let answer = tokio::time::timeout(PATIENCE, reader.raw(&path, &at_most(MAX_BYTES))).await;
            let text = answer.ok().and_then(Result::ok).unwrap_or_default();
            documents.insert(path.clone(), serde_json::from_str(&text).unwrap_or_default());
        }
        schemas.extend(KindSchema::of_openapi(kind, &documents[&path]).map(|schema| (kind.clone(), schema)));
    }
    schemas
}

/// The declared fields of the new objects in these changes, as JSON text.
fn texts<'d>(snapshot: &Snapshot, changes: impl IntoIterator<Item = &'d Delta>) -> Vec<Arc<str>> {
    let text = |delta: &Delta| snapshot.projection(&delta.kind, delta.new.as_ref()?);
    changes.into_iter().filter_map(text).collect()
}

impl Controller {
    /// Compares the declared fields of the current version with schemas and objects. Ends early if another version
    /// takes over.
    pub(super) async fn look_at_fields(self: Arc<Self>) {
        let version = self.version();
        let schemas = published(version.manifest(), &*self.reads.host).await;
        let Some(cache) = version.cache().filter(|_| Arc::ptr_eq(&version, &self.version())) else { return };
        let mut fields = DeclaredFields::new(version.manifest(), &schemas);
        let kinds: Vec<Kind> = fields.kinds().cloned().collect();
        for kind in &kinds {
            let snapshot = cache.snapshot();
            for text in texts(&snapshot, &snapshot.all_as_new(kind)) {
                fields.object(kind, &text, true);
            }
        }
        let unknown = fields.unknown().to_vec();
        let before = std::mem::replace(&mut self.observers.served.lock().fields, fields);
        if !unknown.is_empty() && before.unknown() != unknown {
            let message = unknown.join("; ");
            tracing::warn!(plugin = %self.name, "declared fields do not exist: {message}");
            self.observers.record_plugin_event(true, "UnknownField", format!("plugin {}: {message}", self.name));
        }
        self.observers.mark_changed();
    }
}

impl Observers {
    /// Passes changes of one kind to the check of declared fields.
    pub(super) fn see_fields(&self, cache: &Subscription, batch: &[Delta]) {
        let Some(kind) = batch.first().map(|delta| &delta.kind) else { return };
        if !self.served.lock().fields.wants(kind) {
            return;
        }
        let snapshot = cache.snapshot();
        let of = |is_new| texts(&snapshot, batch.iter().filter(|delta| delta.old.is_none() == is_new));
        let both = [(of(true), true), (of(false), false)];
        let mut served = self.served.lock();
        let mut has_changed = false;
        for (texts, is_new) in both {
            for text in texts {
                has_changed |= served.fields.object(kind, &text, is_new);
            }
        }
        drop(served);
        if has_changed {
            self.mark_changed();
        }
    }
}
