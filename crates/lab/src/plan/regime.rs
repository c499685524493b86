//! Further scenarios of a plan (`[[regime]]`): its paths once more, from the same loaded state, on another medium or at a fixed load.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::bounds::within;
use super::{Arm, Level, Load, Overrides};
use crate::error::LabError;
use crate::limits::{LABEL_BYTES_MAX, REGIMES_MAX, USERS_MAX};

/// Name of the scenario of the plan's own configurations; no other scenario may have it.
pub const HOST: &str = "host";

/// Allowed shares of the slowest path's orders for a fixed load. Close to all of them, a path cannot sustain the rate.
const SHARES: std::ops::RangeInclusive<f64> = 0.05..=0.95;

/// One `[[regime]]` of a plan.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Regime {
    /// Unique name.
    pub name: String,
    /// Medium below every path; `None` for the host's own storage.
    pub medium: Option<String>,
    /// Users; with a rate, the users of the open load.
    pub users: u32,
    /// A fixed load on every path: this share of the orders per minute that the slowest path reached in the plan's own runs.
    pub share_of_slowest: Option<f64>,
    /// Whether only `--full` measures it.
    #[serde(default)]
    pub full_only: bool,
}

/// The scenarios that the options select. Options that select what is measured select none, unless all are requested.
pub(super) fn chosen(regimes: Vec<Regime>, overrides: &Overrides) -> Result<Vec<Regime>, LabError> {
    if overrides.full {
        let others =
            [("--quick", overrides.quick), ("--medium", overrides.media.is_some()), ("--load", overrides.loads.is_some())];
        if let Some((other, _)) = others.iter().find(|(_, given)| *given) {
            let what = format!("measure every scenario with {other}, which names one");
            return Err(LabError::plan(what, &format!("leave --full or {other} out")));
        }
        if regimes.is_empty() {
            let hint = "leave --full out; the built-in plan, plans/compare.toml, shows how a plan states scenarios ([[regime]])";
            return Err(LabError::plan("measure every scenario: the plan has no [[regime]]".to_owned(), hint));
        }
        return Ok(regimes);
    }
    let one = overrides.quick || overrides.media.is_some() || overrides.loads.is_some() || overrides.users.is_some();
    Ok(regimes.into_iter().filter(|regime| !one && !regime.full_only).collect())
}

/// Refuses scenarios that cannot be carried out, or that cannot be distinguished.
pub(super) fn check(regimes: &[Regime], arms: &[Arm], has_ladder: bool) -> Result<(), LabError> {
    if regimes.is_empty() {
        return Ok(());
    }
    if regimes.len() > REGIMES_MAX {
        let what = format!("measure {} further scenarios", regimes.len());
        return Err(LabError::plan(what, &format!("a plan has at most {REGIMES_MAX}")));
    }
    let closed = |arm: &Arm| matches!(arm.load.level, Level::Users(_)) && arm.load == arms[0].load;
    if has_ladder || arms.iter().any(|arm| arm.medium.is_some() || !closed(arm)) {
        let hint = "a plan with [[regime]] has one load, users = N, and neither media nor a ladder: each scenario sets its medium and load";
        return Err(LabError::plan("measure scenarios of paths that differ by medium or load".to_owned(), hint));
    }
    let mut seen = BTreeSet::from([HOST]);
    for regime in regimes {
        regime.check()?;
        if !seen.insert(&regime.name) {
            let hint = format!("each has a name of its own, and {HOST} is that of the plan's own paths");
            return Err(LabError::plan(format!("measure two scenarios named \"{}\"", regime.name), &hint));
        }
    }
    Ok(())
}

impl Regime {
    fn check(&self) -> Result<(), LabError> {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == ' ' || letter == '-';
        if self.name.is_empty() || self.name.len() > LABEL_BYTES_MAX || !self.name.chars().all(plain) {
            let hint = format!("a name has 1 to {LABEL_BYTES_MAX} letters, digits, spaces and hyphens");
            return Err(LabError::plan(format!("name a scenario \"{}\"", self.name), &hint));
        }
        within("users of a scenario", u64::from(self.users), 1, u64::from(USERS_MAX))?;
        if let Some(medium) = &self.medium {
            media::Profile::parse(medium).map_err(|error| LabError::medium(medium, &error))?;
        }
        match self.share_of_slowest {
            Some(share) if !SHARES.contains(&share) => {
                let hint = format!("share_of_slowest lies between {} and {}", SHARES.start(), SHARES.end());
                Err(LabError::plan(format!("offer {share} of the slowest path's orders"), &hint))
            }
            Some(_) if self.medium.is_some() => {
                let hint = "a fixed load is a share of what the paths do on the host's own storage: leave its medium out";
                Err(LabError::plan(format!("offer a fixed load on {}", self.medium.as_deref().unwrap_or_default()), hint))
            }
            None if self.medium.is_none() => {
                let hint = "give it a medium, or share_of_slowest for a fixed load";
                Err(LabError::plan(format!("measure the scenario \"{}\": it changes nothing", self.name), hint))
            }
            _ => Ok(()),
        }
    }

