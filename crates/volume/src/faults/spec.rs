//! The description of a fault, and its text form.
//!
//! A fault has a kind, conditions on the operations it affects, and a seed for its random decisions. It is written as JSON (admin
//! socket) or as text: `eio,on=write,path=base/5/1259,rate=0.01,seed=7`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Longest time that a fault can make an operation wait, in ms. For a longer outage, stop the filer.
pub const FAULT_DELAY_MS_MAX: f64 = 60_000.0;
/// Longest text of a fault, in bytes: enough for all keys with a path of PATH_MAX.
pub const FAULT_TEXT_BYTES_MAX: usize = 8192;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// The operation fails with EIO and does nothing else. A flush that fails so poisons the volume.
    Eio,
    /// The operation fails with ENOSPC, as on a full store.
    Enospc,
    /// Some of the 512-byte sectors of a write reach the file. Then the write fails with EIO or, if `silent`, reports success.
    TornWrite,
    /// One bit of the data that a read returns is wrong. The file does not change.
    BitFlip,
    /// A flush takes `delay_ms` longer.
    SlowFlush,
    /// A call waits for `delay_ms` before it is carried out. The later calls of its connection wait too.
    Slow,
    /// The call is lost: it is not carried out, and has no reply.
    DropCall,
    /// The call is carried out, and its reply is lost.
    DropReply,
    /// The call is carried out at once, and its reply is sent `delay_ms` later.
    DelayReply,
    /// The reply is sent twice.
    DuplicateReply,
    /// The connection is reset, and the call is not carried out.
    ResetCall,
    /// The call is carried out. Then the connection is reset, without a reply.
    ResetReply,
}

impl FaultKind {
    /// All kinds.
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

    /// Its word in the text form.
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

    /// The operations of the store that it can affect. Empty for a fault of the wire, which affects procedures.
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

    /// Whether it affects calls and replies, not the store.
    #[must_use]
    pub const fn is_of_the_wire(self) -> bool {
        self.applies_to().is_empty()
    }

    /// Whether it delays an operation, and so needs `delay_ms`.
    #[must_use]
    pub const fn waits(self) -> bool {
        matches!(self, Self::SlowFlush | Self::Slow | Self::DelayReply)
    }
}

/// A fault: what goes wrong, in which operations, how often.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultSpec {
    /// What goes wrong.
    pub kind: FaultKind,
    /// For a fault of the store: `read`, `write`, `flush`, `change` (of names or attributes). For a fault of the wire: procedures,
    /// such as `READ` or `COMMIT`. Empty: all operations that the kind can affect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on: Vec<String>,
    /// Only this file or directory, by its path in the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Only the file or directory with this file id (inode number).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<u64>,
    /// Only reads and writes of bytes from this offset on.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub offset: u64,
    /// Number of bytes from `offset`. `None`: up to the end of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<u64>,
    /// Share of the matching operations that it affects, above 0, at most 1.
    #[serde(default = "always")]
    pub rate: f64,
    /// Number of matching operations that it does not affect at first.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub after: u64,
    /// Most injections. `None`: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// The seed of its random decisions.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub seed: u64,
    /// How long it waits, in ms. Required for the kinds that wait, and not allowed for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<f64>,
    /// A torn write reports success, as a faulty disk may.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub silent: bool,
}

/// Why a text or a record does not describe a fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    /// Its first word is not a kind.
    #[error("{0:?} is not a kind of fault; known are {known}", known = names(&FaultKind::ALL.map(FaultKind::name)))]
    Kind(String),
    /// A word after the kind that is not `key=value`, or has an unknown key.
    #[error("unknown key {0:?}; keys are {known}", known = names(KEYS))]
    Key(String),
    /// A key that an earlier word has.
    #[error("{0} is given twice: write it once")]
    Twice(String),
    /// A value that is not valid for its key.
    #[error("{key}={value}: expected {wanted}")]
    Value {
        /// The key.
        key: &'static str,
        /// The value as given.
        value: String,
        /// What is valid.
        wanted: String,
    },
    /// A key that does not apply to this kind.
    #[error("{key} has no meaning for {kind}", kind = kind.name())]
    Meaningless {
        /// The key.
        key: &'static str,
        /// The kind.
        kind: FaultKind,
    },
    /// A key that this kind requires.
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
    /// A fault of this kind that affects every operation it can.
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

    /// Parses `KIND,key=value,…`. Several values of `on` are joined by `+`. A path may contain `=` but no comma.
    ///
    /// # Errors
    /// [`FaultError`] for a word that is not valid, or for parts that do not fit together.
    pub fn parse(text: &str) -> Result<Self, FaultError> {
        let text = text.get(..FAULT_TEXT_BYTES_MAX).unwrap_or(text);
        let mut words = text.split(',').map(str::trim);
        let first = words.next().unwrap_or_default();
        let kind = FaultKind::ALL.into_iter().find(|kind| kind.name() == first);
        let mut spec = Self::new(kind.ok_or_else(|| FaultError::Kind(first.to_owned()))?);
        let mut given = Vec::new();
        for word in words.filter(|word| !word.is_empty()) {
            let (key, value) = word.split_once('=').ok_or_else(|| FaultError::Key(word.to_owned()))?;
            let key = key.trim();
            if given.contains(&key) {
                return Err(FaultError::Twice(key.to_owned()));
            }
            given.push(key);
            spec.set(key, value.trim())?;
        }
        if !spec.kind.is_of_the_wire() {
            spec.on.iter_mut().for_each(|word| word.make_ascii_lowercase());
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

    /// Checks that its values are valid and fit together. Names of procedures are not checked: this crate implements no protocol.
    ///
    /// # Errors
    /// The first fault found.
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
            Some(word) => Err(wrong("on", word, &format!("one of {} for {}", names(kind.applies_to()), kind.name()))),
            None => Ok(()),
        }
    }
}

/// In the form that [`FaultSpec::parse`] reads.
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
            ("eio,rate=0.5,on=write, rate =1", "rate is given twice"),
            ("eio,rate=0", "above 0, at most 1"),
            ("eio,rate=NaN", "above 0, at most 1"),
            ("eio,times=0", "1 or more"),
            ("eio,on=write+fsync", "expected one of read, write, flush, change for eio"),
            ("bit-flip,on=write", "expected one of read for bit-flip"),
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
