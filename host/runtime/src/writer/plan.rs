//! Validates the form and the grants of an outcome before anything is sent.
//!
//! Flow: steps -> [`Plan`], which the writer executes; or [`denials`], for callers that only need the denials.
//!
//! Invariant: this module sends nothing.

use std::collections::HashSet;
use std::sync::Arc;

use pintle_core::contract::manifest::Manifest;
use pintle_core::contract::outcome::{Action, Event, Mutation, Need, Order, Outcome, Refusal, Step};
use pintle_core::object::id::{Key, Kind, ObjectKey};
use pintle_core::policy::grants::{Denial, Grants};
use pintle_core::ports::api::{ApiError, ApiResource, WriteRequest};
use pintle_core::ports::guest::{FaultKind, PluginFault};
use pintle_core::ports::view::View;

use super::request::{ParsedWrite, WriteTarget, kind_of};
use super::rights::Rights;

/// A well-formed outcome.
pub(crate) struct Plan {
    pub(super) steps: Vec<PlannedStep>,
    pub(super) n_denied: usize,
}

impl Plan {
    /// Number of objects that the plan deletes. `in_collection` counts the objects of a kind in a namespace (empty: all
    /// namespaces), for deletions of collections.
    pub(crate) fn n_deletions(&self, in_collection: impl Fn(&Kind, &str) -> u64) -> u64 {
        let planned = self.steps.iter().flat_map(|step| &step.mutations);
        let sent = planned.filter(|planned| matches!(planned.write, Some((_, WriteDecision::Send(_)))));
        sent.map(|planned| match &planned.mutation.action {
            Action::Delete { .. } => 1,
            Action::DeleteCollection { .. } => planned
                .write
                .as_ref()
                .map_or(1, |(target, _)| in_collection(&target.kind, &target.object.namespace).max(1)),
            _ => 0,
        })
        .sum()
    }

    /// The first denied mutation.
    pub(crate) fn denial(&self) -> Option<&Denial> {
        let writes = self.steps.iter().flat_map(|step| &step.mutations).filter_map(|planned| planned.write.as_ref());
        writes
            .into_iter()
            .find_map(|(_, decision)| if let WriteDecision::Denied(denial) = decision { Some(denial) } else { None })
    }

    /// Number of denied mutations, which will not be sent.
    pub(crate) fn n_denied(&self) -> usize {
        self.n_denied
    }
}

pub(super) struct PlannedStep {
    pub(super) order: Order,
    pub(super) always: bool,
    pub(super) mutations: Vec<Planned>,
}

pub(super) struct Planned {
    pub(super) step: u32,
    pub(super) position: u32,
    pub(super) mutation: Mutation,
    /// Absent for an event without a mutation.
    pub(super) write: Option<(WriteTarget, WriteDecision)>,
}

/// A planned mutation.
struct ThisOne {
    write: Option<(WriteTarget, WriteDecision)>,
    n_refused: usize,
    /// Whether later steps run only if the key's object has become the controller of the target.
    adopts: bool,
}

pub(super) enum WriteDecision {
    Send(WriteRequest),
    /// Not allowed by the operator or the manifest.
    Denied(Denial),
    /// The API server does not have the kind.
    NoKind,
    /// No API server can execute it.
    Impossible(ApiError),
}

/// Plans steps.
pub(super) struct Planner<'a, F> {
    /// The plugin's name, which is also its default field manager.
    pub(super) name: &'a str,
    pub(super) rights: &'a Rights<'a>,
    pub(super) resolve: F,
    /// One line per event that was dropped because it is not granted. A dropped event is not a failure.
    pub(super) refused_events: Vec<String>,
}

