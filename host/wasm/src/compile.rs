//! Compiles components beside the host's work: on fewer threads than there are processors, and after everybody else.

use std::num::NonZeroUsize;

use rayon::{ThreadPool, ThreadPoolBuilder};
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::error::EngineError;

/// How much the host's other threads go before: half of what there is, since compiling must come to an end, too.
const NICENESS: i32 = 10;

/// The threads that compile. wasmtime's parallel parts run on those of its caller.
#[derive(Debug)]
pub(crate) struct Compiler {
    threads: ThreadPool,
}

impl Compiler {
    pub(crate) fn start(n_processors: NonZeroUsize) -> Result<Self, EngineError> {
        let threads = ThreadPoolBuilder::new()
            .num_threads(n_processors.get().saturating_sub(1).max(1))
            .thread_name(|i| format!("wasm-compiler-{i}"))
            .start_handler(|_| {
                // Of this thread alone, on Linux. Where it is refused, compiling is only not as polite.
                let _ = rustix::process::nice(NICENESS);
            })
            .build()
            .map_err(|error| EngineError::Compiler(error.to_string()))?;
        Ok(Self { threads })
    }

    /// Blocks until the component is compiled, and until those before it are.
    pub(crate) fn compile(&self, engine: &Engine, bytes: &[u8]) -> wasmtime::Result<Component> {
        self.threads.install(|| Component::new(engine, bytes))
    }
}
