mod adoption;
mod rights;
mod shared;
mod special;

use std::sync::Arc;

use pintle_core::contract::manifest::{Grant, Manifest};
use pintle_core::contract::outcome::Mutation;
use pintle_core::object::Object;
use pintle_core::object::id::Key;
use pintle_core::policy::grants::Grants;
use pintle_testing::{
    FakeView, FakeWriter, create, delete, event, key, manifest, pod, refusal, resource, step, wall_clock,
};
use serde_json::json;

use super::*;
use crate::metrics::Metrics;
use crate::recorder::RecorderConfig;
use pintle_core::policy::held::Account;

struct Fixture {
    api: Arc<FakeWriter>,
    events: Arc<FakeWriter>,
    writer: Writer,
    grants: Grants,
    metrics: Arc<Metrics>,
    recorder: tokio::task::JoinHandle<()>,
    manifest: Arc<Manifest>,
    key: Key,
    /// The objects in the caches.
    shown: Vec<(Kind, Arc<Object>)>,
}

impl Fixture {
    fn new(api: Arc<FakeWriter>) -> Self {
        let asked =
            json!([{"verbs": ["create", "patch", "delete", "deletecollection"], "kinds": ["v1/Pod", "v1/Unknown"]}]);
        Self::granted(api, asked)
    }

    fn granted(api: Arc<FakeWriter>, asked: serde_json::Value) -> Self {
        let metrics = Metrics::new();
        let events = FakeWriter::agreeable();
        let config = RecorderConfig {
            component: "widgets".into(),
            clock: wall_clock(),
            seed: 0,
            idle_signal: Arc::default(),
            account: Account::new(1 << 20),
        };
        let (sender, recorder) = Recorder::start(events.clone(), config, metrics.events("widgets"));
        let asked: Vec<Grant> = serde_json::from_value(asked).unwrap();
        let writer = Writer {
            name: "widgets".into(),
            api: api.clone(),
            recorder: sender,
            metrics: metrics.plugin("widgets"),
            stopped: CancellationToken::new(),
        };
        let grants = Grants::new(&asked, None);
        Self {
            api,
            events,
            writer,
            grants,
            metrics,
            recorder,
            manifest: manifest(|manifest| manifest["watches"][0]["whole"] = true.into()),
            key: key("key"),
            shown: Vec::new(),
        }
    }

    fn plan(&self, steps: Vec<Step>) -> Result<Plan, PluginFault> {
        let view = FakeView::showing(self.shown.clone());
        let rights = Rights { grants: &self.grants, manifest: &self.manifest, key: &self.key, view: &view };
        self.writer.plan(&rights, steps, |kind| (&*kind.name != "Unknown").then(|| resource(kind)))
    }

    async fn carry_out(&self, steps: Vec<Step>) -> Report {
        self.writer.carry_out(self.plan(steps).unwrap(), None).await
    }

    /// The messages of all recorded events.
    async fn events(self) -> Vec<String> {
        drop(self.writer);
        self.recorder.await.unwrap();
        self.events.bodies().iter().map(|body| body["message"].as_str().unwrap().to_owned()).collect()
    }
}

/// Rejects requests that contain one of these names.
fn refusing(names: &'static [&'static str], code: u16) -> Arc<FakeWriter> {
    FakeWriter::new(move |line, _| {
        if names.iter().any(|name| line.ends_with(&format!("/{name}"))) { Err(refusal(code)) } else { Ok(()) }
    })
}

fn places(report: &Report) -> Vec<(u32, u32)> {
    report.failures.iter().map(|failure| (failure.step, failure.position)).collect()
}

fn pods(n: usize) -> Vec<Mutation> {
    (0..n).map(|i| create(&format!("p{i}"))).collect()
}

#[tokio::test(start_paused = true)]
async fn a_sequential_step_stops_at_its_first_failure() {
    let fixture = Fixture::new(refusing(&["p1"], 409));
    let report = fixture.carry_out(vec![step(Order::Sequential, pods(3)), step(Order::Sequential, pods(1))]).await;
    assert_eq!(fixture.api.log(), ["create pods ns/p0", "create pods ns/p1"]);
    assert_eq!(places(&report), [(0, 1)]);
    assert!(report.only_conflicts);
    assert_eq!(report.writes.len(), 1);
    let failure = &report.failures[0];
    assert_eq!((failure.verb, failure.code, failure.reason.as_str()), ("create", 409, "Conflict"));
}

#[tokio::test(start_paused = true)]
async fn a_parallel_step_tries_everything() {
    let fixture = Fixture::new(refusing(&["p3", "p1"], 500));
    let report = fixture.carry_out(vec![step(Order::Parallel, pods(5))]).await;
    assert_eq!(fixture.api.log().len(), 5);
    assert_eq!(places(&report), [(0, 1), (0, 3)]);
    assert!(!report.only_conflicts);
}

