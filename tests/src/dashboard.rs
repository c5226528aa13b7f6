//! The committed Grafana dashboard: its queries, and a page with what they answer, for people.

use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::prometheus::Series;
use crate::workspace_dir;

/// A panel.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Its title.
    pub title: String,
    /// `timeseries`, `stat` or `table`.
    pub kind: String,
    /// The unit, in Grafana's words.
    pub unit: String,
    /// Column, row, width and height of Grafana's grid.
    pub place: [u64; 4],
    /// Queries, and the forms of their legends.
    pub targets: Vec<(String, String)>,
    /// Values, words for them, and their colors.
    pub words: Vec<(String, String, String)>,
}

/// The title of a row, and its place in Grafana's grid.
pub type Row = (String, u64);

/// The panels of the dashboard, and the titles of its rows with their places.
///
/// # Errors
/// The file is not what Grafana imports.
pub fn read() -> Result<(Vec<Panel>, Vec<Row>)> {
    let file = workspace_dir().join("host/deploy/grafana/pintle.json");
    let text = std::fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
    let dashboard: Value = serde_json::from_str(&text)?;
    let text_of = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (mut panels, mut rows) = (Vec::new(), Vec::new());
    for panel in dashboard["panels"].as_array().context("no panels")? {
        let place = ["x", "y", "w", "h"].map(|of| panel["gridPos"][of].as_u64().unwrap_or_default());
        if panel["type"] == "row" {
            rows.push((text_of(&panel["title"]), place[1]));
            continue;
        }
        let targets = panel["targets"].as_array().context("a panel without queries")?;
        for target in targets {
            ensure!(target["datasource"]["uid"] == "${datasource}", "{} has a fixed data source", panel["title"]);
        }
        let defaults = &panel["fieldConfig"]["defaults"];
        let words = defaults["mappings"].as_array().into_iter().flatten().filter_map(|m| m["options"].as_object());
        panels.push(Panel {
            title: text_of(&panel["title"]),
            kind: text_of(&panel["type"]),
            unit: text_of(&defaults["unit"]),
            place,
            targets: targets
                .iter()
                .map(|target| (text_of(&target["expr"]), text_of(&target["legendFormat"])))
                .collect(),
            words: words
                .flatten()
                .map(|(of, word)| (of.clone(), text_of(&word["text"]), text_of(&word["color"])))
                .collect(),
        });
    }
    Ok((panels, rows))
}

/// A query with the values of the dashboard's variables: all hosts and plugins of a job.
pub fn filled_in(query: &str, job: &str) -> String {
    let filled = query.replace("$__rate_interval", "15s").replace("$job", job);
    filled.replace("$instance", ".*").replace("$plugin", ".*")
}

/// The legend of a series.
fn legend(form: &str, series: &Series) -> String {
    let mut legend = form.to_owned();
    let labels = series.labels.as_object().into_iter().flatten();
    for (name, value) in labels.clone() {
        legend = legend.replace(&format!("{{{{{name}}}}}"), value.as_str().unwrap_or_default());
    }
    if form.is_empty() {
        let labels = labels.map(|(_, value)| value.as_str().unwrap_or_default().chars().take(24).collect::<String>());
        return labels.collect::<Vec<_>>().join("  ");
    }
    legend
}

