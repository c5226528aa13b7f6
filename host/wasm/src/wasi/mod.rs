//! WASI 0.2 for components of any toolchain: a closed, deterministic operating system.
//!
//! *Flow*: a component that imports WASI -> linker with these interfaces -> calls of the guest -> clocks, random
//! numbers, the log.
//!
//! *Invariants*
//! 1. The same view leads to the same answers: clocks show the time of the run, random numbers depend on the key and
//!    its object.
//! 2. Nothing waits and nothing leaves the sandbox: no files, no sockets, no environment.
//! 3. A guest cannot make the host hold memory: a stream is a number, and timers are bounded.
//! 4. Calls count against `limits.hostCalls`, except writes, which have the limits of the log.
//! 5. A component without these imports has neither their functions nor their state.
//!
//! *Source*: the types and traits are those of `wasmtime-wasi`. Its implementation is used only for unreachable
//! functions (files, sockets): its clocks wait in real time, and its calls cannot be counted.

mod clock;
mod closed;
mod imports;
mod output;
mod random;

use jiff::Timestamp;
use rand::rngs::ChaCha12Rng;
use wasmtime::Result;
use wasmtime::component::{Component, HasData, Linker, ResourceTable};
use wasmtime_wasi::filesystem::{WasiFilesystem, WasiFilesystemCtx, WasiFilesystemCtxView};
use wasmtime_wasi::p2::bindings::{cli, clocks, filesystem, random as numbers, sockets, sync};
use wasmtime_wasi::sockets::{WasiSockets, WasiSocketsCtx, WasiSocketsCtxView};

pub use self::imports::{WASI_INTERFACES, WasiInterface, wasi_interface};
pub(crate) use self::imports::{advice, is_wasi};
use crate::fault::HostTrap;
use crate::logs::About;
use crate::store::{Run, StoreState};

/// Maximum streams, timers and networks held by an instance.
const MAX_HANDLES: u32 = 4096;

/// WASI state of an instance; created by its first call.
#[derive(Default)]
pub(crate) struct WasiState {
    clocks: clock::Clocks,
    /// The run that the clocks belong to.
    clocks_of: u32,
    /// The random generator, and the run that it belongs to.
    random: Option<(u32, ChaCha12Rng)>,
    output: output::Output,
    n_handles: u32,
    closed: Closed,
}

/// State of the library for unreachable functions.
#[derive(Default)]
struct Closed {
    files: WasiFilesystemCtx,
    sockets: WasiSocketsCtx,
    table: ResourceTable,
}

impl WasiState {
    /// Ends a run, or the creation of the instance. Returns its last lines on stderr.
    pub(crate) fn end(&mut self, run: Option<&mut Run>) -> Option<String> {
        self.output.end(run.map(|run| &mut run.logs))
    }

    /// Whether the guest leaks handles, so that the instance should be replaced before it reaches the limit.
    pub(crate) fn is_worn(&self) -> bool {
        self.n_handles > MAX_HANDLES / 2
    }
}

/// The interfaces, for one call.
struct Wasi<'a>(&'a mut StoreState);

/// Connects the interfaces to the linker.
struct Interfaces;

impl HasData for Interfaces {
    type Data<'a> = Wasi<'a>;
}

impl Wasi<'_> {
    fn state(&mut self) -> &mut WasiState {
        self.0.wasi.get_or_insert_default()
    }

    fn parts(&mut self) -> (&mut WasiState, Option<&mut Run>) {
        (self.0.wasi.get_or_insert_default(), self.0.run.as_mut())
    }

    /// Counts a call.
    fn count(&mut self) -> Result<()> {
        self.0.count_host_call(HostTrap::WasiCalls)
    }

    /// Counts a call that returns a handle to the guest.
    fn give_handle(&mut self) -> Result<()> {
        self.count()?;
        let state = self.state();
        if state.n_handles == MAX_HANDLES {
            return Err(HostTrap::WasiHandles(MAX_HANDLES).into());
        }
        state.n_handles += 1;
        Ok(())
    }

    fn drop_handle(&mut self) -> &mut WasiState {
        let state = self.state();
        state.n_handles = state.n_handles.saturating_sub(1);
        state
    }

    /// Counts a call, and returns the clocks of the current run.
    fn clocks(&mut self) -> Result<&mut clock::Clocks> {
        self.count()?;
        let n_run = self.0.n_runs();
        if self.state().clocks_of != n_run {
            let now = self.0.ask(|view, _| view.now().parse::<Timestamp>())?;
            let now = now.and_then(std::result::Result::ok).map_or(0, |now| now.as_nanosecond());
            let state = self.state();
            state.clocks.begin(u64::try_from(now).unwrap_or(0));
            state.clocks_of = n_run;
        }
        Ok(&mut self.state().clocks)
    }

    /// Counts a call, and returns the random generator of the current run.
    fn random(&mut self) -> Result<&mut ChaCha12Rng> {
        self.count()?;
        let n_run = self.0.n_runs();
        let made = self.state().random.take().filter(|(of, _)| *of == n_run);
        let made = match made {
            Some((_, generator)) => generator,
            None => self.generator()?,
        };
        Ok(&mut self.state().random.insert((n_run, made)).1)
    }

    fn generator(&mut self) -> Result<ChaCha12Rng> {
        let made = self.0.ask(|view, logs| {
            let version = match logs.about() {
                About::Key(key) => {
                    view.object(&key.kind, &key.object).map(|object| object.meta.resource_version.to_string())
                }
                About::Change(_) => None,
            };
            random::generator(&[logs.plugin(), &logs.about().to_string(), version.as_deref().unwrap_or_default()])
        })?;
        Ok(made.unwrap_or_else(|| random::generator(&[])))
    }
}

