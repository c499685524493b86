//! The login on the initiator's side.

use super::settings::Settings;
use crate::chap::{Algorithm, Credential};
use crate::fault::Fault;
use crate::limits::{CHAP_CHALLENGE_BYTES_MAX, KEYS_MAX, LOGIN_PDUS_MAX, TEXT_BYTES_MAX};
use crate::login::{LoginStatus, Negotiation, Parameters, SessionType, Stage, is_operational};
use crate::pdu::{self, Digests, Itt, LoginRequest, LoginResponse, Opcode, Pdu};
use crate::serial::{CmdSn, StatSn};
use crate::text::{self, Pair};

/// The tag of all requests of a login.
const ITT: Itt = Itt(0);

/// A login in progress.
#[derive(Debug)]
pub(super) struct Login {
    stage: Stage,
    security: Security,
    negotiation: Negotiation,
    text: Vec<u8>,
    proposed: bool,
    pdus: usize,
    /// Number of keys that the target has offered.
    offers: usize,
    /// `None` until the target has declared it.
    portal_group: Option<u16>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Security {
    /// The method was offered.
    Offered,
    /// The algorithms were offered.
    Algorithms,
    /// The response was sent with this algorithm.
    Responded(Algorithm),
    Done,
}

/// The result of a response.
pub(super) enum Progress {
    Goes,
    Refused(LoginStatus, Option<String>),
    /// The negotiated parameters, the target's number of the session, and the tag of the portal group.
    Done(Parameters, u16, Option<u16>),
}

/// Keys of the target that get no answer: declarations, and keys that the security stage evaluates.
const NOT_ANSWERED: &[&str] =
    &["AuthMethod", "CHAP_A", "CHAP_I", "CHAP_C", "CHAP_N", "CHAP_R", "TargetPortalGroupTag", "TargetAlias", "TargetAddress"];

impl Login {
    pub(super) fn new(settings: &Settings) -> Self {
        let mut negotiation = Negotiation::new(settings.offer);
        negotiation.set_session_type(session_type(settings));
        Self {
            stage: Stage::Security,
            security: Security::Offered,
            negotiation,
            text: Vec::new(),
            proposed: false,
            pdus: 0,
            offers: 0,
            portal_group: None,
        }
    }

    /// Whether a login with another list of CHAP algorithms may succeed: the target has received the list and has not chosen MD5, which
    /// every target must support (RFC 7143 12.1.3).
    pub(super) fn awaits_algorithm(&self) -> bool {
        matches!(self.security, Security::Algorithms | Security::Responded(Algorithm::Sha1 | Algorithm::Sha256))
    }

    /// Appends the first request.
    pub(super) fn start(&self, settings: &Settings, out: &mut Vec<u8>) {
        let mut text = Vec::new();
        text::append(&mut text, "InitiatorName", settings.name.as_str());
        match &settings.target {
            Some(target) => {
                text::append(&mut text, "SessionType", "Normal");
                text::append(&mut text, "TargetName", target.as_str());
            }
            None => text::append(&mut text, "SessionType", "Discovery"),
        }
        let method = if settings.credential.is_some() { "CHAP" } else { "None" };
        text::append(&mut text, "AuthMethod", method);
        let next = settings.credential.is_none().then_some(Stage::Operational);
        self.send(settings, next, StatSn(0), &text, out);
    }

    fn send(&self, settings: &Settings, next: Option<Stage>, expected: StatSn, text: &[u8], out: &mut Vec<u8>) {
        let request = LoginRequest {
            transit: next.is_some(),
            is_continued: false,
            csg: self.stage as u8,
            nsg: next.map_or(0, |stage| stage as u8),
            version_max: 0,
            version_min: 0,
            isid: settings.isid,
            tsih: 0,
            itt: ITT,
            cid: 0,
            cmd_sn: CmdSn(1),
            exp_stat_sn: expected,
        };
        pdu::append(out, request.to_bhs(), &[], text, Digests::default());
    }

