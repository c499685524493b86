//! The simulated power cut.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use super::Loss;
use super::chance::Chance;
use super::names::{NameChange, NamePart};
use super::pages::{FileLoss, Undo};
use crate::error::Error;
use crate::node::Node;
use crate::sys::{self, KernelHandle};
use crate::types::CutReport;
use crate::volume::Volume;

impl Volume {
    /// Whether the volume was opened with the loss layer: only then can it be cut.
    #[must_use]
    pub fn can_lose(&self) -> bool {
        self.0.loss.is_some()
    }

    /// Leaves the directory as a power cut would: takes back every change that is not durable (with a seed, some
    /// survive), increments the loss epoch, and closes all descriptors except the root's. Quiesces the volume, and waits
    /// for reads too. Can be called again.
    ///
    /// **Errors**: [`Error::NotSupported`] if the volume was opened without the loss layer; what the host returns, after
    /// which the directory may be changed in part.
    pub fn power_cut(&self) -> Result<CutReport, Error> {
        if !self.can_lose() {
            return Err(Error::NotSupported);
        }
        let _quiesced = self.quiesce(Duration::MAX).map_err(|_| Error::Busy)?;
        let mut loss = self.0.lock_loss().ok_or(Error::NotSupported)?;
        // First, because clients must see that data may be lost even if a later step fails.
        self.0.loss_epoch.advance(true).1?;
        let report = loss.cut(|fd, stat| self.0.store.identify(fd.as_fd(), stat))?;
        self.0.nodes.for_each(|node| {
            if Node(node.clone()) != self.0.root {
                node.forget();
            }
        });
        self.0.tree_search.forget();
        self.0.recount();
        Ok(report)
    }

    /// Test fault: operations reply without a flush, which a cut must reveal.
    #[doc(hidden)]
    pub fn set_answer_early(&self, on: bool) {
        if let Some(mut loss) = self.0.lock_loss() {
            loss.set_answer_early(on);
        }
    }
}

/// What a cut takes back.
pub(super) struct Plan<'a> {
    pub(super) files: Vec<(KernelHandle, &'a FileLoss, Undo<'a>)>,
    /// Number of the oldest changes of names that survive.
    pub(super) survived: usize,
    pub(super) report: CutReport,
}

impl Loss {
    /// What a cut would take back now, by the decisions of `chance`.
    pub(super) fn plan(&self, chance: &mut Chance) -> io::Result<Plan<'_>> {
        let mut report = CutReport::default();
        let mut lossy: Vec<_> = self.files.files.iter().collect();
        // The seed must decide, not the order of a hash map.
        lossy.sort_by_key(|(identity, _)| (identity.kind, identity.bytes));
        let mut files = Vec::with_capacity(lossy.len());
        for (identity, file) in lossy {
            let undo = file.plan(chance)?;
            let (writes, attrs) = undo.counts();
            report.undone_writes += writes;
            report.undone_names += attrs;
            files.push((*identity, file, undo));
        }
        let survived = usize::try_from(chance.up_to(self.names.list.len() as u64)).unwrap_or(0);
        report.undone_names += (self.names.list.len() - survived) as u64;
        Ok(Plan { files, survived, report })
    }

    fn cut(
        &mut self,
        identify: impl Fn(&std::os::fd::OwnedFd, &sys::RawStat) -> io::Result<KernelHandle>,
    ) -> io::Result<CutReport> {
        let mut chance = self.chance.clone();
        let plan = self.plan(&mut chance)?;
        for (_, file, undo) in &plan.files {
            undo.apply(file.fd())?;
        }
        let (survived, report) = (plan.survived, plan.report);
        self.chance = chance;
        self.files.all_flushed();
        let names = std::mem::take(&mut self.names.list);
        let mut limbo: HashMap<KernelHandle, Vec<u8>> = names.iter().filter_map(|change| change.limbo.clone()).collect();
        let spots = lost_names(names.get(survived..).unwrap_or_default());
        for part in &spots {
            let fd = match sys::open_at(&part.at, &part.name, libc::O_PATH, 0) {
                Ok(fd) => fd,
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => continue,
                Err(error) => return Err(error),
            };
            let occupant = identify(&fd, &sys::stat(&fd)?)?;
            let name = self.names.limbo.fresh_name();
            sys::rename_at(&part.at, &part.name, &self.names.limbo.dir, &name)?;
            limbo.insert(occupant, name);
        }
        for part in &spots {
            let Some(before) = part.before else { continue };
            let name = limbo.get(&before).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))?;
            if sys::stat_name(&self.names.limbo.dir, name)?.mode & libc::S_IFMT == libc::S_IFDIR {
                sys::rename_at(&self.names.limbo.dir, name, &part.at, &part.name)?;
            } else {
                sys::link_at(&self.names.limbo.dir, name, &part.at, &part.name)?;
            }
        }
        self.names.limbo.empty()?;
        Ok(report)
    }
}

/// For each name of these changes, the part of the first one, which knows what the name led to before.
pub(super) fn lost_names(lost: &[NameChange]) -> Vec<&NamePart> {
    let mut spots: Vec<&NamePart> = Vec::new();
    for part in lost.iter().flat_map(|change| &change.parts) {
        if !spots.iter().any(|seen| seen.dir == part.dir && seen.name == part.name) {
            spots.push(part);
        }
    }
    spots
}
