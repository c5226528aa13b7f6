//! The wasmtime engine: one per process, shared by all plugins.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use pintle_core::contract::manifest::{EffectiveLimits, Instances, Limits, Manifest};
use pintle_core::ports::guest::{Guest, Inspected, LoadFailure, Loader};
use wasmtime::component::{Component, InstancePre, Linker};
use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig};

use crate::cache::{CodeCache, Functions};
use crate::compile::Compiler;
use crate::error::{EngineError, LoadError, LoadProblem};
use crate::guest::WasmGuest;
use crate::idle::IdleTotal;
use crate::inspect::Inspection;
use crate::scheduler::CpuScheduler;
use crate::store::{MAX_TABLE_ELEMENTS, StoreState};
use crate::ticker::Ticker;
use crate::{inspect, linker, wasi};

/// Largest memory that a manifest can request.
const MAX_MEMORY_BYTES: usize = 1 << 30;
/// Stack of guest code.
const MAX_WASM_STACK_BYTES: usize = 512 << 10;
/// Stack of a call: guest code and the host functions under it.
const CALL_STACK_BYTES: usize = 1 << 20;
/// Memory of a finished instance that stays mapped, so that the plugin's next instance causes no page faults.
const KEEP_RESIDENT_BYTES: usize = 1 << 20;
/// Maximum instances of all plugins: running ones, and idle ones of pooled plugins.
const MAX_INSTANCES: u32 = 1000;

/// Maximum concurrent calls. The remaining instances are for idle instances and for plugins without another call.
const MAX_CALLS: u32 = MAX_INSTANCES / 2;
/// Maximum idle instances; beyond that, instances are dropped after the call, as for a plugin that is not pooled.
pub(crate) const MAX_IDLE: usize = MAX_INSTANCES as usize / 4;

/// Settings of the engine.
#[derive(Clone, Debug)]
pub struct WasmConfig {
    /// Folder for compiled code, created if missing; no other user may have access to it. If absent, every start
    /// compiles.
    pub cache_dir: Option<PathBuf>,
    /// Maximum concurrent calls of all plugins, running or preempted; further calls wait, except the only call of a
    /// plugin. Default 128.
    pub max_calls: u32,
    /// Instance slots that keep the memory of their last instance mapped (up to 1 MiB each) for the next one of the
    /// same plugin. More slots avoid page faults; fewer save memory. Default 64.
    pub warm_slots: u32,
    /// Memory for the instances of all plugins, in bytes. Calls whose plugin could exceed the rest wait, except the
    /// only call of a plugin; so all instances together use at most this amount plus the memory limit of each plugin
    /// once. Idle instances of pooled plugins use at most an additional quarter of it. Default 4 GiB.
    pub memory_bytes: u64,
    /// Upper bounds for every plugin, regardless of its manifest or spec. An absent field means the host's own bound.
    pub max_limits: Limits,
    /// Whether a developer waits for each new version of a component: then `cache_dir` also keeps compiled functions,
    /// so that only changed ones are compiled, on all processors. The first version takes longer. Default false.
    pub keep_functions: bool,
    /// Whether guests share the processors in time slices, and time limits apply. Without it, a call runs to its end
    /// without interruption, so that its result does not depend on the speed of the machine; an endless call hangs.
    /// Default true.
    pub time_slices: bool,
}

impl Default for WasmConfig {
    fn default() -> Self {
        Self {
            cache_dir: None,
            max_calls: 128,
            warm_slots: 64,
            memory_bytes: 4 << 30,
            max_limits: Limits::default(),
            keep_functions: false,
            time_slices: true,
        }
    }
}

/// Compiles components into plugins.
#[derive(Clone)]
pub struct WasmEngine {
    shared: Arc<Shared>,
}

/// State shared by all plugins.
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    linker: Linker<StoreState>,
    cache: Option<CodeCache>,
    compiler: Compiler,
    pub(crate) ticker: Option<Ticker>,
    /// Schedules calls. It also bounds them, so that calls never exhaust the instance pool.
    pub(crate) scheduler: Arc<CpuScheduler>,
    /// Idle instances of pooled plugins.
    pub(crate) idle: Mutex<IdleTotal>,
    max_limits: Limits,
}

