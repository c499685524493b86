//! The login of a target: stages, keys, authentication, sessions.

use crate::pair::*;
use crate::wire::{bytes_of, replies_of, server};
use iscsi_proto::chap::{Algorithm, Credential};
use iscsi_proto::initiator;
use iscsi_proto::login::{DigestChoice, LoginStatus, Offer, Parameters, SessionType};
use iscsi_proto::pdu::{Isid, Itt, LoginRequest, LoginResponse, Opcode};
use iscsi_proto::serial::{CmdSn, StatSn};
use iscsi_proto::target::{self, Access, Admission, Authentication, End, Fault, Registry, Tsih};
use iscsi_proto::text;

const TRANSIT: u8 = 0x80;
const CONTINUED: u8 = 0x40;
const SECURITY: u8 = 0;
const OPERATIONAL: u8 = 1;
const FULL: u8 = 3;
const WHO: &str = "InitiatorName=iqn.2026-01.example:client TargetName=iqn.2026-01.example:disk";

struct Login {
    target: TargetSide,
    tsih: u16,
    version_min: u8,
    isid: Isid,
}

#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: LoginStatus,
    transit: bool,
    stages: (u8, u8),
    tsih: u16,
    text: Vec<u8>,
}

impl Answer {
    /// Pairs, one a word.
    fn words(&self) -> String {
        let pairs = text::parse(&self.text).unwrap();
        pairs.iter().map(|pair| format!("{}={}", pair.key, pair.value)).collect::<Vec<_>>().join(" ")
    }

    fn value(&self, key: &str) -> String {
        let pairs = text::parse(&self.text).unwrap();
        pairs.iter().find(|pair| pair.key == key).unwrap_or_else(|| panic!("no {key} in {}", self.words())).value.to_owned()
    }
}

fn of_words(words: &str) -> Vec<u8> {
    words.split(' ').filter(|word| !word.is_empty()).flat_map(|word| [word.as_bytes(), &[0]].concat()).collect()
}

impl Login {
    fn new(offer: Offer, host: TestHost) -> Self {
        let target = TargetSide::new(server(offer, 8), host, 64);
        Self { target, tsih: 0, version_min: 0, isid: Isid([1; 6]) }
    }

    fn default() -> Self {
        Self::new(Offer::default(), TestHost::default())
    }

    fn send(&mut self, flags: u8, csg: u8, nsg: u8, text: &[u8]) -> Result<Answer, Fault> {
        let request = LoginRequest {
            transit: flags & TRANSIT != 0,
            is_continued: flags & CONTINUED != 0,
            csg,
            nsg,
            version_max: self.version_min,
            version_min: self.version_min,
            isid: self.isid,
            tsih: self.tsih,
            itt: Itt(3),
            cid: 1,
            cmd_sn: CmdSn(100),
            exp_stat_sn: StatSn(0),
        };
        let replies = replies_of(&self.target.receive(&bytes_of(request.to_bhs(), text))?);
        assert_eq!((replies.len(), replies[0].opcode()), (1, Opcode::LoginResponse));
        let header = LoginResponse::from_bhs(&replies[0].bhs);
        assert_eq!((header.isid, header.itt, header.exp_cmd_sn), (self.isid, Itt(3), CmdSn(100)));
        Ok(Answer {
            status: LoginStatus(header.status),
            transit: header.transit,
            stages: (header.csg, header.nsg),
            tsih: header.tsih,
            text: replies[0].data.clone(),
        })
    }

    /// A request whose keys are words.
    fn ask(&mut self, flags: u8, csg: u8, nsg: u8, words: &str) -> Answer {
        self.send(flags, csg, nsg, &of_words(words)).unwrap()
    }

    /// Straight to the operational stage; the answers, and what was settled.
    fn negotiate(mut self, keys: &str) -> (String, Option<Parameters>) {
        let answer = self.ask(TRANSIT, OPERATIONAL, FULL, &format!("{WHO} {keys}"));
        let words = answer.words().replace("TargetPortalGroupTag=1 ", "").replace(" MaxRecvDataSegmentLength=262144", "");
        (words, self.target.receiver.session().map(|session| session.parameters))
    }
}

#[test]
fn a_login_without_keys_leaves_the_defaults_of_the_standard() {
    let (answers, parameters) = Login::default().negotiate("");
    assert_eq!(answers, "MaxRecvDataSegmentLength=262144");
    assert_eq!(parameters, Some(Parameters { receive_segment_bytes_max: 262_144, ..Parameters::default() }));
}

