//! A server that lacks procedures: a proxy between client and filer that refuses calls of these
//! procedures, and forwards all others.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// NFS3ERR_NOTSUPP.
pub const NOT_SUPPORTED: u32 = 10_004;
const NFS: u32 = 100_003;

/// A procedure that is refused.
pub struct Refusal {
    procedure: u32,
    /// Words of the refusal's result.
    result: Vec<u32>,
    /// Number of calls that are forwarded first, and maximum number of refusals.
    after: usize,
    times: usize,
    seen: AtomicUsize,
}

impl Refusal {
    fn new(procedure: u32, result: Vec<u32>) -> Self {
        Self { procedure, result, after: 0, times: usize::MAX, seen: AtomicUsize::new(0) }
    }

    /// Refuses READDIRPLUS, without attributes of the directory.
    pub fn readdirplus(status: u32) -> Self {
        Self::new(17, vec![status, 0])
    }

    /// Refuses LINK, without attributes of the file and the directory.
    pub fn link(status: u32) -> Self {
        Self::new(15, vec![status, 0, 0, 0])
    }

    /// Refuses one RENAME with `status`, after `after` others. The reply has no attributes of the
    /// directories.
    pub fn one_rename(status: u32, after: usize) -> Self {
        Self { after, times: 1, ..Self::new(14, vec![status, 0, 0, 0, 0]) }
    }

    fn applies(&self, procedure: u32) -> bool {
        let refused = |seen: usize| seen >= self.after && seen - self.after < self.times;
        procedure == self.procedure && refused(self.seen.fetch_add(1, Ordering::SeqCst))
    }

    /// Number of calls of the procedure so far.
    pub fn seen(&self) -> usize {
        self.seen.load(Ordering::SeqCst)
    }
}

/// Forwards connections to a port of this host until dropped.
pub struct LesserServer {
    pub port: u16,
    pub refusals: Arc<Vec<Refusal>>,
    stop: Arc<AtomicBool>,
}

impl LesserServer {
    pub fn start(to: u16, refusals: Vec<Refusal>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (refusals, stop) = (Arc::new(refusals), Arc::new(AtomicBool::new(false)));
        let (rules, stopped) = (Arc::clone(&refusals), Arc::clone(&stop));
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(server) = TcpStream::connect(("127.0.0.1", to)) else { continue };
                connect(&Arc::new(Mutex::new(client)), server, &rules);
            }
        });
        Self { port, refusals, stop }
    }

    /// The URL of the real server, changed to go through this one.
    pub fn url(&self, behind: &str, port: u16) -> String {
        behind.replace(&port.to_string(), &self.port.to_string())
    }
}

impl Drop for LesserServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

/// Forwards complete records, so that no refusal comes in the middle of a reply.
fn connect(client: &Arc<Mutex<TcpStream>>, server: TcpStream, refusals: &Arc<Vec<Refusal>>) {
    let mut from_client = client.lock().unwrap().try_clone().unwrap();
    let (mut from_server, mut to_server) = (server.try_clone().unwrap(), server);
    let (rules, answers, replies) = (Arc::clone(refusals), Arc::clone(client), Arc::clone(client));
    std::thread::spawn(move || {
        while let Some(record) = receive(&mut from_client) {
            let sent = match refused(&record, &rules) {
                Some(reply) => send(&mut answers.lock().unwrap(), &reply),
                None => send(&mut to_server, &record),
            };
            if !sent {
                break;
            }
        }
        let _ = to_server.shutdown(Shutdown::Both);
    });
    std::thread::spawn(move || {
        while let Some(record) = receive(&mut from_server) {
            if !send(&mut replies.lock().unwrap(), &record) {
                break;
            }
        }
        let _ = replies.lock().unwrap().shutdown(Shutdown::Both);
    });
}

/// Receives a record, without its record marks.
fn receive(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut record = Vec::new();
    loop {
        let mut mark = [0; 4];
        stream.read_exact(&mut mark).ok()?;
        let mark = u32::from_be_bytes(mark);
        let start = record.len();
        record.resize(start + (mark & 0x7fff_ffff) as usize, 0);
        stream.read_exact(&mut record[start..]).ok()?;
        if mark >> 31 == 1 {
            return Some(record);
        }
    }
}

fn send(stream: &mut TcpStream, record: &[u8]) -> bool {
    let mark = (1 << 31 | record.len() as u32).to_be_bytes();
    stream.write_all(&[&mark, record].concat()).is_ok()
}

/// The reply to a refused call: xid, reply, accepted, no verifier, success, and the result.
fn refused(call: &[u8], refusals: &[Refusal]) -> Option<Vec<u8>> {
    let word = |at: usize| call.get(at * 4..at * 4 + 4).map(|bytes| u32::from_be_bytes(bytes.try_into().unwrap()));
    let procedure = word(5)?;
    let refusal = refusals.iter().find(|refusal| word(3) == Some(NFS) && refusal.applies(procedure))?;
    let words = [word(0)?, 1, 0, 0, 0, 0].into_iter().chain(refusal.result.iter().copied());
    Some(words.flat_map(u32::to_be_bytes).collect())
}
