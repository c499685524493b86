//! A route to a filer that loses calls: one of a procedure, and all that come with its xid after it. It may hide the filer's private
//! program, so that the filer is any server to its clients.

use super::filer::Filer;
use nfs_proto::channel1;
use nfs_proto::nfs3::{self, Procedure};
use nfs_proto::record::{self, Framed};
use nfs_proto::rpc::{CallHeader, ReplyHeader, ReplyStatus, Xid, encode_reply};
use nfs_proto::xdr::{Decode, Reader};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// A call of NFS that came from a client.
#[derive(Clone, Copy, Debug)]
pub struct Sending {
    pub procedure: Procedure,
    pub xid: Xid,
    pub port: u16,
    pub at: Instant,
}

/// What is lost, and what came.
#[derive(Default)]
struct State {
    next: Option<Procedure>,
    for_ever: bool,
    lost: Vec<Xid>,
    sendings: Vec<Sending>,
}

/// The route, until dropped.
pub struct Swallow {
    pub port: u16,
    hides_attach: bool,
    state: Arc<Mutex<State>>,
}

impl Swallow {
    /// A route to the filer; `hides_attach` makes the filer a server that has no program CHANNEL.
    pub fn start(filer: &Filer, hides_attach: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, to) = (listener.local_addr().unwrap().port(), filer.port);
        let state = Arc::<Mutex<State>>::default();
        let shared = Arc::downgrade(&state);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Some(state) = shared.upgrade() else { return };
                let Ok(server) = TcpStream::connect(("127.0.0.1", to)) else { continue };
                std::thread::spawn(move || forward(client, server, &state, hides_attach));
            }
        });
        Self { port, hides_attach, state }
    }

    /// The filer's URL by this route.
    pub fn url(&self, filer: &Filer) -> String {
        filer.url.replace(&filer.port.to_string(), &self.port.to_string())
    }

    /// Loses the next call of this procedure; for ever where the filer is any server, else once.
    pub fn lose(&self, procedure: Procedure) {
        let mut state = self.state.lock().unwrap();
        (state.next, state.for_ever) = (Some(procedure), self.hides_attach);
    }

    /// The calls of a procedure so far.
    pub fn sendings(&self, procedure: Procedure) -> Vec<Sending> {
        self.state.lock().unwrap().sendings.iter().filter(|sending| sending.procedure == procedure).copied().collect()
    }
}

impl Drop for Swallow {
    fn drop(&mut self) {
        self.state = Arc::default();
        let _ = TcpStream::connect(("127.0.0.1", self.port)); // the thread that accepts ends
    }
}

fn forward(mut client: TcpStream, mut server: TcpStream, state: &Mutex<State>, hides_attach: bool) {
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let (mut from_server, mut to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from_server, &mut to_client);
        let _ = to_client.shutdown(Shutdown::Both);
    });
    let (mut buffer, mut chunk) = (Vec::new(), vec![0; 1 << 16]);
    while let Ok(bytes @ 1..) = client.read(&mut chunk) {
        buffer.extend_from_slice(&chunk[..bytes]);
        while let Framed::Record { body, consumed } = record::frame(&mut buffer, 2 << 20).unwrap() {
            let call = buffer[body].to_vec();
            let whole: Vec<u8> = buffer.drain(..consumed).collect();
            let header = CallHeader::decode(&mut Reader::new(&call)).unwrap();
            let sent = if header.program == channel1::PROGRAM && hides_attach {
                let mut refusal = Vec::new();
                let refused = ReplyHeader { xid: header.xid, status: ReplyStatus::ProgramUnavailable };
                encode_reply(&refused, &(), &mut refusal);
                client.write_all(&refusal)
            } else if is_lost(&header, &client, state) {
                Ok(())
            } else {
                server.write_all(&whole)
            };
            if sent.is_err() {
                break;
            }
        }
    }
    let _ = server.shutdown(Shutdown::Both);
}

fn is_lost(header: &CallHeader<'_>, client: &TcpStream, state: &Mutex<State>) -> bool {
    let Some(procedure) = Procedure::from_number(header.procedure).filter(|_| header.program == nfs3::PROGRAM) else {
        return false;
    };
    let mut state = state.lock().unwrap();
    let port = client.peer_addr().map_or(0, |peer| peer.port());
    state.sendings.push(Sending { procedure, xid: header.xid, port, at: Instant::now() });
    if state.next == Some(procedure) {
        state.next = None;
        if state.for_ever {
            state.lost.push(header.xid);
        }
        return true;
    }
    state.lost.contains(&header.xid)
}
