//! Fault scripts: which request fails, how, and whether before or after it takes effect.
//!
//! *Flow*: a test arms rules on [`FaultScript`]; the server checks each request, each commit and each batch of watch
//! events against it.
//!
//! *Invariants*: 1. an unarmed script changes nothing and costs one atomic load; 2. a fault `After` means that the
//! write is in the store and in every watch; 3. after a client is killed, none of its writes takes effect, even one in
//! flight.
//!
//! *Not here*: failing nodes and Pods (`pintle-nodes`).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{broadcast, watch};

use crate::server::status::ApiError;
use crate::store::WriteRecord;

/// Most pending orders of a running watch; one that is further behind ends.
const PENDING_ORDERS: usize = 64;

/// Selects requests; `None` matches everything.
#[derive(Clone, Debug, Default)]
pub struct RequestMatch {
    /// `create`, `update`, `patch`, `delete`, `deletecollection`, `get`, `list` or `watch`; `write` for all writes.
    pub verb: Option<String>,
    /// Plural name or kind.
    pub resource: Option<String>,
    /// Name of the subresource; empty for the object itself.
    pub subresource: Option<String>,
    /// Namespace.
    pub namespace: Option<String>,
    /// Name of the object; a create with generateName has none.
    pub name: Option<String>,
    /// Part of the client's `User-Agent`.
    pub user_agent: Option<String>,
}

impl RequestMatch {
    /// Requests of one verb on one resource.
    pub fn new(verb: &str, resource: &str) -> Self {
        Self { verb: Some(verb.to_owned()), resource: Some(resource.to_owned()), ..Self::default() }
    }

    /// Every write.
    pub fn writes() -> Self {
        Self { verb: Some("write".to_owned()), ..Self::default() }
    }

    fn matches(&self, request: &RequestFacts<'_>) -> bool {
        let same = |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
        let verb = self.verb.as_deref().is_none_or(|verb| {
            verb == request.verb || (verb == "write" && !matches!(request.verb, "get" | "list" | "watch"))
        });
        verb && self.resource.as_deref().is_none_or(|wanted| wanted == request.resource || wanted == request.kind)
            && same(&self.subresource, request.subresource)
            && same(&self.namespace, request.namespace)
            && same(&self.name, request.name)
            && self.user_agent.as_deref().is_none_or(|part| request.user_agent.contains(part))
    }
}

/// The facts about a request that rules match.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestFacts<'a> {
    pub(crate) verb: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) user_agent: &'a str,
}

impl fmt::Display for RequestFacts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verb, resource, subresource, namespace, name, user_agent, .. } = self;
        write!(f, "{verb} {resource}/{subresource} {namespace}/{name} by {user_agent}")
    }
}

/// Whether the fault occurs before or after the request takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Nothing has happened.
    Before,
    /// The write is done, but the client does not receive the response.
    After,
}

/// The response of a fault.
#[derive(Clone, Debug)]
pub enum Failure {
    /// A `Status` with that code; 409, 429, 500, 503 and 504 have their usual reasons and messages.
    Status {
        /// HTTP status.
        code: u16,
        /// `Retry-After` in seconds.
        retry_after_seconds: Option<u32>,
    },
    /// The connection closes without a response.
    DropConnection,
    /// The correct response is delayed by this real time.
    Delay(Duration),
}

impl Failure {
    /// A `Status` with that code.
    pub fn status(code: u16) -> Self {
        Self::Status { code, retry_after_seconds: None }
    }

    /// 429 with `Retry-After`.
    pub fn too_many_requests(retry_after_seconds: u32) -> Self {
        Self::Status { code: 429, retry_after_seconds: Some(retry_after_seconds) }
    }

