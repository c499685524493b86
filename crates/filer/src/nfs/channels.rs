//! The channels of clients, which the program CHANNEL (`nfs_proto::channel1`) attaches and fences. With them, a client makes sure that
//! its broken connections execute no further call before it resends their calls.
//!
//! A fence ends connections: the thread of the connection ends, calls that have not begun are dropped, and calls on a worker are waited
//! for. When the filer answers the fence, no call of these connections can reach the volume any more.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, Weak};
use std::time::Instant;

use host::Unpoisoned;
use nfs_proto::channel1::{AttachArgs, ChannelStatus, FenceArgs};

use crate::connections::connection::Connection;
use crate::connections::delivery::Delivery;
use crate::limits::{FENCE_AGE_MAX, FENCE_WAIT, FENCES_MAX};

/// The channels of all clients.
pub(crate) struct Channels {
    instance: u64,
    seed: RandomState,
    state: Mutex<State>,
    ended: Arc<Ended>,
}

/// Wakes the threads that wait until connections end.
#[derive(Debug, Default)]
struct Ended {
    count: Mutex<u64>,
    moved: Condvar,
}

/// The state of a connection for channels. Each thread that may still execute a call of the connection holds it.
pub(crate) struct Attachment {
    connection: Arc<Connection>,
    /// The client has fenced it: no further call of it is executed.
    fenced: AtomicBool,
    channel: OnceLock<ChannelOf>,
}

/// A process of a mount. The same number of another mount is another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Process {
    /// A hash of export and secret.
    mount: u64,
    number: u64,
}

/// A channel of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ChannelId {
    process: Process,
    channel: u64,
}

#[cfg(test)]
impl ChannelId {
    /// A channel with this number.
    pub(crate) const fn numbered(channel: u64) -> Self {
        Self { process: Process { mount: 0, number: 0 }, channel }
    }
}

/// The channel that a connection carries.
struct ChannelOf {
    id: ChannelId,
    generation: u32,
    /// Whether the mount has a secret. Without one the process may fence no other.
    has_secret: bool,
    ended: Arc<Ended>,
}

#[derive(Default)]
struct State {
    channels: HashMap<ChannelId, Channel>,
    /// Processes that were fenced because they died.
    fenced: HashMap<Process, Fenced>,
}

struct Fenced {
    /// The address of the client that fenced the process.
    client: IpAddr,
    at: Instant,
}

struct Channel {
    /// The address of the newest connection.
    client: IpAddr,
    generation: u32,
    /// Connections that may not have ended: the newest one, and earlier ones that are being ended.
    connections: Vec<Weak<Attachment>>,
    touched: Instant,
}

impl Attachment {
    /// A connection that carries no channel yet.
    pub(crate) fn new(connection: &Arc<Connection>) -> Self {
        Self { connection: Arc::clone(connection), fenced: AtomicBool::new(false), channel: OnceLock::new() }
    }

    /// A reference to the connection, and the channel that it carries, if any.
    pub(crate) fn sender(&self) -> (Delivery, Option<ChannelId>) {
        (self.connection.delivery(), self.channel.get().map(|of| of.id))
    }

    /// Whether no further call of it may begin.
    pub(crate) fn is_fenced(&self) -> bool {
        self.fenced.load(Ordering::SeqCst)
    }

    /// Fences the connection: calls that have not begun are dropped. Calls that have begun continue, and hold it.
    fn fence(&self) {
        self.fenced.store(true, Ordering::SeqCst);
        self.connection.drop_now();
    }

    /// Whether it carries this channel, in this generation.
    fn carries(&self, id: ChannelId, generation: u32) -> bool {
        self.channel.get().is_some_and(|of| (of.id, of.generation) == (id, generation))
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        // No thread holds it any more.
        if let Some(ChannelOf { ended, .. }) = self.channel.get() {
            let mut count = ended.count.lock().unpoisoned();
            *count += 1;
            ended.moved.notify_all();
        }
    }
}