#[test]
fn each_key_is_settled_by_its_rule() {
    let cases = [
        ("HeaderDigest=CRC32C,None", "HeaderDigest=CRC32C"),
        ("HeaderDigest=None,CRC32C", "HeaderDigest=None"),
        ("DataDigest=X-mine,CRC32C", "DataDigest=CRC32C"),
        ("MaxConnections=8", "MaxConnections=1"),
        ("InitialR2T=Yes", "InitialR2T=Yes"),
        ("InitialR2T=No", "InitialR2T=No"),
        ("ImmediateData=Yes", "ImmediateData=Yes"),
        ("ImmediateData=No", "ImmediateData=No"),
        ("MaxBurstLength=16776192", "MaxBurstLength=1048576"),
        ("MaxBurstLength=0x2000", "MaxBurstLength=8192"),
        ("FirstBurstLength=1048576", "FirstBurstLength=262144"),
        ("FirstBurstLength=512", "FirstBurstLength=512"),
        ("DefaultTime2Wait=5", "DefaultTime2Wait=5"),
        ("DefaultTime2Retain=20", "DefaultTime2Retain=0"),
        ("MaxOutstandingR2T=16", "MaxOutstandingR2T=4"),
        ("DataPDUInOrder=No", "DataPDUInOrder=Yes"),
        ("DataSequenceInOrder=No", "DataSequenceInOrder=Yes"),
        ("ErrorRecoveryLevel=2", "ErrorRecoveryLevel=0"),
        ("IFMarker=Yes", "IFMarker=No"),
        ("OFMarker=No", "OFMarker=No"),
        ("IFMarkInt=1~2048", "IFMarkInt=Irrelevant"),
        ("OFMarkInt=Reject", "OFMarkInt=Irrelevant"),
        ("iSCSIProtocolLevel=2", "iSCSIProtocolLevel=1"),
        ("RDMAExtensions=Yes", "RDMAExtensions=NotUnderstood"),
        ("X-com.example.key=1", "X-com.example.key=NotUnderstood"),
        ("initialr2t=No", "initialr2t=NotUnderstood"),
        ("InitialR2T=maybe", "InitialR2T=Reject"),
        ("MaxBurstLength=511", "MaxBurstLength=Reject"),
        ("MaxBurstLength=16777216", "MaxBurstLength=Reject"),
        ("MaxConnections=0", "MaxConnections=Reject"),
        ("ErrorRecoveryLevel=3", "ErrorRecoveryLevel=Reject"),
        ("MaxRecvDataSegmentLength=511", "MaxRecvDataSegmentLength=Reject"),
    ];
    for (offered, answered) in cases {
        let (answers, parameters) = Login::default().negotiate(offered);
        assert_eq!(answers, answered, "{offered}");
        assert!(parameters.is_some());
    }
}

#[test]
fn what_was_answered_is_what_holds() {
    let keys = "HeaderDigest=CRC32C MaxRecvDataSegmentLength=4096 InitialR2T=No ImmediateData=No MaxBurstLength=8192 \
                FirstBurstLength=65536 DefaultTime2Wait=3 DefaultTime2Retain=9 MaxOutstandingR2T=2";
    let expected = Parameters {
        header_digest: true,
        initial_r2t: false,
        immediate_data: false,
        send_segment_bytes_max: 4096,
        receive_segment_bytes_max: 262_144,
        max_burst_bytes: 8192,
        first_burst_bytes: 8192, // no more than a burst
        time2wait_s: 3,
        time2retain_s: 0,
        outstanding_r2t_max: 2,
        ..Parameters::default()
    };
    assert_eq!(Login::default().negotiate(keys).1, Some(expected));
}

