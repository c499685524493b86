//! The record of a LUN, which is stored besides its data. Layout: `docs/format-lun.md`.

use serde::{Deserialize, Serialize};

use crate::limits::LUN_INITIATORS_MAX;

/// The only version of the format.
const FORMAT: u32 = 1;

/// A name that maps a LUN to all initiators.
pub(crate) const ANY: &str = "*";

/// The record of a LUN. The LUN's name is that of the record's file, and its size that of its data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LunRecord {
    format: u32,
    /// Random, drawn when the LUN is created. Together with the volume's id it determines the serial number, so no
    /// other LUN has the same.
    #[serde(with = "hexadecimal")]
    pub(crate) id: u64,
    pub(crate) state: LunState,
    /// The number by which initiators address the LUN.
    pub(crate) lun: u16,
    pub(crate) block_bytes: u32,
    /// The physical block size that initiators see.
    pub(crate) physical_block_bytes: u32,
    pub(crate) thin: bool,
    pub(crate) read_only: bool,
    pub(crate) write_cache: bool,
    /// Initiator names and groups, or [`ANY`].
    pub(crate) initiators: Vec<String>,
}

/// The state of a LUN. The next start undoes or completes what a killed filer left unfinished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LunState {
    /// Its data is not complete yet, and no initiator has seen it.
    Creating,
    Ready,
    /// Its data may be gone.
    Deleting,
}

/// Properties of a LUN that will be created.
#[derive(Clone, Debug)]
pub(crate) struct LunOptions {
    pub(crate) lun: u16,
    pub(crate) block_bytes: u32,
    /// The physical block size that initiators see.
    pub(crate) physical_block_bytes: u32,
    pub(crate) thin: bool,
    pub(crate) read_only: bool,
    pub(crate) write_cache: bool,
    pub(crate) initiators: Vec<String>,
}

impl LunRecord {
    /// The record of a LUN whose creation begins.
    pub(crate) fn new(id: u64, options: LunOptions) -> Self {
        let LunOptions { lun, block_bytes, physical_block_bytes, thin, read_only, write_cache, initiators } = options;
        let (format, state) = (FORMAT, LunState::Creating);
        Self { format, id, state, lun, block_bytes, physical_block_bytes, thin, read_only, write_cache, initiators }
    }

    /// Parses a record. The error says what is wrong with it.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        let version: Version = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        if version.format != FORMAT {
            return Err(format!("format {}, which this version of Millrace does not know", version.format));
        }
        let record: Self = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        if record.initiators.len() > LUN_INITIATORS_MAX {
            return Err(format!("{} initiators, over the limit {LUN_INITIATORS_MAX}", record.initiators.len()));
        }
        Ok(record)
    }

    /// The text of the record's file.
    pub(crate) fn to_text(&self) -> Vec<u8> {
        // The record has numbers, words and a list of words, all of which JSON can hold.
        let mut text = serde_json::to_vec_pretty(self).unwrap_or_default();
        text.push(b'\n');
        text
    }
}

/// A number as 16 digits, because numbers in JSON have only 53 bits in many programs.
mod hexadecimal {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's form")]
    pub(super) fn serialize<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{number:016x}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let text = String::deserialize(deserializer)?;
        u64::from_str_radix(&text, 16).map_err(|_| D::Error::custom(format!("{text:?} is not a number of 16 hexadecimal digits")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> LunRecord {
        let options = LunOptions {
            lun: 3,
            block_bytes: 512,
            physical_block_bytes: 4096,
            thin: true,
            read_only: false,
            write_cache: true,
            initiators: vec!["iqn.2026-01.example:db".into()],
        };
        LunRecord::new(0x0123_4567_89ab_cdef, options)
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        assert_eq!(LunRecord::parse(&record().to_text()), Ok(record()));
    }

    #[test]
    fn the_first_version_is_read_as_it_was_then() {
        let text = br#"{"format": 1, "id": "0123456789abcdef", "state": "creating", "lun": 3, "block_bytes": 512,
            "physical_block_bytes": 4096, "thin": true,
            "read_only": false, "write_cache": true, "initiators": ["iqn.2026-01.example:db"]}"#;
        assert_eq!(LunRecord::parse(text), Ok(record()));
    }

    #[test]
    fn another_version_and_what_is_no_record_are_refused_in_words() {
        let later = String::from_utf8(record().to_text()).unwrap().replace("\"format\": 1", "\"format\": 2");
        assert!(LunRecord::parse(later.as_bytes()).unwrap_err().contains("format 2"));
        for broken in ["", "{}", "[]", r#"{"format": 1}"#, r#"{"format": 1, "id": "x"}"#] {
            assert!(LunRecord::parse(broken.as_bytes()).is_err(), "{broken}");
        }
    }
}
