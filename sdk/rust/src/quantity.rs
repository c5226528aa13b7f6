//! Resource quantities, such as `100m` CPUs or `1536Mi` of memory: parsing, arithmetic, comparison and printing.
//!
//! ```
//! use pintle_sdk::quantity::Quantity;
//!
//! let request: Quantity = "1.5Gi".parse()?;
//! let other: Quantity = "512Mi".parse()?;
//! assert_eq!((request + other).to_string(), "2Gi");
//! assert_eq!("0.1".parse::<Quantity>()?.milli_value(), 100);
//! assert!("1000m".parse::<Quantity>()? == "1".parse()?);
//! # Ok::<(), pintle_sdk::Error>(())
//! ```
//!
//! 1. A quantity is exact to a billionth (`n`). Parsing rounds smaller parts away from zero.
//! 2. The text form is always the canonical one: no fraction, the largest suffix without a fraction, the suffix family
//!    of the parsed text (for sums, of the first quantity that is not zero). Quantities with binary suffixes that are
//!    below 1024, or not whole, are written with decimal ones.
//! 3. A number without digits is zero: `m`, `.`.
//! 4. Parsing limits quantities with a binary suffix to 2^63 - 1. Others are limited to about 1.7 × 10^29: parsing a
//!    larger one is an error, and arithmetic saturates.
//!
//! *Source*: `Quantity` of Kubernetes' `apimachinery/pkg/api/resource/quantity.go`, `amount.go`, `suffix.go`.
//! Differences: upstream limits numbers only for binary suffixes, keeps the text of some quantities (`1.500`, `+1`)
//! until they are changed, and drops the suffix of 1000 or more `E`.

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, AddAssign, Neg, Sub, SubAssign};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::Error;

/// Billionths in one.
const ONE: i128 = 1_000_000_000;

/// Largest quantity that is parsed with a binary suffix.
const MOST_BINARY: i128 = i64::MAX as i128 * ONE;

/// Suffix family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "DecimalSI")]
pub enum Format {
    /// `n`, `u`, `m`, none, `k`, `M`, `G`, `T`, `P`, `E`: powers of 1000.
    #[default]
    Decimal,
    /// `Ki`, `Mi`, `Gi`, `Ti`, `Pi`, `Ei`: powers of 1024.
    Binary,
    /// `e3`, `e-6`: powers of ten.
    Exponent,
}

/// A resource quantity. Equality and order compare the amounts and ignore the [`Format`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

impl Quantity {
    /// Zero.
    pub const ZERO: Self = Self { nanos: 0, format: Format::Decimal };

    /// A whole quantity.
    #[doc(alias = "NewQuantity")]
    pub const fn new(value: i64, format: Format) -> Self {
        Self { nanos: value as i128 * ONE, format }
    }

    /// A quantity in thousandths, such as CPUs.
    #[doc(alias = "NewMilliQuantity")]
    pub const fn from_milli(value: i64, format: Format) -> Self {
        Self { nanos: value as i128 * (ONE / 1000), format }
    }

    /// Suffix family of the text form.
    pub const fn format(self) -> Format {
        self.format
    }

    /// Whether it is zero.
    pub const fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Whether it is negative.
    pub const fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// The value in whole numbers, rounded away from zero; the nearest `i64` if it is out of range.
    pub fn value(self) -> i64 {
        scaled(self.nanos, ONE)
    }

    /// The value in thousandths, as [`value`](Self::value).
    pub fn milli_value(self) -> i64 {
        scaled(self.nanos, ONE / 1000)
    }

    /// The exact value in billionths.
    #[doc(alias = "ScaledValue")]
    pub const fn nanos(self) -> i128 {
        self.nanos
    }

    /// The value as a floating point number, for ratios.
    #[doc(alias = "AsApproximateFloat64")]
    #[allow(clippy::cast_precision_loss, reason = "it says so")]
    pub fn approximate(self) -> f64 {
        self.nanos as f64 / ONE as f64
    }

    /// The quantity multiplied by an integer.
    #[must_use]
    pub const fn times(self, factor: i64) -> Self {
        Self { nanos: self.nanos.saturating_mul(factor as i128), ..self }
    }

    /// A sum keeps the format of the first quantity, unless that is zero.
    fn format_with(self, other: Self) -> Format {
        if self.is_zero() { other.format } else { self.format }
    }
}

fn scaled(nanos: i128, unit: i128) -> i64 {
    let rounded = nanos / unit + if nanos % unit == 0 { 0 } else { nanos.signum() };
    i64::try_from(rounded).unwrap_or(if rounded < 0 { i64::MIN } else { i64::MAX })
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl Add for Quantity {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_add(other.nanos), format: self.format_with(other) }
    }
}

impl Sub for Quantity {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_sub(other.nanos), format: self.format_with(other) }
    }
}

impl Neg for Quantity {
    type Output = Self;

    fn neg(self) -> Self {
        Self { nanos: self.nanos.saturating_neg(), ..self }
    }
}

