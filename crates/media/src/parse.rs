//! Parses the text of a medium: the name of a profile, keys with values, or both: `fc15k,spindles=80,nvram=on`.

use strsim::levenshtein;

use crate::distribution::Distribution;
use crate::limits::{SPEC_BYTES_MAX, SPINDLES_MAX, TIME_MS_MAX};
use crate::profile::{Nvram, PROFILES, Placement, Profile, Service};

/// Why a text does not describe a medium.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SpecError {
    /// It is empty.
    #[error("the medium is empty")]
    Empty,
    /// It is longer than the limit.
    #[error("the medium has {0} bytes; the limit is {SPEC_BYTES_MAX}")]
    TooLong(usize),
    /// Its first word is neither a profile nor `key=value`.
    #[error("no medium profile is named {0:?}")]
    Profile(String),
    /// A later word has no `=`.
    #[error("{0:?} is not of the form key=value")]
    NoValue(String),
    /// An unknown key.
    #[error("unknown key {0:?}")]
    Key(String),
    /// A key that an earlier word has.
    #[error("{0} is given twice")]
    Twice(String),
    /// A value is out of range or of the wrong kind.
    #[error("{key}={value}: {wanted}")]
    Value {
        /// The key.
        key: String,
        /// The value as given.
        value: String,
        /// The valid values.
        wanted: String,
    },
    /// A key that does not apply to this medium.
    #[error("{key} has no meaning {because}")]
    Meaningless {
        /// The key.
        key: String,
        /// The reason.
        because: &'static str,
    },
}

impl SpecError {
    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        let names = || PROFILES.iter().map(|profile| profile.name).collect::<Vec<_>>();
        match self {
            Self::Profile(word) => match nearest(word, &names()) {
                Some(name) => format!("did you mean {name}? profiles are {}", names().join(", ")),
                None => format!("profiles are {}; or describe it: spindles=80,service_ms=8", names().join(", ")),
            },
            Self::Key(word) => match nearest(word, KEYS) {
                Some(key) => format!("did you mean {key}? keys are {}", KEYS.join(", ")),
                None => format!("keys are {}", KEYS.join(", ")),
            },
            Self::Twice(key) => format!("write {key} once, with the value that you mean"),
            _ => "as in: fc15k,spindles=80,nvram=on or spindles=80,service_ms=8,cache_hit=0.2,seed=1".to_owned(),
        }
    }
}

const KEYS: &[&str] = &[
    "spindles",
    "service_ms",
    "distribution",
    "variation",
    "seek_ms",
    "settle_ms",
    "turn_ms",
    "bandwidth_mib_s",
    "stripe_kib",
    "placement",
    "overhead_ms",
    "overhead_distribution",
    "overhead_variation",
    "cache_hit",
    "cache_ms",
    "nvram",
    "nvram_mib",
    "nvram_ms",
    "nvram_drain_mib_s",
    "write_behind_ms",
    "seed",
];

/// The NVRAM that `nvram=on` adds to a medium without NVRAM: that of `nvram-array`.
const NVRAM: Nvram = Nvram { size_mib: 512.0, answer_ms: 0.3, drain_mib_s: 400.0 };
/// The default variation of `lognormal`.
const VARIATION: f64 = 0.5;

