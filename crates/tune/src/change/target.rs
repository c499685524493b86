//! Where a setting lives on this host: files, running values, or text for somebody to run.

use results::audit::Activation;
use serde::Serialize;

use super::edit::{Edit, Style, options_of, sysctl_path};
use super::foreign::{Wanted, commands};
use super::limits::{DROP_INS_MAX, SETTING_BYTES_MAX};
use super::root::Root;
use crate::facts::{Facts, Value};
use crate::rule::SettingKind;

/// Name of our file in each drop-in folder.
const DROP_IN: &str = "60-millrace";

/// One part of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// A file, for the next start or the next reading.
    File {
        /// The file as users name it.
        path: String,
        /// What changes in it.
        edit: Edit,
    },
    /// A value in force at once.
    Running {
        /// Its file.
        path: String,
        /// What is written.
        value: String,
        /// Values that the kernel changes along with it.
        moves: Vec<String>,
    },
    /// Commands that somebody runs.
    Run(Run),
    /// What a person does.
    ByHand {
        /// In words.
        text: String,
    },
}

/// Commands that are only ever printed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Run {
    /// Where: a shell, psql, the storage's console.
    pub place: String,
    /// The commands.
    pub lines: Vec<String>,
    /// Those that take it back.
    pub undo: Vec<String>,
}

/// A setting with its value worked out.
pub(super) struct Resolved<'a> {
    pub(super) rule: &'a str,
    pub(super) kind: SettingKind,
    pub(super) key: &'a str,
    pub(super) value: &'a str,
    pub(super) thing: Option<(&'a str, &'a str)>,
    pub(super) activation: Activation,
}

/// What has to be done, with remarks on it.
pub(super) fn parts(setting: &Resolved<'_>, facts: &Facts, root: &Root) -> (Vec<Part>, Vec<String>) {
    if let Some(fault) = unfit(setting.key).or_else(|| unfit(setting.value)) {
        return (vec![Part::ByHand { text: format!("{}: {fault}", setting.rule) }], Vec::new());
    }
    let mut remarks = Vec::new();
    let linux = family(facts) == "linux";
    let parts = match setting.kind {
        SettingKind::Sysctl if linux => sysctl(setting, root, &mut remarks),
        SettingKind::Modprobe if linux => modprobe(setting, root),
        SettingKind::FstabOption if linux => fstab(setting, root),
        SettingKind::Limits if linux => limits(setting, root, &mut remarks),
        SettingKind::Udev if linux => udev(setting, root),
        SettingKind::Iscsid if linux => {
            remarks.push("sessions that are logged in keep their values until they log out; records of known targets \
                          (/var/lib/iscsi/nodes) keep theirs until `iscsiadm -m node -o update` changes them".to_owned());
            existing(setting, root, "/etc/iscsi/iscsid.conf", assigned(setting, Style::Iscsid, setting.key))
        }
        SettingKind::Multipath if linux => multipath(setting, root),
        SettingKind::Oracleasm if linux => {
            existing(setting, root, "/etc/sysconfig/oracleasm", assigned(setting, Style::Shell, setting.key))
        }
        SettingKind::Oranfstab if linux => oranfstab(setting, facts, root),
        SettingKind::Postgres => postgres(setting, facts, root, linux, &mut remarks),
        SettingKind::Mysql if linux => mysql(setting, facts, root),
        _ => vec![text_for(setting, facts)],
    };
    (parts, remarks)
}

/// `os.family`; empty when not known.
pub(super) fn family(facts: &Facts) -> &str {
    match facts.host.get("os.family").map(|fact| &fact.value) {
        Some(Value::Text(family)) => family,
        _ => "",
    }
}

