//! The content of a namespace: kinds, objects, and their deletion.
//!
//! *Flow*: discovery -> resources, one version each -> live lists -> deletes or remains.
//!
//! *Invariants*
//! 1. Each resource is listed and deleted in one version only, the server's preferred one if it has the resource.
//! 2. Objects that are being deleted already are not deleted again.
//!
//! *Source*: deletion/namespaced_resources_deleter.go.

use std::collections::BTreeMap;

use pintle_sdk::time::Timestamp;
use pintle_sdk::{ApiError, ApiResource, Error, Kind, Lister, Mutation, MutationFailure, Need, Propagation};
use serde::Deserialize;

use crate::conditions::Findings;

/// Most objects of one kind in a list; smaller limits apply if these exceed the bytes that the host returns.
const LIST_LIMITS: [u32; 3] = [10_000, 1000, 20];
/// Assumed seconds for a finalizer.
#[doc(alias = "finalizerEstimateSeconds")]
const FINALIZER_SECONDS: i64 = 15;

/// An object of a live list.
#[derive(Debug, Deserialize)]
pub(crate) struct Item {
    metadata: ItemMeta,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ItemMeta {
    name: String,
    uid: String,
    deletion_timestamp: Option<Timestamp>,
    deletion_grace_period_seconds: Option<i64>,
    finalizers: Vec<String>,
}

/// A resource with its objects in one namespace.
#[derive(Debug)]
pub(crate) struct Content {
    resource: ApiResource,
    items: Vec<Item>,
    /// Why the list failed.
    error: Option<String>,
}

/// Namespaced resources with deletable objects, in one version each, in the order of discovery.
#[doc(alias = "ServerPreferredNamespacedResources", alias = "FilteredBy")]
pub(crate) fn deletable(all: Vec<ApiResource>) -> Vec<ApiResource> {
    let mut places: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut chosen: Vec<ApiResource> = Vec::new();
    for resource in all.into_iter().filter(|resource| resource.namespaced && has(resource, "delete")) {
        let name = (resource.kind.group.to_string(), resource.plural.clone());
        match places.get(&name) {
            None => {
                places.insert(name, chosen.len());
                chosen.push(resource);
            }
            Some(&place) if resource.preferred => chosen[place] = resource,
            Some(_) => {}
        }
    }
    chosen
}

/// Whether this is the Pod resource.
pub(crate) fn is_pods(resource: &ApiResource) -> bool {
    resource.kind.group.is_empty() && resource.plural == "pods"
}

/// `plural.group`.
pub(crate) fn name_of(resource: &ApiResource) -> String {
    format!("{}.{}", resource.plural, resource.kind.group)
}

#[doc(alias = "isSupported")]
fn has(resource: &ApiResource, verb: &str) -> bool {
    resource.verbs.iter().any(|own| own == verb)
}

/// How much of a resource to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All objects.
    All,
    /// Enough to decide whether to delete the collection: one object that is not being deleted yet.
    Sample,
}

/// Lists the objects of all these resources together.
///
/// # Errors
/// [`Error::Needs`] while lists are missing.
#[doc(alias = "listCollection")]
pub(crate) fn list(
    resources: Vec<ApiResource>,
    extent: Extent,
    namespace: &str,
    lister: &impl Lister,
) -> Result<Vec<Content>, Error> {
    let mut missing = Vec::new();
    let mut contents = Vec::with_capacity(resources.len());
    for resource in resources {
        let answer = match (has(&resource, "list"), extent) {
            (false, _) => Ok(Ok(Vec::new())),
            (true, Extent::Sample) if has(&resource, "deletecollection") => sample(&resource, namespace, lister),
            (true, _) => items(&resource, namespace, lister),
        };
        let (items, error) = match answer {
            Err(Error::Needs(needs)) => {
                missing.extend(needs);
                continue;
            }
            Err(error) => return Err(error),
            Ok(Ok(items)) => (items, None),
            // The resource was removed since the discovery, or cannot be listed.
            Ok(Err(error)) if matches!(error.code, 404 | 405) => (Vec::new(), None),
            Ok(Err(error)) => (Vec::new(), Some(error.message)),
        };
        contents.push(Content { resource, items, error });
    }
    if missing.is_empty() { Ok(contents) } else { Err(Error::Needs(missing)) }
}

/// The first object of a resource; all objects if that one is being deleted already.
fn sample(resource: &ApiResource, namespace: &str, lister: &impl Lister) -> Result<Result<Vec<Item>, ApiError>, Error> {
    let first = parse(lister.ask(live_list(resource, namespace, 1))?)?;
    let is_deleting = |items: &Vec<Item>| items.iter().any(|item| item.metadata.deletion_timestamp.is_some());
    if first.as_ref().is_ok_and(is_deleting) { items(resource, namespace, lister) } else { Ok(first) }
}

/// The objects of a resource, up to a limit.
fn items(resource: &ApiResource, namespace: &str, lister: &impl Lister) -> Result<Result<Vec<Item>, ApiError>, Error> {
    let list = |limit| live_list(resource, namespace, limit);
    let mut answer = lister.ask(list(LIST_LIMITS[0]))?;
    for limit in &LIST_LIMITS[1..] {
        if answer.as_ref().is_err_and(|error| error.reason == "TooLarge") {
            answer = lister.ask(list(*limit))?;
        }
    }
    parse(answer)
}

