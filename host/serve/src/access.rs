//! Authentication and authorization of requests by the API server, with cached results.
//!
//! Source: `DelegatingAuthenticationOptions` and `DelegatingAuthorizationOptions` of k8s.io/apiserver/pkg/server/options, and
//! k8s.io/apiserver/pkg/authentication/token/cache.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use pintle_core::policy::roles;
use pintle_core::ports::api::{ApiError, ApiErrorClass};
use pintle_core::ports::review::{ReviewKind, Reviewer};
use ring::hmac;
use rustls::pki_types::CertificateDer;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::certificates::TlsError;
use crate::policy::access::{self, AccessDecision, AllowedPaths, MAX_REMEMBERED_PATH, PRIVILEGED_GROUP, access_review};
use crate::policy::decisions::Decisions;
use crate::policy::identity::{self, PublishedConfig, UserInfo, bearer_token};
use crate::quiet::Quiet;
use crate::tls::Tls;

/// Most cached results of each kind.
const MAX_REMEMBERED: usize = 4_096;
/// Most concurrent reviews.
const MAX_REVIEWS: usize = 32;
/// Most concurrent reviews for clients without credentials, who can cause any number with different paths: the rest is
/// for clients with credentials.
const MAX_ANONYMOUS_REVIEWS: usize = 4;
/// Timeout of a review, including retries. Upstream: 10 s for each request.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between reads of the configuration that the API server publishes.
const PUBLISHED_INTERVAL: Duration = Duration::from_secs(60);

/// Options of authentication and authorization.
pub struct AccessOptions {
    /// Reviewer of tokens. Without one, requests with a token count as anonymous.
    pub authentication: Option<Arc<dyn Reviewer>>,
    /// Reviewer of permissions. Without one, every request is denied.
    pub authorization: Option<Arc<dyn Reviewer>>,
    /// Cache lifetime of token reviews.
    pub token_ttl: Duration,
    /// Cache lifetime of granted permissions.
    pub authorized_ttl: Duration,
    /// Cache lifetime of denied permissions.
    pub unauthorized_ttl: Duration,
    /// Paths that need no authorization.
    pub always_allowed: AllowedPaths,
}

/// The parts of a request that matter for its permission.
pub(crate) struct Asked<'r> {
    /// The HTTP method in lower case.
    pub(crate) verb: &'r str,
    pub(crate) path: &'r str,
    /// Pairs of a lower-case name and a value.
    pub(crate) headers: &'r [(&'r str, &'r str)],
    /// The client's certificates.
    pub(crate) chain: &'r [CertificateDer<'static>],
}

/// The result for a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Permission {
    /// It is allowed; `anonymous`: it had no credentials.
    Allowed { anonymous: bool },
    /// Its credentials are invalid.
    Unauthorized,
    /// It is denied.
    Forbidden { user: UserInfo, reason: String },
    /// There are too many concurrent reviews.
    Busy,
    /// The review failed.
    Failed(String),
}

/// Authorizes requests.
pub struct Access {
    options: AccessOptions,
    tls: Option<Arc<Tls>>,
    /// Key for hashing tokens, so that no token stays in memory.
    key: hmac::Key,
    users: Mutex<Decisions<Vec<u8>, Option<UserInfo>>>,
    decisions: Mutex<Decisions<(UserInfo, String, String), AccessDecision>>,
    reviews: Semaphore,
    anonymous_reviews: Semaphore,
    failed: [Quiet; 2],
}

