use std::collections::BTreeMap;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use parking_lot::Mutex;
use pintle_core::object::id::ObjectKey;
use pintle_core::policy::election::Groups;
use pintle_core::ports::api::{
    ApiClient, ApiReader, ApiResource, ApiWriter, ApiWriters, Discovery, Fences, ListPage, ListWatchTarget, Room,
    WatchStart, WriteFence, WriteRequest,
};
use pintle_testing::{refusal, until};
use serde_json::Value;
use tokio::sync::broadcast;
use tokio::task::JoinHandle;

use super::*;
use crate::manager::{ManagerConfig, WallClock};

/// An API server with Leases.
struct Server {
    leases: Mutex<BTreeMap<String, Value>>,
    version: Mutex<u64>,
    /// Name and text of each written Lease.
    frames: broadcast::Sender<(String, Box<str>)>,
    /// Whether the server does not answer.
    hangs: watch::Sender<bool>,
    no_watch: bool,
    /// Whether writes are executed but not answered.
    mute: Mutex<bool>,
    /// Number of updates that conflict with a change of the Lease.
    races: Mutex<u32>,
    /// Whether reads are answered with 403.
    refuses: Mutex<bool>,
    /// Time in ms, verb and holder of each request for the Lease.
    log: Mutex<Vec<(u128, &'static str, String)>>,
    events: Mutex<Vec<String>>,
    start: Instant,
}

impl Server {
    fn new(no_watch: bool) -> Arc<Self> {
        Arc::new(Self {
            leases: Mutex::default(),
            version: Mutex::new(0),
            frames: broadcast::channel(1_000).0,
            hangs: watch::Sender::new(false),
            no_watch,
            mute: Mutex::default(),
            races: Mutex::default(),
            refuses: Mutex::default(),
            log: Mutex::default(),
            events: Mutex::default(),
            start: Instant::now(),
        })
    }

    fn put(&self, mut lease: Value) -> Written {
        let mut version = self.version.lock();
        *version += 1;
        lease["metadata"]["resourceVersion"] = version.to_string().into();
        let name = lease["metadata"]["name"].as_str().unwrap().to_owned();
        let _ = self.frames.send((name.clone(), lease.to_string().into()));
        self.leases.lock().insert(name, lease);
        Written { resource_version: version.to_string(), uid: "u".into(), ..Written::default() }
    }

    fn edit(&self, field: &str, value: Value) {
        let mut lease = self.lease("lease").unwrap();
        lease["spec"][field] = value;
        self.put(lease);
    }

    fn lease(&self, name: &str) -> Option<Value> {
        self.leases.lock().get(name).cloned()
    }

    fn holder(&self) -> String {
        self.holder_of("lease")
    }

    fn holder_of(&self, name: &str) -> String {
        let lease = self.lease(name).unwrap_or_default();
        lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
    }

    async fn answers(&self) {
        let _ = self.hangs.subscribe().wait_for(|hangs| !hangs).await;
    }
}

impl ApiReader for Server {
    fn discover(&self) -> BoxFuture<'_, Result<Discovery, ApiError>> {
        Box::pin(std::future::ready(Ok(Discovery::default())))
    }

    fn list<'a>(
        &'a self,
        _: &'a ListWatchTarget,
        _: u32,
        _: Option<&'a str>,
    ) -> BoxFuture<'a, Result<ListPage, ApiError>> {
        Box::pin(std::future::ready(Err(refusal(404))))
    }

    fn watch<'a>(&'a self, target: &'a ListWatchTarget, _: WatchStart) -> BoxFuture<'a, Result<WatchStream, ApiError>> {
        let watched = target.field_selector.as_deref().and_then(|selector| selector.strip_prefix("metadata.name="));
        let watched = watched.unwrap().to_owned();
        if self.no_watch {
            return Box::pin(std::future::ready(Err(refusal(403))));
        }
        let frames = futures::stream::unfold((self.frames.subscribe(), watched), |(mut frames, watched)| async {
            loop {
                let (name, text) = frames.recv().await.ok()?;
                if name == watched {
                    return Some((Ok(WatchFrame::Modified(text)), (frames, watched)));
                }
            }
        });
        Box::pin(std::future::ready(Ok(frames.boxed())))
    }

    fn get<'a>(
        &'a self,
        _: &'a ApiResource,
        key: &'a ObjectKey,
        _: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Box<str>, ApiError>> {
        Box::pin(async {
            self.answers().await;
            self.log.lock().push((self.start.elapsed().as_millis(), "get", String::new()));
            if *self.refuses.lock() {
                return Err(refusal(403));
            }
            self.lease(&key.name).map(|lease| lease.to_string().into()).ok_or_else(|| refusal(404))
        })
    }

    fn review<'a>(&'a self, _: &'a ApiResource, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<Box<str>, ApiError>> {
        Box::pin(std::future::ready(Err(ApiError::transport("no reviews"))))
    }

    fn raw<'a>(&'a self, _: &'a str, _: &'a Room<'a>) -> BoxFuture<'a, Result<Box<str>, ApiError>> {
        Box::pin(std::future::ready(Err(refusal(404))))
    }
}

