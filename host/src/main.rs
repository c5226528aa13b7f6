//! The `pintle` binary.

use std::process::ExitCode;

use clap::Parser as _;

/// Returns freed memory to the system, which matters after a relist; the default allocator keeps it.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let cli = match pintle::cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(why) => return pintle::output::usage(&why),
    };
    match pintle::execute(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            pintle::output::error(&why);
            ExitCode::FAILURE
        }
    }
}
