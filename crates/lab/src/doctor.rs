//! Reports what this host can measure, what it cannot, why, and the command that fixes it.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::compare::database_user;
use crate::database::kind::DatabaseKind;
use crate::host::environment;
use crate::paths;
use crate::paths::exec::{PRELOAD_LIBRARY, preload_library};
use crate::paths::storage_path::{Asked, PathRef, WhyNot};
use crate::plan::{DEFAULT_PLAN, Overrides, Plan, Tuning};
use crate::sys;

/// Result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was checked.
    pub subject: String,
    /// State of the result.
    pub state: State,
    /// Description of the result.
    pub found: String,
    /// The fix, if there is something to fix.
    pub fix: Option<String>,
}

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Correct.
    Good,
    /// Useful to know; a comparison can run.
    Note,
    /// Not supported in this version; nothing to fix.
    NotBuilt,
    /// Prevents the measurement of a path.
    Missing,
}

/// Options of doctor.
#[derive(Debug, Clone)]
pub struct Options {
    /// This program.
    pub program: PathBuf,
    /// Base of a comparison's work directory.
    pub work_base: PathBuf,
    /// Directory of the default database's server programs; `None` to search for it.
    pub pg_bin: Option<PathBuf>,
}

/// Checks everything that a comparison needs. Changes nothing, except for a probe file that it removes.
#[must_use]
pub fn examine(options: &Options) -> Vec<Finding> {
    let mut findings: Vec<Finding> = DatabaseKind::all().map(|kind| programs(kind, options)).collect();
    findings.push(user());
    findings.push(library(&options.program));
    findings.push(space(&options.work_base));
    findings.push(store(&options.work_base));
    findings.push(load());
    for path in paths::ALL.iter().copied() {
        findings.push(path_finding(path, options, &findings));
    }
    findings
}

/// Whether every path of this version can be measured.
#[must_use]
pub fn all_good(findings: &[Finding]) -> bool {
    findings.iter().all(|finding| finding.state != State::Missing)
}

/// The findings as text: one line each, with the fix below it.
#[must_use]
pub fn render(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let mark = match finding.state {
            State::Good => "ok  ",
            State::Note => "note",
            State::NotBuilt => "-   ",
            State::Missing => "NO  ",
        };
        text += &format!("{mark}  {:<12}  {}\n", finding.subject, finding.found);
        if let Some(fix) = &finding.fix {
            text += &format!("                    fix: {fix}\n");
        }
    }
    text
}

fn finding(subject: &str, state: State, found: impl Into<String>, fix: Option<&str>) -> Finding {
    Finding { subject: subject.to_owned(), state, found: found.into(), fix: fix.map(str::to_owned) }
}

/// Reports the programs of a database. No path requires another one than the default.
fn programs(kind: DatabaseKind, options: &Options) -> Finding {
    let (system, is_default) = (kind.system(), kind == DatabaseKind::default());
    match system.find(options.pg_bin.as_deref().filter(|_| system.takes_directory())) {
        Ok(found) => {
            let words = format!("version {} in {}", found.version(), found.directory().display());
            match system.unfit(found.version()) {
                Some((why, fix)) => finding(kind.title(), State::Missing, format!("{words} {why}"), Some(fix)),
                None if is_default => finding(kind.title(), State::Good, words, None),
                None => finding(kind.title(), State::Good, format!("{words}: compare --database {kind}"), None),
            }
        }
        Err(error) if is_default => finding(kind.title(), State::Missing, format!("cannot {error}"), error.hint()),
        Err(error) => finding(kind.title(), State::Note, format!("compare --database {kind} cannot {error}"), error.hint()),
    }
}

fn user() -> Finding {
    match database_user(DatabaseKind::default()) {
        Ok(user) => finding("user", State::Good, format!("the database would run as {} ({})", user.name, user.uid), None),
        Err(error) => finding("user", State::Missing, format!("cannot {error}"), error.hint()),
    }
}

fn library(program: &Path) -> Finding {
    match preload_library(program) {
        Some(place) => finding("library", State::Good, format!("{}", place.display()), None),
        None => finding(
            "library",
            State::Missing,
            format!("{PRELOAD_LIBRARY} is neither beside this program nor in ../lib/millrace"),
            Some("make build, or name the file in MILLRACE_PRELOAD"),
        ),
    }
}

