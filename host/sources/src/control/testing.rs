//! A fake manager for the tests of the plugin sources.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pintle_core::contract::manifest::{Limits, Manifest};
use pintle_core::contract::outcome::Outcome;
use pintle_core::lifecycle::Spec;
use pintle_core::policy::election::Groups;
use pintle_core::ports::api::Fences;
use pintle_core::ports::guest::{Guest, Inspected, LoadFailure, Loader};
use pintle_oci::Trust;
use pintle_runtime::election::Leadership;
use pintle_runtime::manager::{Component, Manager, ManagerConfig};
use pintle_testing::{FakeGuest, FakeServer, FakeWriter, FakeWriters};
use serde_json::json;
use tokio_util::task::AbortOnDropHandle;

use super::{Base, Control};

/// A component is text: `NAME VERSION`; any other text is rejected. Its digest is the text. It has a setting `a`.
#[derive(Default)]
pub(crate) struct TextLoader(Mutex<Vec<String>>);

impl Loader for TextLoader {
    fn inspect(&self, origin: &str, bytes: &[u8]) -> Result<Inspected, LoadFailure> {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let Some((name, version)) = text.split_once(' ') else {
            return Err(LoadFailure(format!("{origin}: this is not WebAssembly")));
        };
        let aliases = if name.starts_with("twin") { "alias-of-twins".to_owned() } else { format!("alias-of-{name}") };
        let manifest = json!({
            "name": name, "aliases": [aliases], "version": version, "contract": "0.2", "watches": [], "queues": [{"name": "q"}],
            "config": {"a": {"type": "string", "default": ""}},
        });
        let manifest =
            Manifest::parse(manifest.to_string().as_bytes()).map_err(|error| LoadFailure(error.to_string()))?;
        Ok(Inspected { manifest: Arc::new(manifest), digest: text })
    }

    fn load(&self, origin: &str, bytes: &[u8], _: &Limits) -> Result<Arc<dyn Guest>, LoadFailure> {
        let Inspected { manifest, digest } = self.inspect(origin, bytes)?;
        self.0.lock().push(format!("{digest} from {origin}"));
        Ok(Arc::new(FakeGuest::new(manifest, |_, _| Ok(Ok(Outcome::default())))))
    }
}

/// A running manager, with its control.
pub(crate) struct Fixture {
    pub(crate) manager: Arc<Manager>,
    pub(crate) control: Arc<Control>,
    pub(crate) loader: Arc<TextLoader>,
    pub(crate) writer: Arc<FakeWriter>,
    _running: AbortOnDropHandle<()>,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::excluding(&[])
    }

    /// Excludes names from the folder and from resources.
    pub(crate) fn excluding(names: &[&str]) -> Self {
        Self::with(names, Trust::default())
    }

    /// Requires signatures by these keys.
    pub(crate) fn trusting(trust: Trust) -> Self {
        Self::with(&[], trust)
    }

    /// A standby host with a running base plugin `p`.
    pub(crate) async fn standby() -> Self {
        let config = ManagerConfig::default();
        let leadership = Leadership::new(config.clock.clone(), Arc::new(|| Duration::ZERO));
        let fences = Fences::of_groups(Groups::default(), |_| leadership.clone());
        let config = ManagerConfig { fences: Some(fences), ..config };
        Self::configured(&[], Trust::default(), config).and_base("p 1").await
    }

    fn with(names: &[&str], trust: Trust) -> Self {
        Self::configured(names, trust, ManagerConfig::default())
    }

    fn configured(names: &[&str], trust: Trust, config: ManagerConfig) -> Self {
        let writer = FakeWriter::agreeable();
        let writers = Arc::new(FakeWriters(writer.clone()));
        let manager = Arc::new(Manager::new(FakeServer::new(), writers, config));
        let loader = Arc::new(TextLoader::default());
        manager.set_loader(loader.clone());
        let control = Control::new(manager.clone(), loader.clone(), trust);
        let carried = [("p".to_owned(), b"p 1".as_slice())].into();
        let excluded = names.iter().map(|name| (*name).to_owned()).collect();
        let control = Arc::new(control.carrying(carried).excluding(excluded));
        let running = manager.clone();
        let running = tokio::spawn(async move { running.run(std::future::pending()).await });
        Self { manager, control, loader, writer, _running: AbortOnDropHandle::new(running) }
    }

    /// A base plugin that is not running.
    pub(crate) fn base(component: &'static str) -> Base {
        Base {
            label: "built-in",
            origin: "built-in".into(),
            bytes: Cow::Borrowed(component.as_bytes()),
            spec: Spec::default(),
            settings: serde_json::Map::new(),
        }
    }

    /// A host with a running base plugin, `NAME VERSION`.
    pub(crate) async fn with_base(component: &'static str) -> Self {
        Self::new().and_base(component).await
    }

    /// Adds a running base plugin.
    pub(crate) async fn and_base(self, component: &'static str) -> Self {
        self.and(Self::base(component)).await
    }

    /// Adds this running base plugin.
    pub(crate) async fn and(self, base: Base) -> Self {
        let component = String::from_utf8(base.bytes.to_vec()).unwrap();
        let name = component.split(' ').next().unwrap_or_default();
        let first = Component { origin: base.origin.clone(), bytes: base.bytes.to_vec() };
        self.manager.apply(first, &base.spec, None).await.unwrap();
        self.control.started(name, base);
        self.loaded();
        self
    }

    /// `NAME VERSION from ORIGIN` of each component loaded since the last call.
    pub(crate) fn loaded(&self) -> Vec<String> {
        std::mem::take(&mut self.loader.0.lock())
    }

    /// `NAME VERSION` of the running plugins.
    pub(crate) fn versions(&self) -> Vec<String> {
        self.manager.status().iter().map(|plugin| format!("{} {}", plugin.name, plugin.current.version)).collect()
    }

    pub(crate) fn spec(&self, name: &str) -> Spec {
        self.manager.spec(name).unwrap()
    }
}
