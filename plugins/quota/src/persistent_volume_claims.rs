//! Claims and their requested storage, in total and by class.
//!
//! *Source*: `pkg/quota/v1/evaluator/core/persistent_volume_claims.go`; `GetPersistentVolumeClaimClass` of
//! `component-helpers`.

use pintle_sdk::quantity::Quantity;

use crate::Scope;
use crate::evaluator::{Evaluator, selects};
use crate::resource_list::{ONE, ResourceList};
use crate::types::PersistentVolumeClaim;

const COUNT: &str = "count/persistentvolumeclaims";
const CLAIMS: &str = "persistentvolumeclaims";
const STORAGE: &str = "requests.storage";

/// The text between the name of a class and the name of the resource.
#[doc(alias = "storageClassSuffix")]
const OF_CLASS: &str = ".storageclass.storage.k8s.io/";

/// Usage of PersistentVolumeClaims.
pub struct PersistentVolumeClaims;

impl Evaluator for PersistentVolumeClaims {
    type Object = PersistentVolumeClaim;

    fn measures(&self, resource: &str) -> bool {
        let of_class = |measure: &str| resource.strip_suffix(measure).is_some_and(|class| class.ends_with(OF_CLASS));
        [COUNT, CLAIMS, STORAGE].contains(&resource) || [CLAIMS, STORAGE].into_iter().any(of_class)
    }

    #[doc(alias = "pvcMatchesScopeFunc")]
    fn is_in(&self, scope: &Scope, claim: &PersistentVolumeClaim) -> bool {
        if scope.scope_name != "VolumeAttributesClass" {
            return false;
        }
        let names = attributes_classes(claim);
        match names.is_empty() {
            true => selects(scope, None),
            false => names.into_iter().any(|name| selects(scope, Some(name))),
        }
    }

    fn usage(&self, claim: &PersistentVolumeClaim) -> ResourceList {
        let class = class(claim);
        let of_class = |measure: &str| format!("{class}{OF_CLASS}{measure}");
        let mut used = ResourceList::from([(CLAIMS.to_owned(), ONE), (COUNT.to_owned(), ONE)]);
        if !class.is_empty() {
            used.insert(of_class(CLAIMS), ONE);
        }
        if let Some(storage) = storage(claim) {
            used.insert(STORAGE.to_owned(), storage);
            if !class.is_empty() {
                used.insert(of_class(STORAGE), storage);
            }
        }
        used
    }

    /// Upstream compares pointers to the allocated resources, which always differ.
    #[doc(alias = "RequiresQuotaReplenish")]
    fn handles_update(&self, subresource: &str, _: &PersistentVolumeClaim, _: &PersistentVolumeClaim) -> bool {
        matches!(subresource, "" | "status")
    }
}

#[doc(alias = "GetPersistentVolumeClaimClass")]
fn class(claim: &PersistentVolumeClaim) -> &str {
    let annotated = claim.metadata.annotations.storage_class.as_deref();
    annotated.or(claim.spec.storage_class_name.as_deref()).unwrap_or_default()
}

/// The larger of the requested and the allocated storage, in whole bytes.
#[doc(alias = "getStorageUsage")]
fn storage(claim: &PersistentVolumeClaim) -> Option<Quantity> {
    let asked = *claim.spec.resources.requests.get("storage")?;
    let most = claim.status.allocated_resources.get("storage").map_or(asked, |promised| asked.max(*promised));
    let whole = Quantity::new(most.value(), most.format());
    // A quantity that is too large to round is whole.
    Some(most.max(whole))
}