    pub(crate) fn error(&self, request: &RequestFacts<'_>) -> Option<ApiError> {
        match self {
            Self::Delay(_) => None,
            Self::DropConnection => Some(ApiError::dropped()),
            Self::Status { code, retry_after_seconds } => {
                let (reason, message) = match code {
                    400 => ("BadRequest", "the server rejected our request for an unknown reason".to_owned()),
                    403 => ("Forbidden", format!("{} {:?} is forbidden: refused by a fault script", request.resource, request.name)),
                    404 => ("NotFound", format!("{} {:?} not found", request.resource, request.name)),
                    409 => (
                        "Conflict",
                        format!(
                            "Operation cannot be fulfilled on {} {:?}: the object has been modified; please apply your changes to the latest version and try again",
                            request.resource, request.name
                        ),
                    ),
                    410 => ("Expired", "The resourceVersion for the provided list is too old.".to_owned()),
                    422 => ("Invalid", format!("{} {:?} is invalid: refused by a fault script", request.kind, request.name)),
                    429 => (
                        "TooManyRequests",
                        "the server has received too many requests and has asked us to try again later".to_owned(),
                    ),
                    503 => ("ServiceUnavailable", "the server is currently unable to handle the request".to_owned()),
                    504 => (
                        "Timeout",
                        "the server was unable to return a response in the time allotted, but may still be processing the request"
                            .to_owned(),
                    ),
                    _ => ("InternalError", "Internal error occurred: injected by a fault script".to_owned()),
                };
                let mut error = ApiError::new(*code, reason, message);
                error.retry_after_seconds = *retry_after_seconds;
                Some(error)
            }
        }
    }
}

/// How running watches end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchEnd {
    /// The response ends normally, as at a timeout.
    Close,
    /// The connection breaks in the middle.
    Drop,
    /// An ERROR event with 410, then the end.
    Gone,
}

#[derive(Clone, Debug)]
pub(crate) struct WatchOrder {
    pub(crate) resource: Option<String>,
    pub(crate) end: WatchEnd,
}

struct Rule {
    matching: RequestMatch,
    /// Matching requests still to let through.
    skip: u64,
    /// Matching requests still to fail.
    left: u64,
    when: When,
    failure: Failure,
    struck: watch::Sender<bool>,
}

/// Watches whose events come late.
struct SlowWatch {
    resource: Option<String>,
    delay: Duration,
    struck: watch::Sender<bool>,
}

struct Kill {
    user_agent: String,
    writes_left: u64,
    killed: watch::Sender<bool>,
}

type Hook = Box<dyn FnOnce(&WriteRecord) + Send>;
type Observer = Arc<dyn Fn(&WriteRecord) + Send + Sync>;

#[derive(Default)]
struct Rules {
    requests: Vec<Rule>,
    kills: Vec<Kill>,
    hooks: Vec<(u64, Hook)>,
    observers: Vec<Observer>,
    slow_watches: Vec<SlowWatch>,
    duplicated: Vec<Option<String>>,
}

struct State {
    /// Whether any rule about requests, kills or hooks exists.
    armed: AtomicBool,
    rules: Mutex<Rules>,
    /// Watches hold receivers.
    orders: broadcast::Sender<WatchOrder>,
    /// Connections hold receivers; true while the server is down.
    down: watch::Sender<bool>,
}

/// The script of one cluster. Clones share it.
#[derive(Clone)]
pub struct FaultScript(Arc<State>);

impl Default for FaultScript {
    fn default() -> Self {
        Self(Arc::new(State {
            armed: AtomicBool::new(false),
            rules: Mutex::default(),
            orders: broadcast::Sender::new(PENDING_ORDERS),
            down: watch::Sender::new(false),
        }))
    }
}

impl FaultScript {
    fn arm(&self, change: impl FnOnce(&mut Rules)) {
        let mut rules = self.0.rules.lock();
        change(&mut rules);
        self.0.armed.store(true, Ordering::SeqCst);
    }

    fn armed(&self) -> bool {
        self.0.armed.load(Ordering::SeqCst)
    }

    /// Fails the `nth` (from 1) matching request and the `times - 1` after it. The receiver turns true when the first one arrives.
    pub fn fail(
        &self,
        matching: RequestMatch,
        nth: u64,
        times: u64,
        when: When,
        failure: Failure,
    ) -> watch::Receiver<bool> {
        let struck = watch::Sender::new(false);
        let receiver = struck.subscribe();
        self.arm(|rules| {
            rules.requests.push(Rule { matching, skip: nth.saturating_sub(1), left: times, when, failure, struck });
        });
        receiver
    }

