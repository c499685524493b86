//! Checks whether a database server accepts a value before the value is written to a file. The
//! server's program runs as the server's user, with only LC_ALL in its environment, and with the
//! server's files and the new value on its command line. Nothing is started or written.

use std::fs;
use std::path::PathBuf;

use super::ask::{server_user, without_values};
use super::database::mysql::{DATADIR, DEFAULT_FILES, PROGRAMS};
use super::database::postgres::packaged;
use super::runner::{ADJUSTED, ERRORS, Ran, Runner};
use crate::facts::{Database, Server, Value};

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checked {
    /// The server accepts the value.
    Taken,
    /// The server refuses the value, for this reason.
    Refused(String),
    /// The value could not be checked, for this reason.
    Unchecked(String),
}

/// A command line of a server's program, and the data directory whose owner it runs as.
struct Question {
    programs: Vec<PathBuf>,
    data: String,
    words: Vec<String>,
}

/// Asks the server's program whether it accepts the value. If the program cannot run, the list of
/// accepted values that the server returned decides.
#[must_use]
pub fn check_value(runner: &dyn Runner, server: &Server, name: &str, value: &str) -> Checked {
    match by_program(runner, server, name, value) {
        Checked::Unchecked(reason) => by_answer(server, name, value).unwrap_or(Checked::Unchecked(reason)),
        checked => checked,
    }
}

fn by_program(runner: &dyn Runner, server: &Server, name: &str, value: &str) -> Checked {
    let question = match server.database {
        Database::Postgres => postgres(server, name, value),
        Database::Mysql => mysql(server, name, value),
        Database::Oracle => Err("the program of Oracle has no such question".to_owned()),
    };
    let asked = question.and_then(|question| {
        let user = server_user(&question.data, None)?;
        let program = question.programs.iter().find(|path| path.is_file()).and_then(|path| path.to_str());
        Ok((program.ok_or("its program was not found")?.to_owned(), question.words, user))
    });
    let (program, words, user) = match asked {
        Ok(asked) => asked,
        Err(reason) => return Checked::Unchecked(reason),
    };
    let line: Vec<&str> = std::iter::once(program.as_str()).chain(words.iter().map(String::as_str)).collect();
    verdict(runner.run_as(&line, user), name)
}

/// An error message about this setting is a refusal. A message about anything else says nothing
/// about the value.
fn verdict(ran: Ran, name: &str) -> Checked {
    let (code, complaint) = match ran {
        Ran::Ended(code, _, complaint) => (code, complaint),
        Ran::Not(reason) => return Checked::Unchecked(reason),
    };
    let is_error = code != 0 || ERRORS.iter().any(|word| complaint.contains(word));
    // MariaDB starts with an adjusted value instead of failing.
    let is_adjusted = complaint.contains(ADJUSTED);
    let of_name = complaint.replace('-', "_").contains(&name.replace('-', "_"));
    match (is_error || is_adjusted, of_name) {
        (true, true) => Checked::Refused(without_time(&complaint).to_owned()),
        (true, false) if is_error => Checked::Unchecked(format!("its program says: {}", without_values(&complaint))),
        _ => Checked::Taken,
    }
}

/// The message without the text before its severity.
fn without_time(complaint: &str) -> &str {
    let begins = ERRORS.iter().chain(&["[Warning]"]).filter_map(|word| complaint.find(word));
    begins.min().and_then(|at| complaint.get(at..)).unwrap_or(complaint)
}

const FILES_NOT_KNOWN: &str = "which files of this host it reads is not known";

fn postgres(server: &Server, name: &str, value: &str) -> Result<Question, String> {
    let config = server.config.as_deref().ok_or(FILES_NOT_KNOWN)?;
    let beside = config.rsplit_once('/').map(|(folder, _)| folder);
    let data = server.data().or(beside).ok_or(FILES_NOT_KNOWN)?.to_owned();
    let first = |name: &str| fs::read_to_string(format!("{data}/{name}")).ok()?.lines().next().map(|line| line.trim().to_owned());
    let is_number = |word: &String| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let running = first("postmaster.pid").filter(is_number).and_then(|pid| fs::read_link(format!("/proc/{pid}/exe")).ok());
    let installed = first("PG_VERSION").filter(is_number).into_iter().flat_map(|major| packaged(&major));
    let words = ["-C", name, "-D", &data, "-c", &format!("config_file={config}"), "-c", &format!("{name}={value}")];
    let words = words.iter().map(|word| (*word).to_owned()).collect();
    Ok(Question { programs: running.into_iter().chain(installed).collect(), data, words })
}

