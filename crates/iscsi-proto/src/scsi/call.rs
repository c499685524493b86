//! A command while the unit executes it.

use super::cdb::Cdb;
use super::command_table::Data;
use super::completion::Completion;
use super::nexus::Nexus;
use super::request::Request;
use super::sense::{Asc, Sense};

/// A command of a nexus with its data.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) nexus: &'a Nexus,
    pub(super) cdb: Cdb,
    pub(super) request: &'a Request<'a>,
}

impl<'a> Call<'a> {
    /// GOOD with parameter data, truncated to the CDB's allocation length.
    pub(super) fn reply(&self, data: &[u8], buffer: &mut [u8]) -> Completion {
        let allocation = match self.cdb.info.data {
            Data::Allocation { at, bytes } => self.cdb.number(at, bytes),
            Data::Fixed(bytes) => bytes,
            _ => 0,
        };
        Completion::data(data, allocation, buffer)
    }

    /// The parameter list with the length of the CDB.
    ///
    /// # Errors
    /// PARAMETER LIST LENGTH ERROR if fewer bytes were received (SPC-4 4.2.5.5).
    pub(super) fn parameters(&self) -> Result<&'a [u8], Sense> {
        let length = match self.cdb.info.data {
            Data::Parameters { at, bytes } => self.cdb.number(at, bytes),
            _ => 0,
        };
        let list = usize::try_from(length).ok().and_then(|length| self.request.data_out.get(..length));
        list.ok_or(Sense::illegal(Asc::PARAMETER_LIST_LENGTH_ERROR))
    }
}
