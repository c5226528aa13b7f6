//! Warns of clocks and networks in the sources of a plugin, which has neither.
//!
//! Run-time libraries need both, so components look the same with and without them: a clock stands still, and a
//! connection fails when it is opened. This scans lines of the plugin's own files and ignores scopes, so its findings
//! are warnings.

use std::fs;
use std::path::Path;

use crate::Language;
use crate::crds::source_files;

/// A missing capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lack {
    Clock,
    Network,
}

/// Words that indicate a capability in a line, and the SDK's replacements.
struct Words {
    endings: &'static [&'static str],
    /// An import of these modules.
    modules: &'static [&'static str],
    network: &'static [&'static str],
    clock: &'static [&'static str],
    now: &'static str,
    call: &'static str,
}

const GO: Words = Words {
    endings: &["go"],
    modules: &[],
    // Other parts of `net` are pure, such as `net.ParseIP`.
    network: &["\"net/http\"", "net.Dial", "net.Listen", "net.Lookup"],
    clock: &["time.Now(", "time.Since(", "time.Until(", "time.Sleep("],
    now: "lister.Now()",
    call: "pintle.NeedCall",
};
const JAVASCRIPT: Words = Words {
    endings: &["js", "mjs", "ts", "mts"],
    modules: &[],
    network: &["fetch(", "XMLHttpRequest(", "WebSocket("],
    clock: &["Date.now(", "new Date()", "performance.now("],
    now: "lister.now()",
    call: "Need.call",
};
const PYTHON: Words = Words {
    endings: &["py"],
    modules: &[
        "aiohttp",
        "ftplib",
        "http.client",
        "httpx",
        "requests",
        "smtplib",
        "socket",
        "urllib.request",
        "urllib3",
    ],
    network: &[],
    clock: &[
        "time.time(",
        "time.monotonic(",
        "time.sleep(",
        "datetime.now(",
        "datetime.utcnow(",
        "datetime.today(",
        "date.today(",
        "datetime.datetime.now(",
        "datetime.datetime.utcnow(",
        "datetime.date.today(",
    ],
    now: "lister.now()",
    call: "pintle.call",
};

impl Words {
    /// For languages whose components contain clocks and sockets without effect. In Rust, a clock panics with its
    /// location.
    fn of(language: Language) -> Option<Self> {
        match language {
            Language::Rust => None,
            Language::Go => Some(GO),
            Language::JavaScript | Language::TypeScript => Some(JAVASCRIPT),
            Language::Python => Some(PYTHON),
        }
    }

    /// The first use of a missing capability in a line.
    fn found(&self, line: &str) -> Option<(&'static str, Lack)> {
        let line = line.trim_start();
        if ["//", "/*", "*", "#"].iter().any(|comment| line.starts_with(comment)) {
            return None;
        }
        let imported = line.strip_prefix("import ").or_else(|| line.strip_prefix("from "));
        let is_imported = |module: &str| {
            let names = imported
                .into_iter()
                .flat_map(|names| names.split(" import ").take(1))
                .flat_map(|names| names.split(','));
            names
                .map(|name| name.split_whitespace().next().unwrap_or_default())
                .any(|name| name.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
        };
        let module = self.modules.iter().find(|module| is_imported(module)).map(|module| (*module, Lack::Network));
        let called = |words: &'static [&'static str], lack| {
            words.iter().find(|word| is_called(line, word)).map(|word| (word.trim_matches(['(', '"']), lack))
        };
        module.or_else(|| called(self.network, Lack::Network)).or_else(|| called(self.clock, Lack::Clock))
    }

    fn warning(&self, place: &str, word: &str, lack: Lack) -> String {
        match lack {
            Lack::Clock => {
                format!("{place}: warning: {word}: a plugin has no clock; {} is the time of the run", self.now)
            }
            Lack::Network => format!(
                "{place}: warning: {word}: a plugin has no network; declare an endpoint in `endpoints` of manifest.yaml, and ask for a \
                 call of it ({})",
                self.call
            ),
        }
    }
}

/// Whether a line contains this word, not as the end of a longer one, a member or a definition.
fn is_called(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = &line[..at];
        let is_part = |letter: char| letter == '_' || letter == '.' || letter == '$' || letter.is_alphanumeric();
        !before.ends_with(is_part) && !before.trim_end().ends_with("function")
    })
}

