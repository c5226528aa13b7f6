//! Roles, budgets, owners, quotas, and the content of namespaces.

use pintle_sdk::quantity::Quantity;
use pintle_sdk::testing::{Cluster, Plugin};
use pintle_sdk::{ApiResource, Kind, Need};
use serde_json::{Value, json};

use super::*;
use crate::stories::answers::Answers;
use crate::{clusterrole_aggregation, disruption, garbage_collector, namespace as namespaces};
use crate::{resourcequota, root_ca_certificate_publisher, serviceaccount};

/// A role that selects all others, and one for each of `n` selectors.
pub(super) fn roles(size: Size) {
    let n = size.n();
    const ROLE: Kind = Kind::new("rbac.authorization.k8s.io", "v1", "ClusterRole");
    let mut cluster = Cluster::new(1);
    let role = |word, i| global("rbac.authorization.k8s.io/v1", "ClusterRole", word, i, LONGEST);
    for i in 0..n {
        let mut part = role("part", i);
        part["rules"] = json!([{"apiGroups": [""], "resources": [name("r", i, LABEL)], "verbs": ["get"]}]);
        cluster.insert(part);
    }
    let mut whole = role("whole", 0);
    whole["metadata"]["labels"] = json!({});
    whole["aggregationRule"] = json!({"clusterRoleSelectors": [selector()]});
    cluster.insert(whole.clone());
    let plugin = size.limit(clusterrole_aggregation::plugin());
    settle(&mut cluster, &plugin, &[key(&plugin, "", &whole)], nobody);
    assert_eq!(now(&cluster, &whole)["rules"].as_array().map(Vec::len), Some(n));
    assert_eq!(cluster.list(&ROLE).count(), n + 1);
}

/// A resource of the API server.
fn resource(group: &'static str, kind: &str, subresources: &[&str]) -> ApiResource {
    let verbs = ["get", "list", "delete", "deletecollection"].map(str::to_owned).to_vec();
    ApiResource {
        kind: Kind { group: group.into(), version: "v1".into(), name: kind.to_owned().into() },
        plural: format!("{}s", kind.to_lowercase()),
        namespaced: true,
        verbs,
        subresources: subresources.iter().map(ToString::to_string).collect(),
        preferred: true,
    }
}

/// Each Pod has another owner, whose size only the API server has. All were evicted, and none was deleted.
pub(super) fn budget(size: Size) {
    // The sizes that one run reads.
    let n = size.beyond(1_500);
    let mut cluster = Cluster::new(1).resources(vec![resource("example.com", "Crowd", &["scale"])]);
    let evicted = cluster.now();
    for i in 0..n {
        let mut pod = pod(i);
        pod["metadata"]["ownerReferences"] = controlled_by(&object("example.com/v1", "Crowd", "crowd", i, LONGEST));
        cluster.insert(pod);
    }
    let mut budget = object("policy/v1", "PodDisruptionBudget", "budget", 0, LONGEST);
    budget["spec"] = json!({"maxUnavailable": 1, "selector": selector()});
    let disrupted = (0..n).map(|i| (name("pod", i, LONGEST), json!(evicted))).collect::<serde_json::Map<_, _>>();
    budget["status"] = json!({"disruptedPods": disrupted});
    cluster.insert(budget.clone());
    cluster.advance(Duration::from_secs(200));
    let scale = |need: &Need| match need {
        Need::LiveObject { object, .. } => {
            let number: usize = object.name.rsplit('-').next().and_then(|n| n.parse().ok()).expect("it has a number");
            Ok(json!({"metadata": {"uid": uid("crowd", number)}, "spec": {"replicas": 1}}).to_string())
        }
        other => panic!("{other:?}"),
    };
    let manifest = include_str!("../../../../disruption/manifest.yaml");
    let answering =
        Plugin::new(manifest, |key, lister| plugin_disruption::reconcile(key, &Answers::to_needs(lister, &scale)));
    let answering = size.limit(answering);
    let keys = [key(&answering, "", &budget)];
    settle(&mut cluster, &answering, &keys, nobody);
    let status = &now(&cluster, &budget)["status"];
    let numbers = [&status["expectedPods"], &status["currentHealthy"], &status["disruptionsAllowed"]];
    assert_eq!(numbers, [&json!(n), &json!(n), &json!(1)], "{}", status["conditions"]);
    assert!(status["disruptedPods"].is_null());
    let plugin = size.limit(disruption::plugin());
    for queue in ["disruption_pod", "stale_pod_disruption"] {
        settle(&mut cluster, &plugin, &[key(&plugin, queue, &pod(n - 1))], nobody);
    }
    // As many budgets for one Pod.
    for i in 1..n {
        let mut other = object("policy/v1", "PodDisruptionBudget", "budget", i, LONGEST);
        other["spec"] = json!({"selector": selector()});
        cluster.insert(other);
    }
    cluster.run(&plugin, &key(&plugin, "disruption_pod", &pod(n - 1)));
    assert_eq!(cluster.events().last().map(|event| event.reason.as_str()), Some("MultiplePodDisruptionBudgets"));
}

