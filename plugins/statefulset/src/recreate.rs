//! The update strategy `Recreate`: deletes all Pods of other revisions before creating a new one.
//!
//! *Source*: `recreateDeleteAndWait`, and its place in `updateStatefulSet`.

use pintle_sdk::{Lister, Order, Refusal};

use crate::context::Context;
use crate::history::revision;
use crate::pod_control;
use crate::set_control::Flow;

impl<L: Lister> Context<'_, L> {
    /// Deletes the Pods of other revisions, and stops until they are deleted. Returns the message of the condition
    /// `Progressing` while the revision changes.
    #[doc(alias = "recreateDeleteAndWait")]
    pub(crate) fn recreate(&mut self) -> (Flow, Option<&'static str>) {
        if !self.set.recreates() {
            return (Flow::Continue, None);
        }
        let (current, update) = (self.revisions.current.name(), self.revisions.update.name());
        let is_old = |pod: &&_| revision(pod) != Some(update) && !pod.status.phase.is_empty();
        let mut old = self.replicas.all().filter(is_old).peekable();
        if old.peek().is_none() {
            return (Flow::Continue, (current != update).then_some("Waiting for new-revision pods to be created"));
        }
        let live = old.filter(|pod| !pod.metadata.is_deleting());
        let deletes = live.map(|pod| pod_control::delete(self.set, pod).tolerate([Refusal::NotFound])).collect();
        self.writes.add(Order::SlowStart, deletes);
        (Flow::Stop, Some("Deleting old revision pods"))
    }
}