/// The value a setting has now, by the name under which it is collected.
pub(super) fn now(kind: SettingKind, key: &str, thing: Option<(&str, &str)>, facts: &Facts) -> Option<String> {
    let attribute = |name: &str| {
        let (kind, thing) = thing?;
        facts.things.get(kind)?.get(thing)?.get(name)
    };
    let host = |prefix: &str| facts.host.get(&format!("{prefix}{key}"));
    let fact = match kind {
        SettingKind::Sysctl => host("sysctl."),
        SettingKind::Modprobe => host("module."),
        SettingKind::FstabOption | SettingKind::AixChdev => attribute(key),
        SettingKind::Limits => facts.host.get(&format!("limit.{}", key.split_whitespace().collect::<Vec<_>>().join("."))),
        SettingKind::Udev => attribute(key.rsplit('/').next().unwrap_or(key)),
        SettingKind::Iscsid => host("iscsid."),
        SettingKind::Multipath => host("multipath."),
        SettingKind::Postgres => host("postgres."),
        SettingKind::Mysql => host("mysql."),
        SettingKind::Oracle => host("oracle."),
        SettingKind::Oracleasm => host("oracleasm."),
        SettingKind::Ontap7 => host("ontap7.option.").or_else(|| attribute(key)),
        SettingKind::SolarisSystem => host("solaris.system."),
        SettingKind::SolarisNdd => host("solaris.ndd."),
        SettingKind::Kctune => host("hpux.kctune."),
        SettingKind::HpuxNdd => host("hpux.ndd."),
        SettingKind::AixNo => host("aix.no."),
        SettingKind::AixNfso => host("aix.nfso."),
        SettingKind::AixVmo => host("aix.vmo."),
        SettingKind::AixIoo => host("aix.ioo."),
        SettingKind::Oranfstab | SettingKind::Ontap9 => None,
    };
    fact.map(|fact| written(&fact.value, kind, key))
}

/// A value as it is written for a kind of setting.
pub(super) fn written(value: &Value, kind: SettingKind, key: &str) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::List(list) => list.iter().map(|one| written(one, kind, key)).collect::<Vec<_>>().join(","),
        Value::Bool(on) => match (kind, on) {
            (SettingKind::Postgres | SettingKind::Mysql | SettingKind::Ontap7, true) => "on".to_owned(),
            (SettingKind::Postgres | SettingKind::Mysql | SettingKind::Ontap7, false) => "off".to_owned(),
            (SettingKind::FstabOption, true) => "true".to_owned(),
            (SettingKind::FstabOption, false) => "-".to_owned(),
            (SettingKind::Oracle, on) => on.to_string().to_uppercase(),
            (_, on) => u8::from(*on).to_string(),
        },
        // Facts of PostgreSQL are in bytes and milliseconds; a bare number there means pages or seconds.
        Value::Int(number) if kind == SettingKind::Postgres && POSTGRES_BYTES.contains(&key) && *number >= 0 => {
            format!("{number}B")
        }
        Value::Int(number) if kind == SettingKind::Postgres && POSTGRES_TIMES.contains(&key) && *number > 0 => {
            format!("{number}ms")
        }
        Value::Int(number) => number.to_string(),
    }
}

/// Settings of PostgreSQL that are sizes.
const POSTGRES_BYTES: &[&str] = &[
    "backend_flush_after", "bgwriter_flush_after", "checkpoint_flush_after", "effective_cache_size", "huge_page_size",
    "io_combine_limit", "io_max_combine_limit", "maintenance_work_mem", "max_slot_wal_keep_size", "max_wal_size",
    "min_dynamic_shared_memory", "min_wal_size", "autovacuum_work_mem", "logical_decoding_work_mem", "shared_buffers",
    "temp_buffers", "vacuum_buffer_usage_limit", "wal_buffers", "wal_keep_size", "wal_skip_threshold",
    "wal_writer_flush_after", "work_mem", "max_stack_depth", "wal_decode_buffer_size",
];

/// Settings of PostgreSQL that are times.
const POSTGRES_TIMES: &[&str] = &[
    "archive_timeout", "autovacuum_naptime", "bgwriter_delay", "checkpoint_timeout", "checkpoint_warning", "commit_delay_ms",
    "deadlock_timeout", "wal_receiver_timeout", "wal_sender_timeout", "wal_writer_delay",
];

/// Line breaks and other controls have no place in a setting; a rule that has some is not carried out.
fn unfit(text: &str) -> Option<&'static str> {
    if text.len() > SETTING_BYTES_MAX {
        Some("its key or value is too long to be written")
    } else if text.chars().any(|sign| sign.is_control() && sign != '\t') {
        Some("its key or value holds a control character")
    } else {
        None
    }
}

fn text_for(setting: &Resolved<'_>, facts: &Facts) -> Part {
    let before = now(setting.kind, setting.key, setting.thing, facts);
    Part::Run(commands(&Wanted {
        kind: setting.kind,
        key: setting.key,
        value: setting.value,
        before: before.as_deref(),
        thing: setting.thing,
        activation: setting.activation,
        family: family(facts),
    }))
}

fn assigned(setting: &Resolved<'_>, style: Style, key: &str) -> Edit {
    Edit::Assign { style, key: key.to_owned(), value: setting.value.to_owned(), rule: setting.rule.to_owned() }
}