    /// The load on every path; `rate` is the rate of a fixed load, in transactions of all kinds per second.
    pub(crate) fn load(&self, rate: Option<f64>) -> Load {
        let closed = Load::users(self.users);
        let open = |rate: f64| Load {
            model: "open".to_owned(),
            rate: Some(format!("{rate:.1}/s")),
            arrivals: Some("poisson".to_owned()),
            ..closed.clone()
        };
        rate.map_or_else(|| closed.clone(), open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{DEFAULT_PLAN, Plan};

    fn names(overrides: &Overrides) -> Vec<String> {
        Plan::parse(DEFAULT_PLAN, overrides).unwrap().regimes.into_iter().map(|regime| regime.name).collect()
    }

    #[test]
    fn built_in_plan_looks_at_the_array_and_full_measures_every_regime() {
        assert_eq!(names(&Overrides::default()), ["array"]);
        let full = Overrides { full: true, ..Overrides::default() };
        assert_eq!(names(&full), ["array", "fixed load"]);
        let rounds = |overrides: &Overrides| Plan::parse(DEFAULT_PLAN, overrides).unwrap().regime_rounds();
        assert_eq!((rounds(&Overrides::default()), rounds(&full)), (1, 6));
    }

    #[test]
    fn options_that_say_what_is_measured_leave_one_regime() {
        let none = Overrides::default;
        let some = |text: &str| Some(vec![text.to_owned()]);
        let options = [
            Overrides { quick: true, ..none() },
            Overrides { users: Some(4), ..none() },
            Overrides { media: some("fc15k"), ..none() },
            Overrides { loads: some("users=4"), ..none() },
        ];
        for overrides in options {
            assert!(names(&overrides).is_empty(), "{overrides:?}");
            let error = Plan::parse(DEFAULT_PLAN, &Overrides { full: true, ..overrides.clone() });
            assert_eq!(error.is_err(), overrides.users.is_none(), "{overrides:?}");
        }
    }

    #[test]
    fn regimes_that_make_no_sense_are_refused_with_a_hint() {
        let own = DEFAULT_PLAN.split("[[regime]]").next().unwrap();
        let rest = &DEFAULT_PLAN[DEFAULT_PLAN.find("\n[load]").unwrap()..];
        for (regime, fault) in [
            ("name = \"host\"\nmedium = \"fc15k\"\nusers = 1", "two scenarios named"),
            ("name = \"a\"\nusers = 1", "changes nothing"),
            ("name = \"a\"\nusers = 1\nmedium = \"fc15q\"", "fc15q"),
            ("name = \"a\"\nusers = 1\nshare_of_slowest = 1.0", "slowest path's orders"),
            ("name = \"a\"\nusers = 1\nmedium = \"fc15k\"\nshare_of_slowest = 0.5", "fixed load on fc15k"),
            ("name = \"<a>\"\nusers = 1\nmedium = \"fc15k\"", "name a scenario"),
            ("name = \"a\"\nusers = 0\nmedium = \"fc15k\"", "0 users of a scenario"),
        ] {
            let text = format!("{own}\n[[regime]]\n{regime}\n{rest}");
            let error = Plan::parse(&text, &Overrides::default()).unwrap_err();
            assert!(error.to_string().contains(fault) && error.hint().is_some(), "{regime}: {error}");
        }
        let media = DEFAULT_PLAN.replacen("[load]", "[database]\nx", 0).replace("schema = 1", "schema = 1\nmedia = [\"fc15k\"]");
        assert!(Plan::parse(&media, &Overrides::default()).unwrap_err().to_string().contains("differ by medium"));
        let bare = format!("{own}\n{rest}");
        assert!(Plan::parse(&bare, &Overrides { full: true, ..Overrides::default() }).unwrap_err().hint().is_some());
        assert!(Plan::parse(&bare, &Overrides::default()).unwrap().regimes.is_empty());
    }
}
