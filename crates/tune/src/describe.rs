//! Rules as text: sources, settings and names as findings, plans and docs/rules.md print them.

use results::audit::{Activation, Severity, Status};
use serde::Serialize;

use crate::rule::{Setting, SettingKind, Source, Standing, StandingKind};

/// A source: `TR-3322, 5 NFS mount options (2004)`.
#[must_use]
pub fn source(source: &Source) -> String {
    let mut line = source.name.clone();
    if let Some(section) = &source.section {
        line = format!("{line}, {section}");
    }
    match source.year {
        Some(year) => format!("{line} ({year})"),
        None => line,
    }
}

/// The source that contradicts a rule, and what it says: `reversed by nfs(5): …`.
#[must_use]
pub fn standing(standing: &Standing) -> String {
    let kind = match standing.kind {
        StandingKind::SupersededBy => "superseded by",
        StandingKind::ReversedBy => "reversed by",
        StandingKind::ContestedBy => "contested by",
    };
    format!("{kind} {}: {}", standing.by, standing.says)
}

/// When a change is in force.
#[must_use]
pub fn activation(activation: Activation) -> &'static str {
    match activation {
        Activation::Live => "at once",
        Activation::Reload => "when the database reloads its settings",
        Activation::DbRestart => "when the database is restarted",
        Activation::Remount => "when the file system is unmounted and mounted again",
        Activation::NicRestart => "when the network interface goes down and up",
        Activation::Reboot => "when the host is rebooted",
    }
}

/// What the user does to put a written change in force; `None` if it is in force at once.
#[must_use]
pub fn activating(activation: Activation) -> Option<&'static str> {
    match activation {
        Activation::Live => None,
        Activation::Reload => Some("make the database reload its settings"),
        Activation::DbRestart => Some("restart the database"),
        Activation::Remount => Some("unmount the file system and mount it again"),
        Activation::NicRestart => Some("take the network interface down and up again"),
        Activation::Reboot => Some("reboot the host"),
    }
}

/// The word for a severity.
#[must_use]
pub fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "info",
        Severity::Low => "low",
        Severity::Medium => "medium",
        Severity::High => "high",
        Severity::Critical => "critical",
    }
}

/// The status of a rule today, in words.
#[must_use]
pub fn status(status: Status) -> &'static str {
    match status {
        Status::Valid => "valid",
        Status::ValueChanged => "valid with another value",
        Status::Superseded => "superseded",
        Status::Reversed => "reversed: the opposite is advised today",
        Status::Contested => "contested",
        Status::Obsolete => "obsolete: holds where the platform still runs",
        Status::Dated => "dated: holds for the versions it names",
    }
}

/// The name of a layer in headings.
#[must_use]
pub fn layer(layer: &str) -> &str {
    match layer {
        "cross-layer" => "Across layers",
        "db" => "Database",
        "os-kernel" => "Operating system",
        "fs-cache" => "File cache",
        "nfs-mount" => "NFS mounts",
        "rpc" => "RPC",
        "tcp" => "TCP",
        "ethernet" => "Ethernet",
        "iscsi" => "iSCSI",
        "fc" => "Fibre Channel",
        "multipath" => "Multipath",
        "volume-manager" => "Volume manager",
        "storage" => "Storage",
        other => other,
    }
}

/// The name of a platform.
#[must_use]
pub fn platform(platform: &str) -> &str {
    match platform {
        "linux" => "Linux",
        "solaris" => "Solaris",
        "aix" => "AIX",
        "hpux" => "HP-UX",
        "oracle" => "Oracle",
        "postgres" => "PostgreSQL",
        "mysql" => "MySQL",
        "mariadb" => "MariaDB",
        "ontap7" => "Data ONTAP 7-mode",
        "ontap9" => "ONTAP 9",
        other => other,
    }
}

/// What must be done before a change, in order: `first stop the databases`, `then unmount it`.
pub fn before(needs: &[String]) -> impl Iterator<Item = String> {
    needs.iter().enumerate().map(|(place, need)| format!("{} {need}", if place == 0 { "first" } else { "then" }))
}

