//! The types that the controller reads.

pintle_sdk::types!(
    "manifest.yaml",
    "certificates.k8s.io/v1/CertificateSigningRequest": [
        "spec.expirationSeconds", "spec.request", "spec.signerName", "spec.usages", "status.certificate",
        "status.conditions.status", "status.conditions.type",
    ],
);
