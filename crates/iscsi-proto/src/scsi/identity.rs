//! The names and numbers by which a logical unit identifies itself.

use thiserror::Error;

use crate::limits::SCSI_NAME_BYTES_MAX;

/// The T10 vendor identification of every unit.
pub const VENDOR: &str = "MILLRACE";

/// Longest product identification, in bytes (SPC-4 6.4.2).
pub const PRODUCT_BYTES_MAX: usize = 16;
/// Longest product revision level, in bytes (SPC-4 6.4.2).
pub const REVISION_BYTES_MAX: usize = 4;
/// Longest unit serial number, in bytes. SPC-4 allows more, but initiators keep only this number.
pub const SERIAL_BYTES_MAX: usize = 64;

/// A target port, for the Device Identification VPD page and ALUA. In iSCSI it is a target portal group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TargetPort {
    /// Relative port identifier: 1 or more, unique in the target.
    pub relative_port: u16,
    /// Target portal group tag. It is the end of the port's name (`IQN,t,0xTAG`).
    pub portal_group_tag: u16,
}

/// The identity of a unit. The caller derives it from volume and LUN, so that it is the same after every restart and different for
/// a clone. Multipath software treats two units with the same name as two paths to one unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    product: String,
    revision: String,
    serial: String,
    naa: u64,
    target_name: String,
    ports: Vec<TargetPort>,
}

/// An identity that INQUIRY data cannot contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("use this {field} for a logical unit: it is empty, longer than {bytes_max} bytes, or not printable ASCII")]
pub struct IdentityError {
    /// The name of the field.
    pub field: &'static str,
    /// The longest length of the field, in bytes.
    pub bytes_max: usize,
}

impl Identity {
    /// An identity. `naa` gives the 60 bits of an NAA locally assigned designator (SPC-4 7.8.6.6.4). Its four highest bits are
    /// replaced. `target_name` is the iSCSI name of the target. `ports` are all ports of the target.
    ///
    /// # Errors
    /// A string is empty, too long or not printable ASCII. There is no port, there are more than 64, or one has the number 0.
    pub fn new(
        product: &str,
        revision: &str,
        serial: &str,
        naa: u64,
        target_name: &str,
        ports: &[TargetPort],
    ) -> Result<Self, IdentityError> {
        check("product", product, PRODUCT_BYTES_MAX)?;
        check("revision", revision, REVISION_BYTES_MAX)?;
        check("serial number", serial, SERIAL_BYTES_MAX)?;
        check("target name", target_name, SCSI_NAME_BYTES_MAX)?;
        if ports.is_empty() || ports.len() > 64 || ports.iter().any(|port| port.relative_port == 0) {
            return Err(IdentityError { field: "list of ports", bytes_max: 64 });
        }
        Ok(Self {
            product: product.to_owned(),
            revision: revision.to_owned(),
            serial: serial.to_owned(),
            naa: naa & 0x0fff_ffff_ffff_ffff | 0x3000_0000_0000_0000,
            target_name: target_name.to_owned(),
            ports: ports.to_vec(),
        })
    }

    /// Product identification.
    #[must_use]
    pub fn product(&self) -> &str {
        &self.product
    }

    /// Product revision level.
    #[must_use]
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// Unit serial number.
    #[must_use]
    pub fn serial(&self) -> &str {
        &self.serial
    }

    /// The NAA designator. Linux shows it in `/dev/disk/by-id/wwn-0x…`.
    #[must_use]
    pub const fn naa(&self) -> u64 {
        self.naa
    }

    /// The T10 vendor ID based designator (SPC-4 7.8.6.4).
    pub(super) fn t10_vendor_id(&self) -> String {
        format!("{VENDOR:<8}{}", self.serial)
    }

    /// Whether a designator of a logical unit, truncated to the 20 bytes of a CSCD descriptor, is that of this unit. `kind` is
    /// ASSOCIATION and DESIGNATOR TYPE.
    pub(super) fn is_designator(&self, code_set: u8, kind: u8, value: &[u8]) -> bool {
        match (code_set, kind) {
            (1, 3) => value == self.naa.to_be_bytes(),
            (2, 1) => {
                let own = self.t10_vendor_id().into_bytes();
                own.get(..own.len().min(20)) == Some(value)
            }
            _ => false,
        }
    }

    /// The target's iSCSI name.
    #[must_use]
    pub fn target_name(&self) -> &str {
        &self.target_name
    }

    /// The target's ports.
    #[must_use]
    pub fn ports(&self) -> &[TargetPort] {
        &self.ports
    }
}

fn check(field: &'static str, value: &str, bytes_max: usize) -> Result<(), IdentityError> {
    let printable = value.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    if value.is_empty() || value.len() > bytes_max || !printable { Err(IdentityError { field, bytes_max }) } else { Ok(()) }
}
