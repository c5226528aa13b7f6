//! Leader election by a Lease: the actions of a candidate, and the duration of leadership.
//!
//! Invariants:
//! 1. Leadership ends [`Times::renew_deadline`] after the last successful renewal was *sent*, by the monotonic clock,
//!    the time since boot or the wall clock, whichever is earliest. Another candidate waits for the longer
//!    [`Times::lease_duration`] after it *saw* the renewal.
//! 2. Clocks of other machines do not matter: a Lease is judged by when this process saw it change.
//! 3. If a Lease is deleted, or loses its holder without a release, it stays taken until the time of the last seen
//!    holder is over; if it is deleted after the term of this process, until the time of an unseen holder would be
//!    over.
//! 4. Every write carries the resourceVersion that the decision is based on.
//!
//! One gap remains, as upstream: a candidate that starts while the Lease is deleted cannot see a leader that is cut off
//! from the API server.
//!
//! *Not here*: requests, timers and watches (`pintle-runtime`), whether kube-controller-manager may be replaced
//! (`pintle`).
//!
//! *Source*: `client-go/tools/leaderelection`; differences: point 3, the other clocks, and a holder that sees another
//! one stops immediately instead of at its deadline.

mod candidate;
mod handover;
mod lease;
mod share;

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};

use crate::object::version::ResourceVersion;

pub use self::candidate::{CANDIDATE_PERIOD, LeaseCandidate};
pub use self::handover::{LAST_WRITES, LastWrites};
pub use self::lease::{HOLDER, Lease};
pub use self::share::{GroupId, Groups, RESERVED_FOR, Share, Shares, WANTED_BY};

/// Maximum factor by which pauses between tries are randomly extended, so that candidates do not try simultaneously.
/// client-go's value.
pub const JITTER_FACTOR: f64 = 1.2;

/// The times of an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Time that other candidates wait after a renewal (`--leader-elect-lease-duration`).
    pub lease_duration: Duration,
    /// Time that the leader continues without a successful renewal (`--leader-elect-renew-deadline`).
    pub renew_deadline: Duration,
    /// Time between two tries (`--leader-elect-retry-period`).
    pub retry_period: Duration,
}

impl Times {
    /// The defaults of kube-controller-manager.
    pub const DEFAULT: Self = Self {
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    };

    /// Checks the conditions for at most one leader.
    ///
    /// # Errors
    /// The wrong flag, and its valid values.
    pub fn check(&self) -> Result<(), String> {
        let Self { lease_duration, renew_deadline, retry_period } = *self;
        if lease_duration.as_secs() < 1 || lease_duration.subsec_nanos() != 0 {
            return Err(format!(
                "--leader-elect-lease-duration: {lease_duration:?} is not a number of whole seconds of at least 1s, which is what a Lease can hold"
            ));
        }
        if lease_duration <= renew_deadline {
            return Err(format!(
                "--leader-elect-renew-deadline: {renew_deadline:?} must be less than the lease duration, {lease_duration:?}"
            ));
        }
        if retry_period.is_zero() {
            return Err("--leader-elect-retry-period must be more than 0s".to_owned());
        }
        if renew_deadline <= retry_period.mul_f64(JITTER_FACTOR) {
            return Err(format!(
                "--leader-elect-retry-period: {JITTER_FACTOR} times {retry_period:?} must be less than the renew deadline, {renew_deadline:?}"
            ));
        }
        Ok(())
    }
}

/// A point in time on all clocks.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// The monotonic clock, which stops while the machine is suspended.
    pub now: Instant,
    /// Time since boot, including suspension.
    pub since_boot: Duration,
    /// The wall clock.
    pub wall: Timestamp,
}

/// A term of leadership.
#[derive(Clone, Copy, Debug)]
pub struct Term {
    /// Begin of the term; may be in the future.
    from: Instant,
    /// Time when the last successful renewal was sent.
    renewed: Moment,
    deadline: Duration,
}

impl Term {
    /// Begin of the term; may be in the future.
    pub fn from(&self) -> Instant {
        self.from
    }

    /// Time when the last successful renewal was sent.
    pub fn renewed(&self) -> Instant {
        self.renewed.now
    }

    /// End of the term without a further renewal, by the monotonic clock.
    pub fn until(&self) -> Instant {
        self.renewed.now + self.deadline
    }

