//! TLS of the port, with certificates and authorities that may change while the host runs.
//!
//! Files are read again before a handshake, at most once in [`RELOAD_INTERVAL`], on a thread that nothing else needs: a file system
//! that does not answer delays one handshake by [`READ_TIMEOUT`], and the last certificate stays in use. Contents are compared, not
//! times or inodes, so that the symbolic links of mounted Secrets work like any other change.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use rustls::crypto::{CryptoProvider, SupportedKxGroup, ring as crypto};
use rustls::pki_types::CertificateDer;
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, SupportedCipherSuite, SupportedProtocolVersion};
use tokio::time::Instant;

use crate::certificates::TlsError;
use crate::clients::{AnyCertificate, Authorities};
use crate::policy::identity::{FrontProxy, PublishedConfig, UserInfo};
use crate::{certificates, options};

/// Time between two readings of the files.
pub(crate) const RELOAD_INTERVAL: Duration = Duration::from_secs(1);
/// How long a handshake waits for the files.
const READ_TIMEOUT: Duration = Duration::from_secs(1);

/// Where the server's certificate comes from.
#[derive(Clone, Debug)]
pub enum CertificateSource {
    /// Files in PEM.
    Files {
        /// The certificate, and those of its authorities but the last.
        certificate: PathBuf,
        /// Its private key.
        key: PathBuf,
    },
    /// A folder, where the host makes it if it is missing.
    Folder(PathBuf),
    /// Made by the host, and gone with it.
    SelfSigned,
}

/// Where the authorities of clients come from.
#[derive(Clone, Debug, Default)]
pub struct ClientAuthorities {
    /// Certificates of the authorities that sign clients' certificates.
    pub client_ca: Option<PathBuf>,
    /// Certificates of the authorities that sign front proxies' certificates, and how the proxies pass on users.
    pub front_proxy: Option<(PathBuf, FrontProxy)>,
}

/// Options of the port.
#[derive(Clone, Debug)]
pub struct TlsOptions {
    /// The server's certificate.
    pub certificate: CertificateSource,
    /// Clients.
    pub clients: ClientAuthorities,
    /// Versions; see [`min_version`](crate::min_version).
    pub versions: &'static [&'static SupportedProtocolVersion],
    /// Suites of TLS 1.2; all if empty.
    pub cipher_suites: Vec<SupportedCipherSuite>,
    /// Key exchanges; all if empty.
    pub curves: Vec<&'static dyn SupportedKxGroup>,
    /// Whether clients may use HTTP/2.
    pub http2: bool,
    /// Addresses that a certificate which the host makes contains.
    pub addresses: Vec<IpAddr>,
}

/// Contents of the files, in PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Contents {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
    front_proxy_ca: Option<Vec<u8>>,
}

/// What handshakes and requests use.
struct Current {
    server: Arc<ServerConfig>,
    clients: Option<Authorities>,
    front_proxy: Option<(Authorities, FrontProxy)>,
}

/// The files of the options.
#[derive(Clone, Debug)]
struct Files {
    /// Absent if the host has made the certificate.
    pair: Option<[PathBuf; 2]>,
    /// The certificate that the host has made.
    made: (String, String),
    clients: ClientAuthorities,
}

impl Files {
    fn read(&self) -> Result<Contents, TlsError> {
        let (certificate, key) = match &self.pair {
            Some([certificate, key]) => (certificates::read(certificate)?, certificates::read(key)?),
            None => (self.made.0.clone().into_bytes(), self.made.1.clone().into_bytes()),
        };
        let client_ca = self.clients.client_ca.as_deref().map(certificates::read).transpose()?;
        let front_proxy_ca = self.clients.front_proxy.as_ref().map(|(file, _)| certificates::read(file)).transpose()?;
        Ok(Contents { certificate, key, client_ca, front_proxy_ca })
    }
}

/// TLS of the port.
pub struct Tls {
    options: TlsOptions,
    files: Files,
    provider: Arc<CryptoProvider>,
    current: RwLock<Arc<Current>>,
    /// What the last attempt to use the files has read, and what the API server publishes.
    seen: Mutex<(Contents, PublishedConfig)>,
    /// Held while files are read; the time of the last reading.
    read: Arc<tokio::sync::Mutex<Instant>>,
}

