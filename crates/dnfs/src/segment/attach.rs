//! Creates a segment and attaches to one.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::layout::{
    GROWTH_SLOTS, Header, LAYOUT_VERSION, MAGIC, SEGMENT_BYTES, SLOT_COUNT, StoredAddress, load_bytes, slots_end, store_bytes,
};
use super::runtime_dir::{FILE_MODE, RuntimeDir};
use super::trust::Sharing;
use super::{Segment, SegmentError, local};
use crate::address::AddressSet;
use crate::file::FILE_HANDLE_BYTES_MAX;
use crate::slot_limiter::Members;
use crate::sys::fd::Fd;
use crate::sys::local_file::{CPath, Errno, allocate, link, open, rename, stat, truncate, unlink};
use crate::sys::network;
use crate::sys::random::random;
use crate::sys::shm::Mapping;
use std::sync::Arc;

/// Gap between the generations of a segment and those of its successor, an even number.
const GENERATIONS_BETWEEN: u32 = 1 << 16;

/// What a mount learned from the server, so that the next process does not ask again: plain numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredParts {
    pub(crate) server: SocketAddr,
    pub(crate) addresses: AddressSet,
    pub(crate) root: [u8; FILE_HANDLE_BYTES_MAX],
    pub(crate) root_length: usize,
    /// Numbers that the client fills in and reads.
    pub(crate) limits: [u32; 8],
    /// More such numbers, of 64 bits.
    pub(crate) limits_wide: [u64; 4],
}

impl Segment {
    /// Creates the segment of this directory. It appears under its name complete or not at all. `retain_bytes` holds for all
    /// processes that attach to it.
    ///
    /// The first segment of a directory needs no lock: `None` if another process was faster. A segment that replaces `former`,
    /// a retired one, is created under the directory's `create` lock, and its files get generations above all of the former
    /// one.
    pub(crate) fn create(
        directory: &RuntimeDir,
        identity: u64,
        parts: &StoredParts,
        retain_bytes: u64,
        former: Option<&Self>,
    ) -> Result<Option<Self>, SegmentError> {
        let fresh = directory.new_segment_path();
        let file = open(&fresh, libc::O_RDWR | libc::O_CREAT | libc::O_EXCL, FILE_MODE).map_err(local("make the file"))?;
        let made = Self::fill(directory, &file, identity, parts, retain_bytes, former).and_then(|segment| {
            let name = directory.segment_path();
            match if former.is_some() { rename(&fresh, &name) } else { link(&fresh, &name) } {
                Ok(()) => Ok(Some(segment)),
                // ENOENT: this process was so slow that the keeper of the faster one removed the file.
                Err(Errno(libc::EEXIST | libc::ENOENT)) => Ok(None),
                Err(errno) => Err(local("name the file")(errno)),
            }
        });
        let _ = unlink(&fresh);
        made
    }

    fn fill(
        directory: &RuntimeDir,
        file: &Fd,
        identity: u64,
        parts: &StoredParts,
        retain_bytes: u64,
        former: Option<&Self>,
    ) -> Result<Self, SegmentError> {
        truncate(file, SEGMENT_BYTES as u64).map_err(local("size the file"))?;
        // The first slots get memory too, so that attached processes have places for some files, however full the file
        // system becomes.
        allocate(file, 0, slots_end(GROWTH_SLOTS)).map_err(local("allocate memory for the index"))?;
        let mapping = Mapping::new(file, SEGMENT_BYTES).map_err(local("map the file"))?;
        let header = &mapping.values::<Header>(0, 1)[0];
        header.retain_bytes.store(retain_bytes, Relaxed);
        header.instance.store(random(), Relaxed);
        // A process may still have files of a former segment open, also of one that was removed.
        let first_generation = former.map_or_else(|| (random() as u32 >> 2) & !1, Self::next_generation);
        header.first_generation.store(first_generation, Relaxed);
        header.fill(identity, directory.sharing().owner, parts);
        Ok(Self::of(mapping, directory))
    }

