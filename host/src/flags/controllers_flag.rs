//! The `--controllers` flag, which selects the controllers to run.
//!
//! Source: kube-controller-manager: the first item with a controller's name decides, and `*` stands for those that are
//! on by default.

use std::str::FromStr;

use pintle_core::text::like;

/// A parsed `--controllers` value, for example `*,-namespace-controller,token-cleaner-controller`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ControllersFlag {
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
pub(crate) struct ParseControllersError(String);

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

/// The flag contains controllers that this host does not have.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnknownControllers {
    /// Names that do not exist.
    #[error("--controllers: no controller is called {}; known are {}", .unknown.join(" or "), .known.join(", "))]
    Unknown {
        /// The given names, each with the most similar valid one.
        unknown: Vec<String>,
        /// The valid names.
        known: Vec<String>,
    },
    /// Names of kube-controller-manager's controllers.
    #[error(
        "--controllers: {} of kube-controller-manager {} not part of this Pintle yet; known are {}",
        .missing.join(", "), if .missing.len() == 1 { "is" } else { "are" }, .known.join(", ")
    )]
    Missing {
        /// The given names.
        missing: Vec<String>,
        /// The valid names.
        known: Vec<String>,
    },
}

impl ControllersFlag {
    /// The default of the flag: if the operator names components, no built-in controllers run in addition to them;
    /// otherwise upstream's default, `*`.
    ///
    /// # Errors
    /// [`ParseControllersError`]; a retry does not help.
    pub(crate) fn beside(has_components: bool, given: &[String]) -> Result<Self, ParseControllersError> {
        match (given, has_components) {
            ([], true) => Ok(Self { items: Vec::new() }),
            ([], false) => Ok(Self::default()),
            (given, _) => given.join(",").parse(),
        }
    }

    /// Whether it includes `*`, so is not a list of controllers.
    pub(crate) fn has_all(&self) -> bool {
        self.items.contains(&Item::All)
    }

    /// Whether the controller with this name and these aliases is enabled.
    pub(crate) fn enabled(&self, name: &str, aliases: &[String], on_by_default: bool) -> bool {
        self.explicit(name, aliases).unwrap_or_else(|| on_by_default && self.has_all())
    }

    /// Whether an item disables the plugin with this name and these aliases.
    pub(crate) fn disables(&self, name: &str, aliases: &[String]) -> bool {
        self.explicit(name, aliases) == Some(false)
    }

    /// The setting of the first item with this name; as upstream, it overrides later ones and `*`.
    fn explicit(&self, name: &str, aliases: &[String]) -> Option<bool> {
        let means = |item: &str| item == name || aliases.iter().any(|alias| alias == item);
        self.items.iter().find_map(|item| match item {
            Item::On(item) if means(item) => Some(true),
            Item::Off(item) if means(item) => Some(false),
            _ => None,
        })
    }

    /// Checks that every name is valid. `known` yields names with their aliases, `missing` the kube-controller-manager
    /// controllers that the host does not have: disabling them is accepted.
    ///
    /// # Errors
    /// [`UnknownControllers`]; a retry does not help.
    pub(crate) fn check<'a, 'b>(
        &self,
        known: impl Iterator<Item = (&'a str, &'a [String])>,
        missing: impl Iterator<Item = (&'b str, &'b [String])>,
    ) -> Result<(), UnknownControllers> {
        let known: Vec<(&str, &[String])> = known.collect();
        let missing: Vec<(&str, &[String])> = missing.collect();
        let has = |list: &[(&str, &[String])], item: &String| {
            list.iter().any(|(name, aliases)| item == name || aliases.contains(item))
        };
        let (mut unknown, mut asked) = (Vec::new(), Vec::new());
        for item in &self.items {
            match item {
                Item::All => {}
                Item::On(name) | Item::Off(name) if has(&known, name) => {}
                Item::On(name) if has(&missing, name) => asked.push(name.clone()),
                Item::Off(name) if has(&missing, name) => {}
                Item::On(name) | Item::Off(name) => {
                    let all = known.iter().chain(&missing);
                    let names = all.flat_map(|(name, aliases)| aliases.iter().map(String::as_str).chain([*name]));
                    unknown.push(match like(name, names) {
                        Some(near) => format!("{name} (did you mean {near}?)"),
                        None => name.clone(),
                    });
                }
            }
        }
        let names = || known.iter().map(|(name, _)| (*name).to_owned()).collect();
        if !unknown.is_empty() {
            return Err(UnknownControllers::Unknown { unknown, known: names() });
        }
        if !asked.is_empty() {
            return Err(UnknownControllers::Missing { missing: asked, known: names() });
        }
        Ok(())
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
        let [widget, robot] = [["widget".to_owned()], ["robot".to_owned()]];
        let check = |flag: &str| {
            let known = [("widget-controller", widget.as_slice()), ("gadget-controller", &[])].into_iter();
            let missing = [("robot-controller", robot.as_slice())].into_iter();
            let flag: ControllersFlag = flag.parse().unwrap();
            flag.check(known, missing).map_err(|error| error.to_string())
        };
        for flag in ["*,-widget,gadget-controller", "*,-robot", "-robot-controller,widget"] {
            assert_eq!(check(flag), Ok(()), "{flag}");
        }
        let unknown =
            "no controller is called wigdet (did you mean widget?); known are widget-controller, gadget-controller";
        for flag in ["*,-wigdet", "wigdet,robot"] {
            assert_eq!(check(flag), Err(format!("--controllers: {unknown}")), "{flag}");
        }
        let missing = "robot of kube-controller-manager is not part of this Pintle yet; known are widget-controller, gadget-controller";
        assert_eq!(check("*,robot"), Err(format!("--controllers: {missing}")));
        assert!("a,,b".parse::<ControllersFlag>().is_err());
        assert!("".parse::<ControllersFlag>().is_err());
    }
}