/// A quota with many limits, and many objects of each kind.
pub(super) fn quota(size: Size) {
    let n = size.n();
    let verbs = || ["create", "delete", "list", "watch"].map(str::to_owned).to_vec();
    let counted = |kind: &str| ApiResource { verbs: verbs(), ..resource("example.com", kind, &[]) };
    let kinds: Vec<String> = (0..n).map(|i| name("kind", i, LABEL)).collect();
    let mut cluster = Cluster::new(1).resources(kinds.iter().map(|kind| counted(kind)).collect());
    for i in 0..n {
        let mut pod = pod(i);
        pod["spec"]["containers"] = json!([{"name": "c".repeat(LABEL), "resources": {"requests": {"cpu": "1m"}}}]);
        cluster.insert(pod);
        let mut service = object("v1", "Service", "service", i, LABEL);
        service["spec"] = json!({"type": "NodePort", "ports": [{"port": 80}]});
        cluster.insert(service);
        let mut claim = object("v1", "PersistentVolumeClaim", "claim", i, LONGEST);
        claim["spec"] = json!({"resources": {"requests": {"storage": "1Ki"}}});
        cluster.insert(claim);
        let mut devices = object("resource.k8s.io/v1", "ResourceClaim", "devices", i, LONGEST);
        let exactly = json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1});
        devices["spec"] = json!({"devices": {"requests": [{"name": "r", "exactly": exactly}]}});
        cluster.insert(devices);
        cluster.insert(object("example.com/v1", &kinds[0], "one", i, LONGEST));
    }
    let plural = |kind: &String| format!("count/{kind}s.example.com");
    let of_kinds = [
        "pods",
        "services.nodeports",
        "persistentvolumeclaims",
        "gpu.deviceclass.resource.k8s.io/devices",
        plural(&kinds[0]).as_str(),
    ]
    .map(str::to_owned);
    let hard = of_kinds.iter().cloned().chain(["requests.cpu".into(), "requests.storage".into()]);
    let hard = hard.chain(kinds.iter().map(plural)).map(|name| (name, json!("1M"))).collect::<serde_json::Map<_, _>>();
    let mut quota = object("v1", "ResourceQuota", "quota", 0, LONGEST);
    quota["spec"] = json!({ "hard": hard });
    cluster.insert(quota.clone());
    let plugin = size.limit(resourcequota::plugin());
    for queue in ["", "resourcequota_priority", "resource_quota_controller_resource_changes"] {
        settle(&mut cluster, &plugin, &[key(&plugin, queue, &quota)], nobody);
    }
    let used = &now(&cluster, &quota)["status"]["used"];
    let amount = |name: &str| used[name].as_str().and_then(|text| text.parse::<Quantity>().ok());
    let number = i64::try_from(n).expect("it is small");
    for name in &of_kinds {
        assert_eq!(amount(name).map(Quantity::value), Some(number), "{name}");
    }
    assert_eq!(amount("requests.cpu").map(Quantity::milli_value), Some(number));
    assert_eq!(amount("requests.storage").map(Quantity::value), Some(1024 * number));
    assert_eq!(amount(&plural(&kinds[n - 1])).map(Quantity::value), Some(0));
}

/// An object whose owners are deleted; one that waits for its dependents; and one that releases them.
pub(super) fn garbage(size: Size) {
    let n = size.n();
    const MAP: Kind = Kind::new("", "v1", "ConfigMap");
    let plugin = size.limit(garbage_collector::plugin());
    let map = |word, i| object("v1", "ConfigMap", word, i, LONGEST);
    let reference = |owner: &Value| {
        let mut reference = controlled_by(owner)[0].take();
        drop(reference.as_object_mut().and_then(|reference| reference.shift_remove("controller")));
        reference
    };
    let resources = || vec![resource("", "ConfigMap", &[])];

    // Half of its owners are deleted, then all.
    let mut cluster = Cluster::new(1).resources(resources());
    let mut owned = map("owned", 0);
    owned["metadata"]["ownerReferences"] = (0..n).map(|i| reference(&map("owner", i))).collect();
    cluster.insert(owned.clone());
    (0..n).step_by(2).for_each(|i| cluster.insert(map("owner", i)));
    let keys = [key(&plugin, "", &owned)];
    settle(&mut cluster, &plugin, &keys, nobody);
    let left = now(&cluster, &owned)["metadata"]["ownerReferences"].as_array().map(Vec::len);
    assert_eq!(left, Some(n.div_ceil(2)));
    (0..n).step_by(2).for_each(|i| cluster.remove(&MAP, &home(), &name("owner", i, LONGEST)));
    settle(&mut cluster, &plugin, &keys, nobody);
    assert!(find(&cluster, &owned).is_none());

    for finalizer in ["foregroundDeletion", "orphan"] {
        let mut cluster = Cluster::new(1).resources(resources());
        let mut owner = map("owner", 0);
        let mut finalizers: Vec<String> = (0..n).map(|i| format!("{}/x", name("f", i, LABEL))).collect();
        finalizers.insert(n / 2, finalizer.into());
        owner["metadata"]["finalizers"] = json!(finalizers);
        owner["metadata"]["deletionTimestamp"] = json!(cluster.now());
        cluster.insert(owner.clone());
        for i in 0..n {
            let mut dependent = map("dependent", i);
            dependent["metadata"]["ownerReferences"] = json!([reference(&owner)]);
            cluster.insert(dependent);
        }
        let keys: Vec<Key> = match finalizer {
            "orphan" => vec![key(&plugin, "", &owner)],
            _ => [0, n - 1].map(|i| key(&plugin, "", &map("dependent", i))).into(),
        };
        settle(&mut cluster, &plugin, &keys, nobody);
        let n_left = cluster.list(&MAP).count() - 1;
        if finalizer == "orphan" {
            assert_eq!(n_left, n);
            let is_released = |map: &&Value| map["metadata"]["ownerReferences"].as_array().is_none_or(Vec::is_empty);
            assert_eq!(cluster.list(&MAP).filter(is_released).count(), n + 1);
        } else {
            assert_eq!(n_left, n - 2);
            (1..n - 1).for_each(|i| cluster.remove(&MAP, &home(), &name("dependent", i, LONGEST)));
            settle(&mut cluster, &plugin, &[key(&plugin, "", &owner)], nobody);
        }
        assert_eq!(now(&cluster, &owner)["metadata"]["finalizers"].as_array().map(Vec::len), Some(n));
    }
}

