//! The routes of the admin API, version 1.
//!
//! | request | does |
//! | --- | --- |
//! | `GET /v1/overview` | shows the host at a glance |
//! | `GET /v1/plugins` | lists |
//! | `POST /v1/plugins` | loads |
//! | `GET /v1/plugins/NAME` | describes |
//! | `DELETE /v1/plugins/NAME` | unloads |
//! | `POST /v1/plugins/NAME/{swap,rollback,disable,enable,approve}` | performs that operation |
//! | `GET /v1/plugins/NAME/overview` | shows it in detail: its last minutes, and the keys of its queues |
//! | `GET /v1/plugins/NAME/diff` | shows the report of the last shadow run |
//! | `GET /v1/plugins/NAME/failures` | lists the last failed runs |
//! | `GET /v1/plugins/NAME/failures/ID` | shows one with its input; values of Secrets only with `?secrets=true` |
//!
//! NAME is the name of a plugin, or an alias that no other plugin has. An error is a `Refusal` with a matching status
//! code. `GET /v1/plugins` shows the progress of a swap.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{ConnectInfo, DefaultBodyLimit, FromRequestParts, Path, RawQuery, Request, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Router, middleware};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pintle_core::lifecycle::SwapReport;
use pintle_oci::{Evidence, MAX_COMPONENT_BYTES};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::peer::Peer;
use super::{failures, peer};
use crate::control::{Control, Wanted};
use crate::wire::{ApplyRequest, DiffAnswer, DisableRequest, Refusal, reason};

/// Longest body: a component in base64, and a megabyte for the other fields.
const MAX_BODY_BYTES: usize = MAX_COMPONENT_BYTES.div_ceil(3) * 4 + (1 << 20);

/// An error as a response.
struct Refused(Refusal);

impl From<Refusal> for Refused {
    fn from(why: Refusal) -> Self {
        Self(why)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        json(status(&self.0.reason), &self.0)
    }
}

/// The status code of an error. All other reasons are about the component or its spec.
fn status(why: &str) -> StatusCode {
    match why {
        reason::FORBIDDEN => StatusCode::FORBIDDEN,
        reason::NOT_FOUND => StatusCode::NOT_FOUND,
        reason::BUSY | reason::ALREADY_LOADED | reason::CLAIMED => StatusCode::CONFLICT,
        reason::TOO_LARGE => StatusCode::PAYLOAD_TOO_LARGE,
        BAD_REQUEST => StatusCode::BAD_REQUEST,
        reason::INTERNAL => StatusCode::INTERNAL_SERVER_ERROR,
        NO_ROUTE => StatusCode::NOT_FOUND,
        NO_METHOD => StatusCode::METHOD_NOT_ALLOWED,
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    }
}

const BAD_REQUEST: &str = "BadRequest";
const NO_ROUTE: &str = "NoSuchPath";
const NO_METHOD: &str = "MethodNotAllowed";

type Answer = Result<Response, Refused>;
type Shared = State<Arc<Control>>;
type Caller = ConnectInfo<Peer>;

pub(super) fn router(control: Arc<Control>, save: failures::SaveRun) -> Router {
    Router::new()
        .route("/v1/overview", get(overview))
        .route("/v1/plugins", get(list).post(load))
        .route("/v1/plugins/{name}", get(describe).delete(unload))
        .route("/v1/plugins/{name}/swap", post(swap))
        .route("/v1/plugins/{name}/rollback", post(rollback))
        .route("/v1/plugins/{name}/disable", post(disable))
        .route("/v1/plugins/{name}/enable", post(enable))
        .route("/v1/plugins/{name}/approve", post(approve))
        .route("/v1/plugins/{name}/overview", get(detail))
        .route("/v1/plugins/{name}/diff", get(diff))
        .route("/v1/plugins/{name}/failures", get(list_failures))
        .route(
            "/v1/plugins/{name}/failures/{id}",
            get(move |control, name, path, query| failure(save, control, name, path, query)),
        )
        .fallback(|| async { Refused(Refusal::new(NO_ROUTE, "this host's admin API has no such path")) })
        .method_not_allowed_fallback(|| async { Refused(Refusal::new(NO_METHOD, "this path has no such method")) })
        .with_state(control)
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        // Outermost: no part of a request is read before the permission check.
        .layer(middleware::from_fn(check))
}

/// Passes permitted requests on; others get only the permission error.
async fn check(ConnectInfo(peer): ConnectInfo<Peer>, request: Request, next: Next) -> Response {
    let own = rustix::process::geteuid().as_raw();
    if peer::may(peer.uid, own) {
        return next.run(request).await;
    }
    let uid = peer.uid.map_or_else(|| "unknown".to_owned(), |uid| uid.to_string());
    tracing::warn!(uid, pid = peer.pid, method = %request.method(), path = request.uri().path(), "admin API: permission denied");
    let message = format!("uid {uid} may not use the admin API of this host; run as root, or as uid {own}");
    Refused(Refusal::new(reason::FORBIDDEN, message)).into_response()
}

/// The plugin in the path of a request, by its name or an alias.
struct Named(String);

impl FromRequestParts<Arc<Control>> for Named {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, control: &Arc<Control>) -> Result<Self, Refused> {
        let Path(mut values) = Path::<BTreeMap<String, String>>::from_request_parts(parts, control)
            .await
            .map_err(|why| Refusal::new(BAD_REQUEST, why.body_text()))?;
        Ok(Self(control.resolve(values.remove("name").unwrap_or_default())?))
    }
}

