//! The terminal view of a running comparison: a few lines that are redrawn in place.
//!
//! Pure: takes progress events and returns text with control codes. The caller determines whether there is a terminal.

use std::fmt::Write;

use crate::run::progress::{Event, EventKind, clock};
use crate::summary::grouped;

/// Number of displayed seconds of the load, one character each.
const SECONDS_SHOWN: usize = 60;
/// Cells of the progress bar.
const BAR_CELLS: usize = 30;
/// Characters of a bar, by height.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// State of the view.
#[derive(Debug, Default)]
pub struct LiveView {
    step: String,
    clocks: String,
    share_done: f64,
    /// Orders in each second of the run in progress.
    seconds: Vec<u64>,
    last_second: u64,
    /// Orders per minute of each run, by configuration in the order of their first run.
    arms: Vec<(String, Vec<f64>)>,
    /// Number of lines that were last drawn.
    height: usize,
}

impl LiveView {
    /// An empty view.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Processes an event.
    pub fn take(&mut self, event: &Event) {
        self.step.clone_from(&event.text);
        self.clocks = event
            .left
            .map_or_else(|| clock(event.elapsed), |left| format!("{}, about {} left", clock(event.elapsed), clock(left)));
        let (gone, left) = (event.elapsed.as_secs_f64(), event.left.map_or(0.0, |left| left.as_secs_f64()));
        self.share_done = if gone + left > 0.0 && event.left.is_some() { gone / (gone + left) } else { 0.0 };
        match &event.kind {
            EventKind::Step | EventKind::Setting => {}
            EventKind::Second { second, orders } => {
                if *second <= self.last_second {
                    self.seconds.clear();
                }
                self.last_second = *second;
                self.seconds.push(*orders);
            }
            EventKind::Run { arm, oets_per_minute } => {
                match self.arms.iter_mut().find(|(known, _)| known == arm) {
                    Some((_, runs)) => runs.push(*oets_per_minute),
                    None => self.arms.push((arm.clone(), vec![*oets_per_minute])),
                }
                self.seconds.clear();
                self.last_second = 0;
            }
        }
    }

    /// Text that replaces the last drawing. The terminal truncates long lines and does not wrap them.
    pub fn redraw(&mut self) -> String {
        let lines = self.lines();
        let mut text = String::from("\x1b[?7l");
        if self.height > 0 {
            let _ = write!(text, "\x1b[{}A", self.height);
        }
        for line in &lines {
            let _ = write!(text, "\r\x1b[2K{line}\n");
        }
        // Clears the rest of a longer previous drawing.
        text += "\x1b[0J\x1b[?7h";
        self.height = lines.len();
        text
    }

    fn lines(&self) -> Vec<String> {
        let full = (self.share_done.clamp(0.0, 1.0) * BAR_CELLS as f64).round() as usize;
        let bar = "█".repeat(full) + &"░".repeat(BAR_CELLS - full);
        let mut lines = vec![format!("{bar} {:>3.0} %  {}", self.share_done * 100.0, self.clocks), self.step.clone()];
        if let Some(now) = self.seconds.last() {
            let mean = self.seconds.iter().sum::<u64>() as f64 / self.seconds.len() as f64;
            let figures = format!("now {}, mean {}", grouped(*now as f64), grouped(mean));
            lines.push(format!("orders/s {} {figures}", sparkline(&self.seconds)));
        }
        let widest = self.arms.iter().map(|(arm, _)| arm.chars().count()).max().unwrap_or(0);
        for (arm, runs) in &self.arms {
            let last = runs.last().copied().unwrap_or(0.0);
            let mean = runs.iter().sum::<f64>() / runs.len().max(1) as f64;
            let of = if runs.len() > 1 { format!(", mean of {} runs {}", runs.len(), grouped(mean)) } else { String::new() };
            lines.push(format!("{arm:<widest$}  {:>8} orders/min{of}", grouped(last)));
        }
        lines
    }
}

/// The last seconds as bars of one character, scaled to the largest value shown.
fn sparkline(values: &[u64]) -> String {
    let shown = values.get(values.len().saturating_sub(SECONDS_SHOWN)..).unwrap_or(values);
    let most = shown.iter().copied().max().unwrap_or(0).max(1);
    let level = |value: &u64| {
        let place = (*value as f64 / most as f64 * (LEVELS.len() - 1) as f64).round() as usize;
        LEVELS.get(place).copied().unwrap_or('█')
    };
    shown.iter().map(level).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn event(kind: EventKind) -> Event {
        let (elapsed, left) = (Duration::from_secs(60), Some(Duration::from_secs(180)));
        Event { kind, elapsed, left, text: "run 2 of 6, dnfs: measuring 30 s".into() }
    }

    #[test]
    fn step_progress_seconds_and_results_are_shown() {
        let mut live = LiveView::new();
        live.take(&event(EventKind::Run { arm: "local".into(), oets_per_minute: 48_000.0 }));
        live.take(&event(EventKind::Run { arm: "local".into(), oets_per_minute: 50_000.0 }));
        for (second, orders) in [(1, 0), (2, 400), (3, 800)] {
            live.take(&event(EventKind::Second { second, orders }));
        }
        let lines = live.lines();
        assert!(lines[0].contains(" 25 %  1:00, about 3:00 left"), "{lines:?}");
        assert_eq!(lines[1], "run 2 of 6, dnfs: measuring 30 s");
        assert_eq!(lines[2], "orders/s ▁▅█ now 800, mean 400");
        assert_eq!(lines[3], "local    50,000 orders/min, mean of 2 runs 49,000");
    }

    #[test]
    fn a_new_load_begins_a_new_line_of_seconds() {
        let mut live = LiveView::new();
        live.take(&event(EventKind::Second { second: 9, orders: 100 }));
        live.take(&event(EventKind::Second { second: 1, orders: 7 }));
        assert_eq!(live.seconds, [7]);
        assert_eq!(sparkline(&vec![5; 500]).chars().count(), SECONDS_SHOWN);
    }

    #[test]
    fn drawing_again_goes_back_over_exactly_what_was_drawn() {
        let mut live = LiveView::new();
        live.take(&event(EventKind::Step));
        assert!(!live.redraw().contains("\x1b[2A"), "nothing was drawn before");
        live.take(&event(EventKind::Second { second: 1, orders: 7 }));
        let second = live.redraw();
        assert!(second.contains("\x1b[2A") && second.matches('\n').count() == 3, "{second:?}");
        assert!(live.redraw().contains("\x1b[3A"));
    }
}
