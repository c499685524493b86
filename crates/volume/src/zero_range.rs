//! Zeroes bytes of a file, with allocated space or as a hole. Writes zeros if the host does not support that.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::descriptor::Descriptor;
use crate::error::Error;
use crate::faults::Torn;
use crate::limits::{ZERO_BUFFER_BYTES, ZERO_BYTES_MAX};
use crate::node::Node;
use crate::sys::{self, ZeroRange};
use crate::volume::VolumeInner;
use crate::write::write_fully;

impl VolumeInner {
    /// Zeroes bytes of a file below its size. A range larger than [`ZERO_BYTES_MAX`] is several changes, in order.
    ///
    /// **Durability**: not durable until a flush of the file.
    pub(crate) fn zero(&self, node: &Node, offset: u64, bytes: u64, how: ZeroRange) -> Result<(), Error> {
        let mut done = 0;
        while done < bytes {
            let piece = (bytes - done).min(ZERO_BYTES_MAX);
            self.zero_piece(node, offset + done, piece as usize, how)?;
            done += piece;
        }
        Ok(())
    }

    fn zero_piece(&self, node: &Node, offset: u64, bytes: usize, how: ZeroRange) -> Result<(), Error> {
        let mut change = self.begin_change();
        let (descriptor, growth, _other) = self.to_write(node, offset, bytes)?;
        if let Some(loss) = &mut change.loss {
            loss.before_write(&node.0.identity, &*descriptor, offset, bytes)?;
        }
        match self.write_fault(node, offset, bytes)? {
            None => self.zero_on_host(node, &descriptor, offset, bytes, how)?,
            Some(torn) => {
                let (Torn::Fails(pieces) | Torn::Lies(pieces)) = &torn;
                for piece in pieces {
                    self.zero_on_host(node, &descriptor, offset + piece.start as u64, piece.len(), how)?;
                }
                if let Torn::Fails(_) = torn {
                    return Err(Error::Io(libc::EIO));
                }
            }
        }
        growth.arrived();
        Ok(())
    }

    fn zero_on_host(&self, node: &Node, descriptor: &Descriptor, offset: u64, bytes: usize, how: ZeroRange) -> Result<(), Error> {
        let _in_flight = self.begin_buffered(node);
        node.0.mark_change();
        let supported = match how {
            ZeroRange::Allocated => &self.zero_range,
            ZeroRange::Hole => &self.punch_hole,
        };
        let zeroed = match zero_by_host(descriptor, offset, bytes, how, supported) {
            Ok(true) => Ok(0),
            Ok(false) => self.write_zeros(descriptor, offset, bytes).map(|()| bytes),
            Err(error) => Err(error),
        };
        node.0.mark_cached(*zeroed.as_ref().unwrap_or(&bytes));
        zeroed.map(drop).map_err(Error::from)
    }

    fn write_zeros(&self, descriptor: &Descriptor, offset: u64, bytes: usize) -> io::Result<()> {
        let zeros = vec![0; bytes.min(ZERO_BUFFER_BYTES)];
        let mut done = 0;
        while done < bytes {
            let (piece, at) = (&zeros[..zeros.len().min(bytes - done)], offset + done as u64);
            done += write_fully(piece, |written| {
                self.through_cache(|flag| sys::pwrite_with(descriptor, &piece[written..], at + written as u64, flag))
            })?;
        }
        Ok(())
    }
}

/// Lets the host zero a range. Returns false if it does not support that, which is then noted in `supported`.
fn zero_by_host(descriptor: &Descriptor, offset: u64, bytes: usize, how: ZeroRange, supported: &AtomicBool) -> io::Result<bool> {
    if !supported.load(Ordering::Relaxed) {
        return Ok(false);
    }
    match sys::zero_range(descriptor, offset, bytes as u64, how) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::ENODEV)) => {
            supported.store(false, Ordering::Relaxed);
            Ok(false)
        }
        other => other.map(|()| true),
    }
}
