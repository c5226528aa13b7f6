//! Hints by an annotation: each zone gets endpoints in proportion to its CPUs.
//!
//! *Source*: `topologycache`.

use std::collections::BTreeMap;

use pintle_sdk::quantity::Quantity;
use pintle_sdk::{Error, Event, EventType, Key, Lister, ObjectKey, Outcome, Query, Resource};
use plugin_lib::number::count;
use plugin_lib::slices::{Changes, Endpoint, ForZone, Hints as EndpointHints, Slice, is_ready};
use plugin_lib::state::Record;
use serde::{Deserialize, Serialize};

use crate::types::{AnnotatedService, Node, SERVICES, Service};

/// The share of traffic by which an endpoint may be overloaded.
#[doc(alias = "overloadThreshold")]
const OVERLOAD: f64 = 0.2;

const ENABLED: &str = "TopologyAwareHintsEnabled";
const DISABLED: &str = "TopologyAwareHintsDisabled";

/// The share of each zone in the CPUs; `None` if unknown.
type Ratios = Option<BTreeMap<String, f64>>;

/// The number of endpoints with a hint for each zone.
type Zones = BTreeMap<String, i64>;

/// The number of endpoints that a zone should have.
struct Allocation {
    maximum: i64,
    desired: f64,
}

/// The hints of a Service from the last run.
pub(crate) struct Hints {
    record: Record<Kept>,
    kept: Kept,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Kept {
    /// By address type.
    zones: BTreeMap<String, Zones>,
    /// Whether an event has reported the hints.
    enabled: bool,
}

impl Hints {
    pub(crate) fn read(lister: &impl Lister, service: &ObjectKey) -> Self {
        let record = Record::read(lister, service.state_name("hints"));
        let kept = record.get().cloned().unwrap_or_default();
        Self { record, kept }
    }

    /// Stores them for the next run.
    pub(crate) fn keep(&self, outcome: Outcome) -> Outcome {
        if self.kept == Kept::default() { self.record.forget(outcome) } else { self.record.keep(outcome, &self.kept) }
    }

    /// Removes those of a deleted Service.
    pub(crate) fn forget(lister: &impl Lister, service: &ObjectKey, outcome: Outcome) -> Outcome {
        Self::read(lister, service).record.forget(outcome)
    }

    fn set(&mut self, address_type: &str, zones: Zones) {
        self.kept.zones.insert(address_type.to_owned(), zones);
        self.kept.enabled = true;
    }

    #[doc(alias = "RemoveHints")]
    pub(crate) fn remove(&mut self, address_type: &str) {
        self.kept.zones.remove(address_type);
        self.kept.enabled = false;
    }

