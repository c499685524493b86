//! Idle connections, which have neither a thread nor buffers until they become readable.
//!
//! One thread waits for all of them (epoll). A connection that becomes readable gets a thread, which serves it until it
//! is idle again. A client gets another thread only while it has fewer threads than are free. So one client has at most half of them,
//! and clients with slow calls leave threads to others. Further connections wait for a thread, one line for each client, and the lines
//! take turns. While a connection waits, the threads park idle connections sooner, and busy ones after
//! [`crate::limits::CROWDED_TURN`].

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use host::Unpoisoned;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::time::Timespec;

use super::connection::Connection;
use super::crowd::Crowd;
use super::ended::Ended;
use crate::limits::{PARKED_WAKE_S, RUNNING_MAX, STACK_BYTES};

/// Serves a parked connection again.
pub(crate) type Resume = Box<dyn FnOnce() -> Stay + Send>;

/// Called when a connection has ended, with its number.
type NoteEnd = Box<dyn Fn(u64, &Connection, &Ended) + Send + Sync>;

/// Why a thread leaves a connection.
pub(crate) enum Stay {
    /// The connection has ended.
    Ended(Ended),
    /// The connection is idle.
    Idle(Resume),
}

/// An idle connection, its number, and the closure that serves it again.
pub(super) struct Parked {
    pub(super) id: u64,
    pub(super) connection: Arc<Connection>,
    pub(super) resume: Resume,
}

/// The parked connections, and the threads that serve the others.
pub(super) struct Parking {
    epoll: OwnedFd,
    state: Mutex<State>,
    crowd: Arc<Crowd>,
    note_end: NoteEnd,
}

#[derive(Default)]
struct State {
    parked: HashMap<u64, Parked>,
    ready: Ready<Parked>,
}

/// Readable connections that have no thread, by client, and the number of threads that each client has.
struct Ready<T> {
    lines: VecDeque<(IpAddr, VecDeque<T>)>, // no line is empty; the first one is next
    running: HashMap<IpAddr, usize>,        // no number is 0
    all_running: usize,
}

impl<T> Default for Ready<T> {
    fn default() -> Self {
        Self { lines: VecDeque::new(), running: HashMap::new(), all_running: 0 }
    }
}

impl<T> Ready<T> {
    fn push(&mut self, client: IpAddr, ready: T) {
        match self.lines.iter_mut().find(|(of, _)| *of == client) {
            Some((_, line)) => line.push_back(ready),
            None => self.lines.push_back((client, VecDeque::from([ready]))),
        }
    }

    /// Takes the next connection that may have a thread, and counts the thread.
    fn begin(&mut self) -> Option<T> {
        let free = RUNNING_MAX - self.all_running;
        let may_begin = |(client, _): &(IpAddr, _)| self.running.get(client).copied().unwrap_or(0) < free;
        let (client, mut line) = self.lines.remove(self.lines.iter().position(may_begin)?)?;
        let ready = line.pop_front();
        if !line.is_empty() {
            self.lines.push_back((client, line));
        }
        self.all_running += 1;
        *self.running.entry(client).or_default() += 1;
        ready
    }

    fn report(&self, crowd: &Crowd) {
        crowd.note(!self.lines.is_empty(), self.all_running);
    }

    /// Notes that a thread of a client has ended or continues with another connection.
    fn end(&mut self, client: IpAddr) {
        self.all_running -= 1;
        match self.running.get_mut(&client) {
            Some(running) if *running > 1 => *running -= 1,
            _ => drop(self.running.remove(&client)),
        }
    }
}

