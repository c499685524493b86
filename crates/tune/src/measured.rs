//! Effects that `tune measure` found, read back and put beside the findings of the same rules.

use std::path::{Path, PathBuf};

use results::audit::{Audit, Verdict};
use results::rule_effects::{RuleEffects, SCHEMA};

use crate::limits::RULE_EFFECTS_BYTES_MAX;

/// The file in the directory of a measurement.
pub const FILE: &str = "effects.json";

/// Effects that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MeasuredError {
    /// The file cannot be read.
    #[error("read {path}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file does not hold effects.
    #[error("{path} does not hold the effects of a measurement")]
    Form {
        /// Which.
        path: PathBuf,
        /// Where it stops.
        #[source]
        source: serde_json::Error,
    },
    /// The file is too large.
    #[error("{path} has {bytes} bytes, more than the {RULE_EFFECTS_BYTES_MAX} of effects of all rules")]
    Size {
        /// Which.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// A newer program wrote it.
    #[error("{path} has version {found} of the stored form, this program reads up to {SCHEMA}")]
    Version {
        /// Which.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// The comparison was not valid.
    #[error("{path} is of a comparison that is not valid: nothing can be claimed from it")]
    NotValid {
        /// Which.
        path: PathBuf,
    },
}

/// Reads the effects of the measurement in this directory.
///
/// # Errors
/// A file that cannot be read, is too large, is none, is newer than this program, or of a comparison that is not valid.
pub fn read(directory: &Path) -> Result<RuleEffects, MeasuredError> {
    let path = directory.join(FILE);
    let file = |source| MeasuredError::File { path: path.clone(), source };
    let bytes = std::fs::metadata(&path).map_err(file)?.len();
    if bytes > RULE_EFFECTS_BYTES_MAX {
        return Err(MeasuredError::Size { path, bytes });
    }
    let text = std::fs::read(&path).map_err(file)?;
    let effects: RuleEffects =
        serde_json::from_slice(&text).map_err(|source| MeasuredError::Form { path: path.clone(), source })?;
    match effects {
        RuleEffects { schema, .. } if schema > SCHEMA => Err(MeasuredError::Version { path, found: schema }),
        RuleEffects { valid: false, .. } => Err(MeasuredError::NotValid { path }),
        effects => Ok(effects),
    }
}

/// Notes the measured effects at the findings of their rules.
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
        assert!(matches!(read(folder.path()), Err(MeasuredError::Form { .. })));
        assert!(matches!(read(Path::new("/nowhere")), Err(MeasuredError::File { .. })));
    }
}
