//! The version of Kubernetes that the built-in controllers, the embedded cluster and the tests follow.

/// The version, for example `1.36.3`. `plugins/kubernetes-version` is the only place that sets it.
pub const VERSION: &str = include_str!("../../../plugins/kubernetes-version").trim_ascii();

/// The version without its patch, for example `1.36`.
pub fn minor() -> &'static str {
    VERSION.rsplit_once('.').map_or(VERSION, |(minor, _)| minor)
}

/// A text whose `{version}` and `{minor}` are these.
pub fn filled(text: &str) -> String {
    text.replace("{version}", VERSION).replace("{minor}", minor())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_version_has_three_numbers() {
        let numbers = super::VERSION.split('.').filter(|part| part.parse::<u32>().is_ok()).count();
        assert_eq!((numbers, super::VERSION.split('.').count()), (3, 3));
        assert_eq!(super::minor().split('.').count(), 2);
    }
}
