//! The plan file in its written form, and the configurations that result from it and the options.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::database::kind::DatabaseKind;
use crate::error::LabError;
use crate::plan::arm::Arm;
use crate::plan::experiment::{ReportSection, Roles};
use crate::plan::ladder::Ladder;
use crate::plan::load::Load;
use crate::plan::overrides::Overrides;
use crate::plan::regime::Regime;
use crate::plan::tuning::{Tuning, UNTUNED};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlanFile {
    /// Checked before the file is parsed.
    #[serde(rename = "schema")]
    pub(super) _schema: u32,
    /// File in the same directory that is read instead of this one in a guest.
    pub(super) guest: Option<String>,
    #[serde(default)]
    pub(super) paths: Vec<String>,
    #[serde(default)]
    pub(super) tunings: Vec<String>,
    #[serde(default)]
    pub(super) layouts: Vec<String>,
    #[serde(default)]
    pub(super) media: Vec<String>,
    #[serde(default)]
    pub(super) arm: Vec<ArmSection>,
    #[serde(default)]
    pub(super) tuning: BTreeMap<String, Tuning>,
    pub(super) ladder: Option<Ladder>,
    pub(super) report: Option<ReportSection>,
    #[serde(default)]
    pub(super) shape: Roles,
    #[serde(default)]
    pub(super) regime: Vec<Regime>,
    pub(super) load: LoadSection,
    pub(super) runs: RunsSection,
    pub(super) database: DatabaseSection,
    #[serde(default)]
    pub(super) gates: BTreeMap<String, f64>,
}

/// One configuration (`[[arm]]`) written in full, if a product of lists is not sufficient.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ArmSection {
    pub(super) path: String,
    pub(super) tuning: Option<String>,
    pub(super) layout: Option<String>,
    pub(super) medium: Option<String>,
    pub(super) load: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LoadSection {
    /// Levels, one configuration for each; if empty, `users` applies.
    #[serde(default)]
    pub(super) levels: Vec<String>,
    pub(super) warehouses: u32,
    pub(super) users: u32,
    pub(super) threads: u32,
    pub(super) seconds: u64,
    pub(super) warmup_seconds: u64,
    pub(super) seed: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RunsSection {
    pub(super) repeats: u32,
    pub(super) budget: String,
    /// Time budget with all repeats of every scenario (`--full`); `None` for `budget`.
    pub(super) full_budget: Option<String>,
    #[serde(default)]
    pub(super) keep_awake: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DatabaseSection {
    /// `postgresql` or `mariadb`.
    #[serde(default = "default_system")]
    pub(super) system: String,
    pub(super) buffers_share: f64,
    pub(super) page_cache_mib: Option<u64>,
}

fn default_system() -> String {
    DatabaseKind::default().name().to_owned()
}

/// Every path with every tuning, layout, medium and load; or the configurations that the plan writes in full.
pub(super) fn arms_of(file: &PlanFile, overrides: &Overrides) -> Result<Vec<Arm>, LabError> {
    let pick = |option: &Option<Vec<String>>, plan: &[String], default: &str| match option {
        Some(given) => given.clone(),
        None if plan.is_empty() => vec![default.to_owned()],
        None => plan.to_vec(),
    };
    let users = overrides.users.unwrap_or(file.load.users);
    let tunings = pick(&overrides.tunings, &file.tunings, UNTUNED);
    let layouts = pick(&overrides.layouts, &file.layouts, "one");
    let media: Vec<Option<String>> = match &overrides.media {
        Some(given) => given.iter().cloned().map(Some).collect(),
        None if file.media.is_empty() => vec![None],
        None => file.media.iter().cloned().map(Some).collect(),
    };
    let loads: &[String] = if overrides.users.is_some() { &[] } else { &file.load.levels };
    let loads = pick(&overrides.loads, loads, &format!("users={users}"));
    let mut sections: Vec<ArmSection> = Vec::new();
    let written_out = overrides.paths.is_none() && !file.arm.is_empty();
    let paths = if written_out { &Vec::new() } else { overrides.paths.as_ref().unwrap_or(&file.paths) };
    for path in paths {
        for tuning in &tunings {
            for layout in &layouts {
                for medium in &media {
                    sections.extend(loads.iter().map(|load| ArmSection {
                        path: path.clone(),
                        tuning: Some(tuning.clone()),
                        layout: Some(layout.clone()),
                        medium: medium.clone(),
                        load: Some(load.clone()),
                    }));
                }
            }
        }
    }
    if written_out {
        sections.extend(file.arm.iter().cloned());
    }
    if let Some(ladder) = file.ladder.as_ref().filter(|_| overrides.paths.is_none()) {
        sections.extend(ladder.rungs(&BTreeMap::new()).into_iter().map(|rung| ArmSection {
            path: ladder.path.clone(),
            tuning: Some(rung.tuning),
            layout: ladder.layout.clone(),
            medium: ladder.medium.clone(),
            load: ladder.load.clone(),
        }));
    }
    let default = |given: Option<String>, list: &[String]| given.or_else(|| list.first().cloned()).unwrap_or_default();
    let arms = sections.into_iter().map(|section| {
        Ok(Arm {
            id: String::new(),
            path: section.path.parse()?,
            tuning: default(section.tuning, &tunings),
            layout: default(section.layout, &layouts).parse()?,
            medium: section.medium.or_else(|| media.first().cloned().flatten()),
            load: load_of(&default(section.load, &loads), overrides)?,
        })
    });
    let mut all: Vec<Arm> = Vec::new();
    for arm in arms {
        let arm: Arm = arm?;
        // The start of a ladder may already be a configuration of the plan.
        if written_out || file.ladder.is_none() || !all.contains(&arm) {
            all.push(arm);
        }
    }
    let mut arms = all;
    name_arms(&mut arms);
    Ok(arms)
}

/// Parses a load; `--seconds` on the command line applies to every configuration.
fn load_of(text: &str, overrides: &Overrides) -> Result<Load, LabError> {
    let load: Load = text.parse()?;
    Ok(Load { seconds: load.seconds.filter(|_| overrides.seconds.is_none()), ..load })
}

/// Names each configuration: path and label, and whatever else varies within the plan.
fn name_arms(arms: &mut [Arm]) {
    let varies = |part: &dyn Fn(&Arm) -> String| arms.iter().map(part).collect::<BTreeSet<_>>().len() > 1;
    let tuning = varies(&|arm| arm.tuning.clone());
    let layout = varies(&|arm| arm.layout.to_string());
    let medium = varies(&|arm| arm.medium.clone().unwrap_or_default());
    let load = varies(&|arm| arm.load.to_string());
    for arm in arms {
        let mut words = vec![arm.path.name()];
        words.extend(tuning.then(|| arm.tuning.clone()));
        words.extend(layout.then(|| arm.layout.to_string()));
        words.extend(arm.medium.clone().filter(|_| medium));
        words.extend(load.then(|| arm.load.to_string()));
        arm.id = words.join(" ");
    }
}
