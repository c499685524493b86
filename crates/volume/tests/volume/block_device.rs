//! A block device of a volume keeps what it promised through power cuts, and refuses what would break it.

use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use crate::common::{Scratch, content, make_dir, make_file, owner, retry_busy};
use crate::model::FileModel;
use sim::Rng;
use volume::faults::FaultSpec;
use volume::{BlockDevice, BlockError, CreateHow, Durable, Error, Node, SetAttr, Stability, Volume};

const BLOCK: u64 = 512;
const BLOCKS: u64 = 160;

fn make_lun(volume: &Volume, name: &str, size: u64) -> Node {
    let set = SetAttr { size: Some(size), ..SetAttr::default() };
    volume.create(&volume.root(), name.as_bytes(), CreateHow::Guarded(set), owner()).unwrap().0
}

fn open(volume: &Volume, name: &str, size: u64) -> BlockDevice {
    volume.open_device(&make_lun(volume, name, size), BLOCK as u32).unwrap()
}

fn all(device: &BlockDevice) -> Vec<u8> {
    let mut bytes = vec![0; device.size() as usize];
    retry_busy(|| match device.read(0, &mut bytes) {
        Err(BlockError::Volume(error)) => Err(error),
        other => {
            other.unwrap();
            Ok(())
        }
    })
    .unwrap();
    bytes
}

#[test]
fn what_was_flushed_or_forced_survives_a_cut_and_the_rest_may_be_lost() {
    let scratch = Scratch::new();
    let volume = scratch.open_lossy(0);
    let device = open(&volume, "lun", 1 << 20);
    device.write(0, &[1; 4096], Durable::OnFlush).unwrap();
    device.flush().unwrap();
    device.write(8192, &[2; 4096], Durable::OnReturn).unwrap();
    device.write(16_384, &[3; 4096], Durable::OnFlush).unwrap();
    device.discard(0, 4096).unwrap();
    let epoch = device.loss_epoch();
    assert_eq!(volume.power_cut().unwrap().undone_writes, 2);
    assert_eq!(device.loss_epoch(), epoch + 1, "initiators have to learn of it");
    let seen = all(&device);
    assert!(seen[..4096] == [1; 4096] && seen[8192..12_288] == [2; 4096] && seen[16_384..20_480] == [0; 4096]);
    device.write_zeroes(0, 4096, Durable::OnReturn).unwrap();
    assert_eq!(volume.power_cut().unwrap().undone_writes, 0);
    assert!(all(&device)[..8192] == [0; 8192]);
}

#[test]
fn promises_hold_when_all_else_is_lost() {
    sim::sweep(60, |_, rng| check_promises(&Scratch::in_memory(), 0, rng));
}

#[test]
fn promises_hold_when_chance_decides_what_else_survives() {
    sim::sweep(60, |seed, rng| check_promises(&Scratch::in_memory(), seed, rng));
}

#[test]
fn promises_hold_on_the_disk_too() {
    sim::sweep_slow(3, |seed, rng| check_promises(&Scratch::new(), seed % 2 * seed, rng));
}

/// Random accesses and several cuts; after each the device is compared with the model.
fn check_promises(scratch: &Scratch, loss_seed: u64, mut rng: Rng) {
    let volume = scratch.open_lossy(loss_seed);
    let device = open(&volume, "lun", BLOCKS * BLOCK);
    let mut model = FileModel::default();
    model.truncate((BLOCKS * BLOCK) as usize);
    for _ in 0..5 {
        let mut mixed = false;
        for _ in 0..30 {
            mixed = step(&device, &mut model, mixed, &mut rng);
            assert!(all(&device) == model.current, "a reader sees what was written");
        }
        volume.power_cut().unwrap();
        let left = all(&device);
        model.check("lun", &left);
        if loss_seed == 0 && !mixed {
            assert!(left == model.durable, "nothing unpromised survives");
        }
        model.current = left;
        model.flush();
    }
}