    /// Processes a response and appends the next request.
    pub(super) fn step(&mut self, pdu: &Pdu<'_>, settings: &Settings, out: &mut Vec<u8>) -> Result<Progress, Fault> {
        if pdu.bhs.opcode() != Some(Opcode::LoginResponse) {
            return Err(Fault::Misplaced { opcode: pdu.bhs.0[0] & 0x3f, phase: "before the login is over" });
        }
        let response = LoginResponse::from_bhs(&pdu.bhs);
        self.pdus += 1;
        let bytes = self.text.len() + pdu.data.len();
        if self.pdus > LOGIN_PDUS_MAX || bytes > TEXT_BYTES_MAX {
            return Err(Fault::Limit { what: "bytes of a login", got: bytes as u32, limit: TEXT_BYTES_MAX as u32 });
        }
        self.text.extend_from_slice(pdu.data);
        let expected = response.stat_sn.next();
        if response.is_continued && response.status == 0 {
            self.send(settings, None, expected, &[], out);
            return Ok(Progress::Goes);
        }
        let text = std::mem::take(&mut self.text);
        let pairs = text::parse(&text)?;
        if response.status != 0 {
            let address = pairs.iter().find(|pair| pair.key == "TargetAddress").map(|pair| pair.value.to_owned());
            return Ok(Progress::Refused(LoginStatus(response.status), address));
        }
        // The tag is in the first response (RFC 7143 13.9). Some targets send it in others.
        let group = pairs.iter().find(|pair| pair.key == "TargetPortalGroupTag").and_then(|pair| text::number(pair.value));
        self.portal_group = group.and_then(|tag| u16::try_from(tag).ok()).or(self.portal_group);
        if Stage::from_number(response.csg) != Some(self.stage) {
            return Err(Fault::Number { what: "stage of the login", got: response.csg.into(), expected: self.stage as u32 });
        }
        let (mut answers, next) = match self.stage {
            Stage::Security => self.secure(&pairs, settings)?,
            _ => (self.operate(&pairs)?, Stage::FullFeature),
        };
        let transit = Stage::from_number(response.nsg).filter(|_| response.transit);
        match transit {
            Some(Stage::FullFeature) if self.stage == Stage::Operational && self.proposed => {
                let parameters = self.negotiation.settle().map_err(|_| Fault::Protocol("the target broke the rules of a key"))?;
                return Ok(Progress::Done(parameters, response.tsih, self.portal_group));
            }
            Some(stage) if stage > self.stage && self.security == Security::Done => {
                if stage == Stage::FullFeature {
                    return Err(Fault::Protocol("the login ended before its operational stage"));
                }
                self.stage = stage;
                answers.extend(self.operate(&[])?);
                self.send(settings, Some(Stage::FullFeature), expected, &answers, out);
            }
            Some(_) => return Err(Fault::Protocol("the target left a stage that is not over")),
            None => {
                let ready = self.stage != Stage::Security || matches!(self.security, Security::Done | Security::Responded(_));
                self.send(settings, Some(next).filter(|_| ready), expected, &answers, out);
            }
        }
        Ok(Progress::Goes)
    }

