//! Terms that end on request: hosts that share groups of plugins, and coordinated elections.

use serde_json::json;

use super::*;

fn share(asks: bool, gives_to: Option<&str>) -> Share {
    Share { asks, gives_to: gives_to.map(str::to_owned), ..Share::default() }
}

fn annotation(server: &Server, name: &str) -> Option<String> {
    server.lease.as_ref().unwrap().annotation(name).map(str::to_owned)
}

/// A server whose Lease the first candidate holds.
fn led_by(a: &mut Candidate, clocks: &Clocks) -> Server {
    let mut server = Server::default();
    server.store(Lease::new("kube-system", "kube-controller-manager"));
    assert_eq!(act(&mut server, a, clocks.at(0)), ["read", "lead", "wait 2000"]);
    server
}

#[test]
fn a_holder_that_is_asked_hands_the_lease_over_to_who_asked_and_to_nobody_else() {
    let clocks = Clocks::new();
    let (mut a, mut b, mut c) = (candidate("a"), candidate("b"), candidate("c"));
    let mut server = led_by(&mut a, &clocks);
    b.set_share(share(true, None));
    assert_eq!(act(&mut server, &mut b, clocks.at(100)), ["read", "ask", "wait 4000"]);
    assert_eq!(annotation(&server, WANTED_BY).as_deref(), Some("b"));
    assert!(holds(&a, clocks.at(200)), "a question ends no term");

    a.saw(server.lease.clone(), clocks.at(200).now);
    a.set_share(share(false, Some("b")));
    let done = act(&mut server, &mut c, clocks.at(200));
    assert_eq!(done, ["read", "wait 4000"]);
    // It waits for the next renewal first; in the shell, a change of the Lease ends this wait early.
    assert_eq!(act(&mut server, &mut a, clocks.at(2 * S)), ["hand over to b", "wait 4000"]);
    assert!(!holds(&a, clocks.at(2 * S)));
    assert_eq!((annotation(&server, RESERVED_FOR).as_deref(), annotation(&server, WANTED_BY)), (Some("b"), None));
    c.saw(server.lease.clone(), clocks.at(2 * S).now);
    assert_eq!(act(&mut server, &mut c, clocks.at(2 * S)), ["wait 4000"]);
    b.saw(server.lease.clone(), clocks.at(2 * S).now);
    assert_eq!(act(&mut server, &mut b, clocks.at(2 * S)), ["lead", "wait 2000"]);
    assert_eq!(annotation(&server, RESERVED_FOR), None);
}

#[test]
fn a_lease_that_is_kept_for_a_host_that_is_gone_is_taken_by_another_one() {
    let clocks = Clocks::new();
    let (mut a, mut c) = (candidate("a"), candidate("c"));
    let mut server = led_by(&mut a, &clocks);
    release_for(&mut server, &mut a, Some("gone"), clocks.at(S));
    assert_eq!(act(&mut server, &mut c, clocks.at(S)), ["read", "wait 4000"]);
    assert_eq!(act(&mut server, &mut c, clocks.at(5 * S)), ["lead", "wait 2000"]);
}

#[test]
fn a_host_that_is_not_heard_asks_once_in_each_lease_duration() {
    let clocks = Clocks::new();
    let (mut a, mut b) = (candidate("a"), candidate("b"));
    let mut server = led_by(&mut a, &clocks);
    b.set_share(share(true, None));
    let mut n_asked = 0;
    for at in (0..44 * S).step_by(100) {
        a.saw(server.lease.clone(), clocks.at(at).now);
        act(&mut server, &mut a, clocks.at(at));
        n_asked += act(&mut server, &mut b, clocks.at(at)).iter().filter(|done| *done == "ask").count();
    }
    assert_eq!(n_asked, 3);
}

#[test]
fn an_answer_to_a_question_that_a_watch_has_overtaken_changes_nothing() {
    let clocks = Clocks::new();
    let (mut a, mut b) = (candidate("a"), candidate("b"));
    let mut server = led_by(&mut a, &clocks);
    b.set_share(share(true, None));
    b.saw(server.lease.clone(), clocks.at(100).now);
    let Action::Ask(lease) = b.next(clocks.at(100)) else { panic!("b does not ask for the Lease") };
    let version = server.write(&lease, false).unwrap();
    a.saw(server.lease.clone(), clocks.at(200).now);
    server.write(&a.release(clocks.at(200)).unwrap(), false).unwrap();
    b.heard(server.lease.clone().unwrap(), false, clocks.at(300).now);
    b.asked(lease, &version, clocks.at(400).now);
    assert_eq!(b.holder(), Some(""));
    assert_eq!(act(&mut server, &mut b, clocks.at(400)), ["lead", "wait 2000"]);
}

