//! Counters by client address: those of connected clients and of the ones that called last. All others share one sum.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use host::Unpoisoned;

use crate::limits::CLIENTS_COUNTED_MAX;
use crate::nfs::stats::{CountedRow, Row};
use crate::sharded::Sharded;

/// The counters of one client. The views of its connections share them.
#[derive(Debug, Default)]
pub(crate) struct Client {
    calls: Sharded<Row>,
}

impl Client {
    /// Counts an answered call. `bytes`: the payload of a READ or WRITE.
    pub(crate) fn count(&self, bytes: u64, took: Duration) {
        if let Some(calls) = self.calls.own() {
            calls.count(bytes, took);
        }
    }

    fn add_all(&self, others: &Self) {
        if let Some(calls) = self.calls.own() {
            others.calls.each().for_each(|more| calls.add_all(more));
        }
    }

    fn counted(&self) -> CountedRow {
        let mut sums = CountedRow::default();
        self.calls.each().for_each(|calls| calls.add_to(&mut sums));
        sums
    }
}

/// All clients. The lock is taken when a connection begins and when the counters are read, not by calls.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    named: HashMap<IpAddr, Arc<Client>>,
    /// The calls of clients beyond the limit, and of clients that were removed to make room.
    others: Arc<Client>,
}

impl Clients {
    /// The counters of a client. At the limit, this removes a client without a connection to make room.
    pub(crate) fn of(&self, address: IpAddr) -> Arc<Client> {
        let address = address.to_canonical();
        let mut state = self.state.lock().unpoisoned();
        if let Some(client) = state.named.get(&address) {
            return Arc::clone(client);
        }
        if state.named.len() >= CLIENTS_COUNTED_MAX {
            let gone = state.named.iter().find(|(_, client)| Arc::strong_count(client) == 1).map(|(address, _)| *address);
            // Taken out of its `Arc`, so that the counts of all its connections are included.
            let gone = gone.and_then(|gone| state.named.remove(&gone)).and_then(Arc::into_inner);
            let Some(gone) = gone else { return Arc::clone(&state.others) };
            state.others.add_all(&gone);
        }
        Arc::clone(state.named.entry(address).or_default())
    }

    /// The counters by client in the order of addresses, and those of all other clients.
    pub(crate) fn counted(&self) -> (Vec<(IpAddr, CountedRow)>, CountedRow) {
        let state = self.state.lock().unpoisoned();
        let mut named: Vec<_> = state.named.iter().map(|(address, client)| (*address, client.counted())).collect();
        named.sort_unstable_by_key(|(address, _)| *address);
        (named, state.others.counted())
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const TOOK: Duration = Duration::from_micros(6);

    fn calls(clients: &Clients) -> (Vec<(IpAddr, u64)>, u64) {
        let (named, others) = clients.counted();
        (named.iter().map(|(address, row)| (*address, row.latencies.count())).collect(), others.latencies.count())
    }

    fn address(number: u32) -> IpAddr {
        Ipv4Addr::from_bits(0x0a00_0000 + number).into()
    }

    #[test]
    fn one_client_is_one_row_however_it_writes_its_address() {
        let clients = Clients::default();
        clients.of(address(1)).count(10, TOOK);
        clients.of(Ipv4Addr::from_bits(0x0a00_0001).to_ipv6_mapped().into()).count(5, TOOK);
        assert_eq!(calls(&clients), (vec![(address(1), 2)], 0));
        assert_eq!(clients.counted().0[0].1.bytes, 15);
    }

    #[test]
    fn clients_without_room_are_counted_as_others_and_no_call_is_lost() {
        let clients = Clients::default();
        let count = CLIENTS_COUNTED_MAX as u32;
        let connected: Vec<_> = (0..count).map(|number| clients.of(address(number))).collect();
        connected.iter().for_each(|client| client.count(0, TOOK));
        clients.of(address(count)).count(0, TOOK);
        let (named, others) = calls(&clients);
        assert_eq!((named.len(), others), (CLIENTS_COUNTED_MAX, 1), "all are connected: nobody makes room");
        drop(connected);
        clients.of(address(count)).count(0, TOOK);
        let (named, others) = calls(&clients);
        assert_eq!((named.len(), others), (CLIENTS_COUNTED_MAX, 2), "one that left was added to the others");
        assert_eq!(named.last(), Some(&(address(count), 1)));
    }
}
