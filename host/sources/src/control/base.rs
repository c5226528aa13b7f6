//! The host's base plugins: built-in components, and those of the command line.

use std::borrow::Cow;

use pintle_core::lifecycle::Spec;
use pintle_core::policy::grants;
use pintle_core::ports::guest::Loader;
use pintle_oci::Evidence;
use serde_json::{Map, Value};

use super::{Control, Wanted};
use crate::wire::{Overrides, Refusal};

/// A plugin that runs from the start, and again when no other source owns its name.
#[derive(Clone)]
pub struct Base {
    /// [`Base::BUILT_IN`] or `command line`.
    pub label: &'static str,
    /// Origin for humans.
    pub origin: String,
    /// The component.
    pub bytes: Cow<'static, [u8]>,
    /// The operator's spec.
    pub spec: Spec,
    /// Settings from `--set` and other flags.
    pub settings: Map<String, Value>,
}

impl Base {
    /// The label of a built-in component.
    pub const BUILT_IN: &str = "built-in";

    /// This plugin as a request to apply.
    pub(super) fn wanted(&self, loader: &dyn Loader) -> Wanted<'static> {
        let bytes = self.bytes.to_vec();
        let spec = granted(&self.origin, &bytes, self.spec.clone(), loader);
        // Components of the start were verified then.
        let evidence = Evidence::Own;
        Wanted { origin: self.origin.clone(), bytes, spec: Some(spec), overrides: &Overrides::NONE, evidence }
    }
}

impl Control {
    /// Changes a setting of a base plugin, as if the host had been started with the new value. It takes effect
    /// immediately if the base is running unmodified, and otherwise when it runs again.
    ///
    /// # Errors
    /// [`Refusal`]; nothing has changed.
    ///
    /// # Cancel safety
    /// Must run to completion: otherwise the value is lost when the base runs again.
    pub(crate) async fn reconfigure(&self, name: &str, setting: &str, value: &str) -> Result<(), Refusal> {
        let with = |mut base: Base| {
            base.settings.insert(setting.to_owned(), value.into());
            base.spec.config = Value::Object(base.settings.clone());
            base
        };
        let (base, runs) = {
            let state = self.state.lock();
            let Some(held) = state.by_name.get(name) else { return Ok(()) };
            let Some(base) = held.base.clone() else { return Ok(()) };
            (with(base), held.claim.is_none() && !held.is_unloaded && !held.deviations.has_version())
        };
        if runs {
            self.carry_out(name, base.wanted(&*self.loader)).await?;
        }
        if let Some(held) = self.state.lock().by_name.get_mut(name) {
            held.base = held.base.take().map(with);
        }
        Ok(())
    }

    /// Counts a read of a setting's file without valid content.
    pub(crate) fn followed_file_failed(&self, plugin: &str, setting: &str) {
        self.plugins.count_followed_file_error(plugin, setting);
    }
}

/// The spec of a component chosen by the host's operator: it gets the grants that it requests, unless the spec lists
/// grants. Grants of its predecessor are ignored.
pub(super) fn granted(origin: &str, bytes: &[u8], mut spec: Spec, loader: &dyn Loader) -> Spec {
    if spec.grants.is_none() {
        // An invalid component is rejected later, with the reason.
        spec.grants = loader.inspect(origin, bytes).ok().map(|inspected| grants::asked_by(&inspected.manifest));
    }
    spec
}
