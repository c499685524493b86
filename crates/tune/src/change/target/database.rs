//! Settings of databases on Linux: a file that the server reads, if there is one; otherwise
//! statements or a step by hand.

use results::audit::Activation;

use super::drop_in::{self, Folders};
use super::option_files::{included_last, main_files};
use super::{Part, Resolved, Run, assigned, family, now, outweighs, text_for, unfit};
use crate::change::commands::{alter_system, identifier};
use crate::change::edit::{Edit, Style};
use crate::change::root::Root;
use crate::facts::{Facts, ServerState, SetBy, Value};

/// Settings of PostgreSQL that are sizes.
pub(super) const POSTGRES_BYTES: &[&str] = &[
    "backend_flush_after",
    "bgwriter_flush_after",
    "checkpoint_flush_after",
    "effective_cache_size",
    "huge_page_size",
    "io_combine_limit",
    "io_max_combine_limit",
    "maintenance_work_mem",
    "max_slot_wal_keep_size",
    "max_wal_size",
    "min_dynamic_shared_memory",
    "min_wal_size",
    "autovacuum_work_mem",
    "logical_decoding_work_mem",
    "shared_buffers",
    "temp_buffers",
    "vacuum_buffer_usage_limit",
    "wal_buffers",
    "wal_keep_size",
    "wal_skip_threshold",
    "wal_writer_flush_after",
    "work_mem",
    "max_stack_depth",
    "wal_decode_buffer_size",
];

/// Settings of PostgreSQL that are times.
pub(super) const POSTGRES_TIMES: &[&str] = &[
    "archive_timeout",
    "autovacuum_naptime",
    "bgwriter_delay",
    "checkpoint_timeout",
    "checkpoint_warning",
    "deadlock_timeout",
    "wal_receiver_timeout",
    "wal_sender_timeout",
    "wal_writer_delay",
];

/// The remark for a server whose files are not known. Files of this host may belong to another
/// server.
const FILES_NOT_KNOWN: &str = "which files of this host the server reads is not known: no file is written";

