//! Checks a request against the quotas of its namespace, and computes their new usage.
//!
//! *Source*: `CheckRequest` of `apiserver/pkg/admission/plugin/resourcequota/controller.go`, without resources that the
//! API server's configuration limits by default.

use crate::evaluator::{Evaluator, scopes};
use crate::resource_list::{self, ResourceList, increase};
use crate::types::ResourceQuota;

/// A request that creates or changes an object.
pub struct Request<'a, O> {
    /// The new object.
    pub object: &'a O,
    /// The current object; `None` for a creation.
    pub old: Option<&'a O>,
    /// The subresource; empty for the object itself.
    pub subresource: &'a str,
}

/// Returns the usage, including the request, of each quota that the request uses, with the quota's index in the list.
///
/// # Errors
/// The reason why a quota refuses the request, for a `Forbidden`.
#[doc(alias = "CheckRequest")]
pub fn check<E: Evaluator>(
    evaluator: &E,
    request: &Request<'_, E::Object>,
    quotas: &[ResourceQuota],
) -> Result<Vec<(usize, ResourceList)>, String> {
    if request.old.is_some_and(|old| !evaluator.handles_update(request.subresource, old, request.object)) {
        return Ok(Vec::new());
    }
    let mut limiting = Vec::new();
    for (place, quota) in quotas.iter().enumerate().filter(|(_, quota)| matches(evaluator, quota, request.object)) {
        let name = &quota.metadata.name;
        let limited: Vec<&str> =
            quota.status.hard.keys().map(String::as_str).filter(|name| evaluator.measures(name)).collect();
        if let Err(why) = evaluator.constraints(&limited, request.object) {
            return Err(format!("failed quota: {name}: {why}"));
        }
        if limited.iter().any(|name| !quota.status.used.contains_key(*name)) {
            return Err(format!("status unknown for quota: {name}, resources: {}", limited.join(",")));
        }
        limiting.push((place, quota));
    }
    if limiting.is_empty() {
        return Ok(Vec::new());
    }
    let usage = evaluator.usage(request.object);
    let negative: Vec<&str> =
        usage.iter().filter(|(_, amount)| amount.is_negative()).map(|(name, _)| name.as_str()).collect();
    if !negative.is_empty() {
        return Err(format!("quota usage is negative for resource(s): {}", negative.join(",")));
    }
    let before = request.old.map(|old| evaluator.usage(old)).unwrap_or_default();
    let nothing = ResourceList::new();
    let mut charged = Vec::new();
    for (place, quota) in limiting {
        let (hard, used) = (&quota.status.hard, &quota.status.used);
        // An object that was not in the scopes of the quota before counts in full.
        let was_counted = request.old.is_some_and(|old| matches(evaluator, quota, old));
        let mut requested = increase(&usage, if was_counted { &before } else { &nothing });
        requested.retain(|name, _| hard.contains_key(name));
        if requested.is_empty() {
            continue;
        }
        let mut new = used.clone();
        resource_list::add(&mut new, &requested);
        // A status reports usage that already exists.
        if request.subresource != "status" {
            let exceeds = |name: &String| new.get(name).zip(hard.get(name)).is_some_and(|(new, hard)| new > hard);
            let exceeded: Vec<&String> = requested.keys().filter(|name| exceeds(name)).collect();
            if !exceeded.is_empty() {
                let of = |list: &ResourceList| {
                    let amounts = exceeded.iter().filter_map(|name| list.get_key_value(*name));
                    resource_list::text(amounts)
                };
                return Err(format!(
                    "exceeded quota: {}, requested: {}, used: {}, limited: {}",
                    quota.metadata.name,
                    of(&requested),
                    of(used),
                    of(hard),
                ));
            }
        }
        charged.push((place, new));
    }
    Ok(charged)
}

/// Whether a quota limits an object: it has a resource of the object's kind, and the object is in its scopes.
#[doc(alias = "Matches")]
fn matches<E: Evaluator>(evaluator: &E, quota: &ResourceQuota, object: &E::Object) -> bool {
    quota.status.hard.keys().any(|name| evaluator.measures(name))
        && scopes(quota).iter().all(|scope| evaluator.is_in(scope, object))
}

#[cfg(test)]
mod tests {
    use pintle_sdk::time::Timestamp;
    use serde_json::{Value, json};

    use super::*;
    use crate::resource_list::text;
    use crate::types::{Pod, Service};
    use crate::{Pods, Services};

    fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn quota(name: &str, spec: Value, hard: Value, used: Value) -> ResourceQuota {
        read(json!({"metadata": {"name": name}, "spec": spec, "status": {"hard": hard, "used": used}}))
    }

    fn pod(cpu: &str, deadline: Option<i64>) -> Pod {
        let resources = json!({"requests": {"cpu": cpu}});
        read(
            json!({"spec": {"activeDeadlineSeconds": deadline, "containers": [{"name": "c", "resources": resources}]}}),
        )
    }

