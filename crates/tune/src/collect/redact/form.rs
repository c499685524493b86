//! Decides the form of a text by its file or its command.

use super::settings::{self, Style, is_amount, keeps_mysql, keeps_oracle, keeps_postgres, keeps_sysctl};
use super::state::{REDACTED, State};
use super::{keys, options};
use crate::collect::command_line::rest_after;

/// The form of a text.
pub(super) enum Form {
    /// Text of the kernel or of a tool that prints no configuration.
    Plain,
    /// Lines with a key and a value.
    Settings(&'static Style),
    /// Tables of mounts and maps of autofs.
    Mounts,
    /// JSON that SET PERSIST of MySQL wrote.
    Persisted,
    /// A table of settings as a database client prints it.
    Table,
    /// The files of `sysctl.d` as systemd-analyze prints them, each after a comment with its path.
    Printed,
    /// The value of one kernel parameter. Its path is the parameter's name.
    Parameter(String),
    /// The kernel's command line.
    CommandLine,
    /// `modprobe.conf`.
    Modprobe,
    /// `multipath.conf`.
    Multipath,
    /// `oranfstab`.
    Oranfstab,
    /// Addresses, names, and comments.
    Hosts,
    /// Up to four columns. Comments begin with one of these characters.
    Columns(&'static [char]),
    /// Only lines with one of these words. The word and the words after it are kept, as many as the
    /// number says.
    Only(&'static [&'static str], usize),
    /// Names of interfaces and their MTU in YAML.
    Netplan,
    /// A mount unit.
    Unit,
    /// A list of processes.
    Processes,
    /// Nothing is kept: the text is a program that prints a map.
    Nothing,
}

static ISCSI: Style = Style { comments: &['#', ';'], marks: &['=', ':'], by_blank: false, hash_ends: true, keeps: keeps_iscsi };
static SYSCTL: Style = Style { comments: &['#', ';'], marks: &['='], by_blank: false, hash_ends: false, keeps: keeps_sysctl };
static POSTGRES: Style = Style { comments: &['#'], marks: &['='], by_blank: true, hash_ends: true, keeps: keeps_postgres };
static MYSQL: Style = Style { comments: &['#', ';'], marks: &['='], by_blank: false, hash_ends: true, keeps: keeps_mysql };
static ORACLE: Style = Style { comments: &['#'], marks: &['='], by_blank: false, hash_ends: true, keeps: keeps_oracle };
static NETWORK: Style = Style { comments: &['#', ';'], marks: &['='], by_blank: false, hash_ends: false, keeps: keeps_network };
static NFSMOUNT: Style = Style { comments: &['#', ';'], marks: &['='], by_blank: false, hash_ends: false, keeps: keeps_nfsmount };
static SHELL: Style = Style { comments: &['#'], marks: &['='], by_blank: false, hash_ends: true, keeps: keeps_shell };

impl Form {
    pub(super) fn of(origin: &str, text: &str) -> Self {
        if origin.starts_with('/') { Self::of_file(origin, text) } else { Self::of_command(origin) }
    }

    fn of_file(path: &str, text: &str) -> Self {
        let name = path.rsplit('/').next().unwrap_or(path);
        if let Some(parameter) = path.strip_prefix("/proc/sys/") {
            return Self::Parameter(parameter.to_owned());
        }
        match name {
            "oranfstab" => return Self::Oranfstab,
            "my.cnf" => return Self::Settings(&MYSQL),
            "cmdline" if path.starts_with("/proc/") => return Self::CommandLine,
            "mounts" | "mountinfo" | "mountstats" if path.starts_with("/proc/") => return Self::Mounts,
            _ => {}
        }
        let is_of = |begins: &[&str]| begins.iter().any(|begin| path.starts_with(begin));
        if is_of(&["/proc/", "/sys/"]) {
            return Self::Plain;
        }
        let is_oracle =
            (name.starts_with("init") || name.starts_with("spfile")) && name.ends_with(".ora") || name == "spfile.txt";
        let is_table =
            ["pg_settings", "variables.txt", "parameters.txt", "v_parameter"].iter().any(|begin| name.starts_with(begin));
        match name {
            _ if is_oracle => return Self::Settings(&ORACLE),
            _ if is_table => return Self::Table,
            "mysqld-auto.cnf" => return Self::Persisted,
            _ if name.ends_with(".cnf") => return Self::Settings(&MYSQL),
            _ if path.contains("sysctl") => return Self::Settings(&SYSCTL),
            _ if is_of(&["/etc/postgresql/"]) || name.starts_with("postgresql.") => return Self::Settings(&POSTGRES),
            _ => {}
        }
        Self::of_folder(path, text)
    }

