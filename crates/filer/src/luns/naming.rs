//! The names and numbers by which initiators identify targets and LUNs.

use std::hash::Hasher;

use iscsi_proto::scsi::TargetPort;
use siphasher::sip::SipHasher24;
use volume::Volume;

/// The default prefix of target names. Its domain is reserved for private use.
const PRIVATE_BASE: &str = "iqn.2026-11.internal.millrace";

/// The names of targets, and the portals at which they are reached.
#[derive(Clone, Debug, Default)]
pub(crate) struct Naming {
    /// The prefix of target names. `None`: each name has the default prefix and a number of the volume.
    pub(crate) base: Option<String>,
    /// The portal groups.
    pub(crate) ports: Vec<TargetPort>,
}

impl Naming {
    /// The name of a volume's target. A name with the default prefix contains a number of the volume. Otherwise initiators would
    /// treat another filer's volume of the same name as another path to this one.
    pub(crate) fn target(&self, name: &str, volume: &Volume) -> String {
        // Both sides convert names to lower case (RFC 7143 4.2.7.2).
        let name = name.to_lowercase();
        match &self.base {
            Some(base) => format!("{base}:{name}"),
            None => format!("{PRIVATE_BASE}:{name}.{:016x}", volume.fsid()),
        }
    }

    /// The portal groups. If no portal is bound, one group, so that units can be created.
    pub(super) fn ports(&self) -> Vec<TargetPort> {
        let one = TargetPort { relative_port: 1, portal_group_tag: 1 };
        if self.ports.is_empty() { vec![one] } else { self.ports.clone() }
    }
}

/// A number that differs from that of every other LUN. It depends on the ids of the LUN and of its volume, so a copy of the files
/// in another volume gets another number.
pub(super) fn number(volume: &Volume, id: u64) -> u64 {
    let mut hash = SipHasher24::new_with_keys(volume.fsid(), u64::from_be_bytes(*b"LUN-name"));
    hash.write(&id.to_le_bytes());
    hash.finish()
}
