//! Changes of names that are not durable yet: what each name led to before, and where removed objects are kept.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::limbo::Limbo;
use crate::sys::{self, KernelHandle};

/// A directory and a name in it.
type Spot<'a> = (&'a KernelHandle, BorrowedFd<'a>, &'a [u8]);

/// One name of a change.
#[derive(Debug)]
pub(super) struct NamePart {
    pub(super) dir: KernelHandle,
    /// The open directory, so that taking the change back needs no lookup.
    pub(super) at: OwnedFd,
    pub(super) name: Box<[u8]>,
    /// The object that the name led to before.
    pub(super) before: Option<KernelHandle>,
}

/// One change of names. A rename has two parts, and is taken back whole or not at all.
#[derive(Debug)]
pub(super) struct NameChange {
    pub(super) parts: Vec<NamePart>,
    /// Directories that must still be flushed.
    pending: Vec<KernelHandle>,
    /// The removed object, and its name in the limbo.
    pub(super) limbo: Option<(KernelHandle, Vec<u8>)>,
}

/// Changes of names that are not durable yet, the oldest first.
#[derive(Debug)]
pub(super) struct NameChanges {
    pub(super) list: Vec<NameChange>,
    pub(super) limbo: Limbo,
}

impl NameChanges {
    pub(super) fn start(root: impl AsFd) -> io::Result<Self> {
        Ok(Self { list: Vec::new(), limbo: Limbo::start(root)? })
    }

    /// A name was added.
    pub(super) fn added(&mut self, spot: Spot<'_>) -> io::Result<()> {
        let part = part(spot, None)?;
        self.list.push(NameChange { parts: vec![part], pending: vec![*spot.0], limbo: None });
        Ok(())
    }

    /// Removes a name: moves the object to the limbo until the removal is durable. The caller has checked
    /// that a directory is empty.
    pub(super) fn remove(&mut self, spot: Spot<'_>, victim: &KernelHandle, directory: bool) -> io::Result<()> {
        let (dir, at, name) = spot;
        let is_directory = sys::stat_name(at, name)?.mode & libc::S_IFMT == libc::S_IFDIR;
        match (is_directory, directory) {
            (true, false) => return Err(io::Error::from_raw_os_error(libc::EISDIR)),
            (false, true) => return Err(io::Error::from_raw_os_error(libc::ENOTDIR)),
            _ => {}
        }
        let part = part(spot, Some(*victim))?;
        let limbo = self.limbo.fresh_name();
        sys::rename_at(at, name, &self.limbo.dir, &limbo)?;
        self.list.push(NameChange { parts: vec![part], pending: vec![*dir], limbo: Some((*victim, limbo)) });
        Ok(())
    }

    /// Renames. Links the victim to the limbo first, or moves it there if it is a directory. The caller has
    /// checked that a victim directory is empty.
    pub(super) fn rename(
        &mut self,
        from: Spot<'_>,
        to: Spot<'_>,
        moved: &KernelHandle,
        victim: Option<&KernelHandle>,
    ) -> io::Result<()> {
        if victim == Some(moved) {
            // Two names of one object: rename(2) leaves both.
            return sys::rename_at(from.1, from.2, to.1, to.2);
        }
        let parts = vec![part(from, Some(*moved))?, part(to, victim.copied())?];
        let mut limbo = None;
        if let Some(victim) = victim {
            let name = self.limbo.fresh_name();
            let is_directory =
                |spot: Spot<'_>| -> io::Result<bool> { Ok(sys::stat_name(spot.1, spot.2)?.mode & libc::S_IFMT == libc::S_IFDIR) };
            match (is_directory(from)?, is_directory(to)?) {
                (true, true) => sys::rename_at(to.1, to.2, &self.limbo.dir, &name)?,
                // A directory and another kind of object: the host refuses.
                (true, false) | (false, true) => return sys::rename_at(from.1, from.2, to.1, to.2),
                (false, false) => sys::link_at(to.1, to.2, &self.limbo.dir, &name)?,
            }
            limbo = Some((*victim, name));
        }
        if let Err(error) = sys::rename_at(from.1, from.2, to.1, to.2) {
            if let Some((_, name)) = &limbo {
                // Moves a directory back. For a file this changes nothing, because both are its names, so unlink one.
                sys::rename_at(&self.limbo.dir, name, to.1, to.2)?;
                let _ = sys::unlink_at(&self.limbo.dir, name, false);
            }
            return Err(error);
        }
        let mut pending = vec![*from.0];
        if from.0 != to.0 {
            pending.push(*to.0);
        }
        self.list.push(NameChange { parts, pending, limbo });
        Ok(())
    }

    /// The host has flushed the entries of a directory. With each change that is now durable, all earlier changes
    /// of the same names are too.
    pub(super) fn directory_flushed(&mut self, dir: &KernelHandle) {
        let mut durable: Vec<(KernelHandle, Box<[u8]>)> = Vec::new();
        let mut kept = Vec::new();
        for mut change in std::mem::take(&mut self.list).into_iter().rev() {
            change.pending.retain(|pending| pending != dir);
            let overtaken = change.parts.iter().any(|p| durable.iter().any(|(d, n)| *d == p.dir && *n == p.name));
            if change.pending.is_empty() || overtaken {
                durable.extend(change.parts.iter().map(|p| (p.dir, p.name.clone())));
                self.discard(&change);
            } else {
                kept.push(change);
            }
        }
        kept.reverse();
        self.list = kept;
    }

    /// The change is durable: deletes the object that it removed.
    fn discard(&self, change: &NameChange) {
        let Some((_, name)) = &change.limbo else { return };
        if sys::unlink_at(&self.limbo.dir, name, false).is_err() {
            // It is a directory. If this fails too, the next start removes it.
            let _ = sys::unlink_at(&self.limbo.dir, name, true);
        }
    }

    /// The host has flushed the whole file system.
    pub(super) fn all_flushed(&mut self) {
        for change in std::mem::take(&mut self.list) {
            self.discard(&change);
        }
    }
}

fn part(spot: Spot<'_>, before: Option<KernelHandle>) -> io::Result<NamePart> {
    let (dir, at, name) = spot;
    Ok(NamePart { dir: *dir, at: at.try_clone_to_owned()?, name: name.into(), before })
}
