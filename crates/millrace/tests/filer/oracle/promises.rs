//! The promises that a client has got, and what it may therefore find after an injected crash.
//!
//! The client that makes the calls keeps them, from the replies alone. It knows three sorts of
//! values of each object: the value promised durable, the value acknowledged last, and later values
//! that may have been set by calls that failed or got no reply. If the write verifier is the same,
//! the acknowledged value must be there. If it has changed, any value since the last promise may be
//! there.

use nfs_proto::nfs3::{FileHandle, WriteVerifier};
use std::collections::{BTreeMap, BTreeSet};

/// The unit in which contents are promised, in bytes. A disk writes it as a whole.
pub const SECTOR: usize = 512;

/// A value over time.
#[derive(Clone, Debug)]
pub struct Value<T> {
    durable: T,
    /// Values since the durable one, in order.
    since: Vec<T>,
    /// Number of values in `since` when the last one was acknowledged.
    acknowledged: usize,
}

impl<T: Copy + PartialEq> Value<T> {
    pub fn new(durable: T) -> Self {
        Self { durable, since: Vec::new(), acknowledged: 0 }
    }

    /// The value acknowledged last.
    pub fn now(&self) -> T {
        self.acknowledged.checked_sub(1).map_or(self.durable, |last| self.since[last])
    }

    /// Notes a value that was acknowledged, but not promised.
    pub fn acknowledge(&mut self, value: T) {
        self.since.push(value);
        self.acknowledged = self.since.len();
    }

    /// Notes a value that may have been set.
    pub fn doubt(&mut self, value: T) {
        self.since.push(value);
    }

    /// Notes that the acknowledged value is now promised.
    pub fn promise(&mut self) {
        self.durable = self.now();
        self.since.drain(..self.acknowledged);
        self.acknowledged = 0;
    }

    /// Every value that may be found. `stands` means that the filer still has the verifier of the
    /// acknowledged values.
    pub fn allowed(&self, stands: bool) -> Vec<T> {
        let (first, rest) = if stands { (self.now(), self.acknowledged) } else { (self.durable, 0) };
        let mut allowed = vec![first];
        allowed.extend_from_slice(&self.since[rest..]);
        allowed
    }
}

/// A regular file.
#[derive(Clone, Debug)]
pub struct File {
    /// `None` while the reply that has the handle is missing.
    pub handle: Option<FileHandle>,
    pub mode: Value<u32>,
    /// Size in sectors.
    pub size: Value<usize>,
    /// Version of each sector's contents. 0 means zeros.
    pub sectors: Vec<Value<u32>>,
    /// Verifiers of the writes that are acknowledged, but not promised.
    pub verifiers: BTreeSet<[u8; 8]>,
}

impl File {
    pub fn new(handle: Option<FileHandle>, mode: u32) -> Self {
        let (mode, size) = (Value::new(mode), Value::new(0));
        Self { handle, mode, size, sectors: Vec::new(), verifiers: BTreeSet::new() }
    }

    fn sector(&mut self, nth: usize) -> &mut Value<u32> {
        if self.sectors.len() <= nth {
            self.sectors.resize(nth + 1, Value::new(0));
        }
        &mut self.sectors[nth]
    }

    /// Notes that a write of these sectors was answered with `verifier`. `stable` means that it
    /// promised them.
    pub fn written(&mut self, sectors: std::ops::Range<usize>, version: u32, stable: bool, verifier: WriteVerifier) {
        let end = sectors.end;
        for nth in sectors {
            let sector = self.sector(nth);
            sector.acknowledge(version);
            if stable {
                *sector = Value::new(version);
            }
        }
        if end > self.size.now() {
            self.size.acknowledge(end);
        }
        if stable {
            // The size that is needed to read the data back. From now on, the file is at least that long.
            let durable = self.size.durable.max(end);
            self.size.durable = durable;
            self.size.since.iter_mut().for_each(|size| *size = durable.max(*size));
        } else {
            self.verifiers.insert(verifier.0);
        }
    }

    /// Notes that a write of these sectors failed, or got no reply.
    pub fn write_doubted(&mut self, sectors: std::ops::Range<usize>, version: u32) {
        let end = sectors.end;
        sectors.for_each(|nth| self.sector(nth).doubt(version));
        self.size.doubt(end.max(self.size.now()));
    }

    /// Notes the reply to a COMMIT. It promises the writes under this verifier.
    pub fn committed(&mut self, verifier: WriteVerifier) {
        if self.verifiers.iter().any(|written| *written != verifier.0) {
            return;
        }
        self.sectors.iter_mut().for_each(Value::promise);
        self.size.promise();
        self.verifiers.clear();
    }

    /// Notes the reply to a new size, which is durable with its zeros.
    pub fn resized(&mut self, size: usize) {
        self.sectors.iter_mut().skip(size).for_each(|sector| *sector = Value::new(0));
        self.size = Value::new(size);
    }

