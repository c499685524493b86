//! Oracle: `init.ora`, server parameter files as text, `v$parameter`, and the views of Direct NFS.

use std::collections::{BTreeMap, BTreeSet};

use super::as_shown::as_shown;
use super::parameter_files::{self, Standing};
use super::rows::{Row, named, table};
use crate::collect::collected::Collected;
use crate::collect::persistent::put_setting;
use crate::collect::text::{bytes, lines, odd, telling, telling_value, unquoted, words};
use crate::facts::{Database, Fact, Facts, Value};

/// Views that list files, and the facts for them.
const VIEWS: [(&str, &str); 2] = [("v-logfile", "oracle.log_members"), ("v-datafile", "oracle.datafiles")];

/// Notes the settings of a capture.
pub(in crate::collect) fn facts(collected: &Collected, facts: &mut Facts) {
    for output in &collected.commands {
        let line = output.line.to_ascii_lowercase().replace('_', "-").replace("v$", "v-");
        if let Some((_, fact)) = VIEWS.iter().find(|(view, _)| line.contains(view)) {
            files(&output.text, fact, &output.line, facts);
        } else if line.contains("v-dnfs-") || line.contains("dnfs-servers") || line.contains("dnfs-channels") {
            direct_nfs(&line, &output.text, &output.line, facts);
        } else if line.contains("v-version") || line.contains("banner") || line.starts_with("oracle") || line == "sqlplus -v" {
            banner(&output.text, &output.line, facts);
        } else if line.contains("log-mode") || line.contains("v-database") || line.contains("archive log list") {
            log_mode(&output.text, &output.line, facts);
        } else if line.contains("parameter") {
            banner(&output.text, &output.line, facts);
            parameters(&output.text, &output.line, facts);
        }
    }
    let mut persistent: BTreeMap<String, (Value, String)> = BTreeMap::new();
    for (path, text) in &collected.files {
        let name = path.rsplit('/').next().unwrap_or(path);
        if ["parameters.txt", "v_parameter.txt", "v_parameter.csv"].contains(&name) {
            parameters(text, path, facts);
        } else if parameter_files::is_one(path) {
            match parameter_files::standing(path, collected) {
                Standing::Counts => init(text, path, &mut persistent, facts),
                Standing::Unknown(reason) => {
                    facts.remark(format!("parameters of Oracle are not known: {reason}"));
                    // This fact shows that a database exists, even if none of its parameters is
                    // known.
                    facts
                        .host
                        .entry("oracle.parameter_file".to_owned())
                        .or_insert_with(|| Fact { value: path.as_str().into(), origin: path.clone() });
                }
                Standing::Unused => continue,
            }
            if let Some((home, _)) = path.rsplit_once("/dbs/").filter(|(home, rest)| !home.is_empty() && !rest.contains('/')) {
                facts.put_of("oracle_home", home, "parameters", path.as_str(), path);
            }
        }
    }
    for (name, (value, origin)) in persistent {
        facts.put(&format!("persistent.oracle.{name}"), value.clone(), &origin);
        match facts.host.get(&format!("oracle.{name}")).cloned() {
            Some(running) => {
                if let Some(value) = as_shown(Database::Oracle, &name, &running.value, &value, facts) {
                    put_setting(&format!("oracle {name}"), &running, value, &origin, facts);
                }
            }
            None => facts.put(&format!("oracle.{name}"), value, &origin),
        }
    }
}