#[test]
fn own_choices_of_digests_are_kept_to() {
    let choose = |choice, list: &str| {
        let offer = Offer { header_digest: choice, ..Offer::default() };
        let mut login = Login::new(offer, TestHost::default());
        let answer = login.ask(TRANSIT, OPERATIONAL, FULL, &format!("{WHO} {list}"));
        (answer.status, login.target.receiver.session().map(|session| session.parameters.header_digest))
    };
    let done = |digest| (LoginStatus::SUCCESS, Some(digest));
    let failed = (LoginStatus::INITIATOR_ERROR, None);
    assert_eq!(choose(DigestChoice::Never, "HeaderDigest=CRC32C,None"), done(false));
    assert_eq!(choose(DigestChoice::Never, "HeaderDigest=CRC32C"), failed);
    assert_eq!(choose(DigestChoice::Preferred, "HeaderDigest=None,CRC32C"), done(true));
    assert_eq!(choose(DigestChoice::Required, "HeaderDigest=None,CRC32C"), done(true));
    assert_eq!(choose(DigestChoice::Required, "HeaderDigest=None"), failed);
    assert_eq!(choose(DigestChoice::Required, ""), failed);
}

#[test]
fn a_discovery_session_has_no_keys_of_data() {
    let mut login = Login::default();
    let who = "InitiatorName=iqn.2026-01.example:client SessionType=Discovery";
    let answer = login.ask(TRANSIT, OPERATIONAL, FULL, &format!("{who} MaxBurstLength=4096 HeaderDigest=None"));
    assert_eq!(answer.words(), "MaxBurstLength=Irrelevant HeaderDigest=None MaxRecvDataSegmentLength=262144");
    let session = login.target.receiver.session().unwrap();
    assert_eq!((session.session_type, &session.target), (SessionType::Discovery, &None));
}

#[test]
fn a_login_goes_through_its_stages() {
    let mut login = Login::default();
    let first = login.ask(TRANSIT, SECURITY, OPERATIONAL, &format!("{WHO} AuthMethod=CHAP,None"));
    assert_eq!((first.transit, first.stages, first.tsih), (true, (SECURITY, OPERATIONAL), 0));
    assert_eq!(first.words(), "TargetPortalGroupTag=1 AuthMethod=None");
    let second = login.ask(0, OPERATIONAL, 0, "InitialR2T=No");
    assert_eq!((second.transit, second.words()), (false, "InitialR2T=No MaxRecvDataSegmentLength=262144".into()));
    let third = login.ask(TRANSIT, OPERATIONAL, FULL, "");
    assert_eq!((third.transit, third.stages, third.tsih, third.words()), (true, (OPERATIONAL, FULL), 77, String::new()));
    let session = login.target.receiver.session().unwrap();
    assert_eq!((session.cid, session.isid, session.tsih, session.portal_group_tag), (1, Isid([1; 6]), Tsih(77), 1));
}

#[test]
fn a_login_may_go_from_security_to_the_session() {
    let mut login = Login::default();
    let answer = login.ask(TRANSIT, SECURITY, FULL, &format!("{WHO} AuthMethod=None"));
    assert_eq!((answer.transit, answer.stages), (true, (SECURITY, FULL)));
    assert_eq!(login.target.receiver.session().unwrap().parameters, Parameters::default());
}

#[test]
fn text_cut_anywhere_is_the_same_text() {
    let whole = of_words(&format!("{WHO} InitialR2T=No MaxBurstLength=4096"));
    for cut in 0..=whole.len() {
        let mut login = Login::default();
        let first = login.send(CONTINUED, OPERATIONAL, 0, &whole[..cut]).unwrap();
        assert_eq!((first.transit, first.text.len()), (false, 0));
        let answer = login.send(TRANSIT, OPERATIONAL, FULL, &whole[cut..]).unwrap();
        assert!(answer.words().ends_with("InitialR2T=No MaxBurstLength=4096 MaxRecvDataSegmentLength=262144"), "cut {cut}");
    }
}

fn refused(mut login: Login, flags: u8, csg: u8, nsg: u8, words: &str) -> LoginStatus {
    let answer = login.ask(flags, csg, nsg, words);
    assert_eq!(login.target.ended, Some(End::LoginRefused(answer.status)), "{words}");
    assert!(!answer.transit && login.target.receiver.session().is_none());
    assert!(matches!(login.send(TRANSIT, csg, nsg, &[]), Err(Fault::Misplaced { .. })));
    answer.status
}

