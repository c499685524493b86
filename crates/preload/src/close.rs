//! Closing: the descriptor is the kernel's; what may be written through it is made stable first, as a kernel's NFS client
//! does at every close, of duplicates too. A file that loses its last one may have something to be removed. Our own
//! sockets stay out of reach.

use crate::hook::hooks;
use crate::lock_files;
use crate::mounts;
use crate::open_file::Open;
use crate::outcome::{Out, kept};
use crate::table::{self, Found};
use libc::{c_int, c_uint};

/// The regular file behind `fd`.
pub(crate) fn file_if_any(fd: c_int) -> Option<Open> {
    match table::find(fd) {
        Ok(Found::File(file)) => Some(file),
        _ => None,
    }
}

impl Open {
    /// What is left to do when the descriptor is closed.
    pub(crate) fn ended(&self) {
        lock_files::closed(self);
        self.mount.closed(self.file);
    }
}

/// A descriptor of our own sockets does not exist for the program.
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

/// What has to be done before a descriptor goes: while it is there, its file stays, and so do the process' record locks,
/// which tell others that the data may change.
///
/// # Errors
/// What close(2) reports. The descriptor is to be closed nonetheless.
pub(crate) fn flush(file: &Open) -> Result<(), Out> {
    if file.flags & libc::O_ACCMODE != libc::O_RDONLY {
        file.mount.flush(file.file, table::written_beside(file))?;
    }
    Ok(())
}

/// Before the process ends or becomes another program: what it gathered goes to the server now, as a kernel client's close of all its
/// descriptors has it. What it does not see to, as after SIGKILL, the keeper does.
pub(crate) fn send_gathered() {
    if mounts::any() {
        for file in table::written() {
            let _ = file.mount.send_written(file.file); // an end tells of no error; the next fsync does
        }
    }
}

/// The same at exit(3).
pub(crate) extern "C" fn at_exit() {
    send_gathered();
}

/// Closes a range around our own sockets.
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
