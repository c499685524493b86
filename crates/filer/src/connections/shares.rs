//! The memory that the connections of each client address hold together.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use host::Unpoisoned;

/// Bytes by address of the connected clients.
#[derive(Debug, Default)]
pub(crate) struct Shares(Mutex<HashMap<IpAddr, Weak<AtomicUsize>>>);

impl Shares {
    /// The bytes that a client holds. All its connections share this counter.
    pub(crate) fn of(&self, client: IpAddr) -> Arc<AtomicUsize> {
        let mut clients = self.0.lock().unpoisoned();
        if let Some(share) = clients.get(&client).and_then(Weak::upgrade) {
            return share;
        }
        clients.retain(|_, share| share.strong_count() > 0);
        let share = Arc::default();
        clients.insert(client, Arc::downgrade(&share));
        share
    }
}

/// Adds `more` to a sum. Returns false, and adds nothing, if the sum would exceed `most`.
pub(crate) fn add_up_to(sum: &AtomicUsize, more: usize, most: usize) -> bool {
    let within = |sum: usize| sum.checked_add(more).filter(|sum| *sum <= most);
    sum.fetch_update(Ordering::SeqCst, Ordering::SeqCst, within).is_ok()
}
