//! Port to the sandbox: a loaded plugin, between `pintle-runtime` and `pintle-wasm`.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

use crate::contract::check::{self, CheckedOutcome, MappedKeys};
use crate::contract::manifest::{EffectiveLimits, Limits, Manifest};
use crate::contract::outcome::{Outcome, ReconcileError};
use crate::object::id::{Key, Kind};
use crate::ports::view::View;

/// A violation of the contract by the plugin. The run's instance is dropped, and nothing of its outcome is applied.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{kind}: {message}")]
pub struct PluginFault {
    /// Kind of the fault; also a metric label.
    pub kind: FaultKind,
    /// Message for the log; partly untrusted text.
    pub message: String,
}

/// Kinds of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// The guest trapped: a panic, an unreachable, an access out of bounds.
    Trap,
    /// The call ran longer than its deadline.
    Deadline,
    /// The run exceeded its memory, table or stack limit.
    Memory,
    /// The output was too large or violated the contract.
    Output,
    /// The plugin requested a read or write that is not granted.
    Grant,
    /// Too many host calls, or too many bytes read.
    HostCall,
    /// The instance could not be created; not necessarily the plugin's fault.
    Instantiate,
}

impl FaultKind {
    /// All kinds.
    pub const ALL: [Self; 7] =
        [Self::Trap, Self::Deadline, Self::Memory, Self::Output, Self::Grant, Self::HostCall, Self::Instantiate];

    /// The metric label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trap => "trap",
            Self::Deadline => "deadline",
            Self::Memory => "memory",
            Self::Output => "output",
            Self::Grant => "grant",
            Self::HostCall => "host_call",
            Self::Instantiate => "instantiate",
        }
    }
}

impl std::fmt::Display for FaultKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Cost of one call.
#[derive(Debug, Clone, Copy, Default)]
pub struct Usage {
    /// Wall time of the call, including instance creation.
    pub elapsed: Duration,
    /// Peak linear memory of the instance.
    pub memory_bytes: u64,
    /// Number of lister calls.
    pub host_calls: u32,
    /// Bytes that the lister returned.
    pub bytes_read: u64,
}

impl Usage {
    /// The maximum of each value of two calls.
    pub fn most(self, other: Usage) -> Usage {
        Usage {
            elapsed: self.elapsed.max(other.elapsed),
            memory_bytes: self.memory_bytes.max(other.memory_bytes),
            host_calls: self.host_calls.max(other.host_calls),
            bytes_read: self.bytes_read.max(other.bytes_read),
        }
    }
}

/// A line logged by a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// `debug`, `info`, `warn` or `error`.
    pub level: &'static str,
    /// Untrusted text: truncated, with control characters escaped.
    pub message: String,
}

/// The result of `reconcile`. Outer error: a fault. Inner error: declared by the plugin.
pub type Answer<O = CheckedOutcome> = Result<Result<O, ReconcileError>, PluginFault>;

/// The result of one call of `reconcile`.
#[derive(Debug)]
pub struct Run {
    /// The answer.
    pub result: Answer,
    /// The cost.
    pub usage: Usage,
    /// The log; of a long log, the last lines.
    pub log: Vec<LogLine>,
}

impl Run {
    /// A run without cost and log.
    pub fn of(result: Answer) -> Self {
        Self { result, usage: Usage::default(), log: Vec::new() }
    }

    /// A run with an answer that is not validated yet; an outcome that violates the contract becomes a fault.
    pub fn checked(answer: Answer<Outcome>, manifest: &Manifest, limits: &EffectiveLimits) -> Self {
        Self::of(answer.and_then(|answer| match answer {
            Ok(outcome) => match check::outcome(outcome, manifest, limits) {
                Ok(outcome) => Ok(Ok(outcome)),
                Err(message) => Err(PluginFault { kind: FaultKind::Output, message }),
            },
            Err(error) => Ok(Err(error)),
        }))
    }
}

/// A loaded plugin.
pub trait Guest: Send + Sync {
    /// The manifest.
    fn manifest(&self) -> &Arc<Manifest>;

    /// The limits of its runs. Default: the limits requested by its manifest.
    fn limits(&self) -> EffectiveLimits {
        self.manifest().limits.effective()
    }

    /// Whether it exports `mapping`. Default: false.
    fn maps(&self) -> bool {
        false
    }

    /// Number of instances: running, preempted and idle.
    fn n_instances(&self) -> usize {
        0
    }

    /// Memory of these instances, in bytes.
    fn instance_bytes(&self) -> u64 {
        0
    }

    /// Calls `reconcile` with a view.
    ///
    /// # Cancel safety
    /// Must be polled to completion: an unfinished call is never dropped. It always ends, at the latest at its
    /// deadline.
    fn reconcile<'a>(&'a self, key: &'a Key, view: Arc<dyn View>) -> BoxFuture<'a, Run>;

    /// Calls `keys-of` with projections of the objects. Default, for guests without a mapping: no keys.
    ///
    /// # Cancel safety
    /// As for `reconcile`.
    fn keys_of<'a>(
        &'a self,
        _kind: &'a Kind,
        _old: Option<&'a str>,
        _new: Option<&'a str>,
        _view: Arc<dyn View>,
    ) -> BoxFuture<'a, Result<MappedKeys, PluginFault>> {
        Box::pin(std::future::ready(Ok(MappedKeys::NONE)))
    }
}

/// A component that cannot be loaded. A retry does not help.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct LoadFailure(pub String);

/// Metadata of a component, before compilation.
#[derive(Debug, Clone)]
pub struct Inspected {
    /// The manifest.
    pub manifest: Arc<Manifest>,
    /// SHA-256 of its bytes, in hexadecimal.
    pub digest: String,
}

/// Creates plugins from components: port to the sandbox for components loaded while the host runs.
pub trait Loader: Send + Sync {
    /// Checks contract version, imports, exports and manifest; fast. Errors contain `origin`.
    ///
    /// # Errors
    /// [`LoadFailure`] with the problem.
    fn inspect(&self, origin: &str, bytes: &[u8]) -> Result<Inspected, LoadFailure>;

    /// Checks and compiles a component. Blocks during compilation: seconds for large language runtimes. `given` are the
    /// operator's limits for this plugin; these and the manifest's are capped by the host's maximum.
    ///
    /// # Errors
    /// [`LoadFailure`] with the problem.
    fn load(&self, origin: &str, bytes: &[u8], given: &Limits) -> Result<Arc<dyn Guest>, LoadFailure>;
}
