//! Private keys: RSA, and ECDSA on P-256, P-384 and P-521.
//!
//! *Source*: `k8s.io/client-go/util/keyutil` (`ParsePrivateKeyPEM`) for the file formats, `pkg/serviceaccount/jwt.go`
//! for the key types.

use der::asn1::{Any, BitString};
use der::oid::ObjectIdentifier;
use der::{Decode as _, Encode as _};
use p256::ecdsa::signature::Signer;
use p256::pkcs8::{DecodePrivateKey as _, EncodePublicKey as _};
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use x509_cert::spki::{AlgorithmIdentifierOwned, SubjectPublicKeyInfoOwned};

pub(crate) const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
pub(crate) const SHA256_WITH_RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.11");
pub(crate) const ECDSA_WITH_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.2");
pub(crate) const ECDSA_WITH_SHA384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.3");
pub(crate) const ECDSA_WITH_SHA512: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.4");

/// The accepted keys, for errors.
const ACCEPTED: &str = "write an RSA key of 2048 to 4096 bits, or an ECDSA key on P-256, P-384 or P-521";

/// A private key.
pub(crate) enum PrivateKey {
    Rsa(Box<RsaKeyPair>),
    P256(p256::ecdsa::SigningKey),
    P384(p384::ecdsa::SigningKey),
    P521(p521::ecdsa::SigningKey),
}

impl PrivateKey {
    /// Parses PEM: PKCS#1, SEC1 or PKCS#8, without a password. Other blocks, such as the parameters of a curve, are ignored.
    ///
    /// # Errors
    /// The error, and the accepted formats, without any part of the key.
    pub(crate) fn parse(pem: &[u8]) -> Result<Self, String> {
        let der = PrivateKeyDer::from_pem_slice(pem).map_err(|why| {
            let is_encrypted = pem.windows(9).any(|part| part == b"ENCRYPTED");
            match is_encrypted {
                true => "the private key is encrypted; write one without a password".to_owned(),
                false => format!("it contains no private key in PEM (PKCS#1, SEC1 or PKCS#8): {why}"),
            }
        })?;
        let rsa = |pair: Result<RsaKeyPair, ring::error::KeyRejected>| {
            pair.map(|pair| Self::Rsa(Box::new(pair)))
                .map_err(|why| format!("the RSA key cannot be used ({why}); {ACCEPTED}"))
        };
        match &der {
            PrivateKeyDer::Pkcs1(der) => rsa(RsaKeyPair::from_der(der.secret_pkcs1_der())),
            PrivateKeyDer::Sec1(der) => {
                let der = der.secret_sec1_der();
                on_a_curve(
                    || p256::SecretKey::from_sec1_der(der).ok(),
                    || p384::SecretKey::from_sec1_der(der).ok(),
                    || p521::SecretKey::from_sec1_der(der).ok(),
                )
            }
            PrivateKeyDer::Pkcs8(der) => {
                let der = der.secret_pkcs8_der();
                let algorithm = p256::pkcs8::PrivateKeyInfoRef::from_der(der).map(|info| info.algorithm.oid);
                match algorithm {
                    Ok(RSA) => rsa(RsaKeyPair::from_pkcs8(der)),
                    Ok(_) => on_a_curve(
                        || p256::SecretKey::from_pkcs8_der(der).ok(),
                        || p384::SecretKey::from_pkcs8_der(der).ok(),
                        || p521::SecretKey::from_pkcs8_der(der).ok(),
                    ),
                    Err(_) => Err("the private key is not valid PKCS#8".to_owned()),
                }
            }
            _ => Err(format!("the form of the private key is not known; {ACCEPTED}")),
        }
    }

