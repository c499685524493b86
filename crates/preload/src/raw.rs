//! System calls without libc. This library must not call the libc functions that it hooks.
//!
//! Unless its documentation says otherwise, a function returns the kernel's result as a `Result`
//! whose error is an errno, and does not change libc's `errno`.

use crate::outcome::Errno;
use libc::{c_char, c_int, c_long, c_uint, mode_t, off_t};
use std::ffi::CStr;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

pub(crate) mod aio;
mod file_reads;
pub(crate) mod pipes;
pub(crate) mod poll;
pub(crate) mod programs;
mod signals;
mod user;
pub(crate) use file_reads::{read_ahead, read_cached};
pub(crate) use signals::{SignalsHeld, queue_signal, signal_this_thread};
pub(crate) use user::{getegid, geteuid, getgid, getuid};

/// Makes a system call. The arguments are those of the call's manual page.
///
/// # Safety
/// Every argument that is an address must be valid for what the call does with it, for as long as the kernel uses it; memory
/// that Rust knows of must not be unmapped.
#[cfg(target_arch = "x86_64")]
unsafe fn call(number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> isize {
    let answer: isize;
    // SAFETY: the x86-64 Linux convention: number in rax, arguments in rdi, rsi, rdx, r10, r8, r9;
    // the call changes rcx and r11.
    // The caller is responsible for what the kernel does to memory.
    unsafe {
        core::arch::asm!("syscall", inlateout("rax") number as isize => answer, in("rdi") a, in("rsi") b, in("rdx") c,
            in("r10") d, in("r8") e, in("r9") f, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    answer
}

/// Makes a system call. The arguments are those of the call's manual page.
///
/// # Safety
/// Every argument that is an address must be valid for what the call does with it, for as long as the kernel uses it; memory
/// that Rust knows of must not be unmapped.
#[cfg(target_arch = "aarch64")]
unsafe fn call(number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> isize {
    let answer: isize;
    // SAFETY: the AArch64 Linux convention: number in x8, arguments in x0 to x5, answer in x0.
    // The caller is responsible for what the kernel does to memory.
    unsafe {
        core::arch::asm!("svc 0", in("x8") number, inlateout("x0") a as isize => answer, in("x1") b, in("x2") c,
            in("x3") d, in("x4") e, in("x5") f, options(nostack));
    }
    answer
}

/// Makes a system call for the program.
///
/// # Safety
/// As [`call`].
pub(crate) unsafe fn by_number(number: c_long, [a, b, c, d, e, f]: [usize; 6]) -> isize {
    let number = match number {
        // libc's functions use the newer call if there are flags, because the older one has no flags.
        libc::SYS_faccessat if d != 0 => libc::SYS_faccessat2,
        libc::SYS_fchmodat if d != 0 => libc::SYS_fchmodat2,
        other => other,
    };
    // SAFETY: the caller promises what `call` requires.
    unsafe { call(number, a, b, c, d, e, f) }
}

fn checked(answer: isize) -> Result<usize, Errno> {
    if (-4095..0).contains(&answer) { Err(-answer as Errno) } else { Ok(answer as usize) }
}

/// As [`call`], with four arguments.
///
/// # Safety
/// As [`call`].
unsafe fn call4(number: c_long, a: usize, b: usize, c: usize, d: usize) -> Result<usize, Errno> {
    // SAFETY: the caller promises what `call` requires.
    checked(unsafe { call(number, a, b, c, d, 0, 0) })
}

/// A system call whose arguments are numbers: an invalid descriptor is an error, never undefined behaviour.
fn call_with_numbers(number: c_long, a: usize, b: usize, c: usize) -> Result<usize, Errno> {
    // SAFETY: no argument is an address.
    unsafe { call4(number, a, b, c, 0) }
}

const CWD: usize = libc::AT_FDCWD as usize;

/// fstat(2).
pub(crate) fn fstat(fd: c_int) -> Result<libc::stat, Errno> {
    let mut stat = std::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the kernel writes to `stat`, which lives in this frame.
    unsafe { call4(libc::SYS_fstat, fd as usize, stat.as_mut_ptr() as usize, 0, 0) }?;
    // SAFETY: the kernel filled it, and zeroes would also be a valid value.
    Ok(unsafe { stat.assume_init() })
}

/// stat(2), or lstat(2) unless `follow`.
pub(crate) fn stat(path: &CStr, follow: bool) -> Result<libc::stat, Errno> {
    let mut stat = std::mem::MaybeUninit::<libc::stat>::zeroed();
    let flags = if follow { 0 } else { libc::AT_SYMLINK_NOFOLLOW };
    // SAFETY: the path ends with a NUL, and the kernel writes to `stat`, which lives in this frame.
    unsafe { call4(libc::SYS_newfstatat, CWD, path.as_ptr() as usize, stat.as_mut_ptr() as usize, flags as usize) }?;
    // SAFETY: the kernel filled it, and zeroes would also be a valid value.
    Ok(unsafe { stat.assume_init() })
}

/// fstat(2) of the working directory, which needs no rights.
pub(crate) fn stat_here() -> Result<libc::stat, Errno> {
    let mut stat = std::mem::MaybeUninit::<libc::stat>::zeroed();
    let (name, into) = (c"".as_ptr() as usize, stat.as_mut_ptr() as usize);
    // SAFETY: the name ends with a NUL, and the kernel writes to `stat`, which lives in this frame.
    unsafe { call4(libc::SYS_newfstatat, CWD, name, into, libc::AT_EMPTY_PATH as usize) }?;
    // SAFETY: the kernel filled it, and zeroes would also be a valid value.
    Ok(unsafe { stat.assume_init() })
}

/// getdents64(2), once.
pub(crate) fn list(fd: c_int, buffer: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: the kernel writes to `buffer`, within its length.
    unsafe { call4(libc::SYS_getdents64, fd as usize, buffer.as_mut_ptr() as usize, buffer.len(), 0) }
}

/// openat(2) relative to the working directory.
pub(crate) fn open(path: &CStr, flags: c_int, mode: mode_t) -> Result<c_int, Errno> {
    // SAFETY: the path ends with a NUL.
    unsafe { call4(libc::SYS_openat, CWD, path.as_ptr() as usize, flags as usize, mode as usize) }.map(|fd| fd as c_int)
}

/// openat(2) with the path of a hook's caller.
///
/// # Safety
/// `path` is NULL or a C string.
pub(crate) unsafe fn open_from(directory: c_int, path: *const c_char, flags: c_int) -> Result<c_int, Errno> {
    // SAFETY: `path` is a C string by the caller's promise, or NULL, for which the kernel returns EFAULT.
    unsafe { call4(libc::SYS_openat, directory as usize, path as usize, flags as usize, 0) }.map(|fd| fd as c_int)
}

/// chmod(2).
pub(crate) fn chmod(path: &CStr, mode: mode_t) -> Result<(), Errno> {
    // SAFETY: the path ends with a NUL.
    unsafe { call4(libc::SYS_fchmodat, CWD, path.as_ptr() as usize, mode as usize, 0) }.map(drop)
}

/// close(2).
pub(crate) fn close(fd: c_int) -> Result<(), Errno> {
    call_with_numbers(libc::SYS_close, fd as usize, 0, 0).map(drop)
}

/// lseek(2).
pub(crate) fn lseek(fd: c_int, offset: off_t, whence: c_int) -> Result<off_t, Errno> {
    call_with_numbers(libc::SYS_lseek, fd as usize, offset as usize, whence as usize).map(|at| at as off_t)
}

/// The status flags of a description (F_GETFL). For a file of a mount use [`crate::open_file::Open::status_flags`].
pub(crate) fn status_flags(fd: c_int) -> Result<c_int, Errno> {
    call_with_numbers(libc::SYS_fcntl, fd as usize, libc::F_GETFL as usize, 0).map(|flags| flags as c_int)
}

/// Duplicates a descriptor to the lowest free number from `least` on, closed on exec.
pub(crate) fn duplicate_from(fd: c_int, least: c_int) -> Result<c_int, Errno> {
    let command = libc::F_DUPFD_CLOEXEC as usize;
    call_with_numbers(libc::SYS_fcntl, fd as usize, command, least as usize).map(|fd| fd as c_int)
}

/// dup3(2), closed on exec.
pub(crate) fn duplicate_onto(fd: c_int, to: c_int) -> Result<(), Errno> {
    call_with_numbers(libc::SYS_dup3, fd as usize, to as usize, libc::O_CLOEXEC as usize).map(drop)
}

/// write(2), once.
pub(crate) fn write(fd: c_int, bytes: &[u8]) -> Result<usize, Errno> {
    // SAFETY: the kernel reads `bytes`, within its length.
    unsafe { call4(libc::SYS_write, fd as usize, bytes.as_ptr() as usize, bytes.len(), 0) }
}

/// Whether a pipe or terminal has space for a line and has a reader, so that a write neither waits nor causes SIGPIPE. True for
/// a file.
pub(crate) fn takes_a_line(fd: c_int) -> bool {
    let mut asked = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
    let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let (asked_at, time) = (std::ptr::from_mut(&mut asked) as usize, std::ptr::from_ref(&at_once) as usize);
    // SAFETY: the entry and the time outlive the call; no signal mask is given.
    unsafe { call4(libc::SYS_ppoll, asked_at, 1, time, 0) }.is_ok_and(|ready| ready == 1) && asked.revents == libc::POLLOUT
}

/// Sends a datagram to a Unix socket by its path, without waiting.
pub(crate) fn send_datagram(path: &CStr, bytes: &[u8]) -> Result<(), Errno> {
    // SAFETY: struct sockaddr_un is plain integers; zero is valid.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as _;
    let path = path.to_bytes();
    let place = address.sun_path.get_mut(..path.len()).ok_or(libc::ENAMETOOLONG)?;
    place.iter_mut().zip(path).for_each(|(to, from)| *to = *from as c_char);
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    let fd = call_with_numbers(libc::SYS_socket, libc::AF_UNIX as usize, kind as usize, 0)? as c_int;
    let to = std::ptr::from_ref(&address) as usize;
    // SAFETY: the bytes and the address outlive the call.
    let sent = checked(unsafe {
        call(
            libc::SYS_sendto,
            fd as usize,
            bytes.as_ptr() as usize,
            bytes.len(),
            libc::MSG_NOSIGNAL as usize,
            to,
            size_of::<libc::sockaddr_un>(),
        )
    });
    let _ = close(fd);
    sent.map(drop)
}

/// read(2), once.
pub(crate) fn read(fd: c_int, buffer: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: the kernel writes to `buffer`, within its length.
    unsafe { call4(libc::SYS_read, fd as usize, buffer.as_mut_ptr() as usize, buffer.len(), 0) }
}

/// readlink(2): the target's bytes in `buffer`. ENAMETOOLONG for a target that does not fit.
pub(crate) fn readlink<'a>(path: &CStr, buffer: &'a mut [u8]) -> Result<&'a [u8], Errno> {
    let (name, into) = (path.as_ptr() as usize, buffer.as_mut_ptr() as usize);
    // SAFETY: the path ends with a NUL, and the kernel writes to `buffer`, within its length.
    let got = unsafe { call4(libc::SYS_readlinkat, CWD, name, into, buffer.len()) }?;
    if got >= buffer.len() { Err(libc::ENAMETOOLONG) } else { Ok(&buffer[..got]) }
}

/// The path of a descriptor, from /proc/self/fd.
pub(crate) fn fd_path(fd: c_int, buffer: &mut [u8]) -> Result<&[u8], Errno> {
    let mut name = *b"/proc/self/fd/\0\0\0\0\0\0\0\0\0\0\0\0";
    let mut digits = [0u8; 10];
    let mut left = c_uint::try_from(fd).map_err(|_| libc::EBADF)?;
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    name[14..14 + digits.len() - at].copy_from_slice(&digits[at..]);
    readlink(CStr::from_bytes_until_nul(&name).map_err(|_| libc::EBADF)?, buffer)
}

/// getcwd(2), without the final NUL.
pub(crate) fn getcwd(buffer: &mut [u8]) -> Result<&[u8], Errno> {
    // SAFETY: the kernel writes to `buffer`, within its length.
    let length = unsafe { call4(libc::SYS_getcwd, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0) }?;
    Ok(&buffer[..length.saturating_sub(1)])
}

/// chdir(2).
pub(crate) fn chdir(path: &CStr) -> Result<(), Errno> {
    // SAFETY: the path ends with a NUL.
    unsafe { call4(libc::SYS_chdir, path.as_ptr() as usize, 0, 0, 0) }.map(drop)
}

/// fchdir(2).
pub(crate) fn fchdir(fd: c_int) -> Result<(), Errno> {
    call_with_numbers(libc::SYS_fchdir, fd as usize, 0, 0).map(drop)
}

/// mkdir(2).
pub(crate) fn mkdir(path: &CStr, mode: mode_t) -> Result<(), Errno> {
    // SAFETY: the path ends with a NUL.
    unsafe { call4(libc::SYS_mkdirat, CWD, path.as_ptr() as usize, mode as usize, 0) }.map(drop)
}

/// rmdir(2).
pub(crate) fn rmdir(path: &CStr) -> Result<(), Errno> {
    // SAFETY: the path ends with a NUL.
    unsafe { call4(libc::SYS_unlinkat, CWD, path.as_ptr() as usize, libc::AT_REMOVEDIR as usize, 0) }.map(drop)
}

/// unlink(2).
pub(crate) fn unlink(path: &CStr) -> Result<(), Errno> {
    // SAFETY: the path ends with a NUL.
    unsafe { call4(libc::SYS_unlinkat, CWD, path.as_ptr() as usize, 0, 0) }.map(drop)
}

/// mkfifo(3).
pub(crate) fn make_fifo(path: &CStr, mode: mode_t) -> Result<(), Errno> {
    // SAFETY: the path ends with a NUL.
    unsafe { call4(libc::SYS_mknodat, CWD, path.as_ptr() as usize, (libc::S_IFIFO | mode) as usize, 0) }.map(drop)
}

/// symlink(2).
pub(crate) fn symlink(text: &CStr, path: &CStr) -> Result<(), Errno> {
    // SAFETY: both strings end with a NUL.
    unsafe { call4(libc::SYS_symlinkat, text.as_ptr() as usize, CWD, path.as_ptr() as usize, 0) }.map(drop)
}

/// umask(2).
pub(crate) fn umask(mask: mode_t) -> mode_t {
    call_with_numbers(libc::SYS_umask, mask as usize, 0, 0).unwrap_or(0) as mode_t
}

/// Random bytes of getrandom(2) as a number.
pub(crate) fn random() -> u64 {
    let mut bytes = [0u8; 8];
    // SAFETY: the kernel writes to `bytes`, within its length.
    let _ = unsafe { call4(libc::SYS_getrandom, bytes.as_mut_ptr() as usize, bytes.len(), 0, 0) };
    u64::from_ne_bytes(bytes)
}

/// The address family of a socket, `SO_DOMAIN`.
pub(crate) fn socket_domain(fd: c_int) -> Result<c_int, Errno> {
    let (mut domain, mut bytes) = (0 as c_int, size_of::<c_int>() as libc::socklen_t);
    let (into, length) = (&raw mut domain, &raw mut bytes);
    // SAFETY: the kernel writes to the two variables of this frame.
    let answer = unsafe {
        call(
            libc::SYS_getsockopt,
            fd as usize,
            libc::SOL_SOCKET as usize,
            libc::SO_DOMAIN as usize,
            into as usize,
            length as usize,
            0,
        )
    };
    checked(answer).map(|_| domain)
}

/// Anonymous private memory, zeroed, and allocated only when touched. `None` if the kernel refuses.
pub(crate) fn map(bytes: usize) -> Option<*mut u8> {
    map_protected(bytes, libc::PROT_READ | libc::PROT_WRITE)
}

/// As [`map`], with another protection.
pub(crate) fn map_protected(bytes: usize, protection: c_int) -> Option<*mut u8> {
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as usize;
    // SAFETY: a fresh mapping at an address of the kernel's choice disturbs no other memory.
    let answer = unsafe { call(libc::SYS_mmap, 0, bytes, protection as usize, flags, usize::MAX, 0) };
    checked(answer).ok().map(|at| at as *mut u8)
}

/// Maps the first bytes of a file, shared with other mappings of it.
pub(crate) fn map_shared(fd: c_int, bytes: usize) -> Result<*mut u8, Errno> {
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    // SAFETY: a fresh mapping at an address of the kernel's choice disturbs no other memory.
    let answer = unsafe { call(libc::SYS_mmap, 0, bytes, protection, libc::MAP_SHARED as usize, fd as usize, 0) };
    checked(answer).map(|at| at as *mut u8)
}

/// The monotonic clock in nanoseconds, the same for all processes.
pub(crate) fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: libc writes to `now`, which lives in this frame. libc's function reads the vDSO,
    // which is faster than a system call, and this library does not hook it.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Seconds since 1970 by the host's clock.
pub(crate) fn realtime_s() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: libc writes to `now`, which lives in this frame.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut now) };
    now.tv_sec as u64
}

