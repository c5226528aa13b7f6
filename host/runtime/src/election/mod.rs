//! Leader election: acquires, renews and releases the Lease.
//!
//! ```text
//! Lease <──get, watch, create, update──> Election ──lead, stand_by──> Manager
//!                                           └──term──> Leadership <──is_open?── every write
//! ```
//!
//! Invariants:
//! 1. [`Leadership`] is open only within a term ([`Candidate`] decides); it closes by the clock, regardless of the
//!    tasks of this process.
//! 2. A term ends with [`Manager::stand_by`], and the next one begins after it has returned.
//! 3. The Lease is released only after the last write of this process.
//!
//! Not here: the decisions (`pintle_core::policy::election`), the check of each request (the adapter to the API
//! server).

mod candidate;
pub(crate) mod leadership;
mod lock;
mod object;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use pintle_core::contract::outcome::Event;
use pintle_core::policy::election::{
    Action, Candidate, GroupId, LAST_WRITES, LastWrites, Lease, RESERVED_FOR, Times, WANTED_BY,
};
use pintle_core::policy::roles;
use pintle_core::ports::api::{
    ApiError, ApiErrorClass, WatchFrame, WatchStream, WriteFence as _, WriteVerb, WriterIdentity, Written,
};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

pub use self::candidate::{CandidateConfig, keep_candidate};
pub use self::leadership::{BootClock, Leadership, Sharing, Standing};
use self::lock::Lock;
pub use self::lock::read_lease;
use crate::manager::Manager;
use crate::metrics::Metrics;
use crate::recorder::{Recorder, RecorderConfig};
use pintle_core::policy::held::{Account, MAX_HELD_BYTES};

/// The client name for Lease requests, part of the user agent; the same as in kube-controller-manager.
const CLIENT: &str = "leader-election";
/// `source.component` of events about the Lease.
const COMPONENT: &str = "pintle";
/// Time limit for the release at the end.
const RELEASE_PATIENCE: Duration = Duration::from_secs(5);
/// Interval for checking whether the caches show the last leader's writes.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// Time limit for the event about the release.
const EVENT_PATIENCE: Duration = Duration::from_secs(1);

/// The Lease, and the options for acquiring it.
#[derive(Clone)]
pub struct ElectionConfig {
    /// Identity of this process; it must be unique, also over time.
    pub identity: String,
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// The times.
    pub times: Times,
    /// The group of plugins that the Lease is for.
    pub group: GroupId,
    /// The groups of this host.
    pub sharing: Arc<Sharing>,
    /// Whether the API server decides the election, and this process only renews the Lease.
    pub coordinated: bool,
    /// Seed of the jitter.
    pub seed: u64,
}

/// One candidate.
pub struct Election {
    config: ElectionConfig,
    candidate: Candidate,
    leadership: Arc<Leadership>,
    manager: Arc<Manager>,
    lock: Lock,
    recorder: Recorder,
    /// Ends when the recorder is dropped and its events are written.
    recording: JoinHandle<()>,
    metrics: Arc<Metrics>,
    random: StdRng,
    standing: watch::Sender<Standing>,
    /// Whether the manager is leading.
    leads: bool,
    /// Whether the last write of the Lease was not answered: it may have been executed.
    unanswered: bool,
    /// The last reported holder.
    reported: Option<String>,
    /// Signals changes of the shares that this election has not processed yet.
    shared: watch::Receiver<()>,
    /// The last writes of the previous leader, and the time until which this one waits for its caches to show them.
    inherited: Option<(LastWrites, Instant)>,
    watch: Option<WatchStream>,
    /// Do not open a watch before this time.
    watch_after: Instant,
}

impl Election {
    /// Creates an idle candidate. `leadership` must be the manager's fence. Call it within a tokio runtime.
    pub fn new(config: ElectionConfig, leadership: Arc<Leadership>, manager: Arc<Manager>) -> Self {
        let identity = WriterIdentity { name: CLIENT.to_owned(), qps: None, burst: 1, account: None, fence: None };
        let (writer, metrics) = (manager.writers.client(&identity).writer, manager.metrics.clone());
        let recorder = RecorderConfig {
            component: COMPONENT.to_owned(),
            clock: leadership.clock.clone(),
            seed: config.seed,
            idle_signal: Arc::default(),
            account: Account::new(MAX_HELD_BYTES),
        };
        metrics.leads(&config.name, false);
        let candidate = Candidate::new(config.identity.clone(), config.times, &config.namespace, &config.name);
        let candidate = if config.coordinated { candidate.coordinated() } else { candidate };
        let standing = Standing { identity: config.identity.clone(), holder: None, leads: false, renewed: None };
        let (recorder, recording) = Recorder::start(writer.clone(), recorder, metrics.events(COMPONENT));
        let standing = watch::Sender::new(standing);
        let lease = format!("{}/{}", config.namespace, config.name);
        manager.observations.add_election(lease, standing.subscribe());
        Self {
            candidate,
            leadership,
            recorder,
            recording,
            lock: Lock::new(manager.reader.clone(), writer, &config.namespace, &config.name),
            manager,
            metrics,
            random: StdRng::seed_from_u64(config.seed),
            standing,
            leads: false,
            unanswered: false,
            reported: None,
            shared: config.sharing.changes(),
            inherited: None,
            watch: None,
            watch_after: Instant::now(),
            config,
        }
    }

