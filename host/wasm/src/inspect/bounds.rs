//! Size bounds of a component: they limit the cost of reading, compiling and holding it, because a compilation cannot
//! be interrupted.

use wasmparser::{FunctionBody, MemoryType, Payload};

use super::work;
use crate::error::LoadProblem;

/// Maximum bytes of a component. CPython with its library has about 40 MB.
const MAX_COMPONENT_BYTES: u64 = 64 << 20;
/// Maximum bytes of a manifest.
const MAX_MANIFEST_BYTES: u64 = 256 << 10;
/// Maximum functions of all modules. CPython has about 20,000.
const MAX_FUNCTIONS: u64 = 100_000;
/// Maximum bytes of one function: compile time grows faster than linearly. The interpreter loops of CPython and QuickJS
/// have about 100 KB.
const MAX_FUNCTION_BYTES: u64 = 512 << 10;
/// Maximum nested modules and components.
const MAX_PARTS: u64 = 64;
/// Maximum instances of modules and components, and export sets passed to them. CPython has about 110, QuickJS 75.
const MAX_INSTANCES: u64 = 256;
/// Maximum memories of all modules. Language runtimes share one; QuickJS has two more, which stay empty.
const MAX_MEMORIES: u64 = 4;
/// Maximum imports and exports of the component itself.
const MAX_NAMES: u64 = 1_000;

/// Counts so far.
#[derive(Debug, Default)]
pub(super) struct Size {
    n_functions: u64,
    n_parts: u64,
    n_instances: u64,
    n_memories: u64,
    n_names: u64,
    /// Compiler work in units.
    work: u64,
    /// The largest initial memory of a module.
    pub(super) memory_bytes: u64,
}

fn check(what: &'static str, found: u64, limit: u64) -> Result<(), LoadProblem> {
    if found > limit { Err(LoadProblem::TooLarge { what, found, limit }) } else { Ok(()) }
}

pub(super) fn component(bytes: &[u8]) -> Result<(), LoadProblem> {
    check("bytes", bytes.len() as u64, MAX_COMPONENT_BYTES)
}

pub(super) fn manifest(json: &[u8]) -> Result<(), LoadProblem> {
    check("bytes of its manifest", json.len() as u64, MAX_MANIFEST_BYTES)
}

impl Size {
    /// Counts a part of the component, at any depth.
    pub(super) fn add(&mut self, payload: &Payload<'_>) -> Result<(), LoadProblem> {
        match payload {
            Payload::CodeSectionStart { count, .. } => {
                self.n_functions += u64::from(*count);
                check("functions", self.n_functions, MAX_FUNCTIONS)
            }
            Payload::CodeSectionEntry(body) => self.function(body),
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => {
                self.n_parts += 1;
                check("modules and components", self.n_parts, MAX_PARTS)
            }
            Payload::InstanceSection(section) => self.instances(section.count()),
            Payload::ComponentInstanceSection(section) => self.instances(section.count()),
            Payload::ComponentImportSection(section) => self.names(section.count()),
            Payload::ComponentExportSection(section) => self.names(section.count()),
            Payload::MemorySection(section) => {
                self.n_memories += u64::from(section.count());
                check("memories", self.n_memories, MAX_MEMORIES)?;
                // The parser of this section reports errors.
                for memory in section.clone().into_iter().flatten() {
                    self.memory_bytes = self.memory_bytes.max(initial_bytes(memory));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn function(&mut self, body: &FunctionBody<'_>) -> Result<(), LoadProblem> {
        check("bytes of a function", body.as_bytes().len() as u64, MAX_FUNCTION_BYTES)?;
        let found = work::of(body).map_err(|error| LoadProblem::Damaged(error.message().to_owned()))?;
        check("nested loops", found.loop_depth, work::MAX_LOOP_DEPTH)?;
        check(
            "units of work to compile a function (its locals by its branches and loops)",
            found.units,
            work::MAX_WORK,
        )?;
        self.work += found.units;
        check("units of work to compile all functions (locals by branches and loops)", self.work, work::MAX_TOTAL_WORK)
    }

    fn instances(&mut self, count: u32) -> Result<(), LoadProblem> {
        self.n_instances += u64::from(count);
        check("instances", self.n_instances, MAX_INSTANCES)
    }

    fn names(&mut self, count: u32) -> Result<(), LoadProblem> {
        self.n_names += u64::from(count);
        check("imports and exports", self.n_names, MAX_NAMES)
    }
}

fn initial_bytes(memory: MemoryType) -> u64 {
    memory.initial.saturating_mul(1 << memory.page_size_log2.unwrap_or(16).min(16))
}
