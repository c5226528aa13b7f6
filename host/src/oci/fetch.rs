//! Getting components, whatever names them.

use std::path::Path;

use super::cache::Cache;
use super::digest::Digest;
use super::layout::{MAX_MANIFEST_BYTES, component_of};
use super::progress::Tell;
use super::reference::{ArtifactRef, ComponentSource};
use super::registry::{Registries, Session};
use super::signature::{self, Signature};
use super::trust::{Evidence, Proof, Trust, detached};
use crate::cli::oci::RegistryArgs;
use crate::folder::read_component;
use crate::wire::{Refusal, reason};

/// A component with what can be shown for it.
#[derive(Clone, Debug)]
pub(crate) struct Pulled {
    /// Where it is from, for humans: a path, or a reference with the digest of the manifest.
    pub(crate) origin: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) proof: Proof,
}

/// Pulls components.
#[derive(Clone, Debug)]
pub(crate) struct Fetcher {
    registries: Registries,
    cache: Option<Cache>,
    trust: Trust,
    tell: Tell,
}

impl Fetcher {
    /// Nothing is asked of the network yet. `cache` is for what must start again without the registry.
    ///
    /// # Errors
    /// A file of keys or certificates is none.
    pub(crate) fn new(args: &RegistryArgs, cache: Option<Cache>, tell: Tell) -> anyhow::Result<Self> {
        let trust = Trust::read(&args.verify_key)?;
        Ok(Self { registries: Registries::new(&args.connect)?, cache, trust, tell })
    }

    /// Whom the operator trusts.
    pub(crate) fn trust(&self) -> &Trust {
        &self.trust
    }

    pub(super) async fn open(&self, reference: &ArtifactRef) -> Result<Session, Refusal> {
        self.registries.open(reference, self.tell).await
    }

    /// A component from a registry. What is pinned by digest and cached needs no registry. Signatures come with it, and are not
    /// judged here.
    ///
    /// # Errors
    /// [`Refusal`]; [it says](Refusal::retry_after) whether trying again may help.
    pub(crate) async fn pull(&self, reference: &ArtifactRef) -> Result<Pulled, Refusal> {
        // Only who needs the registry asks for credentials.
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
        let (layer, size) = component_of(&origin, &manifest)?;
        let bytes = match self.cached(Some(layer), size).await {
            Some((bytes, _)) => bytes,
            None => {
                let bytes = self.session(&mut session, reference).await?.blob(layer, size).await?;
                self.keep(layer, &bytes).await;
                bytes
            }
        };
        let kept = self.cache.as_ref().map(|cache| cache.signatures(digest)).unwrap_or_default();
        let proof = Proof::of_artifact(&manifest, kept);
        // A signature that holds once holds for ever: it is over the digest.
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

    /// A host without keys asks for none; a command sends them to a host whose keys it does not know.
    fn needs_signatures(&self) -> bool {
        self.trust.demands() || self.cache.is_none()
    }

    async fn session<'a>(
        &self,
        session: &'a mut Option<Session>,
        reference: &ArtifactRef,
    ) -> Result<&'a Session, Refusal> {
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
        // That it could not be kept is told there.
        let _ = tokio::task::spawn_blocking(move || cache.keep_blob(digest, &bytes)).await;
    }
}

/// The signatures of a manifest; none if there are none.
pub(super) async fn signatures(
    session: &Session,
    reference: &ArtifactRef,
    manifest: Digest,
) -> Result<Vec<Signature>, Refusal> {
    let place = reference.signatures_of(manifest);
    let stored = match session.manifest(&place).await {
        Ok((stored, _)) => stored,
        Err(why) if why.reason == reason::NO_ARTIFACT => return Ok(Vec::new()),
        Err(why) => return Err(why),
    };
    let stored = signature::stored_in(&stored)
        .map_err(|why| Refusal::new(reason::UNTRUSTED, format!("{place} holds no signatures: {why}")))?;
    let mut found = Vec::new();
    for (payload, size, signature) in stored {
        let payload = session.blob(payload, size).await?;
        found.push(Signature::stored(&payload, &signature));
    }
    Ok(found)
}

/// A file, or a component from a registry.
///
/// # Errors
/// As [`Fetcher::pull`]; a file cannot be read, or is longer than a component may be.
pub(crate) async fn read_source(fetcher: &Fetcher, source: &ComponentSource) -> Result<Pulled, Refusal> {
    match source {
        ComponentSource::Registry(reference) => fetcher.pull(reference).await,
        ComponentSource::Path(path) => read_file(path),
    }
}

fn read_file(path: &Path) -> Result<Pulled, Refusal> {
    let bytes = read_component(path)?;
    Ok(Pulled { origin: path.display().to_string(), bytes, proof: detached(path)? })
}
