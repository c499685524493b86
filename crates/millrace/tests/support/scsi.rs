//! An initiator over a socket that sends one command at a time, or many at once, for tests of a target.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use iscsi_proto::chap::Credential;
use iscsi_proto::initiator::{Event, Initiator, Request, Settings, Transfer};
use iscsi_proto::login::{LoginStatus, Name, Offer};
use iscsi_proto::pdu::{Framed, Isid, Itt, Lun, TaskFunction};
use iscsi_proto::target::Challenge;

/// Longest wait for a response.
const PATIENCE: Duration = Duration::from_secs(60);

/// The identity with which a test logs in.
#[derive(Clone, Debug)]
pub struct Who {
    pub initiator: String,
    pub isid: u8,
    pub user: Option<(String, String)>,
    /// The name and the secret by which the target authenticates itself.
    pub target_user: Option<(String, String)>,
    pub offer: Offer,
}

/// A session.
pub struct Client {
    stream: TcpStream,
    initiator: Initiator,
    received: Vec<u8>,
    data: HashMap<u32, Vec<u8>>,
}

/// The result of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub status: u8,
    pub sense: Vec<u8>,
    pub data: Vec<u8>,
}

/// The reason why a login failed.
#[derive(Debug)]
pub enum LoginError {
    Refused(LoginStatus),
    Closed,
}

impl Who {
    /// An initiator without a secret.
    pub fn named(initiator: &str) -> Self {
        Self { initiator: initiator.into(), isid: 1, user: None, target_user: None, offer: Offer::default() }
    }

    pub fn session(mut self, isid: u8) -> Self {
        self.isid = isid;
        self
    }

    /// Adds the name and the secret by which the initiator authenticates itself.
    pub fn proves(mut self, name: &str, secret: &str) -> Self {
        self.user = Some((name.into(), secret.into()));
        self
    }
}

impl Ended {
    pub fn is_good(&self) -> bool {
        self.status == 0
    }

    /// Sense key, additional sense code and qualifier, in fixed format.
    pub fn sense_code(&self) -> (u8, u8, u8) {
        let byte = |at: usize| self.sense.get(at).copied().unwrap_or(0);
        (byte(2) & 15, byte(12), byte(13))
    }
}

impl Client {
    /// Logs in to a target. Unit attentions wait for the first command.
    pub fn login(portal: SocketAddr, target: &str, who: &Who) -> Result<Self, LoginError> {
        Self::begin(portal, Some(target), who)
    }

    /// Begins a discovery session.
    pub fn discover(portal: SocketAddr, who: &Who) -> Result<Self, LoginError> {
        Self::begin(portal, None, who)
    }

    fn begin(portal: SocketAddr, target: Option<&str>, who: &Who) -> Result<Self, LoginError> {
        let stream = TcpStream::connect(portal).map_err(|_| LoginError::Closed)?;
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let credential =
            |of: &Option<(String, String)>| of.as_ref().map(|(name, secret)| Credential::new(name, secret.as_bytes()).unwrap());
        let settings = Settings {
            name: Name::new(&who.initiator).unwrap(),
            isid: Isid([0x80, 0, 0, 0, 0, who.isid]),
            target: target.map(|target| Name::new(target).unwrap()),
            offer: who.offer,
            credential: credential(&who.user),
            target_credential: credential(&who.target_user),
            algorithms: iscsi_proto::chap::Algorithm::ALL.to_vec(),
            challenge: Challenge { identifier: 7, bytes: [who.isid; 32] },
        };
        let mut client = Self { stream, initiator: Initiator::new(settings), received: Vec::new(), data: HashMap::new() };
        let mut out = Vec::new();
        client.initiator.start(&mut out);
        client.stream.write_all(&out).map_err(|_| LoginError::Closed)?;
        loop {
            let mut status = None;
            let mut done = false;
            client
                .turn(|event| match event {
                    Event::LoggedIn(_) => done = true,
                    Event::LoginRefused { status: refused, .. } => status = Some(*refused),
                    _ => {}
                })
                .map_err(|_| LoginError::Closed)?;
            if let Some(status) = status {
                return Err(LoginError::Refused(status));
            }
            if done {
                return Ok(client);
            }
        }
    }

    /// As [`Self::login`]. Also clears the unit attention that a new session gets at the LUN.
    pub fn ready(portal: SocketAddr, target: &str, who: &Who, lun: u16) -> Self {
        let mut client = Self::login(portal, target, who).unwrap_or_else(|error| panic!("log in to {target}: {error:?}"));
        client.take_attentions(lun);
        client
    }

    /// Sends TEST UNIT READY until there is no unit attention left. Returns the unit attentions.
    pub fn take_attentions(&mut self, lun: u16) -> Vec<(u8, u8, u8)> {
        let mut told = Vec::new();
        loop {
            let ended = self.run(lun, &[0; 6], Transfer::None).unwrap();
            if ended.is_good() {
                return told;
            }
            assert!(told.len() < 16, "{told:?}");
            told.push(ended.sense_code());
        }
    }

