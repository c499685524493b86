//! Collecting facts: live on Linux, and from captures of every system.
//!
//! Both ways meet in [`collected::Collected`]: texts of files and of commands. Parsers are pure functions from such a text to
//! [`Facts`]; what they cannot read they remark. Nothing here changes anything, and nothing of a capture is ever run.

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

/// Where and when a capture was taken.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CaptureInfo {
    /// Name of the host.
    pub host: String,
    /// Its system, as the capture names it or as it was recognised.
    pub system: String,
    /// When, RFC 3339; empty when nobody says.
    pub time: String,
    /// The capture's path.
    pub from: String,
}

/// Reads the facts of this host.
#[must_use]
pub fn live(options: &LiveOptions) -> Facts {
    facts_of(&mut live_host::read(options))
}

/// Reads the facts of a capture: a folder, a tar archive, or one packed by gzip.
///
/// # Errors
/// It cannot be read, is a bomb, or has nothing in it that is known.
pub fn capture(path: &Path) -> Result<(Facts, CaptureInfo), CaptureError> {
    let mut collected = read_capture::open(path)?;
    Ok(read(&mut collected, &path.display().to_string()))
}

/// Reads the facts of a capture in memory, an archive as for [`capture`].
///
/// # Errors
/// As [`capture`].
pub fn capture_bytes(bytes: &[u8], named: &str) -> Result<(Facts, CaptureInfo), CaptureError> {
    let mut collected = read_capture::open_bytes(bytes, named)?;
    Ok(read(&mut collected, named))
}

/// Reads the facts of one text, as if a capture held nothing else: of a file where `name` begins with `/`, else of a command.
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

/// Notes the settings that a server gave, and what its mounts hold. They decide; of files at hand those that belong to it tell what a
/// restart brings.
pub fn database_rows(answer: &Answer<'_>, facts: &mut Facts) {
    database::database_rows(answer, facts);
    roles::derive(facts);
}

/// Follows the links in the data directories of servers that were asked, which decide what their mounts hold. `root` stands for this host.
pub fn follow_links(root: &Path, facts: &mut Facts) {
    real_paths::note(root, facts);
    roles::derive(facts);
}

/// Writes a capture of this host, without secrets: a folder, or an archive where the name ends with `.tar`, `.tar.gz` or `.tgz`.
///
/// # Errors
/// There is something of that name, or writing failed.
pub fn write_capture(path: &Path, options: &LiveOptions) -> io::Result<()> {
    write_capture::write(path, &live_host::read(options))
}

/// Settings of a database as the text of a capture's entry, for [`LiveOptions::fetched`]: the command line first.
///
/// `address` is where the server was reached; empty where nobody knows.
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
    // A capture of a host may hold its storage's console as well.
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

/// Kinds of which there are none where they were looked for and not found.
fn looked_for(collected: &Collected, family: Option<Family>, facts: &mut Facts) {
    let ran = |begin: &str| collected.outputs(begin).next().is_some();
    if !facts.unknown.contains_key("mount") && family.is_some_and(Family::is_host) {
        facts.looked_for("mount");
    }
    if collected.live || ran("iscsiadm") {
        facts.looked_for("iscsi_session");
    }
    // Without the program there are no maps; without the right to ask there may be.
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
