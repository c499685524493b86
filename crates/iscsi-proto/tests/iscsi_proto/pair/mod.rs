//! An initiator and a target in memory, with a disk behind the target; what they send is delivered in pieces as a seed says.

use iscsi_proto::initiator::{self, Initiator};
use iscsi_proto::login::{LoginStatus, Name};
use iscsi_proto::pdu::{Framed, Itt, Lun};
use iscsi_proto::target::{
    self, Access, Authentication, Challenge, Command, End, Event, Fault, Host, Opening, Outcome, Purpose, Receiver, Replies,
    Sender, Tsih,
};
use sim::Rng;
use std::cell::{Cell, RefCell};

pub const BLOCK: usize = 512;
pub const READ_10: u8 = 0x28;
pub const WRITE_10: u8 = 0x2a;
/// Of vendors: a write that takes less than the initiator may send. Its bytes stand at 2.
pub const WRITE_SHORT: u8 = 0xc0;
const GOOD: u8 = 0;
const CHECK_CONDITION: u8 = 2;
pub const SENSE: [u8; 18] = [0x70, 0, 5, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 0];

pub const CHALLENGE: Challenge = Challenge { identifier: 7, bytes: [0x5a; 32] };

pub fn name(name: &str) -> Name {
    Name::new(name).unwrap()
}

/// Targets and who may use them.
pub struct TestHost {
    pub access: Result<Access, LoginStatus>,
    pub opened: RefCell<Vec<Opening>>,
    pub targets: Vec<(Name, Vec<String>)>,
    /// What `open` answers instead of a session.
    pub closed: Option<LoginStatus>,
    /// Bytes of memory that are left for data of commands. Freed memory is not added again.
    pub memory: Cell<usize>,
}

impl Default for TestHost {
    fn default() -> Self {
        Self {
            access: Ok(Access { portal_group_tag: 1, alias: None, authentication: Authentication::None }),
            opened: RefCell::default(),
            targets: vec![(name("iqn.2026-01.example:disk"), vec!["127.0.0.1:3260,1".into()])],
            closed: None,
            memory: Cell::new(usize::MAX),
        }
    }
}

impl Host for TestHost {
    fn access(&self, _initiator: &Name, _target: Option<&Name>) -> Result<Access, LoginStatus> {
        self.access.clone()
    }

    fn open(&self, opening: &Opening) -> Result<Tsih, LoginStatus> {
        self.opened.borrow_mut().push(opening.clone());
        self.closed.map_or(Ok(Tsih(77)), Err)
    }

    fn targets(&self, _initiator: &Name, visit: &mut dyn FnMut(&Name, &[String])) {
        self.targets.iter().for_each(|(name, addresses)| visit(name, addresses));
    }

    fn data_out_bytes(&self, _lun: Lun, cdb: &[u8]) -> u64 {
        match cdb[0] {
            WRITE_10 => blocks_of(cdb).1 as u64 * BLOCK as u64,
            WRITE_SHORT => u64::from(u32::from_be_bytes(*cdb[2..].first_chunk().unwrap())),
            _ => 0,
        }
    }

    fn reserve(&self, bytes: usize, _purpose: Purpose) -> bool {
        let left = self.memory.get().checked_sub(bytes);
        self.memory.set(left.unwrap_or(self.memory.get()));
        left.is_some()
    }
}

/// First block and number of blocks of a CDB of 10 bytes.
pub fn blocks_of(cdb: &[u8]) -> (usize, usize) {
    let start = u32::from_be_bytes(*cdb[2..].first_chunk().unwrap()) as usize;
    (start, usize::from(u16::from_be_bytes(*cdb[7..].first_chunk().unwrap())))
}

pub fn cdb(code: u8, block: usize, blocks: usize) -> [u8; 10] {
    let mut cdb = [0; 10];
    cdb[0] = code;
    cdb[2..6].copy_from_slice(&(block as u32).to_be_bytes());
    cdb[7..9].copy_from_slice(&(blocks as u16).to_be_bytes());
    cdb
}

/// A command that was taken from the target and is not carried out.
pub struct Job {
    pub task: target::Task,
    pub cdb: Vec<u8>,
    pub data: Vec<u8>,
}

