//! The ClusterTrustBundle with the authority of the API server, of which a cluster has one.

use anyhow::{Result, ensure};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use serde_json::{Value, json};

use super::{Group, delete, until_gone};
use crate::api::PatchKind;
use crate::scenarios::Scenario;
use crate::scenarios::stage::Stage;
use crate::{PATIENCE, eventually};

/// What these scenarios are about.
pub(super) const GROUPS: &[Group] =
    &[(&["kube-apiserver-serving-clustertrustbundle-publisher-controller"], &[SCENARIOS])];

const SCENARIOS: &[Scenario] = &[
    Scenario::new("the authority of the API server is a bundle", |s| Box::pin(published(s))).alone(),
    Scenario::new("the bundle of the API server that is changed is corrected", |s| Box::pin(corrected(s))).alone(),
    Scenario::new("the bundle of the API server that is deleted comes back", |s| Box::pin(deleted(s))).alone(),
    Scenario::new("other bundles of the signer of the API server are deleted", |s| Box::pin(others(s))).alone(),
];

const BUNDLES: &str = "/apis/certificates.k8s.io/v1/clustertrustbundles";
const SIGNER: &str = "kubernetes.io/kube-apiserver-serving";

/// Waits until the signer has one bundle, with the authority of the cluster, and returns its path.
async fn until_published(s: &Stage, when: &str) -> Result<String> {
    let list = format!("{BUNDLES}?fieldSelector=spec.signerName={SIGNER}");
    let bundle = eventually(PATIENCE, format!("the bundle {when}"), async || {
        let bundles = s.client.list(&list).await?;
        let [bundle] = bundles.as_slice() else { return Ok(None) };
        let text = bundle["spec"]["trustBundle"].as_str().unwrap_or_default();
        Ok((text.trim() == s.root_ca.trim()).then(|| bundle.clone()))
    })
    .await?;
    let name = bundle["metadata"]["name"].as_str().unwrap_or_default();
    let (prefix, hash) = name.rsplit_once(':').unwrap_or_default();
    ensure!(hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{name} has no hash");
    let metadata = &bundle["metadata"];
    let seen = json!([prefix, hash.len(), metadata["labels"], metadata["annotations"], metadata["ownerReferences"]]);
    s.observe(when, &seen);
    Ok(format!("{BUNDLES}/{name}"))
}

/// The certificate of an authority that nobody has.
fn authority() -> Result<String> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    Ok(params.self_signed(&KeyPair::generate()?)?.pem())
}

async fn published(s: &Stage) -> Result<()> {
    until_published(s, "at the start").await.map(drop)
}

async fn corrected(s: &Stage) -> Result<()> {
    let path = until_published(s, "at the start").await?;
    let label = json!({"metadata": {"labels": {"example.com/scenario": "kept"}}});
    s.client.patch(&path, PatchKind::Merge, &label).await?;
    s.client.patch(&path, PatchKind::Merge, &json!({"spec": {"trustBundle": authority()?}})).await?;
    until_published(s, "corrected").await?;
    s.client.patch(&path, PatchKind::Merge, &json!({"metadata": {"labels": null}})).await.map(drop)
}

async fn deleted(s: &Stage) -> Result<()> {
    let path = until_published(s, "at the start").await?;
    let uid = |bundle: &Value| bundle["metadata"]["uid"].clone();
    let before = uid(&s.client.get(&path).await?);
    delete(s, &path).await?;
    eventually(PATIENCE, "the bundle to come back", async || {
        let bundle = s.client.find(&path).await?;
        Ok(bundle.filter(|bundle| uid(bundle) != before).map(drop))
    })
    .await?;
    until_published(s, "again").await.map(drop)
}

async fn others(s: &Stage) -> Result<()> {
    until_published(s, "at the start").await?;
    let create = async |name: &str, signer: &str| {
        let bundle = json!({"metadata": {"name": name}, "spec": {"signerName": signer, "trustBundle": authority()?}});
        s.client.create(BUNDLES, &bundle).await?;
        anyhow::Ok(format!("{BUNDLES}/{name}"))
    };
    let of_another = create(&format!("example.com:{}:some", s.ns), &format!("example.com/{}", s.ns)).await?;
    let other = create("kubernetes.io:kube-apiserver-serving:other", SIGNER).await?;
    until_gone(s, &other).await?;
    until_published(s, "with no other").await?;
    s.client.get(&of_another).await?;
    delete(s, &of_another).await
}
