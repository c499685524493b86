//! Options of a mount, for the report of its counters.

use dnfs::Options;
use serde::Serialize;

/// The options of a mount, by their names in the URL.
#[derive(Serialize)]
pub(crate) struct OptionsReport {
    close: &'static str,
    gather: bool,
    /// The value of the URL. `retained_bytes_max` is what the mount may keep.
    retain_bytes: u64,
    gone: &'static str,
    stable: &'static str,
    xprtsec: &'static str,
    fence_ms: u64,
    hard: bool,
    noac: bool,
    owner: &'static str,
    slots: Option<usize>,
    split_bytes: Option<u32>,
    writers: &'static str,
}

impl OptionsReport {
    pub(super) fn of(options: &Options) -> Self {
        Self {
            close: options.close.name(),
            gather: options.gather,
            retain_bytes: options.retain_bytes,
            gone: options.gone.name(),
            stable: options.stable.name(),
            xprtsec: options.security.name(),
            fence_ms: u64::try_from(options.fence.as_millis()).unwrap_or(u64::MAX),
            hard: !options.soft,
            noac: options.no_attribute_cache,
            owner: if options.single_owner { "single" } else { "many" },
            slots: options.slot_count,
            split_bytes: options.split_bytes,
            writers: if options.one_writer { "one" } else { "many" },
        }
    }
}
