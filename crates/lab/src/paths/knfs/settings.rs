//! Settings of the kernel's NFS client in a tuning: `[tuning.NAME.knfs]`.

use crate::error::LabError;
use crate::plan::{Knob, Knobs};

/// Name of the path, and of the layer of its settings.
pub(super) const NAME: &str = "knfs";
/// Most connections of a mount. Source: `NFS_MAX_CONNECTIONS` in fs/nfs/fs_context.c of Linux.
const NCONNECT_MAX: u32 = 16;
/// Allowed slots of a connection. Source: `RPC_MIN_SLOT_TABLE`, `RPC_MAX_SLOT_TABLE_LIMIT` in include/linux/sunrpc/xprt.h.
const SLOTS: std::ops::RangeInclusive<u32> = 2..=65_536;
/// Mount options for the filer's address and the protocol: the path itself sets them.
const OWNED: [&str; 19] = [
    "addr",
    "bg",
    "clientaddr",
    "fg",
    "local_lock",
    "lock",
    "mountaddr",
    "mounthost",
    "mountport",
    "mountproto",
    "mountvers",
    "nfsvers",
    "nolock",
    "port",
    "proto",
    "tcp",
    "udp",
    "v3",
    "vers",
];
/// Options with which a database does not work, or loses written data.
const HARMFUL: [&str; 4] = ["ro", "remount", "soft", "softerr"];

/// Recommended settings: the connections of rule linux-nfs-nconnect. The client's defaults satisfy the other rules for such a mount:
/// transfer sizes, hard, the limit of slots.
pub(super) fn tuned() -> Knobs {
    Knobs::from([("nconnect".to_owned(), Knob::Number(8))])
}

/// Settings of a mount by the kernel's NFS client; `None` leaves a setting to the kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct KernelNfs {
    /// Connections of the mount.
    pub(crate) nconnect: Option<u32>,
    /// Slots of each connection.
    pub(crate) slots: Option<u32>,
    /// Further mount options.
    options: Vec<String>,
}

impl KernelNfs {
    /// Parses the settings of a tuning; `tuning` names it in errors.
    ///
    /// # Errors
    /// An unknown setting, a value out of range, or an option that the path itself sets or that would lose data.
    pub(crate) fn parse(knobs: &Knobs, tuning: &str) -> Result<Self, LabError> {
        let mut settings = Self::default();
        for (name, value) in knobs {
            let refused = |hint: &str| LabError::plan(format!("use {name} = {value} in tuning.{tuning}.knfs"), hint);
            let within = |least: u32, most: u32| match value {
                Knob::Number(number) => u32::try_from(*number).ok().filter(|number| (least..=most).contains(number)),
                _ => None,
            };
            match name.as_str() {
                "nconnect" => {
                    let hint = format!("nconnect is a number from 1 to {NCONNECT_MAX}");
                    settings.nconnect = Some(within(1, NCONNECT_MAX).ok_or_else(|| refused(&hint))?);
                }
                "slots" => {
                    let (least, most) = (*SLOTS.start(), *SLOTS.end());
                    let hint = format!("slots are a number from {least} to {most}");
                    settings.slots = Some(within(least, most).ok_or_else(|| refused(&hint))?);
                }
                "options" => settings.options = parse_options(&value.to_string()).map_err(|hint| refused(&hint))?,
                _ => return Err(refused("knobs of knfs are nconnect, slots and options")),
            }
        }
        Ok(settings)
    }

    /// Options of mount(8) for a filer on this port.
    pub(crate) fn mount_options(&self, port: u16) -> String {
        let mut options = format!("vers=3,proto=tcp,mountproto=tcp,nolock,port={port},mountport={port}");
        if let Some(nconnect) = self.nconnect {
            options += &format!(",nconnect={nconnect}");
        }
        for option in &self.options {
            options += &format!(",{option}");
        }
        options
    }
}

fn parse_options(text: &str) -> Result<Vec<String>, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_=.:-".contains(&byte);
    let mut options = Vec::new();
    for option in text.split(',').filter(|option| !option.is_empty()) {
        let name = option.split('=').next().unwrap_or_default();
        if OWNED.contains(&name) {
            return Err(format!("path knfs sets {name} itself: leave it out"));
        }
        if HARMFUL.contains(&name) {
            return Err(format!("{name} is of no use to a database: leave it out"));
        }
        if name == "nconnect" {
            return Err("nconnect is a knob of its own: nconnect = N".to_owned());
        }
        if !option.bytes().all(plain) {
            return Err(format!("\"{option}\" is not a mount option; separate them with commas: rsize=65536,noatime"));
        }
        options.push(option.to_owned());
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<KernelNfs, LabError> {
        KernelNfs::parse(&toml::from_str(text).unwrap(), "x")
    }

    #[test]
    fn knobs_become_mount_options_and_without_any_the_client_has_its_defaults() {
        let none = parsed("").unwrap();
        assert_eq!(none.mount_options(7), "vers=3,proto=tcp,mountproto=tcp,nolock,port=7,mountport=7");
        let all = parsed("nconnect = 4\nslots = 16\noptions = \"rsize=65536,wsize=65536,noatime\"").unwrap();
        assert_eq!((all.nconnect, all.slots), (Some(4), Some(16)));
        assert!(all.mount_options(7).ends_with(",mountport=7,nconnect=4,rsize=65536,wsize=65536,noatime"));
    }

    #[test]
    fn what_is_the_paths_own_what_costs_data_and_what_is_out_of_range_is_refused_by_name() {
        for (text, word) in [
            ("options = \"port=2049\"", "port itself"),
            ("options = \"noatime,vers=4.2\"", "vers itself"),
            ("options = \"soft\"", "soft is of no use"),
            ("options = \"ro,noatime\"", "ro is of no use"),
            ("options = \"nconnect=4\"", "knob of its own"),
            ("options = \"a b\"", "not a mount option"),
            ("nconnect = 17", "from 1 to 16"),
            ("nconnect = \"4\"", "from 1 to 16"),
            ("slots = 1", "from 2 to 65536"),
            ("slot = 16", "nconnect, slots and options"),
        ] {
            let error = parsed(text).unwrap_err();
            assert!(error.hint().unwrap().contains(word), "{text}: {error}: {:?}", error.hint());
            assert!(error.to_string().contains("tuning.x.knfs"), "{error}");
        }
    }
}
