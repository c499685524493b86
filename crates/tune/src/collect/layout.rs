//! Where files are in a capture: Millrace's capture with its MANIFEST, a support archive (sos), or
//! a tree of plain files.

use super::command_line::rest_after;
use super::limits::{DEPTH_MAX, PATH_BYTES_MAX};

/// The content of an entry of a capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// The list of entries.
    Manifest,
    /// The site file.
    Site,
    /// A copy of the file with this absolute path.
    File(String),
    /// The output of a command, with the slug of its command line.
    Command(String),
    /// A file in a tree. Its path on the host is known once the root of the tree is known.
    InTree,
    /// Content that no parser reads.
    Nothing,
}

/// Folders in a host's root.
const ROOTS: &[&str] =
    &["etc", "proc", "sys", "stand", "var", "platform", "kernel", "usr", "opt", "boot", "root", "home", "run", "lib"];

/// Files and folders that parsers read. A path that ends with `/` is a folder.
pub(super) const FILES: &[&str] = &[
    "/etc/fstab",
    "/etc/vfstab",
    "/etc/mnttab",
    "/etc/mtab",
    "/etc/filesystems",
    "/etc/system",
    "/etc/release",
    "/etc/os-release",
    "/usr/lib/os-release",
    "/etc/redhat-release",
    "/etc/oracle-release",
    "/etc/debian_version",
    "/etc/sysctl.conf",
    "/etc/sysctl.d/",
    "/run/sysctl.d/",
    "/usr/local/lib/sysctl.d/",
    "/usr/lib/sysctl.d/",
    "/lib/sysctl.d/",
    "/etc/modprobe.conf",
    "/etc/modprobe.d/",
    "/run/modprobe.d/",
    "/usr/local/lib/modprobe.d/",
    "/usr/lib/modprobe.d/",
    "/lib/modprobe.d/",
    "/etc/security/limits",
    "/etc/security/limits.conf",
    "/etc/security/limits.d/",
    "/etc/pam.d/",
    "/etc/iscsi/iscsid.conf",
    "/etc/multipath.conf",
    "/etc/multipath/conf.d/",
    "/etc/sysconfig/oracleasm",
    "/etc/sysconfig/network-scripts/ifcfg-",
    "/etc/network/interfaces",
    "/etc/netplan/",
    "/etc/NetworkManager/system-connections/",
    "/etc/systemd/network/",
    "/etc/init.d/netfs",
    "/etc/nfsmount.conf",
    "/etc/nfsmount.conf.d/",
    "/etc/auto.",
    "/etc/auto.master.d/",
    "/etc/systemd/system/",
    "/run/systemd/system/",
    "/usr/local/lib/systemd/system/",
    "/usr/lib/systemd/system/",
    "/lib/systemd/system/",
    "/etc/hosts",
    "/etc/tuned/active_profile",
    "/etc/project",
    "/etc/hostname.",
    "/etc/rc",
    "/etc/rc2.d/",
    "/etc/rc.config.d/",
    "/etc/rc.local",
    "/etc/tunables/nextboot",
    "/etc/oranfstab",
    "/etc/my.cnf",
    "/etc/my.cnf.d/",
    "/etc/mysql/",
    "/etc/postgresql/",
    "/stand/system",
    "/platform/",
    "/kernel/drv/",
    "/var/opt/oracle/oranfstab",
    "/proc/cmdline",
    "/proc/meminfo",
    "/proc/cpuinfo",
    "/proc/mounts",
    "/proc/self/mounts",
    "/proc/self/mountinfo",
    "/proc/self/mountstats",
    "/proc/1/mountinfo",
    "/proc/net/route",
    "/proc/sys/",
    "/sys/block/",
    "/sys/class/net/",
    "/sys/class/fc_host/",
    "/sys/class/nvme-subsystem/",
    "/sys/class/iscsi_session/",
    "/sys/devices/",
    "/sys/module/",
    "/sys/kernel/mm/transparent_hugepage/",
    "/root/.bash_profile",
    "/home/oracle/.bash_profile",
];

/// File names that parsers read in any folder.
const NAMES: &[&str] = &[
    "oranfstab",
    "postgresql.conf",
    "postgresql.auto.conf",
    "mysqld-auto.cnf",
    "pg_settings.csv",
    "pg_settings.txt",
    "PG_VERSION",
    "my.cnf",
    "init.ora",
    "spfile.txt",
    "variables.txt",
    "parameters.txt",
    "v_parameter.txt",
    "v_parameter.csv",
];

