//! Sense data (SPC-4 4.5).

/// Sense key (SPC-4 4.5.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of the standard")]
pub enum SenseKey {
    NoSense = 0x0,
    RecoveredError = 0x1,
    NotReady = 0x2,
    MediumError = 0x3,
    HardwareError = 0x4,
    IllegalRequest = 0x5,
    UnitAttention = 0x6,
    DataProtect = 0x7,
    CopyAborted = 0xa,
    AbortedCommand = 0xb,
    Miscompare = 0xe,
}

/// Additional sense code and qualifier (SPC-4 annex F).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Asc(pub u8, pub u8);

#[expect(missing_docs, reason = "the names of the standard")]
impl Asc {
    pub const NONE: Self = Self(0x00, 0x00);
    pub const LOGICAL_UNIT_NOT_READY_CAUSE_NOT_REPORTABLE: Self = Self(0x04, 0x00);
    pub const UNREACHABLE_COPY_TARGET: Self = Self(0x08, 0x04);
    pub const WRITE_ERROR: Self = Self(0x0c, 0x00);
    pub const COPY_TARGET_DEVICE_NOT_REACHABLE: Self = Self(0x0d, 0x02);
    pub const UNRECOVERED_READ_ERROR: Self = Self(0x11, 0x00);
    pub const PARAMETER_LIST_LENGTH_ERROR: Self = Self(0x1a, 0x00);
    pub const MISCOMPARE_DURING_VERIFY_OPERATION: Self = Self(0x1d, 0x00);
    pub const INVALID_COMMAND_OPERATION_CODE: Self = Self(0x20, 0x00);
    pub const LOGICAL_BLOCK_ADDRESS_OUT_OF_RANGE: Self = Self(0x21, 0x00);
    pub const INVALID_FIELD_IN_CDB: Self = Self(0x24, 0x00);
    pub const LOGICAL_UNIT_NOT_SUPPORTED: Self = Self(0x25, 0x00);
    pub const INVALID_FIELD_IN_PARAMETER_LIST: Self = Self(0x26, 0x00);
    pub const INVALID_RELEASE_OF_PERSISTENT_RESERVATION: Self = Self(0x26, 0x04);
    pub const TOO_MANY_TARGET_DESCRIPTORS: Self = Self(0x26, 0x06);
    pub const UNSUPPORTED_TARGET_DESCRIPTOR_TYPE_CODE: Self = Self(0x26, 0x07);
    pub const TOO_MANY_SEGMENT_DESCRIPTORS: Self = Self(0x26, 0x08);
    pub const UNSUPPORTED_SEGMENT_DESCRIPTOR_TYPE_CODE: Self = Self(0x26, 0x09);
    pub const INLINE_DATA_LENGTH_EXCEEDED: Self = Self(0x26, 0x0b);
    pub const WRITE_PROTECTED: Self = Self(0x27, 0x00);
    pub const SPACE_ALLOCATION_FAILED_WRITE_PROTECT: Self = Self(0x27, 0x07);
    pub const POWER_ON_RESET_OR_BUS_DEVICE_RESET: Self = Self(0x29, 0x00);
    pub const POWER_ON_OCCURRED: Self = Self(0x29, 0x01);
    pub const SCSI_BUS_RESET_OCCURRED: Self = Self(0x29, 0x02);
    pub const BUS_DEVICE_RESET_FUNCTION_OCCURRED: Self = Self(0x29, 0x03);
    pub const DEVICE_INTERNAL_RESET: Self = Self(0x29, 0x04);
    pub const I_T_NEXUS_LOSS_OCCURRED: Self = Self(0x29, 0x07);
    pub const MODE_PARAMETERS_CHANGED: Self = Self(0x2a, 0x01);
    pub const RESERVATIONS_PREEMPTED: Self = Self(0x2a, 0x03);
    pub const RESERVATIONS_RELEASED: Self = Self(0x2a, 0x04);
    pub const REGISTRATIONS_PREEMPTED: Self = Self(0x2a, 0x05);
    pub const CAPACITY_DATA_HAS_CHANGED: Self = Self(0x2a, 0x09);
    pub const COMMANDS_CLEARED_BY_ANOTHER_INITIATOR: Self = Self(0x2f, 0x00);
    pub const SAVING_PARAMETERS_NOT_SUPPORTED: Self = Self(0x39, 0x00);
    pub const MEDIUM_NOT_PRESENT: Self = Self(0x3a, 0x00);
    pub const LOGICAL_UNIT_FAILURE: Self = Self(0x3e, 0x01);
    pub const INQUIRY_DATA_HAS_CHANGED: Self = Self(0x3f, 0x03);
    pub const REPORTED_LUNS_DATA_HAS_CHANGED: Self = Self(0x3f, 0x0e);
    pub const MEDIUM_REMOVAL_PREVENTED: Self = Self(0x53, 0x02);
    pub const INSUFFICIENT_REGISTRATION_RESOURCES: Self = Self(0x55, 0x04);
}

