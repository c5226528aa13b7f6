//! Projects of authors who make mistakes: `tests/authors/<language>`, each in a copy that a test may spoil.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use anyhow::{Context, Result, bail, ensure};

use crate::pintle::{self, Answer};
use crate::workspace_dir;

/// What there is a project in, as `pintle new` names it.
pub const LANGUAGES: [&str; 5] = ["rust", "go", "ts", "js", "python"];

/// What tools leave beside sources.
const NOT_COPIED: [&str; 5] = ["target", ".pintle", "node_modules", "__pycache__", ".venv"];

/// A project.
#[derive(Debug)]
pub struct Author {
    /// One of [`LANGUAGES`].
    pub language: &'static str,
    /// Its copy. As far below the root as the original, so that paths to the SDK hold; kept, so that compilers need not begin anew.
    pub folder: PathBuf,
    /// The component of the project as it is.
    pub component: PathBuf,
}

/// Every project, built once in a process.
///
/// # Errors
/// One does not build; the text is what the binary says.
pub fn built() -> Result<&'static [Author]> {
    static BUILT: LazyLock<Result<Vec<Author>>> = LazyLock::new(|| side_by_side(LANGUAGES, build));
    BUILT.as_deref().map_err(|why| anyhow::anyhow!("{why:#}"))
}

/// Calls once for each item, each call in its own thread: most compilers of the languages use one processor.
///
/// # Errors
/// Of the first call that failed, or that panicked.
pub fn side_by_side<I: Send, T: Send>(
    items: impl IntoIterator<Item = I>,
    call: impl Fn(I) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let call = &call;
    std::thread::scope(|scope| {
        let calls: Vec<_> = items.into_iter().map(|item| scope.spawn(move || call(item))).collect();
        calls.into_iter().map(|call| call.join().unwrap_or_else(|_| bail!("a call panicked"))).collect()
    })
}

fn build(language: &'static str) -> Result<Author> {
    let copies = workspace_dir().join("target/authors");
    let folder = copies.join(language);
    copy(&workspace_dir().join("tests/authors").join(language), &folder)?;
    let component = copies.join(format!("{language}.wasm"));
    let author = Author { language, folder, component };
    let answer = author.build(&author.component, &[])?;
    ensure!(answer.is_good(), "{language}: {}", answer.errors);
    Ok(author)
}

impl Author {
    /// What `pintle build` says of the copy as it is now, with these variables of the environment.
    ///
    /// # Errors
    /// The binary cannot be run.
    pub fn build(&self, component: &Path, environment: &[(&str, OsString)]) -> Result<Answer> {
        let mut build =
            pintle::command(["build".as_ref(), self.folder.as_os_str(), "-o".as_ref(), component.as_os_str()])?;
        Answer::of(build.envs(environment.iter().map(|(name, value)| (name, value))))
    }

    /// Calls with a file of the copy changed, and puts it back.
    ///
    /// # Errors
    /// The file does not say `from`, or what the call says.
    pub fn with<T>(&self, file: &str, from: &str, to: &str, call: impl FnOnce() -> Result<T>) -> Result<T> {
        let path = self.folder.join(file);
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        ensure!(text.contains(from), "{} does not say {from:?}", path.display());
        std::fs::write(&path, text.replacen(from, to, 1))?;
        let result = call();
        std::fs::write(&path, text)?;
        result
    }

    /// The place of a text in a source: `file:line`.
    ///
    /// # Errors
    /// It is not there.
    pub fn place(&self, file: &str, text: &str) -> Result<String> {
        let source = std::fs::read_to_string(self.folder.join(file)).with_context(|| format!("read {file}"))?;
        let line = source.lines().position(|line| line.contains(text));
        let line = line.with_context(|| format!("{file} of {} does not say {text:?}", self.language))?;
        let name = Path::new(file).file_name().unwrap_or_default().to_string_lossy();
        Ok(format!("{name}:{}", line + 1))
    }
}

/// A project of `pintle new` in `root/LANGUAGE`, with the libraries that it is developed with.
///
/// # Errors
/// It cannot be made; the text is what the binary says.
pub fn new_project(pintle: &Path, root: &Path, language: &str) -> Result<PathBuf> {
    let folder = root.join(language);
    std::fs::create_dir_all(root)?;
    let new: [&OsStr; 6] =
        ["new".as_ref(), "web".as_ref(), "--lang".as_ref(), language.as_ref(), "--dir".as_ref(), folder.as_ref()];
    Answer::of(Command::new(pintle).args(new))?.success()?;
    if ["ts", "js"].contains(&language) {
        // What `npm install` makes: a folder of libraries, in which the SDK is a link to that of the project.
        let libraries = folder.join("node_modules");
        std::fs::create_dir(&libraries)?;
        for entry in std::fs::read_dir(workspace_dir().join("sdk/js/node_modules"))? {
            let entry = entry?;
            if entry.file_name() != "pintle" {
                std::os::unix::fs::symlink(entry.path(), libraries.join(entry.file_name()))?;
            }
        }
        std::os::unix::fs::symlink("../.pintle/sdk/js", libraries.join("pintle"))?;
    }
    Ok(folder)
}

/// What `pintle test` says of a component, with these cases.
///
/// # Errors
/// The binary cannot be run.
pub fn test(component: &Path, cases: &Path, more: &[&str]) -> Result<Answer> {
    let mut test = pintle::command(["test".as_ref(), component, "--cases".as_ref(), cases])?;
    Answer::of(test.args(more))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from).with_context(|| format!("read {}", from.display()))? {
        let entry = entry?;
        let name = entry.file_name();
        if NOT_COPIED.iter().any(|not| *name == **not) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to.join(name))?;
        } else {
            let (text, to) = (std::fs::read(entry.path())?, to.join(name));
            // One that is the same keeps its time, by which compilers see that there is nothing to do.
            if std::fs::read(&to).ok().as_ref() != Some(&text) {
                std::fs::write(to, text)?;
            }
        }
    }
    Ok(())
}
