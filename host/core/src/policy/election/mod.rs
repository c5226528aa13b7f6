//! The election of a leader by a Lease: what to do when, and how long leadership lasts.
//!
//! Invariants:
//! 1. Leadership ends [`Times::renew_deadline`] after the last successful renewal was *sent*, by the monotonic clock, by the time
//!    since the machine was started, and by the wall clock, whichever is earlier. Another candidate waits for the longer [`Times::lease_duration`] from when it *saw* the renewal.
//! 2. Times of other machines do not matter: a Lease is judged by when this process saw it change.
//! 3. A Lease that vanishes, or loses its holder in another way than by a release, stays taken until the last holder that was seen has
//!    run out of time; one that vanishes after the term of this process, until a holder that was not seen would have.
//! 4. Every write carries the resourceVersion that the decision was made by.
//!
//! One gap remains, as upstream: a candidate that starts while the Lease is deleted cannot see a leader that is cut off from the
//! API server.
//!
//! *Not here*: requests, timers and watches (`pintle-runtime`), whether kube-controller-manager may be replaced (`pintle`).
//!
//! *Source*: `client-go/tools/leaderelection`; different from it: point 3, the other clocks, and that a holder who sees another one stops
//! at once instead of at its deadline.

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

/// Pauses between tries are longer by up to this factor, so that candidates do not try at the same time. client-go's value.
pub const JITTER_FACTOR: f64 = 1.2;

/// The times of an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// How long other candidates wait after a renewal (`--leader-elect-lease-duration`).
    pub lease_duration: Duration,
    /// How long the leader goes on without a successful renewal (`--leader-elect-renew-deadline`).
    pub renew_deadline: Duration,
    /// Time between two tries (`--leader-elect-retry-period`).
    pub retry_period: Duration,
}

impl Times {
    /// Those of kube-controller-manager.
    pub const DEFAULT: Self = Self {
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    };

    /// Checks what must be so for at most one leader.
    ///
    /// # Errors
    /// The flag that is wrong, and its valid values.
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

/// A moment by all clocks.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// The monotonic clock, which does not count the time while a machine is suspended.
    pub now: Instant,
    /// The time since the machine was started, suspended or not.
    pub since_boot: Duration,
    /// The wall clock.
    pub wall: Timestamp,
}

/// A term of leadership.
#[derive(Clone, Copy, Debug)]
pub struct Term {
    /// When it began or begins.
    from: Instant,
    /// When the last successful renewal was sent.
    renewed: Moment,
    deadline: Duration,
}

impl Term {
    /// When it began or begins.
    pub fn from(&self) -> Instant {
        self.from
    }

    /// When the last successful renewal was sent.
    pub fn renewed(&self) -> Instant {
        self.renewed.now
    }

    /// When it ends without a further renewal, by the monotonic clock.
    pub fn until(&self) -> Instant {
        self.renewed.now + self.deadline
    }

    /// Whether writes are allowed now. All clocks count: the monotonic one does not show that the machine was suspended, and the time since
    /// its start may not show that a hypervisor has paused it, which a wall clock does as soon as it is set.
    pub fn holds(&self, at: Moment) -> bool {
        let by_wall = at.wall.duration_since(self.renewed.wall);
        at.now >= self.from
            && at.now < self.until()
            && at.since_boot.saturating_sub(self.renewed.since_boot) < self.deadline
            && SignedDuration::try_from(self.deadline).is_ok_and(|deadline| by_wall < deadline)
    }
}

/// What to do now.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Read the Lease.
    Read,
    /// Create the Lease.
    Create(Lease),
    /// Update the Lease, at its version.
    Update(Lease),
    /// Nothing until then, or until the Lease changes.
    Wait(Instant),
    /// The term is over, for this reason: stop, then go on.
    Stop(String),
    /// Update the Lease, which another one holds, to ask for it.
    Ask(Lease),
    /// End the term in order: finish what is under way before [`Term::until`], then release the Lease, for this candidate if one is given.
    HandOver(Option<String>),
}

/// What was seen of the Lease.
#[derive(Clone, Debug)]
struct Seen {
    /// Absent if there is none.
    lease: Option<Lease>,
    /// When its spec became what it is.
    since: Instant,
    /// When it was read last.
    read: Instant,
}

