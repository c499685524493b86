//! Direct NFS in user space: an NFSv3 client inside the process that uses it. Blocking, fork-aware, no helper threads.
//!
//! Three layers. The *channel* is one TCP connection, driven by whoever waits on it. The [`Client`] has every procedure,
//! typed, on a few channels per process, and waits for a server that is away. The mount is what several processes see as
//! one file system.
//!
//! It lives in databases that fork and take signals at any instruction: no async runtime, no allocation while reading,
//! writing or committing, no lock that a signal handler could find taken.
#![deny(unsafe_code)]

pub mod activity;
pub mod file;
pub mod limits;
pub mod mount;
pub mod options;
pub mod url;

mod address;
mod client;
mod client_directory;
mod client_io;
mod client_names;
mod credentials;
mod error;
mod event_count;
mod export;
mod nfs3_types;
mod pipeline;
mod retry_outcome;
mod rpc;
mod segment;
mod single_call;
mod slot_limiter;
#[allow(unsafe_code, reason = "system calls without libc's symbols: the only module with unsafe code")]
mod sys;

pub use address::AddressSet;
pub use client::{Client, Counters, MountParts};
pub use client_io::{ReadDone, WriteDone};
pub use credentials::Credentials;
pub use error::{Error, ProtocolError};
pub use export::exports;
pub use file::{Attributes, FileHandle, FileKind, FsError, SetAttributes, Stability, WriteVerifier};
pub use options::{Options, StablePolicy, TransportSecurity};
pub use pipeline::{Answer, Pipeline, Work};
pub use rpc::events::{Cause, Event, report_to};
pub use sys::clock::cpu_time;
pub use sys::internal_fd::is_internal_fd;
pub use url::{NfsUrl, UrlError};
