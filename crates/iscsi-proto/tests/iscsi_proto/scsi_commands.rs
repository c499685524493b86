//! What a unit says of itself, and how it refuses.

use crate::scsi_support::{BLOCK, TwoLuns, Unit, nexus, read10, sixteen, ten, write10};
use iscsi_proto::scsi::{
    Asc, Completion, Direction, FieldPointer, Lun, Request, Residual, SENSE_BYTES_MAX, Sense, SenseKey, Settings, Status,
    execute_absent, expected_data,
};

const INQUIRY: [u8; 6] = [0x12, 0, 0, 0, 255, 0];

#[test]
fn inquiry_names_the_unit_and_its_standards() {
    let unit = Unit::thin(64);
    let data = unit.good(&nexus(1), &INQUIRY, &[]);
    assert_eq!((data.len(), data[0], data[2], usize::from(data[4]) + 5), (96, 0, 6, 96));
    assert_eq!(&data[8..36], b"MILLRACELUN             1.0 ");
    let descriptors: Vec<_> = data[58..66].chunks(2).map(|two| u16::from_be_bytes([two[0], two[1]])).collect();
    assert_eq!(descriptors, [0x00a0, 0x0460, 0x04c0, 0x0960]);
    let pages = unit.good(&nexus(1), &[0x12, 1, 0, 0, 255, 0], &[]);
    assert_eq!(pages[4..], [0, 0x80, 0x83, 0x86, 0xb0, 0xb1, 0xb2, 0xc0]);
    for page in &pages[4..] {
        let data = unit.good(&nexus(1), &[0x12, 1, *page, 1, 0, 0], &[]);
        assert_eq!(usize::from(u16::from_be_bytes([data[2], data[3]])) + 4, data.len(), "page {page:#x}");
        assert_eq!(data[1], *page);
    }
    let lost = unit.good(&nexus(1), &[0x12, 1, 0xc0, 0, 255, 0], &[]);
    assert_eq!(iscsi_proto::scsi::read_loss_epoch(&lost), Some(iscsi_proto::scsi::Store::loss_epoch(&unit.store)));
    assert_eq!(iscsi_proto::scsi::read_loss_epoch(&[&[0, 0xc0, 0, 16], &[0; 16][..]].concat()), None, "another vendor's");
    assert_eq!(unit.good(&nexus(1), &[0x12, 1, 0x80, 0, 255, 0], &[])[4..], *b"0123456789abcdef");
    let identification = unit.good(&nexus(1), &[0x12, 1, 0x83, 1, 0, 0], &[]);
    assert_eq!(identification[4..16], [1, 3, 0, 8, 0x30, 0, 0, 0, 0xfe, 0xed, 0xbe, 0xef]);
    let name = b"iqn.2026-01.example:store,t,0x0001";
    assert!(identification.windows(name.len()).any(|window| window == name));
    unit.refused(&nexus(1), &[0x12, 1, 0x84, 0, 255, 0], &[], SenseKey::IllegalRequest, Asc::INVALID_FIELD_IN_CDB);
    unit.refused(&nexus(1), &[0x12, 0, 0x80, 0, 255, 0], &[], SenseKey::IllegalRequest, Asc::INVALID_FIELD_IN_CDB);
}

#[test]
fn capacity_is_that_of_the_store() {
    let unit = Unit::thin(64);
    assert_eq!(unit.good(&nexus(1), &ten(0x25, 0, 0, 0), &[]), [0, 0, 0, 63, 0, 0, 2, 0]);
    let long = unit.good(&nexus(1), &sixteen(0x9e, 0x10, 0, 32), &[]);
    assert_eq!((long.len(), long[7], long[13], long[14]), (32, 63, 3, 0xc0));
    assert_eq!(unit.good(&nexus(1), &sixteen(0x9e, 0x10, 0, 12), &[]), long[..12]);
}

