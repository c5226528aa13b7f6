//! The paths of the port.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderValue, Method, Response, StatusCode, header};
use http_body_util::Full;
use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::access::{Access, Asked, Permission};
use crate::checks::Checks;
use crate::page::{self, Asset};
use crate::policy::access::{forbidden, internal_error, unauthorized};
use crate::policy::exposition::Exposition;
use crate::policy::health::Probe;
use crate::policy::zpages::{self, Form};
use crate::quiet::Quiet;

/// Content types.
const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
/// Warning about a deprecated version of `/flagz` and `/statusz`.
const DEPRECATED: &str = r#"299 - "This version of the endpoint is deprecated. Please use a newer version.""#;
/// Most pages that are rendered concurrently. Probes do not count.
const MAX_PAGES: usize = 8;
/// Most `exclude` values that are considered.
const MAX_EXCLUDED: usize = 1_000;

/// The name of this component in pages.
const COMPONENT: &str = "pintle";
const DEBUG: &str = "/debug/controllers/";
/// The web page.
const PAGE: &str = "/debug/pintle/";
/// The paths of [`Scope::All`], for `/statusz`.
const PATHS: [&str; 9] =
    ["/configz", DEBUG, PAGE, "/flagz", "/healthz", "/livez", "/metrics", "/metrics/slis", "/readyz"];

/// Contents of pages.
pub trait Pages: Send + Sync + 'static {
    /// All metrics in the OpenMetrics text format.
    fn metrics(&self) -> String;
    /// Configurations by the name of their API group, for `/configz`.
    fn config(&self) -> Value;
    /// Values of flags, without secrets.
    fn flags(&self) -> BTreeMap<String, String>;
    /// When the host started, and its versions.
    fn about(&self) -> About;
    /// The state of a controller, bounded in size; `None` if the name is unknown.
    fn controller(&self, name: &str) -> Option<Value>;
    /// The overview of the host as JSON, bounded in size.
    fn overview(&self) -> Value;
    /// The details of one of its plugins as JSON; `None` if the name is unknown.
    fn detail(&self, name: &str) -> Option<Value>;
}

/// Facts about the host.
#[derive(Clone, Debug)]
pub struct About {
    /// When it started.
    pub started: Timestamp,
    /// Time since the start.
    pub up: Duration,
    /// Its version.
    pub version: String,
    /// The Kubernetes version that it emulates.
    pub emulates: String,
}

/// The served paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Probes and metrics.
    Metrics,
    /// All.
    All,
}

/// The paths, with their authorization.
pub struct Site {
    checks: Arc<Checks>,
    pages: Arc<dyn Pages>,
    /// If absent, local programs may read everything.
    access: Option<Arc<Access>>,
    scope: Scope,
    writing: Semaphore,
    /// By probe.
    failed: [Quiet; Probe::ALL.len()],
}

/// A response.
pub(crate) struct Answer {
    pub(crate) response: Response<Full<Bytes>>,
    /// Whether the connection is closed afterwards: HTTP/2 connections are expensive, so clients without credentials do
    /// not keep one.
    pub(crate) closes: bool,
}

impl Site {
    /// `access` authorizes requests. Without it the port must be on a loopback address, and requests to a host other
    /// than an IP address or `localhost` are rejected: a browser sends them for a page whose host name resolves to this
    /// machine (DNS rebinding).
    pub fn new(checks: Arc<Checks>, pages: Arc<dyn Pages>, access: Option<Arc<Access>>, scope: Scope) -> Self {
        Self { checks, pages, access, scope, writing: Semaphore::new(MAX_PAGES), failed: Default::default() }
    }