    /// Whether writes are allowed now. All clocks count: the monotonic clock stops while the machine is suspended, and
    /// the time since boot may stop while a hypervisor pauses the machine, which the wall clock shows as soon as it is
    /// set.
    pub fn holds(&self, at: Moment) -> bool {
        let by_wall = at.wall.duration_since(self.renewed.wall);
        at.now >= self.from
            && at.now < self.until()
            && at.since_boot.saturating_sub(self.renewed.since_boot) < self.deadline
            && SignedDuration::try_from(self.deadline).is_ok_and(|deadline| by_wall < deadline)
    }
}

/// The next action.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Read the Lease.
    Read,
    /// Create the Lease.
    Create(Lease),
    /// Update the Lease, at its version.
    Update(Lease),
    /// Do nothing until then, or until the Lease changes.
    Wait(Instant),
    /// The term is over, for this reason: stop, then continue as a candidate.
    Stop(String),
    /// Update the Lease, which another candidate holds, to ask for it.
    Ask(Lease),
    /// End the term gracefully: finish work in progress before [`Term::until`], then release the Lease, for this
    /// candidate if given.
    HandOver(Option<String>),
}

/// The last seen state of the Lease.
#[derive(Clone, Debug)]
struct Seen {
    /// Absent if it does not exist.
    lease: Option<Lease>,
    /// Time when this process saw its spec change last.
    since: Instant,
    /// Time of the last read.
    read: Instant,
}

/// A candidate.
#[derive(Debug)]
pub struct Candidate {
    identity: String,
    times: Times,
    new: Lease,
    seen: Option<Seen>,
    /// Version of the last change, including deletions, that a watch has reported since the last answer.
    newest: Option<String>,
    /// Whether the seen state may be outdated, because a write failed.
    is_stale: bool,
    /// Time until which the last other holder may continue.
    taken_until: Option<Instant>,
    term: Option<Term>,
    /// No try before this time.
    not_before: Option<Instant>,
    /// Failed requests since the last successful write.
    n_failed: u32,
    /// Number of reads that were needed while this process was the leader.
    n_slow: u64,
    /// Whether the API server decides the election ([`Candidate::coordinated`]).
    is_coordinated: bool,
    share: Share,
    /// Do not ask for the Lease before this time.
    ask_after: Option<Instant>,
}

impl Candidate {
    /// Creates a candidate for the Lease with this name.
    pub fn new(identity: String, times: Times, namespace: &str, name: &str) -> Self {
        Self {
            identity,
            times,
            new: Lease::new(namespace, name),
            seen: None,
            newest: None,
            is_stale: false,
            taken_until: None,
            term: None,
            not_before: None,
            n_failed: 0,
            n_slow: 0,
            is_coordinated: false,
            share: Share::default(),
            ask_after: None,
        }
    }

    /// Takes the Lease only after the API server has written this candidate to it, and ends the term gracefully when
    /// the API server prefers another candidate.
    ///
    /// *Source*: KEP-4355, coordinated leader election; `tryCoordinatedRenew` of `client-go/tools/leaderelection`,
    /// which lets the Lease expire where this one releases it.
    pub fn coordinated(mut self) -> Self {
        self.is_coordinated = true;
        self
    }

    /// Sets further inputs for the decisions, until the next call.
    pub fn set_share(&mut self, share: Share) {
        self.share = share;
    }

    /// The identity of this process.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// The current term, even if it has ended unnoticed.
    pub fn term(&self) -> Option<Term> {
        self.term
    }

    /// The last seen Lease.
    pub fn lease(&self) -> Option<&Lease> {
        self.seen.as_ref()?.lease.as_ref()
    }

    /// The last seen holder; empty if there is none, absent if the Lease was not read yet.
    pub fn holder(&self) -> Option<&str> {
        self.seen.as_ref().map(|seen| seen.lease.as_ref().map_or("", Lease::holder))
    }

    /// Returns the number of reads since the last call that were needed while this process was the leader.
    pub fn take_slow(&mut self) -> u64 {
        std::mem::take(&mut self.n_slow)
    }

