//! C: clang, or zig's, makes a core module for WASI; a component with a closed WASI is made of it.

use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};

use crate::component::{finish, wrap};
use crate::project::Project;
use crate::{check, process};

/// Where Debian has the C library for WASI, in the forms of clang 16 and older, and of later ones.
const HEADERS: [&str; 2] = ["/usr/include/wasm32-wasi", "/usr/include/wasm32-wasip1"];

/// What makes a function the plugin's.
const EXPORT: &str = "PINTLE_EXPORT(";

/// Mistakes that the program looks for as it runs; the SDK's `src/faults.c` tells of them. WebAssembly notices none but the division.
const CHECKS: &str = "-fsanitize=null,array-bounds,integer-divide-by-zero,unreachable";

/// What `clang-NN` is looked for.
const CLANG_VERSIONS: std::ops::RangeInclusive<u32> = 15..=30;

pub(crate) fn build(project: &Project) -> anyhow::Result<Vec<u8>> {
    let sdk = project.sdk()?;
    // What clang writes into the component of places in sources is each path as it was given: none may tell where the folder lies.
    let from_here = |path: &Path| relative(&project.folder, path);
    let mut sources = sources(&project.folder)?;
    ensure!(!sources.is_empty(), "{} holds no *.c", project.folder.display());
    let is_exported = sources.iter().any(|path| fs::read_to_string(path).is_ok_and(|text| text.contains(EXPORT)));
    for folder in [sdk.clone(), sdk.join("src"), sdk.join("wit")] {
        if folder.is_dir() {
            sources.extend(self::sources(&folder)?);
        }
    }
    let mut compiler = compiler(&project.folder)?;
    let work = project.work()?;
    let module = work.path().join("core.wasm");
    compiler.current_dir(&project.folder);
    compiler.args(["-O2", "-mexec-model=reactor", "-Wl,--no-entry", "-Wl,--strip-all", "-Wl,--stack-first"]);
    compiler.arg(CHECKS).args(["-fno-sanitize-recover=all", "-include"]).arg(from_here(&sdk.join("src/purity.h")));
    compiler.arg(format!("-ffile-prefix-map={}=sdk", from_here(&sdk).display()));
    for include in [sdk.clone(), sdk.join("include"), sdk.join("wit")] {
        compiler.arg("-I").arg(from_here(&include));
    }
    compiler.args(sources.iter().map(|path| from_here(path))).arg("-o").arg(&module);
    let compiled = process::run(&mut compiler);
    // It may stand in a header, too, so only what the linker says decides.
    compiled.map_err(|why| if is_exported { why } else { why.context(format!("no *.c says {EXPORT}reconcile)")) })?;
    let core = fs::read(&module).with_context(|| format!("read {}", module.display()))?;
    check::module(&core, project.language)?;
    let mut component = wrap(core, project.contract()?.path(), project.world)?;
    finish(&mut component, project.language, &project.manifest);
    Ok(component)
}

/// A path as it is seen from a folder.
fn relative(folder: &Path, path: &Path) -> PathBuf {
    let n_shared = folder.components().zip(path.components()).take_while(|(one, other)| one == other).count();
    let up = folder.components().skip(n_shared).map(|_| Component::ParentDir);
    up.chain(path.components().skip(n_shared)).collect()
}

/// The `*.c` of a folder, in the order of their names; what is a native test (`*_test.c`) is none of the plugin.
fn sources(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<Vec<_>>>()?;
    paths.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with(".c") && !name.ends_with("_test.c")
    });
    paths.sort();
    Ok(paths)
}

/// Whether there is a compiler that makes plugins of C.
pub fn is_there() -> bool {
    compiler(Path::new(".")).is_ok()
}

/// A compiler for WebAssembly with a C library: the first that works of `CC`, clang of any version, and zig's.
fn compiler(folder: &Path) -> anyhow::Result<Command> {
    let mut tried = Vec::new();
    let versions = CLANG_VERSIONS.rev().map(|version| format!("clang-{version}"));
    for name in std::env::var("PINTLE_CC").into_iter().chain(["clang".to_owned()]).chain(versions) {
        if !process::succeeds(Command::new(&name).arg("--version")) {
            continue;
        }
        let clang = || {
            let mut clang = Command::new(&name);
            // The name that Debian's C library has. Newer compilers would rather be told wasm32-wasip1.
            clang.args(["--target=wasm32-wasi", "-Wno-deprecated"]);
            if let Some(headers) = HEADERS.into_iter().find(|headers| Path::new(headers).is_dir()) {
                let libraries = headers.replace("include", "lib");
                clang.arg("--sysroot=/usr").args(["-isystem", headers]).arg(format!("-L{libraries}"));
            }
            // The start file of the C library is replaced by the exports of the contract, which start the library themselves.
            clang.arg("-nostartfiles");
            clang
        };
        if links(clang()) {
            return Ok(clang());
        }
        tried.push(name);
    }
    for python in [folder.join(".venv/bin/python"), "python3".into()] {
        let zig = || {
            let mut zig = Command::new(&python);
            zig.args(["-m", "ziglang", "cc", "-target", "wasm32-wasi"]);
            zig
        };
        if process::succeeds(zig().arg("--version")) {
            return Ok(zig());
        }
    }
    let install =
        "on Debian, as root: apt-get install clang lld wasi-libc libclang-rt-dev-wasm32; anywhere: pip install ziglang";
    match tried.as_slice() {
        [] => bail!("there is no C compiler for WebAssembly: {install}"),
        tried => bail!("{} cannot link a program for wasm32-wasi; {install}", tried.join(", ")),
    }
}

/// Whether a compiler finds its linker, its own library and the C library.
fn links(mut compiler: Command) -> bool {
    let Ok(work) = tempfile::tempdir() else { return false };
    let source = work.path().join("probe.c");
    let program = "#include <stdlib.h>\nvoid *probe(unsigned n) { return malloc(n); }\n";
    if fs::write(&source, program).is_err() {
        return false;
    }
    compiler.args(["-mexec-model=reactor", "-Wl,--no-entry", "-Wl,--export=probe"]).arg(source);
    process::succeeds(compiler.arg("-o").arg(work.path().join("probe.wasm")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_told_from_the_folder_wherever_that_lies() {
        let folder = Path::new("/home/me/web");
        for (path, from_here) in [
            ("/home/me/web/main.c", "main.c"),
            ("/home/me/web/.pintle/sdk/c/src/json.c", ".pintle/sdk/c/src/json.c"),
            ("/home/sdk/c", "../../sdk/c"),
        ] {
            assert_eq!(relative(folder, Path::new(path)), Path::new(from_here));
        }
    }
}
