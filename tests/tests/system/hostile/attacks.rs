//! Each attack, and what must become of it.

/// What the host makes of an attack.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Met {
    /// A fault of this kind, whose message holds this text. The key backs off; an event and the condition tell of it.
    Fault(&'static str, &'static str),
    /// A read that is not granted is answered by a refusal, and the run goes on; the metric and an event, which holds this text,
    /// tell of it.
    Denied(&'static str),
    /// What it does is allowed, and harmless: there is no fault.
    Borne,
}

use Met::{Borne, Denied, Fault};

/// Folders of `tests/guests`, by name.
pub(crate) const ATTACKS: [(&str, Met); 39] = [
    ("hostile-event-flood", Borne),
    ("hostile-foreign-namespace", Fault("grant", "create")),
    ("hostile-foreign-owner", Fault("grant", "create")),
    ("hostile-foreign-status", Fault("grant", "patch")),
    ("hostile-giant-list", Fault("output", "the outcome is too large to be copied")),
    ("hostile-giant-string", Fault("output", "the outcome is too large to be copied")),
    ("hostile-handle-flood", Borne),
    ("hostile-host-call-flood", Fault("host_call", "more calls of the lister than the limit allows")),
    ("hostile-huge-argument", Fault("host_call", "the arguments of a host call are too large to be copied")),
    ("hostile-kept-lister", Fault("trap", "the lister of a finished run was used")),
    ("hostile-log-flood", Borne),
    ("hostile-long-argument", Fault("host_call", "the arguments of a call of the lister have 2097152 bytes")),
    ("hostile-loop", Fault("deadline", "the deadline of 300 ms has passed")),
    ("hostile-loop-in-host-calls", Fault("deadline", "the deadline of 300 ms has passed")),
    ("hostile-memory-copy", Fault("deadline", "the deadline of 300 ms has passed")),
    ("hostile-memory-growth", Fault("memory", "bytes of memory are more than the limit of 67108864")),
    ("hostile-metric-labels", Borne),
    ("hostile-mutation-flood", Fault("output", "the outcome has 1001 mutations, more than the limit of 1000")),
    ("hostile-needs-flood", Fault("output", "the outcome has 257 needs, more than 256")),
    ("hostile-needs-for-ever", Fault("output", "the run still had needs after 8 rounds")),
    ("hostile-path-name", Fault("output", "is not the name of an object")),
    ("hostile-path-need", Denied("/version/../api/v1/secrets")),
    ("hostile-recursion", Fault("memory", "call stack exhausted")),
    ("hostile-requeue-storm", Borne),
    ("hostile-secret-need", Denied("get v1/Secret")),
    ("hostile-state-flood", Fault("output", "the keyed state would have")),
    ("hostile-trap", Fault("trap", "unreachable")),
    ("hostile-undeclared-kind", Fault("grant", "kind v1/Secret is not watched by this plugin")),
    ("text-bad-discriminant", Fault("output", "discriminant")),
    ("text-bad-pointer", Fault("output", "out of bounds")),
    ("text-bad-realloc", Fault("output", "realloc")),
    ("text-bad-result", Fault("output", "out of bounds")),
    ("text-bad-utf8", Fault("output", "utf-8")),
    ("text-memory-at-once", Fault("memory", "bytes of memory are more than the limit of 67108864")),
    ("text-realloc-loop", Fault("deadline", "the deadline of 300 ms has passed")),
    ("text-realloc-over-itself", Borne),
    ("text-start-loop", Fault("deadline", "the deadline of 300 ms has passed")),
    ("text-start-trap", Fault("trap", "unreachable")),
    ("text-table-growth", Fault("memory", "elements are more than the limit of 50000")),
];
