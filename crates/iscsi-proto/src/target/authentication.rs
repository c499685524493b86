//! The security stage of a login on the target's side (RFC 7143 6.3.3, 12.1).

use super::host::{Authentication, AuthenticationFault, Challenge, Host};
use crate::chap::{Algorithm, Credential};
use crate::limits::CHAP_CHALLENGE_BYTES_MAX;
use crate::login::{LoginStatus, Name};
use crate::text::{self, Pair};

/// Characters of a CHAP name that are reported. The text of a login may have a much longer name.
const USER_CHARS_SHOWN: usize = 128;

/// An authentication in progress.
#[derive(Debug)]
pub(super) struct Exchange {
    challenge: Challenge,
    state: State,
    fault: Option<AuthenticationFault>,
    user: Option<String>, // the latest CHAP name, truncated
}

#[derive(Debug)]
enum State {
    /// No method is chosen yet.
    Begun,
    /// CHAP is chosen. The initiator must now offer algorithms.
    Method,
    /// The challenge was sent.
    Challenged(Algorithm),
    /// The authentication is complete.
    Done(Option<String>),
}

/// The result of a request.
pub(super) enum Proof<'a> {
    None,
    /// The initiator authenticated itself with this CHAP name.
    Of(&'a str),
}

impl Exchange {
    /// The keys that this stage answers.
    pub(super) const KEYS: &[&str] = &["AuthMethod", "CHAP_A", "CHAP_I", "CHAP_C", "CHAP_N", "CHAP_R"];

    pub(super) const fn new(challenge: Challenge) -> Self {
        Self { challenge, state: State::Begun, fault: None, user: None }
    }

    pub(super) const fn is_done(&self) -> bool {
        matches!(self.state, State::Done(_))
    }

    /// Reports to the host why the login failed, if its authentication failed.
    pub(super) fn report(&self, initiator: &Name, host: &dyn Host) {
        if let Some(fault) = self.fault {
            host.authentication_failed(initiator, self.user.as_deref(), fault);
        }
    }

    /// Notes why the authentication fails.
    fn fails(&mut self, fault: AuthenticationFault) -> LoginStatus {
        self.fault = Some(fault);
        LoginStatus::AUTHENTICATION_FAILED
    }

