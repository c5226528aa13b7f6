//! The types that the controller reads.

pintle_sdk::types!(
    "manifest.yaml",
    "certificates.k8s.io/v1/CertificateSigningRequest": ["spec", "status.certificate", "status.conditions.type"],
);
