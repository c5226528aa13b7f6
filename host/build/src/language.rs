//! The language of a plugin.

use std::fmt;
use std::fs;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, bail};

/// A language that plugins are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// A folder with `Cargo.toml`.
    Rust,
    /// With `go.mod`.
    Go,
    /// With `package.json`.
    JavaScript,
    /// With `package.json` and `tsconfig.json`.
    TypeScript,
    /// With `pyproject.toml`.
    Python,
}

/// Installs the libraries of a project in JavaScript or TypeScript.
pub(crate) const NPM_INSTALL: &str = "npm install";
/// Installs the libraries of a project in Python.
pub(crate) const PIP_INSTALL: &str = "python3 -m venv .venv && .venv/bin/pip install -r requirements.txt";

impl Language {
    /// All languages, in the order of detection.
    pub const ALL: [Self; 5] = [Self::Rust, Self::Go, Self::TypeScript, Self::JavaScript, Self::Python];

    /// Its name on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Go => "go",
            Self::JavaScript => "js",
            Self::TypeScript => "ts",
            Self::Python => "python",
        }
    }

    /// Other names on the command line.
    pub fn aliases(self) -> &'static [&'static str] {
        match self {
            Self::Rust => &["rs"],
            Self::Go => &["golang"],
            Self::JavaScript => &["javascript"],
            Self::TypeScript => &["typescript"],
            Self::Python => &["py"],
        }
    }

    /// Folder of its SDK below `sdk`.
    pub fn sdk(self) -> &'static str {
        match self {
            Self::TypeScript => Self::JavaScript.word(),
            other => other.word(),
        }
    }

    /// Its tutorial, by the path in the repository.
    pub fn tutorial(self) -> String {
        format!("sdk/docs/tutorial-{}.md", self.to_string().to_lowercase())
    }

    /// The language of a folder, by the files in it.
    ///
    /// # Errors
    /// If the folder cannot be read, or has none of the files.
    pub fn of(folder: &Path) -> anyhow::Result<Self> {
        let has = |file: &str| folder.join(file).is_file();
        fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))?;
        Ok(if has("Cargo.toml") {
            Self::Rust
        } else if has("go.mod") {
            Self::Go
        } else if has("package.json") {
            if has("tsconfig.json") { Self::TypeScript } else { Self::JavaScript }
        } else if has("pyproject.toml") {
            Self::Python
        } else {
            bail!(
                "{} is not a plugin in a language that can be built: it has no Cargo.toml, go.mod, package.json or \
                 pyproject.toml (`pintle new` makes a folder to begin with; `pintle package --manifest` takes a component of any \
                 other toolchain)",
                folder.display()
            )
        })
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rust => "Rust",
            Self::Go => "Go",
            Self::JavaScript => "JavaScript",
            Self::TypeScript => "TypeScript",
            Self::Python => "Python",
        })
    }
}

impl FromStr for Language {
    type Err = anyhow::Error;

    fn from_str(word: &str) -> anyhow::Result<Self> {
        Self::ALL
            .into_iter()
            .find(|language| language.word() == word || language.aliases().contains(&word))
            .with_context(|| format!("{word:?} is none of {}", Self::ALL.map(Self::word).join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_language_has_one_word_and_others_that_mean_it() {
        for (word, language) in [("ts", "TypeScript"), ("typescript", "TypeScript"), ("py", "Python"), ("golang", "Go")]
        {
            assert_eq!(word.parse::<Language>().unwrap().to_string(), language);
        }
        let why = "perl".parse::<Language>().unwrap_err().to_string();
        assert_eq!(why, "\"perl\" is none of rust, go, ts, js, python");
    }

    #[test]
    fn a_folder_is_what_its_files_say() {
        for (files, expected) in [
            (&["Cargo.toml"] as &[_], "Rust"),
            (&["go.mod"], "Go"),
            (&["package.json"], "JavaScript"),
            (&["package.json", "tsconfig.json"], "TypeScript"),
            (&["pyproject.toml", "app.py"], "Python"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            for file in files {
                fs::write(folder.path().join(file), "").unwrap();
            }
            assert_eq!(Language::of(folder.path()).unwrap().to_string(), expected, "{files:?}");
        }
    }

    #[test]
    fn a_folder_that_is_no_plugin_is_told_what_one_is() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("main.zig"), "").unwrap();
        let why = Language::of(folder.path()).unwrap_err().to_string();
        assert!(why.contains("no Cargo.toml, go.mod, package.json or pyproject.toml ("), "{why}");
    }

    #[test]
    fn words_of_the_command_line_are_taken_back() {
        for language in Language::ALL {
            assert_eq!(language.word().parse::<Language>().unwrap(), language);
        }
        let why = "java".parse::<Language>().unwrap_err().to_string();
        assert_eq!(why, "\"java\" is none of rust, go, ts, js, python");
    }
}