#[test]
fn logins_that_break_the_rules_are_refused() {
    let refuse = |flags, csg, nsg, words: &str| refused(Login::default(), flags, csg, nsg, words);
    let client = "InitiatorName=iqn.2026-01.example:client";
    assert_eq!(refuse(TRANSIT, OPERATIONAL, FULL, "TargetName=iqn.2026-01.example:disk"), LoginStatus::MISSING_PARAMETER);
    assert_eq!(refuse(TRANSIT, OPERATIONAL, FULL, client), LoginStatus::MISSING_PARAMETER);
    assert_eq!(refuse(TRANSIT, OPERATIONAL, FULL, &format!("{client} SessionType=Other")), LoginStatus::SESSION_TYPE);
    assert_eq!(refuse(TRANSIT, OPERATIONAL, FULL, "InitiatorName=a\u{1}b"), LoginStatus::INITIATOR_ERROR);
    assert_eq!(refuse(TRANSIT, OPERATIONAL, FULL, &format!("{WHO} InitialR2T=No InitialR2T=No")), LoginStatus::INITIATOR_ERROR);
    assert_eq!(refuse(TRANSIT, OPERATIONAL, FULL, &format!("{WHO} {client}")), LoginStatus::INITIATOR_ERROR);
    assert_eq!(refuse(TRANSIT, OPERATIONAL, FULL, "nothing"), LoginStatus::INITIATOR_ERROR);
    assert_eq!(refuse(TRANSIT, SECURITY, OPERATIONAL, &format!("{WHO} InitialR2T=No")), LoginStatus::INITIATOR_ERROR);
    assert_eq!(refuse(TRANSIT, OPERATIONAL, FULL, &format!("{WHO} AuthMethod=None")), LoginStatus::INITIATOR_ERROR);
    assert_eq!(refuse(TRANSIT, SECURITY, OPERATIONAL, &format!("{WHO} AuthMethod=KRB5")), LoginStatus::AUTHENTICATION_FAILED);
    for (flags, csg, nsg) in [(TRANSIT, 2, 3), (TRANSIT, 3, 3), (TRANSIT, 1, 2), (TRANSIT, 1, 1), (TRANSIT | CONTINUED, 1, 3)] {
        assert_eq!(refuse(flags, csg, nsg, WHO), LoginStatus::INITIATOR_ERROR, "{flags} {csg} {nsg}");
    }
    let newer = Login { version_min: 1, ..Login::default() };
    assert_eq!(refused(newer, TRANSIT, OPERATIONAL, FULL, WHO), LoginStatus::UNSUPPORTED_VERSION);
}

#[test]
fn requests_of_one_login_have_one_identity_and_stage() {
    let mut login = Login::default();
    login.ask(0, OPERATIONAL, 0, WHO);
    login.isid = Isid([2; 6]);
    let request = of_words("");
    assert_eq!(login.send(TRANSIT, OPERATIONAL, FULL, &request).unwrap().status, LoginStatus::INVALID_REQUEST);
    let mut login = Login::default();
    login.ask(0, OPERATIONAL, 0, WHO);
    assert_eq!(login.ask(TRANSIT, SECURITY, FULL, "").status, LoginStatus::INITIATOR_ERROR);
}

#[test]
fn a_login_that_never_ends_is_ended() {
    let mut login = Login::default();
    let last = (0..100).map(|_| login.send(0, OPERATIONAL, 0, &of_words(WHO))).find_map(Result::err);
    assert!(matches!(last, Some(Fault::Limit { .. })));
    let mut login = Login::default();
    let last = (0..3).map(|_| login.send(CONTINUED, OPERATIONAL, 0, &[b'a'; 8000]).unwrap().status).last();
    assert_eq!(last, Some(LoginStatus::INITIATOR_ERROR));
}

#[test]
fn a_command_before_the_end_of_the_login_ends_the_connection() {
    let mut login = Login::default();
    let mut bhs = iscsi_proto::pdu::Bhs::default();
    bhs.0[0] = Opcode::ScsiCommand as u8;
    assert!(matches!(login.target.receive(&bhs.0), Err(Fault::Misplaced { .. })));
}

#[test]
fn the_host_says_who_is_let_in() {
    for status in [LoginStatus::NOT_FOUND, LoginStatus::AUTHORIZATION_FAILED, LoginStatus::SERVICE_UNAVAILABLE] {
        let host = TestHost { access: Err(status), ..TestHost::default() };
        assert_eq!(refused(Login::new(Offer::default(), host), TRANSIT, OPERATIONAL, FULL, WHO), status);
        let host = TestHost { closed: Some(status), ..TestHost::default() };
        assert_eq!(refused(Login::new(Offer::default(), host), TRANSIT, OPERATIONAL, FULL, WHO), status);
    }
}

fn alice() -> Credential {
    Credential::new("alice", b"a secret of alice").unwrap()
}

