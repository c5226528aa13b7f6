//! What the attacks share: the contract's bindings, and the little that they build of its types.
//!
//! An attack is a crate beside this one with a function from key and lister to outcome, or the text of a module where no compiler
//! would make what is wanted. `tests/tests/hostile.rs` says what must become of each.

#[allow(missing_docs, clippy::all, reason = "generated")]
pub mod bindings {
    wit_bindgen::generate!({
        world: "controller",
        path: "../../../wit",
        pub_export_macro: true,
        default_bindings_module: "hostile::bindings",
    });
}

pub use bindings::pintle::controller::log;
pub use bindings::pintle::controller::types::*;
pub use bindings::pintle::controller::view::{Lister, OwnedBy, Query};

/// Exports a function from key and lister to outcome.
#[macro_export]
macro_rules! attack {
    ($attack:expr) => {
        struct Attack;

        $crate::bindings::export!(Attack with_types_in $crate::bindings);

        impl $crate::bindings::Guest for Attack {
            fn reconcile(key: $crate::Key, lister: $crate::Lister) -> Result<$crate::Outcome, $crate::ReconcileError> {
                let attack: fn($crate::Key, $crate::Lister) -> $crate::Outcome = $attack;
                Ok(attack(key, lister))
            }
        }
    };
}

/// An outcome that wants nothing.
pub fn nothing() -> Outcome {
    Outcome { needs: vec![], steps: vec![], requeue_after_ms: None, state: vec![], observations: vec![] }
}

/// One that wants to be called again at once.
pub fn again() -> Outcome {
    Outcome { requeue_after_ms: Some(0), ..nothing() }
}

pub fn kind(name: &str) -> Kind {
    Kind { group: String::new(), version: "v1".into(), name: name.into() }
}

pub fn object(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey { namespace: namespace.into(), name: name.into() }
}

/// Everything of a kind.
pub fn all() -> Query {
    Query { namespace: None, label_selector: None, owner: None, index: None, whole: false }
}

/// Creates a ConfigMap with this metadata.
pub fn create(namespace: &str, metadata: &str) -> Action {
    let object = format!(r#"{{"metadata":{metadata}}}"#);
    Action::Create(Create { kind: kind("ConfigMap"), namespace: namespace.into(), object, subresource: None })
}

/// One step with these actions.
pub fn writing(actions: Vec<Action>) -> Outcome {
    let mutation = |action| Mutation { action, on_success: None, on_failure: None, tolerate: vec![] };
    let step = Step { order: Order::Parallel, mutations: actions.into_iter().map(mutation).collect(), always: false };
    Outcome { steps: vec![step], ..nothing() }
}
