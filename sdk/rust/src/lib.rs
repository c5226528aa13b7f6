//! Write Kubernetes controllers as Pintle plugins.
//!
//! A plugin is a crate with `crate-type = ["cdylib", "rlib"]`, a `manifest.yaml` and a function:
//!
//! ```
//! use pintle_sdk::{Error, Key, Lister, Mutation, Outcome, Refusal, Resource, Step};
//! use serde_json::json;
//!
//! // In a plugin: pintle_sdk::types!("manifest.yaml");
//! pintle_sdk::types!("v1/Namespace": ["metadata.deletionTimestamp"], "v1/ServiceAccount": []);
//!
//! /// Ensures that every namespace has a ServiceAccount `robot`.
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
//! The function is called with a key of a work queue, without a reason for the run. It must be pure: the same view
//! gives the same outcome. The host keeps the caches, carries out the outcome, and runs the same key again only after
//! the caches have seen the writes. A failed run is retried with backoff.
//!
//! | to | see |
//! | --- | --- |
//! | read | [`types!`], [`resource!`], [`Lister`], [`Query`]; fast: [`borrowed`] |
//! | write | [`Outcome`], [`Step`], [`Mutation`], [`Event`], [`document::Document`] |
//! | read from the API server | [`Lister::live`], [`Lister::ask`] |
//! | manage children | [`Children`] |
//! | clean up | [`has_finalizer`], [`add_finalizer`], [`remove_finalizer`] |
//! | report status | [`patch_status`], [`set_condition`], [`Event`], [`log`] |
//! | detect changes | [`hash()`] |
//! | run a key later | [`Outcome::requeue_after`], [`Outcome::requeue_at`] |
//! | interpret Kubernetes' objects | [`pods`], [`quantity`], [`conditions`] |
//! | test natively | `testing` |
//!
//! # Not here
//! The manifest: the host documents its format (`pintle-core`, module `manifest`).

// Generated code refers to this crate by a path that must be valid both here and in plugins.
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
            "pintle:controller/types@0.2.0": crate::bindings::pintle::controller::types,
            "pintle:controller/view@0.2.0": crate::bindings::pintle::controller::view,
            "pintle:controller/log@0.2.0": crate::bindings::pintle::controller::log,
        },
    });
}

pub mod api;
pub mod borrowed;
pub mod canonical;
pub mod children;
pub mod conditions;
pub mod document;
pub mod equality;
mod error;
pub mod finalizers;
pub mod hash;
pub mod int_or_percent;
pub mod int_or_string;
mod limits;
mod lister;
pub mod log;
mod need;
mod outcome;
pub mod pods;
pub mod quantity;
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
pub use limits::Limits;
pub use lister::{ApiResource, Lister, OwnedBy, Query, decode};
pub use need::{CertificateRequest, LiveDetail, Need};
pub use outcome::{
    Action, ApiError, Body, Event, EventType, LONGEST_REQUEUE, Moment, Mutation, MutationFailure, Observation, Order,
    Outcome, PatchType, Place, Preconditions, Propagation, Refusal, Step, Wake, json,
};
pub use status::patch_status;
pub use types::{Key, Kind, ObjectKey, group_version};

#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub use wit_bindgen;

#[doc(hidden)]
pub use serde;

/// The examples of the page are doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../docs/engines.md")]
struct Engines;

