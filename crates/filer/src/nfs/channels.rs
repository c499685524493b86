//! Whose connection is whose, by which a client ends its dead connections for good before it sends their calls again: what the
//! program CHANNEL (`nfs_proto::channel1`) changes.
//!
//! What is fenced is the connection: its thread ends, calls received but not begun are dropped, those with a worker are
//! waited for. When the fence is answered, nothing of it can reach the volume any more.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Instant;

use nfs_proto::channel1::{AttachArgs, ChannelStatus, FenceArgs};

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
struct Ended {
    count: Mutex<u64>,
    moved: Condvar,
}

/// A connection as channels have it. Whoever may still carry out a call of the connection holds it.
pub(crate) struct Attachment {
    connection: Arc<Connection>,
    /// Its client has ended it for good: no further call of it is carried out.
    fenced: AtomicBool,
    channel: OnceLock<ChannelOf>,
}

/// The channel that a connection carries.
struct ChannelOf {
    process: u64,
    channel: u64,
    generation: u32,
    ended: Arc<Ended>,
}

#[derive(Default)]
struct State {
    /// By process and channel.
    channels: HashMap<(u64, u64), Channel>,
    /// Processes that died, and when that was reported.
    fenced: HashMap<u64, Instant>,
}

struct Channel {
    generation: u32,
    /// Those that have not ended for certain: the newest, and earlier ones that are being ended.
    connections: Vec<Weak<Attachment>>,
    touched: Instant,
}

impl Attachment {
    /// A connection that carries no channel yet.
    pub(crate) fn new(connection: &Arc<Connection>) -> Self {
        Self { connection: Arc::clone(connection), fenced: AtomicBool::new(false), channel: OnceLock::new() }
    }

    /// Whether calls of it may not be begun any more.
    pub(crate) fn is_fenced(&self) -> bool {
        self.fenced.load(Ordering::SeqCst)
    }

    /// Ends it for good: calls that have not begun are not carried out. Those that have go on, and hold it.
    fn fence(&self) {
        self.fenced.store(true, Ordering::SeqCst);
        self.connection.drop_now();
    }

    /// Whether it carries this channel, in this generation.
    fn carries(&self, args: &AttachArgs) -> bool {
        let key = (args.process, args.channel, args.generation);
        self.channel.get().is_some_and(|of| (of.process, of.channel, of.generation) == key)
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        // Nobody holds it any more.
        if let Some(ChannelOf { ended, .. }) = self.channel.get() {
            let mut count = ended.count.lock().unwrap_or_else(PoisonError::into_inner);
            *count += 1;
            ended.moved.notify_all();
        }
    }
}

impl Default for Channels {
    fn default() -> Self {
        // The standard library's seed of hash maps is random for each process.
        let instance = RandomState::new().build_hasher().finish().max(1);
        Self { instance, state: Mutex::default(), ended: Arc::default() }
    }
}

impl Channels {
    /// The run of the filer: bytes meant for another one change nothing.
    pub(crate) const fn instance(&self) -> u64 {
        self.instance
    }

    /// Has a connection carry a channel, and ends the earlier ones of that channel; waits while calls of these run.
    pub(crate) fn attach(&self, own: &Arc<Attachment>, args: &AttachArgs) -> ChannelStatus {
        let AttachArgs { instance, process, channel, generation } = *args;
        if instance != self.instance {
            return ChannelStatus::OtherInstance;
        }
        let key = (process, channel);
        let mut state = self.lock();
        if state.fenced.contains_key(&process) {
            // The process goes on under another number: nothing of this one must run by then.
            let before = state.connections_of(process);
            drop(state);
            return match self.end(&before) {
                ChannelStatus::Ok => ChannelStatus::Fenced,
                busy => busy,
            };
        }
        let known = state.channels.get(&key).map(|channel| channel.generation);
        if known.is_some_and(|known| known > generation) {
            return ChannelStatus::Fenced;
        }
        if known.is_none() && !state.has_room() {
            return ChannelStatus::Full;
        }
        let ended = Arc::clone(&self.ended);
        if own.channel.set(ChannelOf { process, channel, generation, ended }).is_err() {
            // It carries this channel already, having been answered to ask again, or another one.
            if !own.carries(args) {
                return ChannelStatus::Fenced;
            }
        } else if known == Some(generation) {
            // Two connections of one generation: one of them is not the client's.
            return ChannelStatus::Fenced;
        }
        let now = Instant::now();
        let entry = state.channels.entry(key).or_insert_with(|| Channel { generation, connections: Vec::new(), touched: now });
        entry.generation = generation;
        entry.touched = now;
        let own = Arc::downgrade(own);
        entry.connections.retain(|other| other.strong_count() > 0 && !other.ptr_eq(&own));
        let before = entry.connections.clone();
        entry.connections.push(own);
        drop(state);
        self.end(&before)
    }

    /// Ends all connections of a process for good; waits while calls of these run.
    pub(crate) fn fence(&self, args: &FenceArgs) -> ChannelStatus {
        if args.instance != self.instance {
            return ChannelStatus::OtherInstance;
        }
        let mut state = self.lock();
        if !state.fenced.contains_key(&args.process) && !state.has_room() {
            return ChannelStatus::Full;
        }
        state.fenced.insert(args.process, Instant::now());
        let before = state.connections_of(args.process);
        drop(state);
        self.end(&before)
    }

    /// Ends connections, and waits until nothing of them can run.
    fn end(&self, connections: &[Weak<Attachment>]) -> ChannelStatus {
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
    /// The connections that a process has attached.
    fn connections_of(&self, process: u64) -> Vec<Weak<Attachment>> {
        let of_process = self.channels.iter().filter(|((other, _), _)| *other == process);
        of_process.flat_map(|(_, channel)| channel.connections.iter().cloned()).collect()
    }

    /// Whether one more channel or process can be remembered; forgets those that nothing can come of any more.
    fn has_room(&mut self) -> bool {
        if self.channels.len() + self.fenced.len() < FENCES_MAX {
            return true;
        }
        let now = Instant::now();
        let old = |since: &Instant| now.saturating_duration_since(*since) >= FENCE_AGE_MAX;
        self.fenced.retain(|_, since| !old(since));
        // Of a channel that had one connection nothing earlier can come; of others something might, for a while.
        self.channels.retain(|_, channel| {
            let is_open = channel.connections.iter().any(|connection| connection.strong_count() > 0);
            is_open || (channel.generation > 1 && !old(&channel.touched))
        });
        self.channels.len() + self.fenced.len() < FENCES_MAX
    }
}
