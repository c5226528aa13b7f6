//! Lists the files of scenarios, so that a new one is only a file.

use std::path::PathBuf;
use std::{env, fs};

const FOLDER: &str = "src/scenarios/list";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed={FOLDER}");
    let mut files = Vec::new();
    for entry in fs::read_dir(FOLDER)? {
        let path = entry?.path();
        if path.is_file()
            && let Some(name) = path.file_stem().and_then(|name| name.to_str())
            && name != "mod"
        {
            files.push(format!("{name}::GROUPS"));
        }
    }
    files.sort();
    let out = PathBuf::from(env::var("OUT_DIR")?).join("scenarios.rs");
    Ok(fs::write(out, format!("[{}]", files.join(", ")))?)
}
