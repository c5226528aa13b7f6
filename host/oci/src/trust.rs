//! The trust decision: which components may run.
//!
//! Without keys, every component may run. With keys, a component from a registry needs a signature of its manifest by
//! one of them, and a component from a file or a ConfigMap a signature of itself: `FILE.sig` next to it, as created by
//! `cosign sign-blob`. Built-in components need none.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::error::{Error, Reason};
use crate::file::read;
use crate::keys::VerifyingKey;
use crate::layout::component_of;
use crate::problem;
use crate::signature::Signature;

/// Longest signature file, in bytes; a base64 signature has about a hundred.
const MAX_SIGNATURE_BYTES: usize = 4096;

/// Trusted keys, one of which must have signed.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    keys: Vec<VerifyingKey>,
}

/// Evidence for a component.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Proof {
    /// A signature of the component itself: DER in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    detached: Option<String>,
    /// The manifest of the component, in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    manifest: Option<String>,
    /// The signatures of that manifest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    signatures: Vec<Signature>,
}

/// The grounds on which a component may be trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// It is built in, was verified before, or was just built by this process.
    Own,
    /// The evidence must be verified.
    Shown(Proof),
}

impl Proof {
    /// The proof of a component from a registry.
    pub(crate) fn of_artifact(manifest: &[u8], signatures: Vec<Signature>) -> Self {
        Self { detached: None, manifest: Some(STANDARD.encode(manifest)), signatures }
    }

    /// The proof of a component with an optional signature of itself.
    pub fn of_itself(signature: Option<String>) -> Self {
        Self { detached: signature, ..Self::default() }
    }

    /// The signature of the component itself, in base64.
    pub fn of_component(&self) -> Option<&str> {
        self.detached.as_deref()
    }

    /// The number of signatures, by any key.
    pub fn n_signatures(&self) -> usize {
        usize::from(self.detached.is_some()) + self.signatures.len()
    }

    /// Whether there is no evidence.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Trust {
    /// Reads public keys in PEM.
    ///
    /// # Errors
    /// A file is unreadable or not a public key. A retry helps only after the file changes.
    pub fn read(files: &[PathBuf]) -> anyhow::Result<Self> {
        Ok(Self { keys: files.iter().map(|file| VerifyingKey::read(file)).collect::<anyhow::Result<_>>()? })
    }

    /// Whether signatures are required.
    pub fn demands(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Checks whether a component may run. `origin` appears in the error.
    ///
    /// # Errors
    /// [`Error`]: the component is not signed, or not by a trusted key. A retry helps only after it is signed.
    pub fn check(&self, origin: &str, component: &[u8], evidence: &Evidence) -> Result<(), Error> {
        let Evidence::Shown(proof) = evidence else { return Ok(()) };
        if !self.demands() {
            return Ok(());
        }
        if self.signed_itself(component, proof) || self.signed_by_manifest(origin, component, proof)? {
            return Ok(());
        }
        let n_keys = self.keys.len();
        let none = proof.detached.is_none() && proof.signatures.is_empty();
        Err(if none {
            Error::new(
                Reason::Unsigned,
                format!("{origin} has no signature, and --verify-key requires one; `pintle sign` creates it"),
            )
        } else {
            Error::new(
                Reason::Untrusted,
                format!("{origin}: none of its signatures is by a key of --verify-key ({n_keys} configured)"),
            )
        })
    }

    fn signed_itself(&self, component: &[u8], proof: &Proof) -> bool {
        let signature = proof.detached.as_ref().and_then(|text| STANDARD.decode(text.trim()).ok());
        signature.is_some_and(|signature| self.keys.iter().any(|key| key.verifies(component, &signature)))
    }

    fn signed_by_manifest(&self, origin: &str, component: &[u8], proof: &Proof) -> Result<bool, Error> {
        let Some(manifest) = proof.manifest.as_ref().and_then(|text| STANDARD.decode(text).ok()) else {
            return Ok(false);
        };
        let digest = Digest::of(&manifest);
        if !proof.signatures.iter().any(|signature| signature.is_by(&self.keys, digest)) {
            return Ok(false);
        }
        let expected = component_of(origin, &manifest)?.component;
        let found = Digest::of(component);
        if expected == found { Ok(true) } else { Err(problem::mismatch(origin, expected, found)) }
    }
}

/// The path of a file's signature.
pub fn beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".sig");
    name.into()
}

