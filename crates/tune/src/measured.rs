//! Effects that `tune measure` found. They are read and added to the findings of the same rules.

use std::path::{Path, PathBuf};

use results::audit::{Audit, Verdict};
use results::rule_effects::{RuleEffects, SCHEMA};

use crate::limits::RULE_EFFECTS_BYTES_MAX;
use crate::stored::{Kind, StoredError};

/// The file in a measurement's directory.
pub const FILE: &str = "effects.json";

/// Effects that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MeasuredError {
    /// The file cannot be read.
    #[error(transparent)]
    Stored(#[from] StoredError),
    /// The comparison was not valid.
    #[error("{path} is of a comparison that is not valid: nothing can be claimed from it")]
    NotValid {
        /// The file.
        path: PathBuf,
    },
}

/// Reads the effects of the measurement in this directory.
///
/// # Errors
/// The file cannot be read, is too large, is not a record of effects, was written by a newer
/// program, or its comparison is not valid.
pub fn read(directory: &Path) -> Result<RuleEffects, MeasuredError> {
    let path = directory.join(FILE);
    let kind = Kind { what: "a record of measured effects", bytes_max: RULE_EFFECTS_BYTES_MAX, schema: SCHEMA };
    let effects = kind.read(&path, |effects: &RuleEffects| effects.schema)?;
    if effects.valid { Ok(effects) } else { Err(MeasuredError::NotValid { path }) }
}

/// Adds the measured effects to the findings of their rules.
pub fn note(effects: &RuleEffects, audit: &mut Audit) {
    for finding in audit.findings.iter_mut().filter(|finding| finding.verdict == Verdict::Finding) {
        let effect = effects.effects.iter().find(|effect| effect.rule == finding.rule);
        finding.measured = effect.and_then(|effect| effect.measured.clone());
    }
}

#[cfg(test)]
mod tests {
    use results::rule_effects::{Measured, RuleEffect};

    use super::*;
    use crate::report::sample;

    fn effects(schema: u32, valid: bool) -> RuleEffects {
        let measured = Some(Measured { percent: 7.0, shown: true, text: "+7.0 %".to_owned() });
        let effects = vec![RuleEffect { rule: "linux-swappiness".to_owned(), measured }];
        RuleEffects { schema, program: "millrace".to_owned(), taken: String::new(), valid, effects }
    }

    #[test]
    fn a_measured_effect_is_noted_at_the_findings_of_its_rule_alone() {
        let mut audit = sample::audit();
        note(&effects(SCHEMA, true), &mut audit);
        let noted: Vec<&str> =
            audit.findings.iter().filter(|finding| finding.measured.is_some()).map(|finding| finding.rule.as_str()).collect();
        assert_eq!(noted, ["linux-swappiness"]);
    }

    #[test]
    fn effects_of_a_newer_program_or_of_an_invalid_comparison_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let said = |effects: &RuleEffects| {
            std::fs::write(folder.path().join(FILE), serde_json::to_vec(effects).unwrap()).unwrap();
            read(folder.path()).map_err(|error| error.to_string())
        };
        assert_eq!(said(&effects(SCHEMA, true)).unwrap(), effects(SCHEMA, true));
        assert!(said(&effects(SCHEMA + 1, true)).unwrap_err().contains("version 2"));
        assert!(said(&effects(SCHEMA, false)).unwrap_err().contains("not valid"));
        std::fs::write(folder.path().join(FILE), "{}").unwrap();
        assert!(matches!(read(folder.path()), Err(MeasuredError::Stored(StoredError::Form { .. }))));
        assert!(matches!(read(Path::new("/nowhere")), Err(MeasuredError::Stored(StoredError::File { .. }))));
    }
}
