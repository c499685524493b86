//! A file server in memory, with one head or several. Each head keeps the unstable data that it acknowledged until a COMMIT at this
//! head. A power cut of a head removes that data and changes the head's verifier. WRITEs travel for some time, also after their sender
//! was killed.

use std::io::{IoSlice, IoSliceMut};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::address::EndpointIndex;
use crate::client_state::ClientState;
use crate::credentials::Credentials;
use crate::error::Error;
use crate::file::{
    AccessRights, Attributes, CreateMode, Created, DirectoryPosition, FileHandle, FileKind, FileTime, FsError, SetAttributes,
    SpaceUse, SpecialFile, Stability, WriteVerifier,
};
use crate::io_codec::IoCodec;
use crate::limits::SLOTS_MAX;
use crate::payload::Payload;
use crate::process::this_process;
use crate::protocol::{FileProtocol, ReadDone, Stable, Visit, WriteDone};
use crate::slot_limiter::Fence;
use crate::sys::clock::{monotonic_ns, sleep};
use crate::sys::random::random;
use crate::url::NfsUrl;

/// A call or a reply travels for up to this time.
const TRAVEL_US_MAX: u64 = 2_000;
/// After a power cut, the server refuses connections for this time.
const RESTART: Duration = Duration::from_millis(20);

/// The file and its two states.
#[derive(Debug, Default)]
pub(super) struct Disk {
    /// What all heads return: stable and unstable data.
    now: Vec<u8>,
    /// What was there before all writes.
    first: Vec<u8>,
    /// All writes that were not lost, in order.
    writes: Vec<Executed>,
    /// Number of changes so far, as ctime.
    changes: u64,
    /// How often each head was started again.
    boots: Vec<u64>,
    fenced: Vec<u64>,
    on_their_way: Vec<Arc<Sent>>,
    pub(super) power_cuts: u64,
    pub(super) resends: u64,
}

/// A WRITE on its way.
#[derive(Debug)]
struct Sent {
    due_ns: u64,
    sender: u64,
    head: Head,
    offset: usize,
    bytes: Vec<u8>,
    how: Stability,
    answered: Mutex<bool>,
}

/// A WRITE that a head executed.
#[derive(Debug)]
struct Executed {
    head: usize,
    offset: usize,
    bytes: Vec<u8>,
    is_stable: bool,
}

/// A head, and how often it had been started again when a client connected to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    index: usize,
    boot: u64,
}

impl Disk {
    fn execute_due(&mut self) {
        let now = monotonic_ns();
        let (mut due, waiting): (Vec<_>, Vec<_>) = self.on_their_way.drain(..).partition(|sent| sent.due_ns <= now);
        self.on_their_way = waiting;
        due.sort_by_key(|sent| sent.due_ns);
        for sent in due {
            if !self.is_up(sent.head) || self.fenced.contains(&sent.sender) {
                continue;
            }
            store(&mut self.now, sent.offset, &sent.bytes);
            let (head, is_stable) = (sent.head.index, sent.how != Stability::Unstable);
            self.writes.push(Executed { head, offset: sent.offset, bytes: sent.bytes.clone(), is_stable });
            self.changes += 1;
            *sent.answered.lock().unwrap() = true;
        }
    }

    fn attributes(&self) -> Attributes {
        let time = FileTime { seconds: 1_700_000_000 + self.changes as i64, nanoseconds: 0 };
        Attributes {
            kind: FileKind::Regular,
            mode: 0o644,
            nlink: 1,
            uid: 0,
            gid: 0,
            size: self.now.len() as u64,
            used: self.now.len() as u64,
            rdev: crate::file::DeviceNumbers::default(),
            fsid: 1,
            fileid: 7,
            atime: time,
            mtime: time,
            ctime: time,
        }
    }

    fn is_up(&self, head: Head) -> bool {
        self.boots[head.index] == head.boot
    }

