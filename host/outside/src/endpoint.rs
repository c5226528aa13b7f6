//! Endpoints: operations as POST requests to a URL bound by the operator.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use pintle_core::contract::outcome::NeedError;
use pintle_core::policy::outside::{refusal_of, refused};
use pintle_core::ports::outside::{Endpoint, OutsideAnswer};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use reqwest::{Certificate, Client, Response, Url};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::files::{BindError, Followed};

/// Largest response.
const MAX_ANSWER_BYTES: usize = 8 << 20;
/// Most bytes of an error response that are read.
const MAX_REFUSAL_BYTES: usize = 8 << 10;
/// Connect timeout.
const CONNECT: Duration = Duration::from_secs(10);

/// Location of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct EndpointConfig {
    /// `https://HOST[:PORT][/PATH]`; `http` only for loopback addresses. The operation is appended to the path.
    pub url: String,
    /// A file with a token, which requests contain as `Authorization: Bearer`.
    #[serde(default)]
    pub token_file: Option<PathBuf>,
    /// Certificate authorities of the endpoint in PEM, in place of those of the system.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
}

impl EndpointConfig {
    /// Parses a URL, or a JSON object with `url`, `tokenFile` and `caFile`.
    ///
    /// # Errors
    /// The valid forms.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.trim_start().starts_with('{') {
            return serde_json::from_str(text).map_err(|why| {
                format!(
                    r#"write {{"url": "https://HOST/PATH", "tokenFile": "/path/of/token", "caFile": "/path/of/ca.crt"}}; the files are optional: {why}"#
                )
            });
        }
        Ok(Self { url: text.to_owned(), token_file: None, ca_file: None })
    }
}

/// An endpoint with its client.
pub(crate) struct BoundEndpoint {
    /// Ends with a slash.
    url: Url,
    token: Option<Arc<Followed<HeaderValue>>>,
    client: ClientOf,
}

/// A client, rebuilt when the file of its authorities changes.
#[derive(Clone)]
enum ClientOf {
    System(Client),
    File(Arc<Followed<Client>>),
}

impl ClientOf {
    /// The client for the current file, which is read.
    fn current(&self) -> Client {
        match self {
            Self::System(client) => client.clone(),
            Self::File(followed) => (*followed.current()).clone(),
        }
    }
}

impl BoundEndpoint {
    /// # Errors
    /// The address is not allowed, or a file is unusable.
    pub(crate) fn open(config: &EndpointConfig) -> Result<Self, BindError> {
        let url = address(&config.url).map_err(BindError)?;
        let token =
            config.token_file.clone().map(|file| Followed::open(vec![file], |contents| token(&contents.concat())));
        let client = match config.ca_file.clone() {
            None => ClientOf::System(client(None).map_err(BindError)?),
            Some(file) => {
                let followed = Followed::open(vec![file], |contents| client(Some(&contents.concat())))?;
                ClientOf::File(Arc::new(followed))
            }
        };
        Ok(Self { url, token: token.transpose()?.map(Arc::new), client })
    }

    /// The address, for humans.
    pub(crate) fn shown(&self) -> String {
        self.url.as_str().trim_end_matches('/').to_owned()
    }

    /// The client and the token for the current files, which are read on a thread that may block.
    async fn current(&self) -> Result<(Client, Option<HeaderValue>), NeedError> {
        if let (ClientOf::System(client), None) = (&self.client, &self.token) {
            return Ok((client.clone(), None));
        }
        let (client, token) = (self.client.clone(), self.token.clone());
        let read = tokio::task::spawn_blocking(move || {
            let token = token.map(|file| (*file.current()).clone());
            (client.current(), token)
        });
        read.await.map_err(|why| refused("InternalError", format!("read the files of the endpoint: {why}")))
    }

    async fn send(&self, operation: &str, body: &str) -> OutsideAnswer {
        // The manifest's validation ensures that an operation is a path segment.
        let url =
            self.url.join(operation).map_err(|why| refused("Malformed", format!("operation {operation:?}: {why}")))?;
        let (client, token) = self.current().await?;
        let mut request = client.post(url).header(CONTENT_TYPE, "application/json").header(ACCEPT, "application/json");
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, token);
        }
        let answer = request.body(body.to_owned()).send().await.map_err(transport)?;
        let status = answer.status();
        if !status.is_success() {
            let retry_after =
                answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()).map(str::to_owned);
            let text = beginning(answer).await;
            return Err(refusal_of(status.as_u16(), retry_after.as_deref(), &text));
        }
        let text = whole(answer).await?;
        match serde_json::from_str::<&RawValue>(&text) {
            Ok(_) => Ok(text),
            Err(why) => Err(refused("Malformed", format!("the endpoint's answer is not JSON: {why}"))),
        }
    }
}

