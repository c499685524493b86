//! Writes to a LUN by Millrace's initiator. Each block shows which write of it was the last.

use std::time::{Duration, Instant};

use initiator::{Command, Completion, Device};
use sim::Rng;

use super::await_until;

pub const BLOCK: usize = 8192;

/// Waits until a command has ended.
pub fn next(device: &mut Device) -> Completion {
    await_until("a command to end", Duration::from_secs(60), || {
        device.turn(Some(Duration::from_millis(100)), None).unwrap();
        device.completed()
    })
}

/// Contents of a block that show its number and the version of the write.
pub fn block(number: u64, version: u64) -> Vec<u8> {
    let mut data: Vec<u8> = [number.to_le_bytes(), version.to_le_bytes()].concat();
    data.resize(BLOCK, (number * 31 + version) as u8);
    data
}

pub fn write(number: u64, version: u64) -> Command {
    Command::Write { offset: number * BLOCK as u64, data: block(number, version), fua: false }
}

/// Keeps writes of random blocks in flight, at most one for each block, and reads each block at the end.
pub struct Load {
    pub rng: Rng,
    pub versions: Vec<u64>,
    pub busy: Vec<bool>,
    pub done: u64,
    pub longest: Duration,
}

impl Load {
    pub fn new(blocks: usize, seed: u64) -> Self {
        Self { rng: Rng::new(seed), versions: vec![0; blocks], busy: vec![false; blocks], done: 0, longest: Duration::ZERO }
    }

    /// Runs until the condition is true. No write may fail.
    pub fn run(&mut self, device: &mut Device, depth: usize, mut until: impl FnMut(&Self, &Device) -> bool) {
        let mut last = Instant::now();
        loop {
            let is_over = until(self, device);
            if !is_over {
                self.keep_under_way(device, depth);
            }
            device.turn(Some(Duration::from_millis(20)), None).unwrap();
            while let Some(completion) = device.completed() {
                assert_eq!(completion.result, Ok(()));
                let number = completion.tag as usize;
                self.busy[number] = false;
                self.versions[number] += 1;
                self.done += 1;
                self.longest = self.longest.max(last.elapsed());
                last = Instant::now();
            }
            if is_over && device.under_way() == 0 {
                return;
            }
        }
    }

    /// Keeps this number of writes in flight.
    pub fn keep_under_way(&mut self, device: &mut Device, depth: usize) {
        while device.under_way() < depth {
            let number = self.rng.index(self.versions.len());
            if !std::mem::replace(&mut self.busy[number], true) {
                device.submit(number as u64, write(number as u64, self.versions[number] + 1));
            }
        }
        device.turn(None, None).unwrap();
    }

    /// Writes each block again whose write has not ended. The device that had the write is gone,
    /// and its result is unknown.
    pub fn settle(&mut self, device: &mut Device) {
        for number in (0..self.busy.len()).filter(|number| self.busy[*number]).collect::<Vec<_>>() {
            self.versions[number] += 2;
            device.submit(0, write(number as u64, self.versions[number]));
            assert_eq!(next(device).result, Ok(()));
            self.busy[number] = false;
        }
    }

    pub fn check(&self, device: &mut Device) {
        for (number, version) in self.versions.iter().enumerate().filter(|(_, version)| **version > 0) {
            device.submit(0, Command::Read { offset: (number * BLOCK) as u64, buffer: vec![0; BLOCK] });
            let Completion { command: Command::Read { buffer, .. }, result, .. } = next(device) else { panic!("not a read") };
            assert_eq!(result, Ok(()));
            assert!(buffer == block(number as u64, *version), "block {number}: not its write {version}");
        }
    }
}
