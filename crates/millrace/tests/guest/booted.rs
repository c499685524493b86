//! A guest that runs one of the scripts of this folder. The script asks the test for what only the
//! host can do.

use crate::support::{find_program, millrace, skip, succeed};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Time limit of a guest with a script. On an idle host it takes a sixth of this.
const SCRIPT_MAX: &str = "6m";

/// The folder with the kernel of the tests, in cargo's target folder.
pub(crate) fn cache() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_millrace")).ancestors().nth(2).unwrap().join("guest")
}

/// `millrace guest ACTION` with the kernel of the tests.
pub(crate) fn guest(action: &str) -> Command {
    let mut command = millrace();
    command.args(["guest", action, "--cache"]).arg(cache());
    command
}

/// Whether a guest with these programs inside can be booted here. Fetches the kernel if nothing
/// else is missing. If no guest can be booted, prints why.
pub(crate) fn can_boot(programs: &[&str]) -> bool {
    if let Some(missing) = programs.iter().find(|program| !has_program(program)) {
        skip(&format!("no {missing} for the guest"));
        return false;
    }
    let status =
        || -> serde_json::Value { serde_json::from_slice(&guest("status").arg("--json").output().unwrap().stdout).unwrap() };
    if status()["fix"].as_str().is_some_and(|fix| fix.starts_with("millrace guest fetch")) {
        let _ = guest("fetch").status();
    }
    let found = status();
    let ready = found["ready"].as_bool().unwrap();
    if !ready {
        skip(&format!("no guest: {}", found["fix"]));
    }
    ready
}

fn has_program(name: &str) -> bool {
    find_program(name).is_some() || ["/usr/sbin", "/sbin"].iter().any(|folder| Path::new(folder).join(name).is_file())
}

/// Runs the script in a guest. A line `ASK WORDS` of its output is a request: `grant` fulfils it,
/// and the script gets an answer on its stdin. Returns the values of the lines `FACT NAME VALUE`.
/// If the script fails, the panic has its whole output.
pub(crate) fn facts_of(script: &str, nics: u32, arguments: &[String], grant: impl FnMut(&str)) -> BTreeMap<String, String> {
    facts_in(&["--timeout", SCRIPT_MAX, "--nics", &nics.to_string()], script, arguments, grant)
}

/// As [`facts_of`], in a guest with these options.
pub(crate) fn facts_in(
    options: &[&str],
    script: &str,
    arguments: &[String],
    mut grant: impl FnMut(&str),
) -> BTreeMap<String, String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guest").join(script);
    let mut command = guest("run");
    command.args(options).args(["--stdin", "--", "bash"]).arg(file).args(arguments);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let stderr = child.stderr.take().unwrap();
    let errors = std::thread::spawn(move || std::io::read_to_string(stderr).unwrap());
    let mut stdin = child.stdin.take().unwrap();
    let (mut facts, mut said) = (BTreeMap::new(), String::new());
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        println!("guest: {line}");
        said += &format!("{line}\n");
        if let Some(wish) = line.strip_prefix("ASK ") {
            grant(wish);
            stdin.write_all(b"granted\n").unwrap();
        } else if let Some((name, value)) = line.strip_prefix("FACT ").and_then(|fact| fact.split_once(' ')) {
            facts.insert(name.to_owned(), value.to_owned());
        }
    }
    let status = child.wait().unwrap();
    assert!(status.success(), "{script}: {status}\n{said}\n{}", errors.join().unwrap());
    facts
}

/// The version of the kernel that guests boot, as `uname -r` prints it.
pub(crate) fn kernel() -> String {
    let found: serde_json::Value = serde_json::from_str(&succeed(guest("status").arg("--json"))).unwrap();
    found["kernel"]["version"].as_str().unwrap().to_owned()
}
