//! Embeds the built-in components into the binary: every `*.wasm` of `target/plugins`, which `cargo xtask build` fills
//! first. Their manifests are embedded separately, so that the command line gets their flags without reading
//! components.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// As `pintle_core::contract::manifest::SECTION`.
const MANIFEST: &[u8] = b"pintle:manifest";

fn main() -> io::Result<()> {
    let folder = env::var_os("PINTLE_PLUGINS").map_or_else(
        || Path::new(&env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../target/plugins"),
        PathBuf::from,
    );
    println!("cargo::rerun-if-env-changed=PINTLE_PLUGINS");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut files: Vec<PathBuf> = match fs::read_dir(&folder) {
        Ok(entries) => entries.collect::<Result<Vec<_>, _>>()?.into_iter().map(|entry| entry.path()).collect(),
        Err(_) => Vec::new(),
    };
    files.retain(|file| file.extension().is_some_and(|extension| extension == "wasm"));
    files.sort();
    let mut source = String::from("&[\n");
    for file in files {
        let file = file.canonicalize()?;
        println!("cargo::rerun-if-changed={}", file.display());
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let manifest =
            manifest(&fs::read(&file)?).map_err(|why| io::Error::other(format!("{}: {why}", file.display())))?;
        // Writing to a String does not fail.
        let _ = writeln!(source, "    ({name:?}, include_bytes!({:?}), {manifest:?}),", file.display().to_string());
    }
    source.push(']');
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(out.join("builtins.rs"), source)
}

/// Extracts the manifest of a component; empty if there is none.
///
/// A component is a preamble of eight bytes and sections: a kind byte, the length, and that many bytes. Nested modules
/// and components are within their sections, so only the component's own custom sections are visible. A library for
/// this (`wasmparser`) would be compiled twice, for this script and for the host.
fn manifest(component: &[u8]) -> Result<String, String> {
    let mut rest = component.get(8..).ok_or("this is not WebAssembly")?;
    while let Some((kind, after)) = rest.split_first() {
        let (section, after) = counted(after).ok_or("a section is cut off")?;
        rest = after;
        if let Some((name, data)) = counted(section).filter(|_| *kind == 0)
            && name == MANIFEST
        {
            return String::from_utf8(data.to_vec()).map_err(|why| why.to_string());
        }
    }
    Ok(String::new())
}

/// Splits off bytes prefixed with their length in LEB128; also returns the rest.
fn counted(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut n = 0_usize;
    for (i, byte) in bytes.iter().take(5).enumerate() {
        n |= usize::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            return bytes.get(i + 1..)?.split_at_checked(n);
        }
    }
    None
}
