//! The canonical form of a resource quantity in the API server.
//!
//! Source: `apimachinery/pkg/api/resource`: no fraction, the largest suffix without loss, the suffix family kept.

use serde_json::Value;

const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// The canonical text, or `None` when the value is not a quantity or beyond 128 bits (it is then left alone).
pub(super) fn canonical(value: &Value) -> Option<String> {
    let Parsed { negative, mantissa, scale, suffix } = parse(value)?;
    let canonical = match suffix {
        Suffix::Binary(power) => binary(mantissa, scale, power)?,
        Suffix::Decimal(exponent) => decimal(mantissa, scale + exponent)?,
        Suffix::Exponent(exponent) => exponential(mantissa, scale + exponent)?,
    };
    Some(if negative && canonical != "0" { format!("-{canonical}") } else { canonical })
}

/// The amount in units of 10⁻⁹, rounded up; `None` when the value is no quantity or beyond 128 bits.
pub(crate) fn nanos(value: &Value) -> Option<i128> {
    let Parsed { negative, mut mantissa, mut scale, suffix } = parse(value)?;
    match suffix {
        Suffix::Binary(power) => mantissa = mantissa.checked_mul(1024_i128.checked_pow(power)?)?,
        Suffix::Decimal(exponent) | Suffix::Exponent(exponent) => scale = scale.checked_add(exponent)?,
    }
    let exponent = scale.checked_add(9)?;
    let factor = 10_i128.checked_pow(exponent.unsigned_abs())?;
    let amount =
        if exponent < 0 { mantissa.checked_add(factor - 1)? / factor } else { mantissa.checked_mul(factor)? };
    Some(if negative { -amount } else { amount })
}

/// A quantity as it is written: `mantissa` without its point, which is `-scale` digits from the end.
struct Parsed {
    negative: bool,
    mantissa: i128,
    scale: i32,
    suffix: Suffix,
}

enum Suffix {
    /// A power of 1024.
    Binary(u32),
    /// A power of ten that has a letter.
    Decimal(i32),
    /// A power of ten as a number.
    Exponent(i32),
}

fn parse(value: &Value) -> Option<Parsed> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text.as_str()),
    };
    let end = digits.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(digits.len());
    let (number, suffix) = digits.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let mantissa: i128 = format!("{whole}{fraction}").parse().ok()?;
    let scale = -i32::try_from(fraction.len()).ok()?;
    let suffix = if let Some(power) = BINARY.iter().position(|name| *name == suffix) {
        Suffix::Binary(u32::try_from(power).ok()? + 1)
    } else if let Some((_, exponent)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        Suffix::Decimal(*exponent)
    } else {
        Suffix::Exponent(suffix.strip_prefix(['e', 'E'])?.parse().ok()?)
    };
    Some(Parsed { negative, mantissa, scale, suffix })
}

/// Largest power of a thousand at or below the exponent, with the mantissa that goes with it.
fn normalized(mut mantissa: i128, mut exponent: i32, highest: i32) -> Option<(i128, i32)> {
    if mantissa == 0 {
        return Some((0, 0));
    }
    while mantissa % 10 == 0 {
        mantissa /= 10;
        exponent += 1;
    }
    // Parts below a billionth are rounded up.
    while exponent < -9 {
        mantissa = (mantissa + 9).div_euclid(10);
        exponent += 1;
    }
    let target = (exponent.div_euclid(3) * 3).min(highest);
    let factor = 10_i128.checked_pow(u32::try_from(exponent - target).ok()?)?;
    Some((mantissa.checked_mul(factor)?, target))
}

fn decimal(mantissa: i128, exponent: i32) -> Option<String> {
    let (mantissa, exponent) = normalized(mantissa, exponent, 18)?;
    let (suffix, _) = DECIMAL.iter().find(|(_, power)| *power == exponent)?;
    Some(format!("{mantissa}{suffix}"))
}

fn exponential(mantissa: i128, exponent: i32) -> Option<String> {
    let (mantissa, exponent) = normalized(mantissa, exponent, i32::MAX / 4)?;
    Some(if exponent == 0 { mantissa.to_string() } else { format!("{mantissa}e{exponent}") })
}

fn binary(mantissa: i128, scale: i32, power: u32) -> Option<String> {
    let value = mantissa.checked_mul(1024_i128.checked_pow(power)?)?;
    let divisor = 10_i128.checked_pow(scale.unsigned_abs())?;
    if value % divisor != 0 || value / divisor < 1024 {
        return decimal(value, scale);
    }
    let (mut value, mut power) = (value / divisor, 0);
    while value % 1024 == 0 && power < BINARY.len() {
        value /= 1024;
        power += 1;
    }
    Some(match power {
        0 => value.to_string(),
        power => format!("{value}{}", BINARY[power - 1]),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn amounts_are_compared_whatever_their_suffix() {
        for (one, other) in [("0.5", "500m"), ("1Gi", "1073741824"), ("1e3", "1k"), ("-1000m", "-1"), ("0.1n", "1n")] {
            assert_eq!(nanos(&json!(one)), nanos(&json!(other)), "{one}");
        }
        assert!(nanos(&json!("1Gi")) > nanos(&json!("1G")));
        assert_eq!((nanos(&json!("lots")), nanos(&Value::Null)), (None, None));
    }

    #[test]
    fn quantities_are_written_in_one_way() {
        for (given, wanted) in [
            (json!("1000m"), "1"),
            (json!("0.5"), "500m"),
            (json!(2), "2"),
            (json!("1024Mi"), "1Gi"),
            (json!("1.5Gi"), "1536Mi"),
            (json!("1000"), "1k"),
            (json!("100m"), "100m"),
            (json!("0"), "0"),
            (json!("1Ki"), "1Ki"),
            (json!("0.5Ki"), "512"),
            (json!("-1000m"), "-1"),
            (json!("1e3"), "1e3"),
            (json!("128974848"), "128974848"),
            (json!("1500k"), "1500k"),
            (json!("1200"), "1200"),
        ] {
            assert_eq!(canonical(&given).as_deref(), Some(wanted), "{given}");
        }
        assert_eq!(canonical(&json!("lots")), None);
    }
}
