use serde_json::{Value, json};

use super::*;
use crate::report::Report;

/// A Pod with running containers; times are in milliseconds.
struct Node {
    pod: ObservedPod,
    run: PodRun,
    counts: RunCounts,
    deleted: Option<Timestamp>,
}

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms).unwrap()
}

fn facts<'a>(pod: &'a ObservedPod, behaviour: &'a Behaviour, deleted: Option<Timestamp>) -> Facts<'a> {
    let back_off = (Duration::from_secs(1), Duration::from_secs(30));
    Facts { pod, behaviour, back_off, deleted, stop_delay: Duration::ZERO, node_is_ready: true }
}

impl Node {
    fn new(spec: Value, annotations: &Value) -> Self {
        let mut pod =
            json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u", "annotations": {}}, "spec": spec});
        for (name, value) in annotations.as_object().into_iter().flatten() {
            pod["metadata"]["annotations"][format!("sim.pintle.dev/{name}")] = value.clone();
        }
        let pod: ObservedPod = serde_json::from_value(pod).unwrap();
        let run = PodRun::new(&pod, at(0));
        Self { pod, run, counts: RunCounts::new(), deleted: None }
    }

    fn delete(&mut self, grace_seconds: i64, ms: i64) {
        self.deleted = Some(at(ms));
        self.pod.metadata.deletion_grace_period_seconds = Some(grace_seconds);
    }

    /// The status at a time, and the time of the next change.
    fn status(&mut self, ms: i64) -> (Value, Option<i64>) {
        let behaviour = Behaviour::of(&self.pod);
        let facts = facts(&self.pod, &behaviour, self.deleted);
        let next = self.run.advance(&facts, &mut self.counts, at(ms));
        let report = Report::of(&facts, &self.run, at(ms));
        let status = report.patch(&self.pod, &self.run, [10, 0, 0, 1].into(), "10.0.0.2", at(ms));
        (status, next.map(Timestamp::as_millisecond))
    }

    /// Every status from the start: time, phase, and each container with state, restarts and readiness.
    fn history(&mut self, until: i64) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        let mut now = 0;
        loop {
            let (status, next) = self.status(now);
            let containers = ["initContainerStatuses", "containerStatuses"].map(|list| {
                status[list].as_array().into_iter().flatten().map(|c| format!(" {}", describe(c))).collect::<String>()
            });
            let line = format!("{}{}", status["phase"].as_str().unwrap(), containers.concat());
            if !lines.last().is_some_and(|last| last.ends_with(&format!(": {line}"))) {
                lines.push(format!("{now}: {line}"));
            }
            match next {
                Some(next) if next <= until => now = next,
                _ => return lines,
            }
        }
    }
}

fn describe(container: &Value) -> String {
    let state = &container["state"];
    let state = match () {
        () if state["running"].is_object() => "running".to_owned(),
        () if state["terminated"].is_object() => format!("exit{}", state["terminated"]["exitCode"]),
        () => state["waiting"]["reason"].as_str().unwrap_or("?").to_owned(),
    };
    let n = &container["restartCount"];
    let ready = if container["ready"] == true { "+" } else { "" };
    let restarts = if *n == 0 { String::new() } else { format!("#{n}") };
    format!("{}={state}{restarts}{ready}", container["name"].as_str().unwrap())
}

fn shell(name: &str, script: &str) -> Value {
    json!({"name": name, "image": "i", "command": ["sh", "-c", script]})
}

#[test]
fn a_container_runs_without_end_if_nothing_else_is_known() {
    let mut node = Node::new(json!({"containers": [{"name": "c", "image": "i"}]}), &json!({}));
    assert_eq!(node.history(i64::MAX), ["0: Running c=running+"]);
}

