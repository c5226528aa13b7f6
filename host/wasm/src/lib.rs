//! The sandbox: plugins as WebAssembly components.
//!
//! *Flow*
//! ```text
//! bytes --inspect--> manifest, imports, exports --compile or cache--> Guest
//! dispatcher --key, view--> Guest::reconcile --slot, instance, lister--> component --outcome--> checked outcome or fault
//! ```
//!
//! *Invariants*
//! 1. A component imports only the contract and a closed WASI 0.2; any other import is rejected before compilation.
//! 2. A lister serves the run for which it was created. Its number is never reused within an instance, so a lister that
//!    the guest kept cannot read the snapshot of another run.
//! 3. A run ends by its deadline, and an instance is never used after a trap.
//! 4. Guest output is bounded before the host copies it, and checked before anything acts on it.
//! 5. No plugin occupies all processors, or all call places, with any number of calls of any length.
//! 6. Compiled code is loaded only from files in a folder that no other user can write to or replace, and only if its
//!    digest matches.
//!
//! *Not here*: the meaning of reads and writes (`pintle_core::ports::view`, `pintle_core::contract::check`), scheduling
//! of keys (`pintle-runtime`).

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
mod scheduler;
mod size;
mod store;
mod ticker;
mod wasi;

pub use cache::user_cache;
pub use engine::{WasmConfig, WasmEngine};
pub use error::{EngineError, LoadError, LoadProblem};
pub use inspect::{Inspection, Producer, Producers, inspect};
pub use wasi::{WASI_INTERFACES, WasiInterface, wasi_interface};
