//! Portmap over UDP (RFC 1833 3). libtirpc uses it, and so do `showmount` and `rpcinfo`.
//!
//! Only clients that a rule names get an answer. So an attacker with a forged source address cannot make the filer send replies to any
//! victim.

use std::io;
use std::net::UdpSocket;
use std::sync::Arc;

use nfs_proto::portmap2;

use crate::limits::{PORTMAP_DATAGRAM_BYTES_MAX, STACK_BYTES};
use crate::listener::ListenerRole;
use crate::nfs::call::Call;
use crate::nfs::dispatch;
use crate::nfs::filer::Filer;
use crate::nfs::policy::Peer;

/// Size of the record mark, which datagrams do not have (RFC 5531 11).
const RECORD_MARK_BYTES: usize = 4;

/// Starts a thread that answers calls until the process ends.
///
/// # Errors
/// No thread could be started.
pub fn serve(socket: UdpSocket, filer: Arc<Filer>) -> io::Result<()> {
    let thread = std::thread::Builder::new().name("portmap".into()).stack_size(STACK_BYTES);
    thread.spawn(move || answer_all(&socket, &filer)).map(drop)
}

fn answer_all(socket: &UdpSocket, filer: &Filer) {
    let (mut datagram, mut out) = ([0; PORTMAP_DATAGRAM_BYTES_MAX], Vec::new());
    loop {
        // An error belongs to an earlier reply (ICMP: port unreachable).
        let Ok((bytes, from)) = socket.recv_from(&mut datagram) else { continue };
        let peer = Peer::at(from, ListenerRole::Portmap);
        let call = datagram.get(..bytes).and_then(Call::parse).filter(|call| call.program() == portmap2::PROGRAM);
        let Some(call) = call.filter(|_| filer.names(peer.address)) else { continue };
        out.clear();
        // Portmap calls do not wait, and leave no flush for later.
        let _ = dispatch::serve_call(filer, &filer.view(peer), &call, &mut out);
        if let Some(reply) = out.get(RECORD_MARK_BYTES..) {
            let _ = socket.send_to(reply, from);
        }
    }
}
