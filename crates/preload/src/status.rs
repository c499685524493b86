//! What went wrong on a mount, as errno: dnfs has the table.

use crate::messages::tell_of_server;
use crate::mounts;
use crate::outcome::Out;
use std::sync::atomic::{AtomicBool, Ordering};

impl From<dnfs::Error> for Out {
    fn from(error: dnfs::Error) -> Self {
        tell_if_full(&error);
        match error {
            dnfs::Error::Segment(_) => mounts::failed_in_runtime(error.errno()),
            _ => Self::Errno(error.errno()),
        }
    }
}

/// Says once what there is to be done when this host's memory is full: a program's own message would not tell that it is not the server's.
fn tell_if_full(error: &dnfs::Error) {
    static TOLD: AtomicBool = AtomicBool::new(false);
    if !matches!(error, dnfs::Error::Segment(_)) || error.errno() != libc::ENOSPC || TOLD.swap(true, Ordering::Relaxed) {
        return;
    }
    let hint = error.hints().into_iter().next().unwrap_or_default();
    tell_of_server(format_args!("cannot {error}\nhint: {hint}"));
}
