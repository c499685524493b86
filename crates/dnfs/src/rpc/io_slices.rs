//! Byte ranges over lists of buffers, and lists of segments of fixed size for one system call.

use crate::limits::SEGMENTS_MAX;
use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;

/// Room for a head, [`SEGMENTS_MAX`] segments of payload and a tail.
pub(crate) const LONG: usize = SEGMENTS_MAX + 2;
/// Room for a head, one or two segments and a tail: a page is one segment, and a short list is quicker to lay out.
pub(crate) const SHORT: usize = 4;

/// Segments to be sent by one call.
#[derive(Debug)]
pub(crate) struct SendList<'a, const N: usize> {
    segments: [IoSlice<'a>; N],
    count: usize,
}

impl<'a, const N: usize> SendList<'a, N> {
    pub(crate) fn new() -> Self {
        Self { segments: [IoSlice::new(&[]); N], count: 0 }
    }

    /// Appends bytes. Returns false if the list is full.
    pub(crate) fn push(&mut self, bytes: &'a [u8]) -> bool {
        if bytes.is_empty() {
            return true;
        }
        let Some(slot) = self.segments.get_mut(self.count) else { return false };
        *slot = IoSlice::new(bytes);
        self.count += 1;
        true
    }

    /// Appends the bytes `range` of the concatenated buffers. Returns false if the list is full.
    pub(crate) fn push_range(&mut self, buffers: &'a [IoSlice<'_>], range: Range<usize>) -> bool {
        let mut start = 0;
        for buffer in buffers {
            let end = start + buffer.len();
            let part = overlap(start..end, &range);
            if let Some(bytes) = buffer.get(part)
                && !self.push(bytes)
            {
                return false;
            }
            if end >= range.end {
                break;
            }
            start = end;
        }
        true
    }

    pub(crate) fn as_slice(&self) -> &[IoSlice<'a>] {
        self.segments.get(..self.count).unwrap_or_default()
    }
}

/// Segments to be received into by one call.
#[derive(Debug)]
pub(crate) struct ReceiveList<'a, const N: usize> {
    segments: [IoSliceMut<'a>; N],
    count: usize,
}

impl<'a, const N: usize> ReceiveList<'a, N> {
    pub(crate) fn new() -> Self {
        Self { segments: std::array::from_fn(|_| IoSliceMut::new(&mut [])), count: 0 }
    }

    /// Appends a buffer. Returns false if the list is full.
    pub(crate) fn push(&mut self, bytes: &'a mut [u8]) -> bool {
        if bytes.is_empty() {
            return true;
        }
        let Some(slot) = self.segments.get_mut(self.count) else { return false };
        *slot = IoSliceMut::new(bytes);
        self.count += 1;
        true
    }

    /// Appends the bytes `range` of the concatenated buffers. Returns false if the list is full. One place is kept
    /// free.
    pub(crate) fn push_range(&mut self, buffers: &'a mut [IoSliceMut<'_>], range: Range<usize>) -> bool {
        let mut start = 0;
        for buffer in buffers {
            let end = start + buffer.len();
            let part = overlap(start..end, &range);
            if !part.is_empty() && self.count + 1 >= N {
                return false;
            }
            if let Some(bytes) = buffer.get_mut(part) {
                self.push(bytes);
            }
            if end >= range.end {
                break;
            }
            start = end;
        }
        true
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [IoSliceMut<'a>] {
        self.segments.get_mut(..self.count).unwrap_or_default()
    }
}

/// Bytes in all buffers.
pub(crate) fn total(buffers: &[impl std::ops::Deref<Target = [u8]>]) -> usize {
    buffers.iter().map(|buffer| buffer.len()).sum()
}

/// Copies `from` to position `at` of the concatenated buffers. What does not fit is left out.
pub(crate) fn copy_in(buffers: &mut [IoSliceMut<'_>], at: usize, from: &[u8]) {
    let range = at..at + from.len();
    let mut start = 0;
    for buffer in buffers {
        let end = start + buffer.len();
        let part = overlap(start..end, &range);
        if let Some(to) = buffer.get_mut(part.clone())
            && let Some(from) = from.get((start + part.start).saturating_sub(at)..)
            && let Some(from) = from.get(..to.len())
        {
            to.copy_from_slice(from);
        }
        start = end;
    }
}

/// Copies from position `at` of the concatenated buffers into `to`.
pub(crate) fn copy_out(buffers: &[IoSliceMut<'_>], at: usize, to: &mut [u8]) {
    let range = at..at + to.len();
    let mut start = 0;
    for buffer in buffers {
        let end = start + buffer.len();
        let part = overlap(start..end, &range);
        if let Some(from) = buffer.get(part.clone())
            && let Some(to) = to.get_mut((start + part.start).saturating_sub(at)..)
            && let Some(to) = to.get_mut(..from.len())
        {
            to.copy_from_slice(from);
        }
        start = end;
    }
}

/// The part of `buffer` (its place among all bytes) that lies in `range`, counted from the buffer's start.
pub(crate) fn overlap(buffer: Range<usize>, range: &Range<usize>) -> Range<usize> {
    let from = range.start.clamp(buffer.start, buffer.end);
    let to = range.end.clamp(from, buffer.end);
    from - buffer.start..to - buffer.start
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_range_of_a_list_is_the_range_of_its_bytes() {
        let parts: [&[u8]; 4] = [b"abc", b"", b"defgh", b"i"];
        let buffers: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let whole = parts.concat();
        for start in 0..=whole.len() {
            for end in start..=whole.len() {
                let mut list = SendList::<LONG>::new();
                assert!(list.push_range(&buffers, start..end));
                let got: Vec<u8> = list.as_slice().iter().flat_map(|part| part.to_vec()).collect();
                assert_eq!(got, whole[start..end]);
            }
        }
    }

    #[test]
    fn copies_in_and_out_meet_at_every_position() {
        for at in 0..=9 {
            for length in 0..=9 - at {
                let (mut a, mut b, mut c) = ([0u8; 3], [0u8; 5], [0u8; 1]);
                let mut buffers = [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b), IoSliceMut::new(&mut c)];
                let bytes: Vec<u8> = (1..=length as u8).collect();
                copy_in(&mut buffers, at, &bytes);
                let mut whole = [0; 9];
                copy_out(&buffers, 0, &mut whole);
                let mut part = vec![0; length];
                copy_out(&buffers, at, &mut part);
                assert_eq!(part, bytes);
                assert_eq!(whole.iter().filter(|&&byte| byte != 0).count(), length);
            }
        }
    }

    #[test]
    fn a_full_list_says_so() {
        let byte = [0u8; 1];
        let many: Vec<IoSlice<'_>> = (0..100).map(|_| IoSlice::new(&byte)).collect();
        let mut list = SendList::<LONG>::new();
        assert!(!list.push_range(&many, 0..100));
        assert_eq!(list.as_slice().len(), LONG);
    }
}
