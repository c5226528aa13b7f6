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
            back_off: (Duration::from_secs(1), Duration::from_secs(30)),
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
            steps.push(format!("{} {}", write.uid, describe(&write)));
            self.version += 1;
            self.machine.finish(&write, Outcome::Done(self.version), self.now);
        }
        steps
    }
}

/// A step; for a report its phase, and whether the Pod is ready.
fn describe(write: &Write) -> String {
    let status = &write.request.body["status"];
    let ready = condition(write, "Ready").is_some_and(|condition| condition["status"] == "True");
    match (write.step, status["phase"].as_str().unwrap_or_default()) {
        (Step::Report, phase) if ready => format!("{phase} ready"),
        (Step::Report, phase) => phase.to_owned(),
        (step, _) => format!("{step:?}"),
    }
}

fn condition<'a>(write: &'a Write, kind: &str) -> Option<&'a Value> {
    write.request.body["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
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
    assert_eq!(cluster.finish_writes(), ["a Running ready"]);
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
            Step::Bind => nodes.push(write.request.body["target"]["name"].clone()),
            _ => assert!(ips.insert(write.request.body["status"]["podIP"].as_str().unwrap().to_owned())),
        }
        cluster.machine.finish(&write, Outcome::Done(0), cluster.now);
    }
    assert_eq!(nodes, ["n0", "n1", "n0", "n1"]);
    assert_eq!(ips.len(), 4);
}

#[test]
fn addresses_continue_after_the_existing_ones_at_a_restart() {
    let mut cluster = SimulatedCluster::new(0);
    cluster.see(pod("first"));
    cluster.machine.take(cluster.now).unwrap();
    let mut old = pod("old");
    old["spec"]["nodeName"] = "n0".into();
    cluster.see(old.clone());
    let mut status = cluster.machine.take(cluster.now).unwrap().request.body["status"].clone();
    status["podIP"] = "10.128.0.9".into();
    old["status"] = status;
    let mut cluster = SimulatedCluster::new(0);
    cluster.see(old);
    assert_eq!(cluster.finish_writes(), [] as [&str; 0], "a Pod in its desired state is unchanged");
    let mut new = pod("new");
    new["spec"]["nodeName"] = "n0".into();
    cluster.see(new);
    let write = cluster.machine.take(cluster.now).unwrap();
    assert_eq!(write.request.body["status"]["podIP"], "10.128.0.10");
}

#[test]
fn an_older_observation_does_not_undo_what_was_written() {
    let mut cluster = SimulatedCluster::new(0);
    cluster.see(pod("a"));
    let stale = cluster.version;
    assert_eq!(cluster.finish_writes(), ["a Bind", "a Running ready"]);
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
    assert_eq!(cluster.finish_writes(), ["slow Bind", "never Bind", "slow Running", "never Running"]);
    cluster.wait(5_000);
    assert_eq!(cluster.finish_writes(), ["slow Running ready"]);
    let mut cured = pod("never");
    cured["spec"]["nodeName"] = "n1".into();
    cured["status"] = json!({"phase": "Running"});
    cluster.see(cured);
    assert_eq!(cluster.finish_writes(), ["never Running ready"]);
}

#[test]
fn annotations_make_a_pod_fail_or_complete() {
    let mut cluster = SimulatedCluster::new(0);
    cluster.see(annotated("bad", "fail-after", "2s"));
    cluster.see(annotated("good", "complete-after", "1s"));
    cluster.finish_writes();
    cluster.wait(1_000);
    assert_eq!(cluster.finish_writes(), ["good Succeeded"]);
    cluster.wait(1_000);
    assert_eq!(cluster.finish_writes(), ["bad Failed"]);
    cluster.wait(10_000);
    assert_eq!(cluster.finish_writes(), [] as [&str; 0]);
}