#[test]
fn a_command_ends_with_its_exit_code() {
    for (policy, script, wanted) in [
        ("Never", "sleep 2", &["0: Running c=running+", "2000: Succeeded c=exit0"][..]),
        ("Never", "sleep 2; exit 3", &["0: Running c=running+", "2000: Failed c=exit3"]),
        ("OnFailure", "sleep 2", &["0: Running c=running+", "2000: Succeeded c=exit0"]),
        // The first restart is immediate, later ones after one second, two seconds, ...
        (
            "OnFailure",
            "sleep 2; exit 3",
            &[
                "0: Running c=running+",
                "2000: Running c=running#1+",
                "4000: Running c=CrashLoopBackOff#1",
                "5000: Running c=running#2+",
                "7000: Running c=CrashLoopBackOff#2",
                "9000: Running c=running#3+",
                "11000: Running c=CrashLoopBackOff#3",
            ],
        ),
        (
            "Always",
            "sleep 5",
            &[
                "0: Running c=running+",
                "5000: Running c=running#1+",
                "10000: Running c=CrashLoopBackOff#1",
                "11000: Running c=running#2+",
            ],
        ),
    ] {
        let mut node = Node::new(json!({"restartPolicy": policy, "containers": [shell("c", script)]}), &json!({}));
        assert_eq!(node.history(12_000), wanted, "{policy} {script}");
    }
}

