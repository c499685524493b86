//! The effect of PERSISTENT RESERVE OUT on the state (SPC-4 5.13.7 to 5.13.11). This code only computes it. The caller
//! stores and publishes the new state, and reports it.

use super::super::completion::{Failure, Status};
use super::super::nexus::Nexus;
use super::super::sense::{Asc, Sense};
use super::parameters::{Action, OutParameters};
use super::state::{Reservation, ReservationType, State};
use crate::limits::SCSI_REGISTRATIONS_MAX;

/// The effect of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Outcome {
    pub(in super::super) state: State,
    /// The unit attentions that other nexuses must get.
    pub(in super::super) attentions: Vec<(Nexus, Asc)>,
    /// The nexuses whose commands PREEMPT AND ABORT aborts.
    pub(in super::super) aborted: Vec<Nexus>,
}

const CONFLICT: Failure = Failure::Status(Status::ReservationConflict);

/// Applies a command of a nexus. `ports` are the relative identifiers of all target ports.
///
/// # Errors
/// RESERVATION CONFLICT, or the sense data for the parameter list. The state does not change then.
pub(in super::super) fn change(
    state: &State,
    nexus: &Nexus,
    parameters: &OutParameters,
    ports: &[u16],
) -> Result<Outcome, Failure> {
    // RESERVE excludes persistent reservations, also those of its own nexus (SPC-2 5.5.1).
    if state.reserved_by.is_some() {
        return Err(CONFLICT);
    }
    let mut outcome = Outcome { state: state.clone(), attentions: Vec::new(), aborted: Vec::new() };
    let key = state.registrations.get(nexus).copied();
    match parameters.action {
        Action::Register | Action::RegisterAndIgnore => register(&mut outcome, nexus, key, parameters, ports)?,
        // All other actions are for registered nexuses that know their key.
        _ if key != Some(parameters.key) => return Err(CONFLICT),
        Action::Reserve => reserve(&mut outcome, nexus, parameters)?,
        Action::Release => release(&mut outcome, nexus, parameters)?,
        Action::Clear => clear(&mut outcome, nexus),
        Action::Preempt { abort } => preempt(&mut outcome, nexus, parameters, abort)?,
        Action::RegisterAndMove => register_and_move(&mut outcome, nexus, parameters, ports)?,
    }
    Ok(outcome)
}

impl Outcome {
    fn tell(&mut self, nexuses: Vec<Nexus>, asc: Asc) {
        self.attentions.extend(nexuses.into_iter().map(|nexus| (nexus, asc)));
    }

    /// Ends the reservation, and reports that to the registered nexuses that had access by it (SPC-4 5.13.11.2.2).
    fn end_reservation(&mut self, by: &Nexus) {
        if let Some(reservation) = self.state.reservation.take()
            && reservation.kind.lets_registrants_in()
        {
            self.tell(self.state.others(by), Asc::RESERVATIONS_RELEASED);
        }
    }

    /// Removes a registration, and the reservation if this registration alone holds it.
    fn unregister(&mut self, nexus: &Nexus, by: &Nexus) {
        let sole = self.state.reservation.as_ref().is_some_and(|reservation| {
            if reservation.kind.is_all_registrants() {
                self.state.registrations.len() == 1 && self.state.is_registered(nexus)
            } else {
                reservation.holder == *nexus
            }
        });
        self.state.registrations.remove(nexus);
        if sole {
            self.end_reservation(by);
        }
    }
}

fn register(
    outcome: &mut Outcome,
    nexus: &Nexus,
    key: Option<u64>,
    parameters: &OutParameters,
    ports: &[u16],
) -> Result<(), Failure> {
    if parameters.action == Action::Register && key.unwrap_or(0) != parameters.key {
        return Err(CONFLICT);
    }
    if !parameters.more.is_empty() {
        // SPC-4 5.13.7: SPEC_I_PT is for a nexus that is not registered yet. The ports that it registers must not be
        // registered either.
        let known = key.is_some() || parameters.more.iter().any(|nexus| outcome.state.is_registered(nexus));
        if known {
            return Err(Sense::parameter_field(20, Some(3)).into());
        }
    }
    let through_ports = |nexus: &Nexus| -> Vec<Nexus> {
        if parameters.all_ports { ports.iter().map(|port| nexus.through(*port)).collect() } else { vec![nexus.clone()] }
    };
    let targets = std::iter::once(nexus).chain(&parameters.more).flat_map(through_ports);
    for target in targets {
        if parameters.service_action_key == 0 {
            outcome.unregister(&target, nexus);
        } else {
            outcome.state.registrations.insert(target, parameters.service_action_key);
        }
    }
    if outcome.state.registrations.len() > SCSI_REGISTRATIONS_MAX {
        return Err(Sense::illegal(Asc::INSUFFICIENT_REGISTRATION_RESOURCES).into());
    }
    outcome.state.persists = parameters.persists;
    outcome.state.generation = outcome.state.generation.wrapping_add(1);
    Ok(())
}

