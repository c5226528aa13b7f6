//! Requests to one registry, by the distribution specification, with limits that its library lacks.
//!
//! ```text
//! Session ──> Registry ──challenge, token──> credentials ──> request ──redirects──> answer of limited length
//! ```
//!
//! *Invariants*:
//! 1. A response is read up to the limit of its kind, whatever its headers claim.
//! 2. Credentials and tokens go to the registry's own origin; credentials also to a token server on its host, or one
//!    set by the operator.
//! 3. A redirect stays at the origin. Only a blob may be on another host: it is fetched over TLS, without credentials.
//!    All failures of the other host result in the same error, so that a registry cannot probe the network of this
//!    machine. The same applies to a token server that the operator has not set.
//!
//! *Source*: OCI distribution specification 1.1, and "Token Authentication" of the Distribution project.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_auth::parser::ChallengeParser;
use reqwest::{Body, Client, Method, RequestBuilder, Response, Url};
use serde::Deserialize;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::credentials::Credentials;

/// Largest response of a token server.
const MAX_TOKEN_BYTES: usize = 64 << 10;
/// Most bytes of an error's body that are read.
const MAX_ERROR_BYTES: usize = 8 << 10;
/// Most redirects of one request.
const MAX_REDIRECTS: usize = 5;
/// Lifetime of a token. By the specification, tokens may expire after 60 seconds if the server sets no time.
const TOKEN_AGE: Duration = Duration::from_secs(45);
/// Token servers on other hosts than well-known registries.
const TOKEN_SERVERS: [(&str, &str); 2] = [("index.docker.io", "auth.docker.io"), ("registry.gitlab.com", "gitlab.com")];

/// Timeout for the response head of another host than the registry: shorter than that of the whole request.
const ELSEWHERE_PATIENCE: Duration = Duration::from_secs(15);

/// The required permission of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Pull,
    Push,
}

/// Allowed origins of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Redirects {
    /// The registry only.
    Own,
    /// Also other hosts, over TLS.
    Elsewhere,
}

/// A failed request.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The registry returned this status; the start of its text.
    Status(u16, String),
    /// The token server rejected the credentials.
    Denied,
    /// The response exceeds this limit.
    TooLong(usize),
    /// The response is unusable, for this reason.
    Unusable(String),
    /// Another host in a response of the registry does not return the expected content.
    Elsewhere(String),
    /// No response, or a partial one.
    Transport(reqwest::Error),
}

impl From<reqwest::Error> for Failure {
    fn from(why: reqwest::Error) -> Self {
        Self::Transport(why)
    }
}

/// One repository of a registry.
pub(crate) struct Registry {
    client: Client,
    /// `https://HOST:PORT/`
    origin: Url,
    repository: String,
    credentials: Credentials,
    /// Hosts that may receive the credentials besides the registry's.
    token_servers: Vec<String>,
    tokens: Mutex<Vec<(Scope, Instant, Option<HeaderValue>)>>,
}

impl Registry {
    /// # Errors
    /// `host` is not a host with an optional port.
    pub(crate) fn new(
        client: Client,
        is_plain: bool,
        host: &str,
        repository: &str,
        credentials: Credentials,
        token_servers: Vec<String>,
    ) -> Result<Self, String> {
        let scheme = if is_plain { "http" } else { "https" };
        let origin = Url::parse(&format!("{scheme}://{host}/")).map_err(|why| why.to_string())?;
        let is_host = origin.path() == "/" && origin.username().is_empty() && origin.password().is_none();
        if !is_host || origin.query().is_some() || origin.fragment().is_some() {
            return Err(format!("{host:?} is not a host with an optional port"));
        }
        let (repository, tokens) = (repository.to_owned(), Mutex::default());
        Ok(Self { client, origin, repository, credentials, token_servers, tokens })
    }

    /// Sends a request for `path` below the repository, and follows its redirects. Returns a successful response; with
    /// the error for any failure of its body, if it comes from another host.
    pub(crate) async fn get(
        &self,
        method: Method,
        path: &str,
        accept: Option<&str>,
        redirects: Redirects,
    ) -> Result<(Response, Option<Failure>), Failure> {
        let mut url = self.url(path)?;
        for _ in 0..=MAX_REDIRECTS {
            if !self.is_own(&url) {
                return self.elsewhere(method, url, accept).await;
            }
            let mut request = self.client.request(method.clone(), url.clone());
            if let Some(accept) = accept {
                request = request.header(header::ACCEPT, accept);
            }
            let answer = self.authorize(request, Scope::Pull).await?.send().await?;
            if answer.status().is_redirection() {
                url = self.target(&url, answer.headers())?;
                let is_allowed = self.is_own(&url) || (redirects == Redirects::Elsewhere && url.scheme() == "https");
                if !is_allowed {
                    return Err(Failure::Unusable(format!("it redirects to {}, which is not followed", place(&url))));
                }
                continue;
            }
            return if answer.status().is_success() { Ok((answer, None)) } else { Err(failed(answer).await) };
        }
        Err(Failure::Unusable(format!("it redirects more than {MAX_REDIRECTS} times")))
    }

