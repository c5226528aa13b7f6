//! A loaded plugin: creates instances and calls them.
//!
//! Flow of a call: CPU slot -> instance (new, or a reused one if the plugin is pooled) -> lister -> export -> lift and
//! check. A slow call yields its slot after each tick and continues when it gets the next one. An instance is dropped
//! with its store after a fault; a pooled one is also replaced when it is old or large.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use futures::FutureExt;
use futures::future::BoxFuture;
use pintle_core::contract::check::{self, MappedKeys};
use pintle_core::contract::manifest::{EffectiveLimits, Instances, Manifest};
use pintle_core::contract::outcome::Wake;
use pintle_core::object::id::{Key, Kind};
use pintle_core::ports::guest::{Answer, Guest, LogLine, PluginFault, Run, Usage};
use pintle_core::ports::view::View;
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{ComponentExportIndex, Instance, InstancePre, Resource, TypedFunc};
use wasmtime::{Store, UpdateDeadline};

use crate::contract::{KEYS_OF, MAPPING, RECONCILE, types};
use crate::engine::Shared;
use crate::error::LoadProblem;
use crate::fault::{self, HostTrap};
use crate::idle::Idle;
use crate::lift;
use crate::logs::{About, Logs};
use crate::scheduler::{Demand, Member, Slot};
use crate::store::{Alive, Clock, Lister, StoreState};
use crate::ticker::{Ticker, Ticking};

/// Number of ticks after which a call counts as slow. Most calls take a fraction of a tick.
const QUICK_TICKS: u64 = 2;
/// Maximum memory of all instances of one plugin; it bounds the plugin's concurrent calls.
const PLUGIN_MEMORY_BYTES: u64 = 1 << 30;
/// Maximum concurrent calls of one plugin, running or preempted; the minimum is the number of processors. More would
/// not be faster, since a call waits only for its slot.
const MAX_PLUGIN_CALLS: u64 = 16;
/// Number of calls after which a pooled instance is replaced, which bounds leaks in a guest.
const MAX_USES: u32 = 10_000;
/// A pooled instance is replaced when it has more memory than this and twice the memory of the plugin's smallest one:
/// the memory of an instance never shrinks, and one large run must not keep it for all later ones.
const SWELL_BYTES: u64 = 4 << 20;
/// Maximum listers that a pooled instance may leak. wasmtime allows 100,000 per instance.
const MAX_UNDROPPED: u32 = 10_000;

type KeysOfParams<'a> = (&'a types::Kind, Option<&'a str>, Option<&'a str>, Resource<Lister>);
type KeysOfResult = (Vec<types::Wake>,);
type ReconcileParams = (types::Key, Resource<Lister>);
type ReconcileResult = (Result<types::Outcome, types::ReconcileError>,);
/// The `reconcile` export of an instance. Its type is checked once, because the check takes as long as an empty run.
type Reconcile = TypedFunc<ReconcileParams, ReconcileResult>;

/// A compiled component.
pub(crate) struct WasmGuest {
    shared: Arc<Shared>,
    manifest: Arc<Manifest>,
    name: Arc<str>,
    limits: EffectiveLimits,
    pre: InstancePre<StoreState>,
    reconcile: ComponentExportIndex,
    keys_of: Option<ComponentExportIndex>,
    /// The plugin's share of the processors.
    member: Member,
    idle: Idle,
    /// Least memory of an instance after a call, in bytes.
    least_bytes: AtomicU64,
    /// Existing instances, called or idle.
    n_instances: Arc<AtomicUsize>,
    /// Memory of these instances.
    instance_bytes: Arc<AtomicU64>,
}

/// An instance.
pub(crate) struct Live {
    store: Store<StoreState>,
    instance: Instance,
    /// `reconcile`; absent before the first run.
    reconcile: Option<Reconcile>,
}

impl Live {
    /// Memory of the instance, in bytes.
    pub(crate) fn n_bytes(&self) -> u64 {
        self.store.data().memory.n_bytes()
    }

