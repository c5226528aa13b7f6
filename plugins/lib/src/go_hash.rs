//! Upstream's order of lists of structs: by a hash of the text that Go prints for each struct.
//!
//! Modules that need the order print the text of their own types.
//!
//! *Source*: `DeepHashObject` of Kubernetes' `pkg/util/hash`, with `dump.ForHash` of `k8s.io/utils` and `hash/fnv` of
//! Go.

use std::fmt::Display;

/// FNV-1a with 128 bits. Numbers have the same order as their bytes and their hexadecimal digits.
#[doc(alias = "New128a")]
#[must_use]
pub fn fnv128a(text: &str) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    text.bytes().fold(OFFSET, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
}

/// The text of a field that is a pointer to a type of this name.
#[must_use]
pub fn pointer<T: Display>(kind: &str, value: Option<&T>) -> String {
    match value {
        Some(value) => format!("(*{kind}){value}"),
        None => format!("(*{kind})<nil>"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_reference() {
        // hash/fnv/fnv_test.go of Go.
        for (text, expected) in [
            ("", 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d),
            ("a", 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964),
            ("ab", 0x0880_9544_bbab_1be9_5aa0_7330_55b6_9a62),
            ("abc", 0xa68d_622c_ec8b_5822_836d_bc79_77af_7f3b),
        ] {
            assert_eq!(fnv128a(text), expected, "{text}");
        }
        assert_eq!(pointer("int32", Some(&80)), "(*int32)80");
        assert_eq!(pointer::<String>("string", None), "(*string)<nil>");
    }
}
