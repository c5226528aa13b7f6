//! Making Pods from a template.

use crate::pods;
use pintle_sdk::api::meta::{Metadata as _, ObjectMeta, OwnerReference, Raw};
use pintle_sdk::{Error, Step, json};
use serde::Serialize;

use super::owner::Owner;

#[derive(Serialize)]
struct NewPod<'a> {
    metadata: ObjectMeta,
    spec: &'a Raw,
}

/// Most bytes of the Pods that one run creates: half of what an outcome may have by default. A template that is larger than this
/// divided by [`BURST`](super::BURST) takes several runs, each as soon as the cache shows the Pods of the one before.
const MAX_BYTES: usize = 4 << 20;

/// Bytes of a create besides the Pod's text: the names and uids in its events.
fn around(namespace: &str, name: &str) -> usize {
    2 * (namespace.len() + name.len()) + 512
}

/// How many of these creates one run carries out: at least one, so that each run gets on.
fn affordable(number: usize, bytes: usize) -> usize {
    number.min((MAX_BYTES / bytes.max(1)).max(1))
}

/// A step that creates this many Pods of the owner, or as many of them as one run can.
pub(crate) fn step<O: Owner>(owner: &O, number: usize) -> Result<Step, Error> {
    let meta = owner.metadata();
    let template = owner.spec().template;
    if template.metadata.labels.is_empty() {
        return Err(Error::retry("unable to create pods, no labels"));
    }
    let pod = NewPod {
        metadata: ObjectMeta {
            generate_name: pods::name_prefix(meta.name()),
            labels: template.metadata.labels.clone(),
            annotations: template.metadata.annotations.clone(),
            finalizers: template.metadata.finalizers.clone(),
            owner_references: vec![OwnerReference::controller(&O::KIND, meta)],
            ..ObjectMeta::default()
        },
        spec: &template.spec,
    };
    let pod = json(&pod);
    let number = affordable(number, pod.len() + around(meta.namespace(), meta.name()));
    Ok(Step::slow_start(std::iter::repeat_n(pods::create(&O::KIND, meta, pod), number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_pods_are_created_in_several_runs() {
        assert_eq!(affordable(500, 2_000), 500);
        assert_eq!(affordable(500, 8_388), 500);
        assert_eq!(affordable(500, 8_389), 499);
        assert_eq!(affordable(500, 1 << 20), 4);
        assert_eq!(affordable(500, 5 << 20), 1);
        assert_eq!(affordable(3, 1 << 20), 3);
    }
}
