//! PDUs that targets send (RFC 7143 11.4, 11.6 to 11.9, 11.11, 11.13, 11.15, 11.17, 11.19).
//!
//! All of them have `stat_sn`, `exp_cmd_sn` and `max_cmd_sn` at the same bytes.

use super::header::{Isid, Itt, Lun, Ttt, codes, header};
use super::request::LoginRequest;
use crate::serial::{CmdSn, DataSn, StatSn};

header! {
    /// RFC 7143 11.19.
    NopIn, set { 1: 0x80 },
    flags {}
    bits {}
    fields {
        /// The logical unit of the ping.
        lun: Lun, 8;
        /// Tag of the ping that this PDU answers, or [`Itt::NONE`].
        itt: Itt, 16;
        /// Set if the target expects an answer, otherwise [`Ttt::NONE`].
        ttt: Ttt, 20;
        /// Number of this PDU (StatSN).
        stat_sn: StatSn, 24;
        /// Number of the command that the target expects next (ExpCmdSN).
        exp_cmd_sn: CmdSn, 28;
        /// Largest command number that the initiator may send (MaxCmdSN).
        max_cmd_sn: CmdSn, 32;
    }
}

header! {
    /// RFC 7143 11.4.
    ScsiResponse, set { 1: 0x80 },
    flags {
        /// The command had more bytes than the initiator expected.
        overflow: 1, 0x04;
        /// The command had fewer bytes than the initiator expected.
        underflow: 1, 0x02;
    }
    bits {}
    fields {
        /// 0 if the command is complete, 1 if the target failed (RFC 7143 11.4.3).
        response: u8, 2;
        /// SCSI status (SAM-5 5.3).
        status: u8, 3;
        /// Tag of the command.
        itt: Itt, 16;
        /// 0 at error recovery level 0.
        snack_tag: u32, 20;
        /// Number of this PDU (StatSN).
        stat_sn: StatSn, 24;
        /// Number of the command that the target expects next (ExpCmdSN).
        exp_cmd_sn: CmdSn, 28;
        /// Largest command number that the initiator may send (MaxCmdSN).
        max_cmd_sn: CmdSn, 32;
        /// Data-In PDUs and R2Ts sent for the command.
        exp_data_sn: DataSn, 36;
        /// Difference between the expected and the transferred bytes.
        residual_bytes: u32, 44;
    }
}

header! {
    /// Task Management Function Response, RFC 7143 11.6.
    TaskResponse, set { 1: 0x80 },
    flags {}
    bits {}
    fields {
        /// RFC 7143 11.6.1: 0 complete, 1 no such task, 2 no such logical unit, 5 not supported, 255 rejected.
        response: u8, 2;
        /// Tag of the request.
        itt: Itt, 16;
        /// Number of this PDU (StatSN).
        stat_sn: StatSn, 24;
        /// Number of the command that the target expects next (ExpCmdSN).
        exp_cmd_sn: CmdSn, 28;
        /// Largest command number that the initiator may send (MaxCmdSN).
        max_cmd_sn: CmdSn, 32;
    }
}

header! {
    /// RFC 7143 11.13.
    LoginResponse, set {},
    flags {
        /// The login changes to the next stage.
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
        /// Highest version that the target supports.
        version_max: u8, 2;
        /// The version in use.
        version_active: u8, 3;
        /// The ISID of the request.
        isid: Isid, 8;
        /// The target's number of the session. 0 until the last response.
        tsih: u16, 14;
        /// Tag of the request.
        itt: Itt, 16;
        /// Number of this PDU (StatSN).
        stat_sn: StatSn, 24;
        /// Number of the command that the target expects next (ExpCmdSN).
        exp_cmd_sn: CmdSn, 28;
        /// Largest command number that the initiator may send (MaxCmdSN).
        max_cmd_sn: CmdSn, 32;
        /// A [`crate::login::LoginStatus`].
        status: u16, 36;
    }
}

impl LoginResponse {
    /// A successful response in the stage of the request. Its numbers are 0.
    #[must_use]
    pub const fn to(request: &LoginRequest) -> Self {
        Self {
            transit: false,
            is_continued: false,
            csg: request.csg,
            nsg: 0,
            version_max: 0,
            version_active: 0,
            isid: request.isid,
            tsih: 0,
            itt: request.itt,
            stat_sn: StatSn(0),
            exp_cmd_sn: CmdSn(0),
            max_cmd_sn: CmdSn(0),
            status: 0,
        }
    }
}

header! {
    /// RFC 7143 11.11.
    TextResponse, set {},
    flags {
        /// The target has no more text.
        is_final: 1, 0x80;
        /// The text continues in the next PDU.
        is_continued: 1, 0x40;
    }
    bits {}
    fields {
        /// The logical unit of the target transfer tag.
        lun: Lun, 8;
        /// Tag of the request.
        itt: Itt, 16;
        /// Tag by which the next request continues this text, or [`Ttt::NONE`].
        ttt: Ttt, 20;
        /// Number of this PDU (StatSN).
        stat_sn: StatSn, 24;
        /// Number of the command that the target expects next (ExpCmdSN).
        exp_cmd_sn: CmdSn, 28;
        /// Largest command number that the initiator may send (MaxCmdSN).
        max_cmd_sn: CmdSn, 32;
    }
}

