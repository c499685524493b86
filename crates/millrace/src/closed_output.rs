//! Handles output that cannot be written: the reader closed the pipe (`millrace audit | head`), or
//! the disk is full. `println!` panics in these cases.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind, set_hook, take_hook};
use std::process::ExitCode;

/// The exit code that a shell reports for a program that SIGPIPE ended: 128 + 13.
const READER_GONE: u8 = 141;
/// The exit code of a command that failed. 1 is a result, such as the findings of an audit.
const COULD_NOT_RUN: u8 = 2;
/// The context of an error of writing to stdout.
pub(crate) const TO_STDOUT: &str = "write to standard output";

/// Runs a command. If its output cannot be written, the command ends without a panic message, and
/// unwinding drops all that it holds.
pub(crate) fn guarded(command: impl FnOnce() -> ExitCode) -> ExitCode {
    let usual = take_hook();
    set_hook(Box::new(move |panic| {
        if failure(panic.payload()).is_none() {
            usual(panic);
        }
    }));
    catch_unwind(AssertUnwindSafe(command)).unwrap_or_else(|payload| match failure(&*payload) {
        Some(why) => ExitCode::from(code_of_output(cause(why))),
        None => resume_unwind(payload),
    })
}

/// The error of a failed print, whose text ends with its number: `No space left on device (os error 28)`.
fn cause(why: &str) -> io::Error {
    let number = why.rsplit_once("(os error ").and_then(|(_, rest)| rest.strip_suffix(')')?.parse().ok());
    number.map_or_else(|| io::Error::other(why.to_owned()), io::Error::from_raw_os_error)
}

/// The exit code of a command whose output could not be written.
pub(crate) fn code_of_output(error: io::Error) -> u8 {
    code(&anyhow::Error::new(error).context(TO_STDOUT))
}

/// Whether a command failed because the reader of its output has ended. The command writes with the context [`TO_STDOUT`].
fn is_reader_gone(error: &anyhow::Error) -> bool {
    let cause = error.root_cause().downcast_ref::<io::Error>().map(io::Error::kind);
    cause == Some(io::ErrorKind::BrokenPipe) && error.to_string() == TO_STDOUT
}

/// The exit code of a command that failed.
pub(crate) fn code_of(error: &anyhow::Error) -> ExitCode {
    ExitCode::from(code(error))
}

fn code(error: &anyhow::Error) -> u8 {
    if is_reader_gone(error) {
        return READER_GONE;
    }
    crate::error_printing::print_error(error);
    COULD_NOT_RUN
}

/// The cause of a failed print, if a panic came from one.
fn failure(payload: &(dyn Any + Send)) -> Option<&str> {
    let text = payload.downcast_ref::<String>()?;
    text.strip_prefix("failed printing to stdout: ").or_else(|| text.strip_prefix("failed printing to stderr: "))
}
