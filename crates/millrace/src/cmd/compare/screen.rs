//! Shows progress: a live view on a terminal, plain lines otherwise.

use std::io::{IsTerminal as _, Write as _, stdout};

use lab::compare::live_view::LiveView;
use lab::{Event, EventKind, report};
use results::compare::Comparison;

/// Columns for the report on stdout: those of the terminal, at most [`report::WIDTH_MAX`]. Without
/// a terminal, that maximum.
pub(crate) fn report_width() -> usize {
    let columns = rustix::termios::tcgetwinsize(stdout()).ok().map(|size| usize::from(size.ws_col));
    columns.filter(|columns| *columns > 0).map_or(report::WIDTH_MAX, |columns| columns.min(report::WIDTH_MAX))
}

/// The report for stdout. On a terminal, figures that are not a result are dimmed.
pub(crate) fn report(comparison: &Comparison) -> String {
    let width = report_width();
    if stdout().is_terminal() && !is_dumb() {
        report::table_for_terminal(comparison, width)
    } else {
        report::table(comparison, width)
    }
}

/// Whether the terminal takes no control codes.
fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|name| name == "dumb")
}

/// Progress on stderr. Without a live view it prints lines.
pub(crate) struct Screen {
    live: Option<LiveView>,
}

impl Screen {
    /// Uses a live view if stderr is a terminal that takes control codes.
    pub(crate) fn new() -> Self {
        let live = (std::io::stderr().is_terminal() && !is_dumb()).then(LiveView::new);
        Self { live }
    }

    /// Shows an event. Write errors are ignored, so a closed terminal does not end a comparison.
    pub(crate) fn show(&mut self, event: &Event) {
        let mut stderr = std::io::stderr().lock();
        if event.kind == EventKind::Setting {
            let _ = writeln!(stderr, "{}", event.text);
        } else if let Some(live) = &mut self.live {
            live.take(event);
            let _ = stderr.write_all(live.redraw().as_bytes());
        } else if event.kind == EventKind::Step {
            let _ = writeln!(stderr, "{}", event.render());
        }
    }
}
