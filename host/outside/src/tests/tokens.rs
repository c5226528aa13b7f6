//! Tokens with each key type.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use p521::ecdsa::signature::Verifier as _;
use p521::pkcs8::DecodePublicKey as _;
use ring::signature::{self, UnparsedPublicKey};
use x509_cert::der::Decode as _;
use x509_cert::spki::SubjectPublicKeyInfoOwned;

use super::test_key;
use crate::jwt::TokenSigner;
use crate::keys::PrivateKey;

/// Key files; `alg`; `kid` from `openssl pkey -pubout -outform DER | openssl dgst -sha256 -binary | openssl base64`.
const KEYS: [(&[&str], &str, &str); 4] = [
    (&["rsa-pkcs1", "rsa-pkcs8"], "RS256", "Om9rlhvIO-AlKFdr66FUAoiYdd1hJC70n0FCvtO4kgs"),
    (&["p256-sec1", "p256-pkcs8"], "ES256", "0rscLyIxGhKm3Kj_PcrC20QeDcgGAyl5DIe-HVUpVG4"),
    (&["p384-sec1", "p384-pkcs8"], "ES384", "E5zfORilpjtP_GicOY-BORvf8G8EHhlNNZvlmz0IVUc"),
    (&["p521-sec1", "p521-pkcs8"], "ES512", "9Nwzqbw0ThJBoSa0-X7Q92Xb_mOsmkiA0wuD3AZjgPI"),
];

#[test]
fn each_kind_of_key_signs_tokens_that_verify_in_each_form_of_its_file() {
    for (files, alg, kid) in KEYS {
        for file in files {
            let pem = test_key(file);
            // Upstream signs the original bytes; so does the host.
            let claims = r#"{"sub":"ann", "iss":"é"}"#;
            let token = TokenSigner::parse(&pem).unwrap().sign(claims).unwrap();
            let parts: Vec<&str> = token.split('.').collect();
            let [header, payload, signature] = parts[..] else { panic!("{token}") };
            let text = |part: &str| String::from_utf8(BASE64.decode(part).unwrap()).unwrap();
            assert_eq!(text(header), format!(r#"{{"alg":"{alg}","kid":"{kid}"}}"#), "{file}");
            assert_eq!(text(payload), claims);
            let message = format!("{header}.{payload}");
            let signature = BASE64.decode(signature).unwrap();
            let public = PrivateKey::parse(&pem).unwrap().public_der().unwrap();
            let info = SubjectPublicKeyInfoOwned::from_der(&public).unwrap();
            let key = info.subject_public_key.raw_bytes();
            let verification: &dyn signature::VerificationAlgorithm = match alg {
                "RS256" => &signature::RSA_PKCS1_2048_8192_SHA256,
                "ES256" => &signature::ECDSA_P256_SHA256_FIXED,
                "ES384" => &signature::ECDSA_P384_SHA384_FIXED,
                // `ring` does not support this curve.
                _ => {
                    let key = p521::ecdsa::VerifyingKey::from_public_key_der(&public).unwrap();
                    let signature = p521::ecdsa::Signature::from_slice(&signature).unwrap();
                    assert!(key.verify(message.as_bytes(), &signature).is_ok());
                    assert!(key.verify(b"other", &signature).is_err());
                    continue;
                }
            };
            let key = UnparsedPublicKey::new(verification, key);
            assert!(key.verify(message.as_bytes(), &signature).is_ok(), "{file}");
            assert!(key.verify(b"other", &signature).is_err());
        }
    }
}

#[test]
fn other_keys_are_refused_and_the_error_contains_nothing_of_them() {
    for (name, why) in [
        ("rsa-1024", "the RSA key cannot be used"),
        ("p224-sec1", "the key cannot be used"),
        ("encrypted", "the private key is encrypted; write one without a password"),
    ] {
        let pem = test_key(name);
        let error = PrivateKey::parse(&pem).err().unwrap();
        assert!(error.starts_with(why), "{name}: {error}");
        let lines = String::from_utf8(pem).unwrap();
        assert!(lines.lines().all(|line| !error.contains(line)), "{error}");
    }
    let error = PrivateKey::parse(b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n").err().unwrap();
    assert_eq!(error, "the private key is not valid PKCS#8");
}
