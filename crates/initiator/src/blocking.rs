//! A LUN for programs that do one thing at a time.

use crate::command::{Command, Completion, Failure};
use crate::device::Device;
use crate::error::Error;
use crate::options::Options;
use crate::url::IscsiUrl;
use std::time::Duration;

/// The wait of one turn. The device itself ends commands.
const WAIT: Duration = Duration::from_secs(1);

/// Reads and writes that wait for their end. Ranges longer than one command are split; the parts are in progress
/// together.
pub struct Blocking {
    device: Device,
}

impl Blocking {
    /// As [`Device::open`].
    ///
    /// # Errors
    /// As [`Device::open`].
    pub fn open(url: &IscsiUrl, options: Options) -> Result<Self, Error> {
        Ok(Self { device: Device::open(url, options)? })
    }

    /// The LUN.
    #[must_use]
    pub const fn device(&self) -> &Device {
        &self.device
    }

    /// Reads `bytes` bytes.
    ///
    /// # Errors
    /// [`Failure`] of the first part that failed.
    pub fn read(&mut self, offset: u64, bytes: usize) -> Result<Vec<u8>, Failure> {
        let part = self.device.geometry().transfer_bytes_max as usize;
        let starts = (0..bytes).step_by(part.max(1));
        let commands =
            starts.map(|start| Command::Read { offset: offset + start as u64, buffer: vec![0; part.min(bytes - start)] });
        let mut data = vec![0; bytes];
        for completion in self.run(commands.collect())? {
            if let Command::Read { offset: at, buffer } = completion.command {
                let start = (at - offset) as usize;
                if let Some(to) = data.get_mut(start..start + buffer.len()) {
                    to.copy_from_slice(&buffer);
                }
            }
        }
        Ok(data)
    }

    /// Writes. With `fua` the data is durable when this returns, even if the LUN has a volatile
    /// cache.
    ///
    /// # Errors
    /// [`Failure`] of the first part that failed: the others may have been written.
    pub fn write(&mut self, offset: u64, data: &[u8], fua: bool) -> Result<(), Failure> {
        let part = self.device.geometry().transfer_bytes_max.max(1) as usize;
        let starts = (0..).step_by(part);
        let commands = starts.zip(data.chunks(part)).map(|(start, data)| Command::Write {
            offset: offset + start,
            data: data.to_vec(),
            fua,
        });
        self.run(commands.collect()).map(|_| ())
    }

    /// Makes the previous writes durable.
    ///
    /// # Errors
    /// [`Failure`] of the flush.
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.run(vec![Command::Flush]).map(|_| ())
    }

    /// Runs commands together; they have no order.
    ///
    /// # Errors
    /// [`Failure`] of the first that failed, after all have ended.
    pub fn run(&mut self, commands: Vec<Command>) -> Result<Vec<Completion>, Failure> {
        let count = commands.len();
        commands.into_iter().zip(0..).for_each(|(command, tag)| self.device.submit(tag, command));
        let mut ended = Vec::with_capacity(count);
        while ended.len() < count {
            while let Some(completion) = self.device.completed() {
                ended.push(completion);
            }
            if ended.len() < count && self.device.turn(Some(WAIT), None).is_err() {
                // A portal leads to another LUN: nothing more may be sent.
                return Err(Failure::NoPath);
            }
        }
        ended.iter().find_map(|completion| completion.result.err()).map_or(Ok(()), Err)?;
        Ok(ended)
    }

    /// Ends the sessions.
    pub fn close(self) {
        self.device.close();
    }
}
