//! CHANNEL version 2, a private program of Millrace: a connection declares its channel, and a client fences its earlier connections.
//!
//! NFS version 3 has no sessions. A server may execute a WRITE from a broken connection after the resend of that WRITE, and after later
//! writes to the same place. So a client gives each channel a number that outlives its TCP connections. ATTACH, the first call on a
//! connection, names the channel and the number of the connection within it. When the server answers ATTACH, no call of an earlier
//! connection of that channel is running or will be executed. FENCE does the same for all channels of a process that died. Both apply
//! only to processes of the caller's own mount: those whose ATTACH named the same export and the same secret. Version 1 had neither.
//!
//! The program number is in the range that RFC 5531 13.3.2 leaves to the operator of the servers. A server that does not know the program
//! answers PROG_UNAVAIL, and the client works without it.

pub use crate::nfs3::FileHandle as RootHandle;
use crate::xdr::{xdr_enum, xdr_struct};

/// Program number, from the range that is defined locally (RFC 5531 13.3.2); it reads " MLR".
pub const PROGRAM: u32 = 0x204d_4c52;
/// Version of the program.
pub const VERSION: u32 = 2;

xdr_enum! {
    /// The procedures.
    Procedure {
        /// Do nothing.
        Null = 0,
        /// Make this the connection of a channel. The earlier connections of the channel have ended when the server replies.
        Attach = 1,
        /// End all connections of a process. The server accepts no further one of that process.
        Fence = 2,
    }
}

xdr_struct! {
    /// Arguments of ATTACH.
    AttachArgs {
        /// The run of the server that this call is for, 0 if the client does not know it yet. A restarted server refuses calls for
        /// an earlier run, which a broken connection may still deliver.
        instance: u64,
        /// The process: a random number, so that no other process can fence it.
        process: u64,
        /// The channel in that process.
        channel: u64,
        /// The number of this connection in the channel, from 1 on.
        generation: u32,
        /// The secret of the mount, which its processes share. 0: the process shares no mount with others, and cannot fence another one.
        secret: u64,
        /// A handle of the export.
        root: RootHandle,
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
        /// Done: no call of what was fenced is running or will run.
        Ok = 0,
        /// Nothing was done: this is another run of the server, see `instance`.
        OtherInstance = 1,
        /// The channel has a later connection, or its process was fenced: this connection is closed.
        Fenced = 2,
        /// Calls of the earlier connections still run: repeat the call.
        Busy = 3,
        /// The server has no space for another fence. No process was fenced.
        Full = 4,
        /// Nothing was done: the caller may not use the export, or the process does not belong to the caller's mount.
        Denied = 5,
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
        let attach = AttachArgs {
            instance: 1 << 40,
            process: u64::MAX,
            channel: 3,
            generation: 7,
            secret: 9,
            root: RootHandle::new(&[5; 8]).unwrap(),
        };
        let mut bytes = Vec::new();
        encode_to(&attach, &mut bytes);
        assert_eq!((bytes.len(), decode_all::<AttachArgs>(&bytes)), (48, Ok(attach)));
        for &status in ChannelStatus::ALL {
            let result = ChannelResult { status, instance: 9 };
            bytes.clear();
            encode_to(&result, &mut bytes);
            assert_eq!(decode_all::<ChannelResult>(&bytes), Ok(result));
        }
        assert!(decode_all::<ChannelResult>(&[0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0]).is_err());
    }

    #[test]
    fn the_number_lies_in_the_range_left_to_the_administrator() {
        assert!((0x2000_0000..0x4000_0000).contains(&PROGRAM));
    }
}
