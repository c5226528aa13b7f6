//! The signatures of the ConfigMap.

use std::collections::BTreeMap;

use pintle_sdk::{Error, Key, Lister, Mutation, Outcome, Query, Resource, Step};
use plugin_lib::bootstrap_token::{Expiration, expiration, value};

use crate::jws::detached_signature;
use crate::types::{ConfigMap, Secret};

/// Part of the API, as are the names below.
const NAMESPACE: &str = "kube-public";
const NAME: &str = "cluster-info";
const CONTENT: &str = "kubeconfig";
const SIGNATURE: &str = "jws-kubeconfig-";
const TOKEN: &str = "bootstrap-token-";

/// Computes the changes for the ConfigMap.
///
/// # Errors
/// If an object does not fit its type.
#[doc(alias = "signConfigMap")]
pub fn reconcile(_: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let Some((config_map, mut document)) = lister.get_document::<ConfigMap>(NAMESPACE, NAME)? else {
        return Ok(Outcome::new());
    };
    let Some(content) = config_map.data.get(CONTENT) else { return Ok(Outcome::new()) };
    let now = lister.now()?;
    let mut signatures = BTreeMap::new();
    for secret in lister.list::<Secret>(&Query::all())? {
        if expiration(secret.data.expiration.as_deref(), now) != Expiration::Expired
            && let Some((id, key)) = token(&secret)
        {
            signatures.insert(format!("{SIGNATURE}{id}"), detached_signature(content, id, &key));
        }
    }
    let is_signature = |name: &str| name.starts_with(SIGNATURE);
    let present = config_map.data.iter().filter(|(name, _)| is_signature(name));
    if present.clone().eq(&signatures) {
        return Ok(Outcome::new());
    }
    for (name, _) in present {
        document.remove(&["data", name]);
    }
    for (name, signature) in &signatures {
        document.set(&["data", name], signature);
    }
    Ok(Outcome::new().step(Step::sequential([Mutation::update(&ConfigMap::KIND, document)])))
}

/// The id and the key of a token that allows signing.
#[doc(alias = "validateSecretForSigning")]
fn token(secret: &Secret) -> Option<(&str, Vec<u8>)> {
    let id = secret.metadata.name.strip_prefix(TOKEN)?;
    let is_id = id.len() == 6 && id.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let key = value(secret.data.token_secret.as_deref());
    let may_sign = value(secret.data.usage_bootstrap_signing.as_deref()) == b"true";
    (is_id && value(secret.data.token_id.as_deref()) == id.as_bytes() && !key.is_empty() && may_sign)
        .then_some((id, key))
}
