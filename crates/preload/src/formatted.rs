//! dprintf and its relatives. libc would format the text and write it to the placeholder, which
//! refuses it. Here it is written as any other text.

use crate::data;
use crate::ffi;
use crate::hook::hooks;
use crate::outcome::Out;
use crate::table::{self, Found};
use libc::{c_char, c_int, c_void};

unsafe extern "C" {
    fn vasprintf(into: *mut *mut c_char, format: *const c_char, list: *mut c_void) -> c_int;
}

/// `list` is C's `va_list` in the form in which functions get it: a pointer on both supported processors.
///
/// # Safety
/// `format` is a C string, and `list` has its arguments.
unsafe fn print(fd: c_int, format: *const c_char, list: *mut c_void) -> Result<c_int, Out> {
    let Found::File(file) = table::find(fd)? else { return Err(Out::Pass) };
    let mut text: *mut c_char = std::ptr::null_mut();
    // SAFETY: format and list belong together by the caller's promise.
    let length = unsafe { vasprintf(&raw mut text, format, list) };
    let length = usize::try_from(length).map_err(|_| Out::Errno(libc::ENOMEM))?;
    // SAFETY: vasprintf returned a text of that length.
    let outcome = data::write_here(&file, unsafe { ffi::bytes(text.cast(), length) });
    // SAFETY: vasprintf allocated the text, and no code uses it any more.
    unsafe { libc::free(text.cast()) };
    Ok(outcome? as c_int)
}

hooks! {
    /// vdprintf(3).
    fn vdprintf(fd: c_int, format: *const c_char, list: *mut c_void) -> c_int { print(fd, format, list) }
    /// vdprintf(3), fortified.
    fn __vdprintf_chk(fd: c_int, flag: c_int, format: *const c_char, list: *mut c_void) -> c_int { print(fd, format, list) }
}

/// Stores the argument registers in the form of a `va_list` of the System V ABI (3.5.7: gp_offset,
/// fp_offset, overflow_arg_area, reg_save_area), and calls a function that takes one.
#[cfg(target_arch = "x86_64")]
macro_rules! variadic { ($fixed_bytes:literal, $move_format:literal, $to:path) => {
    core::arch::naked_asm!(
        "sub rsp, 216",
        "mov [rsp + 40], rsi",
        "mov [rsp + 48], rdx",
        "mov [rsp + 56], rcx",
        "mov [rsp + 64], r8",
        "mov [rsp + 72], r9",
        "test al, al",
        "je 2f",
        "movaps [rsp + 80], xmm0",
        "movaps [rsp + 96], xmm1",
        "movaps [rsp + 112], xmm2",
        "movaps [rsp + 128], xmm3",
        "movaps [rsp + 144], xmm4",
        "movaps [rsp + 160], xmm5",
        "movaps [rsp + 176], xmm6",
        "movaps [rsp + 192], xmm7",
        "2:",
        concat!("mov dword ptr [rsp], ", $fixed_bytes),
        "mov dword ptr [rsp + 4], 48",
        "lea rax, [rsp + 224]",
        "mov [rsp + 8], rax",
        "lea rax, [rsp + 32]",
        "mov [rsp + 16], rax",
        $move_format,
        "mov rdx, rsp",
        "call {to}",
        "add rsp, 216",
        "ret",
        to = sym $to,
    )
} }
#[cfg(all(target_arch = "x86_64", not(target_env = "musl")))]
pub(crate) use variadic;

/// dprintf(3).
///
/// # Safety
/// As libc documents.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn dprintf() {
    variadic!("16", "nop", vdprintf::hook)
}

/// dprintf(3), fortified: descriptor, flag, format.
///
/// # Safety
/// As libc documents.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn __dprintf_chk() {
    variadic!("24", "mov rsi, rdx", vdprintf::hook)
}
