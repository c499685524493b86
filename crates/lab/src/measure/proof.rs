//! Proof of path: the database's block reads held against what was read on the path.

use results::compare::{Proof, ProofSource};

use crate::limits::PROOF_TOLERANCE_PERCENT;

/// What is compared, for the record.
fn explanation(source: &ProofSource) -> String {
    let counted = match source {
        ProofSource::FilerReads => "READ bytes the filer sent, without those read ahead and not asked for",
        ProofSource::ClientReads => {
            "READ bytes that our client inside its processes got from the filer, without those read ahead and not asked for"
        }
        ProofSource::ReadCalls => "bytes its processes got from read calls of the kernel",
        ProofSource::Unknown(name) => name,
    };
    format!(
        "blocks the database read by their size, against {counted}, from before the driver connected until all sessions had ended"
    )
}

/// Judges one interval. No reads at all prove nothing and do not pass; `None` for
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
    }
}

/// Takes out what is known to be read beside the blocks: each session that begins reads the catalog cache file, outside
/// the buffers. Never more than the path carried beyond the database's own count.
pub(crate) fn without_session_starts(proof: Proof, sessions: u64, bytes_each: u64) -> Proof {
    let beyond = proof.path_read_bytes.saturating_sub(proof.database_read_bytes);
    let known = beyond.min(sessions.saturating_mul(bytes_each));
    if known == 0 || proof.database_read_bytes == 0 {
        return proof;
    }
    let left = proof.path_read_bytes - known;
    let difference_percent = (left - proof.database_read_bytes) as f64 / left as f64 * 100.0;
    let explanation = format!(
        "{}; {known} bytes of the latter are the catalog cache that {sessions} sessions read when they began, taken out of the \
         difference",
        proof.explanation
    );
    Proof { difference_percent, passed: difference_percent <= proof.tolerance_percent, explanation, ..proof }
}

/// The proof over several runs of one path: sums, and passed only when each run passed.
pub(crate) fn join(proofs: &[&Proof]) -> Option<Proof> {
    let mut whole = (*proofs.first()?).clone();
    whole.database_read_bytes = proofs.iter().map(|proof| proof.database_read_bytes).sum();
    whole.path_read_bytes = proofs.iter().map(|proof| proof.path_read_bytes).sum();
    whole.difference_percent = proofs.iter().map(|proof| proof.difference_percent).fold(0.0, f64::max);
    whole.passed = proofs.iter().all(|proof| proof.passed);
    if proofs.len() > 1 {
        whole.explanation.push_str("; the largest difference of all runs");
    }
    Some(whole)
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
    fn one_bad_run_spoils_the_path() {
        let good = judge(ProofSource::FilerReads, 100, Some(100));
        let bad = judge(ProofSource::FilerReads, 100, Some(50));
        let whole = join(&[&good, &bad]).unwrap();
        assert!(!whole.passed);
        assert_eq!((whole.database_read_bytes, whole.path_read_bytes), (200, 150));
        assert!((whole.difference_percent - 50.0).abs() < 1e-9);
        assert_eq!(join(&[]), None);
    }
}