    /// Attaches to the segment of this directory. `None` if there is no segment, or only a retired one.
    pub(crate) fn attach(directory: &RuntimeDir, identity: u64) -> Result<Option<Self>, SegmentError> {
        Ok(Self::attach_any(directory, identity)?.filter(|segment| !segment.is_retired()))
    }

    /// As [`Self::attach`], but also attaches to a retired segment, to replace it.
    pub(crate) fn attach_any(directory: &RuntimeDir, identity: u64) -> Result<Option<Self>, SegmentError> {
        let Some((file, head)) = Self::head(directory)? else { return Ok(None) };
        check_header(&head.values::<Header>(0, 1)[0], identity, directory.sharing().owner)?;
        if stat(&file).map_err(local("examine the file"))?.size != SEGMENT_BYTES as u64 {
            return Err(SegmentError::Foreign("of the wrong length"));
        }
        let mapping = Mapping::new(&file, SEGMENT_BYTES).map_err(local("map the file"))?;
        Ok(Some(Self::of(mapping, directory)))
    }

    /// Whether nothing would be lost with the segment of this directory, which has layout `version`. `None` if there is no segment of
    /// that layout.
    pub(crate) fn is_settled(directory: &RuntimeDir, version: u32) -> Result<Option<bool>, SegmentError> {
        let Some((_, head)) = Self::head(directory)? else { return Ok(None) };
        let header = &head.values::<Header>(0, 1)[0];
        Ok((header.layout_version.load(Acquire) == version).then(|| header.settled.load(Acquire) == 1))
    }

    /// The file of the segment and its header, which is mapped first, because another layout has another length.
    fn head(directory: &RuntimeDir) -> Result<Option<(Fd, Mapping)>, SegmentError> {
        let Sharing { owner, is_shared, .. } = directory.sharing();
        let file = match open(&directory.segment_path(), libc::O_RDWR, 0) {
            Ok(file) => file,
            Err(Errno(libc::ENOENT)) => return Ok(None),
            Err(errno) => return Err(local("open the file")(errno)),
        };
        let found = stat(&file).map_err(local("examine the file"))?;
        if found.uid != owner && !is_shared || found.mode & libc::S_IFMT != libc::S_IFREG {
            return Err(SegmentError::Foreign("not a regular file of the directory's owner"));
        }
        if found.size < size_of::<Header>() as u64 {
            return Err(SegmentError::Foreign("too short"));
        }
        let head = Mapping::new(&file, size_of::<Header>()).map_err(local("map the file"))?;
        Ok(Some((file, head)))
    }

    #[cfg(test)]
    pub(crate) fn members_path(&self) -> CPath {
        members_path(self.header(), self.directory())
    }

    fn of(mapping: Mapping, directory: &RuntimeDir) -> Self {
        let path = members_path(&mapping.values::<Header>(0, 1)[0], directory);
        let mapping = Arc::new(mapping);
        let members = Arc::new(Members::shared(Arc::clone(&mapping), path));
        Self { mapping, directory: directory.clone(), members }
    }

    /// What the process that created the segment learned from the server. `None` if the header is invalid.
    pub(crate) fn parts(&self) -> Option<StoredParts> {
        self.header().parts()
    }

    /// Marks the segment as retired, because the server exports another volume or the segment is removed. No process attaches to
    /// it any more.
    pub(crate) fn retire(&self) {
        self.header().retired.store(1, Release);
    }

    /// Whether [`Self::retire`] was called.
    #[inline]
    pub(crate) fn is_retired(&self) -> bool {
        self.header().retired.load(Acquire) != 0
    }

    /// An even generation above those of all files of this segment. Programs may still have placeholders of such files open.
    pub(crate) fn next_generation(&self) -> u32 {
        let used = self.header().high_water.load(Acquire).min(SLOT_COUNT) as usize;
        let generations = self.slots().iter().take(used).map(|slot| slot.generation.load(Acquire));
        let last = generations.max().unwrap_or(0).max(self.header().first_generation.load(Acquire));
        // No file has an even generation. The gap leaves room for files that are being opened now.
        (last | 1).wrapping_add(1 + GENERATIONS_BETWEEN).max(2)
    }
}

