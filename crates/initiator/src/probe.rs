//! The commands by which a path learns about its LUN, one after the other.

use crate::cdb::{self, Cdb};
use crate::command::Failure;
use crate::identity::{Geometry, Identity};
use crate::path_report::AccessState;
use crate::sense::SenseCode;
use iscsi_proto::scsi::{LOSS_EPOCH_PAGE, VENDOR, read_loss_epoch};

/// Times that one command is resent: unit attentions queue up (SAM-5 5.14).
const ATTEMPTS_MAX: u32 = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Ready,
    Inquiry,
    Designators,
    Capacity,
    Limits,
    Provisioning,
    Mode,
    LossEpoch,
    Groups,
    /// The LUN does not exist or is not a disk. REPORT LUNS lists the LUNs of the target for the error message.
    Units,
}

/// What a path has learned so far.
#[derive(Debug)]
pub(crate) struct Probe {
    step: Step,
    attempts: u32,
    has_port_groups: bool,
    /// The device type of a LUN that is not a disk.
    device_type: Option<u8>,
    pub(crate) identity: Identity,
    pub(crate) geometry: Geometry,
    pub(crate) access: AccessState,
    /// The LUN's loss epoch: the target raises it when the write cache was lost. Only Millrace's target has it.
    pub(crate) loss_epoch: Option<u64>,
}

/// The next step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Another command.
    Go,
    /// The probe is complete.
    Done,
    /// The LUN cannot be used: the command, and how it failed.
    Failed(&'static str, Failure),
    /// The LUN is a device of this type, or does not exist (`None`). With the data of REPORT LUNS.
    NoDisk(Option<u8>, Vec<u8>),
}

impl Probe {
    pub(crate) fn new() -> Self {
        Self {
            step: Step::Ready,
            attempts: 0,
            has_port_groups: false,
            device_type: None,
            identity: Identity::default(),
            geometry: Geometry::default(),
            access: AccessState::Optimized,
            loss_epoch: None,
        }
    }

    /// Whether the next command is for the target (LUN 0) and not for the LUN.
    pub(crate) fn asks_the_target(&self) -> bool {
        self.step == Step::Units
    }

    /// The next command, and the largest size of its data.
    pub(crate) fn command(&self) -> (Cdb, u32) {
        match self.step {
            Step::Ready => (cdb::test_unit_ready(), 0),
            Step::Inquiry => (cdb::inquiry(None, 96), 96),
            Step::Designators => (cdb::inquiry(Some(0x83), 1024), 1024),
            Step::Capacity => (cdb::read_capacity(32), 32),
            Step::Limits => (cdb::inquiry(Some(0xb0), 64), 64),
            Step::Provisioning => (cdb::inquiry(Some(0xb2), 64), 64),
            Step::Mode => (cdb::mode_sense_caching(64), 64),
            Step::LossEpoch => loss_epoch_command(),
            Step::Groups => (cdb::report_target_port_groups(1024), 1024),
            Step::Units => (cdb::report_luns(2048), 2048),
        }
    }

    /// Called when the command must be resent: a unit attention, or the target was busy.
    pub(crate) fn again(&mut self, failure: Failure) -> Next {
        self.attempts += 1;
        if self.attempts < ATTEMPTS_MAX { Next::Go } else { self.refused(failure) }
    }

    /// Called when the command succeeded with this data.
    pub(crate) fn answered(&mut self, data: &[u8]) -> Next {
        let whole = match self.step {
            Step::Ready => true,
            Step::Inquiry => {
                self.has_port_groups = data.get(5).is_some_and(|flags| flags & 0x30 != 0);
                if !self.identity.read_inquiry(data) {
                    // Qualifier 011b: the target has no such LUN (SPC-4 6.4.2).
                    self.device_type = data.first().filter(|first| **first >> 5 != 3).map(|first| first & 0x1f);
                    return self.ask_for_units();
                }
                true
            }
            Step::Units => return Next::NoDisk(self.device_type, data.to_vec()),
            Step::Designators => {
                self.identity.read_designators(data);
                true
            }
            Step::Capacity => self.geometry.read_capacity(data).is_some(),
            Step::Limits => {
                self.geometry.read_block_limits(data);
                true
            }
            Step::Provisioning => {
                self.geometry.read_provisioning(data);
                true
            }
            Step::Mode => {
                self.geometry.read_mode(data);
                true
            }
            Step::LossEpoch => {
                self.loss_epoch = read_loss_epoch(data);
                true
            }
            Step::Groups => {
                self.access = access_of(data, self.identity.port_group).unwrap_or(self.access);
                true
            }
        };
        if whole { self.go_on() } else { self.refused(Failure::Invalid) }
    }

