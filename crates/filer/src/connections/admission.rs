//! Which new connections are admitted, and which open connection is closed to make room.
//!
//! A connection costs its peer nothing, so the first client must not get all places. Each protocol has a pool of places. One address
//! cannot take a whole pool, and strangers share a few places of it. A stranger is an NFS client that no export rule names, or an
//! initiator that has not logged in. When the places are taken, the filer closes a connection that never sent a request: the oldest one
//! of the client that has the most such connections. If there is no such connection, it closes the longest idle connection of the
//! client that has the most connections.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;

use crate::limits::{CONNECTIONS_MAX, IDLE_SPARED_S, ISCSI_HALF_OPEN_MAX, ISCSI_SESSIONS_MAX, OTHERS_RESERVED, STRANGERS_MAX};

/// The places of a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pool {
    /// NFS, MOUNT and portmap.
    Nfs,
    /// iSCSI.
    Iscsi,
}

impl Pool {
    const fn all_max(self) -> usize {
        match self {
            Self::Nfs => CONNECTIONS_MAX,
            Self::Iscsi => ISCSI_SESSIONS_MAX,
        }
    }

    /// Most connections of one address.
    const fn of_client_max(self) -> usize {
        self.all_max() - OTHERS_RESERVED
    }

    const fn strangers_max(self) -> usize {
        match self {
            Self::Nfs => STRANGERS_MAX,
            Self::Iscsi => ISCSI_HALF_OPEN_MAX,
        }
    }

    /// Most connections of one address while it is a stranger. An NFS stranger gets only refusals. An iSCSI stranger is about to log in.
    const fn strangers_of_client_max(self) -> usize {
        match self {
            Self::Nfs => STRANGERS_MAX,
            Self::Iscsi => ISCSI_HALF_OPEN_MAX / 2,
        }
    }
}

/// A new connection that asks for a place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Newcomer {
    pub(crate) client: IpAddr,
    pub(crate) pool: Pool,
    /// Its client is not a stranger.
    pub(crate) known: bool,
}

/// An open connection that may be closed to make room.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) id: u64,
    pub(super) client: IpAddr,
    pub(super) known: bool,
    /// Second of the last request. 0 if it never sent one.
    pub(super) active_s: u32,
    /// Workers have requests of it.
    pub(super) busy: bool,
}

/// Counts of a pool's connections that decide about a new one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) all: usize,
    pub(super) of_client: usize,
    pub(super) strangers: usize,
    pub(super) strangers_of_client: usize,
}

impl Counts {
    /// Counts a connection: whether it has the address of the new one, and whether its client is known.
    pub(super) fn add(&mut self, is_own: bool, is_known: bool) {
        let (own, stranger) = (usize::from(is_own), usize::from(!is_known));
        self.all += 1;
        self.of_client += own;
        self.strangers += stranger;
        self.strangers_of_client += own * stranger;
    }
}

/// Which limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// That of all connections of the pool.
    Connections,
    /// That of all strangers.
    Strangers,
    /// That of this client.
    OfClient,
    /// That of this client while it is a stranger.
    StrangersOfClient,
}

impl Full {
    /// The limit's value.
    pub(crate) const fn limit(self, pool: Pool) -> usize {
        match self {
            Self::Connections => pool.all_max(),
            Self::Strangers => pool.strangers_max(),
            Self::OfClient => pool.of_client_max(),
            Self::StrangersOfClient => pool.strangers_of_client_max(),
        }
    }
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connections => "connections",
            Self::Strangers => "connections of clients that no rule names or that have not logged in",
            Self::OfClient => "connections of this client",
            Self::StrangersOfClient => "connections of this client that have not logged in",
        })
    }
}

/// Whether the pool has fewer connections than any limit. Then they need not be counted.
pub(super) const fn is_open(connections: usize, newcomer: &Newcomer) -> bool {
    let pool = newcomer.pool;
    connections < if newcomer.known { pool.of_client_max() } else { pool.strangers_of_client_max() }
}

