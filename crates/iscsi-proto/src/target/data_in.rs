//! Data-In PDUs for data that is already in the reply buffer.

use super::mark::{Mark, Residual};
use super::tasks::{Table, Task};
use crate::pdu::{self, BHS_BYTES, DIGEST_BYTES, DataIn, Lun, Ttt};
use crate::serial::{CmdSn, DataSn};

/// A data segment of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    offset: usize,
    bytes: usize,
    ends_burst: bool,
}

/// Splits data into segments that the peer accepts, in bursts of the negotiated length. All segments but the last are multiples of
/// 4 bytes.
#[derive(Clone, Copy)]
struct Cut {
    total: usize,
    segment: usize,
    burst: usize,
}

impl Cut {
    fn new(total: usize, segment_max: u32, burst_max: u32) -> Self {
        // The negotiation keeps both at 512 or more.
        let burst = (burst_max.max(512) & !3) as usize;
        Self { total, segment: ((segment_max.max(512) & !3) as usize).min(burst), burst }
    }

    fn count(self) -> usize {
        let per_burst = self.burst.div_ceil(self.segment);
        self.total / self.burst * per_burst + (self.total % self.burst).div_ceil(self.segment)
    }

    fn piece(self, number: usize) -> Piece {
        let per_burst = self.burst.div_ceil(self.segment);
        let in_burst = number % per_burst * self.segment;
        let offset = number / per_burst * self.burst + in_burst;
        let burst_left = self.burst - in_burst;
        let bytes = self.segment.min(burst_left).min(self.total - offset);
        let ends_burst = bytes == burst_left || offset + bytes == self.total;
        Piece { offset, bytes, ends_burst }
    }
}

/// Writes the headers for the data after the header space at `at`, and moves the data if it takes several PDUs. Returns the number
/// of PDUs. With `status`, the last PDU carries the status GOOD.
pub(super) fn lay_out(table: &Table, out: &mut Vec<u8>, at: usize, task: &Task, status: Option<Residual>) -> u32 {
    let digests = table.digests();
    let (header_bytes, data_digest) = (BHS_BYTES + digests.header_bytes(), digests.data);
    let between = header_bytes + if data_digest { DIGEST_BYTES } else { 0 };
    let total = out.len() - at - header_bytes;
    let cut = Cut::new(total, table.send_segment_bytes_max(), table.parameters().max_burst_bytes);
    let count = cut.count();
    let padding = pdu::padded(total) - total; // only of the last PDU
    out.resize(at + count * between + total + padding, 0);
    for number in (0..count).rev() {
        let piece = cut.piece(number);
        let start = at + number * between + piece.offset;
        let data = start + header_bytes;
        let from = at + header_bytes + piece.offset;
        if number > 0 {
            out.copy_within(from..from + piece.bytes, data);
        }
        let is_last = number + 1 == count;
        let padded = piece.bytes + if is_last { padding } else { 0 };
        if is_last && padding > 0 {
            // Moved data may have been at this position.
            out.iter_mut().skip(data + piece.bytes).take(padding).for_each(|byte| *byte = 0);
        }
        if data_digest {
            let digest = pdu::crc32c(out.get(data..data + padded).unwrap_or_default());
            write(out, data + padded, &digest.to_le_bytes());
        }
        let mut bhs = header(task, number, piece, status.filter(|_| is_last)).to_bhs();
        bhs.set_data_bytes(piece.bytes);
        write(out, start, &bhs.0);
    }
    count as u32
}

fn header(task: &Task, number: usize, piece: Piece, status: Option<Residual>) -> DataIn {
    let residual = status.unwrap_or_default();
    let mark = if status.is_some() { Mark::status(task.slot) } else { Mark::data(task.slot) };
    DataIn {
        is_final: piece.ends_burst,
        acknowledge: false,
        overflow: residual.overflow,
        underflow: residual.underflow,
        has_status: status.is_some(),
        status: 0,
        lun: Lun::default(),
        itt: task.itt,
        ttt: Ttt::NONE,
        stat_sn: mark.as_stat_sn(),
        exp_cmd_sn: CmdSn(0),
        max_cmd_sn: CmdSn(0),
        data_sn: DataSn(number as u32),
        buffer_offset: piece.offset as u32,
        residual_bytes: residual.bytes,
    }
}

fn write(out: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(to) = out.get_mut(at..at + bytes.len()) {
        to.copy_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_the_data_in_order_within_segments_and_bursts() {
        for (segment, burst) in
            [(512, 512), (512, 1024), (8192, 262_144), (262_144, 4096), (700, 1700), (515, 2049), (1 << 20, 1 << 20)]
        {
            for total in [1, 511, 512, 513, 1024, 1700, 4096, 5000, 262_145] {
                let cut = Cut::new(total, segment, burst);
                let pieces: Vec<Piece> = (0..cut.count()).map(|number| cut.piece(number)).collect();
                let mut at = 0;
                let mut burst_bytes = 0;
                for piece in &pieces {
                    assert_eq!(piece.offset, at);
                    assert!(piece.bytes > 0 && piece.bytes <= segment as usize);
                    at += piece.bytes;
                    burst_bytes += piece.bytes;
                    assert!(burst_bytes <= burst as usize);
                    assert!(at == total || piece.bytes.is_multiple_of(4));
                    burst_bytes = if piece.ends_burst { 0 } else { burst_bytes };
                }
                assert_eq!(at, total, "segment {segment}, burst {burst}");
                assert!(pieces.last().unwrap().ends_burst);
            }
        }
    }
}
