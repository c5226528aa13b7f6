//! One PodDisruptionBudget: from its Pods to its status.

use pintle_sdk::int_or_percent::IntOrPercent;
use pintle_sdk::selector::Selector;
use pintle_sdk::{Error, Event, Key, Lister, Mutation, MutationFailure, Outcome, Query, Resource, Step, Wake};
use plugin_lib::batch::SOON;
use plugin_lib::selector::{self as checked, valid};
use plugin_lib::state::ObjectRecord;
use serde::{Deserialize, Serialize};

use crate::disrupted::Disrupted;
use crate::scale::{Expected, Sizes, Stop, expected_scale};
use crate::status::{Numbers, calculated, failed};
use crate::types::{CountedPod, PodDisruptionBudget, RECHECK};

/// HTTP status of a write based on a stale version.
const CONFLICT: u32 = 409;

/// Owner sizes from earlier runs, for a budget with more owners than one run can read.
#[derive(Default, PartialEq, Deserialize, Serialize)]
struct Kept {
    sizes: Sizes,
}

/// Writes the status of a budget.
///
/// # Errors
/// If an object does not fit its type. [`Error::Needs`] if the size of an owner must be read first.
pub(crate) fn sync(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let record = ObjectRecord::of(lister, "sizes", &key.object());
    let outcome = counted(key, &record, lister)?;
    // Stored sizes belong to one calculation.
    Ok(if outcome.state.is_empty() { record.forget(outcome) } else { outcome })
}

fn counted(key: &Key, record: &ObjectRecord<Kept>, lister: &impl Lister) -> Result<Outcome, Error> {
    let Some((pdb, document)) = lister.get_document::<PodDisruptionBudget>(&key.namespace, &key.name)? else {
        return Ok(Outcome::new());
    };
    let uid = &pdb.metadata.uid;
    let now = lister.now()?;
    if let Some(failure) = refused(lister) {
        return Ok(write(Vec::new(), failed(&pdb, document, &failure.message, now)));
    }
    let mut events = Vec::new();
    let none = Sizes::new();
    let known = record.of_uid(uid).map_or(&none, |kept| &kept.sizes);
    match count(&pdb, known, lister, &mut events) {
        Ok((numbers, disrupted)) => {
            let outcome = write(events, calculated(&pdb, document, &numbers, &disrupted, now));
            Ok(match disrupted.recheck {
                Some(at) => {
                    let key = Key::new(RECHECK, PodDisruptionBudget::KIND, &key.namespace, &key.name);
                    outcome.wake(Wake::after(key, at.since(now)))
                }
                None => outcome,
            })
        }
        // Includes objects that do not fit their type: the previous numbers may allow too much.
        Err(Stop::Failed(error) | Stop::Run(Error::Terminal(error))) => {
            Ok(write(events, failed(&pdb, document, &error, now)))
        }
        Err(Stop::Partial(sizes)) => Ok(record.keep_of(Outcome::new(), uid, Kept { sizes }).requeue_after(SOON)),
        Err(Stop::Run(error)) => Err(error),
    }
}

/// A failure of the last try that requires a status that allows nothing: any except a conflict, which a newer version
/// resolves. Upstream calculates again before it writes such a status a second time, hence every other try.
fn refused(lister: &impl Lister) -> Option<MutationFailure> {
    let is_refused = |failure: &MutationFailure| failure.subresource.is_some() && failure.code != CONFLICT;
    if lister.attempt() % 2 == 1 { lister.failures().into_iter().find(is_refused) } else { None }
}

fn write(events: Vec<Event>, update: Option<Mutation>) -> Outcome {
    Outcome::new().step(Step::sequential(events.into_iter().map(Mutation::from).chain(update)))
}

