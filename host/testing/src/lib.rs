//! Fakes of the ports of `pintle-core`, and small test objects.
//!
//! | port | fake |
//! | --- | --- |
//! | `api::ApiReader` | [`FakeServer`] |
//! | `api::ApiWriter`, `api::ApiWriters` | [`FakeWriter`], [`FakeWriters`] |
//! | `guest::Guest` | [`FakeGuest`] |
//! | `view::View` | [`FakeView`] |
//! | `trace::RunTracer` | [`FakeTracer`] |
//!
//! [`Gate`] is a load balancer for clients of real servers.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod gate;
mod guest;
pub mod server;
mod tracer;
mod view;
mod wait;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use pintle_core::contract::manifest::Manifest;
use pintle_core::contract::outcome::{Action, Event, Mutation, Order, Outcome, Preconditions, Step};
use pintle_core::object::id::{Key, Kind, ObjectKey};
use pintle_core::object::ingest::{IngestPlan, Ingester, Needs};
use pintle_core::object::texts::Projection;
use pintle_core::object::version::Uid;
use pintle_core::object::{Meta, Object, OwnerRef};
use pintle_core::ports::api::{ApiError, ApiErrorClass, ApiResource};

pub use self::gate::Gate;
pub use self::guest::{FakeGuest, GuestResult};
pub use self::server::FakeServer;
pub use self::tracer::FakeTracer;
pub use self::view::FakeView;
pub use self::wait::{PATIENCE, eventually, until};
pub use self::writer::{FakeWriter, FakeWriters};

/// The kind of Pods.
pub fn pod() -> Kind {
    Kind::new("", "v1", "Pod")
}

/// The resource of a kind.
pub fn resource(kind: &Kind) -> Arc<ApiResource> {
    Arc::new(ApiResource {
        kind: kind.clone(),
        plural: format!("{}s", kind.name.to_lowercase()),
        namespaced: &*kind.name != "Node",
        verbs: Vec::new(),
        subresources: Vec::new(),
        preferred: true,
    })
}

/// A manifest with write access to Pods, modified by `change`.
pub fn manifest(change: impl FnOnce(&mut serde_json::Value)) -> Arc<Manifest> {
    let mut manifest = serde_json::json!({
        "name": "widgets", "version": "1.0.0", "contract": "0.2",
        "watches": [{"kind": "v1/Pod", "enqueue": [{"to": "self"}]}],
        "queues": [{"name": "widgets"}],
        "grants": [{"verbs": ["create", "patch", "delete", "get", "list"], "kinds": ["v1/Pod"]}],
    });
    change(&mut manifest);
    Arc::new(Manifest::parse(manifest.to_string().as_bytes()).unwrap())
}

/// The key of the Pod with this name in namespace `ns`, in the queue `widgets`.
pub fn key(name: &str) -> Key {
    Key { queue: "widgets".into(), kind: pod(), object: ObjectKey::new("ns", name) }
}

/// Creates a Pod in namespace `ns`.
pub fn create(name: &str) -> Mutation {
    let action = Action::Create {
        kind: pod(),
        namespace: "ns".into(),
        object: format!(r#"{{"metadata":{{"name":"{name}"}}}}"#),
        subresource: None,
    };
    Mutation { action, on_success: None, on_failure: None, tolerate: Vec::new() }
}

/// Deletes a Pod in namespace `ns`.
pub fn delete(name: &str) -> Mutation {
    let action = Action::Delete {
        kind: pod(),
        object: ObjectKey::new("ns", name),
        preconditions: Preconditions::default(),
        propagation: None,
        grace_period_seconds: None,
    };
    Mutation { action, on_success: None, on_failure: None, tolerate: Vec::new() }
}

/// A step that is skipped after a failure.
pub fn step(order: Order, mutations: Vec<Mutation>) -> Step {
    Step { order, mutations, always: false }
}

/// An outcome of these steps.
pub fn steps(steps: Vec<Step>) -> Outcome {
    Outcome { steps, ..Outcome::default() }
}

/// An event about the Pod `ns/a`.
pub fn event(message: &str) -> Event {
    Event {
        regarding_kind: pod(),
        regarding: ObjectKey::new("ns", "a"),
        regarding_uid: "uid-a".into(),
        warning: false,
        reason: "Tested".into(),
        message: message.into(),
    }
}

/// The API server's error with this status code; 0 is a failed connection.
pub fn refusal(code: u16) -> ApiError {
    let (class, reason) = match code {
        0 => return ApiError::transport("connection refused"),
        403 => (ApiErrorClass::Forbidden, "Forbidden"),
        404 => (ApiErrorClass::NotFound, "NotFound"),
        409 => (ApiErrorClass::Conflict, "Conflict"),
        422 => (ApiErrorClass::Invalid, "Invalid"),
        429 => (ApiErrorClass::Throttled(Some(Duration::from_secs(7))), "TooManyRequests"),
        _ => (ApiErrorClass::Server, "InternalError"),
    };
    ApiError { class, code, reason: reason.into(), message: format!("the server says {code}"), causes: Vec::new() }
}

/// An object of namespace `ns` with the uid `uid-NAME`, and the name of its controller (a Pod).
pub fn cached(name: &str, controller: Option<&str>) -> Arc<Object> {
    let owner = |name: &str| OwnerRef {
        kind: pod(),
        name: name.into(),
        uid: Uid::parse(&format!("uid-{name}")),
        controller: true,
    };
    let meta = Meta {
        key: ObjectKey::new("ns", name),
        uid: Uid::parse(&format!("uid-{name}")),
        owners: controller.into_iter().map(owner).collect(),
        ..Meta::default()
    };
    Arc::new(Object {
        meta,
        text_set: Arc::default(),
        texts: Box::default(),
        index_values: Box::default(),
        selectors: Box::default(),
    })
}

/// The kind, and this object as the caches have it for a watch with `whole`.
pub fn whole(kind: &str, object: &serde_json::Value) -> (Kind, Arc<Object>) {
    let kind: Kind = kind.parse().unwrap();
    let needs = Needs { projections: [Projection::Whole].into(), ..Needs::default() };
    let plan = IngestPlan::new(kind.clone(), needs);
    (kind, Arc::new(Ingester::default().ingest(&plan, &object.to_string()).unwrap()))
}

/// 2027-01-15T08:00:00Z plus the time that the paused clock has advanced since `start`.
pub fn wall_clock() -> Arc<dyn Fn() -> Timestamp + Send + Sync> {
    let start = tokio::time::Instant::now();
    Arc::new(move || Timestamp::from_second(1_800_000_000).unwrap() + start.elapsed())
}
