mod handing_over;

use proptest::prelude::*;

use super::*;

/// The clocks of a process that started together with the others.
#[derive(Clone, Copy)]
struct Clocks {
    start: Instant,
    wall: Timestamp,
}

impl Clocks {
    fn new() -> Self {
        Self { start: Instant::now(), wall: Timestamp::UNIX_EPOCH }
    }

    fn at(&self, ms: u64) -> Moment {
        let after = Duration::from_millis(ms);
        Moment {
            now: self.start + after,
            since_boot: after,
            wall: self.wall + SignedDuration::try_from(after).unwrap(),
        }
    }
}

/// An API server with one Lease.
#[derive(Default)]
struct Server {
    lease: Option<Lease>,
    version: u64,
}

impl Server {
    /// Executes a write, if its version matches.
    fn write(&mut self, lease: &Lease, create: bool) -> Option<String> {
        let present = self.lease.as_ref().map_or("", Lease::version);
        if create == self.lease.is_some() || (!create && present != lease.version()) {
            return None;
        }
        Some(self.store(lease.clone()))
    }

    fn store(&mut self, lease: Lease) -> String {
        self.version += 1;
        let version = self.version.to_string();
        self.lease = Some(lease.stored(&version, ""));
        version
    }
}

const S: u64 = 1_000;

fn candidate(name: &str) -> Candidate {
    Candidate::new(name.to_owned(), Times::DEFAULT, "kube-system", "kube-controller-manager")
}

/// Executes the candidate's actions until it waits; returns the actions.
fn act(server: &mut Server, candidate: &mut Candidate, at: Moment) -> Vec<String> {
    let mut done = Vec::new();
    for _ in 0..10 {
        match candidate.next(at) {
            Action::Read => {
                candidate.saw(server.lease.clone(), at.now);
                done.push("read".to_owned());
            }
            action @ (Action::Create(_) | Action::Update(_)) => {
                let is_create = matches!(action, Action::Create(_));
                let (Action::Create(lease) | Action::Update(lease)) = action else { unreachable!() };
                match server.write(&lease, is_create) {
                    Some(version) => {
                        let begins = candidate.wrote(lease, &version, "", at);
                        done.push(if begins { "lead" } else { "renew" }.to_owned());
                    }
                    None => {
                        candidate.failed(0.5, at.now);
                        done.push("conflict".to_owned());
                    }
                }
            }
            Action::Wait(until) => {
                done.push(format!("wait {}", (until - at.now).as_millis()));
                return done;
            }
            Action::Stop(why) => done.push(format!("stop: {why}")),
            Action::Ask(lease) => match server.write(&lease, false) {
                Some(version) => {
                    candidate.asked(lease, &version, at.now);
                    done.push("ask".to_owned());
                }
                None => {
                    candidate.failed(0.5, at.now);
                    done.push("conflict".to_owned());
                }
            },
            Action::HandOver(to) => {
                release_for(server, candidate, to.as_deref(), at);
                done.push(format!("hand over to {}", to.unwrap_or_default()));
            }
        }
    }
    panic!("it does not come to rest: {done:?}");
}

/// Releases the Lease for another candidate, and reports the change by the watch.
fn release_for(server: &mut Server, candidate: &mut Candidate, to: Option<&str>, at: Moment) {
    let Some(mut lease) = candidate.release(at) else { return };
    lease.annotate(RESERVED_FOR, to);
    server.write(&lease, false);
    candidate.saw(server.lease.clone(), at.now);
}

fn holds(candidate: &Candidate, at: Moment) -> bool {
    candidate.term().is_some_and(|term| term.holds(at))
}