    /// Sends a request to another host over TLS, and follows its redirects to such hosts.
    async fn elsewhere(
        &self,
        method: Method,
        mut url: Url,
        accept: Option<&str>,
    ) -> Result<(Response, Option<Failure>), Failure> {
        let first = place(&url);
        let failure = || Failure::Elsewhere(format!("it redirects to {first}, which does not send the content"));
        for _ in 0..MAX_REDIRECTS {
            let mut request = self.client.request(method.clone(), url.clone());
            if let Some(accept) = accept {
                request = request.header(header::ACCEPT, accept);
            }
            let (to, why) = match tokio::time::timeout(ELSEWHERE_PATIENCE, request.send()).await {
                Ok(Ok(answer)) if answer.status().is_success() => return Ok((answer, Some(failure()))),
                Ok(Ok(answer)) if answer.status().is_redirection() => {
                    (self.target(&url, answer.headers()).ok(), answer.status().to_string())
                }
                Ok(Ok(answer)) => (None, answer.status().to_string()),
                Ok(Err(why)) => (None, format!("{:#}", anyhow::Error::from(why))),
                Err(_) => (None, format!("no answer within {ELSEWHERE_PATIENCE:?}")),
            };
            match to.filter(|to| to.scheme() == "https" && !self.is_own(to)) {
                Some(to) => url = to,
                None => {
                    tracing::debug!(registry = %self.origin, place = place(&url), why, "another host does not send a blob");
                    break;
                }
            }
        }
        Err(failure())
    }

    /// Starts an upload; returns the URL for the content.
    pub(crate) async fn start_upload(&self) -> Result<Url, Failure> {
        let start = self.url("blobs/uploads/")?;
        let request = self.client.post(start.clone()).header(header::CONTENT_LENGTH, 0);
        let answer = self.authorize(request, Scope::Push).await?.send().await?;
        if !answer.status().is_success() {
            return Err(failed(answer).await);
        }
        let url = self.target(&start, answer.headers())?;
        if !self.is_own(&url) {
            return Err(Failure::Unusable(format!("it wants uploads at {}, which is another host", place(&url))));
        }
        Ok(url)
    }

    /// Sends content to a URL of the registry.
    pub(crate) async fn put(&self, url: Url, headers: HeaderMap, body: impl Into<Body>) -> Result<(), Failure> {
        let request = self.client.put(url).headers(headers).body(body);
        let answer = self.authorize(request, Scope::Push).await?.send().await?;
        if answer.status().is_success() { Ok(()) } else { Err(failed(answer).await) }
    }

    /// The URL of `path` below the repository.
    pub(crate) fn url(&self, path: &str) -> Result<Url, Failure> {
        let path = format!("/v2/{}/{path}", self.repository);
        self.origin.join(&path).map_err(|why| Failure::Unusable(format!("{path} is not a path: {why}")))
    }

    /// The URL in a response.
    fn target(&self, from: &Url, headers: &HeaderMap) -> Result<Url, Failure> {
        let location = headers.get(header::LOCATION).and_then(|location| location.to_str().ok());
        let location = location.ok_or_else(|| Failure::Unusable("it redirects to nowhere".to_owned()))?;
        from.join(location).map_err(|_| Failure::Unusable("it redirects to what is not an address".to_owned()))
    }

    fn is_own(&self, url: &Url) -> bool {
        url.origin() == self.origin.origin()
    }

    async fn authorize(&self, request: RequestBuilder, scope: Scope) -> Result<RequestBuilder, Failure> {
        let mut tokens = self.tokens.lock().await;
        tokens.retain(|(_, since, _)| since.elapsed() < TOKEN_AGE);
        let known = tokens.iter().find(|(of, ..)| *of == scope).map(|(.., token)| token.clone());
        let token = match known {
            Some(token) => token,
            None => {
                let token = self.token(scope).await?;
                tokens.push((scope, Instant::now(), token.clone()));
                token
            }
        };
        Ok(match token {
            Some(token) => request.header(header::AUTHORIZATION, token),
            None => request,
        })
    }

    /// The value of `Authorization` that the registry requires; `None` if it requires none, or there are no
    /// credentials.
    async fn token(&self, scope: Scope) -> Result<Option<HeaderValue>, Failure> {
        let version = self.origin.join("/v2/").map_err(|why| Failure::Unusable(why.to_string()))?;
        let answer = self.client.get(version).send().await?;
        match challenge(answer.headers())? {
            Some(Challenge::Bearer { realm, service }) => self.ask(realm, service, scope).await.map(Some),
            Some(Challenge::Basic) if self.credentials != Credentials::Anonymous => {
                sensitive(&self.credentials.basic()).map(Some)
            }
            Some(Challenge::Basic) | None => Ok(None),
        }
    }

