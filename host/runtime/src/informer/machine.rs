//! What an informer does next: list, watch, wait.
//!
//! ```text
//!            ┌────────────── gone, plan changed ───────────────┐
//!            v                                                 │
//!  Start ─> Paging ──last page──┐                              │
//!    └────> Streaming ──complete┴─> Opening(version) ─> Watching ──ended──> Opening
//! ```
//! Each failure goes through `Waiting` first.
//!
//! Invariants:
//! 1. A failure of a watch never loses its place: only `gone` leads to a new list.
//! 2. A server that answers at once and wrongly is asked at growing intervals.
//!
//! Source: client-go `tools/cache/reflector.go`; differs in that `gone` and an ended watch are followed at once.

use std::time::{Duration, Instant};

use pintle_core::api::{ApiError, ApiErrorClass, Retry, WatchStart};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// Delay between attempts: doubles with each failure in a row, plus up to as much again.
pub(crate) struct Backoff {
    base: Duration,
    max: Duration,
    reset_after: Duration,
    failures: u32,
    last: Option<Instant>,
    rng: SmallRng,
}

impl Backoff {
    pub(crate) fn new(base: Duration, max: Duration, reset_after: Duration, seed: u64) -> Self {
        Self { base, max, reset_after, failures: 0, last: None, rng: SmallRng::seed_from_u64(seed) }
    }

    /// The delay after a failure now.
    pub(crate) fn failed(&mut self, now: Instant) -> Duration {
        if self.last.is_some_and(|last| now.duration_since(last) > self.reset_after) {
            self.failures = 0;
        }
        let delay = self.base.saturating_mul(1 << self.failures.min(20)).min(self.max);
        let delay = delay.mul_f64(1.0 + self.rng.random::<f64>());
        self.failures += 1;
        self.last = Some(now + delay);
        delay
    }

    /// Something went right for good.
    pub(crate) fn succeeded(&mut self) {
        self.failures = 0;
    }
}

/// What to do next.
#[derive(Debug)]
pub(crate) enum Step {
    /// Get this page.
    List(Option<String>),
    /// Open a watch.
    Watch(WatchStart),
    /// Read from the open watch; the objects of a streaming list while `initial`.
    Read {
        /// The list is not complete yet.
        initial: bool,
    },
    /// Do nothing until then.
    Wait(Instant),
}

/// What a failure means for those who wait for the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It may pass.
    Passing,
    /// The server has no such resource, or does not let us read it.
    Refused,
}

#[derive(Clone, Debug)]
enum State {
    /// Nothing is known.
    Start,
    /// In the middle of a paged list; the page to get.
    Paging(String),
    /// A streaming list is to be opened.
    OpeningStream,
    /// Its objects come in.
    Streaming,
    /// A watch from the known version is to be opened.
    Opening,
    /// Changes come in; since when, and whether any have.
    Watching { since: Instant, heard: bool },
    /// Nothing is done until then.
    Waiting(Instant, Box<State>),
}

/// A streaming list that failed so often is replaced by a paged one.
const STREAM_ATTEMPTS: u32 = 3;
/// A watch that could not be understood so often in a row is replaced by a list.
const MALFORMED_LIMIT: u32 = 3;
/// A watch that ends sooner and says nothing is a failure.
const SHORT_WATCH: Duration = Duration::from_secs(1);
/// A list that is gone sooner after the last one is a failure.
const SHORT_LIST: Duration = Duration::from_secs(10);

/// The state of an informer.
pub(crate) struct Machine {
    state: State,
    backoff: Backoff,
    /// The server is believed to offer streaming lists.
    streams: bool,
    stream_failures: u32,
    malformed: u32,
    /// The store is current up to here.
    version: String,
    listed_at: Option<Instant>,
}

impl Machine {
    pub(crate) fn new(backoff: Backoff) -> Self {
        Self {
            state: State::Start,
            backoff,
            streams: true,
            stream_failures: 0,
            malformed: 0,
            version: String::new(),
            listed_at: None,
        }
    }

    /// What to do next.
    pub(crate) fn step(&mut self, now: Instant) -> Step {
        if let State::Waiting(until, next) = &self.state {
            if now < *until {
                return Step::Wait(*until);
            }
            self.state = (**next).clone();
        }
        if let State::Start = self.state
            && self.streams
        {
            self.state = State::OpeningStream;
        }
        match &self.state {
            State::Start => Step::List(None),
            State::Paging(page) => Step::List(Some(page.clone())),
            State::OpeningStream => Step::Watch(WatchStart::InitialEvents),
            State::Streaming => Step::Read { initial: true },
            State::Opening => Step::Watch(WatchStart::After(self.version.clone())),
            State::Watching { .. } => Step::Read { initial: false },
            State::Waiting(until, _) => Step::Wait(*until),
        }
    }

    /// Everything has to be listed anew, but nothing has failed.
    pub(crate) fn restart(&mut self) {
        if !matches!(self.state, State::Waiting(..)) {
            self.state = State::Start;
        } else if let State::Waiting(_, next) = &mut self.state {
            **next = State::Start;
        }
    }

