use std::collections::BTreeSet;

use pintle_core::object::id::{Key, Kind};
use pintle_core::ports::trace::RunEnd;

use super::*;

const MAKER_VERSION: &str = "1.2.3";

pub(crate) fn kind() -> Kind {
    Kind::new("apps", "v1", "Deployment")
}

fn request(verb: &'static str) -> TracedRequest {
    TracedRequest {
        verb,
        method: Some("POST"),
        kind: Some(kind()),
        object: ObjectKey::new("ns", "web"),
        path: None,
        subresource: None,
        code: None,
        result: "ok",
        reason: None,
        is_tolerated: false,
        n_resent: 0,
    }
}

/// A run with these parts, a millisecond each.
pub(crate) fn run(parts: Vec<PartKind>) -> TracedRun {
    let parts = (0..).zip(parts).map(|(i, what)| TracedPart {
        span_id: 10 + i,
        at: Duration::from_millis(i),
        took: Duration::from_millis(1),
        what,
    });
    TracedRun {
        span: SpanRef { trace_id: 1, span_id: 2 },
        plugin: "deployment-controller".into(),
        version: "1.0.0".to_owned(),
        digest: "abc".to_owned(),
        key: Key { queue: "deployment".into(), kind: kind(), object: ObjectKey::new("ns", "web") },
        attempt: 1,
        begun: SystemTime::UNIX_EPOCH + Duration::from_secs(100),
        waited: Duration::from_millis(5),
        took: Duration::from_millis(20),
        end: RunEnd {
            result: "error",
            error: Some("Conflict".to_owned()),
            n_failed: 1,
            n_denied: 0,
            requeue_after: Some(Duration::from_millis(1500)),
            waits_for_caches: true,
        },
        parts: parts.collect(),
        n_omitted: 3,
        n_mutations: 5,
        n_live_reads: 1,
    }
}

/// A run with every attribute.
fn full() -> TracedRun {
    let reads = vec![
        KindReads { kind: "v1/Pod".to_owned(), n_reads: 2, n_objects: 5, n_bytes: 1200 },
        KindReads { kind: "other".to_owned(), n_reads: 1, n_objects: 0, n_bytes: 0 },
    ];
    let conflict = TracedRequest {
        subresource: Some("status".to_owned()),
        code: Some(409),
        result: "conflict",
        reason: Some("Conflict".to_owned()),
        n_resent: 2,
        ..request("update")
    };
    let tolerated = TracedRequest {
        code: Some(404),
        result: "gone",
        reason: Some("NotFound".to_owned()),
        is_tolerated: true,
        ..request("delete")
    };
    let denied = TracedRequest {
        method: None,
        result: "not_granted",
        reason: Some("NotGranted".to_owned()),
        ..request("create")
    };
    let path = TracedRequest {
        kind: None,
        object: ObjectKey::new("", ""),
        path: Some("/metrics".to_owned()),
        code: Some(0),
        result: "error",
        reason: Some("Timeout".to_owned()),
        ..request("get")
    };
    run(vec![
        PartKind::Call(TracedCall {
            fault: Some("trap"),
            host_calls: 7,
            bytes_read: 1300,
            memory_bytes: 65_536,
            reads,
        }),
        PartKind::LiveRead(path),
        PartKind::Mutation(conflict),
        PartKind::Mutation(tolerated),
        PartKind::Mutation(denied),
        PartKind::Mutation(request("create")),
    ])
}

fn spans_of(run: TracedRun) -> Vec<SpanData> {
    let maker = SpanMaker::new(MAKER_VERSION);
    let wait = TracedWait { run: run.span, begun: run.begun + run.took, took: Duration::from_secs(3) };
    let mut spans = maker.run(run, 3);
    spans.push(maker.wait(&wait, 4));
    spans
}

