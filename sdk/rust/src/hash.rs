//! Short hashes for names.

/// FNV-1 with 32 bits, as in the names of ControllerRevisions.
#[doc(alias = "New32")]
pub fn fnv32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5_u32, |hash, byte| hash.wrapping_mul(0x0100_0193) ^ u32::from(*byte))
}

/// FNV-1a with 32 bits.
#[doc(alias = "New32a")]
pub fn fnv32a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Maps each byte to a character that is valid in names and does not form words. Meant for the decimal form of a hash.
#[doc(alias = "SafeEncodeString")]
pub fn safe_encode(text: &str) -> String {
    // No vowels, and no characters that are easily confused.
    const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    text.bytes().map(|byte| char::from(ALPHABET[usize::from(byte) % ALPHABET.len()])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_reference() {
        assert_eq!(fnv32a(b""), 0x811c_9dc5);
        assert_eq!(fnv32a(b"foobar"), 0xbf9c_f968);
        assert_eq!(fnv32(b""), 0x811c_9dc5);
        assert_eq!(fnv32(b"foobar"), 0x31f0_b262);
        assert_eq!(safe_encode("2026"), "646b");
    }
}
