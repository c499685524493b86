//! The mounts of a host now and after a boot, combined from all the tables in which a system lists
//! them.

pub(super) mod order;
mod tables;

use std::collections::BTreeMap;
use std::net::IpAddr;

use host::mount_table::is_nfs;

use super::collected::Collected;
use super::family::Family;
use super::text::integer;
use crate::facts::{Facts, Value};
pub(super) use tables::{filesystems, fstab, mount_aix, mount_command, mount_table, mountinfo, nfsstat, vfstab};

/// A mount, combined from several sources.
#[derive(Debug, Default, Clone)]
struct Mount {
    source: String,
    fstype: String,
    /// The options in force and their origin.
    running: Option<(Vec<String>, String)>,
    /// Whether a table of mounts lists it, with all options that the mount was given.
    in_table: bool,
    /// Its source in the table of file systems.
    fstab_source: String,
    /// Its options in the table of file systems, as they are written there.
    persistent: Option<(Vec<String>, String)>,
    /// Its options in a unit or in a map of the automounter, as they are written there, their
    /// origin, and which of the two it is.
    by_program: Option<(Vec<String>, String, &'static str)>,
}

/// Completes the options of a mount that is not in force: mount point, server, the mount's options.
type Complete<'a> = &'a dyn Fn(&str, &str, &[String]) -> Vec<String>;

/// A table of current mounts.
#[derive(Clone, Copy)]
pub(super) enum Table<'a> {
    /// A file.
    File(&'a str),
    /// The output of a command.
    Command(&'a str),
}

/// How a system changes the options of a mount.
pub(super) struct Rules<'a> {
    /// The operating system.
    pub(super) family: Family,
    /// Adds the options that files set for all mounts.
    pub(super) complete: Complete<'a>,
    /// Why options that a mount does not set itself are not known.
    pub(super) unread: Option<&'a str>,
    /// Whether mount.nfs tries the highest minor version if only version 4 is given.
    pub(super) negotiates: bool,
}

/// Mounts by mount point.
#[derive(Debug, Default)]
pub(super) struct Mounts {
    by_point: BTreeMap<String, Mount>,
    /// Why it is not known what is mounted.
    unread_table: Option<String>,
    /// Why it is not known what a boot mounts.
    unread_fstab: Option<String>,
    /// Why it is not known what the automounter mounts.
    pub(super) unread_maps: Option<String>,
}

/// Options with a number. Each becomes an attribute with the same name.
const NUMBERS: &[&str] = &[
    "rsize",
    "wsize",
    "timeo",
    "retrans",
    "nconnect",
    "max_connect",
    "actimeo",
    "acregmin",
    "acregmax",
    "acdirmin",
    "acdirmax",
    "biods",
    "port",
    "mountport",
    "namlen",
    "numclust",
];

/// Options that are true if they are listed. They are false if a listed system knows them and does
/// not list them.
const SWITCHES: &[(&str, &[Family])] = &[
    ("noac", &[Family::Linux, Family::Solaris, Family::Aix, Family::Hpux]),
    ("nolock", &[Family::Linux]),
    ("nosharecache", &[Family::Linux]),
    ("sync", &[Family::Linux]),
    ("llock", &[Family::Solaris, Family::Aix, Family::Hpux]),
    ("forcedirectio", &[Family::Solaris, Family::Hpux]),
    ("cio", &[Family::Aix]),
    ("dio", &[Family::Aix]),
    ("bg", &[]),
    ("rbr", &[]),
    ("rbw", &[]),
    ("delaylog", &[]),
];

/// The interface of the kernel's NFS server. It contains no files, but `nfs*` in rules for NFS
/// mounts would match its type.
const NFS_SERVER: &str = "nfsd";

impl Mounts {
    /// Adds a mount in force. A later mount on the same point covers the earlier one, unless it is
    /// the same mount from another list.
    pub(super) fn running(
        &mut self,
        point: &str,
        source: &str,
        fstype: &str,
        options: impl IntoIterator<Item = String>,
        origin: &str,
    ) {
        let mount = self.by_point.entry(point.to_owned()).or_default();
        if !source.is_empty() && !mount.source.is_empty() && mount.source != source && mount.running.is_some() {
            *mount = Mount {
                persistent: mount.persistent.take(),
                by_program: mount.by_program.take(),
                fstab_source: std::mem::take(&mut mount.fstab_source),
                ..Mount::default()
            };
        }
        fill(&mut mount.source, source);
        fill(&mut mount.fstype, fstype);
        mount.in_table = true;
        let (there, _) = mount.running.get_or_insert_with(|| (Vec::new(), origin.to_owned()));
        merge(there, options);
    }

