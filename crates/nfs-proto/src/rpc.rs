//! ONC RPC version 2, RFC 5531: calls, replies, AUTH_NONE and AUTH_SYS; the AUTH_TLS probe, RFC 9289.

use crate::limits::{AUTH_BYTES_MAX, GROUPS_MAX, MACHINE_NAME_BYTES_MAX};
use crate::record;
use crate::xdr::{Decode, DecodeError, DecodeErrorKind, Encode, Reader, Writer, xdr_bytes, xdr_enum, xdr_struct};

/// The version of the RPC protocol (RFC 5531 9).
pub const RPC_VERSION: u32 = 2;
/// Flavor of a call without identity (RFC 5531 8.2).
pub const AUTH_NONE: u32 = 0;
/// Flavor of a call with UNIX ids (RFC 5531 appendix A).
pub const AUTH_SYS: u32 = 1;
/// Flavor of the call that asks whether the server has TLS: NULL, without encryption (RFC 9289 4.1).
pub const AUTH_TLS: u32 = 7;
/// The body of the verifier in its reply if the server has TLS (RFC 9289 4.1).
pub const STARTTLS: &[u8; 8] = b"STARTTLS";

const CALL: u32 = 0;
const REPLY: u32 = 1;
const MSG_ACCEPTED: u32 = 0;
const MSG_DENIED: u32 = 1;

/// Pairs a reply with its call. The client chooses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Xid(pub u32);

xdr_bytes! {
    /// The body of an authentication field, at most 400 bytes.
    AuthBody, AUTH_BYTES_MAX
}

xdr_struct! {
    /// RFC 5531 8.2, `opaque_auth`.
    OpaqueAuth<'a> {
        /// [`AUTH_NONE`], [`AUTH_SYS`] or another registered number.
        flavor: u32,
        /// Its body.
        body: AuthBody<'a>,
    }
}

impl OpaqueAuth<'_> {
    /// The empty authentication.
    pub const NONE: OpaqueAuth<'static> = OpaqueAuth { flavor: AUTH_NONE, body: AuthBody(&[]) };
    /// The credential that asks for TLS: it has no body.
    pub const TLS: OpaqueAuth<'static> = OpaqueAuth { flavor: AUTH_TLS, body: AuthBody(&[]) };
}

xdr_bytes! {
    /// The caller's name for its host. It must not be used for access control.
    MachineName, MACHINE_NAME_BYTES_MAX
}

/// Supplementary groups, at most 16.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Groups {
    gids: [u32; GROUPS_MAX],
    count: usize, // 0 ..= GROUPS_MAX
}

impl Groups {
    /// The first 16 of `gids`: AUTH_SYS has space for no more.
    #[must_use]
    pub fn new(gids: &[u32]) -> Self {
        let mut groups = Self::default();
        for (slot, gid) in groups.gids.iter_mut().zip(gids) {
            *slot = *gid;
            groups.count += 1;
        }
        groups
    }

    /// The groups.
    #[must_use]
    pub fn as_slice(&self) -> &[u32] {
        self.gids.get(..self.count).unwrap_or_default()
    }
}

impl Encode for Groups {
    fn encode(&self, out: &mut Writer<'_>) {
        (self.count as u32).encode(out);
        for gid in self.as_slice() {
            gid.encode(out);
        }
    }
}

impl<'a> Decode<'a> for Groups {
    fn decode(input: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let count = u32::decode(input)? as usize;
        if count > GROUPS_MAX {
            return Err(input.error(DecodeErrorKind::TooLong { length: count, limit: GROUPS_MAX }));
        }
        let mut groups = Self { count, ..Self::default() };
        for slot in groups.gids.iter_mut().take(count) {
            *slot = u32::decode(input)?;
        }
        Ok(groups)
    }
}

