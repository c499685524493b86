//! Errors of the laboratory.

use std::path::{Path, PathBuf};

use crate::paths::filer_loss::FilerLoss;
use crate::sys;

/// Failure of a comparison. The text names the object and does not repeat its source.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// SIGINT or SIGTERM was received.
    #[error("finish: stopped by a signal; every process has ended, and the work directory is removed")]
    Interrupted,
    /// The same, with finished runs to continue from.
    #[error(
        "finish: stopped by a signal; every process has ended, and the work directory is removed, except the finished runs in {out}",
        out = out.display()
    )]
    InterruptedWithRuns {
        /// Directory of the record.
        out: PathBuf,
        /// How to continue, in one line; `None` if that is not possible.
        hint: Option<String>,
    },
    /// An operation on a file or directory failed.
    #[error("{action} {path}", path = path.display())]
    File {
        /// What was attempted, for example `create directory`.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// A call on an existing export failed.
    #[error("{action} {export}")]
    Nfs {
        /// What was attempted.
        action: &'static str,
        /// The export.
        export: String,
        /// Why it failed.
        source: Box<dnfs::Error>,
        /// What the user can do about it, in one line.
        advice: Option<String>,
    },
    /// A program could not be started.
    #[error("start {program}")]
    Start {
        /// The program.
        program: String,
        /// Why.
        source: std::io::Error,
    },
    /// A program failed or did not end in time. `detail` contains the end of its log.
    #[error("go on: {program} {outcome}{detail}")]
    Program {
        /// The program and its role in the comparison.
        program: String,
        /// How it ended.
        outcome: String,
        /// The end of its output, each line indented, or empty.
        detail: String,
    },
    /// The filer of a run was lost.
    #[error("go on: {0}")]
    FilerLost(Box<FilerLoss>),
    /// A statement in a database failed.
    #[error("{action} in the database")]
    Database {
        /// What was attempted.
        action: &'static str,
        /// Why it failed: the error of the database's client.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A session with a server that the user named could not be opened.
    #[error("open a session")]
    Session {
        /// The cause.
        source: orders::error::OrdersError,
    },
    /// The database did not answer in time.
    #[error("{action} in the database within {seconds} s")]
    DatabaseSlow {
        /// What was attempted.
        action: &'static str,
        /// The time limit.
        seconds: u64,
    },
    /// A request to the filer's admin socket failed.
    #[error("ask the filer for {what}: {detail}")]
    Filer {
        /// The requested information.
        what: &'static str,
        /// The response or error.
        detail: String,
    },
    /// The record of a child process cannot be read.
    #[error("read the record of {program}")]
    Record {
        /// The program that wrote it.
        program: &'static str,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// This host lacks something; the hint says how to get it.
    #[error("{what}")]
    Missing {
        /// The missing thing.
        what: String,
        /// The command or option that fixes it.
        hint: String,
    },
    /// A plan or an option is invalid.
    #[error("{what}")]
    Plan {
        /// What is invalid.
        what: String,
        /// What would be valid.
        hint: String,
    },
}

impl LabError {
    /// Attaches action and path to an I/O error.
    pub fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { action, path, source }
    }

    /// Attaches action and export to an error of the client.
    pub fn nfs(action: &'static str, export: &str) -> impl FnOnce(dnfs::Error) -> Self {
        let export = export.to_owned();
        move |source| {
            let advice = match &source {
                dnfs::Error::Fs(dnfs::FsError::AccessDenied | dnfs::FsError::NotOwner) => Some(EXPORT_WRITABLE.to_owned()),
                other => Some(other.hints().join("; ")).filter(|text| !text.is_empty()),
            };
            Self::Nfs { action, export, source: Box::new(source), advice }
        }
    }

    /// The error that ends a comparison whose filer was lost.
    pub(crate) fn filer_lost(loss: FilerLoss) -> Self {
        Self::FilerLost(Box::new(loss))
    }

    /// The error for an invalid plan or option.
    pub(crate) fn plan(what: impl Into<String>, hint: &str) -> Self {
        Self::Plan { what: what.into(), hint: hint.to_owned() }
    }

    /// The error for a name that is not `known`. `all` begins the list of the known ones: `paths are`.
    pub(crate) fn unknown(what: impl Into<String>, name: &str, all: &str, known: &[&str]) -> Self {
        let near = host::nearest(name, known.iter().copied()).map_or_else(String::new, |near| format!("did you mean {near}? "));
        Self::plan(what, &format!("{near}{all} {}", known.join(", ")))
    }

    /// The error for an invalid medium.
    pub(crate) fn medium(text: &str, error: &media::SpecError) -> Self {
        Self::plan(format!("use the medium \"{text}\": {error}"), &error.hint())
    }

    /// Attaches the action to a database error.
    pub fn database<E: std::error::Error + Send + Sync + 'static>(action: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Database { action, source: Box::new(source) }
    }

    /// Adds the run in which the error occurred, if that matters.
    pub(crate) fn in_run(mut self, run: impl FnOnce() -> String) -> Self {
        match &mut self {
            Self::FilerLost(loss) => loss.run = run(),
            Self::Program { program, .. } => *program = format!("{program} of {}", run()),
            _ => {}
        }
        self
    }

    /// An interrupted comparison whose finished runs are kept in this directory.
    pub(crate) fn interrupted_with_runs(out: &Path) -> Self {
        let hint = format!("go on with --resume {}, and the same plan and options", out.display());
        Self::InterruptedWithRuns { out: out.to_owned(), hint: Some(hint) }
    }

    /// The same for a command without `--resume`.
    #[must_use]
    pub fn without_resuming(self) -> Self {
        match self {
            Self::InterruptedWithRuns { out, .. } => Self::InterruptedWithRuns { out, hint: None },
            other => other,
        }
    }

    /// Exit code of the program: 2 if it could not run; after a signal, 128 plus its number, as for a program that the signal ended.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Interrupted | Self::InterruptedWithRuns { .. } => signal_code(sys::interrupt_signal()),
            _ => 2,
        }
    }

    /// What the user can do about it, if that is known.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Missing { hint, .. } | Self::Plan { hint, .. } => Some(hint),
            Self::InterruptedWithRuns { hint, .. } => hint.as_deref(),
            Self::Nfs { advice, .. } => advice.as_deref(),
            Self::FilerLost(loss) => Some(loss.removal.as_str()).filter(|text| !text.is_empty()),
            Self::Program { .. } => Some("every log is in the directory logs of the record (--out); --keep leaves the data too"),
            Self::File { action: "create directory" | "write the record to", .. } => {
                Some("name another directory that this user may make: --out for the record, --work for the work directory")
            }
            Self::File { action: "write to", .. } => Some(
                "name another directory as the target, or as the place for the work with --work; or run this as a user that may write there",
            ),
            Self::File { action, source, .. } if source.kind() == std::io::ErrorKind::NotFound => match *action {
                "read the record" => Some("name the results.json of a comparison, or its directory"),
                "look for records in" => Some("name a directory with results of millrace compare, or a results.json"),
                "resume from" => Some("name the directory of the record of a comparison that was interrupted"),
                "read plan" => Some("name a plan file in TOML; without one the built-in plan is used"),
                "use the --work directory" => Some("make the directory first, or name another with --work"),
                "use the target" => Some("make the directory first, or name another; lsblk lists block devices"),
                _ => None,
            },
            _ => None,
        }
    }
}

