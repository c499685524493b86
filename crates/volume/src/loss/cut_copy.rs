//! Copies the volume as a power cut would leave it now. The volume stays as it is.
//!
//! The copy takes the same changes back as the cut itself, by the same seeded decisions.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use super::cut::lost_names;
use super::pages::Undo;
use super::{LIMBO, Loss};
use crate::sys::{self, KernelHandle};
use crate::tree_copy::{CopyError, TreeView, copy_tree, prepare_destination};
use crate::types::CutReport;
use crate::volume::Volume;

/// What was copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CopyReport {
    /// The changes that the copy lacks.
    pub cut: CutReport,
    /// Objects in the copy, without its root.
    pub objects: u64,
    /// Sizes of the files, in bytes.
    pub bytes: u64,
}

impl Volume {
    /// Makes in `to` the copy that a power cut would leave now. `to` is an empty directory, or is made. The volume is
    /// quiesced meanwhile and not changed. A cut right after leaves the same.
    ///
    /// **Durability**: the copy is not flushed.
    ///
    /// # Errors
    /// [`CopyError`]; a partial copy stays.
    pub fn power_cut_copy(&self, to: &Path) -> Result<CopyReport, CopyError> {
        let volume = &*self.0;
        let lock = volume.loss.as_ref().ok_or(CopyError::NotSupported)?;
        let failed = |source| CopyError::Io { path: to.to_path_buf(), source };
        let busy = |_| failed(io::Error::from_raw_os_error(libc::EBUSY));
        let _quiesced = self.quiesce(Duration::MAX).map_err(busy)?;
        let loss = lock.read();
        prepare_destination(volume, to)?;
        let plan = loss.plan(&mut loss.chance.clone()).map_err(failed)?;
        let mut tree = TreeView::take(volume).map_err(failed)?;
        take_back_names(&mut tree, &loss, plan.survived).map_err(failed)?;
        let undo: HashMap<KernelHandle, &Undo<'_>> = plan.files.iter().map(|(identity, _, undo)| (*identity, undo)).collect();
        let copied = copy_tree(volume, tree, to, &|identity, copy| undo.get(identity).map_or(Ok(()), |undo| undo.apply(copy)))?;
        Ok(CopyReport { cut: plan.report, objects: copied.objects, bytes: copied.bytes })
    }
}

/// Takes the lost changes of names back in the view.
fn take_back_names(tree: &mut TreeView, loss: &Loss, survived: usize) -> io::Result<()> {
    let changes = &loss.names;
    for (identity, name) in changes.list.iter().filter_map(|change| change.limbo.as_ref()) {
        if sys::stat_name(&changes.limbo.dir, name)?.mode & libc::S_IFMT == libc::S_IFDIR {
            tree.directories.entry(*identity).or_default();
        }
        tree.places.insert(*identity, vec![LIMBO.into(), name.as_slice().into()]);
    }
    for part in lost_names(changes.list.get(survived..).unwrap_or_default()) {
        let names = tree.directories.entry(part.dir).or_default();
        match part.before {
            Some(before) => names.insert(part.name.clone(), before),
            None => names.remove(&part.name),
        };
    }
    Ok(())
}
