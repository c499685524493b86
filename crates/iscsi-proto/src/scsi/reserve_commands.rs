//! PERSISTENT RESERVE IN and OUT, RESERVE and RELEASE: parses parameters, stores and publishes the state, and reports
//! changes.

use super::attention::Condition;
use super::call::Call;
use super::completion::{Completion, Failure, Status};
use super::reservations::{OutParameters, Outcome, capabilities, change, full_status, read_keys, read_reservation};
use super::sense::{Asc, Sense, SenseKey};
use super::store::Store;
use super::unit::LogicalUnit;

pub(super) fn persistent_reserve_in<S: Store>(
    unit: &LogicalUnit<S>,
    call: &Call<'_>,
    data_in: &mut [u8],
) -> Result<Completion, Failure> {
    let state = unit.reservations.snapshot();
    if state.reserved_by.is_some() {
        return Err(Failure::Status(Status::ReservationConflict));
    }
    let data = match call.cdb.byte(1) & 0x1f {
        0 => read_keys(&state),
        1 => read_reservation(&state),
        2 => capabilities(&state),
        _ => full_status(&state),
    };
    Ok(call.reply(&data, data_in))
}

/// The new state is stored before it takes effect. The command completes after the writes that the new state forbids have
/// ended.
pub(super) fn persistent_reserve_out<S: Store>(unit: &LogicalUnit<S>, call: &Call<'_>) -> Result<Completion, Failure> {
    let list = call.parameters()?;
    let parameters = OutParameters::read(&call.cdb, list, call.nexus)?;
    let ports: Vec<u16> = unit.identity.ports().iter().map(|port| port.relative_port).collect();
    let changing = unit.reservations.begin_change();
    let before = changing.state();
    let Outcome { state, attentions, aborted } = change(&before, call.nexus, &parameters, &ports)?;
    let kept = state.to_kept();
    if kept != before.to_kept() && unit.host.keep_reservations(&kept).is_err() {
        return Err(Sense::new(SenseKey::HardwareError, Asc::LOGICAL_UNIT_FAILURE).into());
    }
    changing.publish(state);
    for (nexus, asc) in &attentions {
        unit.attentions.add(nexus, Condition::Attention(*asc));
    }
    drop(changing);
    for nexus in &aborted {
        unit.host.abort_commands(nexus);
    }
    unit.drain_writes();
    Ok(Completion::good(list.len() as u64, 0))
}

pub(super) fn reserve<S: Store>(unit: &LogicalUnit<S>, call: &Call<'_>) -> Result<Completion, Failure> {
    let changing = unit.reservations.begin_change();
    let mut state = changing.state();
    let taken = state.reserved_by.as_ref().is_some_and(|owner| owner != call.nexus);
    if taken || state.has_registrations() {
        return Err(Failure::Status(Status::ReservationConflict));
    }
    state.reserved_by = Some(call.nexus.clone());
    changing.publish(state);
    drop(changing);
    unit.drain_writes();
    Ok(Completion::good(0, 0))
}

pub(super) fn release<S: Store>(unit: &LogicalUnit<S>, call: &Call<'_>) -> Result<Completion, Failure> {
    if unit.reservations.snapshot().has_registrations() {
        return Err(Failure::Status(Status::ReservationConflict));
    }
    unit.reservations.end_reserve(Some(call.nexus));
    Ok(Completion::good(0, 0))
}
