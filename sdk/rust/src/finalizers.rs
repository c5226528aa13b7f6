//! Finalizers: an object is deleted only after its finalizers are removed.
//!
//! If no owner reference covers a controller's resources, it adds its finalizer *before* it creates any of them, and
//! removes it after the cleanup: [`add_finalizer`], [`remove_finalizer`].

use serde_json::json;

use crate::api::meta::HasFinalizers;
use crate::outcome::{Mutation, PatchType};
use crate::types::Kind;

/// Whether the object has the finalizer.
#[doc(alias = "ContainsFinalizer")]
pub fn has_finalizer(object: &impl HasFinalizers, name: &str) -> bool {
    object.finalizers().iter().any(|finalizer| finalizer == name)
}

/// A patch that appends the finalizer. The API server rejects it with a conflict if the object has changed since it was
/// read, because the patch contains the whole list; the run is then repeated.
#[doc(alias = "AddFinalizer")]
pub fn add_finalizer(kind: &Kind, object: &impl HasFinalizers, name: &str) -> Mutation {
    let mut finalizers = object.finalizers().to_vec();
    if !has_finalizer(object, name) {
        finalizers.push(name.to_owned());
    }
    replace(kind, object, &finalizers)
}

/// A patch that removes the finalizer, and leaves the others. Conflicts as for [`add_finalizer`].
#[doc(alias = "RemoveFinalizer")]
pub fn remove_finalizer(kind: &Kind, object: &impl HasFinalizers, name: &str) -> Mutation {
    let finalizers: Vec<String> = object.finalizers().iter().filter(|finalizer| *finalizer != name).cloned().collect();
    replace(kind, object, &finalizers)
}

fn replace(kind: &Kind, object: &impl HasFinalizers, finalizers: &[String]) -> Mutation {
    Mutation::patch(kind, object.key(), PatchType::Merge, json!({"metadata": {"finalizers": finalizers}}))
        .uid(object.uid())
        .resource_version(object.resource_version())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::meta::ObjectMeta;

    const KIND: Kind = Kind::new("example.com", "v1", "Widget");

    fn widget(finalizers: &[&str]) -> ObjectMeta {
        ObjectMeta {
            name: "w".into(),
            namespace: "default".into(),
            uid: "u".into(),
            resource_version: "7".into(),
            finalizers: finalizers.iter().map(|&name| name.into()).collect(),
            ..ObjectMeta::default()
        }
    }

    fn check(mutation: &Mutation, finalizers: &[&str]) {
        let body = json!({"metadata": {"finalizers": finalizers}});
        let wanted = Mutation::patch(&KIND, widget(&[]).key(), PatchType::Merge, body).uid("u").resource_version("7");
        assert_eq!(*mutation, wanted);
    }

    #[test]
    fn a_finalizer_comes_last_and_once() {
        assert!(!has_finalizer(&widget(&["a"]), "b"));
        check(&add_finalizer(&KIND, &widget(&["a"]), "b"), &["a", "b"]);
        check(&add_finalizer(&KIND, &widget(&["b", "a"]), "b"), &["b", "a"]);
    }

    #[test]
    fn others_stay_when_a_finalizer_goes() {
        assert!(has_finalizer(&widget(&["a", "b"]), "b"));
        check(&remove_finalizer(&KIND, &widget(&["a", "b", "c"]), "b"), &["a", "c"]);
        check(&remove_finalizer(&KIND, &widget(&["b"]), "b"), &[]);
    }
}
