//! Lines for the host's log, where they are tagged with plugin and key. Natively they go to standard error.

/// Severity of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "common names")]
pub enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

/// Writes a line. Size and number of lines are limited.
pub fn write(level: Level, message: &str) {
    #[cfg(target_arch = "wasm32")]
    {
        use crate::bindings::pintle::controller::log;
        let level = match level {
            Level::Debug => log::Level::Debug,
            Level::Info => log::Level::Info,
            Level::Warn => log::Level::Warn,
            Level::Error => log::Level::Error,
        };
        log::write(level, message);
    }
    #[cfg(not(target_arch = "wasm32"))]
    eprintln!("{level:?}: {message}");
}

/// Writes a line of level `Debug`.
pub fn debug(message: &str) {
    write(Level::Debug, message);
}

/// Writes a line of level `Info`.
pub fn info(message: &str) {
    write(Level::Info, message);
}

/// Writes a line of level `Warn`.
pub fn warn(message: &str) {
    write(Level::Warn, message);
}

/// Writes a line of level `Error`.
pub fn error(message: &str) {
    write(Level::Error, message);
}
