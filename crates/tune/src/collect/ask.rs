//! Asks the programs of database servers what they read in their files: `postgres -C`, `mariadbd --verbose --help`. As the user that the
//! server runs as, in an empty environment; nothing is started.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::collected::Collected;
use super::database::{mysql, postgres};
use super::redact::REDACTED;
use super::runner::{DENIED, Ran, Runner, run_each};
use super::running::Running;

/// A question to the program of a server.
#[derive(Debug)]
pub(super) struct Question {
    /// The file that names the server.
    pub(super) config: String,
    /// Places where its program may be; the first that is there is taken.
    pub(super) programs: Vec<PathBuf>,
    /// Its data directory, whose owner it runs as.
    pub(super) data: String,
    /// The user of its process, where it runs. A process of another user than the owner's is not the server of the directory.
    pub(super) user: Option<u32>,
    /// The arguments of each run.
    pub(super) runs: Vec<Vec<String>>,
}

/// Asks every server that files show, and takes the answers in as the output of a command each.
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

/// The command line of the answers, and their text: a line for each run, `NAME<TAB>VALUE`, or `!<TAB>REASON`.
///
/// None where there is no program, or where this user cannot become the server's. The program is never run as root: a file of the
/// server's user could lead it anywhere.
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
            // One line of one setting, or a table.
            Ran::Ended(0, output, _) => {
                let said = String::from_utf8_lossy(&output).into_owned();
                text.push_str(&if said.contains('\t') { said } else { format!("{name}\t{}\n", said.trim_end_matches('\n')) });
            }
            // Of an older version; or it could not be run, and the files have the word.
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

/// The user and group to ask a server's program with: the owner of its data directory, which is not root. `user` is that of its
/// process, where it runs.
///
/// # Errors
/// Why it is not asked.
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

/// A complaint without what a file says: of quoted texts only paths stay, and the name of an option.
pub(super) fn without_values(complaint: &str) -> String {
    let kept = |part: &str| match part.split_once('=') {
        Some((name, _)) => format!("{name}={REDACTED}"),
        None if part.starts_with('/') => part.to_owned(),
        None => REDACTED.to_owned(),
    };
    let parts = complaint.split(['\'', '"']).enumerate();
    // Every second part stands in quotes.
    parts.map(|(at, part)| if at % 2 == 1 { kept(part) } else { part.replace(['\t', '\n'], " ") }).collect()
}

/// What marks the answers of a program among the outputs of commands.
const ASKED: &str = "-C";

/// What the program of a server answered: names with values, and why some are missing.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// Names and values, as the program writes them.
    pub(super) told: Vec<(String, String)>,
    /// Why something is missing.
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

/// Where the program of a server that runs is; of one in another file system nobody can tell.
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
