//! `--install`: names the distribution's packages that a comparison lacks, asks the user, and
//! installs them.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use lab::{DatabaseKind, LabError};

/// `make setup` also runs this script. It makes no cluster, starts nothing and does not use port 5432.
const SCRIPT: &str = include_str!("../../../../../scripts/install-packages");

/// Installs the missing packages after the user agreed, by an answer on the terminal or by `--yes`.
///
/// # Errors
/// [`LabError::Missing`] if the user did not agree or the packages could not be installed,
/// [`LabError::Start`] if bash did not start.
pub(super) fn install_missing(database: DatabaseKind, pg_bin: Option<&Path>, yes: bool) -> Result<(), LabError> {
    let missing = lab::missing_packages(database, pg_bin);
    if missing.is_empty() {
        return Ok(());
    }
    let packages = missing.join(" ");
    let or_named = if database.takes_directory() { ", or name their directory with --pg-bin" } else { "" };
    eprintln!("missing: {packages} (the database of the comparison)");
    eprintln!(
        "it is installed from the distribution with apt-get or dnf: no cluster is made, nothing is started, no port is used"
    );
    if !yes && !agreed(&packages)? {
        return Err(refusal(&packages, "nothing was installed; answer y, or use --install --yes"));
    }
    let status = run_script(&missing, &packages);
    match status {
        Ok(status) if status.success() => {}
        Ok(_) => return Err(refusal(&packages, &format!("the lines above say why; install it by hand{or_named}"))),
        Err(source) => return Err(LabError::Start { program: "bash".to_owned(), source }),
    }
    match lab::missing_packages(database, pg_bin).as_slice() {
        [] => Ok(()),
        _ => Err(refusal(
            &packages,
            &format!("it was installed, but its programs are not where millrace doctor looks for them{or_named}"),
        )),
    }
}

/// Runs the script. On a terminal it shows the elapsed time.
fn run_script(missing: &[&str], packages: &str) -> std::io::Result<ExitStatus> {
    // bash takes the first argument after the script as `$0`.
    let mut child = Command::new("bash").args(["-c", SCRIPT, "install-packages"]).args(missing).spawn()?;
    // Without root the script calls sudo, which may ask for a password on that line.
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    let shows = std::io::stderr().is_terminal() && is_root;
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        std::thread::sleep(Duration::from_millis(200));
        if shows && begin.elapsed() >= Duration::from_secs(2) {
            eprint!("\rinstalling {packages}: {} s\x1b[K", begin.elapsed().as_secs());
        }
    };
    if shows {
        eprint!("\r\x1b[K");
    }
    Ok(status)
}

/// Asks on the terminal.
fn agreed(packages: &str) -> Result<bool, LabError> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Err(refusal(packages, "there is no terminal to ask on: use --install --yes"));
    }
    eprint!("Install {packages}? [y/N] ");
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    Ok(read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn refusal(packages: &str, hint: &str) -> LabError {
    LabError::Missing { what: format!("install {packages}"), hint: hint.to_owned() }
}