impl Parking {
    pub(super) fn new(
        crowd: Arc<Crowd>,
        note_end: impl Fn(u64, &Connection, &Ended) + Send + Sync + 'static,
    ) -> io::Result<Arc<Self>> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Arc::new(Self { epoll, state: Mutex::default(), crowd, note_end: Box::new(note_end) }))
    }

    /// Parks a connection until it becomes readable. If epoll cannot add it, gives it a thread now.
    pub(super) fn park(self: &Arc<Self>, parked: Parked) {
        if let Some(back) = self.try_park(parked) {
            self.state.lock().unpoisoned().push_ready(back);
            self.start_ready();
        }
    }

    /// Parks a connection. Returns it if epoll cannot add it.
    fn try_park(&self, parked: Parked) -> Option<Parked> {
        let (id, connection) = (parked.id, Arc::clone(&parked.connection));
        // Inserted before epoll knows it, because the event may come at once.
        self.state.lock().unpoisoned().parked.insert(id, parked);
        let added = epoll::add(&self.epoll, connection.socket(), EventData::new_u64(id), EventFlags::IN | EventFlags::RDHUP);
        if added.is_ok() { None } else { self.state.lock().unpoisoned().parked.remove(&id) }
    }

    /// Starts the thread that gives threads to connections that become readable. It runs until the process ends.
    pub(super) fn watch(self: &Arc<Self>) -> io::Result<()> {
        let parking = Arc::clone(self);
        let watch = move || {
            let mut events: Vec<Event> = Vec::with_capacity(256);
            loop {
                parking.wait(&mut events);
                parking.start_ready();
            }
        };
        std::thread::Builder::new().name("parked".into()).stack_size(STACK_BYTES).spawn(watch).map(drop)
    }

    fn wait(&self, events: &mut Vec<Event>) {
        events.clear();
        // The limit lets a connection for which no thread could be started try again.
        let limit = Timespec { tv_sec: PARKED_WAKE_S, tv_nsec: 0 };
        let limit = self.crowd.is_waited_for().then_some(&limit);
        if epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), limit).is_err() {
            return;
        }
        let mut state = self.state.lock().unpoisoned();
        for event in events.iter() {
            let Some(parked) = state.parked.remove(&event.data.u64()) else { continue };
            let _ = epoll::delete(&self.epoll, parked.connection.socket());
            state.push_ready(parked);
        }
    }

    /// Starts threads for the connections that wait for one, up to [`RUNNING_MAX`].
    fn start_ready(self: &Arc<Self>) {
        let mut state = self.state.lock().unpoisoned();
        while let Some(parked) = state.ready.begin() {
            let (parking, client) = (Arc::clone(self), parked.connection.client());
            // If no thread starts, the closure is dropped and the connection is taken back from here.
            let place = Arc::new(Mutex::new(Some(parked)));
            let own = Arc::clone(&place);
            let serve = move || {
                let parked = own.lock().unpoisoned().take();
                parked.into_iter().for_each(|parked| parking.serve(parked));
            };
            if std::thread::Builder::new().name("connection".into()).stack_size(STACK_BYTES).spawn(serve).is_err() {
                state.ready.end(client);
                let parked = place.lock().unpoisoned().take();
                parked.into_iter().for_each(|parked| state.push_ready(parked));
                break;
            }
        }
        state.ready.report(&self.crowd);
    }

    /// The thread's work: serves a connection, then others that wait for a thread.
    fn serve(&self, mut parked: Parked) {
        loop {
            let Parked { id, connection, resume } = parked;
            let client = connection.client();
            let back = match resume() {
                Stay::Idle(resume) => self.try_park(Parked { id, connection, resume }),
                Stay::Ended(ended) => {
                    (self.note_end)(id, &connection, &ended);
                    None
                }
            };
            let mut state = self.state.lock().unpoisoned();
            state.ready.end(client);
            back.into_iter().for_each(|back| state.push_ready(back));
            let next = state.ready.begin();
            state.ready.report(&self.crowd);
            drop(state);
            let Some(next) = next else { return };
            parked = next;
        }
    }
}

impl State {
    fn push_ready(&mut self, parked: Parked) {
        self.ready.push(parked.connection.client(), parked);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::limits::{CROWDED_TURN, MANY_RUNNING, MANY_RUNNING_IDLE};

    fn client(host: u8) -> IpAddr {
        Ipv4Addr::new(10, 0, 0, host).into()
    }

    #[test]
    fn a_thread_keeps_an_idle_connection_for_less_time_when_threads_are_short() {
        let (crowd, mut ready) = (Crowd::default(), Ready::default());
        let mut begin = |count: usize| {
            (0..count).for_each(|_| ready.push(client(1), ()));
            while ready.begin().is_some() {}
            ready.report(&crowd);
            crowd.idle_limit()
        };
        assert_eq!(begin(MANY_RUNNING), None);
        assert_eq!(begin(1), Some(MANY_RUNNING_IDLE));
        assert_eq!(begin(RUNNING_MAX), Some(CROWDED_TURN));
    }

    #[test]
    fn one_client_has_half_of_the_threads_at_most_and_lines_take_turns() {
        let mut ready = Ready::default();
        (0..2 * RUNNING_MAX).for_each(|_| ready.push(client(1), 1));
        let begun = std::iter::from_fn(|| ready.begin()).count();
        assert_eq!(begun, RUNNING_MAX / 2);
        ready.push(client(2), 2);
        ready.push(client(2), 2);
        ready.push(client(3), 3);
        let others: Vec<_> = std::iter::from_fn(|| ready.begin()).collect();
        assert_eq!(others, [2, 3, 2]);
        ready.end(client(1));
        assert_eq!(ready.begin(), None, "the threads of the others make its share smaller");
        (0..3).for_each(|_| ready.end(client(1)));
        assert_eq!((ready.begin(), ready.all_running), (Some(1), RUNNING_MAX / 2));
    }
}
