//! The stored form of the effects, for display in an audit.

use results::rule_effects::{Measured, RuleEffect, RuleEffects, SCHEMA};

use super::effect::Effect;

/// The stored form of what a measurement found.
#[must_use]
pub fn record(effects: &[Effect], program: &str, taken: &str, valid: bool) -> RuleEffects {
    RuleEffects {
        schema: SCHEMA,
        program: program.to_owned(),
        taken: taken.to_owned(),
        valid,
        effects: effects.iter().map(stored).collect(),
    }
}

fn stored(effect: &Effect) -> RuleEffect {
    let alone = effect.percent.map(|percent| percent.middle).or_else(|| effect.ratio.map(|ratio| (ratio - 1.0) * 100.0));
    let on_top = effect.on_top.map(|percent| percent.middle);
    // A rule is kept for the larger gain, and dropped for a loss when added to the previous ones.
    let percent = match (alone, on_top) {
        (Some(alone), Some(on_top)) if effect.kept => Some(alone.max(on_top)),
        (alone, on_top) => on_top.or(alone),
    };
    // Without whether the settings were kept, because that applies to another database.
    let said = effect.text.trim_end_matches(": kept").trim_end_matches(": reverted");
    let text = said.strip_prefix(&format!("{}: ", effect.change.rule)).unwrap_or(said).to_owned();
    RuleEffect {
        rule: effect.change.rule.clone(),
        measured: percent.map(|percent| Measured { percent, shown: effect.kept, text }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::change::RuleChange;
    use super::super::effect::Percent;
    use super::*;

    fn percent(middle: f64) -> Option<Percent> {
        Some(Percent { middle, low: None, high: None })
    }

    #[test]
    fn the_gain_that_decided_is_stored_and_a_rule_that_was_not_run_has_none() {
        let effect = |rule: &str, alone, on_top, kept| Effect {
            change: RuleChange::of_postgres(rule, &[]),
            ratio: None,
            percent: alone,
            on_top,
            added_up_per_minute: None,
            kept,
            text: format!("{rule}: said: {}", if kept { "kept" } else { "reverted" }),
        };
        let effects = [
            effect("hidden", percent(1.0), percent(28.0), true),
            effect("harmful", percent(20.0), percent(-15.0), false),
            effect("absent", None, None, false),
        ];
        let stored = record(&effects, "millrace", "now", true).effects;
        let of = |place: usize| stored[place].measured.as_ref().map(|found| (found.percent, found.shown, found.text.as_str()));
        assert_eq!((of(0), of(1), of(2)), (Some((28.0, true, "said")), Some((-15.0, false, "said")), None));
    }
}
