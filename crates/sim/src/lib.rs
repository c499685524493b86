//! Support for tests, never shipped: seeded random numbers (the same seed gives the same run on
//! every machine), certificates of a test's own authority, and the lines of tests that did not run.
//!
//! A sweep prints the seed at which it failed. `MILLRACE_SEED=N cargo test …` runs that seed alone,
//! and `MILLRACE_SEEDS=N` sets the number of seeds of each sweep.
#![forbid(unsafe_code)]

pub mod authority;

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

/// Environment variable that replays one seed.
pub const SEED_VARIABLE: &str = "MILLRACE_SEED";
/// Environment variable that sets the number of seeds of each sweep.
pub const SEED_COUNT_VARIABLE: &str = "MILLRACE_SEEDS";

/// Random numbers (SplitMix64): small and quick, and the complete state is one number that can be printed.
#[derive(Debug, Clone)]
pub struct Rng(SplitMix64);

impl Rng {
    /// The random numbers of a seed.
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::seed_from_u64(seed))
    }

    /// The next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `count`; 0 if `count` is 0. The bias of the remainder is below 2^-40 for the
    /// counts of tests.
    pub fn below(&mut self, count: u64) -> u64 {
        if count == 0 { 0 } else { self.bits() % count }
    }

    /// An index below `count`.
    pub fn index(&mut self, count: usize) -> usize {
        self.below(count as u64) as usize
    }

    /// True in `one` of `of` cases.
    pub fn chance(&mut self, one: u64, of: u64) -> bool {
        self.below(of) < one
    }

    /// One of the items. `None` if there are no items.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.index(items.len()))
    }

    /// That many random bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(count + 8);
        while bytes.len() < count {
            bytes.extend_from_slice(&self.bits().to_le_bytes());
        }
        bytes.truncate(count);
        bytes
    }

    /// Makes another generator, so that one part of a test can draw more numbers without changing
    /// those of the others.
    pub fn fork(&mut self) -> Self {
        Self::new(self.bits())
    }
}

/// Runs a test for `count` seeds, or for the seed that the environment names. Prints the seed if
/// the test panics.
pub fn sweep(count: u64, mut test: impl FnMut(u64, Rng)) {
    for seed in seeds(count) {
        let guard = PrintSeed(seed);
        test(seed, Rng::new(seed));
        drop(guard);
    }
}

/// As [`sweep`], with a sixteenth of the seeds that the environment sets, for tests that write to the disk.
pub fn sweep_slow(count: u64, mut test: impl FnMut(u64, Rng)) {
    let all = seeds(count * 16);
    let few = if all.start() == all.end() { all } else { 1..=(all.end() / 16).max(count) };
    for seed in few {
        let guard = PrintSeed(seed);
        test(seed, Rng::new(seed));
        drop(guard);
    }
}

/// As [`sweep`], with several seeds at a time, for tests that wait more than they compute.
pub fn sweep_at_once(count: u64, lanes: usize, test: impl Fn(u64, Rng) + Sync) {
    let left = std::sync::Mutex::new(seeds(count));
    let next = || left.lock().ok().and_then(|mut left| left.next());
    std::thread::scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(|| {
                while let Some(seed) = next() {
                    let guard = PrintSeed(seed);
                    test(seed, Rng::new(seed));
                    drop(guard);
                }
            });
        }
    });
}

fn seeds(count: u64) -> std::ops::RangeInclusive<u64> {
    seeds_by(|name| std::env::var(name).ok().and_then(|text| text.parse().ok()), count)
}

fn seeds_by(number: impl Fn(&str) -> Option<u64>, count: u64) -> std::ops::RangeInclusive<u64> {
    match number(SEED_VARIABLE) {
        Some(seed) => seed..=seed,
        None => 1..=number(SEED_COUNT_VARIABLE).unwrap_or(count).max(1),
    }
}

/// Prints that a test, or a part of it, did not run because something that can be installed is
/// missing. The line is counted. Under CI, where everything must be installed, the test fails.
///
/// # Panics
/// If `CI` is set.
pub fn skip(reason: &str) {
    println!("SKIP: {reason}");
    assert!(std::env::var_os("CI").is_none(), "a peer is missing in CI: {reason}");
}

/// Prints that a test, or a part of it, did not run because of this host: its rights, kernel or
/// file system. The line is counted like the others, and the test does not fail under CI, because
/// no installation would help.
pub fn skip_unsupported(reason: &str) {
    println!("SKIP: this host: {reason}");
}

struct PrintSeed(u64);

impl Drop for PrintSeed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed at seed {0}: replay with {SEED_VARIABLE}={0}", self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_gives_same_numbers() {
        let (mut one, mut two) = (Rng::new(7), Rng::new(7));
        assert_eq!(one.bytes(33), two.bytes(33));
        assert_ne!(Rng::new(8).bits(), Rng::new(7).bits());
    }

    #[test]
    fn numbers_stay_below_their_bound() {
        let mut rng = Rng::new(1);
        assert!((0..1000).all(|_| rng.below(7) < 7));
        assert_eq!(rng.below(0), 0);
        assert_eq!(rng.pick::<u8>(&[]), None);
    }

    #[test]
    fn environment_chooses_one_seed_or_their_number() {
        let one = |name: &str| (name == SEED_VARIABLE).then_some(7);
        let many = |name: &str| (name == SEED_COUNT_VARIABLE).then_some(9);
        assert_eq!([seeds_by(one, 3), seeds_by(many, 3), seeds_by(|_| None, 3)], [7..=7, 1..=9, 1..=3]);
    }

    #[test]
    fn sweep_tries_each_seed_once() {
        // The environment may set other seeds; then each of those is tried once.
        let mut seen = Vec::new();
        sweep(3, |seed, _| seen.push(seed));
        assert_eq!(seen, seeds(3).collect::<Vec<_>>());
        let seen = std::sync::Mutex::new(Vec::new());
        sweep_at_once(5, 3, |seed, _| seen.lock().unwrap().push(seed));
        let mut seen = seen.into_inner().unwrap();
        seen.sort_unstable();
        assert_eq!(seen, seeds(5).collect::<Vec<_>>());
    }
}
