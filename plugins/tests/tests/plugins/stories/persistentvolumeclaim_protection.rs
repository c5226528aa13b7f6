//! The API server refuses the list of Pods: a case has no such answer.

use std::time::Duration;

use pintle_sdk::testing::Cluster;
use pintle_sdk::{ApiError, ApiResource, Error, Key, Kind, Lister, MutationFailure, Need, ObjectKey, Outcome, Query};
use plugin_persistentvolumeclaim_protection::reconcile;
use serde_json::json;

use crate::persistentvolumeclaim_protection::plugin;

const NAMESPACE: Kind = Kind::new("", "v1", "Namespace");

/// A lister whose live lists are refused.
struct Refused<'a, L>(&'a L);

impl<L: Lister> Lister for Refused<'_, L> {
    fn answer(&self, need: &Need) -> Option<Result<String, ApiError>> {
        assert!(matches!(need, Need::LiveList { .. }), "{need:?}");
        let refusal = ApiError { code: 403, reason: "Forbidden".into(), message: "Mock error".into() };
        self.0.answer(need).map(|_| Err(refusal))
    }

    fn now_text(&self) -> String {
        self.0.now_text()
    }

    fn uptime(&self) -> Duration {
        self.0.uptime()
    }

    fn get_json(&self, kind: &Kind, object: &ObjectKey) -> Option<String> {
        self.0.get_json(kind, object)
    }

    fn list_json(&self, kind: &Kind, query: &Query) -> Vec<String> {
        self.0.list_json(kind, query)
    }

    fn count(&self, kind: &Kind, query: &Query) -> u32 {
        self.0.count(kind, query)
    }

    fn selecting_json(&self, kind: &Kind, namespace: &str, labels: &[(String, String)]) -> Vec<String> {
        self.0.selecting_json(kind, namespace, labels)
    }

    fn dependents_json(&self, uid: &str) -> Vec<String> {
        self.0.dependents_json(uid)
    }

    fn by_uid_json(&self, uid: &str) -> Option<String> {
        self.0.by_uid_json(uid)
    }

    fn resources(&self) -> Vec<ApiResource> {
        self.0.resources()
    }

    fn config_json(&self) -> String {
        self.0.config_json()
    }

    fn state(&self, name: &str) -> Option<String> {
        self.0.state(name)
    }

    fn attempt(&self) -> u32 {
        self.0.attempt()
    }

    fn failures(&self) -> Vec<MutationFailure> {
        self.0.failures()
    }
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

/// A row of upstream's table, in which the next claim is looked at all the same, with another list.
#[test]
fn no_claim_goes_while_pods_cannot_be_listed() {
    let (cluster, key) = claims(2);
    let fixture = cluster.fixture(&plugin(), &key);
    let (result, asked) = fixture.outcome(|key, lister| reconcile(key, &Refused(lister)));
    assert_eq!(result, Err(Error::retry("live list of pods failed: Mock error")));
    assert_eq!(asked.len(), 1);
}

/// An outcome is limited, so that many claims take several runs.
#[test]
fn more_claims_than_fit_into_a_run_go_in_the_next_ones() {
    let (mut cluster, key) = claims(1001);
    let sizes = [500, 500, 1].map(|_| {
        let run = cluster.run(&plugin(), &key);
        assert!(run.result.is_ok() && run.failures.is_empty(), "{run:?}");
        (run.n_writes, run.requeue_after().is_some())
    });
    assert_eq!(sizes, [(500, true), (500, true), (1, false)]);
    let (result, _) = cluster.fixture(&plugin(), &key).outcome(reconcile);
    assert_eq!(result, Ok(Outcome::new()));
}
