//! Bounds of everything that is read: a capture comes from strangers, and a live host may have odd files.

use std::time::Duration;

/// Bytes of one file or of one command's output. The largest that matter are package lists and `lsattr` of many disks,
/// which stay below 2 MiB; what is longer is cut, and the cut is remarked.
pub const FILE_BYTES_MAX: usize = 4 << 20;

/// Bytes kept of one capture, all files together. A host with 1,000 LUNs gives about 10 MiB.
pub const CAPTURE_BYTES_MAX: usize = 64 << 20;

/// Bytes an archive may unpack to, those that are skipped included: a support archive with its journals stays below.
pub const UNPACKED_BYTES_MAX: u64 = 2 << 30;

/// Unpacked bytes for each packed one. Text shrinks to a twentieth at best, logs to a hundredth; deflate ends at 1,032.
pub const UNPACK_RATIO_MAX: u64 = 300;

/// Unpacked bytes below which the ratio is not looked at: a folder of zeros is no bomb yet.
pub const UNPACK_RATIO_FREE_BYTES: u64 = 8 << 20;

/// Entries of an archive or a folder. Support archives have about 30,000.
pub const ENTRIES_MAX: usize = 200_000;

/// Files kept of one capture.
pub const FILES_MAX: usize = 50_000;

/// Files that the configuration of one database server may have, each as often as it is included. Real ones have a dozen.
pub const INCLUDED_FILES_MAX: usize = 20_000;

/// Depth of folders.
pub const DEPTH_MAX: usize = 24;

/// Bytes of a path inside a capture.
pub const PATH_BYTES_MAX: usize = 1024;

/// Bytes of a record that gives an entry of an archive a long name; more is no name.
pub const NAME_RECORD_BYTES_MAX: u64 = 8 << 10;

/// Such records before one entry. Each kind comes once at most; more is nonsense.
pub const NAME_RECORDS_MAX: usize = 8;

/// Lines of one text.
pub const LINES_MAX: usize = 100_000;

/// Bytes of one line; `lsblk -P` and package lists stay far below.
pub const LINE_BYTES_MAX: usize = 16 << 10;

/// Bytes looked at to tell text from binary.
pub const SNIFF_BYTES: usize = 4096;

/// Ports of a filer that are compared with each server. The largest heads have about 40.
pub const PORTS_MAX: usize = 256;

/// Routes that are compared with each server. A host with more is a router.
pub const ROUTES_MAX: usize = 4096;

/// Tablespaces of one server that are followed. Databases with hundreds of them are rare.
pub const TABLESPACES_MAX: usize = 1000;

/// Files of one folder of a live host (`/sys/block`, `/etc/sysctl.d`).
pub const LISTING_MAX: usize = 4096;

/// What one command may take. Together with running them side by side it keeps a collection below a second on a host
/// whose commands answer, and below three on one whose commands hang.
pub const COMMAND_TIME_MAX: Duration = Duration::from_millis(2500);

/// What a server's own program may take to say what it reads in its files.
pub const ASKED_TIME_MAX: Duration = Duration::from_secs(5);

/// Commands at a time.
pub const COMMANDS_AT_A_TIME: usize = 8;

/// Bytes kept of what a command says on its error output.
pub const ERROR_BYTES_MAX: usize = 2048;

const _: () = assert!(FILE_BYTES_MAX < CAPTURE_BYTES_MAX);
const _: () = assert!((CAPTURE_BYTES_MAX as u64) < UNPACKED_BYTES_MAX);
const _: () = assert!(FILES_MAX < ENTRIES_MAX);
