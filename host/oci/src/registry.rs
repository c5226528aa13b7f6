//! The registry client: manifests and blobs of one repository.
//!
//! *Invariants*: plain HTTP is used only for registries set by the operator; credentials go only to their registry, or
//! to its token server; every request has a timeout, every response a maximum length.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use futures::stream;
use http::{HeaderMap, HeaderValue, header};
use reqwest::{Certificate, Client, Method};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::credentials::Credentials;
use crate::digest::Digest;
use crate::error::{Error, Reason};
use crate::layout::{MANIFEST, MAX_MANIFEST_BYTES};
use crate::options::ConnectOptions;
use crate::progress::{Progress, Report};
use crate::reference::ArtifactRef;
use crate::transport::{Failure, Redirects, Registry, body};
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
const ACCEPTED: &str = "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, \
    application/vnd.docker.distribution.manifest.v2+json, application/vnd.docker.distribution.manifest.list.v2+json";

/// Connection settings of registries.
#[derive(Clone, Debug, Default)]
pub struct Registries {
    /// Registries without TLS.
    plain_http: Vec<String>,
    /// Token servers on other hosts than their registries.
    token_servers: Vec<String>,
    /// Certificates in DER, in addition to those of the system.
    authorities: Vec<Vec<u8>>,
}

/// One repository, and the credentials for it.
pub struct Session {
    registry: Registry,
    has_credentials: bool,
    reference: ArtifactRef,
    report: Report,
}

impl Registries {
    /// Reads the certificate authorities; sends nothing.
    ///
    /// # Errors
    /// The file of certificates is unreadable or contains none. A retry helps only after the file changes.
    pub fn new(options: impl Into<ConnectOptions>) -> anyhow::Result<Self> {
        let ConnectOptions { plain_http, token_servers, ca_file } = options.into();
        let authorities = ca_file.as_deref().map(authorities).transpose()?;
        Ok(Self { plain_http, token_servers, authorities: authorities.unwrap_or_default() })
    }

    /// Opens a session for the repository of `reference`, with the credentials of `docker login`; sends nothing yet. `report`
    /// receives the progress of long transfers.
    ///
    /// # Errors
    /// The configured credentials are unusable.
    pub async fn open(&self, reference: &ArtifactRef, report: Report) -> Result<Session, Error> {
        let failed = |why: String| Error::new(Reason::RegistryFailed, why);
        let registry = reference.registry.clone();
        let credentials = tokio::task::spawn_blocking(move || credentials::of(&registry))
            .await
            .map_err(|why| failed(why.to_string()))??;
        self.session(reference, credentials, report).map_err(failed)
    }

    fn session(&self, reference: &ArtifactRef, credentials: Credentials, report: Report) -> Result<Session, String> {
        // If another provider is installed already, it works as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let certificates: Result<Vec<_>, _> = self.authorities.iter().map(|der| Certificate::from_der(der)).collect();
        let client = certificates.and_then(|certificates| {
            Client::builder()
                .tls_certs_merge(certificates)
                .connect_timeout(CONNECT)
                .read_timeout(SILENCE)
                .redirect(reqwest::redirect::Policy::none())
                .user_agent(concat!("pintle/", env!("CARGO_PKG_VERSION")))
                .build()
        });
        let client = client.map_err(|why| format!("create a registry client: {why}"))?;
        let has_credentials = credentials != Credentials::Anonymous;
        let is_plain = self.plain_http.contains(&reference.registry);
        let token_servers = self.token_servers.clone();
        let registry =
            Registry::new(client, is_plain, reference.host(), &reference.repository, credentials, token_servers)?;
        Ok(Session { registry, has_credentials, reference: reference.clone(), report })
    }
}

impl Session {
    /// Fetches a manifest and its digest, which matches the requested one.
    ///
    /// # Errors
    /// [`Error`]; [its reason](Reason::retry_after) shows whether a retry may help.
    pub async fn manifest(&self, of: &ArtifactRef) -> Result<(Vec<u8>, Digest), Error> {
        let path = format!("manifests/{}", of.version());
        let asking = async {
            let (answer, _) = self.registry.get(Method::GET, &path, Some(ACCEPTED), Redirects::Own).await?;
            body(answer, MAX_MANIFEST_BYTES).await
        };
        let bytes = match self.in_time(SMALL, of, asking).await {
            Err(why) if why.reason == Reason::TooLarge => {
                let text = format!("{of}: its manifest has more than {MAX_MANIFEST_BYTES} bytes");
                return Err(Error::new(Reason::TooLarge, text));
            }
            bytes => bytes?,
        };
        let found = Digest::of(&bytes);
        match of.digest.filter(|expected| *expected != found) {
            Some(expected) => {
                Err(problem::mismatch(&format!("{of}: the manifest that the registry sends"), expected, found))
            }
            None => Ok((bytes, found)),
        }
    }

