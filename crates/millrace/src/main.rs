//! `millrace`: the front door. Reads arguments, wires the rooms, ends with a documented exit code.
#![forbid(unsafe_code)]

mod cmd;
mod complain;

use clap::Parser;
use std::process::ExitCode;

/// An OLTP database over network storage: as fast as the wire allows, tuned, and measured.
#[derive(Parser)]
#[command(name = "millrace", version, arg_required_else_help = true, after_help = EXIT_CODES)]
struct Millrace {
    #[command(subcommand)]
    command: cmd::Command,
}

const EXIT_CODES: &str = "\
Exit codes: 0 done; 1 what was asked for failed or missed its gate; 2 could not run (arguments, a missing program, a \
refusal); 3 ran, but the result is not valid. `millrace exec` ends with the code of the program it ran.";

fn main() -> ExitCode {
    let millrace = Millrace::parse();
    cmd::run(millrace.command).unwrap_or_else(|error| {
        complain::say(&error);
        ExitCode::from(2)
    })
}
