//! The options of a MySQL or MariaDB server as its program prints them: `mariadbd --verbose
//! --help`.

use std::path::PathBuf;

use super::groups::Identity;
use super::options::is_asked;
use super::read::{Found, option};
use super::servers::{DATADIR, Start, data_directory, read, starts};
use crate::collect::ask::{Question, answered, program_of};
use crate::collect::collected::Collected;
use crate::collect::runner::{ERRORS, Ran};
use crate::facts::Value;

/// Paths of the program in packages.
pub(in crate::collect) const PROGRAMS: &[&str] =
    &["/usr/sbin/mariadbd", "/usr/libexec/mariadbd", "/usr/sbin/mysqld", "/usr/libexec/mysqld"];

/// Options with which the program does more than print its options.
const NEVER_ASKED_WITH: &[&str] = &["--daemonize", "--initialize", "--initialize-insecure", "--bootstrap"];

/// The question for each server.
pub(in crate::collect) fn questions(collected: &Collected) -> Vec<Question> {
    starts(collected).iter().filter_map(|start| question(start, collected)).collect()
}

fn question(start: &Start<'_>, collected: &Collected) -> Option<Question> {
    let read = read(start, collected);
    let mut words = match start.running {
        Some(server) => server.arguments.clone(),
        None if read.is_default => Vec::new(),
        None => vec![format!("--defaults-file={}", read.first)],
    };
    if words.iter().any(|word| NEVER_ASKED_WITH.contains(&word.as_str())) {
        return None;
    }
    words.extend(["--verbose".to_owned(), "--help".to_owned()]);
    let data = data_directory(&read.found).unwrap_or_else(|| DATADIR.to_owned());
    let programs = program_of(start.running).into_iter().chain(PROGRAMS.iter().map(PathBuf::from)).collect();
    Some(Question { config: read.first, programs, data, user: start.running.map(|server| server.uid), runs: vec![words] })
}

/// Keeps the options that rules use from the table that the program prints after its help.
pub(in crate::collect) fn told(ran: Ran) -> Ran {
    let Ran::Ended(code, output, complaint) = ran else { return ran };
    // After such an error the printed values are not those with which a server would run.
    if ERRORS.iter().any(|word| complaint.contains(word)) {
        return Ran::Ended(1, Vec::new(), complaint);
    }
    let text = String::from_utf8_lossy(&output);
    let table = text.lines().skip_while(|line| !line.starts_with("---------")).filter_map(|line| line.split_once(' '));
    let rows = table.map(|(name, said)| (name.replace('-', "_"), said.trim())).filter(|(name, _)| is_asked(name));
    let kept: String = rows.map(|(name, said)| format!("{name}\t{said}\n")).collect();
    if kept.is_empty() { Ran::Not("it prints no options".to_owned()) } else { Ran::Ended(code, kept.into_bytes(), complaint) }
}

/// Adds the values that the program printed. If a file has the same value, the file stays the
/// origin.
pub(super) fn take(config: &str, identity: &Identity, collected: &Collected, found: &mut Found) {
    let Some(answers) = answered(&["mariadbd", "mysqld"], config, collected) else { return };
    if let Some(reason) = answers.refused {
        return found.gap(format!("mariadbd --verbose --help: {reason}"));
    }
    for (name, said) in answers.told {
        let mut alone = Found::default();
        match name.as_str() {
            // The program prints the name of the log, even if no log is written.
            "log_bin" if said.starts_with("(No default") => alone.set(&name, Value::Bool(false), String::new()),
            "log_bin" => continue,
            _ => option(&name, Some(&said), "", identity, &mut alone),
        }
        let Some((value, _)) = alone.get(&name) else { continue };
        if found.get(&name).is_none_or(|(there, _)| there != value) {
            found.set(&name, value.clone(), "mariadbd --verbose --help".to_owned());
        }
    }
}