    /// Handles the target's answers and offers of the operational stage, and offers this side's keys once. Returns the text to send.
    fn operate(&mut self, pairs: &[Pair<'_>]) -> Result<Vec<u8>, Fault> {
        let mut text = Vec::new();
        if self.proposed {
            self.answer_offers(pairs, &mut text)?;
        } else {
            self.proposed = true;
            self.negotiation.propose(&mut text);
        }
        Ok(text)
    }

    /// Answers the keys that the target offers. An unknown key gets NotUnderstood (RFC 7143 6.2).
    fn answer_offers(&mut self, pairs: &[Pair<'_>], text: &mut Vec<u8>) -> Result<(), Fault> {
        for pair in pairs.iter().filter(|pair| !NOT_ANSWERED.contains(&pair.key)) {
            if let Some(answer) = self.negotiation.accept(*pair) {
                text::append(text, pair.key, &answer);
                self.offers += 1;
            }
        }
        if self.offers > KEYS_MAX {
            return Err(Fault::Limit {
                what: "number of keys that the target offers",
                got: self.offers as u32,
                limit: KEYS_MAX as u32,
            });
        }
        Ok(())
    }

    /// Handles the target's answers of the security stage. Returns the text to send and the stage to request.
    fn secure(&mut self, pairs: &[Pair<'_>], settings: &Settings) -> Result<(Vec<u8>, Stage), Fault> {
        let value = |key| pairs.iter().find(|pair| pair.key == key).map(|pair| pair.value);
        let mut text = Vec::new();
        let method = value("AuthMethod");
        match (self.security, &settings.credential) {
            (Security::Offered, None) => {
                if method.is_some_and(|method| method != "None") {
                    return Err(Fault::Protocol("the target chose a method that was not offered"));
                }
                self.security = Security::Done;
            }
            (Security::Offered, Some(_)) => {
                if method != Some("CHAP") {
                    return Err(Fault::Protocol("the target does not authenticate by CHAP"));
                }
                let all: Vec<String> = settings.algorithms.iter().map(|one| one.number().to_string()).collect();
                text::append(&mut text, "CHAP_A", &all.join(","));
                self.security = Security::Algorithms;
            }
            (Security::Algorithms, Some(credential)) => {
                let algorithm = value("CHAP_A").and_then(text::number).and_then(Algorithm::from_number);
                let algorithm = algorithm.filter(|one| settings.algorithms.contains(one));
                let identifier = value("CHAP_I").and_then(text::number).and_then(|number| u8::try_from(number).ok());
                let challenge = value("CHAP_C").and_then(|value| text::binary(value, CHAP_CHALLENGE_BYTES_MAX));
                let (Some(algorithm), Some(identifier), Some(challenge)) = (algorithm, identifier, challenge) else {
                    return Err(Fault::Protocol("the target sent no CHAP challenge with an algorithm that was offered"));
                };
                respond(settings, credential, (algorithm, identifier, &challenge), &mut text);
                self.security = Security::Responded(algorithm);
            }
            (Security::Responded(algorithm), _) => {
                check_target(settings, algorithm, value("CHAP_N"), value("CHAP_R"))?;
                self.security = Security::Done;
            }
            (Security::Algorithms, None) | (Security::Done, _) => {}
        }
        // In this stage the negotiation answers only keys that it does not know.
        let unknown = pairs.iter().filter(|pair| !is_operational(pair.key)).copied().collect::<Vec<_>>();
        self.answer_offers(&unknown, &mut text)?;
        Ok((text, Stage::Operational))
    }
}

const fn session_type(settings: &Settings) -> SessionType {
    if settings.target.is_some() { SessionType::Normal } else { SessionType::Discovery }
}

/// Answers the target's challenge. Adds a challenge of the initiator if the target must authenticate itself.
fn respond(settings: &Settings, credential: &Credential, target: (Algorithm, u8, &[u8]), text: &mut Vec<u8>) {
    let (algorithm, identifier, challenge) = target;
    text::append(text, "CHAP_N", credential.name());
    text::append(text, "CHAP_R", &text::to_hexadecimal(&credential.response(algorithm, identifier, challenge)));
    if settings.target_credential.is_some() {
        text::append(text, "CHAP_I", &settings.challenge.identifier.to_string());
        text::append(text, "CHAP_C", &text::to_hexadecimal(&settings.challenge.bytes));
    }
}

/// Verifies the target's response, if one is required.
fn check_target(settings: &Settings, algorithm: Algorithm, name: Option<&str>, response: Option<&str>) -> Result<(), Fault> {
    let Some(wanted) = &settings.target_credential else { return Ok(()) };
    let response = response.and_then(|response| text::binary(response, algorithm.response_bytes()));
    let challenge = settings.challenge;
    let proves = |response: Vec<u8>| wanted.verify(algorithm, challenge.identifier, &challenge.bytes, &response);
    if name == Some(wanted.name()) && response.is_some_and(proves) {
        Ok(())
    } else {
        Err(Fault::Protocol("the target did not prove who it is"))
    }
}