fn guarded(own: Option<Credential>, algorithms: &[Algorithm]) -> TestHost {
    let bob = Credential::new("bob", b"a secret of bob's").unwrap();
    let authentication = Authentication::Chap { accepted: vec![bob, alice()], algorithms: algorithms.to_vec(), own };
    TestHost { access: Ok(Access { portal_group_tag: 1, alias: None, authentication }), ..TestHost::default() }
}

fn log_in(credential: Option<Credential>, target_credential: Option<Credential>, host: TestHost) -> Result<Vec<Told>, Fault> {
    let settings = initiator::Settings { credential, target_credential, ..initiator_settings() };
    let mut pair = Pair::new(settings, target::Settings::default(), host);
    let mut out = Vec::new();
    pair.initiator.start(&mut out);
    let told = pair.exchange(&out)?;
    let user = pair.target.receiver.session().map(|session| session.user.clone());
    assert_eq!(user.is_some(), told == [Told::LoggedIn]);
    assert_eq!(pair.initiator.portal_group(), user.as_ref().map(|_| 1));
    assert!(user.is_none_or(|user| user.as_deref() == Some("alice")));
    Ok(told)
}

#[test]
fn chap_lets_in_who_knows_the_secret_by_each_hash() {
    let failed = || vec![Told::Refused(LoginStatus::AUTHENTICATION_FAILED)];
    for algorithm in Algorithm::ALL {
        assert_eq!(log_in(Some(alice()), None, guarded(None, &[*algorithm])), Ok(vec![Told::LoggedIn]));
        let wrong = Credential::new("alice", b"a secret of nobody").unwrap();
        assert_eq!(log_in(Some(wrong), None, guarded(None, &[*algorithm])), Ok(failed()));
        let stranger = Credential::new("carol", b"a secret of alice").unwrap();
        assert_eq!(log_in(Some(stranger), None, guarded(None, &[*algorithm])), Ok(failed()));
    }
    assert_eq!(log_in(Some(alice()), None, guarded(None, &[])), Ok(failed()));
    assert_eq!(log_in(None, None, guarded(None, Algorithm::ALL)), Ok(failed()));
}

#[test]
fn mutual_chap_proves_the_target_too() {
    let own = || Credential::new("target", b"a secret of target").unwrap();
    let all = Algorithm::ALL;
    assert_eq!(log_in(Some(alice()), Some(own()), guarded(Some(own()), all)), Ok(vec![Told::LoggedIn]));
    let other = Credential::new("target", b"a secret of others").unwrap();
    assert!(matches!(log_in(Some(alice()), Some(other), guarded(Some(own()), all)), Err(Fault::Protocol(_))));
    // A target without a secret, or with the initiator's, does not answer.
    let failed = Ok(vec![Told::Refused(LoginStatus::AUTHENTICATION_FAILED)]);
    assert_eq!(log_in(Some(alice()), Some(own()), guarded(None, all)), failed);
    let same = Credential::new("target", b"a secret of alice").unwrap();
    assert_eq!(log_in(Some(alice()), Some(same.clone()), guarded(Some(same), all)), failed);
}

/// At the challenge of a target that has a secret of its own.
fn challenged(algorithms: &str) -> (Login, Answer) {
    let own = Credential::new("target", b"a secret of target").unwrap();
    let mut login = Login::new(Offer::default(), guarded(Some(own), Algorithm::ALL));
    let first = login.ask(0, SECURITY, 0, &format!("{WHO} AuthMethod=None,CHAP"));
    assert_eq!(first.value("AuthMethod"), "CHAP");
    let answer = login.ask(0, SECURITY, 0, &format!("CHAP_A={algorithms}"));
    (login, answer)
}

#[test]
fn the_first_hash_of_the_initiator_that_is_known_is_taken() {
    for (offered, taken) in [("5", "5"), ("7,5", "7"), ("99,6,7", "6"), ("0x5,7", "5")] {
        assert_eq!(challenged(offered).1.value("CHAP_A"), taken);
    }
    assert_eq!(challenged("8,99").1.status, LoginStatus::AUTHENTICATION_FAILED);
}

