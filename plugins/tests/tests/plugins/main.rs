//! Cases and stories of all plugins, in one program.
//!
//! The cases of a plugin are a test of the module with the name of its folder; `build.rs` finds the folders. A story is a
//! sequence of runs on a simulated cluster. It has a file in `stories`.

mod stories {
    mod answers;
    mod cronjob;
    mod daemonset;
    mod deployment;
    mod disruption;
    mod garbage_collector;
    mod job;
    mod namespace;
    mod objects;
    mod persistentvolumeclaim_protection;
    mod replicaset;
}

include!(concat!(env!("OUT_DIR"), "/plugins.rs"));