    /// Receives once, and handles every complete PDU.
    fn turn(&mut self, mut see: impl FnMut(&Event<'_>)) -> io::Result<()> {
        let mut buffer = vec![0; 64 << 10];
        let bytes = loop {
            match self.stream.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {} // by a signal of another test
                read => break read?,
            }
        };
        if bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.received.extend_from_slice(&buffer[..bytes]);
        let mut out = Vec::new();
        while let Framed::Whole { bytes } = self.initiator.frame(&self.received).map_err(io::Error::other)? {
            let pdu: Vec<u8> = self.received.drain(..bytes).collect();
            let event = self.initiator.receive(&pdu, &mut out).map_err(io::Error::other)?;
            see(&event);
        }
        self.stream.write_all(&out)
    }

    /// Sends a command and does not wait for it.
    pub fn send(&mut self, lun: u16, cdb: &[u8], transfer: Transfer<'_>) -> io::Result<Itt> {
        self.send_changed(lun, cdb, transfer, |_| {})
    }

    /// As [`Self::send`], but `change` changes the PDUs before they are sent.
    pub fn send_changed(
        &mut self,
        lun: u16,
        cdb: &[u8],
        transfer: Transfer<'_>,
        change: impl FnOnce(&mut Vec<u8>),
    ) -> io::Result<Itt> {
        let mut out = Vec::new();
        let lun = Lun(iscsi_proto::scsi::Lun::new(lun).unwrap().to_bytes());
        let request = Request { lun, cdb, attribute: 1, transfer };
        let itt = self.initiator.command(&mut out, &request).map_err(io::Error::other)?;
        change(&mut out);
        self.stream.write_all(&out)?;
        Ok(itt)
    }

    /// Number of commands that may be sent now.
    pub fn window(&self) -> u32 {
        self.initiator.window()
    }

    /// Executes one command.
    pub fn run(&mut self, lun: u16, cdb: &[u8], transfer: Transfer<'_>) -> io::Result<Ended> {
        let itt = self.send(lun, cdb, transfer)?;
        let data = if let Transfer::Write(data) = transfer { data } else { &[] };
        loop {
            if let Some((_, ended)) = self.next_ended(&|_| Some(data))?.into_iter().find(|(of, _)| *of == itt) {
                return Ok(ended);
            }
        }
    }

