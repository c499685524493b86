//! What is happening, how long it has taken, how long it may still take.

use std::time::{Duration, Instant};

use crate::run::driver::Second;

/// One event of progress.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// Time since the start.
    pub elapsed: Duration,
    /// Estimated time to the end.
    pub left: Option<Duration>,
    /// What is happening.
    pub text: String,
}

/// What an [`Event`] reports.
#[derive(Debug, Clone, PartialEq)]
pub enum EventKind {
    /// A step began or went on: worth a line anywhere.
    Step,
    /// A second of the load is over: for a view that is redrawn.
    Second {
        /// Seconds since the load began, its warm-up included.
        second: u64,
        /// New orders committed in it.
        orders: u64,
    },
    /// A run has ended.
    Run {
        /// Name of its arm.
        arm: String,
        /// What it gave.
        oets_per_minute: f64,
    },
}

/// Keeps the clock and the estimate of a comparison.
pub(crate) struct Progress<'a> {
    start: Instant,
    /// Estimated end, as time since the start.
    end: Option<Duration>,
    watcher: &'a mut (dyn FnMut(&Event) + 'a),
    step: Step,
    /// `run 2 of 6, ` before every line while runs are carried out.
    prefix: String,
    /// The regime of the run, when it is not the first one.
    regime: Option<String>,
}

struct Step {
    text: String,
    last_event: Instant,
    bytes_whole: u64,
}

/// A step that copies bytes reports how far it is this often.
const EVENT_EVERY: Duration = Duration::from_secs(2);

impl<'a> Progress<'a> {
    pub(crate) fn new(watcher: &'a mut (dyn FnMut(&Event) + 'a)) -> Self {
        let now = Instant::now();
        Self {
            start: now,
            end: None,
            watcher,
            step: Step { text: String::new(), last_event: now, bytes_whole: 0 },
            prefix: String::new(),
            regime: None,
        }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Sets how much time is left from now on.
    pub(crate) fn expect(&mut self, left: Duration) {
        self.end = Some(self.elapsed() + left);
    }

    /// Sets the size of what steps copy.
    pub(crate) fn expect_bytes(&mut self, bytes: u64) {
        self.step.bytes_whole = bytes;
    }

    /// The lines that follow belong to this run, of a regime that has a name or of the first one.
    pub(crate) fn run_of(&mut self, regime: Option<&str>, run: usize, whole: usize) {
        self.regime = regime.map(str::to_owned);
        let regime = regime.map_or_else(String::new, |name| format!("{name}: "));
        self.prefix = format!("{regime}run {run} of {whole}, ");
    }

    /// The lines that follow belong to no run.
    pub(crate) fn no_run(&mut self) {
        (self.regime, self.prefix) = (None, String::new());
    }

    /// A new step begins.
    pub(crate) fn step(&mut self, text: &str) {
        text.clone_into(&mut self.step.text);
        self.emit(text.to_owned());
    }

    /// The step has copied so many bytes.
    pub(crate) fn bytes(&mut self, done: u64) {
        if self.step.last_event.elapsed() >= EVENT_EVERY {
            let whole = self.step.bytes_whole.max(done) >> 20;
            self.emit(format!("{}, {} of {whole} MiB", self.step.text, done >> 20));
        }
    }

    /// Something within a step, reported at most every two seconds.
    pub(crate) fn within(&mut self, text: &str) {
        if self.step.last_event.elapsed() >= EVENT_EVERY {
            self.emit(text.to_owned());
        }
    }

    /// Seconds of the load that are over: seconds since it began, orders in each.
    pub(crate) fn seconds(&mut self, seconds: &[Second]) {
        for (second, orders) in seconds.iter().copied() {
            self.send(EventKind::Second { second, orders }, self.step.text.clone());
        }
    }

    /// A run has ended.
    pub(crate) fn run_ended(&mut self, arm: &str, oets_per_minute: f64) {
        let arm = self.regime.as_ref().map_or_else(|| arm.to_owned(), |regime| format!("{arm} ({regime})"));
        self.send(EventKind::Run { arm, oets_per_minute }, self.step.text.clone());
    }

    fn emit(&mut self, text: String) {
        self.step.last_event = Instant::now();
        self.send(EventKind::Step, text);
    }

    fn send(&mut self, kind: EventKind, text: String) {
        let elapsed = self.elapsed();
        let left = self.end.map(|end| end.saturating_sub(elapsed));
        let text = format!("{}{text}", self.prefix);
        (self.watcher)(&Event { kind, elapsed, left, text });
    }
}

impl Event {
    /// The event as a line for a terminal: `[ 1:23, about 5:40 left] text`.
    #[must_use]
    pub fn render(&self) -> String {
        let elapsed = clock(self.elapsed);
        self.left.map_or_else(
            || format!("[{elapsed}] {}", self.text),
            |left| format!("[{elapsed}, about {} left] {}", clock(left), self.text),
        )
    }
}

/// Minutes and seconds.
#[must_use]
pub(crate) fn clock(time: Duration) -> String {
    format!("{}:{:02}", time.as_secs() / 60, time.as_secs() % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_shows_elapsed_time_what_is_left_and_the_step() {
        let mut lines = Vec::new();
        let mut watcher = |line: &Event| lines.push(line.clone());
        let mut progress = Progress::new(&mut watcher);
        progress.step("first");
        progress.expect(Duration::from_millis(340_900));
        progress.step("second");
        assert_eq!(lines[0].render(), "[0:00] first");
        assert_eq!(lines[1].render(), "[0:00, about 5:40 left] second");
    }
}
