//! Reports of recorded runs; other runs report nothing.

use std::time::SystemTime;

use expect_test::expect;
use futures::future::BoxFuture;
use pintle_core::contract::outcome::{Action, Mutation, Refusal};
use pintle_core::ports::api::{ApiError, ApiWriter, ListPage, WriteRequest, Written};
use pintle_core::ports::trace::{
    MAX_CHILDREN, MAX_READ_KINDS, PartKind, RunTracer, SpanCounts, SpanRef, TracedRequest, TracedRun, TracedWait,
};
use pintle_testing::FakeTracer;

use super::*;

/// A writer that records the span of each request.
struct SpanWriter {
    api: Arc<FakeWriter>,
    span: Option<SpanRef>,
    log: Arc<Mutex<Vec<Option<u64>>>>,
}

impl ApiWriter for SpanWriter {
    fn write<'a>(&'a self, request: &'a WriteRequest) -> BoxFuture<'a, Result<Written, ApiError>> {
        self.log.lock().push(self.span.map(|span| span.span_id));
        self.api.write(request)
    }

    fn traced(&self, span: SpanRef) -> Option<Arc<dyn ApiWriter>> {
        Some(Arc::new(Self { api: self.api.clone(), span: Some(span), log: self.log.clone() }))
    }
}

fn traced(guest: FakeGuest, api: Arc<FakeWriter>, tracer: &Arc<FakeTracer>) -> Fixture {
    Fixture::with_parts(guest, api, FakeServer::answering_needs(), |parts| parts.tracer = Some(tracer.clone()))
}

/// The deletion of a run.
fn deletion(run: &TracedRun) -> TracedRequest {
    let mut deletions = run.parts.iter().filter_map(|part| match &part.what {
        PartKind::Mutation(request) if request.verb == "delete" => Some(request.clone()),
        _ => None,
    });
    deletions.next_back().unwrap_or_else(|| panic!("{run:?}"))
}

