//! Facts of Linux hosts: identity, kernel settings now and after a boot, modules, limits, services,
//! packages.

mod autofs;
mod block;
mod drop_ins;
mod identity;
mod modules;
mod multipath;
pub(super) mod net;
mod nfsmount;
mod scsi;
mod software;
mod sysctl;
mod user_limits;

use host::mount_table::is_nfs;

use super::collected::Collected;
use super::family::Family;
use super::mounts::{self, Mounts, Rules, Table};
use super::text::{bracketed, integer, lines, odd, pair, telling, unquoted, value, words};
use crate::facts::{Facts, Value};
use drop_ins::{Part, parts};
use nfsmount::NfsMountConf;

pub(crate) use sysctl::other_of_pair;

/// All facts of a Linux host.
pub(super) fn facts(collected: &Collected, facts: &mut Facts) {
    identity::facts(collected, facts);
    sysctl::facts(collected, facts);
    modules::facts(collected, facts);
    user_limits::facts(collected, facts);
    software::facts(collected, facts);
    other_settings(collected, facts);
    let mut found = Mounts::default();
    mount_sources(collected, &mut found, facts);
    const TABLES: &[Table<'_>] = &[
        Table::File("/proc/self/mountinfo"),
        Table::File("/proc/1/mountinfo"),
        Table::File("/proc/mounts"),
        Table::File("/proc/self/mounts"),
        Table::File("/etc/mtab"),
        Table::Command("mount"),
    ];
    found.note_unread(TABLES, "/etc/fstab", collected);
    if found.is_empty() {
        facts.put_unknown("mount", &collected.why("/proc/self/mountinfo"));
    }
    autofs::mounts(collected, &mut found, facts);
    units(collected, &mut found);
    let conf = NfsMountConf::read(collected);
    let complete = |point: &str, server: &str, own: &[String]| conf.with(point, server, own);
    let rules =
        Rules { family: Family::Linux, complete: &complete, unread: conf.unread.as_deref(), negotiates: is_modern(collected) };
    found.put_by(&rules, facts);
    mountstats(collected, facts);
    net::facts(collected, facts);
    block::facts(collected, facts);
    scsi::facts(collected, facts);
    multipath::facts(collected, facts);
}

/// Whether systemd manages the system. Systems older than systemd have no `os-release`.
pub(super) fn has_systemd(collected: &Collected) -> bool {
    const OTHERS: &[&str] = &["alpine", "artix", "devuan", "gentoo", "slackware", "void"];
    let release = ["/etc/os-release", "/usr/lib/os-release"].iter().find_map(|path| collected.file(path));
    let Some(release) = release else { return collected.outputs("systemctl").next().is_some() };
    let id = telling(release, &['#']).filter_map(|(_, line)| pair(line, '=')).find(|(key, _)| *key == "ID");
    !id.is_some_and(|(_, id)| OTHERS.contains(&unquoted(id)))
}

/// Whether the system has systemd's or kmod's generation of tools: it has an `os-release`, or
/// `systemctl` answers.
fn is_modern(collected: &Collected) -> bool {
    let has_release = ["/etc/os-release", "/usr/lib/os-release"].iter().any(|path| collected.file(path).is_some());
    has_release || collected.outputs("systemctl").next().is_some()
}

fn other_settings(collected: &Collected, facts: &mut Facts) {
    for name in ["enabled", "defrag"] {
        let path = format!("/sys/kernel/mm/transparent_hugepage/{name}");
        match collected.file(&path) {
            Some(text) => facts.put(&format!("thp.{name}"), bracketed(text), &path),
            None => facts.put_unknown(&format!("thp.{name}"), &collected.why(&path)),
        }
    }
    if let Some(text) = collected.file("/etc/tuned/active_profile") {
        facts.put("tuned.profile", text.trim(), "/etc/tuned/active_profile");
    }
    for (_, output) in collected.outputs("tuned-adm active") {
        if let Some((_, profile)) = output.text.split_once("profile:") {
            facts.put("tuned.profile", profile.trim(), &output.line);
        }
    }
    if let Some(text) = collected.file("/etc/sysconfig/oracleasm") {
        for (number, line) in telling(text, &['#']) {
            match pair(line, '=') {
                Some((key, value)) => {
                    facts.put(&format!("oracleasm.{key}"), unquoted(value), &format!("/etc/sysconfig/oracleasm:{number}"))
                }
                None => odd(facts, "/etc/sysconfig/oracleasm", number, line),
            }
        }
    }
    if let Some(text) = collected.file("/etc/init.d/netfs") {
        // `sysctl_first` means that the script runs `sysctl -p` before it mounts anything.
        let loads = lines(text).position(|(_, line)| line.contains("sysctl -p") && !line.trim_start().starts_with('#'));
        let mounts = lines(text).position(|(_, line)| line.contains("mount -a"));
        let first = loads.is_some_and(|load| mounts.is_none_or(|mount| load < mount));
        facts.put("initscript.netfs.sysctl_first", first, "/etc/init.d/netfs");
    }
    for path in ["/home/oracle/.bash_profile", "/root/.bash_profile"] {
        for (number, line) in collected.file(path).into_iter().flat_map(|text| telling(text, &['#'])) {
            let mut line = words(line).skip_while(|word| *word != "ulimit").skip(1);
            if let (Some(flag), Some(amount)) = (line.next(), line.next())
                && path.contains("oracle")
            {
                let item = match flag {
                    "-n" => "nofile",
                    "-u" => "nproc",
                    "-s" => "stack",
                    "-l" => "memlock",
                    flag => flag.trim_start_matches('-'),
                };
                let name = format!("ulimit.oracle.{item}");
                facts.put(
                    &name,
                    if amount == "unlimited" { Value::Int(i64::MAX) } else { value(amount) },
                    &format!("{path}:{number}"),
                );
            }
        }
    }
}