header! {
    /// SCSI Data-In, RFC 7143 11.7.
    DataIn, set {},
    flags {
        /// This PDU is the last of its sequence.
        is_final: 1, 0x80;
        /// The target requests an acknowledgement. Never set at error recovery level 0.
        acknowledge: 1, 0x40;
        /// The command had more bytes than the initiator expected.
        overflow: 1, 0x04;
        /// The command had fewer bytes than the initiator expected.
        underflow: 1, 0x02;
        /// It carries the status of the command.
        has_status: 1, 0x01;
    }
    bits {}
    fields {
        /// SCSI status, if `has_status` is set.
        status: u8, 3;
        /// The logical unit, if `acknowledge` is set.
        lun: Lun, 8;
        /// Tag of the command.
        itt: Itt, 16;
        /// [`Ttt::NONE`] unless `acknowledge` is set.
        ttt: Ttt, 20;
        /// Number of this PDU (StatSN), if `has_status` is set.
        stat_sn: StatSn, 24;
        /// Number of the command that the target expects next (ExpCmdSN).
        exp_cmd_sn: CmdSn, 28;
        /// Largest command number that the initiator may send (MaxCmdSN).
        max_cmd_sn: CmdSn, 32;
        /// Number of this PDU among the data PDUs of the command.
        data_sn: DataSn, 36;
        /// Offset of its data in the data of the command, in bytes.
        buffer_offset: u32, 40;
        /// Difference between the expected and the transferred bytes.
        residual_bytes: u32, 44;
    }
}

header! {
    /// RFC 7143 11.15.
    LogoutResponse, set { 1: 0x80 },
    flags {}
    bits {}
    fields {
        /// 0 closed, 1 no such connection, 2 recovery is not supported, 3 clean-up failed.
        response: u8, 2;
        /// Tag of the request.
        itt: Itt, 16;
        /// Number of this PDU (StatSN).
        stat_sn: StatSn, 24;
        /// Number of the command that the target expects next (ExpCmdSN).
        exp_cmd_sn: CmdSn, 28;
        /// Largest command number that the initiator may send (MaxCmdSN).
        max_cmd_sn: CmdSn, 32;
        /// Seconds.
        time2wait_s: u16, 40;
        /// Seconds.
        time2retain_s: u16, 42;
    }
}

header! {
    /// Ready To Transfer, RFC 7143 11.8.
    R2t, set { 1: 0x80 },
    flags {}
    bits {}
    fields {
        /// The logical unit of the command.
        lun: Lun, 8;
        /// Tag of the command.
        itt: Itt, 16;
        /// Tag that the requested data must carry.
        ttt: Ttt, 20;
        /// The StatSN of the next response. An R2T has no StatSN of its own.
        stat_sn: StatSn, 24;
        /// Number of the command that the target expects next (ExpCmdSN).
        exp_cmd_sn: CmdSn, 28;
        /// Largest command number that the initiator may send (MaxCmdSN).
        max_cmd_sn: CmdSn, 32;
        /// Number of this R2T among those of the command.
        r2t_sn: DataSn, 36;
        /// Offset of the requested data in the data of the command, in bytes.
        buffer_offset: u32, 40;
        /// Number of requested bytes.
        desired_bytes: u32, 44;
    }
}

header! {
    /// RFC 7143 11.9.
    AsyncMessage, set { 1: 0x80, 16: 0xff, 17: 0xff, 18: 0xff, 19: 0xff },
    flags {}
    bits {}
    fields {
        /// The logical unit of a SCSI event.
        lun: Lun, 8;
        /// Number of this PDU (StatSN).
        stat_sn: StatSn, 24;
        /// Number of the command that the target expects next (ExpCmdSN).
        exp_cmd_sn: CmdSn, 28;
        /// Largest command number that the initiator may send (MaxCmdSN).
        max_cmd_sn: CmdSn, 32;
        /// 0 SCSI event with sense data, 1 logout request, 2 connection dropped, 3 session dropped, 4 negotiation
        /// request.
        event: u8, 36;
        /// The vendor's code.
        vendor_code: u8, 37;
        /// Depends on the event.
        parameter1: u16, 38;
        /// Depends on the event: seconds until reconnection.
        parameter2: u16, 40;
        /// Depends on the event: seconds left, seconds until tasks are gone.
        parameter3: u16, 42;
    }
}

codes! {
    /// RFC 7143 11.17.1.
    RejectReason {
        /// The data digest is wrong.
        DataDigest = 0x02,
        /// The requested data for a retransmission does not exist.
        Snack = 0x03,
        /// The request is not allowed here.
        ProtocolError = 0x04,
        /// The target does not support the request.
        NotSupported = 0x05,
        /// Too many immediate commands.
        TooManyImmediate = 0x06,
        /// A task with this tag is in progress.
        TaskInProgress = 0x07,
        /// A field of the request is invalid.
        InvalidField = 0x09,
        /// The target waits for a logout.
        WaitingForLogout = 0x0c,
    }
}

header! {
    /// RFC 7143 11.17. The data segment holds the header of the rejected PDU.
    Reject, set { 1: 0x80, 16: 0xff, 17: 0xff, 18: 0xff, 19: 0xff },
    flags {}
    bits {}
    fields {
        /// The reason.
        reason: RejectReason, 2;
        /// Number of this PDU (StatSN).
        stat_sn: StatSn, 24;
        /// Number of the command that the target expects next (ExpCmdSN).
        exp_cmd_sn: CmdSn, 28;
        /// Largest command number that the initiator may send (MaxCmdSN).
        max_cmd_sn: CmdSn, 32;
        /// The data number, for rejected SNACKs.
        data_sn: DataSn, 36;
    }
}
