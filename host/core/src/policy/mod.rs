//! Rules for scheduling keys, and for the writes and reads of a plugin.

pub mod account;
pub mod correlator;
pub mod election;
pub mod file_access;
pub mod grants;
pub mod held;
pub mod keys;
pub mod lease;
pub mod loops;
pub mod outside;
pub mod pending;
pub mod queue;
pub mod ratelimit;
pub mod roles;
pub mod rules;
pub mod selection;
pub mod signatures;
