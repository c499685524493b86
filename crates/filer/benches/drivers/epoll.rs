//! One reactor per core: a connection belongs to one of them; ready sockets are received from, served and sent to in turn.

use std::collections::HashMap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use filer::connections::ReceiveBuffer;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::{AsRawFd as _, OwnedFd};

use super::stage::Stage;

struct Connection {
    stream: TcpStream,
    received: ReceiveBuffer,
    out: Vec<u8>,
    sent: usize, // of `out`
}

pub(crate) fn serve(listener: TcpListener, stage: Arc<Stage>) {
    let reactors = std::thread::available_parallelism().unwrap().get();
    let queues: Vec<_> = (0..reactors)
        .map(|_| {
            let epoll = Arc::new(epoll::create(CreateFlags::CLOEXEC).unwrap());
            let (to, from) = std::sync::mpsc::channel::<TcpStream>();
            let (stage, own) = (Arc::clone(&stage), Arc::clone(&epoll));
            std::thread::spawn(move || react(&own, &from, &stage));
            (epoll, to)
        })
        .collect();
    for (number, stream) in listener.incoming().enumerate() {
        let stream = stream.unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_nonblocking(true).unwrap();
        let (epoll, to) = &queues[number % reactors];
        // An event before the reactor has the stream comes again.
        epoll::add(epoll.as_ref(), &stream, EventData::new_u64(stream.as_raw_fd() as u64), EventFlags::IN).unwrap();
        to.send(stream).unwrap();
    }
}

fn react(epoll: &OwnedFd, from: &std::sync::mpsc::Receiver<TcpStream>, stage: &Stage) {
    let mut connections: HashMap<u64, Connection> = HashMap::new();
    let mut events: Vec<Event> = Vec::with_capacity(256);
    loop {
        events.clear();
        if epoll::wait(epoll, rustix::buffer::spare_capacity(&mut events), None).is_err() {
            continue;
        }
        for stream in from.try_iter() {
            let (received, out) = (ReceiveBuffer::default(), Vec::new());
            connections.insert(stream.as_raw_fd() as u64, Connection { stream, received, out, sent: 0 });
        }
        for Event { flags, data } in events.drain(..) {
            let Some(connection) = connections.get_mut(&data.u64()) else { continue };
            if !ready(epoll, connection, flags, data, stage) {
                connections.remove(&data.u64());
            }
        }
    }
}

/// False when the connection has ended.
fn ready(epoll: &OwnedFd, connection: &mut Connection, flags: EventFlags, data: EventData, stage: &Stage) -> bool {
    let Connection { stream, received, out, sent } = connection;
    let waited = !out.is_empty();
    if !waited && flags.contains(EventFlags::IN) {
        match stream.read(received.space()) {
            Ok(0) => return false,
            Ok(bytes) => received.filled(bytes),
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        }
        stage.turn(received, out);
    }
    while *sent < out.len() {
        match stream.write(&out[*sent..]) {
            Ok(bytes) => *sent += bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if !waited {
                    epoll::modify(epoll, &*stream, data, EventFlags::OUT).unwrap();
                }
                return true;
            }
            Err(_) => return false,
        }
    }
    out.clear();
    *sent = 0;
    if waited {
        epoll::modify(epoll, &*stream, data, EventFlags::IN).unwrap();
    }
    true
}
