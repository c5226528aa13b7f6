//! Ports for servers that bind them later.

use std::fs;
use std::net::TcpListener;
use std::ops::Range;
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};

/// The first one that is given out. Well-known services are below it.
const FIRST: u16 = 10_000;
/// Where the ports of connections begin if the system does not tell, or leaves too few others.
const OF_CONNECTIONS: u16 = 32_768;
/// Distance between what two processes try first.
const STRIDE: usize = 64;

/// Ports of loopback on which nothing listens. Each is given out once by a process, and none is one of those that the system
/// chooses for connections and for servers without a port: those may be taken before they are bound, or between two uses.
///
/// # Errors
/// None is free.
pub fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let mut ports = [0; N];
    for port in &mut ports {
        *port = free_port()?;
    }
    Ok(ports)
}

fn free_port() -> Result<u16> {
    static N_TRIED: AtomicUsize = AtomicUsize::new(0);
    let range = never_chosen();
    let begin = process::id() as usize * STRIDE;
    let mut tried = range.clone().map(|_| {
        let at = (begin + N_TRIED.fetch_add(1, Ordering::Relaxed)) % range.len();
        range.clone().nth(at).unwrap_or(FIRST)
    });
    tried.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).context("no port is free")
}

/// The ports that the system does not choose.
fn never_chosen() -> Range<u16> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let first = text.split_whitespace().next().and_then(|first| first.parse().ok());
    FIRST..first.filter(|first| *first > FIRST + 1000).unwrap_or(OF_CONNECTIONS)
}
