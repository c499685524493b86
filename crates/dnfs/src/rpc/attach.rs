//! ATTACH, the first call on a new connection. It names the channel of the connection to the server, so that the server
//! never executes what an earlier connection of the channel still delivers (`nfs_proto::channel1`). A server without the
//! program is asked only once.

use super::fault::Fault;
use super::response_timer::ResponseTimer;
use super::route::Route;
use super::stream::Stream;
use crate::call_notes::CONNECTING;
use crate::error::ProtocolError;
use crate::file::FileHandle;
use crate::limits::{ATTACH_BYTES_MAX, ATTACH_ROUNDS_MAX};
use crate::process::this_process;
use crate::sys::random::random;
use nfs_proto::channel1::{self, AttachArgs, ChannelResult, ChannelStatus, FenceArgs, Procedure};
use nfs_proto::record::{self, Framed};
use nfs_proto::rpc::{ReplyHeader, ReplyStatus};
use nfs_proto::xdr::{Decode, Encode, Reader, Writer};
use std::io;

/// The channel of a connection, the same for all TCP connections of that channel.
#[derive(Debug)]
pub(crate) struct ChannelIdentity {
    channel: u64, // 0: not chosen yet
    generation: u32,
    call: Vec<u8>, // allocated once
}

impl ChannelIdentity {
    pub(crate) fn new() -> Self {
        Self { channel: 0, generation: 0, call: Vec::with_capacity(ATTACH_BYTES_MAX) }
    }

    /// Chooses another channel in a child after fork. Does not allocate.
    pub(crate) const fn renew(&mut self) {
        self.channel = 0;
        self.generation = 0;
    }

    /// Replaces channel and generation. Returns the former ones.
    pub(crate) const fn exchange(&mut self, other: (u64, u32)) -> (u64, u32) {
        let had = (self.channel, self.generation);
        (self.channel, self.generation) = other;
        had
    }

    /// Sends the call. If the server accepts it, the server has ended the calls of this channel's earlier connections and
    /// executes no more of them. A server without the program, without room for the channel, or that denies the export ends
    /// nothing; the connection is used all the same.
    pub(crate) fn attach(&mut self, stream: &mut Stream<'_>, route: &Route) -> Result<(), Fault> {
        let support = &route.endpoints.channel_support;
        if self.channel == 0 {
            self.channel = this_process().next_channel();
            self.generation = 0;
        }
        self.generation = self.generation.saturating_add(1);
        for _ in 0..ATTACH_ROUNDS_MAX {
            let (instance, process) = (support.instance(), this_process().identity.number());
            if let Some(members) = &route.membership.leases {
                members.publish_fence_number(process); // before a connection has it
            }
            let (secret, Some(root)) = (route.membership.secret, route.root.as_ref().and_then(root_of)) else { return Ok(()) };
            let args = AttachArgs { instance, process, channel: self.channel, generation: self.generation, secret, root };
            let answer = exchange(stream, route, Procedure::Attach, &args, &mut self.call);
            match &answer {
                Ok(Some(result)) => support.set_present(result.instance),
                Ok(None) => support.set_absent(),
                Err(_) => support.note_no_reply(),
            }
            let Some(result) = answer? else { return Ok(()) };
            match result.status {
                ChannelStatus::Ok | ChannelStatus::Full | ChannelStatus::Denied => return Ok(()),
                ChannelStatus::OtherInstance | ChannelStatus::Busy => {}
                ChannelStatus::Fenced => {
                    // This process was stopped and another one took over its locks. The server has ended all its calls. It
                    // continues under another number, and each call checks its leases before it is resent.
                    this_process().identity.renew_number(process);
                    self.renew();
                    return Err(Fault::Broken(io::ErrorKind::ConnectionReset.into()));
                }
            }
        }
        Err(Fault::Connect(io::Error::from_raw_os_error(libc::EBUSY)))
    }
}

