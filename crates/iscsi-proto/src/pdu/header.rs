//! The basic header segment, its opcodes, and the fields that several PDUs share.

use crate::serial::{CmdSn, DataSn, StatSn};

/// Size of a basic header segment, in bytes.
pub const BHS_BYTES: usize = 48;
/// The bit of byte 0 that makes a request immediate.
pub(crate) const IMMEDIATE: u8 = 0x40;
/// The reserved value of a task tag.
pub(crate) const NO_TAG: u32 = u32::MAX;

/// A basic header segment in its wire format.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Bhs(pub [u8; BHS_BYTES]);

impl Default for Bhs {
    fn default() -> Self {
        Self([0; BHS_BYTES])
    }
}

impl core::fmt::Debug for Bhs {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        out.write_str("Bhs(")?;
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))?;
        out.write_str(")")
    }
}

impl Bhs {
    /// The opcode. `None` if it is unknown.
    #[must_use]
    pub const fn opcode(&self) -> Option<Opcode> {
        Opcode::from_number(self.0[0] & 0x3f)
    }

    /// Whether the request is for immediate delivery (RFC 7143 11.2.1.1).
    #[must_use]
    pub const fn is_immediate(&self) -> bool {
        self.0[0] & IMMEDIATE != 0
    }

    /// Size of all additional header segments, in bytes.
    #[must_use]
    pub const fn ahs_bytes(&self) -> usize {
        self.0[4] as usize * 4
    }

    /// Size of the data segment without padding, in bytes.
    #[must_use]
    pub const fn data_bytes(&self) -> usize {
        u32::from_be_bytes([0, self.0[5], self.0[6], self.0[7]]) as usize
    }

    /// Sets the length of the data segment, which must be below 2^24.
    pub(crate) fn set_data_bytes(&mut self, bytes: usize) {
        debug_assert!(bytes < 1 << 24, "data segment of {bytes} bytes");
        let [_, high, middle, low] = (bytes as u32).to_be_bytes();
        (self.0[5], self.0[6], self.0[7]) = (high, middle, low);
    }

    /// The initiator task tag.
    #[must_use]
    pub fn itt(&self) -> Itt {
        Itt(self.word(16))
    }

    /// The big-endian number in bytes `at` to `at` + 3.
    pub(crate) fn word(&self, at: usize) -> u32 {
        self.0.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_be_bytes(*bytes))
    }

    pub(crate) fn set<const N: usize>(&mut self, at: usize, bytes: [u8; N]) {
        if let Some(to) = self.0.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<N>()) {
            *to = bytes;
        }
    }

    pub(crate) fn part<const N: usize>(&self, at: usize) -> [u8; N] {
        self.0.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
    }
}

