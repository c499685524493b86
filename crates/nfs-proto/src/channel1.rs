//! CHANNEL version 1, a program of our own: connections tell whose they are, and end each other for good.
//!
//! NFS version 3 has no sessions. A WRITE that a server has received on a connection that died may be carried out after the
//! one its client sent instead, and after others to the same place. So a client gives each of its channels a number that
//! outlives the TCP connection: ATTACH, the first call on a connection, says which channel it carries, and for which time.
//! When it is answered, no call of an earlier connection of that channel is running or will be carried out. FENCE says the
//! same of all channels of a process that died.
//!
//! The number is one that RFC 5531 13.3.2 leaves to whoever runs the servers. A server that does not know it answers
//! PROG_UNAVAIL, and its client goes on without.

use crate::xdr::{xdr_enum, xdr_struct};

/// Program number, from the range that is defined locally (RFC 5531 13.3.2); it reads " MLR".
pub const PROGRAM: u32 = 0x204d_4c52;
/// Version of the program.
pub const VERSION: u32 = 1;

xdr_enum! {
    /// The procedures.
    Procedure {
        /// Do nothing.
        Null = 0,
        /// This connection carries that channel from now on; its earlier connections have ended.
        Attach = 1,
        /// All connections of that process have ended, and none of it will be served again.
        Fence = 2,
    }
}

xdr_struct! {
    /// Arguments of ATTACH.
    AttachArgs {
        /// The run of the server this is meant for, 0 when the client does not know it yet: bytes that a dead connection
        /// still brings to a server that was started again must not count.
        instance: u64,
        /// The process: random, so that nobody else fences it.
        process: u64,
        /// The channel in that process.
        channel: u64,
        /// Which connection of that channel this is, from 1 on.
        generation: u32,
    }
}

xdr_struct! {
    /// Arguments of FENCE.
    FenceArgs {
        /// As in [`AttachArgs`].
        instance: u64,
        /// The process that died.
        process: u64,
    }
}

xdr_enum! {
    /// How ATTACH and FENCE ended.
    ChannelStatus {
        /// Done: nothing of what was fenced is running or will run.
        Ok = 0,
        /// Nothing was done: the server is another run, see `instance`.
        OtherInstance = 1,
        /// The channel was attached to a later connection, or its process was fenced: this connection is closed.
        Fenced = 2,
        /// Calls of the earlier connections still run: ask again.
        Busy = 3,
        /// The server can remember no more fences; nothing was fenced.
        Full = 4,
    }
}

xdr_struct! {
    /// Results of ATTACH and FENCE.
    ChannelResult {
        /// How it ended.
        status: ChannelStatus,
        /// The run of the server.
        instance: u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xdr::{decode_all, encode_to};

    #[test]
    fn arguments_and_results_survive_a_round_trip() {
        let attach = AttachArgs { instance: 1 << 40, process: u64::MAX, channel: 3, generation: 7 };
        let mut bytes = Vec::new();
        encode_to(&attach, &mut bytes);
        assert_eq!((bytes.len(), decode_all::<AttachArgs>(&bytes)), (28, Ok(attach)));
        for &status in ChannelStatus::ALL {
            let result = ChannelResult { status, instance: 9 };
            bytes.clear();
            encode_to(&result, &mut bytes);
            assert_eq!(decode_all::<ChannelResult>(&bytes), Ok(result));
        }
        assert!(decode_all::<ChannelResult>(&[0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0]).is_err());
    }

    #[test]
    fn the_number_lies_in_the_range_left_to_the_administrator() {
        assert!((0x2000_0000..0x4000_0000).contains(&PROGRAM));
    }
}