#[tokio::test(start_paused = true)]
async fn concurrent_writes_are_bounded() {
    let fixture = Fixture::new(FakeWriter::agreeable());
    let report = fixture.carry_out(vec![step(Order::Parallel, pods(300))]).await;
    assert_eq!(report.writes.len(), 300);
    assert_eq!(fixture.api.n_open.lock().1, MAX_PARALLEL);
}

#[tokio::test(start_paused = true)]
async fn slow_start_ends_with_the_first_batch_that_fails() {
    let fixture = Fixture::new(refusing(&["p4"], 403));
    let report = fixture.carry_out(vec![step(Order::SlowStart, pods(20))]).await;
    // 1 + 2 + 4; the third batch is the last.
    assert_eq!(fixture.api.log().len(), 7);
    assert_eq!(places(&report), [(0, 4)]);
    let all = Fixture::new(FakeWriter::agreeable());
    assert_eq!(all.carry_out(vec![step(Order::SlowStart, pods(20))]).await.writes.len(), 20);
}

#[tokio::test(start_paused = true)]
async fn a_long_slow_start_flows_and_stops_at_its_first_failure() {
    let all = Fixture::new(FakeWriter::agreeable());
    assert_eq!(all.carry_out(vec![step(Order::SlowStart, pods(500))]).await.writes.len(), 500);
    assert_eq!(all.api.n_open.lock().1, MAX_PARALLEL);

    let fixture = Fixture::new(refusing(&["p100"], 403));
    let report = fixture.carry_out(vec![step(Order::SlowStart, pods(500))]).await;
    assert_eq!(places(&report), [(0, 100)]);
    let n_tried = fixture.api.log().len();
    assert_eq!(report.writes.len(), n_tried - 1);
    // Writes in flight at the failure are completed, but no further ones are sent.
    assert!((101..=100 + MAX_PARALLEL).contains(&n_tried), "{n_tried} were tried");
}

#[tokio::test(start_paused = true)]
async fn a_step_that_is_always_carried_out_follows_a_failure() {
    let fixture = Fixture::new(refusing(&["p0"], 403));
    let mut status = step(Order::Sequential, vec![delete("s")]);
    status.always = true;
    let report =
        fixture.carry_out(vec![step(Order::Sequential, pods(1)), step(Order::Sequential, pods(2)), status]).await;
    assert_eq!(fixture.api.log(), ["create pods ns/p0", "delete pods ns/s"]);
    assert_eq!(places(&report), [(0, 0)]);
}

