//! A file that several processes of a mount write, read and sync, while the server loses its power.

use std::cell::RefCell;
use std::io::{IoSlice, IoSliceMut};
use std::rc::Rc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use super::server::{Server, SimulatedProtocol};
use super::{Faults, World, new_file};
use crate::client::Client;
use crate::client_state::{ClientState, MountParts};
use crate::credentials::Credentials;
use crate::file::{FileHandle, Stability};
use crate::mount::{FileRef, Mount, MountSpec};
use crate::nfs3::procedures::NFS;
use crate::rpc::route::RetryPolicy;
use crate::segment::tests::fresh_segment_that_retains;
use crate::segment::tests::tempdir::TempDir;
use crate::segment::{AttrRecord, Segment};
use crate::slot_limiter::begin_call;
use crate::sys::atomic::AtomicU32;
use crate::sys::clock::sleep;
use crate::sys::random::random;

const BLOCK_BYTES: usize = 4096;
const BLOCKS: usize = 3;
const RETAIN_BYTES: u64 = 1 << 20;

/// A write of one block, by the order of events.
#[derive(Clone, Copy, Debug)]
struct Event {
    version: u64,
    begun: u64,
    /// `None` while it is in flight, and if its process was killed.
    ended: Option<u64>,
}

/// What programs did, from which follows what they may read.
#[derive(Debug, Default)]
struct History {
    events: u64,
    writes: [Vec<Event>; BLOCKS],
    /// Appends that have ended: offset, version, and when.
    appended: Vec<(u64, u64, u64)>,
    /// When the last sync that succeeded began.
    synced: u64,
}

impl History {
    fn tick(&mut self) -> u64 {
        self.events += 1;
        self.events
    }

    /// Whether a reader that began then may find this version in a block: no later write had ended by then.
    fn allows(&self, block: usize, version: u64, since: u64) -> bool {
        let writes = &self.writes[block];
        let ended = match writes.iter().find(|write| write.version == version) {
            Some(write) => write.ended.unwrap_or(u64::MAX),
            None => return version == 0 && writes.iter().all(|write| write.ended.is_none_or(|ended| ended >= since)),
        };
        !writes.iter().any(|later| later.begun > ended && later.ended.is_some_and(|end| end < since))
    }
}

struct Program {
    /// `None` in the operator, which cuts the server's power.
    mount: Option<Mount>,
    server: Server,
    file: FileRef,
    history: Rc<RefCell<History>>,
    /// One head serves the file. If not, only writes and syncs are tested: a client that went to another head does not notice that the
    /// former one lost data until it commits, so reads and appends may find the file as it was before
    /// (docs/design/031-verifiers-of-addresses.md, Not covered).
    has_one_head: bool,
}

impl Program {
    fn work(&self) {
        let Some(mount) = &self.mount else {
            for _ in 0..3 {
                sleep(Duration::from_micros(random() % 40_000));
                self.server.cut_power();
            }
            return;
        };
        let cursor = AtomicU32::new(mount.error_cursor(self.file));
        for _ in 0..12 {
            let (block, _call) = (random() as usize % BLOCKS, begin_call());
            match random() % 12 {
                0..4 => self.write(mount, block),
                4..11 if !self.has_one_head => self.write(mount, block),
                4..7 => self.read(mount, block),
                7..9 => self.append(mount),
                9 => self.read_appended(mount),
                10 => self.size(mount, &cursor),
                _ => {
                    let begun = self.history.borrow_mut().tick();
                    mount.sync(self.file, &cursor).unwrap();
                    let mut history = self.history.borrow_mut();
                    history.synced = history.synced.max(begun);
                }
            }
        }
    }

    fn append(&self, mount: &Mount) {
        let version = self.history.borrow_mut().tick();
        let done = mount.append(self.file, &[IoSlice::new(&filled(version))], Stability::Unstable);
        let (bytes, offset) = done.unwrap();
        assert_eq!(bytes, BLOCK_BYTES);
        let mut history = self.history.borrow_mut();
        let ended = history.tick();
        history.appended.push((offset, version, ended));
    }

    /// Reads what some append wrote: nothing else writes there.
    fn read_appended(&self, mount: &Mount) {
        let history = self.history.borrow();
        let Some(&(offset, version, _)) = history.appended.get(random() as usize % history.appended.len().max(1)) else { return };
        drop(history);
        let mut bytes = vec![0; BLOCK_BYTES];
        let got = mount.read(self.file, offset, &mut [IoSliceMut::new(&mut bytes)]).unwrap();
        assert_eq!((got, version_of(&bytes)), (BLOCK_BYTES, version), "what was appended at {offset}");
    }

    /// The size is at least that of all that was written before.
    fn size(&self, mount: &Mount, cursor: &AtomicU32) {
        let end = self.history.borrow().appended.iter().map(|(offset, ..)| offset + BLOCK_BYTES as u64).max().unwrap_or(0);
        let size = mount.size_to_change(self.file, cursor).unwrap();
        assert!(size >= end, "size {size} after an append up to {end}");
    }

