//! Reservations: persistent reservations (SPC-4 5.13) and RESERVE (SPC-2 5.5.1).

mod change;
mod conflict;
mod kept;
mod parameters;
mod report;
mod state;
mod transport_id;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use super::call::Call;
use super::completion::{Failure, Status};
use super::nexus::Nexus;

pub(super) use change::{Outcome, change};
pub(super) use kept::KeptError;
pub(super) use parameters::OutParameters;
pub(super) use report::{capabilities, full_status, read_keys, read_reservation};
pub(super) use state::State;

/// The reservations of a unit.
pub(super) struct Reservations {
    /// Whether there is a reservation. If not, a command reads nothing else.
    held: AtomicBool,
    state: RwLock<State>,
    /// Held by the one command that changes the state, also while the host stores it.
    changing: Mutex<()>,
}

/// The right to change the state.
pub(super) struct Changing<'a> {
    reservations: &'a Reservations,
    _guard: MutexGuard<'a, ()>,
}

impl Reservations {
    /// Parses the stored reservations.
    pub(super) fn read(kept: &[u8]) -> Result<Self, KeptError> {
        let state = State::read(kept)?;
        Ok(Self { held: AtomicBool::new(state.is_held()), state: RwLock::new(state), changing: Mutex::new(()) })
    }

    /// Whether a command may run (SPC-4 5.13.2).
    ///
    /// # Errors
    /// RESERVATION CONFLICT.
    pub(super) fn check(&self, call: &Call<'_>) -> Result<(), Failure> {
        if !self.held.load(Ordering::SeqCst) {
            return Ok(());
        }
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        if conflict::conflicts(&state, call.nexus, &call.cdb) {
            Err(Failure::Status(Status::ReservationConflict))
        } else {
            Ok(())
        }
    }

    /// A copy of the state, for a report.
    pub(super) fn snapshot(&self) -> State {
        self.state.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for the right to change the state.
    pub(super) fn begin_change(&self) -> Changing<'_> {
        Changing { reservations: self, _guard: self.changing.lock().unwrap_or_else(PoisonError::into_inner) }
    }

    /// Ends RESERVE of this nexus, or of any nexus if `None`.
    pub(super) fn end_reserve(&self, nexus: Option<&Nexus>) {
        let changing = self.begin_change();
        let mut state = self.snapshot();
        if state.reserved_by.is_some() && nexus.is_none_or(|nexus| state.reserved_by.as_ref() == Some(nexus)) {
            state.reserved_by = None;
            changing.publish(state);
        }
    }
}

impl Changing<'_> {
    /// The state. No other thread can change it.
    pub(super) fn state(&self) -> State {
        self.reservations.snapshot()
    }

    /// Publishes a new state, by which commands are checked from now on. Commands that were checked before may still
    /// run.
    pub(super) fn publish(&self, state: State) {
        let held = state.is_held();
        *self.reservations.state.write().unwrap_or_else(PoisonError::into_inner) = state;
        self.reservations.held.store(held, Ordering::SeqCst);
    }
}
