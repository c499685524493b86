//! Options that a tuning hands on to other commands of this program: what they do not take is refused before anything is made.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::LabError;
use crate::plan::{Arm, Plan, Tuning};
use crate::run::driver::RunOrder;
use crate::run::setup::driver_options;

/// Refuses options of an arm that the driver or the filer would not take.
///
/// # Errors
/// What the command says of them; it could not be run.
pub(super) fn check(program: &Path, plan: &Plan, arm: &Arm) -> Result<(), LabError> {
    // With the words of any run: one of them given twice is refused too.
    let any = RunOrder { users: 1, threads: 1, seconds: 1, warmup_seconds: 0, seed: 0 };
    takes(program, arm, "orders run", &any.words(&driver_options(plan, arm)))?;
    takes(program, arm, "serve", &Tuning::arguments(&plan.tuning_of(arm).filer))
}

fn takes(program: &Path, arm: &Arm, command: &str, options: &[String]) -> Result<(), LabError> {
    if options.is_empty() {
        return Ok(());
    }
    // Words are read from left to right: one that is not understood comes before the help that ends the command.
    let mut asked = Command::new(program);
    asked.args(command.split(' ')).args(options).arg("--help").stdin(Stdio::null());
    let output = asked.output().map_err(LabError::file("run", program))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let first = said.lines().next().unwrap_or_default().trim_start_matches("error: ");
    let what = format!("measure {}: millrace {command} says: {first}", arm.id);
    Err(LabError::plan(what, &format!("millrace {command} --help shows what it takes")))
}
