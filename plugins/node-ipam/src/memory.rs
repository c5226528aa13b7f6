//! Pools and holdings from one run to the next, and their beginning.

use std::collections::BTreeMap;

use pintle_sdk::{Error, Lister, LiveDetail, Need, Outcome, Query, Resource, decode, log};
use plugin_lib::cidr::{self, IpNet};
use plugin_lib::listing::fitting;
use plugin_lib::state::Record;
use serde_json::value::RawValue;

use crate::holdings::{Held, Holdings};
use crate::pools::{Kept, Pools};
use crate::settings::{Settings, parse};
use crate::types::Node;

/// Name of the state entry with the pools.
const POOLS: &str = "pools";

/// Lists all Nodes; the host bounds the bytes of an answer.
const ALL: u32 = i32::MAX.unsigned_abs();

/// What is used, and by whom.
pub(crate) struct Memory<'a, L> {
    settings: &'a Settings,
    record: Record<Kept>,
    pub(crate) pools: Pools,
    pub(crate) holdings: Holdings<'a, L>,
}

impl<'a, L: Lister> Memory<'a, L> {
    /// Reads the state, or begins with a list of the Nodes if there is none for these settings.
    ///
    /// # Errors
    /// If a range cannot be divided as the settings say. [`Error::Needs`] if the Nodes must be listed first; a retry if
    /// that fails.
    #[doc(alias = "NewCIDRRangeAllocator")]
    pub(crate) fn read(settings: &'a Settings, lister: &'a L) -> Result<Self, Error> {
        let record = Record::<Kept>::read(lister, POOLS);
        let mut holdings = Holdings::new(lister);
        let kept = record.get().filter(|kept| kept.settings == settings.text());
        let pools = match kept {
            Some(kept) => Pools::resume(settings, kept)?,
            None => begin(settings, &mut holdings, lister)?,
        };
        Ok(Self { settings, record, pools, holdings })
    }

    /// Occupies ranges for a Node.
    pub(crate) fn occupy(&mut self, node: &str, held: Held) {
        occupy(&mut self.pools, &mut self.holdings, node, held);
    }

    /// Releases what a Node holds.
    pub(crate) fn release(&mut self, node: &str, held: &Held) {
        self.holdings.remove(node);
        let holdings = &mut self.holdings;
        self.pools.release(&held.cidrs, || holdings.others(node));
    }

    /// Whether another Node holds a part of these ranges.
    pub(crate) fn is_taken(&mut self, node: &str, cidrs: &[String]) -> bool {
        if !self.pools.is_shared {
            return false;
        }
        let own: Vec<IpNet> = cidrs.iter().filter_map(|text| parse(text)).collect();
        let others = self.holdings.others(node);
        let mut others = others.iter().filter_map(|text| parse(text));
        others.any(|other| own.iter().any(|own| cidr::overlaps(own, &other)))
    }

    /// Stores the changes, with their samples.
    pub(crate) fn keep(&self, outcome: Outcome) -> Outcome {
        let outcome = self.pools.observe(outcome);
        let outcome = self.holdings.keep(outcome);
        self.record.keep(outcome, &self.pools.kept(self.settings))
    }
}

/// Occupies the ranges that the Nodes have. The list comes from the API server itself, so that it has every write of
/// every host so far. What is reserved for a Node without ranges stays so.
#[doc(alias = "listNodes")]
fn begin<L: Lister>(settings: &Settings, holdings: &mut Holdings<'_, L>, lister: &L) -> Result<Pools, Error> {
    let mut pools = Pools::new(settings)?;
    let need = Need::live_list(&Node::KIND, "", ALL).detail(LiveDetail::Projection);
    let failed = |message: String| {
        Error::retry(format!("failed to list all nodes: {message}, cannot proceed without updating CIDR map"))
    };
    let answer = lister.ask(need)?.map_err(|error| failed(error.message))?;
    let nodes: Vec<Box<RawValue>> = serde_json::from_str(&answer).map_err(|error| failed(error.to_string()))?;
    for text in &settings.ignored {
        log::warn(&format!("unsuccessful parsing of service CIDR {text:?}: it is ignored"));
    }
    let seen: BTreeMap<String, String> =
        fitting::<Node>(lister, &Query::all()).map(|node| (node.metadata.name, node.metadata.uid)).collect();
    let mut before = holdings.take();
    for text in nodes {
        let node: Node = match decode(&Node::KIND, text.get()) {
            Ok(node) => node,
            // What it has is unknown, and stays so until it changes.
            Err(error) => {
                log::error(&error.to_string());
                continue;
            }
        };
        let name = &node.metadata.name;
        let reserved = before.remove(name).filter(|held| held.uid == node.metadata.uid && pools.fit(&held.cidrs));
        let cidrs = ranges_of(&node);
        let cidrs = if cidrs.is_empty() { reserved.map(|held| held.cidrs).unwrap_or_default() } else { cidrs };
        if !cidrs.is_empty() {
            let unseen = seen.get(name) != Some(&node.metadata.uid);
            occupy(&mut pools, holdings, name, Held { uid: node.metadata.uid.clone(), cidrs, unseen });
        }
    }
    Ok(pools)
}

fn occupy<L: Lister>(pools: &mut Pools, holdings: &mut Holdings<'_, L>, node: &str, held: Held) {
    for range in held.cidrs.iter().filter_map(|text| parse(text)) {
        if pools.occupy(&range) {
            log::warn(&format!("{range} of Node {node} overlaps a range of Services or of another Node"));
        }
    }
    holdings.set(node, held);
}

/// The valid ranges of a Node, each of them once, without bits beyond the prefix.
pub(crate) fn ranges_of(node: &Node) -> Vec<String> {
    let mut ranges: Vec<String> = Vec::new();
    for range in node.spec.pod_cidrs.iter().filter_map(|text| parse(text)) {
        let range = range.to_string();
        if !ranges.contains(&range) {
            ranges.push(range);
        }
    }
    ranges
}
