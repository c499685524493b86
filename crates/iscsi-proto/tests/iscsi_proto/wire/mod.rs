//! A target's connection and single PDUs to it, which need not be ones that an initiator would send.

use crate::pair::{BLOCK, Pair, TargetSide, TestHost, cdb, initiator_settings};
use iscsi_proto::login::{Offer, SessionType};
use iscsi_proto::pdu::*;
use iscsi_proto::serial::{CmdSn, DataSn, StatSn};
use iscsi_proto::target::{self, Fault};

/// A reply.
#[derive(Debug)]
pub struct Reply {
    pub bhs: Bhs,
    pub data: Vec<u8>,
}

impl Reply {
    pub fn opcode(&self) -> Opcode {
        self.bhs.opcode().unwrap()
    }

    pub fn stat_sn(&self) -> u32 {
        u32::from_be_bytes(self.bhs.0[24..28].try_into().unwrap())
    }
}

pub struct Wire {
    pub target: TargetSide,
    pub cmd_sn: CmdSn,
}

pub fn server(offer: Offer, command_window: usize) -> target::Settings {
    target::Settings { offer, command_window }
}

impl Wire {
    /// In the full feature phase, as both sides' offers settle it.
    pub fn connected(client: Offer, server: target::Settings) -> Self {
        Self::of(SessionType::Normal, client, server, TestHost::default())
    }

    pub fn of(session_type: SessionType, client: Offer, server: target::Settings, host: TestHost) -> Self {
        let mut settings = initiator_settings();
        settings.offer = client;
        if session_type == SessionType::Discovery {
            settings.target = None;
        }
        let pair = Pair::connected(settings, server, host);
        Self { target: pair.target, cmd_sn: CmdSn(1) }
    }

    pub fn default() -> Self {
        Self::connected(Offer::default(), server(Offer::default(), 8))
    }

    /// Sends a PDU without digests.
    pub fn send(&mut self, bhs: Bhs, data: &[u8]) -> Result<Vec<Reply>, Fault> {
        let bytes = bytes_of(bhs, data);
        let replies = self.target.receive(&bytes)?;
        Ok(replies_of(&replies))
    }

    pub fn next_cmd_sn(&mut self) -> CmdSn {
        let number = self.cmd_sn;
        self.cmd_sn = number.next();
        number
    }

    /// A read of blocks from the start of the disk.
    pub fn read(&mut self, itt: u32, blocks: usize) -> Bhs {
        let mut command = self.command(itt, crate::pair::READ_10, blocks);
        command.read = true;
        command.to_bhs()
    }

    /// A write of blocks to the start of the disk.
    pub fn write(&mut self, itt: u32, blocks: usize, is_final: bool) -> ScsiCommand {
        let mut command = self.command(itt, crate::pair::WRITE_10, blocks);
        (command.write, command.is_final) = (true, is_final);
        command
    }

    fn command(&mut self, itt: u32, code: u8, blocks: usize) -> ScsiCommand {
        let mut bytes = [0; 16];
        bytes[..10].copy_from_slice(&cdb(code, 0, blocks));
        ScsiCommand {
            immediate: false,
            is_final: true,
            read: false,
            write: false,
            attribute: 1,
            lun: Lun::default(),
            itt: Itt(itt),
            expected_data_bytes: (blocks * BLOCK) as u32,
            cmd_sn: self.next_cmd_sn(),
            exp_stat_sn: StatSn(0),
            cdb: bytes,
        }
    }

    /// A task management function, immediate.
    pub fn management(&self, itt: u32, function: TaskFunction, referenced: u32) -> Bhs {
        let request = TaskRequest {
            immediate: true,
            function: function.0,
            lun: Lun::default(),
            itt: Itt(itt),
            referenced_itt: Itt(referenced),
            cmd_sn: self.cmd_sn,
            exp_stat_sn: StatSn(0),
            ref_cmd_sn: CmdSn(0),
            exp_data_sn: DataSn(0),
        };
        request.to_bhs()
    }

    /// Carries the job out and takes its replies.
    pub fn finish(&mut self, job: usize) -> Vec<Reply> {
        replies_of(&self.target.carry_out(job))
    }
}

pub fn data_out(itt: u32, ttt: Ttt, data_sn: u32, offset: usize, is_final: bool) -> Bhs {
    let header = DataOut {
        is_final,
        lun: Lun::default(),
        itt: Itt(itt),
        ttt,
        exp_stat_sn: StatSn(0),
        data_sn: DataSn(data_sn),
        buffer_offset: offset as u32,
    };
    header.to_bhs()
}

pub fn bytes_of(mut bhs: Bhs, data: &[u8]) -> Vec<u8> {
    bhs.0[5..8].copy_from_slice(&(data.len() as u32).to_be_bytes()[1..]);
    let mut bytes = [&bhs.0[..], data].concat();
    bytes.resize(padded(bytes.len()), 0);
    bytes
}

/// Takes PDUs without digests apart.
pub fn replies_of(bytes: &[u8]) -> Vec<Reply> {
    let limits = FrameLimits { digests: Digests::default(), data_bytes_max: 1 << 20 };
    let mut rest = bytes;
    let mut replies = Vec::new();
    while !rest.is_empty() {
        let Framed::Whole { bytes } = frame(rest, limits).unwrap() else { panic!("a part of a PDU") };
        let pdu = iscsi_proto::pdu::parse(&rest[..bytes], limits).unwrap();
        replies.push(Reply { bhs: pdu.bhs, data: pdu.data.to_vec() });
        rest = &rest[bytes..];
    }
    replies
}
