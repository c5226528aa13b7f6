//! The settings, as upstream checks them when it starts.

use std::net::IpAddr;

use pintle_sdk::Error;
use plugin_lib::cidr::IpNet;
use serde::Deserialize;

#[doc(alias = "defaultNodeMaskCIDRIPv4")]
const SIZE_V4: u8 = 24;

#[doc(alias = "defaultNodeMaskCIDRIPv6")]
const SIZE_V6: u8 = 64;

/// The configuration. Prefix lengths of 0 are not set.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[doc(alias = "NodeIPAMControllerConfiguration")]
pub(crate) struct Config {
    #[serde(rename = "clusterCIDR")]
    cluster: String,
    #[serde(rename = "serviceCIDR")]
    services: String,
    #[serde(rename = "nodeCIDRMaskSize")]
    size: u8,
    #[serde(rename = "nodeCIDRMaskSizeIPv4")]
    size_v4: u8,
    #[serde(rename = "nodeCIDRMaskSizeIPv6")]
    size_v6: u8,
}

/// Valid settings.
#[derive(Debug, PartialEq)]
pub(crate) struct Settings {
    /// Ranges of Pods, and the prefix length of a Node's part of each.
    pub(crate) clusters: Vec<(IpNet, u8)>,
    /// Ranges of Services.
    pub(crate) services: Vec<IpNet>,
    /// What should be ranges of Services and is not.
    pub(crate) ignored: Vec<String>,
}

impl Config {
    /// Checks the settings, in upstream's order.
    ///
    /// # Errors
    /// Terminal: upstream's message.
    #[doc(alias = "newNodeIpamController")]
    pub(crate) fn check(&self) -> Result<Settings, Error> {
        let given: Vec<&str> = self.services.split(',').collect();
        if given.len() > 2 {
            return Err(Error::terminal("--service-cluster-ip-range can not contain more than two entries"));
        }
        let clusters = ranges_of_cluster(&self.cluster)?;
        let services: Vec<IpNet> = given.iter().filter_map(|text| parse(text)).collect();
        let is_wrong = |text: &&str| !text.trim().is_empty() && parse(text).is_none();
        let ignored = given.into_iter().filter(is_wrong).map(str::to_owned).collect();
        if let [first, second] = &services[..]
            && is_v6(first) == is_v6(second)
        {
            return Err(Error::terminal(
                "serviceCIDR and secondaryServiceCIDR are not dualstack (from different IPfamiles)",
            ));
        }
        let [v4, v6] = self.sizes(&clusters)?;
        let size_of = |range: &IpNet| if is_v6(range) { v6 } else { v4 };
        let clusters: Vec<(IpNet, u8)> = clusters.into_iter().map(|range| (range, size_of(&range))).collect();
        if clusters.iter().any(|(range, size)| range.prefix_len() > *size) {
            return Err(Error::terminal(
                "Controller: Invalid --cluster-cidr, mask size of cluster CIDR must be less than or equal to --node-cidr-mask-size configured for CIDR family",
            ));
        }
        Ok(Settings { clusters, services, ignored })
    }

    /// Prefix lengths of the parts of IPv4 and IPv6 ranges.
    #[doc(alias = "setNodeCIDRMaskSizes")]
    fn sizes(&self, clusters: &[IpNet]) -> Result<[u8; 2], Error> {
        let or = |size: u8, default: u8| if size == 0 { default } else { size };
        let sizes = [or(self.size_v4, SIZE_V4), or(self.size_v6, SIZE_V6)];
        let has_v6 = clusters.iter().any(is_v6);
        let why = match clusters.len() {
            2.. if self.size == 0 => return Ok(sizes),
            2.. => "usage of --node-cidr-mask-size is not allowed with dual-stack clusters",
            _ if self.size != 0 && (self.size_v4, self.size_v6) == (0, 0) => return Ok([self.size; 2]),
            _ if self.size != 0 => {
                "usage of --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6 is not allowed if --node-cidr-mask-size is set. For dual-stack clusters please unset it and use IPFamily specific flags"
            }
            _ if self.size_v4 != 0 && has_v6 => {
                "usage of --node-cidr-mask-size-ipv4 is not allowed for a single-stack IPv6 cluster"
            }
            _ if self.size_v6 != 0 && !has_v6 => {
                "usage of --node-cidr-mask-size-ipv6 is not allowed for a single-stack IPv4 cluster"
            }
            _ => return Ok(sizes),
        };
        Err(Error::terminal(why))
    }
}

