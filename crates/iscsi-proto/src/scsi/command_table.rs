//! All commands that a unit supports: the fields of the CDB, the data, and the reservations under which the command may run. The
//! decoder, the check of reserved bits, REPORT SUPPORTED OPERATION CODES and the reservation checks use this table.

/// A command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    TestUnitReady,
    RequestSense,
    Read,
    Write,
    Inquiry,
    ModeSelect,
    ModeSense,
    Reserve,
    Release,
    StartStopUnit,
    SendDiagnostic,
    PreventAllowMediumRemoval,
    ReadCapacity10,
    WriteAndVerify,
    Verify,
    Prefetch,
    SynchronizeCache,
    ReadDefectData,
    WriteSame,
    Unmap,
    PersistentReserveIn,
    PersistentReserveOut,
    ExtendedCopy,
    ReceiveCopyResults,
    CompareAndWrite,
    OrWrite,
    ReadCapacity16,
    GetLbaStatus,
    ReportLuns,
    ReportTargetPortGroups,
    ReportSupportedOperationCodes,
    ReportSupportedTaskManagementFunctions,
}

/// How a reservation of another nexus affects a command (SPC-4 table 51, SBC-3 table 13, SPC-2 table 10).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Runs under every persistent reservation and under RESERVE.
    Always,
    /// Runs under every persistent reservation, but not under RESERVE.
    AlwaysButReserve,
    /// Runs under Write Exclusive, but not under Exclusive Access.
    Read,
    /// Runs under no persistent reservation.
    Write,
    /// START STOP UNIT: runs if it starts the unit, otherwise as `Write`.
    Start,
    /// PREVENT ALLOW MEDIUM REMOVAL: runs if it allows removal, otherwise as `Write`.
    Allow,
    /// RESERVE and RELEASE have their own rules.
    Reserve,
    /// PERSISTENT RESERVE OUT: each service action has its rules.
    PersistentReserveOut,
}

/// How a CDB specifies the amount of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Data {
    /// No data.
    None,
    /// This number of bytes to the initiator: READ CAPACITY (10) has no allocation length.
    Fixed(u64),
    /// An allocation length of `bytes` bytes at byte `at`.
    Allocation { at: usize, bytes: usize },
    /// A parameter list length of `bytes` bytes at byte `at`.
    Parameters { at: usize, bytes: usize },
    /// The blocks of the CDB, to the initiator.
    BlocksIn,
    /// The blocks of the CDB, from the initiator.
    BlocksOut,
    /// Blocks to compare with, depending on BYTCHK.
    Verify,
    /// One block, or no block if NDOB is set.
    OneBlock,
    /// Twice the blocks of the CDB.
    TwiceBlocks,
}

/// An entry of the table.
#[derive(Debug, Clone, Copy)]
pub(super) struct CommandInfo {
    pub(super) command: Command,
    pub(super) opcode: u8,
    /// The service action in the low five bits of byte 1, if the operation code has service actions.
    pub(super) service_action: Option<u8>,
    /// Length of the CDB, in bytes.
    pub(super) length: u8,
    /// The bits of the CDB that are fields of this unit. All others must be 0.
    pub(super) usage: [u8; 16],
    pub(super) access: Access,
    pub(super) data: Data,
}

const fn info(command: Command, access: Access, data: Data, usage: &[u8]) -> CommandInfo {
    let mut bytes = [0; 16];
    let mut index = 0;
    while index < usage.len() {
        bytes[index] = usage[index];
        index += 1;
    }
    CommandInfo { command, opcode: usage[0], service_action: None, length: usage.len() as u8, usage: bytes, access, data }
}

const fn action(command: Command, service_action: u8, access: Access, data: Data, usage: &[u8]) -> CommandInfo {
    CommandInfo { service_action: Some(service_action), ..info(command, access, data, usage) }
}

