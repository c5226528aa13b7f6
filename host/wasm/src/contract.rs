//! The contract's types and exports, generated from `wit/`.

#[allow(missing_docs, unreachable_pub, dead_code, clippy::all, reason = "generated; documented in wit/controller.wit")]
mod generated {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "controller",
        with: { "pintle:controller/view.lister": crate::store::Lister },
        exports: { default: async },
    });
}

pub(crate) use generated::pintle::controller::{log, types, view};

/// The mapping function.
pub(crate) const KEYS_OF: &str = "keys-of";
/// The function that every controller exports.
pub(crate) const RECONCILE: &str = "reconcile";

/// The version in interface names.
pub(crate) const VERSION: &str = "0.2.0";
/// The interface that contains the lister.
pub(crate) const VIEW: &str = "pintle:controller/view@0.2.0";
/// The interface that contains the log.
pub(crate) const LOG: &str = "pintle:controller/log@0.2.0";
/// The interface that contains the types.
pub(crate) const TYPES: &str = "pintle:controller/types@0.2.0";
/// The interface of the optional mapping function.
pub(crate) const MAPPING: &str = "pintle:controller/mapping@0.2.0";

/// The contract version of one of its interfaces, supported or not.
pub(crate) fn version_of(interface: &str) -> Option<&str> {
    interface.strip_prefix("pintle:controller/")?.split_once('@').map(|(_, version)| version)
}

/// A version as in manifests: `0.2` for `0.2.0`.
pub(crate) fn short(version: &str) -> &str {
    version.rsplit_once('.').map_or(version, |(short, _)| short)
}