    /// Receives once. Returns the commands that have ended. `data_of` returns the data of a command
    /// that an R2T requests.
    pub fn next_ended<'d>(&mut self, data_of: &dyn Fn(Itt) -> Option<&'d [u8]>) -> io::Result<Vec<(Itt, Ended)>> {
        let (mut ended, mut wanted) = (Vec::new(), Vec::new());
        let mut all = std::mem::take(&mut self.data);
        let done = self.turn(|event| match event {
            Event::Data { itt, offset, data, status } => {
                let into = all.entry(itt.0).or_default();
                into.resize((*offset as usize + data.len()).max(into.len()), 0);
                into[*offset as usize..*offset as usize + data.len()].copy_from_slice(data);
                if let Some(status) = status {
                    let data = all.remove(&itt.0).unwrap_or_default();
                    ended.push((*itt, Ended { status: status.status, sense: Vec::new(), data }));
                }
            }
            Event::Ended { itt, status, sense } => {
                let data = all.remove(&itt.0).unwrap_or_default();
                // A target failure has no SCSI status. Tests treat it as a status that is not good.
                let code = if status.response == 0 { status.status } else { 0xff };
                ended.push((*itt, Ended { status: code, sense: sense.to_vec(), data }));
            }
            Event::Wanted(request) => wanted.push(*request),
            _ => {}
        });
        self.data = all;
        done?;
        let mut out = Vec::new();
        for request in wanted {
            let data = data_of(request.itt).unwrap_or_default();
            self.initiator.data_out(&mut out, request, data).map_err(io::Error::other)?;
        }
        self.stream.write_all(&out)?;
        Ok(ended)
    }

    /// Answers the pings received so far. Returns false if the target has ended the session.
    pub fn answer_pings(&mut self) -> bool {
        self.without_waiting(|client| client.turn(|_| {})).is_none_or(|turned| turned.is_ok())
    }

    /// A command that has ended. `None` if none was received.
    pub fn poll_ended(&mut self) -> Option<(Itt, Ended)> {
        self.without_waiting(|client| client.next_ended(&|_| None))?.unwrap().pop()
    }

    /// Runs `receive` without waiting. `None` if it would wait.
    fn without_waiting<T>(&mut self, receive: impl FnOnce(&mut Self) -> io::Result<T>) -> Option<io::Result<T>> {
        self.stream.set_nonblocking(true).unwrap();
        let received = receive(self);
        self.stream.set_nonblocking(false).unwrap();
        (!received.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)).then_some(received)
    }

    /// Sends a task management function and does not wait for the response.
    pub fn send_management(&mut self, function: TaskFunction, lun: u16, referenced: Option<Itt>) -> io::Result<()> {
        let mut out = Vec::new();
        let lun = Lun(iscsi_proto::scsi::Lun::new(lun).unwrap().to_bytes());
        self.initiator.task_management(&mut out, function, lun, referenced).map_err(io::Error::other)?;
        self.stream.write_all(&out)
    }

    /// Sends a task management function. Returns the response.
    pub fn manage(&mut self, function: TaskFunction, lun: u16, referenced: Option<Itt>) -> io::Result<u8> {
        self.send_management(function, lun, referenced)?;
        let mut response = None;
        while response.is_none() {
            self.turn(|event| {
                if let Event::TaskManagement { response: code, .. } = event {
                    response = Some(*code);
                }
            })?;
        }
        Ok(response.unwrap())
    }

    /// Sends SendTargets=All. Returns the text of the response.
    pub fn targets(&mut self) -> io::Result<String> {
        let mut out = Vec::new();
        self.initiator.send_targets(&mut out, "All").map_err(io::Error::other)?;
        self.stream.write_all(&out)?;
        let mut answer = None;
        while answer.is_none() {
            self.turn(|event| {
                if let Event::Text { text, .. } = event {
                    answer = Some(String::from_utf8_lossy(text).into_owned());
                }
            })?;
        }
        Ok(answer.unwrap())
    }

    /// Waits until the target closes the connection or requests a logout. Returns whether it requested one.
    pub fn wait_for_end(&mut self) -> bool {
        let mut asked = false;
        loop {
            let turned = self.turn(|event| asked |= matches!(event, Event::Async { event: 1, .. }));
            if turned.is_err() || asked {
                return asked;
            }
        }
    }

    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// WRITE (16) of whole blocks of 512 bytes.
    pub fn write(&mut self, lun: u16, lba: u64, data: &[u8], fua: bool) -> io::Result<Ended> {
        self.run(lun, &cdb16(0x8a, fua, lba, data.len() / 512), Transfer::Write(data))
    }

    /// READ (16) of whole blocks of 512 bytes.
    pub fn read(&mut self, lun: u16, lba: u64, blocks: usize) -> io::Result<Ended> {
        self.run(lun, &cdb16(0x88, false, lba, blocks), Transfer::Read((blocks * 512) as u32))
    }

    /// SYNCHRONIZE CACHE (10) of all blocks.
    pub fn flush(&mut self, lun: u16) -> io::Result<Ended> {
        self.run(lun, &[0x35, 0, 0, 0, 0, 0, 0, 0, 0, 0], Transfer::None)
    }

    /// Number of blocks and bytes per block, by READ CAPACITY (16).
    pub fn capacity(&mut self, lun: u16) -> (u64, u32) {
        let cdb = [0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0];
        let data = self.run(lun, &cdb, Transfer::Read(32)).unwrap().data;
        (u64::from_be_bytes(data[..8].try_into().unwrap()) + 1, u32::from_be_bytes(data[8..12].try_into().unwrap()))
    }

    /// PERSISTENT RESERVE OUT: service action, type, key, action key, APTPL.
    pub fn reserve_out(&mut self, lun: u16, action: u8, kind: u8, keys: (u64, u64), aptpl: bool) -> Ended {
        let mut list = [0; 24];
        list[..8].copy_from_slice(&keys.0.to_be_bytes());
        list[8..16].copy_from_slice(&keys.1.to_be_bytes());
        list[20] = u8::from(aptpl);
        self.run(lun, &[0x5f, action, kind, 0, 0, 0, 0, 0, 24, 0], Transfer::Write(&list)).unwrap()
    }

    /// PERSISTENT RESERVE IN READ KEYS: the registered keys.
    pub fn keys(&mut self, lun: u16) -> Vec<u64> {
        let data = self.run(lun, &[0x5e, 0, 0, 0, 0, 0, 0, 4, 0, 0], Transfer::Read(1024)).unwrap().data;
        let bytes = u32::from_be_bytes(data[4..8].try_into().unwrap()) as usize;
        data[8..8 + bytes].chunks(8).map(|key| u64::from_be_bytes(key.try_into().unwrap())).collect()
    }
}

/// A CDB of 16 bytes with an LBA and a number of blocks.
pub fn cdb16(opcode: u8, fua: bool, lba: u64, blocks: usize) -> [u8; 16] {
    let mut cdb = [0; 16];
    (cdb[0], cdb[1]) = (opcode, u8::from(fua) << 3);
    cdb[2..10].copy_from_slice(&lba.to_be_bytes());
    cdb[10..14].copy_from_slice(&(blocks as u32).to_be_bytes());
    cdb
}
