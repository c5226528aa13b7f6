//! The `pintle-host` binary. In images and releases it has the name `pintle`.

use std::process::ExitCode;

/// Returns freed memory to the system, which matters after a relist; the default allocator keeps it.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    pintle::main(|cli: pintle::cli::Cli| pintle::execute::<pintle::cli::Cli>(cli.command))
}
