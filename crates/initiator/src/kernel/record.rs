//! Files of open-iscsi's database, for what `iscsiadm` cannot do.

use super::error::KernelError;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The directories of nodes, which depend on the distribution.
const ROOTS: [&str; 2] = ["/etc/iscsi/nodes", "/var/lib/iscsi/nodes"];
/// A comment in the records that Millrace made. It is gone once another program or user has changed the record, which
/// then belongs to them.
const MARK: &str = "# made by millrace, and deleted by it";

/// The file of a record.
pub(super) fn find(target: &str, portal: SocketAddr) -> Option<PathBuf> {
    ROOTS.iter().find_map(|root| find_below(Path::new(root), target, portal))
}

/// Finds `TARGET/ADDRESS,PORT,GROUP/INTERFACE`, or `TARGET/ADDRESS,PORT` if the group is not known.
fn find_below(root: &Path, target: &str, portal: SocketAddr) -> Option<PathBuf> {
    let name = format!("{},{}", portal.ip(), portal.port());
    let is_of = |path: &PathBuf| {
        let found = path.file_name().unwrap_or_default().to_string_lossy();
        found.strip_prefix(&name).is_some_and(|rest| rest.is_empty() || rest.starts_with(','))
    };
    let entries = fs::read_dir(root.join(target)).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files = entries.filter(is_of).map(|path| if path.is_dir() { path.join("default") } else { path });
    files.find(|path| path.is_file())
}

/// Whether Millrace made a record, and nothing has changed it since.
pub(super) fn is_marked(file: &Path) -> bool {
    fs::read_to_string(file).is_ok_and(|text| text.lines().any(|line| line == MARK))
}

/// Marks a record as made by Millrace.
pub(super) fn mark(file: &Path) -> Result<(), KernelError> {
    append(file, &format!("{MARK}\n"))
}

/// Appends lines to a record. If a setting occurs twice, the last line counts.
pub(super) fn append(file: &Path, lines: &str) -> Result<(), KernelError> {
    let written = OpenOptions::new().append(true).open(file).and_then(|mut open| open.write_all(lines.as_bytes()));
    written.map_err(|source| KernelError::File { action: "write", path: file.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_found_by_its_portal_whatever_its_group_and_marked_until_somebody_writes_it_anew() {
        let root = tempfile::tempdir().unwrap();
        let node = root.path().join("iqn.a");
        for folder in ["10.0.0.1,3260,1", "10.0.0.1,32601,1", "2001:db8::1,3260,2"] {
            fs::create_dir_all(node.join(folder)).unwrap();
            fs::write(node.join(folder).join("default"), "# BEGIN RECORD\nnode.name = iqn.a\n# END RECORD\n").unwrap();
        }
        fs::write(node.join("10.0.0.2,3260"), "").unwrap();
        let find = |target: &str, portal: &str| find_below(root.path(), target, portal.parse().unwrap());
        let file = find("iqn.a", "10.0.0.1:3260").unwrap();
        assert_eq!(file, node.join("10.0.0.1,3260,1/default"));
        assert_eq!(find("iqn.a", "[2001:db8::1]:3260").unwrap(), node.join("2001:db8::1,3260,2/default"));
        assert_eq!(find("iqn.a", "10.0.0.2:3260").unwrap(), node.join("10.0.0.2,3260"));
        assert_eq!((find("iqn.a", "10.0.0.3:3260"), find("iqn.b", "10.0.0.1:3260")), (None, None));
        assert!(!is_marked(&file));
        mark(&file).unwrap();
        assert!(is_marked(&file) && fs::read_to_string(&file).unwrap().starts_with("# BEGIN RECORD\n"));
        fs::write(&file, "# BEGIN RECORD\nnode.name = iqn.a\n").unwrap();
        assert!(!is_marked(&file));
    }
}