    /// Removes those of one address type, because the annotation requests none. An event reports this once.
    pub(crate) fn disable(&mut self, address_type: &str, service: &Service) -> Option<Event> {
        let was_enabled = self.kept.enabled;
        self.remove(address_type);
        let message = "Topology Aware Hints has been disabled";
        was_enabled.then(|| event(service, EventType::Warning, DISABLED, message, address_type))
    }
}

#[doc(alias = "FormatWithAddressType")]
fn event(service: &Service, event_type: EventType, reason: &str, message: &str, address_type: &str) -> Event {
    let message = format!("{message}, addressType: {address_type}");
    match event_type {
        EventType::Normal => Event::normal(&Service::KIND, &service.metadata, reason, message),
        EventType::Warning => Event::warning(&Service::KIND, &service.metadata, reason, message),
    }
}

/// Whether an annotation requests hints. The older one has priority.
#[doc(alias = "hintsEnabled")]
pub(crate) fn has_hints(service: &Service) -> bool {
    let annotations = &service.metadata.annotations;
    is_auto(annotations.topology_aware_hints.as_ref().or(annotations.topology_mode.as_ref()))
}

fn is_auto(annotation: Option<&String>) -> bool {
    annotation.is_some_and(|value| matches!(value.as_str(), "Auto" | "auto"))
}

/// Runs the Services whose zones have too few endpoints for the current Nodes.
#[doc(alias = "checkNodeTopologyDistribution")]
#[doc(alias = "GetOverloadedServices")]
pub(crate) fn nodes_changed(lister: &impl Lister) -> Result<Outcome, Error> {
    let services: Vec<AnnotatedService> = lister.list(&Query::all())?;
    let hinted = services.iter().filter(|service| {
        let annotations = &service.metadata.annotations;
        is_auto(annotations.topology_aware_hints.as_ref().or(annotations.topology_mode.as_ref()))
    });
    let hinted: Vec<_> = hinted.collect();
    if hinted.is_empty() {
        return Ok(Outcome::new());
    }
    let ratios = ratios(lister)?.unwrap_or_default();
    let mut outcome = Outcome::new();
    for AnnotatedService { metadata } in hinted {
        let hints = Hints::read(lister, &metadata.key());
        if hints.kept.zones.values().any(|zones| is_overloaded(zones, &ratios)) {
            outcome = outcome.wake(Key::new(SERVICES, Service::KIND, &metadata.namespace, &metadata.name));
        }
    }
    Ok(outcome)
}

#[doc(alias = "serviceOverloaded")]
fn is_overloaded(zones: &Zones, ratios: &BTreeMap<String, f64>) -> bool {
    let total = as_f64(zones.values().sum());
    let has_too_few = |(zone, ratio): (&String, &f64)| {
        zones.get(zone).is_none_or(|endpoints| *endpoints < as_i64((total * ratio * (1.0 / (1.0 + OVERLOAD))).ceil()))
    };
    !zones.is_empty() && (ratios.is_empty() || ratios.iter().any(has_too_few))
}

/// The shares of the zones. Control plane Nodes, and Nodes that are not ready, do not count.
#[doc(alias = "SetNodes")]
fn ratios(lister: &impl Lister) -> Result<Ratios, Error> {
    let nodes: Vec<Node> = lister.list(&Query::all())?;
    if nodes.is_empty() {
        // Upstream computes the shares when a Node exists.
        return Ok(Some(BTreeMap::new()));
    }
    let mut total = Quantity::ZERO;
    let mut by_zone: BTreeMap<String, Quantity> = BTreeMap::new();
    for node in nodes {
        let labels = node.metadata.labels;
        let ready = node.status.conditions.iter().find(|condition| condition.type_ == "Ready");
        let is_ready = ready.is_some_and(|condition| condition.status == "True");
        if labels.control_plane.is_some() || labels.master.is_some() || !is_ready {
            continue;
        }
        let cpu = node.status.allocatable.cpu.unwrap_or_default().parse().unwrap_or(Quantity::ZERO);
        let zone = labels.zone.unwrap_or_default();
        if zone.is_empty() || cpu.is_zero() {
            return Ok(None);
        }
        total += cpu;
        let sum = by_zone.entry(zone).or_insert(Quantity::ZERO);
        *sum += cpu;
    }
    if total.is_zero() || by_zone.len() < 2 {
        return Ok(None);
    }
    let ratio = |cpu: Quantity| as_f64(cpu.milli_value()) / as_f64(total.milli_value());
    Ok(Some(by_zone.into_iter().map(|(zone, cpu)| (zone, ratio(cpu))).collect()))
}

/// Distributes this number of endpoints to the zones.
///
/// # Errors
/// The reason why hints are impossible.
#[doc(alias = "getAllocations")]
fn allocations(ratios: &Ratios, n_endpoints: i64) -> Result<BTreeMap<String, Allocation>, String> {
    let Some(ratios) = ratios else {
        return Err(
            "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes".to_owned()
        );
    };
    let n_zones = ratios.len();
    if n_zones < 2 {
        return Err("Nodes only ready in one zone".to_owned());
    }
    if count(n_zones) > n_endpoints {
        return Err(format!("Insufficient number of endpoints ({n_endpoints} endpoints, {n_zones} zones)"));
    }
    let desired = |ratio: &f64| ratio * as_f64(n_endpoints);
    let minimum = |ratio: &f64| as_i64((desired(ratio) * (1.0 / (1.0 + OVERLOAD))).ceil());
    let left = n_endpoints - ratios.values().map(minimum).sum::<i64>();
    if left < 0 {
        return Err(format!(
            "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold ({n_endpoints} \
             endpoints, {n_zones} zones)"
        ));
    }
    let allocation = |ratio: &f64| {
        let minimum = minimum(ratio);
        Allocation { maximum: minimum + left, desired: desired(ratio).max(as_f64(minimum)) }
    };
    Ok(ratios.iter().map(|(zone, ratio)| (zone.clone(), allocation(ratio))).collect())
}

/// Sets the hints of ready endpoints, or removes all hints, and returns the events.
///
/// # Errors
/// If a Node does not fit its type.
#[doc(alias = "AddHints")]
pub(crate) fn add_hints(
    changes: &mut Changes,
    address_type: &str,
    service: &Service,
    lister: &impl Lister,
    hints: &mut Hints,
) -> Result<Vec<Event>, Error> {
    let ratios = ratios(lister)?;
    Ok(match allocate(changes, &ratios) {
        Ok(zones) => {
            let was_enabled = hints.kept.enabled;
            hints.set(address_type, zones);
            let message = "Topology Aware Hints has been enabled";
            let enabled = || event(service, EventType::Normal, ENABLED, message, address_type);
            (!was_enabled).then(enabled).into_iter().collect()
        }
        Err(message) => {
            hints.remove(address_type);
            remove_hints(changes);
            vec![event(service, EventType::Warning, DISABLED, &message, address_type)]
        }
    })
}

fn allocate(changes: &mut Changes, ratios: &Ratios) -> Result<Zones, String> {
    let written = changes.create.iter().chain(&changes.update);
    let all = written.chain(&changes.unchanged).flat_map(|slice| &slice.object.endpoints);
    let n_ready = all.filter(|endpoint| is_ready(endpoint)).count();
    let allocations = allocations(ratios, count(n_ready))?;
    let mut zones = keep_hints(changes, &allocations);
    // Each endpoint starts with its own zone.
    for endpoint in ready_endpoints(changes) {
        let zone = endpoint.zone.clone().filter(|zone| !zone.is_empty());
        let zone = zone.ok_or("One or more endpoints do not have a zone specified")?;
        *zones.entry(zone.clone()).or_default() += 1;
        endpoint.hints = Some(hint(zone));
    }
    let (giving, receiving) = giving_and_receiving_zones(&allocations, &zones);
    redistribute(changes, giving, receiving, &mut zones);
    if zones.is_empty() { Err("No hints allocated for zones".to_owned()) } else { Ok(zones) }
}

/// The ready endpoints of the slices to write.
fn ready_endpoints(changes: &mut Changes) -> impl Iterator<Item = &mut Endpoint> {
    let written = changes.create.iter_mut().chain(&mut changes.update);
    written.flat_map(|slice| &mut slice.object.endpoints).filter(|endpoint| is_ready(endpoint))
}

fn hint(zone: String) -> EndpointHints {
    EndpointHints { for_zones: vec![ForZone { name: zone }], ..EndpointHints::default() }
}

/// Counts the hints of unchanged slices. Slices whose hints are not valid now become updates.
#[doc(alias = "getAllocatedHintsByZone")]
fn keep_hints(changes: &mut Changes, allocations: &BTreeMap<String, Allocation>) -> Zones {
    let mut zones = Zones::new();
    for slice in std::mem::take(&mut changes.unchanged) {
        match hints_of(&slice, &zones, allocations) {
            Some(hints) => {
                hints.into_iter().for_each(|(zone, n)| *zones.entry(zone).or_default() += n);
                changes.unchanged.push(slice);
            }
            None => changes.update.push(slice),
        }
    }
    zones
}

/// Counts the hints of a slice; `None` if an endpoint has none, or one for a zone that needs no more.
#[doc(alias = "getHintsByZone")]
fn hints_of(slice: &Slice, zones: &Zones, allocations: &BTreeMap<String, Allocation>) -> Option<Zones> {
    let mut found = Zones::new();
    for endpoint in slice.object.endpoints.iter().filter(|endpoint| is_ready(endpoint)) {
        let hints = endpoint.hints.as_ref().filter(|hints| !hints.for_zones.is_empty())?;
        for ForZone { name } in &hints.for_zones {
            allocations.get(name)?;
            *found.entry(name.clone()).or_default() += 1;
        }
    }
    let fits = |(zone, n): (&String, &i64)| {
        let allocated = zones.get(zone).copied().unwrap_or_default();
        allocations.get(zone).is_some_and(|allocation| n + allocated <= allocation.maximum)
    };
    found.iter().all(fits).then_some(found)
}

/// The number of endpoints that zones give, and that they receive.
#[doc(alias = "getGivingAndReceivingZones")]
fn giving_and_receiving_zones(allocations: &BTreeMap<String, Allocation>, zones: &Zones) -> (Zones, Zones) {
    let surplus = |(zone, allocation): (&String, &Allocation)| {
        (zone.clone(), as_f64(zones.get(zone).copied().unwrap_or_default()) - allocation.desired)
    };
    let mut surplus: BTreeMap<String, f64> = allocations.iter().map(surplus).collect();
    let (mut giving, mut receiving) = (Zones::new(), Zones::new());
    // A zone is only on one side, even after it has reached its share.
    let gives: Vec<String> = surplus.iter().filter(|(_, n)| **n > 0.0).map(|(zone, _)| zone.clone()).collect();
    loop {
        let most = |of_giving: bool| {
            let side = surplus.iter().filter(|(zone, _)| gives.contains(zone) == of_giving);
            let side = side.map(|(zone, n)| (zone, if of_giving { *n } else { -n }));
            // The first of equal zones.
            side.fold(
                None,
                |most: Option<(&String, f64)>, (zone, n)| {
                    if n > most.map_or(0.0, |(_, most)| most) { Some((zone, n)) } else { most }
                },
            )
        };
        let (Some((from, to_give)), Some((to, to_receive))) = (most(true), most(false)) else { break };
        if (to_give < 1.0 && to_receive < 1.0) || to_give < 0.5 || to_receive < 0.5 {
            break;
        }
        let (from, to) = (from.clone(), to.clone());
        *surplus.entry(from.clone()).or_default() -= 1.0;
        *surplus.entry(to.clone()).or_default() += 1.0;
        *giving.entry(from).or_default() += 1;
        *receiving.entry(to).or_default() += 1;
    }
    (giving, receiving)
}

/// Moves hints from zones with too many endpoints to zones with too few.
#[doc(alias = "redistributeHints")]
fn redistribute(changes: &mut Changes, mut giving: Zones, mut receiving: Zones, zones: &mut Zones) {
    for endpoint in ready_endpoints(changes) {
        let Some(from) = endpoint.zone.clone() else { continue };
        let Some(left) = giving.get_mut(&from).filter(|left| **left > 0) else { continue };
        let Some((to, wanted)) = receiving.iter_mut().find(|(_, wanted)| **wanted > 0) else { return };
        *left -= 1;
        *wanted -= 1;
        *zones.entry(from).or_default() -= 1;
        *zones.entry(to.clone()).or_default() += 1;
        endpoint.hints = Some(hint(to.clone()));
    }
}

/// Removes all hints. Slices with hints become updates.
#[doc(alias = "RemoveHintsFromSlices")]
pub(crate) fn remove_hints(changes: &mut Changes) {
    let has_hints = |slice: &Slice| slice.object.endpoints.iter().any(|endpoint| endpoint.hints.is_some());
    let (hinted, unchanged): (Vec<_>, Vec<_>) = std::mem::take(&mut changes.unchanged).into_iter().partition(has_hints);
    changes.unchanged = unchanged;
    changes.update.extend(hinted);
    let written = changes.create.iter_mut().chain(&mut changes.update);
    written.flat_map(|slice| &mut slice.object.endpoints).for_each(|endpoint| endpoint.hints = None);
}

#[allow(clippy::cast_precision_loss, reason = "numbers of endpoints and thousandths of CPUs have less than 53 bits")]
fn as_f64(number: i64) -> f64 {
    number as f64
}

#[allow(clippy::cast_possible_truncation, reason = "a number of endpoints, without a fraction")]
fn as_i64(number: f64) -> i64 {
    number as i64
}
