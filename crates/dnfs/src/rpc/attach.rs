//! Telling a server whose connection this is, so that what an earlier one still brings is never carried out
//! (`nfs_proto::channel1`). A server that does not know the program is asked once and then left alone.

use crate::error::ProtocolError;
use crate::limits::{ATTACH_BYTES_MAX, ATTACH_ROUNDS_MAX, ATTACH_TROUBLES_MAX};
use crate::rpc::connection::Stream;
use crate::rpc::receive::receive;
use crate::rpc::service::{Fault, Link, Silence};
use crate::sys::socket;
use nfs_proto::channel1::{self, AttachArgs, ChannelResult, ChannelStatus, Procedure};
use nfs_proto::record::{self, Framed};
use nfs_proto::rpc::{ReplyHeader, ReplyStatus};
use nfs_proto::xdr::{Decode, Encode, Reader, Writer};
use std::io;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// What a process knows of a server's program CHANNEL.
#[derive(Debug, Default)]
pub(crate) struct Service {
    knowledge: AtomicU32,
    /// Run of the server; 0 when not known.
    instance: AtomicU64,
    /// First attempts that ended without an answer.
    troubles: AtomicU32,
}

const UNKNOWN: u32 = 0;
const PRESENT: u32 = 1;
const ABSENT: u32 = 2;

impl Service {
    /// Whether the server may have it.
    pub(crate) fn may_be_there(&self) -> bool {
        self.knowledge.load(Relaxed) != ABSENT
    }

    fn is_absent(&self) {
        self.knowledge.store(ABSENT, Relaxed);
    }

    fn is_run(&self, instance: u64) {
        self.instance.store(instance, Release);
        self.knowledge.store(PRESENT, Relaxed);
    }

    /// No answer: a server that has answered before is in trouble, of another nobody knows. It is given up after a few.
    fn is_silent(&self) {
        if self.knowledge.load(Relaxed) == UNKNOWN && self.troubles.fetch_add(1, Relaxed) + 1 >= ATTACH_TROUBLES_MAX {
            self.is_absent();
        }
    }
}

/// Which channel a connection carries, over all its TCP connections.
#[derive(Debug)]
pub(crate) struct Mark {
    channel: u64, // 0: none yet
    generation: u32,
    call: Vec<u8>, // has its capacity from the start
}

impl Mark {
    pub(crate) fn new() -> Self {
        Self { channel: 0, generation: 0, call: Vec::with_capacity(ATTACH_BYTES_MAX) }
    }

    /// In a child after fork: another process, another channel. Allocates nothing.
    pub(crate) const fn renew(&mut self) {
        self.channel = 0;
        self.generation = 0;
    }

    /// The first call on a new connection. When it returns, calls of this channel's earlier connections have ended and no
    /// more will be carried out, where the server has the program.
    pub(crate) fn attach(&mut self, stream: &mut Stream<'_>, link: &Link) -> Result<(), Fault> {
        let service = &link.channels;
        if self.channel == 0 {
            self.channel = socket::next_channel();
            self.generation = 0;
        }
        self.generation = self.generation.saturating_add(1);
        for _ in 0..ATTACH_ROUNDS_MAX {
            let (instance, process) = (service.instance.load(Acquire), socket::process_number());
            let args = AttachArgs { instance, process, channel: self.channel, generation: self.generation };
            let Some(status) = ask(stream, link, Procedure::Attach, &args, &mut self.call)? else { return Ok(()) };
            match status {
                ChannelStatus::Ok | ChannelStatus::Full => return Ok(()),
                ChannelStatus::OtherInstance | ChannelStatus::Busy => {}
                ChannelStatus::Fenced => {
                    // Somebody took this process for dead. All it had sent has ended: it begins anew under another number.
                    socket::renew_process_number(process);
                    self.renew();
                    return Err(Fault::Broken(io::ErrorKind::ConnectionReset.into()));
                }
            }
        }
        Err(Fault::Connect(io::Error::from_raw_os_error(libc::EBUSY)))
    }
}

/// One call of the program and its answer; none when the server does not have it.
fn ask(
    stream: &mut Stream<'_>,
    link: &Link,
    procedure: Procedure,
    arguments: &impl Encode,
    call: &mut Vec<u8>,
) -> Result<Option<ChannelStatus>, Fault> {
    let answered = exchange(stream, link, procedure, arguments, call);
    match &answered {
        Ok(Some(result)) => link.channels.is_run(result.instance),
        Ok(None) => link.channels.is_absent(),
        Err(_) => link.channels.is_silent(),
    }
    answered.map(|result| result.map(|result| result.status))
}

fn exchange(
    stream: &mut Stream<'_>,
    link: &Link,
    procedure: Procedure,
    arguments: &impl Encode,
    call: &mut Vec<u8>,
) -> Result<Option<ChannelResult>, Fault> {
    let xid = socket::random_u64() as u32;
    call.clear();
    link.append_head_of(channel1::PROGRAM, channel1::VERSION, xid, procedure.number(), call);
    arguments.encode(&mut Writer::new(call));
    let body_bytes = call.len() - record::MARK_BYTES;
    record::seal(call, 0, body_bytes);
    let mut silence = Silence::default();
    let mut sent = 0;
    while sent < call.len() {
        match stream.send(&[io::IoSlice::new(call.get(sent..).unwrap_or_default())]) {
            Ok(bytes) => sent += bytes,
            Err(error) => silence.goes_on(error, link)?,
        }
    }
    let mut buffer = [0; ATTACH_BYTES_MAX];
    let mut end = 0;
    loop {
        let framed = match buffer.get_mut(..end) {
            Some(bytes) => record::frame(bytes, ATTACH_BYTES_MAX).map_err(ProtocolError::from)?,
            None => return Err(ProtocolError::Stray.into()),
        };
        if let Framed::Record { body, consumed } = framed {
            if consumed != end {
                return Err(ProtocolError::Stray.into());
            }
            return read_answer(xid, buffer.get(body).unwrap_or_default());
        }
        let room = buffer.get_mut(end..).filter(|room| !room.is_empty()).ok_or(ProtocolError::Stray)?;
        end += receive(stream.receive(room), link, &mut silence)?.unwrap_or(0);
    }
}

fn read_answer(xid: u32, record: &[u8]) -> Result<Option<ChannelResult>, Fault> {
    let mut input = Reader::new(record);
    let header = ReplyHeader::decode(&mut input)?;
    if header.xid.0 != xid {
        return Err(ProtocolError::Stray.into());
    }
    // Any refusal of the program: it is not to be had here. What the server has against the caller, the call behind tells.
    if header.status == ReplyStatus::Success { Ok(Some(ChannelResult::decode(&mut input)?)) } else { Ok(None) }
}
