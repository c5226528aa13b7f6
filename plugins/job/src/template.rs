//! Creates Pods from a Job's template.
//!
//! *Source*: `manageJob` of job_controller.go, indexed_job_utils.go, and `GetPodFromTemplate` of controller_utils.go.

use std::collections::BTreeMap;

use pintle_sdk::api::meta::{ObjectMeta, Raw};
use pintle_sdk::{Refusal, Resource, has_finalizer, json};
use plugin_lib::batch::Batch;
use plugin_lib::pods;
use serde::Serialize;
use serde_json::{Value, json};

use crate::context::Context;
use crate::failure_policy::evaluate;
use crate::manage::MAX_PODS;
use crate::types::{IGNORED_INDEX_FAILURES, INDEX, INDEX_FAILURES, Job, Pod, TRACKING};

/// Longest prefix that a generated name keeps in full.
#[doc(alias = "MaxGeneratedNameLength")]
const LONGEST_PREFIX: usize = 58;

/// Name of the environment variable with the index.
#[doc(alias = "completionIndexEnvName")]
const VARIABLE: &str = "JOB_COMPLETION_INDEX";

#[derive(Serialize)]
struct NewPod<'a> {
    metadata: ObjectMeta,
    spec: &'a Raw,
}

#[derive(Serialize)]
struct NewIndexedPod<'a> {
    metadata: ObjectMeta,
    spec: &'a Value,
}

/// Creates these Pods, at least one, up to the limit of one run.
pub(crate) fn create(context: &Context<'_>, indexes: &[Option<i64>]) -> Batch {
    let template = &context.job.spec.template;
    let mut spec = Value::Null;
    if context.n_indexes.is_some() {
        spec = template.spec.value();
        add_variable(&mut spec);
    }
    let create = |index: &Option<i64>| {
        let metadata = metadata(context, *index);
        let pod = match index {
            None => json(&NewPod { metadata, spec: &template.spec }),
            Some(index) => {
                spec["hostname"] = format!("{}-{index}", context.job.metadata.name).into();
                json(&NewIndexedPod { metadata, spec: &spec })
            }
        };
        pods::create(&Job::KIND, &context.job.metadata, pod)
            // The API server rejects it until the namespace is deleted: neither an event nor a retry is useful.
            .tolerate([Refusal::NamespaceTerminating])
    };
    Batch::of(MAX_PODS, indexes.iter().map(create))
}

#[doc(alias = "addCompletionIndexAnnotation", alias = "addCompletionIndexLabel")]
#[doc(alias = "appendJobCompletionFinalizerIfNotFound")]
fn metadata(context: &Context<'_>, index: Option<i64>) -> ObjectMeta {
    let job = context.job;
    let mut metadata = pods::metadata_from_template(&Job::KIND, &job.metadata, &job.spec.template);
    metadata.generate_name = prefix(&job.metadata.name, index);
    if !has_finalizer(&metadata, TRACKING) {
        metadata.finalizers.push(TRACKING.to_owned());
    }
    if let Some(index) = index {
        metadata.labels.insert(INDEX.to_owned(), index.to_string());
        metadata.annotations.insert(INDEX.to_owned(), index.to_string());
        if job.spec.backoff_limit_per_index.is_some() {
            count_failures(job, context.predecessors.get(&index).copied(), &mut metadata.annotations);
        }
    }
    metadata
}

/// Annotates the new Pod of an index with the number of earlier failures.
#[doc(alias = "addIndexFailureCountAnnotation", alias = "getNewIndexFailureCounts")]
fn count_failures(job: &Job, predecessor: Option<&Pod>, annotations: &mut BTreeMap<String, String>) {
    let (mut counted, mut ignored) = (0, 0);
    if let Some(pod) = predecessor {
        (counted, ignored) = (pod.index_failures(), pod.ignored_index_failures());
        if evaluate(job, pod).counts {
            counted += 1;
        } else {
            ignored += 1;
        }
    }
    annotations.insert(INDEX_FAILURES.to_owned(), counted.to_string());
    if ignored > 0 {
        annotations.insert(IGNORED_INDEX_FAILURES.to_owned(), ignored.to_string());
    }
}

/// Adds the variable to each container that lacks it.
#[doc(alias = "addCompletionIndexEnvVariables", alias = "addCompletionIndexEnvVariable")]
fn add_variable(spec: &mut Value) {
    for list in ["initContainers", "containers"] {
        for container in spec[list].as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
            let env = container.entry("env").or_insert_with(|| json!([]));
            if env.is_null() {
                *env = json!([]);
            }
            let Some(env) = env.as_array_mut() else { continue };
            if env.iter().any(|variable| variable["name"] == VARIABLE) {
                continue;
            }
            let path = format!("metadata.labels['{INDEX}']");
            env.push(json!({"name": VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": path}}}));
        }
        if spec[list].is_null() {
            spec.as_object_mut().map(|spec| spec.remove(list));
        }
    }
}

/// Prefix of Pod names.
#[doc(alias = "podGenerateNameWithIndex")]
fn prefix(job: &str, index: Option<i64>) -> String {
    match index {
        None => pods::name_prefix(job),
        Some(index) => {
            let index = format!("-{index}-");
            let end = job.floor_char_boundary(job.len().min(LONGEST_PREFIX.saturating_sub(index.len())));
            format!("{}{index}", &job[..end])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `TestPodGenerateNameWithIndex` of indexed_job_utils_test.go.
    #[test]
    fn prefixes_keep_the_index() {
        let long = "j".repeat(60);
        for (job, index, expected) in [
            ("indexed-job", Some(1), "indexed-job-1-".to_owned()),
            (&long, Some(1), format!("{}-1-", "j".repeat(55))),
            (&long, Some(99_999), format!("{}-99999-", "j".repeat(51))),
            (&"j".repeat(55), Some(1), format!("{}-1-", "j".repeat(55))),
            ("pi", None, "pi-".to_owned()),
        ] {
            assert_eq!(prefix(job, index), expected);
        }
    }

    #[test]
    fn each_container_gets_the_variable_once() {
        let mut spec = json!({
            "containers": [{"name": "a"}, {"name": "b", "env": [{"name": VARIABLE, "value": "own"}]}, {"env": null}, 7],
        });
        add_variable(&mut spec);
        let variable = json!([{"name": VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": format!("metadata.labels['{INDEX}']")}}}]);
        assert_eq!(spec["containers"][0]["env"], variable);
        assert_eq!(spec["containers"][1]["env"], json!([{"name": VARIABLE, "value": "own"}]));
        assert_eq!(spec["containers"][2]["env"], variable);
        assert_eq!(spec.as_object().unwrap().len(), 1);
    }
}
