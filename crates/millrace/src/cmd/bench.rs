//! The parts that the NFS and iSCSI benchmarks share: load, offsets, latencies and printed text.

mod histogram;
mod meter;

pub(super) use meter::{Meter, Rates};

use super::values::{bytes, decimal, whole};
use crate::error_printing::refusal;
use clap::ValueEnum;
use media::Random;

/// Longest measured time and warm-up: a day.
const SECONDS_MAX: f64 = 86_400.0;
/// Seconds between two lines of progress on stderr.
const PROGRESS_S: f64 = 2.0;
/// Share of reads in a mixed load if the options name none.
const READ_PERCENT: u32 = 50;
/// Blocks that are sampled to find out whether anything was ever written.
const SAMPLES: u64 = 16;
/// From this number of passes over the used part on, a remark mentions caches.
const PASSES_NOTED: f64 = 2.0;

/// The order in which blocks are accessed, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Rw {
    Randread,
    Randwrite,
    Read,
    Write,
    /// Any block, reads and writes mixed
    Randrw,
    /// Block after block, reads and writes mixed
    #[value(name = "rw", alias = "readwrite")]
    ReadWrite,
}

impl Rw {
    /// Whether this pattern contains writes.
    pub(super) const fn is_write(self) -> bool {
        !matches!(self, Self::Randread | Self::Read)
    }

    /// Whether this pattern contains reads.
    pub(super) const fn is_read(self) -> bool {
        !matches!(self, Self::Randwrite | Self::Write)
    }

    /// Whether this pattern contains reads and writes.
    pub(super) const fn is_mixed(self) -> bool {
        matches!(self, Self::Randrw | Self::ReadWrite)
    }

    const fn is_random(self) -> bool {
        matches!(self, Self::Randread | Self::Randwrite | Self::Randrw)
    }

    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// The load of a benchmark.
#[derive(clap::Args)]
pub(super) struct Load {
    /// Access pattern
    #[arg(long, value_enum, default_value = "randread")]
    pub(super) rw: Rw,
    /// Share of reads in a mixed load, in percent [default: 50]
    #[arg(long, value_name = "PERCENT", value_parser = whole::<u8>("percent", 1..=99, 70))]
    rwmixread: Option<u8>,
    /// Block sizes: bytes of one call, such as 8k or 4k,8k,1MiB; each is measured with each depth
    #[arg(long, default_value = "8k", value_delimiter = ',', value_parser = bytes)]
    pub(super) bs: Vec<u64>,
    /// Calls in flight, 1 to 1024 (a mixed load over NFS: to 64), such as 1 or 1,4,16
    #[arg(long, default_value = "1", value_delimiter = ',', value_parser = whole::<u16>("calls", 1..=1024, 16))]
    pub(super) depth: Vec<u16>,
    /// Measured seconds of each combination
    #[arg(long, default_value_t = 5.0, value_parser = decimal("seconds", 0.001..=SECONDS_MAX, 5.0))]
    seconds: f64,
    /// Seconds of the same load before each combination, not measured
    #[arg(long, default_value_t = 0.0, value_parser = decimal("seconds", 0.0..=SECONDS_MAX, 5.0))]
    warmup: f64,
    /// Print one JSON object for each combination on stdout
    #[arg(long)]
    pub(super) json: bool,
}

impl Load {
    /// Refuses options that this load would ignore; `of_writes` are further options, with whether each was given.
    pub(super) fn check(&self, of_writes: &[(&str, bool)]) -> anyhow::Result<()> {
        if self.rwmixread.is_some() && !self.rw.is_mixed() {
            return Err(refusal("use --rwmixread with a load that is not mixed", "add --rw randrw or --rw rw, or leave it out"));
        }
        match of_writes.iter().find(|(_, is_given)| *is_given && !self.rw.is_write()) {
            Some((option, _)) => {
                Err(refusal(format!("use {option} with a load of reads alone"), "add a --rw that writes, or leave it out"))
            }
            None => Ok(()),
        }
    }

