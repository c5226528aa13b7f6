//! The kubeconfig that points kubectl at the embedded cluster.

/// A kubeconfig with one cluster, one user and one context, all called `pintle`.
///
/// The token is a placeholder: the server lets everyone in, and kubectl asks for a password when a user has no credentials.
pub fn kubeconfig(base_url: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\nclusters:\n- name: pintle\n  cluster:\n    server: {base_url}\nusers:\n- name: pintle\n  user:\n    token: pintle\ncontexts:\n- name: pintle\n  context:\n    cluster: pintle\n    user: pintle\ncurrent-context: pintle\n"
    )
}
