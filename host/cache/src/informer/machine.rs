//! State machine of an informer: its next step is a list, a watch or a wait.
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
//! 1. A failed watch resumes at its version: only `gone` leads to a new list.
//! 2. A server that immediately returns useless answers is retried with a growing delay.
//!
//! Source: client-go `tools/cache/reflector.go`; differs: no delay after `gone` or the end of a watch.

use std::time::{Duration, Instant};

use pintle_core::ports::api::{ApiError, ApiErrorClass, WatchStart};

use crate::backoff::Backoff;

/// The next step.
#[derive(Debug)]
pub(crate) enum Step {
    /// Request this page.
    List(Option<String>),
    /// Open a watch.
    Watch(WatchStart),
    /// Read from the open watch. While `initial`, it delivers the objects of a streaming list.
    Read {
        /// The list is not complete yet.
        initial: bool,
    },
    /// Do nothing until this time.
    Wait(Instant),
}

/// The meaning of a failure for callers that wait for the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// A retry may succeed.
    Transient,
    /// The server does not have this resource, or denies reading it. A retry may succeed: an API server answers 403
    /// until it has loaded its roles, and discovery lags behind CustomResourceDefinitions.
    Refused,
    /// Refused [`REFUSALS`] times in a row over [`REFUSED_FOR`].
    RefusedForLong,
}

#[derive(Clone, Debug)]
enum State {
    /// Before the first list.
    Start,
    /// In the middle of a paged list; the continue token of the next page.
    Paging(String),
    /// About to open a streaming list.
    OpeningStream,
    /// Receiving the objects of a streaming list.
    Streaming,
    /// About to open a watch from the known version.
    Opening,
    /// Receiving changes: the time the watch was opened, and whether it has delivered any.
    Watching { since: Instant, heard: bool },
    /// Waiting until this time.
    Waiting {
        until: Instant,
        /// Earliest time that the server allows.
        not_before: Instant,
        next: Box<State>,
    },
}

/// Failures after which a streaming list is replaced by a paged one.
const STREAM_ATTEMPTS: u32 = 3;
/// Malformed watches in a row after which a new list replaces the watch.
const MALFORMED_LIMIT: u32 = 3;
/// A watch that ends within this time without an event counts as a failure.
const SHORT_WATCH: Duration = Duration::from_secs(1);
/// A `gone` within this time after the previous list counts as a failure.
const SHORT_LIST: Duration = Duration::from_secs(10);

/// Refusals in a row, and their minimum duration, after which a kind counts as refused by the server. Upstream's
/// garbage collector waits 30 s for all kinds.
const REFUSALS: u32 = 3;
const REFUSED_FOR: Duration = Duration::from_secs(30);
/// Minimum time that a silent watch stays open before it is replaced.
const REOPEN_PAUSE: Duration = Duration::from_secs(10);

/// All informers retry within this time after the server is back.
const BACK_WITHIN: Duration = Duration::from_secs(1);

