//! Pages that programs change through a mapping when memory is short: the kernel can free them only
//! with the process that serves the mount.

use crate::mounted::Mounted;
use crate::support::{skip_unsupported, succeed};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A control group that has little memory. Dropping it removes the group.
struct Group(PathBuf);

impl Group {
    /// `None` if this host does not let the test create one.
    fn new(bytes: u64) -> Option<Self> {
        let root = Path::new("/sys/fs/cgroup");
        let unified = fs::read_to_string(root.join("cgroup.subtree_control")).is_ok_and(|list| list.contains("memory"));
        let (folder, limit) =
            if unified { (root.to_owned(), "memory.max") } else { (root.join("memory"), "memory.limit_in_bytes") };
        let group = Self(folder.join(format!("millrace-test-{}", std::process::id())));
        fs::create_dir(&group.0).ok()?;
        fs::write(group.0.join(limit), bytes.to_string()).ok().map(|()| group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// Changes four times as many mapped pages as the group has memory, then checks them by reads.
const SCRIPT: &str = r#"
import mmap, os
f = os.open("map", os.O_RDWR | os.O_CREAT)
length = 128 << 20
os.ftruncate(f, length)
m = mmap.mmap(f, length)
for at in range(0, length, 4096): m[at:at + 8] = at.to_bytes(8, "little")
m.flush(); m.close()
wrong = 0
for at in range(0, length, 1 << 20):
    data = os.pread(f, 1 << 20, at)
    wrong += sum(int.from_bytes(data[page:page + 8], "little") != at + page for page in range(0, 1 << 20, 4096))
print(wrong, "wrong")
"#;

#[test]
fn pages_are_written_back_when_memory_is_short() {
    let Some(mounted) = Mounted::new("fuse-memory") else { return };
    if !mounted.maps_files() {
        return;
    }
    let Some(group) = Group::new(32 << 20) else { return skip_unsupported("no control groups of memory") };
    let enter = format!("echo $$ >{}/cgroup.procs; exec python3 -c '{SCRIPT}'", group.0.display());
    let said = succeed(Command::new("timeout").args(["-k", "5", "90", "sh", "-euc", &enter]).current_dir(&mounted.directory));
    assert_eq!(said, "0 wrong\n");
}