async fn overview(State(control): Shared) -> Response {
    ok(&control.overview())
}

async fn detail(State(control): Shared, Named(name): Named) -> Answer {
    Ok(ok(&control.detail(&name)?))
}

async fn list(State(control): Shared) -> Response {
    ok(&control.listing())
}

async fn describe(State(control): Shared, Named(name): Named) -> Answer {
    Ok(ok(&control.describe(&name)?))
}

async fn load(
    State(control): Shared,
    ConnectInfo(peer): Caller,
    body: Result<Bytes, axum::extract::rejection::BytesRejection>,
) -> Answer {
    let request = parse::<ApplyRequest>(body)?;
    let load = async move {
        let operator = control.operator(peer.uid);
        with(&control, request, async |wanted| operator.load(wanted).await).await
    };
    to_its_end(load).await
}

async fn swap(
    State(control): Shared,
    ConnectInfo(peer): Caller,
    Named(name): Named,
    body: Result<Bytes, axum::extract::rejection::BytesRejection>,
) -> Answer {
    let request = parse::<ApplyRequest>(body)?;
    let swap = async move {
        let operator = control.operator(peer.uid);
        with(&control, request, async |wanted| operator.swap(&name, wanted).await).await
    };
    to_its_end(swap).await
}

async fn rollback(State(control): Shared, ConnectInfo(peer): Caller, Named(name): Named) -> Answer {
    to_its_end(async move { control.operator(peer.uid).rollback(&name).await }).await
}

async fn disable(
    State(control): Shared,
    ConnectInfo(peer): Caller,
    Named(name): Named,
    body: Result<Bytes, axum::extract::rejection::BytesRejection>,
) -> Answer {
    let request = parse::<DisableRequest>(body)?;
    control.operator(peer.uid).disable(&name, &request.why)?;
    Ok(ok(&control.describe(&name)?))
}

async fn enable(State(control): Shared, ConnectInfo(peer): Caller, Named(name): Named) -> Answer {
    control.operator(peer.uid).enable(&name)?;
    Ok(ok(&control.describe(&name)?))
}

async fn approve(State(control): Shared, ConnectInfo(peer): Caller, Named(name): Named) -> Answer {
    control.operator(peer.uid).approve(&name)?;
    Ok(ok(&control.describe(&name)?))
}

async fn unload(State(control): Shared, ConnectInfo(peer): Caller, Named(name): Named) -> Answer {
    to_its_end(async move { control.operator(peer.uid).unload(&name).await }).await
}

async fn diff(State(control): Shared, Named(name): Named) -> Answer {
    Ok(ok(&DiffAnswer { shadow: control.diff(&name)? }))
}

async fn list_failures(State(control): Shared, Named(name): Named) -> Answer {
    Ok(ok(&failures::list(&control.failures(&name)?)))
}

async fn failure(
    save: failures::SaveRun,
    State(control): Shared,
    Named(name): Named,
    Path((_, id)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Answer {
    let secrets = query.as_deref() == Some("secrets=true");
    Ok(ok(&failures::saved(&control.failures(&name)?, &id, secrets, save)?))
}

/// Runs in its own task, so that a disconnecting client cannot interrupt it.
async fn to_its_end<T: Serialize + Send + 'static>(
    work: impl Future<Output = Result<T, Refusal>> + Send + 'static,
) -> Answer {
    match tokio::spawn(work).await {
        Ok(result) => Ok(ok(&result?)),
        Err(why) => Err(Refusal::new(reason::INTERNAL, why.to_string()).into()),
    }
}

/// Extracts the component of a request.
async fn with(
    control: &Control,
    request: ApplyRequest,
    apply: impl AsyncFnOnce(Wanted<'_>) -> Result<SwapReport, Refusal>,
) -> Result<SwapReport, Refusal> {
    let ApplyRequest { origin, component, builtin, spec, overrides, proof } = request;
    if let Some(name) = builtin {
        let wanted = control.built_in(&name, &overrides)?;
        return apply(Wanted {
            spec: spec.map(|spec| control.granted(&wanted.origin, &wanted.bytes, spec)).or(wanted.spec),
            ..wanted
        })
        .await;
    }
    let bytes = STANDARD
        .decode(component)
        .map_err(|why| Refusal::new(BAD_REQUEST, format!("component: it is not base64: {why}")))?;
    apply(Wanted { origin, bytes, spec, overrides: &overrides, evidence: Evidence::Shown(proof) }).await
}

fn parse<T: DeserializeOwned>(body: Result<Bytes, axum::extract::rejection::BytesRejection>) -> Result<T, Refused> {
    let body = body.map_err(|why| {
        let too_large = why.status() == StatusCode::PAYLOAD_TOO_LARGE;
        let (reason, message) = if too_large {
            (reason::TOO_LARGE, format!("a component has at most {MAX_COMPONENT_BYTES} bytes"))
        } else {
            (BAD_REQUEST, why.to_string())
        };
        Refusal::new(reason, message)
    })?;
    let mut json = serde_json::Deserializer::from_slice(&body);
    serde_path_to_error::deserialize(&mut json)
        .map_err(|why| Refusal::new(BAD_REQUEST, format!("{}: {}", why.path(), why.inner())).into())
}

fn ok(value: &impl Serialize) -> Response {
    json(StatusCode::OK, value)
}

fn json(status: StatusCode, value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(body) => (status, [(header::CONTENT_TYPE, "application/json")], body).into_response(),
        Err(why) => (StatusCode::INTERNAL_SERVER_ERROR, why.to_string()).into_response(),
    }
}