fn mount_sources(collected: &Collected, found: &mut Mounts, facts: &mut Facts) {
    for path in ["/proc/self/mountinfo", "/proc/1/mountinfo"] {
        if let Some(text) = collected.file(path) {
            mounts::mountinfo(text, path, found, facts);
            break;
        }
    }
    for path in ["/proc/mounts", "/proc/self/mounts", "/etc/mtab"] {
        if let Some(text) = collected.file(path).filter(|_| found.is_empty()) {
            mounts::mount_table(text, path, found, facts);
        }
    }
    for (_, output) in collected.outputs("nfsstat -m") {
        mounts::nfsstat(&output.text, &output.line, found);
    }
    let mut given = Mounts::default();
    for (_, output) in collected.outputs("mount") {
        mounts::mount_command(&output.text, &output.line, &mut given, facts);
    }
    if found.is_empty() {
        *found = given;
    } else {
        found.add_given(given);
    }
    if let Some(text) = collected.file("/etc/fstab") {
        mounts::fstab(text, "/etc/fstab", found, facts);
    }
}

/// Adds mount units of NFS. The files in `NAME.mount.d` change a unit, and the last line of a key
/// takes effect.
fn units(collected: &Collected, found: &mut Mounts) {
    const FOLDERS: &[&str] = &[
        "/etc/systemd/system/",
        "/run/systemd/system/",
        "/usr/local/lib/systemd/system/",
        "/usr/lib/systemd/system/",
        "/lib/systemd/system/",
    ];
    for part in parts(collected, FOLDERS, &[".mount"]) {
        let Part::Read(path, text) = part else { continue };
        let name = path.rsplit('/').next().unwrap_or(path);
        let folders: Vec<String> = FOLDERS.iter().map(|folder| format!("{folder}{name}.d/")).collect();
        let folders: Vec<&str> = folders.iter().map(String::as_str).collect();
        let changes = folders.iter().flat_map(|folder| collected.files_under(folder)).filter(|(path, _)| path.ends_with(".conf"));
        let mut changes: Vec<(&str, &str)> = changes.collect();
        changes.sort_by_key(|(path, _)| path.rsplit('/').next());
        let texts = std::iter::once(text).chain(changes.iter().map(|(_, text)| *text));
        let pairs: Vec<(&str, &str)> =
            texts.flat_map(|text| telling(text, &['#', ';'])).filter_map(|(_, line)| pair(line, '=')).collect();
        let of = |key: &str| pairs.iter().rev().find(|(known, _)| *known == key).map(|(_, said)| *said);
        let (Some(source), Some(point)) = (of("What"), of("Where")) else { continue };
        let fstype = of("Type").unwrap_or(if mounts::server(source).is_some() { "nfs" } else { "" });
        if is_nfs(fstype) {
            found.by_program(point, source, fstype, mounts::split(of("Options").unwrap_or_default()), path, "unit");
        }
    }
}

/// `/proc/self/mountstats`: the transports of each NFS mount.
fn mountstats(collected: &Collected, facts: &mut Facts) {
    const PATH: &str = "/proc/self/mountstats";
    let mut point = None;
    let (mut transports, mut slots) = (0_i64, 0_i64);
    let end = [(0, "device end mounted on end with fstype end")];
    for (_, line) in collected.file(PATH).into_iter().flat_map(lines).chain(end) {
        if let Some(rest) = line.strip_prefix("device ") {
            if let Some(point) = point.take().filter(|_| transports > 0) {
                facts.put_of("mount", point, "transports", transports, PATH);
                if slots > 0 {
                    facts.put_of("mount", point, "slots_used_max", slots, PATH);
                }
            }
            (transports, slots) = (0, 0);
            let mount = rest.split_once(" mounted on ").and_then(|(_, rest)| rest.split_once(" with fstype "));
            let is_of_nfs = |kind: &str| words(kind).next().is_some_and(is_nfs);
            point = mount.filter(|(_, kind)| is_of_nfs(kind)).map(|(point, _)| point);
        } else if let Some(rest) = line.trim_start().strip_prefix("xprt:") {
            transports += 1;
            // xprt: tcp, then ten counters, then the largest number of slots in use at the same
            // time (net/sunrpc/xprtsock.c).
            slots = slots.max(words(rest).nth(11).and_then(integer).unwrap_or(0));
        }
    }
}
