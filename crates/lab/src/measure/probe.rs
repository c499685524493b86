//! The read probe: before a configuration is measured, a program reads blocks of its database at a
//! moderate rate, one at a time in each of a few threads. Configurations with the same medium must
//! agree; otherwise the comparison would compare the media and not the paths.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use media::Random;
use results::compare::{PathResult, ReadProbe};
use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::limits::{MEDIA_TOLERANCE_PERCENT, PROBE_BLOCK_BYTES, PROBE_READS_MIN, PROBE_SECONDS_MAX, PROBE_THREADS};

/// Result of the probe, one line of JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProbeRecord {
    /// Reads of 8 KiB.
    pub reads: u64,
    /// Mean time of one read in microseconds.
    pub mean_us: f64,
    /// Standard error of that mean in microseconds.
    pub error_us: f64,
}

/// Reads blocks of `file` until their mean time is known to one percent, for at most ten seconds.
/// After each read, a thread pauses for as long as the read took, and at least a millisecond.
///
/// # Errors
/// The file cannot be read.
pub fn read_blocks(file: &Path) -> Result<ProbeRecord, LabError> {
    let open = File::open(file).map_err(LabError::file("open", file))?;
    let blocks = open.metadata().map_err(LabError::file("inspect", file))?.len() / PROBE_BLOCK_BYTES as u64;
    let end = Instant::now() + Duration::from_secs(PROBE_SECONDS_MAX);
    let mut times_us: Vec<f64> = Vec::new();
    let mut round = 0;
    loop {
        let part = std::thread::scope(|scope| {
            let readers: Vec<_> = (0..PROBE_THREADS)
                .map(|thread| {
                    scope.spawn({
                        let open = &open;
                        move || read_part(open, blocks, round * PROBE_THREADS + thread, end)
                    })
                })
                .collect();
            readers.into_iter().map(|reader| reader.join().unwrap_or_else(|_| Ok(Vec::new()))).collect::<Result<Vec<_>, _>>()
        });
        times_us.extend(part.map_err(LabError::file("read", file))?.into_iter().flatten());
        round += 1;
        let record = summarize(&times_us);
        let sure = record.reads >= PROBE_READS_MIN && record.error_us <= 0.01 * record.mean_us;
        if sure || Instant::now() >= end {
            return Ok(record);
        }
    }
}

/// Reads of one thread in one round.
const READS_IN_A_ROUND: u64 = 25;

fn read_part(file: &File, blocks: u64, seed: u64, end: Instant) -> std::io::Result<Vec<f64>> {
    let mut block = vec![0; PROBE_BLOCK_BYTES];
    let mut times = Vec::new();
    for step in 0..READS_IN_A_ROUND {
        if Instant::now() >= end {
            break;
        }
        // A fixed sequence of positions, the same for every configuration.
        let place = Random::new(seed * READS_IN_A_ROUND + step).below(blocks);
        let begin = Instant::now();
        file.read_at(&mut block, place * PROBE_BLOCK_BYTES as u64)?;
        let taken = begin.elapsed();
        times.push(taken.as_secs_f64() * 1e6);
        std::thread::sleep(taken.max(Duration::from_millis(1)));
    }
    Ok(times)
}

fn summarize(times_us: &[f64]) -> ProbeRecord {
    let count = times_us.len() as f64;
    let mean = times_us.iter().sum::<f64>() / count.max(1.0);
    let squares: f64 = times_us.iter().map(|time| (time - mean).powi(2)).sum();
    let error = if count > 1.0 { (squares / (count - 1.0) / count).sqrt() } else { f64::INFINITY };
    ProbeRecord { reads: times_us.len() as u64, mean_us: mean, error_us: if error.is_finite() { error } else { 0.0 } }
}

/// Why configurations with the same medium do not agree; `None` if they do.
///
/// The compared value is the medium's own time if both media report it, because the path to the medium is what the
/// comparison measures. Configurations that differ there still agree if the program measured the same time: the medium's mean
/// includes other reads too, such as those of a mounted file system on a LUN, which queue for its disks.
/// A medium that does not count (dm-delay below Fibre Channel) is compared with the program's times on all that do: their paths
/// add different times to the same medium's time, and its time must be within that range.
pub(crate) fn disagreement(paths: &[PathResult]) -> Option<String> {
    let probed: Vec<Probed<'_>> = paths.iter().filter_map(|path| Some((path, path.read_probe.as_ref()?))).collect();
    probed.iter().enumerate().find_map(|(index, one)| {
        let same: Vec<Probed<'_>> = probed.iter().copied().filter(|other| other.0.medium == one.0.medium).collect();
        let later = probed.iter().skip(index + 1).filter(|other| other.0.medium == one.0.medium);
        beside_those_that_count(*one, &same).or_else(|| later.copied().find_map(|other| apart(*one, other)))
    })
}

/// A configuration and its probe.
type Probed<'a> = (&'a PathResult, &'a ReadProbe);

