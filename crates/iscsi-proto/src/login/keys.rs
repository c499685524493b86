//! Operational keys (RFC 7143 13): the answer to each, and its effect.

use super::parameters::{DigestChoice, Offer, Parameters, SessionType};
use super::status::LoginStatus;
use crate::text::{self, Pair};

/// The answer to the offer of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The negotiated value.
    Value(String),
    /// No answer, because the key was a declaration.
    Nothing,
    /// The value is not allowed.
    Reject,
    /// The key has no meaning here.
    Irrelevant,
    /// The key is unknown.
    NotUnderstood,
    /// The key was offered before. The login fails.
    Repeated,
}

impl Answer {
    /// The value of the answer. `None` if the key gets no answer.
    pub(crate) fn as_value(&self) -> Option<&str> {
        match self {
            Self::Value(value) => Some(value),
            Self::Reject => Some("Reject"),
            Self::Irrelevant => Some("Irrelevant"),
            Self::NotUnderstood => Some("NotUnderstood"),
            Self::Nothing | Self::Repeated => None,
        }
    }
}

/// How the value of a key is negotiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    HeaderDigest,
    DataDigest,
    /// Yes if one side says Yes.
    Or(Switch),
    /// Yes if both sides say Yes.
    And(Switch),
    /// The smaller number. It must be between the two limits.
    Smaller(Number, u32, u32),
    /// The larger number. It must be between the two limits.
    Larger(Number, u32, u32),
    /// Each side declares its own value.
    Declared,
    /// A key of markers, which RFC 7143 13.25 removed.
    Obsolete,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Switch {
    InitialR2t,
    ImmediateData,
    PduInOrder,
    SequenceInOrder,
    Marker,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    Connections,
    MaxBurst,
    FirstBurst,
    Time2Wait,
    Time2Retain,
    OutstandingR2t,
    ErrorRecovery,
    ProtocolLevel,
}

const BYTES_MAX: u32 = (1 << 24) - 1;
/// The only key whose value each side declares.
const MAX_RECV: &str = "MaxRecvDataSegmentLength";

/// All keys. For each: whether a discovery session has it, and how its value is negotiated.
const KEYS: &[(&str, bool, Kind)] = &[
    ("HeaderDigest", true, Kind::HeaderDigest),
    ("DataDigest", true, Kind::DataDigest),
    (MAX_RECV, true, Kind::Declared),
    ("DefaultTime2Wait", true, Kind::Larger(Number::Time2Wait, 0, 3600)),
    ("DefaultTime2Retain", true, Kind::Smaller(Number::Time2Retain, 0, 3600)),
    ("ErrorRecoveryLevel", true, Kind::Smaller(Number::ErrorRecovery, 0, 2)),
    ("MaxConnections", false, Kind::Smaller(Number::Connections, 1, 65_535)),
    ("InitialR2T", false, Kind::Or(Switch::InitialR2t)),
    ("ImmediateData", false, Kind::And(Switch::ImmediateData)),
    ("MaxBurstLength", false, Kind::Smaller(Number::MaxBurst, 512, BYTES_MAX)),
    ("FirstBurstLength", false, Kind::Smaller(Number::FirstBurst, 512, BYTES_MAX)),
    ("MaxOutstandingR2T", false, Kind::Smaller(Number::OutstandingR2t, 1, 65_535)),
    ("DataPDUInOrder", false, Kind::Or(Switch::PduInOrder)),
    ("DataSequenceInOrder", false, Kind::Or(Switch::SequenceInOrder)),
    ("iSCSIProtocolLevel", false, Kind::Smaller(Number::ProtocolLevel, 0, 31)),
    ("IFMarker", true, Kind::And(Switch::Marker)),
    ("OFMarker", true, Kind::And(Switch::Marker)),
    ("IFMarkInt", true, Kind::Obsolete),
    ("OFMarkInt", true, Kind::Obsolete),
];

/// Whether the key is one of these.
pub(crate) fn is_operational(key: &str) -> bool {
    KEYS.iter().any(|(name, ..)| *name == key)
}

/// The negotiation of one login, from either side.
#[derive(Clone, Debug)]
pub(crate) struct Negotiation {
    offer: Offer,
    session_type: SessionType,
    parameters: Parameters,
    seen: u32,     // keys that were answered, one bit per position in KEYS
    proposed: u32, // keys that this side offered, in the same way
    digests_agreed: (bool, bool),
    faulty: bool,
}

impl Negotiation {
    pub(crate) fn new(offer: Offer) -> Self {
        Self {
            offer: offer.bounded(),
            session_type: SessionType::Normal,
            parameters: Parameters::default(),
            seen: 0,
            proposed: 0,
            digests_agreed: (true, true),
            faulty: false,
        }
    }