/// The state of an informer.
pub(crate) struct Machine {
    state: State,
    backoff: Backoff,
    /// Whether streaming lists are tried.
    streams: bool,
    stream_failures: u32,
    malformed: u32,
    /// The store is current up to this version.
    version: String,
    listed_at: Option<Instant>,
    /// Lists in a row that expired before their last page.
    n_expired: u32,
    /// Refusals since the last list, and the time of the first one.
    refusals: Option<(u32, Instant)>,
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
            n_expired: 0,
            refusals: None,
        }
    }

    /// Returns the next step.
    pub(crate) fn step(&mut self, now: Instant) -> Step {
        if let State::Waiting { until, next, .. } = &self.state {
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
            State::Waiting { until, .. } => Step::Wait(*until),
        }
    }

    /// Requests a new list that is not due to a failure.
    pub(crate) fn restart(&mut self) {
        match &mut self.state {
            State::Waiting { next, .. } => **next = State::Start,
            state => *state = State::Start,
        }
    }

    /// The server is back after an outage: shortens the pause, which has grown with the outage.
    pub(crate) fn wake_soon(&mut self, now: Instant) {
        if let State::Waiting { until, not_before, .. } = &mut self.state {
            let soon = now + self.backoff.spread(BACK_WITHIN);
            *until = soon.max(*not_before).min(*until);
        }
    }

    /// The watch seems to be silent or late: replaces it by one that continues at its version. Returns false if no
    /// watch is open, or if it was opened a moment ago.
    pub(crate) fn reopen(&mut self, now: Instant) -> bool {
        match self.state {
            State::Watching { since, .. } if now.duration_since(since) >= REOPEN_PAUSE => {
                self.state = State::Opening;
                true
            }
            _ => false,
        }
    }

    /// A page has arrived; returns true if it was the last one.
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
        self.refusals = None;
        self.malformed = 0;
        self.n_expired = 0;
    }

    /// Page size for the next list. It grows after a list expired, so that the next one takes fewer requests: upstream
    /// then requests all objects in one page, here pages grow up to the limit of the reader.
    ///
    /// Source: client-go `tools/pager`, `FullListIfExpired`.
    pub(crate) fn page_size(&self, usual: u32) -> u32 {
        4_u32.checked_pow(self.n_expired).and_then(|factor| usual.checked_mul(factor)).unwrap_or(u32::MAX)
    }

    /// The watch is open.
    pub(crate) fn opened(&mut self, now: Instant) {
        self.state = match self.state {
            State::OpeningStream => State::Streaming,
            _ => State::Watching { since: now, heard: false },
        };
    }

    /// The watch has delivered everything up to this version.
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

    /// A page, or opening a watch, failed.
    pub(crate) fn failed(&mut self, error: &ApiError, now: Instant) -> FailureKind {
        let refused = refuses(error);
        match &self.state {
            State::OpeningStream if !refused && is_invalid(error) => {
                self.streams = false;
                self.state = State::Start;
                return FailureKind::Transient;
            }
            // Some servers support lists but not streaming lists.
            State::OpeningStream if error.code == 405 => {
                self.streams = false;
                self.state = State::Start;
                return FailureKind::Transient;
            }
            State::OpeningStream => self.stream_failed(),
            // The continue token has expired: start the list again.
            State::Paging(_) if error.class == ApiErrorClass::Gone => {
                self.n_expired += 1;
                self.state = State::Start;
            }
            State::Paging(_) | State::Start => self.state = State::Start,
            State::Opening if error.class == ApiErrorClass::Gone => {
                self.gone(now);
                return FailureKind::Transient;
            }
            State::Opening if refused || is_invalid(error) => self.state = State::Start,
            _ => {}
        }
        self.wait(error, now);
        if !refused {
            return FailureKind::Transient;
        }
        let (n_refusals, since) = self.refusals.map_or((1, now), |(n, since)| (n + 1, since));
        self.refusals = Some((n_refusals, since));
        match n_refusals >= REFUSALS && now.duration_since(since) >= REFUSED_FOR {
            true => FailureKind::RefusedForLong,
            false => FailureKind::Refused,
        }
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

    /// The server ended the watch, as it regularly does after some minutes.
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

    /// The streaming list has been silent for too long: the server does not support it.
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
        self.wait_for(error.retry_after().unwrap_or_default(), now);
    }

    fn wait_for(&mut self, at_least: Duration, now: Instant) {
        // Both are at most a few minutes, so the sum is within the range of the clock.
        let delay = self.backoff.failed(now).max(at_least);
        let next = Box::new(self.state.clone());
        self.state = State::Waiting { until: now + delay, not_before: now + at_least, next };
    }
}

/// The request itself is invalid: a retry does not help.
fn is_invalid(error: &ApiError) -> bool {
    error.class == ApiErrorClass::Invalid
}

