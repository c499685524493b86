//! Messages on stderr: only what the user must know, and traces when `MILLRACE_LOG` is set.

use crate::raw;
use std::fmt::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether `MILLRACE_LOG` was set when the process started.
pub(crate) static TRACING: AtomicBool = AtomicBool::new(false);

/// A line that is built without allocation; what does not fit is cut.
struct Line {
    bytes: [u8; 1024],
    used: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let room = self.bytes.len() - 1 - self.used; // one byte for the line feed
        let taken = text.len().min(room);
        self.bytes[self.used..self.used + taken].copy_from_slice(&text.as_bytes()[..taken]);
        self.used += taken;
        Ok(())
    }
}

/// Writes a finished line to descriptor 2 when that leads to a mount; the flag tells whether that may be tried. False when
/// descriptor 2 is none of ours. Set by the constructor: the table of descriptors writes messages itself.
pub(crate) static MOUNT_WRITER: OnceLock<fn(line: &[u8], may_call: bool) -> bool> = OnceLock::new();

/// Writes a line to descriptor 2, wherever that leads: to a file on a mount as well.
pub(crate) fn warn(text: std::fmt::Arguments<'_>) {
    write(text, true);
}

/// Writes a line if `MILLRACE_LOG` is set and stderr is not on a mount: for who is in the middle of a call to the server.
pub(crate) fn note_outside_mounts(text: std::fmt::Arguments<'_>) {
    if TRACING.load(Ordering::Relaxed) {
        write(text, false);
    }
}

fn write(text: std::fmt::Arguments<'_>, to_mounts: bool) {
    let mut line = Line { bytes: [0; 1024], used: 0 };
    let _ = line.write_str("millrace: ");
    let _ = line.write_fmt(text);
    line.bytes[line.used] = b'\n';
    let line = &line.bytes[..=line.used];
    // A line about a fault of stderr's own file must not lead back here.
    static WRITING: AtomicBool = AtomicBool::new(false);
    if WRITING.swap(true, Ordering::Acquire) {
        return;
    }
    if !MOUNT_WRITER.get().is_some_and(|write| write(line, to_mounts)) {
        let _ = raw::write(2, line);
    }
    WRITING.store(false, Ordering::Release);
}

/// Writes a line if `MILLRACE_LOG` is set.
macro_rules! trace {
    ($($arg:tt)*) => { if $crate::messages::TRACING.load(std::sync::atomic::Ordering::Relaxed) { $crate::messages::warn(format_args!($($arg)*)) } };
}
pub(crate) use trace;
