//! The decision for one namespace.
//!
//! *Flow*: a round is two runs. The first looks what is there and deletes it; the second lists again, reports what remains and why,
//! and either waits or, when nothing remains, has the next run remove the finalizer.
//!
//! *Invariants*
//! 1. Nothing else is deleted while a Pod is left, unless Pods can be neither listed nor deleted: then the rest goes in the same round.
//! 2. The finalizer goes only after a round in which every list was empty and nothing failed.
//! 3. A round that fails is repeated with a growing delay, at least once a minute.
//! 4. A round discovers once. After a round that left something, the next ones list the Pods and what was left; when that is gone, all.
//!    Nothing can be created in the meantime, because the namespace terminates.
//! 5. A run lists no more kinds than it can ask for. Of more kinds, a round has several parts, and ends with the last one.
//!
//! *Not here*: group versions that do not parse: the host hands out only what parses, so that condition is never `True`.
//!
//! *Source*: namespace_controller.go, deletion/namespaced_resources_deleter.go.

use std::time::Duration;

use pintle_sdk::document::Document;
use pintle_sdk::{ApiResource, Error, Key, Lister, Mutation, MutationFailure, Outcome, Refusal, Resource, Step};

use crate::content::{Content, Extent, deletable, is_pods, is_unsupported, list, name_of, refusal};
use crate::discovery::discover;
use crate::round::{Parts, Round, Stage};
use crate::types::Namespace;

/// The finalizer of this controller.
const FINALIZER: &str = "kubernetes";
/// As soon as the caches show what was written.
const AT_ONCE: Duration = Duration::from_millis(1);
/// Sweeps of one round, before what is left is reported.
const SWEEPS: u32 = 2;
/// Deletions of one run: fewer than a run may have mutations.
const DELETIONS: usize = 900;
/// Kinds that one run lists. Two lists of each, the discovery, and some that are repeated because they were too large are what the
/// host answers in one run.
const KINDS: usize = 500;

/// Says what should change for one namespace.
///
/// # Errors
/// Discovery and live lists are needed; or the API server's resources are not known yet.
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let name = key.name.as_str();
    let Some((namespace, document)) = lister.get_document::<Namespace>("", name)? else {
        return Ok(Round::forget(lister, name));
    };
    let Some(deleted_at) = namespace.metadata.deletion_timestamp else { return Ok(Outcome::new()) };
    if namespace.status.phase != "Terminating" {
        let mut document = document;
        document.set(&["status", "phase"], "Terminating");
        return Ok(write_status(document).requeue_after(AT_ONCE));
    }
    if namespace.spec.finalizers.is_empty() {
        return Ok(Round::forget(lister, name));
    }

    let mut round = Round::read(lister, name, &namespace.metadata.uid);
    if round.emptied {
        let mut outcome = Round::forget(lister, name);
        outcome.push(finalize(&namespace, document));
        return Ok(outcome);
    }
    let discovered = discover(round.discovered.take(), lister)?;
    let resources = deletable(discovered.resources);
    if resources.is_empty() && discovered.trouble.is_none() {
        return Err(Error::retry("unable to get any supported resources from server"));
    }
    let failures: Vec<MutationFailure> =
        lister.failures().into_iter().filter(|failure| failure.verb.starts_with("delete")).collect();
    let (pods, others): (Vec<_>, Vec<_>) = resources.into_iter().partition(is_pods);
    let is_any_unknown =
        pods.is_empty() && discovered.failed.as_ref().is_some_and(|failed| failed.iter().any(|gv| gv == "v1"));
    let swept = round.swept;
    let extent = |stage| if swept == Some(stage) { Extent::All } else { Extent::Sample };
    // As upstream: what keeps the Pods may be an object of the same namespace, which has to go first.
    if let Some(refusal) = refusal(&pods, &failures) {
        round.refused = Some(refusal.to_owned());
    }
    let mut contents = Vec::new();
    if round.refused.is_none() {
        contents = list(pods, extent(Stage::Pods), name, lister)?;
        if let Some(error) = contents.iter().find_map(Content::error) {
            round.refused = Some(error.to_owned());
            contents.clear();
        }
    }
    let waits_for_pods = is_any_unknown || contents.iter().any(Content::has_objects);
    let mut next = None;
    if !waits_for_pods {
        let extent = extent(Stage::Rest);
        let is_left = |resource: &ApiResource| round.left.contains(&name_of(resource));
        let (left, mut rest): (Vec<_>, Vec<_>) = others.into_iter().partition(is_left);
        let n_left = left.len();
        if !left.is_empty() {
            let (part, after) = part(left, &round.parts);
            next = after;
            contents = list(part, extent, name, lister)?;
        }
        let is_any_left = || {
            contents.iter().any(|content| content.is_left(&failures))
                || round.parts.as_ref().is_some_and(|parts| !parts.left.is_empty())
        };
        if n_left == 0 || (next.is_none() && !is_any_left()) {
            if n_left > 0 && n_left + rest.len() > KINDS {
                // All of them, from the beginning.
                round.left.clear();
                round.parts = None;
                round.swept = None;
                round.discovered = discovered.failed;
                return Ok(round.keep(Outcome::new().requeue_after(AT_ONCE), name));
            }
            if n_left == 0 {
                (rest, next) = part(rest, &round.parts);
            }
            contents.extend(list(rest, extent, name, lister)?);
        }
    }

    let stage = if waits_for_pods { Stage::Pods } else { Stage::Rest };
    let run = Run { name, document, contents, waits_for_pods };
    let is_swept = round.swept == Some(stage);
    let (deletions, is_whole) = run.deletions(&failures, !is_swept);
    // A second sweep gets what has come since the first, and deletes one by one what cannot be deleted as a collection.
    let may_sweep = !is_swept || (round.sweeps < SWEEPS && failures.iter().all(is_unsupported));
    if may_sweep && !deletions.is_empty() {
        round.sweeps = if is_swept { round.sweeps + 1 } else { 1 };
        round.swept = Some(stage).filter(|_| is_whole || !failures.is_empty());
        round.discovered = discovered.failed;
        let outcome = Outcome::new().step(Step::parallel(deletions)).requeue_after(AT_ONCE);
        return Ok(round.keep(outcome, name));
    }

    let now = lister.now()?;
    let is_in_parts = next.is_some() || round.parts.is_some();
    let mut parts = round.parts.take().unwrap_or_default();
    for content in &run.contents {
        let seconds = content.account(name, deleted_at, now, &failures, &mut parts.findings);
        parts.seconds = parts.seconds.max(seconds);
    }
    if !waits_for_pods {
        parts.left.extend(run.contents.iter().filter(|content| content.is_left(&failures)).map(Content::name));
    }
    if let Some(after) = next {
        round.parts = Some(Parts { after, ..parts });
        (round.swept, round.sweeps) = (None, 0);
        round.discovered = discovered.failed;
        return Ok(round.keep(Outcome::new().requeue_after(AT_ONCE), name));
    }
    let Parts { seconds, left, mut findings, .. } = parts;
    findings.undiscovered = discovered.trouble;
    findings.errors.extend(round.refused.take());
    if waits_for_pods {
        // What else is there is not known yet.
        findings.remaining.clear();
        findings.finalizers.clear();
    }
    let mut conditions = namespace.status.conditions.clone();
    findings.write(&mut conditions, now);
    let status = (conditions != namespace.status.conditions).then(|| {
        let mut document = run.document.clone();
        document.set(&["status", "conditions"], &conditions);
        write_status(document)
    });
    let is_reported = status.is_none();
    let mut outcome = status.unwrap_or_default();
    // What is deleted again is looked at by the next run; in parts, by the next round.
    let is_over = deletions.is_empty() || is_in_parts;
    (round.swept, round.sweeps) = if is_over { (None, 0) } else { (Some(stage), SWEEPS) };
    if !waits_for_pods {
        round.left = left;
    }
    if !is_over {
        outcome.push(Step::parallel(deletions).always());
    }

    if !findings.errors.is_empty() || findings.undiscovered.is_some() {
        let after = round.backoff();
        round.failed = round.failed.saturating_add(1);
        return Ok(round.keep(outcome.requeue_after(after), name));
    }
    round.failed = 0;
    if let Some(seconds) = u64::try_from(seconds).ok().filter(|seconds| *seconds > 0) {
        return Ok(round.keep(outcome.requeue_after(Duration::from_secs(seconds / 2 + 1)), name));
    }
    if !is_reported {
        // Two writes with one resourceVersion would conflict.
        round.emptied = true;
        return Ok(round.keep(outcome.requeue_after(AT_ONCE), name));
    }
    let mut outcome = Round::forget(lister, name);
    outcome.push(finalize(&namespace, run.document));
    Ok(outcome)
}

