//! The Pods of a target, and autoscalers whose targets share Pods, all of which stop.
//!
//! Each autoscaler stores the selector of its target in the state. The others of the namespace read it, as upstream
//! does from an in-memory map. A marker of the namespace changes with every selector: if an autoscaler shared no Pods
//! at its last check, and neither the marker nor its Pods' labels have changed, it still shares none. So it reads the
//! other selectors only after a change.
//!
//! *Source*: `validateAndParseSelector` of upstream's `horizontal.go`. Upstream checks before it reads metrics; this
//! checks in the last round of a run, because it reads all autoscalers of the namespace.

use std::hash::{DefaultHasher, Hash, Hasher};

use pintle_sdk::{Error, Lister, ObjectKey, Outcome, Query, Resource, decode};
use plugin_lib::selector::Selector;

use crate::context::{ACTIVE, Context, Stop};
use crate::types::{HorizontalPodAutoscaler, ListedAutoscaler, Pod};

/// Name of the state entry that changes with each selector of the namespace. Of two concurrent changes, one is kept:
/// readers of the previous marker see another one in either case.
fn mark_name(namespace: &str) -> String {
    format!("selectors/{namespace}")
}

/// The selector of an autoscaler's target in its last run; that of an earlier object with the name does not count.
fn kept(lister: &impl Lister, own: &ObjectKey, uid: &str) -> Option<String> {
    let kept = lister.state(&own.state_name("selector"))?;
    kept.split_once('/').filter(|(owner, _)| *owner == uid).map(|(_, text)| text.to_owned())
}

/// Removes the state of a deleted autoscaler, and the namespace's marker with its last autoscaler.
pub(crate) fn forget(lister: &impl Lister, own: &ObjectKey, outcome: Outcome) -> Outcome {
    let outcome = outcome.forget(own.state_name("selector"));
    if count(lister, &own.namespace) == 0 { outcome.forget(mark_name(&own.namespace)) } else { outcome }
}

/// Number of autoscalers in the namespace.
fn count(lister: &impl Lister, namespace: &str) -> u32 {
    lister.count(&HorizontalPodAutoscaler::KIND, &Query::namespace(namespace))
}

impl<L: Lister> Context<'_, L> {
    /// The Pods that a selector matches.
    pub(crate) fn select(&self, selector: &Selector) -> Result<Vec<Pod>, Error> {
        let label_selector = Some(selector.hint()).filter(|hint| !hint.is_empty());
        let query = Query { label_selector, ..Query::namespace(&self.hpa.metadata.namespace) };
        let pods = self.lister.list_json(&Pod::KIND, &query).into_iter().map(|text| decode::<Pod>(&Pod::KIND, &text));
        // One by one: a large namespace's Pods need not be in memory together.
        pods.filter(|pod| pod.as_ref().map_or(true, |pod| selector.matches(&pod.metadata.labels))).collect()
    }

    /// The selector of the target in the last run, if stored.
    pub(crate) fn last_selector(&self) -> Option<Selector> {
        let own = &self.hpa.metadata;
        Selector::parse(&kept(self.lister, &own.key(), &own.uid)?).ok()
    }

    /// Stores the selector of the target.
    pub(crate) fn keep_selector(&mut self, selector: &Selector) {
        let (own, selector) = (&self.hpa.metadata, selector.to_string());
        if kept(self.lister, &own.key(), &own.uid).as_ref() != Some(&selector) {
            let mark = format!("{}/{}", own.uid, self.uptime);
            self.writes.state.push((own.key().state_name("selector"), format!("{}/{selector}", own.uid)));
            self.writes.state.push((mark_name(&own.namespace), mark));
        }
    }

    /// Reports another autoscaler whose target shares Pods.
    ///
    /// # Errors
    /// Upstream's error; or an autoscaler does not fit its type.
    #[doc(alias = "validateAndParseSelector")]
    pub(crate) fn check_overlap(&mut self, selector: &str, pods: &[Pod]) -> Result<(), Stop> {
        let Some(rival) = self.rival(pods)? else { return Ok(()) };
        let own = &self.hpa.metadata;
        let names = [&own.name, &rival].map(|name| format!("{}/{name}", own.namespace)).join(" ");
        let error = format!("pods by selector {selector} are controlled by more than one HPA (e.g. [{names}])");
        self.warn("AmbiguousSelector", &error);
        self.set(ACTIVE, false, "AmbiguousSelector", &error);
        Err(error.into())
    }

    /// The first other autoscaler whose target shares a Pod.
    #[doc(alias = "HPAsMatchingPods")]
    fn rival(&mut self, pods: &[Pod]) -> Result<Option<String>, Error> {
        let own = &self.hpa.metadata;
        if pods.is_empty() || count(self.lister, &own.namespace) <= 1 {
            return Ok(None);
        }
        // The state of a run is not newer than its objects, so the autoscaler that changed the marker is listed.
        let basis = self.basis(pods);
        if self.memory.without_rivals.as_ref() == Some(&basis) {
            return Ok(None);
        }
        let all = self.lister.list::<ListedAutoscaler>(&Query::namespace(&own.namespace))?;
        let is_rival = |other: &ListedAutoscaler| other.metadata.name != own.name && self.selects_any(other, pods);
        let rival = all.into_iter().find(is_rival).map(|other| other.metadata.name);
        self.memory.without_rivals = rival.is_none().then_some(basis);
        Ok(rival)
    }

    /// The inputs of the overlap check: the selectors of all others, the autoscaler, and the labels of its Pods.
    fn basis(&self, pods: &[Pod]) -> String {
        let own = &self.hpa.metadata;
        let mark = self.lister.state(&mark_name(&own.namespace)).unwrap_or_default();
        let mut labels = DefaultHasher::new();
        for pod in pods {
            // One by one: a map's length is hashed as a platform-sized integer.
            pod.metadata.labels.iter().for_each(|label| label.hash(&mut labels));
            labels.write_u8(0);
        }
        format!("{mark} {} {:x}", own.uid, labels.finish())
    }

    fn selects_any(&self, other: &ListedAutoscaler, pods: &[Pod]) -> bool {
        let Some(text) = kept(self.lister, &other.metadata.key(), &other.metadata.uid) else { return false };
        // In a large namespace most selectors exclude these Pods, which needs no parsing.
        let mut pods = pods.iter().filter(|pod| !Selector::excludes(&text, &pod.metadata.labels)).peekable();
        pods.peek().is_some()
            && Selector::parse(&text).is_ok_and(|selector| pods.any(|pod| selector.matches(&pod.metadata.labels)))
    }
}
