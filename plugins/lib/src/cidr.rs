//! IP address ranges: containment, overlap, and allocation of subranges.
//!
//! ```
//! use plugin_lib::cidr::{self, Allocator};
//!
//! let mut nodes = Allocator::new(cidr::parse("10.244.0.0/16")?, 24)?;
//! nodes.occupy(&cidr::parse("10.244.0.0/23")?)?;
//! assert_eq!(nodes.allocate().unwrap().to_string(), "10.244.2.0/24");
//! # Ok::<(), pintle_sdk::Error>(())
//! ```
//!
//! Addresses and ranges are types of the crate `ipnet`, which this module re-exports.
//!
//! *Source*: Kubernetes' `pkg/controller/nodeipam/ipam/cidrset/cidr_set.go` and `pkg/api/servicecidr/servicecidr.go`.

use std::net::IpAddr;
use std::ops::Range;

pub use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use pintle_sdk::Error;
use serde::{Deserialize, Serialize};

/// Most parts of an IPv6 range, as a power of two.
#[doc(alias = "clusterSubnetMaxDiff")]
const MOST_BITS_V6: u8 = 16;

/// Most parts of an IPv4 range, as a power of two. Upstream has no limit; no cluster has as many Nodes.
const MOST_BITS_V4: u8 = 24;

/// Parses a range such as `10.0.0.0/8`. Bits beyond the prefix become zero.
///
/// # Errors
/// Terminal, if it is not a range.
#[doc(alias = "ParseCIDR")]
pub fn parse(text: &str) -> Result<IpNet, Error> {
    let range: IpNet = text.parse().map_err(|_| {
        Error::terminal(format!("{text:?} is not a range of addresses such as 10.0.0.0/8 or 2001:db8::/32"))
    })?;
    Ok(range.trunc())
}

/// Whether every address of `inner` is in `outer`.
#[doc(alias = "ContainsPrefix")]
pub fn contains(outer: &IpNet, inner: &IpNet) -> bool {
    outer.contains(inner)
}

/// Whether two ranges overlap.
#[doc(alias = "OverlapsPrefix")]
pub fn overlaps(a: &IpNet, b: &IpNet) -> bool {
    a.contains(b) || b.contains(a)
}

/// Whether a Service can have this address: not the first of the range, and not the last of an IPv4 range.
#[doc(alias = "PrefixContainsIP")]
pub fn serves(range: &IpNet, address: IpAddr) -> bool {
    range.contains(&address) && address != range.network() && !(address.is_ipv4() && address == range.broadcast())
}

/// Allocates parts of equal size from a range, such as the Pod CIDRs of Nodes.
///
/// Occupy the ranges of the objects **and** those that earlier runs of the queue reserved in the plugin's state:
/// read-your-writes holds for one key only, and two keys must not get the same part. [`Parts`] are what has to be kept
/// between runs. All methods take time that grows with the number of separate used ranges, not with that of the parts.
#[derive(Clone, Debug)]
#[doc(alias = "CidrSet")]
pub struct Allocator {
    range: IpNet,
    size: u8,
    parts: Parts,
    n_tries: u32,
}

/// The used parts of an [`Allocator`] by index, and the start of its next search.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parts {
    #[doc(alias = "nextCandidate")]
    next: u32,
    /// First and last index of each used range, ascending. Between two of them is a free part.
    used: Vec<(u32, u32)>,
}

impl Parts {
    /// Marks these parts as used; returns how many were free.
    fn add(&mut self, begin: u32, end: u32) -> u32 {
        // The ranges that overlap or touch the new one become a single one.
        let first = self.used.partition_point(|(_, last)| last.saturating_add(1) < begin);
        let after = self.used.partition_point(|(start, _)| *start <= end.saturating_add(1));
        let merged = &self.used[first..after];
        let begin = merged.first().map_or(begin, |(start, _)| begin.min(*start));
        let end = merged.last().map_or(end, |(_, last)| end.max(*last));
        let n_before: u32 = merged.iter().map(n_of).sum();
        self.used.splice(first..after, [(begin, end)]);
        n_of(&(begin, end)) - n_before
    }

    /// Marks these parts as free; returns how many were used.
    fn remove(&mut self, begin: u32, end: u32) -> u32 {
        let found = self.overlapping(begin, end);
        let cut = &self.used[found.clone()];
        let n_removed = cut.iter().map(|(start, last)| n_of(&(begin.max(*start), end.min(*last)))).sum();
        let before = cut.first().filter(|(start, _)| *start < begin).map(|(start, _)| (*start, begin - 1));
        let after = cut.last().filter(|(_, last)| *last > end).map(|(_, last)| (end + 1, *last));
        self.used.splice(found, before.into_iter().chain(after));
        n_removed
    }

