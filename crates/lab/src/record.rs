//! Reads the record of an earlier comparison.

use std::path::Path;

use results::compare::{Comparison, SCHEMA};

use crate::error::LabError;
use crate::limits::RECORD_BYTES_MAX;
use crate::report;

/// Reads `results.json`, or the one in a directory.
///
/// # Errors
/// The file does not exist, is too large, or is not a record of a comparison.
pub fn read(path: &Path) -> Result<Comparison, LabError> {
    let file = report::record_file(path);
    let size = std::fs::metadata(&file).map_err(LabError::file("read the record", &file))?.len();
    if size > RECORD_BYTES_MAX {
        return Err(LabError::Plan {
            what: format!("read the record {}: it has {size} bytes, more than {RECORD_BYTES_MAX}", file.display()),
            hint: "name the results.json of a comparison, or its directory".to_owned(),
        });
    }
    let text = std::fs::read(&file).map_err(LabError::file("read the record", &file))?;
    let comparison: Comparison = serde_json::from_slice(&text).map_err(|error| LabError::Plan {
        what: format!("read the record {}: {error}", file.display()),
        hint: "name the results.json of a comparison, or its directory".to_owned(),
    })?;
    if comparison.kind != "compare" || comparison.schema != SCHEMA {
        let (kind, schema) = (&comparison.kind, comparison.schema);
        return Err(LabError::Plan {
            what: format!("read {}: it is a record \"{kind}\" of schema {schema}", file.display()),
            hint: format!("records \"compare\" of schema {SCHEMA} are read, those of older versions of it too"),
        });
    }
    Ok(comparison)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::RECORD;

    #[test]
    fn a_record_is_read_from_its_directory_or_its_file_and_rubbish_is_named() {
        let place = tempfile::tempdir().unwrap();
        let written = Comparison { schema: SCHEMA, kind: "compare".into(), verdict: "found".into(), ..Comparison::default() };
        let file = place.path().join(RECORD);
        std::fs::write(&file, serde_json::to_vec(&written).unwrap()).unwrap();
        assert_eq!(read(place.path()).unwrap(), written);
        assert_eq!(read(&file).unwrap(), written);
        std::fs::write(&file, "{").unwrap();
        assert!(read(&file).unwrap_err().to_string().contains("results.json"));
        assert!(read(&place.path().join("none")).is_err());
    }
}
