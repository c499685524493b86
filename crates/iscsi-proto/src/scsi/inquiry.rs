//! INQUIRY and the vital product data pages (SPC-4 6.6, 7.8; SBC-3 6.6).

use super::call::Call;
use super::compare_and_write::compare_blocks_max;
use super::completion::{Completion, Failure};
use super::identity::{Identity, VENDOR};
use super::provisioning::write_same_blocks_max;
use super::sense::Sense;
use super::store::Store;
use super::unit::LogicalUnit;
use crate::limits::{SCSI_TRANSFER_BYTES_MAX, SCSI_UNMAP_BLOCKS_MAX, SCSI_UNMAP_DESCRIPTORS_MAX};

/// The supported pages, in ascending order.
const PAGES: [u8; 8] = [0x00, 0x80, 0x83, 0x86, 0xb0, 0xb1, 0xb2, LOSS_EPOCH_PAGE];
/// The standards of the unit (SPC-4 table 142): SAM-5, SPC-4, SBC-3 and iSCSI, without a version.
const VERSION_DESCRIPTORS: [u16; 4] = [0x00a0, 0x0460, 0x04c0, 0x0960];
/// Optimal size of a transfer, in bytes: the largest transfer of a database.
const OPTIMAL_TRANSFER_BYTES: u64 = 1 << 20;

pub(super) fn inquiry<S: Store>(unit: &LogicalUnit<S>, call: &Call<'_>, data_in: &mut [u8]) -> Result<Completion, Failure> {
    let page = call.cdb.byte(2);
    if !call.cdb.flag(0x01) {
        if page != 0 {
            return Err(Sense::cdb_field(2, None).into());
        }
        return Ok(call.reply(&standard(&unit.identity), data_in));
    }
    let body = match page {
        0x00 => PAGES.to_vec(),
        0x80 => unit.identity.serial().as_bytes().to_vec(),
        0x83 => device_identification(&unit.identity, call.nexus.relative_target_port()),
        0x86 => extended().to_vec(),
        0xb0 => block_limits(unit).to_vec(),
        0xb1 => characteristics().to_vec(),
        0xb2 => provisioning(unit.settings.thin).to_vec(),
        LOSS_EPOCH_PAGE => loss_epoch(unit.store.loss_epoch()).to_vec(),
        _ => return Err(Sense::cdb_field(2, None).into()),
    };
    let [high, low] = (body.len() as u16).to_be_bytes();
    let mut data = vec![0, page, high, low];
    data.extend_from_slice(&body);
    Ok(call.reply(&data, data_in))
}

/// The vendor-specific page with the loss epoch of the unit. An initiator resends unflushed writes if the epoch differs from that at the
/// time of these writes.
pub const LOSS_EPOCH_PAGE: u8 = 0xc0;

/// The page's body: the vendor and the epoch.
fn loss_epoch(epoch: u64) -> [u8; 16] {
    let mut body = [0; 16];
    body[..8].copy_from_slice(VENDOR.as_bytes());
    body[8..].copy_from_slice(&epoch.to_be_bytes());
    body
}

/// The loss epoch in a page that an initiator received. `None` if the page is of another vendor.
#[must_use]
pub fn read_loss_epoch(page: &[u8]) -> Option<u64> {
    let body = page.get(4..)?.strip_prefix(VENDOR.as_bytes()).filter(|_| page.get(1) == Some(&LOSS_EPOCH_PAGE))?;
    body.first_chunk().map(|epoch| u64::from_be_bytes(*epoch))
}

/// Standard INQUIRY data (SPC-4 6.6.2): a direct access block device.
fn standard(identity: &Identity) -> [u8; 96] {
    let mut data = [0; 96];
    data[2] = 0x06; // SPC-4
    data[3] = 0x12; // HISUP, response data format 2
    data[4] = 96 - 5;
    data[5] = 0x18; // TPGS 01b: implicit asymmetric access; 3PC
    data[6] = if identity.ports().len() > 1 { 0x10 } else { 0 }; // MULTIP
    data[7] = 0x02; // CMDQUE
    put_text(&mut data[8..16], VENDOR);
    put_text(&mut data[16..32], identity.product());
    put_text(&mut data[32..36], identity.revision());
    for (field, descriptor) in data[58..].chunks_exact_mut(2).zip(VERSION_DESCRIPTORS) {
        field.copy_from_slice(&descriptor.to_be_bytes());
    }
    data
}

