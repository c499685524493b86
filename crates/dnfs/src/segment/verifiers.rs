//! The write verifiers that each endpoint of the server has sent, in the order in which they were seen
//! (docs/design/031-verifiers-of-addresses.md).
//!
//! Epoch n of an endpoint is its n-th verifier. The log of an endpoint contains its last verifiers, epoch n at index (n − 1) modulo
//! its length. Epochs of different endpoints are never compared: they may be different servers of a cluster.

use crate::sys::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, SeqCst};

use crate::address::EndpointIndex;
use crate::file::WriteVerifier;
use crate::limits::ENDPOINTS_MAX;

use super::layout::{Header, VERIFIER_COUNT};

/// Bits of an epoch's word for its number; the bits above contain the endpoint.
const NUMBER_BITS: u32 = 28;
/// Largest number of an epoch.
const NUMBER_MAX: u32 = (1 << NUMBER_BITS) - 1;
const _: () = assert!(ENDPOINTS_MAX <= 1 << (u32::BITS - NUMBER_BITS));

/// Bits of a log entry for the verifier. The bits above contain the round of the log, so that one compare-and-swap fills an
/// entry and a process that was stopped for long overwrites nothing.
const VERIFIER_BITS: u32 = 48;

/// A state of one endpoint. The default value means that no endpoint has sent a verifier yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Epoch(u32);

impl Epoch {
    pub(super) const fn new(endpoint: EndpointIndex, number: u32) -> Self {
        Self(endpoint.number() << NUMBER_BITS | number & NUMBER_MAX)
    }

    /// The epoch of a word that [`Self::word`] returned.
    pub(super) const fn of_word(word: u32) -> Self {
        Self(word)
    }

    /// The epoch as a word, to store elsewhere.
    pub(super) const fn word(self) -> u32 {
        self.0
    }

    pub(crate) const fn endpoint(self) -> EndpointIndex {
        EndpointIndex::new(self.0 >> NUMBER_BITS)
    }

    /// Which verifier of the endpoint this is, counted from 1.
    pub(crate) const fn number(self) -> u32 {
        self.0 & NUMBER_MAX
    }

    /// Whether this is an earlier epoch of the same endpoint.
    pub(super) fn is_before(self, other: Self) -> bool {
        self.endpoint() == other.endpoint() && self.number() < other.number()
    }
}

/// A number of an epoch for each endpoint; 0: the endpoint has sent no verifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbers([u32; ENDPOINTS_MAX]);

impl Numbers {
    pub(crate) fn of(&self, endpoint: EndpointIndex) -> u32 {
        self.0.get(endpoint.number() as usize).copied().unwrap_or(0)
    }
}

/// A set of endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EndpointSet(u16);

impl EndpointSet {
    pub(crate) const fn one(endpoint: EndpointIndex) -> Self {
        Self(1 << endpoint.number())
    }

    /// The set of a word that [`Self::word`] returned.
    pub(super) const fn of_word(word: u16) -> Self {
        Self(word)
    }

    /// The set as a word, to store elsewhere.
    pub(super) const fn word(self) -> u16 {
        self.0
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) const fn contains(self, endpoint: EndpointIndex) -> bool {
        self.0 & Self::one(endpoint).0 != 0
    }

    /// Whether it contains no other endpoint than this.
    pub(crate) const fn is_within(self, endpoint: EndpointIndex) -> bool {
        self.0 & !Self::one(endpoint).0 == 0
    }
}

/// The endpoints of a mount: their verifiers, and in which epoch each has all retained data that it acknowledged.
#[derive(Clone, Copy)]
pub(crate) struct Verifiers<'a> {
    pub(super) header: &'a Header,
    /// The logs of all endpoints.
    pub(super) log: &'a [AtomicU64],
}

/// More verifiers of one endpoint than can be numbered: 2^28.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VerifiersFull;

