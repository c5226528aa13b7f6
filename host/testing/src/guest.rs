//! A guest from closures.

use std::sync::Arc;

use futures::future::BoxFuture;
use pintle_core::contract::check::{self, MappedKeys};
use pintle_core::contract::manifest::Manifest;
use pintle_core::contract::outcome::{Outcome, Wake};
use pintle_core::object::id::{Key, Kind};
use pintle_core::ports::guest::{Answer, FaultKind, Guest, PluginFault, Run};
use pintle_core::ports::view::View;

/// Result of a reconcile; it is checked before the host gets it.
pub type GuestResult = Answer<Outcome>;
type Reconcile = dyn Fn(Key, Arc<dyn View>) -> BoxFuture<'static, GuestResult> + Send + Sync;
type KeysOf = dyn Fn(Option<&str>, Option<&str>) -> Result<Vec<Wake>, PluginFault> + Send + Sync;

/// A guest from closures.
pub struct FakeGuest {
    manifest: Arc<Manifest>,
    reconcile: Box<Reconcile>,
    keys_of: Option<Box<KeysOf>>,
}

impl FakeGuest {
    /// A guest that responds immediately.
    pub fn new(
        manifest: Arc<Manifest>,
        reconcile: impl Fn(Key, Arc<dyn View>) -> GuestResult + Send + Sync + 'static,
    ) -> Self {
        Self::asynchronous(manifest, move |key, view| {
            let result = reconcile(key, view);
            Box::pin(async move { result })
        })
    }

    /// A guest with an asynchronous response.
    pub fn asynchronous(
        manifest: Arc<Manifest>,
        reconcile: impl Fn(Key, Arc<dyn View>) -> BoxFuture<'static, GuestResult> + Send + Sync + 'static,
    ) -> Self {
        Self { manifest, reconcile: Box::new(reconcile), keys_of: None }
    }

    /// Adds a mapping from the old and new state of an object to keys.
    pub fn mapping<K: Into<Wake>>(
        self,
        keys_of: impl Fn(Option<&str>, Option<&str>) -> Result<Vec<K>, PluginFault> + Send + Sync + 'static,
    ) -> Self {
        let keys_of = move |old: Option<&str>, new: Option<&str>| {
            keys_of(old, new).map(|keys| keys.into_iter().map(Into::into).collect())
        };
        Self { keys_of: Some(Box::new(keys_of)), ..self }
    }
}

impl Guest for FakeGuest {
    fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }

    fn maps(&self) -> bool {
        self.keys_of.is_some()
    }

    fn reconcile<'a>(&'a self, key: &'a Key, view: Arc<dyn View>) -> BoxFuture<'a, Run> {
        let result = (self.reconcile)(key.clone(), view);
        Box::pin(async move { Run::checked(result.await, &self.manifest, &self.limits()) })
    }

    fn keys_of<'a>(
        &'a self,
        _: &'a Kind,
        old: Option<&'a str>,
        new: Option<&'a str>,
        _: Arc<dyn View>,
    ) -> BoxFuture<'a, Result<MappedKeys, PluginFault>> {
        let keys = self.keys_of.as_ref().map_or_else(|| Ok(Vec::new()), |keys_of| keys_of(old, new));
        let result = keys.and_then(|keys| {
            check::mapped_keys(keys, &self.manifest).map_err(|message| PluginFault { kind: FaultKind::Output, message })
        });
        Box::pin(async move { result })
    }
}
