//! Checks the options that a tuning passes on to other commands of this program: invalid ones are refused before anything is created.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::LabError;
use crate::plan::{Arm, FILER, Knob, Plan};
use crate::run::driver::RunOrder;
use crate::run::setup::driver_options;

/// Refuses options of a configuration that the driver or the filer would not accept.
///
/// # Errors
/// The command's error about them, or the command could not be run.
pub(super) fn check(program: &Path, plan: &Plan, arm: &Arm) -> Result<(), LabError> {
    // With the arguments of any run, because an option that is given twice is refused too.
    let any = RunOrder { users: 1, threads: 1, seconds: 1, warmup_seconds: 0, seed: 0 };
    takes(program, arm, "orders run", &any.words(&driver_options(plan, arm)), "--check-options")?;
    // Arguments are parsed from left to right: an invalid one is reported before the help ends the command.
    takes(program, arm, "serve", &Knob::arguments(plan.tuning_of(arm).of(FILER)), "--help")
}

/// `end` is the option with which the command only reads its arguments.
fn takes(program: &Path, arm: &Arm, command: &str, options: &[String], end: &str) -> Result<(), LabError> {
    if options.is_empty() {
        return Ok(());
    }
    let mut asked = Command::new(program);
    asked.args(command.split(' ')).args(options).arg(end).stdin(Stdio::null());
    let output = asked.output().map_err(LabError::file("run", program))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let first = said.lines().next().unwrap_or_default().trim_start_matches("error: ").trim_start_matches("millrace: ");
    let what = format!("measure {}: millrace {command} says: {first}", arm.id);
    Err(LabError::plan(what, &format!("millrace {command} --help shows what it takes")))
}
