//! The session of an initiator: its login, sequence numbers and command window.

use super::event::Refusal;
use super::login::Login;
use super::settings::Settings;
use super::tasks::Tasks;
use crate::fault::Fault;
use crate::limits::LOGIN_SEGMENT_BYTES_MAX;
use crate::login::Parameters;
use crate::pdu::{self, Bhs, Digests, FrameLimits, Framed};
use crate::serial::{CmdSn, StatSn};

/// One session.
#[derive(Debug)]
pub struct Initiator {
    pub(super) settings: Settings,
    pub(super) phase: Phase,
    pub(super) limits: FrameLimits,
    pub(super) parameters: Parameters,
    pub(super) tsih: u16,
    pub(super) portal_group: Option<u16>,
    pub(super) awaits_algorithm: bool,
    pub(super) cmd_sn: CmdSn,
    pub(super) max_cmd_sn: CmdSn,
    pub(super) exp_stat_sn: StatSn,
    pub(super) tasks: Tasks,
    pub(super) text: Vec<u8>, // of a response that is not complete yet
}

#[derive(Debug)]
pub(super) enum Phase {
    Login(Box<Login>),
    Full,
    Ended,
}

impl Initiator {
    /// A session that has not logged in.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            phase: Phase::Login(Box::new(Login::new(&settings))),
            settings,
            limits: FrameLimits { digests: Digests::default(), data_bytes_max: LOGIN_SEGMENT_BYTES_MAX },
            parameters: Parameters::default(),
            tsih: 0,
            portal_group: None,
            awaits_algorithm: false,
            cmd_sn: CmdSn(1),
            max_cmd_sn: CmdSn(1),
            exp_stat_sn: StatSn(0),
            tasks: Tasks::default(),
            text: Vec::new(),
        }
    }

    /// Appends the first request of the login.
    pub fn start(&mut self, out: &mut Vec<u8>) {
        if let Phase::Login(login) = &self.phase {
            login.start(&self.settings, out);
        }
    }

    /// Looks for one PDU at the start of `unread`.
    ///
    /// # Errors
    /// [`Fault::Pdu`]: the caller must close the connection.
    pub fn frame(&self, unread: &[u8]) -> Result<Framed, Fault> {
        Ok(pdu::frame(unread, self.limits)?)
    }

    /// Whether another list of CHAP algorithms ([`Settings::algorithms`]) may make the login succeed, at its current point or at
    /// the point at which it ended.
    #[must_use]
    pub const fn awaits_algorithm(&self) -> bool {
        self.awaits_algorithm
    }

    /// The negotiated parameters.
    #[must_use]
    pub const fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The target's number of the session. 0 before the login is complete.
    #[must_use]
    pub const fn tsih(&self) -> u16 {
        self.tsih
    }

    /// The tag of the portal group that the target reported. `None` before the login is complete.
    #[must_use]
    pub const fn portal_group(&self) -> Option<u16> {
        self.portal_group
    }

    /// Number of requests without a response.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.tasks.count()
    }

    /// Number of commands that the target accepts now.
    #[must_use]
    pub const fn window(&self) -> u32 {
        let open = self.max_cmd_sn.next();
        if self.cmd_sn.is_before(open) { open.since(self.cmd_sn) } else { 0 }
    }

    pub(super) fn put(&self, out: &mut Vec<u8>, bhs: Bhs, data: &[u8]) {
        pdu::append(out, bhs, &[], data, self.limits.digests);
    }

    pub(super) const fn check_phase(&self) -> Result<(), Refusal> {
        if matches!(self.phase, Phase::Full) { Ok(()) } else { Err(Refusal::NotLoggedIn) }
    }

    /// Takes the next command number.
    pub(super) fn number(&mut self) -> Result<CmdSn, Refusal> {
        self.check_phase()?;
        if self.window() == 0 {
            return Err(Refusal::WindowClosed);
        }
        let number = self.cmd_sn;
        self.cmd_sn = number.next();
        Ok(number)
    }

    /// Notes the command window of a PDU (RFC 7143 4.2.2.1).
    pub(super) fn note_numbers(&mut self, bhs: &Bhs) {
        let (expected, end) = (CmdSn(bhs.word(28)), CmdSn(bhs.word(32)));
        let is_valid = !end.next().is_before(expected);
        if is_valid && self.max_cmd_sn.is_before(end) {
            self.max_cmd_sn = end;
        }
    }

    /// Checks the number of a response. At error recovery level 0 no number may be missing.
    pub(super) fn note_stat_sn(&mut self, got: StatSn) -> Result<(), Fault> {
        if got != self.exp_stat_sn {
            return Err(Fault::Number { what: "StatSN", got: got.0, expected: self.exp_stat_sn.0 });
        }
        self.exp_stat_sn = got.next();
        Ok(())
    }
}
