//! Persistent reservations and RESERVE let pass what SPC-4, SBC-3 and SPC-2 say, and survive a restart when APTPL asks for it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::scsi_support::{BLOCK, MemoryStore, Unit, nexus, read10, reserve_out, sixteen, ten, write10};
use iscsi_proto::scsi::{Asc, SenseKey, Settings, Status, UnitError};

const REGISTER: u8 = 0;
const RESERVE: u8 = 1;
const RELEASE: u8 = 2;
const CLEAR: u8 = 3;
const PREEMPT: u8 = 4;
const PREEMPT_AND_ABORT: u8 = 5;
const REGISTER_AND_IGNORE: u8 = 6;
const REGISTER_AND_MOVE: u8 = 7;

/// How a command behaves under a reservation of another nexus: SPC-4 table 51, SBC-3 table 13.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Passes {
    Always,
    WriteExclusive,
    Never,
}

/// Name, CDB, data, behaviour under persistent reservations, and whether it passes RESERVE of another (SPC-2 table 10, SBC-2 table 3).
type Line = (&'static str, Vec<u8>, Vec<u8>, Passes, bool);

fn commands() -> Vec<Line> {
    use Passes::{Always, Never, WriteExclusive};
    let block = vec![0; BLOCK];
    let two = vec![0; 2 * BLOCK];
    let unmap = [vec![0, 22, 0, 16, 0, 0, 0, 0], vec![0; 16]].concat();
    let mut compare = sixteen(0x89, 0, 0, 0);
    compare[13] = 1;
    let mut commands = vec![
        ("TEST UNIT READY", vec![0; 6], vec![], Always, false),
        ("REQUEST SENSE", vec![0x03, 0, 0, 0, 18, 0], vec![], Always, true),
        ("INQUIRY", vec![0x12, 0, 0, 0, 36, 0], vec![], Always, true),
        ("REPORT LUNS", vec![0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0], vec![], Always, true),
        ("READ CAPACITY (10)", ten(0x25, 0, 0, 0), vec![], Always, true),
        ("READ CAPACITY (16)", sixteen(0x9e, 0x10, 0, 32), vec![], Always, true),
        ("GET LBA STATUS", sixteen(0x9e, 0x12, 0, 32), vec![], WriteExclusive, false),
        ("MODE SENSE (6)", vec![0x1a, 0, 0x3f, 0, 255, 0], vec![], WriteExclusive, false),
        ("MODE SELECT (6)", vec![0x15, 0x10, 0, 0, 4, 0], vec![0; 4], Never, false),
        ("PREVENT", vec![0x1e, 0, 0, 0, 1, 0], vec![], Never, false),
        ("ALLOW", vec![0x1e, 0, 0, 0, 0, 0], vec![], Always, true),
        ("START STOP UNIT start", vec![0x1b, 0, 0, 0, 1, 0], vec![], Always, true),
        ("START STOP UNIT stop", vec![0x1b, 0, 0, 0, 0, 0], vec![], Never, false),
        ("SEND DIAGNOSTIC", vec![0x1d, 4, 0, 0, 0, 0], vec![], Never, false),
        ("PERSISTENT RESERVE IN", vec![0x5e, 0, 0, 0, 0, 0, 0, 0, 64, 0], vec![], Always, false),
        ("REPORT TARGET PORT GROUPS", vec![0xa3, 0x0a, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0], vec![], Always, false),
        ("REPORT SUPPORTED OPERATION CODES", vec![0xa3, 0x0c, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0], vec![], WriteExclusive, false),
        ("REPORT SUPPORTED TASK MANAGEMENT", vec![0xa3, 0x0d, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0], vec![], WriteExclusive, false),
        ("READ DEFECT DATA (10)", vec![0x37, 0, 0, 0, 0, 0, 0, 0, 8, 0], vec![], WriteExclusive, false),
        ("UNMAP", vec![0x42, 0, 0, 0, 0, 0, 0, 0, 24, 0], unmap, Never, false),
        ("COMPARE AND WRITE", compare, two, Never, false),
        ("EXTENDED COPY", sixteen(0x83, 0, 0, 0), vec![], Never, false),
        ("RECEIVE COPY RESULTS", sixteen(0x84, 3, 0, 64), vec![], Always, false),
        ("ORWRITE", sixteen(0x8b, 0, 0, 1), block.clone(), Never, false),
        ("READ (6)", vec![0x08, 0, 0, 0, 1, 0], vec![], WriteExclusive, false),
        ("WRITE (6)", vec![0x0a, 0, 0, 0, 1, 0], block.clone(), Never, false),
        ("WRITE SAME (10)", ten(0x41, 0, 0, 1), block.clone(), Never, false),
        ("WRITE SAME (16)", sixteen(0x93, 0, 0, 1), block.clone(), Never, false),
        ("PRE-FETCH (10)", ten(0x34, 0, 0, 1), vec![], WriteExclusive, false),
        ("PRE-FETCH (16)", sixteen(0x90, 0, 0, 1), vec![], WriteExclusive, false),
        ("SYNCHRONIZE CACHE (10)", ten(0x35, 0, 0, 1), vec![], Never, false),
        ("SYNCHRONIZE CACHE (16)", sixteen(0x91, 0, 0, 1), vec![], Never, false),
    ];
    for (name, ten_code, twelve_code, sixteen_code, passes) in [
        ("READ", 0x28, 0xa8, 0x88, WriteExclusive),
        ("WRITE", 0x2a, 0xaa, 0x8a, Never),
        ("WRITE AND VERIFY", 0x2e, 0xae, 0x8e, Never),
        ("VERIFY", 0x2f, 0xaf, 0x8f, WriteExclusive),
    ] {
        let data = if passes == Never { block.clone() } else { Vec::new() };
        let mut twelve = vec![0; 12];
        twelve[0] = twelve_code;
        twelve[9] = 1;
        for cdb in [ten(ten_code, 0, 0, 1), twelve, sixteen(sixteen_code, 0, 0, 1)] {
            commands.push((name, cdb, data.clone(), passes, false));
        }
    }
    commands
}

/// What the reserving, a registered and an unregistered nexus may do, by type.
#[test]
fn every_command_passes_each_reservation_type_as_the_tables_say() {
    let (holder, registered, stranger) = (nexus(1), nexus(2), nexus(3));
    for kind in [1, 3, 5, 6, 7, 8] {
        for (name, cdb, data, passes, _) in commands() {
            let unit = Unit::thin(64);
            assert_eq!(unit.reserve_out(&holder, REGISTER, 0, 0, 11, 0).status, Status::Good);
            assert_eq!(unit.reserve_out(&registered, REGISTER, 0, 0, 22, 0).status, Status::Good);
            assert_eq!(unit.reserve_out(&holder, RESERVE, kind, 11, 0, 0).status, Status::Good);
            let write_exclusive = matches!(kind, 1 | 5 | 7);
            let of_others = match passes {
                Passes::Always => Status::Good,
                Passes::WriteExclusive if write_exclusive => Status::Good,
                _ => Status::ReservationConflict,
            };
            let of_registered = if kind >= 5 { Status::Good } else { of_others };
            assert_eq!(unit.status(&stranger, &cdb, &data), of_others, "{name} of a stranger, type {kind}");
            assert_eq!(unit.status(&registered, &cdb, &data), of_registered, "{name} of a registered nexus, type {kind}");
            assert_eq!(unit.status(&holder, &cdb, &data), Status::Good, "{name} of the holder, type {kind}");
        }
    }
}

#[test]
fn reserve_lets_pass_what_spc_2_says_and_ends_with_its_nexus() {
    let (owner, other) = (nexus(1), nexus(2));
    for (name, cdb, data, _, passes) in commands() {
        let unit = Unit::thin(64);
        unit.good(&owner, &[0x16, 0, 0, 0, 0, 0], &[]);
        let expected = if passes { Status::Good } else { Status::ReservationConflict };
        assert_eq!(unit.status(&other, &cdb, &data), expected, "{name}");
        if name == "PERSISTENT RESERVE IN" {
            continue;
        }
        assert_eq!(unit.status(&owner, &cdb, &data), Status::Good, "{name} of the owner");
    }
    let unit = Unit::thin(64);
    let (reserve, release) = (ten(0x56, 0, 0, 0), ten(0x57, 0, 0, 0));
    unit.good(&owner, &reserve, &[]);
    unit.good(&owner, &reserve, &[]);
    assert_eq!(unit.status(&other, &reserve, &[]), Status::ReservationConflict);
    unit.good(&other, &release, &[]);
    assert_eq!(unit.status(&other, &reserve, &[]), Status::ReservationConflict, "only its owner releases it");
    unit.unit.detach(&owner);
    unit.good(&other, &reserve, &[]);
    unit.unit.reset(Asc::BUS_DEVICE_RESET_FUNCTION_OCCURRED);
    unit.good(&owner, &reserve, &[]);
    assert_eq!(unit.reserve_out(&owner, REGISTER, 0, 0, 5, 0).status, Status::ReservationConflict);
    unit.good(&owner, &release, &[]);
    assert_eq!(unit.reserve_out(&owner, REGISTER, 0, 0, 5, 0).status, Status::Good);
    assert_eq!(unit.status(&owner, &reserve, &[]), Status::ReservationConflict, "CRH is 0");
}

fn keys(unit: &Unit) -> Vec<u64> {
    let data = unit.good(&nexus(9), &[0x5e, 0, 0, 0, 0, 0, 0, 16, 0, 0], &[]);
    assert_eq!(u32::from_be_bytes(data[4..8].try_into().unwrap()) as usize, data.len() - 8);
    data[8..].chunks(8).map(|key| u64::from_be_bytes(key.try_into().unwrap())).collect()
}

/// Type and key of the reservation.
fn reservation(unit: &Unit) -> Option<(u8, u64)> {
    let data = unit.good(&nexus(9), &[0x5e, 1, 0, 0, 0, 0, 0, 16, 0, 0], &[]);
    (data.len() > 8).then(|| (data[21], u64::from_be_bytes(data[8..16].try_into().unwrap())))
}

fn generation(unit: &Unit) -> u32 {
    u32::from_be_bytes(unit.good(&nexus(9), &[0x5e, 0, 0, 0, 0, 0, 0, 0, 8, 0], &[])[..4].try_into().unwrap())
}

/// A unit with nexuses 1, 2 and 3 registered with keys 11, 22 and 33.
fn three_registered() -> Unit {
    let unit = Unit::thin(64);
    for number in 1..=3 {
        assert_eq!(unit.reserve_out(&nexus(number), REGISTER, 0, 0, u64::from(number) * 11, 0).status, Status::Good);
    }
    unit
}

fn attentions(unit: &Unit, number: u8) -> Vec<Asc> {
    let mut told = Vec::new();
    loop {
        let done = unit.run(&nexus(number), &[0; 6], &[]).completion;
        match done.sense {
            Some(sense) if sense.key == SenseKey::UnitAttention => told.push(sense.asc),
            _ => return told,
        }
    }
}

#[test]
fn registering_needs_the_right_key_and_counts_generations() {
    let unit = Unit::thin(64);
    let one = nexus(1);
    assert_eq!(unit.reserve_out(&one, REGISTER, 0, 99, 11, 0).status, Status::ReservationConflict);
    assert_eq!(unit.reserve_out(&one, REGISTER, 0, 0, 11, 0).status, Status::Good);
    assert_eq!(unit.reserve_out(&one, REGISTER, 0, 0, 12, 0).status, Status::ReservationConflict);
    assert_eq!(unit.reserve_out(&one, REGISTER, 0, 11, 12, 0).status, Status::Good);
    assert_eq!(unit.reserve_out(&one, REGISTER_AND_IGNORE, 0, 77, 13, 0).status, Status::Good);
    assert_eq!((keys(&unit), generation(&unit)), (vec![13], 3));
    assert_eq!(unit.reserve_out(&one, RESERVE, 1, 12, 0, 0).status, Status::ReservationConflict);
    assert_eq!(unit.reserve_out(&nexus(2), RESERVE, 1, 0, 0, 0).status, Status::ReservationConflict, "not registered");
    assert_eq!(unit.reserve_out(&one, RESERVE, 1, 13, 0, 0).status, Status::Good);
    assert_eq!(unit.reserve_out(&one, RESERVE, 3, 13, 0, 0).status, Status::ReservationConflict, "another type");
    assert_eq!((reservation(&unit), generation(&unit)), (Some((1, 13)), 3));
    let wrong_type = unit.reserve_out(&one, RELEASE, 3, 13, 0, 0).sense.unwrap();
    assert_eq!(wrong_type.asc, Asc::INVALID_RELEASE_OF_PERSISTENT_RESERVATION);
    assert_eq!(unit.reserve_out(&one, REGISTER, 0, 13, 0, 0).status, Status::Good);
    assert_eq!((keys(&unit), reservation(&unit)), (vec![], None), "the reservation went with the registration");
}

#[test]
fn releasing_tells_the_registered_nexuses_that_had_access() {
    for (kind, told) in [(1, vec![]), (3, vec![]), (5, vec![Asc::RESERVATIONS_RELEASED]), (8, vec![Asc::RESERVATIONS_RELEASED])] {
        let unit = three_registered();
        assert_eq!(unit.reserve_out(&nexus(1), RESERVE, kind, 11, 0, 0).status, Status::Good);
        assert_eq!(unit.reserve_out(&nexus(1), RELEASE, kind, 11, 0, 0).status, Status::Good);
        assert_eq!((attentions(&unit, 1), attentions(&unit, 2), attentions(&unit, 4)), (vec![], told, vec![]), "type {kind}");
    }
}

#[test]
fn a_reservation_of_all_registrants_ends_with_the_last_of_them() {
    let unit = three_registered();
    assert_eq!(unit.reserve_out(&nexus(1), RESERVE, 7, 11, 0, 0).status, Status::Good);
    for number in 1..=3 {
        assert_eq!(reservation(&unit), Some((7, 0)), "no one key");
        assert_eq!(unit.reserve_out(&nexus(number), REGISTER, 0, u64::from(number) * 11, 0, 0).status, Status::Good);
    }
    assert_eq!(reservation(&unit), None);
}

#[test]
fn clear_ends_all_and_tells_the_others() {
    let unit = three_registered();
    assert_eq!(unit.reserve_out(&nexus(1), RESERVE, 3, 11, 0, 0).status, Status::Good);
    assert_eq!(unit.reserve_out(&nexus(2), CLEAR, 0, 22, 0, 0).status, Status::Good);
    assert_eq!((keys(&unit), reservation(&unit)), (vec![], None));
    assert_eq!(attentions(&unit, 1), [Asc::RESERVATIONS_PREEMPTED]);
    assert_eq!(attentions(&unit, 2), []);
    assert_eq!(attentions(&unit, 3), [Asc::RESERVATIONS_PREEMPTED]);
}

#[test]
fn preempting_the_holder_moves_the_reservation_and_ends_its_commands() {
    let unit = three_registered();
    assert_eq!(unit.reserve_out(&nexus(1), RESERVE, 5, 11, 0, 0).status, Status::Good);
    assert_eq!(unit.reserve_out(&nexus(2), PREEMPT_AND_ABORT, 6, 22, 11, 0).status, Status::Good);
    assert_eq!((keys(&unit), reservation(&unit)), (vec![22, 33], Some((6, 22))));
    assert_eq!(attentions(&unit, 1), [Asc::REGISTRATIONS_PREEMPTED]);
    assert_eq!(attentions(&unit, 3), [Asc::RESERVATIONS_RELEASED], "the type changed");
    assert_eq!(*unit.kept.aborted.lock().unwrap(), [nexus(1)]);
    assert_eq!(unit.status(&nexus(1), &read10(0, 1), &[]), Status::ReservationConflict);
}

#[test]
fn preempting_a_key_takes_its_registrations_away() {
    let unit = three_registered();
    assert_eq!(unit.reserve_out(&nexus(1), RESERVE, 1, 11, 0, 0).status, Status::Good);
    assert_eq!(unit.reserve_out(&nexus(2), PREEMPT, 1, 22, 44, 0).status, Status::ReservationConflict, "no such key");
    assert_eq!(unit.reserve_out(&nexus(2), PREEMPT, 1, 22, 0, 0).sense.unwrap().asc, Asc::INVALID_FIELD_IN_PARAMETER_LIST);
    assert_eq!(unit.reserve_out(&nexus(2), PREEMPT, 1, 22, 33, 0).status, Status::Good);
    assert_eq!((keys(&unit), reservation(&unit)), (vec![11, 22], Some((1, 11))));
    assert_eq!(attentions(&unit, 3), [Asc::REGISTRATIONS_PREEMPTED]);
    // Of all registrants: key 0 takes all others away.
    let unit = three_registered();
    assert_eq!(unit.reserve_out(&nexus(1), RESERVE, 8, 11, 0, 0).status, Status::Good);
    assert_eq!(unit.reserve_out(&nexus(2), PREEMPT, 3, 22, 0, 0).status, Status::Good);
    assert_eq!((keys(&unit), reservation(&unit)), (vec![22], Some((3, 22))));
}

/// The iSCSI TransportID of a nexus (SPC-4 7.6.4.6).
fn transport_id(number: u8) -> Vec<u8> {
    let mut name = format!("iqn.2026-01.example:host{number},i,0x80000000{:04x}", u16::from(number)).into_bytes();
    name.resize(name.len() / 4 * 4 + 4, 0);
    [vec![0x45, 0, 0, name.len() as u8], name].concat()
}

#[test]
fn spec_i_pt_and_all_tg_pt_register_others_and_full_status_shows_them() {
    let unit = Unit::thin(64);
    let (mut cdb, mut list) = reserve_out(REGISTER, 0, 0, 11, 0x08 | 0x04);
    let ids = [transport_id(2), transport_id(3)].concat();
    list.extend((ids.len() as u32).to_be_bytes());
    list.extend(&ids);
    cdb[8] = list.len() as u8;
    unit.good(&nexus(1), &cdb, &list);
    assert_eq!(keys(&unit), [11; 6], "three initiator ports through two target ports");
    assert_eq!(unit.reserve_out(&nexus(2), RESERVE, 1, 11, 0, 0).status, Status::Good);
    let status = unit.good(&nexus(9), &[0x5e, 3, 0, 0, 0, 0, 0, 16, 0, 0], &[]);
    assert_eq!(u32::from_be_bytes(status[4..8].try_into().unwrap()) as usize, status.len() - 8);
    let id = transport_id(2);
    let at = status.windows(id.len()).position(|window| window == id).unwrap();
    let descriptor = &status[at - 24..at];
    assert_eq!((descriptor[12], descriptor[13], &descriptor[18..20]), (1, 1, &[0, 1][..]), "holder, type, port");
    // A TransportID without an ISID is no initiator port; nothing is registered then.
    let unit = Unit::thin(64);
    list[28] = 0x05;
    unit.refused(&nexus(1), &cdb, &list, SenseKey::IllegalRequest, Asc::INVALID_FIELD_IN_PARAMETER_LIST);
    assert_eq!(keys(&unit), []);
}

#[test]
fn register_and_move_gives_the_reservation_to_another_port() {
    let unit = three_registered();
    assert_eq!(unit.reserve_out(&nexus(1), RESERVE, 3, 11, 0, 0).status, Status::Good);
    let id = transport_id(4);
    let mut list = 11_u64.to_be_bytes().to_vec();
    list.extend(44_u64.to_be_bytes());
    list.extend([0, 2, 0, 1]); // UNREG, relative target port 1
    list.extend((id.len() as u32).to_be_bytes());
    list.extend(&id);
    let cdb = [0x5f, REGISTER_AND_MOVE, 0, 0, 0, 0, 0, 0, list.len() as u8, 0];
    unit.good(&nexus(1), &cdb, &list);
    assert_eq!((keys(&unit), reservation(&unit)), (vec![22, 33, 44], Some((3, 44))));
    unit.good(&nexus(4), &write10(0, 1), &[1; BLOCK]);
    assert_eq!(unit.status(&nexus(1), &read10(0, 1), &[]), Status::ReservationConflict);
}

#[test]
fn aptpl_keeps_registrations_and_reservation_over_a_restart() {
    let store = MemoryStore::new(64);
    let unit = Unit::over(store.clone(), Settings::default(), &[]);
    assert_eq!(unit.reserve_out(&nexus(1), REGISTER, 0, 0, 11, 1).status, Status::Good);
    assert_eq!(unit.reserve_out(&nexus(2), REGISTER, 0, 0, 22, 1).status, Status::Good);
    assert_eq!(unit.reserve_out(&nexus(2), RESERVE, 3, 22, 0, 0).status, Status::Good);
    let kept = unit.kept.bytes.lock().unwrap().clone();
    let again = Unit::over(store.clone(), Settings::default(), &kept);
    assert_eq!((keys(&again), reservation(&again)), (vec![11, 22], Some((3, 22))));
    assert_eq!(again.status(&nexus(1), &read10(0, 1), &[]), Status::ReservationConflict);
    again.good(&nexus(2), &read10(0, 1), &[]);
    // A host that cannot keep them: refused, and nothing changes.
    again.kept.fails.store(true, Ordering::SeqCst);
    assert_eq!(again.reserve_out(&nexus(2), RELEASE, 3, 22, 0, 0).sense.unwrap().key, SenseKey::HardwareError);
    assert_eq!(reservation(&again), Some((3, 22)));
    again.kept.fails.store(false, Ordering::SeqCst);
    // APTPL is that of the last registration.
    assert_eq!(again.reserve_out(&nexus(2), REGISTER, 0, 22, 23, 0).status, Status::Good);
    assert_eq!(*again.kept.bytes.lock().unwrap(), []);
    // Bytes that were cut or changed are refused, not read as no reservations.
    for end in 1..kept.len() {
        let host = crate::scsi_support::KeepingHost(Arc::default());
        let unit = iscsi_proto::scsi::LogicalUnit::new(
            store.clone(),
            crate::scsi_support::identity(),
            Settings::default(),
            Box::new(host),
            &kept[..end],
        );
        assert!(matches!(unit, Err(UnitError::Reservations { .. })), "{end} bytes");
    }
}

#[test]
fn capabilities_say_what_is_supported() {
    let unit = Unit::thin(64);
    assert_eq!(unit.good(&nexus(1), &[0x5e, 2, 0, 0, 0, 0, 0, 0, 255, 0], &[]), [0, 8, 0x0d, 0x80, 0xea, 1, 0, 0]);
    assert_eq!(unit.reserve_out(&nexus(1), REGISTER, 0, 0, 11, 1).status, Status::Good);
    assert_eq!(unit.good(&nexus(1), &[0x5e, 2, 0, 0, 0, 0, 0, 0, 4, 0], &[]), [0, 8, 0x0d, 0x81]);
}

#[test]
fn a_reservation_that_completed_has_waited_for_the_writes_it_forbids() {
    for seed in 0..20 {
        let unit = Unit::thin(64);
        let (writer, fencer) = (nexus(1), nexus(2));
        for (nexus, key) in [(&writer, 11), (&fencer, 22)] {
            assert_eq!(unit.reserve_out(nexus, REGISTER, 0, 0, key, 0).status, Status::Good);
        }
        std::thread::scope(|scope| {
            let writes = scope.spawn(|| {
                let mut written = 0_u32;
                while unit.status(&writer, &write10(seed, 1), &[written as u8; BLOCK]) == Status::Good {
                    written += 1;
                }
            });
            assert_eq!(unit.reserve_out(&fencer, RESERVE, 1, 22, 0, 0).status, Status::Good);
            let fenced = unit.good(&fencer, &read10(seed, 1), &[]);
            writes.join().unwrap();
            assert_eq!(unit.good(&fencer, &read10(seed, 1), &[]), fenced, "no write landed after the reservation");
        });
    }
}
