//! The approving controller: approves certificate requests of kubelets for client certificates, if the requesting user
//! has the permission for them.
//!
//! *Flow*: key of a CertificateSigningRequest -> already decided? -> parse the X.509 request -> matching recognizers ->
//! a SubjectAccessReview for each in turn -> an update of the approval.
//!
//! *Invariant*: the review is about the user, groups, uid and extra that the API server has written into the request.
//!
//! | recognizer | required permission of the user: create `certificatesigningrequests/...` | request |
//! | --- | --- | --- |
//! | `selfnodeclient` | `selfnodeclient` | of a kubelet with a certificate, for the same name |
//! | `nodeclient` | `nodeclient` | of a kubelet for any Node |
//!
//! *Source*: Kubernetes' `pkg/controller/certificates/approver/sarapprove.go` and `certificate_controller.go`. The four
//! rows of `TestHandle` and all rows of `TestRecognizers` (`sarapprove_test.go`) are cases.

mod reconcile;
mod types;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