    /// The public key: PKIX, in DER.
    pub(crate) fn public_der(&self) -> Result<Vec<u8>, String> {
        let failed = |why: &dyn std::fmt::Display| format!("write the public key: {why}");
        let of_curve = |document: Result<p256::pkcs8::Document, x509_cert::spki::Error>| {
            document.map(|document| document.as_bytes().to_vec()).map_err(|why| failed(&why))
        };
        match self {
            Self::Rsa(pair) => {
                let subject_public_key = BitString::from_bytes(pair.public().as_ref()).map_err(|why| failed(&why))?;
                let algorithm = AlgorithmIdentifierOwned { oid: RSA, parameters: Some(Any::null()) };
                SubjectPublicKeyInfoOwned { algorithm, subject_public_key }.to_der().map_err(|why| failed(&why))
            }
            Self::P256(key) => of_curve(key.verifying_key().to_public_key_der()),
            Self::P384(key) => of_curve(key.verifying_key().to_public_key_der()),
            Self::P521(key) => of_curve(key.verifying_key().to_public_key_der()),
        }
    }

    /// The `alg` of a JWS (RFC 7518).
    pub(crate) fn jws_algorithm(&self) -> &'static str {
        match self {
            Self::Rsa(_) => "RS256",
            Self::P256(_) => "ES256",
            Self::P384(_) => "ES384",
            Self::P521(_) => "ES512",
        }
    }

    /// The signature of a JWS: for ECDSA, the two numbers concatenated.
    pub(crate) fn sign_jws(&self, message: &[u8]) -> Result<Vec<u8>, String> {
        match self {
            Self::Rsa(pair) => sign_rsa(pair, message),
            Self::P256(key) => sign_ecdsa(key, message, |signature: p256::ecdsa::Signature| signature.to_vec()),
            Self::P384(key) => sign_ecdsa(key, message, |signature: p384::ecdsa::Signature| signature.to_vec()),
            Self::P521(key) => sign_ecdsa(key, message, |signature: p521::ecdsa::Signature| signature.to_vec()),
        }
    }

    /// The signature algorithm of certificates, chosen by the key as in Go's `crypto/x509`.
    pub(crate) fn certificate_algorithm(&self) -> AlgorithmIdentifierOwned {
        let of = |oid, parameters| AlgorithmIdentifierOwned { oid, parameters };
        match self {
            Self::Rsa(_) => of(SHA256_WITH_RSA, Some(Any::null())),
            Self::P256(_) => of(ECDSA_WITH_SHA256, None),
            Self::P384(_) => of(ECDSA_WITH_SHA384, None),
            Self::P521(_) => of(ECDSA_WITH_SHA512, None),
        }
    }

    /// The signature of a certificate: for ECDSA, in DER.
    pub(crate) fn sign_certificate(&self, message: &[u8]) -> Result<Vec<u8>, String> {
        match self {
            Self::Rsa(pair) => sign_rsa(pair, message),
            Self::P256(key) => {
                sign_ecdsa(key, message, |signature: p256::ecdsa::DerSignature| signature.as_bytes().to_vec())
            }
            Self::P384(key) => {
                sign_ecdsa(key, message, |signature: p384::ecdsa::DerSignature| signature.as_bytes().to_vec())
            }
            Self::P521(key) => {
                sign_ecdsa(key, message, |signature: p521::ecdsa::DerSignature| signature.as_bytes().to_vec())
            }
        }
    }
}

/// The curve of the key's parameters, or without parameters, the one for its length.
fn on_a_curve(
    p256: impl FnOnce() -> Option<p256::SecretKey>,
    p384: impl FnOnce() -> Option<p384::SecretKey>,
    p521: impl FnOnce() -> Option<p521::SecretKey>,
) -> Result<PrivateKey, String> {
    let key = p256().map(|key| PrivateKey::P256(key.into()));
    let key = key.or_else(|| p384().map(|key| PrivateKey::P384(key.into())));
    let key = key.or_else(|| p521().map(|key| PrivateKey::P521(key.into())));
    key.ok_or_else(|| format!("the key cannot be used; {ACCEPTED}"))
}

fn sign_ecdsa<S>(key: &impl Signer<S>, message: &[u8], bytes: impl FnOnce(S) -> Vec<u8>) -> Result<Vec<u8>, String> {
    key.try_sign(message).map(bytes).map_err(|why| format!("sign: {why}"))
}

fn sign_rsa(pair: &RsaKeyPair, message: &[u8]) -> Result<Vec<u8>, String> {
    let mut signature = vec![0; pair.public().modulus_len()];
    let signed = pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature);
    signed.map(|()| signature).map_err(|_| "sign: the system has no random numbers".to_owned())
}
