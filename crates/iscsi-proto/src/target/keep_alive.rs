//! Pings that find out whether the initiator still answers (RFC 7143 11.19). Times are since a moment that the caller chooses.

use core::time::Duration;

/// When an idle connection is pinged, and when it is given up.
#[derive(Clone, Copy, Debug)]
pub struct KeepAlive {
    interval: Duration,
    timeout: Duration,
    heard_at: Duration,
    pinged_at: Option<Duration>,
}

/// The action that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pulse {
    /// Nothing is due before this time.
    Wait(Duration),
    /// The caller sends a ping now: [`super::Replies::ping`].
    Ping,
    /// The initiator does not answer. The caller closes the connection.
    Dead,
}

impl KeepAlive {
    /// Pings after `interval` without a PDU, and gives up if no PDU arrives within `timeout` after the ping.
    #[must_use]
    pub const fn new(interval: Duration, timeout: Duration, now: Duration) -> Self {
        Self { interval, timeout, heard_at: now, pinged_at: None }
    }

    /// Notes that a PDU arrived.
    pub const fn heard(&mut self, now: Duration) {
        self.heard_at = now;
        self.pinged_at = None;
    }

    /// The action that is due now. Each [`Pulse::Ping`] is returned once.
    pub fn pulse(&mut self, now: Duration) -> Pulse {
        match self.pinged_at {
            Some(at) if now >= at + self.timeout => Pulse::Dead,
            Some(at) => Pulse::Wait(at + self.timeout),
            None if now >= self.heard_at + self.interval => {
                self.pinged_at = Some(now);
                Pulse::Ping
            }
            None => Pulse::Wait(self.heard_at + self.interval),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_quiet_initiator_is_pinged_once_and_given_up_when_it_stays_quiet() {
        let mut alive = KeepAlive::new(SECOND * 10, SECOND * 5, SECOND);
        assert_eq!(alive.pulse(SECOND * 2), Pulse::Wait(SECOND * 11));
        assert_eq!(alive.pulse(SECOND * 11), Pulse::Ping);
        assert_eq!(alive.pulse(SECOND * 12), Pulse::Wait(SECOND * 16));
        assert_eq!(alive.pulse(SECOND * 16), Pulse::Dead);
    }

    #[test]
    fn any_pdu_is_an_answer() {
        let mut alive = KeepAlive::new(SECOND * 10, SECOND * 5, SECOND);
        assert_eq!(alive.pulse(SECOND * 11), Pulse::Ping);
        alive.heard(SECOND * 15);
        assert_eq!(alive.pulse(SECOND * 16), Pulse::Wait(SECOND * 25));
    }
}