/// What must be done after a change, in order: `afterwards log in again`.
pub fn after(steps: &[String]) -> impl Iterator<Item = String> {
    steps.iter().map(|step| format!("afterwards {step}"))
}

/// A setting with its value, as a user would set it. `device` is the judged thing, and `platform`
/// the system on which the setting is stored.
#[must_use]
pub fn setting(setting: &Setting, value: Option<&str>, device: Option<&str>, platform: Option<&str>) -> String {
    let key = setting.key.as_str();
    let shown = value.unwrap_or("on");
    let device = device.unwrap_or("DEVICE");
    match setting.kind {
        SettingKind::Sysctl => format!("sysctl {key} = {shown}, running and in /etc/sysctl.d"),
        SettingKind::Modprobe => {
            let (module, option) = key.split_once('.').unwrap_or(("MODULE", key));
            format!("options {module} {option}={shown} in /etc/modprobe.d")
        }
        SettingKind::FstabOption => mount_option(key, value, platform),
        SettingKind::Limits => format!("{key} {shown} in /etc/security/limits.d"),
        SettingKind::Udev => format!("{key} = {shown} by a udev rule"),
        SettingKind::Iscsid => format!("{key} = {shown} in iscsid.conf"),
        SettingKind::Multipath => {
            let (section, option) = key.rsplit_once('.').unwrap_or(("defaults", key));
            format!("{option} {shown} in section {section} of multipath.conf")
        }
        SettingKind::Postgres => format!("{key} = {shown} by ALTER SYSTEM or in postgresql.conf"),
        SettingKind::Mysql => format!("{key} = {shown} in my.cnf, section mysqld"),
        SettingKind::Oracle => format!("{key} = {shown} by ALTER SYSTEM, scope spfile, or in init.ora"),
        SettingKind::Oranfstab => worded(&format!("{key}:"), value, "in oranfstab"),
        SettingKind::Oracleasm => format!("{key}={shown} in /etc/sysconfig/oracleasm"),
        SettingKind::Ontap7 if key.contains(' ') => worded(key, value, "on the filer"),
        SettingKind::Ontap7 => worded(&format!("options {key}"), value, "on the filer"),
        SettingKind::Ontap9 => worded(key, value, "on the array"),
        SettingKind::SolarisSystem => format!("set {key} = {shown} in /etc/system"),
        SettingKind::SolarisNdd => format!("{key} = {shown} by ndd, and in its start script"),
        SettingKind::Kctune => format!("kctune {key}={shown}"),
        SettingKind::HpuxNdd => format!("{key} = {shown} by ndd, and in nddconf"),
        SettingKind::AixNo => format!("no -p -o {key}={shown}"),
        SettingKind::AixNfso => format!("nfso -p -o {key}={shown}"),
        SettingKind::AixVmo => format!("vmo -p -o {key}={shown}"),
        SettingKind::AixIoo => format!("ioo -p -o {key}={shown}"),
        SettingKind::AixChdev => format!("chdev -l {device} -a {key}={shown}"),
    }
}

/// The name under which a value is stored: `db-restart`.
#[must_use]
pub fn stored_name(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        _ => String::new(),
    }
}

fn mount_option(key: &str, value: Option<&str>, platform: Option<&str>) -> String {
    let file = match platform {
        Some("solaris") => "/etc/vfstab",
        Some("aix") => "/etc/filesystems",
        _ => "/etc/fstab",
    };
    match value {
        None => format!("mount option {key} in {file}"),
        Some("-") => format!("without the mount option {key} in {file}"),
        Some(value) => format!("mount option {key}={value} in {file}"),
    }
}

fn worded(command: &str, value: Option<&str>, place: &str) -> String {
    match value {
        Some(value) => format!("{command} {value} {place}"),
        None => format!("{command} {place}"),
    }
}
