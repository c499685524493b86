//! Facts that are unknown because none of their sources was read.
//!
//! If no file sets a setting, the setting has its default. If a capture lacks the file, the setting
//! is not known. Without this table, the two cases would look the same.

use super::collected::Collected;
use super::database::parameter_files;
use super::family::Family;
use crate::facts::{Database, Facts};

/// A source of facts.
enum Source {
    /// A file. A file that does not exist is an answer too.
    File(&'static str),
    /// The output of a command that begins with these words.
    Command(&'static str),
    /// The same, for a program. If the program is not installed, there is nothing to report.
    Program(&'static str),
}

/// Facts and their sources. If none of the sources was read, the facts are unknown.
struct Given {
    family: Family,
    facts: Facted,
    by: &'static [Source],
}

/// Which facts.
enum Facted {
    /// Facts whose names begin with this text.
    Named(&'static str),
    /// An attribute of each thing of a kind.
    Attribute(&'static str, &'static str),
}

use Facted::{Attribute, Named};
use Source::{Command, File, Program};

const GIVEN: &[Given] = &[
    Given { family: Family::Linux, facts: Named("os.release"), by: &[Command("uname")] },
    Given { family: Family::Linux, facts: Named("nfs.client_transfer_max"), by: &[Command("uname")] },
    Given { family: Family::Hpux, facts: Named("nfs.client_transfer_max"), by: &[Command("uname")] },
    Given { family: Family::Linux, facts: Named("os.distribution"), by: &[File("/etc/os-release"), File("/etc/redhat-release")] },
    Given { family: Family::Linux, facts: Named("meminfo."), by: &[File("/proc/meminfo")] },
    Given { family: Family::Linux, facts: Named("hw.huge_page_bytes"), by: &[File("/proc/meminfo")] },
    Given { family: Family::Linux, facts: Named("oracleasm."), by: &[File("/etc/sysconfig/oracleasm")] },
    Given { family: Family::Linux, facts: Named("ulimit.oracle."), by: &[File("/home/oracle/.bash_profile")] },
    Given { family: Family::Linux, facts: Named("multipath_map"), by: &[Program("multipath -l"), Program("multipath -ll")] },
    Given { family: Family::Aix, facts: Named("os.release"), by: &[Command("oslevel"), Command("uname")] },
    Given { family: Family::Aix, facts: Named("aix.fileset."), by: &[Command("lslpp")] },
    Given { family: Family::Aix, facts: Named("aix.apar."), by: &[Command("instfix")] },
    Given { family: Family::Solaris, facts: Named("os.release"), by: &[Command("uname"), File("/etc/release")] },
    Given { family: Family::Solaris, facts: Named("solaris.update"), by: &[File("/etc/release")] },
    Given { family: Family::Hpux, facts: Named("os.release"), by: &[Command("uname")] },
    Given { family: Family::Hpux, facts: Attribute("lan", "driver"), by: &[Command("ioscan")] },
];

/// Makes facts of hosts, storage and databases unknown if their sources were not read.
pub(super) fn facts(collected: &Collected, family: Option<Family>, facts: &mut Facts) {
    for given in GIVEN.iter().filter(|given| Some(given.family) == family) {
        if let Some(reason) = unread(collected, given.by) {
            match given.facts {
                Named(begin) => facts.put_unknown(begin, &reason),
                Attribute(kind, attribute) => of_each(kind, attribute, &reason, facts),
            }
        }
    }
    if family == Some(Family::Linux) && !super::linux::has_systemd(collected) {
        note(collected, "initscript.netfs.", &[File("/etc/init.d/netfs")], facts);
    }
    if has(facts, "ontap7.") {
        note(collected, "ontap7.option.", &[Command("options")], facts);
    }
    oracle(collected, facts);
}

/// Makes parameters of an Oracle database unknown, if other facts show the database, and facts of
/// its Direct NFS, which releases before 11.1 do not have.
fn oracle(collected: &Collected, facts: &mut Facts) {
    let begin = Database::Oracle.prefix();
    if !has(facts, begin) {
        return;
    }
    let is_asked = collected.commands.iter().any(|output| output.line.to_ascii_lowercase().contains("parameter"));
    let not_read = parameter_files::unknown(collected);
    if let Some(reason) = &not_read {
        facts.put_unknown("persistent.oracle.", reason);
    }
    if !is_asked && (not_read.is_some() || !has(facts, "persistent.oracle.")) {
        facts.put_unknown(begin, not_read.as_deref().unwrap_or("no parameters of the database were collected"));
    }
    let is_older = facts.host_text("oracle.version").is_some_and(|version| {
        version.split('.').next().and_then(|release| release.parse().ok()).is_some_and(|release: u32| release < 11)
    });
    if !is_older && !facts.host.contains_key("oracle.dnfs.enabled") {
        facts.put_unknown("oracle.dnfs.", &collected.why("v$dnfs_servers"));
    }
}

fn has(facts: &Facts, begin: &str) -> bool {
    facts.host.range(begin.to_owned()..).next().is_some_and(|(name, _)| name.starts_with(begin))
}

fn note(collected: &Collected, begin: &str, by: &[Source], facts: &mut Facts) {
    if let Some(reason) = unread(collected, by) {
        facts.put_unknown(begin, &reason);
    }
}

fn of_each(kind: &str, attribute: &str, reason: &str, facts: &mut Facts) {
    let things = facts.things.get(kind).into_iter().flatten().filter(|(_, thing)| !thing.contains_key(attribute));
    let without: Vec<String> = things.map(|(name, _)| name.clone()).collect();
    without.iter().for_each(|name| facts.put_unknown_of(kind, name, attribute, reason));
}

/// Why the facts are unknown: none of the sources was read.
fn unread(collected: &Collected, by: &[Source]) -> Option<String> {
    let is_read = |source: &Source| match source {
        File(path) => !collected.is_unread(path),
        Command(begin) => collected.live || collected.has_run(begin),
        Program(line) => {
            let is_missing = collected.denied.get(*line).is_some_and(|reason| reason.contains("no such command"));
            collected.live || is_missing || collected.has_run(line)
        }
    };
    let (File(name) | Command(name) | Program(name)) = by.first()?;
    (!by.iter().any(is_read)).then(|| collected.why(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(family: Family, fill: impl Fn(&mut Collected, &mut Facts)) -> Facts {
        let (mut collected, mut found) = (Collected::default(), Facts::default());
        fill(&mut collected, &mut found);
        facts(&collected, Some(family), &mut found);
        found
    }

    #[test]
    fn a_file_that_was_not_read_makes_its_facts_unknown_and_one_that_is_absent_does_not() {
        const PATH: &str = "/home/oracle/.bash_profile";
        let is_unknown = |facts: &Facts| facts.unknown.contains_key("ulimit.oracle.");
        assert!(is_unknown(&read(Family::Linux, |_, _| {})));
        let absent = |collected: &mut Collected| assert!(collected.absent.insert(PATH.to_owned()));
        assert!(!is_unknown(&read(Family::Linux, |collected, _| absent(collected))));
        assert!(!is_unknown(&read(Family::Linux, |collected, _| collected.take_file(PATH, b"umask 022\n"))));
        assert!(!is_unknown(&read(Family::Linux, |collected, _| collected.live = true)));
        let denied = |collected: &mut Collected| collected.denied.insert(PATH.to_owned(), "permission denied".to_owned());
        assert!(is_unknown(&read(Family::Linux, |collected, _| {
            collected.live = true;
            denied(collected);
        })));
    }

    #[test]
    fn a_host_without_the_program_of_multipath_has_no_maps() {
        let why = |reason: Option<&str>| {
            let denied = |collected: &mut Collected| {
                collected.denied.extend(reason.map(|reason| ("multipath -l".to_owned(), reason.to_owned())));
            };
            read(Family::Linux, |collected, _| denied(collected)).unknown.remove("multipath_map")
        };
        assert!(why(None).is_some() && why(Some("permission denied")).is_some());
        assert_eq!(why(Some("there is no such command")), None);
    }

    #[test]
    fn an_attribute_is_unknown_of_each_thing_that_does_not_have_it() {
        let found = read(Family::Hpux, |_, facts| {
            facts.put_of("lan", "lan0", "mtu", 1500, "a test");
            facts.put_of("lan", "lan1", "driver", "igelan", "a test");
        });
        assert!(found.why_unknown_of("lan", "lan0", "driver").is_some_and(|reason| reason.contains("ioscan")));
        assert_eq!(found.why_unknown_of("lan", "lan1", "driver"), None);
    }

    #[test]
    fn direct_nfs_is_unknown_where_its_views_were_not_read_except_before_it_was_made() {
        let is_unknown = |version: &str| {
            let found = read(Family::Linux, |_, facts| facts.put("oracle.version", version, "a test"));
            found.unknown.contains_key("oracle.dnfs.")
        };
        assert!(is_unknown("11.1.0.6.0"));
        assert!(!is_unknown("10.2.0.1.0"));
    }

    #[test]
    fn without_the_server_parameter_file_no_parameter_of_an_init_ora_is_known_unless_the_database_told_it() {
        let read = |shown: bool| {
            let mut collected = Collected { version: 2, listed: true, ..Collected::default() };
            collected.take_file("/u01/dbs/initA.ora", b"filesystemio_options = setall\n");
            if shown {
                let text = "NAME TYPE VALUE\ndisk_asynch_io boolean TRUE\n";
                collected.take_command("sqlplus show parameter", text.as_bytes(), Some(0));
            }
            let mut found = Facts::default();
            super::super::database::oracle::facts(&collected, &mut found);
            facts(&collected, Some(Family::Linux), &mut found);
            found
        };
        let found = read(false);
        assert_eq!(found.value("oracle.filesystemio_options"), None);
        assert!(found.unknown.contains_key("oracle.") && found.unknown.contains_key("persistent.oracle."), "{:?}", found.unknown);
        let found = read(true);
        assert_eq!(found.value("oracle.disk_asynch_io"), Some(&true.into()));
        assert!(
            !found.unknown.contains_key("oracle.") && found.unknown.contains_key("persistent.oracle."),
            "{:?}",
            found.unknown
        );
    }
}