    /// Its public state.
    pub fn standing(&self) -> watch::Receiver<Standing> {
        self.standing.subscribe()
    }

    /// Acquires and renews the Lease until `stopped`; then releases it, if this process holds it. `stopped` must
    /// complete only after the last write: the manager has stopped.
    ///
    /// # Cancel safety
    /// If dropped, the Lease is not released: other candidates wait until it expires.
    pub async fn run(mut self, stopped: impl Future<Output = ()>) {
        let lease = self.lock.to_string();
        tracing::info!(lease, identity = self.config.identity, "waiting for the Lease of the leader election");
        tokio::pin!(stopped);
        loop {
            self.shared.mark_unchanged();
            self.candidate.set_share(self.config.sharing.share(self.config.group, &self.config.times));
            let action = self.candidate.next(self.leadership.moment());
            self.metrics.renewed_slowly(&self.config.name, self.candidate.take_slow());
            if matches!(action, Action::Stop(_)) {
                // This comes first: it closes the fence.
                self.leadership.set(None);
            }
            self.begin_if_due();
            tokio::select! {
                biased;
                () = &mut stopped => break,
                () = self.act(action) => {}
            }
        }
        if self.manager.has_abandoned_runs() {
            self.step_down();
            tracing::warn!(
                lease,
                "the Lease is not released, because writes may be under way; others wait until it expires"
            );
        } else {
            self.release(None).await;
        }
        let Self { recorder, recording, .. } = self;
        recorder.close();
        drop(recorder);
        // The last event is not worth a longer wait.
        let _ = tokio::time::timeout(EVENT_PATIENCE, recording).await;
    }

    /// Executes an action. If dropped, its request may or may not have been executed.
    async fn act(&mut self, action: Action) {
        let patience = self.config.times.renew_deadline / 2;
        // Do not miss the end of the term.
        let left = self.candidate.term().map(|term| term.until().saturating_duration_since(Instant::now().into_std()));
        let patience = left.map_or(patience, |left| patience.min(left));
        match action {
            Action::Stop(why) => self.stop_leading(&why).await,
            Action::Wait(until) => self.wait(until.into()).await,
            Action::Read => match tokio::time::timeout(patience, self.lock.read()).await {
                Ok(Ok(lease)) => {
                    self.unanswered = false;
                    self.candidate.saw(lease, Instant::now().into_std());
                    self.report_holder();
                }
                Ok(Err(error)) => self.failed("read", &error),
                Err(_) => self.failed("read", &late(patience)),
            },
            Action::Create(lease) => {
                let verb = WriteVerb::Create { body: lease.text() };
                self.hold(lease, verb, patience).await;
            }
            Action::Update(lease) => {
                let verb = WriteVerb::Update { body: lease.text() };
                self.hold(lease, verb, patience).await;
            }
            Action::Ask(lease) => {
                let asked = self.lock.write(WriteVerb::Update { body: lease.text() });
                match tokio::time::timeout(patience, asked).await {
                    Ok(Ok(Written { resource_version, .. })) => {
                        let (lease_name, holder) = (self.lock.to_string(), lease.holder().to_owned());
                        tracing::info!(
                            lease = lease_name,
                            holder,
                            "asked for the Lease, because its holder leads more groups"
                        );
                        self.candidate.asked(lease, &resource_version, Instant::now().into_std());
                        self.report_holder();
                    }
                    Ok(Err(error)) => self.failed("ask for", &error),
                    Err(_) => self.failed("ask for", &late(patience)),
                }
            }
            Action::HandOver(to) => self.hand_over(to.as_deref()).await,
        }
    }

    async fn hold(&mut self, lease: Lease, verb: WriteVerb, patience: Duration) {
        // The time before sending: other candidates see the write later.
        let sent = self.leadership.moment();
        let released = self.candidate.lease().filter(|lease| lease.is_released());
        let inherited = released.and_then(|lease| lease.annotation(LAST_WRITES)).map(LastWrites::parse);
        self.unanswered = true;
        let written = tokio::time::timeout(patience, self.lock.write(verb)).await;
        self.unanswered = !matches!(&written, Ok(Ok(_)));
        match written {
            Ok(Ok(Written { resource_version, uid, .. })) => {
                if self.candidate.wrote(lease, &resource_version, &uid, sent) {
                    tracing::info!(lease = self.lock.to_string(), identity = self.config.identity, "took the Lease");
                    // A crash of the last leader would have cost as much time.
                    let until = Instant::now() + self.config.times.lease_duration;
                    self.inherited = inherited.map(|writes| (writes, until));
                }
                self.leadership.set(self.candidate.term());
                self.report_holder();
            }
            Ok(Err(error)) => self.failed("take", &error),
            Err(_) => self.failed("take", &late(patience)),
        }
    }

