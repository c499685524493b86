//! Limits of what a peer may send, each with its reason.

/// Largest payload or count of a READ or WRITE, in bytes. RFC 1813 lets a server choose it (FSINFO). The Linux client and
/// libnfs use at most 1 MiB by default.
pub const TRANSFER_BYTES_MAX: u32 = 1 << 20;
/// Largest RPC record accepted, in bytes: one transfer, and space for the headers of a call.
pub const RECORD_BYTES_MAX: usize = TRANSFER_BYTES_MAX as usize + 4096;
/// Most fragments of one record. A peer that sends more does not speak RPC.
pub const FRAGMENTS_MAX: usize = 64;
/// Largest file handle, in bytes (RFC 1813 2.4, NFS3_FHSIZE).
pub const HANDLE_BYTES_MAX: usize = 64;
/// Longest file name that is decoded, in bytes. It is longer than any file system allows (255), so that the server returns
/// NFS3ERR_NAMETOOLONG and not a decoding error.
pub const NAME_BYTES_MAX: usize = 4096;
/// Longest path in a symbolic link or a MNT call, in bytes (RFC 1813 appendix I, MNTPATHLEN is 1024; Linux PATH_MAX 4096).
pub const PATH_BYTES_MAX: usize = 4096;
/// Largest authentication body, in bytes (RFC 5531 8.2).
pub const AUTH_BYTES_MAX: usize = 400;
/// Longest machine name in AUTH_SYS, in bytes (RFC 5531 appendix A).
pub const MACHINE_NAME_BYTES_MAX: usize = 255;
/// Most supplementary groups in AUTH_SYS (RFC 5531 appendix A).
pub const GROUPS_MAX: usize = 16;

const _: () = assert!(RECORD_BYTES_MAX > TRANSFER_BYTES_MAX as usize + AUTH_BYTES_MAX * 2 + HANDLE_BYTES_MAX);
const _: () = assert!(RECORD_BYTES_MAX < 1 << 31);
