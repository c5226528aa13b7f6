//! The limit of addresses in Endpoints.

use plugin_lib::subsets::Subset;

/// Largest number of addresses in Endpoints.
#[doc(alias = "maxCapacity")]
const MOST: usize = 1_000;

/// The annotation of Endpoints with omitted addresses, and its value.
#[doc(alias = "EndpointsOverCapacity")]
pub(crate) const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
pub(crate) const TRUNCATED: &str = "truncated";

/// Whether the subsets exceed the limit.
pub(crate) fn is_over_capacity(subsets: &[Subset]) -> bool {
    let (n_ready, n_not_ready) = count(subsets);
    n_ready + n_not_ready > MOST
}

fn count(subsets: &[Subset]) -> (usize, usize) {
    let n_ready = subsets.iter().map(|subset| subset.addresses.len()).sum();
    (n_ready, subsets.iter().map(|subset| subset.not_ready_addresses.len()).sum())
}

/// Removes addresses beyond the limit: from each subset in proportion to its size, and ready ones only if necessary.
/// Returns whether addresses were removed.
#[doc(alias = "truncateEndpoints")]
pub(crate) fn truncate(subsets: &mut [Subset]) -> bool {
    if !is_over_capacity(subsets) {
        return false;
    }
    let (n_ready, n_not_ready) = count(subsets);
    let truncates_ready = n_ready > MOST;
    let (most, n_total) = if truncates_ready { (MOST, n_ready) } else { (MOST - n_ready, n_not_ready) };
    let mut n_left = most;
    for subset in subsets {
        let addresses = if truncates_ready { &mut subset.addresses } else { &mut subset.not_ready_addresses };
        // Rounded up, so the last subset may keep fewer.
        addresses.truncate(part(addresses.len(), n_total, most).min(n_left));
        n_left -= addresses.len();
        if truncates_ready {
            subset.not_ready_addresses.clear();
        }
    }
    true
}

/// With the rounding of upstream's floating point numbers.
#[allow(clippy::cast_precision_loss, reason = "numbers of addresses have less than 53 bits")]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive number without a fraction")]
fn part(n: usize, n_total: usize, most: usize) -> usize {
    ((n as f64 / n_total as f64) * most as f64).ceil() as usize
}

#[cfg(test)]
mod tests {
    use plugin_lib::subsets::Address;

    use super::*;

    /// As `TestTruncateEndpoints` of endpoints_controller_test.go.
    #[test]
    fn each_subset_keeps_its_part() {
        for (ready, not_ready, expected_ready, expected_not_ready) in [
            (vec![], vec![], vec![], vec![]),
            (
                vec![50, 100, 100, 100, 100],
                vec![50, 100, 100, 100, 100],
                vec![50, 100, 100, 100, 100],
                vec![50, 100, 100, 100, 100],
            ),
            (vec![100; 5], vec![100; 5], vec![100; 5], vec![100; 5]),
            (
                vec![90, 110, 50, 10, 20],
                vec![101, 200, 200, 201, 298],
                vec![90, 110, 50, 10, 20],
                vec![73, 144, 144, 145, 214],
            ),
            (vec![205, 400, 402, 400, 693], vec![100, 200, 200, 200, 300], vec![98, 191, 192, 191, 328], vec![0; 5]),
        ] {
            let addresses = |n: usize| vec![Address::default(); n];
            let subset = |(n_ready, n_not_ready): (&usize, &usize)| Subset {
                addresses: addresses(*n_ready),
                not_ready_addresses: addresses(*n_not_ready),
                ..Subset::default()
            };
            let mut subsets: Vec<Subset> = ready.iter().zip(&not_ready).map(subset).collect();
            let is_over = is_over_capacity(&subsets);
            assert_eq!(truncate(&mut subsets), is_over);
            let of = |n: fn(&Subset) -> usize| subsets.iter().map(n).collect::<Vec<_>>();
            assert_eq!(of(|subset| subset.addresses.len()), expected_ready, "{ready:?} {not_ready:?}");
            assert_eq!(of(|subset| subset.not_ready_addresses.len()), expected_not_ready, "{ready:?} {not_ready:?}");
        }
    }
}
