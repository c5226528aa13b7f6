//! The objects that one run reads in a namespace that is being deleted.

use pintle_sdk::time::Timestamp;
use pintle_sdk::{ApiResource, Error, Lister, Mutation, MutationFailure};

use crate::content::{Content, Extent, deletable, is_pods, list, name_of, refusal};
use crate::discovery::{Discovered, discover};
use crate::round::{Parts, Round, Stage};

/// Most kinds that one run lists: the host's limit of answers allows two lists of each, the discovery, and some
/// repeated lists that were too large.
const KINDS: usize = 500;

/// The inputs of a run.
pub(crate) struct Context<'a> {
    name: &'a str,
    /// The content that was read.
    pub(crate) contents: Vec<Content>,
    /// Whether Pods remain, so that nothing else was read.
    pub(crate) waits_for_pods: bool,
    /// In a round with parts, the last kind of this part, if more follow.
    pub(crate) next: Option<String>,
    /// Failed deletes of the last run.
    pub(crate) failures: Vec<MutationFailure>,
    /// Message about versions whose discovery failed.
    pub(crate) trouble: Option<String>,
    /// Versions whose discovery failed.
    pub(crate) undiscovered: Option<Vec<String>>,
}

impl<'a> Context<'a> {
    /// Lists the Pods; if there are none, the resources that the last round left; if those are empty, all resources.
    /// `None`: the resources left are empty, and this run cannot list all after them; the round starts again.
    ///
    /// # Errors
    /// Discovery and live lists are needed; or the API server's resources are not known yet.
    #[doc(alias = "deleteAllContent")]
    pub(crate) fn read(name: &'a str, round: &mut Round, lister: &impl Lister) -> Result<Option<Self>, Error> {
        let Discovered { resources, trouble, failed } = discover(round.discovered.take(), lister)?;
        let resources = deletable(resources);
        if resources.is_empty() && trouble.is_none() {
            return Err(Error::retry("unable to get any supported resources from server"));
        }
        let failures: Vec<MutationFailure> =
            lister.failures().into_iter().filter(|failure| failure.verb.starts_with("delete")).collect();
        let (pods, others): (Vec<_>, Vec<_>) = resources.into_iter().partition(is_pods);
        let is_any_unknown =
            pods.is_empty() && failed.as_ref().is_some_and(|failed| failed.iter().any(|gv| gv == "v1"));
        let swept = round.swept;
        let extent = |stage| if swept == Some(stage) { Extent::All } else { Extent::Sample };
        // As upstream: the object that blocks the Pods may be in the same namespace, and has to be deleted first.
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
        let mut context = Self { name, contents, waits_for_pods, next: None, failures, trouble, undiscovered: failed };
        let is_read = waits_for_pods || context.read_rest(others, extent(Stage::Rest), round, lister)?;
        Ok(is_read.then_some(context))
    }

    /// Lists everything except Pods. Returns whether it could.
    fn read_rest(
        &mut self,
        others: Vec<ApiResource>,
        extent: Extent,
        round: &mut Round,
        lister: &impl Lister,
    ) -> Result<bool, Error> {
        let is_left = |resource: &ApiResource| round.left.contains(&name_of(resource));
        let (left, mut rest): (Vec<_>, Vec<_>) = others.into_iter().partition(is_left);
        let n_left = left.len();
        if n_left > 0 {
            let (part, next) = part(left, &round.parts);
            self.next = next;
            self.contents = list(part, extent, self.name, lister)?;
            let is_any_left = self.contents.iter().any(|content| content.is_left(&self.failures))
                || round.parts.as_ref().is_some_and(|parts| !parts.left.is_empty());
            if self.next.is_some() || is_any_left {
                return Ok(true);
            }
            if n_left + rest.len() > KINDS {
                // All of them, from the start.
                round.left.clear();
                round.parts = None;
                round.swept = None;
                round.discovered = self.undiscovered.take();
                return Ok(false);
            }
        } else {
            (rest, self.next) = part(rest, &round.parts);
        }
        self.contents.extend(list(rest, extent, self.name, lister)?);
        Ok(true)
    }

    /// The stage of this run's deletes.
    pub(crate) fn stage(&self) -> Stage {
        if self.waits_for_pods { Stage::Pods } else { Stage::Rest }
    }

    /// Deletes of the content. If `unseen`, objects that cannot be listed are deleted too.
    pub(crate) fn deletions(&self, unseen: bool) -> Vec<Mutation> {
        let unseen = unseen && !self.waits_for_pods;
        self.contents.iter().flat_map(|content| content.deletions(self.name, &self.failures, unseen)).collect()
    }

    /// Adds the remaining content to the findings of a round.
    pub(crate) fn account(&self, parts: &mut Parts, deleted_at: Timestamp, now: Timestamp) {
        for content in &self.contents {
            let seconds = content.account(self.name, deleted_at, now, &self.failures, &mut parts.findings);
            parts.seconds = parts.seconds.max(seconds);
        }
        if !self.waits_for_pods {
            let left = self.contents.iter().filter(|content| content.is_left(&self.failures));
            parts.left.extend(left.map(Content::name));
        }
    }
}

/// The next part of a round's resources, and the start of the following one.
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