/// A candidate.
#[derive(Debug)]
pub struct Candidate {
    identity: String,
    times: Times,
    new: Lease,
    seen: Option<Seen>,
    /// Version of the last change that a watch has reported since the last answer, deletions included.
    newest: Option<String>,
    /// Whether what was seen may be outdated: a write failed.
    is_stale: bool,
    /// Until when the last other holder may go on.
    taken_until: Option<Instant>,
    term: Option<Term>,
    /// No try before.
    not_before: Option<Instant>,
    /// Requests that failed since the last successful write.
    n_failed: u32,
    /// Reads that were needed although this process led.
    n_slow: u64,
    /// Whether the API server elects ([`Candidate::coordinated`]).
    is_coordinated: bool,
    share: Share,
    /// No question for the Lease before.
    ask_after: Option<Instant>,
}

impl Candidate {
    /// A candidate for the Lease of this name.
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

    /// Takes the Lease only when the API server has written this candidate to it, and ends the term in order when the API server prefers
    /// another one.
    ///
    /// *Source*: KEP-4355, coordinated leader election; `tryCoordinatedRenew` of `client-go/tools/leaderelection`, which lets the Lease
    /// expire where this one releases it.
    pub fn coordinated(mut self) -> Self {
        self.is_coordinated = true;
        self
    }

    /// Sets what to take into account besides the Lease, until the next call.
    pub fn set_share(&mut self, share: Share) {
        self.share = share;
    }

    /// The identity of this process.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// The present term, also if it has ended unnoticed.
    pub fn term(&self) -> Option<Term> {
        self.term
    }

    /// The Lease as it was seen last.
    pub fn lease(&self) -> Option<&Lease> {
        self.seen.as_ref()?.lease.as_ref()
    }

    /// The holder that was seen last; empty if there is none, absent if the Lease was not read yet.
    pub fn holder(&self) -> Option<&str> {
        self.seen.as_ref().map(|seen| seen.lease.as_ref().map_or("", Lease::holder))
    }

    /// Counts the reads that were needed although this process led, since the last call.
    pub fn take_slow(&mut self) -> u64 {
        std::mem::take(&mut self.n_slow)
    }

    /// What to do at this moment. After [`Action::Stop`] the term is over.
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
            // A holder renews in every retry period: a watch that shows nothing for longer may be dead.
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

    /// Why the term is over.
    fn over(&self, at: Moment) -> Option<String> {
        let term = self.term?;
        match self.seen.as_ref().map(|seen| seen.lease.as_ref().map(Lease::holder)) {
            Some(Some("")) => return Some("the Lease has no holder any more".to_owned()),
            Some(Some(holder)) if holder != self.identity => return Some(format!("{holder} holds the Lease")),
            Some(None) => return Some("the Lease was deleted".to_owned()),
            Some(Some(_)) | None => {}
        }
        // A term that begins later holds no writes yet.
        let begun = Moment { now: at.now.max(term.from), ..at };
        (!term.holds(begun)).then(|| format!("the Lease was not renewed within {:?}", term.deadline))
    }

    /// The next holder, for a graceful hand-over; none in particular if the API server decides.
    fn hands_over(&self, seen: &Seen) -> Option<Option<String>> {
        if self.is_coordinated {
            return seen.lease.as_ref()?.is_end_of_term().then_some(None);
        }
        self.share.gives_to.clone().map(Some)
    }

    /// Whether the API server has written this candidate to the Lease, and it has not expired meanwhile.
    fn is_elected(&self, seen: &Seen, now: Instant) -> bool {
        let of_this = |lease: &&Lease| lease.holder() == self.identity && !lease.is_end_of_term();
        seen.lease.as_ref().filter(of_this).is_some_and(|lease| now < self.expiry(lease, seen.since))
    }

