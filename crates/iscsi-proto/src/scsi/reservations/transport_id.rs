//! TransportIDs of iSCSI initiator ports (SPC-4 7.6.4.6).

use super::super::nexus::Nexus;

/// Format 01b (name and ISID), protocol identifier 5h.
const INITIATOR_PORT: u8 = 0x45;
const SEPARATOR: &str = ",i,0x";

/// The TransportID of a nexus' initiator port.
pub(super) fn transport_id(nexus: &Nexus) -> Vec<u8> {
    let mut name = format!("{}{SEPARATOR}", nexus.initiator_name()).into_bytes();
    for byte in nexus.isid() {
        name.extend_from_slice(format!("{byte:02x}").as_bytes());
    }
    // The name ends with a zero byte, its length is a multiple of four, and it has at least 20 bytes.
    name.resize((name.len() / 4 * 4 + 4).max(20), 0);
    let [high, low] = (name.len() as u16).to_be_bytes();
    let mut id = vec![INITIATOR_PORT, 0, high, low];
    id.extend_from_slice(&name);
    id
}

/// Parses the TransportID at the start of `bytes`. Returns the nexus of its initiator port and this target port, and the length of the
/// TransportID. `None` if it is not that of an iSCSI initiator port. A name without an ISID is not a nexus.
pub(super) fn parse(bytes: &[u8], relative_target_port: u16) -> Option<(Nexus, usize)> {
    let (&[kind, _, high, low], rest) = bytes.split_first_chunk::<4>()?;
    let length = usize::from(u16::from_be_bytes([high, low]));
    let field = rest.get(..length)?;
    if kind != INITIATOR_PORT || !length.is_multiple_of(4) {
        return None;
    }
    let end = field.iter().position(|byte| *byte == 0)?;
    let text = std::str::from_utf8(field.get(..end)?).ok()?;
    let (name, isid) = text.split_once(SEPARATOR)?;
    if isid.len() != 12 || !isid.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let [_, _, isid @ ..] = u64::from_str_radix(isid, 16).ok()?.to_be_bytes();
    let nexus = Nexus::new(name, isid, relative_target_port).ok()?;
    Some((nexus, 4 + length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transport_id_is_read_as_it_was_written() {
        for name in ["iqn.2026-01.example:a", "iqn.x", &format!("iqn.{}", "y".repeat(219))] {
            let nexus = Nexus::new(name, [0x40, 0, 1, 2, 0, 0xff], 3).unwrap();
            let bytes = transport_id(&nexus);
            assert_eq!(bytes.len() % 4, 0);
            assert_eq!(bytes.last(), Some(&0));
            assert_eq!(parse(&bytes, 3), Some((nexus, bytes.len())));
        }
    }

    #[test]
    fn a_name_without_isid_or_of_another_transport_is_refused() {
        let nexus = Nexus::new("iqn.2026-01.example:a", [0; 6], 1).unwrap();
        let good = transport_id(&nexus);
        for (at, byte) in [(0, 0x05), (0, 0x46), (3, 0xff), (3, good[3] - 1), (4 + 22, b'j'), (good.len() - 1, 0)] {
            let mut bad = good.clone();
            bad[at] = byte;
            if bad != good {
                assert_eq!(parse(&bad, 1), None, "byte {at} = {byte:#x}");
            }
        }
        assert_eq!(parse(&good[..10], 1), None);
        assert_eq!(parse(&[], 1), None);
    }
}