/// Sleeps until this time of [`monotonic_ns`]. Signals do not end the sleep, as they do not end a
/// wait for a disk.
pub(crate) fn sleep_until(time_ns: u64) {
    let until = libc::timespec { tv_sec: (time_ns / 1_000_000_000) as _, tv_nsec: (time_ns % 1_000_000_000) as _ };
    let (clock, absolute) = (libc::CLOCK_MONOTONIC as usize, libc::TIMER_ABSTIME as usize);
    let until = std::ptr::from_ref(&until) as usize;
    // SAFETY: the time outlives the call; no pointer for the remaining time is given.
    while unsafe { call4(libc::SYS_clock_nanosleep, clock, absolute, until, 0) } == Err(libc::EINTR) {}
}

/// Makes this thread, and those that it starts, wake without the timer slack of 50 us.
pub(crate) fn wake_on_time() {
    let _ = call_with_numbers(libc::SYS_prctl, libc::PR_SET_TIMERSLACK as usize, 1, 0);
}

/// Unmaps memory of [`map`] or of mmap(2).
///
/// # Safety
/// `at` and `bytes` are exactly one mapping, which no code uses any more.
pub(crate) unsafe fn unmap(at: *mut u8, bytes: usize) {
    // SAFETY: no code uses the mapping any more, by the caller's promise.
    let _ = unsafe { call4(libc::SYS_munmap, at as usize, bytes, 0, 0) };
}

