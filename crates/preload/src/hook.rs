//! Replaces libc functions: one macro for all hooks, with one entry and one exit.
//!
//! Each hook is three functions. The exported one has libc's name and checks its return address. A
//! call from inside this library (dnfs and the standard library call libc too) goes to libc at
//! once, so that the library never re-enters a hook. A flag per thread would not work, because a
//! hook must also serve a signal handler of the program that interrupts an RPC of its own thread.
//! Any other call goes to the hook. The hook unwinds only when the thread is cancelled, and leaves
//! `errno` as a libc function would: unchanged on success.

use crate::outcome::{Failure, FromKernel, Out, errno, set_errno};
use crate::raw;
use libc::{c_int, c_long, c_void};
use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Start of the mapping of this library's code. It and [`TEXT_BYTES`] are zero until the constructor has run.
pub(crate) static TEXT_BASE: AtomicUsize = AtomicUsize::new(0);
/// Bytes of that mapping.
pub(crate) static TEXT_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Runs a hook's body without unwinding; preserves `errno` on success. `timed` calls libc's
/// function. `None` if the caller must call libc's function after this call has ended, because a
/// thread may be cancelled there.
pub(crate) fn entered<R: Failure>(timed: impl FnOnce() -> R, body: impl FnOnce() -> Result<R, Out>) -> Option<R> {
    let saved = errno();
    let mut call = crate::mounts::any().then(dnfs::begin_call);
    let before = switch_cancellation_off(call.as_mut());
    let outcome = catch_unwind(AssertUnwindSafe(body));
    // SAFETY: `before` is the state that the thread had. If the thread may be cancelled at any
    // instruction, it may end here; unwinding then drops `call`.
    unsafe { pthread_setcancelstate(before, std::ptr::null_mut()) };
    if let Some(call) = &call {
        call.note_cancellation_restored();
    }
    match outcome {
        Ok(Ok(value)) => {
            set_errno(value.errno_left().unwrap_or(saved));
            Some(value)
        }
        Ok(Err(Out::Pass)) => {
            set_errno(saved);
            None
        }
        Ok(Err(Out::Timed(medium))) => {
            set_errno(saved);
            let answer = timed();
            medium.wait(&answer);
            Some(answer)
        }
        Ok(Err(Out::Errno(errno))) => {
            set_errno(errno);
            Some(R::FAILED)
        }
        Err(_) => {
            set_errno(libc::EIO);
            Some(R::FAILED)
        }
    }
}

