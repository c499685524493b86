//! The loss epoch: how often unstable data may have been lost, on record and in the write verifier.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::error::Error;
use crate::lock::locked;
use crate::record::{BootId, Record};
use crate::state::Store;

/// The epoch, the verifier that follows from it, and whether a failed flush has moved it.
pub(crate) struct LossEpoch {
    store: Mutex<(Store, Record)>,
    epoch: AtomicU64,
    verifier: AtomicU64,
    poisoned: AtomicBool,
}

impl LossEpoch {
    /// The epoch on record, for a process that begins to serve under this boot. **Durability**: that a former process stopped
    /// cleanly is on record no more: from now on something may be written.
    pub(crate) fn start(store: Store, record: Record, boot: Option<BootId>) -> io::Result<Self> {
        let now = record.clone().served_under(boot);
        if now != record {
            store.write(&now)?;
        }
        Ok(Self {
            epoch: AtomicU64::new(now.loss_epoch),
            verifier: AtomicU64::new(u64::from_le_bytes(now.verifier())),
            poisoned: AtomicBool::new(false),
            store: Mutex::new((store, now)),
        })
    }

    /// Puts on record that everything is flushed and nothing more will be written: the verifier stands over a reboot then.
    /// Not after a failed flush. **Durability**: on disk when it returns `Ok`.
    pub(crate) fn stopped_cleanly(&self) -> Result<(), Error> {
        let store = locked(&self.store);
        if self.is_poisoned() {
            return Err(Error::Poisoned);
        }
        Ok(store.0.write(&store.1.stopped_cleanly())?)
    }

    /// The number itself.
    pub(crate) fn number(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }

    pub(crate) fn verifier(&self) -> [u8; 8] {
        self.verifier.load(Ordering::SeqCst).to_le_bytes()
    }

    pub(crate) fn is_poisoned(&self) -> bool {
        self.poisoned.load(Ordering::SeqCst)
    }

    /// Fails when a flush failed before. No caller learns of that before it is on record: a process killed in between would
    /// come back with the old verifier.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.is_poisoned() {
            drop(locked(&self.store));
            return Err(Error::Poisoned);
        }
        Ok(())
    }

    /// Moves the epoch, and poisons the volume.
    pub(crate) fn poison(&self) {
        let mut store = locked(&self.store);
        self.poisoned.store(true, Ordering::SeqCst);
        // When even the record can't be written, the verifier has moved in memory and all promises fail.
        let _ = self.record_loss(&mut store);
    }

    /// Moves the epoch and with it the verifier. **Durability**: on disk when it returns `Ok`; in
    /// memory it has moved in any case.
    pub(crate) fn advance(&self) -> io::Result<()> {
        self.record_loss(&mut locked(&self.store))
    }

    fn record_loss(&self, (store, record): &mut (Store, Record)) -> io::Result<()> {
        record.loss_epoch += 1;
        self.epoch.store(record.loss_epoch, Ordering::SeqCst);
        self.verifier.store(u64::from_le_bytes(record.verifier()), Ordering::SeqCst);
        store.write_loss(record)
    }
}
