//! The commands by which a path learns what it leads to, one after the other.

use crate::cdb::{self, Cdb};
use crate::command::Failure;
use crate::identity::{Geometry, Identity};
use crate::path_report::AccessState;

/// Times that one command is sent again: unit attentions queue up (SAM-5 5.14).
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
    Groups,
}

/// What was learned so far.
#[derive(Debug)]
pub(crate) struct Probe {
    step: Step,
    attempts: u32,
    has_port_groups: bool,
    pub(crate) identity: Identity,
    pub(crate) geometry: Geometry,
    pub(crate) access: AccessState,
}

/// What is next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Another command.
    Go,
    /// It is over.
    Done,
    /// The LUN cannot be used: the command, and how it failed.
    Failed(&'static str, Failure),
}

impl Probe {
    pub(crate) fn new() -> Self {
        Self {
            step: Step::Ready,
            attempts: 0,
            has_port_groups: false,
            identity: Identity::default(),
            geometry: Geometry::default(),
            access: AccessState::Optimized,
        }
    }

    /// The next command, and how many bytes it brings at most.
    pub(crate) fn command(&self) -> (Cdb, u32) {
        match self.step {
            Step::Ready => (cdb::test_unit_ready(), 0),
            Step::Inquiry => (cdb::inquiry(None, 96), 96),
            Step::Designators => (cdb::inquiry(Some(0x83), 1024), 1024),
            Step::Capacity => (cdb::read_capacity(32), 32),
            Step::Limits => (cdb::inquiry(Some(0xb0), 64), 64),
            Step::Provisioning => (cdb::inquiry(Some(0xb2), 64), 64),
            Step::Mode => (cdb::mode_sense_caching(64), 64),
            Step::Groups => (cdb::report_target_port_groups(1024), 1024),
        }
    }

    /// The command is to be sent again: a unit attention, or the target was busy.
    pub(crate) fn again(&mut self, failure: Failure) -> Next {
        self.attempts += 1;
        if self.attempts < ATTEMPTS_MAX { Next::Go } else { self.refused(failure) }
    }

    /// The command brought data.
    pub(crate) fn answered(&mut self, data: &[u8]) -> Next {
        let whole = match self.step {
            Step::Ready => true,
            Step::Inquiry => {
                self.has_port_groups = data.get(5).is_some_and(|flags| flags & 0x30 != 0);
                self.identity.read_inquiry(data)
            }
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
            Step::Groups => {
                self.access = access_of(data, self.identity.port_group).unwrap_or(self.access);
                true
            }
        };
        if whole { self.go_on() } else { self.refused(Failure::Invalid) }
    }

    /// The command failed.
    pub(crate) fn refused(&mut self, failure: Failure) -> Next {
        match self.step {
            Step::Ready => Next::Failed("TEST UNIT READY", failure),
            Step::Inquiry => Next::Failed("INQUIRY does not show a disk", failure),
            Step::Capacity => Next::Failed("READ CAPACITY (16)", failure),
            // What older targets do not have; without it the careful answer stands.
            Step::Designators | Step::Limits | Step::Provisioning | Step::Mode | Step::Groups => self.go_on(),
        }
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
            Step::Mode if self.has_port_groups => Step::Groups,
            Step::Mode | Step::Groups => return Next::Done,
        };
        Next::Go
    }
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
    fn what_a_lun_must_have_is_told_from_what_it_may_have() {
        let mut probe = Probe::new();
        assert_eq!(probe.answered(&[]), Next::Go);
        assert_eq!(probe.answered(&[0; 36]), Next::Go);
        assert_eq!(probe.refused(Failure::Invalid), Next::Go); // no designators
        assert!(matches!(probe.refused(Failure::Invalid), Next::Failed("READ CAPACITY (16)", _)));
    }
}