fn mysql(server: &Server, name: &str, value: &str) -> Result<Question, String> {
    let config = server.config.as_deref().ok_or(FILES_NOT_KNOWN)?;
    let data = server.data().unwrap_or(DATADIR).to_owned();
    let file = (!DEFAULT_FILES.contains(&config)).then(|| format!("--defaults-file={config}"));
    let own = [format!("--{}={value}", name.replace('_', "-")), "--verbose".to_owned(), "--help".to_owned()];
    Ok(Question { programs: PROGRAMS.iter().map(PathBuf::from).collect(), data, words: file.into_iter().chain(own).collect() })
}

/// Compares the value with the accepted values that the server returned, if it was queried.
fn by_answer(server: &Server, name: &str, value: &str) -> Option<Checked> {
    let fact = server.facts.host.get(&format!("{}enumvals.{}", server.database.prefix(), name.to_lowercase()))?;
    let Value::List(values) = &fact.value else { return None };
    let taken: Vec<&str> =
        values.iter().filter_map(|one| if let Value::Text(one) = one { Some(one.as_str()) } else { None }).collect();
    let is_taken = taken.iter().any(|one| one.eq_ignore_ascii_case(value));
    Some(if is_taken { Checked::Taken } else { Checked::Refused(format!("it takes {}", taken.join(", "))) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Facts, ServerState};

    struct Says(Ran);

    impl Runner for Says {
        fn run(&self, _line: &[&str]) -> Ran {
            self.0.clone()
        }
    }

    fn ended(code: i32, complaint: &str) -> Ran {
        Ran::Ended(code, Vec::new(), complaint.to_owned())
    }

    #[test]
    fn a_complaint_about_the_setting_refuses_it_and_one_about_another_leaves_it_unchecked() {
        let lz4 = "FATAL:  invalid value for parameter \"wal_compression\": \"lz4\"";
        assert_eq!(verdict(ended(1, lz4), "wal_compression"), Checked::Refused(lz4.to_owned()));
        let other = verdict(ended(1, "FATAL: invalid value for parameter \"work_mem\": \"hunter2\""), "wal_compression");
        assert!(
            matches!(&other, Checked::Unchecked(why) if why.contains("its program says") && !why.contains("hunter2")),
            "{other:?}"
        );
        let adjusted = "[Warning] option 'innodb-log-file-size': unsigned value 1 adjusted to 1048576";
        let timed = format!("2026-11-29  1:18:26 0 {adjusted}");
        assert_eq!(verdict(ended(0, &timed), "innodb_log_file_size"), Checked::Refused(adjusted.to_owned()));
        assert_eq!(verdict(ended(0, "[Warning] something else"), "innodb_log_file_size"), Checked::Taken);
        assert_eq!(verdict(Ran::Not("too slow".to_owned()), "fsync"), Checked::Unchecked("too slow".to_owned()));
    }

    #[test]
    fn a_server_whose_program_cannot_be_asked_is_believed_about_its_values() {
        let mut facts = Facts::default();
        facts.put("postgres.enumvals.wal_compression", Value::List(vec!["pglz".into(), "on".into()]), "pg_settings");
        let (database, state) = (Database::Postgres, ServerState::Live);
        let server = Server { name: "a".to_owned(), database, state, config: None, facts };
        let check = |name: &str, value: &str| check_value(&Says(ended(0, "")), &server, name, value);
        assert_eq!(check("wal_compression", "lz4"), Checked::Refused("it takes pglz, on".to_owned()));
        assert_eq!(check("wal_compression", "ON"), Checked::Taken);
        assert_eq!(check("work_mem", "8MB"), Checked::Unchecked(FILES_NOT_KNOWN.to_owned()));
    }
}
