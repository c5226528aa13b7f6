//! Flag value parsers, which run before anything else.
//!
//! Flags of single controllers are in `controllers`, those of controllers that are not implemented in `upstream`.
//!
//! *Source*: `cmd/kube-controller-manager/app/options`. Upstream accepts any number of workers, and runs nothing with 0; here
//! 0 is rejected.

pub(crate) mod controllers;
pub(crate) mod controllers_flag;
pub(crate) mod gates;
pub(crate) mod upstream;
pub(crate) mod versions;

use std::net::SocketAddr;
use std::time::Duration;

use axum::http::Uri;
use pintle_core::contract::manifest::{Limits, is_label};
use pintle_serve::policy::access::AllowedPaths;

pub(crate) use pintle_core::duration::parse_period as duration;

/// Parses limits of runs: `NAME=NUMBER`, separated by commas.
///
/// # Errors
/// The error, with the valid names.
pub(crate) fn limits(text: &str) -> Result<Limits, String> {
    let mut limits = serde_json::Map::new();
    for item in text.split(',').filter(|item| !item.is_empty()) {
        let parsed = item.split_once('=').and_then(|(name, value)| Some((name, value.parse::<u64>().ok()?)));
        let Some((name, value)) = parsed else {
            return Err(format!("{item:?}: write LIMIT=NUMBER, for example deadlineMs=2000"));
        };
        if limits.insert(name.to_owned(), value.into()).is_some() {
            return Err(format!("duplicate {name}"));
        }
    }
    serde_json::from_value(limits.into()).map_err(|why| why.to_string())
}

/// Parses the class of a host, which the definition of `ControllerPlugin` restricts in the same way.
///
/// # Errors
/// It is not a DNS label.
pub(crate) fn class(text: &str) -> Result<String, String> {
    if is_label(text) {
        Ok(text.to_owned())
    } else {
        Err("write up to 63 of a-z, 0-9 and `-`, for example blue".to_owned())
    }
}

/// Parses the name of an object.
///
/// # Errors
/// It is not a DNS subdomain.
pub(crate) fn object_name(text: &str) -> Result<String, String> {
    if text.len() <= 253 && text.split('.').all(is_label) {
        Ok(text.to_owned())
    } else {
        Err("write up to 253 of a-z, 0-9, `-` and `.`, for example kube-controller-manager".to_owned())
    }
}

/// Parses a timeout.
///
/// # Errors
/// The valid syntax, or the time is 0.
pub(crate) fn timeout(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("write more than 0, or leave it out to wait as long as it takes".to_owned()),
        time => Ok(time),
    }
}

/// Parses requests per second.
///
/// # Errors
/// The text is not a finite number.
pub(crate) fn rate(text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(rate) if rate.is_finite() => Ok(rate),
        _ => Err("write a number such as 20, or 0 for no limit".to_owned()),
    }
}

/// Parses an address for plain HTTP, which must be on loopback.
///
/// # Errors
/// It is not an address, or not on loopback.
pub fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text.parse().map_err(|_| "write IP:PORT, for example 127.0.0.1:8080".to_owned())?;
    match address.ip().to_canonical().is_loopback() {
        true => Ok(address),
        false => {
            Err("it has no authentication, and is for loopback only: write 127.0.0.1:PORT, or use --secure-port and --bind-address".to_owned())
        }
    }
}

/// Parses a path that needs no authorization.
///
/// # Errors
/// The valid form.
pub(crate) fn allowed_path(text: &str) -> Result<String, String> {
    AllowedPaths::new([text]).map(|_| text.to_owned())
}

/// Parses the minimum TLS version.
///
/// # Errors
/// The valid names.
pub(crate) fn tls_version(text: &str) -> Result<String, String> {
    pintle_serve::min_version(text).map(|_| text.to_owned())
}

/// Parses a cipher suite.
///
/// # Errors
/// The valid names.
pub(crate) fn cipher_suite(text: &str) -> Result<String, String> {
    pintle_serve::cipher_suites(text).map(|_| text.to_owned())
}

/// Parses a key exchange.
///
/// # Errors
/// The valid numbers.
pub(crate) fn curve(text: &str) -> Result<String, String> {
    pintle_serve::curves(text).map(|_| text.to_owned())
}

/// Parses the name of a header, or a prefix of one, into lower case.
///
/// # Errors
/// It is not the name of a header.
pub(crate) fn header(text: &str) -> Result<String, String> {
    let name = text.trim().to_ascii_lowercase();
    match axum::http::HeaderName::from_bytes(name.as_bytes()) {
        Ok(_) => Ok(name),
        Err(_) => Err("write the name of an HTTP header, for example X-Remote-User".to_owned()),
    }
}

/// Parses the address of an API server.
///
/// # Errors
/// The valid form.
pub(crate) fn server(text: &str) -> Result<Uri, String> {
    let uri = text.parse::<Uri>().ok();
    let is_whole = |uri: &Uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some();
    uri.filter(is_whole).ok_or_else(|| "write https://HOST:PORT".to_owned())
}

/// Parses the content type of requests. Only one is supported.
///
/// # Errors
/// It is another content type.
pub(crate) fn content_type(text: &str) -> Result<String, String> {
    match text {
        "application/json" => Ok(text.to_owned()),
        _ => Err("Pintle reads and writes JSON: write application/json, or leave it out".to_owned()),
    }
}

