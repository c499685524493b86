//! Titles of findings: what is wrong, with the found and the expected value and their units.
//!
//! The rule's `finding` is the template. Without it, or if one of its facts is not known, the title
//! is made from the test.

use results::audit::Verdict;

use crate::facts::Facts;
use crate::limits::FINDING_TITLE_CHARACTERS_MAX;
use crate::rules::Loaded;

/// The title of a finding, by its verdict.
#[must_use]
pub fn title(loaded: &Loaded, verdict: Verdict, facts: &Facts, thing: Option<(&str, &str)>) -> String {
    let general = &loaded.rule.title;
    match verdict {
        Verdict::Passed => general.clone(),
        Verdict::Unknown => format!("not known: {general}"),
        Verdict::Finding | Verdict::Waived => {
            let rendered = loaded.finding.as_ref().and_then(|template| template.render(facts, thing));
            let told = rendered.or_else(|| loaded.test.deviation(facts, thing));
            shortened(told.unwrap_or_else(|| format!("not met: {general}")))
        }
    }
}

/// Cuts a title, because values from captures may be long.
fn shortened(title: String) -> String {
    match title.char_indices().nth(FINDING_TITLE_CHARACTERS_MAX) {
        Some((end, _)) => title.get(..end).unwrap_or_default().to_owned() + "…",
        None => title,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_title_is_cut() {
        let long = shortened("ä".repeat(1000));
        assert_eq!(long.chars().count(), FINDING_TITLE_CHARACTERS_MAX + 1);
    }
}
