//! The stages of a login and its possible results (RFC 7143 11.12.3, 11.13.5).

use core::fmt;

/// A stage of the login (CSG, NSG).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The sides authenticate themselves.
    Security = 0,
    /// The sides negotiate the parameters of the session.
    Operational = 1,
    /// The login is complete.
    FullFeature = 3,
}

impl Stage {
    /// The stage with this number of two bits. 2 is reserved.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Security),
            1 => Some(Self::Operational),
            3 => Some(Self::FullFeature),
            _ => None,
        }
    }
}

/// Status class and detail of a login response.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LoginStatus(pub u16);

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        impl LoginStatus {
            $($(#[$doc])* pub const $name: Self = Self($number);)*
        }

        impl fmt::Display for LoginStatus {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.0 {
                    $($number => out.write_str($text),)*
                    other => write!(out, "login status {other:#06x}"),
                }
            }
        }
    };
}

statuses! {
    /// The login continues or is complete.
    SUCCESS = 0x0000, "success";
    /// The target has moved temporarily. The response has its address.
    MOVED_TEMPORARILY = 0x0101, "target moved temporarily";
    /// The target has moved permanently. The response has its address.
    MOVED_PERMANENTLY = 0x0102, "target moved permanently";
    /// The initiator broke the protocol.
    INITIATOR_ERROR = 0x0200, "initiator error";
    /// The initiator could not be authenticated.
    AUTHENTICATION_FAILED = 0x0201, "authentication failed";
    /// The initiator may not use the target.
    AUTHORIZATION_FAILED = 0x0202, "authorization failed";
    /// There is no such target.
    NOT_FOUND = 0x0203, "target not found";
    /// The target was removed.
    REMOVED = 0x0204, "target removed";
    /// The target supports no version of the initiator.
    UNSUPPORTED_VERSION = 0x0205, "unsupported version";
    /// The session cannot have another connection.
    TOO_MANY_CONNECTIONS = 0x0206, "too many connections";
    /// A required key is missing.
    MISSING_PARAMETER = 0x0207, "missing parameter";
    /// The session cannot have a connection on this portal.
    CANNOT_INCLUDE = 0x0208, "cannot include in session";
    /// The session type is unknown.
    SESSION_TYPE = 0x0209, "session type not supported";
    /// There is no such session.
    NO_SESSION = 0x020a, "session does not exist";
    /// The request is not allowed now.
    INVALID_REQUEST = 0x020b, "invalid during login";
    /// The target failed.
    TARGET_ERROR = 0x0300, "target error";
    /// The target does not take sessions now.
    SERVICE_UNAVAILABLE = 0x0301, "service unavailable";
    /// The target has no memory or tags left.
    OUT_OF_RESOURCES = 0x0302, "out of resources";
}

impl fmt::Debug for LoginStatus {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "LoginStatus({:#06x}, {self})", self.0)
    }
}