    fn reconcile(&mut self, guest: &WasmGuest) -> wasmtime::Result<Reconcile> {
        if let Some(found) = self.reconcile {
            return Ok(found);
        }
        let found = self.instance.get_typed_func(&mut self.store, guest.reconcile)?;
        Ok(*self.reconcile.insert(found))
    }
}

/// A call in progress.
struct Call<'a> {
    guest: &'a WasmGuest,
    started: Instant,
    live: Live,
    _slot: Arc<Slot>,
    _ticking: Option<Ticking<'a>>,
}

impl WasmGuest {
    pub(crate) fn new(
        shared: Arc<Shared>,
        manifest: Arc<Manifest>,
        limits: EffectiveLimits,
        pre: InstancePre<StoreState>,
    ) -> Result<Self, LoadProblem> {
        let wrong_types = |error: wasmtime::Error| LoadProblem::WrongTypes(format!("{error:#}"));
        let reconcile = reconcile(&pre).map_err(wrong_types)?;
        let keys_of = keys_of(&pre).map_err(wrong_types)?;
        let pooled = manifest.instances == Instances::Pooled;
        let name: Arc<str> = manifest.name.as_str().into();
        let max_calls = (PLUGIN_MEMORY_BYTES / limits.memory_bytes.max(1)).clamp(1, MAX_PLUGIN_CALLS) as usize;
        Ok(Self {
            member: shared.scheduler.member(&name, Demand { n_calls: max_calls, call_bytes: limits.memory_bytes }),
            // An upper bound, because workers are configurable: only as many instances are kept as calls have
            // overlapped.
            idle: Idle::new(shared.clone(), if pooled { max_calls } else { 0 }),
            least_bytes: AtomicU64::new(u64::MAX),
            shared,
            name,
            limits,
            manifest,
            pre,
            reconcile,
            keys_of,
            n_instances: Arc::default(),
            instance_bytes: Arc::default(),
        })
    }

    /// Takes a pooled instance or creates one, and creates a lister.
    async fn begin(&self, about: About, view: Arc<dyn View>) -> Result<(Call<'_>, Resource<Lister>), Stopped> {
        let slot = self.member.begin().await;
        let clock = Clock { started: Instant::now(), limit: self.limits.deadline, slot };
        let ticking = self.shared.ticker.as_ref().map(Ticker::run);
        let mut live = match self.idle.take() {
            Some(mut live) => {
                live.store.data_mut().clock = Some(clock.clone());
                live.store.set_epoch_deadline(QUICK_TICKS);
                live
            }
            None => self.instantiate(clock.clone()).await.map_err(|fault| Stopped {
                fault,
                usage: Usage { elapsed: clock.started.elapsed(), ..Usage::default() },
            })?,
        };
        let logs = Logs::new(self.name.clone(), about, &self.limits);
        let lister = live.store.data_mut().begin(&self.limits, view, logs);
        Ok((Call { guest: self, started: clock.started, live, _slot: clock.slot, _ticking: ticking }, lister))
    }

    async fn instantiate(&self, clock: Clock) -> Result<Live, PluginFault> {
        let alive = Alive::new(&self.n_instances);
        let state = StoreState::new(&self.limits, clock, alive, self.instance_bytes.clone());
        let mut store = Store::new(&self.shared.engine, state);
        store.limiter(|state| &mut state.memory);
        store.set_epoch_deadline(QUICK_TICKS);
        store.epoch_deadline_callback(|store| {
            let Some(clock) = &store.data().clock else { return Ok(UpdateDeadline::Interrupt) };
            if clock.is_over(Instant::now()) {
                return Err(HostTrap::Deadline(clock.limit.as_millis()).into());
            }
            Ok(UpdateDeadline::YieldCustom(1, clock.slot.clone().yield_slot().boxed()))
        });
        store.set_hostcall_fuel(copied_bytes(&self.limits));
        let created = self.pre.instantiate_async(&mut store).await;
        let stderr = store.data_mut().wasi.as_mut().and_then(|wasi| wasi.end(None));
        match created {
            Ok(instance) => Ok(Live { store, instance, reconcile: None }),
            Err(error) => Err(fault::classify(&error, true, stderr.as_deref())),
        }
    }

