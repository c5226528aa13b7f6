//! Compiles components in the background, at low priority.

use std::num::NonZeroUsize;

use rayon::{ThreadPool, ThreadPoolBuilder};
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::error::EngineError;

/// Niceness of the compiler threads: a third of the weight of the threads that run plugins. With a higher value, a
/// component would take ten times as long to compile next to other programs.
const NICENESS: i32 = 5;

/// The compiler's thread pool. wasmtime's parallel parts run on their caller's pool.
#[derive(Debug)]
pub(crate) struct Compiler {
    threads: ThreadPool,
}

impl Compiler {
    /// Starts this many threads.
    pub(crate) fn start(n_threads: NonZeroUsize) -> Result<Self, EngineError> {
        let threads = ThreadPoolBuilder::new()
            .num_threads(n_threads.get())
            .thread_name(|i| format!("wasm-compiler-{i}"))
            .start_handler(|_| {
                // Linux sets the niceness per thread. A failure only means that compilation competes with other work.
                let _ = rustix::process::nice(NICENESS);
            })
            .build()
            .map_err(|error| EngineError::Compiler(error.to_string()))?;
        Ok(Self { threads })
    }

    /// Compiles a component; blocks until this and all earlier ones in the queue are compiled.
    pub(crate) fn compile(&self, engine: &Engine, bytes: &[u8]) -> wasmtime::Result<Component> {
        self.threads.install(|| Component::new(engine, bytes))
    }
}
