//! JUnit XML for programs that show test results: one suite for each layer, one case for each
//! judgement.

use std::fmt::Write as _;

use results::audit::{Audit, Finding};

use super::words::escape;
use super::{Counts, Look, Weight, by_layer};
use crate::describe::{activation, severity};

/// The audit as JUnit XML.
///
/// A finding that counts is a failure. Waived, known and unknown ones are skipped, with the reason.
/// A finding for information, or below the severity that counts, passes with its text as output.
/// Passed judgements are cases if the audit lists them.
#[must_use]
pub fn junit(audit: &Audit, look: &Look<'_>) -> String {
    let mut suites = String::new();
    let (mut tests, mut failures, mut skipped) = (0, 0, 0);
    for (layer, findings) in by_layer(audit, |_| true) {
        let failed = findings.iter().filter(|finding| look.weight(finding) == Weight::Counts).count();
        let left = findings.iter().filter(|finding| is_skipped(look.weight(finding))).count();
        let _ = writeln!(
            suites,
            "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{failed}\" errors=\"0\" skipped=\"{left}\" timestamp=\"{}\" hostname=\"{}\">",
            escape(layer),
            findings.len(),
            // The schema of JUnit files has no time zone. All times of Millrace are UTC.
            escape(audit.taken.trim_end_matches('Z')),
            escape(&audit.host),
        );
        for finding in &findings {
            case(&mut suites, finding, look);
        }
        suites += "  </testsuite>\n";
        tests += findings.len();
        failures += failed;
        skipped += left;
    }
    let counts = Counts::of(audit, look);
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <testsuites name=\"millrace audit\" tests=\"{tests}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\">\n\
         <!-- {} checks passed, {} rules do not apply -->\n{suites}</testsuites>\n",
        counts.passed, counts.not_applicable,
    )
}

const fn is_skipped(weight: Weight) -> bool {
    matches!(weight, Weight::Waived | Weight::Known | Weight::Unknown)
}

fn case(xml: &mut String, finding: &Finding, look: &Look<'_>) {
    // The name is the same for every result, because programs follow a case by its name from run to
    // run.
    let title = finding.general_title();
    let name = finding.subject.as_ref().map_or_else(|| title.to_owned(), |subject| format!("{subject}: {title}"));
    let _ = write!(
        xml,
        "    <testcase classname=\"{}.{}\" name=\"{}\" time=\"0\"",
        escape(&finding.layer),
        escape(&finding.rule),
        escape(&name)
    );
    let inside = match look.weight(finding) {
        Weight::Passed => None,
        Weight::Counts => Some(format!(
            "<failure type=\"{}\" message=\"{}\">{}</failure>",
            severity(finding.severity),
            escape(&finding.title),
            escape(&body(finding))
        )),
        Weight::Waived => Some(skip(&format!("waived {}", finding.waiver.as_deref().unwrap_or_default()))),
        Weight::Known => Some(skip(&format!("known from the baseline: {}", finding.title))),
        Weight::Unknown => Some(skip(&format!("not known: {} missing", finding.missing.join(", ")))),
        Weight::Info | Weight::Light => {
            Some(format!("<system-out>{}: {}</system-out>", severity(finding.severity), escape(&body(finding))))
        }
    };
    match inside {
        Some(inside) => {
            let _ = writeln!(xml, ">\n      {inside}\n    </testcase>");
        }
        None => *xml += "/>\n",
    }
}

fn skip(message: &str) -> String {
    format!("<skipped message=\"{}\"/>", escape(message))
}

fn body(finding: &Finding) -> String {
    let mut body = finding.title.clone();
    finding.found.iter().for_each(|found| body += &format!("\nfound: {found}"));
    let _ = write!(body, "\nwhy: {}", finding.reason);
    finding.effect.iter().for_each(|effect| body += &format!("\nbrings: {effect}"));
    finding.sources.iter().for_each(|source| body += &format!("\nsource: {source}"));
    finding.measured.iter().for_each(|measured| body += &format!("\nmeasured: {}", measured.text));
    finding.standing.iter().for_each(|standing| body += &format!("\nbut: {standing}"));
    finding.fix.iter().for_each(|fix| body += &format!("\nfix: {fix}"));
    finding.activation.iter().for_each(|takes| body += &format!("\nin force: {}", activation(*takes)));
    finding.waiver.iter().for_each(|waiver| body += &format!("\nwaiver: {waiver}"));
    body
}