    /// Fails the next matching request before it takes effect.
    pub fn fail_next(&self, matching: RequestMatch, failure: Failure) {
        self.fail(matching, 1, 1, When::Before, failure);
    }

    /// Cuts a client off when its `n`-th write from now (from 1) has taken effect: the response to that write, and to
    /// every later request of that client, is a closed connection. 0 cuts it off immediately. The receiver turns true
    /// when it happens. Ends with [`FaultScript::revive_clients`].
    pub fn kill_client_after(&self, n: u64, user_agent: &str) -> watch::Receiver<bool> {
        let killed = watch::Sender::new(n == 0);
        let receiver = killed.subscribe();
        self.arm(|rules| rules.kills.push(Kill { user_agent: user_agent.to_owned(), writes_left: n, killed }));
        receiver
    }

    /// Reconnects killed clients.
    pub fn revive_clients(&self) {
        self.0.rules.lock().kills.clear();
    }

    /// Runs `hook` when write number `n` of the cluster has taken effect and before its client gets the response. The
    /// store is locked meanwhile: the hook must not call the cluster, and should be quick.
    pub fn after_write(&self, n: u64, hook: impl FnOnce(&WriteRecord) + Send + 'static) {
        self.arm(|rules| rules.hooks.push((n, Box::new(hook))));
    }

    /// Calls `observer` for every write, in order, when it takes effect. The rules of [`FaultScript::after_write`]
    /// apply.
    pub fn observe(&self, observer: impl Fn(&WriteRecord) + Send + Sync + 'static) {
        self.arm(|rules| rules.observers.push(Arc::new(observer)));
    }

    /// Ends running watches of a resource (plural name), or all.
    pub fn end_watches(&self, resource: Option<&str>, end: WatchEnd) {
        // Having no watches is not an error.
        let _ = self.0.orders.send(WatchOrder { resource: resource.map(str::to_owned), end });
    }

    /// Delays every watch event of a resource (plural name, or all) by `delay`, until [`FaultScript::clear`]. The
    /// receiver turns true when the first one is delayed.
    pub fn delay_watches(&self, resource: Option<&str>, delay: Duration) -> watch::Receiver<bool> {
        let struck = watch::Sender::new(false);
        let receiver = struck.subscribe();
        let slow = SlowWatch { resource: resource.map(str::to_owned), delay, struck };
        self.arm(|rules| rules.slow_watches.push(slow));
        receiver
    }

    /// Sends every watch event of a resource (plural name, or all) twice, until [`FaultScript::clear`].
    pub fn duplicate_events(&self, resource: Option<&str>) {
        self.arm(|rules| rules.duplicated.push(resource.map(str::to_owned)));
    }

    /// Takes the server down: connections break, and new ones are closed immediately.
    pub fn down(&self) {
        self.0.down.send_replace(true);
    }

    /// Ends [`FaultScript::down`].
    pub fn up(&self) {
        self.0.down.send_replace(false);
    }

    /// Takes the server down for this real time.
    ///
    /// # Cancel safety
    /// A dropped future leaves the server down.
    pub async fn down_for(&self, duration: Duration) {
        self.down();
        tokio::time::sleep(duration).await;
        self.up();
    }

    /// Removes every rule, hook and observer, revives killed clients, and starts the server.
    pub fn clear(&self) {
        let mut rules = self.0.rules.lock();
        *rules = Rules::default();
        self.0.armed.store(false, Ordering::SeqCst);
        self.up();
    }

    pub(crate) fn subscribe_down(&self) -> watch::Receiver<bool> {
        self.0.down.subscribe()
    }

    pub(crate) fn subscribe_orders(&self) -> broadcast::Receiver<WatchOrder> {
        self.0.orders.subscribe()
    }

