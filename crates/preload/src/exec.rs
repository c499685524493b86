//! exec of every kind: what this process has in flight ends before it becomes another program, as in a kernel; and a program that
//! this library will not reach is named (`reach`).
//!
//! libc's own functions make the system call inside, past every hook, so each of them has one.

use crate::hook::hooks;
use crate::kernel_aio;
use crate::outcome::Out;
use crate::reach::{self, Strings, own_environment};
use crate::shared_maps;
use libc::{FILE, c_char, c_int};

/// Ends what this program has begun.
fn finish() {
    kernel_aio::drain();
    shared_maps::write_all();
}

/// Before the process becomes the program at a path, or of a name.
///
/// # Safety
/// The pointers are those of a caller of exec, who keeps its contract.
unsafe fn before<T>(path: *const c_char, environment: Strings, by_name: bool) -> Result<T, Out> {
    finish();
    // SAFETY: as the caller promises.
    unsafe { reach::tell(libc::AT_FDCWD, path, environment, by_name) };
    Err(Out::Pass)
}

hooks! {
    /// execve(2).
    fn execve(path: *const c_char, arguments: Strings, environment: Strings) -> c_int { before(path, environment, false) }
    /// execveat(2).
    fn execveat(directory: c_int, path: *const c_char, arguments: Strings, environment: Strings, flags: c_int) -> c_int {
        finish();
        match flags & libc::AT_EMPTY_PATH != 0 && crate::ffi::path(path)?.is_empty() {
            true => reach::tell_of_descriptor(directory, environment),
            false => reach::tell(directory, path, environment, false),
        }
        Err(Out::Pass)
    }
    /// fexecve(3).
    fn fexecve(fd: c_int, arguments: Strings, environment: Strings) -> c_int {
        finish();
        reach::tell_of_descriptor(fd, environment);
        Err(Out::Pass)
    }
    /// execv(3).
    fn execv(path: *const c_char, arguments: Strings) -> c_int { before(path, own_environment(), false) }
    /// execvp(3).
    fn execvp(name: *const c_char, arguments: Strings) -> c_int { before(name, own_environment(), true) }
    /// execvpe(3).
    fn execvpe(name: *const c_char, arguments: Strings, environment: Strings) -> c_int { before(name, environment, true) }
    /// system(3): libc's own, which starts a shell past every hook.
    fn system(command: *const c_char) -> c_int {
        if !command.is_null() { reach::tell_of_shell() }
        Err(Out::Pass)
    }
    /// popen(3): as system.
    fn popen(command: *const c_char, mode: *const c_char) -> *mut FILE {
        reach::tell_of_shell();
        Err(Out::Pass)
    }
}

/// The functions that take their arguments as a list. Stable Rust has no such functions: a few instructions save the registers
/// that hold arguments, have done what is to be done first, restore them and go on to libc's own with the same list.
mod lists {
    use super::{before, own_environment};
    use crate::hook::{entered, next};
    use std::ffi::CStr;
    use std::sync::atomic::AtomicUsize;

    /// Arguments that lie in registers.
    const REGISTERS: usize = if cfg!(target_arch = "x86_64") { 6 } else { 8 };

    /// A list of arguments: the first in registers, the others on the stack.
    #[derive(Clone, Copy)]
    struct List {
        registers: *const usize,
        stack: *const usize,
    }

    impl List {
        /// # Safety
        /// The list has so many.
        unsafe fn word(self, index: usize) -> usize {
            let at =
                if index < REGISTERS { self.registers.wrapping_add(index) } else { self.stack.wrapping_add(index - REGISTERS) };
            // SAFETY: as the caller promises.
            unsafe { at.read() }
        }

        /// What stands behind the NULL that ends the program's arguments.
        ///
        /// # Safety
        /// There is such a NULL, and something behind it.
        unsafe fn behind_arguments(self) -> usize {
            let mut index = 1;
            // SAFETY: as the caller promises.
            unsafe {
                while self.word(index) != 0 {
                    index += 1;
                }
                self.word(index + 1)
            }
        }
    }

    /// The address of libc's own function, when all is done that comes before it.
    ///
    /// # Safety
    /// The list is that of a caller of execl, execlp or execle.
    unsafe fn own(slot: &AtomicUsize, name: &CStr, list: List) -> usize {
        // SAFETY: the caller's list, which has a path and a NULL, and behind that, of execle, an environment.
        entered(
            || next(slot, name),
            || unsafe {
                let environment = if name == c"execle" { list.behind_arguments() as _ } else { own_environment() };
                before(list.word(0) as _, environment, name == c"execlp")
            },
        )
    }

    macro_rules! before_list { ($($prepare:ident $name:literal)*) => { $(
        unsafe extern "C" fn $prepare(registers: *const usize, stack: *const usize) -> usize {
            static NEXT: AtomicUsize = AtomicUsize::new(0);
            // SAFETY: the arguments of the function of that name.
            unsafe { own(&NEXT, $name, List { registers, stack }) }
        }
    )* } }
    before_list! { before_execl c"execl" before_execlp c"execlp" before_execle c"execle" }

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
            "mov rdi, rsp",
            "lea rsi, [rsp + 64]",
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
            "mov x0, sp",
            "add x1, sp, #80",
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
