//! What a power cut must leave, by the promises made: kept apart from the volume's own books.

#![allow(unreachable_pub, reason = "shared by test files")]

use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// An object of a tree, as the host shows it or as the model expects it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Object {
    Directory { mode: u32 },
    File(usize),
    Symlink(String),
}

/// A file's promised and present content.
#[derive(Debug, Clone, Default)]
pub struct FileModel {
    pub mode: u32,
    /// Promised to be there after a cut.
    pub durable: Vec<u8>,
    /// What a reader sees now.
    pub current: Vec<u8>,
    /// Unpromised bytes that a durable write took along, because they shared its page (4 KiB).
    pub taken_along: BTreeMap<usize, Vec<u8>>,
}

impl FileModel {
    pub fn write(&mut self, offset: usize, data: &[u8]) {
        put(&mut self.current, offset, data);
    }

    pub fn write_durably(&mut self, offset: usize, data: &[u8]) {
        let pages = offset / 4096 * 4096..(offset + data.len()).div_ceil(4096) * 4096;
        for at in pages.start..pages.end.min(self.current.len()) {
            if self.durable.get(at) != self.current.get(at) {
                self.taken_along.entry(at).or_default().push(self.current[at]);
            }
        }
        put(&mut self.current, offset, data);
        put(&mut self.durable, offset, data);
    }

    pub fn flush(&mut self) {
        self.durable = self.current.clone();
        self.taken_along.clear();
    }

    pub fn truncate(&mut self, size: usize) {
        self.current.resize(size, 0);
        // A new size is an attribute: durable at once, with the content that is left.
        self.flush();
    }

    /// Checks what a cut left. Each promised byte is there; where a newer, unpromised byte was written
    /// either may be.
    pub fn check(&self, name: &str, got: &[u8]) {
        let most = self.durable.len().max(self.current.len());
        assert!(got.len() <= most, "{name}: {} bytes, at most {most}", got.len());
        if self.current.len() >= self.durable.len() {
            assert!(got.len() >= self.durable.len(), "{name}: {} bytes of {} promised", got.len(), self.durable.len());
        }
        for (at, &byte) in got.iter().enumerate() {
            let (old, new) = (self.durable.get(at).copied().unwrap_or(0), self.current.get(at).copied().unwrap_or(0));
            let taken_along = self.taken_along.get(&at).is_some_and(|bytes| bytes.contains(&byte));
            assert!(
                byte == old || byte == new || taken_along,
                "{name}: byte {at} is {byte:#x}, promised {old:#x}, newest {new:#x}"
            );
        }
    }
}

fn put(content: &mut Vec<u8>, offset: usize, data: &[u8]) {
    if content.len() < offset + data.len() {
        content.resize(offset + data.len(), 0);
    }
    content[offset..offset + data.len()].copy_from_slice(data);
}

/// A tree as the host shows it: path -> (kind and mode, inode, content or target).
pub type TreeContent = BTreeMap<String, (String, u64, Vec<u8>)>;

/// Fails with the names that differ, not with their content.
pub fn assert_same(got: &TreeContent, want: &TreeContent) {
    let paths: Vec<_> = got.keys().chain(want.keys()).filter(|path| got.get(*path) != want.get(*path)).collect();
    let show = |tree_of: &TreeContent, path: &String| {
        tree_of.get(path).map(|(kind, inode, bytes)| format!("{kind} inode {inode} {} bytes", bytes.len()))
    };
    let text: Vec<_> = paths.iter().map(|path| format!("{path}: {:?}, wanted {:?}", show(got, path), show(want, path))).collect();
    assert!(text.is_empty(), "{}", text.join("\n"));
}

/// Takes the tree_of of a directory; the loss layer's own directory is left out.
pub fn tree_of(root: &Path) -> TreeContent {
    let mut tree_of = TreeContent::new();
    let mut todo = vec![root.to_path_buf()];
    while let Some(dir) = todo.pop() {
        for entry in std::fs::read_dir(&dir).expect("list host directory") {
            let path = entry.expect("entry").path();
            let name = path.strip_prefix(root).expect("below root").display().to_string();
            if name == ".millrace-limbo" {
                continue;
            }
            let meta = std::fs::symlink_metadata(&path).expect("stat");
            let kind = meta.file_type();
            let content = if kind.is_file() {
                std::fs::read(&path).expect("read")
            } else if kind.is_symlink() {
                std::fs::read_link(&path).expect("read link").display().to_string().into_bytes()
            } else {
                Vec::new()
            };
            if kind.is_dir() {
                todo.push(path);
            }
            let what = match () {
                () if kind.is_dir() => "directory",
                () if kind.is_symlink() => "symlink",
                () if kind.is_fifo() => "fifo",
                () => "file",
            };
            tree_of
                .insert(name, (format!("{what} {:o} {}:{}", meta.mode() & 0o7777, meta.uid(), meta.gid()), meta.ino(), content));
        }
    }
    tree_of
}
