//! `cargo xtask release`: collects everything that is published for a version in one folder.
//!
//! ```text
//! build (static) ──> run in an empty root ──> archive for each target ──> chart, SHA256SUMS
//! ```
//!
//! Invariants:
//! 1. A binary for this machine that needs other files is not released.
//! 2. The same binary results in the same bytes: archives contain no time, no user and no file system order.
//!
//! Not here: the container image, which `host/deploy/Dockerfile` builds from an archive; a bill of materials;
//! publishing the files; signatures.

mod binary;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

pub use self::binary::Target;
use crate::{process, root};

/// Options of a release.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The output folder; created if missing.
    pub out: PathBuf,
    /// The targets; none means all that this machine can build.
    pub targets: Vec<Target>,
    /// A prebuilt binary. It requires exactly one target.
    pub binary: Option<PathBuf>,
}

/// The version of the workspace.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Creates a release; returns its files, `SHA256SUMS` last.
///
/// # Errors
/// A binary cannot be built or does not run alone, or a file cannot be written. A target that this machine cannot build
/// is an error only if it was requested.
pub fn release(options: &Options) -> anyhow::Result<Vec<PathBuf>> {
    fs::create_dir_all(&options.out).with_context(|| format!("create {}", options.out.display()))?;
    let mut names = Vec::new();
    for (target, binary) in binaries(options)? {
        if target.is_of_this_machine() {
            binary::runs_alone(&binary)?;
        }
        let name = format!("pintle-{VERSION}-linux-{}", target.architecture());
        let staged = tempfile::tempdir()?;
        stage(&staged.path().join(&name), &binary, target)?;
        names.push(format!("{name}.tar.gz"));
        pack(&options.out.join(format!("{name}.tar.gz")), staged.path(), &name)?;
    }
    let staged = tempfile::tempdir()?;
    copy(&root().join("host/deploy/chart"), &staged.path().join("pintle"))?;
    names.push(format!("pintle-chart-{VERSION}.tgz"));
    pack(&options.out.join(format!("pintle-chart-{VERSION}.tgz")), staged.path(), "pintle")?;
    let sums = process::output(Command::new("sha256sum").args(&names).current_dir(&options.out))?;
    fs::write(options.out.join("SHA256SUMS"), sums).context("write SHA256SUMS")?;
    names.push("SHA256SUMS".to_owned());
    Ok(names.iter().map(|name| options.out.join(name)).collect())
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

/// Creates the folder that an operator unpacks.
fn stage(folder: &Path, binary: &Path, target: Target) -> anyhow::Result<()> {
    for part in ["completions", "man/man1", "deploy"] {
        fs::create_dir_all(folder.join(part))?;
    }
    copy(binary, &folder.join("pintle"))?;
    // With this name it is a kubectl plugin.
    symlink("pintle", folder.join("kubectl-pintle"))?;
    let deploy = Path::new("host/deploy");
    copy(&root().join("LICENSE"), &folder.join("LICENSE"))?;
    copy(&root().join("README.md"), &folder.join("README.md"))?;
    copy(&root().join(deploy).join("Dockerfile"), &folder.join("Dockerfile"))?;
    copy(&root().join(deploy).join("systemd/pintle.service"), &folder.join("pintle.service"))?;
    // The Kustomize overlays use the roles of the chart.
    for part in ["chart", "kustomize", "static-pod"] {
        copy(&root().join(deploy).join(part), &folder.join("deploy").join(part))?;
    }
    // For another machine, a build of this one prints the texts: the command line is the same.
    let own = match target.is_of_this_machine() {
        true => binary.to_owned(),
        false => {
            Target::of_this_machine().context("nobody can run this binary here")?.build("release", &["jemalloc"])?
        }
    };
    for (shell, file) in [("bash", "pintle.bash"), ("zsh", "_pintle"), ("fish", "pintle.fish")] {
        let text = process::output(Command::new(&own).args(["completion", shell]))?;
        fs::write(folder.join("completions").join(file), text)?;
    }
    process::run(Command::new(&own).arg("man").arg(folder.join("man/man1")))
}

/// Copies a file or a folder.
fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    process::run(Command::new("cp").arg("-r").args([from, to]))
}

/// Packs a folder below `parent`, with GNU tar.
fn pack(archive: &Path, parent: &Path, folder: &str) -> anyhow::Result<()> {
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner", "--mode=u=rwX,go=rX"]);
    tar.args(["--use-compress-program=gzip -n", "-cf"]).arg(archive).arg("-C").arg(parent).arg(folder);
    process::run(&mut tar)
}

