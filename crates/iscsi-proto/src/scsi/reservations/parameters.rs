//! The parameter lists of PERSISTENT RESERVE OUT (SPC-4 6.16).

use super::super::cdb::Cdb;
use super::super::nexus::Nexus;
use super::super::sense::{Asc, Sense};
use super::state::ReservationType;
use super::transport_id;

/// A service action (SPC-4 table 230).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Register,
    Reserve,
    Release,
    Clear,
    Preempt { abort: bool },
    RegisterAndIgnore,
    RegisterAndMove,
}

/// The content of a PERSISTENT RESERVE OUT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct OutParameters {
    pub(super) action: Action,
    /// The type, for RESERVE, RELEASE and PREEMPT.
    pub(super) kind: Option<ReservationType>,
    pub(super) key: u64,
    pub(super) service_action_key: u64,
    /// SPEC_I_PT: further initiator ports to register, at the target port of the command.
    pub(super) more: Vec<Nexus>,
    /// ALL_TG_PT: register at every target port.
    pub(super) all_ports: bool,
    /// APTPL.
    pub(super) persists: bool,
    /// REGISTER AND MOVE: the nexus that gets the reservation, and whether the registration of the sender ends.
    pub(super) move_to: Option<(Nexus, bool)>,
}

const SPEC_I_PT: u8 = 0x08;
const ALL_TG_PT: u8 = 0x04;
const APTPL: u8 = 0x01;
const UNREG: u8 = 0x02;
const BASIC_BYTES: usize = 24;

impl OutParameters {
    /// Parses a command's service action, scope, type and parameter list.
    ///
    /// # Errors
    /// INVALID FIELD IN CDB or PARAMETER LIST, PARAMETER LIST LENGTH ERROR.
    pub(in super::super) fn read(cdb: &Cdb, list: &[u8], nexus: &Nexus) -> Result<Self, Sense> {
        let action = match cdb.byte(1) & 0x1f {
            0 => Action::Register,
            1 => Action::Reserve,
            2 => Action::Release,
            3 => Action::Clear,
            4 => Action::Preempt { abort: false },
            5 => Action::Preempt { abort: true },
            6 => Action::RegisterAndIgnore,
            7 => Action::RegisterAndMove,
            _ => return Err(Sense::cdb_field(1, Some(4))),
        };
        let kind = match action {
            Action::Reserve | Action::Release | Action::Preempt { .. } => Some(kind_of(cdb)?),
            _ => None,
        };
        let (basic, rest) = list.split_first_chunk::<BASIC_BYTES>().ok_or(LENGTH_ERROR)?;
        let key = number(basic, 0);
        let service_action_key = number(basic, 8);
        let mut parameters =
            Self { action, kind, key, service_action_key, more: Vec::new(), all_ports: false, persists: false, move_to: None };
        if action == Action::RegisterAndMove {
            parameters.read_move(basic, rest)?;
        } else {
            parameters.read_basic(basic, rest, nexus)?;
        }
        Ok(parameters)
    }

    fn read_basic(&mut self, basic: &[u8; BASIC_BYTES], rest: &[u8], nexus: &Nexus) -> Result<(), Sense> {
        let flags = basic[20];
        let registers = matches!(self.action, Action::Register | Action::RegisterAndIgnore);
        if flags & !(SPEC_I_PT | ALL_TG_PT | APTPL) != 0 {
            return Err(Sense::parameter_field(20, None));
        }
        // SPC-4 6.16.3: actions that do not register ignore ALL_TG_PT and APTPL.
        self.all_ports = registers && flags & ALL_TG_PT != 0;
        self.persists = registers && flags & APTPL != 0;
        if flags & SPEC_I_PT == 0 {
            return if rest.is_empty() { Ok(()) } else { Err(LENGTH_ERROR) };
        }
        if self.action != Action::Register {
            return Err(Sense::parameter_field(20, Some(3)));
        }
        let (length, mut ids) = rest.split_first_chunk::<4>().ok_or(LENGTH_ERROR)?;
        if u32::from_be_bytes(*length) as usize != ids.len() {
            return Err(LENGTH_ERROR);
        }
        // The length of the parameter list limits the number of TransportIDs.
        while !ids.is_empty() {
            let at = (BASIC_BYTES + 4 + rest.len() - 4 - ids.len()) as u16;
            let (port, length) =
                transport_id::parse(ids, nexus.relative_target_port()).ok_or(Sense::parameter_field(at, None))?;
            self.more.push(port);
            ids = ids.get(length..).unwrap_or_default();
        }
        Ok(())
    }

    fn read_move(&mut self, basic: &[u8; BASIC_BYTES], rest: &[u8]) -> Result<(), Sense> {
        let flags = basic[17];
        if flags & !(UNREG | APTPL) != 0 {
            return Err(Sense::parameter_field(17, None));
        }
        self.persists = flags & APTPL != 0;
        let port = u16::from_be_bytes([basic[18], basic[19]]);
        let length = u32::from_be_bytes([basic[20], basic[21], basic[22], basic[23]]) as usize;
        if length != rest.len() {
            return Err(LENGTH_ERROR);
        }
        let to = transport_id::parse(rest, port).filter(|(_, used)| *used == rest.len());
        let (nexus, _) = to.ok_or(Sense::parameter_field(BASIC_BYTES as u16, None))?;
        self.move_to = Some((nexus, flags & UNREG != 0));
        Ok(())
    }
}

const LENGTH_ERROR: Sense = Sense::illegal(Asc::PARAMETER_LIST_LENGTH_ERROR);

/// The type. The scope must be the complete unit.
fn kind_of(cdb: &Cdb) -> Result<ReservationType, Sense> {
    if cdb.byte(2) >> 4 != 0 {
        return Err(Sense::cdb_field(2, Some(7)));
    }
    ReservationType::from_code(cdb.byte(2) & 0x0f).ok_or(Sense::cdb_field(2, Some(3)))
}

fn number(bytes: &[u8], at: usize) -> u64 {
    bytes.iter().skip(at).take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}
