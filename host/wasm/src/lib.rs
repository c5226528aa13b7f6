//! The sandbox: plugins as WebAssembly components.
//!
//! *Flow*
//! ```text
//! bytes --inspect--> manifest, imports, exports --compile or cache--> Guest
//! dispatcher --key, view--> Guest::reconcile --turn, instance, lister--> component --outcome--> checked outcome or fault
//! ```
//!
//! *Invariants*
//! 1. A component imports the contract and nothing else; anything else is refused before it is compiled.
//! 2. A lister serves the run that it was made for. Its number is never used again within an instance, so that one which
//!    was kept cannot read the world of another run.
//! 3. A run ends by its deadline, and an instance that trapped is never used again.
//! 4. What a guest hands out is bounded before the host copies it, and checked before anybody acts on it.
//! 5. No plugin holds all processors, nor all places for calls, however many of its calls run and however long.
//! 6. Compiled code is loaded only from a folder that nobody else can write to, and only if its digest is right.
//!
//! *Not here*: what reads and writes mean (`pintle_core::ports::view`, `pintle_core::contract::check`), when to run (`pintle-runtime`).

mod cache;
mod compile;
mod contract;
mod engine;
mod error;
mod fault;
mod guest;
mod idle;
mod inspect;
mod lift;
mod linker;
mod logs;
mod size;
mod store;
mod ticker;
mod turns;

pub use engine::{WasmConfig, WasmEngine};
pub use error::{EngineError, LoadError, LoadProblem};
pub use inspect::{Inspection, Producer, Producers, inspect};