    /// The used ranges that overlap this one.
    fn overlapping(&self, begin: u32, end: u32) -> Range<usize> {
        let first = self.used.partition_point(|(_, last)| *last < begin);
        let after = self.used.partition_point(|(start, _)| *start <= end);
        first..after
    }

    /// The first free part from `next` on, and then from the beginning.
    fn free(&self, n_parts: u32) -> Option<u32> {
        let from = |index: u32| match self.used.get(self.overlapping(index, index)).unwrap_or_default() {
            [(_, last), ..] => last.saturating_add(1),
            [] => index,
        };
        [from(self.next), from(0)].into_iter().find(|index| *index < n_parts)
    }

    fn n_used(&self) -> u32 {
        self.used.iter().map(n_of).sum()
    }
}

/// Number of parts in a range of them.
fn n_of((begin, end): &(u32, u32)) -> u32 {
    end - begin + 1
}

impl Allocator {
    /// An allocator of parts with prefixes of `size` bits.
    ///
    /// # Errors
    /// Terminal: the parts are larger than the range, or there are too many (2^24, 2^16 for IPv6).
    #[doc(alias = "NewCIDRSet")]
    pub fn new(range: IpNet, size: u8) -> Result<Self, Error> {
        let range = range.trunc();
        let most = if range.addr().is_ipv4() { MOST_BITS_V4 } else { MOST_BITS_V6 };
        let bits = size.checked_sub(range.prefix_len());
        if bits.is_none_or(|bits| size > range.max_prefix_len() || bits > most) {
            let low = range.prefix_len();
            let high = range.max_prefix_len().min(low.saturating_add(most));
            return Err(Error::terminal(format!(
                "{range} cannot be divided into parts of /{size}: use /{low} to /{high}"
            )));
        }
        Ok(Self { range, size, parts: Parts::default(), n_tries: 0 })
    }

    /// Continues with the parts of an earlier run. Parts that this allocator does not have are left out.
    #[must_use]
    pub fn resume(mut self, kept: &Parts) -> Self {
        let most = self.n_parts() - 1;
        self.parts = Parts { next: if kept.next > most { 0 } else { kept.next }, used: Vec::new() };
        for (begin, end) in kept.used.iter().filter(|(begin, end)| begin <= end && *end <= most) {
            self.parts.add(*begin, *end);
        }
        self
    }

    /// The parts, to keep them until the next run.
    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    /// The range that is divided.
    pub fn range(&self) -> &IpNet {
        &self.range
    }

    /// Number of parts.
    #[doc(alias = "getMaxCIDRs")]
    pub fn n_parts(&self) -> u32 {
        1 << (self.size - self.range.prefix_len())
    }

    /// Number of free parts.
    pub fn n_free(&self) -> u32 {
        self.n_parts() - self.parts.n_used()
    }

    /// Allocates the next free part; `None` if there is none. The search starts after the last allocated part, so that
    /// a released part is not reused immediately.
    #[doc(alias = "AllocateNext")]
    pub fn allocate(&mut self) -> Option<IpNet> {
        let n_parts = self.n_parts();
        let index = self.parts.free(n_parts)?;
        self.n_tries = (index + n_parts - self.parts.next) % n_parts;
        self.parts.next = (index + 1) % n_parts;
        self.parts.add(index, index);
        self.part(index)
    }

    /// Number of used parts that the last allocation passed.
    pub fn n_tries(&self) -> u32 {
        self.n_tries
    }

    /// Starts the next search after `last`, the part that an earlier run allocated last.
    #[must_use]
    pub fn starting_after(mut self, last: &IpNet) -> Self {
        if let Ok((_, end)) = self.indices(last) {
            self.parts.next = (end + 1) % self.n_parts();
        }
        self
    }

    /// Whether a range is one of the parts.
    pub fn has_part(&self, range: &IpNet) -> bool {
        range.prefix_len() == self.size && contains(&self.range, range)
    }

    /// Whether a range overlaps a used part.
    pub fn is_used(&self, range: &IpNet) -> bool {
        self.indices(range).is_ok_and(|(begin, end)| !self.parts.overlapping(begin, end).is_empty())
    }

