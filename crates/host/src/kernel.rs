//! What the kernel of this host has. Each function loads the module that is needed, if this process
//! may.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Whether the kernel has a file system: `nfs`, `btrfs`.
#[must_use]
pub fn has_file_system(kind: &str) -> bool {
    let is_listed = || fs::read_to_string("/proc/filesystems").is_ok_and(|table| has_word(&table, kind));
    is_listed() || (load(kind) && is_listed())
}

/// Whether the kernel has a module, by the name of its directory in /sys/module: `iscsi_tcp`.
#[must_use]
pub fn has_module(name: &str) -> bool {
    Path::new("/sys/module").join(name).is_dir() || load(name)
}

fn load(module: &str) -> bool {
    let mut command = Command::new("modprobe");
    command.args(["-q", module]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn has_word(table: &str, word: &str) -> bool {
    table.split_whitespace().any(|other| other == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_is_a_whole_word_of_the_table() {
        assert!(has_word("nodev\ttmpfs\n\text4\n", "ext4") && !has_word("nodev\tnfsd\n", "nfs"));
        assert!(has_file_system("proc") && !has_file_system("no-such-file-system"));
    }
}