#[test]
fn the_wait_before_a_restart_is_bounded_and_starts_over_after_a_long_run() {
    let mut node = Node::new(json!({"containers": [shell("c", "false")]}), &json!({}));
    let history = node.history(200_000);
    let starts: Vec<i64> = history.iter().map(|line| line.split(':').next().unwrap().parse().unwrap()).collect();
    let waits: Vec<i64> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(waits[..7], [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
    let mut node = Node::new(json!({"containers": [shell("c", "sleep 60")]}), &json!({}));
    assert!(!node.history(1_000_000).iter().any(|line| line.contains("CrashLoopBackOff")));
}

#[test]
fn restarts_follow_the_container_before_the_pod() {
    let rule = json!([{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]);
    for (code, policy, rules, restarts) in [
        (0, json!(null), json!([]), false),
        (1, json!(null), json!([]), false),
        (0, json!("Always"), json!([]), true),
        (0, json!("OnFailure"), json!([]), false),
        (1, json!("OnFailure"), json!([]), true),
        (42, json!("Never"), rule.clone(), true),
        (41, json!("Never"), rule.clone(), false),
    ] {
        let mut container = shell("c", &format!("sleep 1; exit {code}"));
        container["restartPolicy"] = policy.clone();
        container["restartPolicyRules"] = rules;
        let mut node = Node::new(json!({"restartPolicy": "Never", "containers": [container]}), &json!({}));
        let history = node.history(1_000);
        assert_eq!(history[1].contains("running#1"), restarts, "{code} {policy}: {history:?}");
    }
}

#[test]
fn init_containers_run_in_order_and_sidecars_end_last() {
    let mut sidecar = shell("log", "sleep infinity");
    sidecar["restartPolicy"] = "Always".into();
    let spec = json!({"restartPolicy": "Never", "initContainers": [shell("a", "sleep 1"), sidecar, shell("b", "sleep 2")],
        "containers": [shell("c", "sleep 3"), shell("d", "sleep 4")]});
    assert_eq!(
        Node::new(spec, &json!({})).history(i64::MAX),
        [
            "0: Pending a=running log=PodInitializing b=PodInitializing c=PodInitializing d=PodInitializing",
            "1000: Pending a=exit0+ log=running+ b=running c=PodInitializing d=PodInitializing",
            "3000: Running a=exit0+ log=running+ b=exit0+ c=running+ d=running+",
            "6000: Running a=exit0+ log=running+ b=exit0+ c=exit0 d=running+",
            "7000: Succeeded a=exit0+ log=exit0 b=exit0+ c=exit0 d=exit0",
        ]
    );
}

#[test]
fn a_failed_init_container_fails_the_pod_or_starts_again() {
    let spec = |policy: &str| {
        json!({"restartPolicy": policy, "initContainers": [{"name": "a", "image": "i"}, shell("b", "sleep 1; exit 2")],
            "containers": [shell("c", "sleep infinity")]})
    };
    assert_eq!(
        Node::new(spec("Never"), &json!({})).history(i64::MAX),
        ["0: Pending a=exit0+ b=running c=PodInitializing", "1000: Failed a=exit0+ b=exit2 c=PodInitializing"]
    );
    assert_eq!(
        Node::new(spec("Always"), &json!({})).history(3_000),
        [
            "0: Pending a=exit0+ b=running c=PodInitializing",
            "1000: Pending a=exit0+ b=running#1 c=PodInitializing",
            "2000: Pending a=exit0+ b=CrashLoopBackOff#1 c=PodInitializing",
            "3000: Pending a=exit0+ b=running#2 c=PodInitializing",
        ]
    );
    let mut node = Node::new(spec("Never"), &json!({"fail-times": "b=0"}));
    assert_eq!(node.history(i64::MAX)[1], "1000: Failed a=exit0+ b=exit2 c=PodInitializing");
    let mut node = Node::new(spec("Always"), &json!({"fail-times": "b=1", "exit-code": "b=7"}));
    let history = node.history(2_000);
    assert_eq!(history[1], "1000: Pending a=exit0+ b=running#1 c=PodInitializing");
    assert_eq!(history[2], "2000: Running a=exit0+ b=exit0#1+ c=running+");
}

#[test]
fn a_sidecar_that_fails_starts_again_while_the_pod_runs() {
    let mut sidecar = shell("log", "sleep 2; exit 1");
    sidecar["restartPolicy"] = "Always".into();
    let spec = json!({"restartPolicy": "Never", "initContainers": [sidecar], "containers": [shell("c", "sleep 4.5")]});
    assert_eq!(
        Node::new(spec, &json!({})).history(i64::MAX),
        [
            "0: Running log=running+ c=running+",
            "2000: Running log=running#1+ c=running+",
            "4000: Running log=CrashLoopBackOff#1 c=running+",
            "4500: Succeeded log=exit1#1 c=exit0",
        ]
    );
}

#[test]
fn an_image_that_cannot_be_pulled_keeps_the_pod_pending_until_it_changes() {
    let spec = json!({"containers": [{"name": "c", "image": "registry.invalid/c"}, {"name": "d", "image": "i"}]});
    let mut node = Node::new(spec, &json!({}));
    assert_eq!(
        node.history(i64::MAX),
        ["0: Pending c=ErrImagePull d=running+", "1000: Pending c=ImagePullBackOff d=running+"]
    );
    node.pod.spec.containers[0].image = "c".to_owned();
    let (status, next) = node.status(9_000);
    assert_eq!((&status["phase"], next), (&json!("Running"), None));
    assert_eq!(status["containerStatuses"][0]["state"]["running"]["startedAt"], "1970-01-01T00:00:01Z");
}

#[test]
fn probes_delay_start_and_readiness() {
    let container = json!({"name": "c", "image": "i", "startupProbe": {"initialDelaySeconds": 2},
        "readinessProbe": {"initialDelaySeconds": 5}});
    let mut node = Node::new(json!({"containers": [container]}), &json!({}));
    let started = |status: &Value| status["containerStatuses"][0]["started"] == true;
    assert!(!started(&node.status(1_999).0));
    let (status, next) = node.status(2_000);
    assert_eq!((started(&status), &status["containerStatuses"][0]["ready"], next), (true, &json!(false), Some(5_000)));
    assert_eq!(node.history(i64::MAX).last().unwrap(), "5000: Running c=running+");
}

#[test]
fn an_evicted_pod_and_one_beyond_its_deadline_fail_with_a_reason() {
    let spec =
        |deadline: Value| json!({"activeDeadlineSeconds": deadline, "containers": [shell("c", "sleep infinity")]});
    let mut node = Node::new(spec(json!(null)), &json!({"evict-after": "2s"}));
    assert_eq!(node.history(i64::MAX), ["0: Running c=running+", "2000: Failed c=exit137"]);
    let (status, _) = node.status(2_000);
    assert_eq!(status["reason"], "Evicted");
    let target = status["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "DisruptionTarget").unwrap();
    assert_eq!((&target["status"], &target["reason"]), (&json!("True"), &json!("TerminationByKubelet")));
    let mut node = Node::new(spec(json!(3)), &json!({}));
    assert_eq!(node.history(i64::MAX), ["0: Running c=running+", "3000: Failed c=exit137"]);
    assert_eq!(node.status(3_000).0["reason"], "DeadlineExceeded");
}

#[test]
fn a_deleted_pod_stops_within_its_grace_period() {
    for (annotations, grace, wanted) in [
        (json!({}), 30, "1000: Failed c=exit143"),
        (json!({"stop-after": "5s"}), 30, "6000: Failed c=exit143"),
        (json!({"stop-after": "5s", "stop-exit-code": "0"}), 30, "6000: Succeeded c=exit0"),
        (json!({"stop-after": "1m", "stop-exit-code": "0"}), 30, "31000: Failed c=exit137"),
        (json!({"stop-after": "5s"}), 0, "1000: Failed c=exit137"),
        (json!({"stop-after": "5s", "run-for": "3s"}), 30, "3000: Succeeded c=exit0"),
        (json!({"stop-after": "5s", "run-for": "3s", "exit-code": "2"}), 30, "3000: Failed c=exit2"),
    ] {
        let mut node =
            Node::new(json!({"restartPolicy": "OnFailure", "containers": [{"name": "c", "image": "i"}]}), &annotations);
        node.status(1_000);
        node.delete(grace, 1_000);
        let history = node.history(i64::MAX);
        // The history reads from the start again, which changes nothing.
        assert_eq!(
            history.last().unwrap().split_once(": ").unwrap().1,
            wanted.split_once(": ").unwrap().1,
            "{annotations}"
        );
        let finished = &node.status(90_000).0["containerStatuses"][0]["state"]["terminated"]["finishedAt"];
        let seconds = wanted.split("000:").next().unwrap();
        assert_eq!(*finished, json!(format!("1970-01-01T00:00:{:0>2}Z", seconds)), "{annotations}");
    }
}

#[test]
fn containers_that_never_ran_stop_at_once() {
    let spec = json!({"containers": [{"name": "c", "image": "registry.invalid/c"}]});
    let mut node = Node::new(spec, &json!({"stop-after": "10s"}));
    node.status(0);
    node.delete(30, 5_000);
    let (status, next) = node.status(5_000);
    assert_eq!((&status["phase"], next), (&json!("Failed"), None));
    let ended = &status["containerStatuses"][0]["state"]["terminated"];
    assert_eq!((&ended["exitCode"], &ended["reason"]), (&json!(137), &json!("ContainerStatusUnknown")));
}

#[test]
fn a_run_continues_from_its_status() {
    let mut sidecar = shell("log", "sleep infinity");
    sidecar["restartPolicy"] = "Always".into();
    let spec = json!({"restartPolicy": "OnFailure", "initContainers": [shell("a", "sleep 1"), sidecar],
        "containers": [shell("c", "sleep 3; exit 1"), {"name": "d", "image": "registry.invalid/d"}]});
    // Not in the second in which a failed pull is shown: its start is not in the status.
    let times = [0, 2_000, 4_000, 5_000, 7_000, 8_000, 11_000, 13_000];
    let mut node = Node::new(spec, &json!({}));
    for now in times {
        let (status, next) = node.status(now);
        let mut other = Node::new(json!({}), &json!({}));
        other.pod = node.pod.clone();
        other.pod.status = serde_json::from_value(status.clone()).unwrap();
        let behaviour = Behaviour::of(&other.pod);
        other.run = PodRun::restore(&facts(&other.pod, &behaviour, None), &mut other.counts).unwrap();
        let (restored, restored_next) = other.status(now);
        assert_eq!((restored, restored_next), (status, next), "at {now}");
    }
}
