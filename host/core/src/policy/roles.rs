//! The command that grants missing permissions to a host, for messages.

use std::sync::OnceLock;

/// The account that `pintle rbac` binds roles to by default.
const DEFAULT_ACCOUNT: &str = "kube-system/pintle";

/// The arguments of `pintle rbac` for the host of this process. They are used only in messages.
static ARGUMENTS: OnceLock<String> = OnceLock::new();

/// Sets the arguments of `pintle rbac` for the host of this process, quoted for a shell. Only the first call has an
/// effect.
pub fn set_arguments(arguments: String) {
    // A process has only one host.
    let _ = ARGUMENTS.set(arguments);
}

/// The remedy for a refusal of the API server, whose message contains the account without the permission.
pub fn advice(refusal: &str) -> String {
    advice_for(ARGUMENTS.get().map_or("", String::as_str), refusal)
}

fn advice_for(arguments: &str, refusal: &str) -> String {
    let account = account(refusal).filter(|account| account != DEFAULT_ACCOUNT);
    let account = account.map(|account| format!(" --service-account={account}")).unwrap_or_default();
    let space = if arguments.is_empty() { "" } else { " " };
    format!("run, as an administrator, `pintle rbac{account}{space}{arguments} | kubectl apply -f -`")
}

/// The service account in a refusal, as `NAMESPACE/NAME`: `User "system:serviceaccount:NAMESPACE:NAME" cannot ...`.
fn account(refusal: &str) -> Option<String> {
    let (_, rest) = refusal.split_once("User \"system:serviceaccount:")?;
    let (namespace, name) = rest.split_once('"')?.0.split_once(':')?;
    let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c));
    (is_name(namespace) && is_name(name)).then(|| format!("{namespace}/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_has_the_flags_of_the_host_and_the_account_that_was_refused() {
        for (arguments, refusal, expected) in [
            ("", "forbidden", "pintle rbac | kubectl"),
            ("'--controllers=*'", "forbidden", "pintle rbac '--controllers=*' | kubectl"),
            ("a", r#"User "system:serviceaccount:kube-system:pintle" cannot get"#, "pintle rbac a | kubectl"),
            (
                "a",
                r#"leases is forbidden: User "system:serviceaccount:pintle-system:pintle" cannot get"#,
                "pintle rbac --service-account=pintle-system/pintle a | kubectl",
            ),
            ("a", r#"User "jane" cannot get"#, "pintle rbac a | kubectl"),
            ("a", r#"User "system:serviceaccount:x:$(y)" cannot get"#, "pintle rbac a | kubectl"),
        ] {
            assert_eq!(advice_for(arguments, refusal), format!("run, as an administrator, `{expected} apply -f -`"));
        }
    }
}