    /// Requests a token.
    async fn ask(&self, mut realm: Url, service: Option<String>, scope: Scope) -> Result<HeaderValue, Failure> {
        let host = realm.host_str().unwrap_or_default().to_owned();
        // Without TLS, the ports of a host are not authenticated.
        let is_host = self.is_own(&realm) || (realm.scheme() == "https" && realm.host_str() == self.origin.host_str());
        if !is_host && realm.scheme() != "https" {
            return Err(Failure::Unusable(format!("its token server {} does not use TLS", place(&realm))));
        }
        let registry = self.origin.host_str().unwrap_or_default();
        let is_trusted = is_host
            || TOKEN_SERVERS.contains(&(registry, host.as_str()))
            || self.token_servers.iter().any(|server| *server == host || *server == place(&realm));
        if !is_trusted && self.credentials != Credentials::Anonymous {
            return Err(Failure::Unusable(format!(
                "its token server {host} is another host, to which its credentials are not sent; if it belongs to the registry, name it with --registry-token-server {host}"
            )));
        }
        let actions = match scope {
            Scope::Pull => "pull",
            Scope::Push => "pull,push",
        };
        realm.query_pairs_mut().append_pair("scope", &format!("repository:{}:{actions}", self.repository));
        if let Some(service) = service {
            realm.query_pairs_mut().append_pair("service", &service);
        }
        let mut request = self.client.get(realm);
        if self.credentials != Credentials::Anonymous {
            request = request.header(header::AUTHORIZATION, sensitive(&self.credentials.basic())?);
        }
        let asking = async {
            let answer = request.send().await?;
            match answer.status() {
                StatusCode::OK => {}
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => return Err(Failure::Denied),
                status if is_host => return Err(Failure::Status(status.as_u16(), error_text(answer).await)),
                status => return Err(Failure::Status(status.as_u16(), String::new())),
            }
            let body = body(answer, MAX_TOKEN_BYTES).await?;
            let token =
                token_in(&body).ok_or_else(|| Failure::Unusable("its token server sends no token".to_owned()))?;
            sensitive(&format!("Bearer {token}"))
        };
        if is_trusted {
            return asking.await;
        }
        let why = match tokio::time::timeout(ELSEWHERE_PATIENCE, asking).await {
            Ok(Ok(token)) => return Ok(token),
            Ok(Err(why)) => format!("{why:?}"),
            Err(_) => format!("no answer within {ELSEWHERE_PATIENCE:?}"),
        };
        tracing::debug!(registry = %self.origin, host, why, "another host sends no token");
        Err(Failure::Elsewhere(format!(
            "its token server {host} is another host, and sends no token; if it belongs to the registry, name it with --registry-token-server {host}"
        )))
    }
}

/// The required authentication of a registry.
enum Challenge {
    /// With a token from this server.
    Bearer { realm: Url, service: Option<String> },
    /// With the credentials themselves.
    Basic,
}

/// The first supported challenge of a response; a token takes precedence.
fn challenge(headers: &HeaderMap) -> Result<Option<Challenge>, Failure> {
    let mut is_basic = false;
    let texts = headers.get_all(header::WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
    for challenge in texts.flat_map(ChallengeParser::new).flatten() {
        if challenge.scheme.eq_ignore_ascii_case("bearer") {
            let parameter = |name: &str| {
                let found = challenge.params.iter().find(|(of, _)| of.eq_ignore_ascii_case(name));
                found.map(|(_, value)| value.to_unescaped())
            };
            let realm = parameter("realm").and_then(|realm| Url::parse(&realm).ok());
            let service = parameter("service");
            let wrong = || Failure::Unusable("it asks for a token, and its token server is not an address".to_owned());
            return realm.map(|realm| Some(Challenge::Bearer { realm, service })).ok_or_else(wrong);
        }
        is_basic |= challenge.scheme.eq_ignore_ascii_case("basic");
    }
    Ok(is_basic.then_some(Challenge::Basic))
}

/// `token`, or `access_token` of OAuth; a server may send both.
fn token_in(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Token {
        token: Option<String>,
        access_token: Option<String>,
    }
    let found: Token = serde_json::from_slice(body).ok()?;
    found.token.or(found.access_token).filter(|token| !token.is_empty())
}

/// A header that does not appear in logs.
fn sensitive(value: &str) -> Result<HeaderValue, Failure> {
    let value = HeaderValue::from_str(value);
    let mut value = value.map_err(|_| Failure::Unusable("its token is not text for a header".to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Host and port of a URL.
fn place(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// The whole body, up to a limit.
pub(crate) async fn body(mut answer: Response, limit_bytes: usize) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    while let Some(part) = answer.chunk().await? {
        if part.len() > limit_bytes - bytes.len() {
            return Err(Failure::TooLong(limit_bytes));
        }
        bytes.extend_from_slice(&part);
    }
    Ok(bytes)
}

async fn failed(answer: Response) -> Failure {
    Failure::Status(answer.status().as_u16(), error_text(answer).await)
}

/// The start of the text; it is an error in any case.
async fn error_text(mut answer: Response) -> String {
    let mut bytes = Vec::new();
    while let Ok(Some(part)) = answer.chunk().await {
        bytes.extend_from_slice(&part[..part.len().min(MAX_ERROR_BYTES - bytes.len())]);
        if bytes.len() == MAX_ERROR_BYTES {
            break;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