fn reserve(outcome: &mut Outcome, nexus: &Nexus, parameters: &OutParameters) -> Result<(), Failure> {
    let kind = kind_of(parameters)?;
    match &outcome.state.reservation {
        None => {
            outcome.state.reservation = Some(Reservation { holder: nexus.clone(), kind });
            Ok(())
        }
        Some(reservation) if outcome.state.is_holder(nexus) && reservation.kind == kind => Ok(()),
        Some(_) => Err(CONFLICT),
    }
}

fn release(outcome: &mut Outcome, nexus: &Nexus, parameters: &OutParameters) -> Result<(), Failure> {
    let kind = kind_of(parameters)?;
    match &outcome.state.reservation {
        Some(reservation) if outcome.state.is_holder(nexus) => {
            if reservation.kind != kind {
                return Err(Sense::illegal(Asc::INVALID_RELEASE_OF_PERSISTENT_RESERVATION).into());
            }
            outcome.end_reservation(nexus);
            Ok(())
        }
        _ => Ok(()),
    }
}

fn clear(outcome: &mut Outcome, nexus: &Nexus) {
    outcome.tell(outcome.state.others(nexus), Asc::RESERVATIONS_PREEMPTED);
    outcome.state.registrations.clear();
    outcome.state.reservation = None;
    outcome.state.generation = outcome.state.generation.wrapping_add(1);
}

fn preempt(outcome: &mut Outcome, nexus: &Nexus, parameters: &OutParameters, abort: bool) -> Result<(), Failure> {
    let kind = kind_of(parameters)?;
    let key = parameters.service_action_key;
    let all_registrants = outcome.state.reservation.as_ref().is_some_and(|reservation| reservation.kind.is_all_registrants());
    if key == 0 && !all_registrants {
        return Err(Sense::parameter_field(8, None).into());
    }
    let takes_reservation = if all_registrants { key == 0 } else { outcome.state.holder_key() == Some(key) };
    // SPC-4 5.13.11.2.3: the nexus that takes the reservation keeps its own registration. Otherwise every registration of
    // the key is removed.
    let removed: Vec<Nexus> = outcome
        .state
        .registrations
        .iter()
        .filter(|(other, registered)| (key == 0 || **registered == key) && !(takes_reservation && *other == nexus))
        .map(|(other, _)| other.clone())
        .collect();
    if removed.is_empty() && !takes_reservation {
        return Err(CONFLICT);
    }
    if takes_reservation {
        take_reservation(outcome, nexus, kind, &removed);
    } else {
        for other in &removed {
            outcome.unregister(other, nexus);
        }
    }
    let told: Vec<Nexus> = removed.iter().filter(|other| *other != nexus).cloned().collect();
    if abort {
        outcome.aborted.clone_from(&told);
    }
    outcome.tell(told, Asc::REGISTRATIONS_PREEMPTED);
    outcome.state.generation = outcome.state.generation.wrapping_add(1);
    Ok(())
}

/// Moves the reservation to the nexus in one step. Nexuses that stay registered get a unit attention if its type has
/// changed.
fn take_reservation(outcome: &mut Outcome, nexus: &Nexus, kind: ReservationType, removed: &[Nexus]) {
    for other in removed {
        outcome.state.registrations.remove(other);
    }
    let before = outcome.state.reservation.replace(Reservation { holder: nexus.clone(), kind });
    if before.is_some_and(|before| before.kind != kind) {
        outcome.tell(outcome.state.others(nexus), Asc::RESERVATIONS_RELEASED);
    }
}

fn register_and_move(outcome: &mut Outcome, nexus: &Nexus, parameters: &OutParameters, ports: &[u16]) -> Result<(), Failure> {
    let Some((to, unregister)) = &parameters.move_to else { return Err(CONFLICT) };
    let Some(reservation) = &outcome.state.reservation else { return Err(CONFLICT) };
    // SPC-4 5.13.8: a reservation of all registrants has no single holder from which it could be moved.
    if reservation.kind.is_all_registrants() || reservation.holder != *nexus {
        return Err(CONFLICT);
    }
    let kind = reservation.kind;
    if parameters.service_action_key == 0 {
        return Err(Sense::parameter_field(8, None).into());
    }
    if !ports.contains(&to.relative_target_port()) {
        return Err(Sense::parameter_field(18, None).into());
    }
    if to == nexus {
        return Err(Sense::parameter_field(24, None).into());
    }
    outcome.state.registrations.insert(to.clone(), parameters.service_action_key);
    outcome.state.reservation = Some(Reservation { holder: to.clone(), kind });
    if *unregister {
        outcome.state.registrations.remove(nexus);
    }
    if outcome.state.registrations.len() > SCSI_REGISTRATIONS_MAX {
        return Err(Sense::illegal(Asc::INSUFFICIENT_REGISTRATION_RESOURCES).into());
    }
    outcome.state.persists = parameters.persists;
    outcome.state.generation = outcome.state.generation.wrapping_add(1);
    Ok(())
}

/// The type of the reservation, which the actions that need one have.
fn kind_of(parameters: &OutParameters) -> Result<ReservationType, Sense> {
    parameters.kind.ok_or(Sense::cdb_field(2, Some(3)))
}
