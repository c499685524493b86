//! Sessions: discovery, keep-alive, drain, logout, and digests on every PDU.

use crate::pair::*;
use crate::wire::*;
use iscsi_proto::initiator::{Request, Transfer};
use iscsi_proto::login::{DigestChoice, Offer, SessionType};
use iscsi_proto::pdu::*;
use iscsi_proto::serial::StatSn;
use iscsi_proto::target::{self, End, Fault};
use iscsi_proto::text;

fn targets(count: usize) -> TestHost {
    let addresses = vec!["192.0.2.1:3260,1".to_owned(), "[2001:db8::1]:3260,1".to_owned()];
    let targets = (0..count).map(|number| (name(&format!("iqn.2026-01.example:disk{number}")), addresses.clone())).collect();
    TestHost { targets, ..TestHost::default() }
}

fn discovery(host: TestHost) -> Pair {
    let mut settings = initiator_settings();
    settings.target = None;
    Pair::connected(settings, target::Settings::default(), host)
}

fn ask(pair: &mut Pair, value: &str) -> Vec<(String, String)> {
    let mut out = Vec::new();
    pair.initiator.send_targets(&mut out, value).unwrap();
    let told = pair.exchange(&out).unwrap();
    let [Told::Text(text)] = &told[..] else { panic!("{told:?}") };
    text.split(|byte| *byte == 0)
        .filter(|item| !item.is_empty())
        .map(|item| str::from_utf8(item).unwrap().split_once('=').unwrap())
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn discovery_lists_each_target_with_its_addresses() {
    let expected = pairs(&[
        ("TargetName", "iqn.2026-01.example:disk0"),
        ("TargetAddress", "192.0.2.1:3260,1"),
        ("TargetAddress", "[2001:db8::1]:3260,1"),
        ("TargetName", "iqn.2026-01.example:disk1"),
        ("TargetAddress", "192.0.2.1:3260,1"),
        ("TargetAddress", "[2001:db8::1]:3260,1"),
    ]);
    assert_eq!(ask(&mut discovery(targets(2)), "All"), expected);
    assert_eq!(ask(&mut discovery(targets(2)), "iqn.2026-01.example:disk1"), expected[3..]);
    assert_eq!(ask(&mut discovery(targets(2)), "iqn.2026-01.example:other"), []);
    assert_eq!(ask(&mut discovery(targets(2)), ""), pairs(&[("SendTargets", "Reject")]));
}

#[test]
fn a_long_list_comes_in_several_pdus() {
    let mut settings = initiator_settings();
    (settings.target, settings.offer.receive_segment_bytes_max) = (None, 512);
    let mut pair = Pair::connected(settings, target::Settings::default(), targets(100));
    assert_eq!(ask(&mut pair, "All").len(), 300);
}

#[test]
fn the_rest_of_a_long_list_takes_memory_that_the_host_grants() {
    let list = |memory: usize| {
        let host = TestHost { memory: memory.into(), ..targets(200) };
        let offer = Offer { receive_segment_bytes_max: 512, ..Offer::default() };
        let mut wire = Wire::of(SessionType::Discovery, offer, server(Offer::default(), 8), host);
        text_request(&mut wire, Ttt::NONE, b"SendTargets=All\0", true, false).map(|_| wire.target.receiver.held_bytes())
    };
    let held = list(1 << 20).unwrap();
    assert!(held > 1000, "{held} bytes");
    assert!(matches!(list(held - 1), Err(Fault::Limit { .. })));
    assert_eq!(list(held).unwrap(), held);
}

#[test]
fn a_normal_session_may_ask_for_its_own_target_alone() {
    let mut host = targets(2);
    host.targets.push((name("iqn.2026-01.example:disk"), vec!["192.0.2.7:3260,1".into()]));
    let own = pairs(&[("TargetName", "iqn.2026-01.example:disk"), ("TargetAddress", "192.0.2.7:3260,1")]);
    let mut pair = Pair::connected(initiator_settings(), target::Settings::default(), host);
    assert_eq!(ask(&mut pair, ""), own);
    assert_eq!(ask(&mut pair, "iqn.2026-01.example:disk"), own);
    assert_eq!(ask(&mut pair, "iqn.2026-01.example:disk1"), []);
    assert_eq!(ask(&mut pair, "All"), pairs(&[("SendTargets", "Reject")]));
}

fn text_request(wire: &mut Wire, ttt: Ttt, text: &[u8], is_final: bool, is_continued: bool) -> Result<Vec<Reply>, Fault> {
    let cmd_sn = wire.next_cmd_sn();
    let (lun, itt, exp_stat_sn) = (Lun::default(), Itt(5), StatSn(0));
    let request = TextRequest { immediate: false, is_final, is_continued, lun, itt, ttt, cmd_sn, exp_stat_sn };
    wire.send(request.to_bhs(), text)
}

#[test]
fn a_text_request_may_come_in_several_pdus_too() {
    let mut wire = Wire::of(SessionType::Discovery, Offer::default(), server(Offer::default(), 8), targets(1));
    let first = text_request(&mut wire, Ttt::NONE, b"SendTar", false, true).unwrap();
    let ttt = TextResponse::from_bhs(&first[0].bhs).ttt;
    assert!(ttt != Ttt::NONE && first[0].data.is_empty());
    let last = text_request(&mut wire, ttt, b"gets=All\0", true, false).unwrap();
    assert_eq!(text::parse(&last[0].data).unwrap()[0].value, "iqn.2026-01.example:disk0");
    assert_eq!(TextResponse::from_bhs(&last[0].bhs).ttt, Ttt::NONE);
}

#[test]
fn the_length_of_segments_may_be_declared_anew() {
    let mut wire = Wire::default();
    let replies = text_request(&mut wire, Ttt::NONE, b"MaxRecvDataSegmentLength=512\0X-other=1\0", true, false).unwrap();
    assert_eq!(replies[0].data, b"X-other=NotUnderstood\0");
    let bhs = wire.read(1, 2);
    wire.send(bhs, &[]).unwrap();
    assert_eq!(wire.finish(0).len(), 2);
}

#[test]
fn endless_text_ends_the_session() {
    let mut wire = Wire::default();
    let mut ttt = Ttt::NONE;
    for _ in 0..2 {
        let replies = text_request(&mut wire, ttt, &[b'a'; 8000], false, true).unwrap();
        ttt = TextResponse::from_bhs(&replies[0].bhs).ttt;
    }
    assert!(matches!(text_request(&mut wire, ttt, &[b'a'; 8000], false, true), Err(Fault::Limit { .. })));
}

#[test]
fn a_ping_of_the_target_is_answered() {
    let mut pair = Pair::connected(initiator_settings(), target::Settings::default(), TestHost::default());
    let mut out = Vec::new();
    pair.target.replies.ping(&mut out);
    pair.target.sender.stamp(&mut out);
    let (told, answer) = give(&mut pair.initiator, &mut Vec::new(), &out).unwrap();
    assert!(told.is_empty());
    assert_eq!((answer.len(), answer[0]), (48, 0x40));
    assert!(pair.target.receive(&answer).unwrap().is_empty());
}

#[test]
fn a_drain_asks_for_the_logout_that_the_initiator_then_sends() {
    let mut pair = Pair::connected(initiator_settings(), target::Settings::default(), TestHost::default());
    let mut out = Vec::new();
    pair.target.replies.request_logout(&mut out, 10);
    pair.target.sender.stamp(&mut out);
    assert_eq!(pair.deliver(&out), [Told::Async(1, 10)]);
    out.clear();
    pair.initiator.logout(&mut out).unwrap();
    assert_eq!(pair.exchange(&out).unwrap(), [Told::LoggedOut(0)]);
    assert_eq!(pair.target.ended, Some(End::LoggedOut));
    assert!(pair.initiator.logout(&mut out).is_err());
}

#[test]
fn a_logout_ends_what_is_under_way() {
    let mut pair = Pair::connected(initiator_settings(), target::Settings::default(), TestHost::default());
    let mut out = Vec::new();
    let read = cdb(READ_10, 0, 1);
    let request = Request { lun: Lun::default(), cdb: &read, attribute: 1, transfer: Transfer::Read(512) };
    pair.initiator.command(&mut out, &request).unwrap();
    pair.initiator.logout(&mut out).unwrap();
    assert_eq!(pair.exchange(&out).unwrap(), [Told::LoggedOut(0)]);
    assert!(pair.target.carry_out(0).is_empty());
}

#[test]
fn a_logout_of_another_connection_or_for_recovery_is_refused() {
    let mut wire = Wire::default();
    for (reason, cid, response) in [(LogoutReason::CloseConnection, 9, 1), (LogoutReason::RemoveForRecovery, 0, 2)] {
        let cmd_sn = wire.next_cmd_sn();
        let request = LogoutRequest { immediate: false, reason: reason.0, itt: Itt(1), cid, cmd_sn, exp_stat_sn: StatSn(0) };
        let replies = wire.send(request.to_bhs(), &[]).unwrap();
        assert_eq!(LogoutResponse::from_bhs(&replies[0].bhs).response, response);
        assert_eq!(wire.target.ended, None);
    }
    let cmd_sn = wire.next_cmd_sn();
    let reason = LogoutReason::CloseConnection.0;
    let request = LogoutRequest { immediate: false, reason, itt: Itt(1), cid: 0, cmd_sn, exp_stat_sn: StatSn(0) };
    wire.send(request.to_bhs(), &[]).unwrap();
    assert_eq!(wire.target.ended, Some(End::LoggedOut));
    assert!(matches!(wire.send(request.to_bhs(), &[]), Err(Fault::Misplaced { .. })));
}

#[test]
fn damaged_pdus_end_a_session_with_digests() {
    let offer = Offer { header_digest: DigestChoice::Required, data_digest: DigestChoice::Required, ..Offer::default() };
    let settings = || iscsi_proto::initiator::Settings { offer, ..initiator_settings() };
    let (mut damaged, mut good) = (0, 0);
    for byte in [10, 45, 50, 60, 560, 567, usize::MAX] {
        let mut pair = Pair::connected(settings(), target::Settings::default(), TestHost::default());
        let mut out = Vec::new();
        let write = cdb(WRITE_10, 0, 1);
        let request = Request { lun: Lun::default(), cdb: &write, attribute: 1, transfer: Transfer::Write(&[7; 512]) };
        pair.initiator.command(&mut out, &request).unwrap();
        assert_eq!(out.len(), 48 + 4 + 512 + 4);
        if let Some(byte) = out.get_mut(byte) {
            *byte ^= 4;
        }
        match pair.exchange(&out) {
            Err(Fault::Pdu(PduError::HeaderDigest { .. } | PduError::DataDigest { .. })) => damaged += 1,
            Ok(_) => good += pair.target.jobs.len(),
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!((damaged, good), (6, 1));
}
