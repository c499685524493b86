//! XDR, RFC 4506: items in big-endian order, each padded to a multiple of four bytes.

use thiserror::Error;

/// Why bytes could not be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{kind} in field {field} at byte {offset}")]
pub struct DecodeError {
    /// The field that was decoded.
    pub field: &'static str,
    /// Offset of the error from the start of the decoded slice, in bytes.
    pub offset: usize,
    /// What was wrong with it.
    pub kind: DecodeErrorKind,
}

/// What was wrong with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeErrorKind {
    /// The bytes end inside the field.
    #[error("bytes missing")]
    Truncated,
    /// A length is larger than its limit.
    #[error("length {length} over the limit {limit}")]
    TooLong {
        /// The length that was sent.
        length: usize,
        /// The limit.
        limit: usize,
    },
    /// A value that its enumeration does not have.
    #[error("unknown value {0}")]
    UnknownValue(u32),
    /// Padding that is not zero (RFC 4506 3).
    #[error("padding not zero")]
    Padding,
    /// Bytes after the last field.
    #[error("{0} bytes left over")]
    Trailing(usize),
}

/// A value that can be appended to a record.
pub trait Encode {
    /// Appends the value in XDR form.
    fn encode(&self, out: &mut Writer<'_>);
}

/// A value that can be decoded from a record. Strings and payloads are borrowed from the record.
pub trait Decode<'a>: Sized {
    /// Decodes the value and moves the reader past it.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not such a value. The reader's position is then undefined.
    fn decode(input: &mut Reader<'a>) -> Result<Self, DecodeError>;
}

/// Decodes one value from all of `bytes`.
///
/// # Errors
/// [`DecodeError`], also if bytes are left after the value.
pub fn decode_all<'a, T: Decode<'a>>(bytes: &'a [u8]) -> Result<T, DecodeError> {
    let mut input = Reader::new(bytes);
    let value = T::decode(&mut input)?;
    input.finish()?;
    Ok(value)
}

/// Appends one value to `out`.
pub fn encode_to<T: Encode + ?Sized>(value: &T, out: &mut Vec<u8>) {
    value.encode(&mut Writer::new(out));
}

/// Bytes needed to pad `length` to a multiple of four.
#[must_use]
pub const fn padding(length: usize) -> usize {
    (4 - length % 4) % 4
}

/// A cursor over a received slice.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    position: usize, // 0 ..= bytes.len()
    field: &'static str,
}

impl<'a> Reader<'a> {
    /// A reader at the start of `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0, field: "record" }
    }

    /// Sets the name of the next field, for errors.
    pub const fn at(&mut self, field: &'static str) {
        self.field = field;
    }

    /// Offset of the next byte from the start, in bytes.
    #[must_use]
    pub const fn position(&self) -> usize {
        self.position
    }

    /// The bytes not read yet.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.position..).unwrap_or_default()
    }

    /// An error of this kind at the current field.
    #[must_use]
    pub const fn error(&self, kind: DecodeErrorKind) -> DecodeError {
        DecodeError { field: self.field, offset: self.position, kind }
    }

    /// Takes exactly `length` bytes, without padding.
    ///
    /// # Errors
    /// `Truncated` if fewer bytes are left.
    pub fn take(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let Some((taken, _)) = self.rest().split_at_checked(length) else {
            return Err(self.error(DecodeErrorKind::Truncated));
        };
        self.position += length;
        Ok(taken)
    }

    /// Takes a fixed opaque of `N` bytes, `N` a multiple of four (RFC 4506 4.9).
    ///
    /// # Errors
    /// `Truncated`.
    pub fn take_array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let Some((taken, _)) = self.rest().split_first_chunk::<N>() else {
            return Err(self.error(DecodeErrorKind::Truncated));
        };
        self.position += N;
        Ok(*taken)
    }

    /// Takes a variable opaque of at most `limit` bytes (RFC 4506 4.10).
    ///
    /// # Errors
    /// `TooLong`, `Truncated`, `Padding`.
    pub fn opaque(&mut self, limit: usize) -> Result<&'a [u8], DecodeError> {
        let length = u32::decode(self)? as usize;
        if length > limit {
            return Err(self.error(DecodeErrorKind::TooLong { length, limit }));
        }
        let data = self.take(length)?;
        if self.take(padding(length))?.iter().any(|&byte| byte != 0) {
            return Err(self.error(DecodeErrorKind::Padding));
        }
        Ok(data)
    }

    /// Checks that no bytes are left.
    ///
    /// # Errors
    /// `Trailing`.
    pub fn finish(&self) -> Result<(), DecodeError> {
        match self.rest().len() {
            0 => Ok(()),
            left => Err(DecodeError { field: "end", offset: self.position, kind: DecodeErrorKind::Trailing(left) }),
        }
    }
}

