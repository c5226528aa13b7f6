//! The embedded cluster over real HTTP. One executable, because linking each takes a while.

mod api;
mod credentials;
mod faults;
mod quota;
mod support;
