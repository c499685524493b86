//! One io_uring per core: receives and sends of all its connections are submitted and waited for by one system call.

use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use filer::connections::ReceiveBuffer;
use io_uring::{IoUring, opcode, types};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsRawFd as _, OwnedFd};

use super::stage::Stage;
use super::sys::push;

const ENTRIES: u32 = 512;
/// What a completion is of.
const WAKE: u64 = u64::MAX;
const SEND: u64 = 1 << 32;

struct Connection {
    stream: TcpStream,
    received: ReceiveBuffer,
    out: Vec<u8>,     // replies while others are sent
    sending: Vec<u8>, // untouched while a send of it is out
    sent: usize,
    receiving: bool,
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
    ring: IoUring,
    stage: Arc<Stage>,
    wake: Arc<OwnedFd>,
    woken: Box<[u8; 8]>,
    connections: Vec<Option<Box<Connection>>>,
}

impl Reactor {
    fn new(stage: Arc<Stage>, wake: Arc<OwnedFd>) -> Self {
        let ring = IoUring::builder().setup_single_issuer().setup_defer_taskrun().setup_coop_taskrun().build(ENTRIES);
        Self { ring: ring.expect("an io_uring"), stage, wake, woken: Box::default(), connections: Vec::new() }
    }

    fn run(mut self, from: &Receiver<TcpStream>) {
        self.listen_for_more();
        let mut completions: Vec<(u64, i32)> = Vec::new();
        loop {
            if self.ring.submit_and_wait(1).is_err() {
                continue;
            }
            completions.extend(self.ring.completion().map(|entry| (entry.user_data(), entry.result())));
            for (of, result) in completions.drain(..) {
                if of == WAKE {
                    from.try_iter().for_each(|stream| self.admit(stream));
                    self.listen_for_more();
                } else {
                    self.completed(of, result);
                }
            }
        }
    }

    fn listen_for_more(&mut self) {
        let entry = opcode::Read::new(types::Fd(self.wake.as_raw_fd()), self.woken.as_mut_ptr(), 8).build().user_data(WAKE);
        push(&mut self.ring, &entry);
    }

    fn admit(&mut self, stream: TcpStream) {
        let (received, out, sending) = (ReceiveBuffer::default(), Vec::new(), Vec::new());
        let connection = Box::new(Connection { stream, received, out, sending, sent: 0, receiving: false, ended: false });
        let free = self.connections.iter().position(Option::is_none);
        let at = free.unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        self.connections[at] = Some(connection);
        self.go_on(at);
    }

    fn completed(&mut self, of: u64, result: i32) {
        let at = (of & !SEND) as usize;
        let Some(connection) = &mut self.connections[at] else { return };
        let bytes = usize::try_from(result).unwrap_or(0);
        connection.ended |= bytes == 0;
        if of & SEND == 0 {
            connection.receiving = false;
            connection.received.filled(bytes);
            self.stage.turn(&mut connection.received, &mut connection.out);
        } else {
            connection.sent += bytes;
            if connection.sent == connection.sending.len() || connection.ended {
                connection.sending.clear();
                connection.sent = 0;
            } else {
                let entry = send(connection, at);
                return push(&mut self.ring, &entry);
            }
        }
        self.go_on(at);
    }

    /// Has everything under way that can be.
    fn go_on(&mut self, at: usize) {
        let Some(connection) = &mut self.connections[at] else { return };
        let idle = connection.sending.is_empty();
        if connection.ended {
            if idle && !connection.receiving {
                self.connections[at] = None;
            }
            return;
        }
        if idle && !connection.out.is_empty() {
            std::mem::swap(&mut connection.out, &mut connection.sending);
            let entry = send(connection, at);
            push(&mut self.ring, &entry);
        }
        if !connection.receiving {
            connection.receiving = true;
            let fd = types::Fd(connection.stream.as_raw_fd());
            let room = connection.received.space();
            let entry = opcode::Recv::new(fd, room.as_mut_ptr(), room.len() as u32).build().user_data(at as u64);
            push(&mut self.ring, &entry);
        }
    }
}

fn send(connection: &Connection, at: usize) -> io_uring::squeue::Entry {
    let rest = &connection.sending[connection.sent..];
    let fd = types::Fd(connection.stream.as_raw_fd());
    opcode::Send::new(fd, rest.as_ptr(), rest.len() as u32).flags(libc::MSG_NOSIGNAL).build().user_data(at as u64 | SEND)
}
