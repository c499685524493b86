//! What the RPC engine asks of those who make calls.

use super::fault::Fault;
use super::io_slices::{ReceiveList, SendList};
use nfs_proto::nfs3::ReadOkHead;
use nfs_proto::xdr::{Reader, Writer};
use std::ops::Range;

/// The calls of one run: all of one procedure, each with a number that no other call in flight has.
///
/// A batch makes all its calls at once; a pipeline makes another as soon as one is answered.
pub(crate) trait Calls {
    /// Whether replies are those of READ, and their data may be received straight into the caller's buffers.
    const TARGETS: bool = false;
    /// Whether each call is sent before the next is asked for; [`Self::sending`] is not told.
    const ONE_BY_ONE: bool = false;

    /// The next call to be made; none when there is none for now. Asked before each send, with the number of calls that are
    /// in flight; a maker that has more to send later may return none only while some are.
    fn next_call(&mut self, in_flight: usize) -> Option<usize>;

    /// Number of the procedure.
    fn procedure(&self) -> u32;

    /// Appends the arguments of a call, up to its payload. Called again when the call has to be sent again.
    fn encode(&self, call: usize, out: &mut Writer<'_>);

    /// Bytes of a WRITE's payload; the engine adds the padding.
    fn payload_bytes(&self, _call: usize) -> usize {
        0
    }

    /// Buffers the payloads of WRITEs are gathered from.
    fn payload_segments(&self) -> usize {
        0
    }

    /// Appends these bytes of a WRITE's payload; false when they did not all fit the list.
    fn push_payload<'a, const N: usize>(&'a self, _call: usize, _part: Range<usize>, _list: &mut SendList<'a, N>) -> bool {
        true
    }

    /// The calls made since the last time are sent now.
    fn sending(&mut self) {}

    /// Bytes that the data of a READ may have.
    fn target_bytes(&self, _call: usize) -> usize {
        0
    }

    /// Buffers the data of READs is spread over.
    fn target_segments(&self) -> usize {
        0
    }

    /// Appends the buffers for these bytes of a READ's data; false when they did not all fit the list.
    fn push_target<'a, const N: usize>(&'a mut self, _call: usize, _part: Range<usize>, _list: &mut ReceiveList<'a, N>) -> bool {
        true
    }

    /// Copies the first bytes of a READ's target.
    fn copy_target(&self, _call: usize, _to: &mut [u8]) {}

    /// The data of a READ is in its target.
    fn received(&mut self, _call: usize, _head: &ReadOkHead) {}

    /// The results of a call, from its status on, where they were received.
    fn reply(&mut self, call: usize, results: &mut Reader<'_>) -> Result<(), Fault>;
}
