//! What a fault is, and how it is written.
//!
//! A fault has a kind, a choice of what it applies to, and a seed from which all chance follows. It is written as JSON (admin
//! socket), or as text: `eio,on=write,path=base/5/1259,rate=0.01,seed=7`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Longest time a fault may make something wait: a longer one is an outage, which a stopped filer gives.
pub const FAULT_DELAY_MS_MAX: f64 = 60_000.0;
/// Longest text of a fault, in bytes: all keys with a path of PATH_MAX.
pub const FAULT_TEXT_BYTES_MAX: usize = 8192;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// The operation fails with EIO and does nothing; a flush that fails so poisons the volume.
    Eio,
    /// The store says it is full.
    Enospc,
    /// Some of the 512-byte sectors of a write reach the file, some do not; then it fails, or, `silent`, claims success.
    TornWrite,
    /// One bit of what is read is wrong; the file is not changed.
    BitFlip,
    /// A flush takes `delay_ms` longer.
    SlowFlush,
    /// A call waits for `delay_ms` before it is carried out, and those behind it on its connection with it.
    Slow,
    /// The call is lost: not carried out, not answered.
    DropCall,
    /// The call is carried out, its answer lost.
    DropReply,
    /// The call is carried out at once, its answer leaves `delay_ms` later.
    DelayReply,
    /// The answer is sent twice.
    DuplicateReply,
    /// The connection is reset instead of carrying the call out.
    ResetCall,
    /// The connection is reset instead of answering a call that was carried out.
    ResetReply,
}

impl FaultKind {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Eio,
        Self::Enospc,
        Self::TornWrite,
        Self::BitFlip,
        Self::SlowFlush,
        Self::Slow,
        Self::DropCall,
        Self::DropReply,
        Self::DelayReply,
        Self::DuplicateReply,
        Self::ResetCall,
        Self::ResetReply,
    ];

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Eio => "eio",
            Self::Enospc => "enospc",
            Self::TornWrite => "torn-write",
            Self::BitFlip => "bit-flip",
            Self::SlowFlush => "slow-flush",
            Self::Slow => "slow",
            Self::DropCall => "drop-call",
            Self::DropReply => "drop-reply",
            Self::DelayReply => "delay-reply",
            Self::DuplicateReply => "duplicate-reply",
            Self::ResetCall => "reset-call",
            Self::ResetReply => "reset-reply",
        }
    }

    /// What of a store it may affect, the usual choice; none for a fault of the wire, which affects procedures.
    #[must_use]
    pub const fn applies_to(self) -> &'static [&'static str] {
        match self {
            Self::Eio => &["read", "write", "flush", "change"],
            Self::Enospc => &["write", "change", "flush"],
            Self::TornWrite => &["write"],
            Self::BitFlip => &["read"],
            Self::SlowFlush => &["flush"],
            _ => &[],
        }
    }

    /// Whether it affects calls and answers rather than the store.
    #[must_use]
    pub const fn is_of_the_wire(self) -> bool {
        self.applies_to().is_empty()
    }

    /// Whether it makes something wait.
    #[must_use]
    pub const fn waits(self) -> bool {
        matches!(self, Self::SlowFlush | Self::Slow | Self::DelayReply)
    }
}

/// A fault to be set: what, on what, how often.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultSpec {
    /// What goes wrong.
    pub kind: FaultKind,
    /// Of a store: `read`, `write`, `flush`, `change` (of names or attributes). Of the wire: procedures, `READ`, `COMMIT`.
    /// Empty: all that the kind can affect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on: Vec<String>,
    /// Only this file or directory, by its path in the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The same by its file id (inode number).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<u64>,
    /// Only reads and writes that touch bytes from here.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub offset: u64,
    /// So many of them; to the end of the file unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<u64>,
    /// Share of the matching operations that are affected, above 0, at most 1.
    #[serde(default = "always")]
    pub rate: f64,
    /// Matching operations that are left alone first.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub after: u64,
    /// Injections at the most; no end unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// What all chance follows from.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub seed: u64,
    /// How long it waits, for kinds that do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<f64>,
    /// A torn write claims success, as a lying disk does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub silent: bool,
}