    /// Called when the command failed.
    pub(crate) fn refused(&mut self, failure: Failure) -> Next {
        match self.step {
            // LOGICAL UNIT NOT SUPPORTED.
            Step::Ready | Step::Inquiry if matches!(failure, Failure::Sense(SenseCode { key: 5, asc: 0x25, .. })) => {
                self.ask_for_units()
            }
            Step::Units => Next::NoDisk(self.device_type, Vec::new()),
            Step::Ready => Next::Failed("TEST UNIT READY", failure),
            Step::Inquiry => Next::Failed("INQUIRY does not show a disk", failure),
            Step::Capacity => Next::Failed("READ CAPACITY (16)", failure),
            // Older targets do not support these commands. The cautious default remains.
            Step::Designators | Step::Limits | Step::Provisioning | Step::Mode | Step::LossEpoch | Step::Groups => self.go_on(),
        }
    }

    fn ask_for_units(&mut self) -> Next {
        (self.step, self.attempts) = (Step::Units, 0);
        Next::Go
    }

    fn go_on(&mut self) -> Next {
        self.attempts = 0;
        self.step = match self.step {
            Step::Ready => Step::Inquiry,
            Step::Inquiry => Step::Designators,
            Step::Designators => Step::Capacity,
            Step::Capacity => Step::Limits,
            Step::Limits => Step::Provisioning,
            Step::Provisioning => Step::Mode,
            Step::Mode if self.identity.vendor == VENDOR => Step::LossEpoch,
            Step::Mode | Step::LossEpoch if self.has_port_groups => Step::Groups,
            Step::Mode | Step::LossEpoch | Step::Groups | Step::Units => return Next::Done,
        };
        Next::Go
    }
}

/// INQUIRY of the page with the loss epoch, and the largest size of its data.
pub(crate) fn loss_epoch_command() -> (Cdb, u32) {
    (cdb::inquiry(Some(LOSS_EPOCH_PAGE), 64), 64)
}

/// The state of a group in REPORT TARGET PORT GROUPS data (SPC-4 6.37).
fn access_of(data: &[u8], group: Option<u16>) -> Option<AccessState> {
    let mut rest = data.get(4..)?;
    while let [state, _, high, low, _, _, _, ports, behind @ ..] = rest {
        if group == Some(u16::from_be_bytes([*high, *low])) {
            return Some(AccessState::from_number(state & 0x0f));
        }
        rest = behind.get(4 * usize::from(*ports)..).unwrap_or_default();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_the_paths_own_group_is_found() {
        let mut data = vec![0, 0, 0, 28];
        data.extend_from_slice(&[0x00, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2]);
        data.extend_from_slice(&[0x82, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3]);
        assert_eq!(access_of(&data, Some(1)), Some(AccessState::Optimized));
        assert_eq!(access_of(&data, Some(2)), Some(AccessState::Standby));
        assert_eq!(access_of(&data, Some(3)), None);
        assert_eq!(access_of(&data[..6], Some(1)), None);
    }

    #[test]
    fn a_lun_that_is_not_a_disk_is_refused_with_a_list_of_the_luns_of_the_target() {
        let missing = Failure::Sense(SenseCode { key: 5, asc: 0x25, ascq: 0, deferred: false });
        let mut controller = Probe::new();
        controller.answered(&[]);
        assert_eq!((controller.answered(&[0x0c; 36]), controller.command().0), (Next::Go, cdb::report_luns(2048)));
        assert_eq!(controller.answered(&[1]), Next::NoDisk(Some(0x0c), vec![1]));
        let mut absent = Probe::new();
        assert_eq!((absent.refused(missing), absent.refused(Failure::Invalid)), (Next::Go, Next::NoDisk(None, vec![])));
        let mut unknown = Probe::new();
        unknown.answered(&[]);
        assert_eq!((unknown.answered(&[0x7f; 36]), unknown.answered(&[])), (Next::Go, Next::NoDisk(None, vec![])));
    }

    #[test]
    fn a_failure_of_a_mandatory_command_refuses_the_lun_and_of_an_optional_one_does_not() {
        let mut probe = Probe::new();
        assert_eq!(probe.answered(&[]), Next::Go);
        assert_eq!(probe.answered(&[0; 36]), Next::Go);
        assert_eq!(probe.refused(Failure::Invalid), Next::Go); // no designators
        assert!(matches!(probe.refused(Failure::Invalid), Next::Failed("READ CAPACITY (16)", _)));
    }
}
