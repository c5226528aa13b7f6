//! Maintains a LeaseCandidate, with which this process takes part in coordinated leader election.
//!
//! *Flow*: it is created, renewed on request of the API server and every five minutes, and deleted at the end, so that
//! the API server does not wait for an answer.
//!
//! *Source*: `leasecandidate.go` of `client-go/tools/leaderelection`, which does not delete it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;
use pintle_core::contract::outcome::Preconditions;
use pintle_core::object::id::ObjectKey;
use pintle_core::policy::election::{CANDIDATE_PERIOD, LeaseCandidate};
use pintle_core::policy::roles;
use pintle_core::ports::api::{ApiError, ApiErrorClass, WatchFrame, WatchStream, WriteVerb, WriterIdentity};
use tokio::time::Instant;

use super::object::{self, OneObject};
use super::{CLIENT, RELEASE_PATIENCE};
use crate::manager::Manager;
use crate::recorder::WallClock;

/// Pause after a failed request or the end of a watch.
const RETRY: Duration = Duration::from_secs(2);

/// A candidate, and the Lease that it is for.
#[derive(Clone, Debug)]
pub struct CandidateConfig {
    /// Identity of this process.
    pub identity: String,
    /// Namespace of the Lease and of the LeaseCandidate.
    pub namespace: String,
    /// Name of the Lease.
    pub lease: String,
    /// The version of Kubernetes that this process emulates, `MAJOR.MINOR`.
    pub kubernetes: String,
}

/// Maintains the LeaseCandidate until `stopped`, then deletes it.
///
/// # Cancel safety
/// If dropped, the LeaseCandidate stays until the API server removes it.
pub async fn keep_candidate(
    config: CandidateConfig,
    manager: Arc<Manager>,
    clock: WallClock,
    stopped: impl Future<Output = ()>,
) {
    let identity = WriterIdentity { name: CLIENT.to_owned(), qps: None, burst: 1, account: None, fence: None };
    let writer = manager.writers.client(&identity).writer;
    let resource = object::resource(LeaseCandidate::kind(), "leasecandidates");
    let key = ObjectKey::new(&config.namespace, &config.identity);
    let object = OneObject::new(manager.reader.clone(), writer, resource, key);
    let keeper = Keeper { config, object, clock, reported: None };
    keeper.run(stopped).await;
}

struct Keeper {
    config: CandidateConfig,
    object: OneObject,
    clock: WallClock,
    /// The last reported failure.
    reported: Option<ApiErrorClass>,
}

impl Keeper {
    async fn run(mut self, stopped: impl Future<Output = ()>) {
        tokio::pin!(stopped);
        tokio::select! {
            biased;
            () = &mut stopped => {}
            () = self.keep() => {}
        }
        let delete = WriteVerb::Delete {
            preconditions: Preconditions::default(),
            propagation: None,
            grace_period_seconds: None,
        };
        match tokio::time::timeout(RELEASE_PATIENCE, self.object.write(delete)).await {
            Ok(Err(error)) if error.class != ApiErrorClass::NotFound => {
                tracing::debug!(candidate = %self.object, %error, "the LeaseCandidate is not deleted; the API server forgets it later");
            }
            _ => {}
        }
    }

    /// Never returns.
    async fn keep(&mut self) {
        loop {
            match self.renew().await {
                Ok(version) => {
                    self.reported = None;
                    self.until_asked(&version).await;
                }
                Err(error) => {
                    self.report(&error);
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    /// Creates or renews it; returns its version.
    async fn renew(&self) -> Result<String, ApiError> {
        let now: Timestamp = (self.clock)();
        let verb = match self.object.read().await? {
            Some(text) => {
                let candidate = LeaseCandidate::parse(&text).map_err(ApiError::transport)?;
                WriteVerb::Update { body: candidate.renewed(now).text() }
            }
            None => {
                let CandidateConfig { identity, namespace, lease, kubernetes } = &self.config;
                WriteVerb::Create { body: LeaseCandidate::new(namespace, identity, lease, kubernetes, now).text() }
            }
        };
        Ok(self.object.write(verb).await?.resource_version)
    }

    /// Waits until the API server requests a renewal, the object is deleted, or a renewal is due.
    async fn until_asked(&self, version: &str) {
        let due = Instant::now() + CANDIDATE_PERIOD;
        let asked = async {
            let mut stream: WatchStream = match self.object.watch(version).await {
                Ok(stream) => stream,
                Err(error) => {
                    tracing::debug!(candidate = %self.object, %error, "the LeaseCandidate cannot be watched");
                    return tokio::time::sleep(RETRY).await;
                }
            };
            while let Some(Ok(frame)) = stream.next().await {
                match frame {
                    WatchFrame::Added(text) | WatchFrame::Modified(text) => {
                        if LeaseCandidate::parse(&text).is_ok_and(|candidate| candidate.is_asked()) {
                            return;
                        }
                    }
                    WatchFrame::Deleted(_) => return,
                    WatchFrame::Bookmark { .. } => {}
                }
            }
            // The object is read again, so changes between two watches are not lost.
            tokio::time::sleep(RETRY).await;
        };
        // On a timeout, a renewal is due.
        let _ = tokio::time::timeout_at(due, asked).await;
    }

    /// Logs a failure, once per class.
    fn report(&mut self, error: &ApiError) {
        if self.reported.replace(error.class) == Some(error.class) {
            return;
        }
        let candidate = self.object.to_string();
        match error.class {
            ApiErrorClass::NotFound => tracing::error!(
                candidate,
                "the API server does not serve LeaseCandidates, so it elects nobody; start it with --feature-gates=CoordinatedLeaderElection=true and --runtime-config=coordination.k8s.io/v1beta1=true, or this host without that gate"
            ),
            ApiErrorClass::Forbidden => tracing::error!(
                candidate,
                %error,
                "the host may not write its LeaseCandidate; {}",
                roles::advice(&error.message)
            ),
            // The API server has requested a renewal meanwhile.
            ApiErrorClass::Conflict => {
                tracing::debug!(candidate, %error, "the LeaseCandidate has changed; trying again")
            }
            _ => tracing::warn!(candidate, %error, "cannot write the LeaseCandidate; trying again"),
        }
    }
}
