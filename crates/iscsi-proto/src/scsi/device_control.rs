//! TEST UNIT READY, REQUEST SENSE, START STOP UNIT, PREVENT ALLOW MEDIUM REMOVAL, SEND DIAGNOSTIC and READ DEFECT DATA.

use super::call::Call;
use super::completion::{Completion, Failure};
use super::sense::{Asc, SENSE_BYTES_MAX, Sense, SenseKey};
use super::store::Store;
use super::unit::LogicalUnit;

const START: u8 = 0x01;
const LOAD_EJECT: u8 = 0x02;
const NO_FLUSH: u8 = 0x04;
const POWER_CONDITION: u8 = 0xf0;

/// Returns the condition that waits for the nexus as parameter data, once, with GOOD (SPC-4 6.39).
pub(super) fn request_sense<S: Store>(unit: &LogicalUnit<S>, call: &Call<'_>, data_in: &mut [u8]) -> Completion {
    let waiting = unit.attentions.take(call.nexus).map(super::attention::Condition::sense);
    sense_data(call, waiting.unwrap_or(Sense::new(SenseKey::NoSense, Asc::NONE)), data_in)
}

/// The parameter data of REQUEST SENSE. The DESC bit of the CDB selects its format.
pub(super) fn sense_data(call: &Call<'_>, mut sense: Sense, data_in: &mut [u8]) -> Completion {
    sense.descriptor_format = call.cdb.flag(0x01);
    let mut data = [0; SENSE_BYTES_MAX];
    let length = sense.encode(&mut data);
    call.reply(data.get(..length).unwrap_or_default(), data_in)
}

/// A stop only flushes. Otherwise one initiator could stop the unit for all. The medium is not removable, so it is not ejected or
/// loaded, and there are no power conditions (SBC-3 5.25).
pub(super) fn start_stop<S: Store>(unit: &LogicalUnit<S>, call: &Call<'_>) -> Result<Completion, Failure> {
    let byte = call.cdb.byte(4);
    if byte & POWER_CONDITION != 0 {
        return Err(Sense::cdb_field(4, Some(7)).into());
    }
    if call.cdb.byte(3) != 0 {
        // POWER CONDITION MODIFIER.
        return Err(Sense::cdb_field(3, Some(3)).into());
    }
    if byte & LOAD_EJECT != 0 {
        return Err(Sense::cdb_field(4, Some(1)).into());
    }
    let stop = byte & START == 0;
    if stop && byte & NO_FLUSH == 0 && !unit.has_failed() {
        unit.flush(call.nexus)?;
    }
    Ok(Completion::good(0, 0))
}

/// Accepts both values, because no medium can be removed. Refuses the obsolete values of SPC-4.
pub(super) fn prevent_allow(call: &Call<'_>) -> Result<Completion, Failure> {
    if call.cdb.byte(4) > 1 { Err(Sense::cdb_field(4, Some(1)).into()) } else { Ok(Completion::good(0, 0)) }
}

/// The default self-test (SPC-4 6.42) does nothing: any fault that it could find, an access finds too.
pub(super) fn send_diagnostic(call: &Call<'_>) -> Result<Completion, Failure> {
    if call.cdb.flag(0x04) { Ok(Completion::good(0, 0)) } else { Err(Sense::cdb_field(1, Some(2)).into()) }
}

/// An empty defect list in the requested format (SBC-3 5.18).
pub(super) fn read_defect_data(call: &Call<'_>, data_in: &mut [u8]) -> Completion {
    if call.cdb.info.length == 10 {
        let asked = call.cdb.byte(2) & 0x1f;
        call.reply(&[0, asked, 0, 0], data_in)
    } else {
        let asked = call.cdb.byte(1) & 0x1f;
        call.reply(&[0, asked, 0, 0, 0, 0, 0, 0], data_in)
    }
}
