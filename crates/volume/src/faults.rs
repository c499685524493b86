//! Faults on demand: a list of those that are set, and a record of their injections. If no fault is set, an operation only costs
//! one relaxed load.
//!
//! One list holds all faults of a volume. The volume injects those of data, flushes and changes ([`data`](self)). The filer
//! injects those of the wire, also by [`Faults::inject`]. Faults are tried in the order in which they were set, and the first
//! one of the requested kinds that affects the operation is injected. Its random decisions depend only on its seed and on the
//! order of the operations that match it.

mod data;
mod report;
mod spec;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use host::Unpoisoned;
use media::Random;

pub use report::{FaultInjection, FaultReport, FaultStatus};
pub use spec::{FAULT_DELAY_MS_MAX, FAULT_TEXT_BYTES_MAX, FaultError, FaultKind, FaultSpec};

pub(crate) use data::Torn;

use crate::limits::{FAULT_INJECTIONS_KEPT, FAULTS_MAX};

/// All faults of a volume.
#[derive(Debug, Default)]
pub struct Faults {
    /// A bit for each kind of which a fault is set.
    kinds: AtomicU32,
    list: Mutex<List>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct List {
    set: Vec<Armed>,
    last_id: u64,
    releases: u64,
    injected: u64,
    injections: VecDeque<FaultInjection>,
}

#[derive(Debug)]
struct Armed {
    status: FaultStatus,
    random: Random,
}

/// An operation that a fault may affect.
#[derive(Debug, Clone, Copy)]
pub struct Probe<'a> {
    /// `read`, `write`, `flush`, `change`, or the name of a procedure of the wire.
    pub on: &'a str,
    /// File ids of the objects it uses. Empty for a call of the wire.
    pub files: &'a [u64],
    /// Offset and length in bytes, for reads and writes.
    pub range: Option<(u64, u64)>,
}

/// An injection of a fault, for the caller to carry out.
#[derive(Debug)]
pub struct Injection {
    /// The kind of the fault.
    pub kind: FaultKind,
    /// How long it waits. Zero for kinds that do not wait.
    pub delay: Duration,
    /// A torn write reports success.
    pub silent: bool,
    nth: u64,
    id: u64,
    random: Random,
}

/// Why a fault could not be set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetError {
    /// Its description is not valid.
    #[error(transparent)]
    Spec(#[from] FaultError),
    /// The list is full.
    #[error("{FAULTS_MAX} faults are set, which is the limit; clear some")]
    Full,
    /// Its path could not be looked up.
    #[error("path {path:?}: {source}")]
    Path {
        /// The path as given.
        path: String,
        /// The volume's error.
        source: crate::Error,
    },
}

impl Faults {
    /// Sets a fault and returns its number. The caller has replaced a path by a file id.
    ///
    /// # Errors
    /// [`SetError::Spec`], [`SetError::Full`].
    pub fn set(&self, fault: FaultSpec) -> Result<u64, SetError> {
        fault.check()?;
        let mut list = self.list.lock().unpoisoned();
        if list.set.len() == FAULTS_MAX {
            return Err(SetError::Full);
        }
        list.last_id += 1;
        let id = list.last_id;
        let random = Random::new(fault.seed);
        list.set.push(Armed { status: FaultStatus { id, fault, matched: 0, injected: 0 }, random });
        self.arm(&list);
        Ok(id)
    }

    /// Clears the fault with this number, or all. Ends their waits. Returns how many it cleared.
    pub fn clear(&self, id: Option<u64>) -> usize {
        let mut list = self.list.lock().unpoisoned();
        let before = list.set.len();
        list.set.retain(|armed| id.is_some_and(|id| armed.status.id != id));
        self.arm(&list);
        let cleared = before - list.set.len();
        drop(list);
        self.changed.notify_all();
        cleared
    }

    /// The faults that are set, and what they affected.
    #[must_use]
    pub fn report(&self) -> FaultReport {
        let list = self.list.lock().unpoisoned();
        FaultReport {
            faults: list.set.iter().map(|armed| armed.status.clone()).collect(),
            injected: list.injected,
            injections: list.injections.iter().cloned().collect(),
        }
    }

    /// Whether a fault of one of these kinds is set: one relaxed load.
    #[must_use]
    pub fn any(&self, kinds: Kinds) -> bool {
        self.kinds.load(Ordering::Relaxed) & kinds.0 != 0
    }

