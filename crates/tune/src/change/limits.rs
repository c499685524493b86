//! Bounds of what a change reads and holds.

/// Bytes of a configuration file. The largest multipath.conf and fstab of big hosts are some hundred KiB.
pub(super) const FILE_BYTES_MAX: u64 = 4 << 20;
/// Bytes of a running value; `/proc/sys` gives at most a page.
pub(super) const VALUE_BYTES_MAX: u64 = 64 << 10;
/// Bytes of a journal: a line is below 4 KiB, a plan below some thousand lines.
pub(super) const JOURNAL_BYTES_MAX: u64 = 64 << 20;
/// Journals looked at in a state directory.
pub(super) const JOURNALS_MAX: u32 = 9_999;
/// Symbolic links followed on the way to one file; the kernel's own bound is 40.
pub(super) const LINKS_MAX: usize = 40;
/// Parts of a path.
pub(super) const PATH_PARTS_MAX: usize = 256;
/// Cells of the table that a difference is computed with; above it a block counts as replaced whole.
pub(super) const DIFF_CELLS_MAX: usize = 4 << 20;
/// Bytes of a key or a value that a rule gives.
pub(super) const SETTING_BYTES_MAX: usize = 4 << 10;
/// Processes looked at for open files; `pid_max` of a large host.
pub(super) const PROCESSES_MAX: usize = 4 << 20;
/// Bytes of one `/proc/PID/maps`. A database with many huge mappings has some MiB.
pub(super) const MAPS_BYTES_MAX: u64 = 64 << 20;
/// Files of one drop-in folder that are looked at for a later word on the same setting.
pub(super) const DROP_INS_MAX: usize = 1_000;

const _: () = assert!(VALUE_BYTES_MAX < FILE_BYTES_MAX && FILE_BYTES_MAX < JOURNAL_BYTES_MAX);
