//! `cargo xtask release`: everything that is published of a version, in one folder.
//!
//! ```text
//! build (static) ──> check (no loader, runs in an empty root) ──> archive, image, SBOM for each target ──> chart, SHA256SUMS
//! ```
//!
//! Invariants:
//! 1. A binary that needs a loader or a library of the machine is not released.
//! 2. The same binary gives the same bytes: archives hold no time, no user and no order of the file system.
//!
//! Not here: where the files are published, and signatures.

mod binary;
pub mod image;
mod sbom;
pub mod tree;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

pub use self::binary::{Target, is_static};
use self::tree::Tree;
use crate::{process, root};

/// What is released.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The folder that is filled; made if it is missing.
    pub out: PathBuf,
    /// For these; none means all that this machine can build for.
    pub targets: Vec<Target>,
    /// This binary, which is not built. It needs exactly one target.
    pub binary: Option<PathBuf>,
}

/// The version of the workspace.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Makes a release; answers its files, `SHA256SUMS` last.
///
/// # Errors
/// A binary cannot be built or is not static, or a file cannot be written. A target that this machine cannot build for is an error only
/// if it was asked for.
pub fn release(options: &Options) -> anyhow::Result<Vec<PathBuf>> {
    fs::create_dir_all(&options.out).with_context(|| format!("create {}", options.out.display()))?;
    let mut files = Vec::new();
    for (target, binary) in binaries(options)? {
        ensure!(
            is_static(&fs::read(&binary)?)?,
            "{} needs a loader or libraries; it is not released",
            binary.display()
        );
        if target.is_of_this_machine() {
            binary::runs_alone(&binary)?;
        }
        let name = format!("pintle-{VERSION}-linux-{}", target.architecture());
        let bom = sbom::of(target, &binary)?;
        let texts = Texts::of(&binary, target)?;
        let mut write = |suffix: &str, bytes: &[u8]| -> anyhow::Result<()> {
            let file = options.out.join(format!("{name}{suffix}"));
            fs::write(&file, bytes).with_context(|| format!("write {}", file.display()))?;
            files.push(file);
            Ok(())
        };
        write(".tar.gz", &archive(&name, &binary, &texts, &bom)?.compressed()?)?;
        write(".image.tar", &image::archive(&fs::read(&binary)?, target.architecture(), VERSION)?)?;
        write(".cdx.json", &bom)?;
    }
    let chart = options.out.join(format!("pintle-chart-{VERSION}.tgz"));
    let mut tree = Tree::default();
    tree.add_folder("pintle", &root().join("host/deploy/chart"))?;
    fs::write(&chart, tree.compressed()?).with_context(|| format!("write {}", chart.display()))?;
    files.push(chart);
    let mut sums = String::new();
    for file in &files {
        let name = file.file_name().context("a file without a name")?.to_string_lossy();
        sums += &format!("{}  {name}\n", image::sha256(&fs::read(file)?));
    }
    let file = options.out.join("SHA256SUMS");
    fs::write(&file, sums).with_context(|| format!("write {}", file.display()))?;
    files.push(file);
    Ok(files)
}

fn binaries(options: &Options) -> anyhow::Result<Vec<(Target, PathBuf)>> {
    if let Some(binary) = &options.binary {
        let [target] = options.targets[..] else {
            anyhow::bail!("--binary needs one --target, the one that it was built for")
        };
        return Ok(vec![(target, binary.clone())]);
    }
    let mut built = Vec::new();
    let all = if options.targets.is_empty() { &Target::ALL[..] } else { &options.targets };
    for target in all {
        match target.prepare() {
            Ok(()) => built.push((*target, target.build("release", &["jemalloc"])?)),
            Err(why) if options.targets.is_empty() => eprintln!("no release for {}: {why:#}", target.triple()),
            Err(why) => return Err(why.context(format!("release for {}", target.triple()))),
        }
    }
    ensure!(!built.is_empty(), "this machine can build for no target");
    Ok(built)
}

/// What the binary prints for shells and for `man`.
struct Texts {
    completions: Vec<(&'static str, Vec<u8>)>,
    manuals: tempfile::TempDir,
}

impl Texts {
    /// For another machine, a build of this one prints them: the command line is the same.
    fn of(binary: &Path, target: Target) -> anyhow::Result<Self> {
        let own;
        let binary = match target.is_of_this_machine() {
            true => binary,
            false => {
                own = Target::of_this_machine()
                    .context("nobody can run this binary here")?
                    .build("release", &["jemalloc"])?;
                &own
            }
        };
        let mut completions = Vec::new();
        for (shell, file) in [("bash", "pintle.bash"), ("zsh", "_pintle"), ("fish", "pintle.fish")] {
            completions.push((file, process::output(Command::new(binary).args(["completion", shell]))?.into_bytes()));
        }
        let manuals = tempfile::tempdir()?;
        process::run(Command::new(binary).arg("man").arg(manuals.path()))?;
        Ok(Self { completions, manuals })
    }
}

/// What an operator unpacks.
fn archive(name: &str, binary: &Path, texts: &Texts, bom: &[u8]) -> anyhow::Result<Tree> {
    let mut tree = Tree::default();
    tree.add(&format!("{name}/pintle"), 0o755, fs::read(binary)?);
    for (file, of) in
        [("LICENSE", "LICENSE"), ("README.md", "README.md"), ("pintle.service", "host/deploy/systemd/pintle.service")]
    {
        tree.add(&format!("{name}/{file}"), 0o644, fs::read(root().join(of)).with_context(|| format!("read {of}"))?);
    }
    tree.add(&format!("{name}/sbom.cdx.json"), 0o644, bom.to_vec());
    for (file, text) in &texts.completions {
        tree.add(&format!("{name}/completions/{file}"), 0o644, text.clone());
    }
    tree.add_folder(&format!("{name}/man/man1"), texts.manuals.path())?;
    for folder in ["kustomize", "static-pod"] {
        tree.add_folder(&format!("{name}/deploy/{folder}"), &root().join("host/deploy").join(folder))?;
    }
    Ok(tree)
}
