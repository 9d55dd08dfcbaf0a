//! The admission tables: objects, and what an API server must say to them.
//!
//! A table is a YAML file per kind under `e2e/admission`. Each row changes a base object and states the verdict: accepted
//! (perhaps with values to find in the stored object), or refused by one rule of the schema, named as in [`rules`].

mod play;
mod rules;
mod table;

pub use play::check_over_client;
pub use rules::{Rule, exercised, rules_of};
pub use table::{Causes, Row, Table, Verdict, read_tables};
