//! # cli
//!
//! Purpose: the front door. Reads the command line, chooses the parts, and turns every failure into one line.
//! May touch: everything, to wire it together; standard output and standard error.
//! Must not touch: decisions. Whatever is worth a test of its own belongs to another room.
//! Invariants: exit code 0 for done, 1 for failed, 2 for a command line or a scenario that makes no sense; a failure is one line
//! on standard error that says what was tried and what to do.

mod args;
mod controller;
mod crds;
mod output;
mod simulate;

use std::process::ExitCode;

use args::{Args, Command, Parsed};

/// Gives memory back when a burst is over, and is quick with the many small texts of objects. What it does by default is in
/// `.cargo/config.toml`. Decision 0072.
#[global_allocator]
static MEMORY: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let args = match args::parse(std::env::args_os()) {
        Parsed::Run(args) => args,
        Parsed::Shown => return ExitCode::SUCCESS,
        Parsed::Refused(line) => {
            eprintln!("dovetail: {line}");
            return ExitCode::from(2);
        }
    };
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("dovetail: {}", one_line(&error));
            let makes_no_sense = error.is::<sim::scenario::Fault>();
            if makes_no_sense { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

fn run(args: Args) -> anyhow::Result<()> {
    match args.command {
        Command::Crds(command) => crds::run(&command),
        Command::Controller(command) => controller::run(*command),
        Command::Simulate(command) => simulate::run(&command),
    }
}

/// The error and its causes on one line, outermost first; a cause that its wrapper already quotes is left out.
fn one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain() {
        let text = cause.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        if line.is_empty() {
            line = text;
        } else if !line.contains(&text) {
            line = format!("{line}: {text}");
        }
    }
    line
}
