//! What a host lacks for the kernel's initiator.

use super::daemons::{Daemon, ISCSID, MULTIPATHD};
use crate::naming::{NAME_FILE, host_name};
use std::fmt;

/// Something that this host lacks for the kernel's initiator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lack {
    /// The rights of root.
    Rights,
    /// The initiator in the kernel.
    Initiator,
    /// A program.
    Program {
        /// Its name.
        name: &'static str,
        /// The package that contains it.
        package: &'static str,
    },
    /// A name of this host's initiator.
    Name,
    /// A running daemon.
    Daemon(&'static str),
}

impl Lack {
    /// What is missing.
    #[must_use]
    pub fn what(&self) -> String {
        match self {
            Self::Rights => "only root can log in by open-iscsi".to_owned(),
            Self::Initiator => "this kernel has no iSCSI initiator".to_owned(),
            Self::Program { name, .. } => format!("{name} is not in PATH"),
            Self::Name => format!("{NAME_FILE} names no initiator"),
            Self::Daemon(name) => format!("{name} does not run"),
        }
    }

    /// How to provide it.
    #[must_use]
    pub fn fix(&self) -> String {
        match self {
            Self::Rights => "run it as root".to_owned(),
            Self::Initiator => "modprobe iscsi_tcp, if the kernel has that module".to_owned(),
            Self::Program { package, .. } => format!("install {package}"),
            Self::Name => format!("echo InitiatorName=$(iscsi-iname) >{NAME_FILE}, then start iscsid"),
            Self::Daemon(name) => format!("systemctl start {name}; without a service manager, start {name} itself"),
        }
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}; {}", self.what(), self.fix())
    }
}

/// The first thing that this host lacks for a LUN over this number of portals by the kernel's initiator. `None` if it
/// lacks nothing.
#[must_use]
pub fn why_not(portals: usize) -> Option<Lack> {
    if !rustix::process::geteuid().is_root() {
        return Some(Lack::Rights);
    }
    if !host::has_module("iscsi_tcp") {
        return Some(Lack::Initiator);
    }
    lacking(portals, host::has_program, Daemon::listens).or_else(|| host_name().is_none().then_some(Lack::Name))
}

/// The first missing program or daemon, in the order of use.
fn lacking(portals: usize, has: impl Fn(&str) -> bool, runs: impl Fn(Daemon) -> bool) -> Option<Lack> {
    let mut programs = vec![("iscsiadm", "open-iscsi"), ("iscsid", "open-iscsi")];
    let mut daemons = vec![ISCSID];
    if portals > 1 {
        programs.extend([("multipath", "multipath-tools"), ("multipathd", "multipath-tools"), ("dmsetup", "dmsetup")]);
        daemons.push(MULTIPATHD);
    }
    let missing = programs.into_iter().find(|(name, _)| !has(name)).map(|(name, package)| Lack::Program { name, package });
    missing.or_else(|| daemons.into_iter().find(|daemon| !runs(*daemon)).map(|daemon| Lack::Daemon(daemon.name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multipath_is_asked_for_only_where_there_are_several_paths_and_what_is_missing_is_named_with_its_fix() {
        let no_multipath = |name: &str| name != "multipath";
        let no_multipathd = |daemon: Daemon| daemon.name != "multipathd";
        assert_eq!(lacking(2, |_| true, |_| true), None);
        assert_eq!(lacking(1, no_multipath, no_multipathd), None, "one path needs none");
        let missing = lacking(2, no_multipath, |_| true).unwrap();
        assert_eq!(missing.to_string(), "multipath is not in PATH; install multipath-tools");
        let idle = lacking(2, |_| true, no_multipathd).unwrap();
        let said = "multipathd does not run; systemctl start multipathd; without a service manager, start multipathd itself";
        assert_eq!(idle.to_string(), said);
        assert_eq!(lacking(2, |_| false, |_| false), Some(Lack::Program { name: "iscsiadm", package: "open-iscsi" }));
        assert_eq!(lacking(1, |_| true, |_| false), Some(Lack::Daemon("iscsid")));
        assert!(Lack::Name.to_string().starts_with("/etc/iscsi/initiatorname.iscsi names no initiator; echo InitiatorName="));
    }
}