#[cfg(test)]
mod tests {
    use anyhow::Result;

    use super::*;

    #[test]
    fn the_same_files_give_the_same_archive() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let packed = |name: &str, files: [&str; 2]| -> Result<Vec<u8>> {
            let parent = folder.path().join(name);
            fs::create_dir_all(parent.join("release"))?;
            for file in files {
                fs::write(parent.join("release").join(file), file)?;
            }
            fs::File::open(parent.join("release").join(files[0]))?.set_modified(std::time::SystemTime::UNIX_EPOCH)?;
            let archive = folder.path().join(format!("{name}.tar.gz"));
            pack(&archive, &parent, "release")?;
            Ok(fs::read(archive)?)
        };
        let one = packed("one", ["a", "b"])?;
        assert_eq!(one, packed("two", ["b", "a"])?);
        assert_ne!(one, packed("three", ["a", "c"])?);
        Ok(())
    }

    /// The folder that an operator unpacks, and its binary: a program that can print manuals.
    fn staged(folder: &Path) -> Result<(PathBuf, PathBuf)> {
        let (staged, binary) = (folder.join("staged"), folder.join("program"));
        fs::write(&binary, "#!/bin/sh\necho \"$@\"\n")?;
        process::run(Command::new("chmod").arg("+x").arg(&binary))?;
        stage(&staged, &binary, Target::of_this_machine().context("there is no release for this machine")?)?;
        Ok((staged, binary))
    }

    #[test]
    fn an_archive_has_the_folders_that_its_overlays_name() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let overlays = staged(folder.path())?.0.join("deploy/kustomize/overlays");
        for overlay in ["beside", "instead"] {
            let overlay = overlays.join(overlay);
            let text = fs::read_to_string(overlay.join("kustomization.yaml"))?;
            let named: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("  - ../")).collect();
            assert_eq!(named.len(), 2, "{text}");
            for name in named {
                assert!(overlay.join("..").join(name).join("kustomization.yaml").is_file(), "{name}");
            }
        }
        Ok(())
    }

    #[test]
    fn an_archive_has_the_plugin_of_kubectl() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let (staged, binary) = staged(folder.path())?;
        pack(&folder.path().join("archive"), folder.path(), "staged")?;
        fs::remove_dir_all(&staged)?;
        process::run(Command::new("tar").args(["-xzf", "archive"]).current_dir(folder.path()))?;
        assert_eq!(fs::read_link(staged.join("kubectl-pintle"))?, Path::new("pintle"));
        assert_eq!(fs::read(staged.join("kubectl-pintle"))?, fs::read(&binary)?);
        Ok(())
    }

    /// The parts of the image that the manifests and their users depend on. The long test `install` builds it.
    #[test]
    fn the_image_has_the_binary_of_an_archive_where_the_manifests_expect_it() -> Result<()> {
        let dockerfile = fs::read_to_string(root().join("host/deploy/Dockerfile"))?;
        let values = |instruction: &str| -> Vec<&str> {
            dockerfile.lines().filter_map(|line| line.strip_prefix(instruction)?.strip_prefix(' ')).collect()
        };
        let folder = tempfile::tempdir()?;
        let [copied] = values("COPY")[..] else { anyhow::bail!("{:?}", values("COPY")) };
        let [.., source, place] = copied.split(' ').collect::<Vec<_>>()[..] else { anyhow::bail!("{copied}") };
        let (staged, binary) = staged(folder.path())?;
        assert_eq!(fs::read(staged.join(source))?, fs::read(&binary)?);
        assert!(staged.join("Dockerfile").is_file());
        assert_eq!(values("ENTRYPOINT"), [format!("[{place:?}]")]);
        let unit = fs::read_to_string(root().join("host/deploy/systemd/pintle.service"))?;
        assert!(unit.contains(&format!("ExecStart={place} ")));
        let user = values("USER");
        let pod = fs::read_to_string(root().join("host/deploy/kustomize/base/deployment.yaml"))?;
        let of_pod = |field: &str| pod.lines().find_map(|line| line.trim().strip_prefix(field)).map(str::to_owned);
        let expected = of_pod("runAsUser: ").zip(of_pod("runAsGroup: ")).map(|(user, group)| format!("{user}:{group}"));
        assert_eq!(user, [expected.context("the Deployment names no user")?]);
        Ok(())
    }
}
