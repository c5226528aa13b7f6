//! State that the elections of one host share with the rest of it: the write fence, and the leader of each group.

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
    /// Last seen holder of the Lease; empty if it is free, absent if the Lease was not read yet.
    pub holder: Option<String>,
    /// Whether this process is the leader.
    pub leads: bool,
    /// Time of the last renewal of the Lease, if this process is the leader.
    pub renewed: Option<Instant>,
}

/// Whether this process is the leader, by its clocks.
pub struct Leadership {
    term: Mutex<Option<Term>>,
    /// Signals that `term` has changed.
    changes: watch::Sender<()>,
    pub(super) clock: WallClock,
    since_boot: BootClock,
}

/// Time since boot, including suspension.
pub type BootClock = Arc<dyn Fn() -> Duration + Send + Sync>;

impl Leadership {
    /// The leadership of a process that is not the leader yet. `clock`: the wall clock.
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

/// The leader of each group of plugins, for all elections of one host.
pub struct Sharing {
    shares: Mutex<Shares>,
    /// Signals that `shares` has changed.
    changes: watch::Sender<()>,
}

impl Sharing {
    /// The state of a host with `n_groups` groups.
    pub fn new(identity: &str, n_groups: usize) -> Arc<Self> {
        Arc::new(Self { shares: Mutex::new(Shares::new(identity, n_groups)), changes: watch::Sender::new(()) })
    }

    /// Inputs for the election of a group.
    pub(super) fn share(&self, group: GroupId, times: &Times) -> Share {
        self.shares.lock().share(group, times)
    }

    /// Records a Lease. `holder` is empty if the Lease is free.
    pub(super) fn saw(&self, group: GroupId, holder: &str, wanted_by: Option<&str>) {
        let is_new = self.shares.lock().saw(group, holder, wanted_by);
        if is_new {
            self.changes.send_replace(());
        }
    }

    /// Signals every changed Lease.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }
}
