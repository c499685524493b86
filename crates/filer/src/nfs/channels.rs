//! Whose connection is whose: the program CHANNEL (`nfs_proto::channel1`), by which a client ends its dead connections for
//! good before it sends their calls again.
//!
//! What is fenced is the connection: its thread ends, calls received but not begun are dropped, those with a worker are
//! waited for. When the fence is answered, nothing of it can reach the volume any more.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use nfs_proto::channel1::{self, AttachArgs, ChannelResult, ChannelStatus, FenceArgs, Procedure};
use nfs_proto::rpc::{CallHeader, ReplyHeader, ReplyStatus, encode_reply};
use nfs_proto::xdr::decode_all;

use crate::connections::connection::Connection;
use crate::limits::{FENCE_AGE_MAX, FENCE_WAIT, FENCES_MAX};

/// The channels of all clients.
pub(crate) struct Channels {
    instance: u64,
    state: Mutex<State>,
    ended: Arc<Ended>,
}

/// Wakes those who wait for connections to end.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    count: Mutex<u64>,
    moved: Condvar,
}

/// What a connection carries; told when nothing of it can run any more.
pub(crate) struct Carried {
    process: u64,
    channel: u64,
    generation: u32,
    ended: Arc<Ended>,
}

#[derive(Default)]
struct State {
    /// By process and channel.
    channels: HashMap<(u64, u64), Channel>,
    /// Processes that died, and when that was said.
    fenced: HashMap<u64, Instant>,
}

struct Channel {
    generation: u32,
    /// Those that have not ended for certain: the newest, and earlier ones that are being ended.
    connections: Vec<Weak<Connection>>,
    touched: Instant,
}

/// What the driver does after a call of this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Served {
    Answered,
    /// The reply is the last thing on this connection.
    Last,
}

impl Default for Channels {
    fn default() -> Self {
        // The standard library's seed of hash maps is random for each process.
        let instance = RandomState::new().build_hasher().finish().max(1);
        Self { instance, state: Mutex::default(), ended: Arc::default() }
    }
}

impl Channels {
    /// Serves one call: appends its reply record to `out`. Waits while calls of fenced connections run.
    pub(crate) fn serve(
        &self,
        connection: &Arc<Connection>,
        &CallHeader { xid, version, procedure, .. }: &CallHeader<'_>,
        arguments: &[u8],
        out: &mut Vec<u8>,
    ) -> Served {
        let done = match Procedure::from_number(procedure) {
            _ if version != channel1::VERSION => {
                Err(ReplyStatus::ProgramMismatch { low: channel1::VERSION, high: channel1::VERSION })
            }
            None => Err(ReplyStatus::ProcedureUnavailable),
            Some(Procedure::Null) => {
                encode_reply(&ReplyHeader { xid, status: ReplyStatus::Success }, &(), out);
                return Served::Answered;
            }
            Some(Procedure::Attach) => decode_all(arguments).map(|args| self.attach(connection, &args)).map_err(garbage),
            Some(Procedure::Fence) => decode_all(arguments).map(|args| self.fence(&args)).map_err(garbage),
        };
        match done {
            Ok(status) => {
                let result = ChannelResult { status, instance: self.instance };
                encode_reply(&ReplyHeader { xid, status: ReplyStatus::Success }, &result, out);
                if status == ChannelStatus::Fenced { Served::Last } else { Served::Answered }
            }
            Err(status) => {
                encode_reply(&ReplyHeader { xid, status }, &(), out);
                Served::Answered
            }
        }
    }

    fn attach(&self, connection: &Arc<Connection>, args: &AttachArgs) -> ChannelStatus {
        let AttachArgs { instance, process, channel, generation } = *args;
        if instance != self.instance {
            return ChannelStatus::OtherInstance;
        }
        let key = (process, channel);
        let mut state = self.lock();
        if state.fenced.contains_key(&process) {
            return ChannelStatus::Fenced;
        }
        let known = state.channels.get(&key).map(|held| held.generation);
        if known.is_some_and(|known| known > generation) {
            return ChannelStatus::Fenced;
        }
        if known.is_none() && !state.has_room() {
            return ChannelStatus::Full;
        }
        let carried = Carried { process, channel, generation, ended: Arc::clone(&self.ended) };
        if !connection.carry(carried) {
            // It carries this channel already, having been told to ask again, or another one.
            if !connection.carries(process, channel, generation) {
                return ChannelStatus::Fenced;
            }
        } else if known == Some(generation) {
            // Two connections of one generation: one of them is not the client's.
            return ChannelStatus::Fenced;
        }
        let now = Instant::now();
        let held = state.channels.entry(key).or_insert_with(|| Channel { generation, connections: Vec::new(), touched: now });
        held.generation = generation;
        held.touched = now;
        let own = Arc::downgrade(connection);
        held.connections.retain(|other| other.strong_count() > 0 && !other.ptr_eq(&own));
        let before = held.connections.clone();
        held.connections.push(own);
        drop(state);
        self.end(&before)
    }

    fn fence(&self, args: &FenceArgs) -> ChannelStatus {
        if args.instance != self.instance {
            return ChannelStatus::OtherInstance;
        }
        let mut state = self.lock();
        if !state.fenced.contains_key(&args.process) && !state.has_room() {
            return ChannelStatus::Full;
        }
        state.fenced.insert(args.process, Instant::now());
        let of_process = state.channels.iter().filter(|((process, _), _)| *process == args.process);
        let before: Vec<Weak<Connection>> = of_process.flat_map(|(_, held)| held.connections.iter().cloned()).collect();
        drop(state);
        self.end(&before)
    }

    /// Ends connections, and waits until nothing of them can run.
    fn end(&self, connections: &[Weak<Connection>]) -> ChannelStatus {
        connections.iter().filter_map(Weak::upgrade).for_each(|connection| connection.fence());
        let deadline = Instant::now() + FENCE_WAIT;
        let mut count = self.ended.count.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever may still run a call of a connection holds it.
        while connections.iter().any(|connection| connection.strong_count() > 0) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return ChannelStatus::Busy;
            }
            count = self.ended.moved.wait_timeout(count, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        ChannelStatus::Ok
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether one more channel or process can be remembered; forgets those that nothing can come of any more.
    fn has_room(&mut self) -> bool {
        if self.channels.len() + self.fenced.len() < FENCES_MAX {
            return true;
        }
        let now = Instant::now();
        let old = |since: &Instant| now.saturating_duration_since(*since) >= FENCE_AGE_MAX;
        self.fenced.retain(|_, since| !old(since));
        // Of a channel that had one connection nothing earlier can come; of others something might, for a while.
        self.channels.retain(|_, held| {
            let lives = held.connections.iter().any(|connection| connection.strong_count() > 0);
            lives || (held.generation > 1 && !old(&held.touched))
        });
        self.channels.len() + self.fenced.len() < FENCES_MAX
    }
}

impl Carried {
    pub(crate) const fn is(&self, process: u64, channel: u64, generation: u32) -> bool {
        self.process == process && self.channel == channel && self.generation == generation
    }
}

impl Drop for Carried {
    /// Dropped with its connection, which nobody holds any more then.
    fn drop(&mut self) {
        let mut count = self.ended.count.lock().unwrap_or_else(PoisonError::into_inner);
        *count += 1;
        self.ended.moved.notify_all();
    }
}

fn garbage(_: nfs_proto::xdr::DecodeError) -> ReplyStatus {
    ReplyStatus::GarbageArguments
}
