//! PostgreSQL programs that PATH lacks: Debian and PGDG install them in one directory for each version.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::anyhow;

use super::program::locate;
use crate::error_printing::{hinted, print_error, refusal};

/// Exit codes of a shell for a program that does not exist, and for one that cannot be executed.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

/// If PATH lacks a PostgreSQL program and exactly one installed version has it, replaces its name
/// by its path and prints that. With several versions the name stays: the user may mean another
/// version than the first one found. `becomes` is the verb of the message.
pub(super) fn find_in_versions(command: &mut [OsString], becomes: &str) {
    let Some(program) = command.first_mut() else { return };
    if locate(program).is_some() {
        return;
    }
    if let [only] = versions_of(program).as_slice() {
        eprintln!("millrace: {} is not in PATH: {becomes} {}", program.display(), only.display());
        *program = only.clone().into_os_string();
    }
}

fn versions_of(program: &OsStr) -> Vec<PathBuf> {
    program.to_str().filter(|name| !name.contains('/')).map(lab::installed_programs).unwrap_or_default()
}

/// Prints why a program was not run, and returns a shell's exit code.
///
/// If no directory of PATH has the program and this user may not search one of them, the C library
/// reports "permission denied". That happens to a user that `runuser` starts with root's PATH.
pub(super) fn not_run(program: &OsStr, error: std::io::Error) -> ExitCode {
    let is_missing = error.kind() == ErrorKind::NotFound || locate(program).is_none();
    if !is_missing {
        let is_directory = locate(program).is_some_and(|path| path.is_dir());
        let shown = program.display();
        let (error, hint) = match error.kind() {
            _ if is_directory => (anyhow!("it is a directory"), "name a program, with its arguments after it".to_owned()),
            ErrorKind::PermissionDenied => {
                (anyhow!(error), format!("if it is a program, let this user run it: chmod +x {shown}"))
            }
            _ => (anyhow!(error), String::new()),
        };
        print_error(&hinted(error.context(format!("run {shown}")), hint));
        return ExitCode::from(NOT_EXECUTABLE);
    }
    let in_path = !program.as_bytes().contains(&b'/');
    let versions: Vec<String> = versions_of(program).iter().map(|path: &PathBuf| Path::display(path).to_string()).collect();
    let (why, hint) = if !in_path {
        ("no such file", "check the path".to_owned())
    } else if versions.is_empty() {
        ("not found in PATH", "check the spelling, or give the full path of the program".to_owned())
    } else {
        ("not found in PATH, and installed in several versions", format!("name the one you want: {}", versions.join(", ")))
    };
    print_error(&refusal(why, hint).context(format!("run {}", program.display())));
    ExitCode::from(NOT_FOUND)
}