/// The target's side.
pub struct TargetSide {
    pub receiver: Receiver,
    pub replies: Replies,
    pub sender: Sender,
    pub host: TestHost,
    pub disk: Vec<u8>,
    pub jobs: Vec<Job>,
    pub management: Vec<target::TaskManagement>,
    pub ended: Option<End>,
    pub received: Vec<u8>, // not taken yet
}

impl TargetSide {
    pub fn new(settings: target::Settings, host: TestHost, blocks: usize) -> Self {
        let (receiver, replies, sender) = target::connect(settings, CHALLENGE);
        Self {
            receiver,
            replies,
            sender,
            host,
            disk: vec![0; blocks * BLOCK],
            jobs: Vec::new(),
            management: Vec::new(),
            ended: None,
            received: Vec::new(),
        }
    }

    /// Takes every whole PDU of what was received; what is to be sent.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<Vec<u8>, Fault> {
        self.received.extend_from_slice(bytes);
        let received = std::mem::take(&mut self.received);
        let mut rest = &received[..];
        let mut out = Vec::new();
        while let Framed::Whole { bytes } = self.receiver.frame(rest)? {
            let (pdu, behind) = rest.split_at(bytes);
            rest = behind;
            match self.receiver.receive(pdu, &self.host, &mut out)? {
                Event::Nothing | Event::LoggedIn => {}
                Event::Command(Command { task, cdb, data }) => {
                    self.jobs.push(Job { task, cdb: cdb.as_slice().to_vec(), data: data.into_owned() });
                }
                Event::TaskManagement(management) => {
                    self.replies.task_management(&mut out, &management, management.answer);
                    self.management.push(management);
                }
                Event::End(end) => self.ended = Some(end),
            }
        }
        self.received = rest.to_vec();
        self.sender.stamp(&mut out);
        Ok(out)
    }

    /// Carries a job out; what is to be sent.
    pub fn carry_out(&mut self, at: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let job = self.jobs.remove(at);
        self.execute(job, &mut out);
        self.sender.stamp(&mut out);
        out
    }

    /// The same, not stamped.
    pub fn execute(&mut self, job: Job, out: &mut Vec<u8>) {
        let begun = self.replies.begin(out);
        let outcome = match job.cdb[0] {
            READ_10 | WRITE_10 => {
                let (block, blocks) = blocks_of(&job.cdb);
                let range = block * BLOCK..(block + blocks) * BLOCK;
                if job.cdb[0] == READ_10 {
                    out.extend_from_slice(&self.disk[range]);
                } else {
                    let part = range.start..range.start + job.data.len();
                    self.disk[part].copy_from_slice(&job.data);
                }
                Outcome { status: GOOD, sense: &[], transfer_bytes: (blocks * BLOCK) as u64 }
            }
            WRITE_SHORT => Outcome { status: GOOD, sense: &[], transfer_bytes: job.data.len() as u64 },
            0 => Outcome { status: GOOD, sense: &[], transfer_bytes: 0 },
            _ => Outcome { status: CHECK_CONDITION, sense: &SENSE, transfer_bytes: 0 },
        };
        self.replies.finish(out, begun, job.task, &outcome);
    }
}

/// A pipe of bytes that gives them in pieces.
#[derive(Default)]
pub struct Pipe(Vec<u8>);

impl Pipe {
    pub fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A piece: often a few bytes, often all there is.
    pub fn piece(&mut self, rng: &mut Rng) -> Vec<u8> {
        let bytes = match rng.below(4) {
            0 => 1 + rng.index(60),
            1 => 1 + rng.index(5000),
            _ => self.0.len(),
        };
        self.0.drain(..bytes.min(self.0.len())).collect()
    }
}

pub fn initiator_settings() -> initiator::Settings {
    initiator::Settings {
        name: name("iqn.2026-01.example:client"),
        isid: iscsi_proto::pdu::Isid([0x80, 1, 2, 3, 0, 1]),
        target: Some(name("iqn.2026-01.example:disk")),
        offer: Default::default(),
        credential: None,
        target_credential: None,
        algorithms: iscsi_proto::chap::Algorithm::ALL.to_vec(),
        challenge: Challenge { identifier: 9, bytes: [0xa5; 32] },
    }
}

