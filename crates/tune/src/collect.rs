//! Collects facts: from the running host on Linux, and from captures of all supported systems.
//!
//! Both sources fill [`collected::Collected`]: texts of files and outputs of commands. Parsers are
//! pure functions from such a text to [`Facts`]; they add a remark for what they cannot read. This
//! module changes nothing and never runs anything from a capture.

mod aix;
mod archive;
mod ask;
mod check_value;
mod collected;
mod command_line;
mod database;
mod derive;
mod direct_nfs;
mod entries;
mod family;
mod hpux;
mod iscsi_lock;
mod layout;
pub mod limits;
mod links;
mod linux;
mod live_host;
mod live_servers;
mod manifest;
mod mounts;
mod network;
mod ontap7;
mod ontap9;
mod persistent;
mod read_capture;
mod real_paths;
mod redact;
mod roles;
pub mod runner;
mod running;
mod running_text;
mod site;
mod solaris;
mod sources;
mod stanza;
mod text;
mod unread;
mod write_capture;

use std::io;
use std::path::Path;

pub use crate::facts::Database;
pub use check_value::{Checked, check_value};
pub use database::{Answer, Row, data_directory, is_local};
pub use direct_nfs::direct_nfs_text;
pub(crate) use linux::other_of_pair;
pub use live_host::LiveOptions;
pub use read_capture::CaptureError;
pub use redact::{REDACTED, redacted};
pub(crate) use roles::unnamed;
pub(crate) use running::user_name;
pub use site::site;

use crate::facts::Facts;
use collected::Collected;
use family::Family;

/// The host and the time of a capture.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CaptureInfo {
    /// Name of the host.
    pub host: String,
    /// Its operating system, as the capture names it or as it was recognised.
    pub system: String,
    /// The time in RFC 3339 format; empty if it is not known.
    pub time: String,
    /// The capture's path.
    pub from: String,
}

/// Reads the facts of this host.
#[must_use]
pub fn live(options: &LiveOptions) -> Facts {
    facts_of(&mut live_host::read(options))
}

/// Reads the facts of a capture: a folder or a tar archive, which may be compressed by gzip.
///
/// # Errors
/// The capture cannot be read, unpacks to more than the limits, or contains nothing that is known.
pub fn capture(path: &Path) -> Result<(Facts, CaptureInfo), CaptureError> {
    let mut collected = read_capture::open(path)?;
    Ok(read(&mut collected, &path.display().to_string()))
}

/// Reads the facts of a capture in memory: an archive as for [`capture`].
///
/// # Errors
/// As for [`capture`].
pub fn capture_bytes(bytes: &[u8], named: &str) -> Result<(Facts, CaptureInfo), CaptureError> {
    let mut collected = read_capture::open_bytes(bytes, named)?;
    Ok(read(&mut collected, named))
}

/// Reads the facts of one text, as if it were the complete capture. It is a file if `name` begins
/// with `/`, otherwise the output of a command.
#[must_use]
pub fn text_facts(system: &str, name: &str, bytes: &[u8]) -> Facts {
    let mut collected = Collected { system: system.to_owned(), ..Collected::default() };
    if name.starts_with('/') {
        collected.take_file(name, bytes);
    } else {
        collected.take_command(name, bytes, Some(0));
    }
    facts_of(&mut collected)
}

/// Notes the settings that a server returned. They take precedence. Collected files of the same
/// server show what a restart would change.
pub fn database_rows(answer: &Answer<'_>, facts: &mut Facts) {
    database::database_rows(answer, facts);
    roles::derive(facts);
}

/// Follows the links in the data directories of servers that were queried, because the directories
/// decide the roles of mounts. `root` is the folder that replaces the host's root.
pub fn follow_links(root: &Path, facts: &mut Facts) {
    real_paths::note(root, facts);
    roles::derive(facts);
}

/// Writes a capture of this host without secrets: an archive if the name ends with `.tar`,
/// `.tar.gz` or `.tgz`, otherwise a folder.
///
/// # Errors
/// The path already exists, or a write failed.
pub fn write_capture(path: &Path, options: &LiveOptions) -> io::Result<()> {
    write_capture::write(path, &live_host::read(options))
}

