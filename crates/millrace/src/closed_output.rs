//! Output that cannot be written: its reader went away (`millrace audit | head`), or the disk is full. `println!` panics then.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind, set_hook, take_hook};
use std::process::ExitCode;

/// What a shell says of a program that SIGPIPE ended: 128 + 13.
const READER_GONE: u8 = 141;

/// Runs a command. Where its output cannot be written it ends without a panic's message, after all that it holds was dropped.
pub(crate) fn guarded(command: impl FnOnce() -> ExitCode) -> ExitCode {
    let usual = take_hook();
    set_hook(Box::new(move |panic| {
        if failure(panic.payload()).is_none() {
            usual(panic);
        }
    }));
    catch_unwind(AssertUnwindSafe(command)).unwrap_or_else(|payload| match failure(&*payload) {
        Some(why) if why.contains("os error 32") => ExitCode::from(READER_GONE),
        Some(why) => {
            crate::error_printing::print_error(&anyhow::anyhow!("write to standard output: {why}"));
            ExitCode::FAILURE
        }
        None => resume_unwind(payload),
    })
}

/// Why nothing could be printed, if that is what a panic was for.
fn failure(payload: &(dyn Any + Send)) -> Option<&str> {
    let text = payload.downcast_ref::<String>()?;
    text.strip_prefix("failed printing to stdout: ").or_else(|| text.strip_prefix("failed printing to stderr: "))
}