/// The file of the liveness locks. A new segment gets another file than the one it replaces.
fn members_path(header: &Header, directory: &RuntimeDir) -> CPath {
    match header.first_generation.load(Acquire) {
        0 => directory.lock_path("members"),
        _ => directory.lock_path(&format!("members-{:016x}", header.instance.load(Acquire))),
    }
}

fn check_header(header: &Header, identity: u64, owner: u32) -> Result<(), SegmentError> {
    if header.magic.load(Acquire) != MAGIC {
        return Err(SegmentError::Foreign("no segment"));
    }
    let found = header.layout_version.load(Acquire);
    if found != LAYOUT_VERSION {
        return Err(SegmentError::Version { found });
    }
    if header.ready.load(Acquire) != 1 || header.slot_count.load(Acquire) != SLOT_COUNT {
        return Err(SegmentError::Foreign("unfinished"));
    }
    if header.identity.load(Acquire) != identity || header.uid.load(Acquire) != owner {
        return Err(SegmentError::Foreign("the segment of another mount"));
    }
    Ok(())
}

impl Header {
    fn fill(&self, identity: u64, owner: u32, parts: &StoredParts) {
        self.layout_version.store(LAYOUT_VERSION, Relaxed);
        self.uid.store(owner, Relaxed);
        self.slot_count.store(SLOT_COUNT, Relaxed);
        self.identity.store(identity, Relaxed);
        self.server.fill(Some(parts.server));
        for (place, address) in self.servers.iter().zip(padded(parts.addresses.servers())) {
            place.fill(address);
        }
        for (place, address) in self.local.iter().zip(padded(parts.addresses.local())) {
            place.fill(address.map(|address| SocketAddr::new(address, 0)));
        }
        for (place, value) in self.limits.iter().zip(parts.limits) {
            place.store(value, Relaxed);
        }
        for (place, value) in self.limits_wide.iter().zip(parts.limits_wide) {
            place.store(value, Relaxed);
        }
        self.root_length.store(parts.root_length as u32, Relaxed);
        store_bytes(&self.root, &parts.root);
        self.namespace_generation.store(1, Relaxed);
        self.network_namespace.store(network::own_namespace().unwrap_or(0), Relaxed);
        self.ready.store(1, Release);
        self.magic.store(MAGIC, Release);
    }

    pub(super) fn parts(&self) -> Option<StoredParts> {
        let server = self.current_server()?;
        let servers = self.servers.iter().map_while(StoredAddress::value);
        let local = self.local.iter().map_while(StoredAddress::value);
        let addresses = AddressSet::new(servers, local.map(|address| address.ip()));
        let root_length = self.root_length.load(Relaxed) as usize;
        let limits = core::array::from_fn(|place| self.limits[place].load(Relaxed));
        let limits_wide = core::array::from_fn(|place| self.limits_wide[place].load(Relaxed));
        let root = load_bytes(&self.root);
        let fits = root_length <= FILE_HANDLE_BYTES_MAX;
        fits.then_some(StoredParts { server, addresses, root, root_length, limits, limits_wide })
    }
}

impl StoredAddress {
    pub(super) fn fill(&self, address: Option<SocketAddr>) {
        let (family, octets, scope) = match address {
            None => (0, [0; 16], 0),
            Some(SocketAddr::V4(address)) => (4, address.ip().to_ipv6_mapped().octets(), 0),
            Some(SocketAddr::V6(address)) => (6, address.ip().octets(), address.scope_id()),
        };
        self.family.store(family, Relaxed);
        self.port.store(address.map_or(0, |address| address.port().into()), Relaxed);
        self.scope.store(scope, Relaxed);
        store_bytes(&self.octets, &octets);
    }