/// Formats settings of a database as an entry of a capture, for [`LiveOptions::fetched`]. Returns
/// the command line, then its output.
///
/// `address` is the server's address; empty if it is not known.
#[must_use]
pub fn database_text(database: Database, address: &str, rows: &[Row]) -> (String, String) {
    database::as_text(database, address, rows)
}

fn read(collected: &mut Collected, from: &str) -> (Facts, CaptureInfo) {
    let facts = facts_of(collected);
    if collected.host.is_empty() {
        let named = collected.output("hostname").and_then(|output| output.text.split_whitespace().next());
        let named = named.or_else(|| collected.outputs("uname").find_map(|(_, output)| output.text.split_whitespace().nth(1)));
        collected.host = named.unwrap_or_default().to_owned();
    }
    let system = if collected.system.is_empty() {
        Family::of(collected).map_or("", Family::name).to_owned()
    } else {
        collected.system.clone()
    };
    let info = CaptureInfo { host: collected.host.clone(), system, time: collected.time.clone(), from: from.to_owned() };
    (facts, info)
}

/// All facts of what was read.
fn facts_of(collected: &mut Collected) -> Facts {
    let mut facts = Facts::default();
    collected.spread();
    collected.running.extend(running_text::read(collected));
    for remark in std::mem::take(&mut collected.remarks) {
        facts.remark(remark);
    }
    let family = Family::of(collected);
    match family {
        Some(family) => facts.put("os.family", family.name(), "the capture"),
        None => facts.put_unknown("os.", "nothing in the capture says which system it comes from"),
    }
    if let Some(root) = collected.root {
        facts.put("user.root", root, "the capture");
    }
    match family {
        Some(Family::Linux) => linux::facts(collected, &mut facts),
        Some(Family::Solaris) => solaris::facts(collected, &mut facts),
        Some(Family::Aix) => aix::facts(collected, &mut facts),
        Some(Family::Hpux) => hpux::facts(collected, &mut facts),
        Some(Family::Ontap7 | Family::Ontap9) | None => {}
    }
    // A capture of a host may contain the console output of its storage too.
    if family == Some(Family::Ontap7) || Family::has_ontap7(collected) {
        ontap7::facts(collected, &mut facts);
    }
    if family == Some(Family::Ontap9) || Family::has_ontap9(collected) {
        ontap9::facts(collected, family == Some(Family::Ontap9), &mut facts);
    }
    for (path, text) in collected.files.iter().filter(|(path, _)| path.ends_with("/oranfstab")) {
        database::oranfstab::read(text, path, &mut facts);
    }
    direct_nfs::facts(collected, &mut facts);
    database::postgres::facts(collected, &mut facts);
    database::mysql::facts(collected, &mut facts);
    database::oracle::facts(collected, &mut facts);
    unread::facts(collected, family, &mut facts);
    database::data_not_here(collected, &mut facts);
    looked_for(collected, family, &mut facts);
    derive::derive(collected, &mut facts);
    links::facts(collected, family.is_some_and(Family::is_host), &mut facts);
    if let Some(text) = collected.site.take() {
        site(&text, &mut facts);
    }
    facts
}

/// Notes kinds of things that were looked for, so that a missing thing is known not to exist.
fn looked_for(collected: &Collected, family: Option<Family>, facts: &mut Facts) {
    let ran = |begin: &str| collected.outputs(begin).next().is_some();
    if !facts.unknown.contains_key("mount") && family.is_some_and(Family::is_host) {
        facts.looked_for("mount");
    }
    if collected.live || ran("iscsiadm") {
        facts.looked_for("iscsi_session");
    }
    // If `multipath` is not installed, there are no maps. If this user may not run it, there may be
    // some.
    match collected.denied.iter().find(|(line, _)| line.starts_with("multipath -l")) {
        Some((line, reason)) if !reason.contains("no such command") => {
            facts.put_unknown("multipath_map", &format!("{line}: {reason}"))
        }
        _ if collected.live || collected.outputs("multipath").any(|(rest, _)| rest.contains('l')) => {
            facts.looked_for("multipath_map")
        }
        _ => {}
    }
    if collected.live {
        for kind in ["fc_host", "nic", "block", "partition", "nvme_subsystem", "oranfstab_path"] {
            facts.looked_for(kind);
        }
    }
    if collected.listed {
        facts.looked_for("oranfstab_path");
    }
}
