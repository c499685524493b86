//! The login of a connection on the target's side (RFC 7143 6.3, 11.12, 11.13).

use super::Fault;
use super::authentication::{Exchange, Proof};
use super::host::{Access, Authentication, AuthenticationFault, Challenge, Host, Opening, Tsih};
use super::session::Session;
use super::tasks::Tasks;
use crate::limits::{LOGIN_PDUS_MAX, TEXT_BYTES_MAX};
use crate::login::{Answer, LoginStatus, Name, Negotiation, Offer, Parameters, SessionType, Stage, is_operational};
use crate::pdu::{self, Digests, Isid, LoginRequest, LoginResponse, Opcode, Pdu};
use crate::text::{self, Pair};

use super::mark::Mark;

/// A login in progress.
#[derive(Debug)]
pub(super) struct Login {
    tasks: Tasks,
    begun: Option<Begun>,
    identity: Option<Identity>,
    stage: Stage,
    pdus: usize,
    text: Vec<u8>, // of a request that is not complete yet
    negotiation: Negotiation,
    exchange: Exchange,
    declared: bool,
}

/// The fields that are equal in all requests of a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Begun {
    isid: Isid,
    tsih: u16,
    cid: u16,
    itt: pdu::Itt,
}

/// The initiator and its target. Set by the first request.
#[derive(Debug)]
struct Identity {
    session_type: SessionType,
    initiator: Name,
    target: Option<Name>,
    access: Access,
}

/// The result of a request.
#[derive(Debug)]
pub(super) enum Progress {
    Goes,
    Refused(LoginStatus),
    Done(Box<Session>),
}

impl Login {
    pub(super) fn new(offer: Offer, challenge: Challenge, tasks: Tasks) -> Self {
        Self {
            tasks,
            begun: None,
            identity: None,
            stage: Stage::Security,
            pdus: 0,
            text: Vec::new(),
            negotiation: Negotiation::new(offer),
            exchange: Exchange::new(challenge),
            declared: false,
        }
    }

    /// Processes a request and appends its response.
    pub(super) fn step(&mut self, pdu: &Pdu<'_>, host: &dyn Host, out: &mut Vec<u8>) -> Result<Progress, Fault> {
        if pdu.bhs.opcode() != Some(Opcode::LoginRequest) {
            return Err(Fault::Misplaced { opcode: pdu.bhs.0[0] & 0x3f, phase: "before the login is over" });
        }
        let request = LoginRequest::from_bhs(&pdu.bhs);
        self.pdus += 1;
        if self.pdus > LOGIN_PDUS_MAX {
            return Err(Fault::Limit { what: "PDUs of a login", got: self.pdus as u32, limit: LOGIN_PDUS_MAX as u32 });
        }
        let mut answers = Vec::new();
        match self.take(&request, pdu.data, host, &mut answers) {
            Ok(Taken::Continued) => respond(&request, None, 0, &[], out),
            Ok(Taken::Whole { next }) => {
                if next == Some(Stage::FullFeature) {
                    return Ok(self.finish(&request, host, &answers, out));
                }
                respond(&request, next, 0, &answers, out);
                self.stage = next.unwrap_or(self.stage);
            }
            Err(status) => {
                refuse(&request, status, out);
                return Ok(Progress::Refused(status));
            }
        }
        Ok(Progress::Goes)
    }

