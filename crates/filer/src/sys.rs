//! System calls that the standard library does not offer: sends that do not wait, socket options, signals, the allocator.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Sends what the socket takes without waiting; `WouldBlock` when it takes nothing.
pub(crate) fn send_now(stream: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: pointer and length are those of a live slice; the descriptor is open while `stream` is borrowed.
    let sent = unsafe { libc::send(stream.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Makes the kernel notice a peer that vanished without a word.
pub(crate) fn keep_alive(stream: &TcpStream, idle: Duration) -> io::Result<()> {
    let seconds = libc::c_int::try_from(idle.as_secs()).unwrap_or(libc::c_int::MAX);
    set_option(stream, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
    set_option(stream, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, seconds)?;
    set_option(stream, libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, (seconds / 4).max(1))?;
    set_option(stream, libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 4)
}

/// Makes the end of a connection a reset: what was not sent is dropped.
pub(crate) fn reset_on_close(stream: &TcpStream) -> io::Result<()> {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    let size = size_of::<libc::linger>() as libc::socklen_t;
    // SAFETY: the value is a live linger of the size given; the descriptor is open while `stream` is borrowed.
    let done =
        unsafe { libc::setsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, (&raw const linger).cast(), size) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn set_option(stream: &TcpStream, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let size = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the value is a live c_int of the size given; the descriptor is open while `stream` is borrowed.
    let done = unsafe { libc::setsockopt(stream.as_raw_fd(), level, name, (&raw const value).cast(), size) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Has the kernel keep more connections until they are accepted than the standard library asks for.
pub(crate) fn set_backlog(listener: &TcpListener, backlog: i32) {
    // SAFETY: the descriptor is open while `listener` is borrowed; the call takes no pointers. A refusal leaves the old number.
    let _ = unsafe { libc::listen(listener.as_raw_fd(), backlog) };
}

/// Seconds of the monotonic clock, read for next to nothing; never 0.
pub(crate) fn coarse_seconds() -> u32 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a live timespec, and Linux has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut time) };
    u32::try_from(time.tv_sec).unwrap_or(u32::MAX).max(1)
}

/// Asks for as many descriptors as the host lets this process have, up to `wanted`: a service is given few to begin with.
pub fn raise_descriptor_limit(wanted: u64) {
    let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a live rlimit64.
    if unsafe { libc::getrlimit64(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 || limit.rlim_cur >= wanted {
        return;
    }
    limit.rlim_cur = wanted.min(limit.rlim_max);
    // SAFETY: as above; a refusal leaves the limit as it was.
    let _ = unsafe { libc::setrlimit64(libc::RLIMIT_NOFILE, &raw const limit) };
}

/// Ends every `accept` on a listener: they return an error.
pub(crate) fn stop_listening(listener: &TcpListener) {
    // SAFETY: the descriptor is open while `listener` is borrowed; the call takes no pointers.
    let _ = unsafe { libc::shutdown(listener.as_raw_fd(), libc::SHUT_RDWR) };
}

/// The effective user and group of the process.
#[must_use]
pub fn effective_ids() -> (u32, u32) {
    // SAFETY: the calls take nothing and cannot fail.
    let uid = unsafe { libc::geteuid() };
    // SAFETY: as above.
    let gid = unsafe { libc::getegid() };
    (uid, gid)
}

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// To stop; SIGTERM or SIGINT, by its number.
    Stop(i32),
    /// To read the configuration again: SIGHUP.
    Reload,
}

/// SIGTERM, SIGINT and perhaps SIGHUP, to be awaited rather than to interrupt.
#[derive(Debug)]
pub struct Signals(libc::sigset_t);

impl Signals {
    /// Blocks the signals in this thread and those it starts later: call before any is started. Without `reload`, SIGHUP
    /// does what it always does: a filer in a terminal ends with it.
    #[must_use]
    pub fn block(reload: bool) -> Self {
        // SAFETY: a sigset_t is plain data, for which all zeros is a value; it is emptied by sigemptyset next.
        let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: `set` is a live sigset_t.
        unsafe { libc::sigemptyset(&raw mut set) };
        for signal in [libc::SIGTERM, libc::SIGINT].into_iter().chain(reload.then_some(libc::SIGHUP)) {
            // SAFETY: `set` is a live, initialised sigset_t and the signal numbers exist.
            unsafe { libc::sigaddset(&raw mut set, signal) };
        }
        // SAFETY: `set` is initialised; the old mask is not asked for.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
        Self(set)
    }

    /// Waits for one of them.
    #[must_use]
    pub fn wait(&self) -> Signal {
        let mut signal = 0;
        // SAFETY: the set is initialised and blocked, `signal` is a live c_int.
        unsafe { libc::sigwait(&raw const self.0, &raw mut signal) };
        if signal == libc::SIGHUP { Signal::Reload } else { Signal::Stop(signal) }
    }
}

/// Makes a write past the file size limit (`ulimit -f`) an error of that call, EFBIG, instead of the end of the filer.
pub fn ignore_file_size_signal() {
    // SAFETY: SIG_IGN is a valid disposition for SIGXFSZ; no handler of ours is involved.
    let _ = unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// CPU time of this thread so far, in nanoseconds.
pub(crate) fn thread_cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a live timespec, and every thread has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Has this thread wake from a timed wait when the time is up, and not up to 50 us later so that others can wake with it.
pub(crate) fn wake_on_time() {
    const SLACK_NS: libc::c_ulong = 1;
    // SAFETY: prctl with numbers only; it changes nothing but this thread's timers.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, SLACK_NS, 0, 0, 0) };
}

/// Has the allocator map blocks of 128 KiB and more apart, so that a buffer for a large transfer goes back to the system
/// when it is dropped, and share few heaps between the threads: memory then follows what is in use.
pub fn keep_memory_small() {
    #[cfg(target_env = "gnu")]
    for (parameter, value) in [(libc::M_MMAP_THRESHOLD, 128 * 1024), (libc::M_TRIM_THRESHOLD, 256 * 1024), (libc::M_ARENA_MAX, 4)]
    {
        // SAFETY: mallopt takes two numbers and refuses what it does not know.
        unsafe { libc::mallopt(parameter, value) };
    }
}