#[test]
fn a_lun_without_a_unit_answers_three_commands() {
    let run = |cdb: &[u8]| {
        let mut data = [0; 255];
        let request = Request { cdb, expected_bytes: 255, data_out: &[], directory: &TwoLuns };
        let completion = execute_absent(&nexus(1), &request, &mut data);
        (completion, data[..completion.data_in_bytes].to_vec())
    };
    let (_, inquiry) = run(&INQUIRY);
    assert_eq!((inquiry[0], inquiry.len()), (0x7f, 36));
    let (_, luns) = run(&[0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0]);
    assert_eq!(luns, [0, 0, 0, 16, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0x41, 0x2c, 0, 0, 0, 0, 0, 0]);
    let (_, sense) = run(&[0x03, 0, 0, 0, 18, 0]);
    assert_eq!((sense[2], sense[12]), (5, 0x25));
    for cdb in [[0; 16].to_vec(), read10(0, 1), vec![0xff; 16]] {
        assert_eq!(run(&cdb).0, Completion::check(Sense::illegal(Asc::LOGICAL_UNIT_NOT_SUPPORTED)));
    }
}

#[test]
fn lun_fields_are_read_as_they_are_written() {
    for number in [0, 1, 255, 256, 300, Lun::MAX] {
        let lun = Lun::new(number).unwrap();
        assert_eq!(Lun::from_bytes(lun.to_bytes()), Some(lun));
    }
    assert_eq!(Lun::from_bytes([0x40, 7, 0, 0, 0, 0, 0, 0]), Lun::new(7), "flat addressing of a small number");
    for other in [[1, 0, 0, 0, 0, 0, 0, 0], [0, 1, 0, 1, 0, 0, 0, 0], [0x80, 1, 0, 0, 0, 0, 0, 0], [0xc1, 1, 0, 0, 0, 0, 0, 0]] {
        assert_eq!(Lun::from_bytes(other), None);
    }
}

#[test]
fn report_luns_knows_each_select_report() {
    let unit = Unit::thin(64);
    for (select, luns) in [(0, 2), (1, 0), (2, 2), (0x10, 0), (0x11, 2), (0x12, 0)] {
        let data = unit.good(&nexus(1), &[0xa0, 0, select, 0, 0, 0, 0, 0, 0, 64, 0, 0], &[]);
        assert_eq!(data.len(), 8 + 8 * luns, "{select:#x}");
    }
    unit.refused(&nexus(1), &[0xa0, 0, 3, 0, 0, 0, 0, 0, 0, 64, 0, 0], &[], SenseKey::IllegalRequest, Asc::INVALID_FIELD_IN_CDB);
}

/// A refusal points at the field: byte and bit of the CDB.
#[test]
fn reserved_bits_naca_and_protection_are_refused_with_a_field_pointer() {
    let unit = Unit::thin(64);
    let mut naca = read10(0, 1);
    naca[9] = 4;
    let mut reserved = read10(0, 1);
    reserved[6] = 0x40;
    for (cdb, byte, bit) in [(naca, 9, 2), (reserved, 6, 6), (ten(0x28, 0x20, 0, 1), 1, 7), (ten(0x2a, 0xe0, 0, 1), 1, 7)] {
        let sense = unit.sense(&nexus(1), &cdb, &[0; BLOCK]);
        assert_eq!(sense.asc, Asc::INVALID_FIELD_IN_CDB);
        assert_eq!(sense.field, Some(FieldPointer { in_cdb: true, byte, bit: Some(bit) }), "{cdb:02x?}");
        let mut bytes = [0; SENSE_BYTES_MAX];
        assert_eq!(sense.encode(&mut bytes), 18);
        assert_eq!(bytes[15..18], [0xc8 | bit, 0, byte as u8]);
    }
    unit.refused(&nexus(1), &[0xc0; 16], &[], SenseKey::IllegalRequest, Asc::INVALID_COMMAND_OPERATION_CODE);
    let short = unit.run(&nexus(1), &[0x28, 0, 0], &[]).completion;
    assert_eq!(short.sense.unwrap().asc, Asc::INVALID_FIELD_IN_CDB);
}