/// One access. Whether durable and unflushed writes may have met in one page since the last flush.
fn step(device: &BlockDevice, model: &mut FileModel, mixed: bool, rng: &mut Rng) -> bool {
    let first = rng.below(device.size() / BLOCK);
    let blocks = 1 + rng.below((device.size() / BLOCK - first).min(24));
    let (offset, bytes) = (first * BLOCK, blocks * BLOCK);
    let zeros = vec![0; bytes as usize];
    match rng.below(12) {
        0..=4 => {
            let data = rng.bytes(bytes as usize);
            device.write(offset, &data, Durable::OnFlush).unwrap();
            model.write(offset as usize, &data);
        }
        5 | 6 => {
            let data = rng.bytes(bytes as usize);
            let mixed = mixed || model.current != model.durable;
            device.write(offset, &data, Durable::OnReturn).unwrap();
            model.write_durably(offset as usize, &data);
            return mixed;
        }
        7 => {
            device.discard(offset, bytes).unwrap();
            model.write(offset as usize, &zeros);
        }
        8 => {
            device.write_zeroes(offset, bytes, Durable::OnFlush).unwrap();
            model.write(offset as usize, &zeros);
        }
        9 => {
            // Its flush is the file's.
            device.write_zeroes(offset, bytes, Durable::OnReturn).unwrap();
            model.write(offset as usize, &zeros);
            model.flush();
            return false;
        }
        10 => {
            let size = (BLOCKS / 2 + rng.below(BLOCKS)) * BLOCK;
            device.resize(size).unwrap();
            model.truncate(size as usize);
            return false;
        }
        _ => {
            device.flush().unwrap();
            model.flush();
            return false;
        }
    }
    mixed
}

#[test]
fn an_access_that_is_not_whole_blocks_or_not_in_range_is_refused_and_does_nothing() {
    let scratch = Scratch::new();
    let volume = scratch.open();
    let node = make_lun(&volume, "lun", 1 << 16);
    for block_bytes in [0, 256, 513, 8192] {
        assert_eq!(volume.open_device(&node, block_bytes).unwrap_err(), BlockError::BlockSize { block_bytes });
    }
    let device = volume.open_device(&node, 4096).unwrap();
    let unaligned = BlockError::Unaligned { offset: 512, bytes: 4096, block_bytes: 4096 };
    assert_eq!(device.write(512, &[1; 4096], Durable::OnReturn), Err(unaligned));
    assert!(unaligned.to_string().contains("blocks of 4096 bytes"), "{unaligned}");
    assert_eq!(device.read(0, &mut [0; 100]), Err(BlockError::Unaligned { offset: 0, bytes: 100, block_bytes: 4096 }));
    assert!(matches!(device.discard(4096, 1), Err(BlockError::Unaligned { .. })));
    let end = BlockError::OutOfRange { offset: 61_440, bytes: 8192, size: 1 << 16 };
    assert_eq!(device.write(61_440, &[1; 8192], Durable::OnFlush), Err(end));
    assert!(matches!(device.write_zeroes(u64::MAX - 4095, 4096, Durable::OnFlush), Err(BlockError::OutOfRange { .. })));
    assert!(matches!(device.discard(1 << 16, 4096), Err(BlockError::OutOfRange { .. })));
    assert!(matches!(device.resize(1000), Err(BlockError::UnalignedSize { size: 1000, block_bytes: 4096 })));
    assert!(all(&device).iter().all(|byte| *byte == 0));
    device.resize(8192).unwrap();
    assert!(matches!(device.read(8192, &mut [0; 4096]), Err(BlockError::OutOfRange { size: 8192, .. })));
    device.resize(12_288).unwrap();
    assert_eq!((device.size(), volume.attr(&node).unwrap().size), (12_288, 12_288));
}

