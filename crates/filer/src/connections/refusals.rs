//! One log line for many refused connections: a refused peer connects again at once.

use super::admission::Full;
use crate::paced::Paced;

/// Why a connection is refused.
#[derive(Clone, Copy, Debug)]
pub(super) enum Refusal {
    /// A limit is reached.
    Full(Full),
    /// `clients` of `[iscsi]` does not name the address.
    NotNamed,
    /// The process has too few free descriptors.
    NoDescriptor,
}

/// The refusals of each kind.
#[derive(Default)]
pub(super) struct Refusals([Paced; 6]);

impl Refusals {
    /// Counts a refusal. If a log line is due, returns the number of refusals of this kind since the last line, else `None`.
    pub(super) fn count(&self, refusal: Refusal) -> Option<u64> {
        let index = match refusal {
            Refusal::Full(Full::Connections) => 0,
            Refusal::Full(Full::Strangers) => 1,
            Refusal::Full(Full::OfClient) => 2,
            Refusal::Full(Full::StrangersOfClient) => 3,
            Refusal::NotNamed => 4,
            Refusal::NoDescriptor => 5,
        };
        self.0.get(index)?.count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_refusals_of_a_kind_are_one_line_and_each_kind_has_its_own() {
        let refusals = Refusals::default();
        let lines = (0..1000).filter_map(|_| refusals.count(Refusal::Full(Full::Strangers))).count();
        assert_eq!(lines, 1);
        assert_eq!(refusals.count(Refusal::NotNamed), Some(1));
    }
}
