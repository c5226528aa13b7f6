//! Shared support of the whole-system tests.
//!
//! | part | contents |
//! | --- | --- |
//! | [`cluster`], [`controlplane`] | the cluster of a test: embedded, or a real control plane as child processes |
//! | [`host`], [`pintle`], [`process`], [`ports`] | the binary under test: as a host, as a command; child processes and their ports |
//! | [`screen`], [`browser`] | a terminal, and a real browser |
//! | [`local`] | a host in the process of the test |
//! | [`objects`], [`definitions`] | what tests create, and ask of objects; kinds that they define |
//! | [`api`], [`kubectl()`], [`eventually()`] | clients of a cluster, and waits with a deadline |
//! | [`behaviour`] | the script of API behaviours |
//! | [`scenarios`], [`handover`] | comparison with kube-controller-manager, and the change from one to the other |
//! | [`metrics_api`] | custom and external metrics of a real control plane |
//! | [`deploy`] | the manifests of `host/deploy` |
//! | [`crash`] | stories of workloads during which something fails |
//! | [`proxy`] | faults of an API server, between it and its clients |
//! | [`silence`] | watches that are silent or late, and dead connections, between a host and a real API server |
//! | [`author_times`], [`standby_times`] | what `cargo xtask bench` measures besides throughput and memory |
//! | [`hostile_objects`] | objects that would harm a controller which trusts them |
//! | [`collector`] | a collector of OpenTelemetry |
//! | [`prometheus`], [`dashboard`] | a real Prometheus, and the committed dashboard |
//! | [`components`], [`languages`], [`authors`] | components: built-in, for tests, of every language |
//! | [`toolchains`] | components of toolchains that know nothing of Pintle |
//!
//! Not here: the tests themselves (`tests/`), the simulated nodes (`host/nodes`).

pub mod api;
pub mod audited;
pub mod author_times;
pub mod authors;
pub mod behaviour;
pub mod browser;
pub mod cluster;
pub mod collector;
pub mod components;
pub mod controlplane;
pub mod crash;
pub mod dashboard;
pub mod definitions;
pub mod deploy;
pub mod errands;
pub mod handover;
pub mod host;
pub mod hostile_objects;
pub mod kubectl;
pub mod languages;
pub mod local;
pub mod metrics_api;
pub mod objects;
pub mod operator;
pub mod pintle;
pub mod ports;
pub mod process;
pub mod prometheus;
pub mod proxy;
pub mod registry;
pub mod scenarios;
pub mod screen;
pub mod silence;
pub mod standby_times;
pub mod static_pod;
pub mod tls;
pub mod toolchains;
pub mod tutorial;
pub mod webapps;
pub mod webhook;

pub use api::{ApiClient, Failure, PatchKind};
pub use cluster::TestCluster;
pub use controlplane::{ControlPlane, Options};
pub use host::HostProcess;
pub use kubectl::kubectl;
pub use local::LocalHost;
pub use pintle_testing::{PATIENCE, eventually};

use std::path::PathBuf;

/// The target folder of the workspace, where everything that is built or written at run time goes.
pub fn target_dir() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => PathBuf::from(dir),
        None => workspace_dir().join("target"),
    }
}

/// The root of the workspace.
pub fn workspace_dir() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map(PathBuf::from).unwrap_or(here)
}
