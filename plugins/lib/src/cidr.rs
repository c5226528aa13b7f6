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

pub use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use pintle_sdk::Error;

/// Most parts of an IPv6 range, as a power of two.
#[doc(alias = "clusterSubnetMaxDiff")]
const MOST_BITS_V6: u8 = 16;

/// Most parts of an IPv4 range, as a power of two. Upstream has no limit; more parts would take more than 2 MiB.
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
/// Make one for each run: occupy the ranges of the objects **and** those that earlier runs of the queue reserved in the
/// plugin's state. Read-your-writes holds for one key only, and two keys must not get the same part.
#[derive(Clone, Debug)]
#[doc(alias = "CidrSet")]
pub struct Allocator {
    range: IpNet,
    size: u8,
    used: Vec<u64>,
    n_used: u32,
    next: u32,
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
        let bits = size.checked_sub(range.prefix_len()).filter(|bits| size <= range.max_prefix_len() && *bits <= most);
        let Some(bits) = bits else {
            let low = range.prefix_len();
            let high = range.max_prefix_len().min(low.saturating_add(most));
            return Err(Error::terminal(format!(
                "{range} cannot be divided into parts of /{size}: use /{low} to /{high}"
            )));
        };
        let words = (1_usize << bits).div_ceil(64);
        Ok(Self { range, size, used: vec![0; words], n_used: 0, next: 0 })
    }

    /// Number of parts.
    #[doc(alias = "getMaxCIDRs")]
    pub fn n_parts(&self) -> u32 {
        1 << (self.size - self.range.prefix_len())
    }

    /// Number of free parts.
    pub fn n_free(&self) -> u32 {
        self.n_parts() - self.n_used
    }

    /// Allocates the next free part; `None` if there is none. The search starts after the last allocated part, so that
    /// a released part is not reused immediately.
    #[doc(alias = "AllocateNext")]
    pub fn allocate(&mut self) -> Option<IpNet> {
        let n_parts = self.n_parts();
        let index = (0..n_parts).map(|step| (self.next + step) % n_parts).find(|index| !self.is_used(*index))?;
        self.next = (index + 1) % n_parts;
        self.mark(index, true);
        self.part(index)
    }

    /// Starts the next search after `last`, the part that an earlier run allocated last.
    #[must_use]
    pub fn starting_after(mut self, last: &IpNet) -> Self {
        if let Ok((_, end)) = self.indices(last) {
            self.next = (end + 1) % self.n_parts();
        }
        self
    }

    /// Marks the parts that overlap a range as used.
    ///
    /// # Errors
    /// Terminal, if it is outside of the allocator's range.
    #[doc(alias = "Occupy")]
    pub fn occupy(&mut self, range: &IpNet) -> Result<(), Error> {
        self.mark_all(range, true)
    }

    /// Marks the parts that overlap a range as free.
    ///
    /// # Errors
    /// As [`occupy`](Self::occupy).
    #[doc(alias = "Release")]
    pub fn release(&mut self, range: &IpNet) -> Result<(), Error> {
        self.mark_all(range, false)
    }

    fn mark_all(&mut self, range: &IpNet, used: bool) -> Result<(), Error> {
        let (begin, end) = self.indices(range)?;
        for index in begin..=end {
            self.mark(index, used);
        }
        Ok(())
    }

    fn is_used(&self, index: u32) -> bool {
        self.used[index as usize / 64] >> (index % 64) & 1 == 1
    }

    fn mark(&mut self, index: u32, used: bool) {
        if self.is_used(index) != used {
            self.used[index as usize / 64] ^= 1 << (index % 64);
            self.n_used = if used { self.n_used + 1 } else { self.n_used - 1 };
        }
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
    }
}
