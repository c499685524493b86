//! Messages for the user, for example about servers that stop and start answering; also traces, if
//! `MILLRACE_LOG` enables them.

use crate::raw;
use std::ffi::CString;
use std::fmt::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether `MILLRACE_LOG` enabled traces when the process started.
pub(crate) static TRACING: AtomicBool = AtomicBool::new(false);
/// Whether `MILLRACE_LOG` disabled messages about servers.
static SILENT: AtomicBool = AtomicBool::new(false);
/// The file that `MILLRACE_LOG` names.
static FILE: OnceLock<CString> = OnceLock::new();
/// Device and inode of descriptor 2 when the process started. A program that has closed it may use
/// the number for a file of its own.
static STDERR: OnceLock<(u64, u64)> = OnceLock::new();
/// The syslog priority of a daemon's warning (RFC 3164 4.1.1).
const DAEMON_WARNING: &str = "<28>";

/// Reads `MILLRACE_LOG`: `0` disables messages about servers, a path redirects messages there, and
/// any other value enables traces.
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

/// A line that is built without allocation. Text that does not fit is cut off.
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

/// Writes a finished line to descriptor 2 if that leads to a mount. The flag says whether it may
/// call the server. Returns false if descriptor 2 is not on a mount. The constructor sets this
/// function, because the table of descriptors itself writes messages.
pub(crate) static MOUNT_WRITER: OnceLock<fn(line: &[u8], may_call: bool) -> bool> = OnceLock::new();

/// What the writing of a line may do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// It may call a server.
    Call,
    /// It may neither call nor wait. If descriptor 2 has changed since the start, or leads to a
    /// mount, the line goes to syslog.
    AsBegun,
    /// It may neither call nor wait. If descriptor 2 leads to a mount, the line goes to syslog.
    AsIs,
}

/// Writes a line to descriptor 2, also if that is a file on a mount.
pub(crate) fn warn(text: std::fmt::Arguments<'_>) {
    write(text, Way::Call);
}

/// Writes a line to descriptor 2 between fork and exec, where other threads may have held any lock. Never waits.
pub(crate) fn warn_before_exec(text: std::fmt::Arguments<'_>) {
    write(text, Way::AsIs);
}

fn standard_error() -> Option<(u64, u64)> {
    raw::fstat(2).ok().map(|found| (found.st_dev, found.st_ino))
}

/// Reports that a server does not answer, or answers again. The line goes to the stderr with which
/// the process started, or to syslog if that is gone or on a mount. The caller may be inside a call
/// to the server and hold locks, so this never waits.
pub(crate) fn report_server(text: std::fmt::Arguments<'_>) {
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
    // A line about a fault of stderr's own file must not cause another one.
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

/// Appends to the file that `MILLRACE_LOG` names. False if there is no such file, or it cannot be written.
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
