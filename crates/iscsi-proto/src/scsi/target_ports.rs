//! REPORT TARGET PORT GROUPS (SPC-4 6.37): one group in the state active/optimized, which only the target could change.

use super::call::Call;
use super::completion::{Completion, Failure};
use super::identity::Identity;
use super::sense::Sense;

/// The number of the group, also in the Device Identification VPD page.
const GROUP: u16 = 1;
/// AO_SUP: active/optimized is the only state supported.
const STATES: u8 = 0x01;

pub(super) fn report_target_port_groups(identity: &Identity, call: &Call<'_>, data_in: &mut [u8]) -> Result<Completion, Failure> {
    // PARAMETER DATA FORMAT: length only, or an extended header.
    let extended = match call.cdb.byte(1) >> 5 {
        0 => false,
        1 => true,
        _ => return Err(Sense::cdb_field(1, Some(7)).into()),
    };
    let mut data = vec![0; 4];
    if extended {
        data.extend_from_slice(&[0x10, 0, 0, 0]);
    }
    let [high, low] = GROUP.to_be_bytes();
    // State 0h: active/optimized; STATUS CODE 0: no change.
    data.extend_from_slice(&[0, STATES, high, low, 0, 0, 0, identity.ports().len() as u8]);
    for port in identity.ports() {
        let [high, low] = port.relative_port.to_be_bytes();
        data.extend_from_slice(&[0, 0, high, low]);
    }
    let length = (data.len() - 4) as u32;
    if let Some(field) = data.get_mut(..4) {
        field.copy_from_slice(&length.to_be_bytes());
    }
    Ok(call.reply(&data, data_in))
}
