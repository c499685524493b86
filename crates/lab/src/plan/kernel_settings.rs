//! Settings of this host's kernel in a tuning, for the duration of a run, on every path: `[tuning.NAME.kernel]`.

use std::path::PathBuf;

use crate::error::LabError;
use crate::plan::{Knob, Knobs};

/// Setting: KiB read ahead of a sequential reader.
const READ_AHEAD: &str = "read_ahead_kb";
/// Its upper limit: 1 GiB, more than any manual recommends.
const READ_AHEAD_KB_MAX: u32 = 1 << 20;
/// Prefixes of allowed network settings: sizes of buffers, queues and windows. Others would affect more than the run.
const NETWORK: [&str; 2] = ["net.core.", "net.ipv4.tcp_"];
/// Their directory; slashes replace the dots of their names.
const SYSCTL: &str = "/proc/sys";

/// Settings of this host's kernel; `None` leaves a setting unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct KernelSettings {
    /// KiB that the kernel reads ahead in the file system of the database's files.
    pub(crate) read_ahead_kb: Option<u32>,
    /// Files below /proc/sys, and their new contents.
    pub(crate) network: Vec<(PathBuf, String)>,
}

impl KernelSettings {
    /// Parses the settings of a tuning; `tuning` names it in errors.
    ///
    /// # Errors
    /// An unknown setting or a value out of range.
    pub(crate) fn parse(knobs: &Knobs, tuning: &str) -> Result<Self, LabError> {
        let mut settings = Self::default();
        for (name, value) in knobs {
            let refused = |hint: &str| LabError::plan(format!("use {name} = {value} in tuning.{tuning}.kernel"), hint);
            if name == READ_AHEAD {
                let number = match value {
                    Knob::Number(number) => u32::try_from(*number).ok().filter(|number| *number <= READ_AHEAD_KB_MAX),
                    _ => None,
                };
                let hint = format!("{READ_AHEAD} is a number from 0 to {READ_AHEAD_KB_MAX}");
                settings.read_ahead_kb = Some(number.ok_or_else(|| refused(&hint))?);
                continue;
            }
            let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
            let rest = NETWORK.iter().find_map(|begin| name.strip_prefix(begin));
            if !rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(plain)) {
                let hint = "knobs of kernel are read_ahead_kb and settings of sysctl(8) that begin with net.core. or net.ipv4.tcp_, in quotes: \
                            \"net.ipv4.tcp_rmem\" = \"4096 131072 16777216\"";
                return Err(refused(hint));
            }
            if matches!(value, Knob::Switch(_)) || value.to_string().trim().is_empty() {
                return Err(refused("it is a number, or text as sysctl(8) prints it"));
            }
            settings.network.push((PathBuf::from(SYSCTL).join(name.replace('.', "/")), value.to_string()));
        }
        Ok(settings)
    }

    /// Whether there is nothing to change.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<KernelSettings, LabError> {
        KernelSettings::parse(&toml::from_str(text).unwrap(), "x")
    }

    #[test]
    fn settings_of_the_network_are_files_below_proc_and_read_ahead_is_a_number() {
        assert!(parsed("").unwrap().is_empty());
        let all =
            parsed("read_ahead_kb = 128\n\"net.ipv4.tcp_rmem\" = \"4096 131072 16777216\"\n\"net.core.rmem_max\" = 16777216");
        let all = all.unwrap();
        assert_eq!(all.read_ahead_kb, Some(128));
        let files = all.network.iter().map(|(path, value)| (path.to_str().unwrap(), value.as_str())).collect::<Vec<_>>();
        let wanted = [("/proc/sys/net/core/rmem_max", "16777216"), ("/proc/sys/net/ipv4/tcp_rmem", "4096 131072 16777216")];
        assert_eq!(files, wanted);
    }

    #[test]
    fn what_is_out_of_range_and_what_would_change_more_than_the_run_is_refused_by_name() {
        for (text, word) in [
            ("read_ahead_kb = -1", "from 0 to 1048576"),
            ("read_ahead_kb = \"128\"", "from 0 to 1048576"),
            ("\"vm.swappiness\" = 1", "net.core. or net.ipv4.tcp_"),
            ("\"net.ipv4.tcp_\" = 1", "net.core. or net.ipv4.tcp_"),
            ("\"net.core../vm/swappiness\" = 1", "net.core. or net.ipv4.tcp_"),
            ("\"net.ipv4.tcp_sack\" = true", "as sysctl(8) prints it"),
        ] {
            let error = parsed(text).unwrap_err();
            assert!(error.hint().unwrap().contains(word), "{text}: {error}: {:?}", error.hint());
            assert!(error.to_string().contains("tuning.x.kernel"), "{error}");
        }
    }
}
