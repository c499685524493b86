//! Trees of files on an export, by Millrace's NFS client: created, filled in parallel, removed.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{IoSlice, IoSliceMut, Read, Seek};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use dnfs::file::{AccessRights, CreateMode, DirectoryPosition};
use dnfs::{Client, Credentials, FileHandle, FileKind, FsError, NfsUrl, SetAttributes, Stability, WriteVerifier};

use crate::error::{EXPORT_WRITABLE, LabError};
use crate::host::interrupt;
use crate::limits::{
    COPY_CHUNK_BYTES, EXPORT_COPIERS, RESTORE_UNIT_BYTES, TREE_DEPTH_MAX, TREE_ENTRIES_MAX, UNSTABLE_ROUNDS_MAX,
};
use crate::placement::restore::TreeSize;

/// A directory of an export.
pub(crate) struct NfsTree {
    client: Client,
    root: FileHandle,
    url: NfsUrl,
    /// For messages.
    name: String,
}

/// A name in a directory.
pub(crate) struct Entry {
    pub(crate) name: Vec<u8>,
    handle: FileHandle,
    kind: FileKind,
}

/// A file to copy.
struct Waiting {
    source: PathBuf,
    directory: FileHandle,
    mode: u32,
}

impl NfsTree {
    /// Mounts the directory that `url` names. The laboratory itself gives up if the server is unreachable;
    /// the measured database does not.
    pub(crate) fn mount(url: &NfsUrl) -> Result<Self, LabError> {
        let mut url = url.clone();
        url.options.soft = true;
        url.options.resend_after = url.options.resend_after.min(crate::limits::EXPORT_SILENCE_MAX);
        let name = url.to_string();
        let client = Client::mount(&url, &Credentials::of_process()).map_err(LabError::nfs("mount", &name))?;
        let root = client.parts().root;
        Ok(Self { client, root, url, name })
    }

    /// Address of the server.
    pub(crate) fn server(&self) -> std::net::SocketAddr {
        self.client.parts().server
    }

    /// The root of the mount.
    pub(crate) fn root(&self) -> FileHandle {
        self.root
    }

    /// Free bytes for this user.
    pub(crate) fn free_bytes(&self) -> Result<u64, LabError> {
        self.client
            .fsstat(&self.root)
            .map(|stat| stat.available_bytes)
            .map_err(LabError::nfs("ask for free space of", &self.name))
    }

    /// Refuses a root in which the user of the URL may not create directories. Writes nothing if the server reports that the user may
    /// (ACCESS, RFC 1813 3.3.4). A server may answer from cached attributes, so a refusal is checked by creating a directory `name`,
    /// which is removed at once.
    pub(crate) fn check_writable(&self, name: &str) -> Result<(), LabError> {
        let needed = AccessRights::LOOKUP | AccessRights::EXTEND;
        let root = self.root;
        let asked = self.client.getattr(&root).and_then(|facts| Ok((facts, self.client.access(&root, needed)?)));
        let (facts, granted) = asked.map_err(LabError::nfs("ask for the rights on", &self.name))?;
        if granted == needed {
            return Ok(());
        }
        match self.client.mkdir(&root, name.as_bytes(), &SetAttributes::default()) {
            Ok(_) => self.client.rmdir(&root, name.as_bytes()).map_err(LabError::nfs("remove a directory of", &self.name)),
            Err(dnfs::Error::Fs(FsError::AccessDenied | FsError::NotOwner)) => Err(LabError::Missing {
                what: format!(
                    "work on {}: the server does not let {} make files there (the directory belongs to uid {}, mode {:o})",
                    self.name,
                    self.url.options.uid.map_or_else(|| "this user".to_owned(), |uid| format!("uid {uid}")),
                    facts.uid,
                    facts.mode & 0o7777
                ),
                hint: EXPORT_WRITABLE.to_owned(),
            }),
            Err(error) => Err(LabError::nfs("make a directory on", &self.name)(error)),
        }
    }

