//! Tokens: claims in compact JWS.
//!
//! *Source*: `pkg/serviceaccount/jwt.go`.

use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use pintle_core::policy::outside::refused;
use pintle_core::ports::outside::{OutsideAnswer, SigningKey};
use sha2::{Digest as _, Sha256};

use crate::files::{BindError, Followed};
use crate::keys::PrivateKey;
use crate::workers;

/// A key in a file that may change.
pub(crate) struct TokenKey(Arc<Followed<TokenSigner>>);

/// A key with its header.
pub(crate) struct TokenSigner {
    key: PrivateKey,
    /// The header of its tokens, in base64.
    header: String,
}

impl TokenSigner {
    /// Parses a private key in PEM.
    ///
    /// # Errors
    /// The error.
    pub(crate) fn parse(pem: &[u8]) -> Result<Self, String> {
        let key = PrivateKey::parse(pem)?;
        let kid = BASE64.encode(Sha256::digest(key.public_der()?));
        // Neither value needs escapes.
        let header = BASE64.encode(format!(r#"{{"alg":"{}","kid":"{kid}"}}"#, key.jws_algorithm()));
        Ok(Self { key, header })
    }

    /// # Errors
    /// The system has no random numbers.
    pub(crate) fn sign(&self, claims: &str) -> Result<String, String> {
        let message = format!("{}.{}", self.header, BASE64.encode(claims));
        let signature = self.key.sign_jws(message.as_bytes())?;
        Ok(format!("{message}.{}", BASE64.encode(signature)))
    }
}

impl TokenKey {
    pub(crate) fn open(file: PathBuf) -> Result<Self, BindError> {
        let followed = Followed::open(vec![file], |contents| TokenSigner::parse(&contents.concat()))?;
        Ok(Self(Arc::new(followed)))
    }

    pub(crate) fn shown(&self) -> String {
        self.0.shown()
    }
}

impl SigningKey for TokenKey {
    fn sign(&self, claims: String) -> BoxFuture<'static, OutsideAnswer> {
        let files = self.0.clone();
        let work = move || files.current().sign(&claims).map_err(|why| refused("InternalError", why));
        workers::run(work).boxed()
    }
}
