//! Which commands may run under a reservation (SPC-4 table 51, SBC-3 table 13; SPC-2 table 10, SBC-2 table 3 for
//! RESERVE).

use super::super::cdb::Cdb;
use super::super::command_table::{Access, Command};
use super::super::nexus::Nexus;
use super::state::State;

/// Whether a command of a nexus ends with RESERVATION CONFLICT.
pub(super) fn conflicts(state: &State, nexus: &Nexus, cdb: &Cdb) -> bool {
    let access = access_of(cdb);
    if let Some(owner) = &state.reserved_by {
        return owner != nexus && !passes_reserve(access);
    }
    let Some(reservation) = &state.reservation else { return false };
    if state.is_holder(nexus) || reservation.kind.lets_registrants_in() && state.is_registered(nexus) {
        return false;
    }
    match access {
        Access::Read => !reservation.kind.is_write_exclusive(),
        Access::Write => true,
        _ => false,
    }
}

/// The access of a CDB. Resolves those that depend on its fields.
fn access_of(cdb: &Cdb) -> Access {
    let starts = cdb.byte(4) & 0xf1 == 0x01;
    let allows = cdb.byte(4) & 0x03 == 0;
    match cdb.info.access {
        Access::Start if starts => Access::Always,
        Access::Allow if allows => Access::Always,
        Access::Start | Access::Allow => Access::Write,
        // RELEASE by another nexus has no effect and returns GOOD.
        Access::Reserve if cdb.info.command == Command::Release => Access::Always,
        access => access,
    }
}

const fn passes_reserve(access: Access) -> bool {
    matches!(access, Access::Always)
}
