//! The wait for events.

use super::context::Context;
use super::request::Event;
use crate::outcome::Errno;
use crate::raw;
use std::sync::atomic::Ordering::SeqCst;

/// Passes between `least` and `most` events to `give`; fewer than `least` only if the time is over.
///
/// # Errors
/// EINTR if a signal handler ran before there was an event; EINVAL if the context is destroyed
/// during the wait.
pub(super) fn take(
    context: &Context,
    least: usize,
    most: usize,
    longest_ns: Option<u64>,
    signals: Option<u64>,
    give: &mut dyn FnMut(Event),
) -> Result<(), Errno> {
    let end_ns = longest_ns.map(|ns| raw::monotonic_ns().saturating_add(ns));
    let mut given = 0;
    loop {
        let seen = context.completions.load(SeqCst);
        given += context.take_events(most - given, give);
        if given >= least || longest_ns == Some(0) {
            return Ok(());
        }
        let waited = match signals {
            None => context.wait(seen, end_ns),
            Some(mask) => context.wait_with_signals(seen, end_ns, mask),
        };
        match waited {
            Err(libc::ETIMEDOUT) => {
                context.take_events(most - given, give);
                return Ok(());
            }
            Err(errno) if given == 0 => return Err(errno),
            Err(_) => return Ok(()),
            Ok(()) if !context.is_open() => return if given == 0 { Err(libc::EINVAL) } else { Ok(()) },
            Ok(()) => {}
        }
    }
}