    pub(crate) const fn set_session_type(&mut self, session_type: SessionType) {
        self.session_type = session_type;
    }

    /// Declares the longest data segment that this side accepts.
    pub(crate) fn declare(&mut self, out: &mut Vec<u8>) {
        self.parameters.receive_segment_bytes_max = self.offer.receive_segment_bytes_max;
        text::append(out, MAX_RECV, &self.offer.receive_segment_bytes_max.to_string());
    }

    /// Answers an offer or a declaration of the other side.
    pub(crate) fn answer(&mut self, pair: Pair<'_>) -> Answer {
        let Some((at, (_, in_discovery, kind))) = KEYS.iter().enumerate().find(|(_, (name, ..))| *name == pair.key) else {
            return Answer::NotUnderstood;
        };
        if self.seen & 1 << at != 0 {
            return Answer::Repeated;
        }
        self.seen |= 1 << at;
        if self.session_type == SessionType::Discovery && !in_discovery {
            return Answer::Irrelevant;
        }
        match *kind {
            Kind::HeaderDigest => self.answer_digest(pair.value, self.offer.header_digest, true),
            Kind::DataDigest => self.answer_digest(pair.value, self.offer.data_digest, false),
            Kind::Or(switch) => self.answer_switch(switch, pair.value, |ours, theirs| ours || theirs),
            Kind::And(switch) => self.answer_switch(switch, pair.value, |ours, theirs| ours && theirs),
            Kind::Smaller(number, low, high) => self.answer_number(number, pair.value, low, high, u32::min),
            Kind::Larger(number, low, high) => self.answer_number(number, pair.value, low, high, u32::max),
            Kind::Declared => match segment_bytes(pair.value) {
                Some(bytes) => {
                    self.parameters.send_segment_bytes_max = bytes;
                    Answer::Nothing
                }
                None => Answer::Reject,
            },
            Kind::Obsolete => Answer::Irrelevant,
        }
    }

    fn answer_digest(&mut self, list: &str, choice: DigestChoice, header: bool) -> Answer {
        let offers = |wanted| list.split(',').any(|offered| offered == wanted);
        let first = list.split(',').find(|offered| matches!(*offered, "None" | "CRC32C"));
        let crc32c = match choice {
            DigestChoice::Never => offers("None").then_some(false),
            DigestChoice::Allowed => first.map(|first| first == "CRC32C"),
            DigestChoice::Preferred => first.map(|_| offers("CRC32C")),
            DigestChoice::Required => offers("CRC32C").then_some(true),
        };
        let (agreed, value) = if header {
            (&mut self.digests_agreed.0, &mut self.parameters.header_digest)
        } else {
            (&mut self.digests_agreed.1, &mut self.parameters.data_digest)
        };
        *agreed = crc32c.is_some();
        *value = crc32c == Some(true);
        match crc32c {
            Some(true) => Answer::Value("CRC32C".into()),
            Some(false) => Answer::Value("None".into()),
            None => Answer::Reject,
        }
    }

    fn answer_switch(&mut self, switch: Switch, value: &str, combine: fn(bool, bool) -> bool) -> Answer {
        let Some(theirs) = text::boolean(value) else { return Answer::Reject };
        let result = combine(self.own_switch(switch), theirs);
        self.set_switch(switch, result);
        Answer::Value(text::yes_no(result).into())
    }

    fn answer_number(&mut self, number: Number, value: &str, low: u32, high: u32, combine: fn(u32, u32) -> u32) -> Answer {
        let Some(theirs) = text::number(value).filter(|value| (low..=high).contains(value)) else { return Answer::Reject };
        let result = combine(self.own_number(number), theirs);
        self.set_number(number, result);
        Answer::Value(result.to_string())
    }

    const fn own_switch(&self, switch: Switch) -> bool {
        match switch {
            Switch::InitialR2t => self.offer.initial_r2t,
            Switch::ImmediateData => self.offer.immediate_data,
            Switch::PduInOrder | Switch::SequenceInOrder => true,
            Switch::Marker => false,
        }
    }

    const fn set_switch(&mut self, switch: Switch, value: bool) {
        match switch {
            Switch::InitialR2t => self.parameters.initial_r2t = value,
            Switch::ImmediateData => self.parameters.immediate_data = value,
            Switch::PduInOrder | Switch::SequenceInOrder | Switch::Marker => {}
        }
    }