/// fcntl(2) with a command that takes a number.
pub(crate) fn control(fd: c_int, command: c_int, argument: usize) -> Result<c_int, Errno> {
    call_with_numbers(libc::SYS_fcntl, fd as usize, command as usize, argument).map(|answer| answer as c_int)
}

/// fcntl(2) with a record lock: F_SETLK, F_GETLK and their like.
pub(crate) fn record_lock(fd: c_int, command: c_int, lock: &mut libc::flock) -> Result<(), Errno> {
    // SAFETY: the kernel reads and writes `lock`, which is borrowed for the call.
    unsafe { call4(libc::SYS_fcntl, fd as usize, command as usize, std::ptr::from_mut(lock) as usize, 0) }.map(drop)
}

/// The number of this process.
pub(crate) fn process_id() -> u32 {
    call_with_numbers(libc::SYS_getpid, 0, 0, 0).unwrap_or(0) as u32
}

/// The number of this thread, which no other live thread of this host has.
pub(crate) fn thread_id() -> u32 {
    call_with_numbers(libc::SYS_gettid, 0, 0, 0).unwrap_or(0) as u32
}

/// Whether a page of this process can be read or written (madvise(2), MADV_POPULATE_READ and
/// _WRITE, which change nothing in it). `None` if the kernel does not know this advice (before
/// 5.14). Memory of a device counts as not usable.
pub(crate) fn page_is_usable(at: usize, bytes: usize, for_writing: bool) -> Option<bool> {
    let asked = |at: usize, advice: c_int| call_with_numbers(libc::SYS_madvise, at, bytes, advice as usize);
    match asked(at, if for_writing { libc::MADV_POPULATE_WRITE } else { libc::MADV_POPULATE_READ }) {
        Err(libc::EFAULT | libc::ENOMEM) => Some(false),
        Ok(_) => Some(true),
        // The kernel refuses the access, or does not know the advice. Its answer for readable
        // memory shows which.
        Err(libc::EINVAL) => {
            let known = std::ptr::from_ref(&at) as usize;
            asked(known - known % bytes, libc::MADV_POPULATE_READ).ok().map(|_| false)
        }
        Err(_) => None,
    }
}

