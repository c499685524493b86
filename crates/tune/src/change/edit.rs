//! What one setting changes in the text of a file. Text in, text out; all other bytes of the file
//! stay.

mod fstab;
mod modprobe;
mod multipath;
mod oranfstab;

use std::ops::Range;

use serde::Serialize;

pub(super) use fstab::options_of;

/// The first line of a file that apply creates.
const HEADER: &str = "Written by `millrace tune apply`; `millrace tune revert` reverts it.";

/// The syntax of a file with one setting on each line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Style {
    /// `vm.swappiness = 1`.
    Sysctl,
    /// `options sunrpc tcp_slot_table_entries=128`; the key is `MODULE.KEY`.
    Modprobe,
    /// `oracle soft nofile 1024`.
    Limits,
    /// `ACTION=="add|change", SUBSYSTEM=="block", KERNEL=="sda", ATTR{queue/scheduler}="none"`; the
    /// key is everything before the last `=`.
    Udev,
    /// `node.session.cmds_max = 256`.
    Iscsid,
    /// `wal_buffers = '16MB'`.
    Postgres,
    /// `innodb_flush_method = O_DIRECT` below `[mysqld]`.
    Mysql,
    /// `ORACLEASM_SCANORDER="dm"`.
    Shell,
}

/// One change of the text of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Edit {
    /// Replaces the last line that sets the key, or adds a line if no line sets it.
    Assign {
        /// The syntax of the file.
        style: Style,
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// The rule, for the comment above an added line.
        rule: String,
    },
    /// One option of one mount in fstab. The value `-` removes it.
    MountOption {
        /// The mount point.
        point: String,
        /// The option.
        option: String,
        /// Its value; `None` for an option without a value.
        value: Option<String>,
    },
    /// A value that multipath.conf already sets; `-` removes it. A value is never added, because
    /// multipath's built-in table knows the device.
    MultipathOverride {
        /// The section that sets it.
        section: String,
        /// Vendor and product, if only the blocks of one device are changed.
        #[serde(skip_serializing_if = "Option::is_none")]
        device: Option<(String, String)>,
        /// The key.
        key: String,
        /// Its value.
        value: String,
    },
    /// A line of a server's block in oranfstab.
    Oranfstab {
        /// The server.
        server: String,
        /// The path that the server exports, and its mount point.
        mount: (String, String),
        /// `path`, `local` or another word.
        key: String,
        /// Its value. Several are separated by commas; each gets its own line.
        value: String,
    },
}

impl Edit {
    /// The text after the edit.
    ///
    /// # Errors
    /// A phrase that says why the file cannot be edited.
    pub fn made(&self, text: Option<&str>) -> Result<String, String> {
        match self {
            Self::Assign { style, key, value, rule } => Ok(assign(text, *style, key, value, rule)),
            Self::MountOption { point, option, value } => fstab::changed(text.unwrap_or(""), point, option, value.as_deref()),
            Self::MultipathOverride { section, device, key, value } => {
                multipath::changed(text.unwrap_or(""), section, device.as_ref(), key, value)
            }
            Self::Oranfstab { server, mount, key, value } => {
                Ok(oranfstab::changed(text.unwrap_or(""), server, mount, key, value))
            }
        }
    }

    /// Whether both edits can be made, one after the other, with both still in effect.
    pub(super) fn agrees_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::MountOption { option, value, .. }, Self::MountOption { option: other, value: its, .. }) => {
                let (goes, other_goes) = (value.as_deref() == Some("-"), its.as_deref() == Some("-"));
                if goes != other_goes { option != other } else { goes || (option, value) == (other, its) }
            }
            (Self::Assign { value, .. }, Self::Assign { value: other, .. })
            | (Self::MultipathOverride { value, .. }, Self::MultipathOverride { value: other, .. })
            | (Self::Oranfstab { value, .. }, Self::Oranfstab { value: other, .. }) => value == other,
            _ => false,
        }
    }

    /// What the edit sets, as a key for finding edits that contradict each other.
    pub(super) fn place(&self) -> String {
        match self {
            Self::Assign { style, key, .. } => style.normal(key),
            Self::MountOption { point, option, .. } => format!("{point} {}", fstab::family(option)),
            Self::MultipathOverride { section, device, key, .. } => match device {
                Some((vendor, product)) => format!("{section} {vendor} {product}.{key}"),
                None => format!("{section}.{key}"),
            },
            Self::Oranfstab { server, key, .. } => format!("{server} {key}"),
        }
    }
}

