//! Commands as text for settings that apply never changes: other operating systems, storage,
//! databases with their own console.

use results::audit::Activation;
use serde::Serialize;

use super::setting::SettingChange;
use crate::rule::SettingKind;

/// Commands that Millrace prints and never runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Run {
    /// Where the user runs them: a shell, psql, the storage's console.
    pub place: String,
    /// The commands.
    pub lines: Vec<String>,
    /// The commands that revert them.
    pub undo: Vec<String>,
}

/// A setting to change, what puts it in force, and the operating system.
pub(super) struct SettingText<'a> {
    pub(super) change: &'a SettingChange,
    pub(super) activation: Activation,
    /// `os.family`, for example `solaris`.
    pub(super) family: &'a str,
}

/// The commands that set the value, and those that restore the old one if it is known.
pub(super) fn commands(setting: &SettingText<'_>) -> Run {
    let SettingChange { target, key, from, to } = setting.change;
    let lines = |value: &str| lines(setting, value);
    let undo = match (target.kind, from) {
        (SettingKind::Postgres, _) => vec![alter_system_reset(key), reload(setting.activation)],
        (_, Some(before)) if plain(before) => lines(before),
        _ => Vec::new(),
    };
    Run { place: place(target.kind).to_owned(), lines: lines(to), undo }
}

/// The statement that sets a PostgreSQL setting. It quotes any name and any value.
#[must_use]
pub fn alter_system(key: &str, value: &str) -> String {
    format!("ALTER SYSTEM SET {} = '{}';", identifier(key), value.replace('\'', "''"))
}

/// The statement that removes a value set by [`alter_system`].
#[must_use]
pub fn alter_system_reset(key: &str) -> String {
    format!("ALTER SYSTEM RESET {};", identifier(key))
}

/// An identifier of PostgreSQL ("Identifiers and Key Words", section 4.1.1): quoted unless it is a
/// plain word. The name of an extension's setting contains a dot.
pub(super) fn identifier(name: &str) -> String {
    let plain = |part: &str| {
        part.starts_with(|sign: char| sign.is_ascii_lowercase() || sign == '_')
            && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    };
    let parts =
        name.split('.').map(|part| if plain(part) { part.to_owned() } else { format!("\"{}\"", part.replace('"', "\"\"")) });
    parts.collect::<Vec<_>>().join(".")
}

fn lines(setting: &SettingText<'_>, value: &str) -> Vec<String> {
    let (change, activation) = (setting.change, setting.activation);
    let (kind, key) = (change.target.kind, change.key.as_str());
    let thing = change.target.thing.as_ref().map(|(kind, name)| (kind.as_str(), name.as_str()));
    let name = thing.map_or("NAME", |(_, name)| name);
    let boot = activation == Activation::Reboot;
    match kind {
        SettingKind::Postgres => {
            vec![alter_system(key, value), reload(activation)]
        }
        SettingKind::Mysql => {
            vec!["in my.cnf, section [mysqld]:".to_owned(), format!("  {key} = {value}")]
        }
        SettingKind::Oracle => vec![
            format!("ALTER SYSTEM SET {key}={value} SCOPE=SPFILE SID='*';"),
            format!("-- without a server parameter file, in init.ora: {key}={value}"),
        ],
        SettingKind::Ontap7 => ontap7(key, value, thing),
        SettingKind::Ontap9 => vec![ontap9(key, value, name)],
        SettingKind::SolarisSystem => vec![format!("in /etc/system: set {key}={value}")],
        SettingKind::SolarisNdd => {
            let (driver, parameter) = driver_of(key);
            let line = format!("ndd -set /dev/{driver} {parameter} {value}");
            vec![line.clone(), format!("in a start script, as /etc/rc2.d/S99ndd, so that it lasts: {line}")]
        }
        SettingKind::Kctune => vec![format!("kctune {key}={value}")],
        SettingKind::HpuxNdd => {
            let (driver, parameter) = driver_of(key);
            vec![
                format!("ndd -set /dev/{driver} {parameter} {value}"),
                "in /etc/rc.config.d/nddconf, with the next free number for N, so that it lasts:".to_owned(),
                format!("  TRANSPORT_NAME[N]={driver}"),
                format!("  NDD_NAME[N]={parameter}"),
                format!("  NDD_VALUE[N]={value}"),
            ]
        }
        SettingKind::AixNo => vec![aix("no", boot, key, value)],
        SettingKind::AixNfso => vec![aix("nfso", boot, key, value)],
        SettingKind::AixVmo => vec![aix("vmo", boot, key, value)],
        SettingKind::AixIoo => vec![aix("ioo", boot, key, value)],
        SettingKind::AixChdev => {
            let later = if boot { " -P" } else { "" };
            vec![format!("chdev -l {name} -a {key}={value}{later}")]
        }
        SettingKind::FstabOption => vec![mount_option(setting, value, name)],
        SettingKind::Sysctl => vec![format!("sysctl -w {key}='{value}'"), format!("in /etc/sysctl.d: {key} = {value}")],
        SettingKind::Limits => vec![format!("in /etc/security/limits.d: {key} {value}")],
        SettingKind::Modprobe => {
            let (module, parameter) = key.split_once('.').unwrap_or((key, ""));
            vec![format!("in /etc/modprobe.d: options {module} {parameter}={value}")]
        }
        SettingKind::Udev => vec![format!("by a udev rule for {name}: ATTR{{{key}}}=\"{value}\"")],
        SettingKind::Iscsid => vec![format!("in iscsid.conf: {key} = {value}")],
        SettingKind::Multipath => vec![format!("in multipath.conf: {key} {value}")],
        SettingKind::Oranfstab => vec![format!("in oranfstab: {key}: {value}")],
        SettingKind::Oracleasm => vec![format!("in /etc/sysconfig/oracleasm: {key}=\"{value}\"")],
    }
}

