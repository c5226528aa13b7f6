//! `pintle top`: an overview of the host in a terminal.
//!
//! ```text
//! keys ──> App (state) <── overview of the host, every interval
//!            └──> view (frame) ──> terminal
//! ```
//!
//! Invariants:
//! 1. The terminal is restored when the command ends: by a key, a signal, an error or a panic.
//! 2. A host that does not respond is reported, and queried again; its last values stay.
//! 3. Untrusted text is escaped before it reaches the terminal.

mod app;
mod columns;
#[cfg(test)]
mod tests;
mod view;

use std::time::Duration;

use anyhow::Context as _;
use pintle_core::overview::Overview;
use pintle_core::text::table;
use pintle_sources::wire::PluginDetail;
use ratatui::crossterm::event;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use self::app::{App, Flow};
use self::columns::Column;
use crate::{Client, path};

/// Timeout of a request to the host.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most pending key events.
const MAX_EVENTS: usize = 64;

/// The overview of the host.
///
/// # Errors
/// The host cannot be reached, or does not respond; the message has the remedy.
pub async fn overview(client: &Client) -> anyhow::Result<Overview> {
    within(client.get("/v1/overview")).await
}

async fn within<T>(answer: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let answer = tokio::time::timeout(PATIENCE, answer).await;
    answer.unwrap_or_else(|_| Err(anyhow::anyhow!("the host does not answer within {PATIENCE:?}; look at its log")))
}

/// The host and its plugins as plain text.
pub fn text(overview: &Overview) -> String {
    let mut rows = vec![Column::ALL.map(|column| column.title().to_owned()).to_vec()];
    rows.extend(overview.plugins.iter().map(|plugin| Column::ALL.map(|column| column.text(plugin)).to_vec()));
    let plugins = if overview.plugins.is_empty() { "No plugins are loaded.".to_owned() } else { table(&rows) };
    let (facts, role) = (view::facts(&overview.host), view::role(&overview.host));
    format!("{facts}\n{role}\n{}\n\n{plugins}", view::totals(overview))
}

/// Shows the host until the user quits, or a signal stops the process. `colors`: whether colours may be used.
///
/// # Errors
/// The terminal is unusable. An unreachable host is not an error here.
pub async fn show(client: &Client, interval: Duration, colors: bool) -> anyhow::Result<()> {
    let mut signals = Signals::catch()?;
    // It also sets a hook that restores the terminal before a panic message.
    let mut terminal = ratatui::try_init().context("use this terminal; `pintle top --once` needs none")?;
    let _restored = Restored;
    let mut events = events();
    let mut app = App::new(colors);
    let mut asking = Box::pin(ask(client, None, Duration::ZERO));
    loop {
        terminal.draw(|frame| view::draw(frame, &app)).context("write to the terminal")?;
        tokio::select! {
            event = events.recv() => match event.map(|event| app.handle(&event)) {
                // The terminal was closed.
                None | Some(Flow::Quit) => return Ok(()),
                Some(Flow::Ask) => asking = Box::pin(ask(client, app.wants().map(str::to_owned), Duration::ZERO)),
                Some(Flow::Stay) => {}
            },
            answer = &mut asking => {
                app.receive(answer.map_err(|why| format!("{why:#}")));
                asking = Box::pin(ask(client, app.wants().map(str::to_owned), interval));
            }
            () = signals.requested() => return Ok(()),
        }
    }
}

/// Restores the terminal.
struct Restored;

impl Drop for Restored {
    fn drop(&mut self) {
        // Without a terminal there is nothing to restore.
        let _ = ratatui::try_restore();
    }
}

/// Queries the host after a pause; also the details of one plugin.
async fn ask(
    client: &Client,
    wanted: Option<String>,
    after: Duration,
) -> anyhow::Result<(Overview, Option<PluginDetail>)> {
    tokio::time::sleep(after).await;
    let found = overview(client).await?;
    let detail = match wanted {
        // The plugin may have been unloaded.
        Some(name) if found.plugins.iter().any(|plugin| plugin.name == name) => {
            within(client.get(&path(&name, "/overview"))).await.ok()
        }
        _ => None,
    };
    Ok((found, detail))
}

/// Key and resize events, from a thread, because reading the terminal blocks. The thread ends with the process.
fn events() -> mpsc::Receiver<event::Event> {
    let (sender, receiver) = mpsc::channel(MAX_EVENTS);
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if sender.blocking_send(event).is_err() {
                break;
            }
        }
    });
    receiver
}

/// The signals that stop a terminal program.
struct Signals([Signal; 3]);

impl Signals {
    fn catch() -> anyhow::Result<Self> {
        let catch = |kind| signal(kind).context("catch signals");
        Ok(Self([catch(SignalKind::interrupt())?, catch(SignalKind::terminate())?, catch(SignalKind::hangup())?]))
    }

    async fn requested(&mut self) {
        let Self([interrupt, terminate, hangup]) = self;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}
