//! Decides which operating system a capture comes from.

use super::collected::Collected;

/// A family of operating systems, as `os.family` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    /// Linux.
    Linux,
    /// Solaris.
    Solaris,
    /// AIX.
    Aix,
    /// HP-UX.
    Hpux,
    /// Data ONTAP 7-Mode, before clusters.
    Ontap7,
    /// ONTAP 9.
    Ontap9,
}

impl Family {
    /// Its name in facts.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Linux => "linux",
            Self::Solaris => "solaris",
            Self::Aix => "aix",
            Self::Hpux => "hpux",
            Self::Ontap7 => "ontap7",
            Self::Ontap9 => "ontap9",
        }
    }

    /// Whether it is a host with databases and not a storage system.
    pub(super) fn is_host(self) -> bool {
        !matches!(self, Self::Ontap7 | Self::Ontap9)
    }

    /// Whether the capture contains output of a filer's console.
    pub(super) fn has_ontap7(collected: &Collected) -> bool {
        let has = |begin: &str| collected.outputs(begin).next().is_some();
        let old = collected
            .outputs("version")
            .chain(collected.outputs("sysconfig"))
            .filter_map(|(_, output)| super::ontap7::release(&output.text));
        has("options")
            || has("vol options")
            || has("vol status")
            || has("fcp show cfmode")
            || old.into_iter().any(|version| !version.starts_with("9.") && !version.starts_with("8."))
    }

    /// Whether the capture contains output of a cluster's command line.
    pub(super) fn has_ontap9(collected: &Collected) -> bool {
        let has = |begin: &str| collected.outputs(begin).next().is_some();
        let new = collected
            .outputs("version")
            .filter_map(|(_, output)| super::ontap7::release(&output.text))
            .any(|version| version.starts_with("9."));
        new || ["vserver", "network port", "network interface", "volume show", "nfs server", "storage aggregate"]
            .iter()
            .any(|begin| has(begin))
    }

    /// The family that the MANIFEST names; otherwise the family with the files and commands in the
    /// capture.
    pub(super) fn of(collected: &Collected) -> Option<Self> {
        let has = |begin: &str| collected.outputs(begin).next().is_some();
        let files = |prefix: &str| collected.files_under(prefix).next().is_some();
        let said = collected.system.to_ascii_lowercase();
        let said = if said.is_empty() {
            collected.outputs("uname").map(|(_, output)| output.text.to_ascii_lowercase()).next().unwrap_or_default()
        } else {
            said
        };
        let said = said.split_whitespace().next().unwrap_or_default();
        match said {
            "linux" => return Some(Self::Linux),
            "sunos" | "solaris" => return Some(Self::Solaris),
            "aix" => return Some(Self::Aix),
            "hp-ux" | "hpux" => return Some(Self::Hpux),
            "ontap7" => return Some(Self::Ontap7),
            "ontap9" => return Some(Self::Ontap9),
            _ => {}
        }
        if said == "ontap" {
            return Some(if Self::has_ontap9(collected) && !has("options") && !has("vol options") {
                Self::Ontap9
            } else {
                Self::Ontap7
            });
        }
        let has_file = |path: &str| collected.file(path).is_some();
        if has_file("/etc/vfstab") || has_file("/etc/system") || has_file("/etc/release") {
            return Some(Self::Solaris);
        }
        if files("/etc/filesystems") || has("oslevel") || has("vmo") || has("lsattr -El") || has("lslpp") {
            return Some(Self::Aix);
        }
        if files("/stand/system") || files("/etc/rc.config.d/") || has("kctune") || has("kmtune") || has("swlist") {
            return Some(Self::Hpux);
        }
        let linux = [
            "/proc/",
            "/sys/",
            "/etc/os-release",
            "/etc/sysctl",
            "/etc/modprobe",
            "/etc/redhat-release",
            "/etc/fstab",
            "/etc/security/",
            "/etc/multipath.conf",
            "/etc/iscsi/",
        ];
        if linux.iter().any(|prefix| files(prefix)) || has("sysctl -a") || has("ip") {
            return Some(Self::Linux);
        }
        if Self::has_ontap7(collected) {
            return Some(Self::Ontap7);
        }
        Self::has_ontap9(collected).then_some(Self::Ontap9)
    }
}
