//! Creates and deletes Pods.
//!
//! *Source*: daemon_controller.go, util/daemonset_util.go, `RealPodControl` of controller_utils.go.

use pintle_sdk::document::Document;
use pintle_sdk::{Error, Refusal, Resource, Step};
use plugin_lib::batch::Batch;
use plugin_lib::history::POD_LABEL;
use plugin_lib::nodes::{Toleration, add_daemon_tolerations, pin_to_node};
use plugin_lib::pods;
use serde_json::{Value, json};

use crate::context::{Context, GENERATION_LABEL, not_a_pod_spec};
use crate::types::{DaemonSet, Pod};

/// Most Pods that one run creates, and most that it deletes.
#[doc(alias = "BurstReplicas")]
pub(crate) const BURST: usize = 250;

/// A step that creates Pods for these Nodes, up to the limit of one run.
///
/// # Errors
/// The template does not decode.
#[doc(alias = "syncNodes")]
pub(crate) fn create(context: &Context, nodes: &[&str]) -> Result<Step, Error> {
    if nodes.is_empty() {
        return Ok(Step::parallel([]));
    }
    let meta = &context.set.metadata;
    let pod = pod(context)?;
    let affinity = pod.get::<Value>(&["spec", "affinity"]).unwrap_or_default();
    let creates = nodes.iter().map(|node| {
        let (mut pod, mut affinity) = (pod.clone(), affinity.clone());
        pin_to_node(&mut affinity, node);
        pod.set(&["spec", "affinity"], &affinity);
        pods::create(&DaemonSet::KIND, meta, pod).tolerate([Refusal::NamespaceTerminating])
    });
    Ok(Step::slow_start(Batch::of(BURST, creates).mutations))
}

/// A Pod from the template, not yet assigned to a Node.
#[doc(alias = "CreatePodTemplate")]
fn pod(context: &Context) -> Result<Document, Error> {
    let template = &context.set.spec.template;
    let mut metadata = pods::metadata_from_template(&DaemonSet::KIND, &context.set.metadata, template);
    if let Some(generation) = &context.generation {
        metadata.labels.insert(GENERATION_LABEL.to_owned(), generation.clone());
    }
    metadata.labels.insert(POD_LABEL.to_owned(), context.hash.clone());
    let not_a_pod_spec = |error: serde_json::Error| not_a_pod_spec(&context.set, &error);
    let mut spec = template.spec.parse::<Option<Document>>().map_err(not_a_pod_spec)?.unwrap_or_default();
    let tolerations = tolerations(&spec).map_err(not_a_pod_spec)?;
    spec.set(&["tolerations"], &tolerations);
    let mut pod = Document::default();
    pod.set(&["metadata"], &metadata);
    pod.set(&["spec"], &spec);
    Ok(pod)
}

/// The template's tolerations, with those of DaemonSets. Other tolerations stay unchanged.
#[doc(alias = "daemonPodTolerations")]
fn tolerations(spec: &Document) -> Result<Vec<Value>, serde_json::Error> {
    let text = spec.text(&["tolerations"]).unwrap_or_else(|| "null".to_owned());
    let mut values = serde_json::from_str::<Option<Vec<Value>>>(&text)?.unwrap_or_default();
    let before = serde_json::from_str::<Option<Vec<Toleration>>>(&text)?.unwrap_or_default();
    let mut after = before.clone();
    add_daemon_tolerations(&mut after, spec.get(&["hostNetwork"]).unwrap_or(false));
    for (i, toleration) in after.iter().enumerate() {
        match values.get_mut(i) {
            Some(value) if before.get(i) != Some(toleration) => *value = json!(toleration),
            Some(_) => {}
            None => values.push(json!(toleration)),
        }
    }
    Ok(values)
}

/// A step that deletes these Pods, up to the limit of one run.
#[doc(alias = "syncNodes")]
pub(crate) fn delete(context: &Context, pods: &[&Pod]) -> Step {
    let meta = &context.set.metadata;
    Step::parallel(pods.iter().take(BURST).map(|pod| pods::delete(&DaemonSet::KIND, meta, &pod.metadata)))
}
