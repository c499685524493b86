//! Programs of the host that attach and detach.

use super::error::AttachError;
use std::process::Command;

/// Runs a program of the host to its end, without a stdin unless `command` has one. Returns what it
/// printed.
pub(super) fn output(program: &'static str, command: &mut Command) -> Result<String, AttachError> {
    let ended = command.output().map_err(|source| AttachError::Program { program, source })?;
    if ended.status.success() {
        return Ok(String::from_utf8_lossy(&ended.stdout).into_owned());
    }
    let arguments: Vec<String> = command.get_args().map(|argument| argument.to_string_lossy().into_owned()).collect();
    let said = String::from_utf8_lossy(&ended.stderr).trim().to_owned();
    let said = if said.is_empty() { ended.status.to_string() } else { said };
    Err(AttachError::Failed { program, arguments: arguments.join(" "), said })
}
