//! CronJobs that are due when the user sets their last time back, and Jobs of which the user writes how they end.

use rand::RngExt as _;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::plan::{Kind, QUIET_LOOKS, Step, one, propagation, value};

pub(super) const KIND: Kind = Kind {
    name: "CronJobs",
    compared: &["cronjobs", "jobs"],
    n_quiet_looks: QUIET_LOOKS,
    has_metrics: false,
    begin,
    step,
    last: Vec::new,
};

/// The first of January 2026, as the minutes in the name of a Job.
const NEW_YEAR: u64 = 29_453_760;

/// The days of January on which schedules are due.
const DAYS: u64 = 4;

fn schedule(day: u64) -> String {
    format!("0 0 {day} 1 *")
}

fn begin(random: &mut StdRng) -> Vec<Step> {
    vec![create(random)]
}

fn create(random: &mut StdRng) -> Step {
    let job = json!({
        "managedBy": "example.com/user",
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "image:1"}]}},
    });
    let limits = [Value::Null, json!(0), json!(1), json!(2)];
    let spec = json!({
        "schedule": schedule(random.random_range(1..=DAYS)),
        "timeZone": value(random, &[Value::Null, Value::Null, json!("Etc/UTC")]),
        "concurrencyPolicy": one(random, &["Allow", "Forbid", "Replace"]),
        "suspend": random.random_bool(0.15),
        "startingDeadlineSeconds": value(random, &[Value::Null, Value::Null, json!(0), json!(100), json!(1_000_000_000)]),
        "successfulJobsHistoryLimit": value(random, &limits), "failedJobsHistoryLimit": value(random, &limits),
        "jobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": job},
    });
    Step::Create("cronjobs", json!({"metadata": {"name": "c"}, "spec": spec}))
}

fn step(random: &mut StdRng) -> Step {
    let on_it = |patch: Value| Step::Patch("cronjobs", "c".to_owned(), json!({"spec": patch}));
    let day = random.random_range(1..=DAYS);
    let job = format!("c-{}", NEW_YEAR + (day - 1) * 24 * 60);
    match random.random_range(0..16) {
        0..=4 => {
            // Another time than before each time: only a status that differs is a change.
            let time = format!("2025-06-{:02}T00:00:{:02}Z", random.random_range(1..28), random.random_range(0..60));
            Step::Status("cronjobs", "c".to_owned(), json!({"lastScheduleTime": time}))
        }
        5 | 6 => on_it(json!({"schedule": schedule(day)})),
        7..=9 => Step::Status("jobs", job, ended(random.random_bool(0.6))),
        10 => Step::Delete("jobs", job, propagation(random)),
        11 => on_it(json!({"suspend": random.random_bool(0.5)})),
        12 => on_it(json!({"concurrencyPolicy": one(random, &["Allow", "Forbid", "Replace"])})),
        13 => on_it(json!({
            "successfulJobsHistoryLimit": random.random_range(0..3), "failedJobsHistoryLimit": random.random_range(0..3),
        })),
        14 => {
            // A Job of the user, whose name the CronJob may want.
            let spec = json!({"managedBy": "example.com/user", "template": {"spec": {
                "restartPolicy": "Never", "containers": [{"name": "c", "image": "image:1"}],
            }}});
            Step::Create("jobs", json!({"metadata": {"name": job}, "spec": spec}))
        }
        _ => match random.random_bool(0.5) {
            // Not in the foreground: whether kube-controller-manager then records `MissingJob` depends on which of its caches is first.
            true => Step::Delete("cronjobs", "c".to_owned(), one(random, &["Background", "Orphan"])),
            false => create(random),
        },
    }
}

/// The status of a Job that has ended.
fn ended(is_complete: bool) -> Value {
    let (start, end) = ("2026-01-02T00:00:01Z", "2026-01-03T00:00:00Z");
    let kinds = if is_complete { ["SuccessCriteriaMet", "Complete"] } else { ["FailureTarget", "Failed"] };
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": end});
    let mut status = json!({"startTime": start, "conditions": kinds.map(condition)});
    if is_complete {
        status["completionTime"] = json!(end);
    }
    status
}
