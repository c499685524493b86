//! Asks the programs of database servers for the values in their files: `postgres -C`, `mariadbd
//! --verbose --help`. They run as the server's user, with only LC_ALL in their environment, and
//! they start no server.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::collected::Collected;
use super::database::{mysql, postgres};
use super::redact::REDACTED;
use super::runner::{DENIED, Ran, Runner, run_each};
use super::running::Running;

/// A question to a server's program.
#[derive(Debug)]
pub(super) struct Question {
    /// The configuration file that identifies the server.
    pub(super) config: String,
    /// Possible paths of the program. The first one that exists is used.
    pub(super) programs: Vec<PathBuf>,
    /// The data directory. The program runs as its owner.
    pub(super) data: String,
    /// The user of the server's process, if it runs. If this is not the owner of the directory, the
    /// process is not the directory's server.
    pub(super) user: Option<u32>,
    /// The arguments of each run of the program.
    pub(super) runs: Vec<Vec<String>>,
}

/// Asks the program of every server that the files show. Adds the answers as the outputs of
/// commands.
pub(super) fn ask(runner: &dyn Runner, collected: &mut Collected) {
    for question in postgres::questions(collected) {
        if let Some((line, text)) = answers(&question, runner, &|ran| ran) {
            collected.take_command(&line, text.as_bytes(), Some(0));
        }
    }
    for question in mysql::questions(collected) {
        if let Some((line, text)) = answers(&question, runner, &mysql::told) {
            collected.take_command(&line, text.as_bytes(), Some(0));
        }
    }
}

/// The command line of the answers and their text, with one line for each run: `NAME<TAB>VALUE`, or
/// `!<TAB>REASON`.
///
/// `None` if no program exists or this user cannot run it as the server's user. The program never
/// runs as root, because a file of the server's user can make it load other code.
fn answers(question: &Question, runner: &dyn Runner, told: &(dyn Fn(Ran) -> Ran + Sync)) -> Option<(String, String)> {
    let (uid, gid) = server_user(&question.data, question.user).ok()?;
    let program = question.programs.iter().find(|path| path.is_file())?.to_str()?.to_owned();
    let lines: Vec<Vec<String>> =
        question.runs.iter().map(|words| std::iter::once(&program).chain(words).cloned().collect()).collect();
    let ran = run_each(&lines, &|words| told(runner.run_as(words, (uid, gid))));
    let mut text = String::new();
    for (words, ran) in question.runs.iter().zip(ran) {
        let name = words.get(1).map_or("", String::as_str);
        match ran {
            // The output is the value of one setting or a table.
            Ran::Ended(0, output, _) => {
                let said = String::from_utf8_lossy(&output).into_owned();
                text.push_str(&if said.contains('\t') { said } else { format!("{name}\t{}\n", said.trim_end_matches('\n')) });
            }
            // A version that does not know the setting, or a program that could not run: the values
            // of the files hold.
            Ran::Ended(_, _, complaint) if complaint.contains("unrecognized configuration parameter") => {}
            Ran::Not(reason) if reason != DENIED => {}
            Ran::Ended(_, _, reason) | Ran::Not(reason) => text.push_str(&format!("!\t{}\n", without_values(&reason))),
        }
    }
    if text.is_empty() {
        return None;
    }
    let name = Path::new(&program).file_name()?.to_str()?;
    Some((format!("{name} {ASKED} {}", question.config), text))
}

/// The user and group that a server's program runs as: the owner of its data directory, unless that
/// is root. `user` is the user of the server's process, if it runs.
///
/// # Errors
/// Why the program is not asked.
pub(super) fn server_user(data: &str, user: Option<u32>) -> Result<(u32, u32), String> {
    let owner = fs::metadata(data).map_err(|fault| format!("its data directory {data}: {fault}"))?;
    let (uid, gid) = (owner.uid(), owner.gid());
    let own = fs::metadata("/proc/self").map_or(u32::MAX, |own| own.uid());
    match uid {
        0 => Err(format!("its data directory {data} belongs to root")),
        _ if user.is_some_and(|user| user != uid) => Err(format!("it runs as another user than the owner of {data}")),
        _ if own != 0 && own != uid => Err("only root and the server's user may ask its program".to_owned()),
        _ => Ok((uid, gid)),
    }
}

/// An error message without values from a file. Of quoted texts only paths and the names of options
/// stay.
pub(super) fn without_values(complaint: &str) -> String {
    let kept = |part: &str| match part.split_once('=') {
        Some((name, _)) => format!("{name}={REDACTED}"),
        None if part.starts_with('/') => part.to_owned(),
        None => REDACTED.to_owned(),
    };
    let parts = complaint.split(['\'', '"']).enumerate();
    // Every second part is inside quotes.
    parts.map(|(at, part)| if at % 2 == 1 { kept(part) } else { part.replace(['\t', '\n'], " ") }).collect()
}

/// The word that marks the answers of a server's program among the outputs of commands.
const ASKED: &str = "-C";

/// The answers of a server's program: names with values, and why some are missing.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// Names and values, as the program writes them.
    pub(super) told: Vec<(String, String)>,
    /// Why values are missing.
    pub(super) refused: Option<String>,
}

/// The answers of the program of a server, if it was asked.
pub(super) fn answered(programs: &[&str], config: &str, collected: &Collected) -> Option<Answers> {
    let wanted = |rest: &str| rest == config;
    let begins = programs.iter().map(|program| format!("{program} {ASKED}"));
    let texts: Vec<String> = begins
        .filter_map(|begin| collected.outputs(&begin).find(|(rest, _)| wanted(rest)).map(|(_, output)| output.text.clone()))
        .collect();
    let mut answers = Answers::default();
    for (name, said) in texts.first()?.lines().filter_map(|line| line.split_once('\t')) {
        match name {
            "!" => drop(answers.refused.get_or_insert_with(|| said.to_owned())),
            name => answers.told.push((name.to_owned(), said.to_owned())),
        }
    }
    Some(answers)
}

/// The program of a running server. The path may be wrong if the server runs in another mount
/// namespace.
pub(super) fn program_of(running: Option<&Running>) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{}/exe", running?.pid)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_tells_no_value_of_a_file() {
        for (complaint, wanted) in [
            ("[ERROR] unknown variable 'x_key=hunter2'", "[ERROR] unknown variable x_key=[redacted]"),
            ("FATAL: file \"/etc/a.conf\" contains errors", "FATAL: file /etc/a.conf contains errors"),
            ("LOG: invalid value for \"a\": \"hunter2\"", "LOG: invalid value for [redacted]: [redacted]"),
            ("unknown option 'hunter2", "unknown option [redacted]"),
        ] {
            assert_eq!(without_values(complaint), wanted);
        }
    }
}