xdr_struct! {
    /// RFC 5531 appendix A, `authsys_parms`.
    AuthSys<'a> {
        /// Arbitrary, chosen by the caller.
        stamp: u32,
        /// The caller's host name.
        machine_name: MachineName<'a>,
        /// Effective user.
        uid: u32,
        /// Effective group.
        gid: u32,
        /// Supplementary groups.
        gids: Groups,
    }
}

/// The head of a call (RFC 5531 9, `call_body`). The arguments follow it in the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallHeader<'a> {
    /// Pairs the reply with the call.
    pub xid: Xid,
    /// Version of the RPC protocol. A server replies to other versions than 2 with RPC_MISMATCH.
    pub rpc_version: u32,
    /// Program, 100003 for NFS.
    pub program: u32,
    /// Version of the program.
    pub version: u32,
    /// Procedure in the program.
    pub procedure: u32,
    /// The identity of the caller.
    pub credential: OpaqueAuth<'a>,
    /// The proof of that identity. Empty for AUTH_NONE and AUTH_SYS.
    pub verifier: OpaqueAuth<'a>,
}

impl Encode for CallHeader<'_> {
    fn encode(&self, out: &mut Writer<'_>) {
        for word in [self.xid.0, CALL, self.rpc_version, self.program, self.version, self.procedure] {
            word.encode(out);
        }
        self.credential.encode(out);
        self.verifier.encode(out);
    }
}

impl<'a> Decode<'a> for CallHeader<'a> {
    fn decode(input: &mut Reader<'a>) -> Result<Self, DecodeError> {
        input.at("call.xid");
        let xid = Xid(u32::decode(input)?);
        input.at("call.mtype");
        message_type(input, CALL)?;
        input.at("call.rpcvers");
        let rpc_version = u32::decode(input)?;
        input.at("call.prog");
        let program = u32::decode(input)?;
        let version = u32::decode(input)?;
        let procedure = u32::decode(input)?;
        input.at("call.cred");
        let credential = OpaqueAuth::decode(input)?;
        input.at("call.verf");
        let verifier = OpaqueAuth::decode(input)?;
        Ok(Self { xid, rpc_version, program, version, procedure, credential, verifier })
    }
}

xdr_enum! {
    /// Why a call was not authenticated (RFC 5531 9, `auth_stat`).
    AuthStat {
        /// Success.
        Ok = 0,
        /// Bad credential.
        BadCred = 1,
        /// The client must begin a new session.
        RejectedCred = 2,
        /// Bad verifier.
        BadVerf = 3,
        /// Verifier expired or replayed.
        RejectedVerf = 4,
        /// The authentication is too weak for the call.
        TooWeak = 5,
        /// Bogus response verifier.
        InvalidResp = 6,
        /// Unknown reason.
        Failed = 7,
    }
}

/// How a call ended (RFC 5531 9, `reply_body`). After `Success`, the results follow in the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyStatus {
    /// The call succeeded. Its results follow.
    Success,
    /// The server does not have the program.
    ProgramUnavailable,
    /// The server has the program, but not the version.
    ProgramMismatch {
        /// Lowest version served.
        low: u32,
        /// Highest version served.
        high: u32,
    },
    /// No such procedure.
    ProcedureUnavailable,
    /// The arguments could not be decoded.
    GarbageArguments,
    /// The server failed, for example because it is out of memory.
    SystemError,
    /// The RPC version is not 2.
    RpcMismatch {
        /// Lowest version served.
        low: u32,
        /// Highest version served.
        high: u32,
    },
    /// The caller was not accepted.
    AuthError(AuthStat),
}

/// The head of a reply. Encoding writes an empty AUTH_NONE verifier; [`encode_starttls`] writes another one. Decoding checks
/// the form of a peer's verifier and drops it; [`offers_tls`] reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyHeader {
    /// The xid of the call.
    pub xid: Xid,
    /// How it ended.
    pub status: ReplyStatus,
}

