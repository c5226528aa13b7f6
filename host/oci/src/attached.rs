//! Signatures next to the manifest that they sign: reading them from a registry and adding one.

use crate::digest::Digest;
use crate::error::{Error, Reason};
use crate::keys::SigningKey;
use crate::reference::ArtifactRef;
use crate::registry::Session;
use crate::signature::{self, Signature};

/// The signatures of a manifest; empty if there are none.
pub(crate) async fn signatures(
    session: &Session,
    reference: &ArtifactRef,
    manifest: Digest,
) -> Result<Vec<Signature>, Error> {
    let place = reference.signatures_of(manifest);
    let stored = match session.manifest(&place).await {
        Ok((stored, _)) => stored,
        Err(why) if why.reason == Reason::NoSuchArtifact => return Ok(Vec::new()),
        Err(why) => return Err(why),
    };
    let stored = signature::stored_in(&stored)
        .map_err(|why| Error::new(Reason::Untrusted, format!("{place} holds no signatures: {why}")))?;
    let mut found = Vec::new();
    for (payload, size, signature) in stored {
        let payload = session.blob(payload, size).await?;
        found.push(Signature::stored(&payload, &signature));
    }
    Ok(found)
}

/// Adds a signature to those of a manifest. Concurrent signers may overwrite each other's signature, as with cosign.
///
/// # Errors
/// [`Error`], whose reason shows whether a retry may help; or the system has no random numbers. An interrupted call adds
/// nothing: the manifest of all signatures is sent last.
pub async fn add_signature(
    session: &Session,
    key: &SigningKey,
    reference: &ArtifactRef,
    manifest: Digest,
) -> anyhow::Result<()> {
    let mut all = signatures(session, reference, manifest).await?;
    if all.iter().any(|signature| signature.is_by(&[key.public()], manifest)) {
        return Ok(());
    }
    all.push(Signature::new(key, reference, manifest)?);
    let (stored, blobs) = signature::artifact(&all)?;
    for blob in blobs {
        session.push_blob(blob).await?;
    }
    Ok(session.push_manifest(&reference.signatures_of(manifest), &stored).await?)
}