/// The limit that keeps this connection out, if any.
pub(super) const fn full_for(newcomer: &Newcomer, counts: &Counts) -> Option<Full> {
    let pool = newcomer.pool;
    if !newcomer.known && counts.strangers_of_client >= pool.strangers_of_client_max() {
        Some(if counts.strangers >= pool.strangers_max() { Full::Strangers } else { Full::StrangersOfClient })
    } else if !newcomer.known && counts.strangers >= pool.strangers_max() {
        Some(Full::Strangers)
    } else if counts.of_client >= pool.of_client_max() {
        Some(Full::OfClient)
    } else if counts.all >= pool.all_max() {
        Some(Full::Connections)
    } else {
        None
    }
}

/// The connection of the same pool that is closed for this one. `None` if no open connection may be closed.
pub(super) fn leaves_for(newcomer: &Newcomer, full: Full, all: &[Candidate], now_s: u32) -> Option<u64> {
    let only = |keep: &dyn Fn(&Candidate) -> bool| all.iter().copied().filter(keep).collect::<Vec<_>>();
    let is_own = |candidate: &Candidate| candidate.client == newcomer.client;
    let strangers = only(&|candidate| !candidate.known);
    match full {
        Full::OfClient => choose(&only(&is_own), now_s),
        Full::StrangersOfClient => choose(&only(&|candidate| is_own(candidate) && !candidate.known), now_s),
        Full::Connections if newcomer.known => {
            // A stranger makes room for a known client even while it is active.
            let stranger = strangers.iter().min_by_key(|candidate| (candidate.active_s, candidate.id));
            stranger.map(|candidate| candidate.id).or_else(|| choose(all, now_s))
        }
        Full::Strangers | Full::Connections => choose(&strangers, now_s),
    }
}

/// The connection that is closed first. `None` if all are in use.
pub(super) fn choose(candidates: &[Candidate], now_s: u32) -> Option<u64> {
    let never_called: Vec<Candidate> = candidates.iter().copied().filter(|candidate| candidate.active_s == 0).collect();
    if let Some(oldest) = of_client_with_most(&never_called).min_by_key(|candidate| candidate.id) {
        return Some(oldest.id);
    }
    of_client_with_most(candidates)
        .filter(|candidate| !candidate.busy && now_s.saturating_sub(candidate.active_s) >= IDLE_SPARED_S)
        .min_by_key(|candidate| (candidate.active_s, candidate.id))
        .map(|candidate| candidate.id)
}

