//! The registry client.
//!
//! *Invariants*: plain HTTP is used only for loopback or registries that the operator names; credentials go only to their
//! registry, or to its token server; every request has a timeout, every blob a maximum length.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use oci_client::Client;
use oci_client::client::{Certificate, CertificateEncoding, ClientConfig, ClientProtocol};
use oci_client::errors::OciDistributionError;
use oci_client::secrets::RegistryAuth;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::digest::Digest;
use crate::error::{Error, Reason};
use crate::layout::{MANIFEST, MAX_MANIFEST_BYTES};
use crate::options::ConnectOptions;
use crate::progress::{Progress, Report};
use crate::reference::ArtifactRef;
use crate::{credentials, problem};

/// Connect timeout.
const CONNECT: Duration = Duration::from_secs(10);
/// Read timeout.
const SILENCE: Duration = Duration::from_secs(30);
/// Timeout of small requests: manifests, tokens, existence checks.
const SMALL: Duration = Duration::from_secs(60);
/// Timeout of a component: 64 MiB at 0.6 Mbit/s.
const LARGE: Duration = Duration::from_secs(15 * 60);
/// Bytes per chunk of an upload, for progress reports.
const PART_BYTES: usize = 256 << 10;
/// Accepted media types of manifests; other documents are reported with their own type.
const ACCEPTED: [&str; 4] = [
    MANIFEST,
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
];

/// Connection settings of registries.
#[derive(Clone, Debug, Default)]
pub struct Registries {
    /// Registries without TLS.
    plain_http: Vec<String>,
    /// Certificates in DER, in addition to those of the system.
    authorities: Vec<Vec<u8>>,
}

/// One repository, and the credentials for it.
pub struct Session {
    client: Client,
    auth: RegistryAuth,
    reference: ArtifactRef,
    report: Report,
}

impl Registries {
    /// Reads the certificate authorities; sends nothing.
    ///
    /// # Errors
    /// The file of certificates is unreadable or contains none. A retry helps only after the file changes.
    pub fn new(options: impl Into<ConnectOptions>) -> anyhow::Result<Self> {
        let ConnectOptions { plain_http, ca_file } = options.into();
        let authorities = ca_file.as_deref().map(authorities).transpose()?;
        Ok(Self { plain_http, authorities: authorities.unwrap_or_default() })
    }

    /// Opens a session for the repository of `reference`, with the credentials of `docker login`; sends nothing yet. `report`
    /// receives the progress of long transfers.
    ///
    /// # Errors
    /// The configured credentials cannot be used.
    pub async fn open(&self, reference: &ArtifactRef, report: Report) -> Result<Session, Error> {
        let failed = |why: String| Error::new(Reason::RegistryFailed, why);
        let registry = reference.registry.clone();
        let auth = tokio::task::spawn_blocking(move || credentials::of(&registry))
            .await
            .map_err(|why| failed(why.to_string()))??;
        // If another provider is installed already, it works as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let certificate = |der: &Vec<u8>| Certificate { encoding: CertificateEncoding::Der, data: der.clone() };
        let config = ClientConfig {
            protocol: if self.is_plain(reference) { ClientProtocol::Http } else { ClientProtocol::Https },
            extra_root_certificates: self.authorities.iter().map(certificate).collect(),
            connect_timeout: Some(CONNECT),
            read_timeout: Some(SILENCE),
            use_monolithic_push: true,
            platform_resolver: None,
            user_agent: concat!("pintle/", env!("CARGO_PKG_VERSION")),
            ..ClientConfig::default()
        };
        let client = Client::try_from(config).map_err(|why| failed(format!("create a registry client: {why}")))?;
        client.store_auth_if_needed(reference.library().resolve_registry(), &auth).await;
        Ok(Session { client, auth, reference: reference.clone(), report })
    }

    fn is_plain(&self, reference: &ArtifactRef) -> bool {
        // An operator who names an authority for a loopback registry wants TLS.
        self.plain_http.contains(&reference.registry) || (reference.is_loopback() && self.authorities.is_empty())
    }
}

