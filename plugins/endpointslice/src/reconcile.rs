//! One run for a Service.

use std::collections::BTreeMap;

use pintle_sdk::selector::Selector;
use pintle_sdk::{Error, Key, Lister, Outcome, Query, Resource};
use plugin_lib::services::Pod;
use plugin_lib::slices::{Changes, EndpointSet, Port, PortKey, Slice, pack, port_key};
use plugin_lib::trigger_time::{self, TriggerTimes};
use serde::Deserialize;

use crate::desired::{Desired, Zones, address_types, desired};
use crate::topology::{self, Hints, has_hints};
use crate::types::{Service, TOPOLOGY};
use crate::writes::Writes;
use crate::{labels, traffic};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    max_endpoints_per_slice: usize,
}

/// Computes the changes for one Service, or, after a change of the Nodes, the Services to run.
///
/// # Errors
/// If an object does not fit its type.
#[doc(alias = "syncService")]
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    if key.queue == TOPOLOGY {
        return topology::nodes_changed(lister);
    }
    let Some(service) = lister.get::<Service>(&key.namespace, &key.name)? else {
        let outcome = trigger_time::forget(lister, &key.object(), Outcome::new());
        return Ok(Hints::forget(lister, &key.object(), outcome));
    };
    if service.spec.type_ == "ExternalName" || service.spec.selector.is_empty() {
        return Ok(Outcome::new());
    }
    let selector = Selector::from_map(&service.spec.selector);
    let pods: Vec<Pod> = lister.list(&Query::namespace(&key.namespace).labels(selector))?;
    let slices = Slice::list(lister, &key.namespace, &key.name)?;
    let times = TriggerTimes::of(lister, &key.object(), service.metadata.creation_timestamp, &pods);
    let config: Config = lister.config()?;
    let most = config.max_endpoints_per_slice;

    let types = address_types(&service);
    let mut by_type: BTreeMap<String, Vec<Slice>> = BTreeMap::new();
    for slice in slices {
        by_type.entry(slice.object.address_type.clone()).or_default().push(slice);
    }
    let mut zones = Zones::new(lister);
    let mut hints = Hints::read(lister, &key.object());
    let mut writes = Writes::new(&service, times.last_change());
    by_type.keys().filter(|one| !types.contains(&one.as_str())).for_each(|one| hints.remove(one));
    for address_type in types {
        let existing = by_type.remove(address_type).unwrap_or_default();
        let Desired { by_ports, missing } = desired(&service, &pods, address_type, &mut zones)?;
        writes.count(by_ports.values().map(|(_, endpoints)| endpoints.len()), most);
        let mut changes = by_address_type(&service, existing, by_ports, most, address_type);
        writes.observe(&changes);
        let distribution = traffic::distribution(&service);
        let mut events = Vec::new();
        if has_hints(&service) {
            events = topology::add_hints(&mut changes, address_type, &service, lister, &mut hints)?;
        } else {
            events.extend(hints.disable(address_type, &service));
            if distribution.is_none() {
                topology::remove_hints(&mut changes);
            }
        }
        if let Some(distribution) = distribution {
            traffic::reconcile_hints(&mut changes, distribution);
        }
        changes.recycle(|slice| slice.is_owned_by(&Service::KIND, &service.metadata.uid));
        writes.family(changes, missing, events)?;
    }
    writes.delete(by_type.into_values().flatten().collect())?;
    Ok(times.keep(hints.keep(writes.outcome())))
}

/// Computes the changes of the slices of one address type.
#[doc(alias = "reconcileByAddressType")]
fn by_address_type(
    service: &Service,
    existing: Vec<Slice>,
    desired: BTreeMap<PortKey, (Vec<Port>, EndpointSet)>,
    most: usize,
    address_type: &str,
) -> Changes {
    let (kind, metadata) = (&Service::KIND, &service.metadata);
    let relabel = |slice: &Slice| labels::of(&slice.object.metadata.labels, service);
    let new = |ports| Slice::new(kind, metadata, labels::of(&BTreeMap::new(), service).0, address_type, ports);
    let mut changes = Changes::default();
    let mut by_ports: BTreeMap<PortKey, Vec<Slice>> = BTreeMap::new();
    for slice in existing {
        if slice.is_owned_by(kind, &metadata.uid) {
            by_ports.entry(port_key(&slice.object.ports)).or_default().push(slice);
        } else {
            changes.delete.push(slice);
        }
    }
    // Slices with ports that no Pod has now.
    let (mut by_ports, gone): (BTreeMap<_, _>, BTreeMap<_, _>) =
        by_ports.into_iter().partition(|(ports, _)| desired.contains_key(ports));
    let gone: Vec<Slice> = gone.into_values().flatten().collect();
    for (key, (ports, mut endpoints)) in desired {
        endpoints.prefer(&gone);
        let existing = by_ports.remove(&key).unwrap_or_default();
        changes.append(pack(existing, endpoints, most, relabel, || new(ports.clone())));
    }
    changes.delete.extend(gone);
    if changes.n_slices() == 0 {
        let placeholder = new(Vec::new());
        if matches!(&changes.delete[..], [only] if is_placeholder(only, &placeholder)) {
            changes.unchanged.append(&mut changes.delete);
        } else {
            changes.create.push(placeholder);
        }
    }
    changes
}

/// Whether a slice is this placeholder. Its owner does not count.
#[doc(alias = "placeholderSliceCompare")]
fn is_placeholder(slice: &Slice, placeholder: &Slice) -> bool {
    let (slice, placeholder) = (&slice.object, &placeholder.object);
    slice.endpoints.is_empty() && slice.ports.is_empty() && slice.metadata.labels == placeholder.metadata.labels
}