    /// Makes the unstable data of this head stable.
    fn commit(&mut self, head: usize) {
        self.writes.iter_mut().filter(|write| write.head == head).for_each(|write| write.is_stable = true);
    }

    /// The file with the writes that are `kept`.
    fn image(&self, kept: impl Fn(&Executed) -> bool) -> Vec<u8> {
        let mut image = self.first.clone();
        self.writes.iter().filter(|write| kept(write)).for_each(|write| store(&mut image, write.offset, &write.bytes));
        image
    }

    /// Removes the unstable data of this head.
    fn lose(&mut self, head: usize) {
        self.writes.retain(|write| write.is_stable || write.head != head);
        self.now = self.image(|_| true);
        self.boots[head] += 1;
        self.changes += 1;
        self.power_cuts += 1;
    }
}

fn store(file: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    file.resize(file.len().max(end), 0);
    file[offset..end].copy_from_slice(bytes);
}

fn verifier_of(head: Head) -> WriteVerifier {
    let bytes = (head.boot + 1 + (head.index as u64) * 1_000).to_be_bytes();
    WriteVerifier { endpoint: EndpointIndex::new(head.index as u32), bytes }
}

/// The server, as every simulated process reaches it.
#[derive(Clone, Debug, Default)]
pub(super) struct Server(Arc<Mutex<Disk>>);

impl Server {
    /// A server of this many heads with a file of these bytes, which are stable.
    pub(super) fn with_file(heads: usize, bytes: Vec<u8>) -> Self {
        let disk = Disk { now: bytes.clone(), first: bytes, boots: vec![0; heads], ..Disk::default() };
        Self(Arc::new(Mutex::new(disk)))
    }

    /// Runs `work`, in which no turn may end, after what has arrived was executed.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut Disk) -> T) -> T {
        let mut disk = self.0.lock().unwrap();
        disk.execute_due();
        work(&mut disk)
    }

    pub(super) fn heads(&self) -> usize {
        self.with(|disk| disk.boots.len())
    }

    /// Cuts the power of one head, which starts again.
    pub(super) fn cut_power(&self) {
        let drawn = random() as usize;
        self.with(|disk| disk.lose(drawn % disk.boots.len()));
    }

    /// What a power cut of all heads now would leave.
    pub(super) fn stable(&self) -> Vec<u8> {
        self.with(|disk| disk.image(|write| write.is_stable))
    }
}

impl Fence for Server {
    fn is_answered(&self) -> bool {
        travel();
        true
    }

    fn fence(&self, number: u64) -> bool {
        travel();
        if number != 0 {
            self.with(|disk| disk.fenced.push(number));
        }
        true
    }
}

fn travel() {
    sleep(Duration::from_micros(random() % TRAVEL_US_MAX));
}

/// A client of the server.
#[derive(Debug)]
pub(super) struct SimulatedProtocol {
    pub(super) state: ClientState,
    pub(super) server: Server,
    /// The head that this client uses, and its start: 0 if it is not connected.
    pub(super) connected: AtomicU64,
}

impl SimulatedProtocol {
    /// Calls: the message travels, `act` runs at the server, the reply travels. Resent after a power cut.
    fn call<T>(&self, act: impl Fn(&mut Disk, Head) -> T) -> Result<T, Error> {
        loop {
            let head = self.connect()?;
            travel();
            let answer = self.server.with(|disk| disk.is_up(head).then(|| act(disk, head)));
            travel();
            if let Some(answer) = answer {
                return Ok(answer);
            }
            self.server.with(|disk| disk.resends += 1);
        }
    }

