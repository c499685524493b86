//! REPORT LUNS (SPC-4 6.33, SPC-5 6.37).

use super::call::Call;
use super::completion::{Completion, Failure};
use super::sense::Sense;

/// Answers from the target's directory, for any LUN.
pub(super) fn report_luns(call: &Call<'_>, data_in: &mut [u8]) -> Result<Completion, Failure> {
    // SELECT REPORT: all except well known units; well known units; all; only administrative units; these and ordinary ones; those of a
    // conglomerate. There are only ordinary units.
    let luns = match call.cdb.byte(2) {
        0x00 | 0x02 | 0x11 => call.request.directory.luns(),
        0x01 | 0x10 | 0x12 => Vec::new(),
        _ => return Err(Sense::cdb_field(2, None).into()),
    };
    let mut data = ((luns.len() * 8) as u32).to_be_bytes().to_vec();
    data.extend_from_slice(&[0; 4]);
    for lun in &luns {
        data.extend_from_slice(&lun.to_bytes());
    }
    call.request.directory.luns_reported(call.nexus);
    Ok(call.reply(&data, data_in))
}