    /// Reads a request and appends the answers to its keys.
    fn take(
        &mut self,
        request: &LoginRequest,
        data: &[u8],
        host: &dyn Host,
        answers: &mut Vec<u8>,
    ) -> Result<Taken, LoginStatus> {
        self.check(request)?;
        if self.text.len() + data.len() > TEXT_BYTES_MAX {
            return Err(LoginStatus::INITIATOR_ERROR);
        }
        self.text.extend_from_slice(data);
        if request.is_continued {
            return Ok(Taken::Continued);
        }
        let text = std::mem::take(&mut self.text);
        let pairs = text::parse(&text).map_err(|_| LoginStatus::INITIATOR_ERROR)?;
        if self.identity.is_none() {
            let identity = identify(&pairs, host)?;
            self.negotiation.set_session_type(identity.session_type);
            self.introduce(&identity, answers);
            self.identity = Some(identity);
        }
        let identity = self.identity.as_ref().ok_or(LoginStatus::TARGET_ERROR)?;
        let authentication = &identity.access.authentication;
        let mut ready = true;
        if self.stage == Stage::Security {
            let stepped = self.exchange.step(&pairs, authentication, answers);
            ready = stepped.inspect_err(|_| self.exchange.report(&identity.initiator, host))?;
        } else if matches!(authentication, Authentication::Chap { .. }) && !self.exchange.is_done() {
            // The initiator skipped the security stage.
            host.authentication_failed(&identity.initiator, None, AuthenticationFault::NoChap);
            return Err(LoginStatus::AUTHENTICATION_FAILED);
        }
        self.answer_keys(&pairs, answers)?;
        if self.stage == Stage::Operational && !std::mem::replace(&mut self.declared, true) {
            self.negotiation.declare(answers);
        }
        Ok(Taken::Whole { next: Stage::from_number(request.nsg).filter(|_| request.transit && ready) })
    }

    /// Checks the fields that all requests must have in common, and the stages.
    fn check(&mut self, request: &LoginRequest) -> Result<(), LoginStatus> {
        let begun = Begun { isid: request.isid, tsih: request.tsih, cid: request.cid, itt: request.itt };
        if self.begun.is_none() {
            self.tasks.0.begin(request.cmd_sn);
        }
        let stage = Stage::from_number(request.csg).ok_or(LoginStatus::INITIATOR_ERROR)?;
        match self.begun {
            None => {
                if request.version_min > 0 {
                    return Err(LoginStatus::UNSUPPORTED_VERSION);
                }
                self.begun = Some(begun);
                self.stage = stage;
            }
            Some(first) if first != begun => return Err(LoginStatus::INVALID_REQUEST),
            Some(_) => {}
        }
        let next = Stage::from_number(request.nsg);
        let next_is_wrong = request.transit && (request.is_continued || next.is_none_or(|next| next <= stage));
        if stage != self.stage || stage == Stage::FullFeature || next_is_wrong {
            return Err(LoginStatus::INITIATOR_ERROR);
        }
        Ok(())
    }

    /// Appends the keys that only the first response has (RFC 7143 13.7, 13.9).
    fn introduce(&self, identity: &Identity, answers: &mut Vec<u8>) {
        if identity.target.is_some() {
            text::append(answers, "TargetPortalGroupTag", &identity.access.portal_group_tag.to_string());
            if let Some(alias) = identity.access.alias.as_deref().filter(|alias| alias.len() <= 255 && !alias.contains('\0')) {
                text::append(answers, "TargetAlias", alias);
            }
        }
    }