#[test]
fn a_candidate_leads_renews_and_releases_and_the_next_one_leads_at_once() {
    let (clocks, mut server) = (Clocks::new(), Server::default());
    server.store(Lease::new("kube-system", "kube-controller-manager"));
    let (mut a, mut b) = (candidate("a"), candidate("b"));
    assert_eq!(act(&mut server, &mut a, clocks.at(0)), ["read", "lead", "wait 2000"]);
    assert!(holds(&a, clocks.at(0)));
    assert_eq!(act(&mut server, &mut b, clocks.at(500)), ["read", "wait 4000"]);
    assert_eq!(act(&mut server, &mut a, clocks.at(2 * S)), ["renew", "wait 2000"]);
    let released = a.release(clocks.at(3 * S)).unwrap();
    assert!(!holds(&a, clocks.at(3 * S)));
    server.write(&released, false).unwrap();
    b.heard(server.lease.clone().unwrap(), false, clocks.at(3 * S).now);
    assert_eq!(act(&mut server, &mut b, clocks.at(3 * S)), ["lead", "wait 2000"]);
    assert!(holds(&b, clocks.at(3 * S)));
    assert_eq!(server.lease.as_ref().unwrap().transitions(), 2);
    assert_eq!(b.release(clocks.at(3 * S)).map(|lease| lease.holder().to_owned()), Some(String::new()));
    a.saw(server.lease.clone(), clocks.at(3 * S).now);
    assert_eq!(a.release(clocks.at(3 * S)), None, "what is not held is not released");
}

#[test]
fn the_lease_of_a_dead_leader_is_taken_after_its_duration_and_not_before() {
    let (clocks, mut server) = (Clocks::new(), Server::default());
    let (mut a, mut b) = (candidate("a"), candidate("b"));
    act(&mut server, &mut a, clocks.at(0));
    for at in [S, 5 * S, 9 * S, 13 * S] {
        let done = act(&mut server, &mut b, clocks.at(at));
        assert_eq!(done[0], "read", "{at}");
        assert!(done[1].starts_with("wait"), "{done:?}");
    }
    assert_eq!(act(&mut server, &mut b, clocks.at(16 * S - 1)), ["wait 1"]);
    assert_eq!(act(&mut server, &mut b, clocks.at(16 * S)), ["lead", "wait 2000"]);
    assert!(!holds(&a, clocks.at(10 * S)), "the first one's term is over before");
    let done = act(&mut server, &mut a, clocks.at(16 * S));
    assert_eq!(done, ["stop: the Lease was not renewed within 10s", "conflict", "wait 3200"]);
}

#[test]
fn a_leader_that_slept_stops_before_anything_else_whichever_clock_shows_it() {
    let (clocks, mut server) = (Clocks::new(), Server::default());
    let mut a = candidate("a");
    act(&mut server, &mut a, clocks.at(0));
    let awake = clocks.at(30 * S);
    assert!(!holds(&a, awake));
    let asleep = clocks.at(S);
    assert!(
        !holds(&a, Moment { now: asleep.now, since_boot: asleep.since_boot, ..awake }),
        "a hypervisor has paused the machine"
    );
    assert!(
        !holds(&a, Moment { since_boot: awake.since_boot, ..asleep }),
        "the machine was suspended, and its wall clock is not set yet"
    );
    let back = Moment { wall: clocks.wall - SignedDuration::from_hours(1), ..clocks.at(9 * S) };
    assert!(holds(&a, back), "a wall clock that is set back ends nothing");
    assert!(!holds(&a, Moment { wall: back.wall, ..awake }), "nor prolongs it");
    let done = act(&mut server, &mut a, awake);
    assert_eq!(done[0], "stop: the Lease was not renewed within 10s");
}

#[test]
fn failed_renewals_are_repeated_until_the_deadline_without_haste() {
    let (clocks, mut server) = (Clocks::new(), Server::default());
    let mut a = candidate("a");
    act(&mut server, &mut a, clocks.at(0));
    let (mut at, mut n_requests) = (2 * S, 0);
    let stopped = loop {
        match a.next(clocks.at(at)) {
            Action::Wait(until) => at = u64::try_from((until - clocks.start).as_millis()).unwrap(),
            Action::Stop(_) => break at,
            _ => {
                n_requests += 1;
                a.failed(0.5, clocks.at(at).now);
            }
        }
    };
    assert!((8 * S + 2_000..=10 * S + 4_000).contains(&stopped), "{stopped}");
    assert_eq!(n_requests, 5);
    assert_eq!(a.take_slow(), 4);
}

