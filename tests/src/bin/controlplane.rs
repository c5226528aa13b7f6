//! Runs a real control plane until standard input ends or it is interrupted.
//!
//! `controlplane [PROGRAM ARGUMENTS]`: prints one line of JSON with the kubeconfig, the log folder and
//! the process ids; PROGRAM, if given, runs beside the control plane and ends with it.

use std::io::Write;
use std::path::Path;

use anyhow::Result;
use pintle_tests::{ControlPlane, Options};

#[tokio::main]
async fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let plane = ControlPlane::start(Options::default()).await?;
    let mut pids = plane.process_ids().await;
    let _beside = match args.split_first() {
        Some((program, rest)) => {
            let started = plane.start_program("beside", Path::new(program), rest).await?;
            pids.push(started.inner_id()?);
            pids.push(started.id());
            Some(started)
        }
        None => None,
    };
    let line = serde_json::json!({
        "kubeconfig": plane.kubeconfig(),
        "folder": plane.folder(),
        "pids": pids,
    });
    writeln!(std::io::stdout(), "{line}")?;
    // A plain thread: the runtime would wait for a blocking read of its own when it shuts down.
    let (ended, end_of_input) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let _ = ended.send(());
    });
    tokio::select! {
        _ = end_of_input => {}
        interrupted = tokio::signal::ctrl_c() => interrupted?,
    }
    plane.stop().await;
    Ok(())
}
