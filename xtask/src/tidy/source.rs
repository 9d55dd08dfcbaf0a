//! What several rules must know about Rust source: which parts of it are tests.

use std::ops::RangeInclusive;

use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Attribute, Item, Meta, Token};

/// Whole files that are tests: integration tests, and `x/tests.rs` beside a module whose tests grew too long for it.
pub(crate) fn is_test_file(path: &str) -> bool {
    path.split('/').rev().skip(1).any(|folder| folder == "tests") || path.rsplit('/').next() == Some("tests.rs")
}

/// The lines of the test modules written inside a file. `mod tests;` has no lines here: it is a file of its own.
pub(crate) fn test_module_lines(file: &syn::File) -> Vec<RangeInclusive<usize>> {
    let modules = file.items.iter().filter_map(|item| match item {
        Item::Mod(module) if module.content.is_some() && is_test_only(&module.attrs) => Some(module),
        _ => None,
    });
    modules.map(|module| module.span().start().line..=module.span().end().line).collect()
}

/// Whether the item exists only in test builds, or is itself a test.
pub(crate) fn is_test_only(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        // The last word decides, so that `tokio::test` is a test as well.
        let is_test = attribute.path().segments.last().is_some_and(|segment| segment.ident == "test");
        is_test
            || (attribute.path().is_ident("cfg") && attribute.parse_args::<Meta>().is_ok_and(|meta| needs_test(&meta)))
    })
}

/// `any(test, …)` is deliberately not enough: such code is also built without tests.
fn needs_test(condition: &Meta) -> bool {
    match condition {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("all") => list
            .parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)
            .is_ok_and(|conditions| conditions.iter().any(needs_test)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_known_by_folder_by_file_name_and_by_attribute() {
        assert!(is_test_file("xtask/tests/tidy.rs"));
        assert!(is_test_file("crates/model/src/price/tests.rs"));
        assert!(!is_test_file("crates/model/src/tests_of_time.rs"));

        let check = |attribute: &str, expected: bool| {
            let item: syn::ItemFn = syn::parse_str(&format!("{attribute} fn f() {{}}")).unwrap();
            assert_eq!(is_test_only(&item.attrs), expected, "{attribute}");
        };
        check("#[test]", true);
        check("#[tokio::test(start_paused = true)]", true);
        check("#[cfg(test)]", true);
        check("#[cfg(all(unix, test))]", true);
        check("#[cfg(any(unix, test))]", false);
        check("#[cfg(not(test))]", false);
        check("#[inline]", false);
    }
}
