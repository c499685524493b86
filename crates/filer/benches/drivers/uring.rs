//! One io_uring per core: receives and sends of all its connections are submitted and waited for by one system call.

use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use filer::connections::ReceiveBuffer;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsRawFd as _, OwnedFd};

use super::stage::Stage;
use super::sys::{Operation, Ring};

const ENTRIES: u32 = 512;
/// What a completion is of; else of a receive of that connection.
const WAKE: u64 = u64::MAX;
const SEND: u64 = 1 << 32;

struct Connection {
    stream: TcpStream,
    received: Option<ReceiveBuffer>, // none while the ring has it
    sending: Option<Vec<u8>>,        // empty; none while the ring has it
    out: Vec<u8>,                    // replies while others are sent
    ended: bool,
}

pub(crate) fn serve(listener: TcpListener, stage: Arc<Stage>) {
    let reactors = std::thread::available_parallelism().unwrap().get();
    let queues: Vec<_> = (0..reactors)
        .map(|_| {
            let (to, from) = channel::<TcpStream>();
            let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).unwrap());
            let (stage, own) = (Arc::clone(&stage), Arc::clone(&wake));
            std::thread::spawn(move || Reactor::new(stage, own).run(&from));
            (wake, to)
        })
        .collect();
    for (number, stream) in listener.incoming().enumerate() {
        let stream = stream.unwrap();
        stream.set_nodelay(true).unwrap();
        let (wake, to) = &queues[number % reactors];
        to.send(stream).unwrap();
        rustix::io::write(wake, &1u64.to_ne_bytes()).unwrap();
    }
}

struct Reactor {
    ring: Ring,
    stage: Arc<Stage>,
    wake: Arc<OwnedFd>,
    connections: Vec<Option<Connection>>,
}

impl Reactor {
    fn new(stage: Arc<Stage>, wake: Arc<OwnedFd>) -> Self {
        Self { ring: Ring::new(ENTRIES), stage, wake, connections: Vec::new() }
    }

    fn run(mut self, from: &Receiver<TcpStream>) {
        self.ring.push(WAKE, self.wake.as_raw_fd(), Operation::Wake(Box::default()));
        let mut completions = Vec::new();
        loop {
            self.ring.wait(&mut completions);
            for (of, result, operation) in completions.drain(..) {
                if of == WAKE {
                    from.try_iter().for_each(|stream| self.admit(stream));
                    self.ring.push(WAKE, self.wake.as_raw_fd(), operation);
                } else {
                    self.completed((of & !SEND) as usize, usize::try_from(result).unwrap_or(0), operation);
                }
            }
        }
    }

    fn admit(&mut self, stream: TcpStream) {
        let (received, sending, out) = (Some(ReceiveBuffer::default()), Some(Vec::new()), Vec::new());
        let free = self.connections.iter().position(Option::is_none);
        let at = free.unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        self.connections[at] = Some(Connection { stream, received, sending, out, ended: false });
        self.go_on(at);
    }

    fn completed(&mut self, at: usize, bytes: usize, operation: Operation) {
        let Some(connection) = &mut self.connections[at] else { return };
        connection.ended |= bytes == 0;
        match operation {
            Operation::Receive(mut received) => {
                received.filled(bytes);
                self.stage.turn(&mut received, &mut connection.out);
                connection.received = Some(received);
            }
            Operation::Send(sending, from) if from + bytes < sending.len() && !connection.ended => {
                let rest = Operation::Send(sending, from + bytes);
                return self.ring.push(at as u64 | SEND, connection.stream.as_raw_fd(), rest);
            }
            Operation::Send(mut sending, _) => {
                sending.clear();
                connection.sending = Some(sending);
            }
            Operation::Wake(_) => {}
        }
        self.go_on(at);
    }

    /// Has everything under way that can be.
    fn go_on(&mut self, at: usize) {
        let Some(connection) = &mut self.connections[at] else { return };
        if connection.ended {
            if connection.sending.is_some() && connection.received.is_some() {
                self.connections[at] = None;
            }
            return;
        }
        let fd = connection.stream.as_raw_fd();
        if !connection.out.is_empty()
            && let Some(empty) = connection.sending.take()
        {
            let replies = std::mem::replace(&mut connection.out, empty);
            self.ring.push(at as u64 | SEND, fd, Operation::Send(replies, 0));
        }
        if let Some(received) = connection.received.take() {
            self.ring.push(at as u64, fd, Operation::Receive(received));
        }
    }
}
