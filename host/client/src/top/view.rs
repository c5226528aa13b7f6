//! One frame of the screen.

use pintle_core::overview::{HostOverview, Overview, PluginOverview, Series};
use pintle_core::text::{age, printable};
use pintle_sources::wire::PluginDetail;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Cell, Clear, Paragraph, Row, Sparkline, Table, TableState, Wrap};

use super::app::{App, Mode};
use super::columns::{Column, bytes, rate, seconds};

/// Narrower names are cut.
const MIN_NAME_WIDTH: u16 = 14;
/// Longest texts in one line.
const MAX_LINE_BYTES: usize = 400;

const HELP: &str = "\
 Up, Down, PageUp, PageDown, Home, End   move
 Enter                                   show the plugin: its last minutes, last error and keys
 Left, Right                             sort by another column
 r                                       reverse the order
 /                                       filter by name; Esc ends it
 Esc                                     back
 q, Ctrl-C                               quit

 QUEUED keys wait for a worker, DELAYED ones for their time, HELD ones for the caches to show their
 writes. RUNS/S counts the last ten seconds, MEDIAN and P99 the runs of the last minute. FAILED runs
 and FAULTS count since the plugin was loaded. MEMORY is that of instances, caches and runs.
 A ! marks a plugin that is not ready or not healthy.";

