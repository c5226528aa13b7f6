//! The `pintle` binary.

use std::process::ExitCode;

/// Returns freed memory to the system, which matters after a relist; the default allocator keeps it.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    pintle::complete::answer_shell();
    let given: Vec<_> = std::env::args_os().collect();
    if pintle::kubectl::is_called(&given) {
        return pintle::kubectl::main(&given);
    }
    let cli = match pintle::config::parse(given) {
        Ok(cli) => cli,
        Err(why) => return why.report(),
    };
    match pintle::execute(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            pintle::output::error(&why);
            ExitCode::FAILURE
        }
    }
}