impl WasmEngine {
    /// Starts an engine.
    ///
    /// # Errors
    /// [`EngineError`]: the cache folder is not usable, or the system rejects a thread or address space.
    pub fn new(config: WasmConfig) -> Result<Self, EngineError> {
        let functions = (config.keep_functions && config.cache_dir.is_some()).then(Arc::<Functions>::default);
        let engine = engine(&config, functions.clone())?;
        let open = |folder| CodeCache::open(folder, &engine, functions);
        let cache = config.cache_dir.as_deref().map(open).transpose()?;
        let linker = linker::linker(&engine).map_err(|error| EngineError::Engine(format!("{error:#}")))?;
        let ticker = config.time_slices.then(|| Ticker::start(&engine)).transpose().map_err(EngineError::Ticker)?;
        let n_processors = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        // With kept functions, a developer waits for the plugin. Otherwise other plugins must not wait for its
        // compilation.
        let n_compiling = if config.keep_functions { n_processors.get() } else { n_processors.get() - 1 };
        let compiler = Compiler::start(NonZeroUsize::new(n_compiling).unwrap_or(NonZeroUsize::MIN))?;
        let memory_bytes = config.memory_bytes;
        let max_calls = config.max_calls.clamp(1, MAX_CALLS) as usize;
        let scheduler = CpuScheduler::new(n_processors.get(), max_calls, memory_bytes);
        let idle = Mutex::new(IdleTotal::new(memory_bytes / 4));
        let max_limits = config.max_limits;
        Ok(Self { shared: Arc::new(Shared { engine, linker, cache, compiler, ticker, scheduler, idle, max_limits }) })
    }

    /// Checks and compiles a component. Errors contain `name` (a name or path).
    ///
    /// Blocks while it compiles: 0.1 s for a Rust plugin, several seconds for large language runtimes, on all cores. A
    /// cached component takes less than a millisecond per megabyte.
    ///
    /// # Errors
    /// [`LoadError`] with the problem of the component; a retry does not help.
    pub fn load(&self, name: &str, bytes: &[u8]) -> Result<Arc<dyn Guest>, LoadError> {
        self.load_with(name, bytes, &Limits::default())
    }

    /// Like [`WasmEngine::load`], with the operator's limits for this plugin.
    ///
    /// # Errors
    /// Like [`WasmEngine::load`]; also if a limit exceeds the host's maximum.
    pub fn load_with(&self, name: &str, bytes: &[u8], given: &Limits) -> Result<Arc<dyn Guest>, LoadError> {
        let guest = self.try_load(bytes, given).and_then(|loaded| loaded.guest(&self.shared));
        guest.map_err(|problem| LoadError { name: name.to_owned(), problem })
    }

    /// Like [`WasmEngine::load`], with these kinds of instances instead of the one in the manifest: one guest per kind,
    /// to compare their results.
    ///
    /// # Errors
    /// Like [`WasmEngine::load`].
    pub fn load_each(&self, name: &str, bytes: &[u8], kinds: &[Instances]) -> Result<Vec<Arc<dyn Guest>>, LoadError> {
        let guests = self.try_load(bytes, &Limits::default()).and_then(|loaded| {
            let of_kind = |kind: &Instances| {
                let manifest = Manifest { instances: *kind, ..(*loaded.manifest).clone() };
                Loaded { manifest: Arc::new(manifest), ..loaded.clone() }.guest(&self.shared)
            };
            kinds.iter().map(of_kind).collect()
        });
        guests.map_err(|problem| LoadError { name: name.to_owned(), problem })
    }

    fn try_load(&self, bytes: &[u8], given: &Limits) -> Result<Loaded, LoadProblem> {
        let inspection = inspect::look(bytes)?;
        let limits = inspection.manifest.limits.within(given, &self.shared.max_limits).map_err(LoadProblem::Limits)?;
        if inspection.memory_bytes > limits.memory_bytes {
            return Err(LoadProblem::Memory { declared: inspection.memory_bytes, limit: limits.memory_bytes });
        }
        let component = match &self.shared.cache {
            Some(cache) => cache.component(&self.shared.engine, &self.shared.compiler, bytes),
            None => self.shared.compiler.compile(&self.shared.engine, bytes),
        };
        let component = component.map_err(|error| LoadProblem::Compile(format!("{error:#}")))?;
        let pre = self.pre(&inspection, &component);
        let pre = pre.map_err(|error| LoadProblem::WrongTypes(format!("{error:#}")))?;
        Ok(Loaded { manifest: inspection.manifest, limits, pre })
    }