impl AddAssign for Quantity {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Quantity {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl std::iter::Sum for Quantity {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Quantity {
    /// The canonical form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return f.write_str("0");
        }
        let is_binary = self.format == Format::Binary && self.nanos % ONE == 0 && self.nanos.abs() >= 1024 * ONE;
        if is_binary {
            const SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
            let (mut amount, mut power) = (self.nanos / ONE, 0);
            while amount % 1024 == 0 && power + 1 < SUFFIXES.len() {
                amount /= 1024;
                power += 1;
            }
            return write!(f, "{amount}{}", SUFFIXES[power]);
        }
        const SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
        let (mut amount, mut power) = (self.nanos, 0);
        while amount % 1000 == 0 && (power + 1 < SUFFIXES.len() || self.format == Format::Exponent) {
            amount /= 1000;
            power += 1;
        }
        match self.format {
            Format::Exponent if power == 3 => write!(f, "{amount}"),
            // At most 39 digits.
            Format::Exponent => write!(f, "{amount}e{}", power as i32 * 3 - 9),
            Format::Decimal | Format::Binary => write!(f, "{amount}{}", SUFFIXES[power]),
        }
    }
}

/// Parse errors.
enum Flaw {
    Malformed,
    TooLarge,
}

impl FromStr for Quantity {
    type Err = Error;

    /// Parses a quantity.
    ///
    /// # Errors
    /// Terminal, if it is malformed or too large.
    #[doc(alias = "ParseQuantity")]
    fn from_str(text: &str) -> Result<Self, Error> {
        parse(text).map_err(|flaw| {
            Error::terminal(match flaw {
                Flaw::Malformed => format!(
                    "quantity {text:?} is not a number with an optional suffix: \
                     n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei or an exponent such as e3"
                ),
                Flaw::TooLarge => format!("quantity {text:?} is beyond 1.7e29, the end of the range"),
            })
        })
    }
}

fn parse(text: &str) -> Result<Quantity, Flaw> {
    if text.is_empty() {
        return Err(Flaw::Malformed);
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (whole, rest) = digits(unsigned);
    let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), digits);
    let (format, unit) = unit(suffix).ok_or(Flaw::Malformed)?;
    let mut amount = match unit {
        Unit::Two(power) => multiply(whole, fraction, ONE << power).unwrap_or(MOST_BINARY).min(MOST_BINARY),
        Unit::Ten(power) => shift(whole, fraction, power).ok_or(Flaw::TooLarge)?,
    };
    let is_small = format == Format::Binary && (1..ONE).contains(&amount);
    if text.starts_with('-') {
        amount = -amount;
    }
    Ok(Quantity { nanos: amount, format: if is_small { Format::Decimal } else { format } })
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

enum Unit {
    Ten(i64),
    Two(u32),
}

fn unit(suffix: &str) -> Option<(Format, Unit)> {
    let unit = match suffix {
        "n" => Unit::Ten(-9),
        "u" => Unit::Ten(-6),
        "m" => Unit::Ten(-3),
        "" => Unit::Ten(0),
        "k" => Unit::Ten(3),
        "M" => Unit::Ten(6),
        "G" => Unit::Ten(9),
        "T" => Unit::Ten(12),
        "P" => Unit::Ten(15),
        "E" => Unit::Ten(18),
        "Ki" => Unit::Two(10),
        "Mi" => Unit::Two(20),
        "Gi" => Unit::Two(30),
        "Ti" => Unit::Two(40),
        "Pi" => Unit::Two(50),
        "Ei" => Unit::Two(60),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?;
            return Some((Format::Exponent, Unit::Ten(exponent.parse().ok()?)));
        }
    };
    let format = if matches!(unit, Unit::Two(_)) { Format::Binary } else { Format::Decimal };
    Some((format, unit))
}

/// `whole.fraction` times a unit, rounded up; `None` if it is too large.
fn multiply(whole: &str, fraction: &str, unit: i128) -> Option<i128> {
    let whole = whole.bytes().try_fold(0_i128, |sum, digit| sum.checked_mul(10)?.checked_add((digit - b'0').into()))?;
    let (mut part, mut is_exact) = (0_i128, true);
    // From the last digit: the remainder of a division affects only the rounding of the result.
    for digit in fraction.bytes().rev() {
        let sum = i128::from(digit - b'0') * unit + part;
        part = sum / 10;
        is_exact &= sum % 10 == 0;
    }
    whole.checked_mul(unit)?.checked_add(part)?.checked_add(i128::from(!is_exact))
}

