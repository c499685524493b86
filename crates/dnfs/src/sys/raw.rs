//! System calls without libc's symbols.
//!
//! This crate is also a part of the preload library, which replaces `open`, `close`, `syscall` and similar functions. A
//! call by name from here would reach those hooks; an instruction does not. Nothing here touches `errno`.

/// Makes one system call. Returns the kernel's result: a negative error number, or the value.
///
/// # Safety
/// The arguments must be what system call `number` expects: pointers valid for as long as the kernel uses them.
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe fn call(number: libc::c_long, arguments: [usize; 6]) -> isize {
    let result: isize;
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the x86-64 system call convention: number in rax, arguments in these registers, rcx and r11 clobbered;
    // the caller guarantees the arguments.
    unsafe {
        core::arch::asm!("syscall", inlateout("rax") number as isize => result, in("rdi") a, in("rsi") b, in("rdx") c,
            in("r10") d, in("r8") e, in("r9") f, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// Makes one system call. Returns the kernel's result: a negative error number, or the value.
///
/// # Safety
/// The arguments must be what system call `number` expects: pointers valid for as long as the kernel uses them.
#[cfg(target_arch = "aarch64")]
pub(crate) unsafe fn call(number: libc::c_long, arguments: [usize; 6]) -> isize {
    let result: isize;
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the AArch64 system call convention: number in x8, arguments in x0 to x5, result in x0; the caller
    // guarantees the arguments.
    unsafe {
        core::arch::asm!("svc 0", in("x8") number, inlateout("x0") a as isize => result, in("x1") b, in("x2") c,
            in("x3") d, in("x4") e, in("x5") f, options(nostack));
    }
    result
}

/// A number that no other living thread of this process has: the address of its control block.
#[cfg(target_arch = "x86_64")]
pub(crate) fn thread_id() -> u64 {
    let mark: u64;
    // SAFETY: the x86-64 ABI keeps the control block's own address in its first word, at fs:0, for every thread.
    unsafe { core::arch::asm!("mov {}, fs:[0]", out(reg) mark, options(nostack, preserves_flags, readonly)) };
    mark
}

/// A number that no other living thread of this process has: the address of its control block.
#[cfg(target_arch = "aarch64")]
pub(crate) fn thread_id() -> u64 {
    let mark: u64;
    // SAFETY: reading the thread pointer register changes nothing.
    unsafe { core::arch::asm!("mrs {}, tpidr_el0", out(reg) mark, options(nomem, nostack, preserves_flags)) };
    mark
}

/// This process.
pub(crate) fn process_id() -> u32 {
    #[cfg(test)]
    if let Some(pid) = super::simulated::process_id() {
        return pid;
    }
    rustix::process::getpid().as_raw_nonzero().get() as u32
}

/// The time of a clock, in ns.
#[inline]
pub(crate) fn clock_ns(clock: libc::clockid_t) -> u64 {
    #[cfg(test)]
    if let Some(now) = super::simulated::now_ns() {
        return now;
    }
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: libc writes only `now`, which belongs to this frame. The call uses libc's name, which no hook has: libc
    // reads the kernel's clock page without a system call, and rustix, without libc, may allocate to find that page.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The calling thread in 32 bits, never 0. Two threads have the same number once in 2^31 times.
#[inline]
pub(crate) fn thread_number() -> u32 {
    (thread_id().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32 | 1
}