/// Copies ASCII text to a field and fills the rest with spaces (SPC-4 4.4.1).
fn put_text(field: &mut [u8], text: &str) {
    field.fill(b' ');
    for (to, from) in field.iter_mut().zip(text.bytes()) {
        *to = from;
    }
}

/// Appends a designation descriptor (SPC-4 7.8.6.1). `code_set`: 1 binary, 2 ASCII, 3 UTF-8; `association`: 0 unit, 1 port, 2 device.
fn designator(out: &mut Vec<u8>, code_set: u8, association: u8, kind: u8, value: &[u8]) {
    // The iSCSI protocol identifier, which is valid only for ports and devices.
    let (protocol, valid) = if association == 0 { (0, 0) } else { (0x50, 0x80) };
    out.extend_from_slice(&[protocol | code_set, valid | association << 4 | kind, 0, value.len() as u8]);
    out.extend_from_slice(value);
}

/// A SCSI name string. It ends with a zero byte, and its length is a multiple of four (SPC-4 7.8.6.11).
fn name_string(name: &str) -> Vec<u8> {
    let mut value = name.as_bytes().to_vec();
    value.resize(value.len() / 4 * 4 + 4, 0);
    value
}

fn device_identification(identity: &Identity, relative_port: u16) -> Vec<u8> {
    let mut out = Vec::new();
    designator(&mut out, 1, 0, 3, &identity.naa().to_be_bytes());
    designator(&mut out, 2, 0, 1, identity.t10_vendor_id().as_bytes());
    let [high, low] = relative_port.to_be_bytes();
    designator(&mut out, 1, 1, 4, &[0, 0, high, low]);
    designator(&mut out, 1, 1, 5, &[0, 0, 0, 1]);
    if let Some(port) = identity.ports().iter().find(|port| port.relative_port == relative_port) {
        let name = format!("{},t,0x{:04x}", identity.target_name(), port.portal_group_tag);
        designator(&mut out, 3, 1, 8, &name_string(&name));
    }
    designator(&mut out, 3, 2, 8, &name_string(identity.target_name()));
    out
}

/// Extended INQUIRY Data (SPC-4 7.8.7).
fn extended() -> [u8; 60] {
    let mut body = [0; 60];
    body[1] = 0x01; // SIMPSUP
    body[2] = 0x01; // V_SUP: the write cache, when it is on, is volatile
    body
}

/// Block Limits (SBC-3 6.6.4).
fn block_limits<S: Store>(unit: &LogicalUnit<S>) -> [u8; 60] {
    let block = unit.block_bytes();
    let blocks = |bytes: u64| ((bytes / block) as u32).to_be_bytes();
    let physical = unit.physical_blocks();
    let mut body = [0; 60];
    body[0] = 0x01; // WSNZ
    body[1] = compare_blocks_max(block) as u8;
    body[2..4].copy_from_slice(&(physical as u16).to_be_bytes());
    body[4..8].copy_from_slice(&blocks(SCSI_TRANSFER_BYTES_MAX));
    body[8..12].copy_from_slice(&blocks(OPTIMAL_TRANSFER_BYTES));
    if unit.settings.thin {
        body[16..20].copy_from_slice(&(SCSI_UNMAP_BLOCKS_MAX as u32).to_be_bytes());
        body[20..24].copy_from_slice(&(SCSI_UNMAP_DESCRIPTORS_MAX as u32).to_be_bytes());
        body[24..28].copy_from_slice(&physical.to_be_bytes());
        body[28] = 0x80; // UGAVALID, alignment 0
    }
    body[32..40].copy_from_slice(&write_same_blocks_max(block).to_be_bytes());
    body
}

/// Block Device Characteristics (SBC-3 6.6.2).
fn characteristics() -> [u8; 60] {
    let mut body = [0; 60];
    body[1] = 0x01; // not a rotating medium
    body
}

/// Logical Block Provisioning (SBC-3 6.6.5).
fn provisioning(thin: bool) -> [u8; 4] {
    // LBPU, LBPWS, LBPWS10, LBPRZ; provisioning type 2h, thin.
    if thin { [0, 0xe4, 0x02, 0] } else { [0; 4] }
}

/// Standard INQUIRY data of a LUN without a unit: qualifier 011b, type 1Fh.
pub(super) fn absent() -> [u8; 36] {
    let mut data = [0; 36];
    data[0] = 0x7f;
    data[2] = 0x06;
    data[3] = 0x12;
    data[4] = 36 - 5;
    put_text(&mut data[8..16], VENDOR);
    put_text(&mut data[16..32], "");
    put_text(&mut data[32..36], "");
    data
}