/// Both sides, delivered at once: for tests that are not about delivery.
pub struct Pair {
    pub initiator: Initiator,
    pub target: TargetSide,
    received: Vec<u8>,
}

/// What the initiator was told.
#[derive(Debug, PartialEq, Eq)]
pub enum Told {
    LoggedIn,
    Refused(LoginStatus),
    Data { itt: Itt, offset: u32, data: Vec<u8>, status: Option<initiator::Status> },
    Ended { itt: Itt, status: initiator::Status, sense: Vec<u8> },
    Wanted(initiator::DataRequest),
    Management { itt: Itt, response: u8 },
    Pong(Vec<u8>),
    Text(Vec<u8>),
    Async(u8, u16),
    Rejected(u8),
    LoggedOut(u8),
}

impl Told {
    pub fn of(event: initiator::Event<'_>) -> Option<Self> {
        use initiator::Event;
        Some(match event {
            Event::Nothing => return None,
            Event::LoggedIn(_) => Self::LoggedIn,
            Event::LoginRefused { status, .. } => Self::Refused(status),
            Event::Data { itt, offset, data, status } => Self::Data { itt, offset, data: data.to_vec(), status },
            Event::Ended { itt, status, sense } => Self::Ended { itt, status, sense: sense.to_vec() },
            Event::Wanted(request) => Self::Wanted(request),
            Event::TaskManagement { itt, response } => Self::Management { itt, response },
            Event::Pong { data, .. } => Self::Pong(data.to_vec()),
            Event::Text { text, .. } => Self::Text(text),
            Event::Async { event, parameters, .. } => Self::Async(event, parameters[2]),
            Event::Rejected { reason, .. } => Self::Rejected(reason.0),
            Event::LoggedOut { response } => Self::LoggedOut(response),
        })
    }
}

/// Gives what came to the initiator; what it was told, and what it sends.
pub fn give(initiator: &mut Initiator, received: &mut Vec<u8>, bytes: &[u8]) -> Result<(Vec<Told>, Vec<u8>), Fault> {
    received.extend_from_slice(bytes);
    let taken = std::mem::take(received);
    let mut rest = &taken[..];
    let (mut told, mut out) = (Vec::new(), Vec::new());
    while let Framed::Whole { bytes } = initiator.frame(rest)? {
        let (pdu, behind) = rest.split_at(bytes);
        rest = behind;
        told.extend(Told::of(initiator.receive(pdu, &mut out)?));
    }
    *received = rest.to_vec();
    Ok((told, out))
}

impl Pair {
    pub fn new(client: initiator::Settings, server: target::Settings, host: TestHost) -> Self {
        Self { initiator: Initiator::new(client), target: TargetSide::new(server, host, 4096), received: Vec::new() }
    }

    /// Logged in.
    pub fn connected(client: initiator::Settings, server: target::Settings, host: TestHost) -> Self {
        let mut pair = Self::new(client, server, host);
        assert_eq!(pair.log_in(), [Told::LoggedIn]);
        pair
    }

    pub fn log_in(&mut self) -> Vec<Told> {
        let mut out = Vec::new();
        self.initiator.start(&mut out);
        self.exchange(&out).unwrap()
    }

    /// Sends to the target and back until nobody has anything to send; what the initiator was told.
    pub fn exchange(&mut self, bytes: &[u8]) -> Result<Vec<Told>, Fault> {
        let mut all = Vec::new();
        let mut to_target = bytes.to_vec();
        while !to_target.is_empty() {
            let to_initiator = self.target.receive(&to_target)?;
            let (told, out) = give(&mut self.initiator, &mut self.received, &to_initiator)?;
            all.extend(told);
            to_target = out;
        }
        Ok(all)
    }

    /// Gives bytes of the target to the initiator, and what that sends to the target.
    pub fn deliver(&mut self, bytes: &[u8]) -> Vec<Told> {
        let (mut told, out) = give(&mut self.initiator, &mut self.received, bytes).unwrap();
        told.extend(self.exchange(&out).unwrap());
        told
    }
}
