//! The contract's types and exports, generated from `wit/`.

#![allow(missing_docs, unreachable_pub, dead_code, clippy::all, reason = "generated; documented in wit/controller.wit")]

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "controller",
    with: { "pintle:controller/view.lister": crate::store::Lister },
    exports: { default: async },
});

pub(crate) use pintle::controller::{log, types, view};

/// The interface of the optional mapping function.
pub(crate) const MAPPING: &str = "pintle:controller/mapping@0.1.0";
/// The mapping function.
pub(crate) const KEYS_OF: &str = "keys-of";
/// The function that every controller exports.
pub(crate) const RECONCILE: &str = "reconcile";
/// The interface that contains the lister.
pub(crate) const VIEW: &str = "pintle:controller/view@0.1.0";
/// The interface that contains the log.
pub(crate) const LOG: &str = "pintle:controller/log@0.1.0";
/// Imports that a component may have.
pub(crate) const IMPORTS: [&str; 3] = [LOG, "pintle:controller/types@0.1.0", VIEW];