    fn create(quotas: &[ResourceQuota], object: &Pod) -> Result<String, String> {
        update(quotas, object, None, "")
    }

    fn update(quotas: &[ResourceQuota], object: &Pod, old: Option<&Pod>, subresource: &str) -> Result<String, String> {
        let now = Timestamp::parse("2026-01-01T00:00:00Z").unwrap();
        let pods = Pods { now, pod_level_resources: true };
        let charged = check(&pods, &Request { object, old, subresource }, quotas)?;
        let texts = charged.iter().map(|(place, used)| format!("{place}: {}", text(used.iter())));
        Ok(texts.collect::<Vec<_>>().join("; "))
    }

    /// As rows of `TestAdmissionIgnoresDelete` and its neighbours in admission_test.go.
    #[test]
    fn what_is_above_a_quota_is_refused_in_the_words_of_upstream() {
        let two = quota("two", json!({}), json!({"cpu": "2", "pods": "5"}), json!({"cpu": "1500m", "pods": "3"}));
        assert_eq!(create(std::slice::from_ref(&two), &pod("500m", None)), Ok("0: cpu=2,pods=4".into()));
        assert_eq!(
            create(std::slice::from_ref(&two), &pod("600m", None)),
            Err("exceeded quota: two, requested: cpu=600m, used: cpu=1500m, limited: cpu=2".into())
        );
        let full = quota("full", json!({}), json!({"cpu": "1", "pods": "1"}), json!({"cpu": "1", "pods": "1"}));
        assert_eq!(
            create(&[two.clone(), full], &pod("100m", None)),
            Err("exceeded quota: full, requested: cpu=100m,pods=1, used: cpu=1,pods=1, limited: cpu=1,pods=1".into())
        );
        let new = quota("new", json!({}), json!({"cpu": "1", "pods": "1"}), json!({"pods": "0"}));
        assert_eq!(
            create(&[two.clone(), new], &pod("100m", None)),
            Err("status unknown for quota: new, resources: cpu,pods".into())
        );
        let memory = quota("memory", json!({}), json!({"memory": "1Gi"}), json!({"memory": "0"}));
        assert_eq!(
            create(&[memory], &pod("100m", None)),
            Err("failed quota: memory: must specify memory for: c".into())
        );
        let other = quota("other", json!({}), json!({"services": "0"}), json!({"services": "0"}));
        assert_eq!(create(&[other], &pod("100m", None)), Ok(String::new()));
    }

    #[test]
    fn an_update_is_charged_with_the_difference_unless_it_comes_into_a_scope() {
        let hard = json!({"pods": "2", "requests.cpu": "3"});
        let all = quota("all", json!({}), hard.clone(), json!({"pods": "1", "requests.cpu": "1"}));
        let ends = quota("ends", json!({"scopes": ["Terminating"]}), hard, json!({"pods": "0", "requests.cpu": "0"}));
        let quotas = [all, ends];
        let (before, after) = (pod("1", None), pod("1", Some(60)));
        assert_eq!(update(&quotas, &after, Some(&before), ""), Ok("1: pods=1,requests.cpu=1".into()));
        assert_eq!(update(&quotas, &pod("2", None), Some(&before), ""), Ok(String::new()));
        assert_eq!(update(&quotas, &pod("2", None), Some(&before), "resize"), Ok("0: pods=1,requests.cpu=2".into()));
        assert_eq!(update(&quotas, &pod("500m", None), Some(&before), "resize"), Ok(String::new()));
        assert_eq!(
            update(&quotas, &pod("4", None), Some(&before), "resize"),
            Err("exceeded quota: all, requested: requests.cpu=3, used: requests.cpu=1, limited: requests.cpu=3".into())
        );
    }

    #[test]
    fn a_service_that_gets_node_ports_is_charged_with_them() {
        let hard = json!({"services": "1", "services.nodeports": "1"});
        let quota = quota("q", json!({}), hard, json!({"services": "1", "services.nodeports": "0"}));
        let service = |kind: &str, n: usize| -> Service {
            read(json!({"spec": {"type": kind, "ports": vec![json!({"port": 80}); n]}}))
        };
        let old = service("ClusterIP", 2);
        let with = |object: &Service| {
            let request = Request { object, old: Some(&old), subresource: "" };
            let charged = check(&Services, &request, std::slice::from_ref(&quota))?;
            Ok::<_, String>(charged.first().map(|(_, used)| text(used.iter())))
        };
        assert_eq!(with(&service("NodePort", 1)), Ok(Some("services=1,services.nodeports=1".into())));
        assert_eq!(
            with(&service("NodePort", 2)),
            Err("exceeded quota: q, requested: services.nodeports=2, used: services.nodeports=0, limited: services.nodeports=1".into())
        );
        assert_eq!(with(&old), Ok(None));
    }
}
