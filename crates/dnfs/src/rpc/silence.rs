//! The reports that a server does not answer, and that it answers again: once for each silence, and not too often.
//!
//! A program that attaches a mount asks by several clients, one after the other. They share one object: the program reports one
//! wait, which began with its first question.

use super::events::{Cause, Event};
use crate::limits::{REPORT_EVERY_MS, UNRESPONSIVE_MS};
use crate::process::this_process;
use crate::sys::clock::monotonic_ms;
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

/// What was reported about one server. All times are on the monotonic clock, in ms; 0: never.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    is_reported: AtomicBool,
    reported_ms: AtomicU64,
    /// Since when the server has not answered, if that was reported.
    since_ms: AtomicU64,
    /// Since when an attaching program has waited for an answer.
    asked_ms: AtomicU64,
}

impl Silence {
    /// For a program that begins to attach a mount.
    pub(crate) fn of_attachment() -> Self {
        Self { asked_ms: AtomicU64::new(monotonic_ms()), ..Self::default() }
    }

    /// Ends the attachment: each later wait begins with its own call.
    pub(crate) fn end_attachment(&self) {
        self.asked_ms.store(0, Relaxed);
    }

    /// Reports that the server has not answered since then, at most once in [`REPORT_EVERY_MS`].
    pub(crate) fn report(&self, server: SocketAddr, cause: Cause, since: Instant) {
        let now_ms = monotonic_ms();
        self.report_since(server, cause, now_ms.saturating_sub(since.elapsed().as_millis() as u64), now_ms);
    }

    /// As [`Self::report`], if the program attaches a mount and has waited long enough.
    pub(crate) fn report_attachment(&self, server: SocketAddr, cause: Cause) {
        let (asked_ms, now_ms) = (self.asked_ms.load(Relaxed), monotonic_ms());
        if asked_ms != 0 && now_ms.saturating_sub(asked_ms) >= UNRESPONSIVE_MS {
            self.report_since(server, cause, asked_ms, now_ms);
        }
    }

    fn report_since(&self, server: SocketAddr, cause: Cause, since_ms: u64, now_ms: u64) {
        if self.is_reported.load(Relaxed) {
            return;
        }
        let reported_ms = self.reported_ms.load(Relaxed);
        let is_due = reported_ms == 0 || now_ms.saturating_sub(reported_ms) >= REPORT_EVERY_MS;
        if is_due && !self.is_reported.swap(true, Relaxed) {
            let asked_ms = self.asked_ms.load(Relaxed);
            let since_ms = if asked_ms == 0 { since_ms } else { since_ms.min(asked_ms) };
            self.reported_ms.store(now_ms, Relaxed);
            self.since_ms.store(since_ms, Relaxed);
            let silent = Duration::from_millis(now_ms.saturating_sub(since_ms));
            this_process().reports.report(Event::NotResponding { server, cause, silent });
        }
    }

    /// Reports once that the server answers again.
    #[inline]
    pub(crate) fn end(&self, server: SocketAddr) {
        if self.is_reported.load(Relaxed) && self.is_reported.swap(false, Relaxed) {
            let away_ms = monotonic_ms().saturating_sub(self.since_ms.load(Relaxed));
            this_process().reports.report(Event::Responding { server, away: Duration::from_millis(away_ms) });
        }
    }

    /// Notes an answer of the server to an attaching program, which may still wait for another one.
    #[inline]
    pub(crate) fn note_answer(&self) {
        if self.asked_ms.load(Relaxed) != 0 {
            self.asked_ms.store(monotonic_ms(), Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_of_an_attachment_begins_with_its_first_question() {
        let server: SocketAddr = "127.0.0.1:2049".parse().unwrap();
        let asked_ms = monotonic_ms().saturating_sub(9_000);
        let silence = Silence { asked_ms: AtomicU64::new(asked_ms), ..Silence::default() };
        silence.report(server, Cause::NoReply, Instant::now());
        assert!(silence.is_reported.load(Relaxed) && silence.since_ms.load(Relaxed) == asked_ms);
        silence.end(server);
        assert!(!silence.is_reported.load(Relaxed));
        // Within a minute there is no second report.
        silence.report_attachment(server, Cause::NoReply);
        assert!(!silence.is_reported.load(Relaxed));
    }

    #[test]
    fn an_attachment_that_got_an_answer_waits_again_from_there() {
        let server: SocketAddr = "127.0.0.1:2049".parse().unwrap();
        let silence = Silence { asked_ms: AtomicU64::new(monotonic_ms().saturating_sub(9_000)), ..Silence::default() };
        silence.note_answer();
        silence.report_attachment(server, Cause::NoReply);
        assert!(!silence.is_reported.load(Relaxed));
        let established = Silence::default();
        established.report_attachment(server, Cause::NoReply);
        assert!(!established.is_reported.load(Relaxed));
    }
}
