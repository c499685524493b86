//! What was known before: findings of a stored audit that no longer count.

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
    /// The findings of a stored audit, those under a waiver too. What it could not tell is not known.
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

    /// Whether a finding was there already, and no less bad.
    #[must_use]
    pub fn knows(&self, finding: &Finding) -> bool {
        let key = (finding.rule.clone(), finding.subject.clone());
        self.known.get(&key).is_some_and(|severity| finding.severity <= *severity)
    }

    /// How many findings it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}
