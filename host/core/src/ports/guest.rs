//! A loaded plugin: the port between the dispatcher (`pintle-runtime`) and the sandbox (`pintle-wasm`).

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

use crate::contract::check::{self, CheckedOutcome, MappedKeys};
use crate::contract::manifest::{EffectiveLimits, Limits, Manifest};
use crate::contract::outcome::{Outcome, ReconcileError};
use crate::object::id::{Key, Kind};
use crate::ports::view::View;

/// The plugin broke a rule of the contract. The run's instance is gone; nothing of its outcome is carried out.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{kind}: {message}")]
pub struct PluginFault {
    /// What kind of fault; the label of the metric.
    pub kind: FaultKind,
    /// For the log; untrusted text in part.
    pub message: String,
}

/// Kinds of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// The guest trapped: a panic, an unreachable, an access out of bounds.
    Trap,
    /// It ran longer than its deadline.
    Deadline,
    /// It asked for more memory, tables or stack than its limit.
    Memory,
    /// Its output was too large or broke a rule.
    Output,
    /// It read or wrote what it is not granted.
    Grant,
    /// Too many host calls, or too many bytes read.
    HostCall,
    /// The instance could not be made; not necessarily the plugin's fault.
    Instantiate,
}

impl FaultKind {
    /// The metric's label.
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

/// What one call cost.
#[derive(Debug, Clone, Copy, Default)]
pub struct Usage {
    /// Wall time of the call, instance creation included.
    pub elapsed: Duration,
    /// Peak linear memory of the instance.
    pub memory_bytes: u64,
    /// Calls of the lister.
    pub host_calls: u32,
    /// Bytes that those calls handed over.
    pub bytes_read: u64,
}

impl Usage {
    /// The most of each in two calls.
    pub fn most(self, other: Usage) -> Usage {
        Usage {
            elapsed: self.elapsed.max(other.elapsed),
            memory_bytes: self.memory_bytes.max(other.memory_bytes),
            host_calls: self.host_calls.max(other.host_calls),
            bytes_read: self.bytes_read.max(other.bytes_read),
        }
    }
}

/// A line that a plugin has logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// `debug`, `info`, `warn` or `error`.
    pub level: &'static str,
    /// Untrusted text, cut, without characters that steer terminals or forge lines.
    pub message: String,
}

/// What a call of `reconcile` answered. Outer error: the plugin's fault. Inner error: what it declared.
pub type Answer<O = CheckedOutcome> = Result<Result<O, ReconcileError>, PluginFault>;

/// Result of one call of `reconcile`.
#[derive(Debug)]
pub struct Run {
    /// What it answered.
    pub result: Answer,
    /// What it cost.
    pub usage: Usage,
    /// What it logged; of very much the end.
    pub log: Vec<LogLine>,
}

impl Run {
    /// A run that cost nothing and logged nothing.
    pub fn of(result: Answer) -> Self {
        Self { result, usage: Usage::default(), log: Vec::new() }
    }

    /// The same for an answer that nobody has checked yet; an outcome that breaks a rule is a fault.
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
    /// Its manifest.
    fn manifest(&self) -> &Arc<Manifest>;

    /// What binds its runs. Default: what its manifest asks for.
    fn limits(&self) -> EffectiveLimits {
        self.manifest().limits.effective()
    }

    /// Whether it exports `mapping`. Default: no.
    fn maps(&self) -> bool {
        false
    }

    /// Instances that there are now: running, interrupted and idle ones.
    fn n_instances(&self) -> usize {
        0
    }

    /// Calls `reconcile` with a view.
    ///
    /// # Cancel safety
    /// Must be polled to its end: an unfinished call in flight is never dropped. It always ends, by the deadline at the latest.
    fn reconcile<'a>(&'a self, key: &'a Key, view: Arc<dyn View>) -> BoxFuture<'a, Run>;

    /// Calls `keys-of`. The objects are projections. Default, for guests that do not map: no keys.
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

/// A component cannot be used. Trying again does not help.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct LoadFailure(pub String);

/// What a component says of itself, before it is compiled.
#[derive(Debug, Clone)]
pub struct Looked {
    /// Its manifest.
    pub manifest: Arc<Manifest>,
    /// SHA-256 of its bytes, in hexadecimal.
    pub digest: String,
}

/// Makes plugins of components: the port to the sandbox for whoever loads while the host runs.
pub trait Loader: Send + Sync {
    /// Checks contract version, imports, exports and manifest; quick. `origin` is for errors.
    ///
    /// # Errors
    /// [`LoadFailure`] says what is wrong.
    fn look(&self, origin: &str, bytes: &[u8]) -> Result<Looked, LoadFailure>;

    /// Checks and compiles. Blocks for as long as compiling takes: seconds for large language runtimes. `given` are the limits that
    /// the operator gives this plugin; they and the manifest's stay within the host's maximum.
    ///
    /// # Errors
    /// [`LoadFailure`] says what is wrong.
    fn load(&self, origin: &str, bytes: &[u8], given: &Limits) -> Result<Arc<dyn Guest>, LoadFailure>;
}