    pub(super) fn proof(&self) -> Proof<'_> {
        match &self.state {
            State::Done(Some(user)) => Proof::Of(user),
            _ => Proof::None,
        }
    }

    /// Processes the keys of a request and appends the answers. Returns whether the next stage may begin.
    pub(super) fn step(
        &mut self,
        pairs: &[Pair<'_>],
        wanted: &Authentication,
        answers: &mut Vec<u8>,
    ) -> Result<bool, LoginStatus> {
        let mut values = [None; 6];
        for (value, key) in values.iter_mut().zip(Self::KEYS) {
            let mut found = pairs.iter().filter(|pair| pair.key == *key);
            *value = found.next().map(|pair| pair.value);
            if found.next().is_some() {
                return Err(LoginStatus::INITIATOR_ERROR);
            }
        }
        let [method, algorithms, identifier, challenge, name, response] = values;
        self.user = name.map(|name| name.chars().take(USER_CHARS_SHOWN).collect());
        match wanted {
            Authentication::None => self.without(method, answers),
            Authentication::Chap { accepted, algorithms: allowed, own } => {
                self.choose_chap(method, answers)?;
                if let (State::Method, Some(offered)) = (&self.state, algorithms) {
                    self.challenge(offered, allowed, answers)?;
                }
                if let State::Challenged(algorithm) = self.state
                    && (name.is_some() || response.is_some())
                {
                    let answer = Answer { algorithm, name, response, identifier, challenge };
                    self.verify(answer, accepted, own.as_ref(), answers).map_err(|fault| self.fails(fault))?;
                }
                Ok(self.is_done())
            }
        }
    }

    /// The host requires no authentication. The initiator must accept that.
    fn without(&mut self, method: Option<&str>, answers: &mut Vec<u8>) -> Result<bool, LoginStatus> {
        match (method, &self.state) {
            (None, _) => {}
            (Some(list), State::Begun) if list.split(',').any(|method| method == "None") => {
                text::append(answers, "AuthMethod", "None");
            }
            _ => return Err(self.fails(AuthenticationFault::ChapNotWanted)),
        }
        self.state = State::Done(None);
        Ok(true)
    }

    fn choose_chap(&mut self, method: Option<&str>, answers: &mut Vec<u8>) -> Result<(), LoginStatus> {
        match (&self.state, method) {
            (State::Begun, Some(list)) if list.split(',').any(|method| method == "CHAP") => {
                text::append(answers, "AuthMethod", "CHAP");
                self.state = State::Method;
                Ok(())
            }
            // Without the key, the method is the default, None (RFC 7143 13).
            (State::Begun, _) => Err(self.fails(AuthenticationFault::NoChap)),
            (_, Some(_)) => Err(self.fails(AuthenticationFault::Invalid)),
            (_, None) => Ok(()),
        }
    }

    fn challenge(&mut self, offered: &str, allowed: &[Algorithm], answers: &mut Vec<u8>) -> Result<(), LoginStatus> {
        let known = |number: &str| text::number(number).and_then(Algorithm::from_number).filter(|one| allowed.contains(one));
        let algorithm = offered.split(',').find_map(known).ok_or_else(|| self.fails(AuthenticationFault::NoAlgorithm))?;
        text::append(answers, "CHAP_A", &algorithm.number().to_string());
        text::append(answers, "CHAP_I", &self.challenge.identifier.to_string());
        text::append(answers, "CHAP_C", &text::to_hexadecimal(&self.challenge.bytes));
        self.state = State::Challenged(algorithm);
        Ok(())
    }

    fn verify(
        &mut self,
        answer: Answer<'_>,
        accepted: &[Credential],
        own: Option<&Credential>,
        answers: &mut Vec<u8>,
    ) -> Result<(), AuthenticationFault> {
        let failed = AuthenticationFault::Invalid;
        let algorithm = answer.algorithm;
        let (name, response) = (answer.name.ok_or(failed)?, answer.response.ok_or(failed)?);
        let response = text::binary(response, algorithm.response_bytes()).ok_or(failed)?;
        let Challenge { identifier, bytes } = self.challenge;
        let proves = |one: &&Credential| one.name() == name && one.verify(algorithm, identifier, &bytes, &response);
        let credential = accepted.iter().find(proves).ok_or_else(|| {
            let is_known = accepted.iter().any(|one| one.name() == name);
            if is_known { AuthenticationFault::WrongSecret } else { AuthenticationFault::UnknownUser }
        })?;
        match (answer.identifier, answer.challenge) {
            (None, None) => {}
            (Some(identifier), Some(challenge)) => {
                let identifier = text::number(identifier).and_then(|number| u8::try_from(number).ok()).ok_or(failed)?;
                let challenge = text::binary(challenge, CHAP_CHALLENGE_BYTES_MAX).ok_or(failed)?;
                let own = own.ok_or(AuthenticationFault::NoOwnSecret)?;
                // Otherwise an initiator that has no secret could make the target compute the response to the target's own
                // challenge.
                if challenge == bytes || own.shares_secret(credential) {
                    return Err(failed);
                }
                text::append(answers, "CHAP_N", own.name());
                text::append(answers, "CHAP_R", &text::to_hexadecimal(&own.response(algorithm, identifier, &challenge)));
            }
            _ => return Err(failed),
        }
        self.state = State::Done(Some(name.to_owned()));
        Ok(())
    }
}

/// An initiator's response to a challenge, with its own challenge in mutual CHAP.
#[derive(Clone, Copy)]
struct Answer<'a> {
    algorithm: Algorithm,
    name: Option<&'a str>,
    response: Option<&'a str>,
    identifier: Option<&'a str>,
    challenge: Option<&'a str>,
}
