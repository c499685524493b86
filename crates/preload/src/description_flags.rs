//! Status flags of a program's descriptor. They are stored in the kernel's flags of the
//! placeholder's open, where they live as long as the description.
//!
//! A placeholder is a directory, so it is open for reading only. The access mode that the program
//! requested is stored in flags that the kernel keeps and that have no effect on an open directory:
//! O_NOFOLLOW for writing, O_NOFOLLOW with O_DIRECTORY for reading and writing. O_DIRECT, which an
//! open of a directory refuses, is stored as O_NOATIME, which F_SETFL can also change. Flags that a
//! directory can have itself (O_APPEND, O_NONBLOCK, O_SYNC, O_DSYNC) are stored as they are.

use libc::c_int;

/// Flags that the placeholder's description has if the program's would have them.
const SAME: c_int = libc::O_APPEND | libc::O_NONBLOCK | libc::O_SYNC | libc::O_DSYNC | libc::O_LARGEFILE;
/// Flags that F_SETFL changes on the placeholder as on the program's file.
const CHANGEABLE: c_int = libc::O_APPEND | libc::O_NONBLOCK;

/// Converts the flags with which the program opens a file to those of the placeholder's open.
pub(crate) const fn for_placeholder(flags: c_int) -> c_int {
    let mode = match flags & libc::O_ACCMODE {
        libc::O_RDONLY => 0,
        libc::O_WRONLY => libc::O_NOFOLLOW,
        libc::O_RDWR => libc::O_NOFOLLOW | libc::O_DIRECTORY,
        _ => libc::O_DIRECTORY, // Linux: neither reading nor writing
    };
    mode | direct_as_noatime(flags) | flags & (SAME | libc::O_CLOEXEC)
}

/// Converts the kernel's flags of the placeholder to the program's answer of F_GETFL.
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

/// Converts the program's argument of F_SETFL to the one for the placeholder.
pub(crate) const fn to_set(flags: c_int) -> c_int {
    direct_as_noatime(flags) | flags & CHANGEABLE
}

/// The flags for a placeholder of another user, if the program requests O_DIRECT. Only the owner
/// may set O_NOATIME. O_DSYNC requires the same of a write as O_DIRECT.
pub(crate) const fn of_another_owner(placeholder: c_int) -> c_int {
    placeholder & !libc::O_NOATIME | libc::O_DSYNC
}

const fn direct_as_noatime(flags: c_int) -> c_int {
    if flags & libc::O_DIRECT != 0 { libc::O_NOATIME } else { 0 }
}

/// F_GETFL shows this flag for every file on 64-bit Linux, although libc's constant is 0 there.
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