#[test]
fn a_file_is_one_device_at_a_time_and_its_content_is_the_devices_alone() {
    let scratch = Scratch::new();
    let volume = scratch.open();
    let root = volume.root();
    let dir = make_dir(&volume, &root, "d");
    assert!(matches!(volume.open_device(&dir, 512), Err(BlockError::NotAFile { .. })));
    let odd = make_file(&volume, &root, "odd", b"x");
    assert!(matches!(volume.open_device(&odd, 512), Err(BlockError::UnalignedSize { size: 1, .. })));
    assert_eq!(volume.write(&odd, 0, b"y", Stability::Unstable), Ok(1), "a refused open leaves no mark");
    let node = make_lun(&volume, "lun", 8192);
    let device = volume.open_device(&node, 512).unwrap();
    assert!(matches!(volume.open_device(&node, 512), Err(BlockError::InUse { .. })));
    device.write(0, &[7; 512], Durable::OnFlush).unwrap();
    for stable in [Stability::Unstable, Stability::FileSync] {
        assert_eq!(volume.write(&node, 0, b"no", stable), Err(Error::Access));
        assert_eq!(volume.write_deferred(&node, 0, b"no", stable).map(drop), Err(Error::Access));
    }
    let size = SetAttr { size: Some(0), ..SetAttr::default() };
    assert_eq!(volume.set_attr(&node, &size, None), Err(Error::Access));
    assert_eq!(volume.create(&root, b"lun", CreateHow::Unchecked(size), owner()).map(drop), Err(Error::Access));
    assert_eq!(volume.remove(&root, b"lun"), Err(Error::Access));
    assert_eq!(volume.rename(&root, b"odd", &root, b"lun"), Err(Error::Access));
    let mode = SetAttr { mode: Some(0o600), ..SetAttr::default() };
    volume.set_attr(&node, &mode, None).unwrap();
    volume.commit(&node).unwrap();
    volume.rename(&root, b"lun", &dir, b"moved").unwrap();
    device.write(512, &[8; 512], Durable::OnReturn).unwrap();
    assert_eq!(content(&volume, &node).unwrap()[..1024], [[7; 512], [8; 512]].concat());
    drop(device);
    assert_eq!(volume.write(&node, 0, b"yes", Stability::Unstable), Ok(3));
    volume.remove(&dir, b"moved").unwrap();
    assert!(matches!(volume.open_device(&node, 512), Err(BlockError::Volume(Error::Stale))));
}

#[test]
fn a_discard_gives_blocks_back_and_what_is_around_it_stays() {
    let scratch = Scratch::in_memory();
    let volume = scratch.open();
    let device = open(&volume, "lun", 1 << 20);
    let blocks = || std::fs::metadata(scratch.dir().join("lun")).unwrap().blocks();
    device.write(0, &vec![9; 1 << 20], Durable::OnReturn).unwrap();
    let full = blocks();
    device.discard(512, (1 << 20) - 1024).unwrap();
    let mut expected = vec![0; 1 << 20];
    expected[..512].fill(9);
    expected[(1 << 20) - 512..].fill(9);
    assert!(all(&device) == expected);
    assert!(blocks() < full / 8, "{} of {full} blocks", blocks());
    device.write_zeroes(0, 1 << 20, Durable::OnFlush).unwrap();
    assert!(all(&device).iter().all(|byte| *byte == 0));
    assert!(blocks() >= full, "{} of {full} blocks: allocated again", blocks());
}

#[test]
fn faults_of_files_affect_devices() {
    let scratch = Scratch::in_memory();
    let volume = scratch.open();
    let device = open(&volume, "lun", 1 << 20);
    let set = |text: &str| volume.set_fault(FaultSpec::parse(text).unwrap()).unwrap();
    let failed = Err(BlockError::Volume(Error::Io(libc::EIO)));
    set("eio,on=read,path=lun,offset=4096,length=512");
    assert_eq!(device.read(4096, &mut [0; 512]), failed);
    device.read(4608, &mut [0; 512]).unwrap();
    set("enospc,on=write,path=lun,times=2");
    assert_eq!(device.discard(0, 512), Err(BlockError::Volume(Error::NoSpace)));
    assert_eq!(device.write(0, &[1; 512], Durable::OnFlush), Err(BlockError::Volume(Error::NoSpace)));
    volume.faults().clear(None);
    device.write(0, &[5; 8192], Durable::OnReturn).unwrap();
    set("torn-write,path=lun,seed=3,times=1");
    assert_eq!(device.write_zeroes(0, 8192, Durable::OnFlush), failed);
    let zeros = all(&device)[..8192].iter().filter(|byte| **byte == 0).count();
    assert!(zeros.is_multiple_of(512) && (512..8192).contains(&zeros), "{zeros} bytes: some sectors, not all");
    let epoch = device.loss_epoch();
    set("eio,on=flush,times=1");
    assert_eq!(device.flush(), failed);
    assert!(volume.is_poisoned() && device.loss_epoch() == epoch + 1);
    assert_eq!(device.flush(), Err(BlockError::Volume(Error::Poisoned)));
    assert_eq!(device.write(0, &[1; 512], Durable::OnReturn), Err(BlockError::Volume(Error::Poisoned)));
    device.read(0, &mut [0; 512]).unwrap();
}