#[test]
fn d_sense_gives_descriptors_with_information_and_field() {
    let unit = Unit::thin(64);
    let mut control = unit.good(&nexus(1), &[0x1a, 8, 0x0a, 0, 16, 0], &[]);
    control[..4].fill(0);
    control[6] |= 4;
    unit.good(&nexus(1), &[0x15, 0x10, 0, 0, 16, 0], &control);
    let mut compare = sixteen(0x89, 0, 0, 0);
    compare[13] = 1;
    let mut data = [0; 2 * BLOCK];
    data[300] = 1;
    let sense = unit.sense(&nexus(1), &compare, &data);
    let mut bytes = [0; SENSE_BYTES_MAX];
    let length = sense.encode(&mut bytes);
    assert_eq!((length, bytes[0], bytes[1], bytes[2], bytes[7]), (20, 0x72, 0x0e, 0x1d, 12));
    assert_eq!(bytes[8..20], [0, 10, 0x80, 0, 0, 0, 0, 0, 0, 0, 1, 44]);
    let mut bytes = [0; SENSE_BYTES_MAX];
    assert_eq!(unit.sense(&nexus(1), &ten(0x28, 0x20, 0, 1), &[]).encode(&mut bytes), 16);
    assert_eq!(bytes[8..15], [2, 6, 0, 0, 0xcf, 0, 1]);
}

#[test]
fn unit_attentions_come_once_before_commands_and_pass_inquiry_by() {
    let unit = Unit::thin(64);
    unit.unit.attach(&nexus(1), Some(Asc::POWER_ON_OCCURRED));
    unit.unit.attach(&nexus(2), None);
    unit.unit.capacity_changed();
    unit.unit.luns_changed();
    unit.good(&nexus(1), &INQUIRY, &[]);
    unit.good(&nexus(1), &[0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0], &[]);
    unit.refused(&nexus(1), &read10(0, 1), &[], SenseKey::UnitAttention, Asc::POWER_ON_OCCURRED);
    let told = unit.good(&nexus(1), &[0x03, 0, 0, 0, 18, 0], &[]);
    assert_eq!((told[2], told[12], told[13]), (6, 0x2a, 9), "REQUEST SENSE tells it as data");
    unit.unit.luns_reported(&nexus(1));
    unit.good(&nexus(1), &read10(0, 1), &[]);
    unit.refused(&nexus(2), &[0xc0; 16], &[], SenseKey::UnitAttention, Asc::CAPACITY_DATA_HAS_CHANGED);
    unit.refused(&nexus(2), &[0; 6], &[], SenseKey::UnitAttention, Asc::REPORTED_LUNS_DATA_HAS_CHANGED);
    unit.good(&nexus(2), &[0; 6], &[]);
    assert_eq!(unit.good(&nexus(2), &[0x03, 0, 0, 0, 18, 0], &[])[2], 0, "no sense");
}

#[test]
fn residuals_follow_the_allocation_length_and_the_blocks() {
    let unit = Unit::thin(64);
    let of = |cdb: &[u8], data: &[u8], expected| {
        let done = unit.run_expecting(&nexus(1), cdb, data, expected);
        assert_eq!(done.completion.status, Status::Good);
        (done.data.len(), done.completion.residual(expected))
    };
    assert_eq!(of(&[0x1a, 8, 0x3f, 0, 4, 0], &[], 4), (4, Residual::None), "truncated by the allocation length");
    assert_eq!(of(&INQUIRY, &[], 255), (96, Residual::Underflow(159)));
    assert_eq!(of(&read10(0, 2), &[], 512), (512, Residual::Overflow(512)));
    assert_eq!(of(&read10(0, 2), &[], 700), (700, Residual::Overflow(324)));
    assert_eq!(of(&read10(0, 2), &[], 2000), (1024, Residual::Underflow(976)));
    assert_eq!(of(&write10(0, 2), &[7; 700], 700), (0, Residual::Overflow(324)));
    assert_eq!(unit.store.bytes()[..1024], [[7; BLOCK], [0; BLOCK]].concat(), "whole blocks were written");
    assert_eq!(of(&write10(4, 1), &[8; 1024], 1024), (0, Residual::Underflow(512)));
    assert_eq!(unit.store.bytes()[5 * BLOCK], 0);
}

