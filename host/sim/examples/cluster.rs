//! Starts an embedded cluster and leaves it running until Ctrl-C.
//!
//! `cargo run -p pintle-sim --example cluster -- [KUBECONFIG-FILE] [PORT]`

use std::error::Error;
use std::net::SocketAddr;

use pintle_sim::{SimCluster, SimConfig};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    let mut args = std::env::args().skip(1);
    let file = args.next().unwrap_or_else(|| "target/sim.kubeconfig".to_owned());
    let port: u16 = args.next().map(|text| text.parse()).transpose()?.unwrap_or(0);
    let config =
        SimConfig { address: SocketAddr::from(([127, 0, 0, 1], port)), history_writes: 0, ..SimConfig::default() };
    let cluster = SimCluster::start(config).await?;
    std::fs::write(&file, cluster.kubeconfig())?;
    eprintln!("serving {}; try: kubectl --kubeconfig {file} get namespaces", cluster.base_url());
    tokio::signal::ctrl_c().await?;
    cluster.shutdown().await;
    Ok(())
}
