//! Other file systems inside a served directory (mounts, and subvolumes of btrfs), for a server that has a volume for each of them.
//!
//! Each file system numbers its files independently. So each is a separate volume, with its own handles, fsid, write verifier and
//! free space.

use std::io;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::limits::INSIDE_MAX;
use crate::lookup::below_root;
use crate::mounts::{Mounts, Tree};
use crate::node::Node;
use crate::sys::{self, RawStat};
use crate::types::Attr;
use crate::volume::Volume;

/// A file system inside a directory: a mount, or a subvolume of btrfs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inside {
    /// Its root.
    pub dir: PathBuf,
    /// The path of its root below the directory.
    pub below: PathBuf,
    /// Its root with all below it.
    pub tree: Tree,
    /// The permanent identity of the file system and of the directory that is the root here. An error says why it cannot have a volume.
    pub identity: Result<String, &'static str>,
}

/// The root of a file system that a name leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crossing {
    mount: u64,
    dev: (u32, u32),
    ino: u64,
}

impl Crossing {
    fn of(stat: &RawStat) -> Self {
        Self { mount: stat.mount, dev: stat.dev, ino: stat.ino }
    }
}

/// The file systems inside a directory, sorted by path. A mount that another mount hides is left out. A root that is mounted at several
/// places is in the result once.
///
/// **Errors**: the directory cannot be opened, or the host does not list its mounts.
pub fn file_systems_inside(dir: &Path) -> io::Result<Vec<Inside>> {
    let dir = dir.canonicalize()?;
    let mounts = Mounts::read()?;
    let own = sys::stat(sys::open_path(&dir, libc::O_PATH, 0)?)?;
    let identity = Err("it is the volume itself");
    let mut roots = vec![Root { dir: dir.clone(), mount: own.mount, dev: own.dev, tree: mounts.tree_of(&own, &dir), identity }];
    for mount in mounts.0.iter().filter(|mount| mount.directory != dir && mount.directory.starts_with(&dir)) {
        roots.extend(root_at(&mounts, mount.directory.clone(), |stat| stat.mount == mount.id));
    }
    // Each root found may have subvolumes, also one that this loop finds.
    let mut next = 0;
    while let Some(Root { dir, mount, dev, .. }) = roots.get(next).filter(|_| roots.len() < INSIDE_MAX) {
        let mut found = Vec::new();
        for below in subvolumes(dir) {
            found.extend(root_at(&mounts, dir.join(&below), |stat| stat.dev != *dev && stat.mount == *mount));
        }
        roots.append(&mut found);
        next += 1;
    }
    roots.sort_by(|one, other| one.dir.cmp(&other.dir));
    Ok(apart(&dir, roots))
}

/// The root of a file system.
struct Root {
    dir: PathBuf,
    mount: u64,
    dev: (u32, u32),
    tree: Tree,
    identity: Result<String, &'static str>,
}

/// Opens the root at a path. `None` if there is another object than `is_meant` accepts.
fn root_at(mounts: &Mounts, dir: PathBuf, is_meant: impl Fn(&RawStat) -> bool) -> Option<Root> {
    let root = sys::open_path(&dir, libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW, 0).ok()?;
    let stat = sys::stat(&root).ok().filter(|stat| is_meant(stat))?;
    let id = sys::file_system_id(&root).ok().flatten().ok_or("it has no UUID");
    let handle = sys::handle_of(&root).ok().flatten().ok_or("it has no file handles");
    let identity = id.and_then(|id| Ok(format!("{id} {}", handle?.to_text().trim_end())));
    let tree = mounts.tree_of(&stat, &dir);
    Some(Root { dir, mount: stat.mount, dev: stat.dev, tree, identity })
}

fn subvolumes(dir: &Path) -> Vec<PathBuf> {
    let root = sys::open_path(dir, libc::O_RDONLY | libc::O_DIRECTORY, 0).ok();
    let root = root.filter(|root| sys::file_system_kind(root) == Some(sys::BTRFS));
    root.and_then(|root| sys::subvolumes_below(root).ok()).unwrap_or_default()
}

/// Marks roots that cannot have a volume, because a file must not be in two volumes. The first root is the directory itself.
fn apart(dir: &Path, roots: Vec<Root>) -> Vec<Inside> {
    let (mut served, mut inside): (Vec<Root>, _) = (Vec::new(), Vec::new());
    for mut root in roots {
        let below = root.dir.strip_prefix(dir).unwrap_or(Path::new("")).to_path_buf();
        if served.iter().any(|other| other.tree.is_same(&root.tree) && other.dir != dir) {
            continue;
        }
        if served.iter().any(|other| other.tree.overlaps(&root.tree)) {
            root.identity = Err("it has files that are served already");
        }
        if root.dir != dir {
            inside.push(Inside { dir: root.dir.clone(), below, tree: root.tree.clone(), identity: root.identity.clone() });
        }
        if root.dir == dir || root.identity.is_ok() {
            served.push(root);
        }
    }
    inside
}

impl Volume {
    /// The object that a name leads to, if [`Volume::lookup`] refuses it with [`Error::CrossDevice`].
    ///
    /// **Errors**: [`Error::CrossDevice`] if the object is not a directory.
    pub fn crossing(&self, dir: &Node, name: &[u8]) -> Result<Crossing, Error> {
        let descriptor = self.0.directory(dir)?;
        self.0.check_name(dir, name)?;
        let root = sys::open_at(&*descriptor, name, libc::O_PATH | libc::O_DIRECTORY, 0);
        let root = root.map_err(|_| Error::CrossDevice)?;
        Ok(Crossing::of(&sys::stat(&root)?))
    }

    /// Whether `crossing` leads to the root of this volume. `exactly`: through the same mount too.
    pub fn is_at(&self, crossing: &Crossing, exactly: bool) -> bool {
        let own = Crossing::of(self.0.store.root_stat());
        own == *crossing || (!exactly && (own.dev, own.ino) == (crossing.dev, crossing.ino))
    }

    /// The directory of this volume in which the root of another one is mounted.
    ///
    /// **Errors**: [`Error::CrossDevice`] if it is mounted elsewhere.
    pub fn above(&self, inner: &Self) -> Result<(Node, Attr), Error> {
        let _read = self.0.begin_read();
        let above = sys::open_at(inner.0.store.root(), b"..", libc::O_PATH | libc::O_DIRECTORY, 0)?;
        let stat = sys::stat(&above)?;
        below_root(&*self.0.store, &above).map_err(|_| Error::CrossDevice)?;
        let node = self.0.node_of(&self.0.store, &above, &stat, None)?;
        Ok((node, self.0.to_attr(&stat)?))
    }
}
