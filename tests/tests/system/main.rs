//! Whole-system tests of the default tier: `cargo xtask test` runs them for every change.
//!
//! One executable, because each links the whole host. Tests run side by side (`--test-threads`): most of them wait for other processes.
//! Each test brings its own cluster, ports and folders, so that none sees another. What takes longer is in `tests/long`.

mod applies;
mod architecture;
mod bad_input;
mod behaviour;
mod bulk;
mod cases;
mod configuration;
mod controlplane;
mod defaults;
mod deletions;
mod deploy;
mod dev;
mod documentation;
mod failures;
mod first_hour;
mod flags;
mod fuzz;
mod handover;
mod health;
mod hostile;
mod hostile_objects;
mod kubectl;
mod leader;
mod least_privilege;
mod namespaces;
mod oci;
mod orphans;
mod outside;
mod packages;
mod pages;
mod preconditions;
mod rbac;
mod scenarios;
mod serving;
mod settle;
mod shapes;
mod sharing;
mod silence;
mod simulated;
mod swap;
mod top;
mod traces;
mod types;
mod unattended;