#[tokio::test(start_paused = true)]
async fn a_recorded_run_reports_its_parts_and_its_end() {
    let tracer = FakeTracer::sampling(true);
    let guest = FakeGuest::asynchronous(manifest(|_| {}), |_, view| {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            view.get(&pod(), &ObjectKey::new("ns", "a")).unwrap();
            if view.attempt() > 0 {
                return Ok(Ok(Outcome { requeue_after: Some(Duration::from_secs(7200)), ..Outcome::default() }));
            }
            let need = Need::live_object(pod(), ObjectKey::new("ns", "a"));
            if view.answer(&need).is_none() {
                return Ok(Ok(Outcome { needs: vec![need], ..Outcome::default() }));
            }
            let tolerated = Mutation { tolerate: vec![Refusal::Conflict], ..create("exists") };
            let mutations = vec![create("p"), tolerated, create("slow"), create("bad")];
            Ok(Ok(steps(vec![step(Order::Sequential, mutations)])))
        })
    });
    let n_slow = AtomicUsize::new(0);
    let api = FakeWriter::new(move |line, _| match line {
        "create pods ns/exists" => Err(refusal(409)),
        "create pods ns/slow" if n_slow.fetch_add(1, Ordering::Relaxed) < 2 => Err(refusal(429)),
        "create pods ns/bad" => Err(refusal(422)),
        _ => Ok(()),
    });
    let fixture = traced(guest, api, &tracer);
    fixture.start();
    fixture.add(&["a"]);
    fixture.idle(Duration::from_secs(3600)).await;
    expect![[r#"
        widgets 1.0.0 v1/Pod ns/a attempt 0: error Invalid after 0ns in 14.04s, held false; 4 mutations, 1 live reads, 0 omitted; 1 failed, 0 denied, requeue None
          2 at 0ns for 20ms: call fault None [KindReads { kind: "v1/Pod", n_reads: 1, n_objects: 0, n_bytes: 0 }]
          3 at 20ms for 0ns: live read get v1/Pod ns/a None None by Some("GET"): ok None None tolerated false resent 0
          4 at 20ms for 20ms: call fault None [KindReads { kind: "v1/Pod", n_reads: 1, n_objects: 0, n_bytes: 0 }]
          5 at 40ms for 0ns: mutation create v1/Pod ns/p None None by Some("POST"): ok None None tolerated false resent 0
          6 at 40ms for 0ns: mutation create v1/Pod ns/exists None None by Some("POST"): tolerated Some(409) Some("Conflict") tolerated true resent 0
          7 at 40ms for 14s: mutation create v1/Pod ns/slow None None by Some("POST"): ok None None tolerated false resent 2
          8 at 14.04s for 0ns: mutation create v1/Pod ns/bad None None by Some("POST"): invalid Some(422) Some("Invalid") tolerated false resent 0
        widgets 1.0.0 v1/Pod ns/a attempt 1: requeue_after - after 0ns in 20ms, held false; 0 mutations, 0 live reads, 0 omitted; 0 failed, 0 denied, requeue Some(7200s)
          10 at 0ns for 20ms: call fault None [KindReads { kind: "v1/Pod", n_reads: 1, n_objects: 0, n_bytes: 0 }]
    "#]].assert_eq(&tracer.text());
    let runs = tracer.runs.lock();
    let clock: SystemTime = wall_clock()().into();
    assert_eq!((runs[0].begun, &*runs[0].digest), (clock, "digest of 1.0.0"));
    assert!(tracer.waits.lock().is_empty(), "the caches show every write at once");
    assert_eq!(fixture.controller.inner.lock().stale.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn each_failure_of_a_run_has_its_own_type() {
    let tracer = FakeTracer::sampling(true);
    let manifest = manifest(|m| m["grants"] = serde_json::json!([{"verbs": ["create"], "kinds": ["v1/Pod"]}]));
    let (guest, _) = scripted(manifest, |i| match i {
        0 => Err(PluginFault { kind: FaultKind::Trap, message: "secret of a plugin".into() }),
        1 => retry(Some(Duration::from_secs(1))),
        2 => Ok(Ok(steps(vec![step(Order::Parallel, vec![create("conflict"), pintle_testing::delete("p")])]))),
        3 => panic!("secret of a host"),
        4 => Ok(Err(ReconcileError::Terminal("secret of a plugin".into()))),
        _ => done(),
    });
    let fixture = traced(guest, FakeWriter::new(|_, _| Err(refusal(409))), &tracer);
    fixture.run_until_idle(&["a"]).await;
    let runs = tracer.runs.lock();
    let ends: Vec<_> = runs
        .iter()
        .map(|run| (run.attempt, run.end.result, run.end.error.as_deref(), run.end.n_failed, run.end.n_denied))
        .collect();
    assert_eq!(
        ends,
        [
            (0, "fault", Some("trap"), 0, 0),
            (1, "error", Some("retry"), 0, 0),
            (2, "error", Some("NotGranted"), 2, 1),
            (3, "fault", Some("host_call"), 0, 0),
            (4, "terminal_error", Some("terminal"), 0, 0),
        ]
    );
    let PartKind::Call(call) = &runs[0].parts[0].what else { panic!("{:?}", runs[0].parts) };
    assert_eq!(call.fault, Some("trap"));
    let denied = deletion(&runs[2]);
    assert_eq!((denied.verb, denied.method, denied.result, denied.code), ("delete", None, "not_granted", None));
    assert!(!format!("{runs:?}").contains("secret"), "no text of a plugin is recorded");
}

#[tokio::test(start_paused = true)]
async fn the_earliest_delay_that_a_run_asks_for_is_reported() {
    let tracer = FakeTracer::sampling(true);
    let seconds = |n| Some(Duration::from_secs(n));
    let (guest, _) = scripted(manifest(|_| {}), move |i| {
        let (requeue_after, after) = match i {
            0 => (None, seconds(3)),
            1 => (seconds(2), seconds(3)),
            2 => return retry(seconds(4)),
            _ => return done(),
        };
        let error = Some(ReconcileError::Retry { message: "not yet".into(), after });
        Ok(Ok(Outcome { requeue_after, error, ..Outcome::default() }))
    });
    traced(guest, FakeWriter::agreeable(), &tracer).run_until_idle(&["a"]).await;
    let asked: Vec<_> = tracer.runs.lock().iter().take(3).map(|run| run.end.requeue_after).collect();
    assert_eq!(asked, [seconds(3), seconds(2), seconds(4)]);
}

#[tokio::test(start_paused = true)]
async fn each_request_of_a_recorded_run_carries_its_own_span() {
    for samples in [true, false] {
        let tracer = FakeTracer::sampling(samples);
        let (guest, _) = scripted(manifest(|_| {}), |_| creates(&["p", "q"]));
        let (api, log) = (FakeWriter::agreeable(), Arc::default());
        let writer = SpanWriter { api: api.clone(), span: None, log: Arc::clone(&log) };
        let fixture = Fixture::with_parts(guest, api, FakeServer::answering_needs(), |parts| {
            parts.writer.api = Arc::new(writer);
            parts.tracer = Some(tracer.clone());
        });
        fixture.run_until_idle(&["a"]).await;
        // Spans of the run, its call, its mutations.
        let expected = if samples { [Some(3), Some(4)] } else { [None, None] };
        assert_eq!(*log.lock(), expected);
        let runs = tracer.runs.lock();
        let ids: Vec<u64> = runs.iter().flat_map(|run| run.parts.iter().map(|part| part.span_id)).collect();
        assert_eq!(ids, if samples { vec![2, 3, 4] } else { Vec::new() });
        assert_eq!(tracer.n_asked.load(Ordering::Relaxed), 1, "each run is asked about once");
    }
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_the_caches_is_reported_when_it_ends() {
    let tracer = FakeTracer::sampling(true);
    let (guest, _) = scripted(manifest(|_| {}), |i| if i == 0 { creates(&["p"]) } else { done() });
    let fixture = traced(guest, FakeWriter::agreeable(), &tracer);
    fixture.server.state().version = 100;
    fixture.start();
    fixture.add(&["a"]);
    tokio::time::sleep(Duration::from_secs(3)).await;
    let run = tracer.runs.lock()[0].clone();
    assert!(run.end.waits_for_caches && tracer.waits.lock().is_empty());
    fixture.reach(101).await;
    fixture.idle(Duration::from_secs(3600)).await;
    let waits = tracer.waits.lock();
    assert_eq!(waits.len(), 1);
    assert_eq!((waits[0].run, waits[0].begun, waits[0].took), (run.span, run.begun + run.took, Duration::from_secs(3)));
}

#[tokio::test(start_paused = true)]
async fn the_wait_of_a_key_for_a_worker_is_part_of_its_run() {
    let tracer = FakeTracer::sampling(true);
    let manifest = manifest(|m| m["queues"][0]["concurrency"] = 1.into());
    let guest = FakeGuest::asynchronous(manifest, |_, _| {
        Box::pin(async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            done()
        })
    });
    traced(guest, FakeWriter::agreeable(), &tracer).run_until_idle(&["a", "b"]).await;
    let waited: Vec<Duration> = tracer.runs.lock().iter().map(|run| run.waited).collect();
    assert_eq!(waited, [Duration::ZERO, Duration::from_secs(2)]);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_ends_after_the_term_is_reported_as_such() {
    let tracer = FakeTracer::sampling(true);
    let (guest, _) = scripted(manifest(|_| {}), |_| creates(&["p"]));
    let fixture = traced(guest, FakeWriter::agreeable(), &tracer);
    fixture.api.paused.send_replace(true);
    fixture.start();
    fixture.add(&["a"]);
    until("a write", || !fixture.api.log().is_empty()).await;
    let api = fixture.api.clone();
    tokio::join!(fixture.controller.stand_by(), async {
        let _ = api.paused.send_replace(false);
    });
    let runs = tracer.runs.lock();
    assert_eq!((runs.len(), runs[0].end.result, runs[0].n_mutations), (1, "not_leading", 1));
}

/// Creates `n` Pods in parallel.
fn crowd(n: usize) -> GuestResult {
    Ok(Ok(steps(vec![step(Order::Parallel, (0..n).map(|i| create(&format!("p{i}"))).collect())])))
}

#[tokio::test(start_paused = true)]
async fn the_parts_of_a_run_are_bounded_and_the_rest_is_counted() {
    // The call of the guest, the wait in the queue and the wait for the caches are the other three.
    let most = MAX_CHILDREN - 3;
    for (n, n_omitted) in [(most, 0), (most + 1, 1), (500, 500 - most)] {
        let tracer = FakeTracer::sampling(true);
        let (guest, _) = scripted(manifest(|_| {}), move |_| crowd(n));
        traced(guest, FakeWriter::agreeable(), &tracer).run_until_idle(&["a"]).await;
        let runs = tracer.runs.lock();
        let run = &runs[0];
        assert_eq!(
            (run.parts.len(), run.n_omitted, run.n_mutations),
            (MAX_CHILDREN - 2 - usize::from(n < most), n_omitted, n)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_kinds_of_reads_are_bounded_and_the_rest_is_summed_up() {
    let tracer = FakeTracer::sampling(true);
    let guest = FakeGuest::new(manifest(|_| {}), |_, view| {
        for _ in 0..2 {
            for n in 0..MAX_READ_KINDS + 5 {
                // Its manifest watches none of them, but each is still a read.
                let kind = Kind::new("example.org", "v1", &format!("Kind{n}"));
                view.get(&kind, &ObjectKey::new("ns", "a")).unwrap_err();
            }
        }
        done()
    });
    traced(guest, FakeWriter::agreeable(), &tracer).run_until_idle(&["a"]).await;
    let runs = tracer.runs.lock();
    let PartKind::Call(call) = &runs[0].parts[0].what else { panic!("{:?}", runs[0].parts) };
    let last = call.reads.last().unwrap();
    assert_eq!((call.reads.len(), &*last.kind, last.n_reads), (MAX_READ_KINDS + 1, "other", 10));
    assert_eq!((&*call.reads[0].kind, call.reads[0].n_reads), ("example.org/v1/Kind0", 2));
}

#[tokio::test(start_paused = true)]
async fn a_live_read_that_is_denied_or_refused_is_an_error_without_its_message() {
    let tracer = FakeTracer::sampling(true);
    let guest = FakeGuest::new(manifest(|_| {}), |_, view| {
        let path = Need::RawPath("/metrics?token=secret".to_owned());
        let list = Need::live_list(pod(), "ns", 10);
        match view.answer(&path) {
            None => Ok(Ok(Outcome { needs: vec![path, list], ..Outcome::default() })),
            Some(_) => done(),
        }
    });
    let reader = FakeServer::listing(|_| -> Result<ListPage, ApiError> { Err(refusal(403)) });
    let fixture =
        Fixture::with_parts(guest, FakeWriter::agreeable(), reader, |parts| parts.tracer = Some(tracer.clone()));
    fixture.run_until_idle(&["a"]).await;
    let runs = tracer.runs.lock();
    let reads = runs[0].parts.iter().filter_map(|part| match &part.what {
        PartKind::LiveRead(read) => {
            Some((read.verb, read.method, read.path.as_deref(), read.reason.as_deref(), read.code))
        }
        PartKind::Call(_) | PartKind::Mutation(_) => None,
    });
    let denied = ("get", None, Some("/metrics"), Some("NotGranted"), Some(0));
    let refused = ("list", Some("GET"), None, Some("Forbidden"), Some(403));
    assert_eq!(reads.collect::<Vec<_>>(), [denied, refused]);
    assert!(!format!("{runs:?}").contains("secret"));
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_finds_nothing_is_tolerated() {
    let tracer = FakeTracer::sampling(true);
    let (guest, _) = scripted(manifest(|_| {}), |i| {
        if i > 0 {
            return done();
        }
        let collection =
            Action::DeleteCollection { kind: pod(), namespace: "ns".into(), label_selector: None, propagation: None };
        let collection = Mutation { action: collection, on_success: None, on_failure: None, tolerate: Vec::new() };
        Ok(Ok(steps(vec![step(Order::Parallel, vec![pintle_testing::delete("p"), collection])])))
    });
    let fixture = traced(guest, FakeWriter::new(|_, _| Err(refusal(404))), &tracer);
    fixture.run_until_idle(&["a"]).await;
    let runs = tracer.runs.lock();
    let gone = deletion(&runs[0]);
    assert_eq!((gone.result, gone.code, gone.is_tolerated), ("gone", Some(404), true));
}

/// A tracer with a bug.
struct PanickingTracer(Arc<FakeTracer>);

impl RunTracer for PanickingTracer {
    fn sample(&self) -> Option<SpanRef> {
        self.0.sample()
    }

    fn span_id(&self) -> u64 {
        self.0.span_id()
    }

    fn record(&self, _: TracedRun) {
        panic!("boom");
    }

    fn record_wait(&self, wait: TracedWait) {
        self.0.record_wait(wait);
    }

    fn counts(&self) -> SpanCounts {
        self.0.counts()
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_panics_costs_no_key_a_run() {
    let (guest, calls) = scripted(manifest(|m| m["queues"][0]["concurrency"] = 1.into()), |_| done());
    let tracer = Arc::new(PanickingTracer(FakeTracer::sampling(true)));
    let fixture = Fixture::with_parts(guest, FakeWriter::agreeable(), FakeServer::new(), |parts| {
        parts.tracer = Some(tracer);
    });
    fixture.run_until_idle(&["a", "b"]).await;
    assert_eq!(times(&calls), [(0, 0), (0, 0)]);
    assert_eq!(fixture.panics(), [("worker", 2)]);
}