    /// Adds what `nfsstat -m` prints for a mount in force. On systems other than Linux it omits
    /// options such as direct I/O and time-outs.
    fn running_by_nfsstat(&mut self, point: &str, source: &str, options: impl IntoIterator<Item = String>, origin: &str) {
        let in_table = self.by_point.get(point).is_some_and(|mount| mount.in_table);
        self.running(point, source, "nfs", options, origin);
        if let Some(mount) = self.by_point.get_mut(point) {
            mount.in_table = in_table;
        }
    }

    /// Adds options that NFS mounts were given to those that the kernel lists. Old kernels omit
    /// time-outs, and list the server's name in place of its address.
    pub(super) fn add_given(&mut self, given: Self) {
        for (point, given) in given.by_point {
            let mount = self.by_point.get_mut(&point).filter(|mount| mount.source == given.source && is_nfs(&mount.fstype));
            if let (Some((there, _)), Some((options, _))) = (mount.and_then(|mount| mount.running.as_mut()), given.running) {
                let is_address = |option: &str| option.strip_prefix("addr=").is_some_and(|at| at.parse::<IpAddr>().is_ok());
                if options.iter().any(|option| is_address(option)) {
                    there.retain(|option| !option.starts_with("addr=") || is_address(option));
                }
                let is_new = |option: &String| !there.iter().any(|other| order::slot(other) == order::slot(option));
                let new: Vec<String> = options.into_iter().filter(is_new).collect();
                there.extend(new);
            }
        }
    }

    /// Notes which of the tables were not read. Without them, mounts and options may be missing.
    pub(super) fn note_unread(&mut self, tables: &[Table<'_>], fstab: &str, collected: &Collected) {
        let is_read = |table: &Table<'_>| match table {
            Table::File(path) => collected.file(path).is_some(),
            Table::Command(line) => collected.has_run(line),
        };
        let name = tables.first().map_or("", |(Table::File(name) | Table::Command(name))| name);
        self.unread_table = (!tables.iter().any(is_read)).then(|| collected.why(name));
        self.unread_fstab = collected.is_unread(fstab).then(|| collected.why(fstab));
    }

    /// Adds a mount that a unit or the automounter makes.
    pub(super) fn by_program(
        &mut self,
        point: &str,
        source: &str,
        fstype: &str,
        options: Vec<String>,
        origin: &str,
        by: &'static str,
    ) {
        let mount = self.by_point.entry(point.to_owned()).or_default();
        fill(&mut mount.source, source);
        fill(&mut mount.fstype, fstype);
        mount.by_program = Some((options, origin.to_owned(), by));
    }

    /// Adds a line of the table of file systems. A later line for the same point covers the earlier
    /// one.
    pub(super) fn persistent(
        &mut self,
        point: &str,
        source: &str,
        fstype: &str,
        options: impl IntoIterator<Item = String>,
        origin: &str,
    ) {
        let mount = self.by_point.entry(point.to_owned()).or_default();
        fill(&mut mount.source, source);
        fill(&mut mount.fstab_source, source);
        fill(&mut mount.fstype, fstype);
        let options = options.into_iter().filter(|option| !option.is_empty()).collect();
        mount.persistent = Some((options, origin.to_owned()));
    }

