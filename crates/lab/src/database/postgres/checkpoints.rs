//! Ends of checkpoints, from the server's own log (`log_checkpoints`).

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::SystemTime;

use time::PrimitiveDateTime;
use time::macros::format_description;

/// Size limit for searching a log: a run's log has a few hundred lines.
const LOG_BYTES_MAX: u64 = 16 << 20;

/// Seconds from `began` to each end of a checkpoint in the log, negative for earlier ones. Skips unreadable lines, and a missing
/// log has none: the marks are only drawn in a picture.
pub(crate) fn ends(log: &Path, began: SystemTime) -> Vec<f64> {
    let mut text = Vec::new();
    let read = File::open(log).and_then(|file| file.take(LOG_BYTES_MAX).read_to_end(&mut text));
    if read.is_err() {
        return Vec::new();
    }
    ends_in(&String::from_utf8_lossy(&text), began)
}

fn ends_in(log: &str, began: SystemTime) -> Vec<f64> {
    let complete = log.lines().filter(|line| line.contains("checkpoint complete") || line.contains("restartpoint complete"));
    let moments = complete.filter_map(|line| moment(line.split(" [").next()?));
    moments
        .map(|moment| match moment.duration_since(began) {
            Ok(after) => after.as_secs_f64(),
            Err(before) => -before.duration().as_secs_f64(),
        })
        .collect()
}

/// The time at the start of a line, `2026-11-21 05:57:41.123 UTC`; `None` for other time zones.
fn moment(head: &str) -> Option<SystemTime> {
    let (moment, zone) = head.rsplit_once(' ')?;
    let form = format_description!(version = 2, "[year]-[month]-[day] [hour]:[minute]:[second][optional [.[subsecond]]]");
    let moment = PrimitiveDateTime::parse(moment, form).ok()?;
    matches!(zone, "UTC" | "GMT" | "Etc/UTC").then(|| moment.assume_utc().into())
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn moments_of_the_log_are_those_of_the_clock() {
        let seconds = |text| moment(text).unwrap().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        assert!((seconds("2000-02-29 00:00:00.500 UTC") - 951_782_400.5).abs() < 1e-6);
        assert!((seconds("2026-12-31 23:59:59.000 UTC") - 1_798_761_599.0).abs() < 1e-6);
        for text in ["", "2026-12-31 23:59:59.000 CET", "2026-13-01 00:00:00 UTC", "LOG:  checkpoint complete: x"] {
            assert_eq!(moment(text), None, "{text}");
        }
    }

    #[test]
    fn ends_are_told_from_the_beginning_of_the_interval() {
        let log = "2026-11-21 05:57:40.000 UTC [7] LOG:  checkpoint starting: time\n\
                   2026-11-21 05:57:38.000 UTC [7] LOG:  checkpoint complete: wrote 3 buffers\n\
                   2026-11-21 05:57:51.250 UTC [7] LOG:  checkpoint complete: wrote 8 buffers\n\
                   DETAIL:  checkpoint complete: not a line of its own\n";
        let began = moment("2026-11-21 05:57:41.000 UTC").unwrap();
        assert_eq!(ends_in(log, began), [-3.0, 10.25]);
        assert_eq!(ends(Path::new("/nowhere/at/all"), began), Vec::<f64>::new());
    }
}
