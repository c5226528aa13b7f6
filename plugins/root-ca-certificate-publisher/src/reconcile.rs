//! The ConfigMap of one namespace.

use std::collections::BTreeMap;

use pintle_sdk::document::Document;
use pintle_sdk::{Error, Key, Lister, Mutation, Outcome, Refusal, Resource, Step};
use serde::Deserialize;
use serde_json::json;

use crate::types::{ConfigMap, Namespace};

#[doc(alias = "RootCACertConfigMapName")]
const NAME: &str = "kube-root-ca.crt";
const DATA_KEY: &str = "ca.crt";
#[doc(alias = "DescriptionAnnotation")]
const ANNOTATION: &str = "kubernetes.io/description";

/// Part of the API: upstream's exact text, so that both write the same object.
#[doc(alias = "Description")]
const DESCRIPTION: &str = concat!(
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal ",
    "service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters."
);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    root_ca: String,
}

/// Computes the changes for one namespace.
///
/// # Errors
/// If the configuration or an object does not fit its type.
#[doc(alias = "syncNamespace")]
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let Config { root_ca } = lister.config()?;
    let namespace = &key.name;
    let mutation = match lister.get_document::<ConfigMap>(namespace, NAME)? {
        None if is_going_away(lister, namespace)? => return Ok(Outcome::new()),
        None => create(namespace, &root_ca),
        Some((current, _)) if is_right(&current, &root_ca) => return Ok(Outcome::new()),
        Some((_, document)) => correct(document, &root_ca),
    };
    Ok(Outcome::new().step(Step::sequential([mutation])))
}

/// Whether nothing can be created in the namespace any more, according to the cache.
fn is_going_away(lister: &impl Lister, namespace: &str) -> Result<bool, Error> {
    let namespace = lister.get::<Namespace>("", namespace)?;
    Ok(namespace.is_none_or(|namespace| namespace.status.phase == "Terminating"))
}

fn is_right(current: &ConfigMap, root_ca: &str) -> bool {
    let described = current.metadata.annotations.description.as_ref().is_some_and(|text| !text.is_empty());
    described && current.data.len() == 1 && current.data.get(DATA_KEY).is_some_and(|data| data == root_ca)
}

fn create(namespace: &str, root_ca: &str) -> Mutation {
    let object = json!({
        "metadata": {"name": NAME, "annotations": {ANNOTATION: DESCRIPTION}},
        "data": {DATA_KEY: root_ca},
    });
    // Not found: the namespace is deleted.
    Mutation::create(&ConfigMap::KIND, namespace, object).tolerate([Refusal::NotFound, Refusal::NamespaceTerminating])
}

fn correct(mut document: Document, root_ca: &str) -> Mutation {
    document.set(&["data"], &BTreeMap::from([(DATA_KEY, root_ca)]));
    document.set(&["metadata", "annotations", ANNOTATION], DESCRIPTION);
    Mutation::update(&ConfigMap::KIND, document)
}
