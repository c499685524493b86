//! A middlebox between client and filer that delays bytes for as long as a test wants. It shows
//! what a failing route, or a stopped host, does to a connection that its client has given up.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Forwards connections to a port of this host until dropped.
pub struct Proxy {
    pub port: u16,
    lanes: Arc<Mutex<Vec<Arc<Lane>>>>,
    stop: Arc<AtomicBool>,
    most: Arc<AtomicUsize>,
}

/// One connection.
pub struct Lane {
    towards: Mutex<Towards>,
    ended: AtomicBool,
}

struct Towards {
    server: TcpStream,
    held: bool,
    stored: Vec<u8>,
    client_left: bool,
}

impl Proxy {
    pub fn start(to: u16) -> Self {
        Self::start_for(to, usize::MAX)
    }

    /// As [`Self::start`], for at most this many connections at a time. More are ended as soon as
    /// they are made.
    pub fn start_for(to: u16, most: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (lanes, stop) = (Arc::<Mutex<Vec<Arc<Lane>>>>::default(), Arc::new(AtomicBool::new(false)));
        let most = Arc::new(AtomicUsize::new(most));
        let (all, stopped, limit) = (Arc::clone(&lanes), Arc::clone(&stop), Arc::clone(&most));
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                let mut lanes = all.lock().unwrap();
                lanes.retain(|lane| !lane.ended.load(Ordering::SeqCst));
                if lanes.len() >= limit.load(Ordering::SeqCst) {
                    continue;
                }
                let Ok(server) = TcpStream::connect(("127.0.0.1", to)) else { continue };
                server.set_nodelay(true).unwrap();
                client.set_nodelay(true).unwrap();
                lanes.push(Lane::start(client, server));
            }
        });
        Self { port, lanes, stop, most }
    }

    /// Ends all connections, and refuses others until [`Self::join`].
    pub fn cut(&self) {
        // New connections are also made under this lock.
        let lanes = self.lanes.lock().unwrap();
        self.most.store(0, Ordering::SeqCst);
        for lane in lanes.iter() {
            let _ = lane.towards.lock().unwrap().server.shutdown(Shutdown::Both);
        }
    }

    /// Forwards connections again.
    pub fn join(&self) {
        self.most.store(usize::MAX, Ordering::SeqCst);
    }

    /// Holds back what clients send on the existing connections. Later connections are forwarded.
    pub fn hold(&self) -> Vec<Arc<Lane>> {
        let lanes = self.lanes.lock().unwrap().clone();
        lanes.iter().for_each(|lane| lane.towards.lock().unwrap().held = true);
        lanes
    }
}

impl Lane {
    fn start(client: TcpStream, server: TcpStream) -> Arc<Self> {
        let (mut from_client, mut from_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        let towards = Mutex::new(Towards { server, held: false, stored: Vec::new(), client_left: false });
        let lane = Arc::new(Self { towards, ended: AtomicBool::new(false) });
        let (there, back) = (Arc::clone(&lane), Arc::clone(&lane));
        std::thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            while let Ok(bytes @ 1..) = from_client.read(&mut buffer) {
                let mut towards = there.towards.lock().unwrap();
                if towards.held {
                    towards.stored.extend_from_slice(&buffer[..bytes]);
                } else if towards.server.write_all(&buffer[..bytes]).is_err() {
                    break;
                }
            }
            let mut towards = there.towards.lock().unwrap();
            towards.client_left = true;
            if !towards.held {
                let _ = towards.server.shutdown(Shutdown::Write);
            }
        });
        std::thread::spawn(move || {
            let (mut buffer, mut client) = (vec![0; 1 << 16], client);
            while let Ok(bytes @ 1..) = from_server.read(&mut buffer) {
                // A client that has left takes no replies, but the server must still be read.
                let _ = client.write_all(&buffer[..bytes]);
            }
            let _ = client.shutdown(Shutdown::Both);
            back.ended.store(true, Ordering::SeqCst);
        });
        lane
    }

    /// Number of bytes held so far.
    pub fn stored(&self) -> usize {
        self.towards.lock().unwrap().stored.len()
    }

    /// Whether the client has closed the connection.
    pub fn client_left(&self) -> bool {
        self.towards.lock().unwrap().client_left
    }

    /// Forwards what was held.
    pub fn release(&self) {
        let mut towards = self.towards.lock().unwrap();
        towards.held = false;
        let stored = std::mem::take(&mut towards.stored);
        let _ = towards.server.write_all(&stored);
        if towards.client_left {
            let _ = towards.server.shutdown(Shutdown::Write);
        }
    }

    /// Whether the server has ended the connection, so that everything that came on it is done or dropped.
    pub fn ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        for lane in self.lanes.lock().unwrap().iter() {
            let _ = lane.towards.lock().unwrap().server.shutdown(Shutdown::Both);
        }
    }
}
