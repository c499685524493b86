//! One call without payload, and calls on services that are only used while mounting.

use crate::error::Error;
use crate::rpc::calls::Calls;
use crate::rpc::channel::Channel;
use crate::rpc::fault::Fault;
use crate::rpc::route::Route;
use nfs_proto::nfs3::NfsStatus;
use nfs_proto::xdr::{Encode, Reader, Writer};

/// One call. `look` reads its results where they were received and returns their status.
pub(crate) struct SingleCall<'a, A, L> {
    procedure: u32,
    arguments: &'a A,
    made: bool,
    look: L,
    /// Status of the last reply.
    pub(crate) status: NfsStatus,
}

impl<'a, A: Encode, L: FnMut(&mut Reader<'_>) -> Result<NfsStatus, Fault>> SingleCall<'a, A, L> {
    pub(crate) const fn new(procedure: u32, arguments: &'a A, look: L) -> Self {
        Self { procedure, arguments, made: false, look, status: NfsStatus::Ok }
    }

    /// Makes the next run repeat the call.
    pub(crate) const fn again(&mut self) {
        self.made = false;
    }
}

impl<A: Encode, L: FnMut(&mut Reader<'_>) -> Result<NfsStatus, Fault>> Calls for SingleCall<'_, A, L> {
    fn next_call(&mut self, _in_flight: usize) -> Option<usize> {
        (!std::mem::replace(&mut self.made, true)).then_some(0)
    }

    fn procedure(&self) -> u32 {
        self.procedure
    }

    fn encode(&self, _call: usize, out: &mut Writer<'_>) {
        self.arguments.encode(out);
    }

    fn reply(&mut self, _call: usize, results: &mut Reader<'_>) -> Result<(), Fault> {
        self.status = (self.look)(results)?;
        Ok(())
    }
}

/// One call on a channel of its own.
pub(crate) fn call_once<A: Encode>(
    route: &Route,
    procedure: u32,
    arguments: &A,
    mut look: impl FnMut(&mut Reader<'_>) -> Result<(), Fault>,
) -> Result<(), Error> {
    let mut single = SingleCall::new(procedure, arguments, |results: &mut Reader<'_>| {
        look(results)?;
        Ok(NfsStatus::Ok)
    });
    Channel::new().run(route, &mut single).map(|_| ())
}
