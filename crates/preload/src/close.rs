//! Closes descriptors, which are the kernel's. Before each close, also of a duplicate, the data
//! written through the descriptor is made stable, as by a kernel NFS client. The last close of a
//! file may remove it. The program cannot close the library's own descriptors.

use crate::hook::hooks;
use crate::lock_files;
use crate::mounts;
use crate::open_file::Open;
use crate::outcome::{Out, kept};
use crate::table::{self, Found};
use libc::{c_int, c_uint};

/// The regular file of `fd`.
pub(crate) fn file_if_any(fd: c_int) -> Option<Open> {
    match table::find(fd) {
        Ok(Found::File(file)) => Some(file),
        _ => None,
    }
}

impl Open {
    /// Called after the descriptor is closed.
    pub(crate) fn ended(&self) {
        lock_files::closed(self);
        self.mount.closed(self.file);
    }
}

/// Hides the library's own descriptors from the program.
pub(crate) fn protect(fd: c_int) -> Result<(), Out> {
    if dnfs::is_internal_fd(fd) { Err(Out::Errno(libc::EBADF)) } else { Ok(()) }
}

fn close_fd(fd: c_int, real: impl FnOnce() -> c_int) -> Result<c_int, Out> {
    if !mounts::any() {
        return Err(Out::Pass);
    }
    protect(fd)?;
    let file = file_if_any(fd);
    let flushed = file.as_ref().map_or(Ok(()), flush);
    table::forget(fd);
    let answer = kept(real());
    if let Some(file) = file {
        file.ended();
    }
    answer.and_then(|answer| flushed.map(|()| answer))
}

/// Makes written data stable. Called before a descriptor is closed: while it is open, its file
/// stays, and so do the process' record locks, which show other processes that the data may change.
///
/// # Errors
/// Returns the error that close(2) reports. The descriptor is closed in any case.
pub(crate) fn flush(file: &Open) -> Result<(), Out> {
    if file.flags & libc::O_ACCMODE != libc::O_RDONLY {
        file.mount.flush(file.file, table::written_beside(file))?;
    }
    Ok(())
}

/// Sends the process' coalesced writes. Called before the process ends or executes another program,
/// as a kernel client does at the close of all descriptors. The keeper sends the rest, for example
/// after SIGKILL.
pub(crate) fn send_gathered() {
    if mounts::any() {
        for file in table::written() {
            let _ = file.mount.send_written(file.file); // the end of a process reports no error; the next fsync does
        }
    }
}

/// As [`send_gathered`], at exit(3).
pub(crate) extern "C" fn at_exit() {
    send_gathered();
}

/// Closes a range of descriptors except the library's own.
pub(crate) fn close_between(
    first: c_uint,
    last: c_uint,
    flags: c_int,
    real: impl Fn(c_uint, c_uint, c_int) -> c_int,
) -> Result<c_int, Out> {
    if !mounts::any() || first > last {
        return Err(Out::Pass);
    }
    let end = last.min(table::LIMIT as c_uint - 1);
    let mut files = Vec::new();
    if flags & libc::CLOSE_RANGE_CLOEXEC as c_int == 0 {
        for fd in (first..=end).map(|fd| fd as c_int).take_while(|fd| *fd <= table::highest()) {
            if let Some(file) = table::known(fd) {
                let _ = flush(&file); // close_range(2) reports no error of a close; the next fsync does
                files.push(file);
                table::forget(fd);
            }
        }
    }
    let mut from = first;
    let mut answer = 0;
    for fd in (first..=end).filter(|fd| dnfs::is_internal_fd(*fd as c_int)) {
        if from < fd {
            answer = real(from, fd - 1, flags).min(answer);
        }
        from = fd + 1;
    }
    if from <= last {
        answer = real(from, last, flags).min(answer);
    }
    let answer = kept(answer);
    for file in files {
        file.ended();
    }
    answer
}

hooks! {
    /// close(2).
    @cancellation_point fn close(fd: c_int) -> c_int = SYS_close { close_fd(fd, || real(fd)) }
    /// close(2), libc's other name.
    @cancellation_point fn __close(fd: c_int) -> c_int { close_fd(fd, || real(fd)) }
    /// close_range(2).
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int = SYS_close_range { close_between(first, last, flags, |first, last, flags| real(first, last, flags)) }
    /// closefrom(3).
    fn closefrom(low: c_int) -> () {
        close_between(low.max(0) as c_uint, c_uint::MAX, 0, |first, last, flags| close_range::real(first, last, flags)).map(drop)
    }
}