    /// Creates a directory.
    pub(crate) fn make_directory(&self, parent: &FileHandle, name: &[u8], mode: u32) -> Result<FileHandle, LabError> {
        let attributes = SetAttributes { mode: Some(mode), ..SetAttributes::default() };
        let made = self.client.mkdir(parent, name, &attributes).and_then(|(handle, _)| match handle {
            Some(handle) => Ok(handle),
            None => self.client.lookup(parent, name).map(|(handle, _)| handle),
        });
        made.map_err(LabError::nfs("make a directory on", &self.name))
    }

    /// Looks up an existing directory.
    pub(crate) fn directory(&self, parent: &FileHandle, name: &[u8]) -> Result<FileHandle, LabError> {
        let found = self.client.lookup(parent, name).map(|(handle, _)| handle);
        found.map_err(LabError::nfs("find a directory on", &self.name))
    }

    /// Creates a symbolic link.
    pub(crate) fn make_link(&self, parent: &FileHandle, name: &[u8], text: &Path) -> Result<(), LabError> {
        let done = self.client.symlink(parent, name, text.as_os_str().as_bytes(), &SetAttributes::default());
        done.map(|_| ()).map_err(LabError::nfs("make a symbolic link on", &self.name))
    }

    /// Writes a small file.
    pub(crate) fn write_file(&self, parent: &FileHandle, name: &[u8], text: &[u8]) -> Result<(), LabError> {
        let done = create(&self.client, parent, name, 0o600).and_then(|file| {
            let slices = [IoSlice::new(text)];
            let done = self.client.write(&file, 0, &slices, Stability::FileSync)?;
            if done.bytes == text.len() { Ok(()) } else { Err(dnfs::Error::Fs(FsError::NoSpace)) }
        });
        done.map_err(LabError::nfs("write a file on", &self.name))
    }

    /// Reads at most `most` bytes from the beginning of a file in `parent`.
    pub(crate) fn read_file(&self, parent: &FileHandle, name: &[u8], most: usize) -> Result<Vec<u8>, LabError> {
        let done = self.client.lookup(parent, name).and_then(|(file, _)| {
            let mut bytes = vec![0; most];
            let done = self.client.read(&file, 0, &mut [IoSliceMut::new(&mut bytes)])?;
            bytes.truncate(done.bytes);
            Ok(bytes)
        });
        done.map_err(LabError::nfs("read a file on", &self.name))
    }

    /// The entries of a directory.
    pub(crate) fn list(&self, directory: &FileHandle) -> Result<Vec<Entry>, LabError> {
        self.list_raw(directory).map_err(LabError::nfs("list a directory of", &self.name))
    }

    /// Removes a name and everything below it.
    pub(crate) fn remove(&self, parent: &FileHandle, name: &[u8]) -> Result<(), LabError> {
        let found = match self.client.lookup(parent, name) {
            Ok((handle, attributes)) => {
                attributes.map_or_else(|| self.client.getattr(&handle), Ok).map(|facts| (handle, facts.kind))
            }
            Err(dnfs::Error::Fs(FsError::NotFound)) => return Ok(()),
            Err(error) => Err(error),
        };
        let (handle, kind) = found.map_err(LabError::nfs("inspect a file of", &self.name))?;
        let removed = match kind {
            FileKind::Directory => {
                self.empty(&handle, 0)?;
                self.client.rmdir(parent, name)
            }
            _ => self.client.remove(parent, name),
        };
        removed.map_err(LabError::nfs("remove a file of", &self.name))
    }

    fn empty(&self, directory: &FileHandle, depth: usize) -> Result<(), LabError> {
        if depth > TREE_DEPTH_MAX {
            return Err(LabError::nfs("remove a tree of", &self.name)(dnfs::Error::Fs(FsError::NameTooLong)));
        }
        for entry in self.list(directory)? {
            let removed = if entry.kind == FileKind::Directory {
                self.empty(&entry.handle, depth + 1)?;
                self.client.rmdir(directory, &entry.name)
            } else {
                self.client.remove(directory, &entry.name)
            };
            removed.map_err(LabError::nfs("remove a file of", &self.name))?;
        }
        Ok(())
    }

