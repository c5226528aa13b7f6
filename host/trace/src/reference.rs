//! Definitions of the spans and their attributes, for the exporter, its tests and the documentation.

/// An attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Its name.
    pub name: &'static str,
    /// Its description, without a final period.
    pub help: &'static str,
}

/// A span type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanDef {
    /// Its name; words in capitals vary.
    pub name: &'static str,
    /// Its description, without a final period.
    pub help: &'static str,
    /// Its attributes.
    pub attributes: &'static [Attribute],
}

macro_rules! attributes {
    ($($ident:ident: $name:literal, $help:literal;)*) => {
        $(pub(crate) const $ident: Attribute = Attribute { name: $name, help: $help };)*
    };
}

attributes! {
    PLUGIN: "pintle.plugin.name", "Name of the plugin";
    VERSION: "pintle.plugin.version", "Version in its manifest";
    DIGEST: "pintle.plugin.digest", "SHA-256 of its component";
    QUEUE: "pintle.queue", "Queue of the key";
    KEY_KIND: "pintle.key.kind", "Kind of the key, for example `apps/v1/Deployment`";
    KEY_NAMESPACE: "pintle.key.namespace", "Namespace of the key; absent for cluster-scoped objects";
    KEY_NAME: "pintle.key.name", "Name of the key";
    ATTEMPT: "pintle.run.attempt", "Failures of the key in a row before this run";
    RESULT: "pintle.run.result", "`success`, `requeue_after`, `error` (a retry, or failed writes), `terminal_error`, `fault`, or `not_leading`";
    ERROR: "error.type", "What failed: the kind of a fault, `retry` or `terminal` of the plugin, or the reason of the API server or the host; absent after a success";
    REQUEUE: "pintle.run.requeue_after", "Seconds after which the plugin asked to run again";
    CALLS: "pintle.run.calls", "Calls of `reconcile`: more than one if it needed live reads";
    READS: "pintle.run.reads", "Reads from the caches";
    READ_OBJECTS: "pintle.run.read_objects", "Objects that these reads found, or counted";
    READ_BYTES: "pintle.run.read_bytes", "Bytes of the texts that they returned";
    LIVE_READS: "pintle.run.live_reads", "Reads from the API server";
    MUTATIONS: "pintle.run.mutations", "Mutations that were tried";
    FAILED: "pintle.run.failed_mutations", "Mutations that failed and were not tolerated";
    DENIED: "pintle.run.denied_mutations", "Mutations that are not granted";
    WAITS: "pintle.run.waits_for_caches", "Whether the key waits until the caches show its writes";
    OMITTED: "pintle.run.omitted_spans", "Spans that this trace leaves out, because it has 128 already";
    HOST_CALLS: "pintle.call.host_calls", "Calls of the lister";
    CALL_BYTES: "pintle.call.read_bytes", "Bytes that the lister returned";
    MEMORY: "pintle.call.memory_bytes", "Peak memory of the instance";
    CALL_READS: "pintle.call.reads", "One text for each kind: `v1/Pod: 2 reads, 5 objects, 1200 bytes`; 32 kinds at most, then `other`";
    METHOD: "http.request.method", "HTTP method; absent if nothing was sent";
    CODE: "http.response.status_code", "HTTP status code of a failure; absent if no answer came";
    RESENT: "http.request.resend_count", "How often the request was sent again, because the API server throttled it";
    PATH: "url.path", "Path of a read of a path, without its query";
    VERB: "pintle.request.verb", "`create`, `update`, `patch`, `delete`, `delete-collection`; `get`, `list`, `discover`";
    OBJECT_KIND: "pintle.object.kind", "Kind of the object";
    OBJECT_NAMESPACE: "pintle.object.namespace", "Namespace of the object; absent for cluster-scoped objects";
    OBJECT_NAME: "pintle.object.name", "Name of the object; absent for generated names and collections";
    SUBRESOURCE: "pintle.object.subresource", "For example `status`";
    REQUEST_RESULT: "pintle.request.result", "Result of a mutation as in the metric `pintle_mutations_total`; `ok` or `error` of a read";
    TOLERATED: "pintle.request.tolerated", "True if the plugin tolerates the failure; the span is not an error then";
}

/// Name of the span of a run, before the name of the plugin.
pub(crate) const RUN: &str = "reconcile";
pub(crate) const QUEUE_WAIT: &str = "queue.wait";
pub(crate) const CALL: &str = "guest.reconcile";
pub(crate) const CACHE_WAIT: &str = "cache.wait";

/// All span types, the one of the run first.
pub const SPANS: &[SpanDef] = &[
    SpanDef {
        name: "reconcile PLUGIN",
        help: "A run of a key: the root of the trace. It begins when a worker takes the key",
        attributes: &[
            PLUGIN,
            VERSION,
            DIGEST,
            QUEUE,
            KEY_KIND,
            KEY_NAMESPACE,
            KEY_NAME,
            ATTEMPT,
            RESULT,
            ERROR,
            REQUEUE,
            CALLS,
            READS,
            READ_OBJECTS,
            READ_BYTES,
            LIVE_READS,
            MUTATIONS,
            FAILED,
            DENIED,
            WAITS,
            OMITTED,
        ],
    },
    SpanDef {
        name: QUEUE_WAIT,
        help: "From when the key was ready until a worker took it; it ends where the run begins",
        attributes: &[QUEUE],
    },
    SpanDef {
        name: CALL,
        help: "A call of the plugin's `reconcile`, its turn on a processor included",
        attributes: &[HOST_CALLS, CALL_BYTES, MEMORY, CALL_READS, ERROR],
    },
    SpanDef {
        name: "VERB KIND",
        help: "A mutation or a live read, its wait for the client's rate limit and its repetitions included. Only `VERB` if nothing was sent",
        attributes: &[
            VERB,
            METHOD,
            CODE,
            RESENT,
            PATH,
            OBJECT_KIND,
            OBJECT_NAMESPACE,
            OBJECT_NAME,
            SUBRESOURCE,
            REQUEST_RESULT,
            TOLERATED,
            ERROR,
        ],
    },
    SpanDef {
        name: CACHE_WAIT,
        help: "From the end of the run until the caches show its writes. It is exported when it ends, after the run",
        attributes: &[],
    },
];

/// The spans as the tables of `host/docs/tracing.md`.
pub fn markdown() -> String {
    let mut text = String::from("| span | what it is |\n| --- | --- |\n");
    for span in SPANS {
        text.push_str(&format!("| `{}` | {} |\n", span.name, span.help));
    }
    text.push_str("\n| span | attribute | what it is |\n| --- | --- | --- |\n");
    for span in SPANS {
        for attribute in span.attributes {
            text.push_str(&format!("| `{}` | `{}` | {} |\n", span.name, attribute.name, attribute.help));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_documentation_has_these_spans_and_attributes() {
        let page = include_str!("../../docs/tracing.md");
        let tables = super::markdown();
        assert!(page.contains(&tables), "put these tables into host/docs/tracing.md:\n{tables}");
    }
}
