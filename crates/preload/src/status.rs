//! Converts an error of a mount to errno, by the table in dnfs.

use crate::messages::report_server;
use crate::mounts;
use crate::outcome::Out;
use std::sync::atomic::{AtomicBool, Ordering};

impl From<dnfs::Error> for Out {
    fn from(error: dnfs::Error) -> Self {
        report_limit(&error);
        match error {
            dnfs::Error::Segment(_) => mounts::failed_in_runtime(error.errno()),
            _ => Self::Errno(error.errno()),
        }
    }
}

/// Reports once, with a hint, that this host's memory is full or that a limit of this process is
/// too small. A program's own message does not show that the server is not the cause.
fn report_limit(error: &dnfs::Error) {
    static REPORTED: AtomicBool = AtomicBool::new(false);
    let is_limit = matches!(error, dnfs::Error::Segment(_)) && matches!(error.errno(), libc::ENOSPC | libc::EFBIG | libc::ENOMEM);
    if !is_limit || REPORTED.swap(true, Ordering::Relaxed) {
        return;
    }
    let hint = error.hints().into_iter().next().unwrap_or_default();
    report_server(format_args!("cannot {error}\nhint: {hint}"));
}