fn space(base: &Path) -> Finding {
    let needed = Plan::parse(DEFAULT_PLAN, &Overrides::default()).map_or(0, |plan| plan.needed_bytes());
    if base.exists() && !base.is_dir() {
        let words = format!("{} is not a directory", base.display());
        return finding("space", State::Missing, words, Some("name a directory with --work"));
    }
    match sys::free_bytes(base) {
        Ok(free) if free >= needed => {
            let words = format!("{} MiB free below {}, the default plan needs {}", free >> 20, base.display(), needed >> 20);
            finding("space", State::Good, words, None)
        }
        Ok(free) => finding(
            "space",
            State::Missing,
            format!("{} MiB free below {}, the default plan needs {}", free >> 20, base.display(), needed >> 20),
            Some("name a larger place with --work, or load less with --warehouses"),
        ),
        Err(error) => finding(
            "space",
            State::Missing,
            format!("{}: {error}", base.display()),
            Some("name a directory that exists with --work"),
        ),
    }
}

fn store(base: &Path) -> Finding {
    let store = environment::store(base);
    let words = format!("{} on {}", store.file_system, store.device);
    if store.reflink {
        return finding("storage", State::Good, words + ": the loaded database is restored by reflink", None);
    }
    let memory = store.file_system == "tmpfs";
    let fix = if memory {
        "name a directory on a disk with --work"
    } else {
        "name a directory on XFS or btrfs with --work: a reflink copy restores it at once"
    };
    let rest = if memory {
        ": the files are in memory, no disk is measured"
    } else {
        ": no reflink, the loaded database is copied before each run"
    };
    finding("storage", State::Note, words + rest, Some(fix))
}

fn load() -> Finding {
    let environment = environment::collect(Path::new("/"), "", None);
    let (load, count) = (environment.load_average_before, environment.cpu_count);
    let words = format!("load average {load:.2} on {count} processors");
    if load > 0.3 * count as f64 {
        return finding(
            "host",
            State::Note,
            words + ": other processes are running and will disturb the figures",
            Some("wait until it is idle"),
        );
    }
    finding("host", State::Good, words, None)
}

/// The finding for a path: it depends on the requirements of every comparison and on its own.
fn path_finding(path: PathRef, options: &Options, before: &[Finding]) -> Finding {
    let why_not =
        path.why_not(&Asked { program: &options.program, target: None, medium: false, luns: 1, tuning: &Tuning::default() });
    let lacks = match why_not {
        Some(WhyNot::NotBuilt(reason)) => return finding(path.name(), State::NotBuilt, reason, None),
        Some(WhyNot::NotHere(reason)) => return finding(path.name(), State::Note, reason, None),
        Some(WhyNot::Lacks(reason)) => Some(reason),
        None => None,
    };
    let every_path = [DatabaseKind::default().title(), "user", "space"];
    let missing = |other: &&Finding| other.state == State::Missing && every_path.contains(&other.subject.as_str());
    let blocked: Vec<&str> = before.iter().filter(missing).map(|other| other.subject.as_str()).collect();
    let mut reasons: Vec<String> = lacks.into_iter().collect();
    if !blocked.is_empty() {
        reasons.push(format!("see {}", blocked.join(", ")));
    }
    if reasons.is_empty() {
        return finding(path.name(), State::Good, format!("{} can be measured", path.title()), None);
    }
    finding(path.name(), State::Missing, format!("{} can't be measured: {}", path.title(), reasons.join("; ")), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_library_keeps_dnfs_from_being_measured_and_says_what_to_do() {
        let empty = tempfile::tempdir().unwrap();
        let options = Options { program: empty.path().join("millrace"), work_base: empty.path().to_owned(), pg_bin: None };
        let findings = examine(&options);
        let of = |subject: &str| findings.iter().find(|finding| finding.subject == subject).unwrap();
        assert_eq!(of("library").state, State::Missing);
        assert!(of("library").fix.as_ref().unwrap().contains("make build"));
        assert_eq!(of("dnfs").state, State::Missing);
        assert_eq!(of("fc").state, State::Note);
        assert!(!all_good(&findings));
        assert!(render(&findings).contains("NO    library"));
    }

    #[test]
    fn place_that_does_not_exist_is_named() {
        let options = Options { program: "/x".into(), work_base: "/no/such/place".into(), pg_bin: Some("/no/bin".into()) };
        let text = render(&examine(&options));
        assert!(text.contains("/no/such/place") && text.contains("/no/bin"), "{text}");
    }
}