/// The server understands the request, but does not have the data or denies it.
fn refuses(error: &ApiError) -> bool {
    matches!(error.class, ApiErrorClass::NotFound | ApiErrorClass::Forbidden) || matches!(error.code, 403..=405)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(class: ApiErrorClass, code: u16) -> ApiError {
        ApiError { class, code, ..ApiError::transport("x") }
    }

    /// Runs a script of events against a machine and records each step after it: `list`, `list PAGE`, `stream`,
    /// `watch VERSION`, `read`, `read initial`; a wait is skipped and marked `wait,`.
    struct Bench {
        machine: Machine,
        now: Instant,
    }

    impl Bench {
        fn new() -> Self {
            let backoff =
                Backoff::new(Duration::from_millis(800), Duration::from_secs(30), Duration::from_secs(120), 1);
            Self { machine: Machine::new(backoff), now: Instant::now() }
        }

        fn step(&mut self) -> String {
            match self.machine.step(self.now) {
                Step::List(None) => match self.machine.page_size(1) {
                    1 => "list".into(),
                    times => format!("list x{times}"),
                },
                Step::List(Some(page)) => format!("list {page}"),
                Step::Watch(WatchStart::InitialEvents) => "stream".into(),
                Step::Watch(WatchStart::After(version)) => format!("watch {version}"),
                Step::Read { initial: true } => "read initial".into(),
                Step::Read { initial: false } => "read".into(),
                Step::Wait(until) => {
                    self.now = until;
                    format!("wait, {}", self.step())
                }
            }
        }

        fn run(&mut self, events: &str) -> String {
            let mut steps = vec![self.step()];
            for event in events.split_whitespace() {
                let (name, value) = event.split_once(':').unwrap_or((event, ""));
                let failure = match name {
                    "down" => error(ApiErrorClass::Transport, 0),
                    "invalid" => error(ApiErrorClass::Invalid, 422),
                    "gone" => error(ApiErrorClass::Gone, 410),
                    "missing" => error(ApiErrorClass::NotFound, 404),
                    "malformed" => error(ApiErrorClass::Malformed, 200),
                    _ => error(ApiErrorClass::Server, 500),
                };
                match name {
                    "opened" => self.machine.opened(self.now),
                    "page" => {
                        self.machine.listed("0", Some(value), self.now);
                    }
                    "listed" => {
                        self.machine.listed(value, None, self.now);
                    }
                    "streamed" => self.machine.streamed(value, self.now),
                    "heard" => self.machine.heard(value),
                    "ended" => self.machine.ended(self.now),
                    "silent" => self.machine.stream_silent(),
                    "restart" => self.machine.restart(),
                    "reopen" => drop(self.machine.reopen(self.now)),
                    "wake_soon" => self.machine.wake_soon(self.now),
                    "later" => self.now += Duration::from_secs(60),
                    _ if matches!(self.machine.state, State::Streaming | State::Watching { .. }) => {
                        self.machine.broke(&failure, self.now);
                    }
                    _ => {
                        self.machine.failed(&failure, self.now);
                    }
                }
                steps.push(self.step());
            }
            steps.join(" | ")
        }
    }

    fn check(events: &str, steps: &str) {
        assert_eq!(Bench::new().run(events), steps, "{events}");
    }

    #[test]
    fn a_streaming_list_turns_into_a_watch() {
        check("opened streamed:7", "stream | read initial | read");
    }

    #[test]
    fn a_server_without_streaming_lists_is_asked_for_pages() {
        check("invalid page:p2 listed:7 opened", "stream | list | list p2 | watch 7 | read");
        check("opened silent", "stream | read initial | list");
    }

    #[test]
    fn a_streaming_list_that_keeps_failing_is_replaced_by_pages() {
        check("down down down", "stream | wait, stream | wait, stream | wait, list");
        check(
            "opened ended opened down down",
            "stream | read initial | wait, stream | read initial | wait, stream | wait, list",
        );
    }

    #[test]
    fn an_ended_watch_goes_on_at_once_where_it_was() {
        check("opened streamed:7 heard:9 ended", "stream | read initial | read | read | watch 9");
    }

    #[test]
    fn a_watch_that_ends_at_once_is_not_opened_in_a_tight_loop() {
        let steps = "stream | list | watch 7 | read | wait, watch 7 | read | wait, watch 7";
        check("invalid listed:7 opened ended opened ended", steps);
    }

    #[test]
    fn a_broken_watch_keeps_its_place() {
        check("opened streamed:7 ended missing", "stream | read initial | read | watch 7 | wait, stream");
        check(
            "opened streamed:7 heard:9 down down",
            "stream | read initial | read | read | wait, watch 9 | wait, watch 9",
        );
    }

    #[test]
    fn gone_leads_to_a_new_list_and_soon_again_to_a_wait() {
        check("opened streamed:7 later gone", "stream | read initial | read | read | stream");
        check("opened streamed:7 gone", "stream | read initial | read | wait, stream");
        check("invalid listed:7 later gone", "stream | list | watch 7 | watch 7 | list");
    }

    #[test]
    fn expired_pages_restart_the_list() {
        check("invalid page:p2 gone", "stream | list | list p2 | wait, list x4");
    }

    #[test]
    fn a_list_that_expires_again_and_again_comes_in_fewer_pages_and_then_ends() {
        let steps =
            "stream | list | list p2 | wait, list x4 | list p2 | wait, list x16 | list p2 | watch 7 | watch 7 | list";
        check("invalid page:p2 gone page:p2 gone page:p2 listed:7 later gone", steps);
        // The size saturates instead of overflowing.
        let mut bench = Bench::new();
        bench.machine.n_expired = 40;
        assert_eq!(bench.machine.page_size(500), u32::MAX);
    }

    #[test]
    fn a_watch_that_cannot_be_understood_again_and_again_is_replaced_by_a_list() {
        let steps = "stream | read initial | read | wait, watch 7 | read | wait, watch 7 | read | wait, stream";
        check("opened streamed:7 malformed opened malformed opened malformed", steps);
    }

    #[test]
    fn a_silent_watch_is_opened_again_where_it_was_but_not_in_a_tight_loop() {
        check("opened streamed:7 reopen", "stream | read initial | read | read");
        check(
            "opened streamed:7 heard:9 later reopen opened reopen later reopen",
            "stream | read initial | read | read | read | watch 9 | read | read | read | watch 9",
        );
        check("opened reopen", "stream | read initial | read initial");
        check("opened streamed:7 down reopen", "stream | read initial | read | wait, watch 7 | watch 7");
    }

    #[test]
    fn a_new_plan_begins_a_new_list_and_respects_a_wait() {
        check("opened streamed:7 restart", "stream | read initial | read | stream");
        check("opened streamed:7 down restart", "stream | read initial | read | wait, watch 7 | stream");
    }

    #[test]
    fn delays_double_to_the_limit_with_jitter_and_reset_after_a_quiet_time() {
        let mut backoff =
            Backoff::new(Duration::from_millis(800), Duration::from_secs(30), Duration::from_secs(120), 3);
        let mut now = Instant::now();
        for base in [800, 1600, 3200, 6400, 12800, 25600, 30000, 30000] {
            let delay = backoff.failed(now).as_millis();
            assert!((base..=2 * base).contains(&delay), "{delay} for {base}");
            now += Duration::from_millis(delay as u64);
        }
        now += Duration::from_secs(121);
        assert!(backoff.failed(now) <= Duration::from_millis(1600));
    }

    #[test]
    fn pauses_after_an_outage_end_when_the_server_is_back_but_not_before_the_time_that_it_names() {
        let outage = |last: ApiError| {
            let mut bench = Bench::new();
            bench.run("opened streamed:7 down down down down down down");
            bench.machine.failed(&last, bench.now);
            let pause = |bench: &mut Bench| match bench.machine.step(bench.now) {
                Step::Wait(until) => until - bench.now,
                step => panic!("{step:?}"),
            };
            let before = pause(&mut bench);
            bench.machine.wake_soon(bench.now);
            (before, pause(&mut bench))
        };
        let (before, after) = outage(ApiError::transport("refused"));
        assert!(before >= Duration::from_secs(30) && after <= BACK_WITHIN, "{before:?} {after:?}");
        let named = Duration::from_secs(20);
        let (before, after) = outage(error(ApiErrorClass::Throttled(Some(named)), 503));
        assert!(before >= Duration::from_secs(30) && after == named, "{before:?} {after:?}");
        check("opened streamed:7 wake_soon", "stream | read initial | read | read");
    }

    #[test]
    fn a_server_that_names_a_time_is_obeyed_up_to_a_minute() {
        for (seconds, waited) in [(45, 45), (60, 60), (61, 60), (86_400, 60), (u64::MAX, 60)] {
            let mut bench = Bench::new();
            let throttled = error(ApiErrorClass::Throttled(Some(Duration::from_secs(seconds))), 429);
            bench.step();
            bench.machine.failed(&throttled, bench.now);
            let Step::Wait(until) = bench.machine.step(bench.now) else { panic!("no wait") };
            assert_eq!(until - bench.now, Duration::from_secs(waited), "{seconds}");
        }
    }

    #[test]
    fn a_refusal_counts_only_after_several_over_half_a_minute() {
        let refusal = error(ApiErrorClass::Forbidden, 403);
        let mut bench = Bench::new();
        bench.run("invalid");
        let start = bench.now;
        let mut kinds = Vec::new();
        while kinds.last() != Some(&FailureKind::RefusedForLong) {
            kinds.push(bench.machine.failed(&refusal, bench.now));
            assert!(kinds.len() < 20);
            let Step::Wait(until) = bench.machine.step(bench.now) else { panic!("no wait") };
            bench.now = until;
            bench.machine.step(bench.now);
        }
        let n_before = kinds.len() - 1;
        assert!(n_before >= 2 && kinds[..n_before].iter().all(|kind| *kind == FailureKind::Refused), "{kinds:?}");
        assert!(bench.now - start >= REFUSED_FOR);
        // A list in between resets the count.
        bench.machine.listed("7", None, bench.now);
        assert_eq!(bench.machine.failed(&refusal, bench.now), FailureKind::Refused);
        bench.now += REFUSED_FOR;
        assert_eq!(bench.machine.failed(&refusal, bench.now), FailureKind::Refused, "the second one");
        assert_eq!(bench.machine.failed(&refusal, bench.now), FailureKind::RefusedForLong);
    }

    #[test]
    fn rejections_differ_from_failures() {
        for (failure, failure_kind) in [
            (error(ApiErrorClass::NotFound, 404), FailureKind::Refused),
            (error(ApiErrorClass::Forbidden, 403), FailureKind::Refused),
            (error(ApiErrorClass::Invalid, 405), FailureKind::Refused),
            (error(ApiErrorClass::Server, 500), FailureKind::Transient),
            (error(ApiErrorClass::Unauthorized, 401), FailureKind::Transient),
        ] {
            let mut bench = Bench::new();
            // The streaming list is abandoned first.
            bench.run("invalid");
            assert_eq!(bench.machine.failed(&failure, bench.now), failure_kind, "{failure:?}");
        }
    }
}
