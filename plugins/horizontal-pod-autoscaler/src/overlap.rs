//! Autoscalers whose targets share Pods: all of them stop.
//!
//! Each keeps the selector of its target in the state. The others of the namespace read it, as upstream does from a map in memory.
//! A mark of the namespace changes with every selector: an autoscaler that shared no Pods when it looked, and sees the same mark and
//! Pods with the same labels, still shares none. So it reads the selectors of all others only after a change.
//!
//! *Source*: `validateAndParseSelector` of upstream's `horizontal.go`. There it is done before metrics are read; here in the last round
//! of a run, because it reads all autoscalers of the namespace.

use std::hash::{DefaultHasher, Hash, Hasher};

use pintle_sdk::api::meta::ObjectMeta;
use pintle_sdk::{Error, Lister, ObjectKey, Outcome, Query, Resource};
use plugin_lib::selector::Selector;

use crate::memory::{self, Memory, selector_name};
use crate::types::{ListedAutoscaler, Pod};

/// Remembers the selector of an autoscaler's target.
pub(crate) fn keep(lister: &impl Lister, own: &ObjectMeta, selector: &Selector, outcome: Outcome) -> Outcome {
    let name = selector_name(&own.namespace, &own.name);
    let value = format!("{}/{selector}", own.uid);
    if lister.state(&name).as_ref() == Some(&value) {
        return outcome;
    }
    let mark = format!("{}/{}", own.uid, memory::seconds(lister.uptime()));
    outcome.keep(name, value).keep(mark_name(&own.namespace), mark)
}

/// The selector of an autoscaler's target in its last run, if that one is remembered.
pub(crate) fn kept(lister: &impl Lister, own: &ObjectMeta) -> Option<Selector> {
    let kept = lister.state(&selector_name(&own.namespace, &own.name))?;
    Selector::parse(of_object(&kept, &own.uid)?).ok()
}

/// The selector in the state of an object; one of a former object of the name does not count.
fn of_object<'a>(kept: &'a str, uid: &str) -> Option<&'a str> {
    kept.split_once('/').filter(|(owner, _)| *owner == uid).map(|(_, text)| text)
}

/// Forgets an autoscaler that is gone, and the mark of a namespace of which it was the last one.
pub(crate) fn forget(lister: &impl Lister, own: &ObjectKey, outcome: Outcome) -> Outcome {
    let outcome = outcome.forget(selector_name(&own.namespace, &own.name));
    if count(lister, &own.namespace) == 0 { outcome.forget(mark_name(&own.namespace)) } else { outcome }
}

/// How many autoscalers the namespace has.
fn count(lister: &impl Lister, namespace: &str) -> u32 {
    lister.count(&ListedAutoscaler::KIND, &Query::namespace(namespace))
}

/// Name of the state that differs after each change of a selector of the namespace. Of two changes at once, one is kept: readers of
/// the mark before see another one in either case.
fn mark_name(namespace: &str) -> String {
    format!("selectors/{namespace}")
}

/// What the absence of rivals depends on: the selectors of all others, the autoscaler, and the labels of its Pods.
fn basis(lister: &impl Lister, own: &ObjectMeta, pods: &[Pod]) -> String {
    let mark = lister.state(&mark_name(&own.namespace)).unwrap_or_default();
    let mut labels = DefaultHasher::new();
    for pod in pods {
        // One by one: the length of a map is hashed as a number of the machine's size.
        pod.metadata.labels.iter().for_each(|label| label.hash(&mut labels));
        labels.write_u8(0);
    }
    format!("{mark} {} {:x}", own.uid, labels.finish())
}

/// The first other autoscaler whose target has one of the Pods.
///
/// # Errors
/// An autoscaler does not fit its type.
#[doc(alias = "HPAsMatchingPods")]
pub(crate) fn rival(
    lister: &impl Lister,
    own: &ObjectMeta,
    pods: &[Pod],
    memory: &mut Memory,
) -> Result<Option<String>, Error> {
    if pods.is_empty() || count(lister, &own.namespace) <= 1 {
        return Ok(None);
    }
    // The state of a run is not newer than its objects: who has changed the mark is listed.
    let basis = basis(lister, own, pods);
    if memory.without_rivals.as_ref() == Some(&basis) {
        return Ok(None);
    }
    let all = lister.list::<ListedAutoscaler>(&Query::namespace(&own.namespace))?;
    let is_rival = |other: &ListedAutoscaler| other.metadata.name != own.name && selects_any(lister, other, pods);
    let rival = all.into_iter().find(is_rival).map(|other| other.metadata.name);
    memory.without_rivals = rival.is_none().then_some(basis);
    Ok(rival)
}

fn selects_any(lister: &impl Lister, other: &ListedAutoscaler, pods: &[Pod]) -> bool {
    let other = &other.metadata;
    let Some(kept) = lister.state(&selector_name(&other.namespace, &other.name)) else { return false };
    let Some(text) = of_object(&kept, &other.uid) else { return false };
    // Most of a large namespace select other Pods, which is seen without parsing them.
    let mut pods = pods.iter().filter(|pod| !Selector::excludes(text, &pod.metadata.labels)).peekable();
    pods.peek().is_some()
        && Selector::parse(text).is_ok_and(|selector| pods.any(|pod| selector.matches(&pod.metadata.labels)))
}