impl<F: Fn(&Kind) -> Option<Arc<ApiResource>>> Planner<'_, F> {
    /// Checks all steps.
    ///
    /// # Errors
    /// The plugin's fault.
    pub(super) fn plan(&mut self, steps: Vec<Step>) -> Result<Plan, PluginFault> {
        let mut n_denied = 0;
        let mut planned = Vec::with_capacity(steps.len());
        let mut adopted = HashSet::new();
        for (i, step) in steps.into_iter().enumerate() {
            let mut mutations = Vec::with_capacity(step.mutations.len());
            let mut adopts_now = HashSet::new();
            for (j, mut mutation) in step.mutations.into_iter().enumerate() {
                if let Action::Event(event) = &mutation.action
                    && !self.rights.may_record(event)
                {
                    n_denied += self.refuse(event);
                    continue;
                }
                // After a failed step, only `always` steps run.
                let before = if step.always { &HashSet::new() } else { &adopted };
                let planned = self.planned(&mut mutation, before);
                let ThisOne { write, n_refused, adopts } = planned.map_err(|why| PluginFault {
                    kind: FaultKind::Output,
                    message: format!("steps[{i}].mutations[{j}]: {why}"),
                })?;
                n_denied += n_refused;
                if let Some((target, _)) = write.as_ref().filter(|_| adopts) {
                    adopts_now.insert((target.kind.clone(), target.object.clone()));
                }
                mutations.push(Planned { step: place(i), position: place(j), mutation, write });
            }
            adopted.extend(adopts_now);
            planned.push(PlannedStep { order: step.order, always: step.always, mutations });
        }
        Ok(Plan { steps: planned, n_denied })
    }

    /// Plans a mutation, counts its denials, and removes events that are not granted. `adopted`: objects that earlier
    /// steps adopt for the key.
    fn planned(&mut self, mutation: &mut Mutation, adopted: &HashSet<(Kind, ObjectKey)>) -> Result<ThisOne, String> {
        let rights = self.rights;
        let mut n_refused = 0;
        for told in [&mut mutation.on_success, &mut mutation.on_failure] {
            if let Some(event) = told.take_if(|event| !rights.may_record(event)) {
                n_refused += self.refuse(&event);
            }
        }
        let resource = kind_of(&mutation.action).and_then(&self.resolve);
        let Some(write) = ParsedWrite::parse(&mutation.action, resource.as_deref())? else {
            return Ok(ThisOne { write: None, n_refused, adopts: false });
        };
        let target = write.target.clone();
        let is_adopted = || !adopted.is_empty() && adopted.contains(&(target.kind.clone(), target.object.clone()));
        // If the object is not found, later steps cannot reach it either; other tolerated rejections would leave it
        // unowned.
        let is_certain = mutation.tolerate.iter().all(|refusal| *refusal == Refusal::NotFound);
        let adopts = is_certain && rights.adopts(&write);
        let decision = match (rights.write(&write, is_adopted), resource) {
            (Err(denial), _) => {
                n_refused += 1;
                WriteDecision::Denied(denial)
            }
            (Ok(_), None) => WriteDecision::NoKind,
            (Ok(pin), Some(resource)) => match &write.impossible {
                Some(error) => WriteDecision::Impossible(error.clone()),
                None => WriteDecision::Send(write.render(&resource, self.name, pin.as_ref())?),
            },
        };
        let adopts = adopts && matches!(decision, WriteDecision::Send(_));
        Ok(ThisOne { write: Some((target, decision)), n_refused, adopts })
    }

    /// Drops an event; returns the number of denials. Events that the operator withholds are reported once, when the
    /// plugin is loaded.
    fn refuse(&mut self, event: &Event) -> usize {
        if self.rights.manifest.events && self.rights.grants.withholds_events() {
            return 0;
        }
        self.refused_events.push(self.event_refusal(event));
        1
    }

    fn event_refusal(&self, event: &Event) -> String {
        let Event { regarding_kind, regarding, .. } = event;
        let why = if self.rights.manifest.events {
            format!(
                "events are about what the manifest watches, or what lives beside the key; add `- kind: {regarding_kind}` to \
                 `watches` of the manifest"
            )
        } else {
            "its manifest has `events: false`; remove that to record events".to_owned()
        };
        format!("an event about {regarding_kind} {regarding} is not granted to plugin {}: {why}", self.name)
    }
}

/// Returns the parts of an outcome that a host would deny even if it granted everything that the manifest requests: one
/// line per mutation, need and event, or one line that describes a malformed outcome. Sends nothing. `asked`: the needs
/// of all rounds.
pub fn denials(
    manifest: &Manifest,
    key: &Key,
    view: &dyn View,
    asked: &[Need],
    outcome: &Outcome,
    resolve: impl Fn(&Kind) -> Option<Arc<ApiResource>>,
) -> Vec<String> {
    let grants = Grants::new(&manifest.grants, None);
    let rights = Rights { grants: &grants, manifest, key, view };
    let reads = asked.iter().filter_map(|need| rights.ask(need).err());
    let mut lines: Vec<String> = reads.map(|denial| denial.message(&manifest.name)).collect();
    let mut planner = Planner { name: &manifest.name, rights: &rights, resolve, refused_events: Vec::new() };
    match planner.plan(outcome.steps.clone()) {
        Ok(plan) => {
            for planned in plan.steps.iter().flat_map(|step| &step.mutations) {
                if let Some((_, WriteDecision::Denied(denial))) = &planned.write {
                    lines.push(denial.message(&manifest.name));
                }
            }
            lines.append(&mut planner.refused_events);
        }
        Err(fault) => lines.push(fault.to_string()),
    }
    lines
}

fn place(i: usize) -> u32 {
    u32::try_from(i).unwrap_or(u32::MAX)
}
