//! The write cache is honest: what completed is durable as WCE, FUA and SYNCHRONIZE CACHE say, and a loss is told.

use std::sync::atomic::Ordering;

use crate::scsi_support::{BLOCK, Unit, nexus, read10, ten, write10};
use iscsi_proto::scsi::{Asc, SenseKey, Settings, Status};

const ONES: [u8; BLOCK] = [1; BLOCK];

fn cached() -> Unit {
    let unit = Unit::new(64, Settings { write_cache: true, thin: true, ..Settings::default() });
    for number in [1, 2] {
        unit.unit.attach(&nexus(number), None);
    }
    unit
}

/// The Caching page with its header, for MODE SELECT (6).
fn caching(unit: &Unit) -> Vec<u8> {
    unit.good(&nexus(1), &[0x1a, 8, 8, 0, 24, 0], &[])
}

const SELECT: [u8; 6] = [0x15, 0x10, 0, 0, 24, 0];

#[test]
fn the_cache_is_off_by_default_and_no_initiator_turns_it_on() {
    let unit = Unit::new(64, Settings::default());
    let page = caching(&unit);
    assert_eq!((page.len(), page[4], page[6] & 4), (24, 8, 0));
    assert_eq!(unit.good(&nexus(1), &[0x1a, 8, 0x48, 0, 24, 0], &[])[6], 0, "nothing can be changed");
    unit.unit.attach(&nexus(2), None);
    let mut select = [&[0; 4], &page[4..]].concat();
    select[6] |= 4;
    unit.refused(&nexus(1), &SELECT, &select, SenseKey::IllegalRequest, Asc::INVALID_FIELD_IN_PARAMETER_LIST);
    unit.good(&nexus(2), &write10(0, 1), &ONES);
    assert_eq!(unit.store.durable()[..BLOCK], ONES);
}

#[test]
fn the_cache_of_a_unit_that_has_one_is_flushed_when_it_is_turned_off_and_the_others_learn_of_it() {
    let unit = cached();
    let mut select = [&[0; 4], &caching(&unit)[4..]].concat();
    unit.good(&nexus(1), &write10(1, 1), &ONES);
    assert_eq!(unit.store.durable()[BLOCK..2 * BLOCK], [0; BLOCK]);
    select[6] &= !4;
    unit.good(&nexus(1), &SELECT, &select);
    assert_eq!(unit.store.durable()[BLOCK..2 * BLOCK], ONES, "what was in the cache became durable");
    unit.refused(&nexus(2), &[0; 6], &[], SenseKey::UnitAttention, Asc::MODE_PARAMETERS_CHANGED);
    select[6] |= 4;
    unit.good(&nexus(1), &SELECT, &select);
    assert_eq!(caching(&unit)[6] & 4, 4);
    unit.refused(&nexus(2), &[0; 6], &[], SenseKey::UnitAttention, Asc::MODE_PARAMETERS_CHANGED);
}

#[test]
fn a_flush_during_which_data_was_lost_fails_although_another_write_begins_meanwhile() {
    let unit = std::sync::Arc::new(cached());
    unit.good(&nexus(1), &write10(0, 1), &ONES);
    let meanwhile = std::sync::Arc::clone(&unit);
    *unit.store.during_flush.lock().unwrap() = Some(Box::new(move || {
        meanwhile.store.lose();
        assert!(meanwhile.sense(&nexus(2), &write10(1, 1), &ONES).deferred);
    }));
    unit.refused(&nexus(1), &ten(0x35, 0, 0, 0), &[], SenseKey::MediumError, Asc::WRITE_ERROR);
    assert_eq!(unit.store.bytes()[..BLOCK], [0; BLOCK], "it is gone");
}

#[test]
fn if_data_is_lost_during_two_concurrent_flushes_both_fail() {
    let unit = std::sync::Arc::new(cached());
    unit.good(&nexus(1), &write10(0, 1), &ONES);
    unit.good(&nexus(2), &write10(1, 1), &ONES);
    let meanwhile = std::sync::Arc::clone(&unit);
    *unit.store.during_flush.lock().unwrap() = Some(Box::new(move || {
        let store = std::sync::Arc::clone(&meanwhile.store);
        *meanwhile.store.during_flush.lock().unwrap() = Some(Box::new(move || store.lose()));
        meanwhile.refused(&nexus(2), &ten(0x35, 0, 0, 0), &[], SenseKey::MediumError, Asc::WRITE_ERROR);
    }));
    unit.refused(&nexus(1), &ten(0x35, 0, 0, 0), &[], SenseKey::MediumError, Asc::WRITE_ERROR);
    assert_eq!(unit.store.bytes()[..2 * BLOCK], [0; 2 * BLOCK], "it is gone");
}

#[test]
fn a_loss_during_a_flush_is_reported_to_a_flush_that_begins_after_it() {
    let unit = std::sync::Arc::new(cached());
    unit.good(&nexus(1), &write10(0, 1), &ONES);
    let meanwhile = std::sync::Arc::clone(&unit);
    *unit.store.during_flush.lock().unwrap() = Some(Box::new(move || {
        meanwhile.store.lose();
        assert!(meanwhile.sense(&nexus(2), &ten(0x35, 0, 0, 0), &[]).deferred);
    }));
    unit.refused(&nexus(1), &ten(0x35, 0, 0, 0), &[], SenseKey::MediumError, Asc::WRITE_ERROR);
}

