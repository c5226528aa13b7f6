//! The contract's types and exports, generated from `wit/`, and what differs in released versions.
//!
//! A type that two versions share has one Rust type: wasmtime compares their structure. [`released`] has the others.

pub(crate) mod released;

use pintle_core::contract::manifest::Manifest;

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

/// A version of the contract that components can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contract {
    /// Released.
    V0_1,
    /// Released; the newest.
    V0_2,
}

impl Contract {
    /// All of them.
    pub(crate) const ALL: [Self; 2] = [Self::V0_1, Self::V0_2];

    /// As in names of interfaces.
    pub(crate) fn version(self) -> &'static str {
        match self {
            Self::V0_1 => "0.1.0",
            Self::V0_2 => "0.2.0",
        }
    }

    /// As in manifests.
    pub(crate) fn short(self) -> &'static str {
        self.version().rsplit_once('.').map_or("", |(short, _)| short)
    }

    /// The interface that contains the lister.
    pub(crate) fn view(self) -> String {
        self.interface("view")
    }

    /// The interface that contains the log.
    pub(crate) fn log(self) -> String {
        self.interface("log")
    }

    /// The interface of the optional mapping function.
    pub(crate) fn mapping(self) -> String {
        self.interface("mapping")
    }

    /// The version that an interface belongs to, if a component may import or export it.
    pub(crate) fn of(interface: &str) -> Option<Self> {
        let (name, version) = interface.strip_prefix("pintle:controller/")?.split_once('@')?;
        let is_known = ["log", "types", "view", "mapping"].contains(&name);
        Self::ALL.into_iter().find(|contract| is_known && contract.version() == version)
    }

    /// The version that a manifest declares; every valid one has one.
    pub(crate) fn of_manifest(manifest: &Manifest) -> Option<Self> {
        Self::ALL.into_iter().find(|contract| contract.short() == manifest.contract)
    }

    fn interface(self, name: &str) -> String {
        format!("pintle:controller/{name}@{}", self.version())
    }
}
