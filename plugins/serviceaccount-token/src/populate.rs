//! The data of a Secret.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use pintle_sdk::document::Document;
use pintle_sdk::{Error, Lister, Mutation, Need, Refusal, Resource, decode, log};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::types::{Secret, ServiceAccount};

/// The setting of the key, which stays in the host.
const KEY: &str = "privateKey";

/// Part of the API.
#[doc(alias = "LegacyIssuer")]
const ISSUER: &str = "kubernetes/serviceaccount";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    root_ca: String,
}

/// The missing data of a Secret.
struct Missing {
    ca: bool,
    namespace: bool,
    token: bool,
}

impl Missing {
    /// `ca`: the desired value, in base64; empty if there is none.
    #[doc(alias = "secretUpdateNeeded")]
    fn of(secret: &Secret, ca: &str) -> Option<Self> {
        let data = &secret.data;
        let is_empty = |value: &Option<String>| value.as_deref().is_none_or(str::is_empty);
        let ca = !ca.is_empty() && data.ca_crt.as_deref() != Some(ca);
        let missing = Self { ca, namespace: is_empty(&data.namespace), token: is_empty(&data.token) };
        (missing.ca || missing.namespace || missing.token).then_some(missing)
    }
}

/// The update that adds the missing data to a Secret.
///
/// # Errors
/// [`Error::Needs`] if the Secret must be read or the token be signed first. A retry if one of them was refused.
#[doc(alias = "generateTokenIfNeeded")]
pub(crate) fn populate(
    cached: &Secret,
    account: &ServiceAccount,
    lister: &impl Lister,
) -> Result<Option<Mutation>, Error> {
    let Config { root_ca } = lister.config()?;
    let ca = BASE64_STANDARD.encode(root_ca);
    if Missing::of(cached, &ca).is_none() {
        return Ok(None);
    }
    let metadata = &cached.metadata;
    let text = match lister.ask(Need::live_object(&Secret::KIND, &metadata.namespace, &metadata.name))? {
        Ok(text) => text,
        Err(error) if error.code == 404 => return Ok(None),
        Err(error) => return Err(Error::retry(format!("read Secret {}: {}", metadata.key(), error.message))),
    };
    let live: Secret = decode(&Secret::KIND, &text)?;
    if live.metadata.resource_version != metadata.resource_version {
        log::debug("the Secret is not up to date: its newer version runs the key again");
        return Ok(None);
    }
    let Some(missing) = Missing::of(&live, &ca) else { return Ok(None) };
    let mut document = Document::parse(&text)?;
    if missing.ca {
        document.set(&["data", "ca.crt"], &ca);
    }
    if missing.namespace {
        document.set(&["data", "namespace"], &BASE64_STANDARD.encode(&metadata.namespace));
    }
    if missing.token {
        let token = lister
            .ask(Need::sign_jwt(KEY, claims(&live, account)))?
            .map_err(|error| Error::retry(format!("sign a token: {}: {}", error.reason, error.message)))?;
        document.set(&["data", "token"], &BASE64_STANDARD.encode(token));
    }
    document.set(&["metadata", "annotations", "kubernetes.io/service-account.name"], &account.metadata.name);
    document.set(&["metadata", "annotations", "kubernetes.io/service-account.uid"], &account.metadata.uid);
    // After a conflict, the change runs the key again.
    Ok(Some(Mutation::update(&Secret::KIND, document).tolerate([Refusal::Conflict, Refusal::NotFound])))
}

/// The claims of a token, in upstream's order.
#[doc(alias = "LegacyClaims")]
fn claims(secret: &Secret, account: &ServiceAccount) -> Value {
    let (namespace, name) = (&secret.metadata.namespace, &account.metadata.name);
    json!({
        "iss": ISSUER,
        "kubernetes.io/serviceaccount/namespace": namespace,
        "kubernetes.io/serviceaccount/secret.name": secret.metadata.name,
        "kubernetes.io/serviceaccount/service-account.name": name,
        "kubernetes.io/serviceaccount/service-account.uid": account.metadata.uid,
        "sub": format!("system:serviceaccount:{namespace}:{name}"),
    })
}
