//! REPORT SUPPORTED OPERATION CODES and REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS (SPC-4 6.35, 6.36).

use super::call::Call;
use super::command_table::{COMMANDS, Command, CommandInfo};
use super::completion::{Completion, Failure};
use super::sense::Sense;

const RETURN_TIMEOUTS: u8 = 0x80;
/// Seconds after which an initiator may treat a command as lost. Commands that flush or process a range take longer.
const TIMEOUT_SECONDS: u32 = 30;
const SLOW_TIMEOUT_SECONDS: u32 = 60;

/// `supports`: whether the unit supports a command of the table.
pub(super) fn report_opcodes(
    call: &Call<'_>,
    supports: impl Fn(Command) -> bool,
    data_in: &mut [u8],
) -> Result<Completion, Failure> {
    let timeouts = call.cdb.byte(2) & RETURN_TIMEOUTS != 0;
    let opcode = call.cdb.byte(3);
    let service_action = call.cdb.number(4, 2);
    let known = || COMMANDS.iter().filter(|info| supports(info.command));
    let of_opcode = || known().filter(|info| info.opcode == opcode);
    let found = match call.cdb.byte(2) & 0x07 {
        0 => return Ok(call.reply(&all(known(), timeouts), data_in)),
        // SPC-4 table 255: by operation code only. Refused if the code has service actions.
        1 if of_opcode().any(|info| info.service_action.is_some()) => return Err(Sense::cdb_field(2, Some(2)).into()),
        1 => of_opcode().next(),
        // By service action. Refused if the operation code has none.
        2 if of_opcode().any(|info| info.service_action.is_none()) => return Err(Sense::cdb_field(2, Some(2)).into()),
        2 => of_opcode().find(|info| info.service_action.map(u64::from) == Some(service_action)),
        3 => of_opcode().find(|info| u64::from(info.service_action.unwrap_or(0)) == service_action),
        _ => return Err(Sense::cdb_field(2, Some(2)).into()),
    };
    Ok(call.reply(&one(found, timeouts), data_in))
}

fn all<'a>(known: impl Iterator<Item = &'a CommandInfo>, timeouts: bool) -> Vec<u8> {
    let mut data = vec![0; 4];
    for info in known {
        let flags = u8::from(info.service_action.is_some()) | if timeouts { 0x02 } else { 0 };
        data.extend_from_slice(&[info.opcode, 0, 0, info.service_action.unwrap_or(0), 0, flags, 0, info.length]);
        if timeouts {
            data.extend_from_slice(&timeouts_descriptor(info));
        }
    }
    let length = (data.len() - 4) as u32;
    if let Some(field) = data.get_mut(..4) {
        field.copy_from_slice(&length.to_be_bytes());
    }
    data
}

fn one(info: Option<&CommandInfo>, timeouts: bool) -> Vec<u8> {
    let Some(info) = info else { return vec![0, 0x01, 0, 0] }; // not supported
    let flags = 0x03 | if timeouts { 0x80 } else { 0 }; // supported, as in a standard
    let mut data = vec![0, flags, 0, info.length];
    data.extend(info.usage.iter().take(usize::from(info.length)));
    if let (Some(action), Some(byte)) = (info.service_action, data.get_mut(5)) {
        *byte = *byte & 0xe0 | action;
    }
    if timeouts {
        data.extend_from_slice(&timeouts_descriptor(info));
    }
    data
}

/// The command timeouts descriptor: a recommended timeout, and no nominal time.
fn timeouts_descriptor(info: &CommandInfo) -> [u8; 12] {
    let slow = matches!(
        info.command,
        Command::SynchronizeCache | Command::WriteSame | Command::Unmap | Command::StartStopUnit | Command::Verify
    );
    let mut descriptor = [0; 12];
    descriptor[1] = 0x0a;
    let seconds = if slow { SLOW_TIMEOUT_SECONDS } else { TIMEOUT_SECONDS };
    descriptor[8..].copy_from_slice(&seconds.to_be_bytes());
    descriptor
}

/// ABORT TASK, ABORT TASK SET, CLEAR TASK SET and LOGICAL UNIT RESET. This target answers no QUERY TASK.
pub(super) fn report_task_management(call: &Call<'_>, data_in: &mut [u8]) -> Completion {
    let extended = call.cdb.byte(2) & 0x80 != 0;
    let mut data = [0; 16];
    data[0] = 0xd8;
    data[3] = if extended { 12 } else { 0 };
    call.reply(data.get(..if extended { 16 } else { 4 }).unwrap_or_default(), data_in)
}