#[test]
fn parameter_lists_that_were_cut_are_refused() {
    let unit = Unit::thin(64);
    let length_error = Asc::PARAMETER_LIST_LENGTH_ERROR;
    unit.refused(&nexus(1), &[0x42, 0, 0, 0, 0, 0, 0, 0, 24, 0], &[0; 8], SenseKey::IllegalRequest, length_error);
    unit.refused(&nexus(1), &[0x15, 0x10, 0, 0, 3, 0], &[0; 3], SenseKey::IllegalRequest, length_error);
    unit.refused(&nexus(1), &[0x5f, 0, 0, 0, 0, 0, 0, 0, 20, 0], &[0; 20], SenseKey::IllegalRequest, length_error);
    let mut compare = sixteen(0x89, 0, 0, 0);
    compare[13] = 1;
    for bytes in [BLOCK, 3 * BLOCK] {
        let done = unit.run_expecting(&nexus(1), &compare, &vec![0; bytes], bytes as u32).completion;
        assert_eq!(done.sense.unwrap().asc, Asc::INVALID_FIELD_IN_CDB, "{bytes} bytes");
    }
}

#[test]
fn the_codes_that_are_reported_are_those_that_work() {
    let unit = Unit::thin(64);
    let all = unit.good(&nexus(1), &[0xa3, 0x0c, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0], &[]);
    for line in all[4..].chunks(8) {
        let (code, action, length) = (line[0], line[3], usize::from(line[7]));
        let options = if line[5] & 1 != 0 { 2 } else { 1 };
        let one = unit.good(&nexus(1), &[0xa3, 0x0c, options, code, 0, action, 0, 0, 0, 64, 0, 0], &[]);
        assert_eq!((one[1] & 7, usize::from(one[3]), one[4], one.len()), (3, length, code, 4 + length), "{code:#x}/{action:#x}");
        let mut cdb = vec![0; 16];
        cdb[0] = code;
        cdb[1] = action;
        let sense = unit.run(&nexus(1), &cdb, &[0; 4096]).completion.sense;
        assert_ne!(sense.map(|sense| sense.asc), Some(Asc::INVALID_COMMAND_OPERATION_CODE), "{code:#x}/{action:#x}");
    }
    let timeouts = unit.good(&nexus(1), &[0xa3, 0x0c, 0x81, 0x28, 0, 0, 0, 0, 0, 64, 0, 0], &[]);
    assert_eq!((timeouts.len(), timeouts[1]), (4 + 10 + 12, 0x83));
    assert_eq!(unit.good(&nexus(1), &[0xa3, 0x0c, 1, 0xc0, 0, 0, 0, 0, 0, 64, 0, 0], &[])[1] & 7, 1, "not supported");
}

#[test]
fn lba_status_follows_unmap_and_is_refused_beyond_the_end() {
    let unit = Unit::thin(64);
    unit.good(&nexus(1), &write10(0, 32), &[1; 32 * BLOCK]);
    let mut list = vec![0, 22, 0, 16, 0, 0, 0, 0];
    list.extend([0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 8, 0, 0, 0, 0]);
    unit.good(&nexus(1), &[0x42, 0, 0, 0, 0, 0, 0, 0, 24, 0], &list);
    let status = unit.good(&nexus(1), &sixteen(0x9e, 0x12, 4, 255), &[]);
    let extents: Vec<_> = status[8..].chunks(16).map(|one| (one[7], one[11], one[12])).collect();
    assert_eq!(extents, [(4, 4, 0), (8, 8, 1), (16, 16, 0), (32, 32, 1)]);
    let beyond = sixteen(0x9e, 0x12, 64, 24);
    unit.refused(&nexus(1), &beyond, &[], SenseKey::IllegalRequest, Asc::LOGICAL_BLOCK_ADDRESS_OUT_OF_RANGE);
}

