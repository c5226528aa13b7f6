//! The interfaces of WASI 0.2 that a component may import, with their effects. The check at load, `pintle inspect` and
//! the page for authors use this list.

/// An interface of WASI 0.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WasiInterface {
    /// Its name without a version, for example `wasi:cli/stdout`. Every version 0.2.x is accepted.
    pub name: &'static str,
    /// What it provides to a plugin.
    pub gives: &'static str,
}

const fn gives(name: &'static str, gives: &'static str) -> WasiInterface {
    WasiInterface { name, gives }
}

/// WASI packages for networks.
const NETWORK: [&str; 3] = ["wasi:http/", "wasi:sockets/", "wasi:tls/"];

const EMPTY: &str = "none";
const NO_TERMINAL: &str = "not a terminal";
const NO_FILES: &str = "no files: nothing can be opened";
const NO_NETWORK: &str = "no network: every attempt fails with access-denied";
const NO_HTTP: &str = "no network: a call is a fault";

/// Interfaces that a component may import, sorted by name.
pub const WASI_INTERFACES: [WasiInterface; 29] = [
    gives("wasi:cli/environment", "no variables, no arguments, no working directory"),
    gives("wasi:cli/exit", "a call is a fault"),
    gives("wasi:cli/stderr", "lines go to the plugin's log at level warn"),
    gives("wasi:cli/stdin", "empty"),
    gives("wasi:cli/stdout", "lines go to the plugin's log at level info"),
    gives("wasi:cli/terminal-input", EMPTY),
    gives("wasi:cli/terminal-output", EMPTY),
    gives("wasi:cli/terminal-stderr", NO_TERMINAL),
    gives("wasi:cli/terminal-stdin", NO_TERMINAL),
    gives("wasi:cli/terminal-stdout", NO_TERMINAL),
    gives("wasi:clocks/monotonic-clock", "the time of the run; a timer is due at once and moves the clocks forward"),
    gives("wasi:clocks/wall-clock", "the time of the run, as lister.now"),
    gives("wasi:filesystem/preopens", NO_FILES),
    gives("wasi:filesystem/types", NO_FILES),
    gives("wasi:http/outgoing-handler", NO_HTTP),
    gives("wasi:http/types", NO_HTTP),
    gives("wasi:io/error", EMPTY),
    gives("wasi:io/poll", "returns at once"),
    gives("wasi:io/streams", "stdin, stdout and stderr"),
    gives("wasi:random/insecure", "the same numbers for the same key and resourceVersion"),
    gives("wasi:random/insecure-seed", "the same number always"),
    gives("wasi:random/random", "the same numbers for the same key and resourceVersion"),
    gives("wasi:sockets/instance-network", NO_NETWORK),
    gives("wasi:sockets/ip-name-lookup", NO_NETWORK),
    gives("wasi:sockets/network", NO_NETWORK),
    gives("wasi:sockets/tcp", NO_NETWORK),
    gives("wasi:sockets/tcp-create-socket", NO_NETWORK),
    gives("wasi:sockets/udp", NO_NETWORK),
    gives("wasi:sockets/udp-create-socket", NO_NETWORK),
];

/// Whether the name of an import is one of WASI.
pub(crate) fn is_wasi(import: &str) -> bool {
    import.starts_with("wasi:")
}

/// The accepted interface of an import: with any version 0.2.x, without pre-releases.
pub fn wasi_interface(import: &str) -> Option<&'static WasiInterface> {
    let (name, version) = import.split_once('@')?;
    let patch = version.strip_prefix("0.2.")?;
    if patch.is_empty() || !patch.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    WASI_INTERFACES.iter().find(|interface| interface.name == name)
}

/// What the author of a component with these imports can do, as the end of a sentence; empty if no import is from WASI.
pub(crate) fn advice(refused: &[String]) -> String {
    let (mut version, mut network, mut other) = (false, false, false);
    for import in refused.iter().filter(|import| is_wasi(import)) {
        let of_0_2 =
            import.split_once('@').is_some_and(|(_, version)| version.starts_with("0.2.") && !version.contains('-'));
        let of_network = NETWORK.iter().any(|package| import.starts_with(package));
        version |= !of_0_2;
        network |= of_0_2 && of_network;
        other |= of_0_2 && !of_network;
    }
    let mut advice = String::new();
    if version {
        advice += "; of WASI, the host offers versions 0.2.x: build for WASI 0.2, for example for wasm32-wasip2";
    }
    if network {
        advice += "; a plugin neither serves nor calls a network: it reads through the lister, asks for more with needs, and \
                   writes with its outcome";
    }
    if other {
        let names: Vec<&str> = WASI_INTERFACES.iter().map(|interface| interface.name).collect();
        advice += &format!("; of WASI 0.2, the host offers {}", names.join(", "));
    }
    advice
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_patch_version_of_wasi_0_2_is_accepted_and_no_other() {
        for version in ["0.2.0", "0.2.6", "0.2.12", "0.2.100"] {
            assert!(wasi_interface(&format!("wasi:cli/stdout@{version}")).is_some(), "{version}");
        }
        for version in ["0.1.0", "0.2", "0.2.", "0.2.0-rc-2023-11-10", "0.3.0", "0.20.1", "1.0.2"] {
            assert_eq!(wasi_interface(&format!("wasi:cli/stdout@{version}")), None, "{version}");
        }
        assert_eq!(wasi_interface("wasi:cli/stdout"), None);
        assert_eq!(wasi_interface("acme:cli/stdout@0.2.0"), None);
        assert_eq!(wasi_interface("wasi:cli/command@0.2.0"), None);
    }

    #[test]
    fn the_list_is_sorted_and_has_no_duplicates() {
        assert!(WASI_INTERFACES.is_sorted_by(|one, other| one.name < other.name));
    }

    #[test]
    fn advice_is_for_what_was_refused() {
        let of = |imports: &[&str]| advice(&imports.iter().map(|&import| import.to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&["acme:db/store@1.0.0", "run"]), "");
        let version = "; of WASI, the host offers versions 0.2.x: build for WASI 0.2, for example for wasm32-wasip2";
        assert_eq!(of(&["wasi:cli/stdout@0.3.0"]), version);
        assert_eq!(of(&["wasi:cli/stdout@0.2.0-rc-2023-11-10", "wasi:http/types@0.3.0"]), version);
        assert!(of(&["wasi:http/incoming-handler@0.2.4"]).starts_with("; a plugin neither serves nor calls a network"));
        let other = of(&["wasi:keyvalue/store@0.3.0", "wasi:cli/command@0.2.0"]);
        let listed = other.strip_prefix(version).unwrap();
        assert!(listed.starts_with("; of WASI 0.2, the host offers wasi:cli/environment, wasi:cli/exit,"), "{listed}");
    }
}
