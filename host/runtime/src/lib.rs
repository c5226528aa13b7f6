//! Pintle: runtime.
