//! Random sequences of commands of two nexuses, against a simple model of the data.

use crate::scsi_support::{BLOCK, Unit, nexus, sixteen, ten};
use iscsi_proto::scsi::{Asc, Nexus, SenseKey, Settings, Status};
use sim::Rng;

const BLOCKS: u64 = 96;

/// What the unit should hold.
struct Model {
    bytes: Vec<u8>,
    write_cache: bool,
}

impl Model {
    fn at(&mut self, lba: u64, blocks: u64) -> &mut [u8] {
        &mut self.bytes[lba as usize * BLOCK..(lba + blocks) as usize * BLOCK]
    }
}

/// The CDB of a command on blocks in one of its lengths.
fn blocks_cdb(random: &mut Rng, ten_code: u8, twelve_code: u8, sixteen_code: u8, flags: u8, lba: u64, blocks: u64) -> Vec<u8> {
    match random.below(3) {
        0 => ten(ten_code, flags, lba as u32, blocks as u16),
        1 => {
            let mut cdb = vec![twelve_code, flags];
            cdb.extend((lba as u32).to_be_bytes());
            cdb.extend((blocks as u32).to_be_bytes());
            cdb.resize(16, 0);
            cdb
        }
        _ => sixteen(sixteen_code, flags, lba, blocks as u32),
    }
}

/// A range within the unit, or now and then beyond it.
fn range(random: &mut Rng) -> (u64, u64) {
    (random.below(BLOCKS + 2), random.below(9))
}

fn check_read(unit: &Unit, model: &mut Model, random: &mut Rng, from: &Nexus, lba: u64, blocks: u64) {
    let flags = (random.below(4) as u8) << 3;
    let cdb = blocks_cdb(random, 0x28, 0xa8, 0x88, flags, lba, blocks);
    assert_eq!(unit.good(from, &cdb, &[]), model.at(lba, blocks), "READ {blocks} at {lba}");
}

fn step(unit: &Unit, model: &mut Model, random: &mut Rng, from: &Nexus) {
    let (lba, blocks) = range(random);
    if lba + blocks > BLOCKS {
        let data = vec![1; blocks as usize * BLOCK];
        let (code, data) = if random.chance(1, 2) { ([0x28, 0xa8, 0x88], &[][..]) } else { ([0x2a, 0xaa, 0x8a], &data[..]) };
        let cdb = blocks_cdb(random, code[0], code[1], code[2], 0, lba, blocks);
        unit.refused(from, &cdb, data, SenseKey::IllegalRequest, Asc::LOGICAL_BLOCK_ADDRESS_OUT_OF_RANGE);
        return;
    }
    let data = random.bytes(blocks as usize * BLOCK);
    match random.below(10) {
        0..=2 => check_read(unit, model, random, from, lba, blocks),
        3 | 4 => {
            let flags = (random.below(4) as u8) << 3;
            let cdb = blocks_cdb(random, 0x2a, 0xaa, 0x8a, flags, lba, blocks);
            unit.good(from, &cdb, &data);
            model.at(lba, blocks).copy_from_slice(&data);
        }
        5 => {
            let cdb = blocks_cdb(random, 0x2e, 0xae, 0x8e, 2, lba, blocks);
            unit.good(from, &cdb, &data);
            model.at(lba, blocks).copy_from_slice(&data);
        }
        6 => write_same(unit, model, random, from, lba, blocks),
        7 => compare_and_write(unit, model, random, from, lba, blocks),
        8 => {
            unit.good(from, &sixteen(0x8b, 0, lba, blocks as u32), &data);
            model.at(lba, blocks).iter_mut().zip(&data).for_each(|(byte, bits)| *byte |= bits);
        }
        _ => {
            let mut list = vec![0, 22, 0, 16, 0, 0, 0, 0];
            list.extend(lba.to_be_bytes());
            list.extend((blocks as u32).to_be_bytes());
            list.extend([0; 4]);
            unit.good(from, &[0x42, 0, 0, 0, 0, 0, 0, 0, 24, 0], &list);
            model.at(lba, blocks).fill(0);
        }
    }
}

