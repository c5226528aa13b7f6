//! Configuration of a connection: the kubeconfig files with everything they refer to, and the proxy.
//!
//! Files may change while the host runs: certificates, keys, tokens and authorities rotate. [`Settings::load`] reads
//! all of them again, and [`Settings::is_same`] reports whether new connections are needed.
//!
//! Source: client-go `tools/clientcmd/loader.go` (several files), `golang.org/x/net/http/httpproxy` (proxies of the
//! environment).

use std::env;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use http::Uri;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use kube::Config;
use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig};

use crate::error;
use crate::route::Dial;

/// Source of the address and the credentials.
#[derive(Clone, Debug)]
pub enum Source {
    /// Kubeconfig files and the name of a context in them (default: the current context).
    File {
        /// Path of the file, or a list of paths as in the environment variable KUBECONFIG.
        path: PathBuf,
        /// Name of the context.
        context: Option<String>,
    },
    /// The text of a kubeconfig.
    Text(String),
    /// The service account of the Pod that this process runs in.
    InCluster,
    /// An API server within this process, without credentials.
    InProcess {
        /// The address in requests: `http://HOST`.
        server: http::Uri,
        /// Opens connections to it.
        dial: Dial,
    },
    /// Another source, or none, with the API server at another address, like `--master` of Kubernetes components.
    At {
        /// Address of the API server: `http://HOST:PORT` or `https://HOST:PORT`.
        server: http::Uri,
        /// The other settings; if absent, requests have no credentials.
        of: Option<Box<Source>>,
    },
}

/// Reasons why the API server cannot be used. Each message contains the next step.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig is missing, unreadable or invalid.
    #[error("cannot use kubeconfig {path}: {why}; name another with --kubeconfig FILE")]
    Kubeconfig {
        /// The file.
        path: String,
        /// The problem.
        why: String,
    },
    /// Not in a Pod.
    #[error(
        "no cluster: this process is not in a Pod of one (KUBERNETES_SERVICE_HOST is not set); name a kubeconfig with --kubeconfig FILE, for example --kubeconfig ~/.kube/config"
    )]
    NoCluster,
    /// For example in a Pod without a service account token.
    #[error(
        "cannot use the in-cluster configuration: {0}; outside a cluster, name a kubeconfig with --kubeconfig FILE"
    )]
    InCluster(String),
    /// The proxy cannot be used.
    #[error(
        "cannot use the proxy {url:?}; `proxy-url` of the kubeconfig, HTTPS_PROXY and HTTP_PROXY accept http://HOST:PORT, https://HOST:PORT and socks5://HOST:PORT"
    )]
    Proxy {
        /// Address of the proxy, without user and password.
        url: String,
    },
    /// The HTTP client cannot be created, for example because a certificate does not parse.
    #[error("cannot create a client for {url}: {why}")]
    Client {
        /// Address of the server.
        url: String,
        /// The problem.
        why: String,
    },
    /// The server rejected the credentials.
    #[error(
        "the API server at {url} does not accept these credentials ({why}); check the user of the kubeconfig's context"
    )]
    Unauthorized {
        /// Address of the server.
        url: String,
        /// The server's message.
        why: String,
    },
    /// The server returned no usable answer.
    #[error(
        "cannot reach the API server at {url}: {why}; check that it runs and that the address in the kubeconfig is right"
    )]
    Unreachable {
        /// Address of the server.
        url: String,
        /// The cause.
        why: String,
    },
}

/// The loaded settings.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) config: Config,
    /// The proxy to the API server.
    pub(crate) proxy: Option<Intercept>,
    /// The route to an API server within this process.
    pub(crate) dial: Option<Dial>,
    /// Hash of everything that connections depend on, except the token file, which is read per request.
    identity: u64,
    /// Hash of the token file's contents.
    token: u64,
}

