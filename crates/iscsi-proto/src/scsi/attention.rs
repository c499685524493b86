//! Unit attentions and deferred errors that wait for a nexus (SAM-5 5.14, SPC-4 4.5.5).

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::nexus::Nexus;
use super::sense::{Asc, Sense, SenseKey};
use crate::limits::{SCSI_ATTENTIONS_MAX, SCSI_NEXUSES_MAX};

#[derive(Default)]
pub(super) struct Attentions {
    /// Number of waiting conditions of all nexuses. If it is 0, a command passes without the lock.
    waiting: AtomicUsize,
    queues: Mutex<Queues>,
}

#[derive(Default)]
struct Queues {
    of: HashMap<Nexus, Queue>,
    uses: u64,
    /// Number of waiting conditions of all nexuses.
    waiting: usize,
}

#[derive(Default)]
struct Queue {
    used: u64,
    conditions: VecDeque<Condition>,
}

/// A condition that a nexus must get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition {
    /// A unit attention.
    Attention(Asc),
    /// Writes that completed may be lost.
    Deferred(Asc),
}

impl Condition {
    pub(super) const fn sense(self) -> Sense {
        match self {
            Self::Attention(asc) => Sense::new(SenseKey::UnitAttention, asc),
            Self::Deferred(asc) => {
                let mut sense = Sense::new(SenseKey::MediumError, asc);
                sense.deferred = true;
                sense
            }
        }
    }

    /// The order of conditions (SAM-5 5.14, table 52): power on and resets before all others, and a deferred error before all
    /// unit attentions (SPC-4 4.5.5).
    const fn rank(self) -> u8 {
        match self {
            Self::Deferred(_) => 0,
            Self::Attention(Asc(0x29, 0x00 | 0x01)) => 1,
            Self::Attention(Asc(0x29, 0x02..=0x04)) => 2,
            Self::Attention(Asc(0x29, _)) => 3,
            Self::Attention(_) => 4,
        }
    }
}

impl Attentions {
    /// Registers a nexus, so that conditions for all nexuses reach it.
    pub(super) fn attach(&self, nexus: &Nexus) {
        self.change(|queues| queues.touch(nexus));
    }

    /// Forgets a nexus and its waiting conditions.
    pub(super) fn detach(&self, nexus: &Nexus) {
        self.change(|queues| queues.remove(nexus));
    }

    /// Adds a condition for a nexus, if it is registered.
    pub(super) fn add_to_known(&self, nexus: &Nexus, condition: Condition) {
        self.change(|queues| queues.edit(nexus, |queue| queue.add(condition)));
    }

    /// Adds a condition for a nexus, and registers the nexus.
    pub(super) fn add(&self, nexus: &Nexus, condition: Condition) {
        self.change(|queues| {
            queues.touch(nexus);
            queues.edit(nexus, |queue| queue.add(condition));
        });
    }

    /// Adds a condition for all registered nexuses except `but`.
    pub(super) fn add_to_all(&self, but: Option<&Nexus>, condition: Condition) {
        self.change(|queues| {
            queues.of.iter_mut().filter(|(nexus, _)| but != Some(*nexus)).for_each(|(_, queue)| queue.add(condition));
            queues.waiting = queues.of.values().map(|queue| queue.conditions.len()).sum();
        });
    }

    /// Removes the conditions of one kind of a nexus.
    pub(super) fn remove(&self, nexus: &Nexus, condition: Condition) {
        if self.waiting.load(Ordering::SeqCst) != 0 {
            self.change(|queues| queues.edit(nexus, |queue| queue.conditions.retain(|waiting| *waiting != condition)));
        }
    }

    /// Takes the first condition of a nexus. If no nexus has a condition, this takes no lock.
    pub(super) fn take(&self, nexus: &Nexus) -> Option<Condition> {
        if self.waiting.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let mut first = None;
        self.change(|queues| queues.edit(nexus, |queue| first = queue.conditions.pop_front()));
        first
    }

