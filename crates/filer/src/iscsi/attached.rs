//! The LUNs that a session sees.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use iscsi_proto::pdu;
use iscsi_proto::scsi::{Directory, Lun as LunNumber, Nexus};

use crate::luns::{InitiatorStats, Knows, Lun, Unit};

/// LUNs that are mapped to an initiator, by number.
pub(super) struct Mapped(pub(super) Vec<Arc<Attached>>);

/// A LUN that a session sees.
pub(super) struct Attached {
    pub(super) number: LunNumber,
    pub(super) lun: Arc<Lun>,
    pub(super) unit: Arc<Unit>,
    pub(super) stats: Arc<InitiatorStats>,
    /// Whether it must still be recorded that the nexus knows the latest loss. Its next command or write causes that.
    tell: AtomicBool,
    knows: Knows,
    /// The loss epoch of the LUN when the nexus was attached.
    epoch: u64,
}

impl Mapped {
    /// The LUN at an address.
    pub(super) fn at(&self, lun: pdu::Lun) -> Option<&Arc<Attached>> {
        let number = LunNumber::from_bytes(lun.0)?;
        self.0.iter().find(|attached| attached.number == number)
    }

    /// All LUNs.
    pub(super) fn each(&self) -> impl Iterator<Item = &Arc<Attached>> {
        self.0.iter()
    }
}

impl Directory for Mapped {
    fn luns(&self) -> Vec<LunNumber> {
        self.0.iter().map(|attached| attached.number).collect()
    }

    fn luns_reported(&self, nexus: &Nexus) {
        self.0.iter().for_each(|attached| attached.unit.luns_reported(nexus));
    }
}

impl Attached {
    pub(super) fn new(number: LunNumber, lun: &Arc<Lun>, unit: Arc<Unit>, nexus: &Nexus) -> Self {
        let (knows, epoch) = lun.attach(nexus);
        let stats = lun.stats().of(nexus.initiator_name());
        Self { number, lun: Arc::clone(lun), unit, stats, tell: AtomicBool::new(knows != Knows::All), knows, epoch }
    }

    /// Called when a command of the nexus succeeded. The unit attentions of the nexus were reported before.
    pub(super) fn note_good(&self, nexus: &Nexus, wrote: bool) {
        let is_due = self.tell.load(Ordering::Relaxed) && (wrote || self.knows == Knows::NotTheLoss);
        if is_due && self.tell.swap(false, Ordering::Relaxed) {
            self.lun.knows(nexus, self.epoch);
        }
    }
}