    /// Whether no mount is known.
    pub(super) fn is_empty(&self) -> bool {
        self.by_point.is_empty()
    }

    /// Notes all mounts as things.
    pub(super) fn put(self, family: Family, facts: &mut Facts) {
        let complete = |_: &str, _: &str, own: &[String]| order::first_of_each(own);
        self.put_by(&Rules { family, complete: &complete, unread: None, negotiates: false }, facts);
    }

    /// As [`Self::put`], with the rules of a system.
    pub(super) fn put_by(mut self, rules: &Rules<'_>, facts: &mut Facts) {
        let exports = self.exports();
        for reason in self.unread_table.iter().chain(&self.unread_fstab) {
            facts.put_unknown_others("mount", reason);
        }
        self.by_point.retain(|_, mount| mount.fstype != NFS_SERVER);
        let reads_nfs = self.by_point.values().any(|mount| mount.running.is_some());
        for (point, mount) in self.by_point {
            let origin = mount.origin();
            facts.put_of("mount", &point, "fstype", mount.fstype.as_str(), &origin);
            facts.put_of("mount", &point, "source", mount.source.as_str(), &origin);
            if let Some(server) = server(&mount.source).filter(|_| is_nfs(&mount.fstype) || mount.fstype.is_empty()) {
                facts.put_of("mount", &point, "server", server, &origin);
                let count = exports.get(&mount.source).copied().unwrap_or(1);
                facts.put_of("mount", &point, "same_export_count", count, &origin);
            }
            // nfsstat lists only NFS mounts.
            if reads_nfs && (self.unread_table.is_none() || is_nfs(&mount.fstype)) {
                facts.put_of("mount", &point, "mounted", mount.running.is_some(), &origin);
            }
            if let Some(reason) = self.unread_fstab.as_ref().filter(|_| mount.persistent.is_none()) {
                for name in ["fstab_options", "fstab_source"] {
                    facts.put_unknown_of("mount", &point, name, reason);
                }
            }
            if let Some(reason) = self.unread_maps.as_ref().filter(|_| mount.by_program.is_none()) {
                facts.put_unknown_of("mount", &point, "mounted_by", reason);
            }
            if let Some((options, origin)) = &mount.persistent {
                facts.put_of("mount", &point, "fstab_options", list(options), origin);
                facts.put_of("mount", &point, "fstab_source", mount.fstab_source.as_str(), origin);
                if options.iter().any(|option| option == "bg") {
                    facts.put_of("mount", &point, "bg", true, origin);
                }
            }
            if let Some((_, origin, by)) = &mount.by_program {
                facts.put_of("mount", &point, "mounted_by", *by, origin);
            }
            let partly = self.unread_table.as_deref().filter(|_| !mount.in_table && rules.family != Family::Linux);
            mount.put_options(&point, rules, partly, facts);
        }
    }

    /// The number of mounts of each export.
    fn exports(&self) -> BTreeMap<String, i64> {
        let mut exports = BTreeMap::new();
        for mount in self.by_point.values().filter(|mount| mount.source.contains(':')) {
            *exports.entry(mount.source.clone()).or_insert(0) += 1;
        }
        exports
    }
}

impl Mount {
    /// The origin of its options: in force, of a unit or map, or in the table of file systems.
    fn origin(&self) -> String {
        let by_program = self.by_program.as_ref().map(|(_, origin, _)| origin);
        let running = self.running.as_ref().map(|(_, origin)| origin);
        let persistent = self.persistent.as_ref().map(|(_, origin)| origin);
        running.or(by_program).or(persistent).cloned().unwrap_or_default()
    }

