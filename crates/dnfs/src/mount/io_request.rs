//! Reads and writes that [`super::AsyncIo`] takes, and their results.

use std::io::{IoSlice, IoSliceMut};

use crate::sys::atomic::AtomicU32;

use super::FileRef;
use crate::error::Error;
use crate::file::Stability;

/// A read or a write.
#[derive(Debug)]
pub struct IoRequest<'a> {
    /// Identifies the request for the caller.
    pub token: u64,
    /// The file. It stays open until the request is done.
    pub file: FileRef,
    /// Position in the error sequence of a description that may write, as for [`super::Mount::read_to_change`].
    pub cursor: Option<&'a AtomicU32>,
    /// First byte.
    pub offset: u64,
    /// What to do.
    pub work: IoWork<'a>,
}

/// What to do with the bytes from an offset on.
#[derive(Debug)]
pub enum IoWork<'a> {
    /// Read the bytes into these buffers, one after the other.
    Read(Vec<IoSliceMut<'a>>),
    /// Write the bytes of these buffers, one after the other.
    Write(Vec<IoSlice<'a>>, Stability),
}

/// Result of offering a request.
#[derive(Debug)]
pub enum Offered<'a> {
    /// The request is accepted.
    Taken,
    /// The request must wait until one in flight is done.
    Full(IoRequest<'a>),
    /// The caller must use the blocking calls for the request while no request is in flight.
    Alone(IoRequest<'a>),
}

/// A finished request: its token and the result that the blocking call would have returned; or the request itself, for the
/// blocking call.
#[derive(Debug)]
pub enum Finished<'a> {
    /// The request is done.
    Done(u64, Result<usize, Error>),
    /// The caller must use the blocking calls for the request.
    Alone(IoRequest<'a>),
}
