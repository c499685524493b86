//! The registrations and reservations of a unit.

use std::collections::BTreeMap;

use super::super::nexus::Nexus;

/// The type of a persistent reservation (SPC-4 table 132).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum ReservationType {
    WriteExclusive = 1,
    ExclusiveAccess = 3,
    WriteExclusiveRegistrantsOnly = 5,
    ExclusiveAccessRegistrantsOnly = 6,
    WriteExclusiveAllRegistrants = 7,
    ExclusiveAccessAllRegistrants = 8,
}

impl ReservationType {
    pub(super) const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::WriteExclusive,
            3 => Self::ExclusiveAccess,
            5 => Self::WriteExclusiveRegistrantsOnly,
            6 => Self::ExclusiveAccessRegistrantsOnly,
            7 => Self::WriteExclusiveAllRegistrants,
            8 => Self::ExclusiveAccessAllRegistrants,
            _ => return None,
        })
    }

    /// Whether nexuses that may not write may still read.
    pub(super) const fn is_write_exclusive(self) -> bool {
        matches!(self, Self::WriteExclusive | Self::WriteExclusiveRegistrantsOnly | Self::WriteExclusiveAllRegistrants)
    }

    /// Whether every registered nexus holds the reservation.
    pub(super) const fn is_all_registrants(self) -> bool {
        matches!(self, Self::WriteExclusiveAllRegistrants | Self::ExclusiveAccessAllRegistrants)
    }

    /// Whether registered nexuses other than the holder have access.
    pub(super) const fn lets_registrants_in(self) -> bool {
        !matches!(self, Self::WriteExclusive | Self::ExclusiveAccess)
    }
}

/// A persistent reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Reservation {
    /// The nexus that made the reservation. It is the holder, unless all registrants hold the reservation.
    pub(super) holder: Nexus,
    pub(super) kind: ReservationType,
}

/// Registrations and reservations of a unit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in super::super) struct State {
    /// Reservation keys by nexus.
    pub(super) registrations: BTreeMap<Nexus, u64>,
    pub(super) reservation: Option<Reservation>,
    /// PRGENERATION. It starts at 0 when the unit starts.
    pub(super) generation: u32,
    /// Whether registrations and reservation survive a restart (APTPL of the last registration).
    pub(super) persists: bool,
    /// The nexus that holds RESERVE.
    pub(in super::super) reserved_by: Option<Nexus>,
}

impl State {
    /// Whether any command may be refused.
    pub(super) const fn is_held(&self) -> bool {
        self.reservation.is_some() || self.reserved_by.is_some()
    }

    /// Whether any nexus is registered. If so, RESERVE and RELEASE end with RESERVATION CONFLICT (CRH is 0).
    pub(in super::super) fn has_registrations(&self) -> bool {
        !self.registrations.is_empty()
    }

    pub(super) fn is_registered(&self, nexus: &Nexus) -> bool {
        self.registrations.contains_key(nexus)
    }

    /// Whether the nexus holds the persistent reservation.
    pub(super) fn is_holder(&self, nexus: &Nexus) -> bool {
        self.reservation.as_ref().is_some_and(|reservation| {
            if reservation.kind.is_all_registrants() { self.is_registered(nexus) } else { reservation.holder == *nexus }
        })
    }

    /// The key of the only holder. `None` without a reservation, or if all registrants hold it.
    pub(super) fn holder_key(&self) -> Option<u64> {
        let reservation = self.reservation.as_ref().filter(|reservation| !reservation.kind.is_all_registrants())?;
        self.registrations.get(&reservation.holder).copied()
    }

    /// All registered nexuses except this one.
    pub(super) fn others(&self, nexus: &Nexus) -> Vec<Nexus> {
        self.registrations.keys().filter(|other| *other != nexus).cloned().collect()
    }
}
