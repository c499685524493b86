//! Progress of a comparison: the current step, the elapsed and the remaining time.

use std::time::{Duration, Instant};

use crate::run::driver::Second;

/// One event of progress.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Kind of the event.
    pub kind: EventKind,
    /// Time since the start.
    pub elapsed: Duration,
    /// Estimated time to the end.
    pub left: Option<Duration>,
    /// The current step.
    pub text: String,
}

/// The kinds of [`Event`].
#[derive(Debug, Clone, PartialEq)]
pub enum EventKind {
    /// A line about what is measured, before the first step. Every view prints it, and keeps it.
    Setting,
    /// A step began or advanced. Every view prints a line.
    Step,
    /// A second of the load has ended. For a view that is redrawn.
    Second {
        /// Seconds since the start of the load, including its warm-up.
        second: u64,
        /// New orders committed in that second.
        orders: u64,
    },
    /// A run has ended.
    Run {
        /// Name of its configuration.
        arm: String,
        /// Its result.
        oets_per_minute: f64,
    },
}

/// Tracks the time and the estimate of a comparison.
pub(crate) struct Progress<'a> {
    start: Instant,
    /// Estimated end, as time since the start.
    end: Option<Duration>,
    watcher: &'a mut (dyn FnMut(&Event) + 'a),
    step: Step,
    /// Prefix of every line during the runs: `run 2 of 6, `.
    prefix: String,
    /// The scenario of the run; `None` for the first one.
    regime: Option<String>,
}

struct Step {
    text: String,
    last_event: Instant,
    bytes_whole: u64,
    /// Bytes that the step has copied: they never become fewer within a step.
    bytes_done: u64,
}

/// Interval of the progress events of a step that copies bytes.
const EVENT_EVERY: Duration = Duration::from_secs(2);

impl<'a> Progress<'a> {
    pub(crate) fn new(watcher: &'a mut (dyn FnMut(&Event) + 'a)) -> Self {
        let now = Instant::now();
        Self {
            start: now,
            end: None,
            watcher,
            step: Step { text: String::new(), last_event: now, bytes_whole: 0, bytes_done: 0 },
            prefix: String::new(),
            regime: None,
        }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Sets the remaining time from now on.
    pub(crate) fn expect(&mut self, left: Duration) {
        self.end = Some(self.elapsed() + left);
    }

    /// Sets the number of bytes that steps copy.
    pub(crate) fn expect_bytes(&mut self, bytes: u64) {
        self.step.bytes_whole = bytes;
    }

    /// Starts the lines of a run, of a named scenario or of the first one.
    pub(crate) fn run_of(&mut self, regime: Option<&str>, run: usize, whole: usize) {
        self.regime = regime.map(str::to_owned);
        let regime = regime.map_or_else(String::new, |name| format!("{name}: "));
        self.prefix = format!("{regime}run {run} of {whole}, ");
    }

    /// Ends the lines of a run.
    pub(crate) fn no_run(&mut self) {
        (self.regime, self.prefix) = (None, String::new());
    }

    /// Reports one line about what is measured.
    pub(crate) fn setting(&mut self, line: String) {
        self.send(EventKind::Setting, line);
    }

    /// Starts a new step.
    pub(crate) fn step(&mut self, text: &str) {
        text.clone_into(&mut self.step.text);
        self.step.bytes_done = 0;
        self.emit(text.to_owned());
    }

    /// Reports the bytes that the step has copied.
    pub(crate) fn bytes(&mut self, done: u64) {
        debug_assert!(done >= self.step.bytes_done, "{}: {done} bytes after {}", self.step.text, self.step.bytes_done);
        self.step.bytes_done = done;
        if self.step.last_event.elapsed() >= EVENT_EVERY {
            let whole = self.step.bytes_whole.max(done) >> 20;
            self.emit(format!("{}, {} of {whole} MiB", self.step.text, done >> 20));
        }
    }

    /// Reports an event within a step, at most every two seconds.
    pub(crate) fn within(&mut self, text: &str) {
        if self.step.last_event.elapsed() >= EVENT_EVERY {
            self.emit(text.to_owned());
        }
    }

    /// Reports completed seconds of the load: seconds since its start, orders in each.
    pub(crate) fn seconds(&mut self, seconds: &[Second]) {
        for (second, orders) in seconds.iter().copied() {
            self.send(EventKind::Second { second, orders }, self.step.text.clone());
        }
    }

    /// Reports the end of a run.
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