/// Generates types for the kinds that the manifest watches, with exactly the fields that it declares.
///
/// With the manifest
///
/// ```yaml
/// watches:
///   - kind: v1/Pod
///     fields: [metadata.deletionTimestamp, "metadata.annotations['example.com/keep']", spec.containers.image, status.phase]
/// ```
///
/// `pintle_sdk::types!("manifest.yaml");` generates a type `Pod`:
///
/// ```
/// # pintle_sdk::types!("v1/Pod": [
/// #     "metadata.deletionTimestamp", "metadata.annotations['example.com/keep']", "spec.containers.image", "status.phase"
/// # ]);
/// fn images(pod: &Pod) -> Vec<&str> {
///     if pod.metadata.is_deleting() || pod.metadata.annotations.keep.is_some() {
///         return Vec::new();
///     }
///     pod.spec.containers.iter().map(|container| container.image.as_str()).collect()
/// }
/// ```
///
/// - A field that the manifest does not declare does not compile, because the cache does not have it:
///   ```compile_fail
///   # pintle_sdk::types!("v1/Pod": ["spec.containers.image"]);
///   # fn images(pod: &Pod) {
///   let _ = &pod.spec.containers[0].name;
///   # }
///   ```
///   `metadata.name`, `namespace`, `uid` and `resource_version` always exist.
/// - A path that Kubernetes does not have is an error that lists the nearest fields.
/// - Structs are named after the kind and the path: `PodSpecContainers`. If several paths read the same fields of the
///   same type, as for containers and init containers, the first path gives the name. A field `type` is `type_`. A key
///   in brackets is a field named after the last part of the key.
/// - Pointer fields of Kubernetes' own types are `Option`, and so are times; other missing fields have the zero value.
///   Conditions, owner references and label selectors are the types in [`api::meta`], and a Pod template is an
///   [`api::core::PodTemplateSpec`], if all of it is declared.
/// - Custom kinds have no generated type: see [`resource!`].
///
/// The code may read fewer fields than the manifest declares, and must list the fields that it reads of a kind that is
/// kept `whole`:
///
/// ```
/// pintle_sdk::types!(
///     "examples/webapp/manifest.yaml",
///     // Of the whole object.
///     "apps/v1/Deployment": ["spec.replicas", "status.readyReplicas"],
///     // With another type for a field.
///     "v1/ConfigMap" as Data: ["data": std::collections::HashMap<String, String>],
/// );
/// ```
///
/// - `"kind": [paths]` replaces the type of the kind. Reading a path that is neither declared nor part of a `whole`
///   object is an error. A list has fewer fields than a `whole` object: a type that reads more than `fields` is only
///   for `get` and `list_whole`.
/// - `"kind" as Name: [paths]` generates another type of the kind.
/// - `"kind" = library::Type` generates no type, and checks that the manifest declares the fields of the library's
///   type; `"kind" = [library::Type]` checks it for lists of a kind that is kept `whole`.
/// - `"kind" = _` generates no type, so that a manifest can watch a version that only another Kubernetes release
///   serves.
///
/// Without a manifest, as in a library that plugins share, the paths are not checked against one.
pub use pintle_sdk_macros::types;

#[doc(hidden)]
pub use pintle_sdk_macros::limits;

/// Exports a function as the plugin's `reconcile`, and optionally another one as its `mapping`.
///
/// ```
/// # use pintle_sdk::{Error, Key, Kind, Lister, Outcome};
/// fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
///     Ok(Outcome::new())
/// }
///
/// /// Keys that a change touches; a [`Wake`] is a key with a delay. `old` is absent for a new object, `new` for a deleted one; both are JSON projections.
/// fn keys_of(kind: &Kind, old: Option<&str>, new: Option<&str>, lister: &impl Lister) -> Vec<Key> {
///     Vec::new()
/// }
///
/// pintle_sdk::export!(reconcile, mapping = keys_of);
/// ```
///
/// An outcome beyond the `limits` of the `manifest.yaml` next to `Cargo.toml` is carried out in parts: see
/// [`Outcome::within`].
///
/// Natively it has no effect, so that the functions can be tested.
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
                    $crate::wasm::reconcile(key, lister, &$crate::limits!(), |key, lister| $reconcile(key, lister))
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
                    $crate::wasm::reconcile(key, lister, &$crate::limits!(), |key, lister| $reconcile(key, lister))
                }
            }

            impl $crate::mapping_bindings::exports::pintle::controller::mapping::Guest for Plugin {
                fn keys_of(
                    kind: $crate::bindings::pintle::controller::types::Kind,
                    old: ::core::option::Option<::std::string::String>,
                    new: ::core::option::Option<::std::string::String>,
                    lister: $crate::bindings::Lister,
                ) -> ::std::vec::Vec<$crate::bindings::pintle::controller::types::Wake> {
                    $crate::wasm::keys_of(kind, old, new, lister, |kind, old, new, lister| {
                        $keys_of(kind, old, new, lister)
                    })
                }
            }

    $crate::mapping_bindings::export_mapping!(Plugin with_types_in $crate::mapping_bindings);
        };
    };
}