/// Appends to a buffer that the caller keeps and clears, so that encoding allocates only if the buffer must grow.
#[derive(Debug)]
pub struct Writer<'b> {
    out: &'b mut Vec<u8>,
}

impl<'b> Writer<'b> {
    /// A writer that appends to `out`.
    pub const fn new(out: &'b mut Vec<u8>) -> Self {
        Self { out }
    }

    /// Bytes in the buffer, those of earlier writers included.
    #[must_use]
    pub fn position(&self) -> usize {
        self.out.len()
    }

    /// Appends raw bytes, without length or padding.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Appends a variable opaque: length, bytes, padding.
    ///
    /// # Panics
    /// If the data has 4 GiB or more: a bug of the caller, because no record may be that large.
    pub fn opaque(&mut self, data: &[u8]) {
        assert!(u32::try_from(data.len()).is_ok(), "opaque of {} bytes", data.len());
        (data.len() as u32).encode(self);
        self.raw(data);
        self.pad(data.len());
    }

    /// Appends the padding that follows `length` bytes.
    pub fn pad(&mut self, length: usize) {
        self.raw(&[0; 3][..padding(length)]);
    }

    /// Removes everything after `position`.
    pub fn truncate(&mut self, position: usize) {
        self.out.truncate(position);
    }

    /// Overwrites four bytes at `position`, for a count that is known only later.
    ///
    /// # Panics
    /// If the four bytes were not written before: a bug of the caller.
    pub fn patch_u32(&mut self, position: usize, value: u32) {
        self.out[position..position + 4].copy_from_slice(&value.to_be_bytes());
    }
}

impl Encode for u32 {
    fn encode(&self, out: &mut Writer<'_>) {
        out.raw(&self.to_be_bytes());
    }
}

impl<'a> Decode<'a> for u32 {
    fn decode(input: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self::from_be_bytes(input.take_array()?))
    }
}

impl Encode for u64 {
    fn encode(&self, out: &mut Writer<'_>) {
        out.raw(&self.to_be_bytes());
    }
}

impl<'a> Decode<'a> for u64 {
    fn decode(input: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self::from_be_bytes(input.take_array()?))
    }
}

impl Encode for bool {
    fn encode(&self, out: &mut Writer<'_>) {
        u32::from(*self).encode(out);
    }
}

impl<'a> Decode<'a> for bool {
    fn decode(input: &mut Reader<'a>) -> Result<Self, DecodeError> {
        match u32::decode(input)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(input.error(DecodeErrorKind::UnknownValue(other))),
        }
    }
}