    /// Fetches a blob of exactly this digest and length.
    ///
    /// # Errors
    /// As [`Self::manifest`].
    pub(crate) async fn blob(&self, digest: Digest, size: u64) -> Result<Vec<u8>, Error> {
        let of = &self.reference;
        let path = format!("blobs/{digest}");
        let asking = self.registry.get(Method::GET, &path, None, Redirects::Elsewhere);
        let (mut answer, elsewhere) = self.in_time(SMALL, of, asking).await?;
        let mut progress = Progress::new(self.report, format!("pulling {of}"), size);
        let reading = async {
            // The length is unverified, so memory is allocated as the content arrives.
            let mut bytes = Vec::new();
            while let Some(part) = answer.chunk().await.map_err(|why| problem::of_transport(&why, of))? {
                if (bytes.len() + part.len()) as u64 > size {
                    let text = format!("{of}: {digest} exceeds the length in its manifest");
                    return Err(Error::new(Reason::DigestMismatch, text));
                }
                bytes.extend_from_slice(&part);
                progress.add(part.len());
            }
            let found = Digest::of(&bytes);
            if found == digest { Ok(bytes) } else { Err(problem::mismatch(&format!("{of}: a blob"), digest, found)) }
        };
        let bytes = tokio::time::timeout(LARGE, reading).await.unwrap_or_else(|_| Err(problem::too_slow(of)));
        match elsewhere {
            Some(failure) => bytes.map_err(|why| {
                tracing::debug!(%why, "another host does not send a blob");
                problem::of_request(&failure, of, self.has_credentials)
            }),
            None => bytes,
        }
    }

    /// Uploads a blob, unless the registry has it.
    ///
    /// # Errors
    /// As [`Self::manifest`].
    pub async fn push_blob(&self, bytes: Vec<u8>) -> Result<(), Error> {
        let of = &self.reference;
        let digest = Digest::of(&bytes).to_string();
        let path = format!("blobs/{digest}");
        let asking = async {
            // The registry may store it elsewhere. If it is unavailable there, it is sent again.
            match self.registry.get(Method::HEAD, &path, None, Redirects::Elsewhere).await {
                Ok(_) => Ok(None),
                Err(Failure::Status(404, _) | Failure::Elsewhere(_)) => self.registry.start_upload().await.map(Some),
                Err(why) => Err(why),
            }
        };
        let Some(mut to) = self.in_time(SMALL, of, asking).await? else { return Ok(()) };
        to.query_pairs_mut().append_pair("digest", &digest);
        let size = bytes.len() as u64;
        let mut progress = Progress::new(self.report, format!("pushing {of}"), size);
        let bytes = Bytes::from(bytes);
        let parts = (0..bytes.len()).step_by(PART_BYTES).map(move |at| {
            let part = bytes.slice(at..bytes.len().min(at + PART_BYTES));
            progress.add(part.len());
            Ok::<_, std::io::Error>(part)
        });
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(size));
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        let content = reqwest::Body::wrap_stream(stream::iter(parts));
        self.in_time(LARGE, of, self.registry.put(to, headers, content)).await
    }

    /// Uploads a manifest under the tag of `to`.
    ///
    /// # Errors
    /// As [`Self::manifest`].
    pub async fn push_manifest(&self, to: &ArtifactRef, manifest: &[u8]) -> Result<(), Error> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MANIFEST));
        let sending = async {
            let url = self.registry.url(&format!("manifests/{}", to.version()))?;
            self.registry.put(url, headers, manifest.to_vec()).await
        };
        self.in_time(SMALL, to, sending).await
    }

    async fn in_time<T>(
        &self,
        time: Duration,
        of: &ArtifactRef,
        request: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Error> {
        match tokio::time::timeout(time, request).await {
            Ok(result) => result.map_err(|why| problem::of_request(&why, of, self.has_credentials)),
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

#[cfg(test)]
mod tests;