#[test]
fn fua_writes_through_the_cache() {
    let unit = cached();
    unit.good(&nexus(1), &write10(0, 1), &ONES);
    unit.good(&nexus(1), &ten(0x2a, 0x08, 1, 1), &ONES);
    assert_eq!((unit.store.durable()[0], unit.store.durable()[BLOCK]), (0, 1));
}

#[test]
fn after_a_failed_flush_every_nexus_is_told_and_writes_fail_while_reads_go_on() {
    let unit = cached();
    unit.good(&nexus(1), &write10(0, 1), &ONES);
    unit.store.flush_fails.store(true, Ordering::SeqCst);
    unit.refused(&nexus(1), &ten(0x35, 0, 0, 0), &[], SenseKey::MediumError, Asc::WRITE_ERROR);
    unit.store.flush_fails.store(false, Ordering::SeqCst);
    let told = unit.sense(&nexus(2), &read10(0, 1), &[]);
    assert_eq!((told.key, told.asc, told.deferred), (SenseKey::MediumError, Asc::WRITE_ERROR, true));
    for number in [1, 2] {
        let from = nexus(number);
        unit.refused(&from, &ten(0x35, 0, 0, 0), &[], SenseKey::HardwareError, Asc::LOGICAL_UNIT_FAILURE);
        unit.refused(&from, &write10(0, 1), &ONES, SenseKey::HardwareError, Asc::LOGICAL_UNIT_FAILURE);
        assert_eq!(unit.good(&from, &read10(0, 1), &[]), ONES);
        assert_eq!(unit.good(&from, &[0x1a, 8, 0x3f, 0, 4, 0], &[])[2] & 0x80, 0x80, "write protected");
    }
    assert!(unit.unit.has_failed());
}

#[test]
fn a_reset_that_turns_the_cache_on_again_is_reported_as_a_change_of_mode_parameters() {
    let unit = cached();
    let mut select = [&[0; 4], &caching(&unit)[4..]].concat();
    for (turned_off, reported) in [
        (false, &[Asc::BUS_DEVICE_RESET_FUNCTION_OCCURRED][..]),
        (true, &[Asc::BUS_DEVICE_RESET_FUNCTION_OCCURRED, Asc::MODE_PARAMETERS_CHANGED]),
    ] {
        if turned_off {
            select[6] &= !4;
            unit.good(&nexus(1), &SELECT, &select);
            unit.refused(&nexus(2), &[0; 6], &[], SenseKey::UnitAttention, Asc::MODE_PARAMETERS_CHANGED);
        }
        unit.unit.reset(Asc::BUS_DEVICE_RESET_FUNCTION_OCCURRED);
        for number in [1, 2] {
            reported.iter().for_each(|asc| unit.refused(&nexus(number), &[0; 6], &[], SenseKey::UnitAttention, *asc));
        }
        assert_eq!(caching(&unit)[6] & 4, 4);
    }
}

#[test]
fn a_loss_is_reported_if_writes_were_not_durable_and_only_then() {
    let unit = cached();
    unit.good(&nexus(1), &write10(0, 1), &ONES);
    unit.good(&nexus(1), &ten(0x35, 0, 0, 0), &[]);
    unit.store.lose();
    unit.good(&nexus(1), &write10(1, 1), &ONES);
    unit.store.lose();
    let told = unit.sense(&nexus(1), &write10(2, 1), &ONES);
    assert_eq!((told.key, told.deferred), (SenseKey::MediumError, true));
    assert!(unit.sense(&nexus(2), &read10(0, 1), &[]).deferred);
    unit.refused(&nexus(2), &write10(2, 1), &ONES, SenseKey::HardwareError, Asc::LOGICAL_UNIT_FAILURE);
    assert_eq!(unit.store.bytes()[2 * BLOCK..3 * BLOCK], [0; BLOCK], "nothing was written");
}

#[test]
fn a_read_only_unit_refuses_each_write_and_no_initiator_protects_one_for_all() {
    let unit = Unit::new(64, Settings { read_only: true, ..Settings::default() });
    unit.refused(&nexus(1), &write10(0, 1), &ONES, SenseKey::DataProtect, Asc::WRITE_PROTECTED);
    unit.refused(&nexus(1), &ten(0x41, 0, 0, 1), &ONES, SenseKey::DataProtect, Asc::WRITE_PROTECTED);
    let unit = Unit::new(64, Settings::default());
    let mut control = unit.good(&nexus(1), &[0x1a, 8, 0x0a, 0, 16, 0], &[]);
    control[..4].fill(0);
    control[8] |= 8;
    let select = [0x15, 0x10, 0, 0, 16, 0];
    unit.refused(&nexus(1), &select, &control, SenseKey::IllegalRequest, Asc::INVALID_FIELD_IN_PARAMETER_LIST);
    assert_eq!(unit.status(&nexus(1), &write10(0, 1), &ONES), Status::Good);
}