impl Style {
    /// The line that sets a key.
    fn line(self, key: &str, value: &str) -> String {
        match self {
            Self::Sysctl | Self::Iscsid | Self::Mysql => format!("{key} = {value}"),
            Self::Postgres => format!("{key} = '{}'", value.replace('\'', "''")),
            Self::Modprobe => {
                let (module, parameter) = key.split_once('.').unwrap_or((key, ""));
                format!("options {module} {parameter}={value}")
            }
            Self::Limits => format!("{key} {value}"),
            Self::Udev => format!("{key}=\"{value}\""),
            Self::Shell => format!("{key}=\"{value}\""),
        }
    }

    /// The key that a line sets, in its normal form; `None` for comments and other lines.
    pub(super) fn key_of(self, line: &str) -> Option<String> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') || (line.starts_with(';') && matches!(self, Self::Sysctl | Self::Mysql)) {
            return None;
        }
        let key = match self {
            Self::Sysctl => line.split_once('=')?.0.trim().trim_start_matches('-').to_owned(),
            Self::Iscsid | Self::Shell => line.split_once('=')?.0.to_owned(),
            Self::Mysql => line.split_once('=').map_or(line, |(key, _)| key).to_owned(),
            Self::Postgres => line.split(|sign: char| sign == '=' || sign.is_whitespace()).next()?.to_owned(),
            Self::Limits => line.split_whitespace().take(3).collect::<Vec<_>>().join(" "),
            // Its lines have several keys: `modprobe::last_word`.
            Self::Modprobe => return None,
            Self::Udev => line.rsplit_once("=\"")?.0.to_owned(),
        };
        Some(self.normal(key.trim()))
    }

    /// Whether two keys are one in different spellings.
    pub(super) fn is_same(self, one: &str, other: &str) -> bool {
        self.normal(one) == self.normal(other)
    }

    /// The bytes of the last line, without its end, or of the last word that sets a key. In all these files it takes effect.
    pub(super) fn last_in(self, text: &str, key: &str) -> Option<Range<usize>> {
        let wanted = self.normal(key);
        if self == Self::Modprobe {
            return modprobe::last_word(text, &wanted, |key| self.normal(key));
        }
        let (mut end, mut found) = (0, None);
        for line in text.split_inclusive('\n') {
            let begin = end;
            end += line.len();
            if self.key_of(line).as_ref() == Some(&wanted) {
                found = Some(begin..end - ending(line).len());
            }
        }
        found
    }

    /// The normal form of a key: sysctl allows dots and slashes, MySQL hyphens and underscores, and
    /// PostgreSQL ignores case.
    fn normal(self, key: &str) -> String {
        match self {
            Self::Sysctl => sysctl_path(key),
            Self::Mysql => key.replace('-', "_").to_lowercase(),
            Self::Postgres => key.to_lowercase(),
            Self::Modprobe => key.replace('-', "_"),
            Self::Limits => key.split_whitespace().collect::<Vec<_>>().join(" "),
            Self::Udev | Self::Iscsid | Self::Shell => key.to_owned(),
        }
    }

    /// The first lines of a file that apply creates.
    fn header(self) -> String {
        let section = if self == Self::Mysql { "[mysqld]\n" } else { "" };
        format!("# {HEADER}\n{section}")
    }
}

/// The path of a kernel setting below `/proc/sys`. The first separator of a key decides which of
/// `.` and `/` separates its parts (sysctl.d(5)).
pub(super) fn sysctl_path(key: &str) -> String {
    match key.find(['.', '/']) {
        Some(at) if key.get(at..).is_some_and(|rest| rest.starts_with('/')) => key.to_owned(),
        // If dots separate the parts, a slash is a dot of a name: net.ipv4.conf.eth0/1.rp_filter.
        _ => key
            .chars()
            .map(|sign| {
                if sign == '.' {
                    '/'
                } else if sign == '/' {
                    '.'
                } else {
                    sign
                }
            })
            .collect(),
    }
}

fn assign(text: Option<&str>, style: Style, key: &str, value: &str, rule: &str) -> String {
    let line = style.line(key, value);
    let text = match text {
        Some(text) if !text.trim().is_empty() => text.to_owned(),
        _ => style.header(),
    };
    if let Some(there) = style.last_in(&text, key) {
        let mut changed = text;
        let set = if style == Style::Modprobe { line.rsplit(' ').next().unwrap_or(&line) } else { &line };
        changed.replace_range(there, set);
        return changed;
    }
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    format!("{text}{newline}# {rule}\n{line}\n")
}