#[test]
fn an_api_server_that_only_reads_causes_no_hot_loop() {
    let (clocks, mut server) = (Clocks::new(), Server::default());
    let (mut a, mut n_requests) = (candidate("a"), 0);
    act(&mut server, &mut a, clocks.at(0));
    for at in (2 * S..9 * S).step_by(10) {
        let at = clocks.at(at);
        match a.next(at) {
            Action::Read => a.saw(server.lease.clone(), at.now),
            Action::Create(_) | Action::Update(_) => a.failed(0.0, at.now),
            Action::Wait(_) => continue,
            other => panic!("{other:?}"),
        }
        n_requests += 1;
    }
    assert!(n_requests <= 10, "{n_requests}");
}

#[test]
fn a_lease_that_is_edited_or_deleted_by_hand_has_at_most_one_leader() {
    let clocks = Clocks::new();
    let with = |server: &Server, holder: &str, seconds: u64| {
        let lease = server.lease.as_ref().unwrap();
        lease.held_by(holder, Duration::from_secs(seconds), clocks.wall)
    };
    // The leader stops immediately; the other candidate waits until the leader's time is over by its own observation.
    for (edit, why) in [
        ("", "stop: the Lease has no holder any more"),
        ("stranger", "stop: stranger holds the Lease"),
        ("deleted", "stop: the Lease was deleted"),
    ] {
        let mut server = Server::default();
        let (mut a, mut b) = (candidate("a"), candidate("b"));
        act(&mut server, &mut a, clocks.at(0));
        act(&mut server, &mut b, clocks.at(5 * S));
        let last =
            if edit == "deleted" { server.lease.take().unwrap().stored("9", "") } else { with(&server, edit, 15) };
        if edit != "deleted" {
            server.store(last.clone());
        }
        let heard = server.lease.clone().unwrap_or(last);
        a.heard(heard.clone(), edit == "deleted", clocks.at(6 * S).now);
        b.heard(heard, edit == "deleted", clocks.at(6 * S).now);
        assert!(matches!(a.next(clocks.at(6 * S)), Action::Stop(text) if format!("stop: {text}") == why), "{why}");
        assert!(!holds(&a, clocks.at(6 * S)));
        let done = act(&mut server, &mut b, clocks.at(6 * S));
        assert!(done[0].starts_with("wait"), "{done:?}");
        let until = if edit == "stranger" { 21 * S } else { 20 * S };
        let mut at = 6 * S;
        while !holds(&b, clocks.at(at)) {
            at += 100;
            act(&mut server, &mut b, clocks.at(at));
        }
        assert_eq!(at, until, "{edit}");
    }
    // A duration shortened by hand does not shorten the leader's term.
    let mut server = Server::default();
    let (mut a, mut b) = (candidate("a"), candidate("b"));
    act(&mut server, &mut a, clocks.at(0));
    let short = with(&server, "a", 1);
    server.store(short);
    act(&mut server, &mut b, clocks.at(0));
    assert!(matches!(b.next(clocks.at(3 * S)), Action::Wait(_)));
}

#[test]
fn who_creates_the_lease_leads_after_a_leader_whose_lease_was_deleted_must_have_stopped() {
    let (clocks, mut server) = (Clocks::new(), Server::default());
    let mut a = candidate("a");
    assert_eq!(act(&mut server, &mut a, clocks.at(0)), ["read", "lead", "wait 2000"]);
    assert!(!holds(&a, clocks.at(S - 1)));
    assert!(holds(&a, clocks.at(S)));
}

