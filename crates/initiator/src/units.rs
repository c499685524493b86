//! The LUNs of a target (REPORT LUNS, SPC-4 6.33), for the message about a LUN that is not a disk or does not exist.

use std::fmt;

/// Most LUNs that a message lists.
const SHOWN_MAX: usize = 16;

/// What a target has instead of the disk that the URL names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Units {
    /// The LUN in the URL.
    pub lun: u16,
    /// The peripheral device type of the LUN (SPC-4 6.4.2). `None` if the target has no such LUN.
    pub device_type: Option<u8>,
    /// The other LUNs of the target.
    pub others: Vec<u16>,
}

impl Units {
    /// Reads the data of REPORT LUNS. Hierarchical LUNs (SAM-5 4.7.5) are left out.
    pub(crate) fn new(lun: u16, device_type: Option<u8>, data: &[u8]) -> Self {
        let entries = data.get(8..).unwrap_or_default().chunks_exact(8);
        let others = entries.filter_map(|entry| match entry {
            [0, low, 0, 0, ..] => Some(u16::from(*low)),
            [high @ 0x40..=0x7f, low, 0, 0, ..] => Some(u16::from_be_bytes([high & 0x3f, *low])),
            _ => None,
        });
        Self { lun, device_type, others: others.filter(|other| *other != lun).collect() }
    }
}

impl fmt::Display for Units {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.device_type {
            Some(number) => write!(out, "LUN {} is {}, not a disk", self.lun, name_of(number))?,
            None => write!(out, "no such LUN, or not mapped to this initiator: LUN {}", self.lun)?,
        }
        if self.others.is_empty() {
            return write!(out, "; the target shows no other LUN to this initiator");
        }
        let shown: Vec<String> = self.others.iter().take(SHOWN_MAX).map(u16::to_string).collect();
        let more = if self.others.len() > SHOWN_MAX { ", …" } else { "" };
        write!(out, "; the target has the LUNs {}{more}: write one of them at the end of the URL", shown.join(", "))
    }
}

/// The name of a device type (SPC-4 table 138).
fn name_of(number: u8) -> String {
    let name = match number {
        0x01 => "a tape",
        0x03 => "a processor",
        0x05 => "a CD or DVD drive",
        0x08 => "a media changer",
        0x0c => "a storage array controller",
        0x0d => "an enclosure",
        0x14 => "a host-managed zoned disk",
        _ => return format!("a device of type {number:#04x}"),
    };
    format!("{name} (device type {number:#04x})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_names_the_device_and_the_other_luns() {
        let mut data = vec![0, 0, 0, 32, 0, 0, 0, 0];
        for lun in [[0, 0], [0, 1], [0x41, 0x02], [0xc1, 1]] {
            data.extend_from_slice(&[lun[0], lun[1], 0, 0, 0, 0, 0, 0]);
        }
        let said = Units::new(0, Some(0x0c), &data).to_string();
        assert!(
            said.starts_with(
                "LUN 0 is a storage array controller (device type 0x0c), not a disk; the target has the LUNs 1, 258:"
            ),
            "{said}"
        );
        let said = Units::new(7, None, &data[..16]).to_string();
        assert!(said.contains("not mapped to this initiator: LUN 7; the target has the LUNs 0:"), "{said}");
        assert!(Units::new(0, Some(0x1e), &[]).to_string().ends_with("no other LUN to this initiator"));
    }
}
