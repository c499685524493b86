//! A unit over memory, for the tests of the command set.
#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use iscsi_proto::scsi::{
    Asc, Completion, Directory, Extent, Host, HostError, Identity, LogicalUnit, Lun, Nexus, Request, Sense, SenseKey, Settings,
    Status, Store, StoreError, TargetPort,
};

pub(crate) const BLOCK: usize = 512;

/// Memory that keeps what was flushed apart from what was not.
pub(crate) struct MemoryStore {
    bytes: Mutex<Vec<u8>>,
    durable: Mutex<Vec<u8>>,
    mapped: Mutex<Vec<bool>>,
    pub(crate) epoch: AtomicU64,
    pub(crate) flush_fails: AtomicBool,
    pub(crate) flushes: AtomicU64,
    /// Runs once, within the next flush.
    pub(crate) during_flush: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl MemoryStore {
    pub(crate) fn new(blocks: usize) -> Arc<Self> {
        Arc::new(Self {
            bytes: Mutex::new(vec![0; blocks * BLOCK]),
            durable: Mutex::new(vec![0; blocks * BLOCK]),
            mapped: Mutex::new(vec![false; blocks]),
            epoch: AtomicU64::new(7),
            flush_fails: AtomicBool::new(false),
            flushes: AtomicU64::new(0),
            during_flush: Mutex::new(None),
        })
    }

    /// What a power cut would leave.
    pub(crate) fn durable(&self) -> Vec<u8> {
        self.durable.lock().unwrap().clone()
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().unwrap().clone()
    }

    /// Loses what was not flushed.
    pub(crate) fn lose(&self) {
        *self.bytes.lock().unwrap() = self.durable();
        self.epoch.fetch_add(1, Ordering::SeqCst);
    }

    fn change(&self, offset: u64, bytes: usize, durable: bool, mapped: bool, fill: impl Fn(&mut [u8])) {
        let offset = offset as usize;
        let mut now = self.bytes.lock().unwrap();
        fill(&mut now[offset..offset + bytes]);
        self.mapped.lock().unwrap()[offset / BLOCK..(offset + bytes) / BLOCK].fill(mapped);
        if durable {
            fill(&mut self.durable.lock().unwrap()[offset..offset + bytes]);
        }
    }
}

impl Store for MemoryStore {
    fn size_bytes(&self) -> u64 {
        self.bytes.lock().unwrap().len() as u64
    }

    fn block_bytes(&self) -> u32 {
        BLOCK as u32
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError> {
        assert!(offset.is_multiple_of(512) && buffer.len().is_multiple_of(512), "whole blocks");
        let bytes = self.bytes.lock().unwrap();
        buffer.copy_from_slice(&bytes[offset as usize..][..buffer.len()]);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8], durable: bool) -> Result<(), StoreError> {
        assert!(offset.is_multiple_of(512) && data.len().is_multiple_of(512), "whole blocks");
        self.change(offset, data.len(), durable, true, |to| to.copy_from_slice(data));
        Ok(())
    }

    fn write_zeroes(&self, offset: u64, bytes: u64, durable: bool) -> Result<(), StoreError> {
        self.change(offset, bytes as usize, durable, true, |to| to.fill(0));
        Ok(())
    }

    fn unmap(&self, offset: u64, bytes: u64) -> Result<(), StoreError> {
        self.change(offset, bytes as usize, false, false, |to| to.fill(0));
        Ok(())
    }

    fn flush(&self) -> Result<(), StoreError> {
        self.flushes.fetch_add(1, Ordering::SeqCst);
        if self.flush_fails.load(Ordering::SeqCst) {
            return Err(StoreError::Medium);
        }
        let during = self.during_flush.lock().unwrap().take();
        during.into_iter().for_each(|run| run());
        *self.durable.lock().unwrap() = self.bytes();
        Ok(())
    }

    fn loss_epoch(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }

    fn extent(&self, offset: u64) -> Extent {
        let mapped = self.mapped.lock().unwrap();
        let rest = &mapped[offset as usize / BLOCK..];
        Extent { bytes: (rest.iter().take_while(|one| **one == rest[0]).count() * BLOCK) as u64, mapped: rest[0] }
    }
}

/// What the unit asked its host for.
#[derive(Default)]
pub(crate) struct Kept {
    pub(crate) bytes: Mutex<Vec<u8>>,
    pub(crate) fails: AtomicBool,
    pub(crate) aborted: Mutex<Vec<Nexus>>,
}

pub(crate) struct KeepingHost(pub Arc<Kept>);

impl Host for KeepingHost {
    fn keep_reservations(&self, bytes: &[u8]) -> Result<(), HostError> {
        if self.0.fails.load(Ordering::SeqCst) {
            return Err(HostError);
        }
        *self.0.bytes.lock().unwrap() = bytes.to_vec();
        Ok(())
    }

    fn abort_commands(&self, nexus: &Nexus) {
        self.0.aborted.lock().unwrap().push(nexus.clone());
    }
}

/// Two LUNs, 1 and 300.
pub(crate) struct TwoLuns;

impl Directory for TwoLuns {
    fn luns(&self) -> Vec<Lun> {
        [1, 300].into_iter().filter_map(Lun::new).collect()
    }

    fn luns_reported(&self, _nexus: &Nexus) {}
}

/// A unit with its store and its host.
pub(crate) struct Unit {
    pub(crate) unit: LogicalUnit<Arc<MemoryStore>>,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) kept: Arc<Kept>,
}

