//! Autoscalers whose targets share Pods: all of them stop.
//!
//! Each keeps the selector of its target in the state. The others of the namespace read it, as upstream does from a map in memory.
//!
//! *Source*: `validateAndParseSelector` of upstream's `horizontal.go`. There it is done before metrics are read; here in the last round
//! of a run, because it reads all autoscalers of the namespace.

use pintle_sdk::api::meta::ObjectMeta;
use pintle_sdk::{Error, Lister, Outcome, Query};

use crate::memory::selector_name;
use crate::selector::Selector;
use crate::{ListedAutoscaler, Pod};

/// Remembers the selector of an autoscaler's target.
pub(crate) fn keep(lister: &impl Lister, own: &ObjectMeta, selector: &Selector, outcome: Outcome) -> Outcome {
    let name = selector_name(&own.namespace, &own.name);
    let value = format!("{}/{selector}", own.uid);
    if lister.state(&name).as_ref() == Some(&value) { outcome } else { outcome.keep(name, value) }
}

/// The names of the autoscalers, this one included, whose targets have one of the Pods; empty if it is this one alone.
///
/// # Errors
/// An autoscaler does not fit its type.
pub(crate) fn rivals(lister: &impl Lister, own: &ObjectMeta, pods: &[Pod]) -> Result<Vec<String>, Error> {
    if pods.is_empty() {
        return Ok(Vec::new());
    }
    let mut names = Vec::new();
    for other in lister.list::<ListedAutoscaler>(&Query::namespace(&own.namespace))? {
        if other.metadata.name == own.name || selects_any(lister, &other, pods) {
            names.push(other.metadata.name);
        }
    }
    Ok(if names.len() > 1 { names } else { Vec::new() })
}

fn selects_any(lister: &impl Lister, other: &ListedAutoscaler, pods: &[Pod]) -> bool {
    let other = &other.metadata;
    let Some(kept) = lister.state(&selector_name(&other.namespace, &other.name)) else { return false };
    // One of a former object of the name does not count.
    let Some((_, text)) = kept.split_once('/').filter(|(uid, _)| *uid == other.uid) else { return false };
    // Most of a large namespace select other Pods, which is seen without parsing them.
    let mut pods = pods.iter().filter(|pod| !Selector::excludes(text, &pod.metadata.labels)).peekable();
    pods.peek().is_some()
        && Selector::parse(text).is_ok_and(|selector| pods.any(|pod| selector.matches(&pod.metadata.labels)))
}
