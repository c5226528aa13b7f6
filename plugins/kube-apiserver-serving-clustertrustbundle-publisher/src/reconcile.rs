//! The bundles of the signer.

use pintle_sdk::{Error, Key, Lister, Mutation, Outcome, Query, Refusal, Resource, Step};
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::types::ClusterTrustBundle;

const SIGNER: &str = "kubernetes.io/kube-apiserver-serving";

/// Bytes of the hash in a name.
const HASH_BYTES: usize = 12;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    root_ca: String,
}

/// Computes the changes of the bundles.
///
/// # Errors
/// If the configuration or a bundle does not fit its type.
#[doc(alias = "syncClusterTrustBundle")]
pub fn reconcile(_: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let Config { root_ca } = lister.config()?;
    let name = bundle_name(&root_ca);
    let publish = match lister.get_document::<ClusterTrustBundle>("", &name)? {
        None => {
            let bundle = json!({"metadata": {"name": name}, "spec": {"signerName": SIGNER, "trustBundle": root_ca}});
            Some(Mutation::create(&ClusterTrustBundle::KIND, "", bundle))
        }
        Some((bundle, mut document)) => (bundle.spec.trust_bundle != root_ca).then(|| {
            document.set(&["spec", "trustBundle"], &root_ca);
            Mutation::update(&ClusterTrustBundle::KIND, document)
        }),
    };
    let mut others = lister.list::<ClusterTrustBundle>(&Query::all())?;
    others.retain(|bundle| bundle.metadata.name != name);
    let deletes = others.iter().map(|bundle| {
        Mutation::delete(&ClusterTrustBundle::KIND, "", &bundle.metadata.name)
            .uid(&bundle.metadata.uid)
            .tolerate([Refusal::NotFound, Refusal::Conflict])
    });
    Ok(Outcome::new().step(Step::sequential(publish)).step(Step::parallel(deletes)))
}

#[doc(alias = "constructBundleName")]
fn bundle_name(root_ca: &str) -> String {
    let hash = Sha256::digest(root_ca);
    let hash: String = hash.iter().take(HASH_BYTES).map(|byte| format!("{byte:02x}")).collect();
    format!("{}:{hash}", SIGNER.replace('/', ":"))
}