impl ApiWriter for Server {
    fn write<'a>(&'a self, request: &'a WriteRequest) -> BoxFuture<'a, Result<Written, ApiError>> {
        Box::pin(async move {
            self.answers().await;
            let (verb, body) = match &request.verb {
                WriteVerb::Create { body } => ("create", body),
                WriteVerb::Update { body } => ("update", body),
                _ => panic!("{request:?}"),
            };
            let object: Value = serde_json::from_str(body).unwrap();
            if request.resource.plural == "events" {
                self.events.lock().push(object["message"].as_str().unwrap().to_owned());
                return Ok(Written::default());
            }
            let holder = object["spec"]["holderIdentity"].as_str().unwrap().to_owned();
            self.log.lock().push((self.start.elapsed().as_millis(), verb, holder));
            let name = object["metadata"]["name"].as_str().unwrap();
            if verb == "update" && *self.races.lock() > 0 {
                *self.races.lock() -= 1;
                self.edit("renewTime", "2026-01-01T00:00:00.000000Z".into());
            }
            let present = self.lease(name).map(|lease| lease["metadata"]["resourceVersion"].clone());
            let written = match (verb, present) {
                ("create", None) => Ok(self.put(object)),
                ("create", Some(_)) => Err(refusal(409)),
                (_, None) => Err(refusal(404)),
                (_, Some(version)) if version != object["metadata"]["resourceVersion"] => Err(refusal(409)),
                _ => Ok(self.put(object)),
            }?;
            let is_mute = *self.mute.lock();
            if is_mute {
                std::future::pending::<()>().await;
            }
            Ok(written)
        })
    }
}

struct Writers(Arc<Server>);

impl ApiWriters for Writers {
    fn client(&self, _: &WriterIdentity) -> ApiClient {
        ApiClient { writer: self.0.clone(), reader: None }
    }
}

/// A host without plugins.
struct Host {
    leadership: Arc<Leadership>,
    manager: Arc<Manager>,
    standing: watch::Receiver<Standing>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
    /// Tasks of the other groups.
    more: Vec<JoinHandle<()>>,
}

impl Host {
    fn start(server: &Arc<Server>, identity: &str) -> Self {
        Self::sharing(server, identity, Groups::default())
    }

    fn sharing(server: &Arc<Server>, identity: &str, groups: Groups) -> Self {
        let start = Instant::now();
        let clock: WallClock = Arc::new(move || Timestamp::UNIX_EPOCH + start.elapsed());
        let leaderships: Vec<_> =
            groups.ids().map(|_| Leadership::new(clock.clone(), Arc::new(move || start.elapsed()))).collect();
        let fences = Fences::of_groups(groups.clone(), |group| {
            let fence: Arc<dyn WriteFence> = leaderships[group.index()].clone();
            fence
        });
        let config = ManagerConfig { fences: Some(fences), ..ManagerConfig::default() };
        let manager = Arc::new(Manager::new(server.clone(), Arc::new(Writers(server.clone())), config));
        let sharing = Sharing::new(identity, groups.count());
        let stop = watch::Sender::new(false);
        let (mut tasks, mut standings) = (Vec::new(), Vec::new());
        for group in groups.ids() {
            let config = ElectionConfig {
                identity: identity.to_owned(),
                namespace: "kube-system".to_owned(),
                name: groups.lease(group, "lease"),
                times: Times::DEFAULT,
                group,
                sharing: sharing.clone(),
                coordinated: false,
                seed: 0,
            };
            let election = Election::new(config, leaderships[group.index()].clone(), manager.clone());
            standings.push(election.standing());
            let mut stopped = stop.subscribe();
            tasks.push(tokio::spawn(election.run(async move { drop(stopped.wait_for(|stops| *stops).await) })));
        }
        let more = tasks.split_off(1);
        let (task, standing) = (tasks.remove(0), standings.remove(0));
        Self { leadership: leaderships[0].clone(), manager, standing, stop, task, more }
    }