/// The position of the field that was refused (SPC-4 4.5.2.4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldPointer {
    /// True if the field is in the CDB, false if it is in the parameter list.
    pub in_cdb: bool,
    /// Its first byte.
    pub byte: u16,
    /// Its most significant bit, if it is smaller than a byte.
    pub bit: Option<u8>,
}

/// Sense data of one error, in either format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sense {
    /// The sense key.
    pub key: SenseKey,
    /// Additional sense code and qualifier.
    pub asc: Asc,
    /// The INFORMATION field: the LBA of an error, or the offset of a miscompare.
    pub information: Option<u64>,
    /// The field that was refused.
    pub field: Option<FieldPointer>,
    /// The error belongs to an earlier command (SPC-4 4.5.5), whose writes may be lost.
    pub deferred: bool,
    /// Whether it is encoded in descriptor format (the D_SENSE bit of the Control mode page).
    pub descriptor_format: bool,
}

/// Size of fixed format sense data, in bytes (SPC-4 4.5.3).
pub const FIXED_SENSE_BYTES: usize = 18;
/// Largest size of sense data that [`Sense::encode`] writes, in bytes.
pub const SENSE_BYTES_MAX: usize = 32;

impl Sense {
    /// Sense data with only a key and a code, in fixed format.
    #[must_use]
    pub const fn new(key: SenseKey, asc: Asc) -> Self {
        Self { key, asc, information: None, field: None, deferred: false, descriptor_format: false }
    }

    /// ILLEGAL REQUEST with this code.
    #[must_use]
    pub const fn illegal(asc: Asc) -> Self {
        Self::new(SenseKey::IllegalRequest, asc)
    }

    /// INVALID FIELD IN CDB with a pointer to a bit of a byte or, with `None`, to a field of whole bytes.
    #[must_use]
    pub const fn cdb_field(byte: u16, bit: Option<u8>) -> Self {
        let mut sense = Self::illegal(Asc::INVALID_FIELD_IN_CDB);
        sense.field = Some(FieldPointer { in_cdb: true, byte, bit });
        sense
    }

    /// INVALID FIELD IN PARAMETER LIST with the same pointer.
    #[must_use]
    pub const fn parameter_field(byte: u16, bit: Option<u8>) -> Self {
        let mut sense = Self::illegal(Asc::INVALID_FIELD_IN_PARAMETER_LIST);
        sense.field = Some(FieldPointer { in_cdb: false, byte, bit });
        sense
    }

    /// The same sense data with an INFORMATION field.
    #[must_use]
    pub const fn with_information(mut self, information: u64) -> Self {
        self.information = Some(information);
        self
    }

    /// Writes the sense data to the start of `out` and returns its length.
    pub fn encode(&self, out: &mut [u8; SENSE_BYTES_MAX]) -> usize {
        out.fill(0);
        if self.descriptor_format { self.encode_descriptors(out) } else { self.encode_fixed(out) }
    }

    /// SPC-4 4.5.3: response code 70h or 71h.
    fn encode_fixed(&self, out: &mut [u8; SENSE_BYTES_MAX]) -> usize {
        out[0] = 0x70 | u8::from(self.deferred);
        // A value that does not fit leaves VALID at 0 (SPC-4 4.5.3, table 53).
        if let Some(information) = self.information.and_then(|value| u32::try_from(value).ok()) {
            out[0] |= 0x80;
            out[3..7].copy_from_slice(&information.to_be_bytes());
        }
        out[2] = self.key as u8;
        out[7] = (FIXED_SENSE_BYTES - 8) as u8;
        out[12] = self.asc.0;
        out[13] = self.asc.1;
        out[15..18].copy_from_slice(&self.sense_key_specific());
        FIXED_SENSE_BYTES
    }

    /// SPC-4 4.5.2: response code 72h or 73h.
    fn encode_descriptors(&self, out: &mut [u8; SENSE_BYTES_MAX]) -> usize {
        out[0] = 0x72 | u8::from(self.deferred);
        out[1] = self.key as u8;
        out[2] = self.asc.0;
        out[3] = self.asc.1;
        let mut length = 8;
        if let Some(information) = self.information {
            out[length] = 0x00;
            out[length + 1] = 0x0a;
            out[length + 2] = 0x80;
            out[length + 4..length + 12].copy_from_slice(&information.to_be_bytes());
            length += 12;
        }
        if self.field.is_some() {
            out[length] = 0x02;
            out[length + 1] = 0x06;
            out[length + 4..length + 7].copy_from_slice(&self.sense_key_specific());
            length += 8;
        }
        out[7] = (length - 8) as u8;
        length
    }

    /// The SENSE KEY SPECIFIC field: SKSV, C/D, BPV, bit pointer, field pointer.
    fn sense_key_specific(&self) -> [u8; 3] {
        let Some(field) = self.field else { return [0; 3] };
        let bit = field.bit.map_or(0, |bit| 0x08 | bit & 7);
        let [high, low] = field.byte.to_be_bytes();
        [0x80 | u8::from(field.in_cdb) << 6 | bit, high, low]
    }
}