    /// Notes the options in force. A mount that is not mounted now gets the options that it would
    /// be mounted with; systemd prefers a unit to the table.
    ///
    /// `partly` says why options in force may be missing.
    fn put_options(self, point: &str, rules: &Rules<'_>, partly: Option<&str>, facts: &mut Facts) {
        let origin = self.origin();
        if let Some((options, _)) = self.running {
            facts.put_of("mount", point, "options", list(&options), &origin);
            attributes(point, &self.fstype, &options, rules.family, &origin, facts);
            if let Some(reason) = partly {
                // Numbers and words are known only if they were listed.
                let is_listed = |facts: &Facts, name: &str| {
                    let value = facts.value_of("mount", point, name);
                    let has_value = value.is_some_and(|value| !matches!(value, Value::Bool(_) | Value::List(_)));
                    has_value || options.iter().any(|option| order::slot(option) == order::slot(name))
                };
                leave_open(point, is_listed, reason, facts);
            }
            return;
        }
        let Some(own) = self.by_program.map(|(options, ..)| options).or(self.persistent.map(|(options, _)| options)) else {
            return;
        };
        if !is_nfs(&self.fstype) || rules.family != Family::Linux {
            let options = order::first_of_each(&own);
            facts.put_of("mount", point, "options", list(&options), &origin);
            return attributes(point, &self.fstype, &options, rules.family, &origin, facts);
        }
        let mut options = order::last_of_each(&(rules.complete)(point, server(&self.source).unwrap_or_default(), &own));
        if rules.negotiates {
            negotiate(&mut options, &self.fstype);
        }
        facts.put_of("mount", point, "options", list(&options), &origin);
        attributes(point, &self.fstype, &options, rules.family, &origin, facts);
        if let Some(reason) = rules.unread {
            let is_own = |_: &Facts, name: &str| own.iter().any(|option| option.contains('=') && order::slot(option) == name);
            leave_open(point, is_own, reason, facts);
        }
    }
}

/// Without a minor version, mount.nfs tries 4.2 first (nfs(5)).
fn negotiate(options: &mut Vec<String>, fstype: &str) {
    let has = |slot: &str| options.iter().any(|option| order::slot(option) == slot);
    if has("minorversion") {
        return;
    }
    if fstype == "nfs4" && !has("vers") {
        options.push("vers=4.2".to_owned());
    }
    for option in options.iter_mut().filter(|option| matches!(option.as_str(), "vers=4" | "nfsvers=4" | "v4")) {
        "vers=4.2".clone_into(option);
    }
}

/// Makes options unknown that a text which was not read may add or undo. Options for which
/// `is_given` is true stay.
fn leave_open(point: &str, is_given: impl Fn(&Facts, &str) -> bool, reason: &str, facts: &mut Facts) {
    let switches = SWITCHES.iter().map(|(name, _)| *name).chain(["hard", "intr", "suid", "options"]);
    let values = NUMBERS.iter().copied().chain(["vers", "proto", "sec", "local_lock"]);
    let open: Vec<&str> = switches.chain(values).filter(|name| !is_given(facts, name)).collect();
    open.into_iter().for_each(|name| facts.put_unknown_of("mount", point, name, reason));
}

fn fill(place: &mut String, text: &str) {
    if place.is_empty() {
        text.clone_into(place);
    }
}

fn merge(there: &mut Vec<String>, options: impl IntoIterator<Item = String>) {
    for option in options {
        let key = option.split('=').next().unwrap_or_default();
        // Some tables list the server's name in place of its address.
        if let Some(address) = option.strip_prefix("addr=").filter(|address| address.parse::<IpAddr>().is_ok())
            && let Some(named) = there.iter_mut().find(|other| other.strip_prefix("addr=").is_some_and(|name| name != address))
            && named["addr=".len()..].parse::<IpAddr>().is_err()
        {
            named.clone_from(&option);
            continue;
        }
        let known = there.iter().any(|other| other.split('=').next() == Some(key));
        if !known && !option.is_empty() {
            there.push(option);
        }
    }
}

fn list(options: &[String]) -> Value {
    Value::List(options.iter().map(|option| Value::Text(option.clone())).collect())
}

/// The server in `host:/path` or `[address]:/path`.
pub(super) fn server(source: &str) -> Option<&str> {
    if let Some(rest) = source.strip_prefix('[') {
        return rest.split_once("]:").map(|(host, _)| host);
    }
    let (host, path) = source.split_once(":/")?;
    (!host.is_empty() && !host.contains('/') && !path.is_empty()).then_some(host)
}

/// Notes the attributes that follow from options.
fn attributes(point: &str, fstype: &str, options: &[String], family: Family, origin: &str, facts: &mut Facts) {
    let nfs = is_nfs(fstype);
    let has = |name: &str| options.iter().any(|option| option == name);
    let of = |name: &str| {
        options.iter().find_map(|option| option.split_once('=').filter(|(key, _)| *key == name).map(|(_, value)| value))
    };
    for name in NUMBERS {
        if let Some(number) = of(name).and_then(integer) {
            facts.put_of("mount", point, name, number, origin);
        }
    }
    for (name, families) in SWITCHES {
        if has(name) || (nfs && families.contains(&family)) {
            facts.put_of("mount", point, name, has(name), origin);
        }
    }
    facts.put_of("mount", point, "suid", !has("nosuid"), origin);
    if let Some(lock) = of("local_lock") {
        facts.put_of("mount", point, "local_lock", lock, origin);
    }
    for (key, name) in [("addr", "server_address"), ("sec", "sec"), ("mincache", "mincache"), ("convosync", "convosync")] {
        if let Some(value) = of(key) {
            facts.put_of("mount", point, name, value, origin);
        }
    }
    if !nfs {
        return;
    }
    facts.put_of("mount", point, "hard", !(has("soft") || has("softerr")), origin);
    // Linux and AIX list `intr` if it is set. The other systems interrupt unless `nointr` is set.
    let intr = if matches!(family, Family::Linux | Family::Aix) { has("intr") } else { !has("nointr") };
    facts.put_of("mount", point, "intr", intr, origin);
    let limits: Vec<Option<i64>> = NUMBERS[7..11].iter().map(|name| of(name).and_then(integer)).collect();
    if let [Some(one), rest @ ..] = limits.as_slice()
        && rest.iter().all(|other| *other == Some(*one))
        && of("actimeo").is_none()
    {
        facts.put_of("mount", point, "actimeo", *one, origin);
    }
    if let Some(version) = version(fstype, options, &of) {
        // Rules of AIX compare a number. All others compare a text, since 4.1 is not a whole
        // number.
        let number = integer(&version).filter(|_| family == Family::Aix);
        facts.put_of("mount", point, "vers", number.map_or(Value::Text(version), Value::Int), origin);
    }
    let proto = of("proto").or_else(|| ["tcp", "udp", "rdma"].into_iter().find(|proto| has(proto)));
    if let Some(proto) = proto {
        facts.put_of("mount", point, "proto", proto, origin);
    }
}

/// The version of the NFS protocol: `3`, `4.1`.
fn version<'a>(fstype: &str, options: &[String], of: &impl Fn(&str) -> Option<&'a str>) -> Option<String> {
    let plain = of("vers").or_else(|| of("nfsvers")).map(str::to_owned);
    let minor = of("minorversion");
    let short = options.iter().find_map(|option| option.strip_prefix('v').filter(|rest| rest.starts_with(['2', '3', '4'])));
    let long = options.iter().find_map(|option| option.strip_prefix("NFSv"));
    let version = plain
        .or_else(|| short.or(long).map(str::to_owned))
        .or_else(|| fstype.strip_prefix("nfs").filter(|rest| !rest.is_empty()).map(str::to_owned))?;
    Some(match minor {
        Some(minor) if version == "4" => format!("4.{minor}"),
        _ => version,
    })
}

/// Splits options at commas.
pub(super) fn split(options: &str) -> Vec<String> {
    options.split(',').map(str::trim).filter(|option| !option.is_empty() && *option != "-").map(str::to_owned).collect()
}
