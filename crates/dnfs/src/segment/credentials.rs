//! A small table of the credentials with which files were opened and written.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::Segment;
use super::layout::StoredCredentials;
use crate::credentials::Credentials;
use nfs_proto::rpc::Groups;

const FREE: u32 = 0;
const WRITING: u32 = 1;
const COMPLETE: u32 = 2;

impl Segment {
    /// The place of these credentials, which are stored if necessary. `None` if the table is full.
    pub(crate) fn place_of(&self, who: &Credentials) -> Option<u32> {
        for (place, stored) in self.stored_credentials().iter().enumerate() {
            let state = stored.state.load(Acquire);
            // A place that a killed process left incomplete is never reused; there are enough.
            if state == COMPLETE && stored.is(who) {
                return Some(place as u32);
            }
            if state == FREE && stored.state.compare_exchange(FREE, WRITING, AcqRel, Relaxed).is_ok() {
                stored.fill(who);
                stored.state.store(COMPLETE, Release);
                return Some(place as u32);
            }
        }
        None
    }

    /// The credentials of a place, with the machine name of `asking`.
    pub(crate) fn credentials_at(&self, place: u32, asking: &Credentials) -> Option<Credentials> {
        let stored = self.stored_credentials().get(place as usize).filter(|stored| stored.state.load(Acquire) == COMPLETE)?;
        let count = (stored.group_count.load(Relaxed) as usize).min(stored.groups.len());
        let groups: [u32; 16] = core::array::from_fn(|place| stored.groups[place].load(Relaxed));
        Some(Credentials {
            uid: stored.uid.load(Relaxed),
            gid: stored.gid.load(Relaxed),
            groups: Groups::new(&groups[..count]),
            machine: asking.machine.clone(),
        })
    }
}

impl StoredCredentials {
    fn is(&self, who: &Credentials) -> bool {
        let groups = who.groups.as_slice();
        self.uid.load(Relaxed) == who.uid
            && self.gid.load(Relaxed) == who.gid
            && self.group_count.load(Relaxed) as usize == groups.len()
            && self.groups.iter().zip(groups).all(|(stored, group)| stored.load(Relaxed) == *group)
    }

    fn fill(&self, who: &Credentials) {
        let groups = who.groups.as_slice();
        self.uid.store(who.uid, Relaxed);
        self.gid.store(who.gid, Relaxed);
        self.group_count.store(groups.len() as u32, Relaxed);
        for (stored, group) in self.groups.iter().zip(groups) {
            stored.store(*group, Relaxed);
        }
    }
}
