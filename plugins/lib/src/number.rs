//! Conversions of API numbers: 32 bits in objects, 64 for sums.

/// Converts to the API's width; saturates.
pub fn narrow(number: i64) -> i32 {
    i32::try_from(number).unwrap_or(if number < 0 { i32::MIN } else { i32::MAX })
}

/// A length as an API number.
pub fn count(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_within_the_range() {
        let numbers = [0, -5, 1 << 31, i64::MAX, -(1 << 31), i64::MIN];
        assert_eq!(numbers.map(narrow), [0, -5, i32::MAX, i32::MAX, i32::MIN, i32::MIN]);
        assert_eq!(count(7), 7);
    }
}
