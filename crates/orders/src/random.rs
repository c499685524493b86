//! Random draws of the load: NURand, customer names, strings (clauses 2.1.6, 4.3.2).

use rand::{Rng, RngCore, SeedableRng};
use rand_xoshiro::{SplitMix64, Xoshiro256PlusPlus};

/// Syllables of C_LAST, one per decimal digit (clause 4.3.2.3).
const SYLLABLES: [&str; 10] = ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
const ALPHANUMERIC: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
/// Distances between the run's C_LAST constant and the load's that are not allowed (clause 2.1.6.1).
const DISTANCES_BARRED: [u32; 2] = [96, 112];

/// Customers of a district.
pub const CUSTOMERS: u32 = 3_000;
/// Items of the catalogue.
pub const ITEMS: u32 = 100_000;
/// Districts of a warehouse.
pub const DISTRICTS: u32 = 10;

/// The constants C of NURand: one per field for all terminals of all runs on one database.
///
/// They are stored with the database, since the run's C_LAST constant must keep a distance from
/// the one the database was loaded with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NuRandConstants {
    /// For C_LAST while loading, 0 to 255.
    pub last_load: u32,
    /// For C_LAST in runs, 0 to 255.
    pub last_run: u32,
    /// For C_ID, 0 to 1023.
    pub customer: u32,
    /// For OL_I_ID, 0 to 8191.
    pub item: u32,
}

impl NuRandConstants {
    /// Draws constants that satisfy the distance rule between load and run.
    pub fn draw(rng: &mut Xoshiro256PlusPlus) -> Self {
        let last_load = rng.random_range(0..=255);
        let allowed: Vec<u32> = (0..=255).filter(|last_run| last_distance_allowed(last_load, *last_run)).collect();
        Self {
            last_load,
            // Never empty: every C has a partner 65 above or below it within 0..=255.
            last_run: allowed[rng.random_range(0..allowed.len())],
            customer: rng.random_range(0..=1023),
            item: rng.random_range(0..=8191),
        }
    }

    /// Whether the constants are in their ranges and satisfy the distance rule of clause 2.1.6.1.
    #[must_use]
    pub const fn are_valid(&self) -> bool {
        self.last_load <= 255
            && self.last_run <= 255
            && self.customer <= 1023
            && self.item <= 8191
            && last_distance_allowed(self.last_load, self.last_run)
    }

    /// C_ID, 1 to 3,000.
    pub fn customer_id(&self, rng: &mut Xoshiro256PlusPlus) -> u32 {
        nurand(rng, 1023, self.customer, 1, CUSTOMERS)
    }

    /// OL_I_ID, 1 to 100,000.
    pub fn item_id(&self, rng: &mut Xoshiro256PlusPlus) -> u32 {
        nurand(rng, 8191, self.item, 1, ITEMS)
    }

    /// The number that C_LAST is made from, in a run: 0 to 999.
    pub fn last_name_run(&self, rng: &mut Xoshiro256PlusPlus) -> u32 {
        nurand(rng, 255, self.last_run, 0, 999)
    }

    /// The number that C_LAST is made from, while loading: 0 to 999.
    pub fn last_name_load(&self, rng: &mut Xoshiro256PlusPlus) -> u32 {
        nurand(rng, 255, self.last_load, 0, 999)
    }
}

const fn last_distance_allowed(load: u32, run: u32) -> bool {
    let distance = load.abs_diff(run);
    65 <= distance && distance <= 119 && distance != DISTANCES_BARRED[0] && distance != DISTANCES_BARRED[1]
}

/// The non-uniform draw of clause 2.1.6: `(((0..=a | x..=y) + c) % (y - x + 1)) + x`.
pub fn nurand(rng: &mut Xoshiro256PlusPlus, a: u32, c: u32, x: u32, y: u32) -> u32 {
    debug_assert!(x <= y);
    (((rng.random_range(0..=a) | rng.random_range(x..=y)) + c) % (y - x + 1)) + x
}

/// C_LAST from a number 0 to 999: one syllable per digit.
#[must_use]
pub fn last_name(number: u32) -> String {
    debug_assert!(number < 1_000);
    let mut name = String::with_capacity(15);
    for digit in [number / 100 % 10, number / 10 % 10, number % 10] {
        name.push_str(SYLLABLES[digit as usize]);
    }
    name
}

/// A generator for one stream of a seeded load or run; streams of one seed do not overlap. The same seed loads the same data
/// in every version: the generator's output is part of its definition.
#[must_use]
pub fn stream(seed: u64, stream: u64) -> Xoshiro256PlusPlus {
    // Two rounds of SplitMix64, so that neighbouring seeds and streams share no bits.
    let round = |state: u64| SplitMix64::seed_from_u64(state).next_u64();
    Xoshiro256PlusPlus::seed_from_u64(round((seed ^ round(stream)).wrapping_sub(GAMMA)))
}