/// The soft limit of a resource of this process: `RLIMIT_FSIZE`, `RLIMIT_AS`.
pub(crate) fn soft_limit(resource: usize) -> u64 {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    let into = std::ptr::from_mut(&mut limit) as usize;
    // SAFETY: no new limit is given, and the kernel writes the old one to `limit`, which lives in this frame.
    let _ = unsafe { call4(libc::SYS_prlimit64, 0, resource, 0, into) };
    limit.rlim_cur
}

/// Whether this process has a thread of this number.
pub(crate) fn has_thread(id: u32) -> bool {
    let process = call_with_numbers(libc::SYS_getpid, 0, 0, 0).unwrap_or(0);
    call_with_numbers(libc::SYS_tgkill, process, id as usize, 0) != Err(libc::ESRCH)
}

/// clone(2) without a stack and with a copy of the memory: the child returns from here too, with 0.
///
/// # Safety
/// The addresses among the arguments are valid as the flags require, and `flags` does not contain CLONE_VM.
pub(crate) unsafe fn clone_copy(flags: usize, c: usize, d: usize, e: usize) -> Result<usize, Errno> {
    // SAFETY: the addresses are valid by the caller's promise. The child has a copy of all memory,
    // this frame included.
    checked(unsafe { call(libc::SYS_clone, flags, 0, c, d, e, 0) })
}