    /// The Lease, if this candidate is to ask for it now.
    fn asks<'a>(&self, seen: &'a Seen, now: Instant) -> Option<&'a Lease> {
        let may_ask = self.share.asks && self.ask_after.is_none_or(|after| now >= after);
        seen.lease.as_ref().filter(|lease| may_ask && !lease.holder().is_empty() && lease.holder() != self.identity)
    }

    /// Until when this candidate leaves a free Lease to others.
    fn left_to_others(&self, seen: &Seen) -> Option<Instant> {
        let since = self.free_at(seen).unwrap_or(seen.since);
        match seen.lease.as_ref() {
            // It would have gone on.
            Some(lease) if lease.holder() == self.identity => None,
            Some(lease) => match lease.annotation(RESERVED_FOR).filter(|_| lease.is_released()) {
                Some(other) if other != self.identity => Some(since + self.times.retry_period * 2),
                Some(_) => None,
                None => Some(since + self.share.hold_back),
            },
            None => Some(since + self.share.hold_back),
        }
    }

    /// Until when the Lease is taken; absent if it is free.
    fn free_at(&self, seen: &Seen) -> Option<Instant> {
        match &seen.lease {
            Some(lease) if lease.holder() == self.identity || lease.is_released() => None,
            Some(lease) if !lease.holder().is_empty() => Some(self.expiry(lease, seen.since)),
            Some(_) | None => self.taken_until,
        }
    }

    fn expiry(&self, lease: &Lease, since: Instant) -> Instant {
        // A shorter duration may have been written by hand, while the holder goes on with the flags that it was started with.
        since + lease.duration().max(self.times.lease_duration)
    }

    /// A watch reported a change. `deleted`: the Lease is its last state. Does nothing if it is older than what was seen.
    pub fn heard(&mut self, lease: Lease, deleted: bool, now: Instant) {
        let is_old = self.lease().is_some_and(|seen| newer(lease.version(), seen.version()) != Some(true));
        if !is_old {
            let version = lease.version().to_owned();
            self.saw((!deleted).then_some(lease), now);
            self.newest = Some(version);
        }
    }

    /// The Lease was read; `None` if there is none.
    pub fn saw(&mut self, lease: Option<Lease>, now: Instant) {
        self.is_stale = false;
        self.newest = None;
        if let Some(Seen { lease: Some(before), since, .. }) = &self.seen
            && !before.holder().is_empty()
        {
            let until = if before.holder() != self.identity {
                Some(self.expiry(before, *since))
            } else if lease.is_none() && self.term.is_none_or(|term| now >= term.until()) {
                // Since the end of this term, another host may have taken the Lease that is gone now, and may lead.
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

    /// A write that [`Candidate::next`] asked for has succeeded. `sent`: when it was sent. Returns whether a term begins.
    ///
    /// None does if a watch was faster than the answer, and has reported that the Lease was deleted or taken since.
    pub fn wrote(&mut self, lease: Lease, version: &str, uid: &str, sent: Moment) -> bool {
        let is_overtaken = self.is_overtaken(version);
        if is_overtaken && self.lease().is_none_or(|lease| lease.holder() != self.identity) {
            return false;
        }
        let was_created = lease.version().is_empty();
        let is_first = self.term.is_none();
        // A leader whose Lease was deleted learns of it by its watch.
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

    /// The write of [`Action::Ask`] has succeeded.
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

    /// A request has failed. `jitter`: a random number from 0 to 1.
    pub fn failed(&mut self, jitter: f64, now: Instant) {
        self.is_stale = true;
        self.n_failed = self.n_failed.saturating_add(1);
        let pause = match self.term {
            // At once, because another one may have taken the Lease.
            Some(_) if self.n_failed == 1 => Duration::ZERO,
            Some(_) => self.times.retry_period,
            None => self.times.retry_period.mul_f64(1.0 + JITTER_FACTOR * jitter),
        };
        self.not_before = Some(now + pause);
    }

    /// The Lease as this process gives it up; absent if it does not hold it. The term is over.
    pub fn release(&mut self, at: Moment) -> Option<Lease> {
        self.term = None;
        let lease = self.lease().filter(|lease| lease.holder() == self.identity)?;
        Some(lease.released(at.wall))
    }
}

/// Whether one resourceVersion is later than the other, if they have an order.
fn newer(version: &str, than: &str) -> Option<bool> {
    ResourceVersion::parse(version).compare(&ResourceVersion::parse(than)).map(|order| order.is_gt())
}

#[cfg(test)]
mod tests;
