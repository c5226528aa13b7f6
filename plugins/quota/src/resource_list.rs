//! Amounts by the names of resources.

use std::collections::BTreeMap;

use pintle_sdk::quantity::{Format, Quantity};

/// Amounts by the names of resources. Lists are equal if their amounts are, whatever their format.
pub type ResourceList = BTreeMap<String, Quantity>;

/// One object.
pub(crate) const ONE: Quantity = Quantity::new(1, Format::Decimal);

/// A number of objects.
pub fn number(n: usize) -> Quantity {
    Quantity::new(i64::try_from(n).unwrap_or(i64::MAX), Format::Decimal)
}

/// Adds the amounts of another list.
#[doc(alias = "addResourceList")]
pub fn add(list: &mut ResourceList, other: &ResourceList) {
    for (name, amount) in other {
        match list.get_mut(name) {
            Some(sum) => *sum += *amount,
            None => drop(list.insert(name.clone(), *amount)),
        }
    }
}

/// Raises the amounts to those of another list.
#[doc(alias = "maxResourceList")]
pub fn raise(list: &mut ResourceList, other: &ResourceList) {
    for (name, amount) in other {
        if list.get(name).is_none_or(|own| amount > own) {
            list.insert(name.clone(), *amount);
        }
    }
}

/// The positive differences between `new` and `old`.
#[doc(alias = "SubtractWithNonNegativeResult")]
#[doc(alias = "RemoveZeros")]
pub(crate) fn increase(new: &ResourceList, old: &ResourceList) -> ResourceList {
    let more = new.iter().map(|(name, amount)| match old.get(name) {
        Some(before) => (name.clone(), *amount - *before),
        None => (name.clone(), *amount),
    });
    more.filter(|(_, amount)| *amount > Quantity::ZERO).collect()
}

/// The text of amounts in errors.
#[doc(alias = "prettyPrint")]
pub(crate) fn text<'a>(amounts: impl Iterator<Item = (&'a String, &'a Quantity)>) -> String {
    amounts.map(|(name, amount)| format!("{name}={amount}")).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `cpu=1,memory=2Gi`.
    fn list(text: &str) -> ResourceList {
        let entries = text.split(',').filter(|entry| !entry.is_empty());
        entries
            .map(|entry| {
                let (name, amount) = entry.split_once('=').expect("name=amount");
                (name.to_owned(), amount.parse().expect("a quantity"))
            })
            .collect()
    }

    /// As `TestEquals` of resources_test.go.
    #[test]
    fn lists_are_equal_if_their_amounts_are() {
        for (a, b, is_equal) in [
            ("", "", true),
            ("cpu=100m,memory=1Gi", "cpu=0.1,memory=1073741824", true),
            ("cpu=100m,memory=1Gi", "cpu=100m,memory=1Gi,pods=1", false),
            ("cpu=100m,memory=1Gi", "cpu=100m,memory=2Gi", false),
            ("cpu=100m", "memory=100m", false),
        ] {
            assert_eq!(list(a) == list(b), is_equal, "{a} {b}");
        }
    }

    /// As `TestAdd`, `TestMax` and `TestSubtractWithNonNegativeResult`.
    #[test]
    fn sums_maxima_and_differences_are_those_of_upstream() {
        let with = |change: fn(&mut ResourceList, &ResourceList), a: &str, b: &str| {
            let mut result = list(a);
            change(&mut result, &list(b));
            text(result.iter())
        };
        for (a, b, sum, max, more) in [
            ("cpu=1", "cpu=1", "cpu=2", "cpu=1", ""),
            ("", "cpu=1", "cpu=1", "cpu=1", ""),
            ("cpu=1,memory=1Gi", "cpu=500m", "cpu=1500m,memory=1Gi", "cpu=1,memory=1Gi", "cpu=500m,memory=1Gi"),
            ("cpu=0", "cpu=2,pods=1", "cpu=2,pods=1", "cpu=2,pods=1", ""),
        ] {
            assert_eq!(with(add, a, b), sum, "{a} + {b}");
            assert_eq!(with(raise, a, b), max, "max of {a} and {b}");
            assert_eq!(text(increase(&list(a), &list(b)).iter()), more, "{a} - {b}");
        }
    }
}