    fn kill(&self) {
        self.task.abort();
        self.more.iter().for_each(JoinHandle::abort);
    }

    fn leads(&self) -> bool {
        let leads = self.manager.leads();
        assert!(!leads || self.standing.borrow().leads);
        leads && self.leadership.is_open()
    }

    async fn stop(self) {
        self.stop.send_replace(true);
        for task in [self.task].into_iter().chain(self.more) {
            task.await.unwrap();
        }
    }
}

async fn after(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn one_of_two_leads_and_the_other_takes_over_at_once_after_a_release() {
    let server = Server::new(false);
    let a = Host::start(&server, "a");
    until("a to lead", || a.leads()).await;
    let b = Host::start(&server, "b");
    after(60).await;
    assert!(a.leads() && !b.leads());
    assert_eq!(b.standing.borrow().holder.as_deref(), Some("a"));
    let gets = server.log.lock().iter().filter(|(_, verb, _)| *verb == "get").count();
    assert!(gets <= 3, "a standby that watches does not read: {gets}");
    let stopped = Instant::now();
    a.stop().await;
    until("b to lead", || b.leads()).await;
    assert_eq!(stopped.elapsed(), Duration::ZERO);
    assert_eq!(server.lease("lease").unwrap()["spec"]["leaseTransitions"], 1);
    until("events", || server.events.lock().len() == 3).await;
    assert_eq!(*server.events.lock(), ["a became leader", "a stopped leading", "b became leader"]);
    let text = b.manager.metrics_text();
    assert!(text.contains("leader_election_master_status{name=\"lease\"} 1\n"), "{text}");
    b.stop().await;
    assert_eq!(server.holder(), "");
}

/// A write of an abandoned run may still be executed: the next leader must not start before.
#[tokio::test(start_paused = true)]
async fn the_lease_of_a_leader_that_abandons_runs_expires() {
    let server = Server::new(false);
    let a = Host::start(&server, "a");
    until("a to lead", || a.leads()).await;
    let b = Host::start(&server, "b");
    a.manager.note_abandoned_runs();
    a.stop().await;
    assert_eq!(server.holder(), "a");
    let stopped = Instant::now();
    until("b to lead", || b.leads()).await;
    assert!(stopped.elapsed() >= Duration::from_secs(13), "{:?}", stopped.elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_lease_of_a_killed_leader_is_taken_after_its_duration_with_and_without_a_watch() {
    for no_watch in [false, true] {
        let server = Server::new(no_watch);
        let a = Host::start(&server, "a");
        until("a to lead", || a.leads()).await;
        let b = Host::start(&server, "b");
        after(7).await;
        a.task.abort();
        let killed = Instant::now();
        while !b.leads() {
            assert!(killed.elapsed() < Duration::from_secs(60), "nobody leads");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let took = killed.elapsed();
        assert!(
            (Duration::from_secs(13)..=Duration::from_secs(19)).contains(&took),
            "{took:?} without a watch: {no_watch}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_api_server_hangs_stops_at_its_deadline_and_leads_again_later() {
    let server = Server::new(false);
    let a = Host::start(&server, "a");
    until("a to lead", || a.leads()).await;
    server.hangs.send_replace(true);
    let closed = a.leadership.closed();
    let hung = Instant::now();
    closed.await;
    let took = hung.elapsed();
    assert!(took <= Duration::from_secs(10) && took >= Duration::from_secs(8), "{took:?}");
    until("a to stand by", || !a.manager.leads()).await;
    let n_before = server.log.lock().len();
    after(120).await;
    assert_eq!(server.log.lock().len(), n_before);
    server.hangs.send_replace(false);
    until("a to lead", || a.leads()).await;
    assert_eq!(server.lease("lease").unwrap()["spec"]["leaseTransitions"], 0, "it held the Lease all along");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_somebody_else_takes_by_force_ends_the_term_at_once() {
    let server = Server::new(false);
    let a = Host::start(&server, "a");
    until("a to lead", || a.leads()).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    server.edit("holderIdentity", "by hand".into());
    let edited = Instant::now();
    a.leadership.closed().await;
    assert_eq!(edited.elapsed(), Duration::ZERO);
    until("a to stand by", || !a.manager.leads()).await;
    // No host renews it.
    until("a to lead again", || a.leads()).await;
    assert!(edited.elapsed() >= Duration::from_secs(15));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_taken_without_an_answer_is_released_at_the_end() {
    let server = Server::new(true);
    *server.mute.lock() = true;
    let a = Host::start(&server, "a");
    after(2).await;
    assert_eq!((server.holder().as_str(), a.leads()), ("a", false));
    *server.mute.lock() = false;
    a.stop().await;
    assert_eq!(server.holder(), "");
}

#[tokio::test(start_paused = true)]
async fn a_release_that_conflicts_is_sent_again() {
    let server = Server::new(true);
    let a = Host::start(&server, "a");
    until("a to lead", || a.leads()).await;
    // Other clients write the Lease each time before the release arrives.
    *server.races.lock() = 3;
    a.stop().await;
    assert_eq!((server.holder().as_str(), *server.races.lock()), ("", 0));
}

#[tokio::test(start_paused = true)]
async fn a_refused_election_runs_nothing_and_says_so_without_haste() {
    let server = Server::new(true);
    *server.refuses.lock() = true;
    let a = Host::start(&server, "a");
    after(100).await;
    let n_tries = server.log.lock().len();
    assert!(!a.manager.leads() && (20..=50).contains(&n_tries), "{n_tries}");
}

/// The holders of the Leases of three groups.
fn holders(server: &Server) -> Vec<String> {
    ["lease", "lease-a", "lease-b"].map(|name| server.holder_of(name)).to_vec()
}

fn n_held(server: &Server, host: &str) -> usize {
    holders(server).iter().filter(|holder| *holder == host).count()
}

#[tokio::test(start_paused = true)]
async fn hosts_share_groups_and_take_those_of_a_host_that_goes() {
    let server = Server::new(false);
    let groups = || Groups::new(["a", "b"].map(|name| (name.to_owned(), vec![format!("plugin-{name}")]))).unwrap();
    let one = Host::sharing(&server, "one", groups());
    until("one host to lead all", || n_held(&server, "one") == 3).await;
    let two = Host::sharing(&server, "two", groups());
    until("two to get a group", || n_held(&server, "two") == 1).await;
    let three = Host::sharing(&server, "three", groups());
    after(60).await;
    assert_eq!(["one", "two", "three"].map(|host| n_held(&server, host)), [1, 1, 1]);
    let n_updates = server.log.lock().len();
    after(100).await;
    // Three renewals in two seconds, and nothing else.
    let n_updates = server.log.lock().len() - n_updates;
    assert!((140..=160).contains(&n_updates), "{n_updates}");
    one.kill();
    until("the others to take over", || n_held(&server, "one") == 0).await;
    after(30).await;
    let counts = ["two", "three"].map(|host| n_held(&server, host));
    assert!(counts == [2, 1] || counts == [1, 2], "two to one is even: {counts:?}");
    let leads = |host: &Host| ["x", "plugin-a", "plugin-b"].map(|plugin| host.manager.may_run(plugin));
    for (two, three) in leads(&two).iter().zip(leads(&three)) {
        assert_ne!(*two, three);
    }
    two.stop().await;
    until("the last one to lead all", || n_held(&server, "three") == 3).await;
    three.stop().await;
    assert_eq!(holders(&server), [""; 3]);
}
