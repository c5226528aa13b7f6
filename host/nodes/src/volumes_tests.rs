use http::Method;

use super::*;

fn claim(name: &str, class: Value) -> Value {
    json!({"metadata": {"name": name, "namespace": "ns", "uid": format!("uid-{name}"), "annotations": {}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": class},
        "status": {"phase": "Pending"}})
}

fn volume(name: &str, size: &str) -> Value {
    json!({"metadata": {"name": name, "uid": format!("uid-{name}"), "resourceVersion": "1"}, "status": {"phase": "Available"},
        "spec": {"accessModes": ["ReadWriteOnce", "ReadOnlyMany"], "capacity": {"storage": size}, "storageClassName": "",
        "persistentVolumeReclaimPolicy": "Retain"}})
}

fn class(name: &str, mode: &str) -> Value {
    json!({"metadata": {"name": name}, "provisioner": "sim.example.com", "volumeBindingMode": mode, "reclaimPolicy": "Delete"})
}

/// A cluster that accepts every request.
#[derive(Default)]
struct Cluster {
    storage: Storage,
}

fn merge(target: &mut Value, patch: &Value) {
    match patch {
        Value::Object(fields) => {
            if !target.is_object() {
                *target = json!({});
            }
            for (name, value) in fields {
                merge(&mut target[name.as_str()], value);
            }
        }
        value => *target = value.clone(),
    }
}

impl Cluster {
    /// Sends all requests until there are none; returns them.
    fn settle(&mut self) -> Vec<String> {
        let mut done = Vec::new();
        for _ in 0..20 {
            let writes = self.storage.next();
            if writes.is_empty() {
                return done;
            }
            for write in writes {
                done.push(format!("{} {}", write.method, write.path.trim_start_matches("/api/v1/")));
                let parts: Vec<&str> = write.path.split('/').collect();
                let target = match parts[3] {
                    "namespaces" => self.storage.claims.get_mut(&key(parts[4], parts[6])),
                    _ if write.method == Method::POST => {
                        let name = name(&write.body).to_owned();
                        Some(self.storage.volumes.entry(name).or_default())
                    }
                    _ if write.method == Method::DELETE => {
                        self.storage.volumes.remove(parts[4]);
                        None
                    }
                    _ => self.storage.volumes.get_mut(parts[4]),
                };
                if let Some(target) = target {
                    merge(target, &write.body);
                }
            }
        }
        panic!("it does not settle: {done:#?}");
    }

    fn add_claim(&mut self, claim: Value) {
        self.storage.claims.insert(key_of(&claim), claim);
    }

    fn add_volume(&mut self, volume: Value) {
        self.storage.volumes.insert(name(&volume).to_owned(), volume);
    }

    fn bound(&self, claim: &str) -> (String, String) {
        let claim = &self.storage.claims[&key("ns", claim)];
        (text(claim, "/status/phase").to_owned(), text(claim, "/spec/volumeName").to_owned())
    }
}

#[test]
fn a_claim_of_a_class_is_bound_to_a_volume_that_is_made_for_it() {
    let mut cluster = Cluster::default();
    cluster.storage.classes.insert("fast".to_owned(), class("fast", "Immediate"));
    cluster.add_claim(claim("data", json!("fast")));
    assert_eq!(
        cluster.settle(),
        [
            "PATCH namespaces/ns/persistentvolumeclaims/data",
            "POST persistentvolumes",
            "PATCH persistentvolumes/pvc-uid-data/status",
            "PATCH namespaces/ns/persistentvolumeclaims/data",
            "PATCH namespaces/ns/persistentvolumeclaims/data/status",
        ]
    );
    assert_eq!(cluster.bound("data"), ("Bound".to_owned(), "pvc-uid-data".to_owned()));
    let volume = &cluster.storage.volumes["pvc-uid-data"];
    assert_eq!((text(volume, "/spec/capacity/storage"), text(volume, "/status/phase")), ("1Gi", "Bound"));
    cluster.storage.claims.clear();
    assert_eq!(
        cluster.settle(),
        ["PATCH persistentvolumes/pvc-uid-data/status", "DELETE persistentvolumes/pvc-uid-data"]
    );
}

#[test]
fn a_class_that_waits_for_its_consumer_waits_for_a_pod_with_a_node() {
    let mut cluster = Cluster::default();
    cluster.storage.classes.insert("late".to_owned(), class("late", "WaitForFirstConsumer"));
    cluster.add_claim(claim("data", json!("late")));
    assert_eq!(cluster.settle(), [] as [&str; 0]);
    let pod = |node: Value| {
        json!({"metadata": {"name": "p", "namespace": "ns"}, "spec": {"nodeName": node,
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "own", "ephemeral": {}}]}})
    };
    assert_eq!(uses(&pod(Value::Null)), None);
    let user = uses(&pod(json!("n1"))).unwrap();
    assert_eq!(user.1, BTreeSet::from(["ns/data".to_owned(), "ns/p-own".to_owned()]));
    cluster.storage.users.insert("p".to_owned(), user);
    cluster.settle();
    assert_eq!(cluster.bound("data").0, "Bound");
    let annotations = &cluster.storage.claims["ns/data"]["metadata"]["annotations"];
    assert_eq!(annotations["volume.kubernetes.io/selected-node"], "n1");
}