/// Found by the simulation below: a watch reports the deletion of a Lease, or its next holder, before the answer to its
/// creation.
#[test]
fn an_answer_that_a_watch_has_overtaken_begins_no_term() {
    let clocks = Clocks::new();
    for taken in [false, true] {
        let (mut server, mut a) = (Server::default(), candidate("a"));
        a.saw(None, clocks.start);
        let Action::Create(lease) = a.next(clocks.at(0)) else { panic!("a does not create the Lease") };
        let version = server.write(&lease, true).unwrap();
        a.heard(server.lease.clone().unwrap(), false, clocks.at(100).now);
        let last = server.lease.take().unwrap();
        server.version += 1;
        a.heard(last.stored(&server.version.to_string(), ""), true, clocks.at(200).now);
        if taken {
            act(&mut server, &mut candidate("b"), clocks.at(200));
            a.heard(server.lease.clone().unwrap(), false, clocks.at(300).now);
        }
        assert!(!a.wrote(lease, &version, "", clocks.at(0)), "taken: {taken}");
        assert!((0..15).all(|at| !holds(&a, clocks.at(at * S))), "taken: {taken}");
        assert!(matches!(a.next(clocks.at(S)), Action::Wait(_)), "taken: {taken}");
    }
}

#[test]
fn an_answer_that_a_watch_has_overtaken_begins_a_term_if_the_lease_is_still_held() {
    let (clocks, mut server, mut a) = (Clocks::new(), Server::default(), candidate("a"));
    a.saw(None, clocks.start);
    let Action::Create(lease) = a.next(clocks.at(0)) else { panic!("a does not create the Lease") };
    let version = server.write(&lease, true).unwrap();
    // Another client adds a label.
    server.store(server.lease.clone().unwrap());
    a.heard(server.lease.clone().unwrap(), false, clocks.at(100).now);
    assert!(a.wrote(lease, &version, "", clocks.at(0)));
    assert_eq!(act(&mut server, &mut a, clocks.at(2 * S)), ["renew", "wait 2000"]);
}

#[test]
fn a_leader_that_wakes_and_finds_no_lease_waits_for_a_leader_that_it_has_not_seen() {
    let (clocks, mut server) = (Clocks::new(), Server::default());
    let mut a = candidate("a");
    act(&mut server, &mut a, clocks.at(0));
    // Meanwhile another candidate has taken the Lease, and a user has deleted it.
    server.lease = None;
    assert!(matches!(a.next(clocks.at(30 * S)), Action::Stop(_)));
    a.saw(None, clocks.at(30 * S).now);
    assert!(matches!(a.next(clocks.at(45 * S - 1)), Action::Wait(_) | Action::Read));
    a.saw(None, clocks.at(45 * S).now);
    assert!(matches!(a.next(clocks.at(45 * S)), Action::Create(_)));
    // During its term no other candidate can have taken it.
    let (mut server, mut b) = (Server::default(), candidate("b"));
    act(&mut server, &mut b, clocks.at(0));
    b.saw(None, clocks.at(5 * S).now);
    assert!(matches!(b.next(clocks.at(5 * S)), Action::Stop(_)));
    assert!(matches!(b.next(clocks.at(5 * S)), Action::Create(_)));
}

#[test]
fn a_watch_that_lags_behind_own_writes_changes_nothing() {
    let (clocks, mut server) = (Clocks::new(), Server::default());
    let mut a = candidate("a");
    let old = Lease::new("kube-system", "kube-controller-manager").held_by("b", Duration::from_secs(15), clocks.wall);
    server.store(old);
    let old = server.lease.clone().unwrap();
    a.saw(Some(old.clone()), clocks.start);
    act(&mut server, &mut a, clocks.at(15 * S));
    a.heard(old, false, clocks.at(16 * S).now);
    assert_eq!(a.holder(), Some("a"));
    assert_eq!(act(&mut server, &mut a, clocks.at(17 * S)), ["renew", "wait 2000"]);
}

