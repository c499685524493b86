//! Sockets, clocks and chance: every system call layers 1 and 2 make. None allocates, none touches `errno`, none raises
//! SIGPIPE, so that a signal handler may come in between any two of them.

use super::raw::call;
use libc::{c_int, c_long};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::limits::DESCRIPTOR_MIN;

/// How long one blocking send or receive waits before it comes back to look at the clock.
const TICK: Duration = Duration::from_secs(1);
/// Descriptors that can be marked as ours; the lowest free one from 900 is taken, so higher ones do not occur in practice.
const MARKED_DESCRIPTORS: usize = 1 << 16;

static INTERNAL: [AtomicU64; MARKED_DESCRIPTORS / 64] = [const { AtomicU64::new(0) }; MARKED_DESCRIPTORS / 64];
static FORK_GENERATION: AtomicU32 = AtomicU32::new(0);
static FORK_HANDLER: Once = Once::new();
/// What a server knows this process by; 0 until it is asked for, and again after a fork.
static PROCESS: AtomicU64 = AtomicU64::new(0);
static CHANNELS: AtomicU64 = AtomicU64::new(0);

/// True when `fd` is a socket of this crate: a program that closes every descriptor must not close it.
#[must_use]
pub fn is_internal_fd(fd: i32) -> bool {
    let Ok(fd) = usize::try_from(fd) else { return false };
    INTERNAL.get(fd / 64).is_some_and(|word| word.load(Ordering::Relaxed) & 1 << (fd % 64) != 0)
}

fn mark(fd: i32, internal: bool) {
    let Some(word) = usize::try_from(fd).ok().and_then(|fd| INTERNAL.get(fd / 64)) else { return };
    let bit = 1 << (fd % 64);
    if internal {
        word.fetch_or(bit, Ordering::Relaxed)
    } else {
        word.fetch_and(!bit, Ordering::Relaxed)
    };
}

/// Moves a descriptor of ours out of the way of programs that count on low numbers or close them all; its number then.
pub(crate) fn moved_up(fd: c_int) -> c_int {
    let lowest = DESCRIPTOR_MIN.min((descriptor_limit() - 64).max(3));
    let arguments = [fd as usize, libc::F_DUPFD_CLOEXEC as usize, lowest as usize, 0, 0, 0];
    // SAFETY: F_DUPFD_CLOEXEC takes a number.
    let moved = match check(unsafe { call(libc::SYS_fcntl, arguments) }) {
        Ok(moved) => {
            close(fd);
            moved as c_int
        }
        Err(_) => fd,
    };
    mark(moved, true);
    moved
}

/// Closes what [`moved_up`] moved.
pub(crate) fn close_internal(fd: c_int) {
    mark(fd, false);
    close(fd);
}

fn check(result: isize) -> io::Result<usize> {
    if result < 0 { Err(io::Error::from_raw_os_error(-result as i32)) } else { Ok(result as usize) }
}

/// Counts the forks this process came through: a socket made under another count belongs to another process.
pub(crate) fn fork_generation() -> u32 {
    FORK_GENERATION.load(Ordering::Relaxed)
}

/// To be called in a child after fork; also runs by itself once [`watch_forks`] was called.
pub(crate) extern "C" fn forked() {
    FORK_GENERATION.fetch_add(1, Ordering::Relaxed);
    PROCESS.store(0, Ordering::Relaxed);
}

/// A number for this process that no other has and nobody guesses.
pub(crate) fn process_number() -> u64 {
    match PROCESS.load(Ordering::Relaxed) {
        0 => {
            let drawn = random_u64().max(1);
            PROCESS.compare_exchange(0, drawn, Ordering::Relaxed, Ordering::Relaxed).map_or_else(|now| now, |_| drawn)
        }
        number => number,
    }
}

/// Gives up the number `old`: the next one that is asked for is another.
pub(crate) fn renew_process_number(old: u64) {
    let _ = PROCESS.compare_exchange(old, 0, Ordering::Relaxed, Ordering::Relaxed);
}

/// A number for a channel, unlike all others of this process.
pub(crate) fn next_channel() -> u64 {
    CHANNELS.fetch_add(1, Ordering::Relaxed) + 1
}