    pub(super) fn value(&self) -> Option<SocketAddr> {
        let octets: [u8; 16] = load_bytes(&self.octets);
        let address = Ipv6Addr::from(octets);
        let port = u16::try_from(self.port.load(Relaxed)).ok()?;
        match self.family.load(Relaxed) {
            4 => Some(SocketAddr::new(IpAddr::V4(address.to_ipv4_mapped().unwrap_or(Ipv4Addr::UNSPECIFIED)), port)),
            6 => Some(SocketAddrV6::new(address, port, 0, self.scope.load(Relaxed)).into()),
            _ => None,
        }
    }
}

/// Each address, then `None` without end.
fn padded<T>(addresses: impl Iterator<Item = T>) -> impl Iterator<Item = Option<T>> {
    addresses.map(Some).chain(core::iter::repeat_with(|| None))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::table::tests::file;
    use super::super::tests::fresh_segment;
    use super::*;

    pub(crate) fn parts() -> StoredParts {
        let server: SocketAddr = "127.0.0.1:2049".parse().unwrap();
        let addresses = AddressSet::new([server, "[::1]:3049".parse().unwrap()], ["10.0.0.1".parse().unwrap()]);
        StoredParts {
            server,
            addresses,
            root: [7; FILE_HANDLE_BYTES_MAX],
            root_length: 28,
            limits: [1, 2, 3, 4, 5, 6, 7, 8],
            limits_wide: [9; 4],
        }
    }

    #[test]
    fn attached_segment_tells_what_its_maker_learned() {
        let (_place, segment) = fresh_segment();
        let attached = Segment::attach(segment.directory(), 1).unwrap().unwrap();
        assert_eq!(attached.parts(), Some(parts()));
    }

    #[test]
    fn a_retired_segment_is_never_attached_and_its_successor_gives_no_generation_twice() {
        let (_place, old) = fresh_segment();
        let handle = file(b"one");
        let (of_old, _) = old.find_or_insert(&handle).unwrap();
        old.retire();
        assert!(Segment::attach(old.directory(), 1).unwrap().is_none());
        let found = Segment::attach_any(old.directory(), 1).unwrap().unwrap();
        let new = Segment::create(old.directory(), 1, &parts(), 0, Some(&found)).unwrap().unwrap();
        let (of_new, _) = new.find_or_insert(&handle).unwrap();
        assert_eq!(of_new.slot, of_old.slot);
        assert!(of_new.generation > of_old.generation && new.slot(of_old).is_none() && old.slot(of_new).is_none());
        assert_ne!(new.members_path().as_bytes(), old.members_path().as_bytes());
    }

    #[test]
    fn a_process_that_is_slow_to_make_the_first_segment_leaves_nothing_and_gets_that_of_the_faster_one() {
        let (_place, segment) = fresh_segment();
        let slow = Segment::create(segment.directory(), 1, &parts(), 0, None).unwrap();
        assert!(slow.is_none());
        let files = std::fs::read_dir(segment.directory().path()).unwrap().flatten().filter(|entry| entry.path().is_file());
        assert_eq!(files.count(), 1, "the segment");
        let attached = Segment::attach(segment.directory(), 1).unwrap().unwrap();
        assert_eq!(attached.header().instance.load(Relaxed), segment.header().instance.load(Relaxed));
    }

    #[test]
    fn segment_of_another_layout_or_mount_is_refused() {
        let (_place, segment) = fresh_segment();
        assert!(matches!(Segment::attach(segment.directory(), 2), Err(SegmentError::Foreign(_))));
        segment.header().layout_version.store(LAYOUT_VERSION + 1, Release);
        let found = LAYOUT_VERSION + 1;
        assert_eq!(Segment::attach(segment.directory(), 1).unwrap_err(), SegmentError::Version { found });
    }

    #[test]
    fn segment_of_one_user_lies_where_others_cannot_go() {
        use std::os::unix::fs::PermissionsExt;
        let (_place, segment) = fresh_segment();
        let root = segment.directory().path().parent().unwrap();
        assert_eq!(std::fs::metadata(root).unwrap().permissions().mode() & 0o777, 0o700);
    }
}
