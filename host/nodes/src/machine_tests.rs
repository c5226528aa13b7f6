use serde_json::{Value, json};

use super::*;

const START: Timestamp = Timestamp::UNIX_EPOCH;

struct SimulatedCluster {
    machine: Machine,
    now: Timestamp,
    version: u64,
}

impl SimulatedCluster {
    fn new(ready_delay_ms: u64) -> Self {
        let config = MachineConfig {
            nodes: vec!["n0".to_owned(), "n1".to_owned()],
            bind: true,
            ready_delay: Duration::from_millis(ready_delay_ms),
            stop_delay: Duration::ZERO,
        };
        Self { machine: Machine::new(config), now: START, version: 1 }
    }

    fn see(&mut self, mut pod: Value) {
        self.version += 1;
        pod["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.machine.observe(serde_json::from_value(pod).unwrap(), self.now);
    }

    fn wait(&mut self, ms: u64) {
        self.now = later(self.now, Duration::from_millis(ms));
    }

    /// Takes every due write and completes it; returns the writes.
    fn finish_writes(&mut self) -> Vec<String> {
        let mut steps = Vec::new();
        while let Some(write) = self.machine.take(self.now) {
            steps.push(format!("{} {:?}", write.uid, write.step));
            self.version += 1;
            self.machine.finish(&write, Outcome::Done(self.version), self.now);
        }
        steps
    }
}

fn pod(uid: &str) -> Value {
    json!({"metadata": {"name": uid, "namespace": "default", "uid": uid, "annotations": {}}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

fn annotated(uid: &str, name: &str, value: &str) -> Value {
    let mut pod = pod(uid);
    pod["metadata"]["annotations"][format!("sim.pintle.dev/{name}")] = value.into();
    pod
}

#[test]
fn a_pod_is_bound_and_becomes_ready_after_the_delay() {
    let mut cluster = SimulatedCluster::new(100);
    cluster.see(pod("a"));
    assert_eq!(cluster.finish_writes(), ["a Bind"]);
    assert_eq!(cluster.machine.next_due(), Some(later(START, Duration::from_millis(100))));
    cluster.wait(99);
    assert_eq!(cluster.finish_writes(), [] as [&str; 0]);
    cluster.wait(1);
    assert_eq!(cluster.finish_writes(), ["a Run { ready: true }"]);
    cluster.wait(100_000);
    assert_eq!(cluster.finish_writes(), [] as [&str; 0]);
    assert_eq!(cluster.machine.next_due(), None);
}

#[test]
fn pods_are_spread_over_the_nodes_and_have_unique_addresses() {
    let mut cluster = SimulatedCluster::new(0);
    let mut nodes = Vec::new();
    let mut ips = HashSet::new();
    for uid in ["a", "b", "c", "d"] {
        cluster.see(pod(uid));
    }
    while let Some(write) = cluster.machine.take(cluster.now) {
        match write.step {
            Step::Bind => nodes.push(write.body["target"]["name"].clone()),
            _ => assert!(ips.insert(write.body["status"]["podIP"].as_str().unwrap().to_owned())),
        }
        cluster.machine.finish(&write, Outcome::Done(0), cluster.now);
    }
    assert_eq!(nodes, ["n0", "n1", "n0", "n1"]);
    assert_eq!(ips.len(), 4);
}

#[test]
fn addresses_continue_after_the_existing_ones_at_a_restart() {
    let mut cluster = SimulatedCluster::new(0);
    let mut old = pod("old");
    old["spec"]["nodeName"] = "n0".into();
    old["status"] = json!({"phase": "Running", "podIP": "10.128.0.9", "startTime": "1970-01-01T00:00:00Z",
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "ContainersReady", "status": "True"}]});
    cluster.see(old);
    assert_eq!(cluster.finish_writes(), [] as [&str; 0], "a Pod in its desired state is unchanged");
    let mut new = pod("new");
    new["spec"]["nodeName"] = "n0".into();
    cluster.see(new);
    let write = cluster.machine.take(cluster.now).unwrap();
    assert_eq!(write.body["status"]["podIP"], "10.128.0.10");
}

#[test]
fn an_older_observation_does_not_undo_what_was_written() {
    let mut cluster = SimulatedCluster::new(0);
    cluster.see(pod("a"));
    let stale = cluster.version;
    assert_eq!(cluster.finish_writes(), ["a Bind", "a Run { ready: true }"]);
    let mut old = pod("a");
    old["metadata"]["resourceVersion"] = stale.to_string().into();
    cluster.machine.observe(serde_json::from_value(old).unwrap(), cluster.now);
    assert_eq!(cluster.finish_writes(), [] as [&str; 0]);
}

#[test]
fn annotations_delay_or_prevent_readiness_and_changes_take_effect() {
    let mut cluster = SimulatedCluster::new(0);
    cluster.see(annotated("slow", "ready-after", "5s"));
    cluster.see(annotated("never", "never-ready", "true"));
    assert_eq!(
        cluster.finish_writes(),
        ["slow Bind", "never Bind", "slow Run { ready: false }", "never Run { ready: false }"]
    );
    cluster.wait(5_000);
    assert_eq!(cluster.finish_writes(), ["slow Run { ready: true }"]);
    let mut cured = pod("never");
    cured["spec"]["nodeName"] = "n1".into();
    cured["status"] = json!({"phase": "Running"});
    cluster.see(cured);
    assert_eq!(cluster.finish_writes(), ["never Run { ready: true }"]);
}

#[test]
fn annotations_make_a_pod_fail_or_complete() {
    let mut cluster = SimulatedCluster::new(0);
    cluster.see(annotated("bad", "fail-after", "2s"));
    cluster.see(annotated("good", "complete-after", "1s"));
    cluster.finish_writes();
    cluster.wait(1_000);
    assert_eq!(cluster.finish_writes(), ["good Finish { succeeded: true }"]);
    cluster.wait(1_000);
    assert_eq!(cluster.finish_writes(), ["bad Finish { succeeded: false }"]);
    cluster.wait(10_000);
    assert_eq!(cluster.finish_writes(), [] as [&str; 0]);
}

#[test]
fn deletion_is_finished_once_and_only_after_a_slow_stop() {
    let mut cluster = SimulatedCluster::new(0);
    for (uid, stop) in [("quick", "0s"), ("slow", "30s")] {
        let mut pod = annotated(uid, "stop-after", stop);
        pod["spec"]["nodeName"] = "n0".into();
        pod["metadata"]["deletionTimestamp"] = "1970-01-01T00:00:00Z".into();
        pod["metadata"]["deletionGracePeriodSeconds"] = 30.into();
        cluster.see(pod);
    }
    assert_eq!(cluster.finish_writes(), ["quick Delete"]);
    cluster.wait(30_000);
    assert_eq!(cluster.finish_writes(), ["slow Delete"]);
    assert_eq!(cluster.machine.next_due(), None);
}

#[test]
fn a_deleted_pod_with_a_finalizer_reports_its_end_first() {
    let mut cluster = SimulatedCluster::new(0);
    let mut job = pod("job");
    job["metadata"]["finalizers"] = json!(["batch.kubernetes.io/job-tracking"]);
    job["metadata"]["deletionTimestamp"] = "1970-01-01T00:00:00Z".into();
    job["spec"]["nodeName"] = "n0".into();
    cluster.see(job);
    assert_eq!(cluster.finish_writes(), ["job Finish { succeeded: false }", "job Delete"]);
}

#[test]
fn a_readiness_gate_holds_ready_back_until_it_opens() {
    let mut cluster = SimulatedCluster::new(0);
    let mut gated = pod("a");
    gated["spec"]["nodeName"] = "n0".into();
    gated["spec"]["readinessGates"] = json!([{"conditionType": "lb"}]);
    cluster.see(gated.clone());
    let write = cluster.machine.take(cluster.now).unwrap();
    let condition = |kind: &str| {
        write.body["status"]["conditions"].as_array().unwrap().iter().find(|c| c["type"] == kind).unwrap().clone()
    };
    assert_eq!(condition("ContainersReady")["status"], "True");
    assert_eq!(condition("Ready")["reason"], "ReadinessGatesNotReady");
    cluster.machine.finish(&write, Outcome::Done(cluster.version), cluster.now);
    assert_eq!(cluster.finish_writes(), [] as [&str; 0]);
    gated["status"] = json!({"phase": "Running", "conditions": [
        {"type": "ContainersReady", "status": "True"}, {"type": "Ready", "status": "False"}, {"type": "lb", "status": "True"}]});
    cluster.see(gated);
    assert_eq!(cluster.finish_writes(), ["a Run { ready: true }"]);
}

#[test]
fn a_failed_write_is_retried_with_growing_delays() {
    let mut cluster = SimulatedCluster::new(0);
    cluster.see(pod("a"));
    for wait in [50, 100, 200] {
        let write = cluster.machine.take(cluster.now).unwrap();
        assert!(cluster.machine.take(cluster.now).is_none(), "one write per Pod");
        cluster.machine.finish(&write, Outcome::Failed, cluster.now);
        assert!(cluster.machine.take(cluster.now).is_none());
        cluster.wait(wait);
    }
    assert_eq!(cluster.finish_writes(), ["a Bind", "a Run { ready: true }"]);
}

#[test]
fn pods_that_a_relist_does_not_contain_are_forgotten() {
    let mut cluster = SimulatedCluster::new(1_000);
    cluster.see(pod("a"));
    cluster.see(pod("b"));
    cluster.finish_writes();
    let mut left = pod("b");
    left["metadata"]["resourceVersion"] = "900".into();
    cluster.machine.replace(vec![serde_json::from_value(left).unwrap()], cluster.now);
    assert_eq!(cluster.machine.n_pods(), 1);
    cluster.wait(1_000);
    assert_eq!(cluster.finish_writes(), ["b Run { ready: true }"]);
}

#[test]
fn pods_of_other_nodes_and_other_schedulers_are_unchanged() {
    let mut cluster = SimulatedCluster::new(0);
    let mut foreign = pod("foreign");
    foreign["spec"]["nodeName"] = "real-node".into();
    cluster.see(foreign);
    let mut other = pod("other");
    other["spec"]["schedulerName"] = "mine".into();
    cluster.see(other);
    let mut gated = pod("gated");
    gated["spec"]["schedulingGates"] = json!([{"name": "wait"}]);
    cluster.see(gated);
    assert_eq!(cluster.finish_writes(), [] as [&str; 0]);
}
