//! PDUs that initiators send (RFC 7143 11.3, 11.5, 11.7, 11.10, 11.12, 11.14, 11.16, 11.18).

use super::header::{Isid, Itt, Lun, Ttt, codes, header};
use crate::serial::{CmdSn, DataSn, StatSn};

header! {
    /// RFC 7143 11.18.
    NopOut, set { 1: 0x80 },
    flags {
        /// The request is for immediate delivery.
        immediate: 0, 0x40;
    }
    bits {}
    fields {
        /// The logical unit of the ping that this PDU answers.
        lun: Lun, 8;
        /// [`Itt::NONE`] if the initiator expects no answer.
        itt: Itt, 16;
        /// Tag of the ping that this PDU answers, or [`Ttt::NONE`].
        ttt: Ttt, 20;
        /// Number of this request (CmdSN).
        cmd_sn: CmdSn, 24;
        /// Number of the response that the initiator expects next (ExpStatSN).
        exp_stat_sn: StatSn, 28;
    }
}

header! {
    /// RFC 7143 11.3.
    ScsiCommand, set {},
    flags {
        /// The request is for immediate delivery.
        immediate: 0, 0x40;
        /// No unsolicited Data-Out follows.
        is_final: 1, 0x80;
        /// The initiator expects data.
        read: 1, 0x40;
        /// The initiator will send data.
        write: 1, 0x20;
    }
    bits {
        /// Task attribute: 0 untagged, 1 simple, 2 ordered, 3 head of queue, 4 ACA.
        attribute: 1, 0x07;
    }
    fields {
        /// The logical unit.
        lun: Lun, 8;
        /// Tag of this request.
        itt: Itt, 16;
        /// Bytes the initiator expects to send or receive.
        expected_data_bytes: u32, 20;
        /// Number of this request (CmdSN).
        cmd_sn: CmdSn, 24;
        /// Number of the response that the initiator expects next (ExpStatSN).
        exp_stat_sn: StatSn, 28;
        /// The first 16 bytes of the CDB.
        cdb: [u8; 16], 32;
    }
}

codes! {
    /// RFC 7143 11.5.1.
    TaskFunction {
        /// Aborts the task with the referenced tag.
        AbortTask = 1,
        /// Aborts all tasks of this session on a logical unit.
        AbortTaskSet = 2,
        /// Clears the auto contingent allegiance condition.
        ClearAca = 3,
        /// Aborts all tasks on a logical unit.
        ClearTaskSet = 4,
        /// Resets a logical unit.
        LogicalUnitReset = 5,
        /// Resets all logical units of the target.
        TargetWarmReset = 6,
        /// Resets all logical units of the target and closes all sessions.
        TargetColdReset = 7,
        /// Moves a task to another connection.
        TaskReassign = 8,
    }
}

header! {
    /// Task Management Function Request, RFC 7143 11.5.
    TaskRequest, set { 1: 0x80 },
    flags {
        /// The request is for immediate delivery.
        immediate: 0, 0x40;
    }
    bits {
        /// A [`TaskFunction`].
        function: 1, 0x7f;
    }
    fields {
        /// The logical unit.
        lun: Lun, 8;
        /// Tag of this request.
        itt: Itt, 16;
        /// Tag of the task that the function is for.
        referenced_itt: Itt, 20;
        /// Number of this request (CmdSN).
        cmd_sn: CmdSn, 24;
        /// Number of the response that the initiator expects next (ExpStatSN).
        exp_stat_sn: StatSn, 28;
        /// Number of the command that the function is for.
        ref_cmd_sn: CmdSn, 32;
        /// For TASK REASSIGN only.
        exp_data_sn: DataSn, 36;
    }
}

header! {
    /// RFC 7143 11.12.
    LoginRequest, set { 0: 0x40 },
    flags {
        /// The initiator is ready for the next stage.
        transit: 1, 0x80;
        /// The text continues in the next PDU.
        is_continued: 1, 0x40;
    }
    bits {
        /// Current stage.
        csg: 1, 0x0c;
        /// Next stage.
        nsg: 1, 0x03;
    }
    fields {
        /// Highest version that the initiator supports.
        version_max: u8, 2;
        /// Lowest version that the initiator supports.
        version_min: u8, 3;
        /// The initiator's part of the session identifier.
        isid: Isid, 8;
        /// The target's number of the session. 0 for a new session.
        tsih: u16, 14;
        /// Tag of this request.
        itt: Itt, 16;
        /// The initiator's number of the connection.
        cid: u16, 20;
        /// Number of the first command after the login.
        cmd_sn: CmdSn, 24;
        /// Number of the response that the initiator expects next (ExpStatSN).
        exp_stat_sn: StatSn, 28;
    }
}

header! {
    /// RFC 7143 11.10.
    TextRequest, set {},
    flags {
        /// The request is for immediate delivery.
        immediate: 0, 0x40;
        /// The initiator has no more text.
        is_final: 1, 0x80;
        /// The text continues in the next PDU.
        is_continued: 1, 0x40;
    }
    bits {}
    fields {
        /// The logical unit of the response that this request continues.
        lun: Lun, 8;
        /// Tag of this request.
        itt: Itt, 16;
        /// Tag of the response that this request continues, or [`Ttt::NONE`].
        ttt: Ttt, 20;
        /// Number of this request (CmdSN).
        cmd_sn: CmdSn, 24;
        /// Number of the response that the initiator expects next (ExpStatSN).
        exp_stat_sn: StatSn, 28;
    }
}

header! {
    /// SCSI Data-Out, RFC 7143 11.7.
    DataOut, set {},
    flags {
        /// This PDU is the last of its sequence.
        is_final: 1, 0x80;
    }
    bits {}
    fields {
        /// The logical unit of the R2T.
        lun: Lun, 8;
        /// Tag of the command.
        itt: Itt, 16;
        /// Tag of the R2T, or [`Ttt::NONE`] for unsolicited data.
        ttt: Ttt, 20;
        /// Number of the response that the initiator expects next (ExpStatSN).
        exp_stat_sn: StatSn, 28;
        /// Number of this PDU in its sequence.
        data_sn: DataSn, 36;
        /// Offset of its data in the data of the command, in bytes.
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
        /// Removes the connection for recovery.
        RemoveForRecovery = 2,
    }
}

header! {
    /// RFC 7143 11.14.
    LogoutRequest, set { 1: 0x80 },
    flags {
        /// The request is for immediate delivery.
        immediate: 0, 0x40;
    }
    bits {
        /// A [`LogoutReason`].
        reason: 1, 0x7f;
    }
    fields {
        /// Tag of this request.
        itt: Itt, 16;
        /// The number of the connection that will be closed.
        cid: u16, 20;
        /// Number of this request (CmdSN).
        cmd_sn: CmdSn, 24;
        /// Number of the response that the initiator expects next (ExpStatSN).
        exp_stat_sn: StatSn, 28;
    }
}

header! {
    /// RFC 7143 11.16. Error recovery level 0 does not use it.
    SnackRequest, set { 1: 0x80 },
    flags {}
    bits {
        /// The type of the request.
        kind: 1, 0x0f;
    }
    fields {
        /// The logical unit.
        lun: Lun, 8;
        /// Tag of the task.
        itt: Itt, 16;
        /// Tag of the R2T, or [`Ttt::NONE`].
        ttt: Ttt, 20;
        /// Number of the response that the initiator expects next (ExpStatSN).
        exp_stat_sn: StatSn, 28;
        /// Number of the first PDU.
        begin_run: u32, 40;
        /// Number of PDUs.
        run_length: u32, 44;
    }
}
