//! Proof of path: compares the database's block reads with the reads on the path.

use results::compare::{Carried, Proof, ProofSource};

use crate::limits::PROOF_TOLERANCE_PERCENT;

/// Source of the counts of a block device, as in records.
pub(crate) const DISKSTATS: &str = "diskstats";

/// Description of the comparison, for the record.
fn explanation(source: &ProofSource) -> String {
    let counted = match source {
        ProofSource::FilerReads => "READ bytes the filer sent, without those read ahead and not asked for",
        ProofSource::ClientReads => {
            "READ bytes that our client inside its processes got from the filer, without those read ahead and not asked for"
        }
        ProofSource::ReadCalls => "bytes its processes got from read calls of the kernel",
        ProofSource::MountReads => "bytes that read calls got from the NFS mount, as the kernel counts them for that mount",
        ProofSource::Unknown(name) => name,
    };
    format!(
        "blocks the database read by their size, against {counted}, from before the driver connected until all sessions had ended"
    )
}

/// Judges one interval. An interval without any reads proves nothing and does not pass; `None` for
/// `path_bytes` means that the host does not count them.
pub(crate) fn judge(source: ProofSource, database_bytes: u64, path_bytes: Option<u64>) -> Proof {
    let seen = path_bytes.unwrap_or(0);
    let larger = database_bytes.max(seen);
    let difference_percent = if larger == 0 { 0.0 } else { database_bytes.abs_diff(seen) as f64 / larger as f64 * 100.0 };
    let mut explanation = explanation(&source);
    if path_bytes.is_none() {
        explanation.push_str("; this host does not count the latter");
    } else if larger == 0 {
        explanation.push_str("; nothing was read, so nothing is proved");
    }
    Proof {
        kind: source,
        database_read_bytes: database_bytes,
        path_read_bytes: seen,
        difference_percent,
        tolerance_percent: PROOF_TOLERANCE_PERCENT,
        passed: larger > 0 && difference_percent <= PROOF_TOLERANCE_PERCENT,
        explanation,
        not_proven: None,
        carried: None,
    }
}

/// Traffic of a path between two moments.
pub(crate) fn carried_between(before: Option<&Carried>, after: Option<&Carried>) -> Option<Carried> {
    let (before, after) = (before?, after?);
    let both = |then: Option<u64>, now: Option<u64>| Some(now?.saturating_sub(then?));
    Some(Carried {
        source: after.source.clone(),
        read_bytes: after.read_bytes.saturating_sub(before.read_bytes),
        written_bytes: after.written_bytes.saturating_sub(before.written_bytes),
        server_read_bytes: both(before.server_read_bytes, after.server_read_bytes),
        server_written_bytes: both(before.server_written_bytes, after.server_written_bytes),
    })
}

/// Adds the kernel's counters below the page cache: they must include the log, which is flushed at each commit, and
/// both ends of a network must have the same counts. A block device also counts ranges that it zeroes, which a target does not count
/// as written.
pub(crate) fn with_carried(proof: Proof, log_bytes: u64, carried: Option<Carried>) -> Proof {
    let Some(carried) = carried else { return proof };
    let part = PROOF_TOLERANCE_PERCENT / 100.0;
    let agree =
        |here: u64, there: Option<u64>| there.is_none_or(|there| here.abs_diff(there) as f64 <= part * here.max(there) as f64);
    let arrived = carried.server_written_bytes.unwrap_or(carried.written_bytes).min(carried.written_bytes);
    let is_written = arrived as f64 >= (1.0 - part) * log_bytes as f64;
    let written = if carried.source == DISKSTATS { arrived } else { carried.written_bytes };
    let is_agreed = agree(carried.read_bytes, carried.server_read_bytes) && agree(written, carried.server_written_bytes);
    let by = |there: Option<u64>, did: &str| there.map_or_else(String::new, |bytes| format!(" (the filer {did} {bytes})"));
    let explanation = format!(
        "{}; below the page cache {} counts {} bytes read{} and {} written{}, and the log has {log_bytes}{}",
        proof.explanation,
        carried.source,
        carried.read_bytes,
        by(carried.server_read_bytes, "sent"),
        carried.written_bytes,
        by(carried.server_written_bytes, "took"),
        match (is_written, is_agreed) {
            (true, true) => "",
            (false, _) => ": the log was written elsewhere",
            (true, false) => ": both ends do not agree",
        },
    );
    Proof { passed: proof.passed && is_written && is_agreed, explanation, carried: Some(carried), ..proof }
}

