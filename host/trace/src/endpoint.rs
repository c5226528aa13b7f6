//! The address of a collector.

use std::fmt;
use std::str::FromStr;

use http::uri::Authority;

/// The default of kube-apiserver, kubelet and OTLP.
const DEFAULT: &str = "localhost:4317";
/// The port of OTLP over gRPC.
const PORT: u16 = 4317;
/// The SDK's variables; the first one takes precedence.
const VARIABLES: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];

/// The address of a collector that accepts OTLP over gRPC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    authority: Authority,
    is_https: bool,
}

/// An invalid address. A retry does not help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// The text does not have the required form.
    #[error("write HOST:PORT or http://HOST:PORT for plain text, https://HOST:PORT for TLS, for example {DEFAULT}")]
    Form,
    /// The value of an environment variable does not have the required form.
    #[error("{variable}={value:?}: {}", Self::Form)]
    Variable {
        /// Its name.
        variable: &'static str,
        /// Its value.
        value: String,
    },
}

impl Endpoint {
    /// The address in the environment variables of the SDK, or else `localhost:4317`.
    ///
    /// # Errors
    /// [`EndpointError::Variable`].
    pub fn by_environment(variable: impl Fn(&str) -> Option<String>) -> Result<Self, EndpointError> {
        let given =
            VARIABLES.into_iter().find_map(|name| Some((name, variable(name).filter(|value| !value.is_empty())?)));
        match given {
            Some((variable, value)) => value.parse().map_err(|_| EndpointError::Variable { variable, value }),
            None => DEFAULT.parse(),
        }
    }

    pub(crate) fn is_https(&self) -> bool {
        self.is_https
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
        let is_https = match scheme {
            "http" => false,
            "https" => true,
            _ => return Err(EndpointError::Form),
        };
        let authority: Authority = rest.strip_suffix('/').unwrap_or(rest).parse().map_err(|_| EndpointError::Form)?;
        // A password would appear in the log.
        let is_bare = !authority.as_str().contains('@') && !authority.host().is_empty();
        // The library accepts a port that is not a number.
        let has_port = authority.as_str().len() > authority.host().len();
        if !is_bare || (has_port && authority.port_u16().is_none_or(|port| port == 0)) {
            return Err(EndpointError::Form);
        }
        let authority = match has_port {
            true => authority,
            false => format!("{authority}:{PORT}").parse().map_err(|_| EndpointError::Form)?,
        };
        Ok(Self { authority, is_https })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.is_https { "https" } else { "http" }, self.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_with_a_port_or_a_url_without_a_path() {
        for (text, url) in [
            ("localhost:4317", "http://localhost:4317"),
            ("collector.monitoring", "http://collector.monitoring:4317"),
            ("10.0.0.1:55680", "http://10.0.0.1:55680"),
            ("[::1]:4317", "http://[::1]:4317"),
            ("[::1]", "http://[::1]:4317"),
            ("http://collector:4317/", "http://collector:4317"),
            ("https://collector.example.com", "https://collector.example.com:4317"),
        ] {
            assert_eq!(text.parse::<Endpoint>().map(|endpoint| endpoint.to_string()), Ok(url.to_owned()), "{text}");
        }
        for text in [
            "",
            "http://",
            ":4317",
            "grpc://collector:4317",
            "unix:///run/collector",
            "http://collector:4317/v1/traces",
            "user:password@collector:4317",
            "collector:port",
            "collector:",
            "collector:0",
            "collector:65536",
            "collector:4317?a=b",
            "two words:4317",
        ] {
            assert_eq!(text.parse::<Endpoint>(), Err(EndpointError::Form), "{text}");
        }
    }

    #[test]
    fn the_variables_of_the_sdk_are_the_default() {
        let with = |set: &'static [(&str, &str)]| {
            let variable =
                |name: &str| set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
            Endpoint::by_environment(variable).map(|endpoint| endpoint.to_string()).map_err(|why| why.to_string())
        };
        assert_eq!(with(&[]), Ok("http://localhost:4317".to_owned()));
        let both =
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:1"), ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://b:2")];
        assert_eq!((with(both), with(&both[..1])), (Ok("http://b:2".to_owned()), Ok("http://a:1".to_owned())));
        assert_eq!(with(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "")]), Ok("http://localhost:4317".to_owned()));
        let error = with(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a/v1/traces")]).unwrap_err();
        assert!(
            error.starts_with(r#"OTEL_EXPORTER_OTLP_ENDPOINT="http://a/v1/traces": write HOST:PORT or"#),
            "{error}"
        );
    }
}