    /// Answers a request. The body is not read. `chain` are the client's certificates.
    pub(crate) async fn answer(&self, request: &Parts, chain: &[CertificateDer<'static>]) -> Answer {
        let (mut response, closes) = match self.permitted(request, chain).await {
            Ok(anonymous) => (self.page(request), anonymous),
            Err(response) => (response, true),
        };
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        Answer { response, closes }
    }

    /// Whether the request had no credentials, if it is permitted.
    async fn permitted(
        &self,
        request: &Parts,
        chain: &[CertificateDer<'static>],
    ) -> Result<bool, Response<Full<Bytes>>> {
        let path = request.uri.path();
        if self.access.is_none() && !is_of_this_machine(request) {
            return Err(text(
                StatusCode::FORBIDDEN,
                "this port answers requests to an IP address or to localhost only\n",
            ));
        }
        // Probes never wait for a review, whatever their credentials.
        let Some(access) = self.access.as_ref().filter(|access| !access.is_always_allowed(path)) else {
            return Ok(chain.is_empty() && !request.headers.contains_key(header::AUTHORIZATION));
        };
        let verb = request.method.as_str().to_ascii_lowercase();
        let headers = request.headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
        let headers: Vec<(&str, &str)> = headers.collect();
        let asked = Asked { verb: &verb, path, headers: &headers, chain };
        match access.permission(&asked).await {
            Permission::Allowed { anonymous } => Ok(anonymous),
            Permission::Unauthorized => {
                Err(response(StatusCode::UNAUTHORIZED, JSON, unauthorized().to_string() + "\n"))
            }
            Permission::Forbidden { user, reason } => {
                let body = forbidden(&user, &verb, path, &reason).to_string() + "\n";
                Err(response(StatusCode::FORBIDDEN, JSON, body))
            }
            Permission::Busy => Err(busy("too many reviews of clients are under way")),
            Permission::Failed(why) => {
                Err(response(StatusCode::INTERNAL_SERVER_ERROR, TEXT, internal_error(path, &why)))
            }
        }
    }

    fn page(&self, request: &Parts) -> Response<Full<Bytes>> {
        let (method, path) = (&request.method, request.uri.path());
        let query = request.uri.query().unwrap_or_default();
        let accept = request.headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
        let is_read = *method == Method::GET || *method == Method::HEAD;
        // Without authorization nothing may be changed.
        let is_reset = self.access.is_some() && *method == Method::DELETE && path == "/metrics/slis";
        if !is_read && !is_reset {
            return text(StatusCode::METHOD_NOT_ALLOWED, "method not allowed: use GET\n");
        }
        for probe in Probe::ALL {
            let Some(rest) = path.strip_prefix('/').and_then(|path| path.strip_prefix(probe.as_str())) else {
                continue;
            };
            match rest.strip_prefix('/') {
                None if rest.is_empty() => return self.probe(probe, query),
                Some(name) => {
                    let Some((ok, body)) = self.checks.single(probe, name) else { return not_found() };
                    return text(status(ok), body);
                }
                None => {}
            }
        }
        let Ok(_slot) = self.writing.try_acquire() else { return busy("too many pages are being written") };
        match path {
            "/metrics" => {
                let form = Exposition::negotiate(accept);
                response(StatusCode::OK, form.content_type(), form.write(self.pages.metrics()))
            }
            "/metrics/slis" if is_reset => {
                self.checks.reset_metrics();
                text(StatusCode::OK, "metrics reset\n")
            }
            "/metrics/slis" => {
                response(StatusCode::OK, Exposition::Prometheus.content_type(), self.checks.metrics_text())
            }
            _ if self.scope != Scope::All => not_found(),
            "/configz" => json(&self.pages.config()),
            "/flagz" => {
                let flags = self.pages.flags();
                let text = || zpages::flagz_text(COMPONENT, &flags);
                zpage(accept, "Flagz", text, |version| zpages::flagz_object(version, COMPONENT, &flags))
            }
            "/statusz" => {
                let About { started, up, version, emulates } = self.pages.about();
                let status = zpages::Status { started, up, version, emulates, paths: PATHS.to_vec() };
                let text = || status.text(COMPONENT);
                zpage(accept, "Statusz", text, |version| status.object(version, COMPONENT))
            }
            _ if path.starts_with(PAGE) => self.web_page(&path[PAGE.len()..]),
            _ if path == PAGE.trim_end_matches('/') => {
                let mut moved = text(StatusCode::PERMANENT_REDIRECT, "");
                moved.headers_mut().insert(header::LOCATION, HeaderValue::from_static(PAGE));
                moved
            }
            _ => match path.strip_prefix(DEBUG).and_then(|name| self.pages.controller(name)) {
                Some(state) => json(&state),
                None => not_found(),
            },
        }
    }

    /// The web page and its data. `path` is relative to the page.
    fn web_page(&self, path: &str) -> Response<Full<Bytes>> {
        // Names of plugins need no escapes.
        let detail = || self.pages.detail(path.strip_prefix("overview/")?);
        let mut response = match page::asset(path) {
            Some(Asset { content_type, text }) => response(StatusCode::OK, content_type, text),
            None if path == "overview" => json(&self.pages.overview()),
            None => detail().map_or_else(not_found, |detail| json(&detail)),
        };
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(page::POLICY));
        headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
        response
    }

    fn probe(&self, probe: Probe, query: &str) -> Response<Full<Bytes>> {
        let (mut excluded, mut verbose) = (BTreeSet::new(), false);
        for (name, value) in form_urlencoded::parse(query.as_bytes()).take(MAX_EXCLUDED) {
            match &*name {
                "exclude" => drop(excluded.insert(value.into_owned())),
                "verbose" => verbose = true,
                _ => {}
            }
        }
        let answer = self.checks.answer(probe, &excluded, verbose);
        if let Some(why) = answer.failed
            && self.failed[probe as usize].may_report()
        {
            tracing::warn!(why, "{} check failed", probe.as_str());
        }
        text(status(answer.ok), answer.body)
    }
}

fn status(ok: bool) -> StatusCode {
    if ok { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR }
}

fn response(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    response(status, TEXT, body)
}

fn json(value: &Value) -> Response<Full<Bytes>> {
    response(StatusCode::OK, JSON, value.to_string())
}

/// A page in a format that the client accepts.
fn zpage(
    accept: &str,
    kind: &str,
    text_form: impl FnOnce() -> String,
    object: impl FnOnce(&str) -> Value,
) -> Response<Full<Bytes>> {
    let Some(form) = zpages::negotiate(accept, kind) else {
        return response(StatusCode::NOT_ACCEPTABLE, JSON, zpages::not_acceptable().to_string());
    };
    let mut response = match form {
        Form::Text => text(StatusCode::OK, text_form()),
        Form::Json(version) => json(&object(version)),
        Form::Yaml(version) => match serde_norway::to_string(&object(version)) {
            Ok(yaml) => response(StatusCode::OK, YAML, yaml),
            Err(why) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{why}\n")),
        },
    };
    if form.is_deprecated() {
        response.headers_mut().insert(header::WARNING, HeaderValue::from_static(DEPRECATED));
    }
    response
}

/// Whether the `Host` of a request is an IP address or `localhost`, or absent.
fn is_of_this_machine(request: &Parts) -> bool {
    let of_header = request.headers.get(header::HOST).map(|host| host.to_str().unwrap_or_default());
    let Some(host) = request.uri.authority().map(Authority::as_str).or(of_header) else { return true };
    let Ok(host) = host.parse::<Authority>() else { return false };
    let name = host.host().to_ascii_lowercase();
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || name.ends_with(".localhost") || address.parse::<IpAddr>().is_ok()
}

fn not_found() -> Response<Full<Bytes>> {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}

fn busy(why: &str) -> Response<Full<Bytes>> {
    let mut response = text(StatusCode::TOO_MANY_REQUESTS, format!("{why}; try again later\n"));
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}
