//! JSON for programs: the stored form with a summary. It can be read again as an audit, a baseline
//! or a side of a difference.

use results::audit::{Audit, Finding};
use serde::Serialize;

use super::words::fingerprint;
use super::{Counts, Look, Weight};

/// The stored form in the order in which users read it.
#[derive(Serialize)]
struct Page<'a> {
    schema: u32,
    program: &'a str,
    host: &'a str,
    system: &'a str,
    taken: &'a str,
    from: &'a str,
    summary: Summary,
    passed: usize,
    not_applicable: usize,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    remarks: &'a [String],
    findings: &'a [Finding],
}

#[derive(Serialize)]
struct Summary {
    fails: bool,
    counts: Counts,
    /// The new findings, as `RULE@SUBJECT`, of an audit against a baseline.
    #[serde(skip_serializing_if = "Option::is_none")]
    new: Option<Vec<String>>,
}

/// The audit as indented JSON with a final newline.
#[must_use]
pub fn json(audit: &Audit, look: &Look<'_>) -> String {
    let new = look.baseline.map(|_| {
        let counting = audit.findings.iter().filter(|finding| look.weight(finding) == Weight::Counts);
        counting.map(fingerprint).collect()
    });
    let page = Page {
        schema: audit.schema,
        program: &audit.program,
        host: &audit.host,
        system: &audit.system,
        taken: &audit.taken,
        from: &audit.from,
        summary: Summary { fails: look.fails(audit), counts: Counts::of(audit, look), new },
        passed: audit.passed,
        not_applicable: audit.not_applicable,
        remarks: &audit.remarks,
        findings: &audit.findings,
    };
    // Serialisation cannot fail: all keys are text, and all values are text or numbers.
    serde_json::to_string_pretty(&page).unwrap_or_default() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baseline::Baseline;
    use crate::report::sample;

    #[test]
    fn what_is_written_is_read_back_as_the_same_audit() {
        let audit = sample::audit();
        let text = json(&audit, &Look::default());
        assert_eq!(serde_json::from_str::<Audit>(&text).unwrap(), audit);
    }

    #[test]
    fn the_summary_says_what_the_exit_code_will_be() {
        let audit = sample::audit();
        let summary =
            |look: &Look<'_>| serde_json::from_str::<serde_json::Value>(&json(&audit, look)).unwrap()["summary"].clone();
        let all = summary(&Look::default());
        assert_eq!((all["fails"].as_bool(), all["counts"]["counting"].as_u64()), (Some(true), Some(3)));
        assert!(all.get("new").is_none());
        let baseline = Baseline::of(&audit);
        let none = summary(&Look { baseline: Some(&baseline), ..Look::default() });
        assert_eq!((none["fails"].as_bool(), none["counts"]["known"].as_u64()), (Some(false), Some(3)));
        assert_eq!(none["new"], serde_json::json!([]));
    }
}