    fn list_raw(&self, directory: &FileHandle) -> Result<Vec<Entry>, dnfs::Error> {
        let mut names: Vec<(Vec<u8>, Option<FileHandle>, Option<FileKind>)> = Vec::new();
        let refused = AtomicU32::new(0);
        let mut position = Some(DirectoryPosition::default());
        while let Some(from) = position {
            position = self.client.list(directory, from, &refused, &mut |entry| {
                if !matches!(entry.name, b"." | b"..") {
                    names.push((entry.name.to_vec(), entry.handle, entry.attributes.map(|facts| facts.kind)));
                }
                true
            })?;
            if names.len() > TREE_ENTRIES_MAX {
                return Err(dnfs::Error::Fs(FsError::ServerFault));
            }
        }
        let whole = |(name, handle, kind): (Vec<u8>, Option<FileHandle>, Option<FileKind>)| {
            let handle = handle.map_or_else(|| self.client.lookup(directory, &name).map(|(handle, _)| handle), Ok)?;
            let kind = kind.map_or_else(|| self.client.getattr(&handle).map(|facts| facts.kind), Ok)?;
            Ok(Entry { name, handle, kind })
        };
        names.into_iter().map(whole).collect()
    }

    /// Copies the tree `from` to the new name `name` in `parent`, without the top-level name `leave_out`.
    /// Several files are copied concurrently; `progress` is called with the bytes copied.
    ///
    /// Durability: every file is committed to the server's stable storage when it returns.
    pub(crate) fn fill(
        &self,
        from: &Path,
        (parent, name): (&FileHandle, &[u8]),
        leave_out: Option<&str>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(TreeSize, FileHandle), LabError> {
        let mode = fs::metadata(from).map_err(LabError::file("inspect", from))?.mode() & 0o7777;
        let top = self.make_directory(parent, name, mode)?;
        let files = self.make_directories(from, &top, leave_out)?;
        let size = TreeSize { files: files.len() as u64, bytes: 0 };
        let waiting = Mutex::new(VecDeque::from(files));
        let bytes = AtomicU64::new(0);
        let outcome = std::thread::scope(|scope| {
            let copiers: Vec<_> = (0..EXPORT_COPIERS).map(|_| scope.spawn(|| self.copier(&waiting, &bytes))).collect();
            while copiers.iter().any(|copier| !copier.is_finished()) {
                progress(bytes.load(Ordering::Relaxed));
                std::thread::sleep(interrupt::POLL_EVERY);
            }
            copiers.into_iter().map(|copier| copier.join().unwrap_or(Err(LabError::Interrupted))).collect::<Result<Vec<()>, _>>()
        });
        outcome?;
        let bytes = bytes.into_inner();
        progress(bytes);
        Ok((TreeSize { bytes, ..size }, top))
    }

    /// Creates every directory below `top`. Returns the files to copy.
    fn make_directories(&self, from: &Path, top: &FileHandle, leave_out: Option<&str>) -> Result<Vec<Waiting>, LabError> {
        let mut files = Vec::new();
        let mut directories = vec![(from.to_owned(), *top)];
        let mut entries = 0;
        while let Some((source, target)) = directories.pop() {
            interrupt::check()?;
            for entry in fs::read_dir(&source).map_err(LabError::file("list", &source))? {
                let entry = entry.map_err(LabError::file("list", &source))?;
                entries += 1;
                if entries > TREE_ENTRIES_MAX {
                    return Err(LabError::file("restore", from)(std::io::Error::other("more entries than a database has")));
                }
                let (name, path) = (entry.file_name(), entry.path());
                if source == from && leave_out.is_some_and(|left| name == left) {
                    continue;
                }
                let facts = fs::symlink_metadata(&path).map_err(LabError::file("inspect", &path))?;
                let mode = facts.mode() & 0o7777;
                if facts.is_dir() {
                    directories.push((path, self.make_directory(&target, name.as_bytes(), mode)?));
                } else if facts.is_file() {
                    files.push(Waiting { source: path, directory: target, mode });
                }
            }
        }
        Ok(files)
    }

    /// Copies files until there are none left, on its own connections.
    fn copier(&self, waiting: &Mutex<VecDeque<Waiting>>, bytes: &AtomicU64) -> Result<(), LabError> {
        let client = Client::from_parts(self.client.parts(), &self.url, &Credentials::of_process())
            .map_err(LabError::nfs("use", &self.name))?;
        let mut buffer = vec![0; COPY_CHUNK_BYTES];
        loop {
            interrupt::check()?;
            let next = waiting.lock().map_or(None, |mut files| files.pop_front());
            let Some(next) = next else { return Ok(()) };
            let done = self.copy(&client, &next, &mut buffer, bytes);
            if done.is_err() {
                // The other copiers can stop, because the copy has failed.
                let _ = waiting.lock().map(|mut files| files.clear());
                return done;
            }
        }
    }

    fn copy(&self, client: &Client, file: &Waiting, buffer: &mut [u8], bytes: &AtomicU64) -> Result<(), LabError> {
        let mut source = File::open(&file.source).map_err(LabError::file("open", &file.source))?;
        let name = file.source.file_name().unwrap_or_default().as_bytes();
        let wrap = || LabError::nfs("write a file on", &self.name);
        let target = create(client, &file.directory, name, file.mode).map_err(wrap())?;
        for _ in 0..UNSTABLE_ROUNDS_MAX {
            source.rewind().map_err(LabError::file("read", &file.source))?;
            let mut offset = 0;
            let mut verifiers: Vec<WriteVerifier> = Vec::new();
            loop {
                interrupt::check()?;
                let count = source.read(buffer).map_err(LabError::file("read", &file.source))?;
                let Some(mut rest) = buffer.get(..count).filter(|rest| !rest.is_empty()) else { break };
                while !rest.is_empty() {
                    let unit = rest.get(..RESTORE_UNIT_BYTES).unwrap_or(rest);
                    let done = client.write(&target, offset, &[IoSlice::new(unit)], Stability::Unstable).map_err(wrap())?;
                    if done.bytes == 0 {
                        return Err(wrap()(dnfs::Error::Fs(FsError::Io)));
                    }
                    if done.verifier_changed || !verifiers.contains(&done.verifier) {
                        verifiers.push(done.verifier);
                    }
                    offset += done.bytes as u64;
                    rest = rest.get(done.bytes..).unwrap_or_default();
                }
            }
            if verifiers.is_empty() {
                return Ok(()); // an empty file: CREATE was stable
            }
            let (committed, _) = client.commit(&target).map_err(wrap())?;
            if verifiers == [committed] {
                bytes.fetch_add(offset, Ordering::Relaxed);
                return Ok(());
            }
        }
        Err(wrap()(dnfs::Error::Fs(FsError::Io)))
    }
}

impl Entry {
    /// The handle, if the entry is a directory.
    pub(crate) fn directory(&self) -> Option<FileHandle> {
        (self.kind == FileKind::Directory).then_some(self.handle)
    }
}

fn create(client: &Client, directory: &FileHandle, name: &[u8], mode: u32) -> Result<FileHandle, dnfs::Error> {
    let attributes = SetAttributes { mode: Some(mode), ..SetAttributes::default() };
    match client.create(directory, name, CreateMode::Guarded(attributes))? {
        (Some(handle), _) => Ok(handle),
        (None, _) => client.lookup(directory, name).map(|(handle, _)| handle),
    }
}