/// One line for each use of a clock or a network in the files of a plugin, except those of tests.
pub(crate) fn warnings(folder: &Path, language: Language) -> Vec<String> {
    let Some(words) = Words::of(language) else { return Vec::new() };
    let mut warnings = Vec::new();
    let is_test = |file: &Path| file.iter().any(|part| part.to_string_lossy().contains("test"));
    for file in source_files(folder, words.endings).iter().filter(|file| !is_test(file)) {
        // The compiler reports unreadable files.
        let Ok(text) = fs::read_to_string(folder.join(file)) else { continue };
        for (i, line) in text.lines().enumerate() {
            if let Some((word, lack)) = words.found(line) {
                warnings.push(words.warning(&format!("{}:{}", file.display(), i + 1), word, lack));
            }
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CustomKind, Scaffold};

    #[test]
    fn a_clock_and_a_network_are_found_and_their_likes_are_not() {
        use Lack::{Clock, Network};
        for (language, line, expected) in [
            (Language::Go, "\t\"net/http\"", Some(("net/http", Network))),
            (Language::Go, "import web \"net/http\"", Some(("net/http", Network))),
            (Language::Go, "\tconn, err := net.DialTimeout(\"tcp\", at, limit)", Some(("net.Dial", Network))),
            (Language::Go, "\tnow := time.Now().UTC()", Some(("time.Now", Clock))),
            (Language::Go, "\t\"net/url\"", None),
            (Language::Go, "\tip := net.ParseIP(text)", None),
            (Language::Go, "\tnow := lister.Now()", None),
            (Language::Go, "\t// As time.Now() would.", None),
            (Language::Go, "\tmytime.Now()", None),
            (Language::TypeScript, "  const answer = await fetch(url);", Some(("fetch", Network))),
            (Language::TypeScript, "  const at = new Date();", Some(("new Date()", Clock))),
            (Language::JavaScript, "  return Date.now() - begun;", Some(("Date.now", Clock))),
            (Language::JavaScript, "  const at = new Date(lister.now());", None),
            (Language::JavaScript, "  this.fetch(key); prefetch(key);", None),
            (Language::JavaScript, "function fetch(key) {", None),
            (Language::JavaScript, "   * fetch(url) is not there.", None),
            (Language::Python, "import requests", Some(("requests", Network))),
            (Language::Python, "import json, http.client as web", Some(("http.client", Network))),
            (Language::Python, "from urllib.request import urlopen", Some(("urllib.request", Network))),
            (Language::Python, "    at = datetime.datetime.now(tz)", Some(("datetime.datetime.now", Clock))),
            (Language::Python, "    time.sleep(1)", Some(("time.sleep", Clock))),
            (Language::Python, "from http import HTTPStatus", None),
            (Language::Python, "import socketry, urllib.parse", None),
            (Language::Python, "    at = lister.now()", None),
            (Language::Python, "    # date.today() is not there.", None),
        ] {
            assert_eq!(Words::of(language).unwrap().found(line), expected, "{language}: {line}");
        }
    }

    #[test]
    fn each_use_is_told_with_its_place_and_what_to_use_instead() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("main.go", "package main\n\nimport \"net/http\"\n");
        put("names/names.go", "package names\nvar at = time.Now()\n");
        for other in ["main_test.go", ".pintle/sdk/go/dev.go", "tests/a.go", "notes.txt"] {
            put(other, "time.Now()\n\"net/http\"\n");
        }
        assert_eq!(
            warnings(folder.path(), Language::Go),
            [
                "main.go:3: warning: net/http: a plugin has no network; declare an endpoint in `endpoints` of manifest.yaml, and ask \
                 for a call of it (pintle.NeedCall)",
                "names/names.go:2: warning: time.Now: a plugin has no clock; lister.Now() is the time of the run",
            ]
        );
        assert_eq!(warnings(folder.path(), Language::Rust), [""; 0]);
    }

    #[test]
    fn new_projects_and_the_examples_use_neither() {
        let sdks = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdk");
        let kind = CustomKind::parse("example.org/v1/Team", None, false).unwrap();
        for language in Language::ALL {
            for (kind, example) in [(None, false), (Some(&kind), false), (Some(&kind), true)] {
                let root = tempfile::tempdir().unwrap();
                let folder = root.path().join("x");
                Scaffold { name: "teams", language, folder: &folder, kind, example, schemas: &[] }.write().unwrap();
                assert_eq!(warnings(&folder, language), [""; 0], "{language}");
            }
            let examples = sdks.join(language.sdk()).join("examples");
            assert_eq!(warnings(&examples, language), [""; 0], "{language}");
        }
    }
}
