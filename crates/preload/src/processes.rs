//! New processes: a child of vfork shares our memory, so it is a child of fork.

use crate::hook::hooks;
use crate::outcome::{Out, kept};
use libc::pid_t;

hooks! {
    /// fork(2): libc's own; here for vfork.
    fn fork() -> pid_t { Err(Out::Pass) }
    /// vfork(2): what the child does before exec would be done to our table as well.
    fn vfork() -> pid_t { kept(fork::real()) }
}
