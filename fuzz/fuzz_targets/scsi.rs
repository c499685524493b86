//! Arbitrary CDBs and data of two nexuses on a small unit: nothing panics, no reply is longer than its buffer, and what is kept of
//! reservations can be read back.
#![no_main]

use std::sync::{Arc, Mutex};

use iscsi_proto::scsi::{
    Asc, Direction, Directory, Host, HostError, Identity, LogicalUnit, Lun, Nexus, Request, SENSE_BYTES_MAX, Settings, Status,
    Store, StoreError, TargetPort, execute_absent,
};
use libfuzzer_sys::fuzz_target;

const BYTES: usize = 64 * 512;

struct Memory(Mutex<Vec<u8>>);

impl Memory {
    /// The bytes of an access, which must be whole blocks within the unit.
    fn at(&self, offset: u64, bytes: usize, run: impl FnOnce(&mut [u8])) {
        assert!(offset.is_multiple_of(512) && bytes.is_multiple_of(512));
        run(&mut self.0.lock().unwrap()[offset as usize..][..bytes]);
    }
}

impl Store for Memory {
    fn size_bytes(&self) -> u64 {
        BYTES as u64
    }

    fn block_bytes(&self) -> u32 {
        512
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError> {
        self.at(offset, buffer.len(), |bytes| buffer.copy_from_slice(bytes));
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8], _durable: bool) -> Result<(), StoreError> {
        self.at(offset, data.len(), |bytes| bytes.copy_from_slice(data));
        Ok(())
    }

    fn write_zeroes(&self, offset: u64, bytes: u64, _durable: bool) -> Result<(), StoreError> {
        self.at(offset, bytes as usize, |bytes| bytes.fill(0));
        Ok(())
    }

    fn unmap(&self, offset: u64, bytes: u64) -> Result<(), StoreError> {
        self.write_zeroes(offset, bytes, false)
    }

    fn flush(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn loss_epoch(&self) -> u64 {
        0
    }
}

struct Keep(Arc<Mutex<Vec<u8>>>);

impl Host for Keep {
    fn keep_reservations(&self, bytes: &[u8]) -> Result<(), HostError> {
        *self.0.lock().unwrap() = bytes.to_vec();
        Ok(())
    }

    fn abort_commands(&self, _nexus: &Nexus) {}
}

struct OneLun;

impl Directory for OneLun {
    fn luns(&self) -> Vec<Lun> {
        Lun::new(0).into_iter().collect()
    }

    fn luns_reported(&self, _nexus: &Nexus) {}
}

fn unit(kept: &Arc<Mutex<Vec<u8>>>) -> LogicalUnit<Memory> {
    let port = |relative_port| TargetPort { relative_port, portal_group_tag: 1 };
    let identity = Identity::new("LUN", "1", "fuzz", 1, "iqn.2026-01.example:t", &[port(1), port(2)]).unwrap();
    let bytes = kept.lock().unwrap().clone();
    let settings = Settings { thin: true, ..Settings::default() };
    LogicalUnit::new(Memory(Mutex::new(vec![0; BYTES])), identity, settings, Box::new(Keep(kept.clone())), &bytes).unwrap()
}

// A command: a byte that chooses nexus and what happens beside, two bytes of expected length, 16 of CDB, and data for it.
fuzz_target!(|input: &[u8]| {
    let nexuses = [1, 2].map(|number| Nexus::new("iqn.2026-01.example:h", [0, 0, 0, 0, 0, number], 1).unwrap());
    let kept = Arc::new(Mutex::new(Vec::new()));
    let unit_now = unit(&kept);
    let mut rest = input;
    while let Some((&[how, high, low], after)) = rest.split_first_chunk::<3>() {
        let Some((cdb, after)) = after.split_at_checked(16) else { break };
        let from = &nexuses[usize::from(how & 1)];
        let expected = unit_now.expected_data(cdb);
        let announced =
            if how & 2 == 0 { expected.bytes.min(1 << 20) as u32 } else { u32::from(u16::from_be_bytes([high, low])) };
        let out = if expected.direction == Direction::Out { (announced as usize).min(after.len()) } else { 0 };
        let (data_out, after) = after.split_at(out);
        // Data that is not there is zeros, so that long writes need no long input.
        let mut data_out = data_out.to_vec();
        data_out.resize(if expected.direction == Direction::Out { announced as usize } else { 0 }, 0);
        let mut data_in =
            vec![0; if expected.direction == Direction::In { expected.bytes.min(u64::from(announced)) as usize } else { 0 }];
        let request = Request { cdb, expected_bytes: announced, data_out: &data_out, directory: &OneLun };
        match how >> 4 {
            15 => unit_now.attach(from, Some(Asc::POWER_ON_OCCURRED)),
            14 => unit_now.detach(from),
            13 => unit_now.reset(Asc::BUS_DEVICE_RESET_FUNCTION_OCCURRED),
            _ => {}
        }
        let completion = if how & 12 == 12 {
            execute_absent(from, &request, &mut data_in)
        } else {
            unit_now.execute(from, &request, &mut data_in)
        };
        assert!(completion.data_in_bytes <= data_in.len());
        assert!(completion.data_in_bytes as u64 <= completion.transfer_bytes);
        assert_eq!(completion.sense.is_some(), completion.status == Status::CheckCondition);
        if let Some(sense) = completion.sense {
            let mut bytes = [0; SENSE_BYTES_MAX];
            assert!(sense.encode(&mut bytes) <= SENSE_BYTES_MAX);
        }
        let _ = completion.residual(announced);
        rest = after;
    }
    unit(&kept);
});