    /// Marks the parts that overlap a range as used; returns how many were free.
    ///
    /// # Errors
    /// Terminal, if it is outside of the allocator's range.
    #[doc(alias = "Occupy")]
    pub fn occupy(&mut self, range: &IpNet) -> Result<u32, Error> {
        let (begin, end) = self.indices(range)?;
        Ok(self.parts.add(begin, end))
    }

    /// Marks the parts that overlap a range as free; returns how many were used.
    ///
    /// # Errors
    /// As [`occupy`](Self::occupy).
    #[doc(alias = "Release")]
    pub fn release(&mut self, range: &IpNet) -> Result<u32, Error> {
        let (begin, end) = self.indices(range)?;
        Ok(self.parts.remove(begin, end))
    }

    /// Marks all parts as free. The next search starts where it would have.
    pub fn clear(&mut self) {
        self.parts.used.clear();
    }

    /// Address bits below a part.
    fn shift(&self) -> u32 {
        u32::from(self.range.max_prefix_len() - self.size)
    }

    #[doc(alias = "indexToCIDRBlock")]
    fn part(&self, index: u32) -> Option<IpNet> {
        let start = number(self.range.network());
        // Parts of /0 are the whole range.
        let address = start | u128::from(index).checked_shl(self.shift()).unwrap_or(0);
        let address = match self.range {
            IpNet::V4(_) => IpAddr::V4(u32::try_from(address).ok()?.into()),
            IpNet::V6(_) => IpAddr::V6(address.into()),
        };
        IpNet::new(address, self.size).ok()
    }