/// `NAME id<parent KIND from+took STATUS attributes`, in milliseconds after the start of the run.
fn text(span: &SpanData) -> String {
    let begun = SystemTime::UNIX_EPOCH + Duration::from_secs(100);
    let from = match span.start_time.duration_since(begun) {
        Ok(after) => format!("+{}", after.as_millis()),
        Err(before) => format!("-{}", before.duration().as_millis()),
    };
    let took = span.end_time.duration_since(span.start_time).unwrap().as_millis();
    let attributes = span.attributes.iter().map(|one| format!("{}={}", one.key, one.value)).collect::<Vec<_>>();
    let status = match &span.status {
        Status::Error { description } => format!("error {description:?}"),
        other => format!("{other:?}"),
    };
    let (id, parent) = (span.span_context.span_id(), span.parent_span_id);
    let ids = format!("{}<{}", u64::from_be_bytes(id.to_bytes()), u64::from_be_bytes(parent.to_bytes()));
    format!("{} {ids} {:?} {from} {took} ms {status} {}", span.name, span.span_kind, attributes.join(" "))
}

#[test]
fn a_run_becomes_a_span_with_one_below_it_for_each_part() {
    let lines: Vec<String> = spans_of(full()).iter().map(text).collect();
    let expected = [
        "queue.wait 3<2 Internal -5 5 ms Unset pintle.queue=deployment",
        "guest.reconcile 10<2 Internal +0 1 ms error \"trap\" pintle.call.host_calls=7 pintle.call.read_bytes=1300 \
         pintle.call.memory_bytes=65536 \
         pintle.call.reads=[\"v1/Pod: 2 reads, 5 objects, 1200 bytes\",\"other: 1 reads, 0 objects, 0 bytes\"] error.type=trap",
        "get 11<2 Client +1 1 ms error \"Timeout\" pintle.request.verb=get http.request.method=POST url.path=/metrics \
         pintle.request.result=error error.type=Timeout",
        "update apps/v1/Deployment/status 12<2 Client +2 1 ms error \"Conflict\" pintle.request.verb=update \
         http.request.method=POST pintle.object.kind=apps/v1/Deployment pintle.object.namespace=ns pintle.object.name=web \
         pintle.object.subresource=status pintle.request.result=conflict http.request.resend_count=2 \
         http.response.status_code=409 error.type=Conflict",
        "delete apps/v1/Deployment 13<2 Client +3 1 ms Unset pintle.request.verb=delete http.request.method=POST \
         pintle.object.kind=apps/v1/Deployment pintle.object.namespace=ns pintle.object.name=web pintle.request.result=gone \
         http.response.status_code=404 error.type=NotFound pintle.request.tolerated=true",
        "create 14<2 Internal +4 1 ms error \"NotGranted\" pintle.request.verb=create pintle.object.kind=apps/v1/Deployment \
         pintle.object.namespace=ns pintle.object.name=web pintle.request.result=not_granted error.type=NotGranted",
        "create apps/v1/Deployment 15<2 Client +5 1 ms Unset pintle.request.verb=create http.request.method=POST \
         pintle.object.kind=apps/v1/Deployment pintle.object.namespace=ns pintle.object.name=web pintle.request.result=ok",
        "reconcile deployment-controller 2<0 Internal +0 20 ms error \"Conflict\" pintle.plugin.name=deployment-controller \
         pintle.plugin.version=1.0.0 pintle.plugin.digest=abc pintle.queue=deployment pintle.key.kind=apps/v1/Deployment \
         pintle.key.namespace=ns pintle.key.name=web pintle.run.attempt=1 pintle.run.result=error pintle.run.calls=1 \
         pintle.run.reads=3 pintle.run.read_objects=5 pintle.run.read_bytes=1200 pintle.run.live_reads=1 \
         pintle.run.mutations=5 pintle.run.failed_mutations=1 pintle.run.denied_mutations=0 \
         pintle.run.waits_for_caches=true pintle.run.omitted_spans=3 pintle.run.requeue_after=1.5 error.type=Conflict",
        "cache.wait 4<2 Internal +20 3000 ms Unset ",
    ];
    for (line, expected) in lines.iter().zip(expected) {
        assert_eq!(line, expected);
    }
    assert_eq!(lines.len(), expected.len());
    assert_eq!(lines.len() - 1, n_spans(&full()), "the wait for the caches is separate");
    for span in spans_of(full()) {
        assert_eq!(span.span_context.trace_id(), TraceId::from(1));
        assert!(span.span_context.is_sampled());
        assert_eq!(span.instrumentation_scope.version(), Some(MAKER_VERSION));
    }
}

