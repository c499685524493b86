//! Execution: finds the command of a CDB and runs it.

use super::call::Call;
use super::capacity::{capacity10, capacity16};
use super::cdb::Cdb;
use super::command_table::Command;
use super::compare_and_write::{compare_and_write, or_write};
use super::completion::{Completion, Failure};
use super::device_control::{prevent_allow, read_defect_data, request_sense, send_diagnostic, start_stop};
use super::extended_copy::{extended_copy, receive_copy_results};
use super::inquiry::inquiry;
use super::luns::report_luns;
use super::media::{prefetch, read, synchronize_cache, verify, write, write_and_verify};
use super::mode_select::mode_select;
use super::mode_sense::mode_sense;
use super::nexus::Nexus;
use super::provisioning::{lba_status, unmap, write_same};
use super::report_opcodes::{report_opcodes, report_task_management};
use super::request::Request;
use super::reserve_commands::{persistent_reserve_in, persistent_reserve_out, release, reserve};
use super::sense::{Asc, Sense};
use super::store::Store;
use super::target_ports::report_target_port_groups;
use super::unit::LogicalUnit;

impl<S: Store> LogicalUnit<S> {
    /// Executes a command of a nexus. Returns when the command is complete and its data is in place.
    ///
    /// Data for the initiator is written to the start of `data_in`, whose length limits the transfer. The caller makes it the smaller
    /// of the length that the initiator expects and [`Self::expected_data`]. The content of `data_in` beyond
    /// [`Completion::data_in_bytes`] is undefined. Reads and writes allocate nothing.
    ///
    /// **Durability**: [see above](super).
    pub fn execute(&self, nexus: &Nexus, request: &Request<'_>, data_in: &mut [u8]) -> Completion {
        let mut completion = self.answer(nexus, request, data_in).unwrap_or_else(Completion::from);
        if let Some(sense) = &mut completion.sense {
            sense.descriptor_format = self.modes.has_descriptor_sense();
        }
        completion
    }

    fn answer(&self, nexus: &Nexus, request: &Request<'_>, data_in: &mut [u8]) -> Result<Completion, Failure> {
        let found = Cdb::find(request.cdb);
        // SAM-5 5.14: applies to all commands but three.
        if !found.as_ref().is_ok_and(passes_unit_attention)
            && let Some(condition) = self.attentions.take(nexus)
        {
            return Err(condition.sense().into());
        }
        let cdb = found?;
        if !self.supports(cdb.info.command) {
            return Err(Sense::illegal(Asc::INVALID_COMMAND_OPERATION_CODE).into());
        }
        let call = Call { nexus, cdb, request };
        self.reservations.check(&call)?;
        cdb.check_reserved()?;
        match cdb.info.command {
            Command::Read => read(self, &call, data_in),
            Command::Write => write(self, &call),
            Command::SynchronizeCache => synchronize_cache(self, &call),
            Command::WriteAndVerify => write_and_verify(self, &call),
            Command::Verify => verify(self, &call),
            Command::Prefetch => prefetch(self, &call),
            Command::WriteSame => write_same(self, &call),
            Command::Unmap => unmap(self, &call),
            Command::CompareAndWrite => compare_and_write(self, &call),
            Command::OrWrite => or_write(self, &call),
            Command::ExtendedCopy => extended_copy(self, &call),
            Command::GetLbaStatus => lba_status(self, &call, data_in),
            Command::TestUnitReady => Ok(Completion::good(0, 0)),
            _ => self.answer_without_medium(&call, data_in),
        }
    }

    fn answer_without_medium(&self, call: &Call<'_>, data_in: &mut [u8]) -> Result<Completion, Failure> {
        match call.cdb.info.command {
            Command::RequestSense => Ok(request_sense(self, call, data_in)),
            Command::Inquiry => inquiry(self, call, data_in),
            Command::ModeSelect => mode_select(self, call),
            Command::ModeSense => mode_sense(self, call, data_in),
            Command::Reserve => reserve(self, call),
            Command::Release => release(self, call),
            Command::StartStopUnit => start_stop(self, call),
            Command::SendDiagnostic => send_diagnostic(call),
            Command::PreventAllowMediumRemoval => prevent_allow(call),
            Command::ReadCapacity10 => Ok(capacity10(self, call, data_in)),
            Command::ReadCapacity16 => Ok(capacity16(self, call, data_in)),
            Command::ReadDefectData => Ok(read_defect_data(call, data_in)),
            Command::PersistentReserveIn => persistent_reserve_in(self, call, data_in),
            Command::PersistentReserveOut => persistent_reserve_out(self, call),
            Command::ReceiveCopyResults => receive_copy_results(self, call, data_in),
            Command::ReportLuns => report_luns(call, data_in),
            Command::ReportTargetPortGroups => report_target_port_groups(&self.identity, call, data_in),
            Command::ReportSupportedOperationCodes => report_opcodes(call, |command| self.supports(command), data_in),
            Command::ReportSupportedTaskManagementFunctions => Ok(report_task_management(call, data_in)),
            _ => Err(Sense::illegal(Asc::INVALID_COMMAND_OPERATION_CODE).into()),
        }
    }
}

/// Whether a command runs although a unit attention waits (SAM-5 5.14).
const fn passes_unit_attention(cdb: &Cdb) -> bool {
    matches!(cdb.info.command, Command::Inquiry | Command::ReportLuns | Command::RequestSense)
}