/// The place of the entry with this path. `None` for a path that leads out of the capture, is too
/// long or too deep.
pub(super) fn place(path: &str) -> Option<Place> {
    if path.len() > PATH_BYTES_MAX || path.contains('\0') || path.starts_with('/') {
        return None;
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.len() > DEPTH_MAX || parts.contains(&"..") {
        return None;
    }
    let Some(name) = parts.last() else { return Some(Place::Nothing) };
    if parts.len() <= 2 && *name == "MANIFEST" {
        return Some(Place::Manifest);
    }
    if parts.len() <= 2 && *name == "site.toml" {
        return Some(Place::Site);
    }
    for (at, part) in parts.iter().enumerate().take(3) {
        match *part {
            // The collector stored only files that a parser reads.
            "files" if at + 1 < parts.len() => return Some(Place::File(format!("/{}", parts[at + 1..].join("/")))),
            "commands" => return Some(command(&parts[at + 1..])),
            "sos_commands" => return Some(command(&parts[at + 1..])),
            part if ROOTS.contains(&part) && at + 1 < parts.len() => return Some(file(&parts[at..])),
            _ => {}
        }
    }
    if parts.len() <= 3 && matches!(*name, "installed-rpms" | "installed-debs" | "uname" | "hostname") {
        return Some(Place::Command((*name).to_owned()));
    }
    Some(match parts.len() {
        // Another file may include this one, so it keeps its folder.
        2 if !NAMES.contains(name) && is_included(name) => Place::InTree,
        // In a folder of loose files, a configuration file is known by its name and the output of a
        // command by its slug.
        1 | 2 => match file(&[name]) {
            Place::Nothing if name.ends_with(".txt") || name.ends_with(".out") => command(&[name]),
            place => place,
        },
        _ if wanted(&format!("/{}", parts.join("/"))) => Place::InTree,
        _ => Place::Nothing,
    })
}

fn file(parts: &[&str]) -> Place {
    let path = format!("/{}", parts.join("/"));
    if wanted(&path) { Place::File(path) } else { Place::Nothing }
}

/// For an entry in a tree: the folders above the host's root, and the path on the host.
pub(super) fn below_root(path: &str) -> Option<(String, String)> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let at = parts.iter().take(3).position(|part| ROOTS.contains(part))?;
    Some((parts[..at].join("/"), format!("/{}", parts[at..].join("/"))))
}

fn command(parts: &[&str]) -> Place {
    let Some(name) = parts.last() else { return Place::Nothing };
    let name = name.strip_suffix(".txt").or_else(|| name.strip_suffix(".out")).unwrap_or(name);
    if wanted_command(name) { Place::Command(name.to_owned()) } else { Place::Nothing }
}

/// Whether a parser reads the file with this absolute path.
pub(super) fn wanted(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let listed = FILES.iter().any(|file| {
        path == *file || ((file.ends_with('/') || file.ends_with('-') || file.ends_with('.')) && path.starts_with(file))
    });
    let oracle = (name.starts_with("init") || name.starts_with("spfile")) && name.ends_with(".ora");
    (listed && wanted_below_sys(path) && wanted_of_systemd(path)) || NAMES.contains(&name) || oracle || is_included(name)
}

/// Whether a database's configuration may include a file with this name.
fn is_included(name: &str) -> bool {
    name.ends_with(".conf") || name.ends_with(".cnf")
}

/// Below `/sys`, only the small files with settings are read.
fn wanted_below_sys(path: &str) -> bool {
    const SYS: &[&str] = &[
        "/queue/",
        "/device/",
        "/parameters/",
        "/class/net/",
        "/class/fc_host/",
        "/class/iscsi",
        "/class/nvme-subsystem/",
        "huge",
        "/alignment_offset",
        "/start",
        "/version",
    ];
    !path.starts_with("/sys/") || SYS.iter().any(|part| path.contains(part))
}

/// Of systemd's units, only mount units and their drop-ins are read.
fn wanted_of_systemd(path: &str) -> bool {
    !path.contains("/systemd/system/") || path.ends_with(".mount") || path.contains(".mount.d/") && path.ends_with(".conf")
}

