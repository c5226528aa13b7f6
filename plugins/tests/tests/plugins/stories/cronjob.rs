//! Runs a CronJob's key minute by minute: no time runs twice, and Jobs run concurrently only where they may.
//!
//! Some writes are rejected, some runs crash between two writes, and Jobs finish, fail and are deleted at random.

use std::collections::BTreeSet;
use std::time::Duration;

use pintle_sdk::testing::{Cluster, Fault, Plugin, seeds};
use pintle_sdk::{Key, Kind};
use serde_json::{Value, json};

use super::objects::name_of;
use crate::cronjob::plugin;

const CRON_JOB: Kind = Kind::new("batch", "v1", "CronJob");
const JOB: Kind = Kind::new("batch", "v1", "Job");

struct Story {
    cluster: Cluster,
    plugin: Plugin<'static>,
    key: Key,
}

fn is_done(job: &Value) -> bool {
    !job["status"]["conditions"].is_null()
}

impl Story {
    fn new(seed: u64, policy: &str) -> Self {
        let mut cluster = Cluster::new(seed);
        let now = cluster.now();
        cluster.insert(json!({
            "apiVersion": "batch/v1", "kind": "CronJob",
            "metadata": {"name": "c", "namespace": "default", "uid": "c", "creationTimestamp": now},
            "spec": {
                "schedule": "* * * * *", "concurrencyPolicy": policy,
                "successfulJobsHistoryLimit": 2, "failedJobsHistoryLimit": 1,
                "jobTemplate": {"spec": {"template": {"spec": {"containers": []}}}},
            },
        }));
        let plugin = plugin();
        let key = plugin.key(&CRON_JOB, "default", "c");
        Self { cluster, plugin, key }
    }

    fn jobs(&self) -> Vec<Value> {
        self.cluster.list(&JOB).cloned().collect()
    }

    fn cron_job(&self) -> &Value {
        self.cluster.get(&CRON_JOB, "default", "c").expect("nobody deletes it")
    }

    fn is_active(&self, name: &str) -> bool {
        self.cron_job()["status"]["active"].as_array().into_iter().flatten().any(|reference| reference["name"] == name)
    }

    /// Runs the key, and checks invariants. The names of created Jobs are added to `created`.
    fn run(&mut self, policy: &str, created: &mut BTreeSet<String>) {
        let before: BTreeSet<String> = self.jobs().iter().map(name_of).collect();
        let n_running = self.jobs().iter().filter(|job| !is_done(job)).count();
        self.cluster.run(&self.plugin, &self.key);
        for job in self.jobs() {
            let name = name_of(&job);
            if before.contains(&name) {
                continue;
            }
            let writes: Vec<String> = self.cluster.writes().iter().rev().take(12).map(ToString::to_string).collect();
            assert!(created.insert(name.clone()), "{name} is created twice; the last writes: {writes:#?}");
            assert!(policy != "Forbid" || n_running == 0, "{name} runs beside {n_running}");
            let still_running = self.jobs().iter().filter(|job| !is_done(job)).count();
            assert!(policy != "Replace" || still_running == 1, "{still_running} run");
        }
    }

    /// Ends, deletes or continues Jobs.
    fn live(&mut self, only_known: bool) {
        let now = self.cluster.now();
        for job in self.jobs().iter().filter(|job| !is_done(job)) {
            let name = name_of(job);
            let end = match self.cluster.random(8) {
                0 | 1 => json!({"completionTime": now, "conditions": [{"type": "Complete", "status": "True"}]}),
                2 => json!({"conditions": [{"type": "Failed", "status": "True"}]}),
                3 if !only_known || self.is_active(&name) => {
                    self.cluster.remove(&JOB, "default", &name);
                    continue;
                }
                _ => continue,
            };
            self.cluster.edit(&JOB, "default", &name, |job| {
                job["status"] = end;
                job["status"]["startTime"] = job["metadata"]["creationTimestamp"].clone();
            });
        }
    }
}

#[test]
fn no_time_runs_twice_whatever_goes_wrong() {
    for policy in ["Allow", "Forbid", "Replace"] {
        for seed in seeds(0..8) {
            let mut story = Story::new(seed, policy);
            let mut created = BTreeSet::new();
            // A Job that is deleted before it is in the status is created again if the host crashes then, as upstream.
            let crashes = seed % 2 == 0;
            story.cluster.inject(Fault::reject(500, "InternalError", "etcd is away").one_in(6));
            for _ in 0..60 {
                if crashes && story.cluster.random(10) == 0 {
                    let n_skipped = u32::try_from(story.cluster.random(3)).expect("it is small");
                    story.cluster.inject(Fault::crash().skip(n_skipped));
                }
                story.run(policy, &mut created);
                story.cluster.advance(Duration::from_secs(20));
                if story.cluster.random(2) == 0 {
                    story.live(crashes);
                }
            }
            assert!(created.len() >= 5, "{policy}: only {created:?}");
            story.cluster.clear_faults();
            // Three runs process all changes, including their own.
            for _ in 0..3 {
                story.run(policy, &mut created);
            }
            let jobs = story.jobs();
            let n_ended = |kind: &str| jobs.iter().filter(|job| job["status"]["conditions"][0]["type"] == kind).count();
            assert!(n_ended("Complete") <= 2 && n_ended("Failed") <= 1, "{policy}: {jobs:#?}");
            let active = story.cron_job()["status"]["active"].as_array().into_iter().flatten();
            let active: BTreeSet<&str> = active.filter_map(|reference| reference["uid"].as_str()).collect();
            let running = jobs.iter().filter(|job| !is_done(job));
            let running: BTreeSet<&str> = running.filter_map(|job| job["metadata"]["uid"].as_str()).collect();
            assert!(active.is_subset(&running), "{policy}: {active:?} {running:?}");
        }
    }
}
