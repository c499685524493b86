//! The files of LUNs in their volume. Each LUN has a record, `NAME.lun`, and a data file, `NAME.img`.

use volume::{CreateHow, Error, Kind, Node, SetAttr, Stability, Volume};

use super::error::LunError;
use super::record::LunRecord;
use crate::limits::LUN_RECORD_BYTES_MAX;

const RECORD: &str = ".lun";
/// The new record while it is written. A file that a crash left is overwritten.
const RECORD_NEW: &str = ".lun.new";
const DATA: &str = ".img";
/// Mode of the files.
const MODE: u32 = 0o600;

/// The files of the LUNs of a volume.
pub(super) struct LunFiles {
    volume: Volume,
}

impl LunFiles {
    pub(super) const fn new(volume: Volume) -> Self {
        Self { volume }
    }

    pub(super) const fn volume(&self) -> &Volume {
        &self.volume
    }

    /// The names of the LUNs that have a record.
    pub(super) fn names(&self) -> Result<Vec<String>, LunError> {
        let failed = LunError::volume("list .millrace-luns");
        let Some(dir) = self.volume.devices_directory().map_err(&failed)? else { return Ok(Vec::new()) };
        let mut names = Vec::new();
        let mut note = |entry: &volume::DirEntry<'_>| {
            let name = std::str::from_utf8(entry.name).ok().and_then(|name| name.strip_suffix(RECORD));
            names.extend(name.map(str::to_owned));
            true
        };
        self.volume.read_dir(&dir, 0, &mut note).map_err(failed)?;
        names.sort();
        Ok(names)
    }

    pub(super) fn read(&self, name: &str) -> Result<LunRecord, LunError> {
        let file = format!("{name}{RECORD}");
        let failed = |reason: String| LunError::Record { file: file.clone(), reason };
        let read = || -> Result<Vec<u8>, Error> {
            let dir = self.volume.devices_directory()?.ok_or(Error::NoEntry)?;
            let (node, _) = self.volume.lookup(&dir, file.as_bytes())?;
            let mut text = vec![0; LUN_RECORD_BYTES_MAX + 1];
            let (bytes, _) = self.volume.read(&node, 0, &mut text)?;
            text.truncate(bytes);
            Ok(text)
        };
        let text = read().map_err(|error| failed(error.to_string()))?;
        if text.len() > LUN_RECORD_BYTES_MAX {
            return Err(failed(format!("longer than {LUN_RECORD_BYTES_MAX} bytes")));
        }
        LunRecord::parse(&text).map_err(failed)
    }

    /// Replaces the record. **Durability**: on disk when it returns. After a crash, the file holds either the old or
    /// the new record.
    pub(super) fn write(&self, name: &str, record: &LunRecord) -> Result<(), LunError> {
        let failed = LunError::volume("write its record");
        let (new, last) = (format!("{name}{RECORD_NEW}"), format!("{name}{RECORD}"));
        let dir = self.volume.make_devices_directory().map_err(&failed)?;
        let node = self.make(&dir, &new, 0).map_err(&failed)?;
        let text = record.to_text();
        let mut done = 0;
        while let Some(rest) = text.get(done..).filter(|rest| !rest.is_empty()) {
            done += self.volume.write(&node, done as u64, rest, Stability::FileSync).map_err(&failed)?;
        }
        self.volume.rename(&dir, new.as_bytes(), &dir, last.as_bytes()).map_err(failed)
    }

    /// Creates the sparse data file. **Durability**: on disk when it returns.
    pub(super) fn make_data(&self, name: &str, size: u64) -> Result<Node, LunError> {
        let failed = LunError::volume("make its data");
        let dir = self.volume.make_devices_directory().map_err(&failed)?;
        self.make(&dir, &format!("{name}{DATA}"), size).map_err(failed)
    }

    pub(super) fn data(&self, name: &str) -> Result<Node, LunError> {
        let find = || {
            let dir = self.volume.devices_directory()?.ok_or(Error::NoEntry)?;
            Ok(self.volume.lookup(&dir, format!("{name}{DATA}").as_bytes())?.0)
        };
        find().map_err(LunError::volume("find its data"))
    }

    /// Whether a data file exists, also without a record. In that case another program created the data or removed the
    /// record.
    pub(super) fn has_data(&self, name: &str) -> bool {
        self.data(name).is_ok()
    }

    /// Removes the data, then the record. **Durability**: the removal is durable when it returns.
    pub(super) fn remove(&self, name: &str) -> Result<(), LunError> {
        let failed = LunError::volume("remove its files");
        let Some(dir) = self.volume.devices_directory().map_err(&failed)? else { return Ok(()) };
        for suffix in [DATA, RECORD] {
            match self.volume.remove_device(&dir, format!("{name}{suffix}").as_bytes()) {
                Ok(()) | Err(Error::NoEntry) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(())
    }

    fn make(&self, dir: &Node, name: &str, size: u64) -> Result<Node, Error> {
        let set = SetAttr { mode: Some(MODE), size: Some(size), ..SetAttr::default() };
        let (node, _) = self.volume.create(dir, name.as_bytes(), CreateHow::Unchecked(set), self.volume.own_user())?;
        if node.kind() == Kind::File { Ok(node) } else { Err(Error::BadType) }
    }
}
