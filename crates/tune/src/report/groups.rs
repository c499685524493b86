//! Findings as advice: grouped by what the fix interrupts, then the worst first, then the largest
//! effect first.

use std::cmp::{Ordering, Reverse};

use results::audit::{AdviceGroup, Audit, Finding};

use super::words::depth;

/// The order of groups. Findings of rules without a fix come last.
const ORDER: [Option<AdviceGroup>; 5] =
    [Some(AdviceGroup::Now), Some(AdviceGroup::Restart), Some(AdviceGroup::Reboot), Some(AdviceGroup::Storage), None];

/// The heading of a group.
pub(super) const fn heading(group: Option<AdviceGroup>) -> &'static str {
    match group {
        Some(AdviceGroup::Now) => "Now, without a restart",
        Some(AdviceGroup::Restart) => "With a restart of the database, a mount or an interface",
        Some(AdviceGroup::Reboot) => "With a reboot of the host",
        Some(AdviceGroup::Storage) => "On the storage side",
        None => "Without a known fix",
    }
}

/// The findings for which `keep` is true, by group. Empty groups are left out.
pub(super) fn by_group(
    audit: &Audit,
    keep: impl Fn(&Finding) -> bool,
) -> impl Iterator<Item = (Option<AdviceGroup>, Vec<&Finding>)> {
    let mut kept: Vec<&Finding> = audit.findings.iter().filter(|finding| keep(finding)).collect();
    kept.sort_by(|one, other| place(one, other));
    ORDER.into_iter().filter_map(move |group| {
        let findings: Vec<&Finding> = kept.iter().copied().filter(|finding| finding.group == group).collect();
        (!findings.is_empty()).then_some((group, findings))
    })
}

/// The worst first. Among equal ones, those with a measured gain come first, the largest gain
/// first; then those that were not measured, from the database down; then those for which no gain
/// was shown.
fn place(one: &Finding, other: &Finding) -> Ordering {
    let key = |finding: &Finding| (finding.verdict, Reverse(finding.severity));
    let rest = |finding: &Finding| (depth(&finding.layer), finding.rule.clone(), finding.subject.clone());
    key(one)
        .cmp(&key(other))
        .then_with(|| effect(one).cmp(&effect(other)))
        .then_with(|| percent(other).total_cmp(&percent(one)))
        .then_with(|| rest(one).cmp(&rest(other)))
}

fn effect(finding: &Finding) -> u8 {
    match &finding.measured {
        Some(measured) if measured.shown => 0,
        None => 1,
        Some(_) => 2,
    }
}

fn percent(finding: &Finding) -> f64 {
    finding.measured.as_ref().map_or(0.0, |measured| measured.percent)
}

#[cfg(test)]
mod tests {
    use results::audit::Severity;
    use results::rule_effects::Measured;

    use super::*;
    use crate::report::sample;

    fn finding(rule: &str, severity: Severity, group: Option<AdviceGroup>, gain: Option<(f64, bool)>) -> Finding {
        let measured = gain.map(|(percent, shown)| Measured { percent, shown, text: String::new() });
        Finding { severity, group, measured, ..sample::finding(rule, "db") }
    }

    #[test]
    fn advice_comes_by_what_it_interrupts_then_by_severity_then_by_what_it_was_measured_to_bring() {
        let (now, restart) = (Some(AdviceGroup::Now), Some(AdviceGroup::Restart));
        let findings = vec![
            finding("worst", Severity::Critical, restart, None),
            finding("level", Severity::High, now, Some((0.2, false))),
            finding("not-measured", Severity::High, now, None),
            finding("some", Severity::High, now, Some((4.0, true))),
            finding("most", Severity::High, now, Some((40.0, true))),
            finding("data", Severity::Critical, now, None),
            finding("no-fix", Severity::Critical, None, None),
            finding("storage", Severity::Critical, Some(AdviceGroup::Storage), None),
        ];
        let audit = Audit { findings, ..sample::audit() };
        let groups: Vec<(&str, Vec<&str>)> = by_group(&audit, |_| true)
            .map(|(group, findings)| (heading(group), findings.iter().map(|finding| finding.rule.as_str()).collect()))
            .collect();
        let wanted = [
            ("Now, without a restart", vec!["data", "most", "some", "not-measured", "level"]),
            ("With a restart of the database, a mount or an interface", vec!["worst"]),
            ("On the storage side", vec!["storage"]),
            ("Without a known fix", vec!["no-fix"]),
        ];
        assert_eq!(groups, wanted);
    }
}