/// The body of a void argument or result: no bytes.
impl Encode for () {
    fn encode(&self, _out: &mut Writer<'_>) {}
}

impl<'a> Decode<'a> for () {
    fn decode(_input: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(())
    }
}

/// Optional data, RFC 4506 4.19: a bool, then the value if there is one.
impl<T: Encode> Encode for Option<T> {
    fn encode(&self, out: &mut Writer<'_>) {
        self.is_some().encode(out);
        if let Some(value) = self {
            value.encode(out);
        }
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Option<T> {
    fn decode(input: &mut Reader<'a>) -> Result<Self, DecodeError> {
        if bool::decode(input)? { T::decode(input).map(Some) } else { Ok(None) }
    }
}

/// Declares a struct whose XDR form is its fields in order.
macro_rules! xdr_struct {
    ($(#[$meta:meta])* $name:ident<'a> { $($(#[$fmeta:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name<'a> { $($(#[$fmeta])* pub $field: $type,)* }
        impl $crate::xdr::Encode for $name<'_> {
            fn encode(&self, out: &mut $crate::xdr::Writer<'_>) { $(self.$field.encode(out);)* }
        }
        impl<'a> $crate::xdr::Decode<'a> for $name<'a> {
            fn decode(input: &mut $crate::xdr::Reader<'a>) -> Result<Self, $crate::xdr::DecodeError> {
                Ok(Self { $($field: { input.at(concat!(stringify!($name), ".", stringify!($field))); $crate::xdr::Decode::decode(input)? },)* })
            }
        }
    };
    ($(#[$meta:meta])* $name:ident { $($(#[$fmeta:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name { $($(#[$fmeta])* pub $field: $type,)* }
        impl $crate::xdr::Encode for $name {
            fn encode(&self, out: &mut $crate::xdr::Writer<'_>) { $(self.$field.encode(out);)* }
        }
        impl<'de> $crate::xdr::Decode<'de> for $name {
            fn decode(input: &mut $crate::xdr::Reader<'de>) -> Result<Self, $crate::xdr::DecodeError> {
                Ok(Self { $($field: { input.at(concat!(stringify!($name), ".", stringify!($field))); $crate::xdr::Decode::decode(input)? },)* })
            }
        }
    };
}

/// Declares an enumeration with its numbers on the wire.
macro_rules! xdr_enum {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $value:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u32)]
        pub enum $name { $($(#[$vmeta])* $variant = $value,)* }
        impl $name {
            /// Every value, in the order of the standard.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];
            /// The value with this number, if there is one.
            #[must_use]
            pub const fn from_number(number: u32) -> Option<Self> {
                match number { $($value => Some(Self::$variant),)* _ => None }
            }
            /// The number on the wire.
            #[must_use]
            pub const fn number(self) -> u32 { self as u32 }
        }
        impl $crate::xdr::Encode for $name {
            fn encode(&self, out: &mut $crate::xdr::Writer<'_>) { self.number().encode(out); }
        }
        impl<'de> $crate::xdr::Decode<'de> for $name {
            fn decode(input: &mut $crate::xdr::Reader<'de>) -> Result<Self, $crate::xdr::DecodeError> {
                let number = u32::decode(input)?;
                Self::from_number(number).ok_or_else(|| input.error($crate::xdr::DecodeErrorKind::UnknownValue(number)))
            }
        }
    };
}

/// Declares a type for a fixed opaque of eight bytes.
macro_rules! xdr_opaque8 {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $name(pub [u8; 8]);
        impl $crate::xdr::Encode for $name {
            fn encode(&self, out: &mut $crate::xdr::Writer<'_>) { out.raw(&self.0); }
        }
        impl<'de> $crate::xdr::Decode<'de> for $name {
            fn decode(input: &mut $crate::xdr::Reader<'de>) -> Result<Self, $crate::xdr::DecodeError> {
                input.take_array().map(Self)
            }
        }
    };
}

/// Declares a type for a borrowed opaque or string, with its limit in bytes.
macro_rules! xdr_bytes {
    ($(#[$meta:meta])* $name:ident, $limit:expr) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $name<'a>(pub &'a [u8]);
        impl $crate::xdr::Encode for $name<'_> {
            fn encode(&self, out: &mut $crate::xdr::Writer<'_>) { out.opaque(self.0); }
        }
        impl<'a> $crate::xdr::Decode<'a> for $name<'a> {
            fn decode(input: &mut $crate::xdr::Reader<'a>) -> Result<Self, $crate::xdr::DecodeError> {
                input.opaque($limit).map(Self)
            }
        }
    };
}

pub(crate) use {xdr_bytes, xdr_enum, xdr_opaque8, xdr_struct};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opaque_is_padded_with_zeros_to_four_bytes() {
        let mut out = Vec::new();
        Writer::new(&mut out).opaque(b"abcde");
        assert_eq!(out, b"\0\0\0\x05abcde\0\0\0");
        assert_eq!(Reader::new(&out).opaque(5).unwrap(), b"abcde");
    }

    #[test]
    fn length_is_checked_against_its_limit_before_the_bytes_are_looked_at() {
        let error = Reader::new(b"\xff\xff\xff\xff").opaque(400).unwrap_err();
        assert_eq!(error.kind, DecodeErrorKind::TooLong { length: 0xffff_ffff, limit: 400 });
    }

    #[test]
    fn padding_that_is_not_zero_is_refused() {
        assert_eq!(Reader::new(b"\0\0\0\x01a\0\0\x01").opaque(4).unwrap_err().kind, DecodeErrorKind::Padding);
    }

    #[test]
    fn bool_is_zero_or_one_and_nothing_else() {
        assert!(decode_all::<bool>(&2u32.to_be_bytes()).is_err());
        assert_eq!(decode_all::<Option<u64>>(b"\0\0\0\x01\0\0\0\0\0\0\0\x07"), Ok(Some(7)));
    }

    #[test]
    fn bytes_left_over_are_an_error() {
        assert_eq!(decode_all::<u32>(&[0; 8]).unwrap_err().kind, DecodeErrorKind::Trailing(4));
    }
}
