//! Embeds the inputs of `pintle new`: templates, the contract, and the sources of the SDKs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::{env, fmt::Write as _};

/// Folders of the repository, and their paths among the embedded files.
const FOLDERS: [(&str, &str); 7] = [
    ("host/build/scaffold", "scaffold"),
    ("wit", "wit"),
    ("sdk/rust", "sdk/rust"),
    ("sdk/go", "sdk/go"),
    ("sdk/js", "sdk/js"),
    ("sdk/python", "sdk/python"),
    ("sdk/vectors", "sdk/vectors"),
];

/// A complete module file: only `go mod tidy` can determine the SDK's own dependencies.
const GO_MODULE: [&str; 2] = ["sdk/go/examples/webapp/go.mod", "sdk/go/examples/webapp/go.sum"];

fn main() -> io::Result<()> {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let root = here.join("../..").canonicalize()?;
    let mut files = Vec::new();
    for (folder, name) in FOLDERS {
        let path = root.join(folder);
        if path.is_dir() {
            add(&path, name, &mut files)?;
        }
    }
    for file in GO_MODULE {
        if root.join(file).is_file() {
            files.push((file.to_owned(), root.join(file)));
        }
    }
    files.sort();
    let mut table = "[\n".to_owned();
    for (name, path) in &files {
        println!("cargo::rerun-if-changed={}", path.display());
        let _ = writeln!(table, "({name:?}, include_bytes!({:?})),", path.display().to_string());
    }
    table.push_str("]\n");
    let output = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(output.join("embedded.rs"), table)
}

fn add(folder: &Path, name: &str, files: &mut Vec<(String, PathBuf)>) -> io::Result<()> {
    // A folder's time changes when a file is added or removed. Tools write files into an SDK's folder, which must not
    // cause a build.
    let is_sdk = name.strip_prefix("sdk/").is_some_and(|rest| !rest.contains('/'));
    if !is_sdk {
        println!("cargo::rerun-if-changed={}", folder.display());
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if is_left_out(&file, name) || path.is_symlink() {
            continue;
        }
        let name = format!("{name}/{file}");
        if path.is_dir() {
            add(&path, &name, files)?;
        } else {
            files.push((name, path));
        }
    }
    Ok(())
}

/// Output of tools, examples, and an SDK's own tests.
fn is_left_out(file: &str, folder: &str) -> bool {
    let put_there = ["target", "node_modules", "__pycache__"].contains(&file);
    let of_tools = file.starts_with('.') || file.ends_with(".egg-info") || file.ends_with(".wasm");
    let in_sdk = folder.starts_with("sdk/");
    let of_sdk = in_sdk && (["examples", "tests", "test"].contains(&file) || file.ends_with("_test.go"));
    put_there || of_tools || of_sdk
}