/// The candidates of the client that has the most of them. If several clients have equally many, those of all of these.
fn of_client_with_most(candidates: &[Candidate]) -> impl Iterator<Item = &Candidate> {
    let mut counts: HashMap<IpAddr, u32> = HashMap::new();
    candidates.iter().for_each(|candidate| *counts.entry(candidate.client).or_default() += 1);
    let most = counts.values().max().copied();
    candidates.iter().filter(move |candidate| counts.get(&candidate.client).copied() == most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(id: u64, client: u8, active_s: u32) -> Candidate {
        Candidate { id, client: address(client), known: true, active_s, busy: false }
    }

    fn address(client: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, client])
    }

    fn newcomer(client: u8, known: bool) -> Newcomer {
        Newcomer { client: address(client), pool: Pool::Nfs, known }
    }

    fn full_for(newcomer: &Newcomer, all: &[Candidate]) -> Option<Full> {
        let mut counts = Counts::default();
        for candidate in all {
            counts.add(candidate.client == newcomer.client, candidate.known);
        }
        super::full_for(newcomer, &counts)
    }

    /// `count` connections of a client, all of which sent a request in this second.
    fn active(count: usize, client: u8, known: bool) -> Vec<Candidate> {
        (0..count as u64).map(|id| Candidate { known, ..candidate(u64::from(client) * 100_000 + id, client, 1000) }).collect()
    }

    #[test]
    fn those_that_never_called_leave_first_the_oldest_of_them_before_the_others() {
        let all = [candidate(1, 1, 5), candidate(7, 2, 0), candidate(4, 1, 0), candidate(9, 3, 0)];
        assert_eq!(choose(&all, 1000), Some(4));
        assert_eq!(choose(&[], 1000), None);
    }

    #[test]
    fn then_the_longest_idle_of_whoever_has_most() {
        let all = [candidate(1, 1, 5), candidate(2, 2, 900), candidate(3, 2, 800), candidate(4, 2, 850)];
        assert_eq!(choose(&all, 1000), Some(3), "not the only one of the other client, though it is idle for longer");
        let busy = all.map(|candidate| Candidate { busy: candidate.id == 3, ..candidate });
        assert_eq!(choose(&busy, 1000), Some(4));
    }

    #[test]
    fn nobody_leaves_who_called_a_moment_ago() {
        let all = [candidate(1, 1, 995), candidate(2, 1, 1000)];
        assert_eq!(choose(&all, 1000), None);
        assert_eq!(choose(&all, 995 + IDLE_SPARED_S), Some(1));
    }

    #[test]
    fn clients_that_no_rule_names_have_a_few_places_and_leave_for_others_though_they_call_all_the_time() {
        let strangers = active(STRANGERS_MAX, 1, false);
        let stranger = newcomer(2, false);
        assert_eq!(full_for(&stranger, &strangers), Some(Full::Strangers));
        assert_eq!(leaves_for(&stranger, Full::Strangers, &strangers, 1000), None, "all of them just called");
        assert_eq!(full_for(&stranger, strangers.get(1..).unwrap()), None);
        let all = [strangers, active(CONNECTIONS_MAX - STRANGERS_MAX, 3, true)].concat();
        let known = newcomer(4, true);
        assert_eq!(full_for(&known, &all), Some(Full::Connections));
        assert_eq!(leaves_for(&known, Full::Connections, &all, 1000), Some(100_000));
        let mut all = active(CONNECTIONS_MAX - OTHERS_RESERVED, 3, true);
        all.extend(active(OTHERS_RESERVED, 5, true).into_iter().map(|candidate| Candidate { active_s: 0, ..candidate }));
        assert_eq!(
            leaves_for(&stranger, Full::Connections, &all, 5000),
            None,
            "no client that a rule names leaves for a stranger"
        );
    }

    #[test]
    fn one_address_cannot_have_all_places() {
        let all = active(Pool::Nfs.of_client_max(), 1, true);
        let (same, other) = (newcomer(1, true), newcomer(2, true));
        assert_eq!(full_for(&same, &all), Some(Full::OfClient));
        assert_eq!(leaves_for(&same, Full::OfClient, &all, 1000), None);
        assert_eq!(leaves_for(&same, Full::OfClient, &all, 1000 + IDLE_SPARED_S), Some(100_000), "its own, once one is idle");
        assert_eq!(full_for(&other, &all), None);
    }

    #[test]
    fn an_initiator_that_logs_in_does_not_leave_for_many_half_open_connections_of_another_address() {
        let half_open = |id, client| Candidate { known: false, ..candidate(id, client, 0) };
        let mut all = vec![half_open(0, 2)]; // the oldest of all
        all.extend((1..64).map(|id| half_open(id, 1)));
        let attacker = Newcomer { pool: Pool::Iscsi, ..newcomer(1, false) };
        for id in 64..1000 {
            let full = full_for(&attacker, &all);
            if let Some(leaves) = full.and_then(|full| leaves_for(&attacker, full, &all, 1000)) {
                all.retain(|candidate| candidate.id != leaves);
            }
            all.push(half_open(id, 1));
        }
        assert!(all.len() <= 65);
        assert_eq!(all.first().map(|candidate| candidate.id), Some(0), "it stays");
        let other = Newcomer { pool: Pool::Iscsi, ..newcomer(3, false) };
        assert_eq!(full_for(&other, &all), None);
    }
}