    /// The sequence of reads and writes of this load.
    pub(super) const fn mix(&self) -> Mix {
        let read_percent = match self.rw {
            Rw::Randread | Rw::Read => 100,
            Rw::Randwrite | Rw::Write => 0,
            Rw::Randrw | Rw::ReadWrite => match self.rwmixread {
                Some(percent) => percent as u32,
                None => READ_PERCENT,
            },
        };
        Mix { read_percent, owed: 0 }
    }
}

/// Chooses reads and writes in their shares, evenly spread.
pub(super) struct Mix {
    read_percent: u32,
    owed: u32,
}

impl Mix {
    pub(super) const fn next_is_read(&mut self) -> bool {
        self.owed += self.read_percent;
        let is_read = self.owed >= 100;
        if is_read {
            self.owed -= 100;
        }
        is_read
    }
}

/// The name of an option's value.
pub(super) fn lower_case(value: &dyn std::fmt::Debug) -> String {
    format!("{value:?}").to_lowercase()
}

/// Bytes that are not all zero.
pub(super) fn pattern(bytes: u64) -> Vec<u8> {
    (0..bytes).map(|byte| ((byte * 31) >> 3) as u8).collect()
}

/// Whether sampled blocks, spread evenly over all blocks, hold only zeros, as blocks do that were
/// never written. `read` returns the block at an offset.
pub(super) fn holds_zeros<E>(blocks: u64, block_bytes: u64, mut read: impl FnMut(u64) -> Result<Vec<u8>, E>) -> Result<bool, E> {
    let samples = SAMPLES.min(blocks);
    for sample in 0..samples {
        if read(blocks * sample / samples * block_bytes)?.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Remarks that qualify the rates. `zeros`: the samples hold only zeros. `passes`: the number of
/// times that the used part was read.
pub(super) fn remarks(what: &str, zeros: bool, passes: f64) -> Vec<String> {
    let mut lines = Vec::new();
    if zeros {
        lines.push(format!("{what} holds only zeros where it was sampled: such reads need no disk; write to it first"));
    }
    if passes >= PASSES_NOTED {
        lines.push(format!(
            "the used part was read {passes:.0} times: caches of the server may have answered most reads; use a part larger than its \
             memory (--size)"
        ));
    }
    lines
}

/// The offsets of calls: sequential or random blocks.
pub(super) struct Offsets {
    /// `None` for sequential access.
    random: Option<Random>,
    next: u64,
    blocks: u64,
    block_bytes: u64,
}

impl Offsets {
    pub(super) fn new(rw: Rw, blocks: u64, block_bytes: u64) -> Self {
        Self::of_thread(rw, blocks, block_bytes, 0)
    }

    /// Offsets for one of several threads. Each thread has another seed and first block; both are
    /// the same in every run, so runs can be compared.
    pub(super) fn of_thread(rw: Rw, blocks: u64, block_bytes: u64, thread: u64) -> Self {
        Self { random: rw.is_random().then(|| Random::new(thread)), next: thread * 1_024, blocks, block_bytes }
    }

    pub(super) fn next(&mut self) -> u64 {
        let block = self.random.as_mut().map_or(self.next, Random::bits);
        self.next += 1;
        block % self.blocks * self.block_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Args as _;

    #[test]
    fn options_that_a_load_would_ignore_are_refused() {
        let checked = |arguments: &[&str], of_writes: &[(&str, bool)]| {
            let command = Load::augment_args(clap::Command::new("bench").no_binary_name(true));
            let matches = command.try_get_matches_from(arguments).unwrap();
            let load = <Load as clap::FromArgMatches>::from_arg_matches(&matches).unwrap();
            load.check(of_writes).map_err(|error| error.to_string())
        };
        let mixed = |rw| checked(&["--rw", rw, "--rwmixread", "70"], &[]);
        assert!(mixed("randread").unwrap_err().contains("--rwmixread") && mixed("write").is_err());
        assert_eq!((mixed("randrw"), mixed("rw")), (Ok(()), Ok(())));
        let flushed = |rw| checked(&["--rw", rw], &[("--fua", true)]);
        assert!(flushed("read").unwrap_err().contains("--fua"));
        assert_eq!((flushed("randwrite"), flushed("randrw")), (Ok(()), Ok(())));
        assert_eq!(checked(&[], &[("--fua", false)]), Ok(()));
    }

    #[test]
    fn a_mix_has_its_share_of_reads_evenly_spread() {
        let mut mix = Mix { read_percent: 70, owed: 0 };
        let calls: Vec<bool> = (0..100).map(|_| mix.next_is_read()).collect();
        assert_eq!(calls.iter().filter(|is_read| **is_read).count(), 70);
        assert!(calls.chunks(10).all(|ten| ten.iter().filter(|is_read| **is_read).count() == 7), "{calls:?}");
        let mut only = Mix { read_percent: 0, owed: 0 };
        assert!((0..10).all(|_| !only.next_is_read()));
    }

    #[test]
    fn zeros_are_found_and_named_and_so_are_caches() {
        let zeros = |first: u8| holds_zeros(100, 8, |offset| Ok::<_, ()>(vec![if offset == 0 { first } else { 0 }; 8])).unwrap();
        assert!(zeros(0) && !zeros(1));
        assert!(remarks("the LUN", false, 1.5).is_empty());
        let both = remarks("the LUN", true, 12.2);
        assert!(both[0].starts_with("the LUN holds only zeros") && both[1].contains("was read 12 times"), "{both:?}");
    }
}
