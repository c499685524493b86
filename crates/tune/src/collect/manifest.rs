//! The MANIFEST of a capture: host, system and time, and for each file the command that printed it.

use super::collected::Collected;
use super::text;

/// The version of the capture format. Since version 2, a capture lists the configuration files and
/// folders that do not exist.
pub(super) const VERSION: u32 = 2;

/// Reads a MANIFEST: host, system, time, and one entry for each file with its command and exit
/// code.
pub(super) fn read(text: &str, collected: &mut Collected) -> Vec<Listed> {
    let mut listed = Vec::new();
    for (number, line) in text::telling(text, &['#']) {
        let (key, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
        let rest = rest.trim();
        match key {
            "millrace-capture" => match rest.parse() {
                Ok(version @ 1..=VERSION) => collected.version = version,
                _ => {
                    collected.version = VERSION;
                    collected.remarks.push(format!("MANIFEST:{number} is of version {rest}; read as version {VERSION}"));
                }
            },
            "host" => rest.clone_into(&mut collected.host),
            "system" => rest.clone_into(&mut collected.system),
            "time" => rest.clone_into(&mut collected.time),
            "entry" => match entry(rest) {
                Some(entry) => listed.push(entry),
                None => collected.remarks.push(format!("MANIFEST:{number} is no entry with path, exit code, user and command")),
            },
            _ => collected.remarks.push(format!("MANIFEST:{number} has an unknown key {:?}", text::head(key, 40))),
        }
    }
    listed
}

/// An entry of a MANIFEST.
#[derive(Debug, Clone)]
pub(super) struct Listed {
    /// The path in the capture.
    pub(super) path: String,
    /// The exit code; `None` if it is not a number.
    pub(super) exit: Option<i32>,
    /// The user that ran the command.
    pub(super) user: String,
    /// The command line, or the file.
    pub(super) line: String,
}

impl Listed {
    /// Whether the entry says that a file or a folder was looked for and does not exist.
    pub(super) fn is_absent(&self) -> bool {
        self.exit == Some(EXIT_ABSENT) && self.line.starts_with('/')
    }
}

/// The value in place of an exit code for a file or a folder that does not exist.
pub(super) const EXIT_ABSENT: i32 = 2;

fn entry(rest: &str) -> Option<Listed> {
    let mut parts = rest.splitn(4, '\t').map(str::trim);
    let path = parts.next()?.trim_start_matches("./").to_owned();
    let exit = parts.next()?.parse().ok();
    let (user, line) = (parts.next()?.to_owned(), parts.next()?.to_owned());
    (!path.is_empty() && !line.is_empty()).then_some(Listed { path, exit, user, line })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_with_odd_lines_is_read_as_far_as_it_goes() {
        let mut collected = Collected::default();
        let text =
            "millrace-capture 3\nhost db1\nsystem AIX\nentry commands/a.txt\t0\troot\tlsattr -El en0\nentry broken\nnoise here\n";
        let listed = read(text, &mut collected);
        assert_eq!((collected.host.as_str(), collected.system.as_str()), ("db1", "AIX"));
        assert_eq!((listed.len(), listed[0].exit, listed[0].line.as_str()), (1, Some(0), "lsattr -El en0"));
        assert_eq!(collected.remarks.len(), 3);
    }
}