/// Reads `name=value` with continued lines. `*.name` and `instance.name` count as `name`. Memory
/// sizes that the instance stored itself (`__name`) are left out.
fn init(text: &str, path: &str, found: &mut BTreeMap<String, (Value, String)>, facts: &mut Facts) {
    let mut entries: Vec<(usize, String)> = Vec::new();
    for (number, line) in lines(text) {
        let indented = line.starts_with([' ', '\t']);
        let line = line.split('#').next().unwrap_or(line).trim().trim_end_matches('\\').trim();
        // Lines that strings(1) prints from the binary parts of a server parameter file.
        if line.is_empty() || line.starts_with("C\"") {
            continue;
        }
        match entries.last_mut() {
            Some((_, entry)) if (indented && !line.contains('=')) || entry.ends_with(',') => entry.push_str(line),
            _ => entries.push((number, line.to_owned())),
        }
    }
    for (number, entry) in entries {
        let Some((name, said)) = entry.split_once('=') else {
            odd(facts, path, number, &entry);
            continue;
        };
        let name = name.trim();
        let name = name.rsplit('.').next().unwrap_or(name).to_ascii_lowercase();
        if name.starts_with("__") {
            continue;
        }
        if name.is_empty() || !name.chars().all(|letter| letter.is_ascii_alphanumeric() || "_$#".contains(letter)) {
            odd(facts, path, number, &entry);
            continue;
        }
        found.insert(name.clone(), (value_of(&name, said), format!("{path}:{number}")));
    }
}

/// A value: a list in parentheses or with commas, or a size with K, M or G.
fn value_of(name: &str, said: &str) -> Value {
    let said = said.trim();
    let inner = said.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(said);
    let quoted_list = inner.contains("','") || inner.contains("', '") || inner.contains("\",\"");
    if name == "control_files" || quoted_list || inner.len() < said.len() {
        let parts = inner.split(',').map(|part| unquoted(part).trim()).filter(|part| !part.is_empty());
        return Value::List(parts.map(Value::from).collect());
    }
    let said = unquoted(inner);
    match bytes(said) {
        Some(size) if said.ends_with(|letter: char| "kKmMgGtT".contains(letter)) && !said.contains('.') => Value::Int(size),
        _ => telling_value(said),
    }
}

