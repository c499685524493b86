//! The names by which initiators know targets and LUNs.

use std::hash::Hasher;

use iscsi_proto::scsi::TargetPort;
use siphasher::sip::SipHasher24;
use volume::Volume;

/// The start of target names where none is configured: of a domain that is set aside for private use, so it is nobody's.
const PRIVATE_BASE: &str = "iqn.2026-11.internal.millrace";

/// How targets are called and reached.
#[derive(Clone, Debug, Default)]
pub(crate) struct Naming {
    /// The start of the names of targets; none: one that is this filer's alone is made up for each volume.
    pub(crate) base: Option<String>,
    /// The portal groups.
    pub(crate) ports: Vec<TargetPort>,
}

impl Naming {
    /// The name of the target of a volume. A name that nobody configured has the volume's number in it: another filer's volume of
    /// that name would otherwise look like another path to this one.
    pub(crate) fn target(&self, name: &str, volume: &Volume) -> String {
        // Names are folded to lower case by both sides (RFC 7143 4.2.7.2).
        let name = name.to_lowercase();
        match &self.base {
            Some(base) => format!("{base}:{name}"),
            None => format!("{PRIVATE_BASE}:{name}.{:016x}", volume.fsid()),
        }
    }

    /// The portal groups; one where none is served, so that units can be made.
    pub(super) fn ports(&self) -> Vec<TargetPort> {
        let one = TargetPort { relative_port: 1, portal_group_tag: 1 };
        if self.ports.is_empty() { vec![one] } else { self.ports.clone() }
    }
}

/// The number that names a LUN among all LUNs there are: of its own id and its volume's, so a copy of its files in another volume
/// has another.
pub(super) fn number(volume: &Volume, id: u64) -> u64 {
    let mut hash = SipHasher24::new_with_keys(volume.fsid(), u64::from_be_bytes(*b"LUN-name"));
    hash.write(&id.to_le_bytes());
    hash.finish()
}
