//! What a child of a fork does before it uses anything of its parent.

use crate::{kernel_aio, mounts, shared_maps, table};

/// Called in the child of a fork, which must not use the parent's sockets.
pub(crate) extern "C" fn in_child() {
    table::note_copies();
    kernel_aio::after_fork_child();
    shared_maps::after_fork_child();
    mounts::after_fork_child();
}
