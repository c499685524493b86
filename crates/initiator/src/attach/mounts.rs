//! What is mounted on this host.

use std::fs;
use std::path::{Path, PathBuf};

/// A mount of this process' mount namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    /// Major and minor number of the device, as in `7:3`.
    pub device: String,
    /// Where.
    pub directory: PathBuf,
    /// The file system: `xfs`.
    pub kind: String,
    /// What was mounted: `/dev/loop3`.
    pub source: String,
}

/// The mounts of this process' mount namespace (proc(5), mountinfo), in the order in which they were made.
#[must_use]
pub fn mounts() -> Vec<Mounted> {
    let table = fs::read("/proc/self/mountinfo").unwrap_or_default();
    String::from_utf8_lossy(&table).lines().filter_map(mounted).collect()
}

fn mounted(line: &str) -> Option<Mounted> {
    // Optional fields end with a hyphen.
    let (mount, file_system) = line.split_once(" - ")?;
    let (mut fields, mut file_system) = (mount.split(' '), file_system.split(' '));
    let (device, directory) = (fields.nth(2)?, fields.nth(1)?);
    let (kind, source) = (file_system.next()?, file_system.next()?);
    Some(Mounted {
        device: device.to_owned(),
        directory: unescaped(directory).into(),
        kind: kind.to_owned(),
        source: unescaped(source),
    })
}

/// Mounts of these devices in mount namespaces of others that unmounting here does not end: copies without propagation
/// (mount_namespaces(7)), as `unshare --mount` and some containers make of what is mounted when they start.
pub(super) fn mounted_apart(devices: &[String]) -> Vec<String> {
    let namespace = |process: &Path| fs::read_link(process.join("ns/mnt")).ok();
    let mut seen = vec![namespace(Path::new("/proc/self"))];
    let mut found = Vec::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path()) {
        let Some(of) = namespace(&process) else { continue };
        if seen.iter().flatten().any(|known| *known == of) {
            continue;
        }
        seen.push(Some(of));
        let table = fs::read(process.join("mountinfo")).unwrap_or_default();
        let table = String::from_utf8_lossy(&table);
        let apart = table.lines().filter(|line| !is_propagated(line)).filter_map(mounted);
        let (id, name) = (process.file_name().unwrap_or_default(), fs::read_to_string(process.join("comm")).unwrap_or_default());
        found.extend(apart.filter(|mount| devices.contains(&mount.device)).map(|mount| {
            let (directory, id) = (mount.directory.display(), id.display());
            format!("a mount at {directory} in the mount namespace of process {id} ({})", name.trim())
        }));
    }
    found
}

/// Whether a line of mountinfo is of a mount that is unmounted with that of its peers or its master.
fn is_propagated(line: &str) -> bool {
    let optional = line.split(' ').skip(6).take_while(|field| *field != "-");
    optional.into_iter().any(|field| field.starts_with("shared:") || field.starts_with("master:"))
}

/// Undoes the octal escapes of space, tab, newline and backslash.
fn unescaped(text: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.into_iter().fold(text.to_owned(), |text, (escape, plain)| text.replace(escape, plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_has_a_root() {
        assert!(mounts().iter().any(|mount| mount.directory == Path::new("/")));
    }

    #[test]
    fn a_line_of_mountinfo_with_a_space_in_its_path_is_read() {
        let line = r"36 35 7:3 / /mnt/a\040b rw,noatime master:1 - ext4 /dev/loop3 rw";
        let (kind, source) = ("ext4".into(), "/dev/loop3".into());
        assert_eq!(mounted(line), Some(Mounted { device: "7:3".into(), directory: "/mnt/a b".into(), kind, source }));
        assert_eq!(mounted("36 35"), None);
        assert!(is_propagated(line) && is_propagated("36 35 7:3 / /a rw shared:5 - ext4 /dev/loop3 rw"));
        assert!(!is_propagated("36 35 7:3 / /a rw - ext4 /dev/loop3 rw"));
    }
}
