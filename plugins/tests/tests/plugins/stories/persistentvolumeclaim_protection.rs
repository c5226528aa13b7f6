//! The API server rejects the list of Pods, which a case cannot express.

use pintle_sdk::testing::Cluster;
use pintle_sdk::{ApiError, Error, Key, Kind, Need, Outcome};
use plugin_persistentvolumeclaim_protection::reconcile;
use serde_json::{Value, json};

use super::answers::Answers;
use crate::persistentvolumeclaim_protection::plugin;

const CLAIM: Kind = Kind::new("", "v1", "PersistentVolumeClaim");
const NAMESPACE: Kind = Kind::new("", "v1", "Namespace");

/// The response to live lists.
fn refused(need: &Need) -> Result<String, ApiError> {
    assert!(matches!(need, Need::LiveList { .. }), "{need:?}");
    Err(ApiError { code: 403, reason: "Forbidden".into(), message: "Mock error".into() })
}

fn claims(n: usize) -> (Cluster, Key) {
    let mut cluster = Cluster::new(1);
    for i in 0..n {
        let metadata = json!({"name": format!("pvc{i}"), "namespace": "default",
            "deletionTimestamp": cluster.now(), "finalizers": ["kubernetes.io/pvc-protection"]});
        cluster.insert(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}));
    }
    (cluster, plugin().key(&NAMESPACE, "", "default"))
}

/// A row of upstream's table; the next claim is still processed, with another list.
#[test]
fn no_claim_goes_while_pods_cannot_be_listed() {
    let (cluster, key) = claims(2);
    let fixture = cluster.fixture(&plugin(), &key);
    let (result, asked) = fixture.outcome(|key, lister| reconcile(key, &Answers::to_needs(lister, &refused)));
    assert_eq!(result, Err(Error::retry("live list of pods failed: Mock error")));
    assert_eq!(asked.len(), 1);
}

/// An outcome is limited, so that many claims take several runs.
#[test]
fn more_claims_than_fit_into_a_run_go_in_the_next_ones() {
    let (mut cluster, key) = claims(1001);
    let sizes = [1_000, 1].map(|_| {
        let run = cluster.run(&plugin(), &key);
        assert!(run.result.is_ok() && run.failures.is_empty(), "{run:?}");
        (run.n_writes, run.requeue_after().is_some())
    });
    assert_eq!(sizes, [(1_000, true), (1, false)]);
    let (result, _) = cluster.fixture(&plugin(), &key).outcome(reconcile);
    assert_eq!(result, Ok(Outcome::new()));
}

/// Pods that use many volumes, too many for one list.
#[test]
fn a_claim_goes_from_a_namespace_with_more_pods_than_one_list_can_have() {
    let (mut cluster, key) = claims(2);
    for i in 0..620 {
        let mut volumes: Vec<Value> = (0..200)
            .map(|i| json!({"name": format!("a-volume-that-is-a-directory-of-the-node-and-has-no-claim-{i}")}))
            .collect();
        if i == 7 {
            volumes.push(json!({"name": "data", "persistentVolumeClaim": {"claimName": "pvc1"}}));
        }
        cluster.insert(json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("p{i}"), "namespace": "default"},
            "spec": {"nodeName": format!("n{}", i % 50), "volumes": volumes},
        }));
    }
    // A claim that is not being deleted gets its finalizer in the meantime.
    let metadata = json!({"name": "new", "namespace": "default"});
    cluster.insert(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}));
    let first = cluster.run(&plugin(), &key);
    assert_eq!((first.n_writes, first.failures, cluster.state(&plugin()).len()), (1, vec![], 1));
    let second = cluster.run(&plugin(), &key);
    assert_eq!((second.n_writes, second.failures, cluster.state(&plugin()).len()), (1, vec![], 0));
    let finalizers = |name: &str| {
        let claim = cluster.get(&CLAIM, "default", name);
        claim.map(|claim| claim["metadata"]["finalizers"].as_array().map_or(0, Vec::len))
    };
    assert_eq!(["pvc0", "pvc1", "new"].map(finalizers), [None, Some(1), Some(1)], "the one that is in use stays");
}
