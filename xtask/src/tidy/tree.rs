//! The files that belong to the repository, read once, so that rules need no disk.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

/// Folders that are never ours to judge when git is not there to say so.
const OUTPUT_FOLDERS: [&str; 3] = [".git", "target", "bench/out"];

/// Every file that is committed or could be: what git ignores is not here. Paths are relative to the root and use `/`.
pub struct Tree {
    /// `None` stands for a binary file, which exists but has no lines.
    files: BTreeMap<String, Option<String>>,
}

impl Tree {
    /// Reads the working copy at `root`, uncommitted files included: tidy must speak before the commit, not after.
    pub fn read(root: &Path) -> anyhow::Result<Tree> {
        let paths = match git_files(root) {
            Some(paths) => paths,
            None => walk(root)?,
        };
        let mut files = BTreeMap::new();
        for path in paths {
            let on_disk = root.join(&path);
            match std::fs::read(&on_disk) {
                Ok(bytes) => files.insert(path, text_of(bytes)),
                // git still lists a file that was deleted but not yet committed, and a submodule as if it were a file.
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::IsADirectory) => None,
                Err(error) => return Err(error).with_context(|| format!("reading {}", on_disk.display())),
            };
        }
        Ok(Tree { files })
    }

    /// A tree from paths and contents, for tests.
    pub fn of(files: &[(&str, &str)]) -> Tree {
        Tree { files: files.iter().map(|(path, text)| ((*path).to_owned(), Some((*text).to_owned()))).collect() }
    }

    pub fn has(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    /// The text of a file; nothing when it does not exist or is binary.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.as_deref()
    }

    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)))
    }

    pub fn rust_files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts().filter(|(path, _)| path.ends_with(".rs"))
    }
}

fn text_of(bytes: Vec<u8>) -> Option<String> {
    String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

/// Nothing when `root` is no git checkout, or there is no git: then the caller walks.
fn git_files(root: &Path) -> Option<Vec<String>> {
    let output = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
        .output()
        .ok()?;
    if !output.status.success() {
        return None;
    }
    let names = String::from_utf8(output.stdout).ok()?;
    Some(names.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

fn walk(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let on_disk = root.join(&folder);
        let entries = std::fs::read_dir(&on_disk).with_context(|| format!("listing {}", on_disk.display()))?;
        for entry in entries {
            let entry = entry.with_context(|| format!("listing {}", on_disk.display()))?;
            let path = folder.join(entry.file_name());
            let kind = entry.file_type().with_context(|| format!("looking at {}", path.display()))?;
            if kind.is_dir() {
                if !OUTPUT_FOLDERS.iter().any(|output| path == Path::new(output)) {
                    folders.push(path);
                }
            } else if let Some(name) = path.to_str() {
                found.push(name.to_owned());
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes files to a fresh folder, prepares it, and expects the tree to hold exactly these paths.
    fn check_folder(name: &str, files: &[(&str, &[u8])], prepare: impl Fn(&Path), expected: &[&str]) -> Tree {
        let root = std::env::temp_dir().join(format!("dovetail-tidy-{name}-{}", std::process::id()));
        for (path, bytes) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        prepare(&root);
        let tree = Tree::read(&root).unwrap();
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(tree.paths().collect::<Vec<_>>(), expected);
        tree
    }

    fn git(root: &Path, arguments: &[&str]) {
        assert!(Command::new("git").arg("-C").arg(root).args(arguments).status().unwrap().success(), "{arguments:?}");
    }

    #[test]
    fn a_folder_without_git_is_walked_and_output_is_left_out() {
        let files: [(&str, &[u8]); 3] = [("a/b.md", b"text"), ("target/c.md", b"output"), ("d.bin", b"\0\xff")];
        let tree = check_folder("walk", &files, |_| (), &["a/b.md", "d.bin"]);
        assert_eq!(tree.text("a/b.md"), Some("text"));
        assert_eq!(tree.text("d.bin"), None, "a binary file exists but has no text");
    }

    #[test]
    fn files_git_does_not_know_yet_are_ours_and_ignored_or_deleted_ones_are_not() {
        let files: [(&str, &[u8]); 4] =
            [(".gitignore", b"/out\n"), ("new.md", b""), ("out/a.md", b""), ("gone.md", b"")];
        let prepare = |root: &Path| {
            git(root, &["init", "--quiet"]);
            git(root, &["add", "gone.md"]);
            std::fs::remove_file(root.join("gone.md")).unwrap();
        };
        check_folder("git", &files, prepare, &[".gitignore", "new.md"]);
    }
}
