//! XDR, ONC RPC, portmap, MOUNT v3 and NFS v3: codecs and session state, no I/O.
