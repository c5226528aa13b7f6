//! Keys for signing and verification: ECDSA on P-256 with SHA-256, in PEM.
//!
//! Private keys are unencrypted PKCS#8, so only the owner may have access to the file. Public keys have the format of
//! `cosign` and `openssl`.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey,
};
use rustls::pki_types::pem::{Error as PemError, PemObject as _};
use rustls::pki_types::{PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer};

/// The bytes before the point in the only valid DER encoding of a public key on P-256: RFC 5480.
const P256_KEY_INFO: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
/// Length of an uncompressed point on P-256, in bytes.
const POINT_BYTES: usize = 65;
/// Longest key file, in bytes.
const MAX_KEY_BYTES: u64 = 64 << 10;

/// A private key.
pub struct SigningKey {
    pair: EcdsaKeyPair,
    random: SystemRandom,
}

impl SigningKey {
    /// Reads a private key in PEM (PKCS#8, without password).
    ///
    /// # Errors
    /// The file is unreadable, accessible to other users, or not such a key.
    pub fn read(file: &Path) -> anyhow::Result<Self> {
        let shown = file.display();
        let about = fs::metadata(file).with_context(|| format!("read the key {shown}"))?;
        if about.mode() & 0o077 != 0 {
            bail!("the key {shown} is accessible to other users; run chmod 600 {shown}");
        }
        let text = read(file)?;
        Self::parse(&text).with_context(|| format!("the key {shown}"))
    }

    fn parse(pem: &str) -> anyhow::Result<Self> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| {
            if pem.contains("ENCRYPTED") {
                anyhow!("is encrypted; only keys without a password are supported; `pintle keygen` creates one")
            } else if pem.contains("BEGIN EC PRIVATE KEY") {
                anyhow!("is not PKCS#8: convert it with `openssl pkcs8 -topk8 -nocrypt`")
            } else {
                anyhow!("is not a private key in PEM (PKCS#8); `pintle keygen` creates one")
            }
        })?;
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, der.secret_pkcs8_der(), &random)
            .map_err(|why| anyhow!("is not an ECDSA key on P-256 ({why}); `pintle keygen` creates one"))?;
        Ok(Self { pair, random })
    }

    /// A signature over these bytes, in DER.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn sign(&self, bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
        let signed =
            self.pair.sign(&self.random, bytes).map_err(|_| anyhow!("sign: the system has no random numbers"))?;
        Ok(signed.as_ref().to_vec())
    }

    /// The matching public key.
    pub(crate) fn public(&self) -> VerifyingKey {
        VerifyingKey { point: self.pair.public_key().as_ref().to_vec() }
    }
}

/// A public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VerifyingKey {
    /// The uncompressed point.
    point: Vec<u8>,
}

impl VerifyingKey {
    /// Reads a public key in PEM.
    ///
    /// # Errors
    /// The file is unreadable or not such a key.
    pub(crate) fn read(file: &Path) -> anyhow::Result<Self> {
        let text = read(file)?;
        Self::parse(&text).with_context(|| format!("the key {}", file.display()))
    }

    fn parse(pem: &str) -> anyhow::Result<Self> {
        let der = SubjectPublicKeyInfoDer::from_pem_slice(pem.as_bytes()).map_err(|why| match why {
            PemError::NoItemsFound if pem.contains("PRIVATE KEY") => {
                anyhow!("is a private key; use the public key to verify")
            }
            _ => anyhow!("is not a public key in PEM"),
        })?;
        let point = der.strip_prefix(P256_KEY_INFO.as_slice()).filter(|point| point.len() == POINT_BYTES);
        let point = point.context("is not an ECDSA key on P-256, the only supported kind")?;
        Ok(Self { point: point.to_vec() })
    }

    /// Whether `signature` (in DER) covers these bytes and was made with the matching private key.
    pub(crate) fn verifies(&self, bytes: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, &self.point).verify(bytes, signature).is_ok()
    }

    fn pem(&self) -> String {
        pem("PUBLIC KEY", &[P256_KEY_INFO.as_slice(), &self.point].concat())
    }
}

