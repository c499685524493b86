//! Limits for everything that is read. A capture may come from anyone, and a live host may have
//! unusual files.

use std::time::Duration;

/// Bytes of one file or of the output of one command. The largest are package lists and `lsattr`
/// for many disks, which stay below 2 MiB. A longer text is cut, and a remark says so.
pub const FILE_BYTES_MAX: usize = 4 << 20;

/// Bytes that are kept of one capture, all files together. A host with 1,000 LUNs has about 10 MiB.
pub const CAPTURE_BYTES_MAX: usize = 64 << 20;

/// Bytes that an archive may unpack to, skipped entries included. A support archive with its
/// journals has less.
pub const UNPACKED_BYTES_MAX: u64 = 2 << 30;

/// Unpacked bytes per compressed byte. Text compresses by a factor of up to 20 and logs by up to
/// 100; the maximum of deflate is 1,032.
pub const UNPACK_RATIO_MAX: u64 = 300;

/// Up to this number of unpacked bytes, the ratio is not checked: a file of zeros may be small and
/// harmless.
pub const UNPACK_RATIO_FREE_BYTES: u64 = 8 << 20;

/// Entries of an archive or a folder. Support archives have about 30,000.
pub const ENTRIES_MAX: usize = 200_000;

/// Files that are kept of one capture.
pub const FILES_MAX: usize = 50_000;

/// Files that the configuration of one database server may include, each counted as often as it is
/// included. Usual configurations have a dozen.
pub const INCLUDED_FILES_MAX: usize = 20_000;

/// Depth of folders.
pub const DEPTH_MAX: usize = 24;

/// Bytes of a path inside a capture.
pub const PATH_BYTES_MAX: usize = 1024;

/// Bytes of a record that gives an entry of an archive a long name. A longer record is not a name.
pub const NAME_RECORD_BYTES_MAX: u64 = 8 << 10;

/// Such records before one entry. Each kind should come once at most.
pub const NAME_RECORDS_MAX: usize = 8;

/// Lines of one text.
pub const LINES_MAX: usize = 100_000;

/// Bytes of one line. Lines of `lsblk -P` and package lists are much shorter.
pub const LINE_BYTES_MAX: usize = 16 << 10;

/// Bytes that are inspected to distinguish text from binary files.
pub const SNIFF_BYTES: usize = 4096;

/// Ports of a filer that are compared with each server. The largest heads have about 40.
pub const PORTS_MAX: usize = 256;

/// Routes that are compared with each server. Only a router has more.
pub const ROUTES_MAX: usize = 4096;

/// Tablespaces of one server whose links are followed. Databases rarely have hundreds.
pub const TABLESPACES_MAX: usize = 1000;

/// Files of one folder of a live host (`/sys/block`, `/etc/sysctl.d`).
pub const LISTING_MAX: usize = 4096;

/// How long one command may run. Commands run in parallel, so a collection takes less than one
/// second if all commands answer, and less than three if some hang.
pub const COMMAND_TIME_MAX: Duration = Duration::from_millis(2500);

/// How long a server's program may run to print the values in its files.
pub const ASKED_TIME_MAX: Duration = Duration::from_secs(5);

/// Commands that run at the same time.
pub const COMMANDS_AT_A_TIME: usize = 8;

/// Bytes that are kept of a command's standard error.
pub const ERROR_BYTES_MAX: usize = 2048;

const _: () = assert!(FILE_BYTES_MAX < CAPTURE_BYTES_MAX);
const _: () = assert!((CAPTURE_BYTES_MAX as u64) < UNPACKED_BYTES_MAX);
const _: () = assert!(FILES_MAX < ENTRIES_MAX);