    fn of_folder(path: &str, text: &str) -> Self {
        let is_of = |begins: &[&str]| begins.iter().any(|begin| path.starts_with(begin));
        match path {
            _ if is_of(&["/etc/auto"]) && text.starts_with("#!") => Self::Nothing,
            _ if is_of(&["/etc/auto", "/etc/fstab", "/etc/vfstab", "/etc/mnttab", "/etc/mtab", "/etc/filesystems"]) => {
                Self::Mounts
            }
            _ if path.ends_with(".mount") || path.ends_with(".automount") => Self::Unit,
            _ if is_of(&["/etc/nfsmount.conf"]) => Self::Settings(&NFSMOUNT),
            _ if path.contains("/modprobe") => Self::Modprobe,
            _ if is_of(&["/etc/multipath"]) => Self::Multipath,
            _ if is_of(&["/etc/iscsi"]) => Self::Settings(&ISCSI),
            _ if is_of(&["/etc/hosts"]) && path == "/etc/hosts" => Self::Hosts,
            "/etc/security/limits" => Self::Columns(&['#', '*']),
            _ if is_of(&["/etc/security/limits"]) => Self::Columns(&['#']),
            _ if is_of(&["/etc/pam.d/"]) => Self::Only(&["pam_limits.so"], 1),
            _ if is_of(&["/etc/network/"]) => Self::Only(&["iface ", "mtu "], 2),
            _ if is_of(&["/etc/netplan/"]) => Self::Netplan,
            _ if is_of(&["/etc/NetworkManager/", "/etc/systemd/network/", "/etc/sysconfig/network"]) => Self::Settings(&NETWORK),
            _ if is_of(&["/etc/rc.config.d/", "/etc/sysconfig/"]) => Self::Settings(&SHELL),
            _ if path.ends_with("/netfs") => Self::Only(&["sysctl -p", "mount -a"], 2),
            _ if is_of(&["/etc/rc", "/etc/init.d/"]) => Self::Only(&["ndd -set"], 5),
            // Any file may be included by a configuration of PostgreSQL, except those in folders of
            // Solaris drivers.
            _ if path.ends_with(".conf") && !is_of(&["/platform/", "/kernel/", "/etc/driver/"]) => Self::Settings(&POSTGRES),
            _ if path.ends_with("/.bash_profile") => Self::Only(&["ulimit"], 3),
            _ => Self::Plain,
        }
    }

    fn of_command(line: &str) -> Self {
        let is = |begin: &str| rest_after(line, begin).is_some();
        let lower = line.to_ascii_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
        if is("systemd-analyze") {
            Self::Printed
        } else if is("sysctl") {
            Self::Settings(&SYSCTL)
        } else if is("modprobe") {
            Self::Modprobe
        } else if rest_after(line, "multipath").is_some_and(|rest| !rest.contains('l')) {
            Self::Multipath
        } else if is("nfsconf") {
            Self::Settings(&NFSMOUNT)
        } else if is("mount") || is("nfsstat") {
            Self::Mounts
        } else if is("iscsiadm") {
            Self::Settings(&ISCSI)
        } else if is("ps") {
            Self::Processes
        } else if ["postgres", "mariadbd", "mysqld"].into_iter().any(is)
            || has(&["pg_settings", "pg-settings", "parameter", "variables"]) && !has(&["ndd"])
        {
            Self::Table
        } else {
            Self::Plain
        }
    }

    /// One line without its secrets.
    pub(super) fn line(&self, line: &str, state: &mut State) -> String {
        match self {
            Self::Plain => line.to_owned(),
            Self::Settings(style) => self.settings(line, style, state),
            Self::Printed if line.strip_prefix("# ").is_some_and(|path| path.starts_with('/') && options::is_plain(path)) => {
                line.to_owned()
            }
            Self::Printed => settings::line(line, &SYSCTL),
            Self::Mounts if line.trim_start().starts_with('#') => "#".to_owned(),
            Self::Mounts => options::line(line),
            Self::Table => settings::row(line, state),
            Self::Parameter(path) => {
                if keeps_sysctl(path, line.trim()) {
                    line.to_owned()
                } else {
                    REDACTED.to_owned()
                }
            }
            Self::CommandLine => line.split(' ').map(boot_word).collect::<Vec<_>>().join(" "),
            Self::Modprobe => modprobe(line, state),
            Self::Multipath => multipath(line),
            Self::Oranfstab => oranfstab(line),
            Self::Hosts => line.split('#').next().unwrap_or_default().trim_end().to_owned(),
            Self::Columns(marks) if line.trim_start().starts_with(*marks) => String::new(),
            Self::Columns(_) if line.split('#').next().unwrap_or(line).split_whitespace().count() > 4 => REDACTED.to_owned(),
            Self::Columns(_) => without_hash(line),
            Self::Only(words, count) => only(line, words, *count),
            Self::Netplan => netplan(line),
            Self::Unit => unit(line),
            Self::Processes => process(line),
            Self::Persisted | Self::Nothing => String::new(),
        }
    }