pub(super) fn draw(frame: &mut Frame<'_>, app: &App) {
    let problem = app.problem.as_ref().map(|why| problem(app, why));
    let n_problem = problem.as_ref().map_or(0, |text| lines(text, frame.area().width).min(3));
    let [head, alert, body, foot] = Layout::vertical([
        Constraint::Length(if frame.area().height < 8 { 1 } else { 3 }),
        Constraint::Length(n_problem),
        Constraint::Min(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    if let Some(overview) = &app.overview {
        header(frame, head, overview, app);
    }
    if let Some(text) = problem {
        let style = app.style(Color::Red).add_modifier(Modifier::REVERSED);
        frame.render_widget(Paragraph::new(text).style(style).wrap(Wrap { trim: true }), alert);
    }
    match &app.mode {
        Mode::Detail(name) => detail(frame, body, name, app),
        Mode::Help => {
            frame.render_widget(Clear, body);
            frame.render_widget(Paragraph::new(HELP).wrap(Wrap { trim: false }), body);
        }
        Mode::Table | Mode::Filter => table(frame, body, app),
    }
    frame.render_widget(footer(app), foot);
}

impl App {
    fn style(&self, color: Color) -> Style {
        if self.colors { Style::new().fg(color) } else { Style::new() }
    }
}

/// Lines that a text needs, as an estimate.
fn lines(text: &str, width: u16) -> u16 {
    u16::try_from(text.chars().count().div_ceil(usize::from(width.max(1)))).unwrap_or(u16::MAX)
}

fn problem(app: &App, why: &str) -> String {
    let why = printable(why, MAX_LINE_BYTES);
    match app.overview.as_ref().and_then(|overview| overview.at.get(11..19)) {
        Some(time) => format!("{why}. These are the values of {time} UTC; trying again."),
        None => format!("{why}. Trying again."),
    }
}

/// The leadership.
pub(super) fn role(host: &HostOverview) -> String {
    if host.elections.is_empty() {
        return "No leader election: this host works alone".to_owned();
    }
    let role = host.elections.iter().map(|election| {
        let lease = printable(&election.lease, MAX_LINE_BYTES);
        match election.holder.as_deref() {
            _ if election.leads => format!("Leads {lease} as {}", printable(&election.identity, MAX_LINE_BYTES)),
            None => format!("On standby for {lease}: the Lease was not read yet"),
            Some("") => format!("On standby for {lease}: nobody leads"),
            Some(holder) => format!("On standby for {lease}: {} leads", printable(holder, MAX_LINE_BYTES)),
        }
    });
    role.collect::<Vec<_>>().join("; ")
}

/// The host in one line.
pub(super) fn facts(host: &HostOverview) -> String {
    let version = printable(&host.version, 40);
    let memory = host.resident_bytes.map_or_else(|| "unknown".to_owned(), bytes);
    let up = age(i64::try_from(host.up_seconds).unwrap_or(i64::MAX));
    let server = host.api_server_problem.as_ref().map_or_else(
        || "API server answers".to_owned(),
        |problem| format!("API SERVER IS GONE: {}", printable(problem, MAX_LINE_BYTES)),
    );
    format!("Pintle {version}   up {up}   memory {memory}   {server}")
}

/// All plugins together in one line.
pub(super) fn totals(overview: &Overview) -> String {
    let sum = |of: fn(&pintle_core::overview::QueueDepth) -> usize| {
        overview.plugins.iter().map(|p| of(&p.queue)).sum::<usize>()
    };
    let per_second: f64 = overview.plugins.iter().map(|plugin| plugin.runs_per_second).sum();
    let faults: u64 = overview.plugins.iter().map(|plugin| plugin.n_faults).sum();
    let omitted = match overview.n_omitted {
        0 => String::new(),
        n => format!("   {n} plugins are not shown"),
    };
    format!(
        "{} plugins   runs/s {}   queued {}   running {}   delayed {}   held {}   faults {faults}{omitted}",
        overview.plugins.len(),
        rate(per_second),
        sum(|queue| queue.ready),
        sum(|queue| queue.running),
        sum(|queue| queue.delayed),
        sum(|queue| queue.held),
    )
}

fn header(frame: &mut Frame<'_>, area: Rect, overview: &Overview, app: &App) {
    let host = &overview.host;
    let mut first = Style::new().add_modifier(Modifier::BOLD);
    if host.api_server_problem.is_some() {
        first = app.style(Color::Red).add_modifier(Modifier::BOLD);
    }
    let leads = host.elections.is_empty() || host.elections.iter().any(|election| election.leads);
    let role_style = app.style(if leads { Color::Green } else { Color::Yellow });
    let mut text =
        vec![Line::styled(facts(host), first), Line::styled(role(host), role_style), Line::raw(totals(overview))];
    if area.height < 3 {
        // The role fits in a line of its own.
        text.swap(0, 1);
    }
    frame.render_widget(Paragraph::new(text), area);
}

/// Cells of a text.
fn cells(text: &str) -> u16 {
    u16::try_from(Span::raw(text).width()).unwrap_or(u16::MAX)
}

/// The columns that fit, with their widths. Numbers are never truncated; long names are.
fn fitting(rows: &[&PluginOverview], total: u16) -> Vec<(Column, u16)> {
    let width = |column: Column| {
        let longest = rows.iter().map(|plugin| cells(&column.text(plugin))).max().unwrap_or(0);
        // The title, and the sort marker.
        let width = longest.max(cells(column.title()) + 1);
        if column == Column::Name { width.min(MIN_NAME_WIDTH.max(total / 3)) } else { width }
    };
    let mut columns: Vec<(Column, u16)> = Column::ALL.map(|column| (column, width(column))).to_vec();
    for dispensable in Column::DISPENSABLE {
        let needed: u16 = columns.iter().map(|(_, width)| width + 1).sum();
        if needed <= total {
            break;
        }
        columns.retain(|(column, _)| *column != dispensable);
    }
    columns
}

fn table(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let rows = app.rows();
    if rows.is_empty() {
        let text = match &app.overview {
            None if app.problem.is_some() => "",
            None => "Waiting for the host to answer...",
            Some(overview) if overview.plugins.is_empty() => "No plugins are loaded.",
            Some(_) => "No plugin has a name with this filter; Esc clears it.",
        };
        frame.render_widget(Paragraph::new(text), area);
        return;
    }
    let fitting = fitting(&rows, area.width.saturating_sub(2));
    let columns: Vec<Column> = fitting.iter().map(|(column, _)| *column).collect();
    let alignment = |column: Column| if column.is_number() { Alignment::Right } else { Alignment::Left };
    let header = columns.iter().map(|column| {
        let mark = match (*column == app.sort, app.descends()) {
            (false, _) => "",
            (true, true) => "▼",
            (true, false) => "▲",
        };
        Cell::new(Text::from(format!("{}{mark}", column.title())).alignment(alignment(*column)))
    });
    let header = Row::new(header).style(Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED));
    let shown = rows.iter().map(|plugin| {
        let cells = columns.iter().map(|column| {
            let is_bad = match column {
                Column::Phase => plugin.problem.is_some(),
                Column::Faults => plugin.n_faults > 0,
                _ => false,
            };
            let style = if is_bad { app.style(Color::Red) } else { Style::new() };
            Cell::new(Text::from(column.text(plugin)).alignment(alignment(*column))).style(style)
        });
        Row::new(cells.collect::<Vec<_>>())
    });
    let widths = fitting.iter().map(|(column, width)| match column {
        Column::Name => Constraint::Min(*width),
        _ => Constraint::Length(*width),
    });
    let table = Table::new(shown, widths)
        .header(header)
        .column_spacing(1)
        .highlight_symbol("> ")
        .row_highlight_style(Style::new().add_modifier(Modifier::BOLD));
    let mut state = TableState::new().with_selected(app.cursor());
    frame.render_stateful_widget(table, area, &mut state);
}

fn footer(app: &App) -> Line<'_> {
    let text = match &app.mode {
        Mode::Filter => return Line::from(vec![Span::raw("Filter: "), Span::raw(&app.filter), Span::raw("_")]),
        Mode::Help => "Esc back   q quit".to_owned(),
        Mode::Detail(_) => "Esc back   q quit   ? keys".to_owned(),
        Mode::Table if !app.filter.is_empty() => format!("Filter: {}   Esc clears it   q quit   ? keys", app.filter),
        Mode::Table => "Enter detail   Left/Right sort   r reverse   / filter   ? keys   q quit".to_owned(),
    };
    Line::styled(text, Style::new().add_modifier(Modifier::DIM))
}

fn detail(frame: &mut Frame<'_>, area: Rect, name: &str, app: &App) {
    let Some(detail) = &app.detail else {
        let is_loaded = app.overview.as_ref().is_none_or(|o| o.plugins.iter().any(|plugin| plugin.name == name));
        let text = if is_loaded { "waiting for the host to answer..." } else { "it is not loaded any more" };
        frame.render_widget(Paragraph::new(format!("{}: {text}", printable(name, MAX_LINE_BYTES))), area);
        return;
    };
    let facts = plugin_facts(detail);
    let n_facts = u16::try_from(facts.len()).unwrap_or(u16::MAX);
    let n_plots = if area.height >= n_facts + 7 { 4 } else { 0 };
    let [about, plots, keys] =
        Layout::vertical([Constraint::Length(n_facts), Constraint::Length(n_plots), Constraint::Min(1)]).areas(area);
    let facts: Vec<Line<'_>> = facts
        .into_iter()
        .map(|(name, value)| {
            Line::from(vec![
                Span::styled(format!("{name:<12}"), Style::new().add_modifier(Modifier::BOLD)),
                Span::raw(value),
            ])
        })
        .collect();
    frame.render_widget(Paragraph::new(facts), about);
    let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).spacing(2).areas(plots);
    if n_plots > 0 {
        let Series { runs_per_second, p99_seconds, .. } = &detail.series;
        plot(frame, left, "Runs/s", runs_per_second.iter().map(|rate| Some(*rate)).collect(), rate, app);
        plot(frame, right, "P99", p99_seconds.clone(), |value| seconds(Some(value)), app);
    }
    frame.render_widget(Paragraph::new(key_lines(detail, usize::from(keys.height))), keys);
}

