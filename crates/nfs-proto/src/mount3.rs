//! MOUNT version 3, RFC 1813 appendix I: finds the root handle of an export by its path.

use crate::limits::{NAME_BYTES_MAX, PATH_BYTES_MAX};
use crate::nfs3::FileHandle;
use crate::xdr::{Decode, DecodeError, DecodeErrorKind, Encode, Reader, Writer, xdr_bytes, xdr_enum, xdr_struct};

/// Program number.
pub const PROGRAM: u32 = 100_005;
/// Version of the program.
pub const VERSION: u32 = 3;

xdr_enum! {
    /// RFC 1813 5.2: the procedures.
    Procedure {
        /// Do nothing.
        Null = 0,
        /// Handle of a path.
        Mnt = 1,
        /// List of clients and their mounts.
        Dump = 2,
        /// Remove a mount from the list.
        Umnt = 3,
        /// Remove all mounts of the caller from the list.
        UmntAll = 4,
        /// List the exports.
        Export = 5,
    }
}

xdr_enum! {
    /// RFC 1813 5.1.5, `mountstat3`.
    MountStatus {
        /// Success.
        Ok = 0,
        /// Not the owner.
        Perm = 1,
        /// No such export.
        NoEnt = 2,
        /// Hard error.
        Io = 5,
        /// Permission denied.
        Acces = 13,
        /// Not a directory.
        NotDir = 20,
        /// Argument invalid.
        Inval = 22,
        /// Path too long.
        NameTooLong = 63,
        /// Operation not supported.
        NotSupp = 10_004,
        /// The server failed.
        ServerFault = 10_006,
    }
}

xdr_bytes! {
    /// Path of an export, `dirpath`.
    DirPath, PATH_BYTES_MAX
}
xdr_bytes! {
    /// Name of a host or group, `name`.
    HostName, NAME_BYTES_MAX
}

/// Most flavors accepted in a reply. About a dozen are registered.
const FLAVORS_MAX: usize = 32;

/// Authentication flavors that an export accepts, at most 32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flavors {
    flavors: [u32; FLAVORS_MAX],
    count: usize,
}

impl Flavors {
    /// The first 32 of `flavors`.
    #[must_use]
    pub fn new(flavors: &[u32]) -> Self {
        let mut list = Self::default();
        for (slot, flavor) in list.flavors.iter_mut().zip(flavors) {
            *slot = *flavor;
            list.count += 1;
        }
        list
    }

    /// The flavors.
    #[must_use]
    pub fn as_slice(&self) -> &[u32] {
        self.flavors.get(..self.count).unwrap_or_default()
    }
}

impl Encode for Flavors {
    fn encode(&self, out: &mut Writer<'_>) {
        (self.count as u32).encode(out);
        self.as_slice().iter().for_each(|flavor| flavor.encode(out));
    }
}

impl<'a> Decode<'a> for Flavors {
    fn decode(input: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let count = u32::decode(input)? as usize;
        if count > FLAVORS_MAX {
            return Err(input.error(DecodeErrorKind::TooLong { length: count, limit: FLAVORS_MAX }));
        }
        let mut list = Self { count, ..Self::default() };
        for slot in list.flavors.iter_mut().take(count) {
            *slot = u32::decode(input)?;
        }
        Ok(list)
    }
}

xdr_struct! {
    /// Argument of MNT and UMNT.
    MountArgs<'a> {
        /// The export, or a directory below it.
        path: DirPath<'a>,
    }
}

xdr_struct! {
    /// RFC 1813 5.2.1, `mountres3_ok`.
    MountOk {
        /// The root of the export.
        root: FileHandle,
        /// Flavors that it accepts.
        flavors: Flavors,
    }
}

/// Result of MNT.
pub type MountResult = Result<MountOk, MountStatus>;

impl Encode for MountResult {
    fn encode(&self, out: &mut Writer<'_>) {
        match self {
            Ok(ok) => {
                MountStatus::Ok.encode(out);
                ok.encode(out);
            }
            Err(status) => status.encode(out),
        }
    }
}

impl<'a> Decode<'a> for MountResult {
    fn decode(input: &mut Reader<'a>) -> Result<Self, DecodeError> {
        input.at("mountstat3");
        Ok(match MountStatus::decode(input)? {
            MountStatus::Ok => Ok(MountOk::decode(input)?),
            status => Err(status),
        })
    }
}

/// Most items of one list that are decoded from a reply.
const LIST_MAX: usize = 4096;

/// One export: its path, and the groups that may mount it. Without groups, every client may.
pub type Export<'a> = (DirPath<'a>, Vec<HostName<'a>>);
/// One mount: host and path.
pub type MountEntry<'a> = (HostName<'a>, DirPath<'a>);

/// Appends the result of EXPORT (RFC 1813 5.2.5).
pub fn encode_exports(exports: &[Export<'_>], out: &mut Writer<'_>) {
    for (path, groups) in exports {
        true.encode(out);
        path.encode(out);
        for group in groups {
            true.encode(out);
            group.encode(out);
        }
        false.encode(out);
    }
    false.encode(out);
}

/// Decodes the result of EXPORT.
///
/// # Errors
/// [`DecodeError`], also if a list has more than 4,096 items.
pub fn decode_exports<'a>(input: &mut Reader<'a>) -> Result<Vec<Export<'a>>, DecodeError> {
    decode_list(input, |input| {
        let path = DirPath::decode(input)?;
        Ok((path, decode_list(input, HostName::decode)?))
    })
}

/// Appends the result of DUMP (RFC 1813 5.2.2).
pub fn encode_mounts(mounts: &[MountEntry<'_>], out: &mut Writer<'_>) {
    for (host, path) in mounts {
        true.encode(out);
        host.encode(out);
        path.encode(out);
    }
    false.encode(out);
}

/// Decodes the result of DUMP.
///
/// # Errors
/// [`DecodeError`], also if the list has more than 4,096 items.
pub fn decode_mounts<'a>(input: &mut Reader<'a>) -> Result<Vec<MountEntry<'a>>, DecodeError> {
    decode_list(input, |input| Ok((HostName::decode(input)?, DirPath::decode(input)?)))
}

fn decode_list<'a, T>(
    input: &mut Reader<'a>,
    mut item: impl FnMut(&mut Reader<'a>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let mut list = Vec::new();
    while bool::decode(input)? {
        if list.len() == LIST_MAX {
            return Err(input.error(DecodeErrorKind::TooLong { length: LIST_MAX + 1, limit: LIST_MAX }));
        }
        list.push(item(input)?);
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xdr::{decode_all, encode_to};

    #[test]
    fn exports_survive_a_round_trip() {
        let exports = vec![(DirPath(b"/vol"), vec![HostName(b"10.0.0.0/8"), HostName(b"db")]), (DirPath(b"/x"), vec![])];
        let mut out = Vec::new();
        encode_exports(&exports, &mut Writer::new(&mut out));
        assert_eq!(decode_exports(&mut Reader::new(&out)), Ok(exports));
    }

    #[test]
    fn a_refused_mount_is_four_bytes() {
        let mut out = Vec::new();
        encode_to(&MountResult::Err(MountStatus::Acces), &mut out);
        assert_eq!(out, [0, 0, 0, 13]);
        assert_eq!(decode_all::<MountResult>(&out), Ok(Err(MountStatus::Acces)));
    }
}
