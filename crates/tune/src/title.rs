//! Titles of findings: what is wrong, with the value found and what was expected in human units.
//!
//! The rule's `finding` is the template. Without one, or where a fact of it is not known, the title is made from the test.

use results::audit::Verdict;

use crate::facts::Facts;
use crate::limits::FINDING_TITLE_CHARACTERS_MAX;
use crate::rules::Loaded;

/// The title of an outcome.
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

/// Values come from captures and may be long.
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
