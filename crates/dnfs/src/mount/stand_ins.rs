//! Names, in the runtime directory, of what stands for the FIFOs and sockets of a mount. The preload library makes them.

/// How the name of a FIFO begins that stands for one of the server.
pub const STAND_IN_FIFO: &str = "fifo-";
/// The same of a socket.
pub const STAND_IN_SOCKET: &str = "sock-";
/// What follows the name of a socket in that of the link whose text is the path that a program bound.
pub const SOCKET_NAME_SUFFIX: &str = ".path";
