//! Metrics disabled by an operator, as with `--disabled-metrics` of Kubernetes' components.

use std::collections::BTreeSet;

/// Removes the metrics with these names from an OpenMetrics text; the name of a counter ends in `_total`.
pub fn without(openmetrics: String, disabled: &BTreeSet<String>) -> String {
    if disabled.is_empty() {
        return openmetrics;
    }
    let is_disabled = |family: &str, is_counter: bool| match is_counter {
        true => disabled.contains(&format!("{family}_total")),
        false => disabled.contains(family),
    };
    let mut out = String::with_capacity(openmetrics.len());
    let mut lines = openmetrics.lines().peekable();
    let mut skipped = false;
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let family = help.split(' ').next().unwrap_or_default();
            // The type is in the next line.
            let is_counter = lines.peek().is_some_and(|kind| kind.starts_with("# TYPE ") && kind.ends_with(" counter"));
            skipped = is_disabled(family, is_counter);
        } else if line == "# EOF" {
            skipped = false;
        }
        if !skipped {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# HELP a First.\n# TYPE a counter\na_total{b=\"# HELP c\"} 1\n# HELP h Histogram.\n# TYPE h histogram\n\
                        h_sum 1\nh_bucket{le=\"+Inf\"} 1\n# HELP g Gauge.\n# TYPE g gauge\ng 2\n# EOF\n";

    #[test]
    fn disabled_metrics_are_left_out_whole_and_the_end_stays() {
        let of = |names: &[&str]| without(TEXT.to_owned(), &names.iter().map(|name| (*name).to_owned()).collect());
        assert_eq!(of(&[]), TEXT);
        assert_eq!(of(&["a", "g_total", "h_sum", "other"]), TEXT, "these are not names of metrics");
        assert_eq!(
            of(&["a_total", "g"]),
            "# HELP h Histogram.\n# TYPE h histogram\nh_sum 1\nh_bucket{le=\"+Inf\"} 1\n# EOF\n"
        );
        assert_eq!(of(&["a_total", "g", "h"]), "# EOF\n");
    }
}