macro_rules! opcodes {
    ($($(#[$doc:meta])* $name:ident = $number:literal,)*) => {
        /// The type of a PDU (RFC 7143 11.2.1.2).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Opcode { $($(#[$doc])* $name = $number,)* }

        impl Opcode {
            /// All opcodes.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The opcode with this number, which has 6 bits.
            #[must_use]
            pub const fn from_number(number: u8) -> Option<Self> {
                match number { $($number => Some(Self::$name),)* _ => None }
            }
        }
    };
}

opcodes! {
    /// 11.18: a ping of the initiator, or its answer to a ping.
    NopOut = 0x00,
    /// 11.3
    ScsiCommand = 0x01,
    /// 11.5
    TaskRequest = 0x02,
    /// 11.12
    LoginRequest = 0x03,
    /// 11.10
    TextRequest = 0x04,
    /// 11.7
    DataOut = 0x05,
    /// 11.14
    LogoutRequest = 0x06,
    /// 11.16
    SnackRequest = 0x10,
    /// 11.19: a ping of the target, or its answer to a ping.
    NopIn = 0x20,
    /// 11.4
    ScsiResponse = 0x21,
    /// 11.6
    TaskResponse = 0x22,
    /// 11.13
    LoginResponse = 0x23,
    /// 11.11
    TextResponse = 0x24,
    /// 11.7
    DataIn = 0x25,
    /// 11.15
    LogoutResponse = 0x26,
    /// 11.8: the target is ready to receive data.
    R2t = 0x31,
    /// 11.9
    AsyncMessage = 0x32,
    /// 11.17
    Reject = 0x3f,
}

/// Initiator task tag. It pairs a response with its request (RFC 7143 11.2.1.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Itt(pub u32);

impl Itt {
    /// The reserved value: no task.
    pub const NONE: Self = Self(NO_TAG);
}

/// Target transfer tag. It pairs data, pings and text with a request of the target (RFC 7143 11.7.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ttt(pub u32);

impl Ttt {
    /// The reserved value: no request of the target.
    pub const NONE: Self = Self(NO_TAG);
}

/// Logical unit number in the 8-byte format of SAM-5 4.7. The SCSI layer interprets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Lun(pub [u8; 8]);

/// The initiator's part of a session's identifier (RFC 7143 11.12.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Isid(pub [u8; 6]);

impl Isid {
    /// An ISID of type 10b for one of several sessions of an initiator. `user` distinguishes uses by the same initiator, `life` (12
    /// bits) distinguishes a process of that use from the one before, and `path` (4 bits) the sessions of one process.
    #[must_use]
    pub const fn of_life([a, b, c]: [u8; 3], life: u16, path: u8) -> Self {
        let [high, low] = (life << 4 | (path & 15) as u16).to_be_bytes();
        Self([0x80, a, b, c, high, low])
    }

    /// Whether both ISIDs are of one use and of different lives. In that case a process that has ended left the session of the other
    /// ISID.
    #[must_use]
    pub fn succeeds(self, other: Self) -> bool {
        let ([t, a, b, c, high, low], [other_t, other_a, other_b, other_c, other_high, other_low]) = (self.0, other.0);
        let is_one_use = t & 0xc0 == 0x80 && [t, a, b, c] == [other_t, other_a, other_b, other_c];
        is_one_use && (high, low >> 4) != (other_high, other_low >> 4)
    }
}

/// A field at a byte of the header.
pub(crate) trait Field {
    fn read(bhs: &Bhs, at: usize) -> Self;
    fn write(self, bhs: &mut Bhs, at: usize);
}

macro_rules! number_field {
    ($($type:ty: $make:expr, $take:expr;)*) => {$(
        impl Field for $type {
            fn read(bhs: &Bhs, at: usize) -> Self {
                $make(bhs.part(at))
            }
            fn write(self, bhs: &mut Bhs, at: usize) {
                bhs.set(at, $take(self));
            }
        }
    )*};
}

number_field! {
    u8: u8::from_be_bytes, Self::to_be_bytes;
    u16: u16::from_be_bytes, Self::to_be_bytes;
    u32: u32::from_be_bytes, Self::to_be_bytes;
    Itt: |bytes| Self(u32::from_be_bytes(bytes)), |tag: Self| tag.0.to_be_bytes();
    Ttt: |bytes| Self(u32::from_be_bytes(bytes)), |tag: Self| tag.0.to_be_bytes();
    CmdSn: |bytes| Self(u32::from_be_bytes(bytes)), |number: Self| number.0.to_be_bytes();
    StatSn: |bytes| Self(u32::from_be_bytes(bytes)), |number: Self| number.0.to_be_bytes();
    DataSn: |bytes| Self(u32::from_be_bytes(bytes)), |number: Self| number.0.to_be_bytes();
    Lun: Self, |lun: Self| lun.0;
    Isid: Self, |isid: Self| isid.0;
    [u8; 16]: |bytes| bytes, |bytes| bytes;
}

/// A struct for a PDU header: fields at bytes, flags and small numbers in bits, and bits that are always set.
macro_rules! header {
    (
        $(#[$doc:meta])* $name:ident, set { $($set_at:literal: $set_mask:literal),* },
        flags { $($(#[$flag_doc:meta])* $flag:ident: $flag_at:literal, $flag_mask:literal;)* }
        bits { $($(#[$bits_doc:meta])* $bits:ident: $bits_at:literal, $bits_mask:literal;)* }
        fields { $($(#[$field_doc:meta])* $field:ident: $type:ty, $field_at:literal;)* }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            $($(#[$flag_doc])* pub $flag: bool,)*
            $($(#[$bits_doc])* pub $bits: u8,)*
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl $name {
            /// Reads the fields. The caller has checked the opcode. Reserved bits are ignored.
            #[must_use]
            pub fn from_bhs(bhs: &$crate::pdu::Bhs) -> Self {
                Self {
                    $($flag: bhs.0[$flag_at] & $flag_mask != 0,)*
                    $($bits: (bhs.0[$bits_at] & $bits_mask) >> u8::trailing_zeros($bits_mask),)*
                    $($field: <$type as $crate::pdu::header::Field>::read(bhs, $field_at),)*
                }
            }

            /// The header, with the lengths of further segments as 0.
            #[must_use]
            pub fn to_bhs(&self) -> $crate::pdu::Bhs {
                let mut bhs = $crate::pdu::Bhs::default();
                bhs.0[0] = $crate::pdu::Opcode::$name as u8;
                $(bhs.0[$set_at] |= $set_mask;)*
                $(if self.$flag { bhs.0[$flag_at] |= $flag_mask; })*
                $(bhs.0[$bits_at] |= (self.$bits << u8::trailing_zeros($bits_mask)) & $bits_mask;)*
                $(<$type as $crate::pdu::header::Field>::write(self.$field, &mut bhs, $field_at);)*
                bhs
            }
        }
    };
}
pub(crate) use header;

/// A number with names for some values. Other values are kept too.
macro_rules! codes {
    ($(#[$doc:meta])* $name:ident { $($(#[$value_doc:meta])* $value:ident = $number:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $name(pub u8);

        #[allow(non_upper_case_globals, reason = "they are named as variants")]
        impl $name {
            $($(#[$value_doc])* pub const $value: Self = Self($number);)*
        }

        impl $crate::pdu::header::Field for $name {
            fn read(bhs: &$crate::pdu::Bhs, at: usize) -> Self {
                Self(<u8 as $crate::pdu::header::Field>::read(bhs, at))
            }
            fn write(self, bhs: &mut $crate::pdu::Bhs, at: usize) {
                <u8 as $crate::pdu::header::Field>::write(self.0, bhs, at);
            }
        }
    };
}
pub(crate) use codes;