/// A namespace with an object of each kind, and one kind with as many objects, which cannot be deleted as a collection.
pub(super) fn namespace(size: Size) {
    let n = size.n();
    let kinds: Vec<String> = (0..n).map(|i| name("Kind", i, LABEL)).collect();
    let mut resources: Vec<ApiResource> = kinds.iter().map(|kind| resource("example.com", kind, &[])).collect();
    resources.push(resource("", "Pod", &[]));
    let mut single = resource("example.com", "Single", &[]);
    single.verbs.retain(|verb| verb != "deletecollection");
    resources.push(single);
    let mut cluster = Cluster::new(1).resources(resources);
    let mut home_object = global("v1", "Namespace", "home", 0, LABEL);
    home_object["metadata"]["deletionTimestamp"] = json!(cluster.now());
    home_object["status"] = json!({"phase": "Terminating"});
    cluster.insert(home_object.clone());
    cluster.advance(Duration::from_secs(5));
    for (i, kind) in kinds.iter().enumerate() {
        cluster.insert(object("example.com/v1", kind, "one", 0, LONGEST));
        cluster.insert(object("example.com/v1", "Single", "single", i, LONGEST));
        cluster.insert(pod(i));
    }
    let plugin = size.limit(namespaces::plugin());
    let keys = [key(&plugin, "", &home_object)];
    for _ in 0..100 {
        let run = cluster.run(&plugin, &keys[0]);
        assert!(run.result.is_ok(), "{:?}", run.result.err());
        end_pods(&mut cluster);
        if find(&cluster, &home_object).is_none() {
            break;
        }
        cluster.advance(run.requeue_after().unwrap_or_default());
    }
    assert!(find(&cluster, &home_object).is_none(), "{}", now(&cluster, &home_object)["status"]);
    let n_left = |kind: &str| cluster.list(&Kind::from_api_version("example.com/v1", kind)).count();
    assert_eq!(kinds.iter().map(|kind| n_left(kind)).sum::<usize>() + n_left("Single"), 0);
    assert_eq!(cluster.list(&POD).count(), 0);
}

pub(super) fn root_ca(size: Size) {
    let n = size.n();
    let mut cluster = Cluster::new(1);
    let mut home_object = global("v1", "Namespace", "home", 0, LABEL);
    home_object["status"] = json!({"phase": "Active"});
    cluster.insert(home_object.clone());
    let data: serde_json::Map<_, _> = (0..n).map(|i| (name("entry", i, LONGEST), json!("x"))).collect();
    let mut map = object("v1", "ConfigMap", "map", 0, LONGEST);
    map["metadata"]["name"] = json!("kube-root-ca.crt");
    map["data"] = json!(data);
    cluster.insert(map.clone());
    let plugin = size.limit(root_ca_certificate_publisher::plugin()).config("rootCa", "x".repeat(100_000));
    settle(&mut cluster, &plugin, &[key(&plugin, "", &home_object)], nobody);
    assert_eq!(now(&cluster, &map)["data"].as_object().map(serde_json::Map::len), Some(1));
}

pub(super) fn accounts(size: Size) {
    let n = size.n();
    const ACCOUNT: Kind = Kind::new("", "v1", "ServiceAccount");
    let mut cluster = Cluster::new(1);
    let mut home_object = global("v1", "Namespace", "home", 0, LABEL);
    home_object["status"] = json!({"phase": "Active"});
    cluster.insert(home_object.clone());
    (0..n).for_each(|i| cluster.insert(object("v1", "ServiceAccount", "account", i, LONGEST)));
    let plugin = size.limit(serviceaccount::plugin());
    settle(&mut cluster, &plugin, &[key(&plugin, "", &home_object)], nobody);
    assert_eq!(cluster.list(&ACCOUNT).count(), n + 1);
}
