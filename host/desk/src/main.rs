//! The `pintle` binary.

use std::process::ExitCode;

/// Returns freed memory to the system, which matters after a relist; the default allocator keeps it.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    pintle::main(pintle_desk::execute)
}
