//! A ladder: from one tuning to another in steps; each step is measured alone and together with all previous ones.
//!
//! TR-3557 section 3 tuned in iterations and published the two ends; they do not show the effect of each step.

use std::collections::BTreeMap;

use results::compare::PathResult;
use results::curves::LadderStep;
use serde::Deserialize;

use crate::error::LabError;
use crate::limits::LADDER_STEPS_MAX;
use crate::plan::tuning::Tuning;

/// A ladder on one path.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ladder {
    /// Path of the ladder, as for `--path`.
    pub path: String,
    /// Tuning at the start.
    pub start: String,
    /// Layout of the files; `None` for the plan's first layout.
    pub layout: Option<String>,
    /// Medium below; `None` for the plan's first one.
    pub medium: Option<String>,
    /// Load; `None` for the plan's first one.
    pub load: Option<String>,
    /// The steps, in the order in which they accumulate.
    pub step: Vec<Step>,
}

/// One step: settings added to those of the steps below it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(try_from = "StepSection")]
pub struct Step {
    /// A word that becomes part of the names of configurations.
    pub name: String,
    /// Settings, as in a tuning.
    pub knobs: Tuning,
}

/// A step in a plan file: the layers of a tuning are beside its name.
#[derive(Deserialize)]
struct StepSection {
    name: String,
    #[serde(flatten)]
    layers: toml::Table,
}

impl TryFrom<StepSection> for Step {
    type Error = toml::de::Error;

    fn try_from(section: StepSection) -> Result<Self, Self::Error> {
        Ok(Self { name: section.name, knobs: Tuning::deserialize(section.layers)? })
    }
}

/// One measured point of a ladder, which is one configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Rung {
    /// Name of its tuning.
    pub tuning: String,
    /// Its settings.
    pub knobs: Tuning,
}

impl Ladder {
    /// Every rung once: the start, each step alone, each accumulation. The first step alone is also the first accumulation.
    #[must_use]
    pub fn rungs(&self, tunings: &BTreeMap<String, Tuning>) -> Vec<Rung> {
        let start = tunings.get(&self.start).cloned().unwrap_or_default();
        let mut rungs = vec![Rung { tuning: self.start.clone(), knobs: start.clone() }];
        let mut sum = start.clone();
        for (place, step) in self.step.iter().enumerate() {
            rungs.push(Rung { tuning: self.alone(place), knobs: step.knobs.over(&start) });
            sum = step.knobs.over(&sum);
            if place > 0 {
                rungs.push(Rung { tuning: self.added_up(place), knobs: sum.clone() });
            }
        }
        rungs
    }

    /// Refuses an invalid ladder.
    ///
    /// # Errors
    /// [`LabError::Plan`].
    pub(crate) fn check(&self, tunings: &BTreeMap<String, Tuning>) -> Result<(), LabError> {
        if !tunings.contains_key(&self.start) {
            return Err(LabError::plan(
                format!("start a ladder from \"{}\"", self.start),
                "name a tuning of the plan, or untuned",
            ));
        }
        if self.step.is_empty() || self.step.len() > LADDER_STEPS_MAX {
            let what = format!("climb a ladder of {} steps", self.step.len());
            return Err(LabError::plan(what, &format!("a ladder has 1 to {LADDER_STEPS_MAX} steps")));
        }
        for (place, step) in self.step.iter().enumerate() {
            let plain = !step.name.is_empty() && step.name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
            if !plain || self.step.iter().take(place).any(|other| other.name == step.name) {
                let what = format!("name step {} of the ladder \"{}\"", place + 1, step.name);
                return Err(LabError::plan(what, "names of steps have letters, digits and hyphens, and differ"));
            }
        }
        Ok(())
    }

    fn name(&self, place: usize) -> &str {
        self.step.get(place).map_or("", |step| step.name.as_str())
    }

    /// Name of the tuning with one step added to the start.
    fn alone(&self, place: usize) -> String {
        format!("only-{}", self.name(place))
    }

    /// Name of the tuning with a step and all previous ones.
    fn added_up(&self, place: usize) -> String {
        if place == 0 { self.alone(0) } else { format!("upto-{}", self.name(place)) }
    }
}