impl ChannelIdentity {
    /// Makes the server close the connections of the process with this number. The call is sent on a connection of another
    /// process. Returns false if the server does not have the program, has no place to remember the number, or knows the number
    /// as one of another mount. Returns `None` if the call must be repeated.
    pub(crate) fn fence(&mut self, stream: &mut Stream<'_>, route: &Route, process: u64) -> Result<Option<bool>, Fault> {
        let support = &route.endpoints.channel_support;
        let args = FenceArgs { instance: support.instance(), process };
        let Some(result) = exchange(stream, route, Procedure::Fence, &args, &mut self.call)? else { return Ok(Some(false)) };
        support.set_present(result.instance);
        match result.status {
            ChannelStatus::Ok => Ok(Some(true)),
            ChannelStatus::Full | ChannelStatus::Denied => Ok(Some(false)),
            ChannelStatus::OtherInstance | ChannelStatus::Busy | ChannelStatus::Fenced => Ok(None),
        }
    }
}

/// The handle of the export. `None` if it is too long for the program.
fn root_of(root: &FileHandle) -> Option<channel1::RootHandle> {
    channel1::RootHandle::new(root.as_bytes())
}

/// Sends one call of the program and returns its result. `None` if the server does not have the program.
fn exchange(
    stream: &mut Stream<'_>,
    route: &Route,
    procedure: Procedure,
    arguments: &impl Encode,
    call: &mut Vec<u8>,
) -> Result<Option<ChannelResult>, Fault> {
    let xid = random() as u32;
    call.clear();
    route.header.append_of(channel1::PROGRAM, channel1::VERSION, xid, procedure.number(), call);
    arguments.encode(&mut Writer::new(call));
    let body_bytes = call.len() - record::MARK_BYTES;
    record::write_mark(call, 0, body_bytes);
    let mut timer = ResponseTimer::new(CONNECTING);
    timer.on_connection(route.endpoints.move_count());
    let answer = send_and_receive(stream, route, xid, call, &mut timer);
    timer.finish(route);
    answer
}

fn send_and_receive(
    stream: &mut Stream<'_>,
    route: &Route,
    xid: u32,
    call: &[u8],
    timer: &mut ResponseTimer,
) -> Result<Option<ChannelResult>, Fault> {
    let generation = this_process().identity.generation();
    let mut sent = 0;
    while sent < call.len() {
        still_ours(generation)?;
        let rest = io::IoSlice::new(call.get(sent..).unwrap_or_default());
        sent += timer.sent(stream.send(&[rest]), route)?.unwrap_or(0);
    }
    let mut buffer = [0; ATTACH_BYTES_MAX];
    let mut end = 0;
    loop {
        let framed = match buffer.get_mut(..end) {
            Some(bytes) => record::frame(bytes, ATTACH_BYTES_MAX).map_err(ProtocolError::from)?,
            None => return Err(ProtocolError::UnexpectedReply.into()),
        };
        if let Framed::Record { body, consumed } = framed {
            if consumed != end {
                return Err(ProtocolError::UnexpectedReply.into());
            }
            return read_reply(xid, buffer.get(body).unwrap_or_default());
        }
        still_ours(generation)?;
        let free = buffer.get_mut(end..).filter(|free| !free.is_empty()).ok_or(ProtocolError::UnexpectedReply)?;
        end += timer.received(stream.receive(free), route)?.unwrap_or(0);
    }
}

/// Checks that this is not a child that a signal handler forked: the connection belongs to the parent.
fn still_ours(generation: u32) -> Result<(), Fault> {
    if this_process().identity.generation() == generation { Ok(()) } else { Err(Fault::Forked) }
}

fn read_reply(xid: u32, record: &[u8]) -> Result<Option<ChannelResult>, Fault> {
    let mut input = Reader::new(record);
    let header = ReplyHeader::decode(&mut input)?;
    if header.xid.0 != xid {
        return Err(ProtocolError::UnexpectedReply.into());
    }
    // If the server refuses the call for any reason, the program cannot be used. The next call shows why the server refuses
    // this caller.
    if header.status == ReplyStatus::Success { Ok(Some(ChannelResult::decode(&mut input)?)) } else { Ok(None) }
}
