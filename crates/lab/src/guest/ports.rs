//! The ports between a guest and this process: output, errors, one line when it has started, and the input of this process.
//!
//! Each is a socket in the work directory that QEMU connects to, and a virtio-serial port in the guest, with these numbers.

use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::thread;

use crate::error::LabError;
use crate::guest::marker::UntilMark;
use crate::guest::work::Work;

/// Names of the sockets; the port's number is one more than the index.
const NAMES: [&str; 4] = ["out", "err", "up", "in"];
/// Bytes read at once: the maximum of a port.
const PIECE_BYTES: usize = 32 << 10;
/// Longest line of a guest that has started: seconds since its start.
const UP_BYTES_MAX: u64 = 64;

/// Events of the guest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Event {
    /// It has its root and network; seconds by its own clock.
    Up(f64),
    /// One of the two streams is complete, with the exit code.
    Ended(u8),
    /// One of them ended without an exit code: the guest is gone.
    Cut,
    /// Its output cannot be written any more.
    Unwritable,
}

/// The sockets before QEMU connects.
pub(crate) struct Listeners {
    listeners: Vec<UnixListener>,
    streams: Vec<UnixStream>,
    pub(crate) paths: Vec<PathBuf>,
}

impl Listeners {
    pub(crate) fn make(work: &Work) -> Result<Self, LabError> {
        let paths: Vec<PathBuf> = NAMES.iter().map(|name| work.path(name)).collect();
        let mut listeners = Vec::new();
        for path in &paths {
            let listener = UnixListener::bind(path).and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
            listeners.push(listener.map_err(LabError::file("listen on", path))?);
        }
        Ok(Self { listeners, streams: Vec::new(), paths })
    }

    /// Accepts the connections so far. Returns whether all ports are connected.
    pub(crate) fn accept(&mut self) -> Result<bool, LabError> {
        while let Some(listener) = self.listeners.get(self.streams.len()) {
            match listener.accept() {
                Ok((stream, _)) => self.streams.push(stream),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(LabError::file("listen on", &self.paths[self.streams.len()])(error)),
            }
        }
        Ok(true)
    }

    /// Starts the transfer. Output goes to these two writers, up to the mark.
    pub(crate) fn carry(self, mark: &str, input: bool, to: [Box<dyn Write + Send>; 2], events: &Sender<Event>) {
        let Ok([out, err, up, into]) = <[UnixStream; 4]>::try_from(self.streams) else {
            unreachable!("every port was accepted before");
        };
        for (stream, to) in [out, err].into_iter().zip(to) {
            let (mark, events) = (UntilMark::new(mark), events.clone());
            thread::spawn(move || {
                let _ = events.send(copy(stream, mark, to)); // nobody waits for it any more: the run was ended
            });
        }
        let events = events.clone();
        thread::spawn(move || {
            if let Some(seconds) = read_up(up) {
                let _ = events.send(Event::Up(seconds));
            }
        });
        if input {
            thread::spawn(move || feed(&into));
        }
    }
}

/// Passes output on until its end.
fn copy(mut from: UnixStream, mut until: UntilMark, mut to: Box<dyn Write + Send>) -> Event {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let count = match from.read(&mut piece) {
            Ok(0) | Err(_) => {
                return if until.finish(&mut *to).and_then(|()| to.flush()).is_ok() { Event::Cut } else { Event::Unwritable };
            }
            Ok(count) => count,
        };
        let taken = until.take(&piece[..count], &mut *to).and_then(|code| to.flush().map(|()| code));
        match taken {
            Ok(Some(code)) => return Event::Ended(code),
            Ok(None) => {}
            Err(_) => return Event::Unwritable,
        }
    }
}

fn read_up(from: UnixStream) -> Option<f64> {
    let mut text = String::new();
    BufReader::new(from.take(UP_BYTES_MAX)).read_line(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Passes the standard input of this process to the guest, including its end.
fn feed(mut to: &UnixStream) {
    let mut piece = vec![0; PIECE_BYTES];
    while let Ok(count @ 1..) = io::stdin().lock().read(&mut piece) {
        if to.write_all(&piece[..count]).is_err() {
            return;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
    // Closing the complete socket would make QEMU drop the bytes that it has not read yet.
    let _ = to.read(&mut piece);
}