/// Where the user runs the commands.
fn place(kind: SettingKind) -> &'static str {
    match kind {
        SettingKind::Postgres => "psql, as a superuser",
        SettingKind::Mysql => "the database's host",
        SettingKind::Oracle => "sqlplus, as sysdba",
        SettingKind::Ontap7 | SettingKind::Ontap9 => "the storage's console",
        _ => "a shell, as root",
    }
}

/// The command for an option of a volume, of an interface or of the complete system.
fn ontap7(key: &str, value: &str, thing: Option<(&str, &str)>) -> Vec<String> {
    match thing {
        // A key with a space is the complete command up to the value.
        _ if key.contains(' ') => vec![ontap9(key, value, thing.map_or("NAME", |(_, name)| name))],
        Some(("ontap_volume", name)) => vec![format!("vol options {name} {key} {value}")],
        Some(("ontap_if", name)) => {
            let word = if key == "mtu" || key == "persistent_mtu" { "mtusize" } else { key };
            let line = format!("ifconfig {name} {word} {value}");
            vec![line.clone(), format!("in /etc/rc, so that it lasts: {line}")]
        }
        _ => vec![format!("options {key} {value}")],
    }
}

/// The key is the command up to the value. `{}` in the key is replaced by the thing's name.
fn ontap9(key: &str, value: &str, name: &str) -> String {
    format!("{} {value}", key.replace("{}", name))
}

fn aix(command: &str, boot: bool, key: &str, value: &str) -> String {
    // -p changes the running and the next boot's value. -r changes only the next boot's.
    format!("{command} {} -o {key}={value}", if boot { "-r" } else { "-p" })
}

/// Driver and parameter of `tcp.tcp_recv_hiwat`, `/dev/tcp tcp_recv_hiwat` or `tcp:tcp_recv_hiwat`.
/// A key without a driver has it as the prefix of the parameter.
fn driver_of(key: &str) -> (String, String) {
    let key = key.trim_start_matches("/dev/");
    match key.split_once([' ', '.', ':']) {
        Some((driver, parameter)) => (driver.to_owned(), parameter.trim().to_owned()),
        None => (key.split('_').next().unwrap_or(key).to_owned(), key.to_owned()),
    }
}

fn mount_option(setting: &SettingText<'_>, value: &str, name: &str) -> String {
    let file = match setting.family {
        "solaris" => "/etc/vfstab",
        "aix" => "/etc/filesystems",
        _ => "/etc/fstab",
    };
    let key = &setting.change.key;
    match value {
        "-" => format!("in {file}, mount {name}: take away the option {key}"),
        "" | "true" => format!("in {file}, mount {name}: option {key}"),
        value => format!("in {file}, mount {name}: option {key}={value}"),
    }
}

/// The statement that puts reloadable changes of PostgreSQL in force.
const RELOAD: &str = "SELECT pg_reload_conf();";
/// The comment after changes that only a restart puts in force.
const RESTART: &str = "-- then restart the server";

fn reload(activation: Activation) -> String {
    if activation <= Activation::Reload { RELOAD } else { RESTART }.to_owned()
}