/// Subtracts known reads besides the blocks: each session reads the catalog cache file at its start, outside
/// the buffers. Subtracts at most the bytes that the path carried beyond the database's own count.
pub(crate) fn without_session_starts(proof: Proof, sessions: u64, bytes_each: u64) -> Proof {
    let beyond = proof.path_read_bytes.saturating_sub(proof.database_read_bytes);
    let known = beyond.min(sessions.saturating_mul(bytes_each));
    if known == 0 || proof.database_read_bytes == 0 {
        return proof;
    }
    let left = proof.path_read_bytes - known;
    let difference_percent = (left - proof.database_read_bytes) as f64 / left as f64 * 100.0;
    let explanation = format!(
        "{}; {known} bytes of the latter are the catalog cache that up to {sessions} sessions, workers of autovacuum among them, read when they \
         began, taken out of the difference",
        proof.explanation
    );
    Proof { difference_percent, passed: difference_percent <= proof.tolerance_percent, explanation, ..proof }
}

/// The proof over several runs of one path: sums, passed only if each run passed.
pub(crate) fn join(proofs: &[&Proof]) -> Option<Proof> {
    let mut whole = (*proofs.first()?).clone();
    whole.database_read_bytes = proofs.iter().map(|proof| proof.database_read_bytes).sum();
    whole.path_read_bytes = proofs.iter().map(|proof| proof.path_read_bytes).sum();
    whole.difference_percent = proofs.iter().map(|proof| proof.difference_percent).fold(0.0, f64::max);
    whole.passed = proofs.iter().all(|proof| proof.passed);
    whole.carried = proofs.iter().filter_map(|proof| proof.carried.clone()).reduce(together);
    if proofs.len() > 1 {
        whole.explanation.push_str("; the largest difference of all runs");
    }
    Some(whole)
}

/// A note if the page cache of this host answered more than the tolerance of the database's reads, which the path then did not carry.
pub(crate) fn answered_by_page_cache(proof: &Proof) -> Option<String> {
    let (read, carried) = (proof.database_read_bytes, proof.carried.as_ref()?.read_bytes);
    let answered = read.saturating_sub(carried);
    (answered as f64 > proof.tolerance_percent / 100.0 * read as f64).then(|| {
        format!("the page cache of this host answered {} MiB of the {} MiB that the database read", answered >> 20, read >> 20)
    })
}

