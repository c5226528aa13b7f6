//! TLS of servers on loopback.

use std::sync::Arc;

use anyhow::{Result, anyhow};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// TLS with this chain of certificates. `protocols` are those that clients are offered (ALPN), for example `h2`; none offers nothing.
///
/// # Errors
/// The key does not fit the certificate.
pub fn acceptor(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    protocols: &[&str],
) -> Result<TlsAcceptor> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = builder.with_no_client_auth().with_single_cert(chain, key)?;
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// [`acceptor`] with a new certificate of 127.0.0.1, and that certificate in PEM.
///
/// # Errors
/// There is no randomness.
pub fn self_signed(protocols: &[&str]) -> Result<(TlsAcceptor, String)> {
    let issued = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()])?;
    let key = PrivateKeyDer::try_from(issued.signing_key.serialize_der()).map_err(|why| anyhow!(why))?;
    Ok((acceptor(vec![issued.cert.der().clone()], key, protocols)?, issued.cert.pem()))
}