/// Why a text or a record is no fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    /// Its first word is no kind.
    #[error("{0:?} is not a kind of fault; known are {known}", known = names(&FaultKind::ALL.map(FaultKind::name)))]
    Kind(String),
    /// A word behind the kind that is not a `key=value`, or of an unknown key.
    #[error("unknown key {0:?}; keys are {known}", known = names(KEYS))]
    Key(String),
    /// A value that makes no sense.
    #[error("{key}={value}: {wanted}")]
    Value {
        /// The key.
        key: &'static str,
        /// What was given.
        value: String,
        /// What would do.
        wanted: String,
    },
    /// A key that says nothing about this kind.
    #[error("{key} has no meaning for {kind}", kind = kind.name())]
    Meaningless {
        /// The key.
        key: &'static str,
        /// The kind.
        kind: FaultKind,
    },
    /// A key that is needed.
    #[error("{kind} needs {key}", kind = kind.name())]
    Missing {
        /// The key.
        key: &'static str,
        /// The kind.
        kind: FaultKind,
    },
}

const KEYS: &[&str] = &["on", "path", "file", "offset", "length", "rate", "after", "times", "seed", "delay_ms", "silent"];

impl FaultSpec {
    /// A fault of that kind that affects all it can.
    #[must_use]
    pub fn new(kind: FaultKind) -> Self {
        Self {
            kind,
            on: Vec::new(),
            path: None,
            file: None,
            offset: 0,
            length: None,
            rate: 1.0,
            after: 0,
            times: None,
            seed: 0,
            delay_ms: None,
            silent: false,
        }
    }

    /// Reads `KIND,key=value,…`; of `on` several are joined by `+`. A path may hold `=` but no comma.
    ///
    /// # Errors
    /// The word that makes no sense, or what does not fit together.
    pub fn parse(text: &str) -> Result<Self, FaultError> {
        let text = text.get(..FAULT_TEXT_BYTES_MAX).unwrap_or(text);
        let mut words = text.split(',').map(str::trim);
        let first = words.next().unwrap_or_default();
        let kind = FaultKind::ALL.into_iter().find(|kind| kind.name() == first);
        let mut spec = Self::new(kind.ok_or_else(|| FaultError::Kind(first.to_owned()))?);
        for word in words.filter(|word| !word.is_empty()) {
            let (key, value) = word.split_once('=').ok_or_else(|| FaultError::Key(word.to_owned()))?;
            spec.set(key.trim(), value.trim())?;
        }
        spec.check()?;
        Ok(spec)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), FaultError> {
        let whole = |key| value.parse::<u64>().map_err(|_| wrong(key, value, "a whole number"));
        let number = |key| value.parse::<f64>().map_err(|_| wrong(key, value, "a number"));
        match key {
            "on" => self.on = value.split('+').map(|word| word.trim().to_owned()).collect(),
            "path" => self.path = Some(value.to_owned()),
            "file" => self.file = Some(whole("file")?),
            "offset" => self.offset = whole("offset")?,
            "length" => self.length = Some(whole("length")?),
            "rate" => self.rate = number("rate")?,
            "after" => self.after = whole("after")?,
            "times" => self.times = Some(whole("times")?),
            "seed" => self.seed = whole("seed")?,
            "delay_ms" => self.delay_ms = Some(number("delay_ms")?),
            "silent" => {
                self.silent = match value {
                    "yes" => true,
                    "no" => false,
                    _ => return Err(wrong("silent", value, "yes or no")),
                }
            }
            unknown => return Err(FaultError::Key(unknown.to_owned())),
        }
        Ok(())
    }

    /// Whether its parts fit together. Procedures are not checked: this crate contains no protocol.
    ///
    /// # Errors
    /// The first that does not.
    pub fn check(&self) -> Result<(), FaultError> {
        let kind = self.kind;
        let meaningless = |key| Err(FaultError::Meaningless { key, kind });
        if !(self.rate > 0.0 && self.rate <= 1.0) {
            return Err(wrong("rate", &self.rate.to_string(), "above 0, at most 1"));
        }
        if self.times == Some(0) {
            return Err(wrong("times", "0", "1 or more"));
        }
        match self.delay_ms {
            None if kind.waits() => return Err(FaultError::Missing { key: "delay_ms", kind }),
            Some(_) if !kind.waits() => return meaningless("delay_ms"),
            Some(ms) if !(ms > 0.0 && ms <= FAULT_DELAY_MS_MAX) => {
                return Err(wrong("delay_ms", &ms.to_string(), &format!("above 0, at most {FAULT_DELAY_MS_MAX}")));
            }
            _ => {}
        }
        if self.silent && kind != FaultKind::TornWrite {
            return meaningless("silent");
        }
        if self.length == Some(0) {
            return Err(wrong("length", "0", "1 or more"));
        }
        if kind.is_of_the_wire() {
            return match (&self.path, self.file, self.offset, self.length) {
                (Some(_), ..) => meaningless("path"),
                (_, Some(_), ..) => meaningless("file"),
                (.., Some(_)) => meaningless("length"),
                (.., 0, None) => Ok(()),
                _ => meaningless("offset"),
            };
        }
        if self.path.is_some() && self.file.is_some() {
            return Err(wrong("file", &self.file.unwrap_or(0).to_string(), "either path or file"));
        }
        match self.on.iter().find(|word| !kind.applies_to().contains(&word.as_str())) {
            Some(word) => Err(wrong("on", word, &format!("{} applies to {}", kind.name(), names(kind.applies_to())))),
            None => Ok(()),
        }
    }
}

