//! Status flags of a program's descriptor, kept where they live as long as the description does: in the kernel's own flags
//! of the placeholder's open.
//!
//! A placeholder is a directory, so it is open for reading only, and the access mode the program asked for has to be kept
//! in flags that the kernel remembers and that mean nothing on an open directory: O_NOFOLLOW for writing, O_DIRECTORY
//! beside it for reading as well. O_DIRECT, which an open of a directory refuses, is kept as O_NOATIME, which F_SETFL can
//! change too. Those a directory has itself (O_APPEND, O_NONBLOCK, O_SYNC, O_DSYNC) are what they are.

use libc::c_int;

/// Flags that the placeholder's description has as the program's would.
const SAME: c_int = libc::O_APPEND | libc::O_NONBLOCK | libc::O_SYNC | libc::O_DSYNC | libc::O_LARGEFILE;
/// Flags of which F_SETFL changes the placeholder's as it would the program's.
const CHANGEABLE: c_int = libc::O_APPEND | libc::O_NONBLOCK;

/// open(2)'s flags for the placeholder, for those the program opens the file with.
pub(crate) const fn for_placeholder(flags: c_int) -> c_int {
    let mode = match flags & libc::O_ACCMODE {
        libc::O_RDONLY => 0,
        libc::O_WRONLY => libc::O_NOFOLLOW,
        libc::O_RDWR => libc::O_NOFOLLOW | libc::O_DIRECTORY,
        _ => libc::O_DIRECTORY, // neither, as Linux has it
    };
    mode | direct_as_noatime(flags) | flags & (SAME | libc::O_CLOEXEC)
}

/// F_GETFL's answer to the program, for the kernel's about the placeholder.
pub(crate) const fn for_program(kernel: c_int) -> c_int {
    let mode = match (kernel & libc::O_NOFOLLOW != 0, kernel & libc::O_DIRECTORY != 0) {
        (false, false) => libc::O_RDONLY,
        (true, false) => libc::O_WRONLY,
        (true, true) => libc::O_RDWR,
        (false, true) => libc::O_ACCMODE,
    };
    let direct = if kernel & libc::O_NOATIME != 0 { libc::O_DIRECT } else { 0 };
    mode | direct | kernel & (SAME | LARGEFILE)
}

/// F_SETFL's argument for the placeholder.
pub(crate) const fn to_set(flags: c_int) -> c_int {
    direct_as_noatime(flags) | flags & CHANGEABLE
}

/// The same for a placeholder that another user made: O_NOATIME is its owner's alone. O_DSYNC stands for O_DIRECT, which asks for the
/// same of a write.
pub(crate) const fn of_another_owner(placeholder: c_int) -> c_int {
    placeholder & !libc::O_NOATIME | libc::O_DSYNC
}

const fn direct_as_noatime(flags: c_int) -> c_int {
    if flags & libc::O_DIRECT != 0 { libc::O_NOATIME } else { 0 }
}

/// What F_GETFL shows of every file on 64-bit Linux, although libc's constant is 0 there.
#[cfg(target_arch = "x86_64")]
const LARGEFILE: c_int = 0o10_0000;
#[cfg(target_arch = "aarch64")]
const LARGEFILE: c_int = 0o40_0000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_access_mode_and_flag_comes_back() {
        for mode in [libc::O_RDONLY, libc::O_WRONLY, libc::O_RDWR, libc::O_ACCMODE] {
            for more in [0, libc::O_APPEND, libc::O_DIRECT, libc::O_SYNC, libc::O_DSYNC | libc::O_NONBLOCK] {
                assert_eq!(for_program(for_placeholder(mode | more)), mode | more);
            }
        }
    }

    #[test]
    fn flags_of_the_program_itself_never_reach_the_placeholder() {
        let meant_for_the_file =
            libc::O_NOFOLLOW | libc::O_DIRECTORY | libc::O_TRUNC | libc::O_CREAT | libc::O_EXCL | libc::O_NOATIME;
        assert_eq!(for_placeholder(libc::O_RDONLY | meant_for_the_file), 0);
        assert_eq!(to_set(libc::O_WRONLY | libc::O_SYNC | libc::O_NOATIME | libc::O_APPEND), libc::O_APPEND);
    }
}