/// Folders for which it matters that all their files are known: a file that was not read may change
/// what the others set.
pub(super) const COUNTED_FOLDERS: &[&str] = &[
    "/etc/sysctl.d/",
    "/run/sysctl.d/",
    "/usr/local/lib/sysctl.d/",
    "/usr/lib/sysctl.d/",
    "/lib/sysctl.d/",
    "/etc/modprobe.d/",
    "/run/modprobe.d/",
    "/usr/local/lib/modprobe.d/",
    "/usr/lib/modprobe.d/",
    "/lib/modprobe.d/",
    "/etc/multipath/conf.d/",
    "/etc/nfsmount.conf.d/",
    "/etc/auto.master.d/",
];

/// Files whose absence is recorded, because it matters.
pub(super) const COUNTED_FILES: &[&str] = &[
    "/etc/sysctl.conf",
    "/etc/modprobe.conf",
    "/etc/multipath.conf",
    "/etc/nfsmount.conf",
    "/etc/auto.master",
    "/etc/fstab",
    "/etc/init.d/netfs",
    "/etc/sysconfig/oracleasm",
    "/home/oracle/.bash_profile",
];

/// Beginnings of the command lines that a parser reads.
const COMMANDS: &[&str] = &[
    "aggr",
    "bootinfo",
    "chkconfig",
    "cluster",
    "dladm show-linkprop",
    "dpkg",
    "dpkg-query",
    "ethtool",
    "fcp",
    "fdisk",
    "find -perm",
    "getconf",
    "grep",
    "hostname",
    "ifconfig",
    "igroup",
    "installed-debs",
    "installed-rpms",
    "instfix",
    "ioo",
    "ioscan",
    "ip",
    "ipadm show-prop",
    "isainfo",
    "iscsi",
    "iscsiadm",
    "iswt",
    "kctune",
    "kmtune",
    "lanadmin",
    "ls",
    "lsattr",
    "lsblk",
    "lsdev",
    "lslpp",
    "lspath",
    "lun",
    "lvdisplay",
    "machinfo",
    "millrace nfs counters",
    "modinfo",
    "modprobe",
    "mount",
    "multipath",
    "mariadbd",
    "mysql",
    "mysqld",
    "ndd",
    "netstat",
    "network",
    "nfs",
    "nfsconf",
    "nfso",
    "nfsstat",
    "no",
    "options",
    "oslevel",
    "postgres",
    "prtconf",
    "ps",
    "psql",
    "psrinfo",
    "rdfile",
    "readlink -f",
    "route",
    "rpm",
    "running",
    "schedo",
    "sfdisk",
    "sh -c rpm",
    "show parameter",
    "SHOW VARIABLES",
    "snap",
    "sqlplus",
    "storage",
    "swlist",
    "sysconfig",
    "sysctl",
    "system",
    "systemctl list-unit-files",
    "systemd-analyze cat-config",
    "tuned-adm",
    "uname",
    "version",
    "vgdisplay",
    "vmo",
    "vol",
    "volume",
    "vserver",
];

/// Whether a parser reads the output of this command. `line` is its command line or its slug.
pub(super) fn wanted_command(line: &str) -> bool {
    COMMANDS.iter().any(|begin| rest_after(line, begin).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_placed_by_the_layouts_we_know() {
        let file = |path: &str| Some(Place::File(path.to_owned()));
        let command = |slug: &str| Some(Place::Command(slug.to_owned()));
        assert_eq!(place("cap/MANIFEST"), Some(Place::Manifest));
        assert_eq!(place("files/etc/fstab"), file("/etc/fstab"));
        assert_eq!(place("./cap/commands/sysctl-a.txt"), command("sysctl-a"));
        assert_eq!(place("sosreport-db1/sos_commands/kernel/sysctl_-a"), command("sysctl_-a"));
        assert_eq!(place("sosreport-db1/etc/sysctl.d/99-a.conf"), file("/etc/sysctl.d/99-a.conf"));
        assert_eq!(place("etc/vfstab"), file("/etc/vfstab"));
        assert_eq!(place("postgresql.conf"), file("/postgresql.conf"));
        assert_eq!(place("files/u01/app/oracle/dbs/initORCL.ora"), file("/u01/app/oracle/dbs/initORCL.ora"));
        assert_eq!(place("sosreport/var/log/messages"), Some(Place::Nothing));
    }

    #[test]
    fn paths_that_lead_out_are_refused() {
        for path in ["/etc/fstab", "a/../../etc/fstab", "..", "a\0b", &"d/".repeat(60)] {
            assert_eq!(place(path), None, "{path:?}");
        }
    }
}