/// The output of `show parameter`, which has columns `NAME TYPE VALUE`, or a table of names and
/// values.
fn parameters(text: &str, origin: &str, facts: &mut Facts) {
    const TYPES: &[&str] = &["string", "integer", "boolean", "big integer", "file", "number"];
    let mut shown = Vec::new();
    for (_, line) in telling(text, &['-']) {
        let (name, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
        let rest = rest.trim();
        if let Some(said) =
            TYPES.iter().find_map(|kind| rest.strip_prefix(kind)).filter(|said| said.is_empty() || said.starts_with([' ', '\t']))
        {
            shown.push(Row { name: name.to_owned(), value: said.trim().to_owned(), ..Row::default() });
        }
    }
    if shown.is_empty() {
        shown = named(table(text));
    }
    if shown.is_empty() {
        // Columns separated by blanks, as in spool files of `select name, value`.
        for (_, line) in telling(text, &['-']) {
            if let [name, said] = words(line).collect::<Vec<_>>().as_slice()
                && !name.eq_ignore_ascii_case("name")
            {
                shown.push(Row { name: (*name).to_owned(), value: (*said).to_owned(), ..Row::default() });
            }
        }
    }
    rows(&shown, origin, facts);
}

/// Notes rows of `v$parameter`.
pub(super) fn rows(rows: &[Row], origin: &str, facts: &mut Facts) {
    for row in rows {
        let name = row.name.to_ascii_lowercase();
        facts.put(&format!("oracle.{name}"), value_of(&name, &row.value), origin);
    }
}

/// `Oracle Database 11g Enterprise Edition Release 11.1.0.6.0 - 64bit Production`.
fn banner(text: &str, origin: &str, facts: &mut Facts) {
    for (_, line) in lines(text) {
        let database = line.contains("Oracle Database")
            || line.contains("Oracle9i")
            || line.contains("Oracle8i")
            || line.starts_with("SQL*Plus");
        let Some((_, rest)) = line.split_once("Release ").filter(|_| database) else { continue };
        let Some(version) = words(rest).next().filter(|word| word.starts_with(|letter: char| letter.is_ascii_digit())) else {
            continue;
        };
        if facts.value("oracle.version").is_none() {
            facts.put("oracle.version", version.trim_end_matches(','), origin);
        }
        if line.contains("64bit") || line.contains("64-bit") {
            facts.put("oracle.word_bits", 64_i64, origin);
        } else if line.contains("32bit") || line.contains("32-bit") {
            facts.put("oracle.word_bits", 32_i64, origin);
        }
    }
}

/// Notes the paths in rows of `v$logfile` and `v$datafile`.
fn files(text: &str, fact: &str, origin: &str, facts: &mut Facts) {
    let cells = text.split(|letter: char| letter.is_whitespace() || letter == '|' || letter == ',');
    let paths: BTreeSet<&str> = cells.filter(|cell| cell.starts_with(['/', '+']) && cell.len() > 1).collect();
    if !paths.is_empty() {
        facts.put(fact, Value::List(paths.into_iter().map(Value::from).collect()), origin);
    }
}

fn log_mode(text: &str, origin: &str, facts: &mut Facts) {
    let upper = text.to_ascii_uppercase();
    let no = upper.contains("NOARCHIVELOG") || upper.contains("NO ARCHIVE MODE");
    if no || upper.contains("ARCHIVELOG") || upper.contains("ARCHIVE MODE") {
        facts.put("oracle.log_mode", if no { "NOARCHIVELOG" } else { "ARCHIVELOG" }, origin);
    }
}

/// Notes rows of `v$dnfs_servers` and `v$dnfs_channels`. If there is no row, the database uses the
/// kernel's NFS client.
fn direct_nfs(line: &str, text: &str, origin: &str, facts: &mut Facts) {
    let empty = text.to_ascii_lowercase().contains("no rows selected");
    let mut rows = table(text);
    if rows.is_empty() {
        rows = telling(text, &['-'])
            .map(|(_, line)| words(line).map(str::to_owned).collect())
            .filter(|row: &Vec<String>| row.len() >= 2)
            .collect();
    }
    let head: Vec<String> =
        rows.first().map(|row| row.iter().map(|cell| cell.to_ascii_uppercase()).collect()).unwrap_or_default();
    let has_head = head.iter().any(|cell| matches!(cell.as_str(), "SVRNAME" | "ID" | "PNUM" | "CH_ID" | "PATH"));
    let body: Vec<&Vec<String>> = rows.iter().skip(usize::from(has_head)).filter(|_| !empty).collect();
    let count = i64::try_from(body.len()).unwrap_or(i64::MAX);
    if line.contains("channels") {
        facts.put("oracle.dnfs.channels", count, origin);
        if let Some(column) = head.iter().position(|cell| cell == "PATH") {
            let paths: BTreeSet<&String> = body.iter().filter_map(|row| row.get(column)).collect();
            facts.put(
                "oracle.dnfs.paths",
                Value::List(paths.into_iter().map(|path| Value::Text(path.clone())).collect()),
                origin,
            );
        }
    } else if line.contains("servers") {
        facts.put("oracle.dnfs.enabled", count > 0, origin);
    }
}

/// Derives facts from parameters: the size of the SGA, and the number of volumes with control
/// files.
pub(in crate::collect) fn derive(facts: &mut Facts) {
    let amount = |facts: &Facts, name: &str| match facts.value(&format!("oracle.{name}")) {
        Some(Value::Int(amount)) if *amount > 0 => Some(*amount),
        _ => None,
    };
    let origin =
        |facts: &Facts, name: &str| facts.host.get(&format!("oracle.{name}")).map(|fact| fact.origin.clone()).unwrap_or_default();
    if facts.value("oracle.sga_bytes").is_none() {
        let whole = ["sga_target", "memory_target", "sga_max_size"]
            .into_iter()
            .find_map(|name| amount(facts, name).map(|size| (size, origin(facts, name))));
        let pools: Vec<&str> = vec![
            "db_cache_size",
            "db_keep_cache_size",
            "db_recycle_cache_size",
            "db_2k_cache_size",
            "db_4k_cache_size",
            "db_8k_cache_size",
            "db_16k_cache_size",
            "db_32k_cache_size",
            "shared_pool_size",
            "large_pool_size",
            "java_pool_size",
            "streams_pool_size",
            "log_buffer",
        ];
        let sum = || {
            let cache = amount(facts, "db_cache_size")?;
            let sum = pools.iter().skip(1).filter_map(|name| amount(facts, name)).fold(cache, i64::saturating_add);
            Some((sum, origin(facts, "db_cache_size")))
        };
        if let Some((size, origin)) = whole.or_else(sum) {
            facts.put("oracle.sga_bytes", size, &origin);
        }
    }
    if let Some(Fact { value: Value::List(files), origin }) = facts.host.get("oracle.control_files").cloned() {
        let mounts: Vec<String> = facts.things.get("mount").into_iter().flatten().map(|(point, _)| point.clone()).collect();
        let volumes: Option<BTreeSet<String>> = files.iter().map(|file| volume(file, &mounts, facts)).collect();
        match volumes {
            Some(volumes) => facts.put("oracle.control_file_volumes", i64::try_from(volumes.len()).unwrap_or(i64::MAX), &origin),
            None => facts.put_unknown("oracle.control_file_volumes", "a control file lies below no mount that is known"),
        }
    }
}

/// The source of the mount that contains a file.
fn volume(file: &Value, mounts: &[String], facts: &Facts) -> Option<String> {
    let Value::Text(file) = file else { return None };
    // A file in a disk group begins with the group's name instead of a path.
    if file.starts_with('+') {
        return file.split('/').next().map(str::to_owned);
    }
    let below =
        |point: &&String| file.strip_prefix(point.as_str()).is_some_and(|rest| rest.starts_with('/') || point.ends_with('/'));
    let point = mounts.iter().filter(below).max_by_key(|point| point.len())?;
    match facts.value_of("mount", point, "source") {
        Some(Value::Text(source)) if !source.is_empty() => {
            Some(source.split_once(':').map_or(source.clone(), |(_, path)| path.to_owned()))
        }
        _ => Some(point.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameter_files_are_read_with_lists_and_sizes() {
        let text = "*.db_cache_size=2400M\norcl.__db_cache_size=99\n*.control_files='/oracle/fra/c1','/oracle/data1/c2'\nlog_buffer = 2097152 # bytes\n\
            filesystemio_options = SETALL\ndisk_asynch_io=true\nshared_pool_size=256M\n";
        let mut collected = Collected::default();
        collected.take_file("/u01/dbs/initORCL.ora", text.as_bytes());
        let mut found = Facts::default();
        found.put_of("mount", "/oracle/fra", "source", "f:/vol/fra", "");
        found.put_of("mount", "/oracle/data1", "source", "f:/vol/data1", "");
        facts(&collected, &mut found);
        derive(&mut found);
        assert_eq!(found.value("oracle.db_cache_size"), Some(&(2400_i64 << 20).into()));
        assert_eq!(found.value("oracle.filesystemio_options"), Some(&"SETALL".into()));
        assert_eq!(found.value("oracle.disk_asynch_io"), Some(&true.into()));
        assert_eq!(found.value("oracle.sga_bytes"), Some(&((2656_i64 << 20) + 2_097_152).into()));
        assert_eq!(found.value("oracle.control_file_volumes"), Some(&2.into()));
        assert!(found.remarks.is_empty(), "{:?}", found.remarks);
    }

    #[test]
    fn shown_parameters_and_views_of_direct_nfs_are_read() {
        let mut collected = Collected::default();
        let shown = "NAME                                 TYPE        VALUE\n------- ----------- -----\ndb_cache_size                        big integer 8000M\n\
            filesystemio_options                 string      none\ndb_recovery_file_dest                string\n";
        collected.take_command("sqlplus show parameter", shown.as_bytes(), Some(0));
        collected.take_command("sqlplus select svrname from v$dnfs_servers", b"no rows selected\n", Some(0));
        collected.take_command(
            "sqlplus v$version",
            b"Oracle Database 11g Enterprise Edition Release 11.1.0.6.0 - 64bit Production\n",
            Some(0),
        );
        let mut found = Facts::default();
        facts(&collected, &mut found);
        assert_eq!(found.value("oracle.db_cache_size"), Some(&(8000_i64 << 20).into()));
        assert_eq!(found.value("oracle.dnfs.enabled"), Some(&false.into()));
        assert_eq!(found.value("oracle.version"), Some(&"11.1.0.6.0".into()));
        assert_eq!(found.value("oracle.word_bits"), Some(&64.into()));
        assert_eq!(found.value("oracle.filesystemio_options"), Some(&"none".into()));
    }
}