impl Profile {
    /// Parses a medium: `PROFILE`, `PROFILE,key=value,…` or `key=value,…`. Blanks around words are ignored. A key
    /// overrides what the profile has.
    ///
    /// # Errors
    /// [`SpecError`] for the first word that is not valid, with a [hint](SpecError::hint).
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        if text.len() > SPEC_BYTES_MAX {
            return Err(SpecError::TooLong(text.len()));
        }
        let mut words = text.split(',').map(str::trim).filter(|word| !word.is_empty()).peekable();
        let first = words.peek().ok_or(SpecError::Empty)?;
        let mut profile = if first.contains('=') {
            Self::custom()
        } else {
            let named = Self::named(first).ok_or_else(|| SpecError::Profile((*first).to_owned()))?;
            words.next();
            named
        };
        let mut given = Vec::new();
        for word in words {
            let (key, value) = word.split_once('=').ok_or_else(|| SpecError::NoValue(word.to_owned()))?;
            let key = key.trim();
            if given.contains(&key) {
                return Err(SpecError::Twice(key.to_owned()));
            }
            given.push(key);
            profile.set(&Setting { key, value: value.trim() })?;
        }
        Ok(profile)
    }

    fn set(&mut self, setting: &Setting<'_>) -> Result<(), SpecError> {
        match setting.key {
            "spindles" => self.spindles = setting.whole(1, SPINDLES_MAX as u64)? as usize,
            "service_ms" | "distribution" | "variation" | "seek_ms" | "settle_ms" | "turn_ms" => self.set_service(setting)?,
            "bandwidth_mib_s" => self.bandwidth_mib_s = setting.number(0.0, 1e6)?,
            "stripe_kib" => self.stripe_kib = setting.whole(4, 1 << 20)? as u32,
            "placement" => {
                self.placement = setting.one_of(&[("striped", Placement::Striped), ("any", Placement::Any)])?;
            }
            "overhead_ms" => self.overhead_ms = setting.time()?,
            "overhead_distribution" => self.overhead = setting.distribution()?,
            "overhead_variation" => self.overhead = setting.variation(self.overhead)?,
            "cache_hit" => self.cache_hit = setting.number(0.0, 1.0)?,
            "cache_ms" => self.cache_ms = setting.time()?,
            "nvram" | "nvram_mib" | "nvram_ms" | "nvram_drain_mib_s" => self.set_nvram(setting)?,
            "write_behind_ms" => self.write_behind_ms = setting.time()?,
            "seed" => self.seed = setting.whole(0, u64::MAX)?,
            unknown => return Err(SpecError::Key(unknown.to_owned())),
        }
        Ok(())
    }

    fn set_service(&mut self, setting: &Setting<'_>) -> Result<(), SpecError> {
        let of_disks = matches!(setting.key, "seek_ms" | "settle_ms" | "turn_ms");
        // A time of the other kind changes the kind of the medium.
        match (&self.service, setting.key) {
            (Service::Disk { .. }, "service_ms") => {
                self.service = Service::Drawn { mean_ms: 0.0, distribution: Distribution::Constant };
            }
            (Service::Drawn { .. }, _) if of_disks => {
                self.service = Service::Disk { seek_ms: 0.0, settle_ms: 0.0, turn_ms: 0.0 };
            }
            _ => {}
        }
        match (&mut self.service, setting.key) {
            (Service::Drawn { mean_ms, .. }, "service_ms") => *mean_ms = setting.time()?,
            (Service::Drawn { distribution, .. }, "distribution") => *distribution = setting.distribution()?,
            (Service::Drawn { distribution, .. }, "variation") => *distribution = setting.variation(*distribution)?,
            (Service::Disk { seek_ms, .. }, "seek_ms") => *seek_ms = setting.time()?,
            (Service::Disk { settle_ms, .. }, "settle_ms") => *settle_ms = setting.time()?,
            (Service::Disk { turn_ms, .. }, "turn_ms") => *turn_ms = setting.time()?,
            _ => return Err(setting.meaningless("for a disk with seeks; give service_ms first")),
        }
        Ok(())
    }

    fn set_nvram(&mut self, setting: &Setting<'_>) -> Result<(), SpecError> {
        if setting.key == "nvram" {
            let on = setting.one_of(&[("on", true), ("off", false)])?;
            self.nvram = on.then(|| self.nvram.unwrap_or(NVRAM));
            return Ok(());
        }
        let nvram = self.nvram.as_mut().ok_or_else(|| setting.meaningless("without NVRAM; give nvram=on first"))?;
        match setting.key {
            "nvram_mib" => nvram.size_mib = setting.number(0.0625, 1e6)?,
            "nvram_ms" => nvram.answer_ms = setting.time()?,
            _ => nvram.drain_mib_s = setting.number(0.01, 1e6)?,
        }
        Ok(())
    }
}

struct Setting<'a> {
    key: &'a str,
    value: &'a str,
}

