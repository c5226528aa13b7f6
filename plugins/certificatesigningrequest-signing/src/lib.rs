//! The signing controller: signs approved CertificateSigningRequests of the four signers of Kubernetes.
//!
//! *Flow*: key of a CertificateSigningRequest -> approved, and does its signer have an authority? -> does the signer
//! allow it? -> the host signs (`sign-certificate`) -> an update of the status, with the certificate or with the
//! condition `Failed`.
//!
//! | signer | subject | alternative names | usages |
//! | --- | --- | --- | --- |
//! | `kubelet-serving` | `O=system:nodes, CN=system:node:...` | a DNS name or an address | `digital signature`, `server auth`, optionally `key encipherment` |
//! | `kube-apiserver-client-kubelet` | the same | none | `digital signature`, `client auth`, optionally `key encipherment` |
//! | `kube-apiserver-client` | any | any | `client auth`, optionally `digital signature`, `key encipherment` |
//! | `legacy-unknown` | any | any | any |
//!
//! *Invariants*
//! 1. Keys of authorities stay in the host. The host checks the request's own signature, chooses the serial number, and
//!    never signs a certificate of an authority.
//! 2. Requests of a signer without an authority do not change.
//!
//! *Source*: Kubernetes' `pkg/controller/certificates/{signer,authority}` and `certificate_controller.go`, and
//! `app/certificates.go` for the choice of the authority. Of `signer_test.go`, the 13 rows of `TestHandle`, all 7 of
//! `Test_signer_duration` and `TestSigner` are cases. Three differences:
//! - the usages `cert sign` and `crl sign` are refused. Upstream signs them for `legacy-unknown`;
//! - requests that upstream cannot sign either, such as one with a wrong signature, are not retried until they change;
//! - one queue has the workers of upstream's four queues.

mod authority;
mod policy;
mod reconcile;
mod types;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