impl Settings {
    /// Reads the configuration, and the files that it refers to.
    ///
    /// # Errors
    /// [`ConnectError`]; a retry helps only after the files change.
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub(crate) async fn load(source: &Source) -> Result<Self, ConnectError> {
        let (mut config, proxy_url) = read(source).await?;
        // The client's own environment handling compares NO_PROXY with the proxy, and skips it in clusters.
        config.proxy_url = None;
        let (dial, proxy) = match source {
            Source::InProcess { dial, .. } => {
                // No TLS: the system's certificate authorities are not read.
                config.root_cert = Some(Vec::new());
                (Some(dial.clone()), None)
            }
            _ => (None, proxy(proxy_url.as_deref(), &config.cluster_url, &Environment::of_process())?),
        };
        let auth = &config.auth_info;
        let contents = |path: &Option<String>| path.as_ref().and_then(|path| std::fs::read(path).ok());
        let identity = hash(&(
            serde_json::to_string(auth).unwrap_or_default(),
            contents(&auth.client_certificate),
            contents(&auth.client_key),
            &config.root_cert,
            (config.accept_invalid_certs, &config.tls_server_name),
            proxy.as_ref().map(|proxy| (proxy.uri().to_string(), proxy.basic_auth().cloned())),
        ));
        let token = hash(&contents(&auth.token_file));
        Ok(Self { config, proxy, dial, identity, token })
    }

    /// Whether connections with the other settings would be the same. With `and_token`, the token file counts as well.
    pub(crate) fn is_same(&self, other: &Self, and_token: bool) -> bool {
        self.identity == other.identity && (!and_token || self.token == other.token)
    }

    /// Whether a program provides the credentials, which may be different when it runs again.
    pub(crate) fn has_program(&self) -> bool {
        let auth = &self.config.auth_info;
        auth.exec.is_some() || auth.auth_provider.is_some()
    }
}

fn hash(what: &impl std::hash::Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(what)
}

/// Reads the configuration, and the `proxy-url` of its cluster.
///
/// Source: `getCluster` in client-go's `tools/clientcmd/client_config.go`. An address that replaces that of the
/// kubeconfig also replaces `tls-server-name`, and keeps the certificate authorities and the credentials.
async fn read(source: &Source) -> Result<(Config, Option<String>), ConnectError> {
    let Source::At { server, of } = source else { return read_source(source).await };
    let (mut config, proxy_url) = match of {
        Some(of) => read_source(of).await?,
        None => (Config::new(server.clone()), None),
    };
    config.cluster_url = server.clone();
    config.tls_server_name = None;
    Ok((config, proxy_url))
}

async fn read_source(source: &Source) -> Result<(Config, Option<String>), ConnectError> {
    let (kubeconfig, context, shown) = match source {
        Source::File { path, context } => {
            let shown = path.display().to_string();
            let kubeconfig = read_files(path).map_err(|why| kubeconfig_error(&shown, &why))?;
            (kubeconfig, context.clone(), shown)
        }
        Source::Text(text) => {
            let shown = "(given as text)".to_owned();
            let kubeconfig =
                Kubeconfig::from_yaml(text).map_err(|why| kubeconfig_error(&shown, &error::chain(&why)))?;
            (kubeconfig, None, shown)
        }
        Source::InCluster => {
            let config = Config::incluster().map_err(|why| match why {
                InClusterError::ReadEnvironmentVariable(_) => ConnectError::NoCluster,
                why => ConnectError::InCluster(error::chain(&why)),
            })?;
            return Ok((config, None));
        }
        // `of` is never `At`.
        Source::At { server, .. } | Source::InProcess { server, .. } => return Ok((Config::new(server.clone()), None)),
    };
    let proxy_url = proxy_url(&kubeconfig, context.as_deref());
    let options = KubeConfigOptions { context, ..Default::default() };
    let config = Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .map_err(|why| kubeconfig_error(&shown, &error::chain(&why)))?;
    Ok((config, proxy_url))
}

fn kubeconfig_error(path: &str, why: &str) -> ConnectError {
    // A parser may print the position in further lines; the first one contains the problem.
    ConnectError::Kubeconfig { path: path.to_owned(), why: why.lines().next().unwrap_or_default().to_owned() }
}