    const fn own_number(&self, number: Number) -> u32 {
        match number {
            Number::Connections | Number::ProtocolLevel => 1,
            Number::MaxBurst => self.offer.max_burst_bytes,
            Number::FirstBurst => self.offer.first_burst_bytes,
            Number::Time2Wait => self.offer.time2wait_s as u32,
            Number::Time2Retain => self.offer.time2retain_s as u32,
            Number::OutstandingR2t => self.offer.outstanding_r2t_max,
            Number::ErrorRecovery => 0,
        }
    }

    const fn set_number(&mut self, number: Number, value: u32) {
        let parameters = &mut self.parameters;
        match number {
            Number::Connections => parameters.connections_max = value,
            Number::MaxBurst => parameters.max_burst_bytes = value,
            Number::FirstBurst => parameters.first_burst_bytes = value,
            Number::Time2Wait => parameters.time2wait_s = value as u16,
            Number::Time2Retain => parameters.time2retain_s = value as u16,
            Number::OutstandingR2t => parameters.outstanding_r2t_max = value,
            Number::ErrorRecovery | Number::ProtocolLevel => {}
        }
    }

    /// Offers all keys of an initiator.
    pub(crate) fn propose(&mut self, out: &mut Vec<u8>) {
        for (at, (name, in_discovery, kind)) in KEYS.iter().enumerate() {
            if self.session_type == SessionType::Discovery && !in_discovery {
                continue;
            }
            let value = match *kind {
                Kind::HeaderDigest => proposal(self.offer.header_digest).into(),
                Kind::DataDigest => proposal(self.offer.data_digest).into(),
                Kind::Or(switch) | Kind::And(switch) if switch != Switch::Marker => text::yes_no(self.own_switch(switch)).into(),
                Kind::Smaller(number, ..) | Kind::Larger(number, ..) if number != Number::ProtocolLevel => {
                    self.own_number(number).to_string()
                }
                Kind::Declared => {
                    self.proposed |= 1 << at;
                    self.declare(out);
                    continue;
                }
                _ => continue,
            };
            self.proposed |= 1 << at;
            text::append(out, name, &value);
        }
    }

    /// Processes a key of the target. The key is either an answer to an offer of [`Self::propose`], or an offer of the target, whose
    /// answer is returned.
    pub(crate) fn accept(&mut self, pair: Pair<'_>) -> Option<String> {
        if matches!(pair.value, "NotUnderstood" | "Irrelevant") {
            return None;
        }
        let position = KEYS.iter().position(|(name, ..)| *name == pair.key);
        if position.is_none_or(|at| self.proposed & 1 << at == 0) {
            let answer = self.answer(pair);
            self.faulty |= answer == Answer::Repeated;
            return answer.as_value().map(str::to_owned);
        }
        let digest = match pair.key {
            "HeaderDigest" => Some(self.offer.header_digest),
            "DataDigest" => Some(self.offer.data_digest),
            _ => None,
        };
        if let Some(choice) = digest
            && !proposal(choice).split(',').any(|offered| offered == pair.value)
        {
            self.faulty = true; // The target chose a value that was not offered.
            return None;
        }
        // Both sides compute the result by the same rules, so the target's answer must equal it.
        let answer = self.answer(pair);
        let keeps = match &answer {
            Answer::Value(value) => value == pair.value,
            Answer::Nothing => true,
            _ => false,
        };
        self.faulty |= !keeps;
        None
    }

    /// The negotiated parameters.
    ///
    /// # Errors
    /// The status of a login that cannot succeed: a required digest is missing, or the other side broke the rules.
    pub(crate) fn settle(&self) -> Result<Parameters, LoginStatus> {
        let lacks = |choice, has: bool| choice == DigestChoice::Required && !has;
        let agreed = self.digests_agreed == (true, true)
            && !lacks(self.offer.header_digest, self.parameters.header_digest)
            && !lacks(self.offer.data_digest, self.parameters.data_digest);
        if !agreed || self.faulty {
            return Err(LoginStatus::INITIATOR_ERROR);
        }
        let mut parameters = self.parameters;
        // RFC 7143 13.14 forbids a greater value. The defaults allow it if only one of the two keys was negotiated.
        parameters.first_burst_bytes = parameters.first_burst_bytes.min(parameters.max_burst_bytes);
        Ok(parameters)
    }
}

/// A value of MaxRecvDataSegmentLength (RFC 7143 13.12).
pub(crate) fn segment_bytes(value: &str) -> Option<u32> {
    text::number(value).filter(|bytes| (512..=BYTES_MAX).contains(bytes))
}

const fn proposal(choice: DigestChoice) -> &'static str {
    match choice {
        DigestChoice::Never => "None",
        DigestChoice::Allowed => "None,CRC32C",
        DigestChoice::Preferred => "CRC32C,None",
        DigestChoice::Required => "CRC32C",
    }
}
