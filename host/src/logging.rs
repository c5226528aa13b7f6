//! Structured logs on standard error, one line for each event.
//!
//! Events contain text from plugins, API servers and registries. Both formats escape characters that control a
//! terminal, break a line or change the text direction, so that such text cannot look like an event of the host.

use std::fmt;
use std::io::{self, IsTerminal as _, Write};

use anyhow::Context as _;
use pintle_core::text::{Printable, printable_json};
use tracing::field::{Field, Visit};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::{RecordFields, VisitOutput as _};
use tracing_subscriber::fmt::format::{DefaultVisitor, Writer};
use tracing_subscriber::fmt::{FormatFields, MakeWriter};
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::cli::{LogArgs, LogFormat};

/// Filter for libraries: one reports missing folders, the other each failed request, which the host reports itself.
const NOISE: &str = "notify=warn,kube_client::client::builder=off";

/// Installs the log for the process.
///
/// # Errors
/// The filter is invalid, or a log is already installed.
pub fn install(args: &LogArgs) -> anyhow::Result<()> {
    let colours = io::stderr().is_terminal();
    subscriber(args, colours, io::stderr)?.try_init().map_err(|why| anyhow::anyhow!("install the log: {why}"))
}

fn subscriber<W>(args: &LogArgs, colours: bool, writer: W) -> anyhow::Result<Box<dyn tracing::Subscriber + Send + Sync>>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let filter = EnvFilter::try_new(format!("{NOISE},{}{}", args.log, more(args.verbosity))).with_context(|| {
        format!("--log {:?} is not a filter: use error, warn, info, debug, trace, or info,TARGET=debug", args.log)
    })?;
    // The library would report a failed write of a line to the same output, and panic.
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours).log_internal_errors(false);
    Ok(match args.log_format {
        LogFormat::Text => {
            Box::new(builder.with_target(false).fmt_fields(PrintableFields).with_writer(writer).finish())
        }
        LogFormat::Json => Box::new(builder.json().with_writer(PrintableJson(writer)).finish()),
    })
}

/// Filter added by a level of `-v`.
fn more(verbosity: u32) -> &'static str {
    match verbosity {
        0..=3 => "",
        4..=7 => ",pintle=debug",
        _ => ",debug",
    }
}

/// The library's default field format, with printable values.
struct PrintableFields;

impl<'writer> FormatFields<'writer> for PrintableFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut visitor = PrintableVisitor(DefaultVisitor::new(writer, true));
        fields.record(&mut visitor);
        visitor.0.finish()
    }
}

struct PrintableVisitor<'writer>(DefaultVisitor<'writer>);

impl Visit for PrintableVisitor<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.record_debug(field, &format_args!("{value}")),
            _ => self.record_debug(field, &value),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        self.0.record_debug(field, &format_args!("{}", Printable(&text)));
    }
}

/// Writes JSON without colours. The library writes each event as a whole.
struct PrintableJson<W>(W);

impl<'a, W: MakeWriter<'a>> MakeWriter<'a> for PrintableJson<W> {
    type Writer = PrintableWriter<W::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        PrintableWriter(self.0.make_writer())
    }
}

struct PrintableWriter<W>(W);

impl<W: Write> Write for PrintableWriter<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        self.0.write_all(printable_json(&String::from_utf8_lossy(event)).as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Installs a log for commands that print to standard output: only warnings of plugins.
///
/// # Errors
/// A log is already installed.
pub fn quiet() -> anyhow::Result<()> {
    install(&LogArgs::new("off,pintle::plugin=warn", LogFormat::Text))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The log output of these events.
    fn logged(log: &str, log_format: LogFormat, colours: bool, events: fn()) -> String {
        let args = LogArgs::new(log, log_format);
        logged_with(&args, colours, events)
    }

    fn logged_with(args: &LogArgs, colours: bool, events: fn()) -> String {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = subscriber(args, colours, move || writer.clone()).unwrap();
        tracing::subscriber::with_default(subscriber, events);
        String::from_utf8(lines.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn a_level_of_kubernetes_adds_debug_messages() {
        let lines = |verbosity| {
            let args = LogArgs { verbosity, ..LogArgs::new("warn", LogFormat::Text) };
            let text = logged_with(&args, false, || {
                tracing::info!(target: "pintle_runtime::x", "a");
                tracing::debug!(target: "pintle_runtime::x", "b");
                tracing::debug!(target: "hyper::x", "c");
                tracing::warn!(target: "hyper::x", "d");
            });
            text.lines().filter_map(|line| line.chars().last()).collect::<String>()
        };
        assert_eq!([0, 3, 4, 7, 8, 99].map(lines), ["d", "d", "abd", "abd", "abcd", "abcd"]);
    }

    #[test]
    fn the_http_client_does_not_repeat_what_the_host_reports() {
        for log in ["info", "debug"] {
            let text = logged(log, LogFormat::Text, false, || {
                tracing::error!(target: "kube_client::client::builder", "failed with error client error (Connect)");
                tracing::warn!("discovery failed");
            });
            assert!(text.lines().count() == 1 && text.contains("discovery failed"), "{text}");
        }
    }

    const HOSTILE: &str = "no\n2026-01-01T00:00:00Z ERROR forged\r\u{1b}[2J\u{9b}m\u{202e}";

    fn hostile_events() {
        tracing::warn!(error = %HOSTILE, text = HOSTILE, debug = ?HOSTILE, n = 1, "{HOSTILE}");
        tracing::warn!("second");
    }

    #[test]
    fn no_word_of_others_forges_an_event_or_controls_a_terminal() {
        for colours in [false, true] {
            let text = logged("info", LogFormat::Text, colours, hostile_events);
            let lines: Vec<&str> = text.split('\n').collect();
            assert!(lines.len() == 3 && lines[1].ends_with("second") && lines[2].is_empty(), "{text:?}");
            let shown = r"no\n2026-01-01T00:00:00Z ERROR forged\r\u{1b}[2J\u{9b}m\u{202e}";
            assert_eq!(lines[0].matches(shown).count(), 4, "{text}");
            let harmful: &[char] = &['\r', '\u{9b}', '\u{202e}'];
            assert!(!text.contains(harmful) && !text.contains("\u{1b}[2J"), "{text:?}");
            assert_eq!(text.contains('\u{1b}'), colours, "colours are those of the log");
        }
        let text = logged("info", LogFormat::Json, false, hostile_events);
        assert!(text.chars().all(|c| !c.is_control() || c == '\n') && !text.contains('\u{202e}'), "{text:?}");
        let events: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(events.len(), 2);
        for name in ["message", "error", "text"] {
            assert_eq!(events[0]["fields"][name], HOSTILE, "the value is the same");
        }
    }
}
