//! The shape of the resource quota controller: `count/RESOURCE.GROUP` by counts of the cache, without decoding an object; requests of
//! Pods as quantities. The status is written only if it differs as quantities, not as texts.

use std::collections::BTreeMap;

use pintle_sdk::api::meta::ObjectMeta;
use pintle_sdk::quantity::Quantity;
use pintle_sdk::{Error, Key, Lister, Mutation, Outcome, Query, Resource, Step, resource};
use serde::Deserialize;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Quota {
    #[allow(dead_code, reason = "resource! needs it")]
    metadata: ObjectMeta,
    spec: Spec,
    status: Status,
}

resource!(Quota, "", "v1", "ResourceQuota");

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    hard: BTreeMap<String, Quantity>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    hard: BTreeMap<String, Quantity>,
    used: BTreeMap<String, Quantity>,
}

pintle_sdk::types!(
    "manifest.yaml",
    "v1/ResourceQuota" = _,
    "v1/Pod": ["spec.containers.resources.requests": BTreeMap<String, Quantity>, "status.phase"],
);

pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let Some((quota, mut document)) = lister.get_document::<Quota>(&key.namespace, &key.name)? else {
        return Ok(Outcome::new());
    };
    let hard = &quota.spec.hard;
    let mut used = BTreeMap::new();
    let pods: Vec<Pod> = lister.list(&Query::namespace(&key.namespace))?;
    let running: Vec<&Pod> =
        pods.iter().filter(|pod| !matches!(pod.status.phase.as_str(), "Succeeded" | "Failed")).collect();
    let requests = |name: &str| {
        let containers = running.iter().flat_map(|pod| &pod.spec.containers);
        containers.filter_map(|container| container.resources.requests.get(name).copied()).sum::<Quantity>()
    };
    let resources = lister.resources();
    for name in hard.keys() {
        let amount = match (name.as_str(), name.strip_prefix("count/")) {
            ("pods", _) => number(running.len())?,
            ("cpu" | "memory", _) => requests(name),
            (_, Some(counted)) => {
                let (plural, group) = counted.split_once('.').unwrap_or((counted, ""));
                let found =
                    resources.iter().find(|one| one.preferred && one.plural == plural && one.kind.group == group);
                // Nothing is known of it yet: what was counted stays.
                let Some(found) = found else { continue };
                number(lister.count(&found.kind, &Query::namespace(&key.namespace)) as usize)?
            }
            (other, _) => match other.strip_prefix("requests.") {
                Some(name) => requests(name),
                // Of this, somebody else may know.
                None => continue,
            },
        };
        used.insert(name.clone(), amount);
    }
    for (name, amount) in &quota.status.used {
        if hard.contains_key(name) {
            used.entry(name.clone()).or_insert(*amount);
        }
    }
    if used == quota.status.used && *hard == quota.status.hard {
        return Ok(Outcome::new());
    }
    document.set(&["status", "hard"], hard);
    document.set(&["status", "used"], &used);
    Ok(Outcome::new().step(Step::sequential([Mutation::update_status(&Quota::KIND, document)])))
}

fn number(n: usize) -> Result<Quantity, Error> {
    n.to_string().parse().map_err(|_| Error::Terminal(format!("{n} is not a quantity")))
}

pintle_sdk::export!(reconcile);