/// Kernel settings of which each sets its other to 0. Source: kernel documentation, admin-guide/sysctl/vm.
const PAIRS: &[(&str, &str)] = &[
    ("vm/dirty_bytes", "vm/dirty_ratio"),
    ("vm/dirty_background_bytes", "vm/dirty_background_ratio"),
    ("vm/overcommit_kbytes", "vm/overcommit_ratio"),
];

fn sysctl(setting: &Resolved<'_>, root: &Root, remarks: &mut Vec<String>) -> Vec<Part> {
    let name = sysctl_path(setting.key);
    let fits = |part: &str| !part.is_empty() && part != ".." && part != ".";
    if !name.split('/').all(fits) {
        return vec![Part::ByHand { text: format!("{}: {} is no name of a kernel setting", setting.rule, setting.key) }];
    }
    let path = format!("/proc/sys/{name}");
    let mut parts = Vec::new();
    if root.has_file(&path) {
        let other = |(one, two): &(&str, &str)| if *one == name { Some(*two) } else if *two == name { Some(*one) } else { None };
        let moves = PAIRS.iter().filter_map(other).map(|other| format!("/proc/sys/{other}")).collect();
        parts.push(Part::Running { path, value: setting.value.to_owned(), moves });
    } else {
        remarks.push(format!("{path} is not there now (its module may not be loaded): only the file is written"));
    }
    let file = drop_in(setting, root, "/etc/sysctl.d", "conf", Style::Sysctl, Some("/etc/sysctl.conf"), remarks);
    parts.push(file);
    parts
}

/// Our file of a drop-in folder, unless a file that is read later sets the same: then that line is the one to change.
fn drop_in(
    setting: &Resolved<'_>,
    root: &Root,
    folder: &str,
    suffix: &str,
    style: Style,
    last: Option<&str>,
    remarks: &mut Vec<String>,
) -> Part {
    let ours = format!("{folder}/{DROP_IN}.{suffix}");
    let edit = assigned(setting, style, setting.key);
    let place = edit.place();
    let mut later: Vec<String> = Vec::new();
    if let Ok(names) = root.resolve(folder).and_then(|real| std::fs::read_dir(root.host(&real))) {
        let names = names.take(DROP_INS_MAX).flatten().filter_map(|entry| entry.file_name().into_string().ok());
        later.extend(names.filter(|name| name.ends_with(&format!(".{suffix}")) && name.as_str() > &*format!("{DROP_IN}.{suffix}")));
    }
    later.sort();
    let mut later: Vec<String> = later.into_iter().map(|name| format!("{folder}/{name}")).collect();
    later.extend(last.map(str::to_owned));
    let sets = |path: &&String| {
        let text = root.read_text(path).ok().flatten().unwrap_or_default();
        text.lines().any(|line| style.key_of(line).as_ref() == Some(&place))
    };
    let winner = later.iter().rev().find(sets).cloned();
    if let Some(winner) = &winner {
        remarks.push(format!("{winner} sets it too and is read after {ours}: its line is the one that changes"));
    }
    Part::File { path: winner.unwrap_or(ours), edit }
}

fn modprobe(setting: &Resolved<'_>, root: &Root) -> Vec<Part> {
    let Some((module, parameter)) = setting.key.split_once('.') else {
        return vec![Part::ByHand { text: format!("{}: {} names no parameter of a module", setting.rule, setting.key) }];
    };
    let mut parts = Vec::new();
    let running = format!("/sys/module/{}/parameters/{parameter}", module.replace('-', "_"));
    if fits_path(&running) && writable(root, &running) {
        parts.push(Part::Running { path: running, value: setting.value.to_owned(), moves: Vec::new() });
    }
    let path = format!("/etc/modprobe.d/{DROP_IN}.conf");
    parts.push(Part::File { path, edit: assigned(setting, Style::Modprobe, setting.key) });
    parts
}

fn fits_path(path: &str) -> bool {
    path.split('/').all(|part| part != "..")
}

/// Whether a file is there that its owner may write. Many parameters of modules can only be read.
fn writable(root: &Root, path: &str) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    let Ok(real) = root.resolve(path) else { return false };
    std::fs::metadata(root.host(&real)).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o200 != 0)
}

fn fstab(setting: &Resolved<'_>, root: &Root) -> Vec<Part> {
    let Some((_, point)) = setting.thing else {
        return vec![Part::ByHand { text: format!("{}: which mount is not said", setting.rule) }];
    };
    let value = Some(setting.value.to_owned()).filter(|value| !value.is_empty());
    let edit = Edit::MountOption { point: point.to_owned(), option: setting.key.to_owned(), value };
    let parts = existing(setting, root, "/etc/fstab", edit);
    let text = root.read_text("/etc/fstab").ok().flatten().unwrap_or_default();
    if options_of(&text, point).is_some() {
        return parts;
    }
    let how = mount_words(setting);
    vec![Part::ByHand { text: format!("mount {point} {how}; it has no line in /etc/fstab, so set it where it is mounted from (automounter, systemd unit)") }]
}