    /// The first and the last part that overlap a range.
    #[doc(alias = "getBeginningAndEndIndices")]
    fn indices(&self, range: &IpNet) -> Result<(u32, u32), Error> {
        let range = range.trunc();
        if !overlaps(&self.range, &range) {
            return Err(Error::terminal(format!("{range} is outside of {}", self.range)));
        }
        if range.prefix_len() <= self.range.prefix_len() {
            return Ok((0, self.n_parts() - 1));
        }
        let start = number(self.range.network());
        let index = |address: IpAddr| {
            let index = (number(address) - start).checked_shr(self.shift()).unwrap_or(0);
            u32::try_from(index).unwrap_or(u32::MAX).min(self.n_parts() - 1)
        };
        Ok((index(range.network()), index(range.broadcast())))
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> IpNet {
        parse(text).unwrap()
    }

    fn allocator(range: &str, size: u8) -> Allocator {
        Allocator::new(net(range), size).unwrap()
    }

    /// As `TestIndexToCIDRBlock` of cidr_set_test.go.
    #[test]
    fn parts_are_those_of_upstream() {
        for (range, size, index, expected) in [
            ("127.123.3.0/16", 24, 0, "127.123.0.0/24"),
            ("127.123.0.0/16", 24, 15, "127.123.15.0/24"),
            ("192.168.5.219/28", 32, 5, "192.168.5.213/32"),
            ("2001:0db8:1234:3::/48", 64, 0, "2001:db8:1234::/64"),
            ("2001:0db8:1234::/48", 64, 15, "2001:db8:1234:f::/64"),
            ("2001:0db8:85a3::8a2e:0370:7334/50", 63, 6425, "2001:db8:85a3:3232::/63"),
            ("2001:0db8::/48", 64, 0x1234, "2001:db8:0:1234::/64"),
            ("2001:0db8::/47", 63, 0x1234, "2001:db8:0:2468::/63"),
            ("2001:0db8:1234:ff00::/111", 125, 5, "2001:db8:1234:ff00::28/125"),
            ("2001:0db8:1234:ff00::/97", 97, 0, "2001:db8:1234:ff00::/97"),
            ("2001:db8:1234:2::/50", 65, 33, "2001:db8:1234:10:8000::/65"),
            ("2001:0db8::/32", 48, 0, "2001:db8::/48"),
            ("2001:0db8::/32", 48, 15, "2001:db8:f::/48"),
            ("2001:0db8:85a3::8a2e:0370:7334/32", 48, 6425, "2001:db8:1919::/48"),
            ("2001:0db8:1234:ff00::/56", 72, 0, "2001:db8:1234:ff00::/72"),
            ("2001:0db8:1234:ff00::/56", 72, 15, "2001:db8:1234:ff00:f00::/72"),
            ("2001:0db8:1234:ff00::0370:7334/56", 72, 6425, "2001:db8:1234:ff19:1900::/72"),
            ("2001:0db8:1234:0:1234::/80", 96, 0, "2001:db8:1234:0:1234::/96"),
            ("2001:0db8:1234:0:1234::/80", 96, 15, "2001:db8:1234:0:1234:f::/96"),
            ("2001:0db8:1234:ff00::0370:7334/80", 96, 6425, "2001:db8:1234:ff00:0:1919::/96"),
        ] {
            assert_eq!(allocator(range, size).part(index).unwrap(), net(expected), "{range} {index}");
        }
    }

    /// As `TestOccupy` and `TestGetBitforCIDR`.
    #[test]
    fn a_range_occupies_every_part_that_it_overlaps() {
        for (range, size, occupied, begin, end) in [
            ("127.0.0.0/8", 16, "127.0.0.0/8", 0, 255),
            ("127.0.0.0/8", 16, "127.0.0.0/2", 0, 255),
            ("127.0.0.0/8", 16, "127.0.0.0/16", 0, 0),
            ("127.0.0.0/8", 32, "127.0.0.0/16", 0, 65_535),
            ("127.0.0.0/7", 16, "127.0.0.0/15", 256, 257),
            ("127.0.0.0/7", 15, "127.0.0.0/15", 128, 128),
            ("127.0.0.0/7", 18, "127.0.0.0/15", 1024, 1031),
            ("127.0.0.0/8", 16, "127.123.5.0/24", 123, 123),
            ("2001:beef:1200::/40", 48, "2001:beef:1234::/48", 0x34, 0x34),
            ("2001:beef:1200::/40", 48, "2001:beef::/24", 0, 255),
            ("2001:beef:1200::/40", 48, "2001:beef:1200::/40", 0, 255),
            ("2001:beef:1200::/40", 48, "2001:beef:1234::/34", 0, 255),
            ("2001:beef:1200::/40", 48, "2001:beef:1200::/48", 0, 0),
            ("2001:beef:1200::/48", 64, "2001:beef:1200::/48", 0, 65_535),
            ("2001:beef:7f00::/39", 48, "2001:beef:7f00::/47", 256, 257),
            ("2001:beef:7f00::/39", 47, "2001:beef:7f00::/47", 128, 128),
            ("2001:beef:7f00::/39", 50, "2001:beef:7f00::/47", 1024, 1031),
            ("be00::/8", 16, "be00::/16", 0, 0),
            ("be00::/8", 16, "beef::/16", 0xef, 0xef),
            ("127.0.0.0/8", 16, "127.168.0.0/16", 168, 168),
            ("be00::/8", 16, "be68::/16", 0x68, 0x68),
            ("127.0.0.0/8", 16, "127.224.0.0/16", 224, 224),
            ("be00::/8", 16, "be24::/16", 0x24, 0x24),
            ("192.168.0.0/16", 24, "192.168.12.0/24", 12, 12),
            ("beef::/16", 24, "beef:1200::/24", 0x12, 0x12),
            ("192.168.0.0/16", 24, "192.168.151.0/24", 151, 151),
            ("beef::/16", 24, "beef:9700::/24", 0x97, 0x97),
        ] {
            assert_eq!(allocator(range, size).indices(&net(occupied)).unwrap(), (begin, end), "{occupied} of {range}");
        }
        for (range, occupied) in
            [("127.0.0.0/8", "128.0.0.0/16"), ("127.0.0.0/8", "2001::/16"), ("2001::/112", "2002::/112")]
        {
            let size = if range.contains(':') { 128 } else { 16 };
            let error = allocator(range, size).occupy(&net(occupied)).unwrap_err();
            assert!(error.to_string().contains("outside of"), "{error}");
        }
    }

    #[test]
    fn every_part_is_handed_out_once_and_the_last_released_comes_last() {
        let mut parts = allocator("10.0.0.0/30", 32);
        parts.occupy(&net("10.0.0.1/32")).unwrap();
        parts.occupy(&net("10.0.0.1/32")).unwrap();
        assert_eq!((parts.n_parts(), parts.n_free()), (4, 3));
        assert_eq!(parts.allocate(), Some(net("10.0.0.0/32")));
        parts.release(&net("10.0.0.0/31")).unwrap();
        let all: Vec<_> = std::iter::from_fn(|| parts.allocate()).map(|part| part.to_string()).collect();
        assert_eq!(all, ["10.0.0.1/32", "10.0.0.2/32", "10.0.0.3/32", "10.0.0.0/32"]);
        assert_eq!((parts.n_free(), parts.allocate()), (0, None));
        let mut later = allocator("10.0.0.0/30", 32).starting_after(&net("10.0.0.2/32"));
        assert_eq!(later.allocate(), Some(net("10.0.0.3/32")));
    }

    /// As `TestCIDRSetFullyAllocated`.
    #[test]
    fn a_range_of_one_part_is_free_again_after_its_release() {
        for range in ["127.123.234.0/30", "beef:1234::/30"] {
            let mut parts = allocator(range, 30);
            for _ in 0..2 {
                assert_eq!((parts.allocate(), parts.allocate()), (Some(net(range)), None));
                assert_eq!(parts.release(&net(range)).unwrap(), 1);
            }
        }
    }

    /// As `TestCIDRSet_RandomishAllocation` and `TestCIDRSet_AllocationOccupied`.
    #[test]
    fn released_parts_are_handed_out_in_the_same_order() {
        for range in ["127.123.234.0/16", "beef:1234::/16"] {
            let mut parts = allocator(range, 24);
            let all: Vec<_> = std::iter::from_fn(|| parts.allocate()).collect();
            assert_eq!((all.len(), parts.n_free()), (256, 0));
            for part in &all {
                parts.release(part).unwrap();
            }
            assert_eq!(std::iter::from_fn(|| parts.allocate()).collect::<Vec<_>>(), all);
            assert_eq!(parts.release(&net(range)).unwrap(), 256);
            for part in all[128..].iter().chain([&all[128]]) {
                parts.occupy(part).unwrap();
            }
            assert_eq!(std::iter::from_fn(|| parts.allocate()).collect::<Vec<_>>(), all[..128]);
        }
    }

    /// As `TestDoubleOccupyRelease`.
    #[test]
    fn only_parts_that_change_are_counted() {
        let mut parts = allocator("10.42.0.0/16", 24);
        for (occupies, range, n_used) in [
            (true, "10.42.5.0/24", 1),
            (true, "10.42.9.0/24", 2),
            (true, "10.42.8.0/22", 5),
            (true, "10.42.9.0/24", 5),
            (false, "10.42.9.0/24", 4),
            (false, "10.42.9.0/24", 4),
            (false, "10.42.4.0/22", 3),
        ] {
            let before = parts.parts().n_used();
            let n_changed = if occupies { parts.occupy(&net(range)) } else { parts.release(&net(range)) }.unwrap();
            assert_eq!(parts.parts().n_used(), n_used, "{range}");
            assert_eq!(before.abs_diff(n_used), n_changed, "{range}");
        }
        assert_eq!(std::iter::from_fn(|| parts.allocate()).count(), 256 - 3);
    }

    /// As `TestCIDRSetv6`, and `TestCidrSetMetricsHistogram` for the number of tries.
    #[test]
    fn the_first_parts_follow_one_another() {
        for (range, size, first, second) in [
            ("127.0.0.0/8", 32, "127.0.0.0/32", "127.0.0.1/32"),
            ("2001:beef:1234:369b::/60", 64, "2001:beef:1234:3690::/64", "2001:beef:1234:3691::/64"),
        ] {
            let mut parts = allocator(range, size);
            assert_eq!([parts.allocate(), parts.allocate()], [Some(net(first)), Some(net(second))]);
        }
        assert!(Allocator::new(net("beef:1234::/32"), 49).is_err());
        let mut parts = allocator("10.0.0.0/16", 24);
        parts.occupy(&net("10.0.0.0/17")).unwrap();
        assert_eq!((parts.allocate(), parts.n_tries()), (Some(net("10.0.128.0/24")), 128));
        assert_eq!((parts.allocate(), parts.n_tries()), (Some(net("10.0.129.0/24")), 0));
    }

    #[test]
    fn kept_parts_are_those_of_before() {
        let mut parts = allocator("10.0.0.0/28", 32);
        parts.occupy(&net("10.0.0.4/30")).unwrap();
        parts.allocate();
        parts.occupy(&net("10.0.0.2/32")).unwrap();
        let kept = serde_json::to_string(parts.parts()).unwrap();
        assert_eq!(kept, r#"{"next":1,"used":[[0,0],[2,2],[4,7]]}"#);
        let mut again = allocator("10.0.0.0/28", 32).resume(&serde_json::from_str(&kept).unwrap());
        assert_eq!(again.parts(), parts.parts());
        assert!(again.is_used(&net("10.0.0.0/31")) && !again.is_used(&net("10.0.0.8/29")));
        assert!(again.has_part(&net("10.0.0.8/32")) && !again.has_part(&net("10.0.0.8/31")));
        assert_eq!(again.allocate(), Some(net("10.0.0.1/32")));
        again.clear();
        assert_eq!((again.n_free(), again.allocate()), (16, Some(net("10.0.0.2/32"))));
        // Of another range.
        let strange = serde_json::from_str(r#"{"next":99,"used":[[3,2],[0,1],[14,16]]}"#).unwrap();
        let strange = allocator("10.0.0.0/28", 32).resume(&strange);
        assert_eq!(serde_json::to_string(strange.parts()).unwrap(), r#"{"next":0,"used":[[0,1]]}"#);
    }

    #[test]
    fn sizes_have_bounds() {
        for (range, size, allowed) in [
            ("10.0.0.0/16", 15, "/16 to /32"),
            ("10.0.0.0/16", 33, "/16 to /32"),
            ("10.0.0.0/4", 29, "/4 to /28"),
            ("2001:db8::/48", 65, "/48 to /64"),
        ] {
            let error = Allocator::new(net(range), size).unwrap_err().to_string();
            assert!(error.contains(allowed), "{error}");
        }
        assert_eq!(allocator("10.0.0.0/16", 16).allocate(), Some(net("10.0.0.0/16")));
        assert_eq!(allocator("2001:db8::/48", 64).n_parts(), 65_536);
        assert!(parse("10.0.0.0").unwrap_err().to_string().contains("10.0.0.0/8"));
    }

    /// As `TestPrefixContainsIP` and the overlaps of servicecidr_test.go.
    #[test]
    fn services_get_neither_the_first_nor_the_broadcast_address() {
        for (range, address, expected) in [
            ("192.168.0.0/24", "192.168.0.1", true),
            ("192.168.0.0/24", "192.168.0.0", false),
            ("192.168.0.0/24", "192.168.0.255", false),
            ("192.168.0.0/24", "192.168.1.2", false),
            ("2001:db2::/96", "2001:db2::", false),
            ("2001:db2::/96", "2001:db2::ffff:ffff", true),
            ("2001:db2::/96", "2001:db3::1", false),
            ("192.168.0.0/24", "::ffff:192.168.0.1", false),
        ] {
            assert_eq!(serves(&net(range), address.parse().unwrap()), expected, "{address} of {range}");
        }
        let (large, small, other) = (net("10.0.0.0/8"), net("10.1.0.0/16"), net("11.0.0.0/8"));
        assert!(contains(&large, &small) && !contains(&small, &large) && contains(&large, &large));
        assert!(overlaps(&large, &small) && overlaps(&small, &large) && !overlaps(&large, &other));
    }

    proptest::proptest! {
        #[test]
        fn an_allocated_part_is_the_index_that_it_came_from(start: u32, prefix in 4_u8..=28, bits in 0_u8..=8, index: u32) {
            let range = IpNet::new(IpAddr::V4(start.into()), prefix).unwrap();
            let parts = Allocator::new(range, (prefix + bits).min(32)).unwrap();
            let index = index % parts.n_parts();
            let part = parts.part(index).unwrap();
            proptest::prop_assert!(contains(&range.trunc(), &part));
            proptest::prop_assert_eq!(parts.indices(&part).unwrap(), (index, index));
        }

        #[test]
        fn used_parts_are_those_of_a_bitmap(changes: Vec<(bool, u8, u8)>, next: u8) {
            let mut parts = Parts { next: next.into(), used: Vec::new() };
            let mut bits = [false; 256];
            for (adds, a, b) in changes {
                let (begin, end) = (a.min(b), a.max(b));
                let (begin, end) = (u32::from(begin), u32::from(end));
                let n_changed = if adds { parts.add(begin, end) } else { parts.remove(begin, end) };
                let changed = &mut bits[begin as usize..=end as usize];
                let n_expected = changed.iter().filter(|used| **used != adds).count();
                changed.fill(adds);
                proptest::prop_assert_eq!(n_changed as usize, n_expected);
            }
            let is_apart = |pair: &[(u32, u32)]| pair[0].1 + 1 < pair[1].0;
            proptest::prop_assert!(parts.used.windows(2).all(is_apart));
            proptest::prop_assert_eq!(parts.n_used() as usize, bits.iter().filter(|used| **used).count());
            let expected = (0..256_u32).map(|step| (u32::from(next) + step) % 256).find(|index| !bits[*index as usize]);
            proptest::prop_assert_eq!(parts.free(256), expected);
        }
    }
}
