//! Signatures of artifacts in cosign's format: the signed payload contains the manifest's digest and is a layer of a
//! separate artifact.
//!
//! *Source*: cosign's `specs/SIGNATURE_SPEC.md`; keyless signatures (certificates, transparency logs) are not supported.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::digest::Digest;
use crate::keys::{SigningKey, VerifyingKey};
use crate::layout::{Descriptor, MANIFEST, Manifest};
use crate::reference::ArtifactRef;

/// Media type of payloads.
const PAYLOAD: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
/// Media type of the config, which has no relevant content.
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
/// The annotation with the signature, in base64.
const ANNOTATION: &str = "dev.cosignproject.cosign/signature";
/// The type that payloads declare.
const TYPE: &str = "cosign container image signature";
/// Most signatures of one artifact that are read.
const MAX_SIGNATURES: usize = 32;
/// Longest payload that is read, in bytes.
const MAX_PAYLOAD_BYTES: u64 = 64 << 10;

/// A signature and its payload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Signature {
    /// The signed payload, in base64.
    payload: String,
    /// The signature in DER, in base64.
    signature: String,
}

impl Signature {
    /// Signs the manifest with this digest.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(crate) fn new(key: &SigningKey, reference: &ArtifactRef, manifest: Digest) -> anyhow::Result<Self> {
        let payload = json!({
            "critical": {
                "identity": {"docker-reference": format!("{}/{}", reference.registry, reference.repository)},
                "image": {"docker-manifest-digest": manifest.to_string()},
                "type": TYPE,
            },
            "optional": null,
        });
        let payload = payload.to_string();
        let signature = key.sign(payload.as_bytes())?;
        Ok(Self { payload: STANDARD.encode(payload), signature: STANDARD.encode(signature) })
    }

    /// A signature as a registry stores it.
    pub(crate) fn stored(payload: &[u8], signature: &str) -> Self {
        Self { payload: STANDARD.encode(payload), signature: signature.to_owned() }
    }

    /// Whether one of these keys signed the manifest with this digest. The location that the signature was made for
    /// (`docker-reference`) does not matter, as in cosign: the digest identifies the signed content.
    pub(crate) fn is_by(&self, keys: &[VerifyingKey], manifest: Digest) -> bool {
        let (Ok(payload), Ok(signature)) = (STANDARD.decode(&self.payload), STANDARD.decode(self.signature.trim()))
        else {
            return false;
        };
        keys.iter().any(|key| key.verifies(&payload, &signature)) && names(&payload, manifest)
    }
}

/// Whether a payload is about this manifest.
fn names(payload: &[u8], manifest: Digest) -> bool {
    let Ok(payload) = serde_json::from_slice::<Value>(payload) else { return false };
    let critical = &payload["critical"];
    critical["type"] == TYPE && critical["image"]["docker-manifest-digest"] == manifest.to_string()
}

/// The artifact with signatures: its manifest, and its blobs.
pub(crate) fn artifact(signatures: &[Signature]) -> anyhow::Result<(Vec<u8>, Vec<Vec<u8>>)> {
    let mut payloads = Vec::new();
    let mut layers = Vec::new();
    for Signature { payload, signature } in signatures {
        let payload = STANDARD.decode(payload)?;
        layers.push(Descriptor {
            media_type: PAYLOAD.to_owned(),
            digest: Digest::of(&payload).to_string(),
            size: payload.len() as u64,
            annotations: BTreeMap::from([(ANNOTATION.to_owned(), signature.clone())]),
        });
        payloads.push(payload);
    }
    let diff_ids: Vec<&String> = layers.iter().map(|layer| &layer.digest).collect();
    let config = serde_json::to_vec(&json!({
        "architecture": "", "created": "0001-01-01T00:00:00Z", "os": "", "config": {},
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
    }))?;
    let config_descriptor = Descriptor {
        media_type: CONFIG.to_owned(),
        digest: Digest::of(&config).to_string(),
        size: config.len() as u64,
        annotations: BTreeMap::new(),
    };
    let manifest = Manifest { schema_version: 2, media_type: MANIFEST.to_owned(), config: config_descriptor, layers };
    let manifest = serde_json::to_vec(&manifest)?;
    payloads.push(config);
    Ok((manifest, payloads))
}

