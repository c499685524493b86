//! The parameters of a medium, and the built-in profiles.

use std::fmt;

use crate::distribution::Distribution;

/// How long a spindle takes to reach a place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Service {
    /// Each operation takes a time of this distribution, for any place.
    Drawn {
        /// Mean, in milliseconds.
        mean_ms: f64,
        /// Shape.
        distribution: Distribution,
    },
    /// A disk: a seek, and half a turn on average. A read that continues where the last operation of the spindle ended
    /// needs neither. A write that continues there needs the turn.
    Disk {
        /// Mean seek of a read, in milliseconds.
        seek_ms: f64,
        /// Additional time for the seek of a write, because the head must settle better, in milliseconds.
        settle_ms: f64,
        /// One turn, in milliseconds.
        turn_ms: f64,
    },
}

impl Service {
    /// Mean time to reach a random place, in milliseconds.
    #[must_use]
    pub fn mean_ms(self) -> f64 {
        match self {
            Self::Drawn { mean_ms, .. } => mean_ms,
            Self::Disk { seek_ms, turn_ms, .. } => seek_ms + turn_ms / 2.0,
        }
    }
}

/// Which spindle has a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// The stripes of a file are on one spindle after the other. A read waits for the spindle that has the block.
    Striped,
    /// The spindle that is free first, as with the parallel units of a device that hides the places of blocks.
    Any,
}

/// Non-volatile memory, from which the medium acknowledges writes and flushes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Nvram {
    /// Size, in mebibytes. A write that does not fit waits until it does.
    pub size_mib: f64,
    /// Time until a write is acknowledged, in milliseconds.
    pub answer_ms: f64,
    /// Speed at which its content is written to the spindles, in mebibytes per second.
    pub drain_mib_s: f64,
}

/// The description of a medium.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Name of the profile in the description, or `custom` without one.
    pub name: &'static str,
    /// Spindles (disks, or parallel units of a device), each with a queue.
    pub spindles: usize,
    /// Time to reach a place.
    pub service: Service,
    /// Transfer rate of one spindle, in mebibytes per second. 0: transfers take no time.
    pub bandwidth_mib_s: f64,
    /// Size of a stripe, after which the next spindle follows, in kibibytes.
    pub stripe_kib: u32,
    /// Which spindle has a block.
    pub placement: Placement,
    /// Mean time of each operation outside the spindles (controller, network of the array), in milliseconds.
    pub overhead_ms: f64,
    /// Distribution of that time.
    pub overhead: Distribution,
    /// Share of reads that the medium's own cache serves, 0 to 1.
    pub cache_hit: f64,
    /// Time of such a read without the overhead, in milliseconds.
    pub cache_ms: f64,
    /// Non-volatile memory before the spindles.
    pub nvram: Option<Nvram>,
    /// How late the spindles may be with unstable writes before the model delays further ones, in milliseconds.
    pub write_behind_ms: f64,
    /// The seed of all random choices.
    pub seed: u64,
}

/// The values of a description without a profile.
const CUSTOM: Profile = Profile {
    name: "custom",
    spindles: 1,
    service: Service::Drawn { mean_ms: 0.0, distribution: Distribution::Constant },
    bandwidth_mib_s: 0.0,
    stripe_kib: 64,
    placement: Placement::Striped,
    overhead_ms: 0.0,
    overhead: Distribution::Constant,
    cache_hit: 0.0,
    cache_ms: 0.1,
    nvram: None,
    write_behind_ms: 1000.0,
    seed: 1,
};