/// clone3(2), as [`clone_copy`].
///
/// # Safety
/// As [`clone_copy`]; the arguments give no stack.
pub(crate) unsafe fn clone3_copy(arguments: &[u64], bytes: usize) -> Result<usize, Errno> {
    // SAFETY: the addresses are valid by the caller's promise, and the arguments outlive the call.
    unsafe { call4(libc::SYS_clone3, arguments.as_ptr() as usize, bytes, 0, 0) }
}

/// Sleeps while `word` is `expected`, for `longest` at most. May return early.
pub(crate) fn futex_wait(word: &AtomicU32, expected: u32, longest: Duration) {
    let longest = libc::timespec { tv_sec: longest.as_secs() as _, tv_nsec: longest.subsec_nanos().into() };
    let (word, longest) = (word.as_ptr() as usize, std::ptr::from_ref(&longest) as usize);
    let operation = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize;
    // SAFETY: the word and the time outlive the call, which only reads them.
    let _ = unsafe { call4(libc::SYS_futex, word, operation, expected as usize, longest) };
}

/// Sleeps while `word` is `expected`, until a time on the monotonic clock if there is one.
///
/// # Errors
/// EINTR after a signal handler ran; ETIMEDOUT. No error if the word differs or was woken.
pub(crate) fn futex_wait_until(word: &AtomicU32, expected: u32, until_ns: Option<u64>) -> Result<(), Errno> {
    let until = until_ns.map(|ns| libc::timespec { tv_sec: (ns / 1_000_000_000) as _, tv_nsec: (ns % 1_000_000_000) as _ });
    let (word, until) = (word.as_ptr() as usize, until.as_ref().map_or(0, |until| std::ptr::from_ref(until) as usize));
    let operation = (libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG) as usize;
    // SAFETY: the word and the time outlive the call, which only reads them.
    match checked(unsafe { call(libc::SYS_futex, word, operation, expected as usize, until, 0, u32::MAX as usize) }) {
        Err(errno @ (libc::EINTR | libc::ETIMEDOUT)) => Err(errno),
        _ => Ok(()),
    }
}