    fn pre(&self, inspection: &Inspection, component: &Component) -> wasmtime::Result<InstancePre<StoreState>> {
        if !inspection.imports.iter().any(|import| wasi::is_wasi(import)) {
            return self.shared.linker.instantiate_pre(component);
        }
        let mut linker = self.shared.linker.clone();
        wasi::add_to_linker(&mut linker, component)?;
        linker.instantiate_pre(component)
    }
}

/// A compiled component.
#[derive(Clone)]
struct Loaded {
    manifest: Arc<Manifest>,
    limits: EffectiveLimits,
    pre: InstancePre<StoreState>,
}

impl Loaded {
    fn guest(self, shared: &Arc<Shared>) -> Result<Arc<dyn Guest>, LoadProblem> {
        Ok(Arc::new(WasmGuest::new(shared.clone(), self.manifest, self.limits, self.pre)?))
    }
}

impl Loader for WasmEngine {
    fn inspect(&self, origin: &str, bytes: &[u8]) -> Result<Inspected, LoadFailure> {
        let found = inspect::inspect(origin, bytes).map_err(|why| LoadFailure(why.to_string()))?;
        Ok(Inspected { manifest: found.manifest, digest: found.digest })
    }

    fn load(&self, origin: &str, bytes: &[u8], given: &Limits) -> Result<Arc<dyn Guest>, LoadFailure> {
        self.load_with(origin, bytes, given).map_err(|why| LoadFailure(why.to_string()))
    }
}

fn engine(config: &WasmConfig, functions: Option<Arc<Functions>>) -> Result<Engine, EngineError> {
    let mut settings = settings();
    if let Some(functions) = functions {
        let enabled = settings.enable_incremental_compilation(functions);
        enabled.map_err(|error| EngineError::Engine(format!("{error:#}")))?;
    }
    settings.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(config)));
    match Engine::new(&settings) {
        Ok(engine) => Ok(engine),
        Err(error) => {
            // The pool reserves terabytes of address space, which fails under an address space limit.
            let error = format!("{error:#}");
            tracing::warn!(error, "instances are allocated one by one, which is slower");
            settings.allocation_strategy(InstanceAllocationStrategy::OnDemand);
            Engine::new(&settings).map_err(|error| EngineError::Engine(format!("{error:#}")))
        }
    }
}

/// Settings that affect compiled code.
pub(crate) fn settings() -> Config {
    let mut config = Config::new();
    config.cranelift_opt_level(OptLevel::Speed);
    config.epoch_interruption(true);
    // Plugins do not use concurrent calls within one instance, and the feature costs a microsecond per call.
    config.concurrency_support(false);
    config.max_wasm_stack(MAX_WASM_STACK_BYTES);
    config.async_stack_size(CALL_STACK_BYTES);
    // The same view must lead to the same outcome on every processor.
    config.cranelift_nan_canonicalization(true);
    config.wasm_relaxed_simd(false);
    // Features that no plugin needs are off, to reduce the attack surface.
    config.wasm_tail_call(false);
    config.wasm_memory64(false);
    config.wasm_extended_const(true);
    config.wasm_custom_page_sizes(false);
    config.wasm_wide_arithmetic(false);
    config
}

fn pool(config: &WasmConfig) -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(MAX_INSTANCES);
    // Components of language runtimes have up to 40 core modules (CPython), several of them with tables. The pool has
    // room for the maximum of one component times the number of instances, so that no plugin can exhaust it for others.
    pool.max_core_instances_per_component(64);
    pool.total_core_instances(64 * MAX_INSTANCES);
    pool.max_memories_per_component(4);
    pool.total_memories(4 * MAX_INSTANCES);
    pool.max_tables_per_component(16);
    pool.total_tables(16 * MAX_INSTANCES);
    pool.max_tables_per_module(8);
    pool.table_elements(MAX_TABLE_ELEMENTS);
    pool.total_stacks(MAX_INSTANCES);
    pool.max_memory_size(MAX_MEMORY_BYTES);
    pool.max_unused_warm_slots(config.warm_slots);
    if PoolingAllocationConfig::is_pagemap_scan_available() {
        // Both options belong together: without the scan, the whole megabyte would have to be cleared.
        pool.pagemap_scan(Enabled::Yes);
        pool.linear_memory_keep_resident(KEEP_RESIDENT_BYTES);
        pool.table_keep_resident(KEEP_RESIDENT_BYTES);
    }
    pool
}
