//! Mount options: only known ones are kept. Tables of file systems, `mount`, `nfsstat -m`, mount
//! units and maps of autofs all separate them by commas.

use super::state::REDACTED;

/// Options without a value.
pub(super) const FLAGS: &[&str] = &[
    "NFSv2",
    "NFSv3",
    "NFSv4",
    "_netdev",
    "ac",
    "acl",
    "async",
    "atime",
    "auto",
    "bg",
    "bind",
    "cio",
    "convosync",
    "cto",
    "defaults",
    "delaylog",
    "dev",
    "devices",
    "dio",
    "diratime",
    "dirsync",
    "discard",
    "exec",
    "fg",
    "forcedirectio",
    "fsc",
    "group",
    "grpid",
    "hard",
    "intr",
    "largefiles",
    "lazytime",
    "llock",
    "lock",
    "logging",
    "migration",
    "nbmand",
    "noac",
    "noacl",
    "noatime",
    "noauto",
    "nobarrier",
    "nocto",
    "nodev",
    "nodevices",
    "nodiratime",
    "noexec",
    "nofail",
    "noforcedirectio",
    "nofsc",
    "nogrpid",
    "nointr",
    "nolargefiles",
    "nollock",
    "nolock",
    "nologging",
    "nonbmand",
    "noposix",
    "noquota",
    "nordirplus",
    "norelatime",
    "noresvport",
    "norootcontext",
    "nosetuid",
    "nosharecache",
    "nosub",
    "nosuid",
    "notrunkdiscovery",
    "nouser",
    "noxattr",
    "owner",
    "posix",
    "private",
    "public",
    "quota",
    "rbind",
    "rbr",
    "rbw",
    "rbrw",
    "rdirplus",
    "rdma",
    "rdma6",
    "read",
    "relatime",
    "remote",
    "remount",
    "resvport",
    "ro",
    "rq",
    "rw",
    "setuid",
    "sharecache",
    "shared",
    "slave",
    "soft",
    "softerr",
    "softreval",
    "nosoftreval",
    "strictatime",
    "suid",
    "sync",
    "tcp",
    "tcp6",
    "trunkdiscovery",
    "udp",
    "udp6",
    "user",
    "users",
    "v2",
    "v3",
    "v4",
    "v4.0",
    "v4.1",
    "v4.2",
    "write",
    "write/setuid",
    "xattr",
    "link",
    "symlink",
    "printer",
    "vers",
];

/// Options whose value is kept.
pub(super) const KEYS: &[&str] = &[
    "LABEL",
    "PARTLABEL",
    "PARTUUID",
    "UUID",
    "acdirmax",
    "acdirmin",
    "acregmax",
    "acregmin",
    "actimeo",
    "addr",
    "barrier",
    "biods",
    "bsize",
    "clientaddr",
    "commit",
    "convosync",
    "data",
    "dev",
    "errors",
    "flags",
    "fstype",
    "local_lock",
    "lookupcache",
    "max_connect",
    "maxgroups",
    "mincache",
    "minorversion",
    "mountaddr",
    "mountport",
    "mountproto",
    "mountvers",
    "namlen",
    "nconnect",
    "nfsvers",
    "numclust",
    "port",
    "proto",
    "retrans",
    "retry",
    "rsize",
    "sec",
    "timeo",
    "timeout",
    "vers",
    "version",
    "write",
    "wsize",
    "xprtsec",
    "statvers",
    "bg",
    "fg",
    "intr",
    "nointr",
    "hard",
    "soft",
    "ac",
    "noac",
    "sync",
    "dirsync",
    "acl",
    "lock",
    "cto",
    "rdirplus",
    "sharecache",
    "resvport",
    "posix",
    "fsc",
    "defaultproto",
    "defaultvers",
    "background",
    "foreground",
    "softerr",
    "softreval",
    "trunkdiscovery",
    "log",
];

/// A line with only known options and without its comment.
pub(super) fn line(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    for piece in line.split_inclusive([' ', '\t']) {
        let word = piece.trim_end_matches([' ', '\t']);
        if word.starts_with('#') {
            break;
        }
        out.push_str(&self::word(word));
        out.push_str(&piece[word.len()..]);
    }
    out
}

/// One word: a source, a mount point, or a list of options.
fn word(word: &str) -> String {
    let is_login = word.contains("://") || word.contains('@') || word.contains('%') && !word.starts_with('[');
    // A path is kept. `//server/share` is a source and is kept too.
    if word.starts_with('/') && !is_login {
        return word.to_owned();
    }
    let is_list = word.contains(',') || word.trim_matches('=').contains('=');
    if !is_list {
        return if is_login { REDACTED.to_owned() } else { word.to_owned() };
    }
    // Solaris prints `remote/read/write/vers=3`.
    let is_slashed = !word.contains(',') && word.split('=').next().is_some_and(|key| key.contains('/'));
    let mark = if is_slashed { '/' } else { ',' };
    let kept: Vec<String> = word.split(mark).map(option).collect();
    kept.join(if is_slashed { "/" } else { "," })
}

fn option(option: &str) -> String {
    // Characters around an option or a list: `(rw,nosuid)`, `"rw,bg"`, `-soft,vers=3`.
    let inner = option.trim_matches(['(', ')', '"', '\'', '-', ';', '*']);
    match inner.split_once('=') {
        None if inner.is_empty() || FLAGS.contains(&inner) || inner.starts_with("x-systemd.") => option.to_owned(),
        None => REDACTED.to_owned(),
        Some((key, value)) if (KEYS.contains(&key) || key.starts_with("x-systemd.")) && is_plain(value) => option.to_owned(),
        Some((key, _)) => format!("{key}={REDACTED}"),
    }
}

/// Whether a value consists only of characters of names, addresses and numbers.
pub(super) fn is_plain(value: &str) -> bool {
    value.chars().all(|letter| letter.is_ascii_alphanumeric() || "_.:/+-[]\"".contains(letter))
}

/// Whether the value of a key of `nfsmount.conf` may be kept. The keys are mount options in lower
/// or upper case.
pub(super) fn is_known_key(key: &str) -> bool {
    KEYS.iter().chain(FLAGS).any(|known| known.eq_ignore_ascii_case(key))
}
