//! Puts the built-in components into the binary: every `*.wasm` of `target/plugins`, which `cargo xtask build` fills first.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

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
        // Writing to a String does not fail.
        let _ = writeln!(source, "    ({name:?}, include_bytes!({:?})),", file.display().to_string());
    }
    source.push(']');
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(out.join("builtins.rs"), source)
}
