//! Limits for what a change reads and holds.

/// Bytes of a configuration file. The largest multipath.conf and fstab of large hosts have some
/// hundred KiB.
pub(super) const FILE_BYTES_MAX: u64 = 4 << 20;
/// Bytes of a running value. `/proc/sys` returns at most a page, and the largest page is 64 KiB.
pub(super) const VALUE_BYTES_MAX: u64 = 64 << 10;
/// Bytes of a journal. A line has a few KiB, and a plan has fewer than some thousand lines.
pub(super) const JOURNAL_BYTES_MAX: u64 = 64 << 20;
/// Journals in a state directory: one for each apply, four digits of their names. Tests do not make as many.
pub(super) const JOURNALS_MAX: u32 = if cfg!(test) { 99 } else { 9_999 };
/// Symbolic links followed on the way to one file. The kernel's limit is 40 too
/// (path_resolution(7)).
pub(super) const LINKS_MAX: usize = 40;
/// Parts of a path.
pub(super) const PATH_PARTS_MAX: usize = 256;
/// Cells of the table that computes a difference. A larger block counts as completely replaced.
pub(super) const DIFF_CELLS_MAX: usize = 4 << 20;
/// Bytes of a key or value of a rule.
pub(super) const SETTING_BYTES_MAX: usize = 4 << 10;
/// Processes inspected for open files: the kernel's largest `pid_max` (proc(5)).
pub(super) const PROCESSES_MAX: usize = 4 << 20;
/// Bytes of one `/proc/PID/maps`. A database with many mappings has some MiB.
pub(super) const MAPS_BYTES_MAX: u64 = 64 << 20;
/// Files of one drop-in folder that are searched for a later line with the same setting.
pub(super) const DROP_INS_MAX: usize = 1_000;

const _: () = assert!(VALUE_BYTES_MAX < FILE_BYTES_MAX && FILE_BYTES_MAX < JOURNAL_BYTES_MAX);