    fn write(&self, mount: &Mount, block: usize) {
        let begun = self.history.borrow_mut().tick();
        self.history.borrow_mut().writes[block].push(Event { version: begun, begun, ended: None });
        let bytes = filled(begun);
        let done = mount.write(self.file, (block * BLOCK_BYTES) as u64, &[IoSlice::new(&bytes)], Stability::Unstable);
        assert_eq!(done.unwrap(), BLOCK_BYTES);
        let mut history = self.history.borrow_mut();
        let ended = history.tick();
        let write = history.writes[block].iter_mut().find(|write| write.version == begun).unwrap();
        write.ended = Some(ended);
    }

    fn read(&self, mount: &Mount, block: usize) {
        let begun = self.history.borrow_mut().tick();
        let mut bytes = vec![0; BLOCK_BYTES];
        let got = mount.read(self.file, (block * BLOCK_BYTES) as u64, &mut [IoSliceMut::new(&mut bytes)]).unwrap();
        bytes[got..].fill(0);
        let version = version_of(&bytes);
        let history = self.history.borrow();
        assert!(history.allows(block, version, begun), "block {block}: {version} read at {begun}: {:?}", history.writes[block]);
    }
}

/// A block that this version fills.
fn filled(version: u64) -> Vec<u8> {
    version.to_be_bytes().repeat(BLOCK_BYTES / 8)
}

/// The version that fills a block.
fn version_of(block: &[u8]) -> u64 {
    let mut words = block.chunks_exact(8).map(|word| u64::from_be_bytes(word.try_into().unwrap()));
    let first = words.next().unwrap_or(0);
    assert!(words.all(|word| word == first), "a block of two writes");
    first
}

/// The directory, the file and the server of a simulation.
struct Place {
    segment: Segment,
    file: FileRef,
    server: Server,
    history: Rc<RefCell<History>>,
    _place: TempDir,
}

impl Place {
    fn new(heads: usize) -> Self {
        let (place, segment) = fresh_segment_that_retains(RETAIN_BYTES);
        let file = new_file((BLOCKS * BLOCK_BYTES) as u64, AttrRecord::default());
        let (file, _) = segment.find_or_insert(&file).unwrap();
        Self {
            file,
            server: Server::with_file(heads, vec![0; BLOCKS * BLOCK_BYTES]),
            history: Rc::default(),
            segment,
            _place: place,
        }
    }

    fn program(&self, is_operator: bool) -> Program {
        let (server, history) = (self.server.clone(), Rc::clone(&self.history));
        let has_one_head = self.server.heads() == 1;
        Program { mount: (!is_operator).then(|| self.mount()), server, file: self.file, history, has_one_head }
    }

    fn mount(&self) -> Mount {
        let segment = Segment::attach(self.segment.directory(), 1).unwrap().unwrap();
        segment.members().fence_by(Box::new(self.server.clone()));
        let spec = MountSpec::parse(b"/db=nfs://127.0.0.1/vol").unwrap();
        let root = FileHandle::new(&[7; 28]).unwrap();
        let parts = MountParts {
            server: "127.0.0.1:2049".parse().unwrap(),
            addresses: crate::AddressSet::default(),
            root,
            rtmax: 1 << 20,
            wtmax: 1 << 20,
            wtpref: 1 << 20,
            dtpref: 1 << 15,
            fsid: 1,
            host: 0,
        };
        let state = ClientState::new(NFS, parts, &spec.url, &Credentials::of_process(), RetryPolicy::Hard).unwrap();
        let client = Client::of(SimulatedProtocol { state, server: self.server.clone(), connected: AtomicU64::new(0) });
        Mount::simulated(&spec, client, segment).unwrap()
    }
}

#[test]
fn reads_are_never_older_than_finished_writes_and_synced_data_survives_power_cuts() {
    run(1);
}

#[test]
fn data_that_one_head_of_a_cluster_acknowledged_is_not_stable_by_the_commit_of_another() {
    run(2);
}

fn run(heads: usize) {
    let (mut cuts, mut resends, mut kills, mut turns) = (0, 0, 0, 0);
    ::sim::sweep(100, |seed, _| {
        let mut world = World::new(seed);
        let place = world.outside(|| Place::new(heads));
        world.run(4, Faults { kill: 40_000, stop: 60_000 }, &|number| place.program(number == 0), Program::work);
        (kills, turns) = (kills + world.kills, turns + world.turns);
        cuts += place.server.with(|disk| disk.power_cuts);
        resends += place.server.with(|disk| disk.resends);
        let (stable, history) = (place.server.stable(), place.history.borrow());
        for &(offset, version, ended) in &history.appended {
            let bytes = stable.get(offset as usize..offset as usize + BLOCK_BYTES);
            let found = bytes.map_or(0, version_of);
            assert!(found == version || ended >= history.synced, "{version} was appended at {offset}, {found} is stable");
        }
        for block in 0..BLOCKS {
            let bytes = stable.get(block * BLOCK_BYTES..(block + 1) * BLOCK_BYTES);
            let version = bytes.map_or(0, version_of);
            assert!(
                history.allows(block, version, history.synced),
                "block {block}: {version} is stable, synced {}: {:?}",
                history.synced,
                history.writes[block]
            );
        }
    });
    println!("{turns} turns, {kills} kills, {cuts} power cuts, {resends} resends");
    assert!(cuts > 0 && resends > 0 && kills > 0);
}
