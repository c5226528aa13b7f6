//! Interfaces without a function in plugins: environment, terminals, files, sockets and process exit.
//!
//! Programs import these because their runtimes do. Descriptors and sockets never exist, so their functions, which are
//! implemented by the library, are never reached.

use wasmtime::Result;
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, Linker, Resource, ResourceType};
use wasmtime_wasi::filesystem::Descriptor;
use wasmtime_wasi::p2::bindings::cli::{
    environment, exit, terminal_input, terminal_output, terminal_stderr, terminal_stdin, terminal_stdout,
};
use wasmtime_wasi::p2::bindings::filesystem::preopens;
use wasmtime_wasi::p2::bindings::sockets::ip_name_lookup::{self, ResolveAddressStream};
use wasmtime_wasi::p2::bindings::sockets::network::{self, ErrorCode, IpAddress, IpAddressFamily};
use wasmtime_wasi::p2::bindings::sockets::{instance_network, tcp_create_socket};
use wasmtime_wasi::p2::bindings::sync::sockets::udp_create_socket;
use wasmtime_wasi::p2::{DynPollable, Network, SocketError, SocketResult, TcpSocket, UdpSocket};

use super::Wasi;
use crate::fault::HostTrap;
use crate::store::StoreState;

const HTTP: &str = "wasi:http/";
const HTTP_TYPES: &str = "wasi:http/types@";
/// Resources of wasi:io, by their names in wasi:http.
const OF_IO: [&str; 4] = ["pollable", "input-stream", "output-stream", "io-error"];

impl environment::Host for Wasi<'_> {
    fn get_environment(&mut self) -> Result<Vec<(String, String)>> {
        self.count()?;
        Ok(Vec::new())
    }

    fn get_arguments(&mut self) -> Result<Vec<String>> {
        self.count()?;
        Ok(Vec::new())
    }

    fn initial_cwd(&mut self) -> Result<Option<String>> {
        self.count()?;
        Ok(None)
    }
}

impl exit::Host for Wasi<'_> {
    fn exit(&mut self, status: std::result::Result<(), ()>) -> Result<()> {
        Err(HostTrap::Exit(status.is_err().into()).into())
    }

    fn exit_with_code(&mut self, code: u8) -> Result<()> {
        Err(HostTrap::Exit(code).into())
    }
}

impl preopens::Host for Wasi<'_> {
    fn get_directories(&mut self) -> Result<Vec<(Resource<Descriptor>, String)>> {
        self.count()?;
        Ok(Vec::new())
    }
}

impl terminal_input::Host for Wasi<'_> {}

impl terminal_input::HostTerminalInput for Wasi<'_> {
    fn drop(&mut self, _: Resource<terminal_input::TerminalInput>) -> Result<()> {
        Ok(())
    }
}

impl terminal_output::Host for Wasi<'_> {}

impl terminal_output::HostTerminalOutput for Wasi<'_> {
    fn drop(&mut self, _: Resource<terminal_output::TerminalOutput>) -> Result<()> {
        Ok(())
    }
}

impl terminal_stdin::Host for Wasi<'_> {
    fn get_terminal_stdin(&mut self) -> Result<Option<Resource<terminal_input::TerminalInput>>> {
        self.count()?;
        Ok(None)
    }
}

impl terminal_stdout::Host for Wasi<'_> {
    fn get_terminal_stdout(&mut self) -> Result<Option<Resource<terminal_output::TerminalOutput>>> {
        self.count()?;
        Ok(None)
    }
}

impl terminal_stderr::Host for Wasi<'_> {
    fn get_terminal_stderr(&mut self) -> Result<Option<Resource<terminal_output::TerminalOutput>>> {
        self.count()?;
        Ok(None)
    }
}

/// Adds a component's imports from wasi:http, for which the library has no traits without an implementation: each
/// function ends the run.
pub(super) fn add_http(linker: &mut Linker<StoreState>, component: &Component) -> Result<()> {
    let engine = component.engine();
    for (interface, import) in component.component_type().imports(engine) {
        let ComponentItem::ComponentInstance(instance) = import.ty else { continue };
        if !interface.starts_with(HTTP) {
            continue;
        }
        let mut into = linker.instance(interface)?;
        for (name, export) in instance.exports(engine) {
            match export.ty {
                ComponentItem::ComponentFunc(_) => {
                    let called = format!("{interface}#{name}");
                    into.func_new(name, move |_, _, _, _| Err(HostTrap::Network(called.clone()).into()))?;
                }
                // Resources of other interfaces are defined there.
                ComponentItem::Resource(_) if interface.starts_with(HTTP_TYPES) && !OF_IO.contains(&name) => {
                    into.resource(name, ResourceType::host::<()>(), |_, _| Ok(()))?;
                }
                _ => {}
            }
        }
    }
    Ok(())
}

impl Wasi<'_> {
    fn denied<T>(&mut self) -> SocketResult<T> {
        self.count().map_err(SocketError::trap)?;
        Err(ErrorCode::AccessDenied.into())
    }
}

impl instance_network::Host for Wasi<'_> {
    fn instance_network(&mut self) -> Result<Resource<Network>> {
        self.give_handle()?;
        Ok(Resource::new_own(0))
    }
}

impl network::Host for Wasi<'_> {
    fn convert_error_code(&mut self, error: SocketError) -> Result<ErrorCode> {
        error.downcast()
    }

    fn network_error_code(&mut self, _: Resource<wasmtime::Error>) -> Result<Option<ErrorCode>> {
        self.count()?;
        Ok(None)
    }
}

impl network::HostNetwork for Wasi<'_> {
    fn drop(&mut self, _: Resource<Network>) -> Result<()> {
        self.drop_handle();
        Ok(())
    }
}

impl tcp_create_socket::Host for Wasi<'_> {
    fn create_tcp_socket(&mut self, _: IpAddressFamily) -> SocketResult<Resource<TcpSocket>> {
        self.denied()
    }
}

impl udp_create_socket::Host for Wasi<'_> {
    fn create_udp_socket(&mut self, _: udp_create_socket::IpAddressFamily) -> SocketResult<Resource<UdpSocket>> {
        self.denied()
    }
}

impl ip_name_lookup::Host for Wasi<'_> {
    fn resolve_addresses(&mut self, _: Resource<Network>, _: String) -> SocketResult<Resource<ResolveAddressStream>> {
        self.denied()
    }
}

impl ip_name_lookup::HostResolveAddressStream for Wasi<'_> {
    fn resolve_next_address(&mut self, _: Resource<ResolveAddressStream>) -> SocketResult<Option<IpAddress>> {
        self.denied()
    }

    fn subscribe(&mut self, _: Resource<ResolveAddressStream>) -> Result<Resource<DynPollable>> {
        self.always_ready()
    }

    fn drop(&mut self, _: Resource<ResolveAddressStream>) -> Result<()> {
        Ok(())
    }
}
