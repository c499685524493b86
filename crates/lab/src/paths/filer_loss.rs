//! The loss of a filer during a run: which filer, when, in which run, and what remains.

use std::fmt;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::clock;
use crate::limits::{FILER_LOST_AFTER, FILER_WATCH_EVERY};

/// Facts about a lost filer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilerLoss {
    /// Its URL, admin socket and process, as far as known.
    pub filer: String,
    /// What happened to it, as words that follow its name.
    pub outcome: String,
    /// Time of the detection, UTC.
    pub when: String,
    /// `run 2 of 6 (dnfs, round 1)`; empty until known.
    pub run: String,
    /// Remaining files, in a clause; empty until known.
    pub left: String,
    /// How to remove the remaining files.
    pub removal: String,
    /// The end of its log, one entry per line; empty if Millrace did not start the filer.
    pub log: String,
}

impl FilerLoss {
    /// A loss detected now.
    pub(crate) fn new(filer: String, outcome: String) -> Self {
        Self { filer, outcome, when: clock::utc_now(), ..Self::default() }
    }
}

impl fmt::Display for FilerLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the filer {} {} at {}", self.filer, self.outcome, self.when)?;
        if !self.run.is_empty() {
            write!(f, ", in {}", self.run)?;
        }
        if !self.left.is_empty() {
            write!(f, "; {}", self.left)?;
        }
        f.write_str(&self.log)
    }
}

/// Watches an existing filer by connecting to it.
#[derive(Debug)]
pub(crate) struct FilerWatch {
    address: SocketAddr,
    lost_after: Duration,
    looked: Instant,
    /// Since when connecting has failed, and why.
    refused: Option<(Instant, String)>,
}

impl FilerWatch {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address, lost_after: FILER_LOST_AFTER, looked: Instant::now(), refused: None }
    }

    /// What happened to it, if connecting has failed for long enough. Tries to connect from time to time.
    pub(crate) fn lost(&mut self) -> Option<String> {
        if self.looked.elapsed() >= FILER_WATCH_EVERY {
            self.look();
        }
        let (since, why) = self.refused.as_ref()?;
        let seconds = since.elapsed().as_secs();
        (since.elapsed() >= self.lost_after).then(|| format!("took no connection for {seconds} s ({why})"))
    }

    /// The same for a caller with a suspicion: waits until the result is certain.
    pub(crate) fn lost_after_all(&mut self) -> Option<String> {
        loop {
            self.look();
            self.refused.as_ref()?;
            if let Some(outcome) = self.lost() {
                return Some(outcome);
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn look(&mut self) {
        let before = Instant::now();
        let connected = TcpStream::connect_timeout(&self.address, FILER_WATCH_EVERY);
        self.looked = Instant::now();
        match (connected, &mut self.refused) {
            (Ok(_), refused) => *refused = None,
            (Err(_), Some(_)) => {}
            (Err(error), refused) => *refused = Some((before, error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_filer_that_takes_connections_is_not_lost_and_one_that_ended_is_after_a_while() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let lost_after = Duration::from_millis(300);
        let mut watch = FilerWatch { lost_after, ..FilerWatch::new(listener.local_addr().unwrap()) };
        assert_eq!(watch.lost_after_all(), None);
        drop(listener);
        let begin = Instant::now();
        let outcome = watch.lost_after_all().unwrap();
        assert!(begin.elapsed() >= lost_after && outcome.contains("refused"), "{outcome}");
    }

    #[test]
    fn a_loss_is_told_with_filer_time_run_and_what_is_left() {
        let mut loss = FilerLoss::new("nfs://127.0.0.1:7/vol (process 5)".into(), "was ended by signal 9".into());
        loss.run = "run 2 of 6 (dnfs, round 1)".into();
        loss.left = "nothing was left".into();
        let text = loss.to_string();
        let parts =
            ["nfs://127.0.0.1:7/vol (process 5) was ended by signal 9 at 20", "Z, in run 2 of 6 (dnfs, round 1); nothing"];
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
}