/// Computes the numbers of a budget. `events` receives its events, even if this fails.
#[doc(alias = "trySync")]
fn count(
    pdb: &PodDisruptionBudget,
    known: &Sizes,
    lister: &impl Lister,
    events: &mut Vec<Event>,
) -> Result<(Numbers, Disrupted), Stop> {
    let kind = &PodDisruptionBudget::KIND;
    let pods = match pods_of(pdb, lister) {
        Ok(pods) => pods,
        Err(Stop::Failed(error)) => {
            events.push(Event::warning(kind, &pdb.metadata, "NoPods", format!("Failed to get pods: {error}")));
            return Err(Stop::Failed(error));
        }
        Err(error) => return Err(error),
    };
    if pods.is_empty() {
        events.push(Event::normal(kind, &pdb.metadata, "NoPods", "No matching pods found"));
    }
    let (expected, desired_healthy) = match expect(pdb, &pods, known, lister) {
        Ok(expected) => expected,
        Err(Stop::Failed(error)) => {
            let message = format!("Failed to calculate the number of expected pods: {error}");
            events.push(Event::warning(kind, &pdb.metadata, "CalculateExpectedPodCountFailed", message));
            return Err(Stop::Failed(error));
        }
        Err(error) => return Err(error),
    };
    if expected.has_unmanaged {
        let message = format!(
            "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a result, the status of the PDB \
             cannot be calculated correctly, which may result in undefined behavior. To account for these pods please set \
             \".spec.minAvailable\" field of the PDB to an integer value.",
            valid::printed(pdb.spec.selector.as_ref())
        );
        events.push(Event::warning(kind, &pdb.metadata, "UnmanagedPods", message));
    }
    let disrupted = Disrupted::of(pdb, &pods, lister.now()?);
    events.extend(disrupted.not_deleted(pdb));
    let numbers = Numbers { expected: expected.pods, desired_healthy, current_healthy: disrupted.n_healthy };
    Ok((numbers, disrupted))
}

/// The Pods that the budget selects.
#[doc(alias = "getPodsForPdb")]
fn pods_of(pdb: &PodDisruptionBudget, lister: &impl Lister) -> Result<Vec<CountedPod>, Stop> {
    checked::Selector::from_label_selector(pdb.spec.selector.as_ref()).map_err(Stop::Failed)?;
    let selector = Selector::from_label_selector(pdb.spec.selector.as_ref())?;
    let query = Query::namespace(&pdb.metadata.namespace);
    let query = if selector.is_empty() { query } else { query.labels(selector) };
    Ok(lister.list(&query)?)
}

/// The expected and the desired number of healthy Pods.
#[doc(alias = "getExpectedPodCount")]
fn expect(
    pdb: &PodDisruptionBudget,
    pods: &[CountedPod],
    known: &Sizes,
    lister: &impl Lister,
) -> Result<(Expected, i32), Stop> {
    match (&pdb.spec.max_unavailable, &pdb.spec.min_available) {
        (Some(max_unavailable), _) => {
            let expected = expected_scale(pods, known, lister)?;
            let desired = expected.pods.saturating_sub(scaled(max_unavailable, expected.pods)?).max(0);
            Ok((expected, desired))
        }
        (None, Some(IntOrPercent::Int(min_available))) => {
            let pods = i32::try_from(pods.len()).unwrap_or(i32::MAX);
            Ok((Expected { pods, has_unmanaged: false }, *min_available))
        }
        (None, Some(min_available)) => {
            let expected = expected_scale(pods, known, lister)?;
            let desired = scaled(min_available, expected.pods)?;
            Ok((expected, desired))
        }
        (None, None) => Ok((Expected::default(), 0)),
    }
}

/// Percentages round up, including those of `maxUnavailable`, as upstream.
#[doc(alias = "GetScaledValueFromIntOrPercent")]
fn scaled(value: &IntOrPercent, total: i32) -> Result<i32, Stop> {
    value.scaled(total, true).ok_or_else(|| {
        let text = match value {
            IntOrPercent::Int(number) => number.to_string(),
            IntOrPercent::Text(text) => text.clone(),
        };
        let error = match text.strip_suffix('%') {
            None => "invalid type: string is not a percentage".to_owned(),
            Some(number) => format!("invalid value {text:?}: strconv.Atoi: parsing {number:?}: invalid syntax"),
        };
        Stop::Failed(format!("invalid value for IntOrString: {error}"))
    })
}