    fn failed(&mut self, what: &str, error: &ApiError) {
        let (lease, leads) = (self.lock.to_string(), self.leads);
        match error.class {
            ApiErrorClass::Conflict | ApiErrorClass::AlreadyExists => {
                tracing::debug!(lease, %error, "another candidate was faster, or the Lease was edited");
            }
            ApiErrorClass::Forbidden => tracing::error!(
                lease, %error,
                "the host may not {what} the Lease of its leader election, so it runs no plugin; {}",
                roles::advice(&error.message)
            ),
            _ => tracing::warn!(lease, leads, %error, "cannot {what} the Lease of the leader election; trying again"),
        }
        let jitter = self.random.random_range(0.0..1.0);
        self.candidate.failed(jitter, Instant::now().into_std());
    }

    /// Waits until this time, or until the Lease changes.
    async fn wait(&mut self, until: Instant) {
        let now = Instant::now();
        if self.inherited.is_some() {
            return tokio::time::sleep_until(until.min(now + LOOK_AGAIN)).await;
        }
        // The term of a newly created Lease begins a little later.
        let until = match self.candidate.term() {
            Some(term) if !self.leads => until.min(term.from().into()),
            _ => until,
        };
        // The Lease of another group may decide whether to ask for this one.
        let mut shared = self.shared.clone();
        if self.watch.is_none() && Instant::now() >= self.watch_after {
            self.watch_after = Instant::now() + self.config.times.retry_period;
            let opened = tokio::time::timeout_at(until, self.lock.watch(self.candidate.lease())).await;
            match opened {
                Ok(Ok(stream)) => self.watch = Some(stream),
                // Without a watch, the Lease is read every few seconds, which only takes longer.
                Ok(Err(error)) => tracing::debug!(lease = self.lock.to_string(), %error, "the Lease cannot be watched"),
                Err(_) => {}
            }
        }
        let frame = tokio::select! {
            biased;
            _ = shared.changed() => return,
            // Without a watch, only the time and the other groups end the wait.
            Some(frame) = async { Some(self.watch.as_mut()?.next().await) } => frame,
            () = tokio::time::sleep_until(until) => return,
        };
        let (text, is_deleted) = match frame {
            Some(Ok(WatchFrame::Added(text) | WatchFrame::Modified(text))) => (text, false),
            Some(Ok(WatchFrame::Deleted(text))) => (text, true),
            Some(Ok(WatchFrame::Bookmark { .. })) => return,
            Some(Err(_)) | None => {
                self.watch = None;
                return;
            }
        };
        if let Ok(lease) = Lease::parse(&text) {
            self.candidate.heard(lease, is_deleted, Instant::now().into_std());
            self.report_holder();
        }
    }

    /// Starts the plugins if a term has begun.
    fn begin_if_due(&mut self) {
        if self.leads || !self.leadership.is_open() {
            return;
        }
        if let Some((writes, until)) = &self.inherited {
            if !self.manager.sees(writes) {
                if Instant::now() < *until {
                    return;
                }
                tracing::warn!("the caches do not show what the last leader wrote; its work may be done twice");
            }
            self.inherited = None;
        }
        self.leads = true;
        tracing::info!(lease = self.lock.to_string(), identity = self.config.identity, "became leader");
        self.metrics.leads(&self.config.name, true);
        self.record("became leader");
        self.manager.lead(self.config.group);
        self.publish();
    }

    /// Stops the plugins. The fence is closed.
    async fn stop_leading(&mut self, why: &str) {
        self.inherited = None;
        if !std::mem::take(&mut self.leads) {
            return;
        }
        tracing::error!(
            lease = self.lock.to_string(),
            identity = self.config.identity,
            why,
            "stopped leading: plugins stop until this host leads again"
        );
        self.metrics.leads(&self.config.name, false);
        self.publish();
        self.record("stopped leading");
        self.manager.stand_by(self.config.group).await;
    }

