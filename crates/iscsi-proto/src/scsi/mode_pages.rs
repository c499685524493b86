//! The mode pages: Caching and Control (SBC-3 6.5.5, SPC-4 7.5.8).

use std::sync::atomic::{AtomicBool, Ordering};

/// The values that MODE SENSE requests (SPC-4 6.11, PC).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Values {
    /// The current values.
    Current,
    /// A mask of the bits that MODE SELECT may change.
    Changeable,
    /// The default values.
    Default,
}

/// The state that MODE SELECT can change.
pub(super) struct ModeState {
    write_cache: AtomicBool,
    descriptor_sense: AtomicBool,
}

/// The bits of the pages that can be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bits {
    pub(super) write_cache: bool,
    pub(super) descriptor_sense: bool,
}

pub(super) const CACHING: u8 = 0x08;
pub(super) const CONTROL: u8 = 0x0a;
/// The pages in ascending order, in which MODE SENSE returns all pages.
pub(super) const PAGES: [u8; 2] = [CACHING, CONTROL];

const WCE: u8 = 0x04;
const D_SENSE: u8 = 0x04;

impl ModeState {
    pub(super) fn new(write_cache: bool) -> Self {
        Self { write_cache: AtomicBool::new(write_cache), descriptor_sense: AtomicBool::new(false) }
    }

    pub(super) fn has_write_cache(&self) -> bool {
        self.write_cache.load(Ordering::SeqCst)
    }

    pub(super) fn has_descriptor_sense(&self) -> bool {
        self.descriptor_sense.load(Ordering::SeqCst)
    }

    pub(super) fn bits(&self) -> Bits {
        Bits { write_cache: self.has_write_cache(), descriptor_sense: self.has_descriptor_sense() }
    }

    pub(super) fn set(&self, bits: Bits) {
        self.write_cache.store(bits.write_cache, Ordering::SeqCst);
        self.descriptor_sense.store(bits.descriptor_sense, Ordering::SeqCst);
    }
}

impl Bits {
    /// The defaults of a unit.
    pub(super) const fn default_of(write_cache: bool) -> Self {
        Self { write_cache, descriptor_sense: false }
    }

    /// The mask of the bits that can be changed. A unit without a write cache remains without one, because other initiators rely on it.
    /// SWP (SPC-4 7.5.8) can never be changed, because one initiator would write-protect the unit for all.
    const fn changeable(default: Self) -> Self {
        Self { write_cache: default.write_cache, descriptor_sense: true }
    }

    /// Takes the bits from a page that MODE SELECT sent.
    pub(super) fn take(&mut self, page: &[u8]) {
        let bit = |at: usize, mask: u8| page.get(at).is_some_and(|byte| byte & mask != 0);
        match page.first().map(|byte| byte & 0x3f) {
            Some(CACHING) => self.write_cache = bit(2, WCE),
            Some(CONTROL) => self.descriptor_sense = bit(2, D_SENSE),
            _ => {}
        }
    }
}

/// A page with its header. Empty if the page is not one of [`PAGES`].
pub(super) fn page(code: u8, values: Values, current: Bits, default: Bits) -> Vec<u8> {
    let bits = match values {
        Values::Current => current,
        Values::Changeable => Bits::changeable(default),
        Values::Default => default,
    };
    let mask = values == Values::Changeable;
    match code {
        CACHING => {
            let mut page = vec![0; 20];
            page[0] = CACHING;
            page[1] = 18;
            page[2] = if bits.write_cache { WCE } else { 0 };
            page
        }
        CONTROL => {
            let mut page = vec![0; 12];
            page[0] = CONTROL;
            page[1] = 10;
            page[2] = if bits.descriptor_sense { D_SENSE } else { 0 };
            // QUEUE ALGORITHM MODIFIER 1: commands in progress at the same time have no order.
            page[3] = if mask { 0 } else { 0x10 };
            if !mask {
                // BUSY TIMEOUT PERIOD: unlimited.
                page[8..10].copy_from_slice(&[0xff, 0xff]);
            }
            page
        }
        _ => Vec::new(),
    }
}
