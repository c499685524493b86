//! The functions of exec that take their arguments as a list. Stable Rust cannot define such
//! functions. A few instructions save the registers with the arguments, call the preparation,
//! restore the registers and jump to libc's function with the same list.

use super::{by_name, by_path};
use crate::hook::{entered, next};
use crate::outcome::Failure;
use crate::raw::programs::Strings;
use crate::reach::own_environment;
use libc::{c_char, c_int};
use std::ffi::CStr;
use std::sync::atomic::AtomicUsize;

/// Number of arguments in registers.
const REGISTERS: usize = if cfg!(target_arch = "x86_64") { 6 } else { 8 };

/// A list of arguments: the first ones in registers, the others on the stack.
#[derive(Clone, Copy)]
struct List {
    registers: *const usize,
    stack: *const usize,
}

impl List {
    /// # Safety
    /// The list has more than `index` words.
    unsafe fn word(self, index: usize) -> usize {
        let at = if index < REGISTERS { self.registers.wrapping_add(index) } else { self.stack.wrapping_add(index - REGISTERS) };
        // SAFETY: the list has this word by the caller's promise.
        unsafe { at.read() }
    }

    /// The program's arguments, with their NULL.
    ///
    /// # Safety
    /// The list has such a NULL.
    unsafe fn arguments(self) -> Vec<*const c_char> {
        let mut arguments = Vec::new();
        loop {
            // SAFETY: the list continues up to its NULL by the caller's promise.
            let word = unsafe { self.word(1 + arguments.len()) };
            arguments.push(word as *const c_char);
            if word == 0 {
                return arguments;
            }
        }
    }
}

/// Prepares the call. Returns the address of libc's function if the process has not become the
/// program, or of [`failed`].
///
/// # Safety
/// The list is that of a caller of execl, execlp or execle.
unsafe fn own(slot: &AtomicUsize, name: &CStr, list: List) -> usize {
    let own = entered(
        || next(slot, name),
        // SAFETY: the caller's list has a path, arguments up to a NULL, and for execle an
        // environment after that.
        || unsafe {
            let arguments = list.arguments();
            let environment = match name == c"execle" {
                true => list.word(1 + arguments.len()) as Strings,
                false => own_environment(),
            };
            let become_program = if name == c"execlp" { by_name } else { by_path };
            become_program(list.word(0) as _, arguments.as_ptr(), environment)
        },
    )
    .unwrap_or_else(|| next(slot, name));
    if own == usize::FAILED { failed as *const () as usize } else { own }
}

/// Takes the place of libc's function: the call has failed, and errno has the reason.
extern "C" fn failed() -> c_int {
    -1
}

macro_rules! before_list { ($($prepare:ident $name:literal)*) => { $(
    unsafe extern "C" fn $prepare(registers: *const usize, stack: *const usize) -> usize {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        // SAFETY: the list is that of the function of this name.
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