impl Endpoint for BoundEndpoint {
    fn call<'a>(&'a self, operation: &'a str, body: &'a str, timeout: Duration) -> BoxFuture<'a, OutsideAnswer> {
        async move {
            let sent = tokio::time::timeout(timeout, self.send(operation, body)).await;
            let late = || {
                refused(
                    "Timeout",
                    format!("the endpoint has not answered within {timeout:?}; the operation may have happened"),
                )
            };
            sent.unwrap_or_else(|_| Err(late()))
        }
        .boxed()
    }
}

/// The error of a request without a response. The library's message contains the address, which plugins must not get.
fn transport(why: reqwest::Error) -> NeedError {
    let why = why.without_url();
    let mut message = format!("the endpoint was not reached, or its answer broke off: {why}");
    let mut source = std::error::Error::source(&why);
    while let Some(cause) = source {
        message.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    refused("Transport", message)
}

/// The whole response, up to a limit.
async fn whole(mut answer: Response) -> OutsideAnswer {
    let mut bytes = Vec::new();
    while let Some(part) = answer.chunk().await.map_err(transport)? {
        if part.len() > MAX_ANSWER_BYTES - bytes.len() {
            return Err(refused("TooLarge", format!("the answer has more than {MAX_ANSWER_BYTES} bytes")));
        }
        bytes.extend_from_slice(&part);
    }
    String::from_utf8(bytes).map_err(|_| refused("Malformed", "the endpoint's answer is not UTF-8"))
}

/// The start of a response; it is an error in any case.
async fn beginning(mut answer: Response) -> String {
    let mut bytes = Vec::new();
    while let Ok(Some(part)) = answer.chunk().await {
        bytes.extend_from_slice(&part[..part.len().min(MAX_REFUSAL_BYTES - bytes.len())]);
        if bytes.len() == MAX_REFUSAL_BYTES {
            break;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Parses the address of an endpoint, and appends a slash.
///
/// # Errors
/// The valid form.
fn address(text: &str) -> Result<Url, String> {
    let wrong = |why: &str| Err(format!("{text:?} is not the address of an endpoint: {why}; write https://HOST/PATH"));
    let mut url = match Url::parse(text) {
        Ok(url) => url,
        Err(why) => return wrong(&why.to_string()),
    };
    // A name could resolve to another host.
    let host = url.host_str().map(|host| host.trim_start_matches('[').trim_end_matches(']'));
    let ip = host.and_then(|host| host.parse::<std::net::IpAddr>().ok());
    let is_loopback = ip.is_some_and(|ip| ip.to_canonical().is_loopback());
    match url.scheme() {
        "https" => {}
        "http" if is_loopback => {}
        "http" => return wrong("without TLS only the addresses 127.0.0.1 and [::1] are allowed"),
        _ => return wrong("only HTTPS is supported"),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("the address of an endpoint has no user and password; name a token with tokenFile".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return wrong("it has a query or a fragment");
    }
    if !url.path().ends_with('/') {
        url.set_path(&format!("{}/", url.path()));
    }
    Ok(url)
}

fn token(contents: &[u8]) -> Result<HeaderValue, String> {
    let text = std::str::from_utf8(contents).map_err(|_| "the token is not text".to_owned())?.trim();
    if text.is_empty() {
        return Err("the file of the token is empty".to_owned());
    }
    let mut value = HeaderValue::from_str(&format!("Bearer {text}"))
        .map_err(|_| "the token contains characters that no header may have".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

/// A client that trusts these authorities, or those of the system.
fn client(authorities: Option<&[u8]>) -> Result<Client, String> {
    // If another provider is installed already, it works as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = Client::builder()
        .connect_timeout(CONNECT)
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .no_proxy()
        .referer(false)
        .user_agent(concat!("pintle/", env!("CARGO_PKG_VERSION")));
    if let Some(pem) = authorities {
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        let certificates =
            certificates.map_err(|why| format!("it contains a certificate that does not parse: {why}"))?;
        if certificates.is_empty() {
            return Err("it contains no certificate in PEM".to_owned());
        }
        let certificates: Result<Vec<_>, _> = certificates.iter().map(|der| Certificate::from_der(der)).collect();
        builder = builder.tls_certs_only(certificates.map_err(|why| why.to_string())?);
    }
    builder.build().map_err(|why| format!("create a client: {why}"))
}
