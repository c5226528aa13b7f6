//! ResourceQuota: counts of Pods and of objects, refused when they would pass what is allowed.
//!
//! Counted at the instant of the commit from the objects themselves, so that two creates cannot both take the last place.
//!
//! *Not here*: `status.used` of a quota, which its controller keeps; amounts of CPU, memory and storage; scopes.
//! *Source*: upstream's ResourceQuota admission and the evaluators of `pkg/quota`.

use serde_json::Value;

use super::objects::meta;
use super::status::ApiError;
use crate::discovery::Resource;
use crate::store::Inner;

/// Refuses a new object that would go over a quota of its namespace.
pub(crate) fn admit(view: &Inner, resource: &Resource, namespace: &str, object: &Value) -> Result<(), ApiError> {
    for quota in view.range("resourcequotas", Some(namespace)) {
        let hard = quota.value["spec"]["hard"].as_object().into_iter().flatten();
        let mut exceeded = Vec::new();
        for (name, limit) in hard {
            if quota.value["spec"]["scopes"].as_array().is_some_and(|scopes| !scopes.is_empty())
                || !counts(name, resource, object)
            {
                continue;
            }
            let used = view
                .range(&resource.storage, Some(namespace))
                .filter(|entry| counts(name, resource, &entry.value))
                .count();
            let Some(limit) = amount(limit) else { continue };
            if used + 1 > limit {
                exceeded.push((name.as_str(), used, limit));
            }
        }
        if !exceeded.is_empty() {
            exceeded.sort_unstable();
            let list =
                |show: fn(&(&str, usize, usize)) -> String| exceeded.iter().map(show).collect::<Vec<_>>().join(",");
            let why = format!(
                "exceeded quota: {}, requested: {}, used: {}, limited: {}",
                quota.version.name,
                list(|(name, ..)| format!("{name}=1")),
                list(|(name, used, _)| format!("{name}={used}")),
                list(|(name, _, limit)| format!("{name}={limit}")),
            );
            return Err(ApiError::forbidden(&resource.group_resource(), meta(object, "name"), &why));
        }
    }
    Ok(())
}

/// Whether an object counts against the quota resource called `name`.
fn counts(name: &str, resource: &Resource, object: &Value) -> bool {
    let plural = &resource.plural;
    match name {
        "pods" => {
            // Pods that have ended take no room.
            plural == "pods"
                && resource.group.is_empty()
                && !matches!(object["status"]["phase"].as_str(), Some("Failed" | "Succeeded"))
        }
        "services"
        | "secrets"
        | "configmaps"
        | "persistentvolumeclaims"
        | "replicationcontrollers"
        | "resourcequotas" => plural == name && resource.group.is_empty(),
        "services.loadbalancers" => plural == "services" && object["spec"]["type"] == "LoadBalancer",
        "services.nodeports" => {
            plural == "services" && matches!(object["spec"]["type"].as_str(), Some("NodePort" | "LoadBalancer"))
        }
        _ => name.strip_prefix("count/").is_some_and(|counted| counted == resource.group_resource().to_string()),
    }
}

/// A quantity that counts objects.
fn amount(value: &Value) -> Option<usize> {
    match value {
        Value::Number(number) => number.as_u64().and_then(|number| usize::try_from(number).ok()),
        Value::String(text) => match text.strip_suffix('k') {
            Some(thousands) => thousands.parse::<usize>().ok().map(|thousands| thousands * 1000),
            None => text.parse().ok(),
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn amounts_of_objects_are_read_as_quantities() {
        assert_eq!(amount(&json!("3")), Some(3));
        assert_eq!(amount(&json!("2k")), Some(2000));
        assert_eq!(amount(&json!(4)), Some(4));
        assert_eq!(amount(&json!("x")), None);
    }

    #[test]
    fn generic_counts_name_resource_and_group() {
        let registry = crate::discovery::Registry::builtin();
        let deployments = registry.by_plural("apps/v1", "deployments").unwrap();
        assert!(counts("count/deployments.apps", deployments, &json!({})));
        assert!(!counts("count/deployments", deployments, &json!({})));
    }
}
