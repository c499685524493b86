//! What targets send (RFC 7143 11.4, 11.6 to 11.9, 11.11, 11.13, 11.15, 11.17, 11.19).
//!
//! `stat_sn`, `exp_cmd_sn` and `max_cmd_sn` stand at the same bytes in all of them.

use super::header::{Isid, Itt, Lun, Ttt, codes, header};
use super::request::LoginRequest;
use crate::serial::{CmdSn, DataSn, StatSn};

header! {
    /// RFC 7143 11.19.
    NopIn, set { 1: 0x80 },
    flags {}
    bits {}
    fields {
        /// Of the ping.
        lun: Lun, 8;
        /// Of the ping that is answered, or none.
        itt: Itt, 16;
        /// Set where an answer is wanted.
        ttt: Ttt, 20;
        /// Its number.
        stat_sn: StatSn, 24;
        /// The command expected next.
        exp_cmd_sn: CmdSn, 28;
        /// The last command that may be sent.
        max_cmd_sn: CmdSn, 32;
    }
}

header! {
    /// RFC 7143 11.4.
    ScsiResponse, set { 1: 0x80 },
    flags {
        /// Bytes did not fit in what the initiator expected.
        overflow: 1, 0x04;
        /// Fewer bytes than the initiator expected.
        underflow: 1, 0x02;
    }
    bits {}
    fields {
        /// 0: the command was completed; 1: the target failed (RFC 7143 11.4.3).
        response: u8, 2;
        /// SCSI status (SAM-5 5.3).
        status: u8, 3;
        /// The command.
        itt: Itt, 16;
        /// 0 at error recovery level 0.
        snack_tag: u32, 20;
        /// Its number.
        stat_sn: StatSn, 24;
        /// The command expected next.
        exp_cmd_sn: CmdSn, 28;
        /// The last command that may be sent.
        max_cmd_sn: CmdSn, 32;
        /// Data-In PDUs and R2Ts sent for the command.
        exp_data_sn: DataSn, 36;
        /// Bytes missing or too many.
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
        /// The request.
        itt: Itt, 16;
        /// Its number.
        stat_sn: StatSn, 24;
        /// The command expected next.
        exp_cmd_sn: CmdSn, 28;
        /// The last command that may be sent.
        max_cmd_sn: CmdSn, 32;
    }
}

header! {
    /// RFC 7143 11.13.
    LoginResponse, set {},
    flags {
        /// The next stage begins.
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
        /// The version in use.
        version_active: u8, 3;
        /// As in the request.
        isid: Isid, 8;
        /// The session; 0 until the last response.
        tsih: u16, 14;
        /// The request.
        itt: Itt, 16;
        /// Its number.
        stat_sn: StatSn, 24;
        /// The command expected next.
        exp_cmd_sn: CmdSn, 28;
        /// The last command that may be sent.
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
        /// The target has no more to say.
        is_final: 1, 0x80;
        /// The text goes on in the next PDU.
        is_continued: 1, 0x40;
    }
    bits {}
    fields {
        /// The logical unit of the tag.
        lun: Lun, 8;
        /// The request.
        itt: Itt, 16;
        /// How the next request goes on from here, or none.
        ttt: Ttt, 20;
        /// Its number.
        stat_sn: StatSn, 24;
        /// The command expected next.
        exp_cmd_sn: CmdSn, 28;
        /// The last command that may be sent.
        max_cmd_sn: CmdSn, 32;
    }
}

header! {
    /// SCSI Data-In, RFC 7143 11.7.
    DataIn, set {},
    flags {
        /// The last of its sequence.
        is_final: 1, 0x80;
        /// An acknowledgement is wanted; never at error recovery level 0.
        acknowledge: 1, 0x40;
        /// Bytes did not fit in what the initiator expected.
        overflow: 1, 0x04;
        /// Fewer bytes than the initiator expected.
        underflow: 1, 0x02;
        /// It carries the status of the command.
        has_status: 1, 0x01;
    }
    bits {}
    fields {
        /// SCSI status, with `has_status`.
        status: u8, 3;
        /// With `acknowledge`.
        lun: Lun, 8;
        /// The command.
        itt: Itt, 16;
        /// None without `acknowledge`.
        ttt: Ttt, 20;
        /// Its number, with `has_status`.
        stat_sn: StatSn, 24;
        /// The command expected next.
        exp_cmd_sn: CmdSn, 28;
        /// The last command that may be sent.
        max_cmd_sn: CmdSn, 32;
        /// Its number among the data PDUs of the command.
        data_sn: DataSn, 36;
        /// Where its data begins in that of the command.
        buffer_offset: u32, 40;
        /// Bytes missing or too many.
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
        /// The request.
        itt: Itt, 16;
        /// Its number.
        stat_sn: StatSn, 24;
        /// The command expected next.
        exp_cmd_sn: CmdSn, 28;
        /// The last command that may be sent.
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
        /// The command.
        itt: Itt, 16;
        /// For the data that answers it.
        ttt: Ttt, 20;
        /// The number of the next response; it has none itself.
        stat_sn: StatSn, 24;
        /// The command expected next.
        exp_cmd_sn: CmdSn, 28;
        /// The last command that may be sent.
        max_cmd_sn: CmdSn, 32;
        /// Its number among those of the command.
        r2t_sn: DataSn, 36;
        /// Where the data begins in that of the command.
        buffer_offset: u32, 40;
        /// Bytes to send.
        desired_bytes: u32, 44;
    }
}

header! {
    /// RFC 7143 11.9.
    AsyncMessage, set { 1: 0x80, 16: 0xff, 17: 0xff, 18: 0xff, 19: 0xff },
    flags {}
    bits {}
    fields {
        /// Of a SCSI event.
        lun: Lun, 8;
        /// Its number.
        stat_sn: StatSn, 24;
        /// The command expected next.
        exp_cmd_sn: CmdSn, 28;
        /// The last command that may be sent.
        max_cmd_sn: CmdSn, 32;
        /// 0 SCSI event with sense data, 1 log out please, 2 connection dropped, 3 session dropped, 4 negotiate please.
        event: u8, 36;
        /// For vendors.
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
        /// What is asked for again is not there.
        Snack = 0x03,
        /// The request is not allowed here.
        ProtocolError = 0x04,
        /// The request is unknown.
        NotSupported = 0x05,
        /// Too many immediate commands.
        TooManyImmediate = 0x06,
        /// A task of this tag is under way.
        TaskInProgress = 0x07,
        /// A field of the request is wrong.
        InvalidField = 0x09,
        /// A logout is due.
        WaitingForLogout = 0x0c,
    }
}

header! {
    /// RFC 7143 11.17; its data is the header of what is rejected.
    Reject, set { 1: 0x80, 16: 0xff, 17: 0xff, 18: 0xff, 19: 0xff },
    flags {}
    bits {}
    fields {
        /// Why.
        reason: RejectReason, 2;
        /// Its number.
        stat_sn: StatSn, 24;
        /// The command expected next.
        exp_cmd_sn: CmdSn, 28;
        /// The last command that may be sent.
        max_cmd_sn: CmdSn, 32;
        /// Of rejected SNACKs.
        data_sn: DataSn, 36;
    }
}