    fn change(&self, run: impl FnOnce(&mut Queues)) {
        let mut queues = self.lock();
        run(&mut queues);
        self.waiting.store(queues.waiting, Ordering::SeqCst);
    }

    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queues {
    /// Registers a nexus as used now. If there are too many, forgets the one that was used longest ago.
    fn touch(&mut self, nexus: &Nexus) {
        self.uses += 1;
        if !self.of.contains_key(nexus) && self.of.len() >= SCSI_NEXUSES_MAX {
            let oldest = self.of.iter().min_by_key(|(_, queue)| queue.used).map(|(nexus, _)| nexus.clone());
            oldest.iter().for_each(|oldest| self.remove(oldest));
        }
        self.of.entry(nexus.clone()).or_default().used = self.uses;
    }

    fn remove(&mut self, nexus: &Nexus) {
        self.waiting -= self.of.remove(nexus).map_or(0, |queue| queue.conditions.len());
    }

    /// Changes the queue of a registered nexus.
    fn edit(&mut self, nexus: &Nexus, run: impl FnOnce(&mut Queue)) {
        let Some(queue) = self.of.get_mut(nexus) else { return };
        self.waiting -= queue.conditions.len();
        run(queue);
        self.waiting += queue.conditions.len();
    }
}

impl Queue {
    /// Adds a condition once, after those of its rank and before those of later ranks. A power on or a reset makes earlier
    /// conditions meaningless, except losses of writes.
    fn add(&mut self, condition: Condition) {
        if self.conditions.contains(&condition) || self.conditions.len() >= SCSI_ATTENTIONS_MAX {
            return;
        }
        if condition.rank() == 1 {
            self.conditions.retain(|waiting| waiting.rank() == 0);
        }
        let at = self.conditions.iter().position(|waiting| waiting.rank() > condition.rank()).unwrap_or(self.conditions.len());
        self.conditions.insert(at, condition);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nexus(number: u8) -> Nexus {
        Nexus::new("iqn.2026-01.example:host", [0, 0, 0, 0, 0, number], 1).unwrap()
    }

    #[test]
    fn each_condition_is_told_once_in_the_order_of_sam() {
        let attentions = Attentions::default();
        let (one, two) = (nexus(1), nexus(2));
        attentions.attach(&one);
        attentions.attach(&two);
        for asc in [Asc::MODE_PARAMETERS_CHANGED, Asc::CAPACITY_DATA_HAS_CHANGED, Asc::MODE_PARAMETERS_CHANGED] {
            attentions.add_to_all(Some(&two), Condition::Attention(asc));
        }
        attentions.add(&one, Condition::Attention(Asc::I_T_NEXUS_LOSS_OCCURRED));
        attentions.add(&one, Condition::Deferred(Asc::WRITE_ERROR));
        let told: Vec<_> = std::iter::from_fn(|| attentions.take(&one)).collect();
        let attention = Condition::Attention;
        assert_eq!(
            told,
            [
                Condition::Deferred(Asc::WRITE_ERROR),
                attention(Asc::I_T_NEXUS_LOSS_OCCURRED),
                attention(Asc::MODE_PARAMETERS_CHANGED),
                attention(Asc::CAPACITY_DATA_HAS_CHANGED),
            ]
        );
        assert_eq!(attentions.take(&two), None);
        assert_eq!(attentions.waiting.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_condition_for_a_nexus_that_is_not_attached_is_dropped() {
        let attentions = Attentions::default();
        attentions.add_to_known(&nexus(1), Condition::Attention(Asc::COMMANDS_CLEARED_BY_ANOTHER_INITIATOR));
        assert_eq!((attentions.take(&nexus(1)), attentions.lock().of.len()), (None, 0));
        attentions.attach(&nexus(1));
        attentions.add_to_known(&nexus(1), Condition::Attention(Asc::COMMANDS_CLEARED_BY_ANOTHER_INITIATOR));
        attentions.detach(&nexus(1));
        assert_eq!(attentions.waiting.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn power_on_replaces_what_came_before_it() {
        let attentions = Attentions::default();
        attentions.add(&nexus(1), Condition::Attention(Asc::CAPACITY_DATA_HAS_CHANGED));
        attentions.add(&nexus(1), Condition::Attention(Asc::POWER_ON_OCCURRED));
        assert_eq!(attentions.take(&nexus(1)), Some(Condition::Attention(Asc::POWER_ON_OCCURRED)));
        assert_eq!(attentions.take(&nexus(1)), None);
    }

    #[test]
    fn the_number_of_nexuses_is_bounded() {
        let attentions = Attentions::default();
        for number in 0..=SCSI_NEXUSES_MAX as u32 {
            let [_, _, high, low] = number.to_be_bytes();
            let nexus = Nexus::new("iqn.2026-01.example:host", [0, 0, 0, 0, high, low], 1).unwrap();
            attentions.add(&nexus, Condition::Attention(Asc::CAPACITY_DATA_HAS_CHANGED));
        }
        assert_eq!(attentions.lock().of.len(), SCSI_NEXUSES_MAX);
        assert_eq!(attentions.take(&nexus(0)), None, "the oldest was forgotten");
    }
}