impl Tls {
    /// Reads the files. Call it within a tokio runtime.
    ///
    /// # Errors
    /// [`TlsError`]; a retry helps after the files change.
    ///
    /// # Cancel safety
    /// Safe; with a folder, the certificate may have been made.
    pub async fn open(options: TlsOptions) -> Result<Self, TlsError> {
        let opened = tokio::task::spawn_blocking(move || Self::open_blocking(options)).await;
        opened.unwrap_or_else(|why| Err(TlsError::Read(why.to_string())))
    }

    fn open_blocking(options: TlsOptions) -> Result<Self, TlsError> {
        let (pair, made) = match &options.certificate {
            CertificateSource::Files { certificate, key } => {
                (Some([certificate.clone(), key.clone()]), Default::default())
            }
            CertificateSource::Folder(folder) => {
                (Some(certificates::in_folder(folder, &options.addresses)?), Default::default())
            }
            CertificateSource::SelfSigned => (None, certificates::self_signed(&options.addresses)?),
        };
        let mut provider = crypto::default_provider();
        provider.cipher_suites = options::offered(&options.cipher_suites);
        if !options.curves.is_empty() {
            provider.kx_groups.retain(|group| options.curves.iter().any(|chosen| chosen.name() == group.name()));
        }
        let provider = Arc::new(provider);
        let files = Files { pair, made, clients: options.clients.clone() };
        let contents = files.read()?;
        let published = PublishedConfig::default();
        let current = build(&options, &files, &provider, &contents, &published)?;
        Ok(Self {
            options,
            files,
            provider,
            current: RwLock::new(Arc::new(current)),
            seen: Mutex::new((contents, published)),
            read: Arc::new(tokio::sync::Mutex::new(Instant::now())),
        })
    }

    /// TLS for the next handshake. Reads the files if the last reading is long ago.
    pub(crate) async fn server(&self) -> Arc<ServerConfig> {
        self.reload().await;
        self.current.read().server.clone()
    }

    async fn reload(&self) {
        // Somebody else reads, maybe for ever.
        let Ok(mut last) = self.read.clone().try_lock_owned() else { return };
        if last.elapsed() < RELOAD_INTERVAL {
            return;
        }
        let files = self.files.clone();
        let read = tokio::task::spawn_blocking(move || {
            let contents = files.read();
            *last = Instant::now();
            contents
        });
        match tokio::time::timeout(READ_TIMEOUT, read).await {
            Ok(Ok(Ok(contents))) => {
                let mut seen = self.seen.lock();
                if seen.0 != contents {
                    tracing::info!("certificates of the HTTPS port have changed; the next connection uses them");
                    seen.0 = contents;
                    self.renew(&seen.0, &seen.1);
                }
            }
            Ok(Ok(Err(why))) => self.keep(&why.to_string()),
            Ok(Err(why)) => self.keep(&why.to_string()),
            Err(_) => self.keep("the files cannot be read in time"),
        }
    }

    fn keep(&self, why: &str) {
        tracing::warn!(why, "certificates of the HTTPS port cannot be read again; the last ones stay in use");
    }

    fn renew(&self, contents: &Contents, published: &PublishedConfig) {
        match build(&self.options, &self.files, &self.provider, contents, published) {
            Ok(current) => {
                tracing::debug!("certificates of the HTTPS port are in use");
                *self.current.write() = Arc::new(current);
            }
            // While one of two files is replaced, they do not fit; the next reading finds both.
            Err(why) => {
                tracing::warn!(%why, "changed certificates of the HTTPS port cannot be used; the last ones stay in use")
            }
        }
    }

    /// Whether something is missing that the API server publishes.
    pub(crate) fn wants_published(&self) -> bool {
        self.options.clients.client_ca.is_none() || self.options.clients.front_proxy.is_none()
    }

    /// Uses what the API server publishes, where no file is named.
    pub(crate) fn publish(&self, published: PublishedConfig) {
        let mut seen = self.seen.lock();
        if seen.1 != published {
            seen.1 = published;
            self.renew(&seen.0, &seen.1);
        }
    }

