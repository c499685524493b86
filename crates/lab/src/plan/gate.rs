//! Gates: thresholds that a comparison tests.

use std::collections::BTreeMap;

use crate::error::LabError;
use crate::paths;

/// Suffix of a path's name in the key of a gate: `dnfs_share_of_first_min`.
const SHARE_OF_FIRST: &str = "_share_of_first_min";

/// The smallest share of the first configuration's OETs that a path must reach.
#[derive(Debug, Clone, PartialEq)]
pub struct ShareGate {
    /// Name of the path.
    pub path: String,
    /// Smallest share; 1 for the same number.
    pub least: f64,
}

/// Reads the gates from a plan's section.
pub(super) fn read(section: &BTreeMap<String, f64>) -> Result<Vec<ShareGate>, LabError> {
    let gate = |(key, least): (&String, &f64)| {
        let path = key.strip_suffix(SHARE_OF_FIRST).and_then(paths::find);
        path.map(|path| ShareGate { path: path.name().to_owned(), least: *least }).ok_or_else(|| {
            let form =
                format!("gates are NAME{SHARE_OF_FIRST}, with the name of a path: {}{SHARE_OF_FIRST}", paths::EXAMPLE.name());
            LabError::plan(format!("test the gate \"{key}\""), &form)
        })
    };
    section.iter().map(gate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_path_may_have_a_gate_and_other_keys_are_refused() {
        let read = |key: &str| read(&BTreeMap::from([(key.to_owned(), 0.5)]));
        assert_eq!(read("knfs_share_of_first_min").unwrap(), [ShareGate { path: "knfs".into(), least: 0.5 }]);
        for key in ["floppy_share_of_first_min", "dnfs_share"] {
            assert!(read(key).unwrap_err().to_string().contains(key));
        }
    }
}
