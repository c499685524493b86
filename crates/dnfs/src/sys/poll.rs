//! Waiting for a socket that another thread may close meanwhile.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::BorrowedFd;
use std::time::Duration;

/// Whether the socket with this number has something to receive. Waits for `longest` at most. Also true if no descriptor has the
/// number, so that the caller's receive reports that. False if a signal ended the wait.
pub(crate) fn is_readable(socket: i32, longest: Duration) -> bool {
    if socket < 0 {
        return true;
    }
    // SAFETY: the number is only polled. Poll reports a number that no descriptor has, and answers for what has it now.
    let socket = unsafe { BorrowedFd::borrow_raw(socket) };
    let longest = Timespec { tv_sec: longest.as_secs() as i64, tv_nsec: longest.subsec_nanos().into() };
    let mut polled = [PollFd::from_borrowed_fd(socket, PollFlags::IN)];
    poll(&mut polled, Some(&longest)).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_socket_is_readable_once_something_was_sent_or_it_is_closed() {
        let (here, mut there) = UnixStream::pair().unwrap();
        assert!(!is_readable(here.as_raw_fd(), Duration::ZERO));
        there.write_all(b"x").unwrap();
        assert!(is_readable(here.as_raw_fd(), Duration::from_secs(5)));
        assert!(is_readable(1 << 30, Duration::ZERO));
    }
}
