//! Write Kubernetes controllers as Pintle plugins.
//!
//! A plugin is a crate with `crate-type = ["cdylib", "rlib"]`, a `manifest.yaml` and a function:
//!
//! ```
//! use pintle_sdk::api::core::{Namespace, ServiceAccount};
//! use pintle_sdk::{Error, Key, Lister, Mutation, Outcome, Refusal, Resource, Step};
//! use serde_json::json;
//!
//! /// Sees to it that every namespace has a ServiceAccount `robot`.
//! pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
//!     let Some(namespace) = lister.get::<Namespace>("", &key.name)? else { return Ok(Outcome::new()) };
//!     if namespace.metadata.is_deleting() || lister.get::<ServiceAccount>(&key.name, "robot")?.is_some() {
//!         return Ok(Outcome::new());
//!     }
//!     let create = Mutation::create(&ServiceAccount::KIND, &key.name, json!({"metadata": {"name": "robot"}}))
//!         .tolerate([Refusal::AlreadyExists]);
//!     Ok(Outcome::new().step(Step::sequential([create])))
//! }
//!
//! pintle_sdk::export!(reconcile);
//! ```
//!
//! The function is called with a key of a work queue, is never told why, and must be pure: the same view gives the same outcome.
//! The host keeps the caches, carries out the outcome, and does not call again for the same key before the caches have seen
//! the writes. A run that fails is repeated with a growing delay.
//!
//! | to | see |
//! | --- | --- |
//! | read | [`Lister`], [`Query`], [`api`], [`resource!`]; fast: [`borrowed`] |
//! | write | [`Outcome`], [`Step`], [`Mutation`], [`Event`], [`document::Document`] |
//! | read from the API server itself | [`Lister::live`], [`Lister::ask`] |
//! | want a set of children | [`Children`] |
//! | claim objects by a selector | [`controller_ref`] |
//! | clean up | [`has_finalizer`], [`add_finalizer`], [`remove_finalizer`] |
//! | tell | [`patch_status`], [`set_condition`], [`Event`], [`log`] |
//! | notice changes | [`hash()`] |
//! | test natively | `testing` |
//!
//! # Not here
//! The manifest: its format is documented by the host (`pintle-core`, module `manifest`).

// The bindings name the runtime by a path that must hold both here and in plugins, where `export!` expands.
#[cfg(target_arch = "wasm32")]
extern crate self as pintle_sdk;

#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
#[allow(missing_docs, unreachable_pub, clippy::all, reason = "generated code")]
pub mod bindings {
    wit_bindgen::generate!({
        path: "../../wit",
        world: "controller",
        pub_export_macro: true,
        default_bindings_module: "pintle_sdk::bindings",
        runtime_path: "pintle_sdk::wit_bindgen::rt",
        generate_all,
    });
}

#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
#[allow(missing_docs, unreachable_pub, clippy::all, reason = "generated code")]
pub mod mapping_bindings {
    wit_bindgen::generate!({
        path: "../../wit",
        world: "mapping-controller",
        pub_export_macro: true,
        export_macro_name: "export_mapping",
        default_bindings_module: "pintle_sdk::mapping_bindings",
        runtime_path: "pintle_sdk::wit_bindgen::rt",
        with: {
            "pintle:controller/types@0.1.0": crate::bindings::pintle::controller::types,
            "pintle:controller/view@0.1.0": crate::bindings::pintle::controller::view,
            "pintle:controller/log@0.1.0": crate::bindings::pintle::controller::log,
        },
    });
}

pub mod api;
pub mod borrowed;
pub mod canonical;
pub mod children;
pub mod conditions;
pub mod controller_ref;
pub mod document;
pub mod equality;
mod error;
pub mod finalizers;
pub mod hash;
pub mod int_or_percent;
mod lister;
pub mod log;
mod outcome;
pub mod pods;
pub mod selector;
pub mod status;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;
pub mod time;
mod types;
#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub mod wasm;

pub use api::meta::Resource;
pub use canonical::hash;
pub use children::{Child, Children, Conflict, Plan};
pub use conditions::{find_condition, is_true, set_condition};
pub use error::Error;
pub use finalizers::{add_finalizer, has_finalizer, remove_finalizer};
pub use lister::{ApiResource, Lister, OwnedBy, Query, decode};
pub use outcome::{
    Action, ApiError, Body, Event, EventType, Mutation, MutationFailure, Need, Observation, Order, Outcome, PatchType,
    Preconditions, Propagation, Refusal, Step, json,
};
pub use status::patch_status;
pub use types::{Key, Kind, ObjectKey};

#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub use wit_bindgen;

/// Makes a function the plugin's `reconcile`, and optionally another one its `mapping`.
///
/// ```
/// # use pintle_sdk::{Error, Key, Kind, Lister, Outcome};
/// fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
///     Ok(Outcome::new())
/// }
///
/// /// Keys that a change touches. `old` is absent for a new object, `new` for a deleted one; both are JSON projections.
/// fn keys_of(kind: &Kind, old: Option<&str>, new: Option<&str>, lister: &impl Lister) -> Vec<Key> {
///     Vec::new()
/// }
///
/// pintle_sdk::export!(reconcile, mapping = keys_of);
/// ```
///
/// Natively it does nothing, so that the functions can be tested.
#[macro_export]
macro_rules! export {
    ($reconcile:path) => {
        #[cfg(target_arch = "wasm32")]
        #[allow(unsafe_code, reason = "the component's exports are symbols with fixed names")]
        const _: () = {
            struct Plugin;

            impl $crate::bindings::Guest for Plugin {
                fn reconcile(
                    key: $crate::bindings::Key,
                    lister: $crate::bindings::Lister,
                ) -> ::core::result::Result<$crate::bindings::Outcome, $crate::bindings::ReconcileError> {
                    $crate::wasm::reconcile(key, lister, |key, lister| $reconcile(key, lister))
                }
            }

    $crate::bindings::export!(Plugin with_types_in $crate::bindings);
        };
    };
    ($reconcile:path, mapping = $keys_of:path) => {
        #[cfg(target_arch = "wasm32")]
        #[allow(unsafe_code, reason = "the component's exports are symbols with fixed names")]
        const _: () = {
            struct Plugin;

            impl $crate::mapping_bindings::Guest for Plugin {
                fn reconcile(
                    key: $crate::bindings::Key,
                    lister: $crate::bindings::Lister,
                ) -> ::core::result::Result<$crate::bindings::Outcome, $crate::bindings::ReconcileError> {
                    $crate::wasm::reconcile(key, lister, |key, lister| $reconcile(key, lister))
                }
            }

            impl $crate::mapping_bindings::exports::pintle::controller::mapping::Guest for Plugin {
                fn keys_of(
                    kind: $crate::bindings::pintle::controller::types::Kind,
                    old: ::core::option::Option<::std::string::String>,
                    new: ::core::option::Option<::std::string::String>,
                    lister: $crate::bindings::Lister,
                ) -> ::std::vec::Vec<$crate::bindings::Key> {
                    $crate::wasm::keys_of(kind, old, new, lister, |kind, old, new, lister| {
                        $keys_of(kind, old, new, lister)
                    })
                }
            }

    $crate::mapping_bindings::export_mapping!(Plugin with_types_in $crate::mapping_bindings);
        };
    };
}