/// The increment of SplitMix64's state.
const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// Appends `length` random letters and digits.
pub fn push_alphanumeric(rng: &mut Xoshiro256PlusPlus, length: usize, out: &mut Vec<u8>) {
    let end = out.len() + length;
    while out.len() < end {
        // A byte times 62, shifted, picks a character with a bias under 2 %: this is filler.
        for byte in rng.next_u64().to_le_bytes() {
            if out.len() == end {
                break;
            }
            out.push(ALPHANUMERIC[(usize::from(byte) * ALPHANUMERIC.len()) >> 8]);
        }
    }
}

/// Appends `length` random decimal digits.
pub fn push_digits(rng: &mut Xoshiro256PlusPlus, length: usize, out: &mut Vec<u8>) {
    for _ in 0..length {
        out.push(b'0' + rng.random_range(0..10u8));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nurand_stays_in_its_range_and_reaches_both_ends() {
        let mut rng = stream(1, 0);
        for c in [0, 17, 255, 1023, 8191] {
            let (mut least, mut most) = (u32::MAX, 0);
            for _ in 0..200_000 {
                let value = nurand(&mut rng, 1023, c, 1, CUSTOMERS);
                least = least.min(value);
                most = most.max(value);
            }
            assert_eq!((least, most), (1, CUSTOMERS), "c = {c}");
        }
    }

    #[test]
    fn nurand_is_non_uniform_as_an_or_of_two_draws_is() {
        // (rand(0,255) | rand(0,999)): each of the low 8 bits is set with probability 3/4,
        // so the value before C is added is odd in 3 of 4 draws (1000 is even: parity survives).
        let mut rng = stream(2, 0);
        let draws = 200_000;
        let odd = (0..draws).filter(|_| nurand(&mut rng, 255, 0, 0, 999) % 2 == 1).count();
        let share = odd as f64 / f64::from(draws);
        assert!((share - 0.75).abs() < 0.01, "{share}");
        let shifted = (0..draws).filter(|_| nurand(&mut rng, 255, 1, 0, 999).is_multiple_of(2)).count();
        let share = shifted as f64 / f64::from(draws);
        assert!((share - 0.75).abs() < 0.01, "{share}");
    }

    #[test]
    fn constants_keep_the_distance_between_load_and_run() {
        for seed in 0..2_000 {
            let constants = NuRandConstants::draw(&mut stream(seed, 0));
            assert!(constants.are_valid(), "{constants:?}");
        }
        for (load, run, allowed) in
            [(0, 64, false), (0, 65, true), (0, 96, false), (0, 112, false), (200, 81, true), (200, 80, false)]
        {
            assert_eq!(last_distance_allowed(load, run), allowed, "{load} {run}");
        }
        for load in 0..=255 {
            assert!((0..=255).any(|run| last_distance_allowed(load, run)), "{load}");
        }
    }

    #[test]
    fn names_take_one_syllable_per_digit() {
        assert_eq!(last_name(0), "BARBARBAR");
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(999), "EINGEINGEING");
        let mut all: Vec<String> = (0..1_000).map(last_name).collect();
        assert!(all.iter().all(|name| name.len() <= 16));
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 1_000);
    }

    #[test]
    fn streams_of_one_seed_differ_and_repeat() {
        assert_eq!(stream(7, 3).next_u64(), stream(7, 3).next_u64());
        assert_ne!(stream(7, 3).next_u64(), stream(7, 4).next_u64());
        assert_ne!(stream(7, 3).next_u64(), stream(8, 3).next_u64());
    }

    #[test]
    fn a_seed_draws_the_same_numbers_in_every_version() {
        // Recorded from the generator that loads used before (rand 0.9's SmallRng on 64 bits).
        let mut rng = stream(7, 3);
        let drawn = (rng.next_u64(), rng.random_range(1..=3000u32), rng.random_range(0..10u8), rng.random_range(0..=255u32));
        assert_eq!(drawn, (7_207_717_222_744_711_834, 591, 8, 191));
    }

    #[test]
    fn strings_have_their_length_and_alphabet() {
        let mut rng = stream(3, 0);
        for length in [0, 1, 7, 8, 24, 500] {
            let mut out = Vec::new();
            push_alphanumeric(&mut rng, length, &mut out);
            assert_eq!(out.len(), length);
            assert!(out.iter().all(u8::is_ascii_alphanumeric));
        }
        let mut out = Vec::new();
        push_digits(&mut rng, 16, &mut out);
        assert!(out.len() == 16 && out.iter().all(u8::is_ascii_digit));
    }
}
