//! Decides which parameter files an Oracle instance reads.
//!
//! The instance SID reads the first of `spfileSID.ora`, `spfile.ora` and `initSID.ora` in
//! `ORACLE_HOME/dbs`. If `initSID.ora` names a server parameter file, the instance reads that one
//! too. Source: Oracle Database Administrator's Guide, "Starting Up a Database".

use crate::collect::collected::{Collected, State};
use crate::collect::text::{telling, unquoted};

/// Whether an instance reads a parameter file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// An instance reads it.
    Counts,
    /// It is not known, for this reason: an instance may read another file instead.
    Unknown(String),
    /// No instance reads it.
    Unused,
}

/// Whether the name is that of a parameter file. A server parameter file is binary, but a capture
/// may contain its text under this name.
pub(super) fn is_one(path: &str) -> bool {
    let name = name(path);
    name.ends_with(".ora") && (name.starts_with("init") || name.starts_with("spfile")) || name == SPFILE_TEXT
}

/// Whether an instance reads a collected file.
pub(super) fn standing(path: &str, collected: &Collected) -> Standing {
    let has_text = || collected.files.keys().any(|path| name(path) == SPFILE_TEXT);
    // Every installation has an example with this name. No instance reads it.
    if path.ends_with("/dbs/init.ora") {
        return Standing::Unused;
    }
    if sid(name(path)).is_none() || has_text() {
        return Standing::Counts;
    }
    for instead in instead_of(path) {
        match collected.state(&instead) {
            State::Absent => {}
            State::Read(_) => return Standing::Unused,
            State::Unread => {
                let why = collected.why_unread(&instead);
                return Standing::Unknown(format!("{path} does not count if there is a server parameter file, and {why}"));
            }
        }
    }
    match named(collected.file(path).unwrap_or_default()).filter(|named| collected.file(named).is_none()) {
        Some(named) => Standing::Unknown(format!("{path} names the server parameter file {named}, which was not read")),
        None => Standing::Counts,
    }
}

/// Why parameters are not known: the reason of the first parameter file whose standing is not
/// known.
pub(in crate::collect) fn unknown(collected: &Collected) -> Option<String> {
    let files = collected.files.keys().filter(|path| is_one(path));
    files.map(|path| standing(path, collected)).find_map(|standing| match standing {
        Standing::Unknown(reason) => Some(reason),
        Standing::Counts | Standing::Unused => None,
    })
}

/// The server parameter files that an instance prefers to this `initSID.ora`.
pub(in crate::collect) fn instead_of(path: &str) -> Vec<String> {
    let Some(sid) = sid(name(path)) else { return Vec::new() };
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    vec![format!("{folder}/spfile{sid}.ora"), format!("{folder}/spfile.ora")]
}

/// The text of a server parameter file, as `create pfile` writes it.
const SPFILE_TEXT: &str = "spfile.txt";

/// The `SID` in `initSID.ora`.
fn sid(name: &str) -> Option<&str> {
    name.strip_prefix("init")?.strip_suffix(".ora")
}

/// The value of the parameter `spfile`.
fn named(text: &str) -> Option<&str> {
    let said = telling(text, &['#']).filter_map(|(_, line)| {
        let (name, said) = line.split('#').next()?.split_once('=')?;
        let name = name.trim();
        name.rsplit('.').next().unwrap_or(name).eq_ignore_ascii_case("spfile").then(|| unquoted(said.trim()))
    });
    said.last()
}

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INIT: &str = "/u01/dbs/initA.ora";

    /// A capture that lists the files that do not exist.
    fn capture(files: &[(&str, &str)], absent: &[&str]) -> Collected {
        let mut collected = Collected { version: 2, listed: true, ..Collected::default() };
        files.iter().for_each(|(path, text)| collected.take_file(path, text.as_bytes()));
        collected.absent.extend(absent.iter().map(|path| (*path).to_owned()));
        collected
    }

    #[test]
    fn an_init_ora_counts_if_no_server_parameter_file_is_there() {
        const BOTH: [&str; 2] = ["/u01/dbs/spfileA.ora", "/u01/dbs/spfile.ora"];
        let init = (INIT, "processes = 5\n");
        assert_eq!(standing(INIT, &capture(&[init], &BOTH)), Standing::Counts);
        for absent in BOTH {
            let found = standing(INIT, &capture(&[init], &[absent]));
            assert!(matches!(&found, Standing::Unknown(reason) if reason.contains("is not in the capture")), "{found:?}");
        }
        let mut binary = capture(&[init], &BOTH[1..]);
        binary.take_file(BOTH[0], b"C\x22\0\0\0*.processes=7\n\0\0");
        assert!(matches!(standing(INIT, &binary), Standing::Unknown(_)), "{binary:?}");
        let text = capture(&[init, (BOTH[0], "*.processes=7\n")], &[]);
        assert_eq!((standing(INIT, &text), standing(BOTH[0], &text)), (Standing::Unused, Standing::Counts));
        assert_eq!(standing("/u01/dbs/init.ora", &capture(&[("/u01/dbs/init.ora", "processes = 150\n")], &[])), Standing::Unused);
    }

    #[test]
    fn an_init_ora_that_names_a_server_parameter_file_does_not_count_without_it() {
        let absent = instead_of(INIT);
        let absent: Vec<&str> = absent.iter().map(String::as_str).collect();
        let init = (INIT, "SPFILE='+DATA/a/spfileA.ora' # in ASM\n");
        let found = standing(INIT, &capture(&[init], &absent));
        assert!(
            matches!(&found, Standing::Unknown(reason) if reason.contains("+DATA/a/spfileA.ora, which was not read")),
            "{found:?}"
        );
        let init = (INIT, "spfile = /srv/spfileA.ora\n");
        assert_eq!(standing(INIT, &capture(&[init, ("/srv/spfileA.ora", "*.processes=7\n")], &absent)), Standing::Counts);
    }
}
