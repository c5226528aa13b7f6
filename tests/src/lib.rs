//! Shared support of the whole-system tests.
//!
//! What is here: a real control plane as child processes ([`controlplane`]), a small JSON client that
//! speaks to it and to the embedded cluster alike ([`api`]), polling with a deadline ([`eventually()`]),
//! the script of API behaviours ([`behaviour`]) and the scenarios in which Pintle is compared with
//! kube-controller-manager ([`scenarios`]), what a change between the two does to objects ([`handover`]), and the story
//! of a rollout in which things go wrong ([`crash`]).
//!
//! Not here: the tests themselves (`tests/`), the simulated nodes (`host/sim`).

pub mod api;
pub mod audited;
pub mod authors;
pub mod behaviour;
pub mod components;
pub mod controlplane;
pub mod crash;
pub mod eventually;
pub mod handover;
pub mod kubectl;
pub mod languages;
pub mod operator;
pub mod process;
pub mod registry;
pub mod scenarios;
pub mod tutorial;
pub mod webapps;

pub use api::{ApiClient, Failure, PatchKind};
pub use controlplane::{ControlPlane, Options};
pub use eventually::eventually;
pub use kubectl::kubectl;

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