fn mount_words(setting: &Resolved<'_>) -> String {
    match setting.value {
        "-" => format!("without the option {}", setting.key),
        "" | "true" => format!("with the option {}", setting.key),
        value => format!("with {}={value}", setting.key),
    }
}

/// An edit of a file that must be there and allow it; else words.
fn existing(setting: &Resolved<'_>, root: &Root, path: &str, edit: Edit) -> Vec<Part> {
    let refused = match root.read_text(path) {
        Ok(Some(text)) => edit.made(Some(&text)).err(),
        Ok(None) => Some("the file is not there".to_owned()),
        Err(error) => Some(error.to_string()),
    };
    match refused {
        None => vec![Part::File { path: path.to_owned(), edit }],
        Some(reason) => {
            let value = if setting.value == "-" { "nothing".to_owned() } else { setting.value.to_owned() };
            vec![Part::ByHand { text: format!("{path}: set {} to {value} ({reason})", setting.key) }]
        }
    }
}

fn limits(setting: &Resolved<'_>, root: &Root, remarks: &mut Vec<String>) -> Vec<Part> {
    if setting.key.split_whitespace().count() != 3 {
        return vec![Part::ByHand { text: format!("{}: {} is not USER TYPE ITEM", setting.rule, setting.key) }];
    }
    remarks.push("a login, or a start of the service, takes it".to_owned());
    vec![drop_in(setting, root, "/etc/security/limits.d", "conf", Style::Limits, None, remarks)]
}

fn udev(setting: &Resolved<'_>, root: &Root) -> Vec<Part> {
    let Some((subsystem, attribute)) = setting.key.split_once('/') else {
        return vec![Part::ByHand { text: format!("{}: {} is not SUBSYSTEM/ATTRIBUTE", setting.rule, setting.key) }];
    };
    let device = setting.thing.map(|(_, name)| name);
    let quoted = |text: &str| text.contains(['"', '\\', '{', '}']);
    if quoted(setting.value) || quoted(attribute) || quoted(subsystem) || device.is_some_and(quoted) {
        return vec![Part::ByHand { text: format!("{}: a quotation mark has no place in a udev rule", setting.rule) }];
    }
    let mut parts = Vec::new();
    let mut key = format!("ACTION==\"add|change\", SUBSYSTEM==\"{subsystem}\", ");
    if let Some(device) = device {
        let running = match subsystem {
            "block" => format!("/sys/block/{device}/{attribute}"),
            other => format!("/sys/class/{other}/{device}/{attribute}"),
        };
        if fits_path(&running) && writable(root, &running) {
            parts.push(Part::Running { path: running, value: setting.value.to_owned(), moves: Vec::new() });
        }
        key.push_str(&format!("KERNEL==\"{device}\", "));
    }
    key.push_str(&format!("ATTR{{{attribute}}}"));
    parts.push(Part::File { path: format!("/etc/udev/rules.d/{DROP_IN}.rules"), edit: assigned(setting, Style::Udev, &key) });
    parts
}

fn multipath(setting: &Resolved<'_>, root: &Root) -> Vec<Part> {
    let (section, key) = setting.key.rsplit_once('.').unwrap_or(("defaults", setting.key));
    let section = section.rsplit('.').next().unwrap_or(section).to_owned();
    let edit = Edit::MultipathOverride { section, key: key.to_owned(), value: setting.value.to_owned() };
    existing(setting, root, "/etc/multipath.conf", edit)
}

