//! What an initiator is promised over a restart, a crash and a power cut of the filer.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::support::scsi::{Client, Who, cdb16};
use crate::support::target::Target;
use crate::support::{Scratch, await_until, seeds};
use iscsi_proto::initiator::Transfer;
use sim::Rng;

const HOST: &str = "iqn.2026-11.test:host";
const OTHER: &str = "iqn.2026-11.test:other";
const I_T_NEXUS_LOSS: (u8, u8, u8) = (6, 0x29, 0x07);
const POWER_ON: (u8, u8, u8) = (6, 0x29, 0x01);
const POWER_ON_OR_RESET: (u8, u8, u8) = (6, 0x29, 0x00);
/// WRITE EXCLUSIVE.
const EXCLUSIVE: u8 = 1;
const CONFLICT: u8 = 0x18;

fn login(target: &Target, name: &str) -> Client {
    Client::login(target.portal(0), &target.iqn(), &Who::named(name)).unwrap_or_else(|error| panic!("{error:?}"))
}

#[test]
fn an_initiator_is_told_of_a_plain_restart_as_a_loss_of_its_nexus_and_of_a_power_cut_as_power_on() {
    let scratch = Scratch::new("iscsi-attention");
    let mut target = Target::start(&scratch, &["--loss-layer"]);
    let lun = target.create("db", "1MiB", &["--write-cache"]);
    let mut client = login(&target, HOST);
    assert_eq!(client.take_attentions(lun), [POWER_ON_OR_RESET]);
    assert!(client.write(lun, 0, &[1; 512], true).unwrap().is_good());
    drop(client);
    let mut client = login(&target, HOST);
    assert_eq!(client.take_attentions(lun), [I_T_NEXUS_LOSS], "another session, nothing lost");
    target.kill();
    target.restart();
    let _ = client.wait_for_end();
    let mut client = login(&target, HOST);
    assert_eq!(client.take_attentions(lun), [I_T_NEXUS_LOSS], "another process, nothing lost: the page cache is still there");
    assert!(client.write(lun, 1, &[2; 512], false).unwrap().is_good());
    target.volume(&["power-cut"]);
    client.wait_for_end();
    let mut client = login(&target, HOST);
    assert_eq!(client.take_attentions(lun), [POWER_ON]);
    let data = client.read(lun, 0, 2).unwrap().data;
    assert_eq!((&data[..512], &data[512..]), (&[1; 512][..], &[0; 512][..]), "what was forced is there, what was cached is lost");
    assert!(client.write(lun, 1, &[3; 512], true).unwrap().is_good(), "the unit goes on");
    drop(client);
    target.kill();
    target.restart();
    assert_eq!(login(&target, HOST).take_attentions(lun), [I_T_NEXUS_LOSS], "it was told of that loss");
}

#[test]
fn an_initiator_that_was_away_during_a_loss_is_told_after_further_restarts() {
    let scratch = Scratch::new("iscsi-away");
    let mut target = Target::start(&scratch, &["--loss-layer"]);
    let lun = target.create("db", "1MiB", &["--write-cache"]);
    let mut client = Client::ready(target.portal(0), &target.iqn(), &Who::named(HOST), lun);
    assert!(client.write(lun, 0, &[1; 512], false).unwrap().is_good());
    drop(client);
    target.volume(&["power-cut"]);
    for _ in 0..2 {
        target.kill();
        target.restart();
    }
    assert_eq!(login(&target, HOST).take_attentions(lun), [POWER_ON]);
}

#[test]
fn a_path_that_never_wrote_learns_of_the_loss_of_a_write_cache_and_a_lun_without_one_loses_nothing() {
    let scratch = Scratch::new("iscsi-paths");
    let target = Target::start(&scratch, &["--loss-layer"]);
    let (cached, plain) = (target.create("db", "1MiB", &["--write-cache"]), target.create("log", "1MiB", &[]));
    let other = "iqn.2026-11.test:another-path";
    let attentions = || (login(&target, other).take_attentions(cached), login(&target, other).take_attentions(plain));
    assert_eq!(attentions(), (vec![POWER_ON_OR_RESET], vec![POWER_ON_OR_RESET]));
    let mut client = Client::ready(target.portal(0), &target.iqn(), &Who::named(HOST), cached);
    assert!(client.write(cached, 0, &[1; 512], false).unwrap().is_good());
    target.volume(&["power-cut"]);
    assert_eq!(attentions(), (vec![POWER_ON], vec![POWER_ON_OR_RESET]));
}

#[test]
fn a_reservation_with_aptpl_survives_a_restart_and_one_without_does_not() {
    let scratch = Scratch::new("iscsi-aptpl");
    let mut target = Target::start(&scratch, &[]);
    let (kept, gone) = (target.create("kept", "1MiB", &[]), target.create("gone", "1MiB", &[]));
    let mut host = login(&target, HOST);
    for (lun, aptpl) in [(kept, true), (gone, false)] {
        host.take_attentions(lun);
        assert!(host.reserve_out(lun, 0, 0, (0, 0x1234), aptpl).is_good(), "REGISTER");
        assert!(host.reserve_out(lun, 1, EXCLUSIVE, (0x1234, 0), false).is_good(), "RESERVE");
    }
    let mut other = login(&target, OTHER);
    for lun in [kept, gone] {
        other.take_attentions(lun);
        assert_eq!(other.write(lun, 0, &[1; 512], false).unwrap().status, CONFLICT);
    }
    target.kill();
    target.restart();
    let mut other = login(&target, OTHER);
    other.take_attentions(kept);
    other.take_attentions(gone);
    assert_eq!((other.keys(kept), other.keys(gone)), (vec![0x1234], vec![]));
    assert_eq!(other.write(kept, 0, &[1; 512], false).unwrap().status, CONFLICT);
    assert!(other.write(gone, 0, &[1; 512], false).unwrap().is_good());
    let mut host = login(&target, HOST);
    host.take_attentions(kept);
    assert!(host.write(kept, 0, &[2; 512], false).unwrap().is_good(), "the holder is the same initiator");
    assert!(host.reserve_out(kept, 3, 0, (0x1234, 0), false).is_good(), "CLEAR");
    target.kill();
    target.restart();
    let mut other = login(&target, OTHER);
    other.take_attentions(kept);
    assert!(other.write(kept, 0, &[3; 512], false).unwrap().is_good(), "what was cleared does not come back");
}

