//! Keeps a LeaseCandidate, by which this process takes part in the election of the API server.
//!
//! *Flow*: it is created, renewed when the API server asks and every five minutes, and deleted at the end, so that the API server does
//! not wait for an answer.
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

/// Pause after a request that failed, or a watch that ended.
const RETRY: Duration = Duration::from_secs(2);

/// What takes part in the election of which Lease.
#[derive(Clone, Debug)]
pub struct CandidateConfig {
    /// Identity of this process.
    pub identity: String,
    /// Namespace of the Lease and of the LeaseCandidate.
    pub namespace: String,
    /// Name of the Lease.
    pub lease: String,
    /// The version of Kubernetes that this process behaves as, `MAJOR.MINOR`.
    pub kubernetes: String,
}

/// Keeps the LeaseCandidate until `stopped`, then deletes it.
///
/// # Cancel safety
/// If dropped, the LeaseCandidate stays until the API server forgets it.
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
    /// The failure that was reported last.
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

    /// Without end.
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

    /// Waits until the API server asks for a renewal, the object is gone, or one is due.
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
            // What came between two watches is in the object, which is read again.
            tokio::time::sleep(RETRY).await;
        };
        // It is due at last.
        let _ = tokio::time::timeout_at(due, asked).await;
    }

    /// Logs a failure, once for each kind of it.
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
            // The API server has asked meanwhile.
            ApiErrorClass::Conflict => {
                tracing::debug!(candidate, %error, "the LeaseCandidate has changed; trying again")
            }
            _ => tracing::warn!(candidate, %error, "cannot write the LeaseCandidate; trying again"),
        }
    }
}
