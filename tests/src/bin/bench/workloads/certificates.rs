//! CertificateSigningRequests that are approved, and signed with the authority of the control plane.

use std::time::Instant;

use anyhow::{Context, Result};
use pintle_tests::objects::certificate_request;
use pintle_tests::{ApiClient, ControlPlane, Options, PATIENCE, PatchKind, eventually};
use serde_json::{Value, json};

use super::watched::Watched;
use crate::arguments::Args;
use crate::objects::{create_all, patch_all};
use crate::report::{Implementation, Sample};
use crate::running::{probe_name, start_unprobed, usage_at_rest};

const CONTROLLER: &str = "certificatesigningrequest-signing-controller";
const PATH: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// From the first approval until each request has its certificate.
pub(super) async fn measure(args: &Args, implementation: Implementation, n: usize) -> Result<Sample> {
    let plane = ControlPlane::start(Options::default()).await?;
    let client = plane.client();
    let requests = (0..n).map(|number| request(&name(number))).collect::<Result<Vec<_>>>()?;
    create_all(&client, PATH, requests.into_iter()).await?;
    let subject = start_unprobed(args, &plane, implementation, &[CONTROLLER], &[]).await?.context("nothing runs")?;
    probe(&client).await.with_context(|| subject.process().log_tail())?;
    let before = usage_at_rest(&subject).await?;
    let mut requests = Watched::open(&client, PATH).await?;
    let approval = approval();
    let begun = Instant::now();
    let approved = patch_all(&client, (0..n).map(|number| format!("{PATH}/{}/approval", name(number))), &approval);
    let signed = async { tokio::try_join!(approved, requests.until(n, is_signed)) };
    signed.await.with_context(|| subject.process().log_tail())?;
    let seconds = begun.elapsed().as_secs_f64();
    let after = usage_at_rest(&subject).await?;
    let cpu_seconds = after.cpu.saturating_sub(before.cpu).as_secs_f64();
    subject.stop().await;
    plane.stop().await;
    Ok(Sample {
        pods_per_second: n as f64 / seconds,
        seconds,
        cpu_seconds,
        rss_bytes: after.rss_bytes as f64,
        ..Sample::default()
    })
}

fn name(number: usize) -> String {
    format!("request-{number}")
}

fn request(name: &str) -> Result<Value> {
    let pkcs10 = certificate_request(name, "team", &[])?;
    Ok(json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
        "spec": {
            "request": pkcs10, "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["digital signature", "client auth"], "expirationSeconds": 86_400,
        },
    }))
}

fn approval() -> Value {
    json!({"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "Bench"}]}})
}

fn is_signed(request: &Value) -> bool {
    request["status"]["certificate"].is_string()
}

/// Waits until the subject has signed a request, which is then deleted.
async fn probe(client: &ApiClient) -> Result<()> {
    let name = &probe_name();
    let path = format!("{PATH}/{name}");
    client.create(PATH, &request(name)?).await?;
    client.patch(&format!("{path}/approval"), PatchKind::Merge, &approval()).await?;
    eventually(PATIENCE, "the certificate of the probe", async || {
        Ok(is_signed(&client.get(&path).await?).then_some(()))
    })
    .await?;
    client.delete(&path, None).await.map(drop)
}
