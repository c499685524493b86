//! The login of an initiator at a target that offers keys itself.

use crate::pair::initiator_settings;
use crate::wire::bytes_of;
use iscsi_proto::initiator::{Event, Initiator};
use iscsi_proto::pdu::*;
use iscsi_proto::serial::{CmdSn, StatSn};
use iscsi_proto::text;

const NO_TRANSIT: Option<u8> = None;

/// Passes a response of the target to the initiator. Returns whether it is logged in, and the text of its next request.
fn respond(initiator: &mut Initiator, (csg, next): (u8, Option<u8>), keys: &[(&str, &str)]) -> (bool, Vec<(String, String)>) {
    let response = LoginResponse {
        transit: next.is_some(),
        is_continued: false,
        csg,
        nsg: next.unwrap_or(0),
        version_max: 0,
        version_active: 0,
        isid: Isid([0x80, 1, 2, 3, 0, 1]),
        tsih: u16::from(next == Some(3)),
        itt: Itt(0),
        stat_sn: StatSn(1),
        exp_cmd_sn: CmdSn(1),
        max_cmd_sn: CmdSn(8),
        status: 0,
    };
    let mut words = Vec::new();
    keys.iter().for_each(|(key, value)| text::append(&mut words, key, value));
    let (bytes, mut out) = (bytes_of(response.to_bhs(), &words), Vec::new());
    let logged_in = matches!(initiator.receive(&bytes, &mut out).unwrap(), Event::LoggedIn(_));
    let sent = out.get(BHS_BYTES..).unwrap_or_default();
    let pairs = text::parse(sent).unwrap();
    (logged_in, pairs.iter().map(|pair| (pair.key.to_owned(), pair.value.to_owned())).collect())
}

fn of(words: &[(&str, &str)]) -> Vec<(String, String)> {
    words.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn keys_that_the_target_offers_are_answered_and_an_unknown_key_with_not_understood() {
    let mut initiator = Initiator::new(initiator_settings());
    initiator.start(&mut Vec::new());
    let (_, offered) = respond(&mut initiator, (0, Some(1)), &[("TargetPortalGroupTag", "1"), ("AuthMethod", "None")]);
    assert!(offered.iter().any(|(key, _)| key == "MaxBurstLength") && !offered.iter().any(|(_, value)| value == "NotUnderstood"));
    let own = [
        ("X-com.foo", "1"),
        ("IFMarker", "Yes"),
        ("iSCSIProtocolLevel", "2"),
        ("TargetAlias", "disk"),
        ("MaxBurstLength", "65536"),
    ];
    let (_, answers) = respond(&mut initiator, (1, NO_TRANSIT), &own);
    assert_eq!(answers, of(&[("X-com.foo", "NotUnderstood"), ("IFMarker", "No"), ("iSCSIProtocolLevel", "1")]));
    let (logged_in, answers) = respond(&mut initiator, (1, Some(3)), &[]);
    assert!(logged_in && answers.is_empty());
    assert_eq!(initiator.parameters().max_burst_bytes, 65536);
}

#[test]
fn an_unknown_key_in_the_security_stage_is_answered_with_not_understood() {
    let mut initiator = Initiator::new(initiator_settings());
    initiator.start(&mut Vec::new());
    let (_, answers) = respond(&mut initiator, (0, NO_TRANSIT), &[("AuthMethod", "None"), ("X-com.foo", "1")]);
    assert_eq!(answers, of(&[("X-com.foo", "NotUnderstood")]));
}
