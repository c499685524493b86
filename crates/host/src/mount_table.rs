//! The mount table (proc_pid_mountinfo(5)), of this process' mount namespace and of others.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Where the kernel lists the mounts of this process' namespace.
pub const SOURCE: &str = "/proc/self/mountinfo";

/// A line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The number that statx(2) returns as `stx_mnt_id`.
    pub id: u64,
    /// Major and minor number of the file system, as in `7:3`. A btrfs has a number of its own, not that of one of its devices.
    pub device: String,
    /// The directory of the file system that is mounted.
    pub root: PathBuf,
    /// Where it is mounted.
    pub directory: PathBuf,
    /// Options of this mount: `rw,noatime`.
    pub options: String,
    /// Whether the mount ends with that of its peers or its master (mount_namespaces(7)).
    pub is_propagated: bool,
    /// The file system's type: `xfs`.
    pub kind: String,
    /// What was mounted: `/dev/loop3`.
    pub source: String,
    /// Options of the file system.
    pub file_system_options: String,
}

/// The mounts of this process' namespace, in the order in which they were made. If two are at one directory, the later one covers
/// the other.
///
/// # Errors
/// The host does not list its mounts.
pub fn read() -> io::Result<Vec<Mount>> {
    Ok(parse(&fs::read(SOURCE)?))
}

/// The mounts of a table's text. Lines that are not complete are left out.
#[must_use]
pub fn parse(table: &[u8]) -> Vec<Mount> {
    table.split(|byte| *byte == b'\n').filter_map(parse_line).collect()
}

/// The mounts of each other mount namespace that a process of this host is in, with one process of each.
pub fn of_other_namespaces() -> impl Iterator<Item = (u32, Vec<Mount>)> {
    let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
    let mut seen: HashSet<PathBuf> = namespace("self").into_iter().collect();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(move |pid| {
        let is_new = namespace(&pid.to_string()).is_some_and(|namespace| seen.insert(namespace));
        is_new.then(|| (pid, parse(&fs::read(format!("/proc/{pid}/mountinfo")).unwrap_or_default())))
    })
}

/// The mount of a line. `None` if it is not complete. Its fields: id, parent, device, root, directory, options,
/// optional fields, `-`, type, source, options.
#[must_use]
pub fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let id = text(fields.next()?).parse().ok()?;
    let (device, root, directory, options) = (fields.nth(1)?, fields.next()?, fields.next()?, fields.next()?);
    let mut is_propagated = false;
    loop {
        match fields.next()? {
            b"-" => break,
            field => is_propagated |= field.starts_with(b"shared:") || field.starts_with(b"master:"),
        }
    }
    let (kind, source) = (fields.next()?, fields.next()?);
    Some(Mount {
        id,
        device: text(device),
        root: path(root),
        directory: path(directory),
        options: text(options),
        is_propagated,
        kind: text(kind),
        source: text(&unescaped(source)),
        file_system_options: fields.next().map(text).unwrap_or_default(),
    })
}

fn text(field: &[u8]) -> String {
    String::from_utf8_lossy(field).into_owned()
}

fn path(field: &[u8]) -> PathBuf {
    OsString::from_vec(unescaped(field)).into()
}

/// Decodes a field of mountinfo or fstab(5): a blank, tab, line feed or backslash is `\` and three octal digits there.
#[must_use]
pub fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, more @ ..] = rest {
        match rest {
            [b'\\', high @ b'0'..=b'3', middle @ b'0'..=b'7', low @ b'0'..=b'7', more @ ..] => {
                bytes.push((high - b'0') << 6 | (middle - b'0') << 3 | (low - b'0'));
                rest = more;
            }
            _ => {
                bytes.push(*first);
                rest = more;
            }
        }
    }
    bytes
}

/// As [`unescaped`], of text. Bytes that are not UTF-8 are replaced.
#[must_use]
pub fn unescaped_text(field: &str) -> String {
    text(&unescaped(field.as_bytes()))
}

/// Whether a type of file system is a client's mount of NFS: `nfs`, with its version on some systems (`nfs4`). `nfsd` is the interface
/// of the kernel's server.
#[must_use]
pub fn is_nfs(file_system: &str) -> bool {
    file_system.strip_prefix("nfs").is_some_and(|version| version.bytes().all(|letter| letter.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_servers_interface_is_not_a_mount_of_nfs() {
        assert!(["nfs", "nfs3", "nfs4"].into_iter().all(is_nfs));
        assert!(!["nfsd", "ext4", "", "fuse.nfs"].into_iter().any(is_nfs));
    }

    #[test]
    fn a_line_is_read_field_by_field() {
        let line = br"212 21 0:45 /vol /mnt/a\040b\134 rw,relatime shared:1 master:2 - btrfs /dev/mapper/x\040y rw,subvol=/vol";
        let expected = Mount {
            id: 212,
            device: "0:45".into(),
            root: "/vol".into(),
            directory: "/mnt/a b\\".into(),
            options: "rw,relatime".into(),
            is_propagated: true,
            kind: "btrfs".into(),
            source: "/dev/mapper/x y".into(),
            file_system_options: "rw,subvol=/vol".into(),
        };
        assert_eq!(parse(line), [expected]);
    }

    #[test]
    fn a_line_without_optional_fields_is_not_propagated_and_an_incomplete_one_is_left_out() {
        let table = b"36 35 7:3 / /a rw - ext4 /dev/loop3 rw\n36 35\n\n40 22 0:44 / /b rw - tmpfs\n";
        let found = parse(table);
        assert_eq!(found.len(), 1);
        assert!(!found[0].is_propagated && found[0].kind == "ext4");
    }

    #[test]
    fn escapes_are_three_octal_digits_and_other_backslashes_stay() {
        assert_eq!(unescaped_text(r"a\040b\011c\012d\134040e"), "a b\tc\nd\\040e");
        assert_eq!(unescaped_text(r"\04 \400 \"), r"\04 \400 \");
        assert_eq!(unescaped(br"\377"), [0xff]);
    }

    #[test]
    fn this_host_has_a_root() {
        assert!(read().unwrap().iter().any(|mount| mount.directory.as_os_str() == "/"));
    }
}
