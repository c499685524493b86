//! Text requests of the full feature phase: SendTargets, and the few keys that may be negotiated again (RFC 7143 11.10,
//! appendix C).

use super::Fault;
use super::host::{Ending, Host, Purpose};
use super::mark::Mark;
use super::replies::Replies;
use super::session::Session;
use crate::limits::{TARGETS_TEXT_BYTES_MAX, TEXT_BYTES_MAX};
use crate::login::{END_FORMER, END_SESSION_KEY, Name, SessionType, segment_bytes};
use crate::pdu::{Isid, Lun, TextRequest, TextResponse, Ttt};
use crate::serial::CmdSn;
use crate::text::{self, Pair};

/// The text exchange of a connection. There is one at a time.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    request: Vec<u8>,  // text of a request that is not complete yet
    response: Vec<u8>, // rest of the response that did not fit into its last PDU
    granted: usize,    // memory that the host granted for the rest, in bytes
    ttt: u32,          // of the current exchange
}

impl Exchange {
    /// Memory that the host granted for the rest of a response, in bytes.
    pub(super) const fn held_bytes(&self) -> usize {
        self.granted
    }

    /// Processes a request PDU and appends its response.
    pub(super) fn step(
        &mut self,
        request: &TextRequest,
        data: &[u8],
        session: &Session,
        host: &dyn Host,
        replies: &Replies,
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        if request.is_final && request.is_continued {
            return Err(Fault::Protocol("a text request is both final and continued"));
        }
        if request.ttt == Ttt::NONE {
            self.request.clear(); // A new exchange ends the previous one (RFC 7143 11.10.4).
            self.response.clear();
        } else if request.ttt.0 != self.ttt {
            return Err(Fault::Number { what: "target transfer tag of text", got: request.ttt.0, expected: self.ttt });
        }
        let bytes = self.request.len() + data.len();
        if bytes > TEXT_BYTES_MAX {
            return Err(Fault::Limit { what: "bytes of a text request", got: bytes as u32, limit: TEXT_BYTES_MAX as u32 });
        }
        self.request.extend_from_slice(data);
        if request.is_continued {
            self.respond(request, &[], true, false, replies, out);
            return Ok(());
        }
        let whole = std::mem::take(&mut self.request);
        for pair in text::parse(&whole)? {
            answer(pair, session, host, replies, &mut self.response);
        }
        let segment = replies.table.send_segment_bytes_max() as usize;
        let rest = self.response.split_off(self.response.len().min(segment));
        let now = std::mem::replace(&mut self.response, rest);
        self.hold(host)?;
        let more = !self.response.is_empty();
        self.respond(request, &now, more || !request.is_final, more, replies, out);
        Ok(())
    }

    /// Asks the host for memory for the rest of the response, because an initiator may never fetch that rest.
    fn hold(&mut self, host: &dyn Host) -> Result<(), Fault> {
        let bytes = self.response.len();
        if bytes > self.granted && !host.reserve(bytes - self.granted, Purpose::Unsolicited) {
            let (what, limit) = ("bytes of a text response, with too little memory left", self.granted as u32);
            return Err(Fault::Limit { what, got: bytes as u32, limit });
        }
        self.granted = bytes;
        Ok(())
    }

    /// `goes_on`: the initiator must send another request, with the tag of this response.
    fn respond(&mut self, request: &TextRequest, data: &[u8], goes_on: bool, cut: bool, replies: &Replies, out: &mut Vec<u8>) {
        if goes_on {
            self.ttt = self.ttt.wrapping_add(1) % u32::MAX; // skips Ttt::NONE
        }
        let response = TextResponse {
            is_final: !goes_on,
            is_continued: cut,
            lun: Lun::default(),
            itt: request.itt,
            ttt: if goes_on { Ttt(self.ttt) } else { Ttt::NONE },
            stat_sn: Mark::NUMBERED.as_stat_sn(),
            exp_cmd_sn: CmdSn(0),
            max_cmd_sn: CmdSn(0),
        };
        replies.put(out, response.to_bhs(), data);
    }
}

fn answer(pair: Pair<'_>, session: &Session, host: &dyn Host, replies: &Replies, answers: &mut Vec<u8>) {
    match pair.key {
        "SendTargets" => send_targets(pair.value, session, host, answers),
        "MaxRecvDataSegmentLength" => match segment_bytes(pair.value) {
            Some(bytes) => replies.table.set_send_segment_bytes_max(bytes),
            None => text::append(answers, pair.key, "Reject"),
        },
        END_SESSION_KEY => text::append(answers, pair.key, end_session(pair.value, session, host)),
        _ => text::append(answers, pair.key, "NotUnderstood"),
    }
}

fn end_session(value: &str, session: &Session, host: &dyn Host) -> &'static str {
    let Some(target) = &session.target else { return "Reject" };
    let which = if value == END_FORMER {
        Ending::Former(session.isid)
    } else {
        let Some(isid) = text::binary(value, 6).and_then(|bytes| <[u8; 6]>::try_from(bytes).ok()) else { return "Reject" };
        Ending::One(Isid(isid))
    };
    match host.end_session(&session.initiator, target, which) {
        Some(true) => "Yes",
        Some(false) => "No",
        None => "NotUnderstood",
    }
}

/// RFC 7143 appendix C: `All` only in discovery sessions, an empty value for the target of the session, or a name.
fn send_targets(value: &str, session: &Session, host: &dyn Host, answers: &mut Vec<u8>) {
    let is_discovery = session.session_type == SessionType::Discovery;
    let wanted = match (value, &session.target) {
        ("All", _) if is_discovery => None,
        ("", Some(target)) => Some(target.clone()),
        ("All" | "", _) => {
            text::append(answers, "SendTargets", "Reject");
            return;
        }
        (name, own) => match Name::new(name).ok().filter(|name| is_discovery || own.as_ref() == Some(name)) {
            Some(name) => Some(name),
            None => return, // the target does not exist, or this session may not ask for it: empty response
        },
    };
    let mut listed = Vec::new();
    host.targets(&session.initiator, &mut |name, addresses| {
        if wanted.as_ref().is_some_and(|wanted| wanted != name) {
            return;
        }
        let before = listed.len();
        text::append(&mut listed, "TargetName", name.as_str());
        addresses.iter().for_each(|address| text::append(&mut listed, "TargetAddress", address));
        if answers.len() + listed.len() > TARGETS_TEXT_BYTES_MAX {
            listed.truncate(before);
        }
    });
    answers.append(&mut listed);
}
