//! Sets of indexes in the format of a status: `1,3-5,7`.

use std::fmt;

/// A set of indexes: intervals in order, with gaps between them.
#[doc(alias = "orderedIntervals")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Indexes(Vec<Interval>);

#[doc(alias = "interval")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Interval {
    first: i64,
    last: i64,
}

impl Indexes {
    /// Parses the indexes below a number. Invalid intervals are skipped.
    #[doc(alias = "parseIndexesFromString")]
    pub(crate) fn parse(text: &str, below: i64) -> Self {
        let intervals = text.split(',').filter_map(|part| {
            let mut limits = part.split('-');
            let first: i64 = limits.next()?.parse().ok()?;
            let last = limits.next().map_or(Ok(first), str::parse).ok()?;
            let last = last.min(below - 1);
            (0 <= first && first <= last).then_some(Interval { first, last })
        });
        Self::of(intervals.collect())
    }

    fn of(mut intervals: Vec<Interval>) -> Self {
        intervals.sort_unstable();
        let mut merged: Vec<Interval> = Vec::with_capacity(intervals.len());
        for interval in intervals {
            match merged.last_mut() {
                Some(before) if interval.first <= before.last + 1 => before.last = before.last.max(interval.last),
                _ => merged.push(interval),
            }
        }
        Self(merged)
    }

    /// Adds indexes.
    #[doc(alias = "withOrderedIndexes")]
    #[must_use]
    pub(crate) fn with(&self, indexes: impl IntoIterator<Item = i64>) -> Self {
        let new = indexes.into_iter().map(|index| Interval { first: index, last: index });
        Self::of(self.0.iter().copied().chain(new).collect())
    }

    /// The union of both sets.
    #[doc(alias = "merge")]
    #[must_use]
    pub(crate) fn union(&self, other: &Self) -> Self {
        Self::of(self.0.iter().chain(&other.0).copied().collect())
    }

    /// Number of indexes.
    #[doc(alias = "total")]
    pub(crate) fn len(&self) -> i64 {
        self.0.iter().map(|interval| interval.last - interval.first + 1).sum()
    }

    /// Whether the set is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the set has the index.
    pub(crate) fn has(&self, index: i64) -> bool {
        let place = self.0.partition_point(|interval| interval.last < index);
        self.0.get(place).is_some_and(|interval| interval.first <= index)
    }

    /// Number of common indexes.
    #[doc(alias = "matchSucceededIndexesRule")]
    pub(crate) fn n_common(&self, other: &Self) -> i64 {
        let (mut a, mut b) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut n = 0;
        while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
            n += (x.last.min(y.last) - x.first.max(y.first) + 1).max(0);
            if x.last <= y.last {
                a.next();
            } else {
                b.next();
            }
        }
        n
    }

    /// The first `n` indexes below a number that are not in the set.
    pub(crate) fn first_missing(&self, below: i64, n: usize) -> Vec<i64> {
        let mut missing = Vec::new();
        let mut next = 0;
        let end = Interval { first: below, last: below };
        for interval in self.0.iter().chain([&end]) {
            while next < interval.first.min(below) && missing.len() < n {
                missing.push(next);
                next += 1;
            }
            next = next.max(interval.last + 1);
        }
        missing
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, Interval { first, last }) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                1 => write!(f, "{comma}{first},{last}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Indexes {
        Indexes::parse(text, 1000)
    }

    /// As `TestCalculateSucceededIndexes` of indexed_job_utils_test.go.
    #[test]
    fn indexes_are_read_and_written_in_short() {
        for (text, below, expected, n) in [
            ("", 10, "", 0),
            ("1,3-5,7", 10, "1,3-5,7", 5),
            ("0-1", 10, "0,1", 2),
            ("0,1,2", 10, "0-2", 3),
            ("3-8", 5, "3,4", 2),
            ("4,9-12", 5, "4", 1),
            ("5,3-4,3", 10, "3-5", 3),
            ("invalid,2,x-3,4-y,-5,6-1,1-2-9", 10, "1,2", 2),
            ("0-99999999999999999999,1", 10, "1", 1),
        ] {
            let indexes = Indexes::parse(text, below);
            assert_eq!((indexes.to_string().as_str(), indexes.len()), (expected, n), "{text}");
        }
    }

    #[test]
    fn sets_are_united_and_compared() {
        assert_eq!(parse("1,3-5").with([9, 2, 2]).to_string(), "1-5,9");
        assert_eq!(parse("1,3-5").union(&parse("2,5-8,10")).to_string(), "1-8,10");
        for (a, b, n) in [("1,3-5", "2,4-9", 2), ("", "1", 0), ("0-9", "3,5-6,9-12", 4), ("1-3", "1-3", 3)] {
            assert_eq!((parse(a).n_common(&parse(b)), parse(b).n_common(&parse(a))), (n, n), "{a} {b}");
        }
    }

    /// As `TestIntervalsHaveIndex` of indexed_job_utils_test.go.
    #[test]
    fn membership_is_by_interval() {
        for (text, index, expected) in [
            ("", 4, false),
            ("2-4", 4, true),
            ("2-4", 2, true),
            ("2-4", 5, false),
            ("2-4", 1, false),
            ("1,4,7-9", 8, true),
            ("1,4,7-9", 5, false),
            ("1,4,7-9", 10, false),
        ] {
            assert_eq!(parse(text).has(index), expected, "{index} in {text}");
        }
    }

    /// As `TestFirstPendingIndexes` of indexed_job_utils_test.go.
    #[test]
    fn the_first_missing_ones_are_found() {
        for (taken, below, n, expected) in [
            ("", 5, 3, vec![0, 1, 2]),
            ("", 2, 5, vec![0, 1]),
            ("0-2", 5, 5, vec![3, 4]),
            ("1,3", 5, 2, vec![0, 2]),
            ("0,2,4", 5, 9, vec![1, 3]),
            ("0-4", 5, 1, vec![]),
            ("7-9", 5, 9, vec![0, 1, 2, 3, 4]),
            ("1", 5, 0, vec![]),
        ] {
            assert_eq!(parse(taken).first_missing(below, n), expected, "{taken}");
        }
    }
}
