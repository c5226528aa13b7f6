//! Resource quantities as numbers.
//!
//! Source: the formats of `apimachinery/pkg/api/resource`.

/// Suffixes and their factors.
const SUFFIXES: [(&str, f64); 16] = [
    ("Ki", 1024.0),
    ("Mi", 1_048_576.0),
    ("Gi", 1_073_741_824.0),
    ("Ti", 1_099_511_627_776.0),
    ("Pi", 1_125_899_906_842_624.0),
    ("Ei", 1_152_921_504_606_846_976.0),
    ("n", 1e-9),
    ("u", 1e-6),
    ("m", 1e-3),
    ("k", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("T", 1e12),
    ("P", 1e15),
    ("E", 1e18),
    ("", 1.0),
];

/// The number in a quantity such as `250m`, `1Gi` or `1e3`.
pub(crate) fn quantity(text: &str) -> Option<f64> {
    let text = text.trim();
    let (number, factor) = SUFFIXES.iter().find_map(|(suffix, factor)| Some((text.strip_suffix(suffix)?, factor)))?;
    let is_number =
        number.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'+' | b'e' | b'E'));
    let value: f64 = number.parse().ok().filter(|_| is_number)?;
    Some(value * factor).filter(|value| value.is_finite())
}

/// A quantity in whole numbers or thousandths, rounded up.
pub(crate) fn quantity_text(value: f64) -> String {
    let thousandths = (value * 1000.0 - 1e-6).ceil().max(0.0) + 0.0;
    if thousandths % 1000.0 == 0.0 { format!("{:.0}", thousandths / 1000.0) } else { format!("{thousandths:.0}m") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_are_factors() {
        for (text, wanted) in [
            ("1", Some(1.0)),
            ("250m", Some(0.25)),
            ("1.5Gi", Some(1_610_612_736.0)),
            ("10k", Some(10_000.0)),
            ("1e3", Some(1_000.0)),
            ("2E", Some(2e18)),
            ("-5", Some(-5.0)),
            ("", None),
            ("Gi", None),
            ("inf", None),
            ("1 Gi", None),
            ("many", None),
        ] {
            assert_eq!(quantity(text), wanted, "{text}");
        }
    }

    #[test]
    fn fractions_are_thousandths() {
        for (value, wanted) in
            [(0.0, "0"), (2.0, "2"), (0.25, "250m"), (1.0 / 3.0, "334m"), (1_048_576.0, "1048576"), (-1.0, "0")]
        {
            assert_eq!(quantity_text(value), wanted, "{value}");
        }
    }
}
