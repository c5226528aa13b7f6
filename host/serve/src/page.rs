//! The web page of a host: static files, which poll the overview.
//!
//! Invariants:
//! 1. The page loads nothing from other origins, and runs no script but its own: [`POLICY`].
//! 2. It needs two further requests, both immediately. The icon is in the page: browsers request it while the page
//!    already requests values, and do not retry if that connection is closed, as those of clients without credentials
//!    are after each response.
//! 3. Data from the host becomes text of the page, never markup (`page/page.js`).

/// The policy that a browser enforces on the page.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; \
                          base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A file of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asset {
    /// Its content type.
    pub content_type: &'static str,
    /// Its text.
    pub text: &'static str,
}

/// A file of the page by its relative path.
pub fn asset(path: &str) -> Option<Asset> {
    let (content_type, text) = match path {
        "" => ("text/html; charset=utf-8", include_str!("page/index.html")),
        "page.css" => ("text/css; charset=utf-8", include_str!("page/page.css")),
        "page.js" => ("text/javascript; charset=utf-8", include_str!("page/page.js")),
        _ => return None,
    };
    Some(Asset { content_type, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The browser would block such parts; the test reports the line.
    #[test]
    fn the_page_has_no_script_or_style_of_its_own_and_names_no_other_place() {
        let html = asset("").unwrap().text;
        for line in html.lines() {
            assert!(!line.contains("<style") && !line.contains(" style=") && !line.contains(" on"), "{line}");
            assert!(!line.contains("<script") || line.contains("src=\"page.js\""), "{line}");
        }
        for path in ["", "page.css", "page.js"] {
            let named = asset(path).unwrap().text.lines().filter(|line| line.contains("//") && line.contains("http"));
            // A name, not an address.
            let foreign: Vec<&str> = named.filter(|line| !line.contains("http://www.w3.org/2000/svg")).collect();
            assert!(foreign.is_empty(), "{path}: {foreign:?}");
        }
        let script = asset("page.js").unwrap().text;
        for markup in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
            assert!(!script.contains(markup), "{markup}");
        }
        assert_eq!(asset("../page.rs"), None);
    }
}