/// How the user can make an export writable for the database.
pub(crate) const EXPORT_WRITABLE: &str = "the database's user must be allowed to write there, or name another with ?uid=N&gid=N";

/// The exit code that a shell reports for a program that this signal ended.
fn signal_code(signal: i32) -> u8 {
    match u8::try_from(signal) {
        Ok(signal @ 1..128) => signal + 128,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_ended_within_a_run_is_named_with_the_run() {
        let ended =
            LabError::Program { program: "the database".into(), outcome: "was ended by signal 6".into(), detail: String::new() };
        let told = ended.in_run(|| "run 11 of 11 (local, round 1)".into()).to_string();
        assert_eq!(told, "go on: the database of run 11 of 11 (local, round 1) was ended by signal 6");
    }

    #[test]
    fn a_signal_is_told_by_the_exit_code_and_the_last_line_says_how_to_go_on() {
        assert_eq!([libc::SIGINT, libc::SIGTERM, 0].map(signal_code), [130, 143, 2]);
        assert_eq!(LabError::plan("use it".to_owned(), "another").exit_code(), 2);
        let kept = LabError::interrupted_with_runs(Path::new("results/today"));
        assert!(kept.to_string().ends_with("is removed, except the finished runs in results/today"), "{kept}");
        assert_eq!(kept.hint(), Some("go on with --resume results/today, and the same plan and options"));
        assert_eq!(kept.without_resuming().hint(), None);
    }
}