/// Difference between two configurations whose media both count, or both do not.
fn apart(one: Probed<'_>, other: Probed<'_>) -> Option<String> {
    let (first, second) = (one.1, other.1);
    let seen = (first.read_us, second.read_us);
    match (first.medium_read_us, second.medium_read_us) {
        (Some(a), Some(b)) if percent(seen) > MEDIA_TOLERANCE_PERCENT => differ(one.0, other.0, (a, b), "at the medium"),
        (None, None) => differ(one.0, other.0, seen, "as the program saw it"),
        _ => None,
    }
}

/// Difference between a configuration whose medium does not count and the nearest one that does; `None` if there is no such one.
fn beside_those_that_count(one: Probed<'_>, same: &[Probed<'_>]) -> Option<String> {
    if one.1.medium_read_us.is_some() {
        return None;
    }
    let counting = same.iter().filter(|other| other.1.medium_read_us.is_some());
    let least = counting.clone().min_by(|a, b| a.1.read_us.total_cmp(&b.1.read_us))?;
    let most = counting.max_by(|a, b| a.1.read_us.total_cmp(&b.1.read_us))?;
    let nearest = if one.1.read_us < least.1.read_us {
        least
    } else if one.1.read_us > most.1.read_us {
        most
    } else {
        return None;
    };
    differ(nearest.0, one.0, (nearest.1.read_us, one.1.read_us), "as the program saw it")
}

fn differ(one: &PathResult, other: &PathResult, figures: (f64, f64), what: &str) -> Option<String> {
    let (a, b) = figures;
    (percent(figures) > MEDIA_TOLERANCE_PERCENT).then(|| {
        format!(
            "the media do not agree: the paced read probe took {a:.0} us on {} and {b:.0} us on {} {what} ({:.1} % \
             apart, {MEDIA_TOLERANCE_PERCENT} % allowed)",
            one.arm,
            other.arm,
            percent(figures)
        )
    })
}

/// The difference in percent of the larger value.
fn percent((a, b): (f64, f64)) -> f64 {
    (a - b).abs() / a.max(b).max(f64::MIN_POSITIVE) * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probe_of_a_file_gives_reads_with_a_time() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("blocks");
        std::fs::write(&file, vec![1; 64 * PROBE_BLOCK_BYTES]).unwrap();
        let record = read_blocks(&file).unwrap();
        assert!(record.reads >= PROBE_READS_MIN && record.mean_us > 0.0, "{record:?}");
        assert!(read_blocks(&scratch.path().join("none")).is_err());
    }

    fn arm(name: &str, medium: &str, read_us: f64, medium_read_us: Option<f64>) -> PathResult {
        let read_probe = Some(ReadProbe { reads: 100, read_us, error_us: 1.0, medium_read_us });
        PathResult { arm: name.into(), medium: Some(medium.into()), read_probe, ..PathResult::default() }
    }

    #[test]
    fn media_within_five_percent_agree_and_others_are_named_with_both_figures() {
        assert_eq!(disagreement(&[arm("local", "sata", 8000.0, None), arm("dnfs", "sata", 8300.0, None)]), None);
        let text = disagreement(&[arm("local", "sata", 8000.0, None), arm("dnfs", "sata", 9000.0, None)]).unwrap();
        assert!(text.contains("8000 us on local") && text.contains("9000 us on dnfs") && text.contains("11.1 %"), "{text}");
    }

    #[test]
    fn the_time_at_the_medium_counts_where_both_sides_tell_it_and_other_media_are_not_compared() {
        let way_is_longer = [arm("local", "nvme", 100.0, Some(90.0)), arm("dnfs", "nvme", 160.0, Some(91.0))];
        assert_eq!(disagreement(&way_is_longer), None);
        assert_eq!(disagreement(&[arm("local", "nvme", 100.0, None), arm("dnfs", "sata", 8000.0, None)]), None);
        // From a comparison in a guest: the medium of the LUN also served the reads of a file system.
        let read_more = [arm("dnfs", "slow", 130_477.0, Some(128_028.0)), arm("iscsi", "slow", 136_227.0, Some(151_255.0))];
        assert_eq!(disagreement(&read_more), None);
        let slower = [arm("dnfs", "slow", 130_477.0, Some(128_028.0)), arm("iscsi", "slow", 143_000.0, Some(140_900.0))];
        assert!(disagreement(&slower).unwrap().contains("at the medium (9.1 % apart"));
    }

    #[test]
    fn a_medium_that_does_not_count_is_held_against_what_the_program_saw_on_those_that_do() {
        // From a comparison in a guest: an emulated processor adds 1 to 5 ms on each path.
        let [dnfs, knfs] = [arm("dnfs", "slow", 22_194.0, Some(20_468.0)), arm("knfs", "slow", 25_309.0, Some(20_967.0))];
        assert_eq!(disagreement(&[dnfs.clone(), knfs.clone(), arm("fc", "slow", 25_163.0, None)]), None);
        for (time, nearest) in [(20_000.0, "22194 us on dnfs"), (28_000.0, "25309 us on knfs")] {
            let text = disagreement(&[dnfs.clone(), arm("fc", "slow", time, None), knfs.clone()]).unwrap();
            assert!(text.contains(nearest) && text.contains("on fc as the program saw it"), "{text}");
        }
    }
}