/// The first of the files that Direct NFS reads.
fn oranfstab(setting: &Resolved<'_>, facts: &Facts, root: &Root) -> Vec<Part> {
    let attribute = |names: &[&str]| {
        let (kind, thing) = setting.thing?;
        let thing = facts.things.get(kind)?.get(thing)?;
        names.iter().find_map(|name| match thing.get(*name).map(|fact| &fact.value) {
            Some(Value::Text(text)) => Some(text.clone()),
            _ => None,
        })
    };
    let source = attribute(&["source"]).unwrap_or_default();
    let server = attribute(&["server"]).or_else(|| source.split_once(":/").map(|(server, _)| server.to_owned()));
    let export = attribute(&["export"]).or_else(|| source.split_once(":/").map(|(_, path)| format!("/{path}")));
    let point = attribute(&["mount"]).or_else(|| setting.thing.filter(|(kind, _)| *kind == "mount").map(|(_, name)| name.to_owned()));
    let (Some(server), Some(export), Some(point)) = (server, export, point) else {
        return vec![Part::ByHand { text: format!("oranfstab: {}: {} (server, export or mount is not known)", setting.key, setting.value) }];
    };
    if [&server, &export, &point].into_iter().any(|word| unfit(word).is_some()) {
        return vec![Part::ByHand { text: format!("{}: the mount's names cannot be written", setting.rule) }];
    }
    let home = match facts.host.get("oracle.home").map(|fact| &fact.value) {
        Some(Value::Text(home)) => Some(format!("{}/dbs/oranfstab", home.trim_end_matches('/'))),
        _ => None,
    };
    let path = home.filter(|path| root.has_file(path)).unwrap_or_else(|| "/etc/oranfstab".to_owned());
    let edit =
        Edit::Oranfstab { server, mount: (export, point), key: setting.key.to_owned(), value: setting.value.to_owned() };
    vec![Part::File { path, edit }]
}

/// A drop-in where postgresql.conf includes a folder and nothing later overrides it; else `ALTER SYSTEM`.
fn postgres(setting: &Resolved<'_>, facts: &Facts, root: &Root, linux: bool, remarks: &mut Vec<String>) -> Vec<Part> {
    let text_fact = |name: &str| match facts.host.get(name).map(|fact| &fact.value) {
        Some(Value::Text(text)) => Some(text.as_str()),
        _ => None,
    };
    let folder = text_fact("postgres.config_file").filter(|_| linux).and_then(|config| included(root, config));
    let Some(folder) = folder else { return vec![text_for(setting, facts)] };
    let auto = text_fact("postgres.data_directory").map(|data| format!("{}/postgresql.auto.conf", data.trim_end_matches('/')));
    let key = setting.key.to_lowercase();
    // What ALTER SYSTEM once wrote is read last; a file that cannot be read may hold it.
    let overridden = auto.is_none_or(|auto| match root.read_text(&auto) {
        Ok(text) => text.unwrap_or_default().lines().any(|line| Style::Postgres.key_of(line).as_ref() == Some(&key)),
        Err(_) => true,
    });
    if overridden {
        remarks.push("postgresql.auto.conf sets it or cannot be read, and is read last: a drop-in would be without effect".to_owned());
        return vec![text_for(setting, facts)];
    }
    vec![drop_in(setting, root, &folder, "conf", Style::Postgres, None, remarks)]
}

/// The folder that postgresql.conf includes, when it is there.
fn included(root: &Root, config: &str) -> Option<String> {
    let text = root.read_text(config).ok().flatten()?;
    let line = text.lines().rfind(|line| Style::Postgres.key_of(line).as_deref() == Some("include_dir"))?;
    let value = line.split('#').next()?.trim().trim_start_matches("include_dir").trim().trim_start_matches('=').trim();
    let folder = value.trim_matches('\'');
    let folder = if folder.starts_with('/') { folder.to_owned() } else { format!("{}/{folder}", config.rsplit_once('/')?.0) };
    root.has_folder(&folder).then_some(folder)
}

/// Folders that my.cnf includes, the one read last first.
const MYSQL_FOLDERS: &[&str] = &["/etc/mysql/mariadb.conf.d", "/etc/mysql/mysql.conf.d", "/etc/mysql/conf.d", "/etc/my.cnf.d"];

fn mysql(setting: &Resolved<'_>, facts: &Facts, root: &Root) -> Vec<Part> {
    let Some(folder) = MYSQL_FOLDERS.iter().find(|folder| root.has_folder(folder)) else {
        return vec![text_for(setting, facts)];
    };
    // The files are read by name; the last one has the word.
    let mut parts =
        vec![Part::File { path: format!("{folder}/zz-millrace.cnf"), edit: assigned(setting, Style::Mysql, setting.key) }];
    if setting.activation <= Activation::Reload {
        let name = setting.key.replace('-', "_");
        let before = now(setting.kind, &name, None, facts);
        let quote = |value: &str| {
            if value.bytes().all(|sign| sign.is_ascii_digit()) { value.to_owned() } else { format!("'{}'", value.replace('\'', "''")) }
        };
        parts.push(Part::Run(Run {
            place: "the mysql client, as an administrator".to_owned(),
            lines: vec![format!("SET GLOBAL {name} = {};", quote(setting.value))],
            undo: before.map(|before| format!("SET GLOBAL {name} = {};", quote(&before))).into_iter().collect(),
        }));
    }
    parts
}