unsafe extern "C-unwind" {
    /// pthread_testcancel(3).
    fn pthread_testcancel();
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// PTHREAD_CANCEL_ENABLE in glibc and musl.
const CANCELLATION_ON: c_int = 0;
/// PTHREAD_CANCEL_DISABLE in glibc and musl.
const CANCELLATION_OFF: c_int = 1;

/// Marks `call`, and disables cancellation in this thread while a hook's body runs, because the
/// unwinding of pthread_cancel would end the process at `catch_unwind`. Returns the previous state.
/// If the thread left an earlier call by a jump, that is the state before the earlier call.
#[inline]
fn switch_cancellation_off(call: Option<&mut dnfs::CallFrame>) -> c_int {
    if let Some(call) = &call {
        call.mark();
    }
    let mut before = CANCELLATION_ON;
    // SAFETY: `before` lives in this frame.
    unsafe { pthread_setcancelstate(CANCELLATION_OFF, &raw mut before) };
    let Some(call) = call.filter(|_| before == CANCELLATION_OFF) else { return before };
    if call.take_left_uncancelled() {
        return CANCELLATION_ON;
    }
    call.note_cancellation_restored();
    before
}

/// A cancellation point of POSIX: the thread may end here, and its stack frames are unwound. A
/// signal handler that interrupted a call of this library is not cancelled here, because the locks
/// of that call would stay held.
pub(crate) fn cancellation_point() {
    if crate::mounts::any() && !dnfs::is_inside_call() {
        // SAFETY: the function has no precondition.
        unsafe { pthread_testcancel() };
    }
}

/// The calls of a hook at which a thread may be cancelled.
macro_rules! point {
    ([] $($arg:ident),*) => {};
    ([cancellation_point] $($arg:ident),*) => {
        $crate::hook::cancellation_point()
    };
    ([waiting_lock] $fd:ident, $command:ident, $argument:ident) => {
        if matches!($command, libc::F_SETLKW | libc::F_OFD_SETLKW) {
            $crate::hook::cancellation_point()
        }
    };
    ([waiting_lockf] $fd:ident, $command:ident, $argument:ident) => {
        if $command == libc::F_LOCK {
            $crate::hook::cancellation_point()
        }
    };
}
pub(crate) use point;

/// Takes the place of a function that this libc does not have.
extern "C" fn missing() -> isize {
    set_errno(libc::ENOSYS);
    -1
}

/// The next definition of `name` after this library's, looked up once.
pub(crate) fn next(slot: &AtomicUsize, name: &CStr) -> usize {
    let known = slot.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    // SAFETY: `name` ends with a NUL.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) } as usize;
    let found = if found == 0 { missing as *const () as usize } else { found };
    slot.store(found, Ordering::Relaxed);
    found
}

/// Finds the address range of this library, so that hooks can distinguish its calls from the program's.
pub(crate) fn learn_own_text() {
    unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _size: usize, _data: *mut c_void) -> c_int {
        // SAFETY: the loader passes a valid record whose headers are readable.
        let (base, headers) = unsafe {
            let info = &*info;
            (info.dlpi_addr as usize, std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)))
        };
        let here = learn_own_text as *const () as usize;
        for header in headers.iter().filter(|h| h.p_type == libc::PT_LOAD && h.p_flags & libc::PF_X != 0) {
            let start = base + header.p_vaddr as usize;
            let bytes = header.p_memsz as usize;
            if (start..start + bytes).contains(&here) {
                TEXT_BASE.store(start, Ordering::Relaxed);
                TEXT_BYTES.store(bytes, Ordering::Relaxed);
                return 1;
            }
        }
        0
    }
    // SAFETY: `visit` has the callback's signature and keeps no pointer.
    unsafe { libc::dl_iterate_phdr(Some(visit), std::ptr::null_mut()) };
}

/// The exported entry: calls of this library go to `pass`, all others to `hook`. It changes scratch registers only.
#[cfg(target_arch = "x86_64")]
macro_rules! entry { ($pass:path, $hook:path) => {
    core::arch::naked_asm!(
        "mov r11, [rsp]",
        "sub r11, [rip + {base}]",
        "cmp r11, [rip + {bytes}]",
        "jb {pass}",
        "jmp {hook}",
        base = sym $crate::hook::TEXT_BASE, bytes = sym $crate::hook::TEXT_BYTES, pass = sym $pass, hook = sym $hook,
    )
} }

/// The exported entry: calls of this library go to `pass`, all others to `hook`. It changes scratch registers only.
#[cfg(target_arch = "aarch64")]
macro_rules! entry { ($pass:path, $hook:path) => {
    core::arch::naked_asm!(
        "adrp x16, {base}", "ldr x16, [x16, :lo12:{base}]", "sub x16, x30, x16",
        "adrp x17, {bytes}", "ldr x17, [x17, :lo12:{bytes}]", "cmp x16, x17",
        "b.lo 2f", "b {hook}", "2: b {pass}",
        base = sym $crate::hook::TEXT_BASE, bytes = sym $crate::hook::TEXT_BYTES, pass = sym $pass, hook = sym $hook,
    )
} }
pub(crate) use entry;

/// Makes a system call for a hook. Converts the kernel's result to that of libc's function.
///
/// # Safety
/// As [`raw::by_number`].
pub(crate) unsafe fn kernel<R: FromKernel>(number: c_long, arguments: &[usize]) -> R {
    let mut all = [0; 6];
    all.iter_mut().zip(arguments).for_each(|(to, from)| *to = *from);
    // SAFETY: the caller promises what `by_number` requires.
    R::from_kernel(unsafe { raw::by_number(number, all) })
}

