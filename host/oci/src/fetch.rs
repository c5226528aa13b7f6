//! Fetches components from registries and files.

use std::path::Path;

use crate::attached::signatures;
use crate::cache::Cache;
use crate::compression::decompressed;
use crate::digest::Digest;
use crate::error::{Error, Reason};
use crate::file::read_component;
use crate::layout::{Layer, MAX_MANIFEST_BYTES, component_of};
use crate::options::Options;
use crate::problem;
use crate::progress::Report;
use crate::reference::{ArtifactRef, ComponentSource};
use crate::registry::{Registries, Session};
use crate::trust::{Evidence, Proof, Trust, detached};

/// A component and its proof.
#[derive(Clone, Debug)]
pub struct Pulled {
    /// Origin for humans: a path, or a reference with the digest of the manifest.
    pub origin: String,
    /// The component's bytes.
    pub bytes: Vec<u8>,
    /// Its signatures, not verified yet.
    pub proof: Proof,
}

/// Pulls components.
#[derive(Clone, Debug)]
pub struct Fetcher {
    registries: Registries,
    cache: Option<Cache>,
    trust: Trust,
    report: Report,
}

impl Fetcher {
    /// Creates a fetcher; sends nothing yet. `cache` stores blobs, for starts while the registry is down.
    ///
    /// # Errors
    /// A file of keys or certificates is unreadable or invalid.
    pub fn new(options: impl Into<Options>, cache: Option<Cache>, report: Report) -> anyhow::Result<Self> {
        let Options { verify_keys, connect } = options.into();
        Ok(Self { trust: Trust::read(&verify_keys)?, registries: Registries::new(connect)?, cache, report })
    }

    /// The operator's trusted keys.
    pub fn trust(&self) -> &Trust {
        &self.trust
    }

    async fn open(&self, reference: &ArtifactRef) -> Result<Session, Error> {
        self.registries.open(reference, self.report).await
    }

    /// Pulls a component from a registry. A reference that is pinned by digest and cached needs no registry. The result
    /// contains the signatures, which this function does not verify.
    ///
    /// # Errors
    /// [`Error`]; [its reason](crate::Reason::retry_after) shows whether a retry may help.
    pub async fn pull(&self, reference: &ArtifactRef) -> Result<Pulled, Error> {
        // Credentials are read only when the registry is needed.
        let mut session = None;
        let (manifest, digest) = match self.cached(reference.digest, MAX_MANIFEST_BYTES as u64).await {
            Some(found) => found,
            None => {
                let (manifest, digest) = self.session(&mut session, reference).await?.manifest(reference).await?;
                self.keep(digest, &manifest).await;
                (manifest, digest)
            }
        };
        let pinned = reference.pinned(digest);
        let origin = pinned.to_string();
        let layer = component_of(&origin, &manifest)?;
        let blob = match self.cached(Some(layer.blob), layer.size).await {
            Some((blob, _)) => blob,
            None => {
                let blob = self.session(&mut session, reference).await?.blob(layer.blob, layer.size).await?;
                self.keep(layer.blob, &blob).await;
                blob
            }
        };
        let bytes = unpacked(&origin, blob, layer).await?;
        let kept = self.cache.as_ref().map(|cache| cache.signatures(digest)).unwrap_or_default();
        let proof = Proof::of_artifact(&manifest, kept);
        // A valid signature stays valid, because it covers the digest.
        let is_proven =
            self.trust.demands() && self.trust.check(&origin, &bytes, &Evidence::Shown(proof.clone())).is_ok();
        if is_proven {
            return Ok(Pulled { origin, bytes, proof });
        }
        if !self.needs_signatures() {
            return Ok(Pulled { origin, bytes, proof });
        }
        let signatures = signatures(self.session(&mut session, reference).await?, &pinned, digest).await?;
        if let Some(cache) = self.cache.as_ref().filter(|_| !signatures.is_empty()) {
            cache.keep_signatures(digest, &signatures);
        }
        Ok(Pulled { origin, bytes, proof: Proof::of_artifact(&manifest, signatures) })
    }

    /// A host without keys needs no signatures; a command sends them to a host, which has its own keys.
    fn needs_signatures(&self) -> bool {
        self.trust.demands() || self.cache.is_none()
    }

    async fn session<'a>(
        &self,
        session: &'a mut Option<Session>,
        reference: &ArtifactRef,
    ) -> Result<&'a Session, Error> {
        let open = match session.take() {
            Some(open) => open,
            None => self.open(reference).await?,
        };
        Ok(session.insert(open))
    }

    async fn cached(&self, digest: Option<Digest>, max_bytes: u64) -> Option<(Vec<u8>, Digest)> {
        let (cache, digest) = (self.cache.clone()?, digest?);
        let reading = tokio::task::spawn_blocking(move || cache.blob(digest, max_bytes));
        Some((reading.await.ok()??, digest))
    }

    async fn keep(&self, digest: Digest, bytes: &[u8]) {
        let Some(cache) = self.cache.clone() else { return };
        let bytes = bytes.to_vec();
        // The cache logs its own errors.
        let _ = tokio::task::spawn_blocking(move || cache.keep_blob(digest, &bytes)).await;
    }
}

/// The component of a blob.
async fn unpacked(origin: &str, blob: Vec<u8>, layer: Layer) -> Result<Vec<u8>, Error> {
    if layer.component == layer.blob {
        return Ok(blob);
    }
    let what = origin.to_owned();
    let unpacking = tokio::task::spawn_blocking(move || {
        let bytes = decompressed(&what, blob)?;
        let found = Digest::of(&bytes);
        if found == layer.component { Ok(bytes) } else { Err(problem::mismatch(&what, layer.component, found)) }
    });
    unpacking.await.unwrap_or_else(|why| Err(Error::new(Reason::Unreadable, format!("{origin}: {why}"))))
}

/// Reads a file, or pulls a component from a registry.
///
/// # Errors
/// As [`Fetcher::pull`]; also if a file is unreadable or exceeds the limit of a component.
pub async fn read_source(fetcher: &Fetcher, source: &ComponentSource) -> Result<Pulled, Error> {
    match source {
        ComponentSource::Registry(reference) => fetcher.pull(reference).await,
        ComponentSource::Path(path) => read_file(path),
    }
}

fn read_file(path: &Path) -> Result<Pulled, Error> {
    let bytes = read_component(path)?;
    Ok(Pulled { origin: path.display().to_string(), bytes, proof: detached(path)? })
}