fn live_list(resource: &ApiResource, namespace: &str, limit: u32) -> Need {
    Need::live_list(&resource.kind, namespace, limit)
}

fn parse(answer: Result<String, ApiError>) -> Result<Result<Vec<Item>, ApiError>, Error> {
    answer.map(|text| Ok(serde_json::from_str(&text)?)).map_or_else(|error| Ok(Err(error)), |items| items.map(Ok))
}

impl Content {
    /// `plural.group`, as in the conditions.
    pub(crate) fn name(&self) -> String {
        name_of(&self.resource)
    }

    /// Whether objects remain, or may remain because the list failed.
    pub(crate) fn is_left(&self, failures: &[MutationFailure]) -> bool {
        !self.items.is_empty() || self.refusal(failures).is_some()
    }

    /// Whether there are objects.
    pub(crate) fn has_objects(&self) -> bool {
        !self.items.is_empty()
    }

    /// Why the list failed.
    pub(crate) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// Why the objects could not be deleted or listed.
    pub(crate) fn refusal<'a>(&'a self, failures: &'a [MutationFailure]) -> Option<&'a str> {
        refusal(std::slice::from_ref(&self.resource), failures).or(self.error())
    }

    /// Deletes of objects that are not being deleted yet. If `unseen`, objects that cannot be listed are deleted too.
    #[doc(alias = "deleteAllContentForGroupVersionResource", alias = "deleteCollection", alias = "deleteEachItem")]
    pub(crate) fn deletions(&self, namespace: &str, failures: &[MutationFailure], unseen: bool) -> Vec<Mutation> {
        let kind = &self.resource.kind;
        let pending = || self.items.iter().map(|item| &item.metadata).filter(|meta| meta.deletion_timestamp.is_none());
        let is_unseen = unseen && !has(&self.resource, "list");
        if pending().next().is_none() && !is_unseen {
            return Vec::new();
        }
        let refused = |failure: &MutationFailure| {
            failure.verb == "delete-collection" && failure.kind.as_ref() == Some(kind) && is_unsupported(failure)
        };
        if has(&self.resource, "deletecollection") && !failures.iter().any(refused) {
            // Owned objects are in the namespace too, so no garbage collector is needed to find them.
            return vec![Mutation::delete_collection(kind, namespace, None).propagation(Propagation::Background)];
        }
        pending()
            .map(|meta| {
                Mutation::delete(kind, namespace, &meta.name).uid(&meta.uid).propagation(Propagation::Background)
            })
            .collect()
    }

    /// Adds the remaining objects to the findings. Returns the seconds after which they may be deleted; 0 if nothing
    /// remains, or it is unknown what they wait for, which is an error. Failed deletes and lists only add an error.
    #[doc(alias = "deleteAllContentForGroupVersionResource", alias = "estimateGracefulTermination")]
    pub(crate) fn account(
        &self,
        namespace: &str,
        deleted_at: Timestamp,
        now: Timestamp,
        failures: &[MutationFailure],
        findings: &mut Findings,
    ) -> i64 {
        if let Some(error) = self.refusal(failures) {
            findings.errors.push(error.to_owned());
            return 0;
        }
        if self.items.is_empty() {
            return 0;
        }
        let kind = &self.resource.kind;
        findings.remaining.insert(self.name(), self.items.len());
        let mut is_finalizing = false;
        for finalizer in self.items.iter().flat_map(|item| &item.metadata.finalizers) {
            *findings.finalizers.entry(finalizer.clone()).or_default() += 1;
            is_finalizing = true;
        }
        let grace = self.grace_seconds();
        let elapsed = i64::try_from(now.since(deleted_at).as_secs()).unwrap_or(i64::MAX);
        if grace > elapsed {
            return grace;
        }
        if is_finalizing {
            return FINALIZER_SECONDS;
        }
        let resource = format!("{}/{}, Resource={}", kind.group, kind.version, self.resource.plural);
        findings.errors.push(format!("unexpected items still remain in namespace: {namespace} for gvr: {resource}"));
        0
    }

    /// Longest grace period of the Pods.
    #[doc(alias = "estimateGracefulTerminationForPods")]
    fn grace_seconds(&self) -> i64 {
        if !is_pods(&self.resource) {
            return 0;
        }
        self.items.iter().filter_map(|item| item.metadata.deletion_grace_period_seconds).max().unwrap_or(0)
    }
}

/// Why objects of one of the resources could not be deleted.
pub(crate) fn refusal<'a>(resources: &[ApiResource], failures: &'a [MutationFailure]) -> Option<&'a str> {
    let is_of = |kind: &Kind| resources.iter().any(|resource| resource.kind == *kind);
    let refused = |failure: &&MutationFailure| failure.kind.as_ref().is_some_and(is_of) && !is_unsupported(failure);
    failures.iter().find(refused).map(|failure| failure.message.as_str())
}

/// Whether the server does not support this verb for the resource.
pub(crate) fn is_unsupported(failure: &MutationFailure) -> bool {
    matches!(failure.code, 404 | 405)
}