    /// The user that the certificates of a client name; none if they name no user. `headers` count if a front proxy sends them.
    ///
    /// # Errors
    /// The certificates are not accepted.
    pub(crate) fn user(
        &self,
        chain: &[CertificateDer<'static>],
        headers: &[(&str, &str)],
    ) -> Result<Option<UserInfo>, String> {
        if chain.is_empty() {
            return Ok(None);
        }
        let current = self.current.read().clone();
        let mut refused = None;
        if let Some((authorities, proxy)) = &current.front_proxy {
            match authorities.common_name(chain) {
                Ok(name) if !proxy.allows(&name) => {
                    refused = Some(format!("the front proxy {name:?} is not one of those that are allowed"));
                }
                Ok(_) => {
                    if let Some(user) = proxy.user(headers) {
                        return Ok(Some(user));
                    }
                }
                Err(why) => refused = Some(why),
            }
        }
        if let Some(authorities) = &current.clients {
            match authorities.user(chain) {
                Ok(Some(user)) => return Ok(Some(user)),
                Ok(None) => {}
                Err(why) => refused = Some(why),
            }
        }
        refused.map_or(Ok(None), Err)
    }
}

fn build(
    options: &TlsOptions,
    files: &Files,
    provider: &Arc<CryptoProvider>,
    contents: &Contents,
    published: &PublishedConfig,
) -> Result<Current, TlsError> {
    let authorities = |pem: &[u8], file: Option<&PathBuf>| {
        let published = || PathBuf::from("kube-system/extension-apiserver-authentication");
        Authorities::new(pem, provider)
            .map_err(|why| TlsError::File { file: file.cloned().unwrap_or_else(published), why })
    };
    let clients = match (&contents.client_ca, &published.client_ca) {
        (Some(pem), _) => Some(authorities(pem, options.clients.client_ca.as_ref())?),
        (None, Some(pem)) => Some(authorities(pem.as_bytes(), None)?),
        (None, None) => None,
    };
    let front_proxy = match (&contents.front_proxy_ca, &options.clients.front_proxy, &published.front_proxy) {
        (Some(pem), Some((file, proxy)), _) => Some((authorities(pem, Some(file))?, proxy.clone())),
        (_, _, Some((pem, proxy))) => Some((authorities(pem.as_bytes(), None)?, proxy.clone())),
        _ => None,
    };
    let [certificate, key] = files.pair.clone().unwrap_or_default();
    let pair = |why: String| TlsError::Pair { certificate: certificate.clone(), key: key.clone(), why };
    let chain = certificates::certificates(&contents.certificate)
        .map_err(|why| TlsError::File { file: certificate.clone(), why })?;
    let private = certificates::private_key(&contents.key).map_err(|why| TlsError::File { file: key.clone(), why })?;
    let certified = CertifiedKey::from_der(chain, private, provider).map_err(|why| pair(why.to_string()))?;
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(options.versions)
        .map_err(|why| TlsError::Options(why.to_string()))?;
    let trusted = || clients.iter().chain(front_proxy.iter().map(|(authorities, _)| authorities));
    let builder = match trusted().next() {
        None => builder.with_no_client_auth(),
        Some(_) => builder.with_client_cert_verifier(Arc::new(AnyCertificate::new(trusted(), provider))),
    };
    let mut server = builder.with_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(certified)));
    server.alpn_protocols = match options.http2 {
        true => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        false => vec![b"http/1.1".to_vec()],
    };
    Ok(Current { server: Arc::new(server), clients, front_proxy })
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    pub(crate) fn options(certificate: CertificateSource) -> TlsOptions {
        TlsOptions {
            certificate,
            clients: ClientAuthorities::default(),
            versions: rustls::ALL_VERSIONS,
            cipher_suites: Vec::new(),
            curves: Vec::new(),
            http2: true,
            addresses: Vec::new(),
        }
    }

    /// A folder as the kubelet mounts a Secret: links to a link to a folder, which is replaced.
    struct Secret(tempfile::TempDir);

    impl Secret {
        fn new() -> Self {
            let secret = Self(tempfile::tempdir().unwrap());
            secret.replace("first");
            for name in ["tls.crt", "tls.key"] {
                symlink(format!("..data/{name}"), secret.0.path().join(name)).unwrap();
            }
            secret
        }

        /// Replaces both files in one step.
        fn replace(&self, name: &str) -> String {
            let (certificate, key) = certificates::self_signed(&[]).unwrap();
            let folder = self.0.path().join(name);
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("tls.crt"), &certificate).unwrap();
            fs::write(folder.join("tls.key"), key).unwrap();
            symlink(name, self.0.path().join("..next")).unwrap();
            fs::rename(self.0.path().join("..next"), self.0.path().join("..data")).unwrap();
            certificate
        }

        fn options(&self) -> TlsOptions {
            let [certificate, key] = ["tls.crt", "tls.key"].map(|name| self.0.path().join(name));
            options(CertificateSource::Files { certificate, key })
        }
    }

    /// The certificate of the next handshake, after the interval.
    async fn next(tls: &Tls) -> Arc<ServerConfig> {
        // As if the last reading was long ago. A paused clock waits for the one on another thread.
        *tls.read.lock().await = Instant::now().checked_sub(RELOAD_INTERVAL).unwrap();
        tls.server().await
    }

    #[tokio::test(start_paused = true)]
    async fn a_replaced_secret_is_used_by_the_next_handshake() {
        let secret = Secret::new();
        let tls = Tls::open(secret.options()).await.unwrap();
        let first = next(&tls).await;
        assert!(Arc::ptr_eq(&first, &next(&tls).await), "nothing has changed");
        let certificate = secret.replace("second");
        let second = next(&tls).await;
        assert!(!Arc::ptr_eq(&first, &second));
        assert_eq!(tls.seen.lock().0.certificate, certificate.as_bytes());
        // Within the interval nothing is read.
        secret.replace("third");
        assert!(Arc::ptr_eq(&second, &tls.server().await));
    }

    #[tokio::test(start_paused = true)]
    async fn files_that_do_not_fit_or_are_gone_leave_the_last_certificate_in_use() {
        let secret = Secret::new();
        let tls = Tls::open(secret.options()).await.unwrap();
        let first = next(&tls).await;
        let (other, key) = certificates::self_signed(&[]).unwrap();
        fs::write(secret.0.path().join("tls.crt"), &other).unwrap();
        assert!(Arc::ptr_eq(&first, &next(&tls).await), "a certificate without its key");
        fs::remove_file(secret.0.path().join("tls.key")).unwrap();
        assert!(Arc::ptr_eq(&first, &next(&tls).await), "no key");
        fs::write(secret.0.path().join("tls.key"), key).unwrap();
        assert!(!Arc::ptr_eq(&first, &next(&tls).await), "both are there");
        let why = match Tls::open(options(CertificateSource::Files {
            certificate: secret.0.path().join("tls.crt"),
            key: secret.0.path().join("first/tls.key"),
        }))
        .await
        {
            Ok(_) => panic!("they do not fit"),
            Err(why) => why.to_string(),
        };
        assert!(why.contains("tls.crt and the private key") && why.contains("cannot be used"), "{why}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_system_that_does_not_answer_delays_one_handshake() {
        let secret = Secret::new();
        let tls = Tls::open(secret.options()).await.unwrap();
        let first = next(&tls).await;
        let held = tls.read.clone().lock_owned().await;
        assert!(Arc::ptr_eq(&first, &tls.server().await), "somebody reads without end");
        drop(held);
    }

    #[tokio::test]
    async fn what_the_api_server_publishes_counts_where_no_file_is_named() {
        let (ca, _) = certificates::self_signed(&[]).unwrap();
        let published = PublishedConfig { client_ca: Some(ca), front_proxy: None };
        let tls = Tls::open(options(CertificateSource::SelfSigned)).await.unwrap();
        assert!(tls.wants_published() && tls.current.read().clients.is_none());
        tls.publish(published.clone());
        assert!(tls.current.read().clients.is_some());
        tls.publish(PublishedConfig { client_ca: Some("garbage".into()), ..published.clone() });
        assert!(tls.current.read().clients.is_some(), "the last authorities stay");
        tls.publish(PublishedConfig::default());
        assert!(tls.current.read().clients.is_none());
    }
}
