//! # provider
//!
//! Purpose: the one doorway to any cloud. For now what EC2 sells, from a file of public facts; the trait and the simulated cloud
//! come with the live controller.
//! May touch: the model, and the data that is built in.
//! Must not touch: a concrete cloud's client, files and sockets, the engine.
//! Invariants: equal regions give equal catalogues, in the order of type names; a price that no source names is never made up.

pub mod ec2;