    /// A page came; true if it was the last one.
    pub(crate) fn listed(&mut self, version: &str, next: Option<&str>, now: Instant) -> bool {
        match next {
            Some(next) => {
                self.state = State::Paging(next.to_owned());
                false
            }
            None => {
                self.complete(version, now);
                self.state = State::Opening;
                true
            }
        }
    }

    /// The streaming list is complete.
    pub(crate) fn streamed(&mut self, version: &str, now: Instant) {
        self.complete(version, now);
        self.stream_failures = 0;
        self.state = State::Watching { since: now, heard: true };
    }

    fn complete(&mut self, version: &str, now: Instant) {
        self.version = version.to_owned();
        self.listed_at = Some(now);
        self.malformed = 0;
    }

    /// The watch is open.
    pub(crate) fn opened(&mut self, now: Instant) {
        self.state = match self.state {
            State::OpeningStream => State::Streaming,
            _ => State::Watching { since: now, heard: false },
        };
    }

    /// The watch has told of everything up to this version.
    pub(crate) fn heard(&mut self, version: &str) {
        self.version = version.to_owned();
        self.malformed = 0;
        if let State::Watching { heard, .. } = &mut self.state
            && !*heard
        {
            *heard = true;
            self.backoff.succeeded();
        }
    }

    /// A page, or the opening of a watch, failed.
    pub(crate) fn failed(&mut self, error: &ApiError, now: Instant) -> Verdict {
        let refused = refuses(error);
        match &self.state {
            State::OpeningStream if !refused && is_invalid(error) => {
                self.streams = false;
                self.state = State::Start;
                return Verdict::Passing;
            }
            // Some servers can list but not watch this way.
            State::OpeningStream if error.code == 405 => {
                self.streams = false;
                self.state = State::Start;
                return Verdict::Passing;
            }
            State::OpeningStream => self.stream_failed(),
            // The pages are too old: begin anew.
            State::Paging(_) if error.class == ApiErrorClass::Gone => self.state = State::Start,
            State::Paging(_) | State::Start => self.state = State::Start,
            State::Opening if error.class == ApiErrorClass::Gone => {
                self.gone(now);
                return Verdict::Passing;
            }
            State::Opening if refused || is_invalid(error) => self.state = State::Start,
            _ => {}
        }
        self.wait(error, now);
        if refused { Verdict::Refused } else { Verdict::Passing }
    }

    /// The watch ended with an error.
    pub(crate) fn broke(&mut self, error: &ApiError, now: Instant) {
        match (&self.state, error.class) {
            (State::Streaming, _) => self.stream_failed(),
            (_, ApiErrorClass::Gone) => return self.gone(now),
            (_, ApiErrorClass::Malformed) => {
                self.malformed += 1;
                self.state = if self.malformed >= MALFORMED_LIMIT { State::Start } else { State::Opening };
            }
            _ => self.state = State::Opening,
        }
        self.wait(error, now);
    }

    /// The server ended the watch, as it does every few minutes.
    pub(crate) fn ended(&mut self, now: Instant) {
        match self.state {
            State::Streaming => {
                self.stream_failed();
                self.wait_for(Duration::ZERO, now);
            }
            State::Watching { since, heard } => {
                self.state = State::Opening;
                if !heard && now.duration_since(since) < SHORT_WATCH {
                    self.wait_for(Duration::ZERO, now);
                }
            }
            _ => self.state = State::Opening,
        }
    }

    /// The streaming list has said nothing for long: the server does not know what it is.
    pub(crate) fn stream_silent(&mut self) {
        self.streams = false;
        self.state = State::Start;
    }

    fn stream_failed(&mut self) {
        self.stream_failures += 1;
        self.streams = self.stream_failures < STREAM_ATTEMPTS;
        self.state = State::Start;
    }

    fn gone(&mut self, now: Instant) {
        self.state = State::Start;
        if self.listed_at.is_some_and(|at| now.duration_since(at) < SHORT_LIST) {
            self.wait_for(Duration::ZERO, now);
        }
    }

    fn wait(&mut self, error: &ApiError, now: Instant) {
        let at_least = match error.retry() {
            Retry::After(after) => after,
            Retry::Backoff | Retry::Never => Duration::ZERO,
        };
        self.wait_for(at_least, now);
    }

    fn wait_for(&mut self, at_least: Duration, now: Instant) {
        let delay = self.backoff.failed(now).max(at_least);
        self.state = State::Waiting(now + delay, Box::new(self.state.clone()));
    }
}

/// The request is wrong, not the moment.
fn is_invalid(error: &ApiError) -> bool {
    error.class == ApiErrorClass::Invalid
}

/// The server knows what we want and does not have it or does not give it.
fn refuses(error: &ApiError) -> bool {
    matches!(error.class, ApiErrorClass::NotFound | ApiErrorClass::Forbidden) || matches!(error.code, 403 | 404 | 405)
}