/// A value with its unit.
fn shown(value: f64, unit: &str) -> String {
    let scaled = |steps: &[(f64, &str)]| {
        let (by, name) = steps.iter().find(|(by, _)| value.abs() >= *by).or(steps.last()).copied().unwrap_or((1.0, ""));
        format!("{:.3}", value / by).trim_end_matches('0').trim_end_matches('.').to_owned() + name
    };
    match unit {
        "s" => scaled(&[(60.0, " min"), (1.0, " s"), (1e-3, " ms"), (1e-6, " µs")]),
        "bytes" | "Bps" => scaled(&[(1e9, " GB"), (1e6, " MB"), (1e3, " kB"), (1.0, " B")]),
        "percentunit" => format!("{:.1} %", value * 100.0),
        _ => scaled(&[(1e6, " M"), (1e4, " k"), (1.0, "")]),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

const COLORS: [&str; 8] = ["#73bf69", "#f2cc0c", "#5794f2", "#ff9830", "#f2495c", "#b877d9", "#8ab8ff", "#c0d8ff"];

/// A page with all panels and what their queries answered: for each panel the series of each query.
pub fn page(panels: &[Panel], rows: &[Row], answers: &[Vec<Vec<Series>>]) -> String {
    let (across, down) = (66, 32);
    let bottom = panels.iter().map(|panel| panel.place[1] + panel.place[3]).max().unwrap_or(0) * down + 20;
    let mut page = format!(
        "<!doctype html><meta charset=utf-8><title>Pintle</title><style>
body{{background:#111217;color:#ccccdc;font:12px sans-serif;margin:0;position:relative;width:{}px;height:{bottom}px}}
.p{{position:absolute;background:#181b1f;border:1px solid #2b2e34;box-sizing:border-box;overflow:hidden;padding:6px}}
.r{{position:absolute;left:8px;font-size:15px;font-weight:bold}} b{{font-size:13px}} .l{{white-space:nowrap;line-height:15px}}
.s{{display:inline-block;margin:6px 14px 0 0}} .s i{{font:normal 26px sans-serif;display:block;color:#73bf69}} td{{padding:1px 10px 1px 0}}
</style>\n",
        24 * across + 16
    );
    for (title, y) in rows {
        let _ = writeln!(page, "<div class=r style='top:{}px'>{}</div>", y * down + 10, escaped(title));
    }
    for (panel, answer) in panels.iter().zip(answers) {
        let [x, y, w, h] = panel.place;
        let (width, height) = (w * across - 6, h * down - 6);
        let (left, top) = (x * across + 8, y * down);
        let style = format!("left:{left}px;top:{top}px;width:{width}px;height:{height}px");
        let _ = writeln!(page, "<div class=p style='{style}'><b>{}</b>", escaped(&panel.title));
        let all: Vec<(String, &Series)> = panel
            .targets
            .iter()
            .zip(answer)
            .flat_map(|((_, form), series)| series.iter().map(move |series| (legend(form, series), series)))
            .filter(|(_, series)| series.points.iter().any(|(_, value)| value.is_finite()))
            .collect();
        let last = |series: &Series| series.points.iter().rev().find(|(_, v)| v.is_finite()).map_or(0.0, |(_, v)| *v);
        match &*panel.kind {
            "stat" => {
                page.push_str("<div>");
                for (name, series) in &all {
                    let word = panel.words.iter().find(|(value, ..)| *value == last(series).to_string());
                    let text = word.map_or_else(|| shown(last(series), &panel.unit), |(_, word, _)| word.clone());
                    let color = word.map_or("", |(.., color)| color);
                    let style = format!("style='color:{color}'");
                    let _ = write!(page, "<span class=s><i {style}>{}</i>{}</span>", escaped(&text), escaped(name));
                }
                page.push_str("</div>");
            }
            "table" => {
                page.push_str("<table>");
                let newest = |series: &Series| series.points.last().map_or(0.0, |(at, _)| *at);
                let now = all.iter().map(|(_, series)| newest(series)).fold(0.0, f64::max);
                all.iter().filter(|(_, series)| now - newest(series) < 1.5).for_each(|(name, _)| {
                    let _ = write!(page, "<tr><td>{}", escaped(name).replace("  ", "<td>"));
                });
                page.push_str("</table>");
            }
            _ => plot(&mut page, panel, &all, width - 14, 120),
        }
        page.push_str("</div>\n");
    }
    page
}

/// Lines, and a legend with the last and the largest values.
fn plot(page: &mut String, panel: &Panel, all: &[(String, &Series)], width: u64, height: u64) {
    let points = || all.iter().flat_map(|(_, series)| &series.points).filter(|(_, value)| value.is_finite());
    let (from, to) = points().fold((f64::MAX, f64::MIN), |(from, to), (at, _)| (from.min(*at), to.max(*at)));
    let top = points().fold(0.0_f64, |top, (_, value)| top.max(*value));
    let (wide, high) = (width as f64, height as f64);
    let x = |at: f64| 4.0 + (wide - 64.0) * (at - from) / (to - from).max(1.0) + 56.0;
    let y = |value: f64| high - 4.0 - (high - 14.0) * if top > 0.0 { value / top } else { 0.0 };
    let _ = write!(page, "<svg width={width} height={height}>");
    for part in [0.0, 0.5, 1.0] {
        let at = y(top * part);
        let _ = write!(page, "<line x1=60 x2={wide} y1={at:.1} y2={at:.1} stroke=#2b2e34 />");
        let _ = write!(
            page,
            "<text x=54 y={:.1} fill=#999 font-size=10 text-anchor=end>{}</text>",
            at + 3.0,
            shown(top * part, &panel.unit)
        );
    }
    for (n, (_, series)) in all.iter().enumerate() {
        let mut line = String::new();
        let mut before: Option<f64> = None;
        for (at, value) in series.points.iter().filter(|(_, value)| value.is_finite()) {
            // A gap is a gap.
            let word = if before.is_some_and(|before| at - before < 3.0) { 'L' } else { 'M' };
            let _ = write!(line, "{word}{:.1},{:.1}", x(*at), y(*value));
            before = Some(*at);
        }
        let _ = write!(page, "<path d='{line}' fill=none stroke={} stroke-width=1.3 />", COLORS[n % COLORS.len()]);
    }
    page.push_str("</svg>");
    let mut order: Vec<usize> = (0..all.len()).collect();
    let most = |n: usize| all[n].1.points.iter().map(|(_, v)| *v).filter(|v| v.is_finite()).fold(0.0, f64::max);
    order.sort_by(|a, b| most(*b).total_cmp(&most(*a)));
    for n in order.into_iter().take(5) {
        let (name, color) = (escaped(&all[n].0), COLORS[n % COLORS.len()]);
        let _ = write!(
            page,
            "<div class=l><span style='color:{color}'>&#9644;</span> {name} &nbsp; max {}</div>",
            shown(most(n), &panel.unit)
        );
    }
    if all.len() > 5 {
        let _ = write!(page, "<div class=l>and {} more</div>", all.len() - 5);
    }
}
