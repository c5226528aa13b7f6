//! Keys and certificates of one control plane, made anew for each.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

/// Where the files are that the parts read.
#[derive(Debug)]
pub(crate) struct Pki {
    /// The authority that signed everything here; clients are checked against it too.
    pub(crate) ca: PathBuf,
    pub(crate) ca_pem: String,
    pub(crate) ca_key: PathBuf,
    pub(crate) serving_cert: PathBuf,
    pub(crate) serving_key: PathBuf,
    /// Signs service account tokens.
    pub(crate) service_account_key: PathBuf,
    pub(crate) service_account_public_key: PathBuf,
}

impl Pki {
    /// Makes all keys and certificates and writes them into `dir`.
    pub(crate) fn create(dir: &Path) -> Result<Pki> {
        fs::create_dir_all(dir).context("make the folder for certificates")?;
        let write = |name: &str, text: &str| -> Result<PathBuf> {
            let path = dir.join(name);
            fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
            Ok(path)
        };

        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, "test-ca");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;

        let serving_key = KeyPair::generate()?;
        let mut params = CertificateParams::new(vec![
            "localhost".to_owned(),
            "127.0.0.1".to_owned(),
            "kubernetes.default.svc".to_owned(),
        ])?;
        params.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let serving = params.signed_by(&serving_key, &ca)?;
        let service_account = KeyPair::generate()?;

        Ok(Pki {
            ca: write("ca.crt", &ca.pem())?,
            ca_pem: ca.pem(),
            ca_key: write("ca.key", &ca.key().serialize_pem())?,
            serving_cert: write("apiserver.crt", &serving.pem())?,
            serving_key: write("apiserver.key", &serving_key.serialize_pem())?,
            service_account_key: write("sa.key", &service_account.serialize_pem())?,
            service_account_public_key: write("sa.pub", &service_account.public_key_pem())?,
        })
    }
}
