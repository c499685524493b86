//! The filer daemon: sockets, exports, NFS handlers over a volume, admin socket.