    /// The injection of the first fault of these kinds that affects the operation, which is counted and recorded. `None` if no fault
    /// affects it.
    pub fn inject(&self, kinds: Kinds, probe: &Probe<'_>) -> Option<Injection> {
        if !self.any(kinds) {
            return None;
        }
        let mut list = self.list.lock().unpoisoned();
        let injection =
            list.set.iter_mut().filter(|armed| kinds.has(armed.status.fault.kind)).find_map(|armed| armed.try_on(probe))?;
        list.injected += 1;
        if list.injections.len() == FAULT_INJECTIONS_KEPT {
            list.injections.pop_front();
        }
        list.injections.push_back(FaultInjection {
            id: injection.id,
            kind: injection.kind,
            nth: injection.nth,
            on: probe.on.to_owned(),
            file: probe.files.first().copied(),
            offset: probe.range.map(|(offset, _)| offset),
            length: probe.range.map(|(_, length)| length),
            detail: String::new(),
        });
        Some(injection)
    }

    /// Adds to the record of an injection what it did in detail.
    fn add_detail(&self, injection: &Injection, detail: String) {
        let mut list = self.list.lock().unpoisoned();
        if let Some(record) =
            list.injections.iter_mut().rev().find(|record| (record.id, record.nth) == (injection.id, injection.nth))
        {
            record.detail = detail;
        }
    }

    /// Waits for the delay of an injection, or until its fault is cleared or [`Faults::release_waiters`] is called.
    pub fn wait(&self, injection: &Injection) {
        let list = self.list.lock().unpoisoned();
        let releases = list.releases;
        let on = |list: &mut List| list.releases == releases && list.set.iter().any(|armed| armed.status.id == injection.id);
        // A time-out is the usual end.
        drop(self.changed.wait_timeout_while(list, injection.delay, on).unpoisoned());
    }

    /// Ends all current waits, before the volume is closed or a power cut is simulated.
    pub fn release_waiters(&self) {
        self.list.lock().unpoisoned().releases += 1;
        self.changed.notify_all();
    }

    fn arm(&self, list: &List) {
        let kinds = list.set.iter().fold(0, |kinds, armed| kinds | Kinds::of(&[armed.status.fault.kind]).0);
        self.kinds.store(kinds, Ordering::SeqCst);
    }
}

impl Armed {
    fn try_on(&mut self, probe: &Probe<'_>) -> Option<Injection> {
        let FaultStatus { id, fault, matched, injected } = &mut self.status;
        if !matches(fault, probe) {
            return None;
        }
        *matched += 1;
        let drawn = self.random.chance(fault.rate);
        let random = self.random.fork();
        if !drawn || *matched <= fault.after || fault.times.is_some_and(|times| *injected >= times) {
            return None;
        }
        *injected += 1;
        let delay = Duration::from_secs_f64(fault.delay_ms.unwrap_or(0.0) / 1000.0);
        Some(Injection { kind: fault.kind, delay, silent: fault.silent, nth: *matched, id: *id, random })
    }
}

fn matches(fault: &FaultSpec, probe: &Probe<'_>) -> bool {
    let on = if fault.on.is_empty() {
        fault.kind.is_of_the_wire() || fault.kind.applies_to().contains(&probe.on)
    } else {
        fault.on.iter().any(|on| on == probe.on)
    };
    let file = fault.file.is_none_or(|file| probe.files.contains(&file));
    let range = probe.range.is_none_or(|(offset, length)| {
        let end = fault.length.map_or(u64::MAX, |length| fault.offset.saturating_add(length));
        offset < end && offset.saturating_add(length) > fault.offset
    });
    on && file && range
}

/// A set of kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kinds(u32);

impl Kinds {
    /// The set of these kinds.
    #[must_use]
    pub const fn of(kinds: &[FaultKind]) -> Self {
        let mut bits = 0;
        let mut at = 0;
        while at < kinds.len() {
            bits |= 1 << kinds[at] as u32;
            at += 1;
        }
        Self(bits)
    }