/// Sum of the traffic of two runs.
fn together(one: Carried, other: Carried) -> Carried {
    let both = |one: Option<u64>, other: Option<u64>| Some(one? + other?);
    Carried {
        read_bytes: one.read_bytes + other.read_bytes,
        written_bytes: one.written_bytes + other.written_bytes,
        server_read_bytes: both(one.server_read_bytes, other.server_read_bytes),
        server_written_bytes: both(one.server_written_bytes, other.server_written_bytes),
        source: one.source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_and_nearly_equal_reads_pass() {
        assert!(judge(ProofSource::FilerReads, 8192 * 1000, Some(8192 * 1000)).passed);
        let near = judge(ProofSource::FilerReads, 8192 * 1000, Some(8192 * 1049));
        assert!(near.passed && near.difference_percent > 4.0, "{near:?}");
    }

    #[test]
    fn more_than_five_percent_fails_on_either_side() {
        assert!(!judge(ProofSource::FilerReads, 8192 * 1000, Some(8192 * 900)).passed);
        assert!(!judge(ProofSource::FilerReads, 8192 * 900, Some(8192 * 1000)).passed);
    }

    #[test]
    fn reads_that_never_reached_the_filer_fail_fully() {
        let proof = judge(ProofSource::FilerReads, 8192, Some(0));
        assert!(!proof.passed);
        assert!((proof.difference_percent - 100.0).abs() < 1e-9);
    }

    #[test]
    fn nothing_read_or_nothing_counted_proves_nothing() {
        assert!(!judge(ProofSource::FilerReads, 0, Some(0)).passed);
        let uncounted = judge(ProofSource::ReadCalls, 8192, None);
        assert!(!uncounted.passed && uncounted.explanation.contains("does not count"));
    }

    #[test]
    fn what_sessions_read_when_they_begin_is_taken_out_and_nothing_more() {
        let short = judge(ProofSource::FilerReads, 11_000_000, Some(13_000_000));
        assert!(!short.passed);
        let known = without_session_starts(short.clone(), 10, 180_000);
        assert!(known.passed && known.path_read_bytes == 13_000_000 && known.explanation.contains("10 sessions"), "{known:?}");
        assert!(!without_session_starts(short, 1, 180_000).passed);
        let elsewhere = judge(ProofSource::FilerReads, 8_000_000, Some(0));
        assert!(!without_session_starts(elsewhere, 1_000, 180_000).passed, "reads that went elsewhere stay missing");
        assert!(!without_session_starts(judge(ProofSource::FilerReads, 0, Some(8192)), 1, 8192).passed);
    }

    #[test]
    fn reads_that_the_page_cache_answered_are_named() {
        let mib = 1 << 20;
        let of = |read_bytes| {
            let carried = Carried { source: "diskstats".into(), read_bytes, written_bytes: 9 * mib, ..Carried::default() };
            with_carried(judge(ProofSource::ReadCalls, 286 * mib, Some(288 * mib)), mib, Some(carried))
        };
        assert!(of(76 * mib).passed);
        let note = answered_by_page_cache(&of(76 * mib)).unwrap();
        assert_eq!(note, "the page cache of this host answered 210 MiB of the 286 MiB that the database read");
        assert_eq!(answered_by_page_cache(&of(280 * mib)), None);
        assert_eq!(answered_by_page_cache(&of(400 * mib)), None, "read ahead");
    }

    #[test]
    fn one_bad_run_spoils_the_path() {
        let good = judge(ProofSource::FilerReads, 100, Some(100));
        let bad = judge(ProofSource::FilerReads, 100, Some(50));
        let whole = join(&[&good, &bad]).unwrap();
        assert!(!whole.passed);
        assert_eq!((whole.database_read_bytes, whole.path_read_bytes), (200, 150));
        assert!((whole.difference_percent - 50.0).abs() < 1e-9);
        assert_eq!(join(&[]), None);
    }

    #[test]
    fn a_log_that_was_not_written_on_the_path_and_ends_that_disagree_fail() {
        let good = judge(ProofSource::MountReads, 100, Some(100));
        let carried = |read_bytes, written_bytes, sent, took| Carried {
            source: "mountstats".into(),
            read_bytes,
            written_bytes,
            server_read_bytes: sent,
            server_written_bytes: took,
        };
        let of = |log, carried| with_carried(good.clone(), log, Some(carried));
        assert!(of(1_000, carried(0, 970, Some(0), Some(970))).passed, "the page cache answered every read");
        assert!(of(1_000, carried(50, 5_000, None, None)).passed, "a device has no other end");
        let elsewhere = of(1_000, carried(0, 900, Some(0), Some(900)));
        assert!(!elsewhere.passed && elsewhere.explanation.ends_with("written elsewhere"), "{elsewhere:?}");
        assert!(!of(1_000, carried(1_000, 1_000, Some(500), Some(1_000))).passed);
        assert!(!of(1_000, carried(0, 2_000, Some(0), Some(1_000))).passed);
        let device = |sent, took| of(1_000, Carried { source: DISKSTATS.into(), ..carried(100, 2_000, Some(sent), Some(took)) });
        assert!(device(100, 1_200).passed, "the device zeroed a range");
        assert!(!device(100, 900).passed, "the log did not arrive");
        assert!(!device(100, 2_200).passed, "another client wrote");
        assert!(!device(50, 2_000).passed, "reads did not come from the target");
        let bad = judge(ProofSource::MountReads, 100, Some(50));
        assert!(!with_carried(bad, 1_000, Some(carried(0, 1_000, None, None))).passed);

        let (before, after) = (carried(10, 20, Some(10), None), carried(15, 40, Some(16), None));
        let between = carried_between(Some(&before), Some(&after)).unwrap();
        assert_eq!(between, carried(5, 20, Some(6), None));
        assert_eq!(carried_between(None, Some(&after)), None);
        let run = of(10, between);
        assert_eq!(join(&[&run, &run]).unwrap().carried, Some(carried(10, 40, Some(12), None)));
    }
}
