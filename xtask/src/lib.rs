//! Purpose: the repository's own tools. `cargo xtask tidy` holds the house rules and fails when the tree breaks one; `crds` and
//! `catalog` write files that are generated; `bench` measures the engine beside the reference.
//! May touch: files of this repository, git, the checklists the conformance table is compared with, recorded traces, the wall
//! clock, processes that it starts, and for `catalog` the package registries.
//! Must not touch: a cluster, a cloud, anything a production process links.
//! Invariants: a rule is a plain function from a `Tree` to findings, so every rule is tested without a disk; equal
//! trees give equal findings in equal order.

pub mod bench;
pub mod catalog;
pub mod tidy;