/// Whether a line changes no setting but puts the changes of the lines before it in force.
pub(super) fn is_activating(line: &str) -> bool {
    [RELOAD, RESTART].contains(&line)
}

/// Whether a value needs no quotes in a command.
fn plain(value: &str) -> bool {
    !value.is_empty() && value.chars().all(|sign| sign.is_ascii_alphanumeric() || "._-:/,".contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::setting::Target;

    fn change(kind: SettingKind, key: &str, from: Option<&str>, to: &str, thing: Option<(&str, &str)>) -> SettingChange {
        let thing = thing.map(|(kind, name)| (kind.to_owned(), name.to_owned()));
        SettingChange { target: Target { kind, thing }, key: key.to_owned(), from: from.map(str::to_owned), to: to.to_owned() }
    }

    fn text(kind: SettingKind, key: &str, value: &str, thing: Option<(&str, &str)>, activation: Activation) -> Vec<String> {
        let change = change(kind, key, Some("16"), value, thing);
        commands(&SettingText { change: &change, activation, family: "solaris" }).lines
    }

    #[test]
    fn each_system_is_spoken_to_in_its_own_words() {
        use Activation::{DbRestart, Live, Reboot, Remount};
        let first = |kind, key, value, thing, activation| text(kind, key, value, thing, activation).remove(0);
        assert_eq!(first(SettingKind::AixVmo, "minfree", "960", None, Live), "vmo -p -o minfree=960");
        assert_eq!(first(SettingKind::AixNo, "ipqmaxlen", "512", None, Reboot), "no -r -o ipqmaxlen=512");
        let hdisk = Some(("hdisk", "hdisk4"));
        assert_eq!(first(SettingKind::AixChdev, "queue_depth", "64", hdisk, Reboot), "chdev -l hdisk4 -a queue_depth=64 -P");
        assert_eq!(first(SettingKind::SolarisSystem, "nfs:nfs3_nra", "6", None, Reboot), "in /etc/system: set nfs:nfs3_nra=6");
        let ndd = "ndd -set /dev/tcp tcp_recv_hiwat 65535";
        for key in ["tcp.tcp_recv_hiwat", "/dev/tcp tcp_recv_hiwat", "tcp_recv_hiwat"] {
            assert_eq!(first(SettingKind::SolarisNdd, key, "65535", None, Live), ndd);
        }
        assert_eq!(
            first(SettingKind::Kctune, "nfs_async_read_avoidance_enabled", "1", None, Live),
            "kctune nfs_async_read_avoidance_enabled=1"
        );
        let volume = Some(("ontap_volume", "redo"));
        assert_eq!(first(SettingKind::Ontap7, "minra", "on", volume, Live), "vol options redo minra on");
        assert_eq!(
            first(SettingKind::Ontap7, "nfs.tcp.recvwindowsize", "65536", None, Live),
            "options nfs.tcp.recvwindowsize 65536"
        );
        assert_eq!(
            first(SettingKind::Ontap9, "volume modify -volume {} -atime-update", "false", volume, Live),
            "volume modify -volume redo -atime-update false"
        );
        assert_eq!(
            first(SettingKind::Oracle, "filesystemio_options", "setall", None, DbRestart),
            "ALTER SYSTEM SET filesystemio_options=setall SCOPE=SPFILE SID='*';"
        );
        let mount = Some(("mount", "/redo"));
        assert_eq!(
            first(SettingKind::FstabOption, "forcedirectio", "", mount, Remount),
            "in /etc/vfstab, mount /redo: option forcedirectio"
        );
    }

    #[test]
    fn the_way_back_is_given_where_the_old_value_is_known_and_plain() {
        let undo = |before| {
            let change = change(SettingKind::Kctune, "maxfiles", before, "2048", None);
            commands(&SettingText { change: &change, activation: Activation::Live, family: "hpux" }).undo
        };
        assert_eq!(undo(Some("512")), ["kctune maxfiles=512"]);
        assert!(undo(None).is_empty());
        assert!(undo(Some("x; reboot")).is_empty());
    }

    #[test]
    fn names_and_values_stay_what_they_are_in_a_statement() {
        assert_eq!(alter_system("max_wal_size", "16GB"), "ALTER SYSTEM SET max_wal_size = '16GB';");
        assert_eq!(alter_system("a.b\"c", "it's"), "ALTER SYSTEM SET a.\"b\"\"c\" = 'it''s';");
        assert_eq!(alter_system_reset("x; DROP"), "ALTER SYSTEM RESET \"x; DROP\";");
    }
}
