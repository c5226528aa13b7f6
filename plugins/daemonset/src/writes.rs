//! Creating and deleting Pods.
//!
//! *Source*: `syncNodes` of daemon_controller.go, `CreatePodTemplate` of util/daemonset_util.go, `RealPodControl` of
//! controller_utils.go.

use pintle_sdk::api::meta::{ObjectMeta, OwnerReference};
use pintle_sdk::document::Document;
use pintle_sdk::{Error, Refusal, Resource, Step};
use plugin_lib::history::POD_LABEL;
use plugin_lib::nodes::{Toleration, add_daemon_tolerations, pin_to_node};
use plugin_lib::pods;
use serde_json::{Value, json};

use crate::pass::{GENERATION_LABEL, Pass, not_a_pod_spec};
use crate::types::{DaemonSet, Pod};

/// Most Pods that one run creates, and most that it deletes.
#[doc(alias = "BurstReplicas")]
pub(crate) const BURST: usize = 250;

/// Bytes of a create besides the Pod's text: the names of the Node and in the events.
const N_BYTES_AROUND: usize = 1_018;

/// Most bytes of the Pods that one run creates: half of what an outcome may have by default.
const MAX_BYTES: usize = 4 << 20;

/// A step that creates Pods for these Nodes, or for as many of them as one run can.
///
/// # Errors
/// The template does not decode.
pub(crate) fn create(pass: &Pass, nodes: &[&str]) -> Result<Step, Error> {
    if nodes.is_empty() {
        return Ok(Step::parallel([]));
    }
    let meta = &pass.set.metadata;
    let pod = pod(pass)?;
    let affinity = pod.get::<Value>(&["spec", "affinity"]).unwrap_or_default();
    let n_bytes = pod.to_string().len() + N_BYTES_AROUND;
    let number = nodes.len().min(BURST).min((MAX_BYTES / n_bytes).max(1));
    Ok(Step::slow_start(nodes[..number].iter().map(|node| {
        let (mut pod, mut affinity) = (pod.clone(), affinity.clone());
        pin_to_node(&mut affinity, node);
        pod.set(&["spec", "affinity"], &affinity);
        pods::create(&DaemonSet::KIND, meta, pod).tolerate([Refusal::NamespaceTerminating])
    })))
}

/// A Pod of the template, for no Node yet.
fn pod(pass: &Pass) -> Result<Document, Error> {
    let template = &pass.set.spec.template;
    let mut labels = template.metadata.labels.clone();
    if let Some(generation) = &pass.generation {
        labels.insert(GENERATION_LABEL.to_owned(), generation.clone());
    }
    labels.insert(POD_LABEL.to_owned(), pass.hash.clone());
    let metadata = ObjectMeta {
        generate_name: pods::name_prefix(&pass.set.metadata.name),
        labels,
        annotations: template.metadata.annotations.clone(),
        finalizers: template.metadata.finalizers.clone(),
        owner_references: vec![OwnerReference::controller(&DaemonSet::KIND, &pass.set.metadata)],
        ..ObjectMeta::default()
    };
    let not_a_pod_spec = |error: serde_json::Error| not_a_pod_spec(&pass.set, &error);
    let mut spec = template.spec.parse::<Option<Document>>().map_err(not_a_pod_spec)?.unwrap_or_default();
    let tolerations = tolerations(&spec).map_err(not_a_pod_spec)?;
    spec.set(&["tolerations"], &tolerations);
    let mut pod = Document::default();
    pod.set(&["metadata"], &metadata);
    pod.set(&["spec"], &spec);
    Ok(pod)
}

/// The template's tolerations, with those of DaemonSets. What is not replaced stays as it is.
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

/// A step that deletes these Pods, or as many of them as one run can.
pub(crate) fn delete(pass: &Pass, pods: &[&Pod]) -> Step {
    let meta = &pass.set.metadata;
    Step::parallel(pods.iter().take(BURST).map(|pod| pods::delete(&DaemonSet::KIND, meta, &pod.metadata)))
}
