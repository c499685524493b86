//! The interface between the RPC engine and the callers.

use super::fault::Fault;
use super::io_slices::{ReceiveList, SendList};
use crate::file::Attributes;
use nfs_proto::xdr::{Reader, Writer};
use std::ops::Range;

/// The head of the reply to a READ whose data is received directly into the caller's buffers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadHead {
    pub(crate) xid: u32,
    /// Bytes of the data.
    pub(crate) data_bytes: usize,
    /// Bytes of data and padding, which follow the head.
    pub(crate) rest_bytes: usize,
    /// Whether the data reaches the end of the file.
    pub(crate) eof: bool,
    pub(crate) attributes: Option<Attributes>,
}

/// The calls of one run: all of one procedure, each with a number that is unique among the calls in flight.
///
/// A batch makes all its calls at once; a pipeline makes another as soon as one is answered.
pub(crate) trait Calls {
    /// Whether each call is sent before the next one is requested; [`Self::sending`] is not called then.
    const ONE_BY_ONE: bool = false;

    /// The next call to make. `None` if there is no call at the moment. Called before each send, with the number of calls in
    /// flight. If there will be more calls later, it may return `None` only while some are in flight.
    fn next_call(&mut self, in_flight: usize) -> Option<usize>;

    /// Number of the procedure.
    fn procedure(&self) -> u32;

    /// Appends the arguments of a call, up to its payload. Called again for a resend.
    fn encode(&self, call: usize, out: &mut Writer<'_>);

    /// Bytes of a WRITE's payload; the engine adds the padding.
    fn payload_bytes(&self, _call: usize) -> usize {
        0
    }

    /// Number of buffers that hold the payload of a WRITE.
    fn payload_segments(&self) -> usize {
        0
    }

    /// Appends these bytes of a WRITE's payload. False if they did not all fit into the list.
    fn push_payload<'a, const N: usize>(&'a self, _call: usize, _part: Range<usize>, _list: &mut SendList<'a, N>) -> bool {
        true
    }

    /// Called before the calls made since the last time are sent.
    fn sending(&mut self) {}

    /// Bytes that the data of a READ may have.
    fn target_bytes(&self, _call: usize) -> usize {
        0
    }

    /// Number of buffers for the data of a READ.
    fn target_segments(&self) -> usize {
        0
    }

    /// Appends the buffers for these bytes of a READ's data. False if they did not all fit into the list.
    fn push_target<'a, const N: usize>(&'a mut self, _call: usize, _part: Range<usize>, _list: &mut ReceiveList<'a, N>) -> bool {
        true
    }

    /// Copies the first bytes of a READ's target.
    fn copy_target(&self, _call: usize, _to: &mut [u8]) {}

    /// Bytes before the data in the usual reply of a READ, so that its data may be received directly into the caller's buffers. 0
    /// if the replies are not those of READ.
    fn read_head_bytes(&self) -> usize {
        0
    }

    /// Reads the first [`Self::read_head_bytes`] of a reply to a READ with at most `data_bytes_max` bytes of data. `None` if it has
    /// another layout.
    fn read_head(&self, _bytes: &[u8], _data_bytes_max: usize) -> Option<ReadHead> {
        None
    }

    /// Called when the data of a READ is in its target.
    fn received(&mut self, _call: usize, _head: &ReadHead) {}

    /// Takes the results of a call, from its status on, where they were received.
    fn reply(&mut self, call: usize, results: &mut Reader<'_>) -> Result<(), Fault>;
}
