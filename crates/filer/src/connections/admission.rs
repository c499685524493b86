//! Who is let in, and who has to leave for it.
//!
//! A connection costs its peer nothing, so places must not go to whoever came first. Clients that no rule names (strangers) share
//! a few places and leave for any other; one address cannot have all; and when all places are taken, those leave first that never
//! brought a request, the oldest of them; then, of the client with the most connections, the one that was idle for longest.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;

use crate::limits::{CONNECTIONS_MAX, IDLE_SPARED_S, OTHERS_RESERVED, STRANGERS_MAX};

/// Most connections of one address.
const OF_ONE_CLIENT_MAX: usize = CONNECTIONS_MAX - OTHERS_RESERVED;

/// Somebody who wants a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Newcomer {
    pub(crate) client: IpAddr,
    /// A rule names it.
    pub(crate) known: bool,
}

/// What is looked at of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) id: u64,
    pub(super) client: IpAddr,
    pub(super) known: bool,
    /// Second of the last request; 0 when there was none.
    pub(super) active_s: u32,
    /// Requests of it are with workers.
    pub(super) busy: bool,
}

/// Which places are all taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// All.
    Connections,
    /// Those of clients that no rule names.
    Strangers,
    /// Those of this client.
    OfClient,
}

impl Full {
    /// Their number.
    pub(crate) const fn limit(self) -> usize {
        match self {
            Self::Connections => CONNECTIONS_MAX,
            Self::Strangers => STRANGERS_MAX,
            Self::OfClient => OF_ONE_CLIENT_MAX,
        }
    }
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connections => "connections",
            Self::Strangers => "connections of clients that no rule names",
            Self::OfClient => "connections of this client",
        })
    }
}

/// Whether nobody's place has to be looked at: there are fewer connections than any limit.
pub(super) const fn is_open(connections: usize, newcomer: &Newcomer) -> bool {
    connections < if newcomer.known { OF_ONE_CLIENT_MAX } else { STRANGERS_MAX }
}

/// Which places are all taken for this one, if any.
pub(super) fn full_for(newcomer: &Newcomer, all: &[Candidate]) -> Option<Full> {
    let strangers = all.iter().filter(|candidate| !candidate.known).count();
    let of_client = all.iter().filter(|candidate| candidate.client == newcomer.client).count();
    match () {
        () if !newcomer.known && strangers >= STRANGERS_MAX => Some(Full::Strangers),
        () if of_client >= OF_ONE_CLIENT_MAX => Some(Full::OfClient),
        () if all.len() >= CONNECTIONS_MAX => Some(Full::Connections),
        () => None,
    }
}

/// The connection that leaves for this one; none when all that could have a right to stay.
pub(super) fn leaves_for(newcomer: &Newcomer, full: Full, all: &[Candidate], now_s: u32) -> Option<u64> {
    let only = |keep: &dyn Fn(&Candidate) -> bool| all.iter().copied().filter(keep).collect::<Vec<_>>();
    let strangers = only(&|candidate| !candidate.known);
    match full {
        Full::OfClient => choose(&only(&|candidate| candidate.client == newcomer.client), now_s),
        Full::Connections if newcomer.known => {
            // A stranger has no right to stay, whatever it does.
            let stranger = strangers.iter().min_by_key(|candidate| (candidate.active_s, candidate.id));
            stranger.map(|candidate| candidate.id).or_else(|| choose(all, now_s))
        }
        Full::Strangers | Full::Connections => choose(&strangers, now_s),
    }
}

/// The connection that can be spared soonest; none when all are in use.
pub(super) fn choose(candidates: &[Candidate], now_s: u32) -> Option<u64> {
    let never_called = candidates.iter().filter(|candidate| candidate.active_s == 0).min_by_key(|candidate| candidate.id);
    if let Some(candidate) = never_called {
        return Some(candidate.id);
    }
    let mut counts: HashMap<IpAddr, u32> = HashMap::new();
    candidates.iter().for_each(|candidate| *counts.entry(candidate.client).or_default() += 1);
    let most = *counts.values().max()?;
    candidates
        .iter()
        .filter(|candidate| counts.get(&candidate.client) == Some(&most) && !candidate.busy)
        .filter(|candidate| now_s.saturating_sub(candidate.active_s) >= IDLE_SPARED_S)
        .min_by_key(|candidate| (candidate.active_s, candidate.id))
        .map(|candidate| candidate.id)
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

    /// So many connections of a client, all of which called this second.
    fn active(count: usize, client: u8, known: bool) -> Vec<Candidate> {
        (0..count as u64).map(|id| Candidate { known, ..candidate(u64::from(client) * 10_000 + id, client, 1000) }).collect()
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
        let stranger = Newcomer { client: address(2), known: false };
        assert_eq!(full_for(&stranger, &strangers), Some(Full::Strangers));
        assert_eq!(leaves_for(&stranger, Full::Strangers, &strangers, 1000), None, "all of them just called");
        assert_eq!(full_for(&stranger, strangers.get(1..).unwrap()), None);
        let all = [strangers, active(CONNECTIONS_MAX - STRANGERS_MAX, 3, true)].concat();
        let known = Newcomer { client: address(4), known: true };
        assert_eq!(full_for(&known, &all), Some(Full::Connections));
        assert_eq!(leaves_for(&known, Full::Connections, &all, 1000), Some(10_000));
        let mut all = active(CONNECTIONS_MAX - OTHERS_RESERVED, 3, true);
        all.extend(active(OTHERS_RESERVED, 5, true).into_iter().map(|candidate| Candidate { active_s: 0, ..candidate }));
        assert_eq!(leaves_for(&stranger, Full::Connections, &all, 5000), None, "nobody that a rule names leaves for a stranger");
    }

    #[test]
    fn one_address_cannot_have_all_places() {
        let all = active(OF_ONE_CLIENT_MAX, 1, true);
        let (same, other) = (Newcomer { client: address(1), known: true }, Newcomer { client: address(2), known: true });
        assert_eq!(full_for(&same, &all), Some(Full::OfClient));
        assert_eq!(leaves_for(&same, Full::OfClient, &all, 1000), None);
        assert_eq!(leaves_for(&same, Full::OfClient, &all, 1000 + IDLE_SPARED_S), Some(10_000), "its own, once one is idle");
        assert_eq!(full_for(&other, &all), None);
    }
}
