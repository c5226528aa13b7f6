//! Components compressed with Zstandard (RFC 8878), for ConfigMaps and registries.
//!
//! A host may decompress hostile data: the decoder is written in Rust, and its output is limited to the size of a
//! component. Compression runs on the author's own data; the encoder is the reference implementation, whose highest
//! levels make files a fifth smaller.

use std::io::{self, Read as _};

use ruzstd::decoding::StreamingDecoder;

use crate::error::{Error, Reason};
use crate::file::MAX_COMPONENT_BYTES;

/// First bytes of a compressed component; those of a WebAssembly module differ.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The highest level without larger windows.
const LEVEL: i32 = 19;

/// Whether these bytes start with the magic number of compressed data.
pub fn is_compressed(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// Compresses a component. Takes about half a second for each MiB.
///
/// # Errors
/// There is not enough memory.
pub fn compressed(component: &[u8]) -> io::Result<Vec<u8>> {
    zstd::bulk::compress(component, LEVEL)
}

/// Decompresses a compressed component; returns other bytes unchanged. Errors contain `what`.
///
/// # Errors
/// The bytes are damaged, or exceed the size limit of a component. A retry does not help.
pub fn decompressed(what: &str, bytes: Vec<u8>) -> Result<Vec<u8>, Error> {
    if !is_compressed(&bytes) {
        return Ok(bytes);
    }
    let damaged = |why: String| Error::new(Reason::Unreadable, format!("{what}: it cannot be decompressed: {why}"));
    let mut rest = bytes.as_slice();
    let decoder = StreamingDecoder::new(&mut rest).map_err(|why| damaged(why.to_string()))?;
    let mut component = Vec::new();
    decoder.take(MAX_COMPONENT_BYTES as u64 + 1).read_to_end(&mut component).map_err(|why| damaged(why.to_string()))?;
    if component.len() > MAX_COMPONENT_BYTES {
        let text = format!("{what}: decompressed, it has more than {MAX_COMPONENT_BYTES} bytes");
        return Err(Error::new(Reason::TooLarge, text));
    }
    if !rest.is_empty() {
        return Err(damaged(format!("{} bytes follow its end", rest.len())));
    }
    Ok(component)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_comes_back_and_other_bytes_stay() {
        for component in [b"".as_slice(), b"\0asm", &[7; 100_000]] {
            let small = compressed(component).unwrap();
            assert!(is_compressed(&small));
            assert_eq!(decompressed("p", small).unwrap(), component);
            assert_eq!(decompressed("p", component.to_vec()).unwrap(), component);
        }
    }

    #[test]
    fn a_small_file_does_not_fill_the_memory() {
        let exact = compressed(&vec![0; MAX_COMPONENT_BYTES]).unwrap();
        assert_eq!(decompressed("p", exact).unwrap().len(), MAX_COMPONENT_BYTES);
        let bomb = compressed(&vec![0; MAX_COMPONENT_BYTES + 1]).unwrap();
        assert!(bomb.len() < 10_000, "{}", bomb.len());
        let why = decompressed("p", bomb).unwrap_err();
        assert_eq!((why.reason, &*why.message), (Reason::TooLarge, "p: decompressed, it has more than 67108864 bytes"));
    }

    #[test]
    fn damaged_bytes_are_errors() {
        let whole = compressed(&(0..10_000_u32).flat_map(u32::to_le_bytes).collect::<Vec<u8>>()).unwrap();
        let mut longer = whole.clone();
        longer.push(0);
        for bytes in [MAGIC.to_vec(), whole[..whole.len() / 2].to_vec(), longer] {
            let why = decompressed("p", bytes).unwrap_err();
            assert!(
                why.reason == Reason::Unreadable && why.message.starts_with("p: it cannot be decompressed: "),
                "{why}"
            );
        }
        // The decoder returns, whatever the bytes are.
        for at in (4..whole.len()).step_by(97) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x55;
            drop(decompressed("p", bytes));
        }
    }
}
