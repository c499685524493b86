//! When checkpoints ended, from the server's own log (`log_checkpoints`).

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Largest log that is searched: a run's log has a few hundred lines.
const LOG_BYTES_MAX: u64 = 16 << 20;

/// Seconds from `began` to each end of a checkpoint in the log, negative before it. Lines that can't be read
/// are passed over, and a log that is not there has none: the marks only adorn a picture.
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

/// The time at the head of a line, `2026-11-21 05:57:41.123 UTC`; other time zones are not told.
fn moment(head: &str) -> Option<SystemTime> {
    let mut words = head.split_whitespace();
    let (date, time) = (words.next()?, words.next()?);
    if !matches!(words.next()?, "UTC" | "GMT" | "Etc/UTC") {
        return None;
    }
    let mut date = date.split('-').map(str::parse::<i64>);
    let (year, month, day) = (date.next()?.ok()?, date.next()?.ok()?, date.next()?.ok()?);
    let mut time = time.split(':');
    let (hour, minute): (u64, u64) = (time.next()?.parse().ok()?, time.next()?.parse().ok()?);
    let second: f64 = time.next()?.parse().ok()?;
    let sound = (1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !sound || hour > 23 || minute > 59 || !(0.0..61.0).contains(&second) {
        return None;
    }
    // Days since 1970 with years counted from March, so that the leap day comes last.
    let (shifted, march) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * shifted + shifted / 4 - shifted / 100 + shifted / 400 + (153 * march + 2) / 5 + day - 1 - 719_468;
    let seconds = u64::try_from(days).ok()? * 86_400 + hour * 3_600 + minute * 60;
    Some(UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_secs_f64(second))
}

#[cfg(test)]
mod tests {
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