#[test]
fn a_device_counts_in_the_quota_by_its_size() {
    let scratch = Scratch::in_memory();
    let volume = scratch.open();
    volume.set_quota(Some(1 << 20)).unwrap();
    let device = open(&volume, "lun", 1 << 19);
    device.write(0, &vec![1; 1 << 19], Durable::OnFlush).unwrap();
    assert_eq!(device.resize((1 << 20) + 512), Err(BlockError::Volume(Error::NoSpace)));
    device.resize(1 << 20).unwrap();
    device.discard(0, 1 << 20).unwrap();
    assert_eq!(volume.quota().unwrap().used_bytes, 1 << 20, "holes count");
    device.resize(0).unwrap();
    assert_eq!(volume.quota().unwrap().used_bytes, 0);
}

#[test]
fn a_quiesce_stops_changes_of_files_and_devices_until_it_is_released_and_reads_go_on() {
    let scratch = Scratch::in_memory();
    let volume = scratch.open();
    let device = open(&volume, "lun", 1 << 16);
    let root = volume.root();
    let file = make_file(&volume, &root, "f", b"old");
    std::thread::scope(|scope| {
        let quiesced = volume.quiesce(Duration::from_secs(60)).unwrap();
        assert!(quiesced.waited() < Duration::from_secs(60) && volume.is_quiesced());
        let changes = [
            scope.spawn(|| device.write(0, &[1; 512], Durable::OnFlush).map_err(|error| error.to_string())),
            scope.spawn(|| device.discard(0, 512).map_err(|error| error.to_string())),
            scope.spawn(|| volume.write(&file, 0, b"new", Stability::Unstable).map(drop).map_err(|error| error.to_string())),
            scope.spawn(|| volume.rename(&root, b"f", &root, b"g").map_err(|error| error.to_string())),
        ];
        for _ in 0..100 {
            assert_eq!(content(&volume, &file).unwrap(), b"old");
            assert!(all(&device).iter().all(|byte| *byte == 0));
            device.flush().unwrap();
        }
        volume.flush_all().unwrap();
        assert_eq!(crate::common::names(&volume, &root), [".", "..", "f", "lun"]);
        assert!(changes.iter().all(|change| !change.is_finished()));
        assert!(volume.quiesce(Duration::from_millis(1)).is_err(), "one at a time");
        quiesced.release();
        changes.into_iter().for_each(|change| assert_eq!(change.join().unwrap(), Ok(())));
    });
    assert_eq!(content(&volume, &file).unwrap(), b"new");
}

#[test]
fn a_quiesce_waits_for_the_change_in_flight_and_says_so_when_it_is_late() {
    let scratch = Scratch::in_memory();
    let volume = scratch.open();
    let device = open(&volume, "lun", 1 << 16);
    let fault = FaultSpec::parse("slow-flush,delay_ms=60000,times=1").unwrap();
    let slow = volume.set_fault(fault).unwrap();
    std::thread::scope(|scope| {
        let write = scope.spawn(|| device.write(0, &[1; 512], Durable::OnReturn));
        while volume.faults().report().injected == 0 {
            std::thread::yield_now();
        }
        let late = volume.quiesce(Duration::from_millis(10)).unwrap_err();
        assert!(matches!(late, volume::QuiesceError::InFlight { in_flight: 1, waited } if waited >= Duration::from_millis(10)));
        assert!(!volume.is_quiesced());
        let quiesced = scope.spawn(|| volume.quiesce(Duration::from_secs(60)).unwrap());
        while !volume.is_quiesced() {
            std::thread::yield_now();
        }
        assert!(!quiesced.is_finished() && !write.is_finished());
        volume.faults().clear(Some(slow));
        assert_eq!(write.join().unwrap(), Ok(()));
        drop(quiesced.join().unwrap());
    });
    device.write(0, &[2; 512], Durable::OnReturn).unwrap();
}