impl Default for Channels {
    fn default() -> Self {
        // The standard library's seed of hash maps is random for each process.
        let seed = RandomState::new();
        let instance = seed.build_hasher().finish().max(1);
        Self { instance, seed, state: Mutex::default(), ended: Arc::default() }
    }
}

impl Channels {
    /// The number of this run of the filer. A call with the number of another run changes nothing.
    pub(crate) const fn instance(&self) -> u64 {
        self.instance
    }

    /// Makes a connection carry a channel of a mount of `export`. Ends the earlier connections of that channel, and waits while their calls
    /// run.
    pub(crate) fn attach(&self, own: &Arc<Attachment>, export: &str, args: &AttachArgs) -> ChannelStatus {
        let AttachArgs { instance, process, channel, generation, secret, .. } = *args;
        if instance != self.instance {
            return ChannelStatus::OtherInstance;
        }
        let process = Process { mount: self.seed.hash_one((export, secret)), number: process };
        let id = ChannelId { process, channel };
        let mut state = self.state.lock().unpoisoned();
        if state.fenced.contains_key(&process) {
            // The process continues under another number. By then no call under this number may run.
            let before = state.connections_of(process);
            drop(state);
            return match self.end(&before) {
                ChannelStatus::Ok => ChannelStatus::Fenced,
                busy => busy,
            };
        }
        let known = state.channels.get(&id).map(|channel| channel.generation);
        if known.is_some_and(|known| known > generation) {
            return ChannelStatus::Fenced;
        }
        let client = own.connection.client();
        if known.is_none() && !state.make_room(client) {
            return ChannelStatus::Full;
        }
        let ended = Arc::clone(&self.ended);
        if own.channel.set(ChannelOf { id, generation, has_secret: secret != 0, ended }).is_err() {
            // It carries this channel already, because an earlier ATTACH was answered with Busy, or it carries another one.
            if !own.carries(id, generation) {
                return ChannelStatus::Fenced;
            }
        } else if known == Some(generation) {
            // Two connections have the same generation: one of them is not the client's.
            return ChannelStatus::Fenced;
        }
        let now = Instant::now();
        let entry =
            state.channels.entry(id).or_insert_with(|| Channel { client, generation, connections: Vec::new(), touched: now });
        entry.client = client;
        entry.generation = generation;
        entry.touched = now;
        let own = Arc::downgrade(own);
        entry.connections.retain(|other| other.strong_count() > 0 && !other.ptr_eq(&own));
        let before = entry.connections.clone();
        entry.connections.push(own);
        drop(state);
        self.end(&before)
    }

    /// Ends all connections of a process of the caller's mount, and waits while their calls run.
    pub(crate) fn fence(&self, own: &Attachment, args: &FenceArgs) -> ChannelStatus {
        if args.instance != self.instance {
            return ChannelStatus::OtherInstance;
        }
        let Some(caller) = own.channel.get().filter(|of| of.has_secret) else { return ChannelStatus::Denied };
        let process = Process { number: args.process, ..caller.id.process };
        let mut state = self.state.lock().unpoisoned();
        // The number belongs to a process of another mount, whose connections this fence does not end.
        if state.channels.keys().any(|id| id.process.number == process.number && id.process != process) {
            return ChannelStatus::Denied;
        }
        let client = own.connection.client();
        if !state.fenced.contains_key(&process) && !state.make_room(client) {
            return ChannelStatus::Full;
        }
        state.fenced.insert(process, Fenced { client, at: Instant::now() });
        let before = state.connections_of(process);
        drop(state);
        self.end(&before)
    }

    /// Ends connections, and waits until nothing of them can run.
    fn end(&self, connections: &[Weak<Attachment>]) -> ChannelStatus {
        connections.iter().filter_map(Weak::upgrade).for_each(|connection| connection.fence());
        let deadline = Instant::now() + FENCE_WAIT;
        let mut count = self.ended.count.lock().unpoisoned();
        // Each thread that may still run a call of a connection holds it.
        while connections.iter().any(|connection| connection.strong_count() > 0) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return ChannelStatus::Busy;
            }
            count = self.ended.moved.wait_timeout(count, left).unpoisoned().0;
        }
        ChannelStatus::Ok
    }
}

