//! Intended differences between a local directory and a mount. They were written before the run:
//! any other difference is a fault.

/// Where the model itself acts like a kernel NFS mount, because a local file system is stricter or
/// less strict, and results that cannot be compared. The actor names the rule where it applies it.
#[expect(dead_code, reason = "a table for readers, applied by the actor")]
pub(crate) const MODEL_RULES: [(&str, &str); 6] = [
    (
        "alignment",
        "O_DIRECT needs no alignment on NFS: the local side opens without it, and F_GETFL is compared without it; so does FUSE open a directory",
    ),
    (
        "copies within a file",
        "sendfile and copy_file_range between descriptors of one file: what is seen depends on the kernel's pages",
    ),
    ("directory locks", "flock on a directory is refused under `millrace exec` (ENOLCK): no side tries it"),
    ("directory offsets", "the offset of a directory is a cookie of its file system: lseek on one is not compared"),
    (
        "end of file",
        "a stream that met it stays there (ISO C), but glibc reads on where as much as the buffer holds is wanted, of a file and not of a \
         cookie: the actor clears the mark first",
    ),
    ("stream buffers", "4096 bytes on both sides: st_blksize, from which libc takes the size, is the server's"),
];

/// Operations that a mount refuses (docs/compat/preload.md): the word of the step `refused`, the
/// error, the reason. These steps run on the mount only.
pub(crate) const REFUSED: [(&str, &str, &str); 4] = [
    ("fallocate", "EOPNOTSUPP", "NFSv3 cannot reserve space"),
    ("fsetxattr", "EOPNOTSUPP", "NFSv3 has no extended attributes"),
    ("tmpfile", "EOPNOTSUPP", "NFSv3 has no files without a name"),
    ("exchange", "EINVAL", "NFSv3's RENAME cannot exchange"),
];

/// Steps that processes on a FUSE mount leave out: the beginning of their text, and the reason
/// (docs/mount.md).
pub(crate) const NOT_BY_FUSE: [(&str, &str); 7] = [
    ("share", "the kernel maps pages of its own, which programs under `millrace exec` do not see before msync"),
    ("store", "the same"),
    ("look", "the same"),
    ("msync", "the same"),
    ("unshare", "the same"),
    ("pappend", "FUSE does not pass RWF_APPEND on: the kernel writes at the end that it knows of"),
    ("refused exchange", "the step exchanges a name with itself, for which the kernel asks no file system"),
];

/// After a kill, a filer has another write verifier. The COMMIT before a SETATTR then makes the
/// client resend uncommitted data, and the server gives the file a new modification time. So
/// `chmod` seems to change that time, as with a kernel client.
pub(crate) fn is_moved_by_a_resend(local: &str, mount: &str) -> bool {
    local.contains("mtime not later") && local.replacen("mtime not later", "mtime later", 1) == mount
}