impl Verifiers<'_> {
    /// The newest epochs, taken before a request is sent.
    pub(crate) fn newest(&self) -> Numbers {
        self.numbers(|place| self.header.epochs.get(place).map_or(0, |epoch| epoch.load(Acquire)))
    }

    /// The epochs in which the endpoints have all retained data that they acknowledged.
    pub(crate) fn resent(&self) -> Numbers {
        self.numbers(|place| self.header.resent.get(place).map_or(0, |epoch| epoch.load(SeqCst)))
    }

    fn numbers(&self, of: impl Fn(usize) -> u32) -> Numbers {
        let mut numbers = Numbers([0; ENDPOINTS_MAX]);
        let count = self.header.endpoint_count.load(Acquire) as usize;
        numbers.0.iter_mut().take(count).enumerate().for_each(|(place, number)| *number = of(place));
        numbers
    }

    /// The endpoints that restarted since all retained data that they acknowledged was last sent.
    pub(crate) fn restarted(&self) -> EndpointSet {
        let (resent, newest) = (self.resent(), self.newest()); // in this order: `resent` moves only to epochs that were the newest
        self.set_of(|endpoint| newest.of(endpoint) > resent.of(endpoint))
    }

    /// Those of [`Self::restarted`] that had acknowledged retained data.
    pub(crate) fn restarted_with_data(&self) -> EndpointSet {
        let (resent, newest) = (self.resent(), self.newest());
        self.set_of(|endpoint| resent.of(endpoint) != 0 && newest.of(endpoint) > resent.of(endpoint))
    }

    /// The endpoints that have sent a verifier.
    pub(crate) fn known(&self) -> EndpointSet {
        let newest = self.newest();
        self.set_of(|endpoint| newest.of(endpoint) != 0)
    }

    fn set_of(&self, is_in: impl Fn(EndpointIndex) -> bool) -> EndpointSet {
        let count = self.header.endpoint_count.load(Acquire).min(ENDPOINTS_MAX as u32);
        let found = (0..count).map(EndpointIndex::new).filter(|endpoint| is_in(*endpoint));
        found.fold(EndpointSet::default(), |set, endpoint| EndpointSet(set.0 | EndpointSet::one(endpoint).0))
    }

    /// Epoch of the verifier in a reply to a request sent when `sent` were the newest.
    ///
    /// Only the epochs since then are searched. If an endpoint returns an older verifier now, it has gone back, which is a new
    /// state and not a late reply. The same holds for a verifier that the log no longer contains: at worst a loss is reported
    /// that did not happen.
    pub(crate) fn epoch_of(&self, verifier: WriteVerifier, sent: &Numbers) -> Result<Epoch, VerifiersFull> {
        let endpoint = verifier.endpoint;
        let Some(number) = self.header.epochs.get(endpoint.number() as usize) else { return Err(VerifiersFull) };
        loop {
            let newest = number.load(Acquire);
            let oldest = newest.saturating_sub(VERIFIER_COUNT - 1).max(sent.of(endpoint)).max(1);
            for epoch in (oldest..=newest).rev().map(|epoch| Epoch::new(endpoint, epoch)) {
                let (place, entry) = self.entry(epoch, verifier);
                if place.load(Acquire) == entry {
                    return Ok(epoch);
                }
            }
            if newest >= NUMBER_MAX {
                return Err(VerifiersFull);
            }
            let (place, entry) = self.entry(Epoch::new(endpoint, newest + 1), verifier);
            let found = place.load(Acquire);
            if found >> VERIFIER_BITS != entry >> VERIFIER_BITS {
                let _ = place.compare_exchange(found, entry, AcqRel, Acquire);
            }
            // The epoch advances whichever process filled the entry, so that no process waits for one that was killed in
            // between. Before that the endpoint is counted, so that no process misses the epoch.
            self.header.endpoint_count.fetch_max(endpoint.number() + 1, AcqRel);
            let _ = number.compare_exchange(newest, newest + 1, AcqRel, Acquire);
        }
    }

    /// The log entry of an epoch, and its value for this verifier.
    fn entry(&self, epoch: Epoch, verifier: WriteVerifier) -> (&AtomicU64, u64) {
        let before = epoch.number() - 1;
        let round = u64::from(before / VERIFIER_COUNT + 1); // never 0, the value of an unused entry
        // The verifier is mixed first, since verifiers may be times of which only some bits differ. Two verifiers
        // collide once in 2^48.
        let value = u64::from_be_bytes(verifier.bytes);
        let mixed = (value ^ value >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let place = epoch.endpoint().number() * VERIFIER_COUNT + before % VERIFIER_COUNT;
        (&self.log[place as usize], round << VERIFIER_BITS | mixed >> (u64::BITS - VERIFIER_BITS))
    }

    /// Epoch in which the endpoint has all retained data that it acknowledged.
    pub(crate) fn resent_of(&self, endpoint: EndpointIndex) -> u32 {
        self.header.resent.get(endpoint.number() as usize).map_or(0, |epoch| epoch.load(SeqCst))
    }

    /// As [`Self::resent_of`], after a reply in `epoch`. The first reply of an endpoint to any process sets it.
    pub(crate) fn resent_by(&self, epoch: Epoch) -> u32 {
        let Some(resent) = self.header.resent.get(epoch.endpoint().number() as usize) else { return 0 };
        match resent.load(SeqCst) {
            0 => resent.compare_exchange(0, epoch.number(), SeqCst, SeqCst).map_or_else(|now| now, |_| epoch.number()),
            now => now,
        }
    }

    /// Notes that all retained data of these endpoints was resent, and acknowledged in the epoch `by` if that is set. `newest` was
    /// read before.
    pub(crate) fn note_resent(&self, endpoints: EndpointSet, newest: &Numbers, by: Option<Epoch>) {
        // First: a READ that was sent before the data arrived must see it, whenever this process is killed.
        self.header.resends.fetch_add(1, SeqCst);
        for (resent, endpoint) in self.header.resent.iter().zip((0..).map(EndpointIndex::new)) {
            if endpoints.contains(endpoint) {
                let by = by.filter(|by| by.endpoint() == endpoint).map_or(0, Epoch::number);
                resent.fetch_max(newest.of(endpoint).max(by), SeqCst);
            }
        }
        if let Some(by) = by {
            self.resent_by(by);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::tests::blank_header;
    use super::*;

    /// The shared state of the verifiers, without a server.
    pub(in super::super) struct Server {
        header: Box<Header>,
        log: Vec<AtomicU64>,
    }

    impl Server {
        pub(in super::super) fn new() -> Self {
            let count = ENDPOINTS_MAX as u32 * VERIFIER_COUNT;
            Self { header: blank_header(), log: (0..count).map(|_| AtomicU64::new(0)).collect() }
        }

        pub(in super::super) fn verifiers(&self) -> Verifiers<'_> {
            Verifiers { header: &self.header, log: &self.log }
        }

        fn epoch_of(&self, value: u64, sent: u32) -> Result<u32, VerifiersFull> {
            let mut numbers = Numbers([0; ENDPOINTS_MAX]);
            numbers.0[0] = sent;
            self.verifiers().epoch_of(first(value), &numbers).map(Epoch::number)
        }
    }

    /// A verifier of an endpoint.
    pub(in super::super) fn at(endpoint: u32, value: u64) -> WriteVerifier {
        WriteVerifier { endpoint: EndpointIndex::new(endpoint), bytes: value.to_be_bytes() }
    }

    /// A verifier of the first endpoint.
    pub(in super::super) fn first(value: u64) -> WriteVerifier {
        at(0, value)
    }

    #[test]
    fn two_processes_that_learn_of_a_restart_at_once_agree_on_its_epoch() {
        let server = Server::new();
        let last = VERIFIER_COUNT - 1;
        std::thread::scope(|scope| {
            let seen: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| (1..=last).map(|v| server.epoch_of(v.into(), 0).unwrap()).collect::<Vec<_>>()))
                .collect();
            let seen: Vec<_> = seen.into_iter().map(|thread| thread.join().unwrap()).collect();
            assert!(seen.iter().all(|epochs| *epochs == seen[0]));
        });
        assert_eq!(server.verifiers().newest().of(EndpointIndex::FIRST), last);
    }

    #[test]
    fn reply_later_than_the_log_reaches_is_taken_for_a_new_state_of_the_server() {
        let server = Server::new();
        let sent = server.epoch_of(1, 0).unwrap();
        for verifier in 2..=u64::from(VERIFIER_COUNT) {
            server.epoch_of(verifier, sent).unwrap();
        }
        assert_eq!(server.epoch_of(1, sent), Ok(sent), "the log still holds it");
        let next = u64::from(VERIFIER_COUNT) + 1;
        assert_eq!(server.epoch_of(next, sent), Ok(VERIFIER_COUNT + 1));
        assert_eq!(server.epoch_of(1, sent), Ok(VERIFIER_COUNT + 2));
    }

    #[test]
    fn verifiers_beyond_all_numbers_are_an_error_not_a_wrong_answer() {
        let server = Server::new();
        server.header.epochs[0].store(NUMBER_MAX, SeqCst);
        assert_eq!(server.epoch_of(77, NUMBER_MAX), Err(VerifiersFull));
    }

    #[test]
    fn verifiers_of_each_endpoint_are_numbered_by_themselves() {
        let server = Server::new();
        let last = ENDPOINTS_MAX as u32 - 1;
        let sent = server.verifiers().newest();
        for (endpoint, value, number) in [(0, 7, 1), (last, 7, 1), (0, 8, 2), (last, 9, 2), (last, 9, 2), (1, 8, 1)] {
            let epoch = server.verifiers().epoch_of(at(endpoint, value), &sent).unwrap();
            assert_eq!((epoch.endpoint().number(), epoch.number()), (endpoint, number));
        }
        assert_eq!(server.verifiers().known(), EndpointSet(1 << last | 0b11));
    }

    #[test]
    fn resend_of_one_endpoint_says_nothing_of_the_other() {
        let server = Server::new();
        let verifiers = server.verifiers();
        let sent = verifiers.newest();
        for endpoint in [0, 1] {
            verifiers.resent_by(verifiers.epoch_of(at(endpoint, 7), &sent).unwrap());
            verifiers.epoch_of(at(endpoint, 8), &sent).unwrap();
        }
        assert_eq!(verifiers.restarted(), EndpointSet(0b11));
        // The data of the first was resent to the second, whose own data was not.
        let by = verifiers.epoch_of(at(1, 8), &sent).unwrap();
        verifiers.note_resent(EndpointSet(0b01), &verifiers.newest(), Some(by));
        assert_eq!(verifiers.restarted(), EndpointSet(0b10));
        verifiers.note_resent(EndpointSet(0b10), &verifiers.newest(), Some(by));
        assert!(verifiers.restarted().is_empty());
        assert_eq!(server.header.resends.load(SeqCst), 2);
    }
}
