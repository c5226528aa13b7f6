//! Converts a recorded run to spans.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{Array, InstrumentationScope, KeyValue, StringValue, Value};
use opentelemetry_sdk::trace::SpanData;
use pintle_core::object::id::ObjectKey;
use pintle_core::ports::trace::{
    KindReads, PartKind, SpanRef, TracedCall, TracedPart, TracedRequest, TracedRun, TracedWait,
};
use pintle_core::text::printable;

use crate::reference::*;

/// Longest attribute value, in bytes before escaping: the longest name of an object has 253.
const MAX_TEXT_BYTES: usize = 256;

/// Creates spans with this library's name and version.
#[derive(Clone, Debug)]
pub(crate) struct SpanMaker {
    scope: InstrumentationScope,
}

/// The variable parts of a span.
struct Span {
    id: SpanRef,
    parent: Option<SpanRef>,
    name: Cow<'static, str>,
    kind: SpanKind,
    from: SystemTime,
    took: Duration,
    attributes: Attributes,
    status: Status,
}

/// Attributes of a span; values are bounded and printable.
#[derive(Default)]
struct Attributes(Vec<KeyValue>);

impl Attributes {
    fn put(mut self, attribute: Attribute, value: impl Into<Value>) -> Self {
        self.0.push(KeyValue::new(attribute.name, value));
        self
    }

    fn text(self, attribute: Attribute, text: &str) -> Self {
        self.put(attribute, bounded(text))
    }

    /// Skipped if the text is empty.
    fn name(self, attribute: Attribute, text: &str) -> Self {
        if text.is_empty() { self } else { self.text(attribute, text) }
    }

    fn number(self, attribute: Attribute, number: u64) -> Self {
        self.put(attribute, i64::try_from(number).unwrap_or(i64::MAX))
    }

    fn object(self, kind: Attribute, of_kind: &str, [namespace, name]: [Attribute; 2], object: &ObjectKey) -> Self {
        self.name(kind, of_kind).name(namespace, &object.namespace).name(name, &object.name)
    }
}

fn bounded(text: &str) -> String {
    printable(text, MAX_TEXT_BYTES)
}

/// The status of a span that failed for this reason.
fn error(reason: &str) -> Status {
    Status::error(bounded(reason))
}

/// Number of spans of a run.
pub(crate) fn n_spans(run: &TracedRun) -> usize {
    // The run and its wait in the queue.
    2 + run.parts.len()
}

impl SpanMaker {
    pub(crate) fn new(version: &'static str) -> Self {
        Self { scope: InstrumentationScope::builder("pintle").with_version(version).build() }
    }

    /// The spans of a run, its own one last. `wait_id` is the id of the wait in the queue.
    pub(crate) fn run(&self, run: TracedRun, wait_id: u64) -> Vec<SpanData> {
        let mut spans = Vec::with_capacity(n_spans(&run));
        spans.push(self.span(Span {
            id: run.span.with_span(wait_id),
            parent: Some(run.span),
            name: QUEUE_WAIT.into(),
            kind: SpanKind::Internal,
            from: before(run.begun, run.waited),
            took: run.waited,
            attributes: Attributes::default().text(QUEUE, &run.key.queue),
            status: Status::Unset,
        }));
        let root = self.root(&run);
        spans.extend(run.parts.into_iter().map(|part| self.part(run.span, run.begun, part)));
        spans.push(root);
        spans
    }

    /// A key's wait for the caches.
    pub(crate) fn wait(&self, wait: &TracedWait, id: u64) -> SpanData {
        self.span(Span {
            id: wait.run.with_span(id),
            parent: Some(wait.run),
            name: CACHE_WAIT.into(),
            kind: SpanKind::Internal,
            from: wait.begun,
            took: wait.took,
            attributes: Attributes::default(),
            status: Status::Unset,
        })
    }

    fn root(&self, run: &TracedRun) -> SpanData {
        let calls = || {
            run.parts.iter().filter_map(|part| match &part.what {
                PartKind::Call(call) => Some(call),
                PartKind::Mutation(_) | PartKind::LiveRead(_) => None,
            })
        };
        let sum = |of: fn(&KindReads) -> u64| calls().flat_map(|call| &call.reads).map(of).sum();
        let end = &run.end;
        let mut attributes = Attributes::default()
            .text(PLUGIN, &run.plugin)
            .text(VERSION, &run.version)
            .name(DIGEST, &run.digest)
            .text(QUEUE, &run.key.queue)
            .object(KEY_KIND, &run.key.kind.to_string(), [KEY_NAMESPACE, KEY_NAME], &run.key.object)
            .number(ATTEMPT, run.attempt.into())
            .text(RESULT, end.result)
            .number(CALLS, calls().count() as u64)
            .number(READS, sum(|reads| reads.n_reads))
            .number(READ_OBJECTS, sum(|reads| reads.n_objects))
            .number(READ_BYTES, sum(|reads| reads.n_bytes))
            .number(LIVE_READS, run.n_live_reads as u64)
            .number(MUTATIONS, run.n_mutations as u64)
            .number(FAILED, end.n_failed as u64)
            .number(DENIED, end.n_denied as u64)
            .put(WAITS, end.waits_for_caches)
            .number(OMITTED, run.n_omitted as u64);
        if let Some(after) = end.requeue_after {
            attributes = attributes.put(REQUEUE, after.as_secs_f64());
        }
        let mut status = Status::Unset;
        if let Some(why) = &end.error {
            attributes = attributes.text(ERROR, why);
            status = error(why);
        }
        self.span(Span {
            id: run.span,
            parent: None,
            name: bounded(&format!("{RUN} {}", run.plugin)).into(),
            kind: SpanKind::Internal,
            from: run.begun,
            took: run.took,
            attributes,
            status,
        })
    }