impl Access {
    /// `tls` has the certificate authorities of clients.
    ///
    /// # Errors
    /// No random numbers are available.
    pub fn new(options: AccessOptions, tls: Option<Arc<Tls>>) -> Result<Self, TlsError> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &ring::rand::SystemRandom::new());
        Ok(Self {
            options,
            tls,
            key: key.map_err(|_| TlsError::Generate("there is no randomness".to_owned()))?,
            users: Mutex::new(Decisions::new(MAX_REMEMBERED)),
            decisions: Mutex::new(Decisions::new(MAX_REMEMBERED)),
            reviews: Semaphore::new(MAX_REVIEWS),
            anonymous_reviews: Semaphore::new(MAX_ANONYMOUS_REVIEWS),
            failed: Default::default(),
        })
    }

    /// Reads the client authentication configuration that the API server publishes, unless files are configured.
    ///
    /// # Errors
    /// It cannot be read.
    pub async fn look_up(&self) -> Result<(), String> {
        let (Some(tls), Some(reviewer)) = (&self.tls, &self.options.authentication) else { return Ok(()) };
        if !tls.wants_published() {
            return Ok(());
        }
        let published = match repeated(|| reviewer.authentication_config()).await {
            Ok(data) => identity::published_config(&data)?,
            Err(why) if why.class == ApiErrorClass::NotFound => PublishedConfig::default(),
            Err(why) => return Err(why.to_string()),
        };
        tls.publish(published);
        Ok(())
    }

    /// Reads it periodically, because authorities change. Never returns.
    pub async fn keep_looking_up(&self) {
        loop {
            tokio::time::sleep(PUBLISHED_INTERVAL).await;
            if let Err(why) = self.look_up().await {
                tracing::warn!(
                    why,
                    "the API server's authorities of clients cannot be read; the last ones stay in use"
                );
            }
        }
    }

    /// Whether a path needs no authorization.
    pub(crate) fn is_always_allowed(&self, path: &str) -> bool {
        self.options.always_allowed.allows(path)
    }

    pub(crate) async fn permission(&self, asked: &Asked<'_>) -> Permission {
        let user = match self.user(asked).await {
            Ok(user) => user,
            Err(answer) => return answer,
        };
        let anonymous = user.is_anonymous();
        if user.groups.iter().any(|group| group == PRIVILEGED_GROUP) {
            return Permission::Allowed { anonymous };
        }
        match self.decide(&user, asked).await {
            Ok(AccessDecision { allowed: true, .. }) => Permission::Allowed { anonymous },
            Ok(AccessDecision { reason, .. }) => Permission::Forbidden { user, reason },
            Err(answer) => answer,
        }
    }

    async fn user(&self, asked: &Asked<'_>) -> Result<UserInfo, Permission> {
        let of_certificate = self.tls.as_ref().map_or(Ok(None), |tls| tls.user(asked.chain, asked.headers));
        if let Ok(Some(user)) = of_certificate {
            return Ok(user);
        }
        let authorization = asked.headers.iter().find(|(name, _)| *name == "authorization").map(|(_, value)| *value);
        let token = authorization.and_then(bearer_token);
        if let (Some(token), Some(reviewer)) = (token, &self.options.authentication) {
            return match self.of_token(reviewer, token).await? {
                Some(user) => Ok(user),
                None => Err(Permission::Unauthorized),
            };
        }
        match of_certificate {
            Ok(_) => Ok(UserInfo::anonymous()),
            Err(why) => {
                tracing::debug!(why, "a client of the HTTPS port is not authenticated");
                Err(Permission::Unauthorized)
            }
        }
    }

    async fn of_token(&self, reviewer: &Arc<dyn Reviewer>, token: &str) -> Result<Option<UserInfo>, Permission> {
        let key = hmac::sign(&self.key, token.as_bytes()).as_ref().to_vec();
        if let Some(user) = self.users.lock().get(&key, Instant::now().into_std()) {
            return Ok(user);
        }
        let Ok(_slot) = self.reviews.try_acquire() else { return Err(Permission::Busy) };
        let body = identity::token_review(token).to_string();
        let answer = repeated(|| reviewer.review(ReviewKind::Token, body.clone())).await;
        let user =
            match answer.map_err(|why| explained(ReviewKind::Token, &why)).and_then(|text| identity::reviewed(&text)) {
                Ok(user) => user,
                // Not cached, as upstream.
                Err(why) => {
                    if self.failed[0].may_report() {
                        tracing::warn!(why, "a client of the HTTPS port cannot be authenticated");
                    }
                    return Err(Permission::Unauthorized);
                }
            };
        self.users.lock().put(key, user.clone(), self.options.token_ttl, Instant::now().into_std());
        Ok(user)
    }

    async fn decide(&self, user: &UserInfo, asked: &Asked<'_>) -> Result<AccessDecision, Permission> {
        let Some(reviewer) = &self.options.authorization else {
            return Ok(AccessDecision { allowed: false, reason: String::new() });
        };
        let key = (user.clone(), asked.verb.to_owned(), asked.path.to_owned());
        if let Some(decision) = self.decisions.lock().get(&key, Instant::now().into_std()) {
            return Ok(decision);
        }
        let slots = if user.is_anonymous() { &self.anonymous_reviews } else { &self.reviews };
        let Ok(_slot) = slots.try_acquire() else { return Err(Permission::Busy) };
        let body = access_review(user, asked.verb, asked.path).to_string();
        let answer = repeated(|| reviewer.review(ReviewKind::Access, body.clone())).await;
        let decision =
            answer.map_err(|why| explained(ReviewKind::Access, &why)).and_then(|text| access::access_decision(&text));
        let decision = decision.map_err(|why| {
            if self.failed[1].may_report() {
                tracing::warn!(why, "a client of the HTTPS port cannot be authorized");
            }
            Permission::Failed(why)
        })?;
        if asked.path.len() < MAX_REMEMBERED_PATH {
            let ttl = if decision.allowed { self.options.authorized_ttl } else { self.options.unauthorized_ttl };
            self.decisions.lock().put(key, decision.clone(), ttl, Instant::now().into_std());
        }
        Ok(decision)
    }
}

/// Explains how to fix a failed review.
fn explained(kind: ReviewKind, why: &ApiError) -> String {
    let (name, version) = (kind.as_str(), kind.api_version());
    match why.class {
        ApiErrorClass::NotFound => format!("the API server has no {name} ({version}): {why}"),
        ApiErrorClass::Forbidden => {
            format!("the host may not create a {name}: {why}; {}", roles::advice(&why.message))
        }
        _ => format!("{name}: {why}"),
    }
}

/// Retries a request while its failure may be temporary, for at most [`REVIEW_TIMEOUT`].
async fn repeated<'a, T>(mut send: impl FnMut() -> BoxFuture<'a, Result<T, ApiError>>) -> Result<T, ApiError> {
    let mut last = None;
    let attempts = async {
        let mut n_failed = 0;
        loop {
            let why = match send().await {
                Ok(answer) => return Ok(answer),
                Err(why) => why,
            };
            n_failed += 1;
            let Some(pause) = access::repeat_after(&why, n_failed, rand::random()) else { return Err(why) };
            last = Some(why);
            tokio::time::sleep(pause).await;
        }
    };
    match tokio::time::timeout(REVIEW_TIMEOUT, attempts).await {
        Ok(answer) => answer,
        Err(_) => Err(last.unwrap_or_else(|| {
            ApiError::transport(format!("the API server has not answered within {} s", REVIEW_TIMEOUT.as_secs()))
        })),
    }
}
