//! A connection of an iSCSI target with a host that takes every initiator.

use iscsi_proto::chap::{Algorithm, Credential};
use iscsi_proto::initiator::{self, Initiator};
use iscsi_proto::login::{DigestChoice, LoginStatus, Name, Offer};
use iscsi_proto::pdu::{self, Digests, FrameLimits, Framed, Isid, Lun};
use iscsi_proto::target::{
    self, Access, Authentication, Challenge, Event, Fault, Host, Opening, Receiver, Replies, Sender, Task, Tsih,
};

use crate::every;

pub const CHALLENGE: Challenge = Challenge { identifier: 1, bytes: [3; 32] };

pub struct AnyHost {
    pub chap: bool,
}

impl Host for AnyHost {
    fn access(&self, _initiator: &Name, _target: Option<&Name>) -> Result<Access, LoginStatus> {
        Ok(Access { portal_group_tag: 1, alias: None, authentication: self.authentication() })
    }

    fn open(&self, opening: &Opening) -> Result<Tsih, LoginStatus> {
        opening.tsih.map_or(Ok(Tsih(1)), |_| Err(LoginStatus::NO_SESSION))
    }

    fn targets(&self, _initiator: &Name, visit: &mut dyn FnMut(&Name, &[String])) {
        let addresses: Vec<String> = (0..9).map(|host| format!("192.0.2.{host}:3260,1")).collect();
        (0..9).for_each(|number| visit(&Name::new(&format!("iqn.2026-01.example:{number}")).unwrap(), &addresses));
    }

    fn data_out_bytes(&self, _lun: Lun, cdb: &[u8]) -> u64 {
        // Of any size, so that some are over the limits.
        u64::from(cdb[1]) << (cdb[2] & 31)
    }
}

impl AnyHost {
    pub fn credential() -> Credential {
        Credential::new("user", b"a secret of the user").unwrap()
    }

    pub fn own() -> Credential {
        Credential::new("target", b"a secret of the target").unwrap()
    }

    fn authentication(&self) -> Authentication {
        if !self.chap {
            return Authentication::None;
        }
        let algorithms = Algorithm::ALL.to_vec();
        Authentication::Chap { accepted: vec![Self::credential()], algorithms, own: Some(Self::own()) }
    }
}

/// What a byte chooses to offer.
pub fn offer(choice: u8) -> Offer {
    let digest = if choice & 1 != 0 { DigestChoice::Preferred } else { DigestChoice::Never };
    Offer {
        header_digest: digest,
        data_digest: digest,
        initial_r2t: choice & 2 != 0,
        immediate_data: choice & 4 == 0,
        receive_segment_bytes_max: if choice & 8 != 0 { 512 } else { 8192 },
        max_burst_bytes: if choice & 16 != 0 { 1024 } else { 65_536 },
        ..Offer::default()
    }
}

pub fn client(choice: u8, discovery: bool, chap: bool) -> initiator::Settings {
    initiator::Settings {
        name: Name::new("iqn.2026-01.example:client").unwrap(),
        isid: Isid([1; 6]),
        target: (!discovery).then(|| Name::new("iqn.2026-01.example:0").unwrap()),
        offer: offer(choice),
        credential: chap.then(AnyHost::credential),
        target_credential: chap.then(AnyHost::own),
        algorithms: iscsi_proto::chap::Algorithm::ALL.to_vec(),
        challenge: Challenge { identifier: 2, bytes: [4; 32] },
    }
}

pub struct Connection {
    pub receiver: Receiver,
    pub replies: Replies,
    pub sender: Sender,
    pub host: AnyHost,
    pub tasks: Vec<Task>,
    pub ended: bool,
    next_stat_sn: Option<u32>,
}

impl Connection {
    pub fn new(choice: u8, chap: bool) -> Self {
        let settings = target::Settings { offer: offer(choice), command_window: 8 };
        let (receiver, replies, sender) = target::connect(settings, CHALLENGE);
        Self { receiver, replies, sender, host: AnyHost { chap }, tasks: Vec::new(), ended: false, next_stat_sn: None }
    }

    /// Logs in with our own initiator.
    pub fn log_in(&mut self, mut initiator: Initiator) {
        let (mut out, mut steps) = (Vec::new(), 0);
        initiator.start(&mut out);
        while self.receiver.session().is_none() {
            let reply = self.receive(&out).expect("log in");
            out.clear();
            let mut rest = &reply[..];
            while let Framed::Whole { bytes } = initiator.frame(rest).expect("a reply") {
                initiator.receive(&rest[..bytes], &mut out).expect("an answer");
                rest = &rest[bytes..];
            }
            steps += 1;
            assert!(steps < 8, "the login does not end");
        }
    }

    /// Takes whole PDUs; what is to be sent.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<Vec<u8>, Fault> {
        let (mut out, mut rest) = (Vec::new(), bytes);
        while let Framed::Whole { bytes } = self.receiver.frame(rest)? {
            let (pdu, behind) = rest.split_at(bytes);
            rest = behind;
            match self.receiver.receive(pdu, &self.host, &mut out)? {
                Event::Nothing | Event::LoggedIn => {}
                Event::Command(command) => {
                    assert!(command.data.len() as u64 <= self.host.data_out_bytes(Lun::default(), command.cdb.as_slice()));
                    assert!(command.data.len() <= command.task.expected_write_bytes() as usize);
                    self.tasks.push(command.task);
                }
                Event::TaskManagement(management) => self.replies.task_management(&mut out, &management, management.answer),
                Event::End(_) => {
                    self.ended = true;
                    break;
                }
            }
        }
        self.stamp(&mut out);
        Ok(out)
    }

    /// Stamps, and checks what an initiator would.
    pub fn stamp(&mut self, out: &mut Vec<u8>) {
        self.sender.stamp(out);
        let digests = self.receiver.session().map(|session| session.parameters);
        let digests = digests.map_or_else(Digests::default, |all| Digests { header: all.header_digest, data: all.data_digest });
        let mut rest = &out[..];
        while !rest.is_empty() {
            let is_login = rest[0] & 0x3f == pdu::Opcode::LoginResponse as u8;
            let digests = if is_login { Digests::default() } else { digests };
            let limits = FrameLimits { digests, data_bytes_max: 1 << 20 };
            if self.ended && !is_login {
                return; // The digests of the session that ended are not known here.
            }
            let Ok(Framed::Whole { bytes }) = pdu::frame(rest, limits) else { panic!("no PDU in the replies") };
            let bhs = pdu::parse(&rest[..bytes], limits).expect("a PDU").bhs;
            assert_eq!(every::header_again(&bhs), Some(bhs));
            self.number(&bhs);
            rest = &rest[bytes..];
        }
    }

    fn number(&mut self, bhs: &pdu::Bhs) {
        let shown = u32::from_be_bytes(bhs.0[24..28].try_into().unwrap());
        let due = *self.next_stat_sn.get_or_insert(shown);
        let opcode = bhs.opcode().unwrap();
        let has_own = match opcode {
            pdu::Opcode::DataIn if bhs.0[1] & 1 == 0 => return assert_eq!(shown, 0),
            pdu::Opcode::R2t => false,
            pdu::Opcode::NopIn => bhs.itt() != pdu::Itt::NONE,
            _ => true,
        };
        assert_eq!(shown, due, "StatSN of {opcode:?}");
        self.next_stat_sn = Some(due.wrapping_add(u32::from(has_own)));
    }
}