impl Encode for ReplyHeader {
    fn encode(&self, out: &mut Writer<'_>) {
        self.xid.0.encode(out);
        REPLY.encode(out);
        let accepted = |out: &mut Writer<'_>, stat: u32| {
            MSG_ACCEPTED.encode(out);
            OpaqueAuth::NONE.encode(out);
            stat.encode(out);
        };
        match self.status {
            ReplyStatus::Success => accepted(out, 0),
            ReplyStatus::ProgramUnavailable => accepted(out, 1),
            ReplyStatus::ProgramMismatch { low, high } => {
                accepted(out, 2);
                low.encode(out);
                high.encode(out);
            }
            ReplyStatus::ProcedureUnavailable => accepted(out, 3),
            ReplyStatus::GarbageArguments => accepted(out, 4),
            ReplyStatus::SystemError => accepted(out, 5),
            ReplyStatus::RpcMismatch { low, high } => [MSG_DENIED, 0, low, high].iter().for_each(|word| word.encode(out)),
            ReplyStatus::AuthError(stat) => [MSG_DENIED, 1, stat.number()].iter().for_each(|word| word.encode(out)),
        }
    }
}

impl<'a> Decode<'a> for ReplyHeader {
    fn decode(input: &mut Reader<'a>) -> Result<Self, DecodeError> {
        input.at("reply.xid");
        let xid = Xid(u32::decode(input)?);
        input.at("reply.mtype");
        message_type(input, REPLY)?;
        input.at("reply.stat");
        let status = match u32::decode(input)? {
            MSG_ACCEPTED => accepted_status(input)?,
            MSG_DENIED => match u32::decode(input)? {
                0 => ReplyStatus::RpcMismatch { low: u32::decode(input)?, high: u32::decode(input)? },
                1 => ReplyStatus::AuthError(AuthStat::decode(input)?),
                other => return Err(input.error(DecodeErrorKind::UnknownValue(other))),
            },
            other => return Err(input.error(DecodeErrorKind::UnknownValue(other))),
        };
        Ok(Self { xid, status })
    }
}

/// Appends a call record: mark, header, arguments.
pub fn encode_call<T: Encode + ?Sized>(header: &CallHeader<'_>, arguments: &T, out: &mut Vec<u8>) {
    encode_record(header, arguments, out);
}

/// Appends a reply record: mark, header, results.
pub fn encode_reply<T: Encode + ?Sized>(header: &ReplyHeader, results: &T, out: &mut Vec<u8>) {
    encode_record(header, results, out);
}

/// Appends the reply that offers TLS: its verifier has the flavor AUTH_NONE and the body [`STARTTLS`] (RFC 9289 4.1).
pub fn encode_starttls(xid: Xid, out: &mut Vec<u8>) {
    struct Offer(Xid);
    impl Encode for Offer {
        fn encode(&self, out: &mut Writer<'_>) {
            [self.0.0, REPLY, MSG_ACCEPTED].iter().for_each(|word| word.encode(out));
            OpaqueAuth { flavor: AUTH_NONE, body: AuthBody(STARTTLS) }.encode(out);
            0u32.encode(out);
        }
    }
    encode_record(&Offer(xid), &(), out);
}

/// Decodes a reply without its mark. Returns its header, and whether it offers TLS.
///
/// # Errors
/// [`DecodeError`] if the bytes are not a reply.
pub fn offers_tls(reply: &[u8]) -> Result<(ReplyHeader, bool), DecodeError> {
    let header = ReplyHeader::decode(&mut Reader::new(reply))?;
    if header.status != ReplyStatus::Success {
        return Ok((header, false));
    }
    let mut input = Reader::new(reply);
    for _ in 0..3 {
        u32::decode(&mut input)?;
    }
    let verifier = OpaqueAuth::decode(&mut input)?;
    Ok((header, verifier.flavor == AUTH_NONE && verifier.body.0 == STARTTLS))
}

fn encode_record<H: Encode, T: Encode + ?Sized>(header: &H, body: &T, out: &mut Vec<u8>) {
    let mark = out.len();
    let mut writer = Writer::new(out);
    writer.raw(&[0; record::MARK_BYTES]);
    header.encode(&mut writer);
    body.encode(&mut writer);
    let bytes = out.len() - mark - record::MARK_BYTES;
    record::write_mark(out, mark, bytes);
}

