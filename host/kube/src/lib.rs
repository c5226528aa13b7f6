//! Pintle: kube.
