//! Flushes of one object, which callers share, and of the whole file system.

use std::io;

use crate::counters::Counted;
use crate::descriptor::Access;
use crate::error::Error;
use crate::loss::LossGuard;
use crate::node::Node;
use crate::options::Durability;
use crate::quiesce::Change;
use crate::sys;
use crate::types::Kind;
use crate::volume::{Volume, VolumeInner};

impl Volume {
    /// Makes all earlier changes of the file's data and size durable; of a directory, those of its entries.
    ///
    /// **Errors**: a failed flush is returned and increments the loss epoch. After [`Error::NoSpace`] and [`Error::Quota`] the volume
    /// remains in service. Any other failure poisons it.
    pub fn commit(&self, node: &Node) -> Result<(), Error> {
        self.0.alive()?;
        let whole = match node.kind() {
            Kind::File => false,
            Kind::Directory => true,
            _ => return Err(Error::Invalid),
        };
        if self.0.loss.is_none() && node.0.is_clean() {
            // The call must still fail if the file is gone.
            let descriptor = self.0.descriptor(node)?;
            return self.0.attr_of(node, &descriptor).map(drop);
        }
        let mut loss = self.0.lock_loss();
        let descriptor = self.0.descriptor(node)?;
        self.0.attr_of(node, &descriptor)?;
        drop(descriptor);
        if self.0.flush_now(node, whole, &mut loss)? {
            Counted::add(&self.0.counted.data_flushes);
        }
        Ok(())
    }

    /// Makes everything of the volume durable. The host flushes its whole file system.
    pub fn flush_all(&self) -> Result<(), Error> {
        self.0.alive()?;
        let mut loss = self.0.lock_loss();
        self.0.flush_file_system()?;
        if let Some(loss) = &mut loss {
            loss.all_flushed();
        }
        Ok(())
    }
}

impl VolumeInner {
    /// Flushes an object. Callers that do so at the same time share the flush. Returns true if this caller made it. `whole`: attributes
    /// too. Does not report the flush to the loss layer.
    pub(crate) fn flush_node(&self, node: &Node, whole: bool) -> Result<bool, Error> {
        self.alive()?;
        if self.options.durability == Durability::Battery {
            // With this option, the page cache counts as stable storage.
            node.0.mark_flushed(node.0.change_mark(), whole);
            return Ok(false);
        }
        let descriptor = self.descriptor(node)?;
        let mut made = false;
        let result = node.0.group_commit.flush(whole, |whole| {
            made = true;
            let mark = node.0.change_mark();
            Counted::add(&self.counted.flushes);
            let flushed = self.flush_fault(Some(node.0.fileid)).and_then(|()| match (descriptor.access, whole) {
                // fsync does not work on an O_PATH descriptor.
                (Access::Path, _) => node.0.store.flush_metadata(),
                (_, true) => sys::fsync(&*descriptor),
                (_, false) => sys::fdatasync(&*descriptor),
            });
            if let Err(error) = &flushed {
                // syncfs does not report which file's data it could not write.
                let concerned = (descriptor.access != Access::Path).then_some(node);
                self.flush_failed(concerned, error.raw_os_error().unwrap_or(libc::EIO));
            }
            // The kernel reports a writeback error only once, so this flush may have succeeded because the one before it failed.
            let flushed = flushed.and_then(|()| self.alive().map_err(|_| io::Error::from_raw_os_error(libc::EIO)));
            if flushed.is_ok() {
                node.0.mark_flushed(mark, whole);
            }
            flushed
        });
        if !made {
            Counted::add(&self.counted.shared_flushes);
        }
        result.map(|()| made).map_err(Error::from_errno)
    }

    /// Makes the object's changes durable. `whole`: attributes (of a directory: entries) too.
    ///
    /// **Errors**: also that of another caller's flush that failed since the change began.
    pub(crate) fn flush(&self, node: &Node, whole: bool, change: &mut Change<'_>) -> Result<(), Error> {
        if change.loss.as_ref().is_some_and(|loss| loss.answers_early()) {
            return Ok(());
        }
        self.flush_now(node, whole, &mut change.loss)?;
        self.check_kept(node, change.epoch)
    }

    /// Fails if data or names of the object may have been lost since the loss epoch `epoch`. The host reports a failed writeback only
    /// to one caller. The flush of another caller then succeeds although data was lost.
    pub(crate) fn check_kept(&self, node: &Node, epoch: u64) -> Result<(), Error> {
        if node.0.lost() <= epoch {
            return Ok(());
        }
        self.alive()?;
        Err(Error::NoSpace)
    }

    /// Flushes an object, and reports that to the loss layer. Returns true if this caller made the flush.
    pub(crate) fn flush_now(&self, node: &Node, whole: bool, loss: &mut Option<LossGuard<'_>>) -> Result<bool, Error> {
        let made = self.flush_node(node, whole)?;
        if let Some(loss) = loss {
            loss.flushed(&node.0.identity, whole);
        }
        Ok(made)
    }

    /// Makes everything durable.
    pub(crate) fn flush_file_system(&self) -> Result<(), Error> {
        let mut marks = Vec::new();
        self.nodes.for_each(|node| {
            if node.is_dirty() {
                marks.push((node.clone(), node.change_mark()));
            }
        });
        Counted::add(&self.counted.flushes);
        let flushed = self.flush_fault(None).and_then(|()| sys::sync_file_system(self.store.root()));
        flushed.map_err(|error| self.flush_failed(None, error.raw_os_error().unwrap_or(libc::EIO)))?;
        for (node, mark) in marks {
            // syncfs may not report a write-back error of a file. The file's own flush does, and is cheap now.
            self.flush_node(&Node(node.clone()), true)?;
            node.mark_flushed(mark, true);
        }
        Ok(())
    }
}
