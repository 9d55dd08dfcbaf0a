//! Files and functions stay small enough to be read in one go, and every module says what it is about.

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    Attribute, Block, Expr, ExprLit, ImplItemFn, ItemFn, ItemImpl, ItemMod, Lit, Meta, Signature, Token, TraitItemFn,
};

use super::source::{is_test_file, is_test_only, test_module_lines};
use super::{Finding, Tree};

const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 80;
/// Names that say where code was put, not what it is; everything ends up in them.
const EMPTY_NAMES: [&str; 3] = ["utils", "common", "helpers"];

pub fn check(tree: &Tree) -> Vec<Finding> {
    tree.rust_files().flat_map(|(path, text)| check_file(path, text)).collect()
}

fn check_file(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = check_names_in_path(path);
    let file = match syn::parse_file(text) {
        Ok(file) => file,
        Err(error) => {
            let line = error.span().start().line;
            findings.push(Finding::at_line(
                path,
                line,
                format!("does not parse ({error}): mend it, tidy cannot read it"),
            ));
            return findings;
        }
    };
    if !is_test_file(path) {
        findings.extend(check_file_length(path, text, &file));
    }
    let mut visitor = Walk { path, is_in_tests: is_test_file(path), findings };
    visitor.visit_file(&file);
    visitor.findings
}

fn check_names_in_path(path: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    if path.rsplit('/').next() == Some("mod.rs") {
        findings.push(Finding::in_file(path, "is a `mod.rs`: write `x.rs` beside the folder `x/` instead"));
    }
    for part in path.split('/') {
        let name = part.strip_suffix(".rs").unwrap_or(part);
        if EMPTY_NAMES.contains(&name) {
            findings.push(Finding::in_file(path, refused_name(name)));
        }
    }
    findings
}

fn refused_name(name: &str) -> String {
    format!("the name `{name}` says nothing: name the module after what it knows, or move each piece to its user")
}

/// Lines in test modules do not count. Counting what is outside them, not what is above the first one, keeps a file
/// honest that declares `mod tests;` at its top.
fn check_file_length(path: &str, text: &str, file: &syn::File) -> Option<Finding> {
    let tests: usize = test_module_lines(file).into_iter().map(|lines| lines.count()).sum();
    let lines = text.lines().count().saturating_sub(tests);
    let sentence =
        format!("has {lines} lines without its tests, the limit is {FILE_LINES_MAX}: find the seam and split it");
    (lines > FILE_LINES_MAX).then(|| Finding::in_file(path, sentence))
}

struct Walk<'a> {
    path: &'a str,
    is_in_tests: bool,
    findings: Vec<Finding>,
}

impl Walk<'_> {
    fn check_function(&mut self, attributes: &[Attribute], signature: &Signature, block: &Block) {
        if self.is_in_tests || is_test_only(attributes) || attributes.iter().any(excuses_length) {
            return;
        }
        let first = signature.span().start().line;
        let lines = block.brace_token.span.close().end().line - first + 1;
        if lines > FUNCTION_LINES_MAX {
            let sentence = format!(
                "function `{}` has {lines} lines, the limit is {FUNCTION_LINES_MAX}: split it, or give the reason in \
                 `#[expect(clippy::too_many_lines, reason = \"...\")]`",
                signature.ident
            );
            self.findings.push(Finding::at_line(self.path, first, sentence));
        }
    }

    /// Goes into an item, remembering whether it is for tests only.
    fn descend(&mut self, attributes: &[Attribute], visit: impl FnOnce(&mut Self)) {
        let outside = self.is_in_tests;
        self.is_in_tests |= is_test_only(attributes);
        visit(self);
        self.is_in_tests = outside;
    }
}

impl<'ast> Visit<'ast> for Walk<'_> {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        let name = module.ident.to_string();
        // A module in a file of its own is refused by its path.
        if module.content.is_some() && EMPTY_NAMES.contains(&name.as_str()) {
            self.findings.push(Finding::at_line(self.path, module.ident.span().start().line, refused_name(&name)));
        }
        self.descend(&module.attrs, |walk| visit::visit_item_mod(walk, module));
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        self.descend(&item.attrs, |walk| visit::visit_item_impl(walk, item));
    }

    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        self.check_function(&function.attrs, &function.sig, &function.block);
        self.descend(&function.attrs, |walk| visit::visit_item_fn(walk, function));
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        self.check_function(&function.attrs, &function.sig, &function.block);
        self.descend(&function.attrs, |walk| visit::visit_impl_item_fn(walk, function));
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        if let Some(block) = &function.default {
            self.check_function(&function.attrs, &function.sig, block);
        }
        self.descend(&function.attrs, |walk| visit::visit_trait_item_fn(walk, function));
    }
}

/// An `expect` of the length lint that gives a reason. Without a reason it is a shrug, and does not count.
fn excuses_length(attribute: &Attribute) -> bool {
    if !attribute.path().is_ident("expect") {
        return false;
    }
    let parser = syn::punctuated::Punctuated::<Meta, Token![,]>::parse_terminated;
    let Ok(parts) = attribute.parse_args_with(parser) else { return false };
    let names_the_lint = parts.iter().any(|part| match part {
        Meta::Path(path) => path.segments.last().is_some_and(|segment| segment.ident == "too_many_lines"),
        _ => false,
    });
    names_the_lint && parts.iter().any(is_reason)
}

fn is_reason(part: &Meta) -> bool {
    match part {
        Meta::NameValue(pair) if pair.path.is_ident("reason") => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(reason), .. }) => !reason.value().trim().is_empty(),
            _ => false,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests;
