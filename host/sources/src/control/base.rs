//! What the host has by itself: built-in components, and those of the command line.

use std::borrow::Cow;

use pintle_core::lifecycle::Spec;
use pintle_core::policy::grants;
use pintle_core::ports::guest::Loader;
use pintle_oci::Evidence;
use serde_json::{Map, Value};

use super::Wanted;
use crate::wire::Overrides;

/// A plugin that runs from the start, and comes back when nobody else stands for its name any more.
#[derive(Clone)]
pub struct Base {
    /// `built-in` or `command line`.
    pub label: &'static str,
    /// For humans.
    pub origin: String,
    /// The component.
    pub bytes: Cow<'static, [u8]>,
    /// The operator's spec.
    pub spec: Spec,
    /// Those that `--set` and other flags give it.
    pub settings: Map<String, Value>,
}

impl Base {
    /// This, to take over again.
    pub(super) fn wanted(&self, loader: &dyn Loader) -> Wanted<'static> {
        let bytes = self.bytes.to_vec();
        let spec = granted(&self.origin, &bytes, self.spec.clone(), loader);
        // What was named when the host started was checked then.
        let evidence = Evidence::Own;
        Wanted { origin: self.origin.clone(), bytes, spec: Some(spec), overrides: &Overrides::NONE, evidence }
    }
}

/// The spec of a component that whoever started the host has chosen: it may do what it asks for, unless the spec says otherwise. What
/// ran before it, and may have asked for less, has no say in that.
pub(super) fn granted(origin: &str, bytes: &[u8], mut spec: Spec, loader: &dyn Loader) -> Spec {
    if spec.grants.is_none() {
        // What cannot be looked at will be refused with the reason.
        spec.grants = loader.look(origin, bytes).ok().map(|looked| grants::asked_by(&looked.manifest));
    }
    spec
}