/// `whole.fraction` with the point moved, in billionths, rounded up; `None` if it is too large.
fn shift(whole: &str, fraction: &str, power: i64) -> Option<i128> {
    let digits = || whole.bytes().chain(fraction.bytes()).map(|digit| digit - b'0');
    let length = i64::try_from(whole.len()).ok()?;
    // Digits of whole billionths.
    let kept = usize::try_from(length.saturating_add(power).saturating_add(9)).unwrap_or(0);
    let n_digits = whole.len() + fraction.len();
    let mut amount = 0_i128;
    for digit in digits().take(kept) {
        amount = amount.checked_mul(10)?.checked_add(digit.into())?;
    }
    if amount != 0 {
        for _ in n_digits..kept {
            amount = amount.checked_mul(10)?;
        }
    }
    amount.checked_add(i128::from(digits().skip(kept).any(|digit| digit != 0)))
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    /// From a text or a number.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Amount;

        impl serde::de::Visitor<'_> for Amount {
            type Value = Quantity;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity such as 100m or 1Gi")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Quantity, E> {
                text.trim().parse().map_err(E::custom)
            }

            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Quantity, E> {
                Ok(Quantity::new(number, Format::Decimal))
            }

            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Quantity, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Quantity, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_unit<E: serde::de::Error>(self) -> Result<Quantity, E> {
                Ok(Quantity::ZERO)
            }
        }

        deserializer.deserialize_any(Amount)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text, canonical form, value and thousandths, from Kubernetes 1.37.2; `!` is an error, `-` is left out.
    const QUANTITIES: &str = include_str!("../tests/data/quantities.txt");
    /// Two texts, their sum, their difference, and their order.
    const SUMS: &str = include_str!("../tests/data/sums.txt");

    fn rows(table: &str) -> impl Iterator<Item = Vec<&str>> {
        table.lines().map(|line| line.split('\t').collect())
    }

    #[test]
    fn texts_mean_what_they_mean_upstream() {
        assert!(rows(QUANTITIES).count() > 200);
        for row in rows(QUANTITIES) {
            let parsed = row[0].parse::<Quantity>();
            if row[1] == "!" {
                assert!(parsed.is_err(), "{}", row[0]);
                continue;
            }
            let parsed = parsed.unwrap();
            assert_eq!(parsed.to_string(), row[1], "{}", row[0]);
            for (name, number, wanted) in [("value", parsed.value(), row[2]), ("milli", parsed.milli_value(), row[3])] {
                assert!(wanted == "-" || number.to_string() == wanted, "{name} of {}: {number}, {wanted}", row[0]);
            }
        }
    }

    #[test]
    fn sums_differences_and_order_are_those_of_upstream() {
        assert!(rows(SUMS).count() > 100);
        for row in rows(SUMS) {
            let (a, b): (Quantity, Quantity) = (row[0].parse().unwrap(), row[1].parse().unwrap());
            assert_eq!((a + b).to_string(), row[2], "{} + {}", row[0], row[1]);
            assert_eq!((a - b).to_string(), row[3], "{} - {}", row[0], row[1]);
            assert_eq!((a.cmp(&b) as i8).to_string(), row[4], "{} <=> {}", row[0], row[1]);
        }
    }

    #[test]
    fn what_is_out_of_range_is_an_error_or_stays_at_the_end() {
        for text in ["1e30", "1e999999999999", "9999999999999999999999999999999999999999"] {
            let error = text.parse::<Quantity>().unwrap_err().to_string();
            assert!(error.contains("end of the range"), "{error}");
        }
        let error = "1.1.M".parse::<Quantity>().unwrap_err().to_string();
        assert!(error.contains("n, u, m, k"), "{error}");
        assert_eq!("0e99999".parse::<Quantity>().unwrap(), Quantity::ZERO);
        assert_eq!("1e-99999".parse::<Quantity>().unwrap().to_string(), "1e-9");
        let large: Quantity = "1e29".parse().unwrap();
        assert!(large + large > large && (large + large).times(1000) >= large + large);
        assert_eq!((large.value(), (-large).value()), (i64::MAX, i64::MIN));
        assert_eq!("1000E".parse::<Quantity>().unwrap().to_string(), "1000E");
    }

    #[test]
    fn negative_amounts_round_away_from_zero() {
        let amount: Quantity = "-1500m".parse().unwrap();
        assert_eq!((amount.value(), amount.milli_value(), (-amount).value()), (-2, -1500, 2));
        assert!(amount.is_negative() && (amount.approximate() + 1.5).abs() < 1e-12);
    }

    #[test]
    fn json_has_texts_or_numbers() {
        let amounts: Vec<Quantity> = serde_json::from_str(r#"["100m", 2, 1.5, " 1Ki ", null]"#).unwrap();
        assert_eq!(serde_json::to_string(&amounts).unwrap(), r#"["100m","2","1500m","1Ki","0"]"#);
        assert!(serde_json::from_str::<Quantity>("true").is_err());
    }

    proptest::proptest! {
        #[test]
        fn the_canonical_form_is_read_as_the_same_amount(whole in -1_000_000_000_000_i64.., nanos in 0_i64..1_000_000_000, format in 0..3) {
            let format = [Format::Decimal, Format::Binary, Format::Exponent][format as usize];
            let amount = Quantity::new(whole, format) + Quantity { nanos: nanos.into(), format };
            let read: Quantity = amount.to_string().parse().unwrap();
            proptest::prop_assert_eq!(read, amount);
            proptest::prop_assert_eq!(read.to_string(), amount.to_string());
        }
    }
}