#[test]
fn a_run_without_failures_has_no_error() {
    let end = RunEnd { result: "success", error: None, requeue_after: None, ..full().end };
    let ended = TracedRun { end, digest: String::new(), ..run(Vec::new()) };
    let cluster_scoped = Key { object: ObjectKey::new("", "node"), ..ended.key.clone() };
    let spans = spans_of(TracedRun { key: cluster_scoped, ..ended });
    let root = text(&spans[1]);
    assert!(root.contains(" Unset ") && root.contains("pintle.run.result=success"), "{root}");
    for absent in ["error.type", "requeue_after", "key.namespace", "digest"] {
        assert!(!root.contains(absent), "{absent}: {root}");
    }
}

#[test]
fn spans_have_the_attributes_of_the_reference_and_no_others() {
    let mut seen: Vec<BTreeSet<String>> = vec![BTreeSet::new(); SPANS.len()];
    for span in spans_of(full()) {
        let place = match &*span.name {
            QUEUE_WAIT => 1,
            CALL => 2,
            CACHE_WAIT => 4,
            name if name.starts_with(RUN) => 0,
            _ => 3,
        };
        let names: BTreeSet<String> = span.attributes.iter().map(|one| one.key.to_string()).collect();
        assert_eq!(names.len(), span.attributes.len(), "{} has an attribute twice", span.name);
        seen[place].extend(names);
    }
    for (def, seen) in SPANS.iter().zip(seen) {
        let documented: BTreeSet<String> = def.attributes.iter().map(|attribute| attribute.name.to_owned()).collect();
        assert_eq!(seen, documented, "{}", def.name);
    }
}

#[test]
fn names_that_anybody_may_choose_are_bounded_and_in_one_line() {
    let hostile = format!("a\n\u{1b}[2J\u{202e}{}", "x".repeat(100_000));
    let object = ObjectKey::new(&hostile, &hostile);
    let bad = TracedRequest {
        kind: Some(Kind::new(&hostile, &hostile, &hostile)),
        object: object.clone(),
        path: Some(hostile.clone()),
        subresource: Some(hostile.clone()),
        reason: Some(hostile.clone()),
        ..request("create")
    };
    let unsent = TracedRequest { method: None, ..bad.clone() };
    let reads = vec![KindReads { kind: hostile.clone(), ..KindReads::default() }];
    let call = TracedCall { reads, ..TracedCall::default() };
    let mut hostile_run = run(vec![PartKind::Call(call), PartKind::Mutation(bad), PartKind::Mutation(unsent)]);
    hostile_run.key = Key { queue: hostile.as_str().into(), kind: Kind::new(&hostile, "v1", "A"), object };
    (hostile_run.plugin, hostile_run.version) = (hostile.as_str().into(), hostile.clone());
    hostile_run.end.error = Some(hostile.clone());
    for span in spans_of(hostile_run) {
        let status = match &span.status {
            Status::Error { description } => description.to_string(),
            _ => String::new(),
        };
        let values = span.attributes.iter().map(|one| one.value.to_string());
        for text in values.chain([span.name.to_string(), status]) {
            // Escapes are longer than the characters they replace.
            assert!(text.len() < 2 * MAX_TEXT_BYTES, "{}: {} bytes", span.name, text.len());
            assert!(!text.contains(['\n', '\u{1b}', '\u{202e}']), "{text:?}");
        }
    }
}