    /// Returns the next action. After [`Action::Stop`] the term is over.
    pub fn next(&mut self, at: Moment) -> Action {
        if let Some(why) = self.over(at) {
            self.term = None;
            return Action::Stop(why);
        }
        if let Some(not_before) = self.not_before.filter(|not_before| at.now < *not_before) {
            let end = self.term.map(|term| term.until());
            return Action::Wait(end.map_or(not_before, |end| end.min(not_before)));
        }
        let Some(seen) = self.seen.as_ref().filter(|_| !self.is_stale) else {
            self.n_slow += u64::from(self.term.is_some());
            return Action::Read;
        };
        if self.term.is_some() {
            if let Some(to) = self.hands_over(seen) {
                return Action::HandOver(to);
            }
        } else if self.is_coordinated && !self.is_elected(seen, at.now) {
            let again = seen.read + self.times.retry_period * 2;
            return if at.now < again { Action::Wait(again) } else { Action::Read };
        } else if let Some(free) = self.free_at(seen).filter(|free| at.now < *free) {
            if let Some(lease) = self.asks(seen, at.now) {
                return Action::Ask(lease.wanted_by(&self.identity));
            }
            // A holder renews in every retry period: a watch without a change for longer may be dead.
            let again = seen.read + self.times.retry_period * 2;
            return if at.now < again { Action::Wait(free.min(again)) } else { Action::Read };
        } else if let Some(later) = self.left_to_others(seen).filter(|later| at.now < *later) {
            return Action::Wait(later);
        }
        let hold = |lease: &Lease| lease.held_by(&self.identity, self.times.lease_duration, at.wall);
        match &seen.lease {
            Some(lease) => Action::Update(hold(lease)),
            None => Action::Create(hold(&self.new)),
        }
    }

    /// The reason why the term is over, if it is.
    fn over(&self, at: Moment) -> Option<String> {
        let term = self.term?;
        match self.seen.as_ref().map(|seen| seen.lease.as_ref().map(Lease::holder)) {
            Some(Some("")) => return Some("the Lease has no holder any more".to_owned()),
            Some(Some(holder)) if holder != self.identity => return Some(format!("{holder} holds the Lease")),
            Some(None) => return Some("the Lease was deleted".to_owned()),
            Some(Some(_)) | None => {}
        }
        // A term that begins later is not active yet.
        let begun = Moment { now: at.now.max(term.from), ..at };
        (!term.holds(begun)).then(|| format!("the Lease was not renewed within {:?}", term.deadline))
    }

    /// The next holder, for a graceful handover; `Some(None)` if the API server decides.
    fn hands_over(&self, seen: &Seen) -> Option<Option<String>> {
        if self.is_coordinated {
            return seen.lease.as_ref()?.is_end_of_term().then_some(None);
        }
        self.share.gives_to.clone().map(Some)
    }

    /// Whether the API server has written this candidate to the Lease, and the Lease has not expired since.
    fn is_elected(&self, seen: &Seen, now: Instant) -> bool {
        let of_this = |lease: &&Lease| lease.holder() == self.identity && !lease.is_end_of_term();
        seen.lease.as_ref().filter(of_this).is_some_and(|lease| now < self.expiry(lease, seen.since))
    }