    fn part(&self, run: SpanRef, begun: SystemTime, part: TracedPart) -> SpanData {
        let (name, kind, attributes, status) = match part.what {
            PartKind::Call(call) => {
                let (attributes, status) = call_facts(&call);
                (CALL.into(), SpanKind::Internal, attributes, status)
            }
            PartKind::Mutation(request) | PartKind::LiveRead(request) => {
                let kind = if request.method.is_some() { SpanKind::Client } else { SpanKind::Internal };
                let (attributes, status) = request_facts(&request);
                (request_name(&request), kind, attributes, status)
            }
        };
        self.span(Span {
            id: run.with_span(part.span_id),
            parent: Some(run),
            name,
            kind,
            from: after(begun, part.at),
            took: part.took,
            attributes,
            status,
        })
    }

    fn span(&self, span: Span) -> SpanData {
        let Span { id, parent, name, kind, from, took, attributes, status } = span;
        SpanData {
            span_context: SpanContext::new(
                TraceId::from(id.trace_id),
                SpanId::from(id.span_id),
                TraceFlags::SAMPLED,
                false,
                TraceState::NONE,
            ),
            parent_span_id: parent.map_or(SpanId::INVALID, |parent| SpanId::from(parent.span_id)),
            parent_span_is_remote: false,
            span_kind: kind,
            name,
            start_time: from,
            end_time: after(from, took),
            attributes: attributes.0,
            dropped_attributes_count: 0,
            events: Default::default(),
            links: Default::default(),
            status,
            instrumentation_scope: self.scope.clone(),
        }
    }
}

fn call_facts(call: &TracedCall) -> (Attributes, Status) {
    let line = |reads: &KindReads| {
        let KindReads { kind, n_reads, n_objects, n_bytes } = reads;
        StringValue::from(format!("{}: {n_reads} reads, {n_objects} objects, {n_bytes} bytes", bounded(kind)))
    };
    let attributes = Attributes::default()
        .number(HOST_CALLS, call.host_calls.into())
        .number(CALL_BYTES, call.bytes_read)
        .number(MEMORY, call.memory_bytes)
        .put(CALL_READS, Value::Array(Array::String(call.reads.iter().map(line).collect())));
    match call.fault {
        None => (attributes, Status::Unset),
        Some(fault) => (attributes.text(ERROR, fault), error(fault)),
    }
}

/// `patch apps/v1/Deployment/status`. The API server serves the kinds of successful requests, which bounds their
/// number.
fn request_name(request: &TracedRequest) -> Cow<'static, str> {
    let Some(kind) = request.kind.as_ref().filter(|_| request.method.is_some()) else { return request.verb.into() };
    match &request.subresource {
        None => bounded(&format!("{} {kind}", request.verb)).into(),
        Some(subresource) => bounded(&format!("{} {kind}/{subresource}", request.verb)).into(),
    }
}

fn request_facts(request: &TracedRequest) -> (Attributes, Status) {
    let kind = request.kind.as_ref().map_or_else(String::new, ToString::to_string);
    let mut attributes = Attributes::default()
        .text(VERB, request.verb)
        .name(METHOD, request.method.unwrap_or_default())
        .object(OBJECT_KIND, &kind, [OBJECT_NAMESPACE, OBJECT_NAME], &request.object)
        .name(PATH, request.path.as_deref().unwrap_or_default())
        .name(SUBRESOURCE, request.subresource.as_deref().unwrap_or_default())
        .text(REQUEST_RESULT, request.result);
    if request.n_resent > 0 {
        attributes = attributes.number(RESENT, request.n_resent.into());
    }
    if let Some(code) = request.code.filter(|code| *code > 0) {
        attributes = attributes.number(CODE, code.into());
    }
    let Some(reason) = &request.reason else { return (attributes, Status::Unset) };
    attributes = attributes.text(ERROR, reason);
    match request.is_tolerated {
        true => (attributes.put(TOLERATED, true), Status::Unset),
        false => (attributes, error(reason)),
    }
}

fn after(time: SystemTime, duration: Duration) -> SystemTime {
    time.checked_add(duration).unwrap_or(time)
}

fn before(time: SystemTime, duration: Duration) -> SystemTime {
    time.checked_sub(duration).unwrap_or(time)
}

#[cfg(test)]
pub(crate) mod tests;