/// The last minutes as bars, the newest on the right, below a line with the highest value.
fn plot(
    frame: &mut Frame<'_>,
    area: Rect,
    title: &str,
    values: Vec<Option<f64>>,
    text: impl Fn(f64) -> String,
    app: &App,
) {
    let [caption, bars] = Layout::vertical([Constraint::Length(1), Constraint::Min(1)]).areas(area);
    let values = &values[values.len().saturating_sub(usize::from(area.width))..];
    let highest = values.iter().flatten().copied().fold(0.0, f64::max);
    let now = values.last().copied().flatten().map_or_else(|| "-".to_owned(), &text);
    let caption_text = format!("{title} now {now}, highest {}", text(highest));
    frame.render_widget(Paragraph::new(caption_text).style(Style::new().add_modifier(Modifier::BOLD)), caption);
    // Bars need whole numbers.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of 1000")]
    let data =
        values.iter().map(|value| value.map(|value| if highest > 0.0 { (value / highest * 1000.0) as u64 } else { 0 }));
    let bars_of = Sparkline::default().data(data.collect::<Vec<Option<u64>>>()).max(1000).style(app.style(Color::Cyan));
    frame.render_widget(bars_of, bars);
}

/// A plugin in lines with a name and a value.
fn plugin_facts(detail: &PluginDetail) -> Vec<(&'static str, String)> {
    let plugin = &detail.plugin;
    let line = |text: &str| printable(text, MAX_LINE_BYTES);
    let mut facts = vec![("Plugin", format!("{} {}", line(&plugin.name), line(&plugin.version)))];
    facts.push(("Phase", format!("{:?}", plugin.phase)));
    if let Some(problem) = &plugin.problem {
        facts.push(("Problem", line(problem)));
    }
    let runs = &plugin.runs;
    facts.push((
        "Runs",
        format!(
            "{} good, {} failed ({} errors, {} terminal, {} faults)",
            runs.success + runs.requeue_after,
            runs.failed(),
            runs.error,
            runs.terminal_error,
            runs.fault
        ),
    ));
    let of = |part: fn(pintle_core::overview::Quantiles) -> f64| seconds(plugin.latency.map(part));
    facts.push(("Latency", format!("median {}, P90 {}, P99 {}", of(|l| l.p50), of(|l| l.p90), of(|l| l.p99))));
    facts.push((
        "Memory",
        format!(
            "{} instances {}, {} cached objects {}, for runs {}",
            plugin.n_instances,
            bytes(plugin.instance_bytes),
            plugin.n_cached,
            bytes(plugin.cached_bytes),
            bytes(plugin.held_bytes)
        ),
    ));
    facts.push(("Last error", plugin.last_error.as_deref().map_or_else(|| "none".to_owned(), line)));
    facts
}