    /// The Lease, if this candidate should ask for it now.
    fn asks<'a>(&self, seen: &'a Seen, now: Instant) -> Option<&'a Lease> {
        let may_ask = self.share.asks && self.ask_after.is_none_or(|after| now >= after);
        seen.lease.as_ref().filter(|lease| may_ask && !lease.holder().is_empty() && lease.holder() != self.identity)
    }

    /// Time until which this candidate leaves a free Lease to others.
    fn left_to_others(&self, seen: &Seen) -> Option<Instant> {
        let since = self.free_at(seen).unwrap_or(seen.since);
        match seen.lease.as_ref() {
            // This candidate would have continued as the holder.
            Some(lease) if lease.holder() == self.identity => None,
            Some(lease) => match lease.annotation(RESERVED_FOR).filter(|_| lease.is_released()) {
                Some(other) if other != self.identity => Some(since + self.times.retry_period * 2),
                Some(_) => None,
                None => Some(since + self.share.hold_back),
            },
            None => Some(since + self.share.hold_back),
        }
    }

    /// Time until which the Lease is taken; absent if it is free.
    fn free_at(&self, seen: &Seen) -> Option<Instant> {
        match &seen.lease {
            Some(lease) if lease.holder() == self.identity || lease.is_released() => None,
            Some(lease) if !lease.holder().is_empty() => Some(self.expiry(lease, seen.since)),
            Some(_) | None => self.taken_until,
        }
    }

    fn expiry(&self, lease: &Lease, since: Instant) -> Instant {
        // A shorter duration may have been written by hand, while the holder continues with the flags it was started
        // with.
        since + lease.duration().max(self.times.lease_duration)
    }

    /// Records a change from the watch. `deleted`: the Lease is its last state. Ignores changes older than the seen
    /// state.
    pub fn heard(&mut self, lease: Lease, deleted: bool, now: Instant) {
        let is_old = self.lease().is_some_and(|seen| newer(lease.version(), seen.version()) != Some(true));
        if !is_old {
            let version = lease.version().to_owned();
            self.saw((!deleted).then_some(lease), now);
            self.newest = Some(version);
        }
    }

    /// Records a read of the Lease; `None` if it does not exist.
    pub fn saw(&mut self, lease: Option<Lease>, now: Instant) {
        self.is_stale = false;
        self.newest = None;
        if let Some(Seen { lease: Some(before), since, .. }) = &self.seen
            && !before.holder().is_empty()
        {
            let until = if before.holder() != self.identity {
                Some(self.expiry(before, *since))
            } else if lease.is_none() && self.term.is_none_or(|term| now >= term.until()) {
                // After this term, another host may have taken the now deleted Lease, and may be the leader.
                Some(now + self.times.lease_duration)
            } else {
                None
            };
            self.taken_until = self.taken_until.max(until);
        }
        let since = match &self.seen {
            Some(seen) if seen.lease.as_ref().map(Lease::spec) == lease.as_ref().map(Lease::spec) => seen.since,
            _ => now,
        };
        self.seen = Some(Seen { lease, since, read: now });
    }

    /// Records the success of a write that [`Candidate::next`] requested. `sent`: when it was sent. Returns whether a
    /// term begins.
    ///
    /// No term begins if the watch was faster than the answer, and has reported that the Lease was deleted or taken
    /// since.
    pub fn wrote(&mut self, lease: Lease, version: &str, uid: &str, sent: Moment) -> bool {
        let is_overtaken = self.is_overtaken(version);
        if is_overtaken && self.lease().is_none_or(|lease| lease.holder() != self.identity) {
            return false;
        }
        let was_created = lease.version().is_empty();
        let is_first = self.term.is_none();
        // Meanwhile the watch of a leader whose Lease was deleted reports the deletion.
        let wait = if is_first && was_created && self.taken_until.is_none() {
            self.times.retry_period / 2
        } else {
            Duration::ZERO
        };
        let from = self.term.map_or(sent.now + wait, |term| term.from);
        if !is_overtaken {
            self.saw(Some(lease.stored(version, uid)), sent.now);
        }
        self.taken_until = None;
        self.term = Some(Term { from, renewed: sent, deadline: self.times.renew_deadline });
        self.not_before = Some(sent.now + self.times.retry_period);
        self.n_failed = 0;
        is_first
    }

    /// Records the success of the write of [`Action::Ask`].
    pub fn asked(&mut self, lease: Lease, version: &str, now: Instant) {
        if !self.is_overtaken(version) {
            let uid = lease.uid().to_owned();
            self.saw(Some(lease.stored(version, &uid)), now);
        }
        self.ask_after = Some(now + self.times.lease_duration);
    }

    /// Whether a watch has reported a later change than this version.
    fn is_overtaken(&self, version: &str) -> bool {
        self.newest.as_deref().is_some_and(|newest| newer(newest, version) == Some(true))
    }

    /// Records a failed request. `jitter`: a random number from 0 to 1.
    pub fn failed(&mut self, jitter: f64, now: Instant) {
        self.is_stale = true;
        self.n_failed = self.n_failed.saturating_add(1);
        let pause = match self.term {
            // Immediately, because another candidate may have taken the Lease.
            Some(_) if self.n_failed == 1 => Duration::ZERO,
            Some(_) => self.times.retry_period,
            None => self.times.retry_period.mul_f64(1.0 + JITTER_FACTOR * jitter),
        };
        self.not_before = Some(now + pause);
    }

    /// The Lease to write for a release; absent if this process does not hold it. The term is over.
    pub fn release(&mut self, at: Moment) -> Option<Lease> {
        self.term = None;
        let lease = self.lease().filter(|lease| lease.holder() == self.identity)?;
        Some(lease.released(at.wall))
    }
}

/// Whether `version` is later than `than`, if they have an order.
fn newer(version: &str, than: &str) -> Option<bool> {
    ResourceVersion::parse(version).compare(&ResourceVersion::parse(than)).map(|order| order.is_gt())
}

#[cfg(test)]
mod tests;
