//! MODE SENSE (6) and (10) (SPC-4 6.11, 6.12).

use super::call::Call;
use super::completion::{Completion, Failure};
use super::mode_pages::{Bits, PAGES, Values, page};
use super::sense::{Asc, Sense};
use super::store::Store;
use super::unit::LogicalUnit;

const DISABLE_BLOCK_DESCRIPTORS: u8 = 0x08;
const LONG_LBA_ACCEPTED: u8 = 0x10;
const WRITE_PROTECTED: u8 = 0x80;
const DPOFUA: u8 = 0x10;
const ALL_PAGES: u8 = 0x3f;
const ALL_SUBPAGES: u8 = 0xff;

pub(super) fn mode_sense<S: Store>(unit: &LogicalUnit<S>, call: &Call<'_>, data_in: &mut [u8]) -> Result<Completion, Failure> {
    let values = match call.cdb.byte(2) >> 6 {
        0 => Values::Current,
        1 => Values::Changeable,
        2 => Values::Default,
        _ => return Err(Sense::illegal(Asc::SAVING_PARAMETERS_NOT_SUPPORTED).into()),
    };
    let code = call.cdb.byte(2) & ALL_PAGES;
    let subpage = call.cdb.byte(3);
    if subpage != 0 && subpage != ALL_SUBPAGES {
        return Err(Sense::cdb_field(3, None).into());
    }
    let (current, default) = (unit.modes.bits(), Bits::default_of(unit.settings.write_cache));
    let pages: Vec<u8> = match code {
        ALL_PAGES => PAGES.iter().flat_map(|code| page(*code, values, current, default)).collect(),
        code => page(code, values, current, default),
    };
    if pages.is_empty() {
        return Err(Sense::cdb_field(2, Some(5)).into());
    }
    let long = call.cdb.info.length == 10;
    let descriptor = match () {
        () if call.cdb.flag(DISABLE_BLOCK_DESCRIPTORS) => Vec::new(),
        () if long && call.cdb.flag(LONG_LBA_ACCEPTED) => long_descriptor(unit),
        () => short_descriptor(unit),
    };
    let protected = unit.settings.read_only || unit.has_failed();
    let specific = DPOFUA | if protected { WRITE_PROTECTED } else { 0 };
    let mut data = if long {
        let length = ((6 + descriptor.len() + pages.len()) as u16).to_be_bytes();
        let long_lba = u8::from(descriptor.len() == 16);
        vec![length[0], length[1], 0, specific, long_lba, 0, 0, descriptor.len() as u8]
    } else {
        vec![(3 + descriptor.len() + pages.len()) as u8, 0, specific, descriptor.len() as u8]
    };
    data.extend_from_slice(&descriptor);
    data.extend_from_slice(&pages);
    Ok(call.reply(&data, data_in))
}

/// The short LBA mode parameter block descriptor (SBC-3 6.5.2.2).
pub(super) fn short_descriptor<S: Store>(unit: &LogicalUnit<S>) -> Vec<u8> {
    let blocks = u32::try_from(unit.block_count()).unwrap_or(u32::MAX);
    [blocks.to_be_bytes(), unit.store.block_bytes().to_be_bytes()].concat()
}

/// The long LBA mode parameter block descriptor (SBC-3 6.5.2.3).
pub(super) fn long_descriptor<S: Store>(unit: &LogicalUnit<S>) -> Vec<u8> {
    let mut descriptor = unit.block_count().to_be_bytes().to_vec();
    descriptor.extend_from_slice(&[0; 4]);
    descriptor.extend_from_slice(&unit.store.block_bytes().to_be_bytes());
    descriptor
}