impl Setting<'_> {
    fn number(&self, least: f64, most: f64) -> Result<f64, SpecError> {
        let found = self.value.parse::<f64>().ok().filter(|value| value.is_finite() && (least..=most).contains(value));
        found.ok_or_else(|| self.refused(format!("has to be a number from {least} to {most}")))
    }

    fn time(&self) -> Result<f64, SpecError> {
        self.number(0.0, TIME_MS_MAX)
    }

    fn whole(&self, least: u64, most: u64) -> Result<u64, SpecError> {
        let found = self.value.parse().ok().filter(|value| (least..=most).contains(value));
        found.ok_or_else(|| self.refused(format!("has to be a whole number from {least} to {most}")))
    }

    fn one_of<T: Copy>(&self, choices: &[(&str, T)]) -> Result<T, SpecError> {
        let found = choices.iter().find(|(name, _)| *name == self.value).map(|(_, choice)| *choice);
        let names = || choices.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        found.ok_or_else(|| self.refused(format!("has to be one of {}", names())))
    }

    fn distribution(&self) -> Result<Distribution, SpecError> {
        self.one_of(&[
            ("constant", Distribution::Constant),
            ("uniform", Distribution::Uniform),
            ("exponential", Distribution::Exponential),
            ("lognormal", Distribution::LogNormal { variation: VARIATION }),
        ])
    }

    fn variation(&self, of: Distribution) -> Result<Distribution, SpecError> {
        match of {
            Distribution::LogNormal { .. } => Ok(Distribution::LogNormal { variation: self.number(0.0, 10.0)? }),
            _ => Err(self.meaningless("but for lognormal; give that distribution first")),
        }
    }

    fn refused(&self, wanted: String) -> SpecError {
        SpecError::Value { key: self.key.to_owned(), value: self.value.to_owned(), wanted }
    }

    fn meaningless(&self, because: &'static str) -> SpecError {
        SpecError::Meaningless { key: self.key.to_owned(), because }
    }
}

/// The known word that was most likely meant: one that begins with `word`, or that differs by at most two letters.
fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    const WRONG_MAX: usize = 2;
    let begins = known.iter().find(|name| word.len() >= 3 && name.starts_with(word));
    let close = || known.iter().min_by_key(|name| levenshtein(word, name)).filter(|name| levenshtein(word, name) <= WRONG_MAX);
    begins.or_else(close).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_a_description_and_both_are_read() {
        assert_eq!(Profile::parse("fc15k").unwrap().name, "fc15k");
        let contract = Profile::parse("spindles=80,service_ms=8,cache_hit=0.2,nvram=on,seed=1").unwrap();
        assert_eq!(contract.spindles, 80);
        assert_eq!(contract.service, Service::Drawn { mean_ms: 8.0, distribution: Distribution::Constant });
        assert_eq!((contract.cache_hit, contract.nvram, contract.seed), (0.2, Some(NVRAM), 1));
        let both = Profile::parse(" fc15k , spindles=80, nvram=on,nvram_mib=32 ").unwrap();
        assert_eq!((both.spindles, both.nvram.unwrap().size_mib), (80, 32.0));
        assert!(matches!(both.service, Service::Disk { .. }));
    }

    #[test]
    fn every_profile_written_out_is_read_back_the_same() {
        for profile in PROFILES {
            assert_eq!(Profile::parse(&profile.to_string()).as_ref(), Ok(profile), "{profile}");
        }
        let custom = Profile::parse("service_ms=2,distribution=lognormal,variation=0.7,placement=any,seed=9").unwrap();
        assert_eq!(Profile::parse(&custom.to_string()), Ok(custom));
    }

    #[test]
    fn what_makes_no_sense_is_named_with_what_would() {
        let says = |text: &str| {
            let error = Profile::parse(text).unwrap_err();
            format!("{error} | {}", error.hint())
        };
        assert!(says("").contains("empty"));
        assert!(says("fc15").contains("did you mean fc15k"), "{}", says("fc15"));
        assert!(says("nvem").contains("did you mean nvme"));
        assert!(says("spindels=8").contains("did you mean spindles"));
        assert!(says("fc15k,spindles=8,spindles=80").contains("spindles is given twice | write spindles once"));
        assert!(says("spindles=0").contains("from 1 to 4096"));
        assert!(says("cache_hit=1.5").contains("from 0 to 1"));
        assert!(says("service_ms=nan").contains("has to be a number"));
        assert!(says("fc15k,80").contains("key=value"));
        assert!(says("nvram=yes").contains("one of on, off"));
        assert!(says("nvram_mib=3").contains("nvram=on first"));
        assert!(says("fc15k,distribution=constant").contains("service_ms first"));
        assert!(says("service_ms=1,variation=1").contains("lognormal"));
        assert!(says(&"x".repeat(2000)).contains("2000 bytes"));
    }

    #[test]
    fn service_ms_turns_a_disk_into_a_medium_without_seeks() {
        let profile = Profile::parse("fc15k,service_ms=8").unwrap();
        assert_eq!(profile.service.mean_ms(), 8.0);
        assert!(matches!(profile.service, Service::Drawn { .. }));
    }
}
