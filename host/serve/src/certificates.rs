//! The server's certificate: from files, which may change, or made by the host.

use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Longest file with certificates or a key.
const MAX_FILE: u64 = 1 << 20;
/// Names of the files in `--cert-dir`, as kube-controller-manager has them.
const NAMES: [&str; 2] = ["kube-controller-manager.crt", "kube-controller-manager.key"];

/// The port cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be used.
    #[error("{}: {why}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The certificate does not fit the key.
    #[error("the certificate {} and the private key {} cannot be used: {why}", certificate.display(), key.display())]
    Pair {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A certificate cannot be made.
    #[error("make a certificate: {0}")]
    Generate(String),
    /// The options contradict each other.
    #[error("TLS: {0}")]
    Options(String),
    /// The task that read the files has ended without a result.
    #[error("read the files: {0}")]
    Read(String),
}

/// The text of a file, if it is not too long.
pub(crate) fn read(file: &Path) -> Result<Vec<u8>, TlsError> {
    let failed = |why: io::Error| TlsError::File { file: file.to_owned(), why: why.to_string() };
    // A pipe or a device could give text without end, or none for ever.
    let metadata = fs::metadata(file).map_err(failed)?;
    if !metadata.is_file() || metadata.len() > MAX_FILE {
        return Err(failed(io::Error::other(format!("it is not a file of at most {MAX_FILE} bytes"))));
    }
    fs::read(file).map_err(failed)
}

/// Certificates in PEM, at least one.
pub(crate) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    match certificates {
        Ok(certificates) if certificates.is_empty() => Err("it contains no certificate in PEM".to_owned()),
        Ok(certificates) => Ok(certificates),
        Err(why) => Err(format!("it contains a certificate that does not parse: {why}")),
    }
}

/// A private key in PEM.
pub(crate) fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|why| format!("it contains no private key in PEM: {why}"))
}

/// A self-signed certificate and its key, in PEM. For the names by which this machine is reached: its host
/// name, `localhost`, and the addresses.
pub(crate) fn self_signed(addresses: &[IpAddr]) -> Result<(String, String), TlsError> {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let mut names = vec!["localhost".to_owned()];
    names.extend(Some(host.trim().to_owned()).filter(|host| !host.is_empty()));
    names.extend(addresses.iter().filter(|ip| !ip.is_unspecified()).map(ToString::to_string));
    names.extend(["127.0.0.1", "::1"].map(str::to_owned));
    names.dedup();
    let failed = |why: rcgen::Error| TlsError::Generate(why.to_string());
    let mut params = rcgen::CertificateParams::new(names).map_err(failed)?;
    params.distinguished_name.push(rcgen::DnType::CommonName, format!("{}@pintle", host.trim()));
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
    let key = rcgen::KeyPair::generate().map_err(failed)?;
    let certificate = params.self_signed(&key).map_err(failed)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

/// The certificate and the key in a folder; made there if both are missing.
pub(crate) fn in_folder(folder: &Path, addresses: &[IpAddr]) -> Result<[PathBuf; 2], TlsError> {
    let files = NAMES.map(|name| folder.join(name));
    let is_there = |file: &PathBuf| match fs::metadata(file) {
        Ok(_) => Ok(true),
        Err(why) if why.kind() == ErrorKind::NotFound => Ok(false),
        Err(why) => Err(TlsError::File { file: file.clone(), why: why.to_string() }),
    };
    match (is_there(&files[0])?, is_there(&files[1])?) {
        (true, true) => return Ok(files),
        (false, false) => {}
        (certificate, _) => {
            let missing = files[usize::from(certificate)].clone();
            return Err(TlsError::File { file: missing, why: "it is missing beside its counterpart".to_owned() });
        }
    }
    let (certificate, key) = self_signed(addresses)?;
    let write = |file: &PathBuf, text: &str, mode: u32| -> Result<(), TlsError> {
        let failed = |why: io::Error| TlsError::File { file: file.clone(), why: why.to_string() };
        let mut opened = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(file).map_err(failed)?;
        opened.write_all(text.as_bytes()).map_err(failed)
    };
    fs::create_dir_all(folder).map_err(|why| TlsError::File { file: folder.to_owned(), why: why.to_string() })?;
    // The key first: a certificate without a key would be reported, a key without a certificate too.
    write(&files[1], &key, 0o600)?;
    write(&files[0], &certificate, 0o644)?;
    Ok(files)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_folder_keeps_the_certificate_that_was_made_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("a/b");
        let [certificate, key] = in_folder(&below, &[]).unwrap();
        let first = fs::read(&certificate).unwrap();
        assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(in_folder(&below, &[]).unwrap()[0], certificate);
        assert_eq!(fs::read(&certificate).unwrap(), first);
        fs::remove_file(&key).unwrap();
        let why = in_folder(&below, &[]).unwrap_err().to_string();
        assert!(why.contains("kube-controller-manager.key") && why.contains("missing"), "{why}");
    }

    #[test]
    fn a_certificate_of_the_host_names_the_machine() {
        let (pem, key) = self_signed(&["10.1.2.3".parse().unwrap(), "0.0.0.0".parse().unwrap()]).unwrap();
        private_key(key.as_bytes()).unwrap();
        let der = certificates(pem.as_bytes()).unwrap().remove(0);
        let (_, read) = x509_parser::parse_x509_certificate(&der).unwrap();
        let names = format!("{:?}", read.subject_alternative_name().unwrap().unwrap().value.general_names);
        assert!(names.contains("localhost") && names.contains("10, 1, 2, 3"), "{names}");
        assert!(!names.contains("[0, 0, 0, 0]"), "{names}");
    }

    #[test]
    fn files_that_are_no_files_or_too_long_are_rejected() {
        let folder = tempfile::tempdir().unwrap();
        assert!(read(folder.path()).unwrap_err().to_string().contains("not a file"));
        assert!(read(Path::new("/dev/zero")).unwrap_err().to_string().contains("not a file"));
        let long = folder.path().join("long");
        fs::write(&long, vec![b'a'; usize::try_from(MAX_FILE).unwrap() + 1]).unwrap();
        assert!(read(&long).unwrap_err().to_string().contains("at most"));
        fs::write(&long, vec![b'a'; usize::try_from(MAX_FILE).unwrap()]).unwrap();
        assert!(read(&long).is_ok());
        assert!(certificates(b"x").is_err() && private_key(b"x").is_err());
    }
}