    /// Ends the term gracefully while the API server answers: lets runs and their writes end, and releases the Lease.
    async fn hand_over(&mut self, to: Option<&str>) {
        let lease = self.lock.to_string();
        let to_whom = to.unwrap_or("a candidate that the API server prefers");
        tracing::info!(lease, to = to_whom, "hands the Lease over: its plugins stop here");
        let until = self.candidate.term().map_or_else(Instant::now, |term| term.until().into());
        if self.leads {
            let manager = self.manager.clone();
            let standing_by = manager.stand_by(self.config.group);
            tokio::pin!(standing_by);
            let in_time = tokio::time::timeout_at(until, &mut standing_by).await.is_ok();
            self.leadership.set(None);
            if !in_time {
                tracing::warn!(lease, "runs did not end within the term; what they still want to write is dropped");
                standing_by.await;
            }
        }
        self.release(to).await;
        // Whatever the result of the release.
        self.candidate.failed(0.0, Instant::now().into_std());
    }

    /// Releases the Lease, so that the next leader need not wait. `to`: the only candidate that may take it
    /// immediately, if given.
    async fn release(&mut self, to: Option<&str>) {
        let was_leader = self.step_down();
        let released = tokio::time::timeout(RELEASE_PATIENCE, self.write_release(to)).await;
        match released.unwrap_or_else(|_| Err(late(RELEASE_PATIENCE))) {
            Ok(true) => tracing::info!(lease = self.lock.to_string(), "released the Lease"),
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(lease = self.lock.to_string(), %error, "the Lease is not released; others wait until it expires");
            }
        }
        if was_leader {
            self.record("stopped leading");
        }
    }

    /// Ends the term locally. Returns whether there was one.
    fn step_down(&mut self) -> bool {
        let was_leader = std::mem::take(&mut self.leads);
        self.leadership.set(None);
        self.metrics.leads(&self.config.name, false);
        self.publish();
        was_leader
    }

    /// Removes the holder of the Lease; returns whether it was this process.
    #[doc(alias = "tryRelease")]
    async fn write_release(&mut self, to: Option<&str>) -> Result<bool, ApiError> {
        // If this term ends before it has begun, the next leader inherits the same writes.
        let of_term = || self.manager.last_writes(self.config.group);
        let last_writes = self.inherited.take().map_or_else(of_term, |(writes, _)| writes);
        if self.unanswered {
            let present = self.lock.read().await?;
            self.candidate.saw(present, Instant::now().into_std());
        }
        loop {
            let Some(mut lease) = self.candidate.release(self.leadership.moment()) else { return Ok(false) };
            lease.annotate(LAST_WRITES, last_writes.text().as_deref());
            lease.annotate(RESERVED_FOR, to);
            match self.lock.write(WriteVerb::Update { body: lease.text() }).await {
                // A renewal was in progress, or another client writes to the Lease. As upstream, retry until the time
                // limit.
                Err(error) if error.class == ApiErrorClass::Conflict => {
                    let present = self.lock.read().await?;
                    self.candidate.saw(present, Instant::now().into_std());
                }
                written => return written.map(|_| true),
            }
        }
    }

    /// Logs a change of the holder.
    fn report_holder(&mut self) {
        let holder = self.candidate.holder().map(str::to_owned);
        if self.reported != holder {
            match holder.as_deref() {
                Some("") | None => {}
                Some(holder) if holder == self.config.identity => {}
                Some(holder) => {
                    let is_pintle = self.candidate.lease().is_some_and(Lease::is_of_pintle);
                    let program = if is_pintle { "Pintle" } else { "kube-controller-manager, or another program" };
                    tracing::info!(
                        lease = self.lock.to_string(),
                        holder,
                        program,
                        "another process leads; this host is on standby"
                    );
                }
            }
            self.reported = holder;
        }
        self.publish();
    }

    fn publish(&self) {
        let wanted_by = self.candidate.lease().and_then(|lease| lease.annotation(WANTED_BY));
        if let Some(holder) = self.candidate.holder() {
            self.config.sharing.saw(self.config.group, holder, wanted_by);
        }
        let renewed = self.candidate.term().filter(|_| self.leads).map(|term| Instant::from_std(term.renewed()));
        let standing = Standing {
            identity: self.config.identity.clone(),
            holder: self.candidate.holder().map(str::to_owned),
            leads: self.leads,
            renewed,
        };
        self.standing.send_if_modified(|present| std::mem::replace(present, standing.clone()) != standing);
    }

    /// Records an event about the Lease, as client-go does.
    fn record(&self, what: &str) {
        self.recorder.record(Event {
            regarding_kind: self.lock.kind(),
            regarding: self.lock.object(),
            regarding_uid: self.candidate.lease().map(Lease::uid).unwrap_or_default().to_owned(),
            warning: false,
            reason: "LeaderElection".to_owned(),
            message: format!("{} {what}", self.config.identity),
        });
    }
}

fn late(patience: Duration) -> ApiError {
    ApiError { class: ApiErrorClass::Timeout, ..ApiError::transport(format!("no answer within {patience:?}")) }
}
