//! Converts wasmtime errors into kinds of faults. No other crate uses wasmtime's error type.

use pintle_core::ports::guest::{FaultKind, PluginFault};
use pintle_core::ports::view::ViewError;
use pintle_core::text::printable;
use wasmtime::{PoolConcurrencyLimitError, Trap, WasmBacktrace};

/// Maximum bytes of a fault's message, which may contain the guest's own text.
const MAX_MESSAGE_BYTES: usize = 2048;

/// Reasons why the host stops a guest.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HostTrap {
    #[error(
        "the deadline of {0} ms has passed (limits.deadlineMs of the manifest): an endless loop, or too much work for one run"
    )]
    Deadline(u128),
    #[error("{wanted} bytes of memory are more than the limit of {limit} (limits.memoryBytes of the manifest)")]
    Memory { wanted: u64, limit: u64 },
    #[error("tables of {wanted} elements are more than the limit of {limit}")]
    Tables { wanted: usize, limit: usize },
    #[error("the lister of a finished run was used; a lister is valid until the function that received it returns")]
    StaleLister,
    #[error("more calls of the lister than the limit allows (limits.hostCalls of the manifest)")]
    HostCalls,
    #[error("the lister was asked for more bytes than the limit allows (limits.readBytes of the manifest)")]
    ReadBytes,
    #[error("the arguments of a call of the lister have {given} bytes, more than {limit}")]
    Argument { given: usize, limit: usize },
    #[error("more calls of WASI and the lister than the limit allows (limits.hostCalls of the manifest)")]
    WasiCalls,
    #[error("more than {0} open streams and timers of WASI")]
    WasiHandles(u32),
    #[error("wasi:random was asked for {wanted} bytes at once, more than {limit}")]
    RandomBytes { wanted: u64, limit: u64 },
    #[error(
        "the plugin called exit with code {0} (wasi:cli/exit); a plugin ends a run by returning an outcome or an error"
    )]
    Exit(u8),
    #[error(
        "the plugin called {0}, but it has no network: it reads through the lister, asks for more with needs, and writes with its outcome"
    )]
    Network(String),
    #[error("{0}")]
    View(ViewError),
    #[error("the host panicked while it answered: {0}")]
    Panic(String),
}

impl HostTrap {
    fn kind(&self) -> FaultKind {
        match self {
            Self::Deadline(_) => FaultKind::Deadline,
            Self::Memory { .. } | Self::Tables { .. } => FaultKind::Memory,
            Self::StaleLister | Self::Exit(_) | Self::Network(_) => FaultKind::Trap,
            Self::HostCalls | Self::ReadBytes | Self::Argument { .. } | Self::Panic(_) => FaultKind::HostCall,
            Self::WasiCalls | Self::WasiHandles(_) | Self::RandomBytes { .. } => FaultKind::HostCall,
            Self::View(ViewError::BadSelector(..)) => FaultKind::Output,
            Self::View(ViewError::TooMuchWork | ViewError::TooManyBytes(_)) => FaultKind::HostCall,
            Self::View(_) => FaultKind::Grant,
        }
    }
}

/// The fault for an error while creating or calling an instance. `last_error`: the last error line in the log of the
/// run; after a trap it contains details that WebAssembly does not record: the message of a panic, and its source
/// position.
pub(crate) fn classify(error: &wasmtime::Error, while_instantiating: bool, last_error: Option<&str>) -> PluginFault {
    let mut message = error.root_cause().to_string();
    let kind = if let Some(trap) = error.downcast_ref::<HostTrap>() {
        if let (HostTrap::Exit(_), Some(line)) = (trap, last_error) {
            message = format!("{message}; the last error in its log: {line}");
        }
        trap.kind()
    } else if let Some(trap) = error.downcast_ref::<Trap>() {
        message = describe(*trap, last_error);
        match trap {
            Trap::Interrupt => FaultKind::Deadline,
            Trap::StackOverflow | Trap::AllocationTooLarge => FaultKind::Memory,
            _ => FaultKind::Trap,
        }
    } else if error.is::<PoolConcurrencyLimitError>() || while_instantiating {
        FaultKind::Instantiate
    } else if message.contains("fuel allocated for hostcalls has been exhausted") {
        // wasmtime's type for this error is private. The error has a backtrace only if the guest was running.
        if error.is::<WasmBacktrace>() {
            let message = "the arguments of a host call are too large to be copied".to_owned();
            return PluginFault { kind: FaultKind::HostCall, message };
        }
        return output(&"the outcome is too large to be copied");
    } else {
        // The remaining errors are output that breaks the canonical ABI: invalid UTF-8, a pointer out of bounds.
        FaultKind::Output
    };
    PluginFault { kind, message: printable(&message, MAX_MESSAGE_BYTES) }
}

/// Describes a trap in terms of plugin authors, followed by its name in WebAssembly.
fn describe(trap: Trap, last_error: Option<&str>) -> String {
    let what = match trap {
        // Compilers abort a program with this instruction.
        Trap::UnreachableCodeReached => match last_error {
            Some(line) => return format!("the plugin ended the run; the last error in its log: {line}"),
            None => {
                "the plugin ended the run with no error in its log: abort(), or a check of the language's own runtime"
            }
        },
        Trap::StackOverflow => "stack overflow: functions called one another too deeply, or recursed without end",
        Trap::MemoryOutOfBounds => "an access past the end of the memory: a wild pointer, or a stack that is full",
        Trap::IntegerDivisionByZero => "a division by zero",
        Trap::IndirectCallToNull => "a call through a null function pointer",
        Trap::BadSignature => "a call through a function pointer of another type",
        Trap::TableOutOfBounds => "a call through a function pointer that does not point to a function",
        _ => return trap.to_string(),
    };
    format!("{what} ({trap})")
}

/// The fault for output that breaks a rule of the contract.
pub(crate) fn output(why: &dyn std::fmt::Display) -> PluginFault {
    PluginFault { kind: FaultKind::Output, message: printable(&why.to_string(), MAX_MESSAGE_BYTES) }
}