#[test]
fn deletion_is_finished_once_and_only_after_a_slow_stop() {
    let mut cluster = SimulatedCluster::new(0);
    let mut running = Vec::new();
    for (uid, stop) in [("quick", "0s"), ("slow", "30s")] {
        let mut pod = annotated(uid, "stop-after", stop);
        pod["spec"]["nodeName"] = "n0".into();
        cluster.see(pod.clone());
        let write = cluster.machine.take(cluster.now).unwrap();
        cluster.machine.finish(&write, Outcome::Done(cluster.version), cluster.now);
        pod["status"] = write.request.body["status"].clone();
        running.push(pod);
    }
    for mut pod in running {
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
    assert_eq!(cluster.finish_writes(), ["job Failed", "job Delete"]);
}

#[test]
fn a_pod_deleted_at_once_reports_its_end_if_it_has_a_finalizer() {
    let mut cluster = SimulatedCluster::new(0);
    for (uid, finalizers) in [("plain", json!([])), ("job", json!(["batch.kubernetes.io/job-tracking"]))] {
        let mut pod = pod(uid);
        pod["spec"]["nodeName"] = "n0".into();
        cluster.see(pod.clone());
        cluster.finish_writes();
        pod["metadata"]["deletionTimestamp"] = "1970-01-01T00:00:00Z".into();
        pod["metadata"]["deletionGracePeriodSeconds"] = 0.into();
        pod["metadata"]["finalizers"] = finalizers;
        pod["status"] = json!({"phase": "Running"});
        cluster.see(pod);
    }
    assert_eq!(cluster.finish_writes(), ["job Failed"]);
    assert_eq!(cluster.machine.next_due(), None);
}

#[test]
fn a_command_ends_its_pod_and_an_annotation_ends_a_running_one() {
    let mut cluster = SimulatedCluster::new(0);
    let mut job = pod("job");
    job["spec"]["restartPolicy"] = "Never".into();
    job["spec"]["containers"][0]["command"] = json!(["sh", "-c", "sleep 3; exit 4"]);
    cluster.see(job.clone());
    assert_eq!(cluster.finish_writes(), ["job Bind", "job Running ready"]);
    cluster.wait(2_999);
    assert_eq!(cluster.finish_writes(), [] as [&str; 0]);
    cluster.wait(1);
    let write = cluster.machine.take(cluster.now).unwrap();
    assert_eq!(describe(&write), "Failed");
    assert_eq!(write.request.body["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"], 4);
    cluster.machine.finish(&write, Outcome::Done(cluster.version), cluster.now);
    assert_eq!(cluster.machine.next_due(), None);

    let mut server = pod("server");
    server["spec"]["restartPolicy"] = "Never".into();
    server["spec"]["nodeName"] = "n0".into();
    cluster.see(server.clone());
    cluster.finish_writes();
    cluster.wait(60_000);
    server["metadata"]["annotations"]["sim.pintle.dev/exit-code"] = "5".into();
    server["status"] = json!({"phase": "Running"});
    cluster.see(server);
    let write = cluster.machine.take(cluster.now).unwrap();
    let ended = &write.request.body["status"]["containerStatuses"][0]["state"]["terminated"];
    assert_eq!((&ended["exitCode"], &ended["finishedAt"]), (&json!(5), &json!("1970-01-01T00:01:03Z")));
}

#[test]
fn only_the_first_pods_of_a_controller_fail_when_failures_are_counted() {
    let mut cluster = SimulatedCluster::new(0);
    let mut ends = Vec::new();
    for uid in ["a", "b", "c"] {
        let mut pod = annotated(uid, "fail-times", "2");
        pod["metadata"]["ownerReferences"] = json!([{"uid": "job", "controller": true}]);
        pod["spec"]["restartPolicy"] = "Never".into();
        pod["spec"]["nodeName"] = "n0".into();
        pod["spec"]["containers"][0]["command"] = json!(["true"]);
        cluster.see(pod);
        ends.extend(cluster.finish_writes());
    }
    assert_eq!(ends, ["a Failed", "b Failed", "c Succeeded"]);
}

#[test]
fn a_readiness_gate_holds_ready_back_until_it_opens() {
    let mut cluster = SimulatedCluster::new(0);
    let mut gated = pod("a");
    gated["spec"]["nodeName"] = "n0".into();
    gated["spec"]["readinessGates"] = json!([{"conditionType": "lb"}]);
    cluster.see(gated.clone());
    let write = cluster.machine.take(cluster.now).unwrap();
    assert_eq!(condition(&write, "ContainersReady").unwrap()["status"], "True");
    assert_eq!(condition(&write, "Ready").unwrap()["reason"], "ReadinessGatesNotReady");
    cluster.machine.finish(&write, Outcome::Done(cluster.version), cluster.now);
    assert_eq!(cluster.finish_writes(), [] as [&str; 0]);
    gated["status"] = write.request.body["status"].clone();
    gated["status"]["conditions"].as_array_mut().unwrap().push(json!({"type": "lb", "status": "True"}));
    cluster.see(gated);
    assert_eq!(cluster.finish_writes(), ["a Running ready"]);
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
    assert_eq!(cluster.finish_writes(), ["a Bind", "a Running ready"]);
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
    assert_eq!(cluster.finish_writes(), ["b Running ready"]);
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

/// Nodes with annotations, by name.
fn nodes(of: &[(&str, &str)]) -> Arc<Nodes> {
    let node = |(name, annotation): &(&str, &str)| {
        let mut node = ObservedNode::named(name);
        node.metadata.annotations.insert(format!("sim.pintle.dev/{annotation}"), "true".to_owned());
        ((*name).to_owned(), node)
    };
    Arc::new(of.iter().map(node).collect())
}

#[test]
fn pods_go_to_nodes_that_fit_and_wait_until_there_is_one() {
    let mut cluster = SimulatedCluster::new(0);
    let chosen = |cluster: &mut SimulatedCluster, uid: &str, name: Option<&str>| {
        let mut pod = pod(uid);
        if let Some(name) = name {
            let term = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]});
            pod["spec"]["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}});
        }
        cluster.see(pod);
        let write = cluster.machine.take(cluster.now)?;
        cluster.machine.finish(&write, Outcome::Done(0), cluster.now);
        cluster.finish_writes();
        Some(write.request.body["target"]["name"].as_str().unwrap().to_owned())
    };
    assert_eq!(chosen(&mut cluster, "a", Some("n1")).as_deref(), Some("n1"));
    assert_eq!(chosen(&mut cluster, "b", Some("n1")).as_deref(), Some("n1"));
    assert_eq!(chosen(&mut cluster, "c", None).as_deref(), Some("n0"));
    assert_eq!(chosen(&mut cluster, "d", Some("n2")), None);
    cluster.machine.set_nodes(nodes(&[("n0", ""), ("n2", "")]), cluster.now);
    assert_eq!(cluster.finish_writes(), ["d Bind", "d Running ready"]);
    cluster.machine.set_nodes(nodes(&[]), cluster.now);
    assert_eq!(chosen(&mut cluster, "e", None), None);
    assert_eq!(cluster.machine.next_due(), None);
}