    /// Answers the keys that neither introduce nor authenticate the initiator.
    fn answer_keys(&mut self, pairs: &[Pair<'_>], answers: &mut Vec<u8>) -> Result<(), LoginStatus> {
        for pair in pairs {
            let in_security = self.stage == Stage::Security;
            if INTRODUCTION.contains(&pair.key) || in_security && Exchange::KEYS.contains(&pair.key) {
                continue;
            }
            if in_security && is_operational(pair.key) || !in_security && Exchange::KEYS.contains(&pair.key) {
                return Err(LoginStatus::INITIATOR_ERROR); // a key of another stage (RFC 7143 6.2)
            }
            match self.negotiation.answer(*pair) {
                Answer::Repeated => return Err(LoginStatus::INITIATOR_ERROR),
                answer => answer.as_value().map_or((), |value| text::append(answers, pair.key, value)),
            }
        }
        Ok(())
    }

    /// Opens the session and appends the last response.
    fn finish(&self, request: &LoginRequest, host: &dyn Host, answers: &[u8], out: &mut Vec<u8>) -> Progress {
        match self.open(request, host) {
            Ok(session) => {
                respond(request, Some(Stage::FullFeature), session.tsih.0, answers, out);
                Progress::Done(Box::new(session))
            }
            Err(status) => {
                refuse(request, status, out);
                Progress::Refused(status)
            }
        }
    }

    fn open(&self, request: &LoginRequest, host: &dyn Host) -> Result<Session, LoginStatus> {
        let parameters: Parameters = self.negotiation.settle()?;
        let identity = self.identity.as_ref().ok_or(LoginStatus::TARGET_ERROR)?;
        let user = match self.exchange.proof() {
            Proof::None => None,
            Proof::Of(user) => Some(user.to_owned()),
        };
        let opening = Opening {
            session_type: identity.session_type,
            initiator: identity.initiator.clone(),
            isid: request.isid,
            target: identity.target.clone(),
            portal_group_tag: identity.access.portal_group_tag,
            tsih: (request.tsih != 0).then_some(Tsih(request.tsih)),
            cid: request.cid,
            user,
            tasks: self.tasks.clone(),
        };
        let tsih = host.open(&opening)?;
        let Opening { session_type, initiator, isid, target, portal_group_tag, cid, user, .. } = opening;
        Ok(Session { session_type, initiator, isid, tsih, target, portal_group_tag, cid, user, parameters })
    }
}

/// Keys of the first request. They say who the initiator is and what it wants.
const INTRODUCTION: &[&str] = &["InitiatorName", "InitiatorAlias", "TargetName", "SessionType"];

/// The result of reading a request.
enum Taken {
    /// More text of the request will follow.
    Continued,
    /// The request is complete. `next`: the stage that begins now, if any.
    Whole { next: Option<Stage> },
}

fn identify(pairs: &[Pair<'_>], host: &dyn Host) -> Result<Identity, LoginStatus> {
    let mut values = [None; 4];
    for (value, key) in values.iter_mut().zip(INTRODUCTION) {
        let mut found = pairs.iter().filter(|pair| pair.key == *key);
        *value = found.next().map(|pair| pair.value);
        if found.next().is_some() {
            return Err(LoginStatus::INITIATOR_ERROR);
        }
    }
    let [initiator, _, target, session_type] = values;
    let name = |value: &str| Name::new(value).map_err(|_| LoginStatus::INITIATOR_ERROR);
    let initiator = name(initiator.ok_or(LoginStatus::MISSING_PARAMETER)?)?;
    if !initiator.has_form() {
        return Err(LoginStatus::INITIATOR_ERROR);
    }
    let (session_type, target) = match session_type.unwrap_or("Normal") {
        "Normal" => {
            let target = target.ok_or(LoginStatus::MISSING_PARAMETER)?;
            (SessionType::Normal, Some(Name::new(target).map_err(|_| LoginStatus::NOT_FOUND)?))
        }
        "Discovery" => (SessionType::Discovery, None),
        _ => return Err(LoginStatus::SESSION_TYPE),
    };
    let access = host.access(&initiator, target.as_ref())?;
    Ok(Identity { session_type, initiator, target, access })
}

fn refuse(request: &LoginRequest, status: LoginStatus, out: &mut Vec<u8>) {
    let response = LoginResponse { status: status.0, tsih: request.tsih, ..response(request) };
    pdu::append(out, response.to_bhs(), &[], &[], Digests::default());
}

fn respond(request: &LoginRequest, next: Option<Stage>, tsih: u16, answers: &[u8], out: &mut Vec<u8>) {
    let tsih = if tsih == 0 { request.tsih } else { tsih };
    let response = LoginResponse { transit: next.is_some(), nsg: next.map_or(0, |stage| stage as u8), tsih, ..response(request) };
    pdu::append(out, response.to_bhs(), &[], answers, Digests::default());
}

fn response(request: &LoginRequest) -> LoginResponse {
    LoginResponse { stat_sn: Mark::NUMBERED.as_stat_sn(), ..LoginResponse::to(request) }
}
