//! A route to a server that loses calls: one call of a procedure, and all later calls with its xid.
//! It can hide the private program of Millrace's filer, so that its clients treat the filer like
//! any other server. It can also stop delivering.

use super::any_server::AnyServer;
use super::namespaces::within;
use nfs_proto::channel1;
use nfs_proto::nfs3::{self, Procedure};
use nfs_proto::record::{self, Framed};
use nfs_proto::rpc::{CallHeader, ReplyHeader, ReplyStatus, Xid, encode_reply};
use nfs_proto::xdr::{Decode, Reader};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

/// An NFS call that came from a client.
#[derive(Clone, Copy, Debug)]
pub struct Sending {
    pub procedure: Procedure,
    pub xid: Xid,
    pub port: u16,
    pub at: Instant,
}

/// The calls to lose, and the calls that came.
#[derive(Default)]
struct State {
    next: Option<Procedure>,
    lost: Vec<Xid>,
    sendings: Vec<Sending>,
    stands_still: bool,
    over: bool,
}

/// What the connections of a route share.
struct Shared {
    /// Whether the route loses every sending of a call, and not only the first.
    for_ever: bool,
    hides_attach: bool,
    state: Mutex<State>,
    goes_on: Condvar,
}

/// The route. Dropping it ends the route.
pub struct Swallow {
    pub port: u16,
    inside: Option<u32>,
    shared: Arc<Shared>,
}

impl Swallow {
    /// A route that loses every sending of a call. It hides the filer's program CHANNEL, so that
    /// clients treat the filer like any other server.
    pub fn for_ever(server: &AnyServer) -> Self {
        Self::start(server, true, true)
    }

    /// A route that loses the first sending of a call.
    pub fn once(server: &AnyServer) -> Self {
        Self::start(server, false, false)
    }

    fn start(server: &AnyServer, for_ever: bool, hides_attach: bool) -> Self {
        let (inside, to) = (server.inside(), server.port());
        let listener = within(inside, || TcpListener::bind("127.0.0.1:0")).unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared { for_ever, hides_attach, state: Mutex::default(), goes_on: Condvar::new() });
        let of_all = Arc::clone(&shared);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let shared = Arc::clone(&of_all);
                if shared.state.lock().unwrap().over {
                    return;
                }
                let Ok(server) = within(inside, || TcpStream::connect(("127.0.0.1", to))) else { continue };
                std::thread::spawn(move || forward(client, server, &shared));
            }
        });
        Self { port, inside, shared }
    }

    /// The server's URL through this route.
    pub fn url(&self, server: &AnyServer) -> String {
        let (direct, routed) = (server.port().to_string(), self.port.to_string());
        match server.inside() {
            None => server.url.replace(&direct, &routed),
            Some(_) => server.url.replace(&format!("nfsport={direct}"), &format!("nfsport={routed}")),
        }
    }

    /// Loses the next call of this procedure.
    pub fn lose(&self, procedure: Procedure) {
        self.shared.state.lock().unwrap().next = Some(procedure);
    }

    /// Stops delivery in both directions, until a call with false.
    pub fn stand_still(&self, still: bool) {
        self.shared.state.lock().unwrap().stands_still = still;
        self.shared.goes_on.notify_all();
    }

    /// All sendings of a procedure so far.
    pub fn sendings(&self, procedure: Procedure) -> Vec<Sending> {
        self.shared.state.lock().unwrap().sendings.iter().filter(|sending| sending.procedure == procedure).copied().collect()
    }
}

impl Drop for Swallow {
    fn drop(&mut self) {
        self.stand_still(false);
        self.shared.state.lock().unwrap().over = true;
        let _ = within(self.inside, || TcpStream::connect(("127.0.0.1", self.port))); // the thread that accepts ends
    }
}

impl Shared {
    /// Waits while delivery is stopped.
    fn pass(&self) {
        let state = self.state.lock().unwrap();
        drop(self.goes_on.wait_while(state, |state| state.stands_still).unwrap());
    }
}

fn forward(mut client: TcpStream, mut server: TcpStream, shared: &Arc<Shared>) {
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let (mut from_server, mut to_client, back) = (server.try_clone().unwrap(), client.try_clone().unwrap(), Arc::clone(shared));
    std::thread::spawn(move || {
        let mut chunk = vec![0; 1 << 16];
        while let Ok(bytes @ 1..) = from_server.read(&mut chunk) {
            back.pass();
            if to_client.write_all(&chunk[..bytes]).is_err() {
                break;
            }
        }
        let _ = to_client.shutdown(Shutdown::Both);
    });
    let (mut buffer, mut chunk) = (Vec::new(), vec![0; 1 << 16]);
    while let Ok(bytes @ 1..) = client.read(&mut chunk) {
        shared.pass();
        buffer.extend_from_slice(&chunk[..bytes]);
        while let Framed::Record { body, consumed } = record::frame(&mut buffer, 2 << 20).unwrap() {
            let call = buffer[body].to_vec();
            let whole: Vec<u8> = buffer.drain(..consumed).collect();
            let header = CallHeader::decode(&mut Reader::new(&call)).unwrap();
            let sent = if header.program == channel1::PROGRAM && shared.hides_attach {
                let mut refusal = Vec::new();
                let refused = ReplyHeader { xid: header.xid, status: ReplyStatus::ProgramUnavailable };
                encode_reply(&refused, &(), &mut refusal);
                client.write_all(&refusal)
            } else if is_lost(&header, &client, shared) {
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

fn is_lost(header: &CallHeader<'_>, client: &TcpStream, shared: &Shared) -> bool {
    let Some(procedure) = Procedure::from_number(header.procedure).filter(|_| header.program == nfs3::PROGRAM) else {
        return false;
    };
    let mut state = shared.state.lock().unwrap();
    let port = client.peer_addr().map_or(0, |peer| peer.port());
    state.sendings.push(Sending { procedure, xid: header.xid, port, at: Instant::now() });
    if state.next == Some(procedure) {
        state.next = None;
        if shared.for_ever {
            state.lost.push(header.xid);
        }
        return true;
    }
    state.lost.contains(&header.xid)
}
