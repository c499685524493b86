//! exec of every kind: what this process has in flight ends before it becomes another program, as in a kernel.
//!
//! libc's own functions make the system call inside, past every hook, so each of them has one.

use crate::hook::hooks;
use crate::kernel_aio;
use crate::outcome::Out;
use libc::{c_char, c_int};

/// A NULL-terminated array of strings.
type Strings = *const *const c_char;

/// Before the process becomes another program.
fn drained() -> Result<c_int, Out> {
    kernel_aio::drain();
    Err(Out::Pass)
}

hooks! {
    /// execve(2).
    fn execve(path: *const c_char, arguments: Strings, environment: Strings) -> c_int { drained() }
    /// execveat(2).
    fn execveat(directory: c_int, path: *const c_char, arguments: Strings, environment: Strings, flags: c_int) -> c_int { drained() }
    /// fexecve(3).
    fn fexecve(fd: c_int, arguments: Strings, environment: Strings) -> c_int { drained() }
    /// execv(3).
    fn execv(path: *const c_char, arguments: Strings) -> c_int { drained() }
    /// execvp(3).
    fn execvp(name: *const c_char, arguments: Strings) -> c_int { drained() }
    /// execvpe(3).
    fn execvpe(name: *const c_char, arguments: Strings, environment: Strings) -> c_int { drained() }
}

/// The functions that take their arguments as a list. Stable Rust has no such functions: a few instructions save the registers
/// that hold arguments, have done what is to be done first, restore them and go on to libc's own with the same list.
mod lists {
    use crate::hook::{entered, next};
    use crate::outcome::Out;
    use std::ffi::CStr;
    use std::sync::atomic::AtomicUsize;

    /// The address of libc's own function, when all is done that comes before it.
    fn own(slot: &AtomicUsize, name: &CStr) -> usize {
        entered(|| next(slot, name), || super::drained().and(Err(Out::Pass)))
    }

    extern "C" fn before_execl() -> usize {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        own(&NEXT, c"execl")
    }

    extern "C" fn before_execlp() -> usize {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        own(&NEXT, c"execlp")
    }

    extern "C" fn before_execle() -> usize {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        own(&NEXT, c"execle")
    }

    /// System V ABI 3.2.3: six registers of arguments; seven words align the stack; none of the arguments is in a vector register.
    #[cfg(target_arch = "x86_64")]
    macro_rules! then_own { ($prepare:path) => {
        core::arch::naked_asm!(
            "sub rsp, 56",
            "mov [rsp], rdi",
            "mov [rsp + 8], rsi",
            "mov [rsp + 16], rdx",
            "mov [rsp + 24], rcx",
            "mov [rsp + 32], r8",
            "mov [rsp + 40], r9",
            "call {prepare}",
            "mov r11, rax",
            "mov rdi, [rsp]",
            "mov rsi, [rsp + 8]",
            "mov rdx, [rsp + 16]",
            "mov rcx, [rsp + 24]",
            "mov r8, [rsp + 32]",
            "mov r9, [rsp + 40]",
            "xor eax, eax",
            "add rsp, 56",
            "jmp r11",
            prepare = sym $prepare,
        )
    } }

    /// AAPCS64 6.4: eight registers of arguments, and the return address.
    #[cfg(target_arch = "aarch64")]
    macro_rules! then_own { ($prepare:path) => {
        core::arch::naked_asm!(
            "stp x0, x1, [sp, #-80]!",
            "stp x2, x3, [sp, #16]",
            "stp x4, x5, [sp, #32]",
            "stp x6, x7, [sp, #48]",
            "str x30, [sp, #64]",
            "bl {prepare}",
            "mov x16, x0",
            "ldr x30, [sp, #64]",
            "ldp x6, x7, [sp, #48]",
            "ldp x4, x5, [sp, #32]",
            "ldp x2, x3, [sp, #16]",
            "ldp x0, x1, [sp], #80",
            "br x16",
            prepare = sym $prepare,
        )
    } }

    /// execl(3).
    ///
    /// # Safety
    /// As libc documents.
    #[unsafe(naked)]
    #[unsafe(no_mangle)]
    unsafe extern "C" fn execl() {
        then_own!(before_execl)
    }

    /// execlp(3).
    ///
    /// # Safety
    /// As libc documents.
    #[unsafe(naked)]
    #[unsafe(no_mangle)]
    unsafe extern "C" fn execlp() {
        then_own!(before_execlp)
    }

    /// execle(3).
    ///
    /// # Safety
    /// As libc documents.
    #[unsafe(naked)]
    #[unsafe(no_mangle)]
    unsafe extern "C" fn execle() {
        then_own!(before_execle)
    }
}
