//! Log lines of plugins: limits and context.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use pintle_core::contract::manifest::EffectiveLimits;
use pintle_core::object::id::{Key, Kind};
use pintle_core::ports::guest::LogLine;
use pintle_core::text::printable;

use crate::contract::log::Level;

/// Maximum bytes of a line; longer ones are truncated.
pub(crate) const MAX_LINE_BYTES: usize = 4096;
/// Maximum bytes of the lines kept with a call's result: the last ones, which usually contain the cause of a failure.
const MAX_KEPT_BYTES: usize = 32 << 10;

/// The subject of a call.
#[derive(Clone, Debug)]
pub(crate) enum About {
    /// A run for this key.
    Key(Key),
    /// A mapping of a changed object of this kind.
    Change(Kind),
}

impl fmt::Display for About {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key) => write!(f, "{key}"),
            Self::Change(kind) => write!(f, "change of {kind}"),
        }
    }
}

/// The log of one call.
#[derive(Debug)]
pub(crate) struct Logs {
    plugin: Arc<str>,
    about: About,
    lines_left: u32,
    n_dropped: u32,
    kept: VecDeque<LogLine>,
    n_kept_bytes: usize,
    /// The last line, if it is an error that is not shown yet: a fault that quotes it replaces it.
    held: Option<String>,
}

impl Logs {
    pub(crate) fn new(plugin: Arc<str>, about: About, limits: &EffectiveLimits) -> Self {
        Self {
            plugin,
            about,
            lines_left: limits.log_lines,
            n_dropped: 0,
            kept: VecDeque::new(),
            n_kept_bytes: 0,
            held: None,
        }
    }

    /// Name of the plugin.
    pub(crate) fn plugin(&self) -> &str {
        &self.plugin
    }

    /// The subject of the call.
    pub(crate) fn about(&self) -> &About {
        &self.about
    }

    /// Counts a line; returns whether it fits.
    pub(crate) fn has_room(&mut self) -> bool {
        match self.lines_left.checked_sub(1) {
            Some(left) => self.lines_left = left,
            None => {
                self.n_dropped = self.n_dropped.saturating_add(1);
                return false;
            }
        }
        true
    }

    /// Writes a line that fits.
    pub(crate) fn write(&mut self, level: Level, message: &str) {
        self.show_held();
        let message = printable(message, MAX_LINE_BYTES);
        let (plugin, about) = (&*self.plugin, &self.about);
        let level = match level {
            Level::Debug => {
                tracing::debug!(target: "pintle::plugin", plugin, key = %about, "{message}");
                "debug"
            }
            Level::Info => {
                tracing::info!(target: "pintle::plugin", plugin, key = %about, "{message}");
                "info"
            }
            Level::Warn => {
                tracing::warn!(target: "pintle::plugin", plugin, key = %about, "{message}");
                "warn"
            }
            Level::Error => {
                self.held = Some(message.clone());
                "error"
            }
        };
        self.keep(LogLine { level, message });
    }

    fn show_held(&mut self) {
        if let Some(message) = self.held.take() {
            let (plugin, about) = (&*self.plugin, &self.about);
            tracing::error!(target: "pintle::plugin", plugin, key = %about, "{message}");
        }
    }

    /// Records that the call ended with a fault, which is reported with this message.
    pub(crate) fn faulted(&mut self, message: &str) {
        self.held.take_if(|held| message.contains(&**held));
    }

    fn keep(&mut self, line: LogLine) {
        self.n_kept_bytes += line.message.len();
        self.kept.push_back(line);
        while self.n_kept_bytes > MAX_KEPT_BYTES
            && let Some(oldest) = self.kept.pop_front()
        {
            self.n_kept_bytes -= oldest.message.len();
        }
    }

    /// Takes the kept lines.
    pub(crate) fn take(&mut self) -> Vec<LogLine> {
        self.n_kept_bytes = 0;
        std::mem::take(&mut self.kept).into()
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        self.show_held();
        if self.n_dropped > 0 {
            let (plugin, n_dropped) = (&*self.plugin, self.n_dropped);
            tracing::warn!(target: "pintle::plugin", plugin, key = %self.about, n_dropped, "log lines over the limit were dropped");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logs() -> Logs {
        let limits =
            EffectiveLimits { log_lines: 1_000, ..pintle_core::contract::manifest::Limits::default().effective() };
        Logs::new("p".into(), About::Change(Kind::new("", "v1", "Pod")), &limits)
    }

    #[test]
    fn an_error_that_the_fault_quotes_is_not_shown_besides() {
        let fault = "the last error in its log: panic: it is blue";
        let held = |call: &dyn Fn(&mut Logs)| {
            let mut logs = logs();
            logs.write(Level::Error, "first");
            logs.write(Level::Error, "panic: it is blue");
            call(&mut logs);
            logs.held.clone()
        };
        // Shown at the end of the call.
        let last = Some("panic: it is blue".to_owned());
        assert_eq!(held(&|_| ()), last);
        assert_eq!(held(&|logs| logs.faulted("a deadline")), last);
        assert_eq!(held(&|logs| logs.faulted(fault)), None);
        // The order of the lines is kept.
        assert_eq!(held(&|logs| logs.write(Level::Info, "second")), None);
        assert_eq!(held(&|logs| logs.write(Level::Error, "third")), Some("third".to_owned()));
    }

    #[test]
    fn the_last_lines_are_kept() {
        let mut logs = logs();
        logs.write(Level::Info, "first");
        assert_eq!(logs.take(), [LogLine { level: "info", message: "first".into() }]);
        for i in 0..20 {
            logs.write(Level::Warn, &format!("{i:04}").repeat(MAX_LINE_BYTES / 4));
        }
        let kept = logs.take();
        assert_eq!(kept.iter().map(|line| line.message.len()).sum::<usize>(), MAX_KEPT_BYTES);
        assert!(kept[0].message.starts_with("0012") && kept[7].message.starts_with("0019"), "{kept:?}");
    }
}
