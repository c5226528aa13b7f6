//! One version of a plugin: the parts that a swap replaces, and its subscription to the caches.
//!
//! Queues, their rate limiters, the keyed state and keys that wait for the caches belong to the controller and stay.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use pintle_cache::Subscription;
use pintle_core::contract::manifest::{EffectiveLimits, Manifest, Queue};
use pintle_core::lifecycle::rollout::RolloutVersion;
use pintle_core::lifecycle::{Spec, VersionInfo};
use pintle_core::policy::grants::{Grants, Missing};
use pintle_core::ports::guest::Guest;

use super::ChangeSink;
use crate::metrics::{DeclaredMetrics, QueueMetrics};

/// The parts of a version.
pub(crate) struct VersionParts {
    pub(crate) guest: Arc<dyn Guest>,
    /// The guest's manifest, without requests that the operator withholds.
    pub(crate) manifest: Arc<Manifest>,
    /// SHA-256 of the component, in hexadecimal; empty if there is none.
    pub(crate) digest: String,
    /// Origin of the component.
    pub(crate) origin: String,
    /// Whether the component is built into the host: its deletions are trusted.
    pub(crate) is_carried: bool,
    /// The operator's spec.
    pub(crate) spec: Spec,
    /// The configuration in the plugin's form.
    pub(crate) config: Arc<str>,
    pub(crate) grants: Grants,
    pub(crate) declared: DeclaredMetrics,
    /// One entry per queue of the manifest.
    pub(crate) queues: Vec<QueueConfig>,
}

/// The operator's options for a queue.
pub(crate) type QueueConfig = pintle_core::policy::keys::QueueConfig<QueueMetrics>;

/// A compiled version of a plugin.
pub(crate) struct Version {
    pub(crate) guest: Arc<dyn Guest>,
    manifest: Arc<Manifest>,
    pub(crate) spec: Spec,
    pub(super) limits: EffectiveLimits,
    pub(super) config: Arc<str>,
    pub(super) grants: Grants,
    pub(super) declared: DeclaredMetrics,
    pub(super) queues: Vec<QueueConfig>,
    digest: String,
    origin: String,
    pub(super) is_carried: bool,
    /// Absent before the subscription, and for a version that is only kept for a rollback.
    subscription: Mutex<Option<CacheSubscription>>,
}

/// A subscription and its sink. Versions with the same watches share it.
#[derive(Clone)]
pub(crate) struct CacheSubscription {
    pub(crate) cache: Arc<Subscription>,
    pub(crate) sink: Arc<ChangeSink>,
}

impl Version {
    pub(crate) fn new(parts: VersionParts) -> Arc<Self> {
        Arc::new(Self {
            limits: parts.guest.limits(),
            manifest: parts.manifest,
            guest: parts.guest,
            spec: parts.spec,
            config: parts.config,
            grants: parts.grants,
            declared: parts.declared,
            queues: parts.queues,
            digest: parts.digest,
            origin: parts.origin,
            is_carried: parts.is_carried,
            subscription: Mutex::new(None),
        })
    }

    /// The manifest, without requests that the operator withholds.
    pub(crate) fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }

    /// The declaration of each queue, and the operator's options for it.
    pub(super) fn declared_queues(&self) -> impl Iterator<Item = (&Queue, QueueConfig)> {
        self.manifest.queues.iter().zip(self.queues.iter().cloned())
    }

    /// Whether this spec grants everything that the version was granted. Permissions that an operator has removed are
    /// not restored automatically.
    pub(super) fn keeps_its_grants(&self, spec: &Spec) -> bool {
        let missing = |spec: &Spec| match &spec.grants {
            Some(given) => Grants::missing(self.guest.manifest(), given),
            None => Vec::new(),
        };
        let before: HashSet<Missing> = missing(&self.spec).into_iter().collect();
        missing(spec).iter().all(|one| before.contains(one))
    }

    /// SHA-256 of the component, in hexadecimal; empty if there is none.
    pub(super) fn digest(&self) -> &str {
        &self.digest
    }

    pub(crate) fn info(&self, since: String) -> VersionInfo {
        VersionInfo {
            version: self.manifest().version.clone(),
            digest: self.digest.clone(),
            origin: self.origin.clone(),
            since,
        }
    }

    pub(crate) fn attach(&self, subscription: CacheSubscription) {
        *self.subscription.lock() = Some(subscription);
    }

    /// Ends its subscription to the caches, unless another version shares it.
    pub(super) fn detach(&self) {
        let subscription = self.subscription.lock().take();
        // Ends the subscription, which takes locks of the caches.
        drop(subscription);
    }

    pub(crate) fn subscription(&self) -> Option<CacheSubscription> {
        self.subscription.lock().clone()
    }

    pub(crate) fn cache(&self) -> Option<Arc<Subscription>> {
        self.subscription.lock().as_ref().map(|subscription| subscription.cache.clone())
    }

    /// Whether both versions share one subscription.
    pub(super) fn shares_with(&self, other: &Self) -> bool {
        let handlers = self.subscription().zip(other.subscription());
        handlers.is_some_and(|(own, others)| Arc::ptr_eq(&own.sink, &others.sink))
    }

    /// Whether this version reads the same data as the other one, so that both can share a subscription.
    pub(crate) fn reads_as(&self, other: &Self) -> bool {
        let names = |version: &Self| -> Vec<String> {
            version.manifest().queues.iter().map(|queue| queue.name.clone()).collect()
        };
        let (own, others) = (self.manifest(), other.manifest());
        // Rules refer to queues by name, and rules without a queue use the first one.
        own.watches == others.watches && own.discovery == others.discovery && names(self) == names(other)
    }
}

impl RolloutVersion for Version {
    fn is_carried(&self) -> bool {
        self.is_carried
    }

    fn keeps_its_grants_with(&self, other: &Self) -> bool {
        self.keeps_its_grants(&other.spec)
    }
}