/// The merged files of a path, or of a list of paths as in the environment variable KUBECONFIG. In a list, missing
/// files are skipped, unless all are missing.
fn read_files(list: &Path) -> Result<Kubeconfig, String> {
    let paths: Vec<PathBuf> = match list.exists() {
        true => vec![list.to_owned()],
        false => env::split_paths(list).filter(|path| !path.as_os_str().is_empty()).collect(),
    };
    let mut merged: Option<Kubeconfig> = None;
    let mut missing = String::new();
    for path in &paths {
        if let Err(why) = std::fs::metadata(path) {
            if why.kind() == ErrorKind::NotFound {
                missing = why.to_string();
                tracing::debug!(path = %path.display(), "this kubeconfig does not exist");
                continue;
            }
            return Err(of_several(&paths, path, &why.to_string()));
        }
        let next = Kubeconfig::read_from(path).map_err(|why| of_several(&paths, path, &error::chain(&why)))?;
        let merging = match merged {
            Some(merged) => merged.merge(next).map_err(|why| of_several(&paths, path, &error::chain(&why)))?,
            None => next,
        };
        merged = Some(merging);
    }
    merged.ok_or(if missing.is_empty() { "it names no file".to_owned() } else { missing })
}

/// The cause, with the name of the file if there are several.
fn of_several(paths: &[PathBuf], path: &Path, why: &str) -> String {
    if paths.len() > 1 { format!("{}: {why}", path.display()) } else { why.to_owned() }
}

fn proxy_url(kubeconfig: &Kubeconfig, context: Option<&str>) -> Option<String> {
    let context = context.or(kubeconfig.current_context.as_deref())?;
    let named = kubeconfig.contexts.iter().find(|named| named.name == context)?;
    let cluster = &named.context.as_ref()?.cluster;
    let cluster = kubeconfig.clusters.iter().find(|named| named.name == *cluster)?.cluster.as_ref()?;
    cluster.proxy_url.clone().filter(|url| !url.is_empty())
}

/// The proxy variables.
#[derive(Default)]
struct Environment {
    http: String,
    https: String,
    no: String,
}

impl Environment {
    fn of_process() -> Self {
        let first = |names: [&str; 2]| names.into_iter().find_map(|name| env::var(name).ok()).unwrap_or_default();
        Self {
            http: first(["HTTP_PROXY", "http_proxy"]),
            https: first(["HTTPS_PROXY", "https_proxy"]),
            no: first(["NO_PROXY", "no_proxy"]),
        }
    }
}

/// The proxy for a server. The kubeconfig's proxy applies to every server; the environment's proxy does not apply to
/// loopback addresses and those in NO_PROXY.
fn proxy(
    of_kubeconfig: Option<&str>,
    server: &Uri,
    environment: &Environment,
) -> Result<Option<Intercept>, ConnectError> {
    let (url, found) = match of_kubeconfig {
        Some(url) => (url, Matcher::builder().all(url.to_owned()).build().intercept(server)),
        None => {
            let url = match server.scheme_str() {
                Some("https") => &environment.https,
                _ => &environment.http,
            };
            let host = server.host().unwrap_or_default().trim_matches(['[', ']']);
            let is_loopback = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
            let matcher = |no: &str| Matcher::builder().all(url.clone()).no(no.to_owned()).build();
            if url.is_empty()
                || is_loopback
                || matcher("").intercept(server).is_some_and(|_| matcher(&environment.no).intercept(server).is_none())
            {
                return Ok(None);
            }
            (url.as_str(), matcher("").intercept(server))
        }
    };
    let usable =
        found.filter(|proxy| matches!(proxy.uri().scheme_str(), Some("http" | "https" | "socks5" | "socks5h")));
    match usable {
        Some(proxy) => Ok(Some(proxy)),
        None => Err(ConnectError::Proxy { url: without_password(url) }),
    }
}