/// The end of a line: a newline, carriage return and newline, or nothing.
fn ending(line: &str) -> &str {
    let body = line.trim_end_matches(['\n', '\r']);
    line.get(body.len()..).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(style: Style, key: &str, value: &str, text: Option<&str>) -> String {
        let edit = Edit::Assign { style, key: key.into(), value: value.into(), rule: "some-rule".into() };
        edit.made(text).unwrap()
    }

    #[test]
    fn a_file_is_made_with_a_header_and_the_rule_above_its_line() {
        let text = made(Style::Sysctl, "vm.swappiness", "1", None);
        assert_eq!(text, format!("# {HEADER}\n# some-rule\nvm.swappiness = 1\n"));
        let text = made(Style::Mysql, "innodb_flush_method", "O_DIRECT", None);
        assert!(text.ends_with("[mysqld]\n# some-rule\ninnodb_flush_method = O_DIRECT\n"), "{text}");
    }

    #[test]
    fn the_last_line_of_a_key_is_replaced_and_all_else_stays() {
        let before = "# node.session.cmds_max = 1\nnode.session.cmds_max = 128\r\nx = 2\nnode.session.cmds_max = 64\ny = 3";
        let after = made(Style::Iscsid, "node.session.cmds_max", "256", Some(before));
        assert_eq!(after, before.replace("= 64\n", "= 256\n"));
        let after = made(Style::Iscsid, "z", "1", Some("y = 3"));
        assert_eq!(after, "y = 3\n# some-rule\nz = 1\n");
    }

    #[test]
    fn two_spellings_of_one_key_are_one() {
        assert_eq!(made(Style::Sysctl, "net.core.rmem_max", "2", Some("net/core/rmem_max=1\n")), "net.core.rmem_max = 2\n");
        assert_eq!(sysctl_path("net.ipv4.conf.eth0/1.rp_filter"), "net/ipv4/conf/eth0.1/rp_filter");
        assert_eq!(sysctl_path("net/ipv4/conf/eth0.1/rp_filter"), "net/ipv4/conf/eth0.1/rp_filter");
        assert_eq!(made(Style::Mysql, "sync_binlog", "1", Some("[mysqld]\nsync-binlog=0\n")), "[mysqld]\nsync_binlog = 1\n");
        assert_eq!(made(Style::Postgres, "wal_buffers", "16MB", Some("WAL_BUFFERS 8MB\n")), "wal_buffers = '16MB'\n");
        assert_eq!(made(Style::Limits, "oracle soft nofile", "9", Some("oracle\tsoft  nofile\t1\n")), "oracle soft nofile 9\n");
    }

    #[test]
    fn two_mount_options_disagree_only_when_one_undoes_the_other() {
        let edit = |option: &str, value: Option<&str>| Edit::MountOption {
            point: "/redo".into(),
            option: option.into(),
            value: value.map(str::to_owned),
        };
        assert!(edit("soft", Some("-")).agrees_with(&edit("hard", None)));
        assert!(edit("soft", Some("-")).agrees_with(&edit("softerr", Some("-"))));
        assert!(!edit("noac", Some("-")).agrees_with(&edit("noac", None)));
        assert!(!edit("rsize", Some("32768")).agrees_with(&edit("rsize", Some("262144"))));
        assert!(!edit("soft", None).agrees_with(&edit("hard", None)));
    }

    #[test]
    fn module_options_and_udev_rules_are_lines_of_their_own() {
        let text = made(
            Style::Modprobe,
            "sunrpc.tcp_slot_table_entries",
            "128",
            Some("options sunrpc a=1 tcp_slot_table_entries=16 b=2\n"),
        );
        assert_eq!(text, "options sunrpc a=1 tcp_slot_table_entries=128 b=2\n");
        let text = made(Style::Modprobe, "sunrpc.tcp_slot_table_entries", "128", Some("options sunrpc a=1\n"));
        assert!(text.ends_with("a=1\n# some-rule\noptions sunrpc tcp_slot_table_entries=128\n"), "{text}");
        let key = "ACTION==\"add|change\", SUBSYSTEM==\"block\", KERNEL==\"sda\", ATTR{queue/scheduler}";
        let text = made(Style::Udev, key, "none", None);
        assert!(text.ends_with("ATTR{queue/scheduler}=\"none\"\n"));
        let again = made(Style::Udev, key, "mq-deadline", Some(&text));
        assert_eq!(again, text.replace("\"none\"", "\"mq-deadline\""));
    }
}
