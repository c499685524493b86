//! Where a setting is stored on this host: files, running values, or commands that the user runs.

mod database;
mod drop_in;
mod linux;
mod option_files;

use results::audit::Activation;
use serde::Serialize;

use super::commands::{Run, SettingText, commands};
use super::edit::{Edit, Style};
use super::limits::SETTING_BYTES_MAX;
use super::root::Root;
use super::setting::SettingChange;
use crate::facts::{Facts, Server, SetBy, Value, set_by};
use crate::rule::SettingKind;

/// Name of Millrace's file in each drop-in folder.
const DROP_IN: &str = "60-millrace";

/// One part of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// A file. It takes effect when it is next read, for example at the next start.
    File {
        /// The file as users name it.
        path: String,
        /// What changes in it.
        edit: Edit,
    },
    /// A value that is in force at once.
    Running {
        /// The value's file.
        path: String,
        /// The new value.
        value: String,
        /// Values that the kernel changes along with it.
        moves: Vec<String>,
    },
    /// Commands that the user runs.
    Run(Run),
    /// A step that the user does.
    ByHand {
        /// In words.
        text: String,
    },
}

/// A setting that a rule changes.
pub(super) struct Resolved<'a> {
    pub(super) rule: &'a str,
    pub(super) change: &'a SettingChange,
    pub(super) activation: Activation,
    /// The database server that the setting belongs to; `None` for the host and for a server
    /// without a name.
    pub(super) server: Option<&'a Server>,
}

impl Resolved<'_> {
    fn key(&self) -> &str {
        &self.change.key
    }

    fn value(&self) -> &str {
        &self.change.to
    }

    /// The thing that the setting belongs to: kind and name.
    fn thing(&self) -> Option<(&str, &str)> {
        self.change.target.thing.as_ref().map(|(kind, name)| (kind.as_str(), name.as_str()))
    }
}

/// The parts of a change, and remarks on it.
pub(super) fn parts(setting: &Resolved<'_>, facts: &Facts, root: &Root) -> (Vec<Part>, Vec<String>) {
    if let Some(fault) = unfit(setting.key()).or_else(|| unfit(setting.value())) {
        return (vec![Part::ByHand { text: format!("{}: {fault}", setting.rule) }], Vec::new());
    }
    let mut remarks = Vec::new();
    let linux = family(facts) == "linux";
    let mut parts = match setting.change.target.kind {
        SettingKind::Postgres => database::postgres(setting, facts, root, &mut remarks),
        SettingKind::Mysql if linux => database::mysql(setting, facts, root, &mut remarks),
        SettingKind::Oranfstab if linux => database::oranfstab(setting, facts, root),
        _ if linux => linux::parts(setting, facts, root, &mut remarks).unwrap_or_else(|| vec![text_for(setting, facts)]),
        _ => vec![text_for(setting, facts)],
    };
    if let (Some(server), SettingKind::Postgres | SettingKind::Mysql) = (setting.server, setting.change.target.kind) {
        for part in &mut parts {
            if let Part::Run(run) = part {
                run.place = format!("{}, of {}", run.place, server.name);
            }
        }
    }
    (parts, remarks)
}

/// What sets a value of PostgreSQL with precedence over the files that apply can change.
fn outweighs<'a>(change: &SettingChange, facts: &'a Facts) -> Option<SetBy<'a>> {
    let is_postgres = change.target.kind == SettingKind::Postgres;
    let fact = facts.host.get(&format!("postgres.{}", change.key.to_lowercase())).filter(|_| is_postgres)?;
    set_by(&fact.origin)
}

/// What puts a change in force here. `usual` is what the rule says. A value that the server's
/// command line sets needs a restart.
pub(super) fn activation(usual: Activation, change: &SettingChange, facts: &Facts) -> Activation {
    if outweighs(change, facts) == Some(SetBy::CommandLine) { usual.max(Activation::DbRestart) } else { usual }
}

/// `os.family`; empty if it is not known.
pub(super) fn family(facts: &Facts) -> &str {
    match facts.host.get("os.family").map(|fact| &fact.value) {
        Some(Value::Text(family)) => family,
        _ => "",
    }
}

/// The current value of a setting, by the name of its fact.
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

/// A value in the syntax of a kind of setting.
pub(crate) fn written(value: &Value, kind: SettingKind, key: &str) -> String {
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
        // Facts of PostgreSQL are in bytes and milliseconds. In its files a number without a unit
        // can mean pages or seconds.
        Value::Int(number) if kind == SettingKind::Postgres && database::POSTGRES_BYTES.contains(&key) && *number >= 0 => {
            bytes(*number)
        }
        Value::Int(number) if kind == SettingKind::Postgres && database::POSTGRES_TIMES.contains(&key) && *number > 0 => {
            format!("{number}ms")
        }
        Value::Int(number) => number.to_string(),
    }
}

/// A number of bytes in PostgreSQL's largest unit that divides it.
fn bytes(number: i64) -> String {
    let units = [("TB", 40), ("GB", 30), ("MB", 20), ("kB", 10)];
    let whole = units.into_iter().find(|(_, shift)| number > 0 && number % (1 << shift) == 0);
    whole.map_or_else(|| format!("{number}B"), |(unit, shift)| format!("{}{unit}", number >> shift))
}

/// Why a text cannot be a key or a value: it is too long, or it contains a line break or another
/// control character.
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
    Part::Run(commands(&SettingText { change: setting.change, activation: setting.activation, family: family(facts) }))
}

fn assigned(setting: &Resolved<'_>, style: Style, key: &str) -> Edit {
    Edit::Assign { style, key: key.to_owned(), value: setting.value().to_owned(), rule: setting.rule.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn bytes_are_told_in_the_largest_unit_they_are_whole_in() {
        let told = [0, 1, 8192, 6_317_670_400, 1 << 30, 3 << 40, 6_319_127_552].map(bytes);
        assert_eq!(told, ["0B", "1B", "8kB", "6025MB", "1GB", "3TB", "6171023kB"]);
    }
}
