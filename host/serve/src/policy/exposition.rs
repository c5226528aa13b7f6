//! Text formats of metrics: OpenMetrics, as the host's library writes it, and Prometheus' own, as
//! kube-controller-manager serves it.
//!
//! A client that accepts both gets Prometheus' format, although Prometheus prefers the other one: the `le` labels of
//! histograms differ (`1` and `1.0`), and rules and dashboards are written for those of kube-controller-manager.
//!
//! Source: `promhttp.HandlerOpts.EnableOpenMetrics`, which k8s.io/component-base leaves off; `expfmt/text_create.go` of
//! github.com/prometheus/common.

use std::borrow::Cow;

/// A text format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposition {
    /// Prometheus' text format.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Exposition {
    /// The format for this `Accept` header: OpenMetrics only if the client does not accept Prometheus' format.
    pub fn negotiate(accept: &str) -> Self {
        let accepted = |media_types: &[&str]| {
            accept.split(',').any(|alternative| {
                let mut parts = alternative.split(';').map(str::trim);
                let media_type = parts.next().unwrap_or_default().to_ascii_lowercase();
                let quality = parts.find_map(|part| part.strip_prefix("q=")?.parse::<f64>().ok()).unwrap_or(1.0);
                quality > 0.0 && media_types.contains(&&*media_type)
            })
        };
        let text = accept.trim().is_empty() || accepted(&["text/plain", "text/*", "*/*"]);
        if !text && accepted(&["application/openmetrics-text", "application/*"]) {
            return Self::OpenMetrics;
        }
        Self::Prometheus
    }

    /// Its content type.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Converts OpenMetrics text to this format.
    pub fn write(self, openmetrics: String) -> String {
        match self {
            Self::Prometheus => prometheus(&openmetrics),
            Self::OpenMetrics => openmetrics,
        }
    }
}

/// Prometheus' format: a counter also has its suffix in its description, or is of unknown type in OpenMetrics if its name
/// has none; a backslash in a help text is escaped, bucket bounds are written as in Go, and there is no end marker.
fn prometheus(openmetrics: &str) -> String {
    let mut out = String::with_capacity(openmetrics.len() + openmetrics.len() / 16);
    let mut lines = openmetrics.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            // The type is in the next line.
            let suffix = match lines.peek() {
                Some(kind) if kind.starts_with("# TYPE ") && kind.ends_with(" counter") => "_total",
                _ => "",
            };
            let (name, text) = help.split_once(' ').unwrap_or((help, ""));
            let text = text.replace('\\', "\\\\");
            push(&mut out, &["# HELP ", name, suffix, " ", &text]);
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            match kind.rsplit_once(' ') {
                Some((name, "counter")) => push(&mut out, &["# TYPE ", name, "_total counter"]),
                Some((name, "unknown")) => push(&mut out, &["# TYPE ", name, " counter"]),
                _ => push(&mut out, &[line]),
            }
        } else if !line.starts_with('#') {
            push(&mut out, &[&sample(line)]);
        }
    }
    out
}

fn push(out: &mut String, parts: &[&str]) {
    parts.iter().for_each(|part| out.push_str(part));
    out.push('\n');
}

/// A sample; `le`, which the library writes first, in Go's format.
fn sample(line: &str) -> Cow<'_, str> {
    const LE: &str = "_bucket{le=\"";
    // Searches after the first brace, so that the value of another label is never matched.
    let at = line.find('{').and_then(|brace| line.get(..brace + LE.len() - "_bucket{".len() + 1)).unwrap_or_default();
    if !at.ends_with(LE) {
        return Cow::Borrowed(line);
    }
    let Some((bound, rest)) = line.get(at.len()..).and_then(|rest| rest.split_once('"')) else {
        return Cow::Borrowed(line);
    };
    match bound.parse::<f64>() {
        Ok(number) if number.is_finite() => Cow::Owned(format!("{at}{}\"{rest}", go(number))),
        _ => Cow::Borrowed(line),
    }
}

/// A number in the format of Go's `strconv.FormatFloat(number, 'g', -1, 64)`: the shortest digits, with an exponent if
/// that is below -4 or above 5.
fn go(number: f64) -> String {
    let scientific = format!("{number:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let Ok(exponent) = exponent.parse::<i32>() else { return scientific };
    if (-4..6).contains(&exponent) {
        return number.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_go_writes_them() {
        // Output of `strconv.FormatFloat(number, 'g', -1, 64)`.
        for (number, text) in [
            (1e-8, "1e-08"),
            (9.999_999_999_999_999e-6, "9.999999999999999e-06"),
            (9.999_999_999_999_999e-5, "9.999999999999999e-05"),
            (0.0001, "0.0001"),
            (0.00025, "0.00025"),
            (1.0, "1"),
            (2.5, "2.5"),
            (262_144.0, "262144"),
            (1_048_576.0, "1.048576e+06"),
            (16_777_216.0, "1.6777216e+07"),
            (1e20, "1e+20"),
            (1e22, "1e+22"),
        ] {
            assert_eq!(go(number), text);
        }
    }

    #[test]
    fn openmetrics_becomes_the_text_form_of_prometheus() {
        let openmetrics = r#"# HELP workqueue_adds Total number of adds.
# TYPE workqueue_adds counter
workqueue_adds_total{name="a"} 1
# HELP size A back\slash.
# TYPE size histogram
# UNIT size bytes
size_sum{le="1.0"} 3.5
size_bucket{le="1.0",color="x_bucket{le=\"2.0\""} 1
size_bucket{le="1048576.0",color="y"} 1
size_bucket{le="+Inf",color="y"} 1
# HELP up Up.
# TYPE up gauge
up 1
# HELP changes Number of changes.
# TYPE changes unknown
changes 1.0
# EOF
"#;
        let prometheus = r#"# HELP workqueue_adds_total Total number of adds.
# TYPE workqueue_adds_total counter
workqueue_adds_total{name="a"} 1
# HELP size A back\\slash.
# TYPE size histogram
size_sum{le="1.0"} 3.5
size_bucket{le="1",color="x_bucket{le=\"2.0\""} 1
size_bucket{le="1.048576e+06",color="y"} 1
size_bucket{le="+Inf",color="y"} 1
# HELP up Up.
# TYPE up gauge
up 1
# HELP changes Number of changes.
# TYPE changes counter
changes 1.0
"#;
        assert_eq!(Exposition::Prometheus.write(openmetrics.to_owned()), prometheus);
        assert_eq!(Exposition::OpenMetrics.write(openmetrics.to_owned()), openmetrics);
    }

    #[test]
    fn clients_get_the_form_that_kube_controller_manager_serves_unless_they_accept_openmetrics_alone() {
        // Prometheus 2.42's.
        let scraper = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        for accept in ["", "*/*", "text/plain", "text/html, text/*", scraper, "image/png", "text/plain;q=x"] {
            assert_eq!(Exposition::negotiate(accept), Exposition::Prometheus, "{accept}");
        }
        for accept in [
            "application/openmetrics-text",
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            "application/openmetrics-text, text/plain;q=0",
            "APPLICATION/OpenMetrics-Text",
        ] {
            assert_eq!(Exposition::negotiate(accept), Exposition::OpenMetrics, "{accept}");
        }
    }
}