    /// The union of both sets.
    #[must_use]
    pub const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    const fn has(self, kind: FaultKind) -> bool {
        self.0 & (1 << kind as u32) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EIO: Kinds = Kinds::of(&[FaultKind::Eio]);

    fn inject_all(faults: &Faults, probe: &Probe<'_>, count: usize) -> Vec<usize> {
        (1..=count).filter(|_| faults.inject(EIO, probe).is_some()).collect()
    }

    fn set(faults: &Faults, text: &str) -> u64 {
        faults.set(FaultSpec::parse(text).unwrap()).unwrap()
    }

    fn nth(faults: &Faults) -> Vec<u64> {
        faults.report().injections.iter().map(|injection| injection.nth).collect()
    }

    #[test]
    fn after_and_times_bound_what_is_injected_and_all_is_counted() {
        let faults = Faults::default();
        let id = set(&faults, "eio,on=write,after=3,times=2");
        let probe = Probe { on: "write", files: &[7], range: Some((0, 8192)) };
        assert_eq!(inject_all(&faults, &probe, 10).len(), 2);
        let report = faults.report();
        assert_eq!((report.faults[0].id, report.faults[0].matched, report.faults[0].injected), (id, 10, 2));
        assert_eq!(nth(&faults), [4, 5]);
        let first = &report.injections[0];
        assert_eq!((first.on.as_str(), first.file, first.offset, first.length), ("write", Some(7), Some(0), Some(8192)));
    }

    #[test]
    fn a_fault_is_injected_only_into_what_matches() {
        let faults = Faults::default();
        set(&faults, "eio,on=write,file=7,offset=4096,length=4096");
        let of = |on, files: &[u64], range| faults.inject(EIO, &Probe { on, files, range }).is_some();
        assert!(of("write", &[7], Some((0, 4097))) && of("write", &[7], Some((8191, 1))));
        assert!(!of("write", &[7], Some((0, 4096))) && !of("write", &[7], Some((8192, 1))));
        assert!(!of("write", &[8], Some((4096, 1))) && !of("read", &[7], Some((4096, 1))));
        assert_eq!(faults.report().faults[0].matched, 2);
    }

    #[test]
    fn the_same_seed_affects_the_same_operations() {
        let injected = |seed: u64| {
            let faults = Faults::default();
            set(&faults, &format!("eio,rate=0.2,seed={seed}"));
            inject_all(&faults, &Probe { on: "read", files: &[1], range: None }, 500);
            nth(&faults)
        };
        assert_eq!(injected(5), injected(5));
        assert_ne!(injected(5), injected(6));
        assert!((60..140).contains(&injected(5).len()), "{}", injected(5).len());
    }

    #[test]
    fn a_seed_affects_the_same_operations_in_every_version() {
        // Recorded with the generator SplitMix64, one draw and one fork for each operation.
        let faults = Faults::default();
        set(&faults, "eio,rate=0.2,seed=5");
        inject_all(&faults, &Probe { on: "read", files: &[1], range: None }, 60);
        assert_eq!(nth(&faults), [3, 10, 11, 12, 13, 20, 25, 39, 55, 57]);
    }

    #[test]
    fn a_cleared_fault_is_injected_no_more_and_ends_its_waits() {
        let faults = Faults::default();
        let (one, two) = (set(&faults, "slow,delay_ms=60000"), set(&faults, "eio"));
        let slow = Kinds::of(&[FaultKind::Slow]);
        let probe = Probe { on: "READ", files: &[], range: None };
        let injection = faults.inject(slow, &probe).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| faults.wait(&injection));
            assert_eq!(faults.clear(Some(one)), 1);
        });
        assert!(!faults.any(slow) && faults.any(EIO));
        assert_eq!((faults.clear(None), faults.clear(Some(two))), (1, 0));
        assert!(faults.inject(EIO, &probe).is_none());
        assert_eq!(faults.report().injected, 1, "what was injected stays on record");
    }

    #[test]
    fn faults_and_their_record_are_bounded() {
        let faults = Faults::default();
        (0..FAULTS_MAX).for_each(|_| assert!(set(&faults, "eio") > 0));
        assert_eq!(faults.set(FaultSpec::new(FaultKind::Eio)), Err(SetError::Full));
        let probe = Probe { on: "flush", files: &[], range: None };
        assert_eq!(inject_all(&faults, &probe, FAULT_INJECTIONS_KEPT + 5).len(), FAULT_INJECTIONS_KEPT + 5);
        let report = faults.report();
        assert_eq!((report.injections.len(), report.injected), (FAULT_INJECTIONS_KEPT, FAULT_INJECTIONS_KEPT as u64 + 5));
    }
}
