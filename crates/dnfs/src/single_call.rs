//! One call without payload: its exchange, and the way services take that are only called while mounting.

use crate::error::Error;
use crate::rpc::channel::{Channel, Exchange};
use crate::rpc::fault::Fault;
use crate::rpc::service::Service;
use nfs_proto::nfs3::NfsStatus;
use nfs_proto::xdr::{Encode, Reader};

/// The exchange of one call; `look` reads its results where they were received and tells their status.
pub(crate) struct SingleCall<L> {
    look: L,
    /// Status of the last reply.
    pub(crate) status: NfsStatus,
}

impl<L: FnMut(&mut Reader<'_>) -> Result<NfsStatus, Fault>> SingleCall<L> {
    pub(crate) const fn new(look: L) -> Self {
        Self { look, status: NfsStatus::Ok }
    }
}

impl<L: FnMut(&mut Reader<'_>) -> Result<NfsStatus, Fault>> Exchange for SingleCall<L> {
    fn reply(&mut self, _call: usize, results: &mut Reader<'_>) -> Result<(), Fault> {
        self.status = (self.look)(results)?;
        Ok(())
    }
}

/// One call on a channel of its own.
pub(crate) fn call_once<A: Encode>(
    service: &Service,
    procedure: u32,
    arguments: &A,
    mut look: impl FnMut(&mut Reader<'_>) -> Result<(), Fault>,
) -> Result<(), Error> {
    let mut channel = Channel::new();
    channel.begin();
    channel.add(service, procedure, arguments, 0..0);
    let mut single = SingleCall::new(|results: &mut Reader<'_>| {
        look(results)?;
        Ok(NfsStatus::Ok)
    });
    channel.run(service, &mut single).map(|_| ())
}
