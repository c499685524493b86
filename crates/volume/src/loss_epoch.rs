//! The loss epoch: how often unstable data may have been lost, on record and in the write verifier.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::error::Error;
use crate::lock::locked;
use crate::state::{self, Record, Store};

/// The epoch, the verifier that follows from it, and whether a failed flush has moved it.
pub(crate) struct LossEpoch {
    store: Mutex<(Store, Record)>,
    boot_id: Vec<u8>,
    epoch: AtomicU64,
    verifier: AtomicU64,
    poisoned: AtomicBool,
}

impl LossEpoch {
    /// The epoch on record. Without a boot id it is unknown whether the page cache survived: that moves it.
    pub(crate) fn start(store: Store, mut record: Record) -> io::Result<Self> {
        let boot_id = match state::boot_id() {
            Some(id) => id,
            None => {
                record.loss_epoch += 1;
                store.write(&record)?;
                Vec::new()
            }
        };
        Ok(Self {
            epoch: AtomicU64::new(record.loss_epoch),
            verifier: AtomicU64::new(u64::from_le_bytes(state::verifier(&record, &boot_id))),
            poisoned: AtomicBool::new(false),
            boot_id,
            store: Mutex::new((store, record)),
        })
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
        self.verifier.store(u64::from_le_bytes(state::verifier(record, &self.boot_id)), Ordering::SeqCst);
        store.write_loss(record)
    }
}
