//! The decision for one namespace.
//!
//! *Flow*: a round is two runs. The first looks what is there and deletes it; the second lists again, reports what remains and why,
//! and either waits or, when nothing remains, has the next run remove the finalizer.
//!
//! *Invariants*
//! 1. Nothing else is deleted while a Pod is left, also if Pods can be neither listed nor deleted.
//! 2. The finalizer goes only after a round in which every list was empty and nothing failed.
//! 3. A round that fails is repeated with a growing delay, at least once a minute.
//! 4. A round discovers once. After a round that left something, the next ones list the Pods and what was left; when that is gone, all.
//!    Nothing can be created in the meantime, because the namespace terminates.
//!
//! *Not here*: group versions that do not parse: the host hands out only what parses, so that condition is never `True`.
//!
//! *Source*: namespace_controller.go, deletion/namespaced_resources_deleter.go.

use std::time::Duration;

use pintle_sdk::document::Document;
use pintle_sdk::{ApiResource, Error, Key, Lister, Mutation, MutationFailure, Outcome, Refusal, Resource, Step};

use crate::conditions::Findings;
use crate::content::{Content, Extent, deletable, is_pods, is_unsupported, list, name_of};
use crate::discovery::discover;
use crate::round::{Round, Stage};
use crate::types::Namespace;

/// The finalizer of this controller.
const FINALIZER: &str = "kubernetes";
/// As soon as the caches show what was written.
const AT_ONCE: Duration = Duration::from_millis(1);
/// Sweeps of one round, before what is left is reported.
const SWEEPS: u32 = 2;
/// Deletions of one run: fewer than a run may have mutations.
const DELETIONS: usize = 900;

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
    let extent = |stage| if round.swept == Some(stage) { Extent::All } else { Extent::Sample };
    let mut contents = list(pods, extent(Stage::Pods), name, lister)?;
    // Upstream goes on if Pods cannot be listed or deleted. What protects them, such as network policies, must outlive them (KEP-5080).
    let waits_for_pods = contents.iter().any(Content::may_be_there)
        || (contents.is_empty() && discovered.failed.as_ref().is_some_and(|failed| failed.iter().any(|gv| gv == "v1")));
    if !waits_for_pods {
        let extent = extent(Stage::Rest);
        let is_left = |resource: &ApiResource| round.left.contains(&name_of(resource));
        let (left, rest): (Vec<_>, Vec<_>) = others.into_iter().partition(is_left);
        let mut listed = list(left, extent, name, lister)?;
        if !listed.iter().any(|content| content.is_left(&failures)) {
            listed.extend(list(rest, extent, name, lister)?);
        }
        contents.extend(listed);
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
    let mut findings = Findings { undiscovered: discovered.trouble, ..Findings::default() };
    let seconds =
        run.contents.iter().map(|content| content.account(name, deleted_at, now, &failures, &mut findings)).max();
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
    // What is deleted again is looked at by the next run.
    (round.swept, round.sweeps) = if deletions.is_empty() { (None, 0) } else { (Some(stage), SWEEPS) };
    if !waits_for_pods {
        round.left = run.contents.iter().filter(|content| content.is_left(&failures)).map(Content::name).collect();
    }
    outcome.push(Step::parallel(deletions).always());

    if !findings.errors.is_empty() || findings.undiscovered.is_some() {
        let after = round.backoff();
        round.failed = round.failed.saturating_add(1);
        return Ok(round.keep(outcome.requeue_after(after), name));
    }
    round.failed = 0;
    if let Some(seconds) = seconds.and_then(|seconds| u64::try_from(seconds).ok()).filter(|seconds| *seconds > 0) {
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