    /// Connects if there is no connection. A process that was fenced draws another number first, and sends nothing under locks
    /// that others took over.
    fn connect(&self) -> Result<Head, Error> {
        let membership = &self.state.route.membership;
        let may_send = || membership.leases.as_ref().is_none_or(|leases| leases.may_send());
        membership.renew_leases();
        let me = this_process().identity.number();
        if self.server.with(|disk| disk.fenced.contains(&me)) {
            this_process().identity.renew_number(me);
            self.connected.store(0, Relaxed);
        }
        if let Some(leases) = membership.leases.as_ref() {
            leases.publish_fence_number(this_process().identity.number());
        }
        if !may_send() {
            return Err(Error::TakenOver);
        }
        // Now and then the client goes to another head, as after the loss of a path.
        let (drawn, used) = (random(), self.connected.load(Relaxed));
        let index = if used == 0 || drawn.is_multiple_of(8) { (drawn >> 8) as usize } else { (used >> 32) as usize - 1 };
        let head = self.server.with(|disk| {
            let index = index % disk.boots.len();
            Head { index, boot: disk.boots[index] }
        });
        let now = (head.index as u64 + 1) << 32 | head.boot;
        if self.connected.swap(now, Relaxed) != now {
            sleep(RESTART);
            self.state.route.counts.connections.fetch_add(1, Relaxed);
        }
        Ok(head)
    }

    /// Sends a WRITE and waits for its reply, as [`Self::call`] does. Returns the head that answered.
    fn send_write(&self, offset: usize, bytes: &[u8], how: Stability) -> Result<Head, Error> {
        loop {
            let head = self.connect()?;
            let (due_ns, sender) = (monotonic_ns() + random() % (TRAVEL_US_MAX * 1_000), this_process().identity.number());
            let sent = Arc::new(Sent { due_ns, sender, head, offset, bytes: bytes.to_vec(), how, answered: Mutex::new(false) });
            self.server.with(|disk| disk.on_their_way.push(Arc::clone(&sent)));
            while monotonic_ns() <= due_ns {
                sleep(Duration::from_micros(TRAVEL_US_MAX));
                self.state.route.membership.renew_leases();
            }
            self.server.with(|_| ());
            travel();
            if *sent.answered.lock().unwrap() {
                return Ok(head);
            }
            self.server.with(|disk| disk.resends += 1);
        }
    }
}

/// The refusal of procedures that no model needs.
const fn not_served() -> Error {
    Error::Fs(FsError::NotSupported)
}

impl FileProtocol for SimulatedProtocol {
    fn state(&self) -> &ClientState {
        &self.state
    }

    fn state_mut(&mut self) -> &mut ClientState {
        &mut self.state
    }

    fn with_credentials(&self, url: &NfsUrl, who: &Credentials) -> Result<Box<dyn FileProtocol>, Error> {
        let state = self.state.with_credentials(url, who)?;
        Ok(Box::new(Self { state, server: self.server.clone(), connected: AtomicU64::new(0) }))
    }

