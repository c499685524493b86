//! The loss epoch: how often unstable data may have been lost. It is recorded on disk, and the write verifier depends on it.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use host::Unpoisoned;

use crate::error::Error;
use crate::record::{Host, Record};
use crate::state::StateDirectory;

/// The epoch, the write verifier, and whether a failed flush has poisoned the volume.
pub(crate) struct LossEpoch {
    state: Mutex<(StateDirectory, Record)>,
    epoch: AtomicU64,
    /// The epoch of the last loss that may concern every file. It begins with the epoch at the start, because a process does not know which
    /// files earlier processes lost.
    whole: AtomicU64,
    verifier: AtomicU64,
    poisoned: AtomicBool,
}

impl LossEpoch {
    /// Takes the recorded epoch, for a process that begins to serve on this host. **Durability**: the record no longer says that an earlier
    /// process stopped cleanly, because this one may write from now on.
    pub(crate) fn start(state: StateDirectory, record: Record, host: Host) -> io::Result<Self> {
        let now = record.clone().served_under(host);
        if now != record {
            state.write(&now)?;
        }
        Ok(Self {
            epoch: AtomicU64::new(now.loss_epoch),
            whole: AtomicU64::new(now.loss_epoch),
            verifier: AtomicU64::new(u64::from_le_bytes(now.verifier())),
            poisoned: AtomicBool::new(false),
            state: Mutex::new((state, now)),
        })
    }

    /// Records that everything is flushed and nothing more will be written. The verifier then stays the same over a reboot.
    /// **Durability**: on disk when it returns `Ok`. **Errors**: [`Error::Poisoned`] after a failed flush.
    pub(crate) fn stopped_cleanly(&self) -> Result<(), Error> {
        let state = self.state.lock().unpoisoned();
        if self.is_poisoned() {
            return Err(Error::Poisoned);
        }
        Ok(state.0.write(&state.1.stopped_cleanly())?)
    }

    /// The epoch.
    pub(crate) fn number(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }

    /// The epoch of the last loss that may concern every file.
    pub(crate) fn of_every_file(&self) -> u64 {
        self.whole.load(Ordering::SeqCst)
    }

    pub(crate) fn verifier(&self) -> [u8; 8] {
        self.verifier.load(Ordering::SeqCst).to_le_bytes()
    }

    pub(crate) fn is_poisoned(&self) -> bool {
        self.poisoned.load(Ordering::SeqCst)
    }

    /// Fails with [`Error::Poisoned`] after a failed flush. It waits until the loss is recorded: otherwise a client could see the
    /// failure, and a process killed before the record was written would start again with the old verifier.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.is_poisoned() {
            drop(self.state.lock().unpoisoned());
            return Err(Error::Poisoned);
        }
        Ok(())
    }

    /// Increments the epoch and poisons the volume. `whole`: the loss may concern every file. Returns the new epoch.
    pub(crate) fn poison(&self, whole: bool) -> u64 {
        let mut state = self.state.lock().unpoisoned();
        self.poisoned.store(true, Ordering::SeqCst);
        // Even if the record cannot be written, the verifier has changed in memory, and all promises of durability fail.
        let _ = self.record_loss(&mut state, whole);
        self.number()
    }

    /// Increments the epoch, which changes the verifier. `whole`: the loss may concern every file. Returns the new epoch, and whether it is
    /// on disk. In memory it has changed in any case.
    pub(crate) fn advance(&self, whole: bool) -> (u64, io::Result<()>) {
        let mut state = self.state.lock().unpoisoned();
        let recorded = self.record_loss(&mut state, whole);
        (self.number(), recorded)
    }

    fn record_loss(&self, (state, record): &mut (StateDirectory, Record), whole: bool) -> io::Result<()> {
        record.loss_epoch += 1;
        if whole {
            self.whole.store(record.loss_epoch, Ordering::SeqCst);
        }
        self.epoch.store(record.loss_epoch, Ordering::SeqCst);
        self.verifier.store(u64::from_le_bytes(record.verifier()), Ordering::SeqCst);
        state.write_loss(record)
    }
}