/// The end of a command, with its data.
pub(crate) struct Done {
    pub(crate) completion: Completion,
    pub(crate) data: Vec<u8>,
}

pub(crate) fn identity() -> Identity {
    let ports = [1, 2].map(|port| TargetPort { relative_port: port, portal_group_tag: port });
    Identity::new("LUN", "1.0", "0123456789abcdef", 0xfeed_beef, "iqn.2026-01.example:store", &ports).unwrap()
}

pub(crate) fn nexus(number: u8) -> Nexus {
    Nexus::new(&format!("iqn.2026-01.example:host{number}"), [0x80, 0, 0, 0, 0, number], 1).unwrap()
}

impl Unit {
    pub(crate) fn new(blocks: usize, settings: Settings) -> Self {
        Self::over(MemoryStore::new(blocks), settings, &[])
    }

    pub(crate) fn thin(blocks: usize) -> Self {
        Self::new(blocks, Settings { thin: true, ..Settings::default() })
    }

    pub(crate) fn over(store: Arc<MemoryStore>, settings: Settings, kept: &[u8]) -> Self {
        let host = Arc::new(Kept { bytes: Mutex::new(kept.to_vec()), ..Kept::default() });
        let unit = LogicalUnit::new(store.clone(), identity(), settings, Box::new(KeepingHost(host.clone())), kept).unwrap();
        Self { unit, store, kept: host }
    }

    /// Runs a command that expects as much data as its CDB says.
    pub(crate) fn run(&self, from: &Nexus, cdb: &[u8], data_out: &[u8]) -> Done {
        let expected = self.unit.expected_data(cdb).bytes.min(1 << 24) as u32;
        self.run_expecting(from, cdb, data_out, expected)
    }

    pub(crate) fn run_expecting(&self, from: &Nexus, cdb: &[u8], data_out: &[u8], expected_bytes: u32) -> Done {
        let expected = self.unit.expected_data(cdb);
        let mut data = vec![0xee; expected.bytes.min(u64::from(expected_bytes)) as usize];
        let request = Request { cdb, expected_bytes, data_out, directory: &TwoLuns };
        let completion = self.unit.execute(from, &request, &mut data);
        assert!(completion.data_in_bytes <= data.len());
        data.truncate(completion.data_in_bytes);
        Done { completion, data }
    }

    pub(crate) fn good(&self, from: &Nexus, cdb: &[u8], data_out: &[u8]) -> Vec<u8> {
        let done = self.run(from, cdb, data_out);
        assert_eq!(done.completion.status, Status::Good, "{cdb:02x?}: {:?}", done.completion);
        done.data
    }

    pub(crate) fn sense(&self, from: &Nexus, cdb: &[u8], data_out: &[u8]) -> Sense {
        let done = self.run(from, cdb, data_out);
        assert_eq!(done.completion.status, Status::CheckCondition, "{cdb:02x?}: {:?}", done.completion);
        done.completion.sense.unwrap()
    }

    pub(crate) fn refused(&self, from: &Nexus, cdb: &[u8], data_out: &[u8], key: SenseKey, asc: Asc) {
        let sense = self.sense(from, cdb, data_out);
        assert_eq!((sense.key, sense.asc), (key, asc), "{cdb:02x?}");
    }
}

pub(crate) fn read10(lba: u32, blocks: u16) -> Vec<u8> {
    ten(0x28, 0, lba, blocks)
}

pub(crate) fn write10(lba: u32, blocks: u16) -> Vec<u8> {
    ten(0x2a, 0, lba, blocks)
}

pub(crate) fn ten(opcode: u8, flags: u8, lba: u32, blocks: u16) -> Vec<u8> {
    let mut cdb = vec![opcode, flags];
    cdb.extend(lba.to_be_bytes());
    cdb.push(0);
    cdb.extend(blocks.to_be_bytes());
    cdb.resize(16, 0);
    cdb
}

pub(crate) fn sixteen(opcode: u8, flags: u8, lba: u64, blocks: u32) -> Vec<u8> {
    let mut cdb = vec![opcode, flags];
    cdb.extend(lba.to_be_bytes());
    cdb.extend(blocks.to_be_bytes());
    cdb.resize(16, 0);
    cdb
}

/// PERSISTENT RESERVE OUT with the basic parameter list: CDB and list.
pub(crate) fn reserve_out(action: u8, kind: u8, key: u64, service_action_key: u64, flags: u8) -> (Vec<u8>, Vec<u8>) {
    let mut list = key.to_be_bytes().to_vec();
    list.extend(service_action_key.to_be_bytes());
    list.extend([0, 0, 0, 0, flags, 0, 0, 0]);
    (vec![0x5f, action, kind, 0, 0, 0, 0, 0, list.len() as u8, 0], list)
}

impl Unit {
    pub(crate) fn reserve_out(
        &self,
        from: &Nexus,
        action: u8,
        kind: u8,
        key: u64,
        service_action_key: u64,
        flags: u8,
    ) -> Completion {
        let (cdb, list) = reserve_out(action, kind, key, service_action_key, flags);
        self.run(from, &cdb, &list).completion
    }

    pub(crate) fn status(&self, from: &Nexus, cdb: &[u8], data_out: &[u8]) -> Status {
        self.run(from, cdb, data_out).completion.status
    }
}