/// Parses the name of a metric.
///
/// # Errors
/// It is not a valid metric name.
pub(crate) fn metric(text: &str) -> Result<String, String> {
    let is_name = |text: &str| {
        let mut letters = text.chars();
        letters.next().is_some_and(|first| first.is_ascii_alphabetic() || matches!(first, '_' | ':'))
            && letters.all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '_' | ':'))
    };
    match is_name(text) {
        true => Ok(text.to_owned()),
        false => Err("write the names of metrics, for example workqueue_depth".to_owned()),
    }
}

/// Parses the version whose hidden metrics are shown, which can only be the previous one.
///
/// # Errors
/// It is another version.
///
/// # Source
/// `ValidateShowHiddenMetricsVersion` in k8s.io/component-base/metrics.
pub(crate) fn previous_version(text: &str) -> Result<String, String> {
    let previous = format!("1.{}", versions::newest().saturating_sub(1));
    if text == previous {
        Ok(previous)
    } else {
        Err(format!("write {previous}, the previous version, or leave it out"))
    }
}

/// Parses a profiling flag. Profiling is not supported.
///
/// # Errors
/// It is not `false`.
pub(crate) fn no_profiling(text: &str) -> Result<bool, String> {
    match text {
        "false" => Ok(false),
        _ => Err("Pintle has no profiling endpoints: write false, or leave it out".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_have_names_and_numbers() {
        let two = limits("deadlineMs=2000,memoryBytes=1048576").unwrap();
        assert_eq!((two.deadline_ms, two.memory_bytes, two.mutations), (Some(2000), Some(1 << 20), None));
        assert_eq!(limits(""), Ok(Limits::default()));
        for (text, why) in [
            ("deadlineMs", "\"deadlineMs\": write LIMIT=NUMBER, for example deadlineMs=2000"),
            ("deadlineMs=-1", "\"deadlineMs=-1\": write LIMIT=NUMBER, for example deadlineMs=2000"),
            ("mutations=1,mutations=2", "duplicate mutations"),
        ] {
            assert_eq!(limits(text), Err(why.to_owned()));
        }
        assert!(limits("cpu=1").unwrap_err().starts_with("unknown field `cpu`, expected one of `deadlineMs`"));
    }

    #[test]
    fn a_time_to_wait_is_not_zero() {
        assert_eq!(timeout("90s"), Ok(Duration::from_secs(90)));
        assert!(timeout("0").unwrap_err().contains("as long as it takes"));
        assert!(timeout("5").unwrap_err().contains("write a duration such as"));
    }

    #[test]
    fn plain_http_is_for_loopback() {
        for address in ["127.0.0.1:0", "127.1.2.3:80", "[::1]:80", "[::ffff:127.0.0.1]:80"] {
            assert!(loopback(address).is_ok(), "{address}");
        }
        for address in ["0.0.0.0:80", "[::]:80", "10.0.0.1:80", "[::ffff:10.0.0.1]:80"] {
            assert!(loopback(address).unwrap_err().contains("loopback only"), "{address}");
        }
        assert!(loopback("localhost:80").is_err());
    }

    #[test]
    fn headers_are_lower_case() {
        assert_eq!(header(" X-Remote-User "), Ok("x-remote-user".to_owned()));
        for wrong in ["", "a b", "a:"] {
            assert!(header(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_class_is_a_label() {
        let longest = "a".repeat(63);
        for text in ["default", "a-1", "0", &longest] {
            assert_eq!(class(text), Ok(text.to_owned()));
        }
        for text in ["", "-a", "a-", "A", "a.b", &format!("{longest}a")] {
            assert!(class(text).is_err(), "{text}");
        }
    }

    #[test]
    fn names_of_objects_are_subdomains() {
        for text in ["kube-controller-manager", "a.b-1.c", &"a".repeat(63)] {
            assert_eq!(object_name(text), Ok(text.to_owned()));
        }
        for text in ["", ".", "a..b", "A", "a/b", &["a".repeat(63).as_str(); 5].join(".")] {
            assert!(object_name(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_has_one_valid_value_names_it() {
        assert!(server("https://api.example.com:6443").is_ok() && server("http://[::1]:8080").is_ok());
        for wrong in ["", "api.example.com", "api.example.com:6443", "ftp://a", "/a", "https://"] {
            assert_eq!(server(wrong), Err("write https://HOST:PORT".to_owned()), "{wrong}");
        }
        assert!(content_type("application/json").is_ok());
        assert!(content_type("application/vnd.kubernetes.protobuf").unwrap_err().contains("write application/json"));
        assert_eq!(no_profiling("false"), Ok(false));
        assert!(no_profiling("true").unwrap_err().contains("no profiling endpoints"));
        assert_eq!(previous_version("1.36"), Ok("1.36".to_owned()));
        assert_eq!(previous_version("1.35"), Err("write 1.36, the previous version, or leave it out".to_owned()));
        assert!(metric("workqueue_depth").is_ok() && metric("a:b").is_ok());
        for wrong in ["", "1a", "a b", "a{b=\"c\"}"] {
            assert!(metric(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rates_are_finite() {
        assert_eq!((rate("20"), rate("0.5"), rate("-1")), (Ok(20.0), Ok(0.5), Ok(-1.0)));
        for text in ["nan", "inf", "x", ""] {
            assert!(rate(text).is_err(), "{text}");
        }
    }
}
