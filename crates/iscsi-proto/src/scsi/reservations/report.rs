//! The parameter data of PERSISTENT RESERVE IN (SPC-4 6.15).

use super::state::State;
use super::transport_id::transport_id;

/// LU_SCOPE in the high four bits, the type in the low four.
fn scope_and_type(state: &State) -> u8 {
    state.reservation.as_ref().map_or(0, |reservation| reservation.kind as u8)
}

fn with_header(state: &State, body: &[u8]) -> Vec<u8> {
    let mut data = state.generation.to_be_bytes().to_vec();
    data.extend_from_slice(&(body.len() as u32).to_be_bytes());
    data.extend_from_slice(body);
    data
}

/// READ KEYS.
pub(in super::super) fn read_keys(state: &State) -> Vec<u8> {
    let keys: Vec<u8> = state.registrations.values().flat_map(|key| key.to_be_bytes()).collect();
    with_header(state, &keys)
}

/// READ RESERVATION.
pub(in super::super) fn read_reservation(state: &State) -> Vec<u8> {
    if state.reservation.is_none() {
        return with_header(state, &[]);
    }
    let mut body = [0; 16];
    // 0 if all registrants hold the reservation.
    body[..8].copy_from_slice(&state.holder_key().unwrap_or(0).to_be_bytes());
    body[13] = scope_and_type(state);
    with_header(state, &body)
}

/// REPORT CAPABILITIES.
pub(in super::super) fn capabilities(state: &State) -> Vec<u8> {
    // SIP_C, ATP_C, PTPL_C; TMV, PTPL_A; all six types.
    vec![0, 8, 0x0d, 0x80 | u8::from(state.persists), 0xea, 0x01, 0, 0]
}

/// READ FULL STATUS.
pub(in super::super) fn full_status(state: &State) -> Vec<u8> {
    let mut body = Vec::new();
    for (nexus, key) in &state.registrations {
        let holds = state.is_holder(nexus);
        let id = transport_id(nexus);
        body.extend_from_slice(&key.to_be_bytes());
        body.extend_from_slice(&[0, 0, 0, 0, u8::from(holds), if holds { scope_and_type(state) } else { 0 }, 0, 0, 0, 0]);
        body.extend_from_slice(&nexus.relative_target_port().to_be_bytes());
        body.extend_from_slice(&(id.len() as u32).to_be_bytes());
        body.extend_from_slice(&id);
    }
    with_header(state, &body)
}
