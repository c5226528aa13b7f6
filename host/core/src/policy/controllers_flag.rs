//! The `--controllers` flag: which controllers run.
//!
//! Source: kube-controller-manager: the first item that names a controller decides, and `*` means those that are on by
//! default.

use std::str::FromStr;

/// A parsed `--controllers` value, for example `*,-namespace-controller,token-cleaner-controller`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllersFlag {
    items: Vec<Item>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Item {
    All,
    On(String),
    Off(String),
}

impl Default for ControllersFlag {
    /// `*`.
    fn default() -> Self {
        Self { items: vec![Item::All] }
    }
}

/// An item of the flag is empty.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("--controllers: {0:?} has an empty item; write `*`, `name` or `-name`, separated by commas")]
pub struct ParseControllersError(String);

impl FromStr for ControllersFlag {
    type Err = ParseControllersError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let item = |part: &str| match part.trim() {
            "*" => Ok(Item::All),
            "" | "-" => Err(ParseControllersError(text.to_owned())),
            name => {
                Ok(name.strip_prefix('-').map_or_else(|| Item::On(name.to_owned()), |off| Item::Off(off.to_owned())))
            }
        };
        Ok(Self { items: text.split(',').map(item).collect::<Result<_, _>>()? })
    }
}

/// The flag names unknown controllers.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("--controllers: {} not known; known are {}", .unknown.join(", "), .known.join(", "))]
pub struct UnknownControllers {
    /// The names, as given.
    pub unknown: Vec<String>,
    /// The valid names.
    pub known: Vec<String>,
}

impl ControllersFlag {
    /// The flag of a host that names components: without the flag, none of the built-in controllers runs beside them. Upstream's
    /// default, `*`, applies if it names none.
    ///
    /// # Errors
    /// [`ParseControllersError`]; a retry does not help.
    pub fn beside(has_components: bool, given: &[String]) -> Result<Self, ParseControllersError> {
        match (given, has_components) {
            ([], true) => Ok(Self { items: Vec::new() }),
            ([], false) => Ok(Self::default()),
            (given, _) => given.join(",").parse(),
        }
    }

    /// Whether the controller with this name and these aliases is enabled.
    pub fn enabled(&self, name: &str, aliases: &[String], on_by_default: bool) -> bool {
        self.explicit(name, aliases).unwrap_or_else(|| on_by_default && self.items.contains(&Item::All))
    }

    /// Whether an item disables the plugin with this name and these aliases.
    pub fn disables(&self, name: &str, aliases: &[String]) -> bool {
        self.explicit(name, aliases) == Some(false)
    }

    /// What the first item with this name says; as upstream, it overrides later ones and `*`.
    fn explicit(&self, name: &str, aliases: &[String]) -> Option<bool> {
        let means = |item: &str| item == name || aliases.iter().any(|alias| alias == item);
        self.items.iter().find_map(|item| match item {
            Item::On(item) if means(item) => Some(true),
            Item::Off(item) if means(item) => Some(false),
            _ => None,
        })
    }

    /// Checks that every name is known. `known` yields names with their aliases.
    ///
    /// # Errors
    /// [`UnknownControllers`]; a retry does not help.
    pub fn check<'a>(&self, known: impl Iterator<Item = (&'a str, &'a [String])>) -> Result<(), UnknownControllers> {
        let known: Vec<(&str, &[String])> = known.collect();
        let unknown: Vec<String> = self
            .items
            .iter()
            .filter_map(|item| match item {
                Item::All => None,
                Item::On(name) | Item::Off(name) => Some(name),
            })
            .filter(|item| !known.iter().any(|(name, aliases)| *item == name || aliases.contains(item)))
            .cloned()
            .collect();
        if unknown.is_empty() {
            return Ok(());
        }
        Err(UnknownControllers { unknown, known: known.iter().map(|(name, _)| (*name).to_owned()).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enabled(flag: &str, name: &str, on_by_default: bool) -> bool {
        flag.parse::<ControllersFlag>().unwrap().enabled(name, &["widget".into()], on_by_default)
    }

    #[test]
    fn the_first_item_that_names_a_controller_decides() {
        let cases = [
            ("*", true, true),
            ("*", false, false),
            ("*,-widget-controller", true, false),
            ("-widget,*", true, false),
            ("widget,-widget-controller", false, true),
            ("-widget-controller,widget", true, false),
            ("*, widget-controller", false, true),
            ("other", true, false),
            ("-other", true, false),
        ];
        for (flag, on_by_default, expected) in cases {
            assert_eq!(enabled(flag, "widget-controller", on_by_default), expected, "{flag}");
        }
        assert!(ControllersFlag::default().enabled("a", &[], true));
    }

    #[test]
    fn named_components_run_alone_unless_the_flag_names_more() {
        let enabled = |has_components, given: &[&str], name| {
            let given: Vec<String> = given.iter().map(|item| (*item).to_owned()).collect();
            ControllersFlag::beside(has_components, &given).unwrap().enabled(name, &[], true)
        };
        assert!(enabled(false, &[], "a"));
        assert!(!enabled(true, &[], "a"));
        for has_components in [false, true] {
            assert!(enabled(has_components, &["*"], "a"));
            assert!(enabled(has_components, &["*", "-b"], "a"));
            assert!(enabled(has_components, &["a"], "a"));
            assert!(!enabled(has_components, &["a"], "b"));
        }
        assert!(ControllersFlag::beside(true, &[String::new()]).is_err());
    }

    #[test]
    fn only_a_minus_disables_a_component() {
        let disables = |flag: &str| flag.parse::<ControllersFlag>().unwrap().disables("a-b", &["ab".to_owned()]);
        for (flag, expected) in
            [("*", false), ("c", false), ("-c", false), ("-a-b", true), ("*,-ab", true), ("ab,-a-b", false)]
        {
            assert_eq!(disables(flag), expected, "{flag}");
        }
        assert!(!ControllersFlag::beside(true, &[]).unwrap().disables("a", &[]));
    }

    #[test]
    fn unknown_names_are_rejected_with_the_valid_ones() {
        let aliases = ["widget".to_owned()];
        let known = || [("widget-controller", aliases.as_slice()), ("gadget-controller", &[])].into_iter();
        "*,-widget,gadget-controller".parse::<ControllersFlag>().unwrap().check(known()).unwrap();
        let error = "*,-wigdet".parse::<ControllersFlag>().unwrap().check(known()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "--controllers: wigdet not known; known are widget-controller, gadget-controller"
        );
        assert!("a,,b".parse::<ControllersFlag>().is_err());
        assert!("".parse::<ControllersFlag>().is_err());
    }
}