impl State {
    /// The connections that a process has attached.
    fn connections_of(&self, process: Process) -> Vec<Weak<Attachment>> {
        let of_process = self.channels.iter().filter(|(id, _)| id.process == process);
        of_process.flat_map(|(_, channel)| channel.connections.iter().cloned()).collect()
    }

    /// Whether one more channel or process of a client can be remembered. To make room, it first forgets entries of which no late call can
    /// arrive, then the entries of the client that has the most. It never makes room for a client out of that client's own entries.
    fn make_room(&mut self, client: IpAddr) -> bool {
        if self.has_room() {
            return true;
        }
        let now = Instant::now();
        let old = |since: &Instant| now.saturating_duration_since(*since) >= FENCE_AGE_MAX;
        self.fenced.retain(|_, fenced| !old(&fenced.at));
        // No late call can arrive for a channel that had only one connection. For other channels one may, for some time.
        self.channels.retain(|_, channel| channel.is_open() || (channel.generation > 1 && !old(&channel.touched)));
        if self.has_room() {
            return true;
        }
        let Some(most) = self.client_with_the_most().filter(|most| *most != client) else { return false };
        self.fenced.retain(|_, fenced| fenced.client != most);
        self.channels.retain(|_, channel| channel.client != most || channel.is_open());
        self.has_room()
    }

    fn has_room(&self) -> bool {
        self.channels.len() + self.fenced.len() < FENCES_MAX
    }

    fn client_with_the_most(&self) -> Option<IpAddr> {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        let channels = self.channels.values().map(|channel| channel.client);
        channels
            .chain(self.fenced.values().map(|fenced| fenced.client))
            .for_each(|client| *counts.entry(client).or_default() += 1);
        counts.into_iter().max_by_key(|(_, count)| *count).map(|(client, _)| client)
    }
}

impl Channel {
    /// Whether a connection of it has not ended.
    fn is_open(&self) -> bool {
        self.connections.iter().any(|connection| connection.strong_count() > 0)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use nfs_proto::nfs3::FileHandle;

    use super::*;
    use crate::connections::connection::tests::connected_as;

    /// A connection whose client has this address as far as channels know, and the client's end of it.
    fn connect(host: u8) -> (Arc<Attachment>, TcpStream) {
        let (connection, peer) = connected_as([10, 0, 0, host]);
        (Arc::new(Attachment::new(&connection)), peer)
    }

    fn attach(channels: &Channels, own: &Arc<Attachment>, process: u64, generation: u32) -> ChannelStatus {
        let root = FileHandle::new(&[1; 8]).unwrap();
        let args = AttachArgs { instance: channels.instance(), process, channel: 1, generation, secret: process, root };
        channels.attach(own, "vol", &args)
    }

    #[test]
    fn a_client_that_reports_dead_processes_without_end_leaves_room_for_the_channels_of_others() {
        let channels = Channels::default();
        let ((noisy, _a), (before, _b)) = (connect(1), connect(2));
        assert_eq!(attach(&channels, &before, 7, 2), ChannelStatus::Ok);
        drop(before);
        assert_eq!(attach(&channels, &noisy, 1, 1), ChannelStatus::Ok);
        let fence = |process| channels.fence(&noisy, &FenceArgs { instance: channels.instance(), process });
        let answers: Vec<_> = (0..FENCES_MAX as u64).map(|number| fence(100 + number)).collect();
        assert_eq!(answers.last(), Some(&ChannelStatus::Full), "its own room is bounded");
        let (other, _c) = connect(3);
        assert_eq!(attach(&channels, &other, 8, 1), ChannelStatus::Ok);
        let (late, _d) = connect(2);
        assert_eq!(attach(&channels, &late, 7, 1), ChannelStatus::Fenced, "the channel of another client is remembered");
    }
}