fn write_same(unit: &Unit, model: &mut Model, random: &mut Rng, from: &Nexus, lba: u64, blocks: u64) {
    let unmap = random.chance(1, 2);
    let zeros = random.chance(1, 2);
    let pattern = if zeros { vec![0; BLOCK] } else { random.bytes(BLOCK) };
    let no_data = zeros && random.chance(1, 2);
    let flags = u8::from(unmap) << 3 | u8::from(no_data);
    let cdb = sixteen(0x93, flags, lba, blocks as u32);
    let data: &[u8] = if no_data { &[] } else { &pattern };
    if blocks == 0 {
        unit.refused(from, &cdb, data, SenseKey::IllegalRequest, Asc::INVALID_FIELD_IN_CDB);
        return;
    }
    unit.good(from, &cdb, data);
    model.at(lba, blocks).chunks_mut(BLOCK).for_each(|block| block.copy_from_slice(&pattern));
}

fn compare_and_write(unit: &Unit, model: &mut Model, random: &mut Rng, from: &Nexus, lba: u64, blocks: u64) {
    let mut cdb = sixteen(0x89, 0, lba, 0);
    cdb[13] = blocks as u8;
    let mut expected = model.at(lba, blocks).to_vec();
    let new = random.bytes(expected.len());
    let differs = (!expected.is_empty() && random.chance(1, 2)).then(|| random.index(expected.len()));
    if let Some(at) = differs {
        expected[at] ^= 1 + random.below(255) as u8;
    }
    let data = [expected, new.clone()].concat();
    match differs {
        None => {
            unit.good(from, &cdb, &data);
            model.at(lba, blocks).copy_from_slice(&new);
        }
        Some(at) => {
            let sense = unit.sense(from, &cdb, &data);
            assert_eq!((sense.key, sense.asc), (SenseKey::Miscompare, Asc::MISCOMPARE_DURING_VERIFY_OPERATION));
            assert_eq!(sense.information, Some(at as u64), "the offset of the first difference");
        }
    }
}

#[test]
fn what_was_written_is_read_and_is_durable_as_the_cache_says() {
    sim::sweep(60, |_, mut random| {
        let write_cache = random.chance(1, 2);
        let unit = Unit::new(BLOCKS as usize, Settings { thin: true, write_cache, ..Settings::default() });
        let mut model = Model { bytes: vec![0; BLOCKS as usize * BLOCK], write_cache };
        for _ in 0..200 {
            let from = nexus(1 + random.below(2) as u8);
            step(&unit, &mut model, &mut random, &from);
            if !model.write_cache {
                assert!(unit.store.durable() == model.bytes, "each write is durable when it completes");
            }
            if random.chance(1, 20) {
                unit.good(&from, &ten(0x35, 0, 0, 0), &[]);
                assert!(unit.store.durable() == model.bytes, "SYNCHRONIZE CACHE makes all durable");
            }
        }
        assert!(unit.store.bytes() == model.bytes);
    });
}

/// Counters in one block, moved by COMPARE AND WRITE of two threads: no step is lost.
#[test]
fn compare_and_write_of_two_nexuses_loses_no_step() {
    let unit = Unit::thin(8);
    let steps = 300_u32;
    std::thread::scope(|scope| {
        for number in [1, 2] {
            let unit = &unit;
            scope.spawn(move || {
                let from = nexus(number);
                let mut done = 0;
                while done < steps {
                    let now = unit.good(&from, &ten(0x28, 0, 3, 1), &[]);
                    let mut next = now.clone();
                    let counter = u32::from_be_bytes(now[..4].try_into().unwrap()) + 1;
                    next[..4].copy_from_slice(&counter.to_be_bytes());
                    let mut cdb = sixteen(0x89, 0, 3, 0);
                    cdb[13] = 1;
                    done += u32::from(unit.status(&from, &cdb, &[now, next].concat()) == Status::Good);
                }
            });
        }
    });
    assert_eq!(unit.good(&nexus(1), &ten(0x28, 0, 3, 1), &[])[..4], (2 * steps).to_be_bytes());
}