    /// The fault of this request, which counts as one match.
    pub(crate) fn decide(&self, request: &RequestFacts<'_>) -> Option<(When, Failure)> {
        if !self.armed() {
            return None;
        }
        let mut rules = self.0.rules.lock();
        if rules.kills.iter().any(|kill| *kill.killed.borrow() && request.user_agent.contains(&kill.user_agent)) {
            return Some((When::Before, Failure::DropConnection));
        }
        let mut found = None;
        for rule in rules.requests.iter_mut().filter(|rule| rule.left > 0 && rule.matching.matches(request)) {
            if rule.skip > 0 {
                rule.skip -= 1;
            } else if found.is_none() {
                rule.left -= 1;
                rule.struck.send_replace(true);
                found = Some((rule.when, rule.failure.clone()));
            }
        }
        rules.requests.retain(|rule| rule.left > 0);
        found
    }

    /// Rejects the commit of a client that was killed while its request was in flight.
    pub(crate) fn admit_commit(&self, user_agent: &str) -> Result<(), ApiError> {
        if self.is_killed(user_agent) { Err(ApiError::dropped()) } else { Ok(()) }
    }

    /// Whether this client gets no more responses.
    pub(crate) fn is_killed(&self, user_agent: &str) -> bool {
        self.armed()
            && self
                .0
                .rules
                .lock()
                .kills
                .iter()
                .any(|kill| *kill.killed.borrow() && user_agent.contains(&kill.user_agent))
    }

    /// Called when a write has taken effect; the store is locked.
    pub(crate) fn committed(&self, record: &WriteRecord) {
        if !self.armed() {
            return;
        }
        let mut rules = self.0.rules.lock();
        for kill in rules.kills.iter_mut().filter(|kill| record.user_agent.contains(&kill.user_agent)) {
            if kill.writes_left > 0 {
                kill.writes_left -= 1;
                if kill.writes_left == 0 {
                    kill.killed.send_replace(true);
                }
            }
        }
        let due: Vec<Hook> = rules.hooks.extract_if(.., |(n, _)| *n == record.n).map(|(_, hook)| hook).collect();
        let observers = rules.observers.clone();
        drop(rules);
        for hook in due {
            hook(record);
        }
        for observer in observers {
            observer(record);
        }
    }

    pub(crate) fn watch_delay(&self, resource: &str) -> Option<Duration> {
        if !self.armed() {
            return None;
        }
        let rules = self.0.rules.lock();
        let slow = rules
            .slow_watches
            .iter()
            .rev()
            .find(|slow| slow.resource.as_deref().is_none_or(|wanted| wanted == resource))?;
        slow.struck.send_replace(true);
        Some(slow.delay)
    }

    pub(crate) fn duplicates(&self, resource: &str) -> bool {
        self.armed()
            && self
                .0
                .rules
                .lock()
                .duplicated
                .iter()
                .any(|wanted| wanted.as_deref().is_none_or(|wanted| wanted == resource))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request<'a>(verb: &'a str, resource: &'a str) -> RequestFacts<'a> {
        RequestFacts {
            verb,
            resource,
            kind: "Pod",
            subresource: "",
            namespace: "default",
            name: "a",
            user_agent: "test",
        }
    }

    #[test]
    fn the_nth_matching_request_fails_and_no_other() {
        let script = FaultScript::default();
        script.fail(RequestMatch::new("patch", "pods"), 2, 1, When::Before, Failure::status(409));
        assert!(script.decide(&request("create", "pods")).is_none());
        assert!(script.decide(&request("patch", "pods")).is_none());
        assert!(script.decide(&request("patch", "nodes")).is_none());
        assert!(script.decide(&request("patch", "pods")).is_some());
        assert!(script.decide(&request("patch", "pods")).is_none());
    }

    #[test]
    fn writes_leave_reads_alone() {
        let script = FaultScript::default();
        script.fail(RequestMatch::writes(), 1, 2, When::After, Failure::DropConnection);
        assert!(script.decide(&request("list", "pods")).is_none());
        assert!(matches!(script.decide(&request("delete", "pods")), Some((When::After, Failure::DropConnection))));
    }

    #[test]
    fn a_client_killed_at_once_commits_nothing_until_it_is_revived() {
        let script = FaultScript::default();
        script.kill_client_after(0, "pintle");
        assert!(script.admit_commit("pintle/0.1").is_err());
        assert!(script.admit_commit("kubectl").is_ok());
        script.revive_clients();
        assert!(script.admit_commit("pintle/0.1").is_ok());
    }
}