/// The proof of a file: the signature next to it, if there is one.
///
/// # Errors
/// The signature exists and is unreadable.
pub fn detached(file: &Path) -> Result<Proof, Error> {
    let signature = beside(file);
    if !signature.exists() {
        return Ok(Proof::default());
    }
    let text = read(&signature, MAX_SIGNATURE_BYTES)?;
    Ok(Proof::of_itself(Some(String::from_utf8_lossy(&text).trim().to_owned())))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::keys::{SigningKey, generate};
    use crate::layout::{COMPONENT, CONFIG, MANIFEST};

    fn key() -> SigningKey {
        let folder = tempfile::tempdir().unwrap();
        SigningKey::read(&generate(&folder.path().join("k")).unwrap().0).unwrap()
    }

    fn manifest(component: &[u8]) -> Vec<u8> {
        let descriptor = |media_type: &str, digest: Digest, size: usize| json!({"mediaType": media_type, "digest": digest.to_string(), "size": size});
        json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "config": descriptor(CONFIG, Digest::of(b""), 0),
            "layers": [descriptor(COMPONENT, Digest::of(component), component.len())],
        })
        .to_string()
        .into_bytes()
    }

    fn artifact(key: &SigningKey, component: &[u8]) -> Proof {
        let manifest = manifest(component);
        let reference = "oci://localhost/a:1".parse().unwrap();
        let signature = Signature::new(key, &reference, Digest::of(&manifest)).unwrap();
        Proof::of_artifact(&manifest, vec![signature])
    }

    fn reason_of(trust: &Trust, component: &[u8], proof: Proof) -> String {
        trust.check("x", component, &Evidence::Shown(proof)).err().map(|why| why.reason.to_string()).unwrap_or_default()
    }

    #[test]
    fn without_keys_everything_may_run_and_with_keys_only_components_that_they_signed() {
        let (key, other) = (key(), key());
        let trust = Trust { keys: vec![key.public()] };
        assert_eq!(reason_of(&Trust::default(), b"c", Proof::default()), "");
        assert_eq!(trust.check("x", b"c", &Evidence::Own), Ok(()));
        assert_eq!(reason_of(&trust, b"c", Proof::default()), "Unsigned");
        assert_eq!(reason_of(&trust, b"c", artifact(&key, b"c")), "");
        assert_eq!(reason_of(&trust, b"c", artifact(&other, b"c")), "Untrusted");
        let unsigned = Proof { signatures: Vec::new(), ..artifact(&key, b"c") };
        assert_eq!(reason_of(&trust, b"c", unsigned), "Unsigned");
    }

    #[test]
    fn a_proof_of_another_component_proves_nothing() {
        let key = key();
        let trust = Trust { keys: vec![key.public()] };
        assert_eq!(reason_of(&trust, b"other", artifact(&key, b"c")), "DigestMismatch");
        let swapped = Proof { manifest: artifact(&key, b"other").manifest, ..artifact(&key, b"c") };
        assert_eq!(reason_of(&trust, b"other", swapped), "Untrusted");
    }

    #[test]
    fn a_file_is_verified_by_the_signature_next_to_it() {
        let (key, folder) = (key(), tempfile::tempdir().unwrap());
        let trust = Trust { keys: vec![key.public()] };
        let file = folder.path().join("a.wasm");
        assert_eq!(reason_of(&trust, b"c", detached(&file).unwrap()), "Unsigned");
        std::fs::write(beside(&file), format!("{}\n", STANDARD.encode(key.sign(b"c").unwrap()))).unwrap();
        let proof = detached(&file).unwrap();
        assert_eq!(reason_of(&trust, b"c", proof.clone()), "");
        assert_eq!(reason_of(&trust, b"C", proof), "Untrusted");
        std::fs::write(beside(&file), vec![b'A'; MAX_SIGNATURE_BYTES + 1]).unwrap();
        assert_eq!(detached(&file).unwrap_err().reason, Reason::TooLarge);
    }
}
