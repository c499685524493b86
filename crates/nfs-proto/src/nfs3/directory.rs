//! Lists of directory entries, RFC 1813 3.3.16 and 3.3.17. On the wire they are linked lists. They are read in place, and written
//! within the two limits that a client sets.

use super::types::{Name, PostOpAttr, PostOpHandle};
use crate::xdr::{Decode, DecodeError, Encode, Reader, Writer, xdr_struct};
use core::marker::PhantomData;

xdr_struct! {
    /// RFC 1813 3.3.16, `entry3` without its link.
    Entry<'a> {
        /// Number of the object.
        fileid: u64,
        /// Its name.
        name: Name<'a>,
        /// The cookie from which a listing continues after it.
        cookie: u64,
    }
}

xdr_struct! {
    /// RFC 1813 3.3.17, `entryplus3` without its link.
    EntryPlus<'a> {
        /// Number of the object.
        fileid: u64,
        /// Its name.
        name: Name<'a>,
        /// The cookie from which a listing continues after it.
        cookie: u64,
        /// Its attributes.
        attributes: PostOpAttr,
        /// Its handle.
        handle: PostOpHandle,
    }
}

/// A received list, and whether it ends the directory. Decoding checks all entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entries<'a, E> {
    encoded: &'a [u8], // `follows entry` repeated, without the final `false` and the mark of the end
    eof: bool,
    entry: PhantomData<E>,
}

impl<'a, E: Decode<'a>> Entries<'a, E> {
    /// Whether these are the last entries of the directory.
    #[must_use]
    pub const fn eof(&self) -> bool {
        self.eof
    }

    /// The entries in the order sent.
    pub fn iter(&self) -> impl Iterator<Item = E> + use<'a, E> {
        let mut input = Reader::new(self.encoded);
        core::iter::from_fn(move || {
            // All entries were decoded before, so an error here can only be the end of the list.
            bool::decode(&mut input).ok()?;
            E::decode(&mut input).ok()
        })
    }
}

impl<E> Encode for Entries<'_, E> {
    fn encode(&self, out: &mut Writer<'_>) {
        out.raw(self.encoded);
        false.encode(out);
        self.eof.encode(out);
    }
}

impl<'a, E: Decode<'a>> Decode<'a> for Entries<'a, E> {
    fn decode(input: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let whole = input.rest();
        let start = input.position();
        let mut end = start;
        while bool::decode(input)? {
            E::decode(input)?;
            end = input.position();
        }
        input.at("dirlist3.eof");
        let eof = bool::decode(input)?;
        Ok(Self { encoded: whole.get(..end - start).unwrap_or_default(), eof, entry: PhantomData })
    }
}

/// Appends entries to a READDIR or READDIRPLUS result until a limit would be exceeded.
///
/// The caller has already appended the status, the directory's attributes and the cookie verifier.
#[derive(Debug)]
pub struct EntriesWriter {
    result_start: usize,
    result_bytes_max: usize,
    name_bytes_left: usize,
    count: usize,
}

/// Bytes of the end of the list: `false`, and whether it ends the directory.
const TAIL_BYTES: usize = 8;

impl EntriesWriter {
    /// Sets the limits: `result_bytes_max` for the result from `result_start` on, the first byte after the status (`count` or
    /// `maxcount`), and `name_bytes_max` for ids, names and cookies (`dircount`).
    #[must_use]
    pub const fn new(result_start: usize, result_bytes_max: u32, name_bytes_max: u32) -> Self {
        Self { result_start, result_bytes_max: result_bytes_max as usize, name_bytes_left: name_bytes_max as usize, count: 0 }
    }

    /// Appends an entry. Returns false if it does not fit; then nothing is appended.
    pub fn push<E: Encode>(&mut self, entry: &E, name: &[u8], out: &mut Vec<u8>) -> bool {
        // fileid, length and bytes of the name, cookie: what `dircount` counts.
        let name_bytes = 8 + 4 + name.len().next_multiple_of(4) + 8;
        let before = out.len();
        let mut writer = Writer::new(out);
        true.encode(&mut writer);
        entry.encode(&mut writer);
        let fits_result = out.len() + TAIL_BYTES - self.result_start <= self.result_bytes_max;
        // A listing must make progress, so the first entry is sent even if `dircount` is too small for it.
        let fits_names = name_bytes <= self.name_bytes_left || self.count == 0;
        if !(fits_result && fits_names) {
            out.truncate(before);
            return false;
        }
        self.name_bytes_left = self.name_bytes_left.saturating_sub(name_bytes);
        self.count += 1;
        true
    }

    /// Number of entries appended so far.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Appends the end of the list. `eof`: the list ends the directory.
    pub fn finish(self, eof: bool, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        false.encode(&mut writer);
        eof.encode(&mut writer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xdr::{decode_all, encode_to};

    fn entry(number: u64, name: &'static [u8]) -> Entry<'static> {
        Entry { fileid: number, name: Name(name), cookie: number }
    }

    #[test]
    fn a_written_list_is_read_back_in_order() {
        let mut out = Vec::new();
        let mut list = EntriesWriter::new(0, 1000, 1000);
        for (number, name) in [(1, &b"."[..]), (2, b".."), (3, b"base")] {
            assert!(list.push(&entry(number, name), name, &mut out));
        }
        list.finish(true, &mut out);
        let read: Entries<'_, Entry<'_>> = decode_all(&out).unwrap();
        assert!(read.eof());
        assert_eq!(read.iter().map(|entry| entry.name.0).collect::<Vec<_>>(), [&b"."[..], b"..", b"base"]);
        let mut again = Vec::new();
        encode_to(&read, &mut again);
        assert_eq!(again, out);
    }

    #[test]
    fn the_result_never_passes_its_bound_by_a_byte() {
        for bound in 0..200 {
            let mut out = Vec::new();
            let mut list = EntriesWriter::new(0, bound, u32::MAX);
            while list.push(&entry(7, b"name"), b"name", &mut out) {}
            let empty = list.count() == 0;
            list.finish(false, &mut out);
            assert!(empty || out.len() <= bound as usize, "bound {bound}: {} bytes", out.len());
        }
    }

    #[test]
    fn dircount_stops_the_list_but_not_before_the_first_entry() {
        let mut out = Vec::new();
        let mut list = EntriesWriter::new(0, 1000, 25);
        assert!(list.push(&entry(1, b"a"), b"a", &mut out));
        assert!(!list.push(&entry(2, b"b"), b"b", &mut out));
    }
}
