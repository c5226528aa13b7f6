//! Tokens of ServiceAccounts: signs those of TokenRequests, and authenticates clients by them and by those in Secrets.
//!
//! *Invariant*: an accepted token is signed with the key of the cluster, and its ServiceAccount exists. A token of a
//! TokenRequest has not expired, and one of a Secret is still in that Secret.
//!
//! *Not here*: the tokens in Secrets, which a controller signs with the same key; Pods that a token is bound to.
//! *Source*: `pkg/serviceaccount/{jwt,claims,legacy}.go`.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey,
};
use serde_json::{Value, json};

use super::Api;
use super::objects::meta;
use super::status::ApiError;
use crate::store::object_key;

/// The issuer of the tokens of TokenRequests, and the audience of the API server.
pub(super) const ISSUER: &str = "https://kubernetes.default.svc";
/// The issuer of the tokens in Secrets.
const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";

/// The private key of a cluster's tokens, on P-256.
pub struct TokenKey(EcdsaKeyPair);

impl std::fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenKey").finish_non_exhaustive()
    }
}

impl TokenKey {
    /// Parses PKCS#8 in DER.
    ///
    /// # Errors
    /// It is no such key.
    pub fn parse(der: &[u8]) -> Result<Self, String> {
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &SystemRandom::new());
        pair.map(Self).map_err(|why| format!("no private key on P-256: {why}"))
    }

    fn sign(&self, claims: &Value) -> Result<String, ApiError> {
        let signed = format!("{}.{}", part(&json!({"alg": "ES256"})), part(claims));
        let signature = self.0.sign(&SystemRandom::new(), signed.as_bytes());
        let signature = signature.map_err(|_| ApiError::internal("the system has no random numbers"))?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// The claims of a token that this key has signed.
    fn claims(&self, token: &str) -> Option<Value> {
        let (signed, signature) = token.rsplit_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.0.public_key());
        key.verify(signed.as_bytes(), &signature).ok()?;
        let (_, claims) = signed.split_once('.')?;
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
    }
}

fn part(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

/// The owner of the cluster.
fn owner() -> Value {
    json!({"username": "pintle", "groups": ["system:masters", "system:authenticated"]})
}

impl Api {
    /// A token with these claims. Without a key, it has no signature.
    pub(super) fn sign_token(&self, claims: &Value) -> Result<String, ApiError> {
        match &self.config.token_key {
            Some(key) => key.sign(claims),
            None => Ok(format!(
                "{}.{}.{}",
                part(&json!({"alg": "none"})),
                part(claims),
                URL_SAFE_NO_PAD.encode("pintle-sim")
            )),
        }
    }

    /// The user of a request: the ServiceAccount of its token, or the owner of the cluster.
    pub(super) fn user(&self, headers: &HeaderMap) -> Value {
        self.bearer(headers).unwrap_or_else(owner)
    }

    /// The ServiceAccount of the token of a request.
    pub(super) fn bearer(&self, headers: &HeaderMap) -> Option<Value> {
        let token = headers.get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")?;
        self.service_account(token, &[ISSUER])
    }

    /// The status of a TokenReview. Without a key, every token is one of the owner.
    pub(super) fn review_token(&self, spec: &Value) -> Value {
        if self.config.token_key.is_none() {
            return json!({"authenticated": true, "user": owner()});
        }
        let asked = spec["audiences"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let mut audiences: Vec<&str> = asked.collect();
        if audiences.is_empty() {
            audiences.push(ISSUER);
        }
        match self.service_account(spec["token"].as_str().unwrap_or(""), &audiences) {
            Some(user) => json!({"authenticated": true, "user": user, "audiences": audiences}),
            None => json!({"user": {}, "error": "invalid bearer token"}),
        }
    }

    /// The ServiceAccount of a valid token for one of these audiences, as the user of a TokenReview.
    fn service_account(&self, token: &str, audiences: &[&str]) -> Option<Value> {
        let claims = self.config.token_key.as_ref()?.claims(token)?;
        let (namespace, name, uid, secret) = match claims["iss"].as_str()? {
            ISSUER => {
                let of = |path: &str| claims["kubernetes.io"].pointer(path).and_then(Value::as_str);
                (of("/namespace")?, of("/serviceaccount/name")?, of("/serviceaccount/uid")?, None)
            }
            LEGACY_ISSUER => {
                let of = |name: &str| claims[format!("kubernetes.io/serviceaccount/{name}")].as_str();
                let (name, uid) = (of("service-account.name")?, of("service-account.uid")?);
                (of("namespace")?, name, uid, Some(of("secret.name")?))
            }
            _ => return None,
        };
        let find = |storage: &str, name: &str| self.store.get(storage, &object_key(Some(namespace), name));
        let is_valid = match secret {
            Some(secret) => find("secrets", secret)?.value["data"]["token"] == STANDARD.encode(token),
            None => {
                let mut of_token = claims["aud"].as_array().into_iter().flatten().filter_map(Value::as_str);
                let has_ended = claims["exp"].as_i64()? <= self.clock.now().as_second();
                !has_ended && of_token.any(|audience| audiences.contains(&audience))
            }
        };
        let exists = meta(&find("serviceaccounts", name)?.value, "uid") == uid;
        (is_valid && exists).then(|| {
            json!({
                "username": format!("system:serviceaccount:{namespace}:{name}"), "uid": uid,
                "groups": ["system:serviceaccounts", format!("system:serviceaccounts:{namespace}"), "system:authenticated"],
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::SimConfig;

    #[test]
    fn a_token_of_a_secret_is_valid_while_the_secret_contains_it() {
        let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
        let token_key = Some(Arc::new(TokenKey::parse(key.as_ref()).unwrap()));
        let api = Api::new(SimConfig { token_key, ..SimConfig::default() }, crate::SimClock::real());
        api.bootstrap().unwrap();
        let metadata = json!({"namespace": "default", "name": "robot", "uid": "u"});
        api.restore(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})).unwrap();
        let token = api.sign_token(&json!({
            "iss": LEGACY_ISSUER, "kubernetes.io/serviceaccount/namespace": "default",
            "kubernetes.io/serviceaccount/secret.name": "key",
            "kubernetes.io/serviceaccount/service-account.name": "robot",
            "kubernetes.io/serviceaccount/service-account.uid": "u",
        }));
        let token = token.unwrap();
        let user = || api.service_account(&token, &[ISSUER]).map(|user| user["username"].clone());
        assert_eq!(user(), None);
        let mut secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
            "metadata": {"namespace": "default", "name": "key", "annotations": {"kubernetes.io/service-account.name": "robot"}},
            "data": {"token": STANDARD.encode(&token)},
        });
        api.restore(secret.clone()).unwrap();
        assert_eq!(user(), Some(json!("system:serviceaccount:default:robot")));
        secret["data"] = json!({});
        api.restore(secret).unwrap();
        assert_eq!(user(), None);
    }
}
