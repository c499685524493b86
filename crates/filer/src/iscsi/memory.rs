//! Memory for the data of commands that wait for more of it. It is part of the buffers of all connections, and each client has a share.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use iscsi_proto::target::Purpose;

use crate::connections::Totals;
use crate::connections::shares::{Shares, add_up_to};
use crate::limits::{COMMAND_BYTES_MAX, COMMAND_BYTES_PER_CLIENT_MAX};

/// The memory that all connections hold for such commands.
pub(super) struct CommandMemory {
    totals: Arc<Totals>,
    held: AtomicUsize,
    clients: Shares,
}

/// The memory that one connection holds for such commands.
pub(super) struct Held {
    memory: Arc<CommandMemory>,
    client: Arc<AtomicUsize>,
    bytes: AtomicUsize,
}

impl CommandMemory {
    pub(super) fn new(totals: Arc<Totals>) -> Arc<Self> {
        let (held, clients) = (AtomicUsize::new(0), Shares::default());
        Arc::new(Self { totals, held, clients })
    }

    /// The empty share of a new connection of this client.
    pub(super) fn begin(self: &Arc<Self>, client: IpAddr) -> Held {
        Held { memory: Arc::clone(self), client: self.clients.of(client), bytes: AtomicUsize::new(0) }
    }

    /// Whether little memory is left for such commands or for all buffers.
    fn is_short(&self) -> bool {
        self.held.load(Ordering::Relaxed) > COMMAND_BYTES_MAX / 8 * 3 || self.totals.is_short()
    }
}

impl Held {
    /// Takes `more` bytes. Returns false, and takes nothing, if the client or all clients together would exceed their limit.
    pub(super) fn take(&self, more: usize, purpose: Purpose) -> bool {
        let (of_client_max, all_max) = match purpose {
            Purpose::Unsolicited => (COMMAND_BYTES_PER_CLIENT_MAX / 2, COMMAND_BYTES_MAX / 4 * 3),
            Purpose::Solicited => (COMMAND_BYTES_PER_CLIENT_MAX, COMMAND_BYTES_MAX),
        };
        let client = add_up_to(&self.client, more, of_client_max);
        let all = client && add_up_to(&self.memory.held, more, all_max);
        let fits = all && self.memory.totals.grow(more, Duration::ZERO);
        if fits {
            self.bytes.fetch_add(more, Ordering::Relaxed);
            return true;
        }
        if client {
            self.client.fetch_sub(more, Ordering::Relaxed);
        }
        if all {
            self.memory.held.fetch_sub(more, Ordering::Relaxed);
        }
        false
    }

    /// Reduces the held memory to `bytes`.
    pub(super) fn keep(&self, bytes: usize) {
        let less = self.bytes.load(Ordering::Relaxed).saturating_sub(bytes);
        if less > 0 {
            self.bytes.fetch_sub(less, Ordering::Relaxed);
            self.client.fetch_sub(less, Ordering::Relaxed);
            self.memory.held.fetch_sub(less, Ordering::Relaxed);
            self.memory.totals.count(less, 0);
        }
    }

    /// Whether the client has little of its share left, or all clients together have little left and this client holds much of it.
    pub(super) fn is_short(&self) -> bool {
        let of_client = self.client.load(Ordering::Relaxed);
        let (much, little) = (COMMAND_BYTES_PER_CLIENT_MAX / 8 * 3, COMMAND_BYTES_PER_CLIENT_MAX / 16);
        of_client > much || of_client > little && self.memory.is_short()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.keep(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn one_client_with_many_connections_leaves_memory_to_others() {
        let totals = Arc::new(Totals::default());
        let memory = CommandMemory::new(Arc::clone(&totals));
        let of_one: Vec<Held> = (0..10).map(|_| memory.begin(address(1))).collect();
        let mib = 1 << 20;
        let taken = (0..10_000).filter(|nth| of_one[nth % 10].take(mib, Purpose::Unsolicited)).count();
        assert_eq!(taken * mib, COMMAND_BYTES_PER_CLIENT_MAX / 2);
        let taken = taken + (0..10_000).filter(|nth| of_one[nth % 10].take(mib, Purpose::Solicited)).count();
        assert_eq!(taken * mib, COMMAND_BYTES_PER_CLIENT_MAX, "solicited data has memory of its own");
        assert!(of_one[0].is_short());
        let other = memory.begin(address(2));
        assert!(!other.is_short() && other.take(8 * mib, Purpose::Unsolicited));
        assert_eq!(totals.buffer_bytes(), COMMAND_BYTES_PER_CLIENT_MAX + 8 * mib);
        of_one[0].keep(mib);
        assert!(of_one[1].take(mib, Purpose::Solicited));
        drop((of_one, other));
        assert_eq!(totals.buffer_bytes(), 0);
    }

    #[test]
    fn all_clients_together_leave_memory_to_other_buffers() {
        let totals = Arc::new(Totals::default());
        let memory = CommandMemory::new(Arc::clone(&totals));
        let clients: Vec<Held> = (0..100).map(|last| memory.begin(address(last))).collect();
        let taken = clients.iter().map(|held| (0..100).filter(|_| held.take(1 << 20, Purpose::Solicited)).count()).sum::<usize>();
        assert_eq!(taken << 20, COMMAND_BYTES_MAX);
        assert!(totals.grow(1 << 20, Duration::ZERO));
    }
}
