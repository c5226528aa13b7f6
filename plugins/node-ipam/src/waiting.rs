//! Nodes for which no range was free. Upstream tries them again after the backoff, and after each change of the Node.

use pintle_sdk::{Key, Lister, Outcome, Query, Wake};
use plugin_lib::listing::fitting;

use crate::memory::Memory;
use crate::types::Node;

/// Makes Nodes run that wait for a range, if this run has released one.
pub(crate) fn wake_waiting<L: Lister>(key: &Key, outcome: Outcome, memory: &mut Memory<'_, L>, lister: &L) -> Outcome {
    let n_free = usize::try_from(memory.pools.n_free()).unwrap_or(usize::MAX);
    if !memory.pools.is_exhausted || !memory.pools.has_released() || n_free == 0 {
        return outcome;
    }
    let is_waiting = |node: &Node| {
        let is_new = node.spec.pod_cidrs.is_empty() && !node.metadata.is_deleting();
        is_new && node.metadata.name != key.name && memory.holdings.get(&node.metadata.name).is_none()
    };
    let waiting: Vec<Node> = fitting::<Node>(lister, &Query::all()).filter(is_waiting).collect();
    memory.pools.is_exhausted = waiting.len() > n_free;
    let keys = waiting.into_iter().take(n_free).map(|node| Key { name: node.metadata.name, ..key.clone() });
    keys.fold(outcome, |outcome, key| outcome.wake(Wake::now(key)))
}
