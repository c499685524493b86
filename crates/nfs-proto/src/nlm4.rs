//! Network Lock Manager version 4, only to refuse locks: X/Open, Protocols for Interworking: XNFS, Version 3W, 14.
//!
//! A client that finds no lock service retries without end, and the program that requests the lock waits. After
//! NLM4_DENIED_NOLOCKS, the program gets ENOLCK.

use crate::xdr::{xdr_bytes, xdr_enum, xdr_struct};

/// Program number.
pub const PROGRAM: u32 = 100_021;
/// Version of the program: the one for NFS version 3.
pub const VERSION: u32 = 4;

/// `MAXNETOBJ_SZ`.
const NET_OBJECT_BYTES_MAX: usize = 1024;

xdr_enum! {
    /// The procedures that a client calls.
    Procedure {
        /// Do nothing.
        Null = 0,
        /// Check whether a lock would be granted.
        Test = 1,
        /// Lock.
        Lock = 2,
        /// Stop waiting for a lock.
        Cancel = 3,
        /// Unlock.
        Unlock = 4,
    }
}

xdr_enum! {
    /// How a call ended, `nlm4_stats`.
    Status {
        /// The call succeeded.
        Granted = 0,
        /// Another owner holds the lock.
        Denied = 1,
        /// The server does not grant locks.
        DeniedNoLocks = 2,
    }
}

xdr_bytes! {
    /// Pairs a result with its call. It is the first argument of each procedure except NULL.
    Cookie, NET_OBJECT_BYTES_MAX
}

xdr_struct! {
    /// The result of each procedure except NULL. For TEST, the result without a holder.
    LockResult<'a> {
        /// The cookie of the call.
        cookie: Cookie<'a>,
        /// How it ended.
        status: Status,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xdr::{Decode, Reader, decode_all, encode_to};

    #[test]
    fn a_refusal_is_the_cookie_and_number_two() {
        let mut out = Vec::new();
        encode_to(&LockResult { cookie: Cookie(b"abcde"), status: Status::DeniedNoLocks }, &mut out);
        assert_eq!(out, b"\0\0\0\x05abcde\0\0\0\0\0\0\x02");
        assert_eq!(decode_all::<LockResult<'_>>(&out).unwrap().cookie, Cookie(b"abcde"));
    }

    #[test]
    fn a_cookie_over_its_bound_is_refused() {
        let bytes = [&1025u32.to_be_bytes()[..], &[0; 1028]].concat();
        assert!(Cookie::decode(&mut Reader::new(&bytes)).is_err());
    }
}
