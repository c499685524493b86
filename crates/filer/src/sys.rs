//! System calls that the standard library does not offer: sends that do not wait, socket options, clocks, limits. Those that rustix does
//! not offer either call libc here: waiting for signals, allocator options.

use std::fs::File;
use std::io::{self, Read};
use std::net::{TcpListener, TcpStream};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Mode, fchmod};
use rustix::net::{self, AddressFamily, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use rustix::process::{self, Resource, Rlimit};
use rustix::time::{ClockId, clock_gettime};

use crate::limits::DESCRIPTORS_SPARE;

/// Sends what the socket takes without waiting. `WouldBlock` if it takes nothing.
pub(crate) fn send_now(stream: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    Ok(net::send(stream, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?)
}

/// Number of bytes on a TCP socket that the peer has acknowledged (`tcpi_bytes_acked`), also after the connection has ended. 0 if the
/// kernel does not report it.
pub(crate) fn bytes_acknowledged(stream: &TcpStream) -> u64 {
    // SAFETY: a tcp_info is plain data, for which all zeros is a valid value.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut size = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the descriptor is open, `info` has `size` bytes, and both live through the call.
    let done =
        unsafe { libc::getsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, (&raw mut info).cast(), &raw mut size) };
    if done == 0 { info.tcpi_bytes_acked } else { 0 }
}

/// Turns on TCP keepalive, which detects a peer that vanished.
pub(crate) fn keep_alive(stream: &TcpStream, idle: Duration) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, idle)?;
    sockopt::set_tcp_keepintvl(stream, (idle / 4).max(Duration::from_secs(1)))?;
    Ok(sockopt::set_tcp_keepcnt(stream, 4)?)
}

/// Makes the close of a connection send a TCP reset. Data that was not sent is dropped.
pub(crate) fn reset_on_close(stream: &TcpStream) -> io::Result<()> {
    Ok(sockopt::set_socket_linger(stream, Some(Duration::ZERO))?)
}

/// Makes the kernel queue more unaccepted connections than the standard library requests. If the kernel refuses, the old number stays.
pub(crate) fn set_backlog(listener: &TcpListener, backlog: i32) {
    let _ = net::listen(listener, backlog);
}

/// Binds a listening Unix socket that only the user of the process may use, from the moment its file exists: the kernel creates the
/// file with the mode of the socket.
pub(crate) fn listen_privately(path: &Path) -> io::Result<UnixListener> {
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    net::listen(&socket, 128)?;
    Ok(UnixListener::from(socket))
}

/// Makes every `accept` on a listener return an error.
pub(crate) fn stop_listening(listener: &TcpListener) {
    let _ = net::shutdown(listener, Shutdown::Both);
}

/// Seconds of the monotonic clock, from a cheap reading. Never 0.
pub(crate) fn coarse_seconds() -> u32 {
    u32::try_from(clock_gettime(ClockId::MonotonicCoarse).tv_sec).unwrap_or(u32::MAX).max(1)
}

/// CPU time of this thread so far, in nanoseconds.
pub(crate) fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Random bytes that are suitable for secrets.
pub(crate) fn random_bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    volume::opening(|| File::open("/dev/urandom"))?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// A random number.
pub(crate) fn random_number() -> io::Result<u64> {
    random_bytes().map(u64::from_ne_bytes)
}

/// Makes timed waits of this thread end on time. By default the kernel may delay them by up to 50 us to coalesce wake-ups.
pub(crate) fn wake_on_time() {
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// Raises the limit of descriptors to `wanted`, or to the largest value that the host allows. Services start with a low limit. If the
/// host refuses, the limit stays as it was.
pub fn raise_descriptor_limit(wanted: u64) {
    let Rlimit { current, maximum } = process::getrlimit(Resource::Nofile);
    // `None` means unlimited.
    if current.is_some_and(|current| current < wanted) {
        let current = Some(maximum.map_or(wanted, |maximum| wanted.min(maximum)));
        let _ = process::setrlimit(Resource::Nofile, Rlimit { current, maximum });
    }
}

/// Whether this descriptor is one of the last [`DESCRIPTORS_SPARE`] that the process may have. The kernel always assigns the lowest free
/// number.
pub(crate) fn is_nearly_last(descriptor: impl AsFd) -> bool {
    let limit = process::getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    u64::from(descriptor.as_fd().as_raw_fd().unsigned_abs()) + DESCRIPTORS_SPARE >= limit
}

/// The effective user and group of the process.
#[must_use]
pub fn effective_ids() -> (u32, u32) {
    (process::geteuid().as_raw(), process::getegid().as_raw())
}

/// The request that a signal makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Stop. Holds the signal number, SIGTERM or SIGINT.
    Stop(i32),
    /// Read the configuration again: SIGHUP.
    Reload,
}

/// SIGTERM, SIGINT and optionally SIGHUP, blocked so that a thread can wait for them.
#[derive(Debug)]
pub struct Signals(libc::sigset_t);

impl Signals {
    /// Blocks the signals in this thread and in threads that it starts later. Call this before any thread starts. Without `reload`,
    /// SIGHUP keeps its default action and ends the process.
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
        // SAFETY: `set` is initialised. A null pointer for the old mask is allowed.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
        Self(set)
    }

    /// Waits for one of these signals.
    #[must_use]
    pub fn wait(&self) -> Signal {
        let mut signal = 0;
        // SAFETY: the set is initialised and blocked, `signal` is a live c_int.
        unsafe { libc::sigwait(&raw const self.0, &raw mut signal) };
        if signal == libc::SIGHUP { Signal::Reload } else { Signal::Stop(signal) }
    }
}

/// Makes a write beyond the file size limit (`ulimit -f`) fail with EFBIG. By default the signal would end the filer.
pub fn ignore_file_size_signal() {
    // SAFETY: SIG_IGN is a valid disposition for SIGXFSZ. No handler is installed.
    let _ = unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Makes the allocator map blocks of 128 KiB and more separately, so that the memory of a large transfer returns to the system when it
/// is freed, and share four heaps between all threads. So memory use follows what is in use. Only with glibc.
pub fn keep_memory_small() {
    #[cfg(target_env = "gnu")]
    for (parameter, value) in [(libc::M_MMAP_THRESHOLD, 128 * 1024), (libc::M_TRIM_THRESHOLD, 256 * 1024), (libc::M_ARENA_MAX, 4)]
    {
        // SAFETY: mallopt takes two numbers and refuses what it does not know.
        unsafe { libc::mallopt(parameter, value) };
    }
}