/// Declares hooks. `fn name(args) -> type { body }` makes a module `name` with `real` (libc's own
/// function) and the exported symbol; the body is a `Result<type, Out>`. `-> type = SYS_name` adds
/// `by_number`, the same body for syscall(2), in which `real` is the system call: a library that
/// the loader searches after this one may define libc's function by syscall(2), and each would call
/// the other without end. `= old SYS_name` is for numbers that only x86-64 has.
/// `@cancellation_point`, or another case of `point`, marks a hook at which POSIX lets a thread be
/// cancelled.
macro_rules! hooks {
    ($($(#[doc = $doc:literal])* $(@$point:ident)? fn $name:ident($($arg:ident : $type:ty),* $(,)?) -> $answer:ty $(= $($number:ident)+)? $body:block)*) => { $(
        $(#[doc = $doc])*
        #[allow(unused_imports, reason = "not every hook needs what its file imports")]
        #[allow(non_snake_case, reason = "libc's names")]
        pub(crate) mod $name {
            use super::*;

            static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
            type Function = unsafe extern "C-unwind" fn($($type),*) -> $answer;

            /// Looks up libc's function, so that a first call in a signal handler does not have to.
            #[allow(dead_code, reason = "for the few that handlers call")]
            pub(crate) fn look_up() {
                $crate::hook::next(&NEXT, NAME);
            }

            const NAME: &std::ffi::CStr = match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => c"",
            };

            /// libc's own function.
            ///
            /// # Safety
            /// As libc documents.
            #[allow(dead_code, reason = "used where a hook goes on to libc by hand")]
            pub(crate) unsafe extern "C-unwind" fn real($($arg: $type),*) -> $answer {
                // SAFETY: the next definition of a libc name has the signature libc documents for it.
                let function: Function = unsafe { std::mem::transmute($crate::hook::next(&NEXT, NAME)) };
                // SAFETY: the arguments are those of this function's caller, who keeps the libc
                // function's contract.
                unsafe { function($($arg),*) }
            }

            /// The hook.
            ///
            /// # Safety
            /// As libc documents.
            pub(crate) unsafe extern "C-unwind" fn hook($($arg: $type),*) -> $answer {
                $crate::hook::point!([$($point)?] $($arg),*);
                let answer = $crate::hook::entered::<$answer>(
                    // SAFETY: the arguments are those of this function's caller, who keeps the libc
                    // function's contract.
                    || unsafe { real($($arg),*) },
                    || -> Result<$answer, $crate::outcome::Out> {
                        // SAFETY: the body uses the pointers as the libc function does, and the
                        // caller keeps its contract.
                        #[allow(unused_unsafe, reason = "not every hook has pointers")]
                        unsafe { $body }
                    },
                );
                match answer {
                    Some(answer) => answer,
                    // SAFETY: the arguments are those of this function's caller, who keeps the libc
                    // function's contract.
                    None => unsafe { real($($arg),*) },
                }
            }

            $crate::hook::by_number!([$($($number)+)?] ($($arg: $type),*) -> $answer, $body);

            /// # Safety
            /// As libc documents.
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name() { $crate::hook::entry!(real, hook) }
        }
    )* };
}
pub(crate) use hooks;

/// A hook's body for syscall(2).
macro_rules! by_number {
    ([] $($rest:tt)*) => {};
    ([old $number:ident] $($rest:tt)*) => {
        #[cfg(target_arch = "x86_64")]
        $crate::hook::by_number!([$number] $($rest)*);
    };
    ([$number:ident] ($($arg:ident : $type:ty),*) -> $answer:ty, $body:block) => {
        /// The hook for syscall(2).
        ///
        /// # Safety
        /// As libc documents.
        #[allow(unused_variables, reason = "not every body uses all arguments of its function")]
        pub(crate) unsafe fn by_number($($arg: $type),*) -> Result<$answer, $crate::outcome::Out> {
            /// The kernel's call.
            ///
            /// # Safety
            /// As libc documents.
            #[allow(dead_code, reason = "used where a hook goes on to libc by hand")]
            unsafe fn real($($arg: $type),*) -> $answer {
                // SAFETY: the arguments are those of this function's caller, who keeps the system
                // call's contract.
                unsafe { $crate::hook::kernel(libc::$number, &[$($arg as usize),*]) }
            }
            // SAFETY: the body uses the pointers as the libc function does, and the caller keeps
            // its contract.
            #[allow(unused_unsafe, reason = "not every hook has pointers")]
            unsafe { $body }
        }
    };
}
pub(crate) use by_number;
