//! Data of files.

use volume::{Attr, DeferredFlush, Error, Kind, Node, Stability};

use super::access::has_set_id;
use super::{Operator, State, allowed, size_allowed};

/// Bytes read, whether they reach the end of the file, and the attributes after the read.
pub(crate) type ReadData = (usize, bool, Attr);

impl Operator<'_> {
    /// Reads into `buffer` from an offset on. If the read would wait for the store and `may_wait`
    /// is not set, does nothing and returns `None`.
    pub(crate) fn read(
        &self,
        _state: State,
        node: &Node,
        offset: u64,
        buffer: &mut [u8],
        may_wait: bool,
    ) -> Option<Result<ReadData, Error>> {
        let read = if may_wait {
            self.volume.read_with_attr(node, offset, buffer)
        } else {
            self.volume.read_with_attr_now(node, offset, buffer).transpose()?
        };
        // Access is checked with the attributes that the read returns, before any byte is sent.
        Some(read.and_then(|read| allowed(self.caller.may_read(&self.volume.subject(node, read.2))).map(|()| read)))
    }

    /// Writes at an offset. With `defers`, a stable write may return its flush, which the caller
    /// must then carry out. **Durability**: as `stability` requires, after that flush.
    pub(crate) fn write(
        &self,
        _state: State,
        node: &Node,
        (offset, data): (u64, &[u8]),
        stability: Stability,
        defers: bool,
    ) -> Result<(usize, Option<DeferredFlush>), Error> {
        let attr = self.volume.subject(node, self.volume.attr_untimed(node)?);
        match attr.kind {
            Kind::File => {}
            Kind::Directory => return Err(Error::IsDirectory),
            _ => return Err(Error::Invalid),
        }
        allowed(self.caller.may_write(&attr))?;
        size_allowed(Some(offset.saturating_add(data.len() as u64)))?;
        if data.is_empty() {
            return Ok((0, None));
        }
        let write = || match defers {
            true => self.volume.write_deferred(node, offset, data, stability),
            false => self.volume.write(node, offset, data, stability).map(|count| (count, None)),
        };
        match (has_set_id(&attr), self.caller.uid) {
            (false, _) => write(),
            (true, 0) => self.keeping_roots_set_id(write),
            (true, _) => self.volume.clear_set_id(node).and_then(|()| write()),
        }
    }

    /// Flushes a file. **Durability**: everything that was written to it before the call is durable
    /// when this returns without an error.
    pub(crate) fn commit(&self, _state: State, node: &Node) -> Result<(), Error> {
        allowed(self.caller.may_write(&self.subject(node)?))?;
        self.volume.commit(node)
    }
}