/// The requested, current and target class of a claim.
#[doc(alias = "getReferencedVolumeAttributesClassNames")]
fn attributes_classes(claim: &PersistentVolumeClaim) -> Vec<&str> {
    let modified = claim.status.modify_volume_status.as_ref();
    let names = [
        claim.spec.volume_attributes_class_name.as_deref(),
        claim.status.current_volume_attributes_class_name.as_deref(),
        modified.map(|status| status.target_volume_attributes_class_name.as_str()),
    ];
    names.into_iter().flatten().filter(|name| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::resource_list::text;

    fn claim(value: &Value) -> PersistentVolumeClaim {
        serde_json::from_value(value.clone()).unwrap()
    }

    /// As `TestPersistentVolumeClaimEvaluatorUsage` of persistent_volume_claims_test.go.
    #[test]
    fn usage_is_that_of_upstream() {
        let asks = |storage: &str| json!({"spec": {"resources": {"requests": {"storage": storage}}}});
        let with = |mut claim: Value, part: &str, value: Value| {
            claim[part] = value;
            claim
        };
        let mut gold = asks("10Gi");
        gold["spec"]["storageClassName"] = json!("gold");
        let annotated = with(
            gold.clone(),
            "metadata",
            json!({"annotations": {"volume.beta.kubernetes.io/storage-class": "silver"}}),
        );
        let promised =
            |storage: &str| with(asks("10Gi"), "status", json!({"allocatedResources": {"storage": storage}}));
        let all = "count/persistentvolumeclaims=1";
        for (value, expected) in [
            (asks("10Gi"), format!("{all},persistentvolumeclaims=1,requests.storage=10Gi")),
            (asks("10000.1"), format!("{all},persistentvolumeclaims=1,requests.storage=10001")),
            (
                gold,
                format!(
                    "{all},gold.storageclass.storage.k8s.io/persistentvolumeclaims=1,\
                     gold.storageclass.storage.k8s.io/requests.storage=10Gi,persistentvolumeclaims=1,requests.storage=10Gi"
                ),
            ),
            (
                annotated,
                format!(
                    "{all},persistentvolumeclaims=1,requests.storage=10Gi,\
                     silver.storageclass.storage.k8s.io/persistentvolumeclaims=1,\
                     silver.storageclass.storage.k8s.io/requests.storage=10Gi"
                ),
            ),
            (promised("20Gi"), format!("{all},persistentvolumeclaims=1,requests.storage=20Gi")),
            (promised("5Gi"), format!("{all},persistentvolumeclaims=1,requests.storage=10Gi")),
            (json!({}), format!("{all},persistentvolumeclaims=1")),
        ] {
            assert_eq!(text(PersistentVolumeClaims.usage(&claim(&value)).iter()), expected, "{value}");
        }
    }

    /// As `TestPersistentVolumeClaimEvaluatorMatchingScopes`.
    #[test]
    fn claims_are_in_the_scopes_of_upstream() {
        let scope = |operator: &str, values: &[&str]| Scope {
            scope_name: "VolumeAttributesClass".into(),
            operator: operator.into(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        let none = json!({});
        let three = json!({
            "spec": {"volumeAttributesClassName": "class1"},
            "status": {"currentVolumeAttributesClassName": "class2", "modifyVolumeStatus": {"targetVolumeAttributesClassName": "class3"}},
        });
        for (value, scope, expected) in [
            (&none, scope("Exists", &[]), false),
            (&none, scope("DoesNotExist", &[]), true),
            (&none, scope("NotIn", &["class1"]), true),
            (&none, scope("In", &["class1"]), false),
            (&three, scope("Exists", &[]), true),
            (&three, scope("In", &["class3"]), true),
            (&three, scope("In", &["class4"]), false),
            (&three, scope("NotIn", &["class1"]), true),
            (&three, scope("NotIn", &["class1", "class2", "class3"]), false),
        ] {
            assert_eq!(PersistentVolumeClaims.is_in(&scope, &claim(value)), expected, "{scope:?} {value}");
        }
    }

    /// As `TestPersistentVolumeClaimEvaluatorMatchingResources`.
    #[test]
    fn names_of_resources_are_those_of_upstream() {
        for (name, expected) in [
            ("count/persistentvolumeclaims", true),
            ("persistentvolumeclaims", true),
            ("requests.storage", true),
            ("gold.storageclass.storage.k8s.io/requests.storage", true),
            ("gold.storageclass.storage.k8s.io/persistentvolumeclaims", true),
            ("gold.storageclass.storage.k8s.io/limits.storage", false),
            ("storage", false),
        ] {
            assert_eq!(PersistentVolumeClaims.measures(name), expected, "{name}");
        }
    }
}
