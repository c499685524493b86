//! The network namespace of the calling thread, whether it has a device to other hosts, and whether the process may send at all.

use super::local_file::{open_array, read};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType, recv, send, sendmsg, socketpair,
};
use std::io::IoSlice;

/// Devices that the kernel makes in every network namespace: the loopback, and those of tunnel modules that are loaded.
const OF_EVERY_NAMESPACE: [&[u8]; 10] =
    [b"lo", b"tunl0", b"gre0", b"gretap0", b"erspan0", b"ip_vti0", b"ip6_vti0", b"sit0", b"ip6tnl0", b"ip6gre0"];

/// The inode number of the network namespace; `None` if it is unknown.
pub(crate) fn own_namespace() -> Option<u64> {
    rustix::fs::stat(c"/proc/thread-self/ns/net").ok().map(|found| found.st_ino)
}

/// Whether the namespace has a device to other hosts, up or down. True if that is unknown.
pub(crate) fn has_device() -> bool {
    let mut list = [0; 4096];
    let Ok(file) = open_array(b"/proc/thread-self/net/dev\0", libc::O_RDONLY, 0) else { return true };
    let mut end = 0;
    while let Some(free) = list.get_mut(end..).filter(|free| !free.is_empty()) {
        match read(&file, free) {
            Ok(0) => break,
            Ok(bytes) => end += bytes,
            Err(_) => return true,
        }
    }
    has_device_in(list.get(..end).unwrap_or_default())
}

/// Whether a send or a receive between two sockets of this process fails with this errno. If so, the network is not the
/// cause.
pub(crate) fn is_traffic_refused(errno: i32) -> bool {
    let is_it = |refused: rustix::io::Errno| refused.raw_os_error() == errno;
    let (one, other) = match socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None) {
        Ok(pair) => pair,
        Err(refused) => return is_it(refused),
    };
    let sent = send(&one, b"x", SendFlags::NOSIGNAL);
    let gathered = sendmsg(&one, &[IoSlice::new(b"x")], &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL);
    let received = recv(&other, &mut [0; 1], RecvFlags::DONTWAIT).map(|(_, bytes)| bytes);
    [sent, gathered, received].into_iter().filter_map(Result::err).any(is_it)
}

/// As [`has_device`], for the text of `/proc/net/dev`: two lines of headings, then `NAME: counters` in each.
fn has_device_in(list: &[u8]) -> bool {
    let name = |line: &[u8]| -> Option<bool> {
        let name = line.get(..line.iter().position(|byte| *byte == b':')?)?.trim_ascii();
        Some(!OF_EVERY_NAMESPACE.contains(&name))
    };
    list.split(|byte| *byte == b'\n').filter_map(name).any(|leads_out| leads_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADINGS: &str = "Inter-|   Receive\n face |bytes    packets\n";

    #[test]
    fn a_namespace_with_devices_of_every_namespace_alone_leads_nowhere() {
        let list = |lines: &str| has_device_in(format!("{HEADINGS}{lines}").as_bytes());
        assert!(!list(""));
        assert!(!list("    lo:       0       0\n  sit0:       0       0\n"));
        assert!(list("    lo:       0       0\n  eth0: 1296       9\n"));
        assert!(list("veth1a2b3c: 1296       9\n"));
    }

    #[test]
    fn a_process_may_send_to_itself() {
        assert!(!is_traffic_refused(libc::EACCES));
    }

    #[test]
    fn the_namespace_of_a_process_is_known() {
        assert!(own_namespace().is_some_and(|inode| inode > 0));
    }
}