#[test]
fn a_challenge_that_comes_back_is_no_challenge() {
    let (mut login, challenge) = challenged("5");
    let response = text::to_hexadecimal(&alice().response(Algorithm::Md5, CHALLENGE.identifier, &CHALLENGE.bytes));
    let keys = format!("CHAP_N=alice CHAP_R={response} CHAP_I=1 CHAP_C={}", challenge.value("CHAP_C"));
    assert_eq!(login.ask(TRANSIT, SECURITY, OPERATIONAL, &keys).status, LoginStatus::AUTHENTICATION_FAILED);
}

#[test]
fn security_cannot_be_left_out_or_ended_early() {
    let failed = LoginStatus::AUTHENTICATION_FAILED;
    let login = || Login::new(Offer::default(), guarded(None, Algorithm::ALL));
    assert_eq!(refused(login(), TRANSIT, OPERATIONAL, FULL, WHO), failed);
    assert_eq!(refused(login(), TRANSIT, SECURITY, OPERATIONAL, WHO), failed);
    assert_eq!(refused(login(), TRANSIT, SECURITY, OPERATIONAL, &format!("{WHO} AuthMethod=None")), failed);
    let (mut early, _) = challenged("5");
    let answer = early.ask(TRANSIT, SECURITY, FULL, "");
    assert_eq!((answer.status, answer.transit), (LoginStatus::SUCCESS, false));
    assert!(early.target.receiver.session().is_none());
    // A stage that was not granted has not begun.
    assert_eq!(early.ask(TRANSIT, OPERATIONAL, FULL, "").status, LoginStatus::INITIATOR_ERROR);
    for keys in ["CHAP_N=alice", "CHAP_R=0x00", "CHAP_N=alice CHAP_R=zz", "CHAP_N=alice CHAP_R=0x00"] {
        let (mut login, _) = challenged("5");
        assert_eq!(login.ask(TRANSIT, SECURITY, OPERATIONAL, keys).status, failed, "{keys}");
    }
}

#[test]
fn a_session_takes_the_place_of_the_one_before_and_has_one_connection() {
    let mut login = Login::default();
    login.ask(TRANSIT, OPERATIONAL, FULL, WHO);
    let opening = login.target.host.opened.borrow_mut().pop().unwrap();
    let mut sessions = Registry::new(2);
    let first = sessions.admit(&opening, "first").unwrap();
    assert_eq!(first, Admission { tsih: Tsih(1), replaced: None });
    let again = sessions.admit(&opening, "second").unwrap();
    assert_eq!(again, Admission { tsih: Tsih(2), replaced: Some("first") });
    assert_eq!((sessions.remove(Tsih(1)), sessions.len()), (None, 1));
    let more = target::Opening { tsih: Some(Tsih(2)), ..opening.clone() };
    assert_eq!(sessions.admit(&more, "more"), Err(LoginStatus::TOO_MANY_CONNECTIONS));
    let lost = target::Opening { tsih: Some(Tsih(9)), ..opening.clone() };
    assert_eq!(sessions.admit(&lost, "lost"), Err(LoginStatus::NO_SESSION));
    for changed in [
        target::Opening { isid: Isid([9; 6]), ..opening.clone() },
        target::Opening { portal_group_tag: 2, ..opening.clone() },
        target::Opening { initiator: name("iqn.2026-01.example:other"), ..opening.clone() },
        target::Opening { session_type: SessionType::Discovery, target: None, ..opening.clone() },
    ] {
        let other = sessions.admit(&changed, "other").unwrap();
        assert_eq!(other.replaced, None);
        assert_eq!(sessions.admit(&changed, "full").err(), changed.target.is_none().then_some(LoginStatus::OUT_OF_RESOURCES));
        sessions.iter().map(|(tsih, ..)| tsih).filter(|tsih| *tsih != Tsih(2)).collect::<Vec<_>>().into_iter().for_each(|tsih| {
            sessions.remove(tsih);
        });
    }
    assert_eq!(sessions.remove(Tsih(2)), Some("second"));
    assert!(sessions.is_empty());
}

#[test]
fn the_portal_group_tag_and_alias_come_with_the_first_answer() {
    let access = Access { portal_group_tag: 513, alias: Some("the disk".into()), authentication: Authentication::None };
    let host = TestHost { access: Ok(access), ..TestHost::default() };
    let answer = Login::new(Offer::default(), host).ask(TRANSIT, OPERATIONAL, FULL, WHO);
    assert_eq!((answer.value("TargetPortalGroupTag"), answer.value("TargetAlias")), ("513".into(), "the disk".into()));
}
