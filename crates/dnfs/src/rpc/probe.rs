//! Probes a server that leaves a call unanswered: sends NULL on a connection of its own.
//!
//! The call is sent in the clear and without credentials, so that it needs no handshake and allocates nothing. Any reply with its
//! xid is an answer.

use crate::limits::PROBE_ANSWER_MS;
use crate::sys::connect::Connect;
use crate::sys::poll;
use crate::sys::random::random;
use crate::sys::socket::Socket;
use nfs_proto::record::{LAST_FRAGMENT, MARK_BYTES};
use nfs_proto::rpc::RPC_VERSION;
use rustix::fd::AsRawFd as _;
use std::io::IoSlice;
use std::time::{Duration, Instant};

/// Words of the call after the record mark: xid, CALL, RPC version, program, version, procedure 0, twice AUTH_NONE of no bytes
/// (RFC 5531 9).
const CALL_WORDS: usize = 10;
const CALL_BYTES: usize = MARK_BYTES + 4 * CALL_WORDS;

/// Whether the server answers NULL of this program and version within [`PROBE_ANSWER_MS`].
pub(super) fn null_is_answered(how: &Connect, program: (u32, u32)) -> bool {
    how.connect().is_ok_and(|socket| {
        let answered = exchange(&socket, program).is_some();
        socket.abort();
        answered
    })
}

fn exchange(socket: &Socket, (program, version): (u32, u32)) -> Option<()> {
    let xid = random() as u32;
    let words = [xid, 0, RPC_VERSION, program, version, 0, 0, 0, 0, 0];
    let mut call = [0; CALL_BYTES];
    let mark = LAST_FRAGMENT | (4 * CALL_WORDS) as u32;
    for (place, word) in call.as_chunks_mut::<4>().0.iter_mut().zip([mark].into_iter().chain(words)) {
        *place = word.to_be_bytes();
    }
    if socket.send(&[IoSlice::new(&call)]).ok()? < CALL_BYTES {
        return None;
    }
    let mut head = [0; MARK_BYTES + 4];
    let mut end = 0;
    let until = Instant::now() + Duration::from_millis(PROBE_ANSWER_MS);
    while let Some(free) = head.get_mut(end..).filter(|free| !free.is_empty()) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        // The wait ends early at a signal. The receive itself waits for 250 ms at most.
        if poll::is_readable(socket.descriptor().as_raw_fd(), left) {
            end += socket.receive(free).ok().filter(|bytes| *bytes > 0)?;
        }
    }
    (head.get(MARK_BYTES..)? == xid.to_be_bytes()).then_some(())
}
