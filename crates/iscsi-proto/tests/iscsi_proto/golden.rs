//! Bytes of other implementations: logins, commands, data, resets and pings as libiscsi 1.19.0 (iscsi-ls, iscsi-inq,
//! iscsi-readcapacity16, iscsi-perf, iscsi-test-cu) asked and tgt 1.0.85 answered. Each must be understood and written again to the byte.

use iscsi_proto::chap::{Algorithm, Credential};
use iscsi_proto::pdu::{
    self, DataIn, DataOut, Digests, FrameLimits, Framed, LoginResponse, Opcode, Pdu, R2t, ScsiCommand, ScsiResponse, Ttt,
};
use iscsi_proto::text;
use std::collections::HashSet;

const TRACE: &str = include_str!("../golden/libiscsi1.19-tgt1.0.85.hex");

struct Sent {
    connection: &'static str,
    by_initiator: bool,
    limits: FrameLimits,
    bytes: Vec<u8>,
}

impl Sent {
    fn pdu(&self) -> Pdu<'_> {
        pdu::parse(&self.bytes, self.limits).unwrap()
    }
}

fn trace() -> Vec<Sent> {
    let line = |line: &'static str| {
        let [connection, from, digests, hex] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        let digests = Digests { header: digests.starts_with('h'), data: digests.ends_with('d') };
        Sent {
            connection,
            by_initiator: from == "initiator",
            limits: FrameLimits { digests, data_bytes_max: 8192 },
            bytes: (0..hex.len()).step_by(2).map(byte).collect(),
        }
    };
    TRACE.lines().map(line).collect()
}

fn of(opcode: Opcode) -> Vec<Sent> {
    trace().into_iter().filter(|sent| sent.pdu().bhs.opcode() == Some(opcode)).collect()
}

#[test]
fn each_pdu_is_read_and_written_again_to_the_byte() {
    for (number, sent) in trace().iter().enumerate() {
        assert_eq!(pdu::frame(&sent.bytes, sent.limits), Ok(Framed::Whole { bytes: sent.bytes.len() }));
        assert_eq!(crate::every::header_again(&sent.pdu().bhs), Some(sent.pdu().bhs), "PDU {number} of {}", sent.connection);
    }
}

#[test]
fn the_trace_holds_what_a_session_is_made_of() {
    let seen: HashSet<Opcode> = trace().iter().map(|sent| sent.pdu().bhs.opcode().unwrap()).collect();
    for opcode in Opcode::ALL {
        let missing = [Opcode::SnackRequest, Opcode::AsyncMessage, Opcode::Reject].contains(opcode);
        assert!(seen.contains(opcode) != missing, "{opcode:?}");
    }
}

#[test]
fn every_changed_header_is_found_by_its_digest() {
    let with_digest: Vec<Sent> = trace().into_iter().filter(|sent| sent.limits.digests.header).collect();
    assert!(with_digest.len() > 8);
    for sent in with_digest {
        let mut bytes = sent.bytes.clone();
        bytes[20] ^= 1;
        assert!(pdu::parse(&bytes, sent.limits).is_err());
    }
}

#[test]
fn commands_and_their_data_say_what_the_tools_asked_for() {
    let write =
        of(Opcode::ScsiCommand).into_iter().map(|sent| ScsiCommand::from_bhs(&sent.pdu().bhs)).find(|command| command.write);
    let write = write.unwrap();
    assert_eq!((write.expected_data_bytes, write.is_final, write.attribute), (0x200, true, 1));
    let r2t = R2t::from_bhs(&of(Opcode::R2t)[0].pdu().bhs);
    assert_eq!((r2t.buffer_offset, r2t.desired_bytes), (0x2000, 0x710));
    let data: Vec<DataOut> = of(Opcode::DataOut).iter().map(|sent| DataOut::from_bhs(&sent.pdu().bhs)).collect();
    assert!(data.iter().all(|data| data.ttt != Ttt::NONE) && data.last().unwrap().is_final);
    let residuals: Vec<_> = of(Opcode::DataIn).iter().map(|sent| DataIn::from_bhs(&sent.pdu().bhs)).collect();
    assert!(residuals.iter().any(|data| data.overflow && data.residual_bytes == 0x138));
    assert!(residuals.iter().any(|data| !data.overflow && !data.underflow && data.residual_bytes == 0));
    let sense = of(Opcode::ScsiResponse).into_iter().find(|sent| ScsiResponse::from_bhs(&sent.pdu().bhs).status == 2).unwrap();
    assert_eq!(sense.pdu().data.len(), 0x14);
}

#[test]
fn a_login_by_mutual_chap_proves_both_sides() {
    let login: Vec<Sent> = trace().into_iter().filter(|sent| sent.connection == "a3").collect();
    let pairs: Vec<(bool, String, String)> = login
        .iter()
        .flat_map(|sent| {
            let pairs = text::parse(sent.pdu().data).unwrap();
            pairs.iter().map(|pair| (sent.by_initiator, pair.key.to_owned(), pair.value.to_owned())).collect::<Vec<_>>()
        })
        .collect();
    let value = |by_initiator, wanted: &str| {
        let mut found = pairs.iter().filter(|(by, key, _)| *by == by_initiator && key == wanted);
        found.next_back().unwrap().2.clone()
    };
    let binary = |value: String| text::binary(&value, 1024).unwrap();
    let identifier = |value: String| text::number(&value).unwrap() as u8;
    assert_eq!(value(false, "CHAP_A"), Algorithm::Md5.number().to_string());
    for (prover, name, secret) in [(true, "alice", "alicesecret12"), (false, "target", "targetsecret1")] {
        let credential = Credential::new(name, secret.as_bytes()).unwrap();
        let challenge = binary(value(!prover, "CHAP_C"));
        let identifier = identifier(value(!prover, "CHAP_I"));
        assert_eq!(value(prover, "CHAP_N"), name);
        assert!(credential.verify(Algorithm::Md5, identifier, &challenge, &binary(value(prover, "CHAP_R"))));
        let other = Credential::new(name, b"alicesecret13").unwrap();
        assert!(!other.verify(Algorithm::Md5, identifier, &challenge, &binary(value(prover, "CHAP_R"))));
    }
}

#[test]
fn refused_logins_say_why() {
    let statuses: HashSet<u16> =
        of(Opcode::LoginResponse).iter().map(|sent| LoginResponse::from_bhs(&sent.pdu().bhs).status).collect();
    assert_eq!(statuses, HashSet::from([0, 0x0201, 0x0203]));
}