/// The profiles by name. docs/media.md has the source of each figure.
pub const PROFILES: &[Profile] = &[
    Profile {
        name: "fc15k",
        spindles: 1,
        service: Service::Disk { seek_ms: 3.3, settle_ms: 0.5, turn_ms: 4.0 },
        bandwidth_mib_s: 100.0,
        ..CUSTOM
    },
    Profile {
        name: "fc10k",
        spindles: 1,
        service: Service::Disk { seek_ms: 4.7, settle_ms: 0.6, turn_ms: 6.0 },
        bandwidth_mib_s: 65.0,
        ..CUSTOM
    },
    Profile {
        name: "sata",
        spindles: 1,
        service: Service::Disk { seek_ms: 8.2, settle_ms: 0.8, turn_ms: 8.33 },
        bandwidth_mib_s: 90.0,
        ..CUSTOM
    },
    Profile {
        name: "nvme",
        spindles: 40,
        service: Service::Drawn { mean_ms: 0.080, distribution: Distribution::LogNormal { variation: 0.25 } },
        bandwidth_mib_s: 1600.0,
        placement: Placement::Any,
        nvram: Some(Nvram { size_mib: 64.0, answer_ms: 0.020, drain_mib_s: 150.0 }),
        ..CUSTOM
    },
    Profile { name: "nvram-array", ..ARRAY },
    Profile { name: "array-7.2.4", ..ARRAY },
    // All but one protocol of TR-3700 read a block 1 ms sooner with the later release on the same disks.
    Profile { name: "array-7.3", overhead_ms: ARRAY.overhead_ms - 1.0, ..ARRAY },
    Profile {
        name: "cloud",
        spindles: 1,
        // 3,000 operations and 125 MiB per second in any mix: one queue, 1/3000 s for each operation, and the transfer time.
        service: Service::Drawn { mean_ms: 1000.0 / 3000.0, distribution: Distribution::Constant },
        bandwidth_mib_s: 125.0,
        overhead_ms: 0.5,
        overhead: Distribution::LogNormal { variation: 0.5 },
        ..CUSTOM
    },
];

/// The array of TR-3700 (both controllers) under Data ONTAP 7.2.4: 2 × 80 disks of 15,000 rpm, 2 × 512 MiB NVRAM of which
/// half takes writes while the other half drains. The software's share is set so that a block read takes the 8 ms of its
/// figure 10 at a quarter of the spindles' rate.
const ARRAY: Profile = Profile {
    spindles: 160,
    service: Service::Disk { seek_ms: 3.3, settle_ms: 0.5, turn_ms: 4.0 },
    bandwidth_mib_s: 100.0,
    overhead_ms: 1.5,
    nvram: Some(Nvram { size_mib: 512.0, answer_ms: 0.3, drain_mib_s: 400.0 }),
    ..CUSTOM
};

impl Profile {
    /// The profile of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        PROFILES.iter().find(|profile| profile.name == name).cloned()
    }

    /// The medium of an empty description: one spindle that takes no time.
    #[must_use]
    pub const fn custom() -> Self {
        CUSTOM
    }
}

/// The medium with all its keys. [`Profile::parse`] returns the same medium for this text.
impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name != CUSTOM.name {
            write!(f, "{},", self.name)?;
        }
        write!(f, "spindles={}", self.spindles)?;
        match self.service {
            Service::Drawn { mean_ms, distribution } => {
                write!(f, ",service_ms={mean_ms}")?;
                shape(f, "distribution", "variation", distribution)?;
            }
            Service::Disk { seek_ms, settle_ms, turn_ms } => {
                write!(f, ",seek_ms={seek_ms},settle_ms={settle_ms},turn_ms={turn_ms}")?;
            }
        }
        let placement = if self.placement == Placement::Any { "any" } else { "striped" };
        write!(f, ",bandwidth_mib_s={},stripe_kib={},placement={placement}", self.bandwidth_mib_s, self.stripe_kib)?;
        write!(f, ",overhead_ms={}", self.overhead_ms)?;
        shape(f, "overhead_distribution", "overhead_variation", self.overhead)?;
        write!(f, ",cache_hit={},cache_ms={}", self.cache_hit, self.cache_ms)?;
        match self.nvram {
            None => write!(f, ",nvram=off")?,
            Some(nvram) => {
                let Nvram { size_mib, answer_ms, drain_mib_s } = nvram;
                write!(f, ",nvram=on,nvram_mib={size_mib},nvram_ms={answer_ms},nvram_drain_mib_s={drain_mib_s}")?;
            }
        }
        write!(f, ",write_behind_ms={},seed={}", self.write_behind_ms, self.seed)
    }
}

fn shape(f: &mut fmt::Formatter<'_>, key: &str, variation_key: &str, distribution: Distribution) -> fmt::Result {
    match distribution {
        Distribution::Constant => write!(f, ",{key}=constant"),
        Distribution::Uniform => write!(f, ",{key}=uniform"),
        Distribution::Exponential => write!(f, ",{key}=exponential"),
        Distribution::LogNormal { variation } => write!(f, ",{key}=lognormal,{variation_key}={variation}"),
    }
}
