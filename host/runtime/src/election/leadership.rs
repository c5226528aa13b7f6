//! What the elections of one host share with the rest of it: the bound of writes, and who leads which group.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use pintle_core::policy::election::{GroupId, Moment, Share, Shares, Term, Times};
use pintle_core::ports::api::WriteFence;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::recorder::WallClock;

/// The public state of an election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Identity of this process.
    pub identity: String,
    /// Holder of the Lease as it was seen last; empty if it is free, absent if the Lease was not read yet.
    pub holder: Option<String>,
    /// Whether this process leads.
    pub leads: bool,
    /// When the Lease was renewed last, if this process leads.
    pub renewed: Option<Instant>,
}

/// Whether this process leads, by its clocks.
pub struct Leadership {
    term: Mutex<Option<Term>>,
    /// Signals that `term` has changed.
    changes: watch::Sender<()>,
    pub(super) clock: WallClock,
    since_boot: BootClock,
}

/// The time since the machine was started, suspended or not.
pub type BootClock = Arc<dyn Fn() -> Duration + Send + Sync>;

impl Leadership {
    /// Of a process that does not lead yet. `clock`: the wall clock.
    pub fn new(clock: WallClock, since_boot: BootClock) -> Arc<Self> {
        Arc::new(Self { term: Mutex::new(None), changes: watch::Sender::new(()), clock, since_boot })
    }

    pub(super) fn moment(&self) -> Moment {
        Moment { now: Instant::now().into_std(), since_boot: (self.since_boot)(), wall: (self.clock)() }
    }

    pub(super) fn set(&self, term: Option<Term>) {
        *self.term.lock() = term;
        self.changes.send_replace(());
    }
}

impl WriteFence for Leadership {
    fn is_open(&self) -> bool {
        let term = *self.term.lock();
        term.is_some_and(|term| term.holds(self.moment()))
    }

    fn closed(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let mut changes = self.changes.subscribe();
            loop {
                let term = *self.term.lock();
                let Some(until) = term.filter(|term| term.holds(self.moment())).map(|term| term.until()) else {
                    return;
                };
                tokio::select! {
                    biased;
                    () = tokio::time::sleep_until(until.into()) => {}
                    // The sender lives as long as `self`.
                    _ = changes.changed() => {}
                }
            }
        })
    }
}

/// Who leads which group of plugins, for all elections of one host.
pub struct Sharing {
    shares: Mutex<Shares>,
    /// Signals that `shares` has changed.
    changes: watch::Sender<()>,
}

impl Sharing {
    /// Of a host with so many groups.
    pub fn new(identity: &str, n_groups: usize) -> Arc<Self> {
        Arc::new(Self { shares: Mutex::new(Shares::new(identity, n_groups)), changes: watch::Sender::new(()) })
    }

    /// What the election of a group takes into account.
    pub(super) fn share(&self, group: GroupId, times: &Times) -> Share {
        self.shares.lock().share(group, times)
    }

    /// Records a Lease. `holder`: empty if it is free.
    pub(super) fn saw(&self, group: GroupId, holder: &str, wanted_by: Option<&str>) {
        let is_new = self.shares.lock().saw(group, holder, wanted_by);
        if is_new {
            self.changes.send_replace(());
        }
    }

    /// Changes after each Lease that is new.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }
}
