//! Messages: what the user must know, servers that stop and start answering among it, and traces when `MILLRACE_LOG` asks for them.

use crate::raw;
use std::ffi::CString;
use std::fmt::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether `MILLRACE_LOG` asked for traces when the process started.
pub(crate) static TRACING: AtomicBool = AtomicBool::new(false);
/// Whether it asked for silence about servers.
static SILENT: AtomicBool = AtomicBool::new(false);
/// The file it named.
static FILE: OnceLock<CString> = OnceLock::new();
/// Device and inode of what descriptor 2 led to when the process started. A program that closed it may have given the number to a file
/// of its own.
static STDERR: OnceLock<(u64, u64)> = OnceLock::new();
/// A warning of a daemon, to syslog (RFC 3164 4.1.1).
const DAEMON_WARNING: &str = "<28>";

/// Takes over `MILLRACE_LOG`: `0` no word of servers that do not answer, a path for messages to go there, anything else for traces.
pub(crate) fn configure(setting: Option<&[u8]>) {
    if let Some(found) = standard_error() {
        let _ = STDERR.set(found);
    }
    let Some(setting) = setting else { return };
    SILENT.store(setting == b"0", Ordering::Relaxed);
    TRACING.store(setting != b"0", Ordering::Relaxed);
    if setting.contains(&b'/')
        && let Ok(path) = CString::new(setting)
    {
        let _ = FILE.set(path);
    }
}

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

/// What a line may take to be written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// A call to a server.
    Call,
    /// No call and no wait; where descriptor 2 is not what the process began with, syslog.
    AsBegun,
    /// No call and no wait; where descriptor 2 leads to a mount, syslog.
    AsIs,
}

/// Writes a line to descriptor 2, wherever that leads: to a file on a mount as well.
pub(crate) fn warn(text: std::fmt::Arguments<'_>) {
    write(text, Way::Call);
}

/// Writes a line to descriptor 2 between fork and exec, where others may hold any lock: never waits.
pub(crate) fn warn_before_exec(text: std::fmt::Arguments<'_>) {
    write(text, Way::AsIs);
}

fn standard_error() -> Option<(u64, u64)> {
    raw::fstat(2).ok().map(|found| (found.st_dev, found.st_ino))
}

/// Says that a server does not answer, or answers again: to the stderr that the process was started with, or to syslog where that is gone
/// or on a mount. For who is in the middle of a call to the server, and may hold locks: never waits.
pub(crate) fn tell_of_server(text: std::fmt::Arguments<'_>) {
    if !SILENT.load(Ordering::Relaxed) {
        write(text, Way::AsBegun);
    }
}

fn write(text: std::fmt::Arguments<'_>, way: Way) {
    let mut line = Line { bytes: [0; 1024], used: 0 };
    let _ = line.write_str(DAEMON_WARNING);
    let _ = line.write_str("millrace: ");
    let _ = line.write_fmt(text);
    line.bytes[line.used] = b'\n';
    let (for_syslog, line) = (&line.bytes[..line.used], &line.bytes[DAEMON_WARNING.len()..=line.used]);
    // A line about a fault of stderr's own file must not lead back here.
    static WRITING: AtomicBool = AtomicBool::new(false);
    if WRITING.swap(true, Ordering::Acquire) {
        return;
    }
    if !write_to_file(line) {
        let on_mount = MOUNT_WRITER.get().is_some_and(|write| write(line, way == Way::Call));
        let is_another = way == Way::AsBegun && STDERR.get() != standard_error().as_ref();
        if way != Way::Call && (on_mount || is_another) {
            let _ = raw::send_datagram(c"/dev/log", for_syslog);
        } else if !on_mount && (way == Way::Call || raw::takes_a_line(2)) {
            let _ = raw::write(2, line);
        }
    }
    WRITING.store(false, Ordering::Release);
}

/// Appends to the file that `MILLRACE_LOG` names; false when there is none, or it cannot be written.
fn write_to_file(line: &[u8]) -> bool {
    let Some(path) = FILE.get() else { return false };
    let flags = libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT | libc::O_CLOEXEC | libc::O_NOCTTY | libc::O_NONBLOCK;
    let Ok(fd) = raw::open(path, flags, 0o600) else { return false };
    let written = raw::write(fd, line);
    let _ = raw::close(fd);
    written.is_ok()
}

/// Writes a line if `MILLRACE_LOG` is set.
macro_rules! trace {
    ($($arg:tt)*) => { if $crate::messages::TRACING.load(std::sync::atomic::Ordering::Relaxed) { $crate::messages::warn(format_args!($($arg)*)) } };
}
pub(crate) use trace;