/// The keys of the queues, as far as they fit.
fn key_lines(detail: &PluginDetail, n_lines: usize) -> Vec<Line<'_>> {
    let n_all: usize =
        detail.queues.iter().map(|queue| queue.n_ready + queue.n_delayed + queue.n_running + queue.n_held).sum();
    let mut keys: Vec<Line<'_>> = Vec::new();
    for queue in &detail.queues {
        for key in &queue.keys {
            let time = match (key.for_ms, key.after_ms) {
                (Some(ms), _) => seconds(Some(std::time::Duration::from_millis(ms).as_secs_f64())),
                (None, Some(ms)) => format!("in {}", seconds(Some(std::time::Duration::from_millis(ms).as_secs_f64()))),
                (None, None) => "-".to_owned(),
            };
            let failures = key.n_failures + key.n_faults;
            // Like the columns: `Ready` is a condition of plugins.
            let state = if key.state == "ready" { "queued" } else { &*key.state };
            keys.push(Line::raw(format!(
                "{state:<8}{time:>10}{failures:>10}  {}",
                printable(&key.key, MAX_LINE_BYTES)
            )));
        }
    }
    if keys.is_empty() {
        return vec![Line::raw("Its queues are empty.")];
    }
    let n_shown = keys.len().min(n_lines.saturating_sub(1));
    keys.truncate(n_shown);
    let title = format!("{:<8}{:>10}{:>10}  KEY ({n_shown} of {n_all})", "STATE", "FOR", "FAILURES");
    keys.insert(0, Line::styled(title, Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED)));
    keys
}