    async fn run(&self, key: &Key, view: Arc<dyn View>) -> Run {
        let (mut call, lister) = match self.begin(About::Key(key.clone()), view).await {
            Ok(begun) => begun,
            Err(stopped) => return Run { usage: stopped.usage, ..Run::of(Err(stopped.fault)) },
        };
        let result = call.reconcile(key, lister).await;
        let Finished { result, usage, log } = call.finish(result);
        Run { result: result.and_then(|answer| self.check(answer)), usage, log }
    }

    fn check(&self, answer: Result<types::Outcome, types::ReconcileError>) -> Answer {
        let fault = |why: String| fault::output(&why);
        match answer {
            Ok(outcome) => {
                let outcome = lift::outcome(outcome).map_err(fault)?;
                check::outcome(outcome, &self.manifest, &self.limits).map(Ok).map_err(fault)
            }
            Err(error) => lift::reconcile_error(error).map(Err).map_err(fault),
        }
    }

    async fn map(
        &self,
        kind: &Kind,
        old: Option<&str>,
        new: Option<&str>,
        view: Arc<dyn View>,
    ) -> Result<MappedKeys, PluginFault> {
        let Some(keys_of) = self.keys_of else {
            return Err(fault::output(&"the component does not export the mapping"));
        };
        let begun = self.begin(About::Change(kind.clone()), view).await;
        let (mut call, lister) = begun.map_err(|stopped| stopped.fault)?;
        let result = call.keys_of(&keys_of, &lift::lower_kind(kind), old, new, lister).await;
        let keys: Vec<Wake> = call.finish(result).result?.into_iter().map(lift::wake).collect();
        check::mapped_keys(keys, &self.manifest).map_err(|why| fault::output(&why))
    }
}

/// The result of a call that did not start.
struct Stopped {
    fault: PluginFault,
    usage: Usage,
}

/// The result of a call that started, successful or not.
struct Finished<T> {
    result: Result<T, PluginFault>,
    usage: Usage,
    log: Vec<LogLine>,
}

impl Call<'_> {
    async fn reconcile(
        &mut self,
        key: &Key,
        lister: Resource<Lister>,
    ) -> wasmtime::Result<Result<types::Outcome, types::ReconcileError>> {
        let (function, key) = (self.live.reconcile(self.guest)?, lift::lower_key(key));
        let (answer,) = function.call_async(&mut self.live.store, (key, lister)).await?;
        Ok(answer)
    }

    async fn keys_of(
        &mut self,
        export: &ComponentExportIndex,
        kind: &types::Kind,
        old: Option<&str>,
        new: Option<&str>,
        lister: Resource<Lister>,
    ) -> wasmtime::Result<Vec<types::Wake>> {
        let Live { store, instance, .. } = &mut self.live;
        let function = instance.get_typed_func::<KeysOfParams<'_>, KeysOfResult>(&mut *store, export)?;
        let (keys,) = function.call_async(store, (kind, old, new, lister)).await?;
        Ok(keys)
    }

    /// Ends the run, and keeps the instance if it can be reused.
    fn finish<T>(mut self, result: wasmtime::Result<T>) -> Finished<T> {
        let state = self.live.store.data_mut();
        let mut run = state.run.take();
        let stderr = state.wasi.as_mut().and_then(|wasi| wasi.end(run.as_mut()));
        state.clock = None;
        let usage = Usage {
            elapsed: self.started.elapsed(),
            memory_bytes: state.memory.n_bytes(),
            host_calls: run.as_ref().map_or(0, |run| run.n_host_calls),
            bytes_read: run.as_ref().map_or(0, |run| run.bytes_read),
        };
        let least_bytes =
            self.guest.least_bytes.fetch_min(usage.memory_bytes, Ordering::Relaxed).min(usage.memory_bytes);
        let worn = state.n_runs() >= MAX_USES
            || state.n_undropped() >= MAX_UNDROPPED
            || state.wasi.as_ref().is_some_and(|wasi| wasi.is_worn())
            // A leak must reach this mark, which costs an instance, before it reaches the limit, which costs a run.
            || usage.memory_bytes > self.guest.limits.memory_bytes / 2
            || usage.memory_bytes > least_bytes.saturating_mul(2).saturating_add(SWELL_BYTES);
        if result.is_ok() && !worn && self.guest.idle.keeps() {
            self.guest.idle.put(self.live);
        }
        let log = run.as_mut().map(|run| run.logs.take()).unwrap_or_default();
        let last_error = log.iter().rev().find(|line| line.level == "error").map(|line| line.message.as_str());
        // Language runtimes write the reason of an abort to stderr.
        let last_error = stderr.as_deref().or(last_error);
        let result = result.map_err(|error| fault::classify(&error, false, last_error));
        if let (Some(run), Err(fault)) = (&mut run, &result) {
            run.logs.faulted(&fault.message);
        }
        Finished { result, usage, log }
    }
}

