//! ResourceQuota: counts of Pods and of objects, which reject creates beyond a limit.
//!
//! *Flow*: a new object is checked against the status of every quota that limits its kind, then added to `status.used`
//! of each, then created.
//!
//! *Invariants*: 1. a charge is recomputed after a concurrent one, so that two creates cannot both take the last place;
//! 2. a charge whose create fails stays until the quota's controller recounts, as upstream; 3. resources without a
//! limit in the status yet are not limited.
//!
//! *Not here*: amounts of CPU, memory and storage; scopes; releases by deletes, which the controller counts.
//! *Source*: upstream's ResourceQuota admission and the evaluators of `pkg/quota`.

use serde_json::{Value, json};

use super::objects::meta;
use super::status::ApiError;
use super::{Api, Call};
use crate::discovery::Resource;
use crate::store::WriteVerb;

impl Api {
    /// Charges a new object to the quotas of its namespace, or rejects it.
    pub(super) fn charge_quotas(&self, call: &Call, object: &Value, dry_run: bool) -> Result<(), ApiError> {
        let Some(namespace) = call.namespace() else { return Ok(()) };
        let resource = &call.resource;
        let mut quotas = Vec::new();
        self.store.view(|view| {
            for quota in view.range("resourcequotas", Some(namespace)) {
                if quotas.is_empty() {
                    self.admit_create(view, call, object)?;
                }
                if charged(resource, object, &quota.value)?.is_some() {
                    quotas.push(quota.version.name.to_string());
                }
            }
            Ok(())
        })?;
        if dry_run || quotas.is_empty() {
            return Ok(());
        }
        let registry = self.registry();
        let kind = registry.by_plural("v1", "resourcequotas").cloned().ok_or_else(ApiError::unknown_path)?;
        for quota in quotas {
            let own = Call::own(std::sync::Arc::clone(&kind), Some(namespace), Some(&quota), Some("status"));
            let done = self.update_object(&own, WriteVerb::Patch, |current| {
                Ok(charged(resource, object, current)?.unwrap_or_else(|| current.clone()))
            });
            match done {
                // A deleted quota limits nothing.
                Err(error) if error.code == 404 => {}
                other => drop(other?),
            }
        }
        Ok(())
    }
}

/// A quota after a new object is charged to it; `None` when it does not limit such objects.
fn charged(resource: &Resource, object: &Value, quota: &Value) -> Result<Option<Value>, ApiError> {
    if quota["spec"]["scopes"].as_array().is_some_and(|scopes| !scopes.is_empty()) {
        return Ok(None);
    }
    let status = &quota["status"];
    let mut limited: Vec<(&str, &Value)> = status["hard"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, limit)| (name.as_str(), limit))
        .filter(|(name, _)| counts(name, resource, object))
        .collect();
    if limited.is_empty() {
        return Ok(None);
    }
    limited.sort_unstable_by_key(|(name, _)| *name);
    let forbidden = |why: String| Err(ApiError::forbidden(&resource.group_resource(), meta(object, "name"), &why));
    let quota_name = meta(quota, "name");
    if limited.iter().any(|(name, _)| status["used"].get(name).is_none()) {
        let names = limited.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(",");
        return forbidden(format!("status unknown for quota: {quota_name}, resources: {names}"));
    }
    let mut new = quota.clone();
    let mut exceeded = Vec::new();
    for (name, limit) in limited {
        let (Some(limit), Some(used)) = (amount(limit), amount(&status["used"][name])) else { continue };
        if used + 1 > limit {
            exceeded.push((name, used, limit));
        }
        new["status"]["used"][name] = json!((used + 1).to_string());
    }
    if exceeded.is_empty() {
        return Ok(Some(new));
    }
    let list = |show: fn(&(&str, usize, usize)) -> String| exceeded.iter().map(show).collect::<Vec<_>>().join(",");
    forbidden(format!(
        "exceeded quota: {quota_name}, requested: {}, used: {}, limited: {}",
        list(|(name, ..)| format!("{name}=1")),
        list(|(name, used, _)| format!("{name}={used}")),
        list(|(name, _, limit)| format!("{name}={limit}")),
    ))
}

/// Whether an object counts against the quota resource called `name`.
fn counts(name: &str, resource: &Resource, object: &Value) -> bool {
    let plural = &resource.plural;
    match name {
        "pods" => {
            // Ended Pods do not count.
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