/// Digests and lengths of payloads with their signatures, from their artifact. Other layers are skipped.
pub(crate) fn stored_in(manifest: &[u8]) -> Result<Vec<(Digest, u64, String)>, String> {
    let layers = Manifest::parse(manifest)?.layers;
    let ours = layers.iter().filter(|layer| layer.media_type == PAYLOAD && layer.size <= MAX_PAYLOAD_BYTES);
    let found = ours
        .filter_map(|layer| Some((layer.digest.parse().ok()?, layer.size, layer.annotations.get(ANNOTATION)?.clone())));
    Ok(found.take(MAX_SIGNATURES).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::generate;

    fn key() -> SigningKey {
        let folder = tempfile::tempdir().unwrap();
        SigningKey::read(&generate(&folder.path().join("k")).unwrap().0).unwrap()
    }

    #[test]
    fn a_signature_is_for_one_manifest_by_one_key() {
        let (key, other) = (key(), key());
        let manifest = Digest::of(b"manifest");
        let reference = "oci://localhost/a:1".parse().unwrap();
        let signature = Signature::new(&key, &reference, manifest).unwrap();
        assert!(signature.is_by(&[other.public(), key.public()], manifest));
        assert!(!signature.is_by(&[other.public()], manifest), "another key");
        assert!(!signature.is_by(&[key.public()], Digest::of(b"other")), "another manifest");
        assert!(!signature.is_by(&[], manifest), "no key");
        let edited = String::from_utf8(STANDARD.decode(&signature.payload).unwrap()).unwrap().replace("null", "{}");
        let edited = Signature::stored(edited.as_bytes(), &signature.signature);
        assert!(!edited.is_by(&[key.public()], manifest), "an edited payload");
        // The right key signed a payload of another type.
        let sign = |payload: &str| {
            let made = key.sign(payload.as_bytes()).unwrap();
            Signature::stored(payload.as_bytes(), &STANDARD.encode(made)).is_by(&[key.public()], manifest)
        };
        let image = format!(r#"{{"docker-manifest-digest":"{manifest}"}}"#);
        assert!(sign(&format!(r#"{{"critical":{{"type":"{TYPE}","image":{image}}}}}"#)));
        assert!(!sign(&format!(r#"{{"critical":{{"type":"atomic","image":{image}}}}}"#)));
        assert!(!sign(&format!(r#"{{"critical":{{"type":"{TYPE}"}},"optional":{{"image":{image}}}}}"#)));
        assert!(!sign(&manifest.to_string()));
    }

    /// Created by cosign 2.5 with `cosign sign --key`.
    #[test]
    fn a_signature_of_cosign_verifies_and_has_the_same_payload() {
        const KEY: &str = "-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEyR3rGJJjabI/9Nb8enfvT2dgHqII
/o158mD0ZM5TCDOOlqzqpIWHP2hyvICMYHn1hWebdMSSLOF6645f51rzcA==
-----END PUBLIC KEY-----
";
        const SIGNATURE: &str =
            "MEQCIByd9jtyioI6FHfL/jLznOLjWu/uX083jmfWjOtg8sujAiAfclcrXQe34elX57xMYgn/XVQ1uJKz1I7Fx9gO07hF2Q==";
        const PAYLOAD: &str = r#"{"critical":{"identity":{"docker-reference":"127.0.0.1:5999/t/b"},"image":{"docker-manifest-digest":"sha256:00dcd5703b9f0fac723012f30e1f152d369ae927abd03b4cfeecd32df3ae9305"},"type":"cosign container image signature"},"optional":null}"#;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cosign.pub");
        std::fs::write(&file, KEY).unwrap();
        let theirs = VerifyingKey::read(&file).unwrap();
        let manifest = "sha256:00dcd5703b9f0fac723012f30e1f152d369ae927abd03b4cfeecd32df3ae9305".parse().unwrap();
        let signature = Signature::stored(PAYLOAD.as_bytes(), SIGNATURE);
        assert!(signature.is_by(&[theirs], manifest));
        let ours = Signature::new(&key(), &"oci://127.0.0.1:5999/t/b:1".parse().unwrap(), manifest).unwrap();
        assert_eq!(ours.payload, signature.payload);
    }

    #[test]
    fn stored_signatures_are_read_back() {
        let (key, manifest) = (key(), Digest::of(b"manifest"));
        let reference = "oci://localhost/a:1".parse().unwrap();
        let two = [0, 1].map(|_| Signature::new(&key, &reference, manifest).unwrap());
        let (stored, blobs) = artifact(&two).unwrap();
        assert_eq!(blobs.len(), 3);
        let found: Vec<Signature> = stored_in(&stored)
            .unwrap()
            .iter()
            .map(|(digest, _, signature)| {
                let payload = blobs.iter().find(|blob| Digest::of(blob) == *digest).unwrap();
                Signature::stored(payload, signature)
            })
            .collect();
        assert_eq!(found, two);
    }
}
