//! The workspace members and what they depend on, as their manifests say it.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Finding, Tree};

/// A package of this workspace.
pub(crate) struct Member {
    pub(crate) name: String,
    /// The folder, relative to the root.
    pub(crate) folder: String,
    pub(crate) dependencies: Vec<Dependency>,
    /// What the package's own features switch on, such as `kube/client`.
    pub(crate) switches: Vec<Switch>,
}

impl Member {
    pub(crate) fn manifest(&self) -> String {
        manifest_in(&self.folder)
    }
}

pub(crate) struct Dependency {
    /// The package's real name, whatever name it is given locally.
    pub(crate) package: String,
    pub(crate) line: usize,
    pub(crate) is_for_tests: bool,
    pub(crate) has_path: bool,
    pub(crate) has_default_features: bool,
    pub(crate) features: Vec<String>,
}

pub(crate) struct Switch {
    pub(crate) value: String,
    pub(crate) line: usize,
}

/// All members that could be read, and a finding for each that could not.
pub(crate) fn read_members(tree: &Tree) -> (Vec<Member>, Vec<Finding>) {
    let root = match Manifest::read(tree, "Cargo.toml") {
        Ok(root) => root,
        Err(finding) => return (Vec::new(), vec![finding]),
    };
    let mut members = Vec::new();
    let mut problems = Vec::new();
    for folder in member_folders(tree, &root) {
        match read_member(tree, &root, &folder) {
            Ok(member) => members.push(member),
            Err(finding) => problems.push(finding),
        }
    }
    (members, problems)
}

/// A manifest as written, with the position of every key.
struct Manifest<'a> {
    text: &'a str,
    table: DeTable<'a>,
}

impl<'a> Manifest<'a> {
    fn read(tree: &'a Tree, path: &str) -> Result<Manifest<'a>, Finding> {
        let text = tree
            .text(path)
            .ok_or_else(|| Finding::in_file(path, "does not exist, but the workspace needs it: write it"))?;
        let table = DeTable::parse(text).map_err(|error| {
            let sentence = format!("does not parse ({}): mend it, tidy cannot read it", error.message());
            Finding::in_file(path, sentence)
        })?;
        Ok(Manifest { text, table: table.into_inner() })
    }

    fn table(&self, name: &str) -> Option<&DeTable<'a>> {
        self.table.get(name)?.get_ref().as_table()
    }

    fn line_of<T>(&self, place: &Spanned<T>) -> usize {
        self.text[..place.span().start].matches('\n').count() + 1
    }

    fn shared_dependency(&self, name: &str) -> Option<&DeValue<'a>> {
        Some(self.table("workspace")?.get("dependencies")?.get_ref().get(name)?.get_ref())
    }
}

fn manifest_in(folder: &str) -> String {
    format!("{folder}/Cargo.toml")
}

fn member_folders(tree: &Tree, root: &Manifest<'_>) -> Vec<String> {
    let listed = root.table("workspace").map(|workspace| strings(workspace.get("members"))).unwrap_or_default();
    listed.iter().flat_map(|pattern| expand(tree, pattern)).collect()
}

/// Cargo lets a member list end in `/*`; that is the only pattern understood here.
fn expand(tree: &Tree, pattern: &str) -> Vec<String> {
    let Some(parent) = pattern.strip_suffix("/*") else { return vec![pattern.to_owned()] };
    let folders = tree.paths().filter_map(|path| path.strip_suffix("/Cargo.toml"));
    let children = folders.filter(|folder| folder.rsplit_once('/').is_some_and(|(above, _)| above == parent));
    children.map(str::to_owned).collect()
}

fn read_member(tree: &Tree, root: &Manifest<'_>, folder: &str) -> Result<Member, Finding> {
    let path = manifest_in(folder);
    let manifest = Manifest::read(tree, &path)?;
    let name = manifest.table("package").and_then(|package| package.get("name")?.get_ref().as_str());
    let name = name.ok_or_else(|| Finding::in_file(&path, "has no package name: give it the name of its folder"))?;
    let mut dependencies = dependencies_in(root, &manifest, &manifest.table);
    for platform in manifest.table("target").into_iter().flat_map(|platforms| platforms.values()) {
        if let Some(platform) = platform.get_ref().as_table() {
            dependencies.extend(dependencies_in(root, &manifest, platform));
        }
    }
    let switches = switches_in(&manifest);
    Ok(Member { name: name.to_owned(), folder: folder.to_owned(), dependencies, switches })
}

fn dependencies_in(root: &Manifest<'_>, manifest: &Manifest<'_>, table: &DeTable<'_>) -> Vec<Dependency> {
    let mut found = Vec::new();
    for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
        let Some(listed) = table.get(kind).and_then(|value| value.get_ref().as_table()) else { continue };
        for (key, value) in listed {
            let own = value.get_ref();
            let shared =
                if flag(own, "workspace") == Some(true) { root.shared_dependency(key.get_ref()) } else { None };
            let written = || [Some(own), shared].into_iter().flatten();
            let package = written().find_map(|value| value.get("package")?.get_ref().as_str());
            found.push(Dependency {
                package: package.unwrap_or(key.get_ref()).to_owned(),
                line: manifest.line_of(key),
                is_for_tests: kind == "dev-dependencies",
                has_path: written().any(|value| value.get("path").is_some()),
                has_default_features: has_default_features(own, shared),
                features: written().flat_map(|value| strings(value.get("features"))).collect(),
            });
        }
    }
    found
}

/// Cargo's rule: a member can switch the workspace's default features on, but not off.
fn has_default_features(own: &DeValue<'_>, shared: Option<&DeValue<'_>>) -> bool {
    let own = flag(own, "default-features");
    match shared {
        Some(shared) => own == Some(true) || flag(shared, "default-features").unwrap_or(true),
        None => own.unwrap_or(true),
    }
}

fn flag(value: &DeValue<'_>, name: &str) -> Option<bool> {
    value.get(name)?.get_ref().as_bool()
}

fn switches_in(manifest: &Manifest<'_>) -> Vec<Switch> {
    let features = manifest.table("features").into_iter().flatten();
    let switches = features.flat_map(|(name, values)| {
        let line = manifest.line_of(name);
        strings(Some(values)).into_iter().map(move |value| Switch { value, line })
    });
    switches.collect()
}

fn strings(value: Option<&Spanned<DeValue<'_>>>) -> Vec<String> {
    let Some(list) = value.and_then(|value| value.get_ref().as_array()) else { return Vec::new() };
    list.iter().filter_map(|entry| entry.get_ref().as_str().map(str::to_owned)).collect()
}