#[test]
fn times_that_allow_two_leaders_are_refused() {
    let s = Duration::from_secs;
    let times = |lease_duration, renew_deadline, retry_period| Times { lease_duration, renew_deadline, retry_period };
    assert_eq!(Times::DEFAULT.check(), Ok(()));
    for (wrong, flag) in [
        (times(s(10), s(10), s(2)), "renew-deadline"),
        (times(s(15), s(2), s(2)), "retry-period"),
        (times(s(15), s(10), s(0)), "retry-period"),
        (times(s(0), s(0), s(0)), "lease-duration"),
        (times(Duration::from_millis(15_500), s(10), s(2)), "lease-duration"),
    ] {
        assert!(wrong.check().unwrap_err().contains(flag), "{wrong:?}");
    }
}

/// A request of a candidate in a simulation.
struct Request {
    action: Action,
    sent: Moment,
    /// Time when the API server executes it.
    carried_out: u64,
    answered: u64,
    /// After execution: the version after a write, if it succeeded.
    result: Option<Option<String>>,
    /// The result of a read.
    read: Option<Lease>,
}

/// A fault in a simulation of several candidates.
#[derive(Clone, Debug)]
enum Fate {
    /// Not scheduled for this many ms.
    Pause(u64),
    /// The API server does not answer the candidate for this many ms.
    Cut(u64),
    /// Its wall clock jumps by this many seconds.
    Jump(i64),
    /// It releases the Lease and becomes a candidate again.
    Release,
    /// It dies; another process takes its place.
    Die,
    /// A user deletes the Lease.
    Delete,
    /// A user removes the holder.
    Clear,
    /// From now on it asks for the Lease (if true), and gives it to the candidate with this index (if any).
    Share(bool, Option<usize>),
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        (1..40_000_u64).prop_map(Fate::Pause),
        (1..40_000_u64).prop_map(Fate::Cut),
        (-7_200..7_200_i64).prop_map(Fate::Jump),
        Just(Fate::Release),
        Just(Fate::Die),
        Just(Fate::Delete),
        Just(Fate::Clear),
        (any::<bool>(), prop::option::of(0..3_usize)).prop_map(|(asks, to)| Fate::Share(asks, to)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Three candidates; watches lag by up to 0.5 s, and requests take up to 0.5 s to be executed and to be answered.
    #[test]
    fn at_no_moment_do_two_lead_and_after_the_faults_one_leads(
        faults in prop::collection::vec((0..180_000_u64, 0..3_usize, fate()), 0..12),
        delays in prop::collection::vec(1..500_u64, 64),
    ) {
        struct Process {
            candidate: Candidate,
            asleep_until: u64,
            cut_until: u64,
            jumped: i64,
            request: Option<Request>,
            /// Frames of the watch with the time of their arrival.
            frames: Vec<(u64, Lease, bool)>,
        }
        let clocks = Clocks::new();
        let mut server = Server::default();
        let (mut n_delays, mut n_born) = (0, 0);
        let mut delay = move || { n_delays += 1; delays[n_delays % delays.len()] };
        let mut born = move || { n_born += 1; candidate(&format!("p{n_born}")) };
        let mut all: Vec<Process> = (0..3).map(|_| Process {
            candidate: born(), asleep_until: 0, cut_until: 0, jumped: 0, request: None, frames: Vec::new(),
        }).collect();
        let mut before = None::<Lease>;
        let mut led = 0;
        for ms in (0..260_000_u64).step_by(20) {
            let names: Vec<String> = all.iter().map(|process| process.candidate.identity().to_owned()).collect();
            for (_, i, fate) in faults.iter().filter(|(at, ..)| at / 20 == ms / 20) {
                let process = &mut all[*i];
                match fate {
                    Fate::Pause(n) => process.asleep_until = ms + n,
                    Fate::Cut(n) => process.cut_until = ms + n,
                    Fate::Jump(n) => process.jumped += n,
                    Fate::Release => if process.request.is_none() {
                        let at = clocks.at(ms);
                        if let Some(lease) = process.candidate.release(at) {
                            server.write(&lease, false);
                        }
                    },
                    // A process that starts while the Lease is deleted or has no holder cannot detect a leader that is
                    // cut off.
                    Fate::Die => if server.lease.as_ref().is_some_and(|lease| !lease.holder().is_empty()) {
                        process.candidate = born();
                        process.candidate.saw(server.lease.clone(), clocks.at(ms).now);
                        process.request = None;
                        process.frames.clear();
                    },
                    Fate::Share(asks, to) => {
                        let gives_to = to.filter(|to| to != i).map(|to| names[to].clone());
                        process.candidate.set_share(Share { hold_back: Duration::from_secs(1), asks: *asks, gives_to });
                    }
                    Fate::Delete => server.lease = None,
                    Fate::Clear => if let Some(lease) = server.lease.clone() {
                        let lease = lease.held_by("", Duration::from_secs(15), clocks.wall);
                        server.store(lease);
                    },
                }
            }
            for process in &mut all {
                // Requests in flight are executed even if their sender is paused.
                if let Some(request) = process.request.as_mut().filter(|request| request.carried_out <= ms && request.result.is_none()) {
                    request.result = Some(match &request.action {
                        Action::Create(lease) => server.write(lease, true),
                        Action::Update(lease) | Action::Ask(lease) => server.write(lease, false),
                        _ => { request.read = server.lease.clone(); None }
                    });
                }
            }
            if server.lease != before {
                let (lease, deleted) = match &server.lease {
                    Some(lease) => (lease.clone(), false),
                    None => (before.clone().unwrap().stored(&(server.version + 1).to_string(), ""), true),
                };
                server.version += u64::from(deleted);
                for process in &mut all {
                    let at = (ms + delay()).max(process.cut_until).max(process.frames.last().map_or(0, |frame| frame.0));
                    process.frames.push((at, lease.clone(), deleted));
                }
                before = server.lease.clone();
            }
            for process in &mut all {
                if process.asleep_until > ms {
                    continue;
                }
                let mut at = clocks.at(ms);
                at.wall += SignedDuration::from_secs(process.jumped);
                let due = process.frames.iter().take_while(|frame| frame.0 <= ms).count();
                for (_, lease, deleted) in process.frames.drain(..due) {
                    process.candidate.heard(lease, deleted, at.now);
                }
                if let Some(request) = process.request.take() {
                    if request.answered > ms || request.result.is_none() {
                        process.request = Some(request);
                        continue;
                    }
                    match (request.action, request.result.flatten()) {
                        (Action::Create(lease) | Action::Update(lease), Some(version)) => {
                            process.candidate.wrote(lease, &version, "", request.sent);
                        }
                        (Action::Ask(lease), Some(version)) => process.candidate.asked(lease, &version, at.now),
                        (Action::Read, _) => process.candidate.saw(request.read, at.now),
                        _ => process.candidate.failed(0.5, at.now),
                    }
                    continue;
                }
                match process.candidate.next(at) {
                    action @ (Action::Read | Action::Create(_) | Action::Update(_) | Action::Ask(_)) => {
                        let carried_out = (ms + delay()).max(process.cut_until);
                        let answered = (carried_out + delay()).max(process.cut_until);
                        process.request = Some(Request { action, sent: at, carried_out, answered, result: None, read: None });
                    }
                    Action::HandOver(to) => {
                        release_for(&mut server, &mut process.candidate, to.as_deref(), at);
                        process.candidate.set_share(Share::default());
                    }
                    Action::Wait(_) | Action::Stop(_) => {}
                }
            }
            let leaders: Vec<_> = all.iter().filter(|process| {
                let mut at = clocks.at(ms);
                at.wall += SignedDuration::from_secs(process.jumped);
                holds(&process.candidate, at)
            }).map(|process| process.candidate.identity().to_owned()).collect();
            prop_assert!(leaders.len() <= 1, "{ms} ms: {leaders:?}");
            led = if leaders.is_empty() { led } else { ms };
        }
        // The last fault can end 40 s after 180 s.
        prop_assert!(led >= 259_000, "nobody leads since {led} ms");
    }
}