    fn io_codec(&self) -> &'static IoCodec {
        crate::nfs3::io_codec()
    }

    fn null(&self) -> Result<(), Error> {
        self.call(|_, _| ())
    }

    fn getattr(&self, _: &FileHandle) -> Result<Attributes, Error> {
        self.call(|disk, _| disk.attributes())
    }

    fn access(&self, _: &FileHandle, rights: AccessRights) -> Result<AccessRights, Error> {
        Ok(rights)
    }

    fn read(&self, _: &FileHandle, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> Result<ReadDone, Error> {
        let wanted: usize = bufs.iter().map(|buffer| buffer.len()).sum();
        let (data, eof, attr) = self.call(|disk, _| {
            let start = disk.now.len().min(offset as usize);
            let end = disk.now.len().min(offset as usize + wanted);
            (disk.now[start..end].to_vec(), end == disk.now.len(), disk.attributes())
        })?;
        let mut from = &data[..];
        for buffer in bufs {
            let bytes = std::io::Read::read(&mut from, buffer).unwrap();
            buffer[bytes..].fill(0);
        }
        Ok(ReadDone { bytes: data.len(), eof, attr: Some(attr) })
    }

    fn write_payload(
        &self,
        _: &FileHandle,
        offset: u64,
        payload: &mut Payload<'_, '_>,
        how: Stability,
        keep: &mut dyn FnMut(&Payload<'_, '_>, usize),
    ) -> Result<WriteDone, Error> {
        let length = payload.len();
        payload.prepare(&(0..length));
        let mut bytes = Vec::with_capacity(length);
        payload.each(0..length, |_, part| bytes.extend_from_slice(part));
        keep(payload, length);
        let head = self.send_write(offset as usize, &bytes, how)?;
        let attr = self.server.with(|disk| disk.attributes());
        let verifier = verifier_of(head);
        Ok(WriteDone { bytes: length, committed: how, verifier, verifier_changed: false, attr: Some(attr) })
    }

    fn write_gathered(&self, file: &FileHandle, offset: u64, bytes: &[u8]) -> Result<WriteDone, Error> {
        self.write(file, offset, &[IoSlice::new(bytes)], Stability::Unstable)
    }

    fn commit(&self, _: &FileHandle) -> Result<Stable, Error> {
        self.call(|disk, head| {
            disk.commit(head.index);
            (verifier_of(head), Some(disk.attributes()))
        })
    }

    fn commit_together(
        &self,
        files: &[Option<FileHandle>; SLOTS_MAX],
        answered: &mut dyn FnMut(usize, Result<Stable, Error>),
    ) -> Result<(), Error> {
        for (place, file) in files.iter().enumerate() {
            if let Some(file) = file {
                answered(place, self.commit(file));
            }
        }
        Ok(())
    }

    fn serves(&self, _: &FileHandle) -> Result<bool, Error> {
        self.call(|_, _| true)
    }

    fn serves_another_root(&self) -> Result<bool, Error> {
        Ok(false)
    }

    fn check_volume(&self) -> Result<(), Error> {
        self.call(|_, _| ())
    }

    fn volume_replaced(&self) -> Error {
        Error::Fs(FsError::Stale)
    }

    fn setattr(&self, _: &FileHandle, _: &SetAttributes, _: Option<FileTime>) -> Result<Option<Attributes>, Error> {
        Err(not_served())
    }

    fn lookup(&self, _: &FileHandle, _: &[u8]) -> Result<(FileHandle, Option<Attributes>), Error> {
        Err(not_served())
    }

    fn readlink(&self, _: &FileHandle, _: &mut Vec<u8>) -> Result<(), Error> {
        Err(not_served())
    }

    fn create(&self, _: &FileHandle, _: &[u8], _: CreateMode) -> Result<Created, Error> {
        Err(not_served())
    }

    fn mkdir(&self, _: &FileHandle, _: &[u8], _: &SetAttributes) -> Result<Created, Error> {
        Err(not_served())
    }

    fn symlink(&self, _: &FileHandle, _: &[u8], _: &[u8], _: &SetAttributes) -> Result<Created, Error> {
        Err(not_served())
    }

    fn mknod(&self, _: &FileHandle, _: &[u8], _: SpecialFile, _: &SetAttributes) -> Result<Created, Error> {
        Err(not_served())
    }

    fn remove(&self, _: &FileHandle, _: &[u8]) -> Result<(), Error> {
        Err(not_served())
    }

    fn rmdir(&self, _: &FileHandle, _: &[u8]) -> Result<(), Error> {
        Err(not_served())
    }

    fn rename_object(&self, _: &FileHandle, _: &[u8], _: &FileHandle, _: &[u8], _: Option<u64>) -> Result<(), Error> {
        Err(not_served())
    }

    fn link(&self, _: &FileHandle, _: &FileHandle, _: &[u8]) -> Result<Option<Attributes>, Error> {
        Err(not_served())
    }

    fn fsstat(&self, _: &FileHandle) -> Result<SpaceUse, Error> {
        Err(not_served())
    }

    fn list(
        &self,
        _: &FileHandle,
        _: DirectoryPosition,
        _: &AtomicU32,
        _: Visit<'_>,
    ) -> Result<Option<DirectoryPosition>, Error> {
        Err(not_served())
    }
}
