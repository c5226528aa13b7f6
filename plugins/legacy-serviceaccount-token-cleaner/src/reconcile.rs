//! One pass over all tokens.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pintle_sdk::time::Timestamp;
use pintle_sdk::{Error, Key, Lister, Mutation, Outcome, PatchType, Query, Refusal, Resource, Step, decode, log};
use serde::Deserialize;
use serde_json::json;

use crate::days::{beginning, day, is_day};
use crate::pods::secret_names;
use crate::types::{ConfigMap, Pod, Secret, ServiceAccount};

/// Part of the API.
const TRACKING: (&str, &str) = ("kube-system", "kube-apiserver-legacy-service-account-token-tracking");
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";

const DAY: Duration = Duration::from_secs(24 * 3600);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    /// In milliseconds.
    clean_up_period: u64,
}

/// Computes the marks and deletions of unused tokens.
///
/// # Errors
/// If the configuration or an object does not fit its type, or the ConfigMap cannot be read. [`Error::Needs`] if it
/// must be read first.
#[doc(alias = "evaluateSATokens")]
pub fn reconcile(_: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let Config { clean_up_period } = lister.config()?;
    let period = Duration::from_millis(clean_up_period);
    let now = lister.now()?;
    match tracked_since(lister)? {
        Some(since) if now >= since.plus(period) => {}
        _ => return Ok(Outcome::new()),
    }
    let limit = now.minus(period);
    let limit_day = day(limit);
    let mut mentioned = Mentioned { lister, by_namespace: BTreeMap::new() };
    let mut writes = Vec::new();
    for secret in lister.list::<Secret>(&Query::all())? {
        if is_kept(&secret, limit, &limit_day) || !is_generated(&secret, lister)? || mentioned.has(&secret)? {
            continue;
        }
        match secret.metadata.labels.legacy_token_invalid_since.as_deref().filter(|since| is_day(since)) {
            None => writes.push(mark(&secret, &day(now))),
            Some(since) if since < limit_day.as_str() => writes.push(delete(&secret)),
            Some(_) => {}
        }
    }
    Ok(Outcome::new().step(Step::parallel(writes)))
}

/// The time since which the API server certainly tracks uses; `None` if unknown.
#[doc(alias = "latestPossibleTrackedSinceTime")]
fn tracked_since(lister: &impl Lister) -> Result<Option<Timestamp>, Error> {
    let (namespace, name) = TRACKING;
    let since = lister.live::<ConfigMap>(namespace, name)?.and_then(|map| map.data.since);
    let time = since.as_deref().and_then(beginning);
    if time.is_none() {
        log::error(&format!("no day since which tokens are tracked in ConfigMap {namespace}/{name}: {since:?}"));
    }
    // Tracking started at some time of that day.
    Ok(time.map(|day| day.plus(DAY)))
}

/// Whether a token is too young, in use, or being deleted.
fn is_kept(secret: &Secret, limit: Timestamp, limit_day: &str) -> bool {
    let metadata = &secret.metadata;
    let is_young = metadata.creation_timestamp.is_some_and(|created| created >= limit);
    // A token without the label was not used since the API server has tracked uses.
    let is_used = metadata.labels.legacy_token_last_used.as_deref().is_some_and(|used| {
        if !is_day(used) {
            log::error(&format!("the day of the last use of Secret {} cannot be read: {used:?}", metadata.key()));
        }
        !is_day(used) || used >= limit_day
    });
    is_young || metadata.deletion_timestamp.is_some() || is_used
}

/// Whether the ServiceAccount lists the token, as it does for generated tokens.
#[doc(alias = "getServiceAccount")]
#[doc(alias = "hasSecretReference")]
fn is_generated(secret: &Secret, lister: &impl Lister) -> Result<bool, Error> {
    let annotations = &secret.metadata.annotations;
    let name = annotations.service_account_name.as_deref().unwrap_or_default();
    let uid = annotations.service_account_uid.as_deref().unwrap_or_default();
    if name.is_empty() {
        return Ok(false);
    }
    let account = lister.get::<ServiceAccount>(&secret.metadata.namespace, name)?;
    let account = account.filter(|account| uid.is_empty() || account.metadata.uid == uid);
    Ok(account.is_some_and(|account| account.secrets.iter().any(|reference| reference.name == secret.metadata.name)))
}

/// The Secrets that Pods refer to, for the namespaces that were read.
struct Mentioned<'a, L> {
    lister: &'a L,
    by_namespace: BTreeMap<String, BTreeSet<String>>,
}

impl<L: Lister> Mentioned<'_, L> {
    #[doc(alias = "getMountedSecretNames")]
    fn has(&mut self, secret: &Secret) -> Result<bool, Error> {
        let namespace = &secret.metadata.namespace;
        if !self.by_namespace.contains_key(namespace) {
            let mut names = BTreeSet::new();
            // One at a time: a decoded Pod is larger than its text.
            for text in self.lister.list_json(&Pod::KIND, &Query::namespace(namespace)) {
                names.extend(secret_names(&decode(&Pod::KIND, &text)?).map(str::to_owned));
            }
            self.by_namespace.insert(namespace.clone(), names);
        }
        Ok(self.by_namespace.get(namespace).is_some_and(|names| names.contains(&secret.metadata.name)))
    }
}

fn mark(secret: &Secret, day: &str) -> Mutation {
    log::info(&format!("Secret {} is marked as invalid since {day}", secret.metadata.key()));
    let body = json!({"metadata": {"labels": {INVALID_SINCE: day}}});
    Mutation::patch(&Secret::KIND, secret.metadata.key(), PatchType::Merge, body)
        .uid(&secret.metadata.uid)
        .tolerate([Refusal::NotFound, Refusal::Conflict])
}

fn delete(secret: &Secret) -> Mutation {
    let metadata = &secret.metadata;
    log::info(&format!("Secret {} is deleted", metadata.key()));
    Mutation::delete(&Secret::KIND, &metadata.namespace, &metadata.name)
        .resource_version(&metadata.resource_version)
        .tolerate([Refusal::NotFound, Refusal::Conflict])
}
