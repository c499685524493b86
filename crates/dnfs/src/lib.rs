//! Direct NFS in user space: an NFSv3 client inside the process that uses it. Blocking, fork-aware, no helper threads.
//!
//! Three layers, over one object of the process:
//! - `rpc`: channels. A channel is one TCP connection, with or without TLS, driven by the caller that waits on it. It
//!   reconnects and resends unanswered calls, of any program: a `Route` names program, server and retry policy.
//! - [`Client`], an export as one version of the protocol accesses it ([`FileProtocol`]): typed calls, on a few channels per
//!   process. It waits for a server that does not respond, unless the mount is soft. `nfs3` is NFSv3, the one implementation, and the
//!   only folder that sees its structures; others see the types of [`mod@file`], which belong to no version.
//! - [`mount`]: the export as one file system for all processes of the user on this host, by a segment of shared memory.
//! - `process`: what exists once in a process: its identity, which a fork changes, its descriptors and its locks.
//!
//! It runs inside databases that fork and receive signals at any instruction. So it has no async runtime, does not allocate
//! while reading, writing or committing, and takes no lock that a signal handler could find taken. It caches no data, uses TCP
//! only, and never reports a lost write as success.
#![deny(unsafe_code)]

pub mod activity;
pub mod file;
pub mod limits;
pub mod mount;
pub mod options;
pub mod url;
pub mod user_namespace;

mod address;
mod call_notes;
mod client;
mod client_state;
mod credentials;
mod errno;
mod error;
mod event_count;
mod io_codec;
mod nfs3;
mod payload;
mod pipeline;
mod process;
mod protocol;
mod retention;
mod retry_outcome;
mod rpc;
mod segment;
#[cfg(test)]
mod sim;
mod slot_limiter;
#[allow(unsafe_code, reason = "system calls without libc's symbols: the only module with unsafe code")]
mod sys;

pub use address::{AddressSet, EndpointIndex};
pub use call_notes::CallInProgress;
pub use client::Client;
pub use client_state::{Counters, MountParts};
pub use credentials::Credentials;
pub use error::{Error, ProtocolError, ROOT_SQUASH_HINT};
pub use file::{Attributes, FileHandle, FileKind, FsError, SetAttributes, Stability, WriteVerifier};
pub use nfs3::export::exports;
pub use options::{ClosePolicy, GonePolicy, Options, StablePolicy, TransportSecurity};
pub use payload::LazyBuffer;
pub use pipeline::{Answer, Pipeline, Work};
pub use process::{expect_sharing, report_to, shares_memory};
pub use protocol::{FileProtocol, ReadDone, WriteDone};
pub use rpc::events::{Cause, Denial, Event, ProcedureName, UnansweredCall};
pub use slot_limiter::{CallFrame, begin_call, is_inside_call};
pub use sys::clock::cpu_time;
pub use sys::internal_fd::{is_internal_fd, lowest_internal_fd, move_internal_fd, set_internal_fd};
pub use sys::memory::available_bytes as available_memory;
pub use url::{NfsUrl, UrlError};