#[test]
fn a_claim_without_a_class_gets_the_default_or_a_volume_made_by_hand() {
    let mut cluster = Cluster::default();
    for (name, size) in [("big", "10Gi"), ("fitting", "1Gi"), ("small", "500Mi")] {
        cluster.add_volume(volume(name, size));
    }
    cluster.add_claim(claim("a", json!("")));
    cluster.add_claim(claim("b", json!("")));
    cluster.add_claim(claim("c", json!("")));
    cluster.settle();
    let bound: Vec<String> = ["a", "b", "c"].iter().map(|name| cluster.bound(name).1).collect();
    assert_eq!(bound, ["fitting", "big", ""], "the smallest that fits; the third finds none");
    let mut default = class("fast", "Immediate");
    default["metadata"]["annotations"] = json!({IS_DEFAULT: "true"});
    cluster.storage.classes.insert("fast".to_owned(), default);
    cluster.add_claim(claim("d", Value::Null));
    cluster.settle();
    assert_eq!(cluster.bound("d"), ("Bound".to_owned(), "pvc-uid-d".to_owned()));
    cluster.storage.claims.remove("ns/a");
    cluster.settle();
    assert_eq!(text(&cluster.storage.volumes["fitting"], "/status/phase"), "Released");
}

#[test]
fn a_claim_waits_for_the_volume_that_it_names_and_is_lost_without_it() {
    let mut cluster = Cluster::default();
    let mut named = claim("a", json!(""));
    named["spec"]["volumeName"] = "mine".into();
    cluster.add_claim(named);
    assert_eq!(cluster.settle(), [] as [&str; 0]);
    cluster.add_volume(volume("mine", "10Gi"));
    cluster.settle();
    assert_eq!(cluster.bound("a").0, "Bound");
    cluster.storage.volumes.clear();
    cluster.settle();
    assert_eq!(cluster.bound("a").0, "Lost");
}

#[test]
fn a_volume_reserved_for_another_claim_is_not_taken() {
    let mut cluster = Cluster::default();
    let mut reserved = volume("v", "1Gi");
    reserved["spec"]["claimRef"] = json!({"namespace": "ns", "name": "b"});
    cluster.add_volume(reserved);
    cluster.add_claim(claim("a", json!("")));
    assert_eq!(cluster.settle(), [] as [&str; 0]);
    cluster.add_claim(claim("b", json!("")));
    cluster.settle();
    assert_eq!((cluster.bound("a").0.as_str(), cluster.bound("b").0.as_str()), ("Pending", "Bound"));
}

#[test]
fn other_provisioners_and_deleted_claims_are_left_alone() {
    let mut cluster = Cluster::default();
    let mut by_hand = class("hand", "Immediate");
    by_hand["provisioner"] = NO_PROVISIONER.into();
    cluster.storage.classes.insert("hand".to_owned(), by_hand);
    cluster.storage.classes.insert("fast".to_owned(), class("fast", "Immediate"));
    cluster.add_claim(claim("a", json!("hand")));
    cluster.add_claim(claim("b", json!("none")));
    let mut deleted = claim("c", json!("fast"));
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    cluster.add_claim(deleted);
    assert_eq!(cluster.settle(), [] as [&str; 0]);
}