#[test]
fn a_free_lease_is_left_to_others_for_the_time_that_the_share_says() {
    let clocks = Clocks::new();
    let (mut a, mut b) = (candidate("a"), candidate("b"));
    let mut server = led_by(&mut a, &clocks);
    b.set_share(Share { hold_back: Duration::from_secs(1), ..Share::default() });
    act(&mut server, &mut b, clocks.at(0));
    // The Lease was released, and has expired.
    let mut released = Server::default();
    released.store(server.lease.clone().unwrap());
    let mut c = candidate("c");
    c.set_share(Share { hold_back: Duration::from_secs(1), ..Share::default() });
    let mut holder = candidate("a");
    holder.saw(released.lease.clone(), clocks.start);
    release_for(&mut released, &mut holder, None, clocks.at(S));
    assert_eq!(act(&mut released, &mut c, clocks.at(S)), ["read", "wait 1000"]);
    assert_eq!(act(&mut released, &mut c, clocks.at(2 * S)), ["lead", "wait 2000"]);
    b.saw(server.lease.clone(), clocks.at(15 * S).now);
    assert_eq!(act(&mut server, &mut b, clocks.at(15 * S)), ["wait 1000"]);
    assert_eq!(act(&mut server, &mut b, clocks.at(16 * S)), ["lead", "wait 2000"]);
}

/// Writes fields of the Lease, like the API server's controller for coordinated elections.
fn elect(server: &mut Server, spec: &serde_json::Value) {
    let mut lease: serde_json::Value = serde_json::from_str(&server.lease.as_ref().unwrap().text()).unwrap();
    for (field, value) in spec.as_object().unwrap() {
        lease["spec"][field] = value.clone();
    }
    server.store(Lease::parse(&lease.to_string()).unwrap());
}

#[test]
fn a_coordinated_candidate_leads_only_when_it_is_elected_and_ends_when_another_one_is_preferred() {
    let (clocks, mut server) = (Clocks::new(), Server::default());
    let (mut a, mut b) = (candidate("a").coordinated(), candidate("b").coordinated());
    assert_eq!(act(&mut server, &mut a, clocks.at(0)), ["read", "wait 4000"], "it creates none");
    server.store(Lease::new("kube-system", "kube-controller-manager"));
    a.saw(server.lease.clone(), clocks.at(S).now);
    assert_eq!(act(&mut server, &mut a, clocks.at(S)), ["wait 4000"], "nor takes a free one");

    elect(
        &mut server,
        &json!({"holderIdentity": "a", "leaseDurationSeconds": 15, "strategy": "OldestEmulationVersion"}),
    );
    for candidate in [&mut a, &mut b] {
        candidate.saw(server.lease.clone(), clocks.at(2 * S).now);
    }
    assert_eq!(act(&mut server, &mut b, clocks.at(2 * S)), ["wait 4000"]);
    assert_eq!(act(&mut server, &mut a, clocks.at(2 * S)), ["lead", "wait 2000"]);
    assert!(server.lease.as_ref().unwrap().text().contains("OldestEmulationVersion"));

    elect(&mut server, &json!({"preferredHolder": "b"}));
    a.saw(server.lease.clone(), clocks.at(4 * S).now);
    assert_eq!(act(&mut server, &mut a, clocks.at(4 * S)), ["hand over to ", "wait 4000"]);
    elect(&mut server, &json!({"holderIdentity": "b", "leaseDurationSeconds": 15, "preferredHolder": null}));
    for candidate in [&mut a, &mut b] {
        candidate.saw(server.lease.clone(), clocks.at(5 * S).now);
    }
    assert_eq!(act(&mut server, &mut b, clocks.at(5 * S)), ["lead", "wait 2000"]);
    assert_eq!(act(&mut server, &mut a, clocks.at(60 * S)), ["read", "wait 4000"], "nor an expired one");
}

#[test]
fn an_election_that_was_seen_too_late_is_void() {
    let (clocks, mut server) = (Clocks::new(), Server::default());
    let mut a = candidate("a").coordinated();
    server.store(Lease::new("kube-system", "kube-controller-manager"));
    elect(&mut server, &json!({"holderIdentity": "a", "leaseDurationSeconds": 15}));
    a.saw(server.lease.clone(), clocks.start);
    assert!(matches!(a.next(clocks.at(15 * S - 1)), Action::Read | Action::Update(_)));
    a.saw(server.lease.clone(), clocks.at(15 * S).now);
    assert!(matches!(a.next(clocks.at(15 * S)), Action::Wait(_)));
}