    fn settings(&self, line: &str, style: &'static Style, state: &mut State) -> String {
        // In `init.ora`, an indented line without `=` and a line after a comma continue a value.
        let is_oracle = std::ptr::eq(style, &ORACLE);
        let continues = state.is_continued || line.starts_with([' ', '\t']) && !line.contains('=');
        state.is_continued = is_oracle && line.trim_end().ends_with([',', '\\']);
        if is_oracle && continues && !line.trim_start().starts_with('#') {
            return if state.goes { REDACTED.to_owned() } else { without_hash(line) };
        }
        let kept = settings::line(line, style);
        state.goes = kept.contains(REDACTED);
        kept
    }
}

fn without_hash(line: &str) -> String {
    line.split('#').next().unwrap_or_default().trim_end().to_owned()
}

fn keeps_iscsi(key: &str, _: &str) -> bool {
    keys::ISCSI.iter().any(|known| {
        key.starts_with(known)
            && (key.len() == known.len() || known.ends_with(['.', ' ']) || *known == "scsi" || *known == "Attached scsi disk")
    })
}

fn keeps_network(key: &str, value: &str) -> bool {
    keys::NETWORK.contains(&key) && options::is_plain(value)
}

fn keeps_nfsmount(key: &str, value: &str) -> bool {
    options::is_known_key(key) && options::is_plain(value)
}

fn keeps_shell(key: &str, value: &str) -> bool {
    let name = key.split('[').next().unwrap_or(key);
    is_amount(name, value) || keys::SHELL.contains(&name) || name.starts_with("HP_") && options::is_plain(value)
}

/// A word of the kernel's command line without its secret.
fn boot_word(word: &str) -> String {
    let Some((key, value)) = word.split_once('=') else {
        let is_known = word.is_empty() || word.starts_with('[') || keys::CMDLINE_FLAGS.contains(&word);
        return if is_known { word.to_owned() } else { REDACTED.to_owned() };
    };
    let is_known = keys::CMDLINE.contains(&key) && options::is_plain(value);
    if is_known || is_amount(key, value) { word.to_owned() } else { format!("{key}={REDACTED}") }
}

/// A line `options MODULE NAME=VALUE…`. Of other directives only the first word stays.
fn modprobe(line: &str, state: &mut State) -> String {
    let is_continued = std::mem::replace(&mut state.is_continued, line.ends_with('\\'));
    if line.starts_with('#') && !is_continued {
        // A comment may be continued on the next line too.
        state.goes = true;
        return if state.is_continued { "#\\".to_owned() } else { "#".to_owned() };
    }
    let mut words = line.split([' ', '\t']).filter(|word| !word.is_empty());
    let mut kept: Vec<String> = Vec::new();
    if !is_continued {
        let (directive, module) = (words.next().unwrap_or_default(), words.next());
        state.goes = directive != "options";
        kept.extend([Some(directive), module].into_iter().flatten().map(str::to_owned));
    }
    if state.goes {
        kept.truncate(if is_continued { 0 } else { 1 });
        kept.extend(state.is_continued.then(|| "\\".to_owned()));
        return kept.join(" ");
    }
    for word in words {
        let (bare, end) = word.strip_suffix('\\').map_or((word, ""), |bare| (bare, "\\"));
        kept.push(match bare.split_once('=') {
            Some((key, value)) if !is_amount(key, value) => format!("{key}={REDACTED}{end}"),
            _ => word.to_owned(),
        });
    }
    let begin = if line.starts_with([' ', '\t']) { " " } else { "" };
    format!("{begin}{}", kept.join(" "))
}

/// Keeps braces, names of sections, and known keywords with their values.
fn multipath(line: &str) -> String {
    let trimmed = line.trim();
    if let Some(mark) = trimmed.chars().next().filter(|first| "#!".contains(*first)) {
        return mark.to_string();
    }
    let (key, rest) = trimmed.split_at(trimmed.find([' ', '\t', '{', '"']).unwrap_or(trimmed.len()));
    let value = rest.trim_start();
    let is_section = keys::MULTIPATH_SECTIONS.contains(&key);
    if key.is_empty() || key == "}" || is_section && (value.is_empty() || value.starts_with('{')) {
        let brace = if value.starts_with('{') { " {" } else { "" };
        return format!("{key}{brace}").trim_start().to_owned();
    }
    let said = match value.strip_prefix('"') {
        Some(inner) => inner.find('"').map_or(value, |end| &value[..end + 2]),
        None => value.split([' ', '\t', '#', '!', '{', '}', '"']).next().unwrap_or_default(),
    };
    // multipath ignores the rest of the line, except for a brace, which ends the section in old
    // files.
    let brace = if value[said.len()..].trim_start().starts_with('}') { " }" } else { "" };
    let is_known = keys::MULTIPATH.contains(&key) || is_amount(key, said);
    if is_known || said.is_empty() { format!("\t{key} {said}{brace}") } else { format!("\t{key} \"{REDACTED}\"{brace}") }
}

/// Pairs `key: value`, several of which may be on a line.
fn oranfstab(line: &str) -> String {
    let mut kept = Vec::new();
    let mut rest = line.split('#').next().unwrap_or_default();
    while let Some((key, tail)) = rest.split_once(':') {
        let tail = tail.trim_start();
        let (value, more) = tail.split_at(tail.find([' ', '\t']).unwrap_or(tail.len()));
        let key = key.split_whitespace().next_back().unwrap_or_default();
        let is_known = keys::ORANFSTAB.contains(&key);
        kept.push(format!("{key}: {}", if is_known { value } else { REDACTED }));
        rest = more;
        if !is_known {
            break;
        }
    }
    if kept.is_empty() && line.trim() == "dontroute" { line.to_owned() } else { kept.join(" ") }
}

/// The first of these words in a line and the words after it, `count` words in all.
fn only(line: &str, words: &[&str], count: usize) -> String {
    let trimmed = line.trim();
    if trimmed.starts_with('#') {
        return "#".to_owned();
    }
    // A word that ends with a blank must be at the start of the line.
    let find = |word: &&&str| if word.ends_with(' ') { trimmed.starts_with(**word) } else { trimmed.contains(**word) };
    let Some(word) = words.iter().find(find) else { return String::new() };
    let rest = trimmed.split_once(word.trim_end()).map_or("", |(_, rest)| rest);
    let rest = rest.split([';', '|', '&', '#', '`', '$']).next().unwrap_or(rest);
    let more = rest.split_whitespace().take_while(|word| options::is_plain(word));
    let kept: Vec<&str> = word.split_whitespace().chain(more).take(count).collect();
    kept.join(" ")
}

/// Keeps names such as `eth0:`, and `mtu: 9000`.
fn netplan(line: &str) -> String {
    let trimmed = line.trim();
    let (key, value) = trimmed.split_once(':').unwrap_or_default();
    let is_kept = options::is_plain(key) && (value.trim().is_empty() || key == "mtu" && is_amount(key, value.trim()));
    if is_kept { trimmed.to_owned() } else { String::new() }
}

/// A line of a mount unit without its secrets.
fn unit(line: &str) -> String {
    let trimmed = line.trim();
    let Some((key, value)) = trimmed.split_once('=').map(|(key, value)| (key.trim(), value.trim())) else {
        return if trimmed.starts_with('[') && options::is_plain(trimmed) { trimmed.to_owned() } else { String::new() };
    };
    match key {
        // With a comma before it, a single option is treated as a list.
        "Options" => format!("{key}={}", options::line(&format!(",{value}")).trim_start_matches(',')),
        _ if keys::UNIT.contains(&key) => format!("{key}={}", options::line(value)),
        _ => String::new(),
    }
}

/// For a process of Oracle, the columns up to its program. All other processes are removed, because
/// their arguments may be secrets.
fn process(line: &str) -> String {
    if ["NLWP", "PID"].iter().any(|head| line.contains(head)) {
        return line.to_owned();
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let program = words.iter().position(|word| word.starts_with("ora_"));
    program.map_or_else(String::new, |program| words[..=program].join(" "))
}