    /// Notes that a new size failed, or got no reply.
    pub fn resize_doubted(&mut self, size: usize) {
        self.sectors.iter_mut().skip(size).for_each(|sector| sector.doubt(0));
        self.size.doubt(size);
    }

    /// The differences between the promises and what was found: its mode, its contents, and the
    /// filer's verifier `now`.
    pub fn faults(&self, key: u64, mode: u32, content: &[u8], now: WriteVerifier) -> Vec<String> {
        let stands = self.verifiers.iter().all(|verifier| *verifier == now.0);
        let mut faults = Vec::new();
        if !self.mode.allowed(false).contains(&mode) {
            let allowed: Vec<_> = self.mode.allowed(false).iter().map(|mode| format!("{mode:o}")).collect();
            faults.push(format!("mode {mode:o}, one of {} was promised", allowed.join(", ")));
        }
        let sizes = self.size.allowed(stands);
        let (least, most) = (sizes.iter().min().unwrap_or(&0) * SECTOR, sizes.iter().max().unwrap_or(&0) * SECTOR);
        if !(least..=most).contains(&content.len()) {
            faults.push(format!("size {}, {least} to {most} was promised", content.len()));
        }
        for (nth, found) in content.chunks(SECTOR).enumerate() {
            let allowed = self.sectors.get(nth).map_or_else(|| vec![0], |sector| sector.allowed(stands));
            if !allowed.iter().any(|version| fill(key, nth, *version).starts_with(found)) {
                faults.push(format!(
                    "sector {nth} has {}, one of versions {allowed:?} was promised (verifier {})",
                    describe(key, nth, found),
                    if stands { "stands" } else { "moved" }
                ));
            }
        }
        faults
    }

    /// Takes what was found as the base of later promises, because the filer made it durable when it started.
    pub fn adopt(&mut self, key: u64, mode: u32, content: &[u8]) {
        self.mode = Value::new(mode);
        self.size = Value::new(content.len().div_ceil(SECTOR));
        let versions = content.chunks(SECTOR).enumerate().map(|(nth, found)| Value::new(version(key, nth, found).unwrap_or(0)));
        self.sectors = versions.collect();
        self.verifiers.clear();
    }
}

/// The contents of a sector in a version. They identify the sector and show whether it is complete.
/// Version 0 has zeros.
pub fn fill(key: u64, nth: usize, version: u32) -> [u8; SECTOR] {
    let mut bytes = [0; SECTOR];
    if version != 0 {
        let mut rng = sim::Rng::new(key ^ (nth as u64) << 32 ^ u64::from(version));
        for word in bytes.chunks_exact_mut(8) {
            word.copy_from_slice(&rng.bits().to_le_bytes());
        }
        bytes[..4].copy_from_slice(&version.to_le_bytes());
    }
    bytes
}

/// The version of a sector that was found. `None` if it has no version.
fn version(key: u64, nth: usize, found: &[u8]) -> Option<u32> {
    let version = u32::from_le_bytes(found.get(..4)?.try_into().ok()?);
    fill(key, nth, version).starts_with(found).then_some(version)
}

fn describe(key: u64, nth: usize, found: &[u8]) -> String {
    version(key, nth, found).map_or_else(|| "what nobody wrote there".into(), |version| format!("version {version}"))
}

/// The object of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    File(usize),
    Directory,
    Symlink(String),
}

/// All names of a client, by their paths below its own directory.
pub type Names = BTreeMap<String, Object>;

/// A change of names.
#[derive(Clone, Debug)]
pub enum Change {
    Create { path: String, file: usize },
    MakeDirectory { path: String },
    Symlink { path: String, target: String },
    Remove { path: String },
    Rename { from: String, to: String },
    Link { from: String, to: String },
}

impl Change {
    /// The names after the change.
    pub fn apply(&self, names: &Names) -> Names {
        let mut names = names.clone();
        match self {
            Self::Create { path, file } => drop(names.insert(path.clone(), Object::File(*file))),
            Self::MakeDirectory { path } => drop(names.insert(path.clone(), Object::Directory)),
            Self::Symlink { path, target } => drop(names.insert(path.clone(), Object::Symlink(target.clone()))),
            Self::Remove { path } => drop(names.remove(path)),
            // If both names belong to one file, both stay.
            Self::Rename { from, to } => {
                let one_file = matches!(names.get(from), Some(Object::File(_))) && names.get(from) == names.get(to);
                if !one_file && let Some(moved) = names.remove(from) {
                    names.insert(to.clone(), moved);
                }
            }
            Self::Link { from, to } => {
                if let Some(object) = names.get(from).cloned() {
                    names.insert(to.clone(), object);
                }
            }
        }
        names
    }
}