impl Guest for WasmGuest {
    fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }

    fn limits(&self) -> EffectiveLimits {
        self.limits
    }

    fn maps(&self) -> bool {
        self.keys_of.is_some()
    }

    fn n_instances(&self) -> usize {
        self.n_instances.load(Ordering::Relaxed)
    }

    fn instance_bytes(&self) -> u64 {
        self.instance_bytes.load(Ordering::Relaxed)
    }

    fn reconcile<'a>(&'a self, key: &'a Key, view: Arc<dyn View>) -> BoxFuture<'a, Run> {
        self.run(key, view).boxed()
    }

    fn keys_of<'a>(
        &'a self,
        kind: &'a Kind,
        old: Option<&'a str>,
        new: Option<&'a str>,
        view: Arc<dyn View>,
    ) -> BoxFuture<'a, Result<MappedKeys, PluginFault>> {
        self.map(kind, old, new, view).boxed()
    }
}

/// Finds the `reconcile` export and checks its type, so that a wrong one is rejected at load.
fn reconcile(pre: &InstancePre<StoreState>) -> wasmtime::Result<ComponentExportIndex> {
    let component = pre.component();
    let export = component.component_type().get_export(component.engine(), RECONCILE).map(|export| export.ty);
    let (Some(ComponentItem::ComponentFunc(function)), Some(index)) =
        (export, component.get_export_index(None, RECONCILE))
    else {
        return Err(wasmtime::Error::msg(format!("there is no function {RECONCILE:?}")));
    };
    function
        .typecheck::<ReconcileParams, ReconcileResult>(&pre.instance_type())
        .map_err(|error| error.context(format!("type-checking export func `{RECONCILE}`")))?;
    Ok(index)
}

/// Finds the mapping function and checks its type, as for [`reconcile`].
fn keys_of(pre: &InstancePre<StoreState>) -> wasmtime::Result<Option<ComponentExportIndex>> {
    let component = pre.component();
    let engine = component.engine();
    let Some(interface) = component.get_export_index(None, MAPPING) else { return Ok(None) };
    let component_type = component.component_type();
    let function = component_type.get_export(engine, MAPPING).and_then(|export| match export.ty {
        ComponentItem::ComponentInstance(instance) => match instance.get_export(engine, KEYS_OF)?.ty {
            ComponentItem::ComponentFunc(function) => Some(function),
            _ => None,
        },
        _ => None,
    });
    let Some(function) = function else {
        return Err(wasmtime::Error::msg(format!("{MAPPING} has no function {KEYS_OF:?}")));
    };
    function
        .typecheck::<KeysOfParams<'_>, KeysOfResult>(&pre.instance_type())
        .map_err(|error| error.context(format!("type of {KEYS_OF:?}")))?;
    Ok(component.get_export_index(Some(&interface), KEYS_OF))
}

/// Fuel for copies out of a guest in one call: the largest outcome, plus the structures around its texts.
fn copied_bytes(limits: &EffectiveLimits) -> usize {
    const MUTATION_BYTES: u64 = 2048;
    const REST_BYTES: u64 = 1 << 20;
    let structures = u64::from(limits.mutations) * MUTATION_BYTES + REST_BYTES;
    let bytes = limits.outcome_bytes.saturating_add(structures);
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