/// Adds a component's WASI imports to a linker.
pub(crate) fn add_to_linker(linker: &mut Linker<StoreState>, component: &Component) -> Result<()> {
    let l = linker;
    cli::environment::add_to_linker::<_, Interfaces>(l, wasi)?;
    cli::exit::add_to_linker::<_, Interfaces>(l, wasi)?;
    cli::stdin::add_to_linker::<_, Interfaces>(l, wasi)?;
    cli::stdout::add_to_linker::<_, Interfaces>(l, wasi)?;
    cli::stderr::add_to_linker::<_, Interfaces>(l, wasi)?;
    cli::terminal_input::add_to_linker::<_, Interfaces>(l, wasi)?;
    cli::terminal_output::add_to_linker::<_, Interfaces>(l, wasi)?;
    cli::terminal_stdin::add_to_linker::<_, Interfaces>(l, wasi)?;
    cli::terminal_stdout::add_to_linker::<_, Interfaces>(l, wasi)?;
    cli::terminal_stderr::add_to_linker::<_, Interfaces>(l, wasi)?;
    clocks::monotonic_clock::add_to_linker::<_, Interfaces>(l, wasi)?;
    clocks::wall_clock::add_to_linker::<_, Interfaces>(l, wasi)?;
    filesystem::preopens::add_to_linker::<_, Interfaces>(l, wasi)?;
    sync::filesystem::types::add_to_linker::<_, WasiFilesystem>(l, files)?;
    sync::io::error::add_to_linker::<_, Interfaces>(l, wasi)?;
    sync::io::poll::add_to_linker::<_, Interfaces>(l, wasi)?;
    sync::io::streams::add_to_linker::<_, Interfaces>(l, wasi)?;
    numbers::insecure::add_to_linker::<_, Interfaces>(l, wasi)?;
    numbers::insecure_seed::add_to_linker::<_, Interfaces>(l, wasi)?;
    numbers::random::add_to_linker::<_, Interfaces>(l, wasi)?;
    sockets::instance_network::add_to_linker::<_, Interfaces>(l, wasi)?;
    sockets::ip_name_lookup::add_to_linker::<_, Interfaces>(l, wasi)?;
    sockets::network::add_to_linker::<_, Interfaces>(l, &sockets::network::LinkOptions::default(), wasi)?;
    sockets::tcp_create_socket::add_to_linker::<_, Interfaces>(l, wasi)?;
    sync::sockets::udp_create_socket::add_to_linker::<_, Interfaces>(l, wasi)?;
    sync::sockets::tcp::add_to_linker::<_, WasiSockets>(l, no_sockets)?;
    sync::sockets::udp::add_to_linker::<_, WasiSockets>(l, no_sockets)?;
    closed::add_http(l, component)
}

fn files(state: &mut StoreState) -> WasiFilesystemCtxView<'_> {
    let Closed { files, table, .. } = &mut state.wasi.get_or_insert_default().closed;
    WasiFilesystemCtxView { ctx: files, table }
}

fn no_sockets(state: &mut StoreState) -> WasiSocketsCtxView<'_> {
    let Closed { sockets, table, .. } = &mut state.wasi.get_or_insert_default().closed;
    WasiSocketsCtxView { ctx: sockets, table }
}

fn wasi(state: &mut StoreState) -> Wasi<'_> {
    Wasi(state)
}
