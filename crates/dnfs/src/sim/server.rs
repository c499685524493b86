//! A file server in memory: data becomes stable by COMMIT or stable WRITEs, a power cut removes all other data and changes the
//! verifier, and WRITEs travel for some time, also after their sender was killed.

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
    /// What the server's memory has.
    now: Vec<u8>,
    /// What a power cut leaves.
    stable: Vec<u8>,
    /// Number of changes so far, as ctime.
    changes: u64,
    boot: u64,
    fenced: Vec<u64>,
    on_their_way: Vec<Arc<Sent>>,
    pub(super) power_cuts: u64,
    pub(super) commits: u64,
    pub(super) resends: u64,
}

/// A WRITE on its way.
#[derive(Debug)]
struct Sent {
    due_ns: u64,
    sender: u64,
    boot: u64,
    offset: usize,
    bytes: Vec<u8>,
    how: Stability,
    /// The verifier of the reply.
    answered: Mutex<Option<u64>>,
}

impl Disk {
    fn execute_due(&mut self) {
        let now = monotonic_ns();
        let (mut due, waiting): (Vec<_>, Vec<_>) = self.on_their_way.drain(..).partition(|sent| sent.due_ns <= now);
        self.on_their_way = waiting;
        due.sort_by_key(|sent| sent.due_ns);
        for sent in due {
            if sent.boot != self.boot || self.fenced.contains(&sent.sender) {
                continue;
            }
            let end = sent.offset + sent.bytes.len();
            let size = self.now.len().max(end);
            self.now.resize(size, 0);
            self.now[sent.offset..end].copy_from_slice(&sent.bytes);
            if sent.how != Stability::Unstable {
                let size = self.stable.len().max(end);
                self.stable.resize(size, 0);
                self.stable[sent.offset..end].copy_from_slice(&sent.bytes);
            }
            self.changes += 1;
            *sent.answered.lock().unwrap() = Some(self.boot);
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

    fn verifier(&self) -> WriteVerifier {
        verifier_of(self.boot)
    }
}

/// The verifier of a server that has started this often.
fn verifier_of(boot: u64) -> WriteVerifier {
    WriteVerifier { endpoint: EndpointIndex::default(), bytes: (boot + 1).to_be_bytes() }
}

/// The server, as every simulated process reaches it.
#[derive(Clone, Debug, Default)]
pub(super) struct Server(Arc<Mutex<Disk>>);

impl Server {
    /// A server with a file of these bytes, which are stable.
    pub(super) fn with_file(bytes: Vec<u8>) -> Self {
        let disk = Disk { now: bytes.clone(), stable: bytes, ..Disk::default() };
        Self(Arc::new(Mutex::new(disk)))
    }

    /// Runs `work`, in which no turn may end, after what has arrived was executed.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut Disk) -> T) -> T {
        let mut disk = self.0.lock().unwrap();
        disk.execute_due();
        work(&mut disk)
    }

    /// Loses all that is not stable.
    pub(super) fn cut_power(&self) {
        self.with(|disk| {
            disk.now = disk.stable.clone();
            disk.boot += 1;
            disk.changes += 1;
            disk.power_cuts += 1;
            disk.on_their_way.clear();
        });
    }

    /// What a power cut now would leave.
    pub(super) fn stable(&self) -> Vec<u8> {
        self.with(|disk| disk.stable.clone())
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
    /// The start of the server at which this client last connected, + 1.
    pub(super) connected: AtomicU64,
}

impl SimulatedProtocol {
    /// Calls: the message travels, `act` runs at the server, the reply travels. Resent after a power cut.
    fn call<T>(&self, act: impl Fn(&mut Disk) -> T) -> Result<T, Error> {
        loop {
            let boot = self.connect()?;
            travel();
            let answer = self.server.with(|disk| (disk.boot == boot).then(|| act(disk)));
            travel();
            if let Some(answer) = answer {
                return Ok(answer);
            }
            self.server.with(|disk| disk.resends += 1);
        }
    }

    /// Connects if there is no connection. A process that was fenced draws another number first, and sends nothing under locks
    /// that others took over.
    fn connect(&self) -> Result<u64, Error> {
        let membership = &self.state.route.membership;
        let may_send = || membership.leases_of_test().is_none_or(|leases| leases.may_send());
        membership.renew_leases();
        let me = this_process().identity.number();
        if self.server.with(|disk| disk.fenced.contains(&me)) {
            this_process().identity.renew_number(me);
            self.connected.store(0, Relaxed);
        }
        if let Some(leases) = membership.leases_of_test() {
            leases.publish_fence_number(this_process().identity.number());
        }
        if !may_send() {
            return Err(Error::TakenOver);
        }
        let boot = self.server.with(|disk| disk.boot);
        if self.connected.swap(boot + 1, Relaxed) != boot + 1 {
            sleep(RESTART);
            self.state.route.counts.connections.fetch_add(1, Relaxed);
        }
        Ok(boot)
    }

    /// Sends a WRITE and waits for its reply, as [`Self::call`] does. Returns the server's start.
    fn send_write(&self, offset: usize, bytes: &[u8], how: Stability) -> Result<u64, Error> {
        loop {
            let boot = self.connect()?;
            let (due_ns, sender) = (monotonic_ns() + random() % (TRAVEL_US_MAX * 1_000), this_process().identity.number());
            let sent = Arc::new(Sent { due_ns, sender, boot, offset, bytes: bytes.to_vec(), how, answered: Mutex::new(None) });
            self.server.with(|disk| disk.on_their_way.push(Arc::clone(&sent)));
            while monotonic_ns() <= due_ns {
                sleep(Duration::from_micros(TRAVEL_US_MAX));
                self.state.route.membership.renew_leases();
            }
            self.server.with(|_| ());
            travel();
            if let Some(boot) = *sent.answered.lock().unwrap() {
                return Ok(boot);
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
        self.call(|_| ())
    }

    fn getattr(&self, _: &FileHandle) -> Result<Attributes, Error> {
        self.call(|disk| disk.attributes())
    }

    fn access(&self, _: &FileHandle, rights: AccessRights) -> Result<AccessRights, Error> {
        Ok(rights)
    }

    fn read(&self, _: &FileHandle, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> Result<ReadDone, Error> {
        let wanted: usize = bufs.iter().map(|buffer| buffer.len()).sum();
        let (data, eof, attr) = self.call(|disk| {
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
        let boot = self.send_write(offset as usize, &bytes, how)?;
        let attr = self.server.with(|disk| disk.attributes());
        let verifier = verifier_of(boot);
        Ok(WriteDone { bytes: length, committed: how, verifier, verifier_changed: false, attr: Some(attr) })
    }

    fn write_gathered(&self, file: &FileHandle, offset: u64, bytes: &[u8]) -> Result<WriteDone, Error> {
        self.write(file, offset, &[IoSlice::new(bytes)], Stability::Unstable)
    }

    fn commit(&self, _: &FileHandle) -> Result<Stable, Error> {
        self.call(|disk| {
            disk.stable = disk.now.clone();
            disk.commits += 1;
            (disk.verifier(), Some(disk.attributes()))
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
        self.call(|_| true)
    }

    fn serves_another_root(&self) -> Result<bool, Error> {
        Ok(false)
    }

    fn check_volume(&self) -> Result<(), Error> {
        self.call(|_| ())
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
