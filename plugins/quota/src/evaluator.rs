//! Usage of the objects of one kind, and scopes of quotas.
//!
//! *Source*: `apiserver/pkg/quota/v1/interfaces.go` and `generic/evaluator.go`;
//! `ScopedResourceSelectorRequirementsAsSelector` of `pkg/apis/core/v1/helper`.

use crate::Scope;
use crate::resource_list::{self, ResourceList};
use crate::types::ResourceQuota;

/// Computes the usage of the objects of one kind.
pub trait Evaluator {
    /// The fields that it reads.
    type Object;

    /// Whether it computes the usage of a resource.
    #[doc(alias = "MatchingResources")]
    fn measures(&self, resource: &str) -> bool;

    /// Whether an object is in a scope. Objects of most kinds are in none.
    #[doc(alias = "MatchesNoScopeFunc")]
    fn is_in(&self, _: &Scope, _: &Self::Object) -> bool {
        false
    }

    /// The usage of an object.
    #[doc(alias = "Usage")]
    #[doc(alias = "UsageFunc")]
    fn usage(&self, object: &Self::Object) -> ResourceList;

    /// Checks that an object has the fields that a quota of these resources requires.
    ///
    /// # Errors
    /// The missing fields.
    #[doc(alias = "Constraints")]
    fn constraints(&self, _: &[&str], _: &Self::Object) -> Result<(), String> {
        Ok(())
    }

    /// Whether an update may increase the usage. `subresource` is empty for the object itself. Every creation increases
    /// it.
    #[doc(alias = "Handles")]
    fn handles_update(&self, subresource: &str, old: &Self::Object, new: &Self::Object) -> bool;
}

/// The scopes of a quota, which counts objects that are in all of them.
#[doc(alias = "getScopeSelectorsFromQuota")]
pub fn scopes(quota: &ResourceQuota) -> Vec<Scope> {
    let named = |name: &String| Scope { scope_name: name.clone(), operator: "Exists".into(), values: Vec::new() };
    let selectors = quota.spec.scope_selector.iter().flat_map(|selector| selector.match_expressions.iter().cloned());
    quota.spec.scopes.iter().map(named).chain(selectors).collect()
}

/// The usage of the objects that are in all scopes.
#[doc(alias = "CalculateUsageStats")]
pub fn usage_stats<E: Evaluator>(
    evaluator: &E,
    scopes: &[Scope],
    objects: impl IntoIterator<Item = E::Object>,
) -> ResourceList {
    let mut used = ResourceList::new();
    for object in objects {
        if scopes.iter().all(|scope| evaluator.is_in(scope, &object)) {
            resource_list::add(&mut used, &evaluator.usage(&object));
        }
    }
    used
}

/// Whether a scope with an operator selects this value, such as the name of a class.
#[doc(alias = "ScopedResourceSelectorRequirementsAsSelector")]
pub(crate) fn selects(scope: &Scope, value: Option<&str>) -> bool {
    let is_listed = value.is_some_and(|value| scope.values.iter().any(|listed| listed == value));
    match scope.operator.as_str() {
        "In" => is_listed,
        "NotIn" => !is_listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        _ => false,
    }
}