fn message_type(input: &mut Reader<'_>, expected: u32) -> Result<(), DecodeError> {
    match u32::decode(input)? {
        found if found == expected => Ok(()),
        other => Err(input.error(DecodeErrorKind::UnknownValue(other))),
    }
}

fn accepted_status(input: &mut Reader<'_>) -> Result<ReplyStatus, DecodeError> {
    input.at("reply.verf");
    OpaqueAuth::decode(input)?;
    input.at("reply.accept_stat");
    Ok(match u32::decode(input)? {
        0 => ReplyStatus::Success,
        1 => ReplyStatus::ProgramUnavailable,
        2 => ReplyStatus::ProgramMismatch { low: u32::decode(input)?, high: u32::decode(input)? },
        3 => ReplyStatus::ProcedureUnavailable,
        4 => ReplyStatus::GarbageArguments,
        5 => ReplyStatus::SystemError,
        other => return Err(input.error(DecodeErrorKind::UnknownValue(other))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xdr::{decode_all, encode_to};

    #[test]
    fn every_reply_status_survives_a_round_trip() {
        use ReplyStatus::{
            AuthError, GarbageArguments, ProcedureUnavailable, ProgramMismatch, ProgramUnavailable, RpcMismatch, Success,
            SystemError,
        };
        let mismatch = [ProgramMismatch { low: 3, high: 3 }, RpcMismatch { low: 2, high: 2 }];
        let plain = [Success, ProgramUnavailable, ProcedureUnavailable, GarbageArguments, SystemError];
        let auth = AuthStat::ALL.iter().map(|&stat| AuthError(stat));
        for status in plain.into_iter().chain(mismatch).chain(auth) {
            let header = ReplyHeader { xid: Xid(0xdead_beef), status };
            let mut bytes = Vec::new();
            encode_to(&header, &mut bytes);
            assert_eq!(decode_all::<ReplyHeader>(&bytes), Ok(header));
        }
    }

    #[test]
    fn a_seventeenth_group_is_refused() {
        let mut bytes = Vec::new();
        encode_to(&17u32, &mut bytes);
        bytes.resize(4 + 17 * 4, 0);
        assert!(decode_all::<Groups>(&bytes).is_err());
        assert_eq!(Groups::new(&[7; 20]).as_slice(), &[7; 16]);
    }

    #[test]
    fn the_offer_of_tls_is_told_from_every_other_reply() {
        let mut offer = Vec::new();
        encode_starttls(Xid(5), &mut offer);
        let words = [0x8000_0020u32, 5, 1, 0, 0, 8, 0x5354_4152, 0x5454_4c53, 0]; // RFC 9289 4.1
        assert_eq!(offer, words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>());
        let header = ReplyHeader { xid: Xid(5), status: ReplyStatus::Success };
        assert_eq!(offers_tls(&offer[record::MARK_BYTES..]), Ok((header, true)));
        for status in [ReplyStatus::Success, ReplyStatus::AuthError(AuthStat::BadCred), ReplyStatus::ProgramUnavailable] {
            let mut bytes = Vec::new();
            let header = ReplyHeader { xid: Xid(6), status };
            encode_to(&header, &mut bytes);
            assert_eq!(offers_tls(&bytes), Ok((header, false)));
        }
        for end in record::MARK_BYTES..offer.len() {
            assert!(offers_tls(&offer[record::MARK_BYTES..end]).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn a_reply_is_not_taken_for_a_call() {
        let mut bytes = Vec::new();
        encode_to(&ReplyHeader { xid: Xid(1), status: ReplyStatus::Success }, &mut bytes);
        let error = CallHeader::decode(&mut Reader::new(&bytes)).unwrap_err();
        assert_eq!((error.field, error.kind), ("call.mtype", DecodeErrorKind::UnknownValue(1)));
    }
}