/// Creates a key pair in `PREFIX.key` and `PREFIX.pub`; returns their paths.
///
/// # Errors
/// One of the files exists already, or cannot be written.
pub fn generate(prefix: &Path) -> anyhow::Result<(PathBuf, PathBuf)> {
    let file = |extension: &str| {
        let mut name = prefix.as_os_str().to_owned();
        name.push(extension);
        PathBuf::from(name)
    };
    let (private, public) = (file(".key"), file(".pub"));
    let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &SystemRandom::new())
        .map_err(|_| anyhow!("make a key: the system has no random numbers"))?;
    let key = pem("PRIVATE KEY", document.as_ref());
    let public_pem = SigningKey::parse(&key)?.public().pem();
    create(&private, 0o600, &key)?;
    create(&public, 0o644, &public_pem)?;
    Ok((private, public))
}

fn create(file: &Path, mode: u32, text: &str) -> anyhow::Result<()> {
    let opened = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(file);
    let mut opened = opened.with_context(|| format!("create {}", file.display()))?;
    opened.write_all(text.as_bytes()).with_context(|| format!("write {}", file.display()))
}

fn read(file: &Path) -> anyhow::Result<String> {
    let shown = file.display();
    let about = fs::metadata(file).with_context(|| format!("read the key {shown}"))?;
    if !about.is_file() || about.len() > MAX_KEY_BYTES {
        bail!("{shown} is not a key in PEM");
    }
    fs::read_to_string(file).with_context(|| format!("read the key {shown}"))
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    // Base64 is ASCII, so any cut is a character boundary.
    let lines: Vec<String> =
        text.as_bytes().chunks(64).map(|line| String::from_utf8_lossy(line).into_owned()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn only_the_matching_public_key_verifies_a_signature() {
        let folder = tempfile::tempdir().unwrap();
        let (private, public) = generate(&folder.path().join("a")).unwrap();
        let (_, other) = generate(&folder.path().join("b")).unwrap();
        let key = SigningKey::read(&private).unwrap();
        let signature = key.sign(b"text").unwrap();
        let (public, other) = (VerifyingKey::read(&public).unwrap(), VerifyingKey::read(&other).unwrap());
        assert_eq!(key.public(), public);
        assert!(public.verifies(b"text", &signature));
        assert!(!public.verifies(b"texT", &signature) && !other.verifies(b"text", &signature));
        assert!(!public.verifies(b"text", b"") && !public.verifies(b"text", &signature[1..]));
    }

    #[test]
    fn a_key_that_others_can_read_is_rejected_and_none_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let (private, _) = generate(&folder.path().join("a")).unwrap();
        assert_eq!(fs::metadata(&private).unwrap().mode() & 0o777, 0o600);
        assert!(generate(&folder.path().join("a")).unwrap_err().to_string().starts_with("create "));
        fs::set_permissions(&private, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(SigningKey::read(&private).err().unwrap().to_string().contains("chmod 600"));
    }

    #[test]
    fn unsupported_keys_are_rejected_by_kind() {
        let why = |pem: &str| SigningKey::parse(pem).err().unwrap().to_string();
        assert!(why("-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----").starts_with("is encrypted"));
        assert!(why("-----BEGIN EC PRIVATE KEY-----").contains("openssl pkcs8"));
        assert!(why("x").starts_with("is not a private key"));
        assert!(why(&pem("PRIVATE KEY", b"rubbish")).starts_with("is not an ECDSA key on P-256"));
        let why = |pem: &str| VerifyingKey::parse(pem).unwrap_err().to_string();
        assert!(why(&pem("PRIVATE KEY", b"")).starts_with("is a private key"));
        assert!(why("x").starts_with("is not a public key"));
        assert!(why(&pem("PUBLIC KEY", b"rubbish")).starts_with("is not an ECDSA key on P-256"));
    }
}
