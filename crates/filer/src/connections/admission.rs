//! Who is let in, and who has to leave when all places are taken.
//!
//! A connection costs its peer nothing, so places must not go to whoever came first: those that never brought a call leave
//! first, the oldest of them; then, of the client with the most connections, the one that was silent for longest. NFS
//! clients make a connection again that was closed.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use crate::connections::connection::Connection;
use crate::limits::SILENCE_SPARED_S;

/// The open connections.
#[derive(Default)]
pub(crate) struct Connections {
    pub(crate) open: HashMap<u64, Arc<Connection>>,
    pub(crate) next: u64,
    /// In the middle of a power cut: nobody is let in.
    pub(crate) powerless: bool,
}

/// What is looked at of a connection.
#[derive(Clone, Copy, Debug)]
struct Standing {
    id: u64,
    client: IpAddr,
    /// Second of the last call; 0 when there was none.
    active_s: u32,
    /// Calls of it are with workers.
    busy: bool,
}

impl Connections {
    /// The connection that has to leave for a new one; none when all are in use.
    pub(crate) fn one_to_leave(&self, now_s: u32) -> Option<Arc<Connection>> {
        let standings = self.open.iter().map(|(&id, connection)| Standing {
            id,
            client: connection.client(),
            active_s: connection.active_s(),
            busy: connection.is_busy(),
        });
        let standings: Vec<Standing> = standings.collect();
        choose(&standings, now_s).and_then(|id| self.open.get(&id).cloned())
    }
}

fn choose(standings: &[Standing], now_s: u32) -> Option<u64> {
    let never_called = standings.iter().filter(|standing| standing.active_s == 0).min_by_key(|standing| standing.id);
    if let Some(standing) = never_called {
        return Some(standing.id);
    }
    let mut counts: HashMap<IpAddr, u32> = HashMap::new();
    standings.iter().for_each(|standing| *counts.entry(standing.client).or_default() += 1);
    let most = *counts.values().max()?;
    standings
        .iter()
        .filter(|standing| counts.get(&standing.client) == Some(&most) && !standing.busy)
        .filter(|standing| now_s.saturating_sub(standing.active_s) >= SILENCE_SPARED_S)
        .min_by_key(|standing| (standing.active_s, standing.id))
        .map(|standing| standing.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(id: u64, client: u8, active_s: u32) -> Standing {
        Standing { id, client: IpAddr::from([10, 0, 0, client]), active_s, busy: false }
    }

    #[test]
    fn those_that_never_called_leave_first_the_oldest_of_them_before_the_others() {
        let all = [standing(1, 1, 5), standing(7, 2, 0), standing(4, 1, 0), standing(9, 3, 0)];
        assert_eq!(choose(&all, 1000), Some(4));
        assert_eq!(choose(&[], 1000), None);
    }

    #[test]
    fn then_the_longest_silent_of_whoever_has_most() {
        let all = [standing(1, 1, 5), standing(2, 2, 900), standing(3, 2, 800), standing(4, 2, 850)];
        assert_eq!(choose(&all, 1000), Some(3), "not the only one of the other client, though it is silent for longer");
        let busy = all.map(|standing| Standing { busy: standing.id == 3, ..standing });
        assert_eq!(choose(&busy, 1000), Some(4));
    }

    #[test]
    fn nobody_leaves_who_called_a_moment_ago() {
        let all = [standing(1, 1, 995), standing(2, 1, 1000)];
        assert_eq!(choose(&all, 1000), None);
        assert_eq!(choose(&all, 995 + SILENCE_SPARED_S), Some(1));
    }
}