/// Has [`forked`] run in every child of this process.
pub(crate) fn watch_forks() {
    FORK_HANDLER.call_once(|| {
        // SAFETY: `forked` is a plain function that touches one atomic; it lives as long as the process, since a
        // library that registers a handler is not unloaded. A failure (no memory) leaves `after_fork_child`.
        unsafe { libc::pthread_atfork(None, None, Some(forked_handler)) };
    });
}

unsafe extern "C" fn forked_handler() {
    forked();
}

/// Anonymous memory straight from the kernel: zeroed, resident only where touched, no allocator involved.
#[derive(Debug)]
pub(crate) struct Region {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a region is private memory owned by one value, like a boxed slice.
unsafe impl Send for Region {}

impl Region {
    /// Maps `bytes` bytes.
    ///
    /// # Errors
    /// What the kernel says, `ENOMEM` most likely.
    pub(crate) fn map(bytes: usize) -> io::Result<Self> {
        let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no existing memory.
        let address = check(unsafe { call(libc::SYS_mmap, [0, bytes, protection, flags, usize::MAX, 0]) })?;
        let start = NonNull::new(address as *mut u8).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Self { start, bytes })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map` with this length, and no borrow outlives its owner.
        unsafe { call(libc::SYS_munmap, [self.start.as_ptr() as usize, self.bytes, 0, 0, 0, 0]) };
    }
}

impl Deref for Region {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is readable, initialised by the kernel and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl DerefMut for Region {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is writable, initialised, lives as long as `self`, which is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

/// A connected, blocking TCP socket on a high, close-on-exec descriptor.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: c_int,
}

/// How a connection is to be made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Connect {
    /// To whom.
    pub(crate) server: SocketAddr,
    /// From this address of this host; none leaves the choice to the kernel.
    pub(crate) local_address: Option<IpAddr>,
    /// From this port if it can be had: servers tell resent calls by it.
    pub(crate) local_port: Option<u16>,
    /// From a port below 1024.
    pub(crate) privileged: bool,
    /// How long to wait for it.
    pub(crate) timeout: Duration,
}

impl Socket {
    /// Connects.
    ///
    /// # Errors
    /// What the kernel says; `ETIMEDOUT` when the time is over.
    pub(crate) fn connect(how: &Connect) -> io::Result<Self> {
        let preferred = how.local_port.map(|port| port..=port);
        if let Some(socket) = preferred.and_then(|mut ports| ports.find_map(|port| Self::connect_from(how, Some(port)).ok())) {
            return Ok(socket);
        }
        if !how.privileged {
            return Self::connect_from(how, None);
        }
        let mut last = io::Error::from_raw_os_error(libc::EADDRINUSE);
        for port in (665..=1023).rev() {
            match Self::connect_from(how, Some(port)) {
                Err(error) if matches!(error.raw_os_error(), Some(libc::EADDRINUSE | libc::EADDRNOTAVAIL)) => last = error,
                other => return other,
            }
        }
        Err(last)
    }

    fn connect_from(how: &Connect, port: Option<u16>) -> io::Result<Self> {
        let family = if how.server.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: `socket` takes three numbers.
        let fd = check(unsafe { call(libc::SYS_socket, [family as usize, kind as usize, 0, 0, 0, 0]) })?;
        let socket = Self { fd: fd as c_int }.moved_up();
        if port.is_some() || how.local_address.is_some() {
            socket.option(libc::SOL_SOCKET, libc::SO_REUSEADDR, &1)?;
            let any = if how.server.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { IpAddr::V6(Ipv6Addr::UNSPECIFIED) };
            let local = SocketAddr::new(how.local_address.unwrap_or(any), port.unwrap_or(0));
            socket.address_call(libc::SYS_bind, local)?;
        }
        match socket.address_call(libc::SYS_connect, how.server) {
            Ok(()) => {}
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINPROGRESS | libc::EINTR)) => {
                socket.finish_connect(how.timeout)?
            }
            Err(error) => return Err(error),
        }
        // A call is one send; waiting for more bytes to fill a segment would only delay it.
        socket.option(libc::IPPROTO_TCP, libc::TCP_NODELAY, &1)?;
        // A dead host is noticed although nothing is being sent.
        socket.option(libc::SOL_SOCKET, libc::SO_KEEPALIVE, &1)?;
        let tick = libc::timeval { tv_sec: TICK.as_secs() as libc::time_t, tv_usec: 0 };
        socket.option(libc::SOL_SOCKET, libc::SO_RCVTIMEO, &tick)?;
        socket.option(libc::SOL_SOCKET, libc::SO_SNDTIMEO, &tick)?;
        // SAFETY: F_SETFL takes a number.
        check(unsafe { call(libc::SYS_fcntl, [socket.fd as usize, libc::F_SETFL as usize, 0, 0, 0, 0]) })?;
        Ok(socket)
    }

    fn moved_up(mut self) -> Self {
        self.fd = moved_up(self.fd);
        self
    }

    fn finish_connect(&self, timeout: Duration) -> io::Result<()> {
        let deadline = Instant::now() + timeout;
        let mut poll = libc::pollfd { fd: self.fd, events: libc::POLLOUT, revents: 0 };
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = timespec(left);
            let arguments = [&raw mut poll as usize, 1, &raw const left as usize, 0, 8, 0];
            // SAFETY: one pollfd and one timespec that outlive the call.
            match check(unsafe { call(libc::SYS_ppoll, arguments) }) {
                Ok(0) => return Err(io::Error::from_raw_os_error(libc::ETIMEDOUT)),
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let mut error: c_int = 0;
        let mut bytes = size_of::<c_int>() as libc::socklen_t;
        let arguments = [
            self.fd as usize,
            libc::SOL_SOCKET as usize,
            libc::SO_ERROR as usize,
            &raw mut error as usize,
            &raw mut bytes as usize,
            0,
        ];
        // SAFETY: value and length outlive the call and agree.
        check(unsafe { call(libc::SYS_getsockopt, arguments) })?;
        if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
    }

    fn option<T>(&self, level: c_int, name: c_int, value: &T) -> io::Result<()> {
        let value: *const T = value;
        let arguments = [self.fd as usize, level as usize, name as usize, value as usize, size_of::<T>(), 0];
        // SAFETY: the value outlives the call, its size is told.
        check(unsafe { call(libc::SYS_setsockopt, arguments) }).map(|_| ())
    }

    /// Asks for a receive buffer of so many bytes; the kernel may give less.
    pub(crate) fn grow_receive_buffer(&self, bytes: i32) {
        // A refusal costs speed only.
        let _ = self.option(libc::SOL_SOCKET, libc::SO_RCVBUF, &bytes);
    }

    /// `bind` or `connect`.
    fn address_call(&self, number: c_long, address: SocketAddr) -> io::Result<()> {
        match address {
            SocketAddr::V4(address) => {
                let raw = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: address.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
                    sin_zero: [0; 8],
                };
                self.raw_address_call(number, &raw)
            }
            SocketAddr::V6(address) => {
                let raw = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: address.port().to_be(),
                    sin6_flowinfo: address.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                    sin6_scope_id: address.scope_id(),
                };
                self.raw_address_call(number, &raw)
            }
        }
    }

    fn raw_address_call<T>(&self, number: c_long, address: &T) -> io::Result<()> {
        let address: *const T = address;
        // SAFETY: the address outlives the call, its size is told.
        check(unsafe { call(number, [self.fd as usize, address as usize, size_of::<T>(), 0, 0, 0]) }).map(|_| ())
    }

    /// The port this end has.
    pub(crate) fn local_port(&self) -> Option<u16> {
        let mut raw = libc::sockaddr_in6 {
            sin6_family: 0,
            sin6_port: 0,
            sin6_flowinfo: 0,
            sin6_addr: libc::in6_addr { s6_addr: [0; 16] },
            sin6_scope_id: 0,
        };
        let mut bytes = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
        let arguments = [self.fd as usize, &raw mut raw as usize, &raw mut bytes as usize, 0, 0, 0];
        // SAFETY: address and length outlive the call and agree. The port stands at the same place in both families.
        check(unsafe { call(libc::SYS_getsockname, arguments) }).ok()?;
        Some(u16::from_be(raw.sin6_port)).filter(|&port| port != 0)
    }

    /// Sends what it can, blocking for at most a second when it can send nothing.
    ///
    /// # Errors
    /// `WouldBlock` after that second, `Interrupted`, or a broken connection.
    pub(crate) fn send(&self, segments: &[IoSlice<'_>]) -> io::Result<usize> {
        if let [one] = segments {
            let arguments = [self.fd as usize, one.as_ptr() as usize, one.len(), libc::MSG_NOSIGNAL as usize, 0, 0];
            // SAFETY: the slice outlives the call.
            return check(unsafe { call(libc::SYS_sendto, arguments) });
        }
        let message = message(segments.as_ptr().cast_mut().cast(), segments.len());
        let arguments = [self.fd as usize, &raw const message as usize, libc::MSG_NOSIGNAL as usize, 0, 0, 0];
        // SAFETY: an `IoSlice` is an iovec; slices and header outlive the call, which only reads them.
        check(unsafe { call(libc::SYS_sendmsg, arguments) })
    }

    /// Receives what is there, blocking for at most a second when there is nothing; 0 means the end of the stream.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let arguments = [self.fd as usize, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0];
        // SAFETY: the buffer outlives the call and is borrowed exclusively.
        check(unsafe { call(libc::SYS_recvfrom, arguments) })
    }

    /// [`Self::receive`] into several buffers.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub(crate) fn receive_scattered(&self, segments: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut message = message(segments.as_mut_ptr().cast(), segments.len());
        let arguments = [self.fd as usize, &raw mut message as usize, 0, 0, 0, 0];
        // SAFETY: an `IoSliceMut` is an iovec; slices and header outlive the call, the slices are borrowed exclusively.
        check(unsafe { call(libc::SYS_recvmsg, arguments) })
    }

    /// Ends the connection at once, on both sides and for every process that inherited it, and frees its port: nothing
    /// sent on it can be answered into a buffer any more.
    pub(crate) fn abort(self) {
        let unspecified = libc::sockaddr { sa_family: libc::AF_UNSPEC as libc::sa_family_t, sa_data: [0; 14] };
        // The close that follows ends it too, only less thoroughly.
        let _ = self.raw_address_call(libc::SYS_connect, &unspecified);
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        mark(self.fd, false);
        close(self.fd);
    }
}

fn message(segments: *mut libc::iovec, count: usize) -> libc::msghdr {
    // SAFETY: a msghdr of zeros is valid: no name, no segments, no control data. Its private padding stays zero.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = segments;
    message.msg_iovlen = count as _;
    message
}

fn close(fd: c_int) {
    // SAFETY: `close` takes a number; the descriptor is owned by the caller.
    unsafe { call(libc::SYS_close, [fd as usize, 0, 0, 0, 0, 0]) };
}

fn descriptor_limit() -> i32 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let arguments = [0, libc::RLIMIT_NOFILE as usize, 0, &raw mut limit as usize, 0, 0];
    // SAFETY: no new limit is given, the old one is written into a value that outlives the call.
    let asked = check(unsafe { call(libc::SYS_prlimit64, arguments) });
    asked.map_or(1024, |_| i32::try_from(limit.rlim_cur).unwrap_or(i32::MAX))
}

fn timespec(time: Duration) -> libc::timespec {
    libc::timespec { tv_sec: time.as_secs() as libc::time_t, tv_nsec: c_long::from(time.subsec_nanos() as i32) }
}

/// Sleeps, through signals.
pub(crate) fn sleep(time: Duration) {
    let mut left = timespec(time);
    loop {
        let arguments = [&raw const left as usize, &raw mut left as usize, 0, 0, 0, 0];
        // SAFETY: the kernel reads the time before it writes back what is left; both outlive the call.
        match check(unsafe { call(libc::SYS_nanosleep, arguments) }) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            _ => return,
        }
    }
}

/// User and system time this process has used so far.
#[must_use]
pub fn cpu_time() -> Duration {
    // SAFETY: a rusage of zeros is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the value outlives the call.
    unsafe { call(libc::SYS_getrusage, [libc::RUSAGE_SELF as usize, &raw mut usage as usize, 0, 0, 0, 0]) };
    let time = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// Unpredictable bits, so that no two processes or lives of one share xids.
pub(crate) fn random_u64() -> u64 {
    let mut bytes = [0u8; 8];
    // SAFETY: the buffer outlives the call, its size is told.
    let filled = check(unsafe { call(libc::SYS_getrandom, [bytes.as_mut_ptr() as usize, bytes.len(), 0, 0, 0, 0]) });
    if filled.is_ok_and(|count| count == bytes.len()) {
        return u64::from_ne_bytes(bytes);
    }
    // No chance to be had (a very old kernel): time and process tell two lives apart well enough.
    let time = Instant::now();
    let address: *const Instant = &raw const time;
    (address as u64) ^ u64::from(std::process::id()).rotate_left(32)
}

/// Effective user and group of the process.
pub(crate) fn effective_ids() -> (u32, u32) {
    // SAFETY: neither takes an argument or can fail.
    let (uid, gid) = unsafe { (call(libc::SYS_geteuid, [0; 6]), call(libc::SYS_getegid, [0; 6])) };
    (uid as u32, gid as u32)
}

/// Supplementary groups of the process; none when they cannot be had.
pub(crate) fn groups() -> Vec<u32> {
    // SAFETY: with size 0 nothing is written.
    let count = check(unsafe { call(libc::SYS_getgroups, [0; 6]) }).unwrap_or(0);
    let mut groups = vec![0u32; count];
    // SAFETY: the kernel writes at most `count` numbers into the vector.
    let count = check(unsafe { call(libc::SYS_getgroups, [count, groups.as_mut_ptr() as usize, 0, 0, 0, 0]) }).unwrap_or(0);
    groups.truncate(count);
    groups
}

/// Name of this machine; empty when it cannot be had.
pub(crate) fn host_name() -> Vec<u8> {
    // SAFETY: a utsname of zeros is valid: empty strings.
    let mut names: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: the value outlives the call.
    let asked = check(unsafe { call(libc::SYS_uname, [&raw mut names as usize, 0, 0, 0, 0, 0]) });
    if asked.is_err() {
        return Vec::new();
    }
    names.nodename.iter().map(|&byte| byte as u8).take_while(|&byte| byte != 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::net::TcpListener;

    fn connect(listener: &TcpListener, local_port: Option<u16>) -> Socket {
        let server = listener.local_addr().unwrap();
        Socket::connect(&Connect { server, local_address: None, local_port, privileged: false, timeout: Duration::from_secs(5) })
            .unwrap()
    }

    #[test]
    fn an_aborted_connection_frees_its_port_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // A port that connecting itself chooses may be others' too, towards other servers, and then it is not free after us; one
        // that was bound is ours. A stranger may take it in between; not sixteen times.
        let again = (0..16).any(|_| {
            let port = Some(TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port());
            let first = connect(&listener, port);
            let ours = first.local_port() == port;
            first.abort();
            ours && connect(&listener, port).local_port() == port
        });
        assert!(again, "a port was in use whenever it had just been given up");
    }

    #[test]
    fn sockets_are_marked_as_internal_while_they_live() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = connect(&listener, None);
        let fd = socket.fd;
        assert!(is_internal_fd(fd) && !is_internal_fd(-1) && !is_internal_fd(i32::MAX));
        assert!(fd >= DESCRIPTOR_MIN.min(descriptor_limit() - 64));
    }

    #[test]
    fn segments_arrive_in_order() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = connect(&listener, None);
        assert_eq!(socket.send(&[IoSlice::new(b"ab"), IoSlice::new(b"cd")]).unwrap(), 4);
        let mut got = [0; 4];
        listener.accept().unwrap().0.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"abcd");
    }

    #[test]
    fn a_child_leaves_the_connection_of_its_parent_alone_and_makes_its_own() {
        use crate::rpc::connection::Connection;
        use crate::rpc::service::{NFS, RetryPolicy, Service};
        use std::io::Write as _;
        watch_forks();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let who = crate::Credentials::of_process();
        let service = Service::new(listener.local_addr().unwrap(), NFS, &who, RetryPolicy::Mounting);
        let mut connection = Connection::new();
        connection.connect(&service).ok().unwrap();
        let mut served = listener.accept().unwrap().0;
        // SAFETY: the child makes system calls only, no allocation, and ends by `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let refused = connection.socket().is_err();
            let fresh = connection.connect(&service).is_ok_and(|new| new);
            let sent = connection.socket().is_ok_and(|socket| socket.send(&[IoSlice::new(b"child")]).is_ok());
            connection.disconnect();
            // SAFETY: ends the child.
            unsafe { libc::_exit(if refused && fresh && sent { 0 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: waits for the child made above.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!(status, 0);
        served.write_all(b"parent").unwrap();
        let mut got = [0; 6];
        assert_eq!(connection.socket().ok().unwrap().receive(&mut got).unwrap(), 6);
        assert_eq!(&got, b"parent");
    }

    #[test]
    fn a_region_is_zeroed_and_writable() {
        let mut region = Region::map(10_000).unwrap();
        assert!(region.iter().all(|&byte| byte == 0));
        region[9_999] = 7;
        assert_eq!(region[9_999], 7);
    }
}
