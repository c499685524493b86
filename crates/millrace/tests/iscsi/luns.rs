//! `millrace lun` creates, lists, resizes, maps and deletes LUNs while the filer runs. NFS clients
//! see none of them.

use std::process::Command;
use std::time::Duration;

use crate::support::scsi::{Client, LoginError, Who, cdb16};
use crate::support::target::Target;
use crate::support::{Scratch, await_until, millrace, succeed, text};
use iscsi_proto::initiator::Transfer;
use iscsi_proto::pdu::TaskFunction;

const HOST: &str = "iqn.2026-11.test:host";
const OTHER: &str = "iqn.2026-11.test:other";

fn refused(target: &Target, arguments: &[&str], said: &str) {
    let output = target.lun(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", text(&output));
    assert!(text(&output).contains(said), "{arguments:?} should say {said:?}: {}", text(&output));
}

#[test]
fn a_lun_is_made_with_what_was_asked_for_listed_and_there_after_a_restart() {
    let scratch = Scratch::new("lun-create");
    let mut target = Target::start(&scratch, &[]);
    assert_eq!(target.create("db", "64MiB", &[]), 0);
    assert_eq!(target.create("log", "32MiB", &["--block-size", "4096", "--lun", "7", "--write-cache", "--thick"]), 7);
    let listed = [target.listed("db"), target.listed("log")];
    assert_eq!(listed[0]["url"], target.url(0, 0));
    assert_eq!(listed[0]["size_bytes"], 64 << 20);
    assert_eq!(
        (&listed[1]["block_bytes"], &listed[1]["write_cache"], &listed[1]["thin"]),
        (&4096.into(), &true.into(), &false.into())
    );
    assert!(listed[1]["used_bytes"].as_u64().unwrap() >= 32 << 20, "{}", listed[1]);
    assert_ne!(listed[0]["naa"], listed[1]["naa"]);
    let mut client = Client::ready(target.portal(0), &target.iqn(), &Who::named(HOST), 7);
    assert_eq!(client.capacity(7), (8192, 4096));
    drop(client);
    assert_eq!(target.stop(), Some(0));
    target.restart();
    let again = [target.listed("db"), target.listed("log")];
    for key in ["naa", "serial", "lun", "url", "size_bytes", "block_bytes"] {
        assert_eq!((&again[0][key], &again[1][key]), (&listed[0][key], &listed[1][key]), "{key}");
    }
}

#[test]
fn a_copy_of_the_files_in_another_volume_shows_another_id() {
    let scratch = Scratch::new("lun-copy");
    let mut target = Target::start(&scratch, &[]);
    target.create("db", "1MiB", &[]);
    let first = target.listed("db");
    assert_eq!(target.stop(), Some(0));
    let copy = Scratch::new("lun-copy-other");
    succeed(Command::new("cp").arg("-a").arg(target.export()).arg(copy.path().join("export")));
    let other = Target::start(&copy, &[]);
    let second = other.listed("db");
    assert_eq!(first["size_bytes"], second["size_bytes"]);
    assert_ne!(first["naa"], second["naa"]);
    assert_ne!(first["serial"], second["serial"]);
    assert_ne!(first["target"], second["target"]);
}

#[test]
fn what_makes_no_sense_is_refused_with_the_object_the_cause_and_the_fix() {
    let scratch = Scratch::new("lun-refused");
    let target = Target::start(&scratch, &[]);
    target.create("db", "1MiB", &[]);
    refused(&target, &["create", "vol/db", "--size", "1MiB"], "create LUN vol/db: the filer refused: a LUN of that name exists");
    refused(&target, &["create", "vol/odd", "--size", "1000"], "a LUN cannot have 1000 bytes");
    refused(&target, &["create", "vol/none", "--size", "0"], "a LUN cannot have 0 bytes");
    refused(&target, &["create", "vol/blocks", "--size", "1MiB", "--block-size", "1024"], "512 or 4096");
    refused(&target, &["create", "vol/number", "--size", "1MiB", "--lun", "0"], "taken by LUN db");
    let beyond = target.lun(&["create", "vol/number", "--size", "1MiB", "--lun", "300"]);
    assert!(beyond.status.code() == Some(2) && text(&beyond).contains("0 to 255"), "{}", text(&beyond));
    refused(&target, &["create", "vol/.hidden", "--size", "1MiB"], "is not a LUN name");
    refused(&target, &["create", "other/db", "--size", "1MiB"], "there is no volume \"other\": the filer serves vol");
    refused(&target, &["create", "vol/x", "--size", "1MiB", "--initiator", "host1"], "neither an initiator nor a group");
    refused(&target, &["map", "vol/db", "iqn.bad"], "iqn.YEAR-MONTH.DOMAIN");
    refused(&target, &["resize", "vol/db", "512KiB"], "--shrink");
    refused(&target, &["resize", "vol/nothing", "2MiB"], "there is no LUN vol/nothing: the volume has db");
    refused(&target, &["unmap", "vol/db", OTHER], "not mapped to");
    for wrong in [vec!["create", "db", "--size", "1MiB"], vec!["create", "vol/db", "--size", "big"], vec!["map", "vol/db"]] {
        assert_eq!(target.lun(&wrong).status.code(), Some(2), "{wrong:?}");
    }
    let unclear = target.lun(&["create", "vol/odd", "--size", "8MB"]);
    assert_eq!(unclear.status.code(), Some(2), "{}", text(&unclear));
    assert!(text(&unclear).contains("8MB may count in powers of 1000 or of 1024: write 8MiB"), "{}", text(&unclear));
    let nobody = millrace().args(["lun", "list", "--admin", "/nonexistent/admin.sock"]).output().unwrap();
    assert_eq!(nobody.status.code(), Some(2), "{}", text(&nobody));
    assert_eq!(target.order(&["list"])["luns"].as_array().unwrap().len(), 1, "nothing was made");
}

#[test]
fn a_lun_grows_under_its_initiator_which_is_told() {
    let scratch = Scratch::new("lun-resize");
    let target = Target::start(&scratch, &[]);
    let lun = target.create("db", "1MiB", &[]);
    let mut client = Client::ready(target.portal(0), &target.iqn(), &Who::named(HOST), lun);
    assert!(client.write(lun, 0, &[7; 512], false).unwrap().is_good());
    target.order(&["resize", "vol/db", "2MiB"]);
    assert_eq!(client.take_attentions(lun), [(6, 0x2a, 0x09)], "CAPACITY DATA HAS CHANGED");
    assert_eq!(client.capacity(lun), (4096, 512));
    assert!(client.write(lun, 4095, &[8; 512], false).unwrap().is_good());
    target.order(&["resize", "vol/db", "1MiB", "--shrink"]);
    client.take_attentions(lun);
    assert_eq!(client.write(lun, 4095, &[8; 512], false).unwrap().sense_code(), (5, 0x21, 0), "LBA OUT OF RANGE");
    assert_eq!(client.read(lun, 0, 1).unwrap().data, [7; 512]);
}

#[test]
fn only_initiators_that_a_lun_is_mapped_to_see_it() {
    let scratch = Scratch::new("lun-map");
    let target = Target::start(&scratch, &[]);
    let (portal, iqn) = (target.portal(0), target.iqn());
    let mut discovery = Client::discover(portal, &Who::named(HOST)).unwrap();
    assert_eq!(discovery.targets().unwrap(), "", "no LUN, no target");
    let one = target.create("one", "1MiB", &["--initiator", HOST]);
    let all = target.create("all", "1MiB", &[]);
    let mut host = Client::ready(portal, &iqn, &Who::named(HOST), one);
    let mut other = Client::ready(portal, &iqn, &Who::named(OTHER), all);
    assert_eq!(other.read(one, 0, 1).unwrap().sense_code(), (5, 0x25, 0), "LOGICAL UNIT NOT SUPPORTED");
    target.order(&["map", "vol/one", OTHER]);
    assert!(other.take_attentions(all).contains(&(6, 0x3f, 0x0e)), "REPORTED LUNS DATA HAS CHANGED");
    other.take_attentions(one);
    assert!(other.read(one, 0, 1).unwrap().is_good());
    target.order(&["unmap", "vol/one", OTHER]);
    assert_eq!(other.read(one, 0, 1).unwrap().sense_code(), (5, 0x25, 0));
    host.take_attentions(one);
    assert!(host.read(one, 0, 1).unwrap().is_good());
    // If no LUN is mapped to an initiator, it finds no target either.
    target.order(&["map", "vol/all", HOST]);
    drop(other);
    let refusal = Client::login(portal, &iqn, &Who::named(OTHER));
    assert!(matches!(refusal, Err(LoginError::Refused(status)) if status.0 == 0x0202), "AUTHORIZATION FAILED");
    let mut discovery = Client::discover(portal, &Who::named(OTHER)).unwrap();
    assert_eq!(discovery.targets().unwrap(), "");
    let mut discovery = Client::discover(portal, &Who::named(HOST)).unwrap();
    assert!(discovery.targets().unwrap().contains(&format!("TargetName={iqn}\0TargetAddress={portal},1\0")));
}

#[test]
fn a_target_reset_ends_no_command_at_a_lun_that_its_sender_does_not_see() {
    let scratch = Scratch::new("lun-reset");
    let target = Target::start(&scratch, &[]);
    let (portal, iqn) = (target.portal(0), target.iqn());
    let own = target.create("one", "1MiB", &["--initiator", HOST]);
    let others = target.create("other", "1MiB", &["--initiator", OTHER]);
    let mut host = Client::ready(portal, &iqn, &Who::named(HOST), own);
    let mut other = Client::ready(portal, &iqn, &Who::named(OTHER), others);
    target.volume(&["fault", "add", "slow-flush,delay_ms=1500,times=1"]);
    let slow = other.send(others, &cdb16(0x8a, true, 0, 1), Transfer::Write(&[1; 512])).unwrap();
    let faults = || serde_json::from_str::<serde_json::Value>(&target.volume(&["fault", "list", "--json"])).unwrap();
    await_until("the flush to begin", Duration::from_secs(20), || (faults()["report"]["injected"] == 1).then_some(()));
    assert_eq!(host.manage(TaskFunction::TargetWarmReset, own, None).unwrap(), 0);
    assert_eq!(host.take_attentions(own), [(6, 0x29, 0x03)], "its own LUN is reset");
    let mut ended = Vec::new();
    while ended.is_empty() {
        ended = other.next_ended(&|_| None).unwrap(); // fails if no message comes
    }
    assert!(matches!(&ended[..], [(itt, ended)] if *itt == slow && ended.is_good()), "{ended:?}");
    assert_eq!(other.take_attentions(others), []);
}

#[test]
fn a_lun_in_use_is_deleted_by_force_only_and_its_initiator_goes_on_with_others() {
    let scratch = Scratch::new("lun-delete");
    let target = Target::start(&scratch, &[]);
    let (gone, stays) = (target.create("gone", "1MiB", &[]), target.create("stays", "1MiB", &[]));
    let mut client = Client::ready(target.portal(0), &target.iqn(), &Who::named(HOST), gone);
    client.take_attentions(stays);
    refused(&target, &["delete", "vol/gone"], "log out there, or use --force");
    assert!(client.read(gone, 0, 1).unwrap().is_good());
    target.order(&["delete", "vol/gone", "--force"]);
    assert_eq!(client.read(gone, 0, 1).unwrap().sense_code(), (5, 0x25, 0), "LOGICAL UNIT NOT SUPPORTED");
    assert_eq!(client.take_attentions(stays), [(6, 0x3f, 0x0e)]);
    assert!(client.read(stays, 0, 1).unwrap().is_good());
    let left: Vec<String> = std::fs::read_dir(target.export().join(".millrace-luns"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("gone"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(target.create("gone", "2MiB", &[]), gone, "the number is free again");
}

#[test]
fn luns_are_not_to_be_seen_over_nfs() {
    let scratch = Scratch::new("lun-nfs");
    let target = Target::start(&scratch, &[]);
    target.create("db", "1MiB", &[]);
    std::fs::write(target.export().join("file"), b"x").unwrap();
    let listed = succeed(millrace().args(["nfs", "ls", target.nfs()]));
    assert!(listed.contains("file") && !listed.contains("millrace-luns"), "{listed}");
    let (address, query) = target.nfs().split_once('?').unwrap();
    for path in [".millrace-luns", ".millrace-luns/db.img", ".millrace-luns/db.lun"] {
        let output = millrace().args(["nfs", "cat", &format!("{address}/{path}?{query}")]).output().unwrap();
        assert!(!output.status.success() && output.stdout.is_empty(), "{path}: {}", text(&output));
    }
}
