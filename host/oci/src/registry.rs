//! Talking to registries: the waiting part, with the library.
//!
//! *Invariants*: plain HTTP only to this machine, or where it was asked for by name; credentials only to the registry that they are
//! for, or where it sends for tokens; every request has its time, every blob its length.

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
use crate::progress::{Progress, Tell};
use crate::reference::ArtifactRef;
use crate::{credentials, problem};

/// Longest wait for a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// Longest silence of a registry.
const SILENCE: Duration = Duration::from_secs(30);
/// Longest time for what is small: manifests, tokens, questions.
const SMALL: Duration = Duration::from_secs(60);
/// Longest time for a component: 64 MiB at 0.6 Mbit/s.
const LARGE: Duration = Duration::from_secs(15 * 60);
/// Of what is sent at once, so that progress shows.
const PART_BYTES: usize = 256 << 10;
/// What manifests may be; what else comes is told by its own type.
const ACCEPTED: [&str; 4] = [
    MANIFEST,
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
];

/// How registries are talked to.
#[derive(Clone, Debug, Default)]
pub struct Registries {
    /// Those that speak no TLS.
    plain_http: Vec<String>,
    /// Certificates in DER, besides those of the system.
    authorities: Vec<Vec<u8>>,
}

/// One repository, with the credentials for it.
pub struct Session {
    client: Client,
    auth: RegistryAuth,
    reference: ArtifactRef,
    tell: Tell,
}

impl Registries {
    /// Reads the certificate authorities; nothing is sent.
    ///
    /// # Errors
    /// The file of certificates cannot be read, or holds none. A retry helps once it has changed.
    pub fn new(options: impl Into<ConnectOptions>) -> anyhow::Result<Self> {
        let ConnectOptions { plain_http, ca_file } = options.into();
        let authorities = ca_file.as_deref().map(authorities).transpose()?;
        Ok(Self { plain_http, authorities: authorities.unwrap_or_default() })
    }

    /// A session for the repository of `reference`, with the credentials of `docker login`; nothing is sent yet. `tell` gets the
    /// progress of long transfers.
    ///
    /// # Errors
    /// The configured credentials cannot be used.
    pub async fn open(&self, reference: &ArtifactRef, tell: Tell) -> Result<Session, Error> {
        let failed = |why: String| Error::new(Reason::RegistryFailed, why);
        let registry = reference.registry.clone();
        let auth = tokio::task::spawn_blocking(move || credentials::of(&registry))
            .await
            .map_err(|why| failed(why.to_string()))??;
        // Another provider may be installed already; it does as well.
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
        let client = Client::try_from(config).map_err(|why| failed(format!("prepare to talk to registries: {why}")))?;
        client.store_auth_if_needed(reference.library().resolve_registry(), &auth).await;
        Ok(Session { client, auth, reference: reference.clone(), tell })
    }

    fn is_plain(&self, reference: &ArtifactRef) -> bool {
        // Who names an authority for a registry on this machine wants TLS.
        self.plain_http.contains(&reference.registry) || (reference.is_loopback() && self.authorities.is_empty())
    }
}

impl Session {
    /// A manifest and its digest, which is the one asked for.
    ///
    /// # Errors
    /// [`Error`]; [its reason](Reason::retry_after) says whether a retry may help.
    pub async fn manifest(&self, of: &ArtifactRef) -> Result<(Vec<u8>, Digest), Error> {
        let reference = of.library();
        let asking = self.client.pull_manifest_raw(&reference, &self.auth, &ACCEPTED);
        let (bytes, _) = self.in_time(SMALL, of, asking).await?;
        if bytes.len() > MAX_MANIFEST_BYTES {
            let text = format!("{of}: its manifest has {} bytes; at most {MAX_MANIFEST_BYTES} are taken", bytes.len());
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

    /// A blob of exactly this digest and length.
    ///
    /// # Errors
    /// As [`Self::manifest`].
    pub(crate) async fn blob(&self, digest: Digest, size: u64) -> Result<Vec<u8>, Error> {
        let reference = self.reference.library();
        let of = &self.reference;
        let text = digest.to_string();
        let asking = self.client.pull_blob_stream(&reference, text.as_str());
        let mut stream = self.in_time(SMALL, of, asking).await?;
        let mut progress = Progress::new(self.tell, format!("pulling {of}"), size);
        let reading = async {
            let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
            while let Some(part) = stream.next().await {
                let part = part.map_err(|why| problem::of_stream(&why, of))?;
                if (bytes.len() + part.len()) as u64 > size {
                    let text = format!("{of}: {digest} is longer than its manifest says");
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

    /// Sends a blob, unless it is there.
    ///
    /// # Errors
    /// As [`Self::manifest`].
    pub async fn push_blob(&self, bytes: Vec<u8>) -> Result<(), Error> {
        let of = &self.reference;
        let reference = of.library();
        let digest = Digest::of(&bytes).to_string();
        // Rights to push are asked for first, as the token of a pull would do for the question only.
        let authorizing = self.client.auth(&reference, &self.auth, oci_client::RegistryOperation::Push);
        self.in_time(SMALL, of, authorizing).await?;
        if self.in_time(SMALL, of, self.client.blob_exists(&reference, &digest)).await? {
            return Ok(());
        }
        let size = bytes.len() as u64;
        let mut progress = Progress::new(self.tell, format!("pushing {of}"), size);
        let bytes = Bytes::from(bytes);
        let parts = (0..bytes.len()).step_by(PART_BYTES).map(move |at| {
            let part = bytes.slice(at..bytes.len().min(at + PART_BYTES));
            progress.add(part.len());
            Ok::<_, OciDistributionError>(part)
        });
        let sending = self.client.push_blob_stream(&reference, stream::iter(parts), &digest, Some(size));
        self.in_time(LARGE, of, sending).await.map(drop)
    }

    /// Sends a manifest, under the tag of `to`.
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

/// Certificates in PEM.
fn authorities(file: &Path) -> anyhow::Result<Vec<Vec<u8>>> {
    let shown = file.display();
    let pem = std::fs::read(file).with_context(|| format!("read --registry-ca-file {shown}"))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let found = found.ok().filter(|found| !found.is_empty());
    let found = found.with_context(|| format!("--registry-ca-file {shown} holds no certificates in PEM"))?;
    Ok(found.iter().map(|certificate| certificate.to_vec()).collect())
}