impl Settings {
    /// The settings as text, to notice that they have changed.
    pub(crate) fn text(&self) -> String {
        let clusters = self.clusters.iter().map(|(range, size)| format!("{range} in /{size}"));
        let services = self.services.iter().map(|range| format!("not {range}"));
        clusters.chain(services).collect::<Vec<_>>().join(", ")
    }
}

/// One range, or one of each family.
#[doc(alias = "validateCIDRs", alias = "processCIDRs")]
fn ranges_of_cluster(text: &str) -> Result<Vec<IpNet>, Error> {
    let mut ranges = Vec::new();
    for (i, part) in text.trim().split(',').enumerate() {
        let invalid = || Error::terminal(format!("invalid CIDR[{i}]: <nil> (invalid CIDR address: {part})"));
        ranges.push(parse(part).ok_or_else(invalid)?);
    }
    let n = ranges.len();
    let is_dual = ranges.iter().any(is_v6) && !ranges.iter().all(is_v6);
    match n {
        2.. if !is_dual => Err(Error::terminal(format!(
            "len of ClusterCIDRs=={n} and they are not configured as dual stack (at least one from each IPFamily"
        ))),
        3.. => Err(Error::terminal(format!("length of clusterCIDRs is:{n} more than max allowed of 2"))),
        _ => Ok(ranges),
    }
}

fn is_v6(range: &IpNet) -> bool {
    range.addr().is_ipv6()
}

/// Parses a range as upstream does for objects of all ages: numbers may begin with zeros. Bits beyond the prefix become
/// zero.
#[doc(alias = "ParseCIDRSloppy")]
pub(crate) fn parse(text: &str) -> Option<IpNet> {
    let (address, size) = text.split_once('/')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(size) {
        return None;
    }
    let address: IpAddr = if address.contains(':') {
        address.parse().ok()?
    } else {
        let octets: Vec<&str> = address.split('.').collect();
        let octets: [&str; 4] = octets.try_into().ok()?;
        if !octets.iter().all(|octet| is_number(octet)) {
            return None;
        }
        let [a, b, c, d] = octets.map(|octet| octet.parse::<u8>().ok());
        IpAddr::from([a?, b?, c?, d?])
    };
    IpNet::new(address, size.parse().ok()?).ok().map(|range| range.trunc())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_may_begin_with_zeros() {
        for (text, expected) in [
            ("10.244.0.0/16", Some("10.244.0.0/16")),
            ("010.0.244.007/024", Some("10.0.244.0/24")),
            ("ace:cab:deca::/8", Some("a00::/8")),
            ("2001:0db8::1/64", Some("2001:db8::/64")),
            ("0.0.0.0/0", Some("0.0.0.0/0")),
            ("", None),
            ("10.244.0.0", None),
            ("10.244.0/16", None),
            ("10.244.0.0.0/16", None),
            ("10.244..0/16", None),
            ("10.244.0.256/16", None),
            ("10.244.0.+1/16", None),
            ("10.244.0.0/33", None),
            ("10.244.0.0/", None),
            ("10.244.0.0/+8", None),
            (" 10.244.0.0/16", None),
            ("fd00::/129", None),
            ("fd00::/64/64", None),
            ("fd00::%eth0/64", None),
        ] {
            assert_eq!(parse(text).map(|range| range.to_string()).as_deref(), expected, "{text:?}");
        }
    }
}
