//! What is true of CronJobs.
//!
//! 1. A time of a CronJob has one Job at most, whatever became of it.
//! 2. Where Jobs must not run beside each other, none is added while another one runs that the controller has created and nobody
//!    has deleted.
//! 3. An event of the CronJob names each Job that the controller has created, and no other, unless the one in charge was killed
//!    meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{UserActions, controller, describe, occurrences};
use crate::objects::has_condition;
use crate::scenarios::history::{Effect, History};

/// The annotation with the time of a Job.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// The rules that a history broke, in words.
pub(super) fn broken(history: &History, user_actions: UserActions) -> Vec<String> {
    let policy = |object: &Value| object["spec"]["concurrencyPolicy"].as_str().unwrap_or("Allow").to_owned();
    let owned = |object: &Value| Some((controller(object)?.to_owned(), time(object)?));
    let (mut policies, mut running, mut times) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
    for ((plural, uid), object) in &history.base {
        match *plural {
            "cronjobs" => drop(policies.insert(uid.clone(), policy(object))),
            "jobs" => {
                if let Some((owner, time)) = owned(object) {
                    times.insert((owner.clone(), time));
                    running.insert(uid.clone(), (owner, is_running(object)));
                }
            }
            _ => {}
        }
    }
    let (mut broken, mut made) = (Vec::new(), BTreeSet::new());
    for write in &history.writes {
        let (_, uid) = write.id();
        if write.plural == "cronjobs" {
            policies.insert(uid, policy(&write.object));
            continue;
        }
        if write.plural != "jobs" {
            continue;
        }
        let Some((owner, time)) = owned(&write.object).filter(|(owner, _)| policies.contains_key(owner)) else {
            // Released by the garbage collector.
            running.remove(&uid);
            continue;
        };
        if write.effect == Effect::Added {
            made.insert((owner.clone(), write.name().to_owned()));
            let is_beside = running.values().any(|(other, runs)| *other == owner && *runs);
            if is_beside && policies[&owner] != "Allow" {
                broken.push(describe(write, "it runs beside another Job"));
            }
            if !times.insert((owner.clone(), time)) {
                broken.push(describe(write, "its time has had a Job"));
            }
        }
        running.insert(uid, (owner, write.left().is_some_and(is_running)));
    }
    if !user_actions.replaces_subject {
        let told = occurrences(history)
            .into_iter()
            .filter(|(about, reason, _)| reason == "SuccessfulCreate" && policies.contains_key(about));
        let told: BTreeSet<(String, String)> = told
            .filter_map(|(about, _, message)| Some((about, message.strip_prefix("Created job ")?.to_owned())))
            .collect();
        if told != made {
            broken.push(format!("Jobs made: {made:?}, told: {told:?}"));
        }
    }
    broken
}

/// The time that a Job is for; `None` if no controller has created it.
fn time(job: &Value) -> Option<String> {
    job["metadata"]["annotations"][SCHEDULED].as_str().map(str::to_owned)
}

fn is_running(job: &Value) -> bool {
    let has_ended = ["Complete", "Failed"].iter().any(|end| has_condition(job, end, "True"));
    job["metadata"]["deletionTimestamp"].is_null() && !has_ended
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::scenarios::history::Write;

    #[derive(Default)]
    struct Story(History);

    impl Story {
        fn of(policy: &str) -> Story {
            let cron_job = json!({"metadata": {"name": "c", "uid": "c"}, "spec": {"concurrencyPolicy": policy}});
            Story::default().tell("cronjobs", Effect::Added, cron_job)
        }

        fn tell(mut self, plural: &'static str, effect: Effect, mut object: Value) -> Story {
            object["metadata"]["resourceVersion"] = json!(self.0.writes.len().to_string());
            self.0.writes.push(Write { plural, effect, object });
            self
        }

        fn job(self, effect: Effect, name: &str, time: &str, end: Option<&str>) -> Story {
            let owner = json!([{"kind": "CronJob", "uid": "c", "controller": true}]);
            let metadata =
                json!({"name": name, "uid": name, "ownerReferences": owner, "annotations": {SCHEDULED: time}});
            let conditions: Vec<Value> = end.iter().map(|end| json!({"type": end, "status": "True"})).collect();
            self.tell("jobs", effect, json!({"metadata": metadata, "status": {"conditions": conditions}}))
        }

        fn made(self, name: &str, time: &str) -> Story {
            let n = self.0.writes.len();
            self.job(Effect::Added, name, time, None).tell(
                "events",
                Effect::Added,
                json!({"metadata": {"name": format!("event-{n}"), "uid": format!("event-{n}")}, "involvedObject": {"uid": "c"},
                    "reason": "SuccessfulCreate", "message": format!("Created job {name}"), "count": 1}),
            )
        }

        fn check(&self, expected: &[&str]) {
            assert_eq!(broken(&self.0, UserActions::default()), expected);
        }
    }

    #[test]
    fn one_job_after_the_other_breaks_no_rule() {
        let story = Story::of("Forbid").made("c-1", "1").job(Effect::Modified, "c-1", "1", Some("Failed"));
        story.made("c-2", "2").job(Effect::Deleted, "c-2", "2", None).made("c-3", "3").check(&[]);
        Story::of("Allow").made("c-1", "1").made("c-2", "2").check(&[]);
    }

    #[test]
    fn jobs_that_must_not_run_beside_each_other_are_reported() {
        for policy in ["Forbid", "Replace"] {
            let story = Story::of(policy).made("c-1", "1").made("c-2", "2");
            story.check(&["Added jobs c-2 (3): it runs beside another Job"]);
        }
    }

    #[test]
    fn a_time_that_has_two_jobs_is_reported() {
        let story = Story::of("Allow").made("c-1", "1").job(Effect::Deleted, "c-1", "1", None).made("c-1", "1");
        story.check(&["Added jobs c-1 (4): its time has had a Job"]);
    }

    #[test]
    fn a_job_that_no_event_names_is_reported() {
        let story = Story::of("Allow").job(Effect::Added, "c-1", "1", None);
        story.check(&[r#"Jobs made: {("c", "c-1")}, told: {}"#]);
    }
}
