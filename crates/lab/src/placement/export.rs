//! Placement of files on an existing export: a directory of the comparison that Millrace's NFS client creates, fills and
//! removes.

use std::net::TcpStream;
use std::path::{Path, PathBuf};

use dnfs::{FileHandle, NfsUrl};

use crate::error::LabError;
use crate::limits::FILER_WATCH_EVERY;
use crate::placement::nfs_tree::NfsTree;
use crate::placement::owner::{self, MARK, MARK_BYTES_MAX, Owner, PREFIX};
use crate::placement::part::Part;
use crate::placement::spread::{KeptState, Spread};
use crate::sys::User;

/// A directory on an export.
pub(crate) struct ExportDirectory {
    tree: NfsTree,
    /// The export as the user named it.
    url: String,
    name: String,
    directory: FileHandle,
    parts: Vec<Part>,
    /// Number of copies so far. Each copy has its own names, so that no client confuses a file with one of an earlier copy.
    copies: u32,
    /// Whether the directory exists there.
    made: bool,
}

impl ExportDirectory {
    /// Creates the directory, after removing those of dead comparisons of this host.
    pub(crate) fn make(url: &str, parts: Vec<Part>, user: &User) -> Result<(Self, Vec<String>), LabError> {
        let tree = NfsTree::mount(&as_user(url, user)?)?;
        let removed = sweep(&tree)?;
        let name = owner::unique_name(owner::PREFIX);
        let directory = tree.make_directory(&tree.root(), name.as_bytes(), 0o700)?;
        let export = Self { tree, url: url.to_owned(), name, directory, parts, copies: 0, made: true };
        let mark = Owner::this_process(Path::new(&export.name)).text()?;
        export.tree.write_file(&export.directory, MARK.as_bytes(), &mark)?;
        Ok((export, removed))
    }

    /// The parts with their own directories; the data comes first.
    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Copies a kept state here; `seen` returns the path of a part for the database. Durable when it returns.
    pub(crate) fn restore(
        &mut self,
        state: &KeptState,
        seen: &dyn Fn(Part) -> PathBuf,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), LabError> {
        self.copies += 1;
        let spread = Spread::of(state, &self.parts, seen)?;
        let directories: Vec<(Part, FileHandle)> =
            self.parts.iter().map(|part| Ok((*part, self.part_directory(*part)?))).collect::<Result<_, LabError>>()?;
        let mut done = 0;
        for (place, piece) in spread.pieces.iter().enumerate() {
            let Some((_, directory)) = directories.iter().find(|(part, _)| *part == piece.part) else { continue };
            let before = done;
            let mut more = |bytes| progress(before + bytes);
            let (size, top) = self.tree.fill(&piece.from, (directory, piece.name.as_bytes()), piece.leave_out, &mut more)?;
            done += size.bytes;
            for link in spread.links.iter().filter(|_| place == 0) {
                let parent = link.directory.map_or(Ok(top), |name| self.tree.directory(&top, name.as_bytes()))?;
                self.tree.make_link(&parent, link.name.as_bytes(), &link.to)?;
            }
        }
        Ok(())
    }

    /// URL of the directory of each part of this copy.
    pub(crate) fn urls(&self) -> Vec<(Part, String)> {
        let (base, query) = self.url.split_once('?').map_or((self.url.as_str(), None), |(base, query)| (base, Some(query)));
        let url = |part: &Part| {
            let path = format!("{}/{}/{}", base.trim_end_matches('/'), self.name, self.part_name(*part));
            (*part, query.map_or_else(|| path.clone(), |query| format!("{path}?{query}")))
        };
        self.parts.iter().map(url).collect()
    }

    /// Address of the server.
    pub(crate) fn server(&self) -> std::net::SocketAddr {
        self.tree.server()
    }

    /// The directory's name, and its export.
    pub(crate) fn name(&self) -> (String, String) {
        let export = self.url.split_once('?').map_or(self.url.as_str(), |(export, _)| export);
        (self.name.clone(), export.to_owned())
    }

    /// Removes the copy after a run.
    pub(crate) fn clear(&self) -> Result<(), LabError> {
        for part in &self.parts {
            self.tree.remove(&self.directory, self.part_name(*part).as_bytes())?;
        }
        Ok(())
    }

    /// Removes everything that was created here. The error names what could not be removed.
    pub(crate) fn remove(mut self) -> Result<(), LabError> {
        self.made = false;
        self.remove_all()
    }

    fn remove_all(&self) -> Result<(), LabError> {
        self.tree.remove(&self.tree.root(), self.name.as_bytes())
    }

    fn part_name(&self, part: Part) -> String {
        format!("{}-{}", part.name(), self.copies)
    }

    fn part_directory(&self, part: Part) -> Result<FileHandle, LabError> {
        self.tree.make_directory(&self.directory, self.part_name(part).as_bytes(), 0o700)
    }
}

impl Drop for ExportDirectory {
    fn drop(&mut self) {
        if !self.made {
            return;
        }
        // If the filer is gone, the comparison ends with that error; the calls for removal would only wait for the filer.
        let gone = TcpStream::connect_timeout(&self.server(), FILER_WATCH_EVERY).is_err();
        if !gone && let Err(error) = self.remove_all() {
            eprintln!("millrace: cannot {error}");
        }
    }
}

/// The URL with the database's user, unless it names a user: that user must be able to use the created files.
pub(crate) fn as_user(url: &str, user: &User) -> Result<NfsUrl, LabError> {
    let mut parsed: NfsUrl = url.parse().map_err(|error: dnfs::UrlError| LabError::Plan {
        what: format!("use {}: {error}", dnfs::url::without_user(url)),
        hint: error.hint().unwrap_or_else(|| "nfs://HOST/EXPORT".to_owned()),
    })?;
    parsed.options.uid.get_or_insert(user.uid);
    parsed.options.gid.get_or_insert(user.gid);
    Ok(parsed)
}

/// Removes directories whose mark names a dead comparison of this host; does not change others.
fn sweep(tree: &NfsTree) -> Result<Vec<String>, LabError> {
    let mut removed = Vec::new();
    for entry in tree.list(&tree.root())? {
        let Some(directory) = entry.directory().filter(|_| entry.name.starts_with(PREFIX.as_bytes())) else { continue };
        let dead = tree.read_file(&directory, MARK.as_bytes(), MARK_BYTES_MAX).is_ok_and(|mark| Owner::is_dead(&mark));
        if dead && tree.remove(&tree.root(), &entry.name).is_ok() {
            removed.push(String::from_utf8_lossy(&entry.name).into_owned());
        }
    }
    Ok(removed)
}
