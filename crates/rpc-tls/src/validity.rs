//! The validity of a certificate, so that its owner can be warned before peers refuse it.

use core::fmt;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use x509_cert::Certificate;
use x509_cert::der::{DateTime, Decode};

/// A certificate should be renewed when less than this part of its time is left: nine days of ninety, 2.4 hours of a day.
const LAST_PART: u32 = 10;

/// When a certificate is valid (RFC 5280 4.1.2.5). Times are since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The first moment at which it is valid.
    pub from: Duration,
    /// The last moment at which it is valid.
    pub until: Duration,
}

/// The state of a certificate at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// It is not valid yet: peers refuse it.
    NotYet,
    /// It is valid.
    Valid,
    /// It is valid, and less than a tenth of its time is left.
    EndsSoon,
    /// It has expired: peers refuse it.
    Ended,
}

impl Validity {
    /// The validity of a certificate. `None` if the certificate cannot be decoded.
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let validity = Certificate::from_der(certificate).ok()?.tbs_certificate.validity;
        Some(Self { from: validity.not_before.to_unix_duration(), until: validity.not_after.to_unix_duration() })
    }

    /// The state of the certificate at `now`.
    #[must_use]
    pub fn at(self, now: Duration) -> Lifetime {
        if now < self.from {
            Lifetime::NotYet
        } else if now > self.until {
            Lifetime::Ended
        } else if self.until - now < self.until.saturating_sub(self.from) / LAST_PART {
            Lifetime::EndsSoon
        } else {
            Lifetime::Valid
        }
    }
}

/// Both moments in UTC, as `2026-01-31T00:00:00Z to 2027-01-31T00:00:00Z`.
impl fmt::Display for Validity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (between, moment) in [("", self.from), (" to ", self.until)] {
            f.write_str(between)?;
            match DateTime::from_unix_duration(moment) {
                Ok(moment) => write!(f, "{moment}")?,
                Err(_) => write!(f, "{} s", moment.as_secs())?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    #[test]
    fn a_certificate_of_ninety_days_is_to_be_renewed_in_the_last_nine() {
        let of = Validity { from: 100 * DAY, until: 190 * DAY };
        let at = [99, 100, 181, 182, 190, 191].map(|day| of.at(day * DAY));
        use Lifetime::{Ended, EndsSoon, NotYet, Valid};
        assert_eq!(at, [NotYet, Valid, Valid, EndsSoon, EndsSoon, Ended]);
        assert_eq!(of.to_string(), "1970-04-11T00:00:00Z to 1970-07-10T00:00:00Z");
    }

    #[test]
    fn a_time_that_ends_before_it_begins_is_never_valid() {
        let of = Validity { from: 2 * DAY, until: DAY };
        assert_eq!([of.at(DAY), of.at(2 * DAY)], [Lifetime::NotYet, Lifetime::Ended]);
    }
}
