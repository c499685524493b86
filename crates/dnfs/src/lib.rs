//! Direct NFS in user space: an NFSv3 client inside the process that uses it. Blocking, fork-aware, no helper threads.
//!
//! Three layers, over one object of the process:
//! - `rpc`: channels. A channel is one TCP connection, with or without TLS, driven by the caller that waits on it. It
//!   reconnects and resends unanswered calls, of any program: a `Route` names program, server and retry policy.
//! - `nfs3`: [`Client`], the procedures of one export, typed, on a few channels per process. It waits for a server that does not
//!   respond, unless the mount is soft. Only this folder sees structures of NFSv3; others see the types of [`mod@file`], which belong
//!   to no version.
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
mod credentials;
mod errno;
mod error;
mod event_count;
mod nfs3;
mod payload;
mod process;
mod retention;
mod retry_outcome;
mod rpc;
mod segment;
mod slot_limiter;
#[allow(unsafe_code, reason = "system calls without libc's symbols: the only module with unsafe code")]
mod sys;

pub use address::AddressSet;
pub use call_notes::CallInProgress;
pub use credentials::Credentials;
pub use error::{Error, ProtocolError, ROOT_SQUASH_HINT};
pub use file::{Attributes, FileHandle, FileKind, FsError, SetAttributes, Stability, WriteVerifier};
pub use nfs3::client::{Client, Counters, MountParts};
pub use nfs3::export::exports;
pub use nfs3::io::{ReadDone, WriteDone};
pub use nfs3::pipeline::{Answer, Pipeline, Work};
pub use options::{ClosePolicy, GonePolicy, Options, StablePolicy, TransportSecurity};
pub use payload::LazyBuffer;
pub use process::{expect_sharing, report_to, shares_memory};
pub use rpc::events::{Cause, Denial, Event, ProcedureName, UnansweredCall};
pub use slot_limiter::{CallFrame, begin_call, is_inside_call};
pub use sys::clock::cpu_time;
pub use sys::internal_fd::{is_internal_fd, lowest_internal_fd, move_internal_fd, set_internal_fd};
pub use sys::memory::available_bytes as available_memory;
pub use url::{NfsUrl, UrlError};
