//! What we say on stderr: only what the user must know, and traces when `MILLRACE_LOG` is set.

use crate::raw;
use crate::table::{self, Found};
use std::fmt::Write;
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

/// Writes a line to descriptor 2, wherever that leads: to a file on a mount as well.
pub(crate) fn say(text: std::fmt::Arguments<'_>) {
    write(text, true);
}

/// Writes a line if `MILLRACE_LOG` is set and stderr is not on a mount: for who is in the middle of a call to the server.
pub(crate) fn say_aside(text: std::fmt::Arguments<'_>) {
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
    // A line about trouble with stderr's own file must not lead back here.
    static SAYING: AtomicBool = AtomicBool::new(false);
    if SAYING.swap(true, Ordering::Acquire) {
        return;
    }
    match table::find(2) {
        Ok(Found::Elsewhere) => drop(raw::write(2, line)),
        Ok(Found::File(file)) if to_mounts => drop(crate::data::write_here(&file, line)),
        Err(_) if to_mounts => drop(table::known(2).map(|file| crate::data::write_here(&file, line))),
        Ok(Found::File(_) | Found::Directory(..)) | Err(_) => {}
    }
    SAYING.store(false, Ordering::Release);
}

/// Writes a line if `MILLRACE_LOG` is set.
macro_rules! trace {
    ($($arg:tt)*) => { if $crate::say::TRACING.load(std::sync::atomic::Ordering::Relaxed) { $crate::say::say(format_args!($($arg)*)) } };
}
pub(crate) use trace;
