//! Asks the host for one thing of WASI 0.2 at a time; the name of the key's object says for which. It tells the answers on stdout.

#[allow(missing_docs, clippy::all, reason = "generated")]
mod bindings {
    wit_bindgen::generate!({ world: "controller", path: "../../../wit" });
}

use std::mem::forget;

use bindings::pintle::controller::log::{self, Level};
use bindings::pintle::controller::types::{Key, Outcome, ReconcileError};
use bindings::pintle::controller::view::Lister;
use wasip2::cli::{environment, exit, stderr, stdin, stdout, terminal_stderr, terminal_stdin, terminal_stdout};
use wasip2::clocks::{monotonic_clock, wall_clock};
use wasip2::filesystem::preopens;
use wasip2::http;
use wasip2::io::poll;
use wasip2::random::{insecure, insecure_seed, random};
use wasip2::sockets::network::IpAddressFamily;
use wasip2::sockets::{instance_network, ip_name_lookup, tcp_create_socket, udp_create_socket};

/// A second of the clocks.
const SECOND: u64 = 1_000_000_000;

struct Wasi;

bindings::export!(Wasi with_types_in bindings);

fn print(text: &str) {
    for part in text.as_bytes().chunks(4096) {
        stdout::get_stdout().blocking_write_and_flush(part).unwrap();
    }
}

fn print_error(text: &str) {
    stderr::get_stderr().blocking_write_and_flush(text.as_bytes()).unwrap();
}

fn times() -> String {
    let wall = wall_clock::now();
    format!("{}.{:09} {}", wall.seconds, wall.nanoseconds, monotonic_clock::now())
}

impl bindings::Guest for Wasi {
    fn reconcile(key: Key, _lister: Lister) -> Result<Outcome, ReconcileError> {
        match key.object.name.as_str() {
            "nothing" => {}
            "output" => {
                print("one\ntw");
                print_error("careful\n");
                log::write(Level::Error, "two comes later");
                print("o\r\n\n\nno end");
            }
            "lines" => (0..1000).for_each(|i| print(&format!("line {i}\n"))),
            "long-line" => print(&format!("{}\nnext\n", "x".repeat(1 << 20))),
            "flood" => {
                let (stream, bytes) = (stdout::get_stdout(), vec![b'x'; 64 << 10]);
                for _ in 0..1024 {
                    assert!(matches!(stream.check_write(), Ok(65_536)));
                    stream.write(&bytes).unwrap();
                    stream.flush().unwrap();
                    stream.write_zeroes(64 << 10).unwrap();
                }
                print("\nafter\n");
            }
            "write-too-much" => drop(stdout::get_stdout().write(&vec![b'x'; (64 << 10) + 1])),
            "write-zeroes-too-much" => drop(stdout::get_stdout().write_zeroes((64 << 10) + 1)),
            "stdin" => {
                let stream = stdin::get_stdin();
                stream.subscribe().block();
                let spliced = stdout::get_stdout().splice(&stream, 10);
                print(&format!("{:?} {:?} {spliced:?}", stream.read(10), stream.blocking_skip(10)));
            }
            "times" => print(&times()),
            "sleep" => {
                monotonic_clock::subscribe_duration(3600 * SECOND).block();
                print(&times());
            }
            "sleep-always" => monotonic_clock::subscribe_duration(u64::MAX).block(),
            "poll" => {
                let (late, early) = (
                    monotonic_clock::subscribe_duration(3 * SECOND),
                    monotonic_clock::subscribe_instant(monotonic_clock::now() + SECOND),
                );
                print(&format!("{:?} {}\n", poll::poll(&[&late, &early]), times()));
                let (input, output) = (stdin::get_stdin().subscribe(), stdout::get_stdout().subscribe());
                print(&format!("{:?} {} {}\n", poll::poll(&[&late, &input, &output]), late.ready(), times()));
            }
            "poll-nothing" => drop(poll::poll(&[])),
            "random" => print(&format!(
                "{:02x?} {:x} {:02x?} {:x}",
                random::get_random_bytes(4),
                random::get_random_u64(),
                insecure::get_insecure_random_bytes(4),
                insecure::get_insecure_random_u64()
            )),
            "seed" => print(&format!("{:x?}", insecure_seed::insecure_seed())),
            "random-most" => assert_eq!(random::get_random_bytes(1 << 20).len(), 1 << 20),
            "random-too-much" => drop(random::get_random_bytes((1 << 20) + 1)),
            "closed" => {
                let terminals = (
                    terminal_stdin::get_terminal_stdin().is_none(),
                    terminal_stdout::get_terminal_stdout().is_none(),
                    terminal_stderr::get_terminal_stderr().is_none(),
                );
                let environment = (environment::get_environment(), environment::get_arguments());
                print(&format!("{terminals:?} {environment:?} {:?}\n", environment::initial_cwd()));
                let network = instance_network::instance_network();
                print(&format!("{:?}\n", preopens::get_directories().len()));
                print(&format!(
                    "{:?} {:?} {:?}",
                    tcp_create_socket::create_tcp_socket(IpAddressFamily::Ipv4).map(drop).map_err(|code| code.name()),
                    udp_create_socket::create_udp_socket(IpAddressFamily::Ipv6).map(drop).map_err(|code| code.name()),
                    ip_name_lookup::resolve_addresses(&network, "localhost").map(drop).map_err(|code| code.name())
                ));
            }
            "http" => drop(http::types::Fields::new()),
            "exit" => {
                print_error("Traceback:\n  no such thing");
                exit::exit(Err(()));
            }
            "exit-well" => exit::exit(Ok(())),
            "trap" => {
                log::write(Level::Error, "earlier");
                print_error("thread panicked at lib.rs:1\nas asked\n");
                std::process::abort()
            }
            "count" => loop {
                wall_clock::now();
            },
            "streams" => loop {
                forget(stdout::get_stdout());
            },
            "timers" => loop {
                forget(monotonic_clock::subscribe_duration(1));
            },
            // Nothing is left of each.
            "streams-and-timers" => {
                for _ in 0..6_000 {
                    drop(stdout::get_stdout());
                    drop(monotonic_clock::subscribe_duration(1));
                }
            }
            "leak" => (0..1_000).for_each(|_| forget(stdout::get_stdout())),
            other => panic!("{other}"),
        }
        Ok(Outcome {
            needs: vec![],
            steps: vec![],
            requeue_after_ms: None,
            state: vec![],
            observations: vec![],
            wake: vec![],
            run_labels: vec![],
            error: None,
        })
    }
}