/// As [`FaultSpec::parse`] reads it.
impl fmt::Display for FaultSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name())?;
        if !self.on.is_empty() {
            write!(f, ",on={}", self.on.join("+"))?;
        }
        let path = self.path.iter().map(|path| ("path", path.clone()));
        let numbers = [("file", self.file), ("offset", some(self.offset)), ("length", self.length)];
        let rate = (self.rate < 1.0).then(|| ("rate", self.rate.to_string()));
        let counts = [("after", some(self.after)), ("times", self.times), ("seed", some(self.seed))];
        let delay = self.delay_ms.map(|ms| ("delay_ms", ms.to_string()));
        let silent = self.silent.then(|| ("silent", "yes".to_owned()));
        let text = |(key, value): (&'static str, Option<u64>)| value.map(|value| (key, value.to_string()));
        let words = path.chain(numbers.into_iter().filter_map(text)).chain(rate);
        for (key, value) in words.chain(counts.into_iter().filter_map(text)).chain(delay).chain(silent) {
            write!(f, ",{key}={value}")?;
        }
        Ok(())
    }
}

fn always() -> f64 {
    1.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

fn some(value: u64) -> Option<u64> {
    (value != 0).then_some(value)
}

fn names(names: &[&str]) -> String {
    names.join(", ")
}

fn wrong(key: &'static str, value: &str, wanted: &str) -> FaultError {
    FaultError::Value { key, value: value.to_owned(), wanted: wanted.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_survives_its_text_and_json() {
        for text in [
            "eio,on=write+flush,file=12,offset=8192,length=512,rate=0.25,after=3,times=2,seed=7",
            "torn-write,path=base/5/1259=x,silent=yes",
            "slow,on=READ+COMMIT,delay_ms=12.5",
            "bit-flip",
            "reset-reply,rate=0.001,seed=99",
        ] {
            let spec = FaultSpec::parse(text).unwrap();
            assert_eq!(spec.to_string(), text);
            let json = serde_json::to_string(&spec).unwrap();
            assert_eq!(serde_json::from_str::<FaultSpec>(&json).unwrap(), spec, "{json}");
        }
    }

    #[test]
    fn every_kind_is_read_under_the_name_it_is_written_with() {
        for kind in FaultKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
            let mut spec = FaultSpec::new(kind);
            spec.delay_ms = kind.waits().then_some(1.0);
            assert_eq!(FaultSpec::parse(&spec.to_string()), Ok(spec));
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        for (text, said) in [
            ("", "is not a kind of fault; known are eio, enospc"),
            ("eoi", "\"eoi\" is not a kind"),
            ("eio,on", "unknown key \"on\""),
            ("eio,rat=1", "unknown key \"rat\"; keys are on, path"),
            ("eio,rate=0", "above 0, at most 1"),
            ("eio,rate=NaN", "above 0, at most 1"),
            ("eio,times=0", "1 or more"),
            ("eio,on=write+fsync", "eio applies to read, write, flush, change"),
            ("bit-flip,on=write", "bit-flip applies to read"),
            ("eio,delay_ms=3", "delay_ms has no meaning for eio"),
            ("slow-flush", "slow-flush needs delay_ms"),
            ("slow,delay_ms=1e9", "at most 60000"),
            ("drop-reply,file=3", "file has no meaning for drop-reply"),
            ("drop-reply,offset=3", "offset has no meaning for drop-reply"),
            ("eio,silent=yes", "silent has no meaning for eio"),
            ("eio,path=a,file=3", "either path or file"),
            ("eio,seed=-1", "a whole number"),
        ] {
            let error = FaultSpec::parse(text).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
        assert!(serde_json::from_str::<FaultSpec>(r#"{"kind":"eio","rat":1}"#).is_err());
    }
}
