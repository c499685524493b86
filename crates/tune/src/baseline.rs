//! The findings of an earlier audit. The same finding in a later audit does not count as new.

use std::collections::BTreeMap;

use results::audit::{Audit, Finding, Severity, Verdict};

/// Findings of an earlier audit, by rule and subject.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Baseline {
    /// Host of that audit.
    pub host: String,
    /// When its facts were taken.
    pub taken: String,
    known: BTreeMap<(String, Option<String>), Severity>,
}

impl Baseline {
    /// Takes the findings of a stored audit, waived ones included. Rules whose verdict is unknown
    /// or passed are left out.
    #[must_use]
    pub fn of(audit: &Audit) -> Self {
        let known = audit
            .findings
            .iter()
            .filter(|finding| matches!(finding.verdict, Verdict::Finding | Verdict::Waived))
            .map(|finding| ((finding.rule.clone(), finding.subject.clone()), finding.severity))
            .collect();
        Self { host: audit.host.clone(), taken: audit.taken.clone(), known }
    }

    /// Whether the earlier audit has this finding with the same or a higher severity.
    #[must_use]
    pub fn knows(&self, finding: &Finding) -> bool {
        let key = (finding.rule.clone(), finding.subject.clone());
        self.known.get(&key).is_some_and(|severity| finding.severity <= *severity)
    }

    /// Number of findings.
    #[must_use]
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether there are no findings.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}