/// Wakes all threads that sleep on `word`.
pub(crate) fn futex_wake_all(word: &AtomicU32) {
    let operation = (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as usize;
    // SAFETY: the word outlives the call, which uses only its address.
    let _ = unsafe { call4(libc::SYS_futex, word.as_ptr() as usize, operation, i32::MAX as usize, 0) };
}

/// A result in libc's form: −1 and `errno` on failure.
fn as_libc(answer: isize) -> c_int {
    checked(answer).map_or_else(
        |errno| {
            crate::outcome::set_errno(errno);
            -1
        },
        |answer| answer as c_int,
    )
}

/// fstatat(2) with the pointers of a hook's caller.
///
/// # Safety
/// `path` is NULL or a C string; `into` is NULL or has room for a `stat`.
pub(crate) unsafe fn fstatat(directory: c_int, path: *const c_char, into: *mut libc::stat, flags: c_int) -> c_int {
    // SAFETY: the pointers are valid by the caller's promise, or NULL, for which the kernel returns EFAULT.
    as_libc(unsafe { call(libc::SYS_newfstatat, directory as usize, path as usize, into as usize, flags as usize, 0, 0) })
}

/// statx(2) with the pointers of a hook's caller.
///
/// # Safety
/// `path` is NULL or a C string; `into` is NULL or has room for a `statx`.
pub(crate) unsafe fn statx(directory: c_int, path: *const c_char, flags: c_int, mask: c_uint, into: *mut libc::statx) -> c_int {
    let (directory, path, into) = (directory as usize, path as usize, into as usize);
    // SAFETY: the pointers are valid by the caller's promise, or NULL, for which the kernel returns EFAULT.
    as_libc(unsafe { call(libc::SYS_statx, directory, path, flags as usize, mask as usize, into, 0) })
}
