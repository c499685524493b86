//! Settings of Fibre Channel in a guest in a tuning: `[tuning.NAME.fc]`.

use crate::error::LabError;
use crate::plan::{Knob, Knobs};

/// Largest number of commands in flight on a path that libfc accepts. Source: `FC_FCP_DFLT_QUEUE_DEPTH` (32) is its default;
/// can_queue of fcoe is 1024.
const DEPTH_MAX: u32 = 1024;

/// Settings of the kernel's FC disks; `None` leaves a setting to the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FcSettings {
    /// Commands in flight on each path.
    pub(crate) depth: Option<u32>,
}

impl FcSettings {
    /// Parses the settings of a tuning; `tuning` names it in errors.
    ///
    /// # Errors
    /// An unknown setting or a value out of range.
    pub(crate) fn parse(knobs: &Knobs, tuning: &str) -> Result<Self, LabError> {
        let mut settings = Self::default();
        for (name, value) in knobs {
            let refused = |hint: &str| LabError::plan(format!("use {name} = {value} in tuning.{tuning}.fc"), hint);
            let number = match value {
                Knob::Number(number) => u32::try_from(*number).ok().filter(|number| (1..=DEPTH_MAX).contains(number)),
                _ => None,
            };
            match name.as_str() {
                "depth" => {
                    let hint = format!("depth is a number from 1 to {DEPTH_MAX}");
                    settings.depth = Some(number.ok_or_else(|| refused(&hint))?);
                }
                _ => return Err(refused("the knob of fc is depth")),
            }
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_is_the_only_knob_and_has_bounds() {
        let parsed = |text: &str| FcSettings::parse(&toml::from_str(text).unwrap(), "x");
        assert_eq!(parsed("").unwrap().depth, None);
        assert_eq!(parsed("depth = 128").unwrap().depth, Some(128));
        for (text, word) in [("depth = 0", "from 1 to"), ("slots = 4", "is depth")] {
            let error = parsed(text).unwrap_err();
            assert!(error.hint().unwrap().contains(word) && error.to_string().contains("tuning.x.fc"), "{error}");
        }
    }
}