#[test]
fn on_a_node_that_is_not_ready_no_pod_is_ready_ends_or_stops() {
    let mut cluster = SimulatedCluster::new(0);
    let mut pod = annotated("a", "run-for", "10s");
    pod["spec"]["nodeName"] = "n0".into();
    pod["spec"]["restartPolicy"] = "Never".into();
    cluster.see(pod.clone());
    let write = cluster.machine.take(cluster.now).unwrap();
    cluster.machine.finish(&write, Outcome::Done(cluster.version), cluster.now);
    pod["status"] = write.request.body["status"].clone();
    cluster.machine.set_nodes(nodes(&[("n0", "not-ready")]), cluster.now);
    assert_eq!(cluster.finish_writes(), ["a Running"]);
    cluster.wait(20_000);
    assert_eq!(cluster.finish_writes(), [] as [&str; 0]);
    pod["status"]["conditions"] = json!([]);
    pod["metadata"]["deletionTimestamp"] = "1970-01-01T00:00:00Z".into();
    pod["metadata"]["deletionGracePeriodSeconds"] = 30.into();
    cluster.see(pod);
    assert_eq!(cluster.finish_writes(), ["a Running"], "its conditions were lost, and it does not end");
    cluster.machine.set_nodes(nodes(&[("n0", "unreachable")]), cluster.now);
    assert_eq!(cluster.finish_writes(), [] as [&str; 0]);
    cluster.machine.set_nodes(nodes(&[("n0", "")]), cluster.now);
    assert_eq!(cluster.finish_writes(), ["a Delete"]);
}

#[test]
fn pods_of_a_deleted_node_are_left_alone() {
    let mut cluster = SimulatedCluster::new(0);
    let mut pod = annotated("a", "run-for", "10s");
    pod["spec"]["nodeName"] = "n0".into();
    cluster.see(pod.clone());
    assert_eq!(cluster.finish_writes(), ["a Running ready"]);
    cluster.machine.set_nodes(nodes(&[("n1", "")]), cluster.now);
    cluster.wait(20_000);
    assert_eq!(cluster.finish_writes(), [] as [&str; 0]);
}