/// The results of a ladder's configurations, step by step; place 0 is the start.
#[must_use]
pub(crate) fn record(ladder: &Ladder, paths: &[PathResult]) -> Vec<LadderStep> {
    let name = ladder.path.split('=').next().unwrap_or_default();
    let on = |path: &PathResult| {
        path.name == name || path.label.as_ref().is_some_and(|label| name == format!("{}:{label}", path.name))
    };
    let of =
        |tuning: &str| paths.iter().find(|path| on(path) && path.tuning == tuning).and_then(|path| path.oets_per_minute.clone());
    let arm = name.to_owned();
    let mut steps =
        vec![LadderStep { arm: arm.clone(), name: ladder.start.clone(), added_up: of(&ladder.start), ..LadderStep::default() }];
    for (place, step) in ladder.step.iter().enumerate() {
        steps.push(LadderStep {
            arm: arm.clone(),
            place: place as u32 + 1,
            name: step.name.clone(),
            sets: step.knobs.named_knobs(),
            alone: of(&ladder.alone(place)),
            added_up: of(&ladder.added_up(place)),
        });
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::statistics::MeanInterval;

    fn ladder() -> Ladder {
        toml::from_str(
            "path = \"dnfs\"\nstart = \"old\"\n\
             [[step]]\nname = \"direct\"\n[step.dnfs]\nwriters = \"many\"\n\
             [[step]]\nname = \"slots\"\n[step.dnfs]\nslots = 128\n\
             [[step]]\nname = \"log\"\n[step.database]\nwal_buffers = \"64MB\"",
        )
        .unwrap()
    }

    fn tunings() -> BTreeMap<String, Tuning> {
        let old: Tuning = toml::from_str("[dnfs]\nwriters = \"one\"\nslots = 4").unwrap();
        BTreeMap::from([("old".to_owned(), old)])
    }

    #[test]
    fn every_step_stands_alone_and_on_all_before_it() {
        let rungs = ladder().rungs(&tunings());
        let names: Vec<&str> = rungs.iter().map(|rung| rung.tuning.as_str()).collect();
        assert_eq!(names, ["old", "only-direct", "only-slots", "upto-slots", "only-log", "upto-log"]);
        let knobs = |name: &str| rungs.iter().find(|rung| rung.tuning == name).unwrap().knobs.named_knobs();
        assert_eq!((knobs("only-direct")["dnfs.writers"].as_str(), knobs("only-direct")["dnfs.slots"].as_str()), ("many", "4"));
        assert_eq!((knobs("only-slots")["dnfs.writers"].as_str(), knobs("only-slots")["dnfs.slots"].as_str()), ("one", "128"));
        let last = knobs("upto-log");
        assert_eq!((last["dnfs.writers"].as_str(), last["dnfs.slots"].as_str()), ("many", "128"));
        assert_eq!(last["database.wal_buffers"], "64MB");
    }

    #[test]
    fn record_has_the_figures_of_each_step_and_none_where_an_arm_was_not_measured() {
        let measured = |tuning: &str, oets: f64| PathResult {
            name: "dnfs".to_owned(),
            tuning: tuning.to_owned(),
            oets_per_minute: MeanInterval::of(&[oets]),
            ..PathResult::default()
        };
        let paths = [measured("old", 1423.0), measured("only-direct", 8282.0), measured("only-slots", 1500.0)];
        let steps = record(&ladder(), &paths);
        assert_eq!(steps.len(), 4);
        assert_eq!(steps[0].added_up.as_ref().unwrap().mean, 1423.0);
        assert_eq!(steps[1].alone, steps[1].added_up);
        assert_eq!(steps[2].alone.as_ref().unwrap().mean, 1500.0);
        assert!(steps[2].added_up.is_none() && steps[3].alone.is_none());
        assert_eq!(steps[2].sets["dnfs.slots"], "128");
    }

    #[test]
    fn a_step_of_an_unknown_layer_is_refused_by_its_name() {
        let error = toml::from_str::<Step>("name = \"slots\"\n[dnfz]\nslots = 1").unwrap_err().to_string();
        assert!(error.contains("dnfz") && error.contains("dnfs"), "{error}");
    }

    #[test]
    fn ladders_that_cannot_be_climbed_are_refused() {
        ladder().check(&tunings()).unwrap();
        let broken = [
            Ladder { start: "new".to_owned(), ..ladder() },
            Ladder { step: Vec::new(), ..ladder() },
            Ladder { step: vec![Step { name: "two words".to_owned(), ..Step::default() }], ..ladder() },
            Ladder { step: vec![ladder().step[0].clone(), ladder().step[0].clone()], ..ladder() },
        ];
        for ladder in broken {
            assert!(ladder.check(&tunings()).unwrap_err().hint().is_some());
        }
    }
}
