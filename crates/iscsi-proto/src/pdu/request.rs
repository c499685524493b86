//! What initiators send (RFC 7143 11.3, 11.5, 11.7, 11.10, 11.12, 11.14, 11.16, 11.18).

use super::header::{Isid, Itt, Lun, Ttt, codes, header};
use crate::serial::{CmdSn, DataSn, StatSn};

header! {
    /// RFC 7143 11.18.
    NopOut, set { 1: 0x80 },
    flags {
        /// For immediate delivery.
        immediate: 0, 0x40;
    }
    bits {}
    fields {
        /// Of the ping that is answered.
        lun: Lun, 8;
        /// [`Itt::NONE`] where no answer is wanted.
        itt: Itt, 16;
        /// Of the ping that is answered, or none.
        ttt: Ttt, 20;
        /// Its number.
        cmd_sn: CmdSn, 24;
        /// The response expected next.
        exp_stat_sn: StatSn, 28;
    }
}

header! {
    /// RFC 7143 11.3.
    ScsiCommand, set {},
    flags {
        /// For immediate delivery.
        immediate: 0, 0x40;
        /// No unsolicited Data-Out follows.
        is_final: 1, 0x80;
        /// Data is expected.
        read: 1, 0x40;
        /// Data will be sent.
        write: 1, 0x20;
    }
    bits {
        /// Task attribute: 0 untagged, 1 simple, 2 ordered, 3 head of queue, 4 ACA.
        attribute: 1, 0x07;
    }
    fields {
        /// The logical unit.
        lun: Lun, 8;
        /// Its tag.
        itt: Itt, 16;
        /// Bytes the initiator expects to send or receive.
        expected_data_bytes: u32, 20;
        /// Its number.
        cmd_sn: CmdSn, 24;
        /// The response expected next.
        exp_stat_sn: StatSn, 28;
        /// The first 16 bytes of the CDB.
        cdb: [u8; 16], 32;
    }
}

codes! {
    /// RFC 7143 11.5.1.
    TaskFunction {
        /// The task of the referenced tag.
        AbortTask = 1,
        /// All tasks of this session on a logical unit.
        AbortTaskSet = 2,
        /// Clears the auto contingent allegiance condition.
        ClearAca = 3,
        /// All tasks on a logical unit.
        ClearTaskSet = 4,
        /// Resets a logical unit.
        LogicalUnitReset = 5,
        /// Resets all logical units of the target.
        TargetWarmReset = 6,
        /// The same, and closes all sessions.
        TargetColdReset = 7,
        /// Moves a task to another connection.
        TaskReassign = 8,
    }
}

header! {
    /// Task Management Function Request, RFC 7143 11.5.
    TaskRequest, set { 1: 0x80 },
    flags {
        /// For immediate delivery.
        immediate: 0, 0x40;
    }
    bits {
        /// A [`TaskFunction`].
        function: 1, 0x7f;
    }
    fields {
        /// The logical unit.
        lun: Lun, 8;
        /// Its tag.
        itt: Itt, 16;
        /// The tag of the task that is meant.
        referenced_itt: Itt, 20;
        /// Its number.
        cmd_sn: CmdSn, 24;
        /// The response expected next.
        exp_stat_sn: StatSn, 28;
        /// The number of the command that is meant.
        ref_cmd_sn: CmdSn, 32;
        /// For reassignment.
        exp_data_sn: DataSn, 36;
    }
}

header! {
    /// RFC 7143 11.12.
    LoginRequest, set { 0: 0x40 },
    flags {
        /// Ready for the next stage.
        transit: 1, 0x80;
        /// The text goes on in the next PDU.
        is_continued: 1, 0x40;
    }
    bits {
        /// Current stage.
        csg: 1, 0x0c;
        /// Next stage.
        nsg: 1, 0x03;
    }
    fields {
        /// Highest version.
        version_max: u8, 2;
        /// Lowest version.
        version_min: u8, 3;
        /// The initiator's part of the session's identifier.
        isid: Isid, 8;
        /// The session, 0 for a new one.
        tsih: u16, 14;
        /// Its tag.
        itt: Itt, 16;
        /// The connection.
        cid: u16, 20;
        /// Of the first command behind the login.
        cmd_sn: CmdSn, 24;
        /// The response expected next.
        exp_stat_sn: StatSn, 28;
    }
}

header! {
    /// RFC 7143 11.10.
    TextRequest, set {},
    flags {
        /// For immediate delivery.
        immediate: 0, 0x40;
        /// The initiator has no more to say.
        is_final: 1, 0x80;
        /// The text goes on in the next PDU.
        is_continued: 1, 0x40;
    }
    bits {}
    fields {
        /// As in the response that is gone on from.
        lun: Lun, 8;
        /// Its tag.
        itt: Itt, 16;
        /// As in the response that is gone on from, or none.
        ttt: Ttt, 20;
        /// Its number.
        cmd_sn: CmdSn, 24;
        /// The response expected next.
        exp_stat_sn: StatSn, 28;
    }
}

header! {
    /// SCSI Data-Out, RFC 7143 11.7.
    DataOut, set {},
    flags {
        /// The last of its sequence.
        is_final: 1, 0x80;
    }
    bits {}
    fields {
        /// As in the R2T.
        lun: Lun, 8;
        /// The command.
        itt: Itt, 16;
        /// The R2T, or none for unsolicited data.
        ttt: Ttt, 20;
        /// The response expected next.
        exp_stat_sn: StatSn, 28;
        /// Its number in the sequence.
        data_sn: DataSn, 36;
        /// Where its data begins in that of the command.
        buffer_offset: u32, 40;
    }
}

codes! {
    /// RFC 7143 11.14.1.
    LogoutReason {
        /// Ends the session.
        CloseSession = 0,
        /// Ends the connection.
        CloseConnection = 1,
        /// Gives the connection up for recovery.
        RemoveForRecovery = 2,
    }
}

header! {
    /// RFC 7143 11.14.
    LogoutRequest, set { 1: 0x80 },
    flags {
        /// For immediate delivery.
        immediate: 0, 0x40;
    }
    bits {
        /// A [`LogoutReason`].
        reason: 1, 0x7f;
    }
    fields {
        /// Its tag.
        itt: Itt, 16;
        /// The connection that is meant.
        cid: u16, 20;
        /// Its number.
        cmd_sn: CmdSn, 24;
        /// The response expected next.
        exp_stat_sn: StatSn, 28;
    }
}

header! {
    /// RFC 7143 11.16; of no use at error recovery level 0.
    SnackRequest, set { 1: 0x80 },
    flags {}
    bits {
        /// What is asked for again.
        kind: 1, 0x0f;
    }
    fields {
        /// The logical unit.
        lun: Lun, 8;
        /// The task.
        itt: Itt, 16;
        /// The R2T or none.
        ttt: Ttt, 20;
        /// The response expected next.
        exp_stat_sn: StatSn, 28;
        /// The first.
        begin_run: u32, 40;
        /// How many.
        run_length: u32, 44;
    }
}