#[tokio::test(start_paused = true)]
async fn ungranted_mutations_are_not_sent() {
    let fixture = Fixture::new(FakeWriter::agreeable());
    let mut other = create("x");
    if let Action::Create { kind, .. } = &mut other.action {
        *kind = Kind::new("", "v1", "Secret");
    }
    let report = fixture.carry_out(vec![step(Order::Parallel, vec![other, create("a")])]).await;
    assert_eq!(fixture.api.log(), ["create pods ns/a"]);
    assert_eq!((report.n_denied, report.failures[0].reason.as_str(), report.failures[0].code), (1, "NotGranted", 0));
    let text = fixture.metrics.text();
    assert!(text.contains("pintle_plugin_faults_total{plugin=\"widgets\",kind=\"grant\"} 1"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_the_server_lacks_fails_as_not_found() {
    let fixture = Fixture::new(FakeWriter::agreeable());
    let collection = |tolerate| Mutation {
        action: Action::DeleteCollection {
            kind: Kind::new("", "v1", "Unknown"),
            namespace: "ns".into(),
            label_selector: None,
            propagation: None,
        },
        on_success: None,
        on_failure: None,
        tolerate,
    };
    let report = fixture.carry_out(vec![step(Order::Sequential, vec![collection(Vec::new())])]).await;
    assert_eq!((report.failures[0].code, report.failures[0].verb), (404, "delete-collection"));
    let report = fixture.carry_out(vec![step(Order::Sequential, vec![collection(vec![Refusal::NotFound])])]).await;
    assert!(report.failures.is_empty());
    assert!(fixture.api.log().is_empty());
}

#[tokio::test(start_paused = true)]
async fn tolerated_failures_do_not_stop_a_step() {
    let fixture = Fixture::new(refusing(&["p0"], 409));
    let mut mutations = pods(2);
    mutations[0].tolerate = vec![Refusal::Conflict];
    mutations[0].on_failure = Some(event("never"));
    let report = fixture.carry_out(vec![step(Order::Sequential, mutations)]).await;
    assert!(report.failures.is_empty() && !report.only_conflicts);
    assert_eq!(fixture.api.log().len(), 2);
    assert!(fixture.events().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_terminating_namespace_differs_from_other_causes_of_forbidden() {
    let fixture = Fixture::new(FakeWriter::new(|line, _| {
        let causes = if line.ends_with("/p0") { vec!["NamespaceTerminating".to_owned()] } else { Vec::new() };
        Err(ApiError { causes, ..refusal(403) })
    }));
    let mut mutations = pods(2);
    mutations.iter_mut().for_each(|mutation| mutation.tolerate = vec![Refusal::NamespaceTerminating]);
    let report = fixture.carry_out(vec![step(Order::Parallel, mutations)]).await;
    assert_eq!(report.failures.iter().map(|failure| &*failure.object.name).collect::<Vec<_>>(), ["p1"]);
}

#[tokio::test(start_paused = true)]
async fn no_event_reports_a_refusal_because_the_namespace_terminates() {
    let fixture = Fixture::new(FakeWriter::new(|line, _| {
        let causes = if line.ends_with("/p0") { vec!["NamespaceTerminating".to_owned()] } else { Vec::new() };
        Err(ApiError { causes, ..refusal(403) })
    }));
    let mut mutations = pods(2);
    for (mutation, name) in mutations.iter_mut().zip(["p0", "p1"]) {
        mutation.on_failure = Some(event(name));
    }
    let report = fixture.carry_out(vec![step(Order::Parallel, mutations)]).await;
    assert_eq!(report.failures.len(), 2);
    assert_eq!(fixture.events().await, ["p1"]);
}

#[tokio::test(start_paused = true)]
async fn deleting_a_missing_object_succeeds_without_an_event() {
    let fixture = Fixture::new(refusing(&["a"], 404));
    let mut mutation = delete("a");
    mutation.on_success = Some(event("Deleted pod: {name}"));
    let report = fixture.carry_out(vec![step(Order::Sequential, vec![mutation])]).await;
    assert!(report.failures.is_empty());
    assert_eq!(report.writes[0].leaves, Leaves::Terminating);
    assert!(fixture.events().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn results_are_filled_into_events_once() {
    let fixture = Fixture::new(refusing(&["p1"], 403));
    let mut mutations = pods(2);
    for mutation in &mut mutations {
        mutation.on_success = Some(event("Created pod: {name} {error}{name"));
        mutation.on_failure = Some(event("Error creating: {error}"));
    }
    mutations.push(Mutation {
        action: Action::Event(event("alone")),
        on_success: None,
        on_failure: None,
        tolerate: Vec::new(),
    });
    fixture.carry_out(vec![step(Order::Parallel, mutations)]).await;
    let mut events = fixture.events().await;
    events.sort();
    assert_eq!(events, ["Created pod: p0 {name", "Error creating: the server says 403", "alone"]);
    assert_eq!(fill_in("{name}", "{error}", "x"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn the_servers_retry_after_is_reported() {
    let fixture = Fixture::new(refusing(&["p0"], 429));
    let report = fixture.carry_out(vec![step(Order::Parallel, pods(2))]).await;
    assert_eq!(report.retry_after, Some(Duration::from_secs(7)));
}

#[tokio::test(start_paused = true)]
async fn a_malformed_mutation_is_a_fault_and_nothing_is_sent() {
    let fixture = Fixture::new(FakeWriter::agreeable());
    let mut broken = create("b");
    if let Action::Create { object, .. } = &mut broken.action {
        object.push('}');
    }
    let fault = fixture.plan(vec![step(Order::Parallel, vec![create("a"), broken])]);
    let fault = fault.err().unwrap();
    assert_eq!(fault.kind, FaultKind::Output);
    assert!(fault.message.starts_with("steps[0].mutations[1]: object: trailing characters"), "{fault}");
    assert!(fixture.api.log().is_empty());
}

#[tokio::test(start_paused = true)]
async fn pending_writes_name_what_the_caches_must_show() {
    let fixture = Fixture::new(FakeWriter::agreeable());
    let report = fixture.carry_out(vec![step(Order::Sequential, vec![create("a"), delete("b")])]).await;
    let shown: Vec<_> = report
        .writes
        .iter()
        .map(|write| (write.object.to_string(), write.resource_version.as_str(), write.leaves))
        .collect();
    assert_eq!(shown, [("ns/a".to_owned(), "101", Leaves::Object), ("ns/b".to_owned(), "102", Leaves::Terminating)]);
    assert!(report.writes.iter().all(|write| write.kind == pod()));
}

#[test]
fn a_change_that_removes_its_object_is_pending_without_a_version() {
    let target = WriteTarget { verb: "patch", kind: pod(), object: ObjectKey::new("ns", "a"), subresource: None };
    let written = Written { resource_version: "7".into(), uid: "u".into(), ..Written::default() };
    let shown = |written: &Written| {
        let write = pending(&target, written).unwrap();
        (write.object.to_string(), write.uid, write.resource_version, write.leaves)
    };
    assert_eq!(shown(&written), ("ns/a".to_owned(), "u".to_owned(), "7".to_owned(), Leaves::Object));
    let removed = Written { removed: true, resource_version: String::new(), ..written };
    assert_eq!(shown(&removed), ("ns/a".to_owned(), "u".to_owned(), String::new(), Leaves::Nothing));
}