/// The next part of the resources of a round, and where the one after it begins.
fn part(mut all: Vec<ApiResource>, done: &Option<Parts>) -> (Vec<ApiResource>, Option<String>) {
    if all.len() > KINDS {
        // Discovery may change from part to part.
        all.sort_by_cached_key(name_of);
    }
    if let Some(done) = done {
        all.retain(|resource| name_of(resource) > done.after);
    }
    let is_whole = all.len() <= KINDS;
    all.truncate(KINDS);
    let after = all.last().filter(|_| !is_whole).map(name_of);
    (all, after)
}

/// Takes the controller's finalizer away. Like upstream (`finalizeNamespace` in `pkg/controller/namespace/deletion`), each run writes
/// the finalizers while there are any, even if the own one has gone; such a write changes nothing, so no event follows.
fn finalize(namespace: &Namespace, mut document: Document) -> Step {
    let mut finalizers: Vec<&String> =
        namespace.spec.finalizers.iter().filter(|finalizer| *finalizer != FINALIZER).collect();
    finalizers.sort();
    finalizers.dedup();
    document.set(&["spec", "finalizers"], &finalizers);
    let update = Mutation::update(&Namespace::KIND, document).subresource("finalize");
    Step::sequential([update.tolerate([Refusal::NotFound])])
}

struct Run<'a> {
    name: &'a str,
    document: Document,
    contents: Vec<Content>,
    waits_for_pods: bool,
}

impl Run<'_> {
    /// Deletions of what is there, as many as fit into a run, and whether they are all.
    fn deletions(&self, failures: &[MutationFailure], unseen: bool) -> (Vec<Mutation>, bool) {
        let unseen = unseen && !self.waits_for_pods;
        let mut all = self.contents.iter().flat_map(|content| content.deletions(self.name, failures, unseen));
        let deletions: Vec<_> = all.by_ref().take(DELETIONS).collect();
        (deletions, all.next().is_none())
    }
}

fn write_status(document: Document) -> Outcome {
    let update = Mutation::update_status(&Namespace::KIND, document);
    Outcome::new().step(Step::sequential([update.tolerate([Refusal::NotFound])]))
}