/// What a client knows of a block.
#[derive(Default)]
struct Block {
    /// The number of the last acknowledged write. 0: no write, the block is as the LUN was created.
    acknowledged: u64,
    sent: Vec<u64>,
}

fn block_of(number: u64) -> Vec<u8> {
    number.to_be_bytes().repeat(64)
}

#[test]
fn every_acknowledged_write_is_there_after_the_filer_was_killed() {
    for seed in seeds(|count| 3 * count) {
        let scratch = Scratch::new("iscsi-kill");
        let mut target = Target::start(&scratch, &[]);
        let lun = target.create("db", "1MiB", &[]);
        let mut rng = Rng::new(seed);
        let mut blocks: BTreeMap<u64, Block> = BTreeMap::new();
        let mut number = 0;
        for _ in 0..4 {
            let client = Client::ready(target.portal(0), &target.iqn(), &Who::named(HOST), lun);
            number = write_until_killed(client, &mut target, lun, &mut rng, &mut blocks, number);
            target.restart();
            let mut client = Client::ready(target.portal(0), &target.iqn(), &Who::named(HOST), lun);
            for (lba, block) in &mut blocks {
                let data = client.read(lun, *lba, 1).unwrap().data;
                let found = u64::from_be_bytes(data[..8].try_into().unwrap());
                let may_be = block.acknowledged == found || block.sent.contains(&found);
                assert!(
                    may_be,
                    "seed {seed}: block {lba} has {found}, acknowledged {}, sent {:?}",
                    block.acknowledged, block.sent
                );
                assert_eq!(data, block_of(found), "seed {seed}: block {lba} is torn");
                (block.acknowledged, block.sent) = (found, Vec::new());
            }
        }
        assert!(number > 100, "seed {seed}: {number} writes");
    }
}

/// Sends durable writes at a depth of 16 until the filer is killed, at a moment that the seed decides.
fn write_until_killed(
    mut client: Client,
    target: &mut Target,
    lun: u16,
    rng: &mut Rng,
    blocks: &mut BTreeMap<u64, Block>,
    mut number: u64,
) -> u64 {
    let mut pending = BTreeMap::new();
    let end = number + 50 + rng.below(400);
    loop {
        while pending.len() < 16 && client.window() > 0 {
            number += 1;
            // Only one write of a block is open at a time: two would have no order.
            let free: Vec<u64> = (0..64).filter(|lba| !pending.values().any(|(busy, _)| busy == lba)).collect();
            let lba = free[rng.index(free.len())];
            blocks.entry(lba).or_default().sent.push(number);
            let Ok(itt) = client.send(lun, &cdb16(0x8a, false, lba, 1), Transfer::Write(&block_of(number))) else {
                return number;
            };
            pending.insert(itt.0, (lba, number));
        }
        if number >= end {
            target.kill();
        }
        let Ok(ended) = client.next_ended(&|_| None) else { return number };
        for (itt, how) in ended {
            let (lba, number) = pending.remove(&itt.0).unwrap();
            assert!(how.is_good(), "{how:?}");
            let block = blocks.get_mut(&lba).unwrap();
            (block.acknowledged, block.sent) = (number, Vec::new());
        }
    }
}

#[test]
fn a_session_that_comes_again_ends_the_old_one_and_has_its_place() {
    let scratch = Scratch::new("iscsi-reinstatement");
    let target = Target::start(&scratch, &[]);
    let lun = target.create("db", "1MiB", &[]);
    let mut first = Client::ready(target.portal(0), &target.iqn(), &Who::named(HOST), lun);
    assert!(first.reserve_out(lun, 0, 0, (0, 7), false).is_good());
    assert!(first.reserve_out(lun, 1, EXCLUSIVE, (7, 0), false).is_good());
    let mut again = login(&target, HOST);
    assert!(!first.wait_for_end(), "closed");
    again.take_attentions(lun);
    assert!(again.write(lun, 0, &[1; 512], false).unwrap().is_good(), "the reservation is its own");
    let sessions = target.listed("db")["sessions"].as_array().unwrap().len();
    assert_eq!(sessions, 1);
    let other_session = Client::ready(target.portal(0), &target.iqn(), &Who::named(HOST).session(2), lun);
    assert_eq!(target.listed("db")["sessions"].as_array().unwrap().len(), 2, "another ISID is another session");
    drop(other_session);
    await_until("the end of a session", Duration::from_secs(20), || {
        (target.listed("db")["sessions"].as_array().unwrap().len() == 1).then_some(())
    });
}

#[test]
fn a_filer_that_stops_asks_its_initiators_to_log_out() {
    let scratch = Scratch::new("iscsi-drain");
    let mut target = Target::start(&scratch, &[]);
    let lun = target.create("db", "1MiB", &[]);
    let mut client = Client::ready(target.portal(0), &target.iqn(), &Who::named(HOST), lun);
    let waiting = std::thread::spawn(move || client.wait_for_end());
    assert_eq!(target.stop(), Some(0));
    assert!(waiting.join().unwrap(), "asynchronous message 1");
}
