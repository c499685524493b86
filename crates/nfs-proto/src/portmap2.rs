//! Portmap version 2, RFC 1833 3: finds the port of a program.

use crate::xdr::{Decode, DecodeError, DecodeErrorKind, Encode, Reader, Writer, xdr_enum, xdr_struct};

/// Program number.
pub const PROGRAM: u32 = 100_000;
/// Version of the program.
pub const VERSION: u32 = 2;
/// Its well-known port.
pub const PORT: u16 = 111;
/// Protocol number of TCP in a mapping.
pub const IPPROTO_TCP: u32 = 6;
/// Protocol number of UDP in a mapping.
pub const IPPROTO_UDP: u32 = 17;

xdr_enum! {
    /// RFC 1833 3.2: the procedures.
    Procedure {
        /// Do nothing.
        Null = 0,
        /// Register.
        Set = 1,
        /// Unregister.
        Unset = 2,
        /// Port of a program.
        GetPort = 3,
        /// All mappings.
        Dump = 4,
        /// Call a program through the port mapper. Never served.
        CallIt = 5,
    }
}

xdr_struct! {
    /// RFC 1833 3.1, `mapping`. GETPORT ignores the port. Its reply is the port as u32, or 0 if the program is not registered.
    Mapping {
        /// Program number.
        program: u32,
        /// Its version.
        version: u32,
        /// [`IPPROTO_TCP`] or [`IPPROTO_UDP`].
        protocol: u32,
        /// Port.
        port: u32,
    }
}

/// Most mappings that are decoded from a reply.
const MAPPINGS_MAX: usize = 1024;

/// Appends the result of DUMP.
pub fn encode_mappings(mappings: &[Mapping], out: &mut Writer<'_>) {
    for mapping in mappings {
        true.encode(out);
        mapping.encode(out);
    }
    false.encode(out);
}

/// Decodes the result of DUMP.
///
/// # Errors
/// [`DecodeError`], also if the list is longer than 1,024 mappings.
pub fn decode_mappings(input: &mut Reader<'_>) -> Result<Vec<Mapping>, DecodeError> {
    let mut mappings = Vec::new();
    while bool::decode(input)? {
        if mappings.len() == MAPPINGS_MAX {
            return Err(input.error(DecodeErrorKind::TooLong { length: MAPPINGS_MAX + 1, limit: MAPPINGS_MAX }));
        }
        mappings.push(Mapping::decode(input)?);
    }
    Ok(mappings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_survive_a_round_trip_and_an_endless_list_is_refused() {
        let mapping = Mapping { program: 100_003, version: 3, protocol: IPPROTO_TCP, port: 2049 };
        let mut out = Vec::new();
        encode_mappings(&[mapping; 3], &mut Writer::new(&mut out));
        assert_eq!(decode_mappings(&mut Reader::new(&out)), Ok(vec![mapping; 3]));
        let mut endless = Vec::new();
        encode_mappings(&[mapping; MAPPINGS_MAX + 1], &mut Writer::new(&mut endless));
        assert!(decode_mappings(&mut Reader::new(&endless)).is_err());
    }
}