/// An edit of the oranfstab that Direct NFS reads first.
pub(super) fn oranfstab(setting: &Resolved<'_>, facts: &Facts, root: &Root) -> Vec<Part> {
    let attribute = |names: &[&str]| {
        let (kind, thing) = setting.thing()?;
        let thing = facts.things.get(kind)?.get(thing)?;
        names.iter().find_map(|name| match thing.get(*name).map(|fact| &fact.value) {
            Some(Value::Text(text)) => Some(text.clone()),
            _ => None,
        })
    };
    let source = attribute(&["source"]).unwrap_or_default();
    let server = attribute(&["server"]).or_else(|| source.split_once(":/").map(|(server, _)| server.to_owned()));
    let export = attribute(&["export"]).or_else(|| source.split_once(":/").map(|(_, path)| format!("/{path}")));
    let point =
        attribute(&["mount"]).or_else(|| setting.thing().filter(|(kind, _)| *kind == "mount").map(|(_, name)| name.to_owned()));
    let (Some(server), Some(export), Some(point)) = (server, export, point) else {
        return vec![Part::ByHand {
            text: format!("oranfstab: {}: {} (server, export or mount is not known)", setting.key(), setting.value()),
        }];
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
        Edit::Oranfstab { server, mount: (export, point), key: setting.key().to_owned(), value: setting.value().to_owned() };
    vec![Part::File { path, edit }]
}

/// The part for a value that no file changes.
fn elsewhere(setting: &Resolved<'_>, set_by: SetBy<'_>, remarks: &mut Vec<String>) -> Part {
    let (key, change) = (identifier(setting.key()), setting.change);
    let SetBy::Alter(statement) = set_by else { return Part::ByHand { text: set_by.words(setting.key(), setting.value()) } };
    remarks.push(format!("{statement} has set it, which ALTER SYSTEM and postgresql.conf do not change"));
    remarks.push("in force in sessions that begin after it; what the files say then holds: run the audit again".to_owned());
    let before = change.from.as_ref().map(|before| format!("{statement} SET {key} = '{}';", before.replace('\'', "''")));
    let lines = vec![format!("{statement} RESET {key};")];
    Part::Run(Run { place: "psql, as a superuser".to_owned(), lines, undo: before.into_iter().collect() })
}

/// A drop-in if postgresql.conf includes a folder and nothing later overrides it; otherwise `ALTER
/// SYSTEM`.
pub(super) fn postgres(setting: &Resolved<'_>, facts: &Facts, root: &Root, remarks: &mut Vec<String>) -> Vec<Part> {
    if let Some(set_by) = outweighs(setting.change, facts) {
        return vec![elsewhere(setting, set_by, remarks)];
    }
    let text_fact = |name: &str| match facts.host.get(name).map(|fact| &fact.value) {
        Some(Value::Text(text)) => Some(text.as_str()),
        _ => None,
    };
    let config = match setting.server {
        Some(server) => server.config.as_deref(),
        None => text_fact("postgres.config_file"),
    };
    if config.is_none() && setting.server.is_some() {
        remarks.push(FILES_NOT_KNOWN.to_owned());
    }
    // The configuration file of a server that is known only by its files may name no data
    // directory. Then the data directory is the folder of that file.
    let beside =
        setting.server.filter(|server| server.state != ServerState::Live).and(config).and_then(|config| config.rsplit_once('/'));
    let data = text_fact("postgres.data_directory").or(beside.map(|(folder, _)| folder));
    let auto = data.map(|data| format!("{}/postgresql.auto.conf", data.trim_end_matches('/')));
    let key = setting.key().to_lowercase();
    let sets = |text: &str| text.lines().any(|line| Style::Postgres.key_of(line).as_ref() == Some(&key));
    // Without a configuration file on this host, only the server's answers are known.
    let there = auto.filter(|_| config.is_some()).map(|auto| root.read_text(&auto).map(Option::unwrap_or_default));
    let in_auto = there.as_ref().and_then(|text| assigned_in(text.as_ref().ok()?, &key)).or_else(|| altered(setting, facts));
    let by_statement = || {
        let in_file = in_file_of_stopped(setting, facts).map(|text| Part::ByHand { text });
        vec![in_file.unwrap_or_else(|| statements(setting, facts, in_auto.as_deref()))]
    };
    let folder = config.filter(|_| family(facts) == "linux").and_then(|config| included(root, config));
    let Some((folder, after)) = folder else { return by_statement() };
    if sets(&after) {
        remarks
            .push("postgresql.conf sets it after the directory that it includes: a drop-in would be without effect".to_owned());
        return by_statement();
    }
    // The server reads the values of ALTER SYSTEM last. A file that cannot be read may set the key.
    let overridden = there.is_none_or(|text| text.map_or(true, |text| sets(&text)));
    if overridden {
        remarks.push(
            "postgresql.auto.conf sets it or cannot be read, and is read last: a drop-in would be without effect".to_owned(),
        );
        return by_statement();
    }
    let folders = Folders { own: &folder, others: &[], suffix: "conf", last: None };
    vec![drop_in::part(setting, root, &folders, Style::Postgres, remarks)]
}

/// The line that the user edits if the server is stopped and so accepts no statement.
fn in_file_of_stopped(setting: &Resolved<'_>, facts: &Facts) -> Option<String> {
    let server = setting.server.filter(|server| server.state == ServerState::Stopped)?;
    let (key, value) = (setting.key(), setting.value().replace('\'', "''"));
    let origin = facts.host.get(&format!("postgres.{}", key.to_lowercase())).map(|fact| fact.origin.as_str());
    let origin = origin.filter(|origin| origin.starts_with('/')).or(server.config.as_deref())?;
    let place = origin.rsplit_once(':').map_or_else(|| origin.to_owned(), |(file, line)| format!("{file}, line {line}"));
    Some(format!("in {place}: {key} = '{value}' (the server does not run; in force when it is started)"))
}

/// `ALTER SYSTEM`. Its undo restores the value that ALTER SYSTEM had set before, or resets it.
fn statements(setting: &Resolved<'_>, facts: &Facts, before: Option<&str>) -> Part {
    let part = text_for(setting, facts);
    match (part, before) {
        (Part::Run(mut run), Some(before)) => {
            if let Some(reset) = run.undo.first_mut() {
                *reset = alter_system(setting.key(), before);
            }
            Part::Run(run)
        }
        (part, _) => part,
    }
}

/// The value that the text of `postgresql.auto.conf` gives a setting.
fn assigned_in(text: &str, key: &str) -> Option<String> {
    let line = text.lines().rfind(|line| Style::Postgres.key_of(line).as_deref() == Some(key))?;
    let value = line.trim().get(key.len()..)?.trim_start();
    let value = value.strip_prefix('=').unwrap_or(value).trim();
    let inner = value.strip_prefix('\'').and_then(|value| value.strip_suffix('\''));
    Some(inner.map_or_else(|| value.to_owned(), |inner| inner.replace("''", "'")))
}

/// The value in force, if the server reports that ALTER SYSTEM set it.
fn altered(setting: &Resolved<'_>, facts: &Facts) -> Option<String> {
    let fact = facts.host.get(&format!("postgres.{}", setting.key().to_lowercase()))?;
    fact.origin.contains("/postgresql.auto.conf").then(|| setting.change.from.clone())?
}

/// The folder that postgresql.conf includes last, if it exists, and the lines of the file after it.
fn included(root: &Root, config: &str) -> Option<(String, String)> {
    let text = root.read_text(config).ok().flatten()?;
    let lines: Vec<&str> = text.lines().collect();
    let at = lines.iter().rposition(|line| Style::Postgres.key_of(line).as_deref() == Some("include_dir"))?;
    let (line, after) = lines.get(at..)?.split_first()?;
    let value = line.split('#').next()?.trim().trim_start_matches("include_dir").trim().trim_start_matches('=').trim();
    let folder = value.trim_matches('\'');
    let folder = if folder.starts_with('/') { folder.to_owned() } else { format!("{}/{folder}", config.rsplit_once('/')?.0) };
    root.has_folder(&folder).then(|| (folder, after.join("\n")))
}

/// A drop-in in the directory that the server's main files include last, if nothing after it
/// overrides it; otherwise text.
pub(super) fn mysql(setting: &Resolved<'_>, facts: &Facts, root: &Root, remarks: &mut Vec<String>) -> Vec<Part> {
    if setting.server.is_some_and(|server| server.config.as_ref().is_none_or(|config| !config.starts_with("/etc/"))) {
        remarks.push(FILES_NOT_KNOWN.to_owned());
        return vec![text_for(setting, facts)];
    }
    let files = main_files(setting.server.and_then(|server| server.config.as_deref()));
    let Some((folder, after)) = included_last(root, &files) else {
        remarks.push(format!(
            "no file is written: {} has no `!includedir` of an existing directory; set it there by hand, or add one and plan again",
            files.join(" or ")
        ));
        return vec![text_for(setting, facts)];
    };
    let edit = assigned(setting, Style::Mysql, setting.key());
    let key = edit.place();
    if after.lines().any(|line| Style::Mysql.key_of(line).as_ref() == Some(&key)) {
        remarks.push(format!(
            "no file is written: {} sets it after the directory {folder} that it includes; edit that line by hand",
            files.join(" or ")
        ));
        return vec![text_for(setting, facts)];
    }
    // The server reads the files in the order of their names, and the last one takes precedence.
    let mut parts = vec![Part::File { path: format!("{folder}/zz-millrace.cnf"), edit }];
    if setting.activation <= Activation::Reload {
        let name = setting.key().replace('-', "_");
        let before = now(setting.change.target.kind, &name, None, facts);
        let quote = |value: &str| {
            if value.bytes().all(|sign| sign.is_ascii_digit()) {
                value.to_owned()
            } else {
                format!("'{}'", value.replace('\'', "''"))
            }
        };
        parts.push(Part::Run(Run {
            place: "the mysql client, as an administrator".to_owned(),
            lines: vec![format!("SET GLOBAL {name} = {};", quote(setting.value()))],
            undo: before.map(|before| format!("SET GLOBAL {name} = {};", quote(&before))).into_iter().collect(),
        }));
    }
    parts
}
