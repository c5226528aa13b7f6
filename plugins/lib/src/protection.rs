//! Finalizers that protect objects in use: the controller adds the finalizer to every object, and removes it from an
//! object that is being deleted once nothing uses it.

use pintle_sdk::api::meta::{HasDeletionTimestamp, HasFinalizers};
use pintle_sdk::document::Document;
use pintle_sdk::{Error, Kind, Mutation, add_finalizer, has_finalizer, remove_finalizer};

/// Change of a protection finalizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// None: the finalizer is set, or already removed from an object that is being deleted.
    Unchanged,
    /// The object is not being deleted and does not have it.
    Add,
    /// The object is being deleted, and nothing uses it.
    Remove,
    /// The object is being deleted and still in use: run again when its users change.
    Wait,
}

/// Decides on a protection finalizer. `is_used` is called only for an object that is being deleted and has the
/// finalizer.
///
/// ```
/// use pintle_sdk::api::meta::ObjectMeta;
/// use plugin_lib::protection::{Protection, protection};
///
/// let fresh = ObjectMeta::default();
/// assert_eq!(protection(&fresh, "kubernetes.io/pvc-protection", || Ok(true))?, Protection::Add);
/// # Ok::<(), pintle_sdk::Error>(())
/// ```
///
/// *Source*: Kubernetes' `pkg/controller/util/protectionutil/utils.go`, and the controllers in `pkg/controller/volume/pvcprotection`,
/// `pvprotection` and `vacprotection` and `pkg/controller/scheduling/podgroupprotection`.
///
/// # Errors
/// Those of `is_used`, such as [`Error::Needs`]: pass them on with `?`.
#[doc(alias = "IsDeletionCandidate")]
#[doc(alias = "NeedToAddFinalizer")]
pub fn protection(
    object: &(impl HasFinalizers + HasDeletionTimestamp),
    name: &str,
    is_used: impl FnOnce() -> Result<bool, Error>,
) -> Result<Protection, Error> {
    Ok(match (object.deletion_timestamp().is_some(), has_finalizer(object, name)) {
        (false, false) => Protection::Add,
        (true, true) if is_used()? => Protection::Wait,
        (true, true) => Protection::Remove,
        (false, true) | (true, false) => Protection::Unchanged,
    })
}

impl Protection {
    /// The patch, if something changes. The grant needs `patch`.
    #[doc(alias = "addFinalizer")]
    #[doc(alias = "removeFinalizer")]
    pub fn patch(self, kind: &Kind, object: &impl HasFinalizers, name: &str) -> Option<Mutation> {
        match self {
            Self::Add => Some(add_finalizer(kind, object, name)),
            Self::Remove => Some(remove_finalizer(kind, object, name)),
            Self::Unchanged | Self::Wait => None,
        }
    }

    /// The update of the whole object, if something changes. The grant needs `update`, and the watch `whole`.
    #[doc(alias = "addFinalizer")]
    #[doc(alias = "removeFinalizer")]
    pub fn update(
        self,
        kind: &Kind,
        object: &impl HasFinalizers,
        mut document: Document,
        name: &str,
    ) -> Option<Mutation> {
        const PATH: [&str; 2] = ["metadata", "finalizers"];
        let mut finalizers: Vec<&str> = object.finalizers().iter().map(String::as_str).collect();
        match self {
            Self::Add => finalizers.push(name),
            Self::Remove => finalizers.retain(|finalizer| *finalizer != name),
            Self::Unchanged | Self::Wait => return None,
        }
        if finalizers.is_empty() {
            document.remove(&PATH);
        } else {
            document.set(&PATH, &finalizers);
        }
        Some(Mutation::update(kind, document))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_sdk::PatchType;
    use pintle_sdk::api::meta::ObjectMeta;
    use serde_json::json;

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
    fn a_protected_object_goes_when_nothing_uses_it() {
        let decide = |finalizers: &[&str], deleting: bool, used: Option<bool>| {
            let mut object = widget(finalizers);
            object.deletion_timestamp = deleting.then_some(pintle_sdk::time::Timestamp::from_micros(0));
            // Without an answer, `is_used` must not be called.
            protection(&object, "b", || Ok(used.unwrap())).unwrap()
        };
        assert_eq!(decide(&["a"], false, None), Protection::Add);
        assert_eq!(decide(&["a", "b"], false, None), Protection::Unchanged);
        assert_eq!(decide(&["a"], true, None), Protection::Unchanged);
        assert_eq!(decide(&["b"], true, Some(true)), Protection::Wait);
        assert_eq!(decide(&["b"], true, Some(false)), Protection::Remove);
        let deleting =
            ObjectMeta { deletion_timestamp: Some(pintle_sdk::time::Timestamp::from_micros(0)), ..widget(&["b"]) };
        let needs = protection(&deleting, "b", || Err(Error::Needs(Vec::new())));
        assert_eq!(needs, Err(Error::Needs(Vec::new())));
    }

    #[test]
    fn a_finalizer_is_patched_or_updated() {
        check(&Protection::Add.patch(&KIND, &widget(&["a"]), "b").unwrap(), &["a", "b"]);
        check(&Protection::Remove.patch(&KIND, &widget(&["a", "b"]), "b").unwrap(), &["a"]);
        assert_eq!(Protection::Wait.patch(&KIND, &widget(&["b"]), "b"), None);

        let update = |protection: Protection, finalizers: &[&str]| {
            let document = json!({"metadata": {"name": "w", "finalizers": finalizers}, "spec": 1}).to_string();
            protection.update(&KIND, &widget(finalizers), Document::parse(&document).unwrap(), "b")
        };
        let expect = |text: &str| Some(Mutation::update(&KIND, text));
        let added = expect(r#"{"metadata":{"name":"w","finalizers":["a","b"]},"spec":1}"#);
        assert_eq!(update(Protection::Add, &["a"]), added);
        assert_eq!(
            update(Protection::Remove, &["a", "b"]),
            expect(r#"{"metadata":{"name":"w","finalizers":["a"]},"spec":1}"#)
        );
        assert_eq!(update(Protection::Remove, &["b"]), expect(r#"{"metadata":{"name":"w"},"spec":1}"#));
        assert_eq!(update(Protection::Unchanged, &["b"]), None);
    }
}