/// The table. It is searched from the start, so the commands of a database come first.
#[rustfmt::skip]
pub(super) const COMMANDS: &[CommandInfo] = &[
    info(Command::Read, Access::Read, Data::BlocksIn, &[0x28, 0xfa, 0xff, 0xff, 0xff, 0xff, 0x1f, 0xff, 0xff, 0]),
    info(Command::Write, Access::Write, Data::BlocksOut, &[0x2a, 0xfa, 0xff, 0xff, 0xff, 0xff, 0x1f, 0xff, 0xff, 0]),
    info(Command::Read, Access::Read, Data::BlocksIn, &[0x88, 0xfa, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x1f, 0]),
    info(Command::Write, Access::Write, Data::BlocksOut, &[0x8a, 0xfa, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x1f, 0]),
    info(Command::SynchronizeCache, Access::Write, Data::None, &[0x35, 0x06, 0xff, 0xff, 0xff, 0xff, 0x1f, 0xff, 0xff, 0]),
    info(Command::TestUnitReady, Access::AlwaysButReserve, Data::None, &[0x00, 0, 0, 0, 0, 0]),
    info(Command::RequestSense, Access::Always, Data::Allocation { at: 4, bytes: 1 }, &[0x03, 0x01, 0, 0, 0xff, 0]),
    info(Command::Read, Access::Read, Data::BlocksIn, &[0x08, 0x1f, 0xff, 0xff, 0xff, 0]),
    info(Command::Write, Access::Write, Data::BlocksOut, &[0x0a, 0x1f, 0xff, 0xff, 0xff, 0]),
    info(Command::Inquiry, Access::Always, Data::Allocation { at: 3, bytes: 2 }, &[0x12, 0x01, 0xff, 0xff, 0xff, 0]),
    info(Command::ModeSelect, Access::Write, Data::Parameters { at: 4, bytes: 1 }, &[0x15, 0x11, 0, 0, 0xff, 0]),
    info(Command::Reserve, Access::Reserve, Data::None, &[0x16, 0, 0, 0, 0, 0]),
    info(Command::Release, Access::Reserve, Data::None, &[0x17, 0, 0, 0, 0, 0]),
    info(Command::ModeSense, Access::Read, Data::Allocation { at: 4, bytes: 1 }, &[0x1a, 0x08, 0xff, 0xff, 0xff, 0]),
    info(Command::StartStopUnit, Access::Start, Data::None, &[0x1b, 0x01, 0, 0x0f, 0xf7, 0]),
    info(Command::SendDiagnostic, Access::Write, Data::None, &[0x1d, 0x04, 0, 0, 0, 0]),
    info(Command::PreventAllowMediumRemoval, Access::Allow, Data::None, &[0x1e, 0, 0, 0, 0x03, 0]),
    info(Command::ReadCapacity10, Access::Always, Data::Fixed(8), &[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
    info(Command::WriteAndVerify, Access::Write, Data::BlocksOut, &[0x2e, 0xf6, 0xff, 0xff, 0xff, 0xff, 0x1f, 0xff, 0xff, 0]),
    info(Command::Verify, Access::Read, Data::Verify, &[0x2f, 0xf6, 0xff, 0xff, 0xff, 0xff, 0x1f, 0xff, 0xff, 0]),
    info(Command::Prefetch, Access::Read, Data::None, &[0x34, 0x02, 0xff, 0xff, 0xff, 0xff, 0x1f, 0xff, 0xff, 0]),
    info(Command::ReadDefectData, Access::Read, Data::Allocation { at: 7, bytes: 2 }, &[0x37, 0, 0x1f, 0, 0, 0, 0, 0xff, 0xff, 0]),
    info(Command::WriteSame, Access::Write, Data::OneBlock, &[0x41, 0xf8, 0xff, 0xff, 0xff, 0xff, 0x1f, 0xff, 0xff, 0]),
    info(Command::Unmap, Access::Write, Data::Parameters { at: 7, bytes: 2 }, &[0x42, 0x01, 0, 0, 0, 0, 0x1f, 0xff, 0xff, 0]),
    info(Command::ModeSelect, Access::Write, Data::Parameters { at: 7, bytes: 2 }, &[0x55, 0x11, 0, 0, 0, 0, 0, 0xff, 0xff, 0]),
    info(Command::Reserve, Access::Reserve, Data::None, &[0x56, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
    info(Command::Release, Access::Reserve, Data::None, &[0x57, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
    info(Command::ModeSense, Access::Read, Data::Allocation { at: 7, bytes: 2 }, &[0x5a, 0x18, 0xff, 0xff, 0, 0, 0, 0xff, 0xff, 0]),
    persistent_reserve_in(0), persistent_reserve_in(1), persistent_reserve_in(2), persistent_reserve_in(3),
    persistent_reserve_out(0), persistent_reserve_out(1), persistent_reserve_out(2), persistent_reserve_out(3),
    persistent_reserve_out(4), persistent_reserve_out(5), persistent_reserve_out(6), persistent_reserve_out(7),
    action(Command::ExtendedCopy, 0, Access::Write, Data::Parameters { at: 10, bytes: 4 }, &[0x83, 0x1f, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0]),
    action(Command::ReceiveCopyResults, 0, Access::AlwaysButReserve, Data::Allocation { at: 10, bytes: 4 }, &[0x84, 0x1f, 0xff, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0]),
    action(Command::ReceiveCopyResults, 3, Access::AlwaysButReserve, Data::Allocation { at: 10, bytes: 4 }, &[0x84, 0x1f, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0]),
    info(Command::CompareAndWrite, Access::Write, Data::TwiceBlocks, &[0x89, 0xfa, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0xff, 0x1f, 0]),
    info(Command::OrWrite, Access::Write, Data::BlocksOut, &[0x8b, 0xfa, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x1f, 0]),
    info(Command::WriteAndVerify, Access::Write, Data::BlocksOut, &[0x8e, 0xf6, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x1f, 0]),
    info(Command::Verify, Access::Read, Data::Verify, &[0x8f, 0xf6, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x1f, 0]),
    info(Command::Prefetch, Access::Read, Data::None, &[0x90, 0x02, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x1f, 0]),
    info(Command::SynchronizeCache, Access::Write, Data::None, &[0x91, 0x06, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x1f, 0]),
    info(Command::WriteSame, Access::Write, Data::OneBlock, &[0x93, 0xf9, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x1f, 0]),
    action(Command::ReadCapacity16, 0x10, Access::Always, Data::Allocation { at: 10, bytes: 4 }, &[0x9e, 0x1f, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0]),
    action(Command::GetLbaStatus, 0x12, Access::Read, Data::Allocation { at: 10, bytes: 4 }, &[0x9e, 0x1f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0]),
    info(Command::ReportLuns, Access::Always, Data::Allocation { at: 6, bytes: 4 }, &[0xa0, 0, 0xff, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0]),
    action(Command::ReportTargetPortGroups, 0x0a, Access::AlwaysButReserve, Data::Allocation { at: 6, bytes: 4 }, &[0xa3, 0xff, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0]),
    action(Command::ReportSupportedOperationCodes, 0x0c, Access::Read, Data::Allocation { at: 6, bytes: 4 }, &[0xa3, 0x1f, 0x87, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0]),
    action(Command::ReportSupportedTaskManagementFunctions, 0x0d, Access::Read, Data::Allocation { at: 6, bytes: 4 }, &[0xa3, 0x1f, 0x80, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0]),
    info(Command::Read, Access::Read, Data::BlocksIn, &[0xa8, 0xfa, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x1f, 0]),
    info(Command::Write, Access::Write, Data::BlocksOut, &[0xaa, 0xfa, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x1f, 0]),
    info(Command::WriteAndVerify, Access::Write, Data::BlocksOut, &[0xae, 0xf6, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x1f, 0]),
    info(Command::Verify, Access::Read, Data::Verify, &[0xaf, 0xf6, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x1f, 0]),
    info(Command::ReadDefectData, Access::Read, Data::Allocation { at: 6, bytes: 4 }, &[0xb7, 0x1f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0]),
];

const fn persistent_reserve_in(service_action: u8) -> CommandInfo {
    let usage = &[0x5e, 0x1f, 0, 0, 0, 0, 0, 0xff, 0xff, 0];
    action(Command::PersistentReserveIn, service_action, Access::AlwaysButReserve, Data::Allocation { at: 7, bytes: 2 }, usage)
}

const fn persistent_reserve_out(service_action: u8) -> CommandInfo {
    let usage = &[0x5f, 0x1f, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0];
    action(
        Command::PersistentReserveOut,
        service_action,
        Access::PersistentReserveOut,
        Data::Parameters { at: 5, bytes: 4 },
        usage,
    )
}

/// The meaning of an operation code.
#[derive(Debug, Clone, Copy)]
pub(super) enum Lookup {
    /// A command of the table.
    Found(&'static CommandInfo),
    /// An operation code with service actions, but not this one.
    NoSuchServiceAction,
    /// The unit has no such command.
    Unknown,
}

/// Finds the command with an operation code and, if the code has service actions, a service action.
pub(super) fn lookup(opcode: u8, service_action: u8) -> Lookup {
    let mut known = false;
    for info in COMMANDS.iter().filter(|info| info.opcode == opcode) {
        if info.service_action.is_none_or(|action| action == service_action) {
            return Lookup::Found(info);
        }
        known = true;
    }
    if known { Lookup::NoSuchServiceAction } else { Lookup::Unknown }
}