/// The URL without the part that may contain a password.
fn without_password(url: &str) -> String {
    match (url.find("://"), url.rfind('@')) {
        (Some(scheme), Some(at)) if scheme < at => format!("{}{}", &url[..scheme + 3], &url[at + 1..]),
        (None, Some(at)) => url[at + 1..].to_owned(),
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(of_kubeconfig: Option<&str>, server: &str, environment: &Environment) -> Result<Option<String>, String> {
        let proxy = proxy(of_kubeconfig, &server.parse().unwrap(), environment).map_err(|why| why.to_string())?;
        Ok(proxy.map(|proxy| {
            let uri = proxy.uri();
            format!("{}://{}", uri.scheme_str().unwrap(), uri.authority().unwrap())
        }))
    }

    #[test]
    fn a_proxy_comes_from_the_kubeconfig_or_from_the_environment() {
        let environment = Environment {
            http: "http://plain:1".into(),
            https: "proxy.corp:3128".into(),
            no: "internal.corp,10.0.0.0/8, 192.0.2.7".into(),
        };
        for (of_kubeconfig, server, expected) in [
            (None, "https://api.example.com:6443", Some("http://proxy.corp:3128")),
            (None, "http://api.example.com:8001", Some("http://plain:1")),
            (None, "https://internal.corp:6443", None),
            (None, "https://a.internal.corp:6443", None),
            (None, "https://notinternal.corp:6443", Some("http://proxy.corp:3128")),
            (None, "https://10.1.2.3:6443", None),
            (None, "https://11.1.2.3:6443", Some("http://proxy.corp:3128")),
            (None, "https://192.0.2.7:6443", None),
            (None, "https://localhost:6443", None),
            (None, "https://127.0.0.1:6443", None),
            (None, "https://[::1]:6443", None),
            (Some("socks5://socks.corp:1080"), "https://127.0.0.1:6443", Some("socks5://socks.corp:1080")),
            (Some("https://u:p%40ss@tls.corp"), "https://internal.corp", Some("https://tls.corp")),
        ] {
            assert_eq!(chosen(of_kubeconfig, server, &environment), Ok(expected.map(str::to_owned)), "{server}");
        }
        assert_eq!(chosen(None, "https://api.example.com", &Environment::default()), Ok(None));
    }

    #[tokio::test]
    async fn another_address_keeps_the_credentials_and_the_authorities() {
        let text = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": "https://first:1", "tls-server-name": "first", "certificate-authority-data": "Y2E="}}],
            "users": [{"name": "u", "user": {"username": "a"}}],
        });
        let server: Uri = "https://second:2".parse().unwrap();
        let of = Source::Text(text.to_string());
        let (original, _) = read(&of).await.unwrap();
        let (config, _) = read(&Source::At { server: server.clone(), of: Some(Box::new(of)) }).await.unwrap();
        assert_eq!((&config.cluster_url, &config.tls_server_name), (&server, &None));
        assert_eq!((original.tls_server_name.as_deref(), &config.root_cert), (Some("first"), &original.root_cert));
        assert_eq!(config.auth_info.username.as_deref(), Some("a"));
        let (bare, _) = read(&Source::At { server: server.clone(), of: None }).await.unwrap();
        assert_eq!((bare.cluster_url, bare.auth_info.username, bare.root_cert), (server, None, None));
    }

    #[test]
    fn a_proxy_that_cannot_be_used_is_named_without_its_password() {
        for url in ["ftp://u:secret@proxy.corp", "socks4://u:secret@proxy.corp:1", "http://u:secret@"] {
            let error = chosen(Some(url), "https://api.example.com", &Environment::default()).unwrap_err();
            assert!(error.contains("socks5://") && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn the_first_of_several_files_wins_and_missing_ones_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, context: &str, server: &str| {
            let path = folder.path().join(name);
            let text = serde_json::json!({
                "apiVersion": "v1", "kind": "Config", "current-context": context,
                "contexts": [{"name": context, "context": {"cluster": "c", "user": ""}}],
                "clusters": [{"name": "c", "cluster": {"server": server}}],
            });
            std::fs::write(&path, text.to_string()).unwrap();
            path
        };
        let (first, second) = (write("first", "a", "http://first"), write("second", "b", "http://second"));
        let missing = folder.path().join("missing");
        let list = |paths: &[&PathBuf]| PathBuf::from(env::join_paths(paths).unwrap());
        let merged = read_files(&list(&[&missing, &first, &second])).unwrap();
        assert_eq!(merged.current_context.as_deref(), Some("a"));
        assert_eq!(merged.contexts.iter().map(|context| context.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(merged.clusters.len(), 1);
        assert_eq!(merged.clusters[0].cluster.as_ref().unwrap().server.as_deref(), Some("http://first"));
        assert!(read_files(&list(&[&missing])).unwrap_err().contains("No such file"));
        assert!(read_files(Path::new("::")).unwrap_err().contains("names no file"));
        let broken = folder.path().join("broken");
        std::fs::write(&broken, "contexts: 7").unwrap();
        let error = read_files(&list(&[&first, &broken])).unwrap_err();
        assert!(error.starts_with(broken.to_str().unwrap()), "{error}");
    }
}
