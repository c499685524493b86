//! Commands to a LUN without a unit (SPC-4 6.6.2, SAM-5 4.7).

use super::call::Call;
use super::cdb::Cdb;
use super::command_table::Command;
use super::completion::{Completion, Failure};
use super::device_control::sense_data;
use super::inquiry;
use super::luns::report_luns;
use super::nexus::Nexus;
use super::request::Request;
use super::sense::{Asc, Sense};

const NOT_SUPPORTED: Sense = Sense::illegal(Asc::LOGICAL_UNIT_NOT_SUPPORTED);

/// Executes a command at a LUN without a unit. INQUIRY reports that there is no unit, REPORT LUNS and REQUEST SENSE work, and all
/// others end with LOGICAL UNIT NOT SUPPORTED. `data_in` is as in [`LogicalUnit::execute`](super::LogicalUnit::execute).
pub fn execute_absent(nexus: &Nexus, request: &Request<'_>, data_in: &mut [u8]) -> Completion {
    answer(nexus, request, data_in).unwrap_or_else(Completion::from)
}

fn answer(nexus: &Nexus, request: &Request<'_>, data_in: &mut [u8]) -> Result<Completion, Failure> {
    let cdb = Cdb::find(request.cdb).map_err(|_| NOT_SUPPORTED)?;
    let call = Call { nexus, cdb, request };
    match cdb.info.command {
        Command::Inquiry | Command::ReportLuns | Command::RequestSense => cdb.check_reserved()?,
        _ => return Err(NOT_SUPPORTED.into()),
    }
    match cdb.info.command {
        Command::Inquiry if cdb.flag(0x01) || cdb.byte(2) != 0 => Err(Sense::cdb_field(1, Some(0)).into()),
        Command::Inquiry => Ok(call.reply(&inquiry::absent(), data_in)),
        Command::ReportLuns => report_luns(&call, data_in),
        _ => Ok(sense_data(&call, NOT_SUPPORTED, data_in)),
    }
}