impl Session {
    /// Fetches a manifest and its digest, which matches the requested one.
    ///
    /// # Errors
    /// [`Error`]; [its reason](Reason::retry_after) tells whether a retry may help.
    pub async fn manifest(&self, of: &ArtifactRef) -> Result<(Vec<u8>, Digest), Error> {
        let reference = of.library();
        let asking = self.client.pull_manifest_raw(&reference, &self.auth, &ACCEPTED);
        let (bytes, _) = self.in_time(SMALL, of, asking).await?;
        if bytes.len() > MAX_MANIFEST_BYTES {
            let text = format!("{of}: its manifest has {} bytes; the maximum is {MAX_MANIFEST_BYTES}", bytes.len());
            return Err(Error::new(Reason::TooLarge, text));
        }
        let found = Digest::of(&bytes);
        match of.digest.filter(|expected| *expected != found) {
            Some(expected) => {
                Err(problem::mismatch(&format!("{of}: the manifest that the registry sends"), expected, found))
            }
            None => Ok((bytes.to_vec(), found)),
        }
    }

    /// Fetches a blob of exactly this digest and length.
    ///
    /// # Errors
    /// As [`Self::manifest`].
    pub(crate) async fn blob(&self, digest: Digest, size: u64) -> Result<Vec<u8>, Error> {
        let reference = self.reference.library();
        let of = &self.reference;
        let text = digest.to_string();
        let asking = self.client.pull_blob_stream(&reference, text.as_str());
        let mut stream = self.in_time(SMALL, of, asking).await?;
        let mut progress = Progress::new(self.report, format!("pulling {of}"), size);
        let reading = async {
            let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
            while let Some(part) = stream.next().await {
                let part = part.map_err(|why| problem::of_stream(&why, of))?;
                if (bytes.len() + part.len()) as u64 > size {
                    let text = format!("{of}: {digest} exceeds the length in its manifest");
                    return Err(Error::new(Reason::DigestMismatch, text));
                }
                bytes.extend_from_slice(&part);
                progress.add(part.len());
            }
            Ok(bytes)
        };
        let bytes = tokio::time::timeout(LARGE, reading).await.map_err(|_| problem::too_slow(of))??;
        let found = Digest::of(&bytes);
        if found == digest { Ok(bytes) } else { Err(problem::mismatch(&format!("{of}: a blob"), digest, found)) }
    }

    /// Uploads a blob, unless the registry has it.
    ///
    /// # Errors
    /// As [`Self::manifest`].
    pub async fn push_blob(&self, bytes: Vec<u8>) -> Result<(), Error> {
        let of = &self.reference;
        let reference = of.library();
        let digest = Digest::of(&bytes).to_string();
        // The push permission is requested first, because the existence check alone would obtain a token for pulling.
        let authorizing = self.client.auth(&reference, &self.auth, oci_client::RegistryOperation::Push);
        self.in_time(SMALL, of, authorizing).await?;
        if self.in_time(SMALL, of, self.client.blob_exists(&reference, &digest)).await? {
            return Ok(());
        }
        let size = bytes.len() as u64;
        let mut progress = Progress::new(self.report, format!("pushing {of}"), size);
        let bytes = Bytes::from(bytes);
        let parts = (0..bytes.len()).step_by(PART_BYTES).map(move |at| {
            let part = bytes.slice(at..bytes.len().min(at + PART_BYTES));
            progress.add(part.len());
            Ok::<_, OciDistributionError>(part)
        });
        let sending = self.client.push_blob_stream(&reference, stream::iter(parts), &digest, Some(size));
        self.in_time(LARGE, of, sending).await.map(drop)
    }

    /// Uploads a manifest under the tag of `to`.
    ///
    /// # Errors
    /// As [`Self::manifest`].
    pub async fn push_manifest(&self, to: &ArtifactRef, manifest: &[u8]) -> Result<(), Error> {
        let reference = to.library();
        let media_type = http::HeaderValue::from_static(MANIFEST);
        let sending = self.client.push_manifest_raw(&reference, manifest.to_vec(), media_type);
        self.in_time(SMALL, to, sending).await.map(drop)
    }

    async fn in_time<T>(
        &self,
        time: Duration,
        of: &ArtifactRef,
        request: impl Future<Output = oci_client::errors::Result<T>>,
    ) -> Result<T, Error> {
        let known = self.auth != RegistryAuth::Anonymous;
        match tokio::time::timeout(time, request).await {
            Ok(result) => result.map_err(|why| problem::of_request(&why, of, known)),
            Err(_) => Err(problem::too_slow(of)),
        }
    }
}

/// Reads certificates in PEM.
fn authorities(file: &Path) -> anyhow::Result<Vec<Vec<u8>>> {
    let shown = file.display();
    let pem = std::fs::read(file).with_context(|| format!("read --registry-ca-file {shown}"))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let found = found.ok().filter(|found| !found.is_empty());
    let found = found.with_context(|| format!("--registry-ca-file {shown} contains no certificates in PEM"))?;
    Ok(found.iter().map(|certificate| certificate.to_vec()).collect())
}
