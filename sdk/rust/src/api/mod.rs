//! Types for Kubernetes objects, with the fields that plugins read.
//!
//! [`types!`](crate::types) generates a type for each kind that the manifest watches, with its declared fields. Types
//! that many kinds share, such as owner references and conditions, are in [`meta`].
//!
//! Do not write back a type with a part of an object as a whole; see [`Document`](crate::document::Document) and
//! patches. Every field may be missing (a projection leaves out undeclared fields), and then has its zero value.
//!
//! For a custom kind, derive `Deserialize` with `#[serde(default, rename_all = "camelCase")]` and use
//! [`resource!`](crate::resource); `pintle types` writes both from a CustomResourceDefinition.

use serde::{Deserialize, Deserializer};

use meta::Resource;

pub mod core;
pub mod meta;

/// A type whose fields are all in lists: [`Lister::list`](crate::Lister::list) returns the `fields` of the manifest,
/// even for a kind that is kept `whole`.
///
/// ```compile_fail
/// use pintle_sdk::{Lister, Query};
///
/// pintle_sdk::types!("examples/webapp/manifest.yaml", "apps/v1/Deployment": ["spec.replicas"]);
///
/// fn deployments(lister: &impl Lister) {
///     // Does not compile, as the watch has no `fields`.
///     let _ = lister.list::<Deployment>(&Query::all());
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "a list does not have all fields of `{Self}`",
    note = "add the fields to `fields` of the kind in the manifest, use `list_whole`, or read the list with another type: \
            `types!(\"manifest.yaml\", \"group/version/Kind\" as Listed: [...])`"
)]
pub trait Listed: Resource {}

/// A type with known field paths. [`types!`](crate::types) implements it.
pub trait Projection: Resource {
    /// Field paths, as in the manifest.
    const FIELDS: &'static [&'static str];
}

/// Fails to compile if a field path is neither equal to nor below a declared path.
///
/// # Panics
/// In that case; the message is the path.
#[doc(hidden)]
pub const fn assert_declared(reads: &[&str], declared: &[&str]) {
    let mut i = 0;
    while i < reads.len() {
        let mut k = 0;
        while k < declared.len() && !is_within(reads[i].as_bytes(), declared[k].as_bytes()) {
            k += 1;
        }
        // At compile time, only a complete string can be part of a message.
        assert!(k < declared.len(), "{}", reads[i]);
        i += 1;
    }
}

/// Whether a path is equal to or below another one.
const fn is_within(path: &[u8], outer: &[u8]) -> bool {
    if path.len() < outer.len() || path.len() > outer.len() && !matches!(path[outer.len()], b'.' | b'[') {
        return false;
    }
    let mut i = 0;
    while i < outer.len() {
        if path[i] != outer[i] {
            return false;
        }
        i += 1;
    }
    true
}

/// Decodes `null` as the zero value.
#[doc(hidden)]
pub fn or_default<'de, T: Default + Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Whether the value is its type's zero value, which is omitted.
#[doc(hidden)]
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_declared_if_it_or_a_parent_is_listed() {
        for (path, outer, expected) in [
            ("status", "status", true),
            ("status.phase", "status", true),
            ("metadata.annotations['a/b']", "metadata.annotations", true),
            ("status", "status.phase", false),
            ("statuses", "status", false),
            ("spec.a", "spec.b", false),
        ] {
            assert_eq!(is_within(path.as_bytes(), outer.as_bytes()), expected, "{path} in {outer}");
        }
    }
}
