//! Creates and deletes mirrors: the requests that [`super::mirrors`] decides about.

use std::sync::Arc;

use pintle_cache::Caches;
use pintle_core::contract::outcome::Preconditions;
use pintle_core::lifecycle::resource_kind;
use pintle_core::ports::api::{ApiError, ApiErrorClass, WriteRequest, WriteVerb};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use super::mirrors::{Due, Mirrors, Request, Seen, object};
use super::status::WritersOfPlugins;
use crate::control::BuiltIn;

/// Creates and deletes the mirrors of one host.
pub(super) struct MirrorWriter {
    caches: Arc<Caches>,
    writers: WritersOfPlugins,
    class: String,
    mirrors: Mirrors,
    tasks: JoinSet<Ended>,
    /// Whether the missing permission was logged.
    is_refused: bool,
}

/// The end of one request.
pub(super) struct Ended {
    name: String,
    request: Request,
    result: Result<(), ApiError>,
}

impl MirrorWriter {
    pub(super) fn new(caches: Arc<Caches>, writers: WritersOfPlugins, class: String) -> Self {
        Self { caches, writers, class, mirrors: Mirrors::default(), tasks: JoinSet::new(), is_refused: false }
    }

    /// Starts what is due about the mirror of one name. Returns when to ask again at the latest.
    pub(super) fn start_if_due(&mut self, name: &str, seen: Seen<'_>, built_in: BuiltIn) -> Option<Instant> {
        let resource = self.caches.resource(&resource_kind())?;
        let request = match self.mirrors.due(name, seen, built_in, Instant::now()) {
            Due::Never => return None,
            Due::At(next) => return Some(next),
            Due::Now(request) => request,
        };
        let (verb, in_path) = match request.clone() {
            Request::Create => (WriteVerb::Create { body: object(name, &self.class).to_string() }, ""),
            Request::Delete { uid, resource_version } => {
                let preconditions = Preconditions { uid: Some(uid), resource_version: Some(resource_version) };
                (WriteVerb::Delete { preconditions, propagation: None, grace_period_seconds: None }, name)
            }
        };
        let write =
            WriteRequest { resource, namespace: String::new(), name: in_path.to_owned(), subresource: None, verb };
        let (writer, name) = ((self.writers)(name), name.to_owned());
        self.tasks.spawn(async move {
            let result = writer.write(&write).await.map(drop);
            Ended { name, request, result }
        });
        None
    }

    /// The next request that ends; `None` if none is under way.
    ///
    /// # Cancel safety
    /// No result is lost.
    pub(super) async fn ended(&mut self) -> Option<Result<Ended, JoinError>> {
        self.tasks.join_next().await
    }

    /// Takes note of the end of a request.
    pub(super) fn end(&mut self, ended: Result<Ended, JoinError>) {
        let Ended { name, request, result } = match ended {
            Ok(ended) => ended,
            Err(error) => {
                // The mirror stays as it is: the request would fail again.
                tracing::error!(%error, "writing the ControllerPlugin of a built-in controller failed");
                return;
            }
        };
        let verb = if request == Request::Create { "created" } else { "deleted" };
        match &result {
            Ok(()) => tracing::debug!(plugin = name, "the ControllerPlugin of the built-in controller is {verb}"),
            Err(error) => match error.class {
                // The leader writes it.
                ApiErrorClass::NotLeading => return self.mirrors.not_leading(&name),
                // Somebody was faster, which the cache will show.
                ApiErrorClass::AlreadyExists | ApiErrorClass::Conflict | ApiErrorClass::NotFound => {}
                ApiErrorClass::Forbidden if self.is_refused => {}
                ApiErrorClass::Forbidden => {
                    self.is_refused = true;
                    tracing::warn!(
                        plugin = name,
                        %error,
                        "the host may not create and delete ControllerPlugins, so `kubectl get controllerplugins` does not list its built-in controllers; bind the role that `pintle rbac` prints"
                    );
                }
                _ => tracing::warn!(
                    plugin = name,
                    %error,
                    "the ControllerPlugin of the built-in controller cannot be {verb}"
                ),
            },
        }
        self.mirrors.ended(&name, &request, result.is_ok(), Instant::now());
    }
}