#[test]
fn one_initiator_cannot_stop_a_unit_for_the_others() {
    let unit = Unit::new(64, Settings { write_cache: true, ..Settings::default() });
    unit.good(&nexus(1), &write10(0, 1), &[1; BLOCK]);
    unit.good(&nexus(1), &[0x1b, 0, 0, 0, 0, 0], &[]);
    assert_eq!(unit.store.durable()[..BLOCK], [1; BLOCK], "it is flushed");
    unit.good(&nexus(2), &read10(0, 1), &[]);
    unit.good(&nexus(2), &[0; 6], &[]);
    unit.good(&nexus(2), &[0x1b, 0, 0, 0, 1, 0], &[]);
    unit.refused(&nexus(2), &[0x1b, 0, 0, 0, 2, 0], &[], SenseKey::IllegalRequest, Asc::INVALID_FIELD_IN_CDB);
}

#[test]
fn extended_copy_copies_within_the_unit_and_its_result_can_be_asked_for() {
    let unit = Unit::thin(64);
    unit.good(&nexus(1), &write10(0, 2), &[5; 2 * BLOCK]);
    let mut target = vec![0xe4, 0, 0, 0, 1, 3, 0, 8, 0x30, 0, 0, 0, 0xfe, 0xed, 0xbe, 0xef];
    target.resize(29, 0);
    target.extend([0, 2, 0]);
    let mut segment = vec![2, 0, 0, 24, 0, 0, 0, 0, 0, 0, 0, 2];
    segment.extend(0_u64.to_be_bytes());
    segment.extend(40_u64.to_be_bytes());
    let mut list = vec![9, 0, 0, 32, 0, 0, 0, 0, 0, 0, 0, 28, 0, 0, 0, 0];
    list.extend(&target);
    list.extend(&segment);
    let cdb = sixteen(0x83, 0, 0, list.len() as u32);
    unit.good(&nexus(1), &cdb, &list);
    assert_eq!(unit.store.bytes()[40 * BLOCK..42 * BLOCK], [5; 2 * BLOCK]);
    let mut results = sixteen(0x84, 0, 0, 12);
    results[2] = 9;
    assert_eq!(unit.good(&nexus(1), &results, &[]), [0, 0, 0, 8, 1, 0, 1, 0, 0, 0, 4, 0]);
    unit.refused(&nexus(2), &results, &[], SenseKey::IllegalRequest, Asc::INVALID_FIELD_IN_CDB);
    let mut other = list.clone();
    other[16 + 15] ^= 1;
    unit.refused(&nexus(1), &cdb, &other, SenseKey::CopyAborted, Asc::COPY_TARGET_DEVICE_NOT_REACHABLE);
    let length = list.len();
    list[length - 1] = 63;
    unit.refused(&nexus(1), &cdb, &list, SenseKey::CopyAborted, Asc::NONE);
}

#[test]
fn expected_data_is_what_the_cdb_says() {
    let of = |cdb: &[u8]| {
        let expected = expected_data(cdb, 512);
        (expected.direction, expected.bytes)
    };
    assert_eq!(of(&read10(0, 3)), (Direction::In, 1536));
    assert_eq!(of(&write10(0, 3)), (Direction::Out, 1536));
    assert_eq!(of(&[0x08, 0, 0, 0, 0, 0]), (Direction::In, 256 * 512));
    assert_eq!(of(&ten(0x2f, 2, 0, 3)), (Direction::Out, 1536), "VERIFY with BYTCHK 01b");
    assert_eq!(of(&ten(0x2f, 6, 0, 3)), (Direction::Out, 512), "VERIFY with BYTCHK 11b");
    assert_eq!(of(&ten(0x2f, 0, 0, 3)), (Direction::None, 0));
    assert_eq!(of(&sixteen(0x93, 0, 0, 3)), (Direction::Out, 512));
    assert_eq!(of(&sixteen(0x93, 1, 0, 3)), (Direction::None, 0), "NDOB");
    assert_eq!(of(&ten(0x25, 0, 0, 0)), (Direction::In, 8));
    assert_eq!(of(&INQUIRY), (Direction::In, 255));
    assert_eq!(of(&[0xc0; 16]), (Direction::None, 0));
    assert_eq!(of(&sixteen(0x88, 0, 0, u32::MAX)), (Direction::In, u64::from(u32::MAX) * 512), "no overflow");
}
